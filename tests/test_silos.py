"""Searches among silos: the noised sum of all users and nothing else, and no lie of the server is answered."""

import base64
import contextlib
import datetime
import functools
import json
import math
import os
import pickle
import re
import select
import shutil
import socket
import ssl
import stat
import sys
import threading
import time
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from protocol_cases import CASES
from scipy import stats

import jaxdpbo
from jaxdpbo import (
    commands,
    dp_gd,
    dp_gibo,
    ledger,
    logs,
    private_evaluations,
    random_search,
    silos,
    space,
    tables,
)
from jaxdpbo import (
    files as files,
)
from jaxdpbo.accounting import noise_shares
from jaxdpbo.drivers import compiled_steps, table_scan
from jaxdpbo.ledger import ledger_file
from jaxdpbo.noise import mechanisms
from jaxdpbo.silos import (
    agreement as _agreement,
)
from jaxdpbo.silos import (
    conversation,
    coordinator,
    messages,
    sockets,
)
from jaxdpbo.silos import (
    masks as _masks,
)
from jaxdpbo.silos import (
    roster as _roster,
)
from jaxdpbo.silos import (
    silo as _silo,
)
from jaxdpbo.tables import table as _table

USERS = 210
X = np.random.default_rng(0).normal(1.5, 0.5, (USERS, 2))
NAMES = "ABCDEFGHIJ"
HOSPITALS = Path(__file__).parent.parent / "docs" / "tutorials" / "hospitals"
BOX = {"low": [0, 0], "high": [3, 3]}


def loss(point, batch):
    return jnp.minimum(jnp.abs(batch["x"] - point[0]) + jnp.abs(batch["y"] - point[1]), 4.0)


def gibo(**options):
    settings = {"users": USERS, "steps": 3, "batch": 3, "mu": 1.0, "clip_norm": 1.0, "bounds": BOX, "memory": "none"}
    return dp_gibo.algorithm, dp_gibo.config(**settings | options)


def evaluations(**options):
    inner = random_search.config(users=1, steps=3, batch=2, bounds=BOX)
    settings = {"users": USERS, "mu": 1.0, "loss_range": (0, 4)} | options
    return (
        private_evaluations.make_algorithm(random_search.algorithm),
        private_evaluations.config(random_search.algorithm, inner, **settings),
    )


FILE = {
    "run": "march", "columns": ["x", "y"], "settings": {"steps": 3, "batch": 3, "mu": 1.0, "clip_norm": 1.0},
    "space": {name: {"type": "real", "low": low, "high": high} for name, low, high in (("x", 0, 3), ("y", 0, 3))},
}  # fmt: skip
SEARCHES = {"DP-GIBO": gibo, "private evaluations": evaluations}


class OneCode(NamedTuple):
    """A loss of one code for all losses: a ledger reads no value in a tuple, so it takes them for one loss."""

    held: tuple[Any, ...]

    def __call__(self, point, batch):
        return self.held[0](point, batch)


class Federation:
    """Silos in one process, each with keys and a ledger of its own."""

    def __init__(self, folder, count=3, search=gibo, *, objective=loss, missing=0, mu=9, **terms):
        self.folder, self.objective = folder, objective
        self.names = NAMES[:count] if count <= len(NAMES) else [f"silo{number}" for number in range(count)]
        self.parts = dict(zip(self.names, np.array_split(np.arange(USERS), count), strict=True))
        cards = [silos.create_identity(folder / name, name, users=len(part)) for name, part in self.parts.items()]
        self.roster = silos.make_roster(cards, missing=missing)
        self.agreement = silos.agree("march", *search(), self.roster, **terms)
        for name in self.names:
            ledger.create(folder / name / "book", mu=mu, protects=self.agreement.sums.protects)
        self.silos = {name: self.open(name) for name in self.names}
        self.keys = {name: silo.credential() for name, silo in self.silos.items()}
        self.seen = []

    @property
    def sigma(self):
        """The widths of a silo's noise."""
        ((_, sigma),) = self.agreement.share_widths
        return sigma

    def open(self, name, objective=None, rows=None, agreement=None, book="book"):
        objective = self.objective if objective is None else objective
        rows = X[self.parts[name]] if rows is None else rows
        data = {"x": rows[:, 0], "y": rows[:, 1]} if isinstance(rows, np.ndarray) else rows
        folder, agreement = self.folder / name, agreement or self.agreement
        return silos.Silo(agreement, OneCode((objective,)), data, name=name, folder=folder, ledger=folder / book)

    def table(self, name, add):
        """The rows of a silo, as a table with a scan of the caller's: ``add(scan, partial)``."""

        class Changed(_table.ArrayTable):
            def add(self, partial):
                return add(super().add, partial)

        rows = X[self.parts[name]]
        return Changed(tables.arrays({"x": rows[:, 0], "y": rows[:, 1]})._columns)

    def send(self, requests):
        answers = {name: self.silos[name].answer(content) for name, content in requests.items()}
        self.seen.append((requests, answers))
        return answers

    def run(self, send=None, keys=None, **options):
        return silos.run_silos(self.agreement, keys or self.keys, send or self.send, **options)

    def request(self, step=0, attempt=0, names=None, **changes):
        """A request of the first step, as an honest server sends it."""
        leaves = messages.write_leaves([np.asarray(leaf)[None] for leaf in jax.tree.leaves(self.agreement.template)])
        keys = {name: self.keys[name] for name in sorted(names or self.names)}
        request = messages.Request("march", step, attempt, keys, leaves)
        return request._replace(**changes).to_bytes()

    def lines(self, name):
        """All that the ledger has of the run."""
        lines = ledger_file.read(self.folder / name / "book").lines
        return [line["content"] for line in lines if line.get("kind") == "step" and line["run"] == "march"]

    def charges(self):
        """The silos that have paid."""
        return [name for name in self.names if ledger.account(self.folder / name / "book").spends]

    def answers(self, name):
        """The answers on the ledger."""
        return [line for line in self.lines(name) if "attempt" in line]


def no_draws(key, widths):
    return np.zeros(sum(count for count, _ in widths), np.int64)


@pytest.fixture
def no_noise(monkeypatch):
    monkeypatch.setattr(_silo, "_draw_noise", no_draws)


def answer_of_all(federation):
    """The exact sum of the template's query over all users in one table, by the library's scan of a table."""
    algorithm, config = federation.agreement.algorithm, federation.agreement.config
    table = tables.arrays({"x": X[:, 0], "y": X[:, 1]})
    users = table_scan.TableUsers(algorithm, loss, table, config, True, False)
    before = users.begin(jax.random.key(0))
    return table_scan.flatten(users.evaluate(jax.random.key(1), before, federation.agreement.template).whole)


@pytest.mark.daily("DP-GIBO-[25]", "private*")
@pytest.mark.parametrize(
    ("name", "count"), [*((name, count) for name in SEARCHES for count in (2, 5)), ("DP-GIBO", 50)]
)
def test_the_sum_is_that_of_one_machine_with_all_users(name, count, no_noise, tmp_path):
    federation = Federation(tmp_path, count, SEARCHES[name])
    request = federation.request()
    answers = [np.frombuffer(silo.answer(request), "<u8") for silo in federation.silos.values()]
    np.testing.assert_array_equal(np.sum(answers, axis=0, dtype=np.uint64).view(np.int64), answer_of_all(federation))
    assert len({answer.tobytes() for answer in answers}) == count


@pytest.mark.parametrize("name", SEARCHES)
def test_a_run_finds_what_one_machine_finds(name, tmp_path):
    """With a budget so large that noise does not matter."""
    federation = Federation(tmp_path, search=lambda: SEARCHES[name](mu=9.0), mu=99)
    run = federation.run()
    means = [
        float(np.mean(loss(point, {"x": X[:, 0], "y": X[:, 1]}))) for point in (run.release.point, np.ones(2) * 0.3)
    ]
    assert means[0] < means[1]
    assert run.attempts == 3
    signed = federation.agreement.report()
    cited = run.report().against(signed).details
    assert (cited["plan"], cited["differs from the plan"]) == (signed.digest, "in nothing")
    assert federation.agreement.digest.hex() in signed.html()


class Scale:
    """An object of a search space: each silo has its own, behind the same label."""

    def __init__(self, silo):
        self.silo = silo

    def __call__(self, values):
        return values / 3


def test_a_tree_with_objects_is_searched_among_silos(tmp_path, monkeypatch):
    """Branches decide which parameters there are; each silo calls the object of its own space."""

    def tree(silo):
        scaled = {"by": space.categorical(third=Scale(silo), absolute=np.abs), "shift": space.real(-1, 1)}
        kinds = space.branches({"scaled": scaled, "plain": {"factor": space.real(0.1, 2)}})
        inner = random_search.config(users=1, steps=6, batch=1, bounds={"kind": kinds})
        algorithm = private_evaluations.make_algorithm(random_search.algorithm)
        return algorithm, private_evaluations.config(
            random_search.algorithm, inner, users=USERS, mu=9.0, loss_range=(0, 4)
        )

    asked = []

    def of_tree(silo, params, batch):
        asked.append((silo, params))
        if params["kind"] == "plain":
            assert sorted(params) == ["factor", "kind"]
            return np.abs(params["factor"] * np.asarray(batch["x"]))
        assert sorted(params) == ["by", "kind", "shift"]
        return np.abs(params["by"](np.asarray(batch["x"])) + params["shift"])

    federation = Federation(tmp_path, 2, lambda: tree("A"), objective=functools.partial(of_tree, "A"), mu=99)
    other = silos.agree("march", *tree("B"), federation.roster)
    assert other.digest == federation.agreement.digest
    federation.silos["B"] = federation.open("B", functools.partial(of_tree, "B"), agreement=other)
    federation.keys["B"] = federation.silos["B"].credential()
    asked.clear()  # points of dry runs
    monkeypatch.setattr(coordinator.np.random, "SeedSequence", functools.partial(np.random.SeedSequence, 3))
    run = federation.run()
    assert {params["kind"] for _, params in asked} == {"scaled", "plain"}
    objects = [(silo, params["by"].silo) for silo, params in asked if isinstance(params.get("by"), Scale)]
    assert {("A", "A"), ("B", "B")} == set(objects)
    found = federation.agreement.config.space.params(run.release.point)
    assert sorted(found) == (["factor", "kind"] if found["kind"] == "plain" else ["by", "kind", "shift"])


