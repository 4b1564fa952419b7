"""A mechanism, transform or private algorithm without an audit row fails the suite."""

import pytest
import registration
from protocol_cases import CASES

from benchmarks import audits
from jaxdpbo.noise import mechanisms

DRAWS = """
def planted_noise(key, scale):
    return scale


def largest(rate):
    return rate
"""


@pytest.fixture(scope="module")
def families():
    return {name: rows() for name, rows in audits.FAMILIES.items()}


def test_every_mechanism_transform_and_private_algorithm_has_an_audit_row(families):
    assert len(registration.drawing_mechanisms()) >= 10
    assert len(registration.transform_makers()) >= 6
    assert sorted(registration.without_an_audit(CASES, families)) == []


def test_a_mechanism_without_an_audit_row_is_named(plant, families):
    """What is no mechanism, since it takes no key, is not."""
    plant(mechanisms, "planted", DRAWS)
    assert registration.without_an_audit(CASES, families) == {"planted_noise"}


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("mechanisms", "laplace"),
        ("mechanisms", "noisy_argmax"),
        ("transforms", "private_projection"),
        ("algorithms", "dp_gibo"),
        ("algorithms", "private_evaluations"),
        ("failures", "random_projection"),
    ],
)
def test_an_audit_row_that_is_taken_out_is_missed(families, family, name):
    fewer = families | {family: [row for row in families[family] if row.name.replace(",", " ").split()[0] != name]}
    assert name in registration.without_an_audit(CASES, fewer)
