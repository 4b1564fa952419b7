"""An algorithm or a mechanism that nobody registered fails the suite: protocol cases and audit rows are complete."""

import importlib
import sys

import pytest
import registration
from protocol_cases import CASES

from benchmarks import audits
from jaxdpbo import algorithms
from jaxdpbo.noise import mechanisms

PLANTED = """
from jaxdpbo import random_search

algorithm = random_search.algorithm
"""
DRAWS = """
def planted_noise(key, scale):
    return scale


def largest(rate):
    return rate
"""


@pytest.fixture(scope="module")
def families():
    return {name: rows() for name, rows in audits.FAMILIES.items()}


@pytest.fixture
def plant(tmp_path, monkeypatch):
    """A module of a package that no file of the repository has."""

    def planted(package, name, source):
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
        importlib.invalidate_caches()
        full = f"{package.__name__}.{name}"
        monkeypatch.setitem(sys.modules, full, None)
        del sys.modules[full]  # and gone again after the test
        monkeypatch.setattr(package, name, None, raising=False)

    return planted


def test_every_algorithm_is_in_the_protocol_cases():
    assert len(registration.algorithm_modules()) >= 8
    assert sorted(registration.without_a_case(CASES)) == []


def test_an_algorithm_without_a_case_is_named(plant):
    plant(algorithms, "planted", PLANTED)
    assert registration.without_a_case(CASES) == {"planted"}


def test_a_case_that_is_taken_out_is_missed():
    fewer = {name: case for name, case in CASES.items() if registration.module_of(case.algorithm) != "dp_gd"}
    assert registration.without_a_case(fewer) == {"dp_gd"}


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


def test_what_pays_elsewhere_states_a_guarantee():
    """A name that is gone, or that states none, may not stand among the exceptions."""
    private = {registration.module_of(case.algorithm) for case in CASES.values() if case.private}
    assert registration.UNAUDITED.keys() <= private