def test_masks_cancel_and_each_is_uniform():
    private = {name: _masks.generate_key() for name in NAMES[:5]}
    publics = {name: _masks.public_key(key) for name, key in private.items()}
    masks = [_masks.make_mask(name, private[name], publics, b"step 1", 4000) for name in private]
    assert not np.any(np.sum(masks, axis=0, dtype=np.uint64))
    for mask in masks:
        assert stats.kstest(mask / 2.0**64, "uniform").pvalue > 1e-6
    others = _masks.make_mask("A", private["A"], publics, b"step 2", 4000)
    assert not np.any(others == masks[0])
    assert np.any(np.sum([others, *masks[1:]], axis=0, dtype=np.uint64))


@pytest.mark.parametrize("differs", ["step", "attempt", "query", "silos"])
def test_silos_that_were_asked_differently_send_noise(differs, no_noise, tmp_path):
    """A server that gives one silo another query, or another list of silos, learns nothing of the others' sums."""
    federation = Federation(tmp_path, missing=1, answers=4)
    requests = dict.fromkeys(federation.names, federation.request())
    if differs == "silos":  # each pair of silos is in two of the requests
        requests |= {name: federation.request(names=f"A{name}") for name in "BC"}
    else:
        changes = {"step": 1, "attempt": 1, "leaves": leaves_of(federation, lambda points: points / 2)}
        name = {"query": "leaves"}.get(differs, differs)
        requests["C"] = federation.request(**{name: changes[name]})
    total = sum(np.frombuffer(federation.silos[name].answer(requests[name]), "<u8") for name in federation.names)
    expected = answer_of_all(federation)
    assert np.all(np.abs(total.view(np.int64) - expected) > 2**30)


@pytest.mark.parametrize("shares", [1, 2, 7])
def test_shares_add_up_to_the_stated_noise(shares):
    sigma = noise_shares.share_sigma(700, shares)
    draws = [_silo._draw_noise(key, ((20_000, sigma),)) for key in jax.random.split(jax.random.key(0), shares)]
    total, variance = np.sum(draws, axis=0), shares * sigma**2
    assert 700**2 <= variance < 705**2
    cells = np.floor(stats.norm.cdf(total / math.sqrt(variance)) * 20)
    counts = np.bincount(np.clip(cells, 0, 19).astype(int), minlength=20)
    assert stats.chisquare(counts).pvalue > 1e-4


def exact_discrete_gaussian(sigma):
    support = np.arange(-30 * sigma, 30 * sigma + 1)
    weights = np.exp(-(support.astype(float) ** 2) / (2 * sigma**2))
    return support, weights / weights.sum()


def test_a_draw_is_a_discrete_gaussian():
    """Its tables, multiplied out, against the formula."""
    limbs, factors = mechanisms.tables.discrete_gaussian(3)
    assert factors == (1,)
    words = [sum(int(word) << 32 * (3 - place) for place, word in enumerate(row)) for row in limbs[0]]
    if words[0] > words[-1]:
        words = [sum(int(word) << 32 * place for place, word in enumerate(row)) for row in limbs[0]]
    found = np.diff([0.0, *(word / 2.0**128 for word in words)])
    support, masses = exact_discrete_gaussian(3)
    middle = len(support) // 2
    np.testing.assert_allclose(found[0], masses[middle], rtol=1e-12)
    np.testing.assert_allclose(found[1:20], 2 * masses[middle + 1 : middle + 20], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("moved", [1, 20, 300])
def test_a_discrete_gaussian_costs_no_more_than_is_stated(moved):
    """The trade-off by summing all probabilities, at every threshold, against that of the stated level."""
    _, masses = exact_discrete_gaussian(128)
    level = noise_shares.discrete_gaussian_mu(moved, 128**2)
    shifted = np.concatenate([np.zeros(moved), masses[:-moved]])
    false_alarms = np.cumsum(masses[::-1])[::-1]
    misses = np.concatenate([[0.0], np.cumsum(shifted)[:-1]])
    bound = stats.norm.cdf(stats.norm.isf(false_alarms) - level)
    assert np.all(misses >= bound - 1e-12)
    smaller = stats.norm.cdf(stats.norm.isf(false_alarms) - 0.995 * level)
    assert not np.all(misses >= smaller - 1e-12)


def test_levels_are_rounded_up_and_count_answers_and_colluders(tmp_path):
    federation = Federation(tmp_path, 5, missing=1, answers=4, colluding=2)
    budget, sigma = federation.agreement.config.noise, federation.sigma
    for shares, stated in zip((4, 2, 1), federation.agreement.guarantees, strict=True):
        squared = Fraction(2 * int(budget.radius)) ** 2 * 4 / (shares * sigma**2 - Fraction(9, 2))
        assert Fraction(stated.level) ** 2 >= squared
        assert stated.level < math.sqrt(squared) * (1 + 1e-9)
        assert 0 < stated.total_variation < 1e-30
    assert federation.silos["A"].guarantee.level == federation.agreement.guarantees.colluding.level
    federation.silos["A"].answer(federation.request())
    assert ledger.account(tmp_path / "A" / "book").spends[0].spend.events[0].level == Fraction(
        federation.silos["A"].guarantee.level
    )


# -- What a silo refuses ----------------------------------------------------------------------------------------------


def without(federation, name):
    return {each: key for each, key in federation.keys.items() if each != name}


def leaves_of(federation, change, count=1):
    """The template's query with other points, so many times."""
    query = jax.tree.map(lambda leaf: np.stack([np.asarray(leaf)] * count), federation.agreement.template)
    return messages.write_leaves(jax.tree.leaves(query._replace(points=change(query.points))))


def two_for_true(federation):
    query = jax.tree.map(lambda leaf: np.asarray(leaf)[None], federation.agreement.template)
    leaves = messages.write_leaves(jax.tree.leaves(query))
    twos = base64.b64encode(bytes([2] * query.mask.size)).decode()
    return tuple(
        (dtype, shape, twos if dtype == "bool" and shape == query.mask.shape else d) for dtype, shape, d in leaves
    )


def low_order(federation):
    """A key of zeros, signed by its silo."""
    message = _silo._key_message(federation.agreement, "B", bytes(32))
    signature = base64.b64encode(_roster.sign(federation.folder / "B", "B", message)).decode()
    return federation.keys | {"B": silos.Credential(base64.b64encode(bytes(32)).decode(), signature)}


def of_another_run(federation):
    """A key that a silo signed for other terms."""
    april = silos.agree("april", *gibo(), federation.roster, answers=federation.agreement.answers)
    return federation.keys | {"B": federation.open("B", agreement=april).credential()}


def forged(federation):
    """The server's own key in place of a silo's: it would know all masks with that silo."""
    public = base64.b64encode(_masks.public_key(_masks.generate_key())).decode()
    return federation.keys | {"B": federation.keys["B"]._replace(public=public)}


LIES = {
    "another run": (lambda f: {"run": "april"}, "agreed to another run"),
    "a step outside": (lambda f: {"step": 3}, "the step or the attempt"),
    "a negative step": (lambda f: {"step": -1}, "the step or the attempt"),
    "a negative attempt": (lambda f: {"attempt": -1}, "the step or the attempt"),
    "a smaller roster": (lambda f: {"credentials": without(f, "B")}, "fewer silos than agreed"),
    "a stranger": (lambda f: {"credentials": f.keys | {"Z": f.keys["B"]}}, "is not on the roster"),
    "a forged key": (lambda f: {"credentials": forged(f)}, "did not sign"),
    "another's key": (lambda f: {"credentials": f.keys | {"A": f.keys["B"]}}, "did not sign"),
    "a point outside": (lambda f: {"leaves": leaves_of(f, lambda points: points + 9)}, "outside of the agreed box"),
    "a second point outside": (
        lambda f: {"leaves": leaves_of(f, lambda points: points + 9 * np.eye(points.shape[1])[1][:, None])},
        "outside of the agreed box",
    ),
    "a key of another run": (lambda f: {"credentials": of_another_run(f)}, "did not sign"),
    "a point that is no number": (
        lambda f: {"leaves": leaves_of(f, lambda points: points * np.nan)},
        "outside of the agreed box",
    ),
    "two queries": (lambda f: {"leaves": leaves_of(f, lambda points: points, 2)}, "of one query"),
    "a Boolean of 2": (lambda f: {"leaves": two_for_true(f)}, "not those of the agreed search"),
    "a key that agrees on nothing": (lambda f: {"credentials": low_order(f)}, "agrees on no secret"),
    "an attempt beyond": (lambda f: {"attempt": 3}, "the step or the attempt"),
    "arrays missing": (lambda f: {"leaves": ()}, "not those of the agreed search"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused_and_neither_sent_nor_charged(lie, tmp_path):
    federation = Federation(tmp_path)
    change, says = LIES[lie]
    with pytest.raises(silos.Refused, match=says):
        federation.silos["A"].answer(federation.request(**change(federation)))
    assert not federation.lines("A")
    assert not federation.charges()


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[1]", b"\xff", b'{"run": "march", "step": true, "attempt": 0, "credentials": {}, "leaves": []}'],
)
def test_garbage_is_refused(content, tmp_path):
    federation = Federation(tmp_path, 2)
    with pytest.raises(silos.Refused, match="not a request of jaxdpbo"):
        federation.silos["A"].answer(content)


def test_an_attempt_is_answered_once_and_a_step_for_one_query(tmp_path):
    federation = Federation(tmp_path, answers=4)
    silo, request = federation.silos["A"], federation.request()
    silo.answer(request)
    for again in (silo, federation.open("A")):  # a restarted silo too
        with pytest.raises(silos.Refused, match="this attempt of this step was answered before"):
            again.answer(request)
    query = federation.agreement.template
    other = messages.write_leaves(
        [np.asarray(leaf)[None] for leaf in jax.tree.leaves(query._replace(points=query.points * 0))]
    )
    with pytest.raises(silos.Refused, match="this step was answered for another query"):
        silo.answer(federation.request(attempt=1, leaves=other))
    assert len(federation.answers("A")) == 1


def test_two_answers_of_one_query_differ_by_fresh_noise(tmp_path):
    federation = Federation(tmp_path, answers=4)
    totals = []
    for attempt in (0, 1):
        request = federation.request(attempt=attempt)
        answers = [np.frombuffer(silo.answer(request), "<u8") for silo in federation.silos.values()]
        totals.append(np.sum(answers, axis=0, dtype=np.uint64).view(np.int64))
    assert np.all(totals[0] != totals[1])
    sigma = math.sqrt(3) * federation.sigma
    assert np.all(np.abs(totals[0] - totals[1]) < 10 * sigma)


def noise_of(federation, name, request, silo=None):
    """The noise in a new answer: what is left of it without the mask and the sum."""
    silo = silo or federation.silos[name]
    answer = np.frombuffer(silo.answer(request), "<u8")
    parsed = messages.parse_request(request, len(request))
    publics = {other: base64.b64decode(key.public) for other, key in parsed.credentials.items()}
    mask = _masks.make_mask(name, silo._private, publics, _silo.LABEL + parsed.digest(), len(answer))
    return (answer - mask).view(np.int64) - silo._sum(silo._check_queries(parsed))


def test_every_answer_has_noise_of_its_own(tmp_path):
    """The difference of two answers with one noise would be a sum without noise."""
    federation = Federation(tmp_path, answers=9)
    asked = [federation.request(step=step, attempt=attempt) for step in (0, 1, 2) for attempt in (0, 1)]
    noises = [noise_of(federation, name, request) for name in "AB" for request in asked]
    noises += [noise_of(federation, "A", federation.request(attempt=2), federation.open("A"))]  # a silo started again
    for number, noise in enumerate(noises):
        assert 0 < np.max(np.abs(noise)) < 10 * federation.sigma
        for other in noises[:number]:
            assert not np.array_equal(noise, other)  # one number of two may agree by chance
            assert not np.array_equal(noise, -other)


def test_noise_follows_from_nothing_that_a_server_knows(tmp_path, monkeypatch):
    """A silo of the same name, rows and keys, with a ledger of its own, answers the same request with other noise."""
    federation = Federation(tmp_path)
    monkeypatch.setattr(_masks, "generate_key", lambda: federation.silos["A"]._private)
    shutil.copytree(tmp_path / "A", tmp_path / "twins" / "A", ignore=shutil.ignore_patterns("*.run", "*.head", "book"))
    ledger.create(tmp_path / "twins" / "A" / "book", mu=9)
    federation.folder = tmp_path / "twins"
    request, twin = federation.request(), federation.open("A")
    noise, other = noise_of(federation, "A", request), noise_of(federation, "A", request, twin)
    assert twin.credential() == federation.keys["A"]
    assert not np.array_equal(noise, other)


def test_every_number_of_an_answer_has_the_stated_noise(tmp_path, monkeypatch):
    keys, count = iter(jax.random.split(jax.random.key(0), 200)), 60
    monkeypatch.setattr(_silo.keys, "secret_key", lambda: next(keys))
    federation = Federation(tmp_path, answers=count)
    noises = np.array([noise_of(federation, "A", federation.request(attempt=k)) for k in range(count)])
    ratios = np.sum(noises.astype(float) ** 2, axis=0) / federation.sigma**2
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], count)
    assert np.all((low < ratios) & (ratios < high)), ratios
    assert not np.any((low < ratios / 4) & (ratios / 4 < high))  # half of the noise would be seen
    correlations = np.corrcoef(noises.T) - np.eye(noises.shape[1])
    assert np.max(np.abs(correlations)) < 0.7


@pytest.mark.parametrize("more", [-1, 1])
def test_a_scan_of_another_number_of_users_is_no_answer(more, tmp_path):
    federation = Federation(tmp_path)
    table = federation.table("A", lambda scan, partial: scan(partial)._replace(users=scan(partial).users + more))
    with pytest.raises(tables.TableError, match=f"read {70 + more} rows of a table of 70"):
        federation.open("A", rows=table).answer(federation.request())
    assert [line.get("failed", False) for line in federation.lines("A")] == [False, True]


def test_no_more_answers_than_were_paid(tmp_path):
    federation = Federation(tmp_path)
    for attempt in range(3):
        federation.silos["A"].answer(federation.request(attempt=attempt))
    with pytest.raises(silos.Refused, match="all agreed answers"):
        federation.silos["A"].answer(federation.request(step=1))


def test_an_answer_is_on_record_before_a_row_is_read(tmp_path):
    federation = Federation(tmp_path)

    def fail(scan, partial):
        assert len(federation.answers("A")) == 1
        raise tables.TableError("a disk is gone")

    silo = federation.open("A", rows=federation.table("A", fail))
    with pytest.raises(tables.TableError):
        silo.answer(federation.request())
    assert [line.get("failed", False) for line in federation.lines("A")] == [False, True]


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_a_silo_that_failed_answers_nothing_more(kind, tmp_path):
    """The server chooses points: whether a loss fails at each of them would be a bit about one user each time."""
    federation = Federation(tmp_path, answers=9)

    def failing(point, batch):
        if np.any(np.asarray(batch["x"]) > 1.0):
            raise kind("Ann Smith")
        return np.asarray(batch["x"])

    silo = federation.open("A", failing)
    with pytest.raises(kind, match="Ann Smith"):
        silo.answer(federation.request())
    for again in (silo, federation.silos["A"]):
        with pytest.raises(silos.Refused, match="a sum of this silo failed"):
            again.answer(federation.request(attempt=1))
    assert len(federation.lines("A")) == 2


def test_a_silo_that_died_in_a_sum_answers_nothing_more(tmp_path):
    """A loss may take all memory at a point of the server's choice: whether the silo dies there would be a bit each."""
    federation = Federation(tmp_path, answers=9)

    def dying(point, batch):
        if np.any(np.asarray(batch["x"])):
            raise KeyboardInterrupt
        return np.asarray(batch["x"])

    silo = federation.open("A", dying)
    with pytest.raises(KeyboardInterrupt):
        silo.answer(federation.request())
    with pytest.raises(silos.Refused, match="a sum of this silo did not end"):
        federation.open("A").answer(federation.request(attempt=1))


def test_a_silo_that_sums_in_another_process_says_so_and_goes_on(tmp_path):
    federation, refusals = Federation(tmp_path, answers=9), []

    def scan(add, partial):
        if not refusals:
            with pytest.raises(silos.Refused) as refusal:
                federation.open("A").answer(federation.request(attempt=1))
            refusals.append(str(refusal.value))
        return add(partial)

    silo = federation.open("A", rows=federation.table("A", scan))
    silo.answer(federation.request())
    assert "if another process of this silo still works on it, ask again later" in refusals[0]
    federation.open("A").answer(federation.request(attempt=1))


# -- A charge, a key and a ledger --------------------------------------------------------------------------------------


def replace_by_new(book, older):
    book.unlink()
    ledger.create(book, mu=9)


def replace_by_copy(book, older):
    """An older copy, adopted: it has the charge, and not the answers."""
    copy = book.with_name("copy")
    copy.write_bytes(older)
    copy.replace(book)
    ledger.adopt(book)


REPLACEMENTS = [replace_by_new, replace_by_copy]


@pytest.mark.parametrize("replace", REPLACEMENTS)
@pytest.mark.parametrize("moment", ["the key", "an answer"])
def test_a_silo_answers_nothing_once_its_ledger_is_replaced(moment, replace, tmp_path):
    """Another ledger knows of no answer: one attempt answered again and again, under one mask, shows the sum."""
    federation = Federation(tmp_path, answers=9)
    silo, book = federation.silos["A"], tmp_path / "A" / "book"
    if moment == "an answer":
        silo.answer(federation.request(step=1))
        older = book.read_bytes()
        silo.answer(federation.request())
    else:
        older = book.read_bytes()
    replace(book, older)
    content = book.read_bytes()
    for attempt in (0, 1):
        with pytest.raises(ledger.LedgerError, match=r"did not make the charge|not the ledger with the id"):
            silo.answer(federation.request(attempt=attempt))
    with pytest.raises(ledger.LedgerError, match="not the ledger of A-"):
        federation.open("A")
    assert book.read_bytes() == content


@pytest.mark.parametrize("replace", REPLACEMENTS)
@pytest.mark.parametrize("moment", ["before the charge", "after the charge", "after a look", "in a sum"])
def test_a_ledger_that_is_replaced_during_a_request_gives_no_answer(moment, replace, tmp_path, monkeypatch):
    federation = Federation(tmp_path, answers=9)
    book, charge_run, find_charge = tmp_path / "A" / "book", _silo.recording.charge_run, ledger_file.find_charge
    older = book.read_bytes()

    def find(*arguments, **options):
        charge = find_charge(*arguments, **options)
        if moment == "after a look":
            replace(book, book.read_bytes())
        return charge

    def scan(add, partial):
        if moment == "in a sum":
            replace(book, older)
        return add(partial)

    def charge(*arguments, **options):
        if moment == "before the charge":
            replace(book, older)
        charged = charge_run(*arguments, **options)
        if moment == "after the charge":
            replace(book, book.read_bytes())
        return charged

    monkeypatch.setattr(_silo.recording, "charge_run", charge)
    monkeypatch.setattr(_silo.ledger_file, "find_charge", find)
    silo = federation.open("A", rows=federation.table("A", scan))
    for _ in range(3):
        with pytest.raises(ledger.LedgerError):
            silo.answer(federation.request())
    with pytest.raises(ledger.LedgerError):
        federation.open("A")


def test_another_ledger_in_the_moment_of_the_charge_is_not_charged(tmp_path, monkeypatch):
    """The key's file would name a charge of another ledger, and neither ledger could go on."""
    federation, folder, charge_run = Federation(tmp_path), tmp_path / "A", _silo.recording.charge_run
    book, other, spare = (folder / name for name in ("book", "other", "spare"))
    ledger.create(other, mu=9)

    def swap(before, after):
        book.rename(after)
        before.rename(book)

    def charge(*arguments, **options):
        swap(other, spare)
        try:
            return charge_run(*arguments, **options)
        finally:
            swap(spare, other)

    with monkeypatch.context() as patch:
        patch.setattr(_silo.recording, "charge_run", charge)
        with pytest.raises(ledger.LedgerError, match="not the ledger with the id"):
            federation.silos["A"].answer(federation.request())
    assert not ledger.account(other).spends
    federation.silos["A"].answer(federation.request())
    federation.open("A").answer(federation.request(step=1))


def test_a_ledger_that_was_put_back_to_before_its_charge_gives_no_answer(tmp_path):
    """The same file with the same id, and its mark too: the file of the key knows of the charge."""
    federation, book = Federation(tmp_path), tmp_path / "A" / "book"
    older, (mark,) = book.read_bytes(), (tmp_path / "A").glob("ledger-*.head")
    head = mark.read_bytes()
    federation.silos["A"].answer(federation.request())
    with book.open("r+b") as file:
        file.write(older)
        file.truncate()
    mark.write_bytes(head)
    with pytest.raises(ledger.LedgerError, match="did not make the charge"):
        federation.open("A")
    with pytest.raises(ledger.LedgerError, match="did not make the charge"):
        federation.silos["A"].answer(federation.request())
    assert not federation.charges()


@pytest.mark.parametrize("private", ["", "!!", "é", "a" * 43, base64.b64encode(bytes(31)).decode()])
def test_a_file_that_holds_no_key_is_none(private, tmp_path):
    federation = Federation(tmp_path)
    file = next((tmp_path / "A").glob("*.run"))
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"private": private}))
    with pytest.raises(ValueError, match=rf"^{file.name} must be the key of a run, and is none: delete the file$"):
        federation.open("A")
    with pytest.raises(ValueError, match="identity must be a key of 32 bytes in base64, got"):
        silos.make_roster([member._replace(identity=private) for member in federation.roster.members])


def test_an_identity_of_another_length_is_none(tmp_path):
    federation = Federation(tmp_path)
    (tmp_path / "A" / "A.identity").write_bytes(b"short")
    with pytest.raises(ValueError, match=r"^A\.identity must be the key of a silo, 32 bytes, and is none"):
        federation.open("A")


class Killed(BaseException):
    """The process is gone: from here on nothing reaches the disk."""


CALLS = "write", "pwrite", "fsync", "ftruncate", "link", "unlink", "replace", "open"


def test_a_silo_that_is_killed_lives_on_with_one_ledger(tmp_path, monkeypatch):
    """Killed at each call that may write, then started with another ledger, and with the first again, by turns.

    No key of masks answers an attempt twice, and what is paid for and was not begun is answered.
    """
    federation = Federation(tmp_path)
    federation.open("A").answer(federation.request())  # compiled, for all below
    monkeypatch.setattr(silos.Silo, "_sum", lambda silo, queries: np.zeros(2, np.int64))
    identity = tmp_path / "A" / "A.identity"

    def live(answers):
        silo = federation.open("A")
        federation.keys["A"] = silo.credential()
        answers.append((federation.keys["A"].public, silo.answer(federation.request())))

    def kill(number, count):
        def counted(call):
            def run(*arguments, **options):
                count[0] += 1
                if count[0] > number:
                    raise Killed
                return call(*arguments, **options)

            return run

        return counted

    killed = True
    numbers = iter(range(99))
    while killed:
        number = next(numbers)
        federation.folder = tmp_path / f"killed {number}"
        (folder := federation.folder / "A").mkdir(parents=True)
        shutil.copy(identity, folder)
        for book in ("book", "other"):
            ledger.create(folder / book, mu=9)
        answers, killed = [], False
        with monkeypatch.context() as patch:
            counted = kill(number, [0])
            for name in CALLS:
                patch.setattr(os, name, counted(getattr(os, name)))
            try:
                live(answers)
            except Killed:
                killed = True
        begun = bool(federation.lines("A"))
        for _ in range(3):  # the other, the first, the other
            for book, place in (("book", "spare"), ("other", "book"), ("spare", "other")):
                (folder / book).rename(folder / place)
            with contextlib.suppress(silos.Refused, ledger.LedgerError):
                live(answers)
        assert len({public for public, _ in answers}) == len(answers), f"a key answers twice, killed at {number}"
        assert len(answers) == (not (begun and killed)), f"killed at {number}"
    assert number > 20


@pytest.mark.parametrize("same", [True, False])
def test_of_two_starts_at_once_one_key_lives_in_one_ledger(same, tmp_path, monkeypatch):
    federation = Federation(tmp_path)
    folder = tmp_path / "B"
    next(folder.glob("*.run")).unlink()
    ledger.create(folder / "other", mu=9)
    write_once, opened = files.write_once, []

    def write(path, *arguments):
        monkeypatch.setattr(files, "write_once", write_once)
        opened.append(federation.open("B", book="book" if same else "other"))
        write_once(path, *arguments)

    monkeypatch.setattr(files, "write_once", write)
    with contextlib.nullcontext() if same else pytest.raises(ledger.LedgerError, match="not the ledger of B-"):
        opened.append(federation.open("B"))
    assert len({silo.credential() for silo in opened}) == 1
    federation.keys["B"] = opened[0].credential()
    opened[0].answer(federation.request())
    for silo in opened[1:]:
        with pytest.raises(silos.Refused, match="answered before"):
            silo.answer(federation.request())
        silo.answer(federation.request(step=1))


@pytest.mark.parametrize("moment", ["before a request", "in a sum"])
def test_a_release_under_the_name_of_the_run_ends_the_run(moment, tmp_path):
    federation, book = Federation(tmp_path), tmp_path / "A" / "book"

    def scan(add, partial):
        ledger_file.store_release(book, "march", {"sum": 0})
        return add(partial)

    silo = federation.open("A", rows=federation.table("A", scan) if moment == "in a sum" else None)
    if moment == "before a request":
        silo.answer(federation.request())
        ledger_file.store_release(book, "march", {"sum": 0})
    with pytest.raises(ledger.LedgerError, match="has a release of run 'march'"):
        silo.answer(federation.request(step=1))


@pytest.mark.parametrize("line", [{"attempt": 0}, {"step": 0, "attempt": 0}, {"done": 1}, {}, {"failed": 1}])
def test_a_line_that_no_silo_wrote_ends_the_run(line, tmp_path):
    federation = Federation(tmp_path)
    federation.silos["A"].answer(federation.request())
    ledger_file.note(tmp_path / "A" / "book", "march", 3, line)
    with pytest.raises(ledger.DamagedLedgerError, match="a line of run 'march' that no silo wrote"):
        federation.silos["A"].answer(federation.request(step=1))


def test_a_silo_pays_for_the_first_request_that_all_agreed_to(tmp_path):
    federation = Federation(tmp_path, 4, missing=1)
    assert not federation.charges()
    federation.silos["A"].answer(federation.request(names="ABC"))
    assert federation.charges() == ["A"]
    federation.open("A").answer(federation.request(step=1))
    assert len(ledger.account(tmp_path / "A" / "book").spends) == 1


def test_a_silo_with_other_terms_costs_the_others_nothing(tmp_path):
    federation = Federation(tmp_path, 4)
    other = silos.agree("march", *gibo(mu=1.1), federation.roster)
    federation.keys["D"] = federation.open("D", agreement=other).credential()
    with pytest.raises(ValueError, match="signed for these terms, which D did not sign"):
        federation.run()
    with pytest.raises(ValueError, match="signed for these terms, which D did not sign"):
        federation.run(keys=lambda: federation.keys)
    for name in "ABC":
        with pytest.raises(silos.Refused, match="a silo of the sum did not sign its key"):
            federation.silos[name].answer(federation.request())
    assert not federation.charges()
    federation.keys["D"] = federation.silos["D"].credential()
    federation.run()
    assert federation.charges() == list("ABCD")


@pytest.mark.parametrize("wrap", [lambda batch: batch, lambda batch: {k: np.asarray(v) for k, v in batch.items()}])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda columns: columns["z"],
        lambda columns: columns["x"][:-1],
        lambda columns: columns["x"][None],
        lambda columns: (columns["x"], columns["y"]),
        lambda columns: 1 / 0,
    ],
)
def test_a_loss_that_works_on_no_rows_is_refused_before_anything_is_paid(wrong, wrap, tmp_path):
    federation = Federation(tmp_path)
    for key in (tmp_path / "A").glob("*.run"):
        key.unlink()
    with pytest.raises(Exception, match=r"z|shape|zero|objective"):
        federation.open("A", lambda point, batch: wrong(wrap(batch)))
    assert not federation.charges()
    assert not list((tmp_path / "A").glob("*.run"))


def test_a_credential_is_of_these_terms_alone(tmp_path):
    federation = Federation(tmp_path, 4)
    key, roster = federation.keys["A"], federation.roster
    assert _silo.verify(federation.agreement, "A", key)
    assert not _silo.verify(federation.agreement, "B", key)
    for other in (
        silos.agree("april", *gibo(), roster),
        silos.agree("march", *gibo(mu=1.1), roster),
        silos.agree("march", *evaluations(), roster),
        silos.agree("march", *gibo(), roster, answers=4),
        silos.agree("march", *gibo(), roster, colluding=2),
        silos.agree("march", *gibo(), silos.make_roster(roster.members, missing=1)),
    ):
        assert not _silo.verify(other, "A", key)


# -- Failures ---------------------------------------------------------------------------------------------------------


def test_a_silo_that_is_gone_is_left_out_of_a_sum_of_its_own(tmp_path, caplog):
    federation = Federation(tmp_path, 4, missing=1, answers=5)
    caplog.set_level("INFO", "jaxdpbo")

    run = federation.run(
        lambda requests: federation.send({name: content for name, content in requests.items() if name != "C"})
    )
    assert run.attempts == 4  # of three steps: the first was repeated without C
    said = [record.getMessage() for record in caplog.records]
    assert "retry: the sum of step 1, attempt 2, of 3 silos" in said
    assert said[-1].startswith("release: run ")
    assert len(federation.answers("A")) == 4
    assert not federation.answers("C")


def test_silos_that_come_late_or_come_back_take_part(tmp_path):
    """By a function of the credentials, which is called before each sum."""
    federation, there, asked = Federation(tmp_path, 4, missing=2, answers=9), ["AB", "ABC", "ABCD", "ABD"], []

    def present():
        asked.append(there[len(asked)])
        return {name: federation.keys[name] for name in asked[-1]}

    def send(requests):
        mute = "C" if len(asked) == 2 else ""
        return federation.send({name: content for name, content in requests.items() if name != mute})

    run = federation.run(send, present)
    assert asked == there  # C does not answer the second sum, which is asked again of all four
    assert run.attempts == 4
    assert [len(federation.answers(name)) for name in federation.names] == [4, 4, 1, 2]
    with pytest.raises(ValueError, match="on the roster, got Z"):
        federation.run(send, lambda: {"Z": federation.keys["A"]})


def test_too_few_silos_stop_the_run(tmp_path):
    federation = Federation(tmp_path, 3, answers=9)
    with pytest.raises(silos.SiloError, match="2 silos answer, and a sum must have 3: stopped at step 0"):
        federation.run(lambda requests: federation.send({name: requests[name] for name in "AB"}))


def test_answers_that_are_used_up_stop_the_run(tmp_path):
    federation = Federation(tmp_path, 4, missing=1)
    with pytest.raises(silos.SiloError, match="no answers of the silos are left for step 2, of 3"):
        federation.run(lambda requests: federation.send({name: requests[name] for name in "ABD" if name in requests}))


def test_garbage_of_a_silo_is_left_out_by_its_length(tmp_path):
    federation = Federation(tmp_path, 4, missing=1, answers=5)
    run = federation.run(lambda requests: federation.send(requests) | ({"C": b"x" * 999} if "C" in requests else {}))
    assert run.attempts == 4


@pytest.mark.parametrize("killed", ["before the silos", "after the silos"])
def test_a_killed_server_goes_on_and_draws_nothing_twice(killed, tmp_path):
    federation, calls = Federation(tmp_path, answers=5), []

    def die_once(requests):
        calls.append(requests)
        if len(calls) == 2 and killed == "before the silos":
            raise KeyboardInterrupt
        answers = federation.send(requests)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return answers

    with pytest.raises(KeyboardInterrupt):
        federation.run(die_once, record=tmp_path / "server")
    run = federation.run(record=tmp_path / "server")
    assert run.attempts == 4  # a sum that may have left is asked anew, as another attempt
    steps = [json.loads(line) for line in (tmp_path / "server").read_text().splitlines()]
    assert [line["step"] for line in steps if "total" in line] == [0, 1, 2]
    with files.only_process(tmp_path / "server.lock"), pytest.raises(BlockingIOError, match=r"server\.lock is in use"):
        federation.run(record=tmp_path / "server")
    again = federation.run(lambda requests: pytest.fail("asked again"), record=tmp_path / "server")
    np.testing.assert_array_equal(again.release.point, run.release.point)


def test_the_server_sees_no_sum_of_a_silo(tmp_path):
    """Each answer is uniform to the eye, and neither requests nor the record hold an unmasked number."""
    federation = Federation(tmp_path, 2)
    federation.run(record=tmp_path / "server")
    words = np.concatenate([np.frombuffer(a, "<i8") for _, answers in federation.seen for a in answers.values()])
    assert np.all(np.abs(words.astype(float)) > 2.0**40)  # a raw sum has a few thousand units
    assert not any(b"identity" in content for requests, _ in federation.seen for content in requests.values())


def test_a_plant_that_leaves_a_share_out_is_seen(tmp_path, monkeypatch):
    """The spread of the sum over attempts is the stated one, and that of two shares is not."""
    plain, keys = _silo._draw_noise, iter(jax.random.split(jax.random.key(0), 150))
    monkeypatch.setattr(_silo.keys, "secret_key", lambda: next(keys))

    def spread(shares):
        """The variance of 25 sums over that of three shares, of which the first so many are drawn."""
        federation, totals = Federation(tmp_path / str(shares), answers=25), []
        for attempt in range(25):
            request, answers = federation.request(attempt=attempt), []
            for place, silo in enumerate(federation.silos.values()):
                share = plain if place < shares else no_draws
                monkeypatch.setattr(_silo, "_draw_noise", share)
                answers.append(np.frombuffer(silo.answer(request), "<u8"))
            totals.append(np.sum(answers, axis=0, dtype=np.uint64).view(np.int64))
        return np.mean(np.var(totals, axis=0, ddof=1)) / (3 * federation.sigma**2), totals[0].size

    found, size = spread(3)
    low, high = stats.chi2.ppf([1e-3, 1 - 1e-3], 24 * size) / (24 * size)
    assert low < found < high
    planted, _ = spread(1)
    assert planted < low


# -- A silo behind a socket -------------------------------------------------------------------------------------------


def listens(path):
    with socket.socket(socket.AF_UNIX) as caller:
        return caller.connect_ex(str(path)) == 0


@contextlib.contextmanager
def served(silo, path):
    """The silo in a thread; its exception, if it ends, in the list."""
    ends = []

    def work():
        try:
            silos.serve_silo(silo, path)
        except BaseException as error:
            ends.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while not ends and not listens(path):  # the socket's file is there before
        time.sleep(0.01)
    yield ends
    thread.join(5.0 if ends else 0.0)


def test_a_silo_behind_a_socket_gives_its_answers_and_nothing_else(tmp_path):
    federation = Federation(tmp_path)
    with served(federation.silos["A"], tmp_path / "socket"):
        assert stat.S_IMODE((tmp_path / "socket").stat().st_mode) == 0o660
        ask = functools.partial(silos.forward, tmp_path / "socket")
        assert sockets.parse_credential(ask(b"credential")) == ("A", federation.keys["A"])
        assert len(sockets.parse_answer(ask(federation.request()))) % 8 == 0
        for content, says in ((federation.request(), "answered before"), (b"", "not a request"), (b"{}", "not a req")):
            with pytest.raises(silos.Refused, match=says):
                sockets.parse_answer(ask(content))
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"", bytes(2**17)):  # and gone before the reply
            with socket.socket(socket.AF_UNIX) as caller:
                caller.connect(str(tmp_path / "socket"))
                caller.sendall(garbage)
        assert ask(b"credential")[:1] == b"C"  # still there
        with pytest.raises(OSError, match="in use"):
            silos.serve_silo(federation.silos["B"], tmp_path / "socket")
    assert len(federation.answers("A")) == 1


def test_a_failure_ends_a_silo_behind_a_socket_and_its_text_stays(tmp_path):
    federation = Federation(tmp_path)

    def failing(point, batch):
        if np.any(np.asarray(batch["x"])):
            raise OSError("Ann Smith")  # an error of the socket's own kind
        return np.asarray(batch["x"])

    with served(federation.open("A", failing), tmp_path / "socket") as ends:
        with pytest.raises(silos.Refused, match=r"^this silo stopped$"):
            sockets.parse_answer(silos.forward(tmp_path / "socket", federation.request()))
        while not ends:
            time.sleep(0.01)
    assert [str(error) for error in ends] == ["Ann Smith"]
    with pytest.raises(OSError, match=r"refused|No such file"):
        silos.forward(tmp_path / "socket", b"credential")
    with served(federation.silos["A"], tmp_path / "socket"), pytest.raises(silos.Refused, match="answers nothing more"):
        sockets.parse_answer(silos.forward(tmp_path / "socket", federation.request(attempt=1)))


@pytest.mark.parametrize("content", [b"", b"X", b"C{}", b"C[", b'C{"name": 1}', b"C" + b"[" * 9999, b"Cnull", b"A123"])
def test_a_reply_that_is_none_is_refused(content):
    for parse in (sockets.parse_credential, *([sockets.parse_answer] if content != b"A123" else [])):
        with pytest.raises(silos.Refused, match="not the reply of a silo"):
            parse(content)


@pytest.mark.parametrize("said", [b"Ann Smith has HIV", b"\x1b[31mred", b"silent" * 9, b"", b"\xff"])
def test_a_refusal_from_afar_is_a_sentence_of_the_list(said):
    with pytest.raises(silos.Refused, match=r"^the reply is not the reply of a silo$"):
        sockets.parse_answer(b"R" + said)
    for kind, sentence in silos.SENTENCES.items():
        with pytest.raises(silos.Refused) as caught:
            sockets.parse_answer(b"R" + kind.encode())
        assert (str(pickle.loads(pickle.dumps(caught.value))), caught.value.kind) == (sentence, kind)
        assert len(kind) <= sockets.LONGEST
    with pytest.raises(KeyError):
        silos.Refused("Ann Smith")


def test_a_caller_that_says_nothing_or_too_much_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(sockets, "PATIENCE", 0.2)
    monkeypatch.setattr(sockets, "LARGEST", 2**20)
    federation = Federation(tmp_path)
    with served(federation.silos["A"], tmp_path / "socket"), socket.socket(socket.AF_UNIX) as mute:
        mute.connect(str(tmp_path / "socket"))
        mute.sendall(b"{")
        assert silos.forward(tmp_path / "socket", b"credential", wait=5.0)[:1] == b"C"
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as loud:
            loud.connect(str(tmp_path / "socket"))
            loud.sendall(bytes(2**22))
        assert silos.forward(tmp_path / "socket", b"credential", wait=5.0)[:1] == b"C"


def test_text_of_a_request_that_no_encoding_holds_ends_nothing(tmp_path):
    federation = Federation(tmp_path)
    request = json.loads(federation.request())
    request["leaves"][0][0] = "\ud800"
    with served(federation.silos["A"], tmp_path / "socket") as ends:
        reply = silos.forward(tmp_path / "socket", json.dumps(request, sort_keys=True).encode())
        assert reply == b"Rquery"
        assert silos.forward(tmp_path / "socket", b"credential")[:1] == b"C"
    assert not ends


def test_a_socket_of_a_killed_process_is_replaced_and_a_file_is_not(tmp_path):
    federation = Federation(tmp_path)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(tmp_path / "socket"))
    with pytest.raises(OSError, match="refused"):
        silos.forward(tmp_path / "socket", b"credential")
    (tmp_path / "socket").chmod(0o600)
    with served(federation.silos["A"], tmp_path / "socket"):
        assert silos.forward(tmp_path / "socket", b"credential")[:1] == b"C"
    (tmp_path / "rows.csv").write_text("Ann")
    with served(federation.silos["B"], tmp_path / "rows.csv") as ends:
        assert "in use" in str(ends)
    assert (tmp_path / "rows.csv").read_text() == "Ann"


def test_a_socket_lies_where_nobody_can_replace_it(tmp_path):
    federation = Federation(tmp_path)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ValueError, match="where no other user can replace it"):
        silos.serve_silo(federation.silos["A"], tmp_path / "open" / "socket")


def test_a_message_that_is_too_long_is_refused_and_not_kept(tmp_path):
    federation = Federation(tmp_path)
    with served(federation.silos["A"], tmp_path / "socket"):
        for size in (federation.agreement.largest_request + 1, 2**22):
            tracemalloc.start()
            with pytest.raises(silos.Refused, match=r"^the request is longer than any of this run$"):
                sockets.parse_answer(silos.forward(tmp_path / "socket", bytes(size)))
            tracemalloc.stop()
        with socket.socket(socket.AF_UNIX) as liar:
            liar.connect(str(tmp_path / "socket"))
            liar.sendall(b"\xff" * sockets.LENGTH)  # and not a byte of its 4 GiB
        assert silos.forward(tmp_path / "socket", b"credential")[:1] == b"C"
    assert not federation.charges()


# -- The server's side of the conversation -----------------------------------------------------------------------------


class Clock:
    """The server's time: passes only where the server waits."""

    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds

    def sleep(self, seconds):
        self.seconds += seconds


class Lines:
    """A transport to silos in this process, each at a peer of its own; ``lies`` reply in place of a peer."""

    def __init__(self, federation, *, named=False):
        self.silos, self.named, self.lies = dict(federation.silos), named, {}
        self.looks, self.sums, self.events = 0, 0, lambda lines: None

    def peers(self):
        self.looks += 1
        self.events(self)
        return [*self.silos, *(peer for peer in self.lies if peer not in self.silos)]

    def name(self, peer):
        return peer if self.named else None

    def ask(self, contents, seconds):
        self.sums += not any(content.startswith(b"credential") for content in contents.values())
        for peer, content in contents.items():
            lie = self.lies.get(peer, lambda content: None)(content)
            if lie is not None:
                yield peer, lie
            elif peer in self.silos:
                yield peer, sockets._reply(self.silos[peer], content)[0]
            else:
                yield peer, None


def converse(federation, lines, monkeypatch, **options):
    monkeypatch.setattr(conversation, "time", clock := Clock())
    told = []
    settings = {"record": None, "wait": 60.0, "patience": 600.0, "tell": told.append} | options
    try:
        return conversation.converse(federation.agreement, lines, **settings), told, clock
    except silos.SiloError as error:
        return error, told, clock


def test_nobody_is_charged_before_all_silos_are_there(tmp_path, monkeypatch, caplog):
    """Also if the sums may lack one: the server waits, says who is missing, and then starts or stops."""
    caplog.set_level("INFO", "jaxdpbo.silos")
    federation = Federation(tmp_path, 4, missing=1, answers=5)
    lines = Lines(federation)
    late = lines.silos.pop("C")
    error, told, clock = converse(federation, lines, monkeypatch)
    assert str(error) == "not there before the first sum: C; no silo is charged"
    assert (told[-1].state, told[-1].missing, told[-1].healthy) == ("stopped", ("C",), False)
    assert not any(status.healthy for status in told)
    assert clock.seconds == 600.0
    assert lines.looks < 30  # a look after 1, 2, 4, 8, 16, and then 30 seconds
    assert not federation.charges()
    assert "wait: run 'march': not there: C" in caplog.messages

    def arrive(lines):
        if lines.looks == 40:
            lines.silos["C"] = late

    lines.events = arrive
    run, told, _ = converse(federation, lines, monkeypatch)
    assert run.attempts == 3
    assert (told[-1].state, told[-1].step, told[-1].attempts_left, told[-1].missing) == ("released", 3, 2, ())
    assert told[-1].answered == tuple("ABCD")
    assert [len(federation.answers(name)) for name in "ABCD"] == [3, 3, 3, 3]


def test_a_silo_that_goes_is_missed_and_comes_back_under_its_charge(tmp_path, monkeypatch):
    federation = Federation(tmp_path, 4, missing=1, answers=6)
    lines = Lines(federation)

    def come_and_go(lines):
        if lines.sums == 1 and "C" in lines.silos:
            del lines.silos["C"]
        elif lines.sums == 2:
            lines.silos["C"] = federation.open("C")  # another process, with the same ledger

    lines.events = come_and_go
    run, told, _ = converse(federation, lines, monkeypatch, record=tmp_path / "sums")
    assert run.attempts == 3
    assert any(status.missing == ("C",) and status.state == "summing" and status.healthy for status in told)
    assert [len(federation.answers(name)) for name in "ABCD"] == [3, 3, 2, 3]
    assert told[-1].refusals == {}
    assert len(ledger.account(tmp_path / "C" / "book").spends) == 1


LIARS = {  # what a peer says to a request: the sentence that the status has, whatever else the peer wrote
    "nonsense": (lambda content: b"?Ann Smith", "nonsense"),
    "a sentence of its own": (lambda content: b"RAnn Smith has HIV", "nonsense"),
    "an answer of another length": (lambda content: b"A" + bytes(8), "length"),
    "an answer far too long": (lambda content: b"A" + bytes(2**20), "length"),
    "that it stopped": (lambda content: b"FAnn Smith", "stopped"),
}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("lie", LIARS)
def test_what_a_silo_says_reaches_others_as_a_sentence_alone(lie, named, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "jaxdpbo")
    federation = Federation(tmp_path, 4, missing=1, answers=5)
    lines = Lines(federation, named=named)
    says, kind = LIARS[lie]
    lines.lies["C"] = lambda content: None if content.startswith(b"credential") else says(content)
    run, told, _ = converse(federation, lines, monkeypatch)
    assert run.attempts == 4  # the first sum again, without C
    assert told[-1].refusals == {"C": silos.SENTENCES[kind]}
    assert silos.SENTENCES[kind] in str(told[-1])
    assert f"received: silo C, step 1, {silos.SENTENCES[kind]}, {len(says(b''))} bytes" in caplog.messages
    assert "Ann" not in caplog.text + "".join(map(str, told)) + "".join(status.to_json() for status in told)


def test_a_second_peer_under_the_name_of_a_silo_takes_no_place_and_is_told(tmp_path, monkeypatch):
    """Not even if it is first: it shows the silo's signed key, which others know, or an older proof."""
    for number, question in enumerate((b"credential", b"credential" + bytes(sockets.NONCE))):
        federation = Federation(tmp_path / str(number))
        card = sockets._reply(federation.silos["B"], question)[0]
        lines = Lines(federation)
        honest = lines.silos.pop("B")
        lines.lies["B"] = lambda content, card=card: card  # the impostor comes first
        lines.events = lambda lines, honest=honest: lines.silos.update(Z=honest) if lines.looks == 3 else None
        run, told, _ = converse(federation, lines, monkeypatch)
        assert run.attempts == 3
        assert any(status.refusals == {"B": silos.SENTENCES["proof"]} and status.missing == ("B",) for status in told)
        assert federation.charges() == list("ABC")


def test_a_silo_behind_two_peers_speaks_through_one(tmp_path, monkeypatch):
    federation = Federation(tmp_path)
    lines = Lines(federation)
    lines.silos["Z"] = federation.silos["B"]
    run, told, _ = converse(federation, lines, monkeypatch)
    assert run.attempts == 3
    assert any(status.refusals == {"B": silos.SENTENCES["second"]} for status in told)
    assert [len(federation.answers(name)) for name in "ABC"] == [3, 3, 3]


def test_a_socket_that_leads_to_another_silo_is_told(tmp_path, monkeypatch):
    federation = Federation(tmp_path)
    lines = Lines(federation, named=True)
    lines.silos["A"], lines.silos["B"] = lines.silos["B"], lines.silos["A"]
    error = converse(federation, lines, monkeypatch)[0]
    assert str(error).startswith("not there before the first sum: A, B; no silo is charged; A: another connection")
    assert not federation.charges()


def test_a_silo_with_other_terms_is_named_before_anybody_is_charged(tmp_path, monkeypatch):
    federation = Federation(tmp_path)
    lines = Lines(federation)
    lines.silos["B"] = federation.open("B", agreement=silos.agree("march", *gibo(mu=1.1), federation.roster))
    error, told, _ = converse(federation, lines, monkeypatch)
    assert str(error).endswith(f"; B: {silos.SENTENCES['terms']}")
    assert told[-1].missing == ("B",)
    assert not federation.charges()


def test_an_answer_that_is_said_twice_counts_once(tmp_path, monkeypatch, no_noise):
    """A transport that repeats a reply, or replies for a peer that was not asked, changes no sum."""
    federation = Federation(tmp_path)
    plain = converse(federation, Lines(federation), monkeypatch, record=tmp_path / "once")[0]

    class Twice(Lines):
        def ask(self, contents, seconds):
            for peer, reply in super().ask(contents, seconds):
                yield peer, reply
                yield peer, b"A" + bytes(federation.agreement.answer_size)
                yield "nobody", reply

    other = Federation(tmp_path / "other")
    (tmp_path / "twice").write_text(
        (tmp_path / "once").read_text().splitlines()[0].replace(
            federation.agreement.digest.hex(), other.agreement.digest.hex()
        )
        + "\n"
    )  # fmt: skip
    again = converse(other, Twice(other), monkeypatch, record=tmp_path / "twice")[0]
    np.testing.assert_array_equal(plain.release.point, again.release.point)


def test_a_server_that_goes_on_waits_for_all_no_more_and_knows_its_step(tmp_path, monkeypatch):
    federation = Federation(tmp_path, 4, missing=1, answers=5)
    lines = Lines(federation)

    def stop(lines):
        if lines.sums == 1:
            raise KeyboardInterrupt

    lines.events = stop
    with pytest.raises(KeyboardInterrupt):
        converse(federation, lines, monkeypatch, record=tmp_path / "sums")
    del lines.silos["D"]
    lines.events = lambda lines: None
    run, told, clock = converse(federation, lines, monkeypatch, record=tmp_path / "sums")
    assert run.attempts == 3
    assert (told[0].step, told[0].attempts_left) == (2, 4)
    assert clock.seconds == 60.0
    assert [len(federation.answers(name)) for name in "ABCD"] == [3, 3, 3, 1]


def logged(folder, rows, monkeypatch, caplog, plant=lambda: None):
    """All log records of both sides, and all that the status says, of a run in which one silo comes late and goes."""
    caplog.clear()
    monkeypatch.setattr(sys.modules[__name__], "X", rows)
    federation = Federation(folder, 4, missing=2, answers=6)
    lines = Lines(federation)
    late = lines.silos.pop("B")

    def come_and_go(lines):
        if lines.looks == 3:
            lines.silos["B"] = late
        elif lines.sums == 2:
            lines.silos.pop("B", None)

    lines.events = come_and_go
    federation.silos["C"].answer(federation.request(step=2))  # which the run will ask again
    run, told, _ = converse(federation, lines, monkeypatch, record=folder / "sums")
    plant()
    return [text.replace(str(folder), "") for text in caplog.messages], [status.to_json() for status in told], repr(run)


def test_logs_and_status_follow_from_no_record(tmp_path, monkeypatch, caplog):
    """On two data sets that differ in one patient, the records of both sides are equal but for their times."""
    caplog.set_level("INFO", "jaxdpbo")
    neighbour = X.copy()
    neighbour[100] = [np.nan, 1e300]
    texts, told, _ = logged(tmp_path / "one", X, monkeypatch, caplog)
    others = logged(tmp_path / "other", neighbour, monkeypatch, caplog)
    assert (texts, told) == others[:2]
    assert any(text.startswith("sent: silo A, step 1, an answer") for text in texts)  # of a silo
    assert any(text.startswith("received: silo A, step 1, an answer") for text in texts)  # of the server
    assert any(text.startswith("wait: ") for text in texts)
    assert "sent: silo C, step 3, this attempt of this step was answered before, 9 bytes" in texts
    planted = logged(
        tmp_path / "planted", X, monkeypatch, caplog, lambda: logs.message("sent", "A", 0, f"{np.nansum(X)}", 1)
    )[0]
    assert planted != texts


def test_the_status_of_a_running_server_is_asked_over_a_socket(tmp_path, capsys):
    """And the answer is written. One hospital comes late."""
    federation = Federation(tmp_path, answers=5)
    folder = tmp_path / "march"
    folder.mkdir()
    seen = []
    paths = {name: tmp_path / f"{name}.socket" for name in "ABC"}
    with contextlib.ExitStack() as stack:
        for name in "AB":
            stack.enter_context(served(federation.silos[name], paths[name]))

        def tell(status):
            seen.append((status, silos.ask_status(folder / "status")))
            if status.missing == ("C",) and len(federation.charges()) == 0:
                commands.main(["silo", "status", str(folder)])
                with pytest.raises(SystemExit):
                    commands.main(["silo", "health", str(folder), "--json"])
                stack.enter_context(served(federation.silos["C"], paths["C"]))

        options = {"record": folder / "sums", "status": folder / "status", "tell": tell}
        run = silos.run_on_sockets(federation.agreement, paths, **options)
    assert all(shown == status for status, shown in seen)
    printed = capsys.readouterr().out
    assert "missing: C" in printed
    assert json.loads(printed.splitlines()[-1])["healthy"] is False
    assert seen[-1][1].state == "released"
    with pytest.raises(OSError, match="No such file"):
        silos.ask_status(folder / "status")
    run.save(folder / "answer.json")
    stated = json.loads((folder / "answer.json").read_text())
    assert stated["point"] == list(run.release.point)
    assert stated["hash of all terms"] == federation.agreement.digest.hex()
    with pytest.raises(ValueError, match="a socket for each of A, B, C"):
        silos.run_on_sockets(federation.agreement, {"A": paths["A"]})


def make_certificates(folder, names):
    """An authority, and a certificate and a key of each name."""
    start, ca = datetime.datetime(2020, 1, 1), ec.generate_private_key(ec.SECP256R1())

    def sign(name, public, authority):
        subject, issuer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (name, "CA"))
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
        made = made.serial_number(x509.random_serial_number()).not_valid_before(start)
        made = made.not_valid_after(start + datetime.timedelta(days=36500))
        made = made.add_extension(x509.BasicConstraints(authority, None), critical=True)
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        # Python 3.13 and newer check certificates by the letter of RFC 5280, which wants these too.
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.public_key())
        made = made.add_extension(issued_by, critical=False)
        others = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign",
             "encipher_only", "decipher_only"), False,
        )  # fmt: skip
        usage = x509.KeyUsage(digital_signature=True, key_cert_sign=authority, **others)
        made = made.add_extension(usage, critical=True)
        return made.sign(ca, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    (folder / "ca.crt").write_bytes(sign("CA", ca.public_key(), True))
    for name in names:
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (folder / f"{name}.pem").write_bytes(private + sign(name, key.public_key(), False))


def context_of(folder, name, side):
    made = ssl.create_default_context(side, cafile=folder / "ca.crt")
    made.load_cert_chain(folder / f"{name}.pem")
    made.verify_mode = ssl.CERT_REQUIRED
    return made


def pump(one, other):
    """Carry bytes both ways, until one side ends, as a proxy does that knows nothing of the messages."""
    with one, other:
        while True:
            pending = [side for side in (one, other) if isinstance(side, ssl.SSLSocket) and side.pending()]
            for side in pending or select.select([one, other], [], [], 60)[0]:
                if not (content := side.recv(2**14)):
                    return
                (other if side is one else one).sendall(content)


def proxy(listener, wrap, connect):
    """Accept, and carry each connection on, in threads."""

    def carry(caller):
        with contextlib.suppress(OSError):
            pump(wrap(caller), connect())

    def work():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=carry, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=work, daemon=True).start()


def test_certificates_by_a_proxy_on_both_ends(tmp_path):
    """TLS begins at a proxy of the server and ends at one of each hospital; without a certificate nobody gets in."""
    federation = Federation(tmp_path, answers=5)
    make_certificates(tmp_path, ["server", *"ABC"])
    with contextlib.ExitStack() as stack:
        (tmp_path / "server").mkdir()
        paths, ports = {}, {}
        for name in "ABC":
            stack.enter_context(served(federation.silos[name], tmp_path / f"{name}.socket"))
            inner = context_of(tmp_path, name, ssl.Purpose.CLIENT_AUTH)
            outer = context_of(tmp_path, "server", ssl.Purpose.SERVER_AUTH)
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            ports[name] = port = listener.getsockname()[1]

            def to_silo(path=tmp_path / f"{name}.socket"):
                inside = socket.socket(socket.AF_UNIX)
                inside.connect(str(path))
                return inside

            def to_hospital(port=port, name=name, outer=outer):
                return outer.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname=name)

            proxy(listener, functools.partial(inner.wrap_socket, server_side=True), to_silo)
            paths[name] = tmp_path / "server" / f"{name}.socket"
            local = stack.enter_context(socket.socket(socket.AF_UNIX))
            local.bind(str(paths[name]))
            local.listen()
            proxy(local, lambda caller: caller, to_hospital)
        run = silos.run_on_sockets(federation.agreement, paths, wait=30.0, patience=60.0)
        assert run.attempts == 3
        stranger = ssl.create_default_context(cafile=tmp_path / "ca.crt")

        def ask():
            plain = socket.create_connection(("127.0.0.1", ports["A"]))
            with stranger.wrap_socket(plain, server_hostname="A") as caller:
                sockets.send(caller, b"credential", 10.0)
                return sockets.receive(caller, time.monotonic() + 10, 2**20)

        with pytest.raises(OSError, match=r"(?i)certificate|reset|eof|did not end"):
            ask()
        stranger.load_cert_chain(tmp_path / "server.pem")
        assert ask()[:1] == b"C"
    assert [len(federation.answers(name)) for name in "ABC"] == [3, 3, 3]


SECRET = "31415926.5"
FAILING = """
import numpy as np

def loss(point, batch):
    if np.any(np.asarray(batch["x"]) > 1000):
        raise ValueError(f"the rows {np.asarray(batch['x'])}")
    return np.abs(np.asarray(batch["x"]) - point["x"])
"""


def test_a_command_whose_loss_fails_quotes_no_row(tmp_path, monkeypatch, capsys):
    """The command of a hospital, on a file of its own, in a thread; the server sees that the silo stopped."""
    cards = [silos.create_identity(tmp_path / name, name, users=3) for name in "AB"]
    agreed = tmp_path / "agreement.json"
    terms = FILE | {"columns": ["x"], "space": {"x": FILE["space"]["x"]}}
    agreement = silos.save_agreement(agreed, terms, silos.make_roster(cards))
    (tmp_path / "failing_loss.py").write_text(FAILING)
    (tmp_path / "rows.csv").write_text(f"name,x\nAnn,1\nBea,{SECRET}\nCleo,none\n")
    ledger.create(tmp_path / "book", mu=9)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logs.LOGGER, "handlers", [])
    monkeypatch.setattr(logs.LOGGER, "level", logs.LOGGER.level)
    files = {"data": "rows.csv", "loss": "failing_loss:loss", "ledger": "book", "socket": "A.socket", "folder": "A"}
    options = [text for name, value in files.items() for text in (f"--{name}", value)]
    ends = []

    def work():
        try:
            commands.main(["silo", "run", str(agreed), "--name", "A", *options])
        except BaseException as error:
            ends.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while not ends and not listens(tmp_path / "A.socket"):
        time.sleep(0.01)
    _, key = sockets.parse_credential(silos.forward(tmp_path / "A.socket", b"credential"))
    message = _masks.public_key(private := _masks.generate_key())
    signature = _roster.sign(tmp_path / "B", "B", _silo._key_message(agreement, "B", message))
    other = silos.Credential(*(base64.b64encode(part).decode() for part in (message, signature)))
    leaves = messages.write_leaves([np.asarray(leaf)[None] for leaf in jax.tree.leaves(agreement.template)])
    request = messages.Request("march", 0, 0, {"A": key, "B": other}, leaves)
    with pytest.raises(silos.Refused, match=r"^this silo stopped$"):
        sockets.parse_answer(silos.forward(tmp_path / "A.socket", request.to_bytes()))
    thread.join(30)
    assert len(private) == 32
    printed = "".join(capsys.readouterr()) + "".join(map(repr, ends)) + repr(ends[0].__context__)
    assert "answers nothing more in this run" in printed
    assert not any(text in printed for text in (SECRET, "3141", "ValueError", "Ann", "the rows"))
    assert "charge: " in printed  # the log is there
    assert "sent: silo A, step 1, this silo stopped, 1 bytes" in printed


# -- The record -------------------------------------------------------------------------------------------------------


def test_the_record_of_a_run_states_what_the_silos_charged(tmp_path):
    federation = Federation(tmp_path, colluding=2)
    run = federation.run()
    made = run.report(tmp_path / "record.html")
    (stated,), (charged,) = made.guarantees, ledger.account(tmp_path / "A" / "book").spends
    (event,) = charged.spend.events
    assert math.isclose(event.level, stated.level, rel_tol=1e-9)
    assert set(stated.assumptions) <= set(charged.spend.assumptions)
    assert made.details["silos on the roster"] == "A (70 users), B (70 users), C (70 users)"
    assert made.details["hash of the roster"] == federation.roster.digest().hex()
    assert made.details["colluding silos"] == "2"
    assert federation.agreement.guarantees.broken_masks.claim in (tmp_path / "record.html").read_text()
    stated = json.loads((tmp_path / "record.json").read_text())["details"]
    assert (stated["sums asked for"], stated["sums of each silo"]) == ("3", "at most 3")


# -- Terms ------------------------------------------------------------------------------------------------------------


def gradients():
    return dp_gd.config(users=USERS, steps=3, mu=1.0, bounds=BOX)


def choice():
    case = CASES["private choices"]
    return case.algorithm, case.config(1.0)


@pytest.mark.parametrize(
    ("search", "terms", "says"),
    [
        (lambda: gibo(clip_norm="private"), {}, "must be numbers"),
        (lambda: gibo(noise="float"), {}, "noise='exact'"),
        (lambda: gibo(users=USERS + 1), {}, "config must be of the 210 users"),
        (lambda: gibo(memory="all"), {}, "remember nothing"),
        (choice, {}, "a choice among candidates"),
        (lambda: (random_search.algorithm, random_search.config(users=USERS, steps=2, bounds=BOX)), {}, "add noise"),
        (gibo, {"answers": 2}, "answers must"),
        (gibo, {"colluding": 3}, "colluding must be fewer than the 3"),
        (gibo, {"colluding": 0}, "colluding must"),
        (lambda: (CASES["dp_gd"].algorithm, gradients()), {}, "not a gradient"),
    ],
)
def test_terms_that_silos_cannot_keep_are_refused(search, terms, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        Federation(tmp_path, search=search, **terms)


def test_a_silo_whose_rows_or_key_are_not_those_of_the_roster_is_refused(tmp_path):
    federation = Federation(tmp_path)
    with pytest.raises(ValueError, match="the roster says 70 users of silo 'A', got 69"):
        federation.open("A", rows=X[:69])
    with pytest.raises(ValueError, match="not on the roster"):
        federation.agreement.roster.member("Z")
    (tmp_path / "A" / "A.identity").unlink()
    silos.create_identity(tmp_path / "A", "A", users=70)
    with pytest.raises(ValueError, match="another key for silo 'A'"):
        federation.open("A")


def test_a_ledger_that_cannot_pay_stops_a_silo_before_the_first_answer(tmp_path):
    federation = Federation(tmp_path)
    agreement = silos.agree("april", *gibo(), federation.roster)
    ledger.create(tmp_path / "small", mu=0.1)
    with pytest.raises(ledger.BudgetExceeded):
        silos.Silo(
            agreement, loss, {"x": X[:70, 0], "y": X[:70, 1]}, name="A", folder=tmp_path / "A",
            ledger=tmp_path / "small",
        )  # fmt: skip


def test_a_new_ledger_beside_the_key_of_a_run_is_refused(tmp_path):
    """It would know of no answer, and the silo would answer again under the same masks."""
    federation = Federation(tmp_path)
    federation.silos["A"].answer(federation.request())
    (tmp_path / "A" / "book").rename(tmp_path / "A" / "lost")
    ledger.create(tmp_path / "A" / "book", mu=9)
    with pytest.raises(ledger.LedgerError, match=r"not the ledger of A-.*\.run, the key of run 'march'"):
        federation.open("A")
    assert not federation.charges()


def test_other_terms_under_one_name_are_refused_by_the_ledger(tmp_path):
    federation = Federation(tmp_path)
    federation.silos["A"].answer(federation.request())
    federation.agreement = silos.agree("march", *gibo(), federation.roster, answers=4)
    with pytest.raises(ledger.LedgerError):
        federation.open("A")


def test_identities_are_kept_private_and_rosters_are_checked(tmp_path):
    card = silos.create_identity(tmp_path, "A", users=3)
    assert (tmp_path / "A.identity").stat().st_mode & 0o077 == 0
    with pytest.raises(FileExistsError):
        silos.create_identity(tmp_path, "A", users=3)
    with pytest.raises(ValueError, match="letters"):
        silos.create_identity(tmp_path, "../A", users=3)
    with pytest.raises(ValueError, match="two silos or more"):
        silos.make_roster([card])
    with pytest.raises(ValueError, match="names of their own"):
        silos.make_roster([card, card])
    with pytest.raises(ValueError, match="identities of their own"):
        silos.make_roster([card, card._replace(name="B")])
    other = silos.create_identity(tmp_path, "B", users=4)
    roster = silos.make_roster([other, card])
    roster.save(tmp_path / "roster.json")
    assert silos.load_roster(tmp_path / "roster.json") == roster
    assert (roster.names, roster.users) == (("A", "B"), 7)
    assert roster.digest() != silos.make_roster([card, other._replace(users=5)]).digest()


def test_a_roster_is_made_from_a_shell(tmp_path, capsys):
    for name in "AB":
        commands.main(["silo", "init", name, "--users", "5", "--folder", str(tmp_path / name)])
    cards = [str(tmp_path / name / f"{name}.card.json") for name in "AB"]
    commands.main(["silo", "roster", *cards, "--out", str(tmp_path / "roster.json")])
    roster = silos.load_roster(tmp_path / "roster.json")
    assert (roster.names, roster.users) == (("A", "B"), 10)
    assert roster.digest().hex() in capsys.readouterr().out
    for refused in (["init", "A", "--users", "5", "--folder", str(tmp_path / "A")], ["roster", cards[0]]):
        with pytest.raises(SystemExit, match="jaxdpbo silo: "):
            commands.main(["silo", *refused])


def test_an_agreement_in_a_file_is_that_of_its_terms(tmp_path):
    federation, path = Federation(tmp_path), tmp_path / "agreement.json"
    made = silos.save_agreement(path, FILE | {"answers": 4, "colluding": 2}, federation.roster)
    read = silos.load_agreement(path)
    assert read.digest == made.digest
    assert (read.answers, read.colluding, read.columns) == (4, 2, ("x", "y"))
    assert silos.save_agreement(path, FILE | {"columns": ["x", "z"]}, federation.roster).digest != made.digest


WRONG_TERMS = {
    "no run": ({"run": None}, "terms must have 'run', of type str"),
    "no columns": ({"columns": []}, "columns must be different names"),
    "a column twice": ({"columns": ["x", "x"]}, "columns must be different names"),
    "a column that is no name": ({"columns": [1]}, "columns must be different names"),
    "an unknown term": ({"epsilon": 1.0}, "a term must be one of"),
    "an unknown setting": ({"settings": FILE["settings"] | {"epsilon": 1}}, "unexpected keyword argument 'epsilon'"),
    "another number of users": ({"settings": FILE["settings"] | {"users": 9}}, "users"),
    "a memory": ({"settings": FILE["settings"] | {"memory": "all"}}, "memory"),
    "other noise": ({"settings": FILE["settings"] | {"noise": "float"}}, "noise"),
    "no dimension": ({"space": {"x": {"type": "circle"}}}, "type of x"),
    "one version": ({"versions": ["0.1.0"]}, "versions must be two releases"),
    "no version": ({"versions": ["new", "newer"]}, "versions must be two releases"),
    "older versions": ({"versions": ["0.0.1", "0.0.9"]}, "the silos agreed on 0.0.1 to 0.0.9: install one of these"),
    "newer versions": ({"versions": ["7.0", "8.0"]}, "the silos agreed on 7.0 to 8.0: install one of these"),
    "answers as text": ({"answers": "4"}, "terms must have 'answers', of type int"),
}


@pytest.mark.parametrize("wrong", WRONG_TERMS)
def test_a_file_of_terms_that_cannot_be_kept_is_refused(wrong, tmp_path):
    federation, path = Federation(tmp_path), tmp_path / "agreement.json"
    change, says = WRONG_TERMS[wrong]
    with pytest.raises((ValueError, TypeError), match=says):
        silos.save_agreement(path, FILE | change, federation.roster)
    assert not path.exists()
    silos.save_agreement(path, FILE, federation.roster)
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"terms": FILE | change}))
    with pytest.raises(ValueError, match=says):
        silos.load_agreement(path)


@pytest.mark.parametrize(
    "what", ["protocol", "precision", "bounds of a user's integers", "widths of a silo's noise", "hash"]
)
def test_a_machine_that_computes_something_else_is_refused_before_it_opens_a_ledger(what, tmp_path):
    path = tmp_path / "agreement.json"
    silos.save_agreement(path, FILE, Federation(tmp_path).roster)
    content = json.loads(path.read_text())
    (name,) = (name for name in content["expects"] if name.startswith(what))
    expected, content["expects"][name] = content["expects"][name], "another"
    path.write_text(json.dumps(content))
    held = re.escape(repr(expected))
    with pytest.raises(ValueError, match=rf"^{name} must be 'another' by the agreement, and this machine has {held}"):
        silos.load_agreement(path)


def test_a_machine_without_x64_is_told_so(tmp_path, request):
    path = tmp_path / "agreement.json"
    silos.save_agreement(path, FILE, Federation(tmp_path).roster)
    request.getfixturevalue("float32")
    with pytest.raises(
        ValueError, match="precision must be 'float64' by the agreement, and this machine has 'float32'"
    ):
        silos.load_agreement(path)


def test_silos_of_other_agreed_versions_take_part_and_their_sums_add_up(tmp_path, monkeypatch, no_noise):
    """The hash holds what must be equal, and neither a version of jaxdpbo in the range nor those of its libraries."""
    federation = Federation(tmp_path, versions=("0.1.0", "0.1.9"))
    plain = federation.agreement.digest
    monkeypatch.setattr(jaxdpbo, "__version__", "0.1.5")
    monkeypatch.setattr(jax, "__version__", "99.0")
    newer = silos.agree("march", *gibo(), federation.roster, versions=("0.1.0", "0.1.9"))
    assert newer.digest == plain
    federation.silos["B"] = federation.open("B", agreement=newer)
    request = federation.request()
    answers = [np.frombuffer(silo.answer(request), "<u8") for silo in federation.silos.values()]
    np.testing.assert_array_equal(np.sum(answers, axis=0, dtype=np.uint64).view(np.int64), answer_of_all(federation))
    monkeypatch.setattr(jaxdpbo, "__version__", "0.1.9")  # also between two sums, under one charge
    again = federation.open("B", agreement=silos.agree("march", *gibo(), federation.roster, versions=newer.versions))
    again.answer(federation.request(step=1))
    with pytest.raises(silos.Refused, match="answered before"):
        again.answer(request)
    assert len(ledger.account(tmp_path / "B" / "book").spends) == 1
    monkeypatch.setattr(jaxdpbo, "__version__", "0.2.0")
    with pytest.raises(ValueError, match=r"this is jaxdpbo 0\.2\.0, and the silos agreed on 0\.1\.0 to 0\.1\.9"):
        silos.agree("march", *gibo(), federation.roster, versions=("0.1.0", "0.1.9"))
    assert silos.agree("march", *gibo(), federation.roster).digest != plain


def test_another_protocol_is_another_hash(tmp_path, monkeypatch):
    federation = Federation(tmp_path)
    monkeypatch.setattr(_agreement, "PROTOCOL", 2)
    assert silos.agree("march", *gibo(), federation.roster).digest != federation.agreement.digest


def test_terms_differ_in_their_digest(tmp_path):
    federation = Federation(tmp_path)
    digests = {
        silos.agree(run, *search, federation.roster, **terms).digest
        for run, search, terms in (
            ("march", gibo(), {}), ("april", gibo(), {}), ("march", gibo(mu=1.5), {}), ("march", evaluations(), {}),
            ("march", gibo(), {"answers": 4}), ("march", gibo(), {"colluding": 2}),
        )
    }  # fmt: skip
    assert len(digests) == 6
    assert silos.agree("march", *gibo(), federation.roster).digest in digests


def test_a_step_without_payment_asks_nobody(tmp_path):
    """The server's structure of a release is that of the algorithm's own noise."""
    federation = Federation(tmp_path)
    agreement = federation.agreement
    key, state = jax.random.key(0), agreement.algorithm.init(jax.random.key(0), agreement.config)
    query = compiled_steps.ask(agreement.algorithm, key, agreement.config, state)
    zeros = _agreement.make_zeros(agreement, query)
    after, failed = coordinator._learn(agreement.algorithm, key, agreement.config, state, query, zeros)
    assert int(after.public.step) == 1
    assert not np.any(failed.factorisation_failed)
