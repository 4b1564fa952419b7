"""Malformed, extreme and adversarial arguments to every public function: a clear refusal, or a valid result.

``fuzz_targets`` is the table of what is called and with what. Never another exception than was documented, never a
hang, no NaN, and no private value in any message. atheris 3.0.0 was tried and left out: in a minute on each of three
parsers, 154,000 files, it found nothing that the corrupted files here had not, for 35 MB and another way to run tests.
"""

import re
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager

import fuzz_targets
import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fuzz_targets import coverage, odd_values
from fuzz_targets.target import MARK, Target
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from option_groups import group_options
from protocol_cases import CASES, USERS

import jaxdpbo
from jaxdpbo import drivers
from jaxdpbo.guarantee import BudgetError, guarantees

LIMIT = 20.0  # seconds of one call


class Finding(AssertionError):
    """A call that did neither."""


class TooLong(BaseException):
    """Raised into a call that went on beyond its limit."""


def called(target: Target, arguments: dict, limit: float = LIMIT) -> str:
    """Whether a call was "accepted" or "rejected"; anything else is a finding."""
    begun = time.perf_counter()
    try:
        with stopped_after(limit):
            found = target.call(**arguments)
        refusal = None
    except (Exception, TooLong) as error:
        refusal = error
    if (taken := time.perf_counter() - begun) > limit or isinstance(refusal, TooLong):
        raise Finding(f"took {taken:.1f} s\n{shown(target, arguments)}")
    if refusal is not None:
        if wrong := what_is_wrong(target, refusal):
            raise Finding(f"{wrong}\n{shown(target, arguments)}") from refusal
        return "rejected"
    if not target.nan and any(map(odd_values.holds_nan, jax.tree.leaves(found))):
        raise Finding(f"NaN came out\n{shown(target, arguments)}")
    try:
        valid = target.check is None or bool(target.check(found, arguments))
    except Exception as error:
        raise Finding(f"the result is none: {type(error).__name__}: {error}\n{shown(target, arguments)}") from error
    if not valid:
        raise Finding(f"not a valid result: {found!r:.200}\n{shown(target, arguments)}")
    return "accepted"


@contextmanager
def stopped_after(limit: float):
    """An alarm, where there is one: it ends Python's loops, not those of compiled code, which are timed instead."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_):
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def what_is_wrong(target: Target, error: BaseException) -> str:
    """With a refusal, in words; "" where nothing is."""
    said = str(error)
    if target.private and any(MARK in text for text in texts(error)):
        return f"{type(error).__name__} quotes a private value: {said:.200}"
    if type(error) not in (ValueError, TypeError, BudgetError) and not isinstance(error, target.raises):
        return f"{type(error).__module__}.{type(error).__name__}: {said:.200}"
    if not said.strip():
        return f"{type(error).__name__} without a message"
    names = (*target.arguments, *target.words)
    if (
        target.named
        and not isinstance(error, target.raises)
        and not any(re.search(rf"\b{name}\b", said) for name in names)
    ):
        return f"{type(error).__name__} names no argument: {said:.200}"
    return ""


def texts(error: BaseException | None, seen: tuple = ()):
    """All that an exception says, and those that it came from."""
    if error is None or error in seen:
        return
    yield from (str(error), repr(error), repr(error.args), *getattr(error, "__notes__", ()))
    for other in (error.__cause__, error.__context__):
        yield from texts(other, (*seen, error))


def shown(target: Target, arguments: dict) -> str:
    said = []
    for name, value in arguments.items():
        try:
            said.append(f"{name}={value!r:.150}")
        except Exception as error:
            said.append(f"{name}: repr raises {type(error).__name__}")
    return ", ".join(said)


def fuzz(name: str, target: Target, calls: int, tally: Counter) -> None:
    """Hypothesis seeks a finding, and makes it small."""

    @hypothesis.seed(sum(name.encode()))
    @hypothesis.settings(
        max_examples=calls, phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck)
    )
    @hypothesis.given(odd_values.arguments(target))
    def one(arguments):
        tally[called(target, arguments)] += 1

    one()


# The table


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Every row; a path that is wrong lands in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return fuzz_targets.table(tmp_path)


def test_what_a_row_marks_is_among_its_arguments(table):
    """A misspelt name would leave an argument alone, or a private value unprotected."""
    assert len(table) > 200
    for name, target in table.items():
        marked = {*target.tame, *target.fixed, *target.private, *target.odd}
        assert target.arguments.keys() >= marked, name
    assert any(target.private for target in table.values())


def test_every_public_function_has_a_row_or_a_reason(table):
    missing = coverage.without_a_row([target.call for target in table.values()])
    exempt = coverage.exempt()
    assert len(coverage.public_functions()) > 300
    assert len(exempt) == len(set(exempt))
    assert sorted(missing - set(exempt)) == [], "add a row to tests/fuzz_targets, or a reason to its coverage.EXEMPT"
    assert sorted(set(exempt) - missing) == [], "gone, or have a row: take them out of coverage.EXEMPT"


def test_a_function_without_a_row_is_found(table, monkeypatch):
    """Planted: a new function of a module, and a row that is taken out."""

    def planted(sigma):
        return sigma

    planted.__module__ = guarantees.__name__
    monkeypatch.setattr(guarantees, "planted", planted, raising=False)
    calls = [target.call for name, target in table.items() if name != "compose_gdp"]
    found = coverage.without_a_row(calls) - set(coverage.exempt())
    assert found == {"guarantee.guarantees.planted", "accounting.gdp.compose_gdp"}


def test_rows_of_one_name_are_refused():
    """One of them would never be tried."""
    with pytest.raises(ValueError, match="two rows are named 'a'"):
        fuzz_targets.together({"a": None}, {"b": None}, {"a": None})


def test_public_functions_refuse_clearly_or_return_something_valid(table, trials):
    calls = trials("fuzzed calls of public functions", 1_000, 100_000, 0)
    weights, tally, findings = sum(target.weight for target in table.values()), Counter(), []
    for name, target in table.items():
        share = 1 + round(1.02 * calls * target.weight / weights)  # some rows have fewer cases than that
        try:
            fuzz(name, target, share, tally)
        except Finding as finding:
            findings.append(f"{name}: {finding}")
    assert not findings, "\n\n".join([f"{len(findings)} rows:", *findings])
    assert tally.total() >= calls
    assert min(tally["accepted"], tally["rejected"]) > 0.15 * calls  # neither is what always happens


def test_hypothesis_reports_what_it_finds():
    target = Target(lambda data: 1 / (data - 3), {"data": st.integers(0, 9)}, fixed=("data",))
    with pytest.raises(Finding, match="ZeroDivisionError"):
        fuzz("planted", target, 100, Counter())


# Users' values


def outcome(call):
    """What an observer sees: shapes, dtypes and the guarantee, or the exception."""
    try:
        found = call()
    except Exception as error:
        return type(error), str(error)
    shapes = jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), found[0])
    return str(shapes), found[1:]


def entries():
    """Ways in for private data: ``name -> (rows (n, 2) -> (released, guarantee))``."""
    gibo, gains = CASES["dp_gibo"], CASES["dp_gp_ucb, in order"]
    seeded = {"key": jax.random.key(1), "insecure_key": True}

    def scanned(case):
        return lambda rows: drivers.run_scan(
            case.algorithm, case.objective, rows, case.config(1.0), **group_options(**seeded)
        )[:2]

    def looped(rows):
        return drivers.run_loop(
            gibo.algorithm,
            lambda at, data: np.sum((data - at) ** 2, axis=1),
            rows,
            gibo.config(1.0),
            **group_options(**seeded),
        )[:2]

    def minimized(rows):
        options = {"mu": 1.0, "steps": 2, "batch": 2, "noise": "float"}
        return drivers.minimize(
            gibo.objective, rows, {"low": [-1.0, -1.0], "high": [1.0, 1.0]}, **group_options(**options, **seeded)
        )[:2]

    def curated(transform):
        return lambda rows: jaxdpbo.transforms.curate(seeded["key"], transform, rows, insecure_key=True)

    def evaluated(rows):
        objective = jaxdpbo.PrivateObjective(
            lambda _, data: data[:, 0],
            rows,
            users=USERS,
            mu=1.0,
            evaluations=1,
            loss_range=(0.0, 1.0),
            **seeded,
        )
        return objective(0), objective.guarantee

    place = {"centre": [0.0, 0.0], "scale": 1.0, "epsilon": 1.0}
    return {
        "run_scan": scanned(gibo),
        "run_scan of gains": scanned(gains),
        "run_loop": looped,
        "minimize": minimized,
        "curate, product": curated(jaxdpbo.transforms.product_laplace(**place)),
        "curate, response": curated(jaxdpbo.transforms.randomised_response(**place, cells=[[0.0, 0.0], [1.0, 1.0]])),
        "curate, published": curated(
            jaxdpbo.transforms.random_projection(dimension=2, projected=1, epsilon=1.0, delta=0.1)
        ),
        "PrivateObjective": evaluated,
    }


def test_neighbours_get_the_same_shapes_and_the_same_exceptions(trials):
    """Traps 14 and 15: one user's record is replaced by any numbers."""
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        for name, enter in entries().items():
            for _ in range(trials(f"neighbouring data sets through {name}", 4, 400, 1)):
                rows = odd_values.of_any_pattern(rng, USERS, 2)
                neighbour = rows.copy()
                neighbour[rng.integers(USERS)] = odd_values.of_any_pattern(rng, 1, 2)[0]
                assert outcome(lambda enter=enter, rows=rows: enter(rows)) == outcome(
                    lambda enter=enter, rows=neighbour: enter(rows)
                ), name


def test_what_an_objective_raises_is_not_quoted_by_us():
    def secret_telling(point, data):
        raise ValueError(f"bad record {data[0]}")

    case = CASES["dp_gibo"]
    with pytest.raises(jaxdpbo.RunInterrupted) as caught:
        drivers.run_loop(case.algorithm, secret_telling, [0.8642097531], case.config(1.0))
    assert MARK in str(caught.value.__cause__)  # the user's own
    assert MARK not in str(caught.value) + repr(caught.value) + repr(caught.value.args)


# Negative controls: what the harness must see


def quotes_in_the_context(data):
    try:
        return float(data)
    except ValueError:
        raise ValueError("data must be a number") from None


def refuses(error):
    def call(data):
        raise error

    return call


def jax_refuses(data):
    return jax.jit(lambda x: float(x))(1.0)


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        (refuses(KeyError("data")), "KeyError"),
        (refuses(AssertionError("data")), "AssertionError"),
        (refuses(UnicodeDecodeError("utf8", b"", 0, 1, "data")), "UnicodeDecodeError"),
        (refuses(ValueError("")), "without a message"),
        (refuses(ValueError("something is wrong")), "names no argument"),
        (refuses(ValueError("data must be small, got 8642097531")), "quotes a private value"),
        (jax_refuses, "jax"),
        (quotes_in_the_context, "quotes a private value"),
        (lambda data: time.sleep(5), "took"),
        (lambda data: jnp.asarray([1.0, jnp.nan]), "NaN came out"),
        (lambda data: -1.0, "not a valid result"),
        (lambda data: "text", "the result is none"),
    ],
)
def test_the_harness_sees_planted_faults(call, seen):
    target = Target(call, {"data": st.just("x8642097531")}, private=("data",), check=lambda found, _: found >= 0)
    begun = time.perf_counter()
    with pytest.raises(Finding, match=seen):
        called(target, {"data": "x8642097531"}, limit=0.2)
    assert time.perf_counter() - begun < 2


def test_the_neighbour_test_sees_an_exception_that_follows_values():
    def enter(rows):
        if not np.all(np.isfinite(rows)):
            raise ValueError("rows must be finite")
        return rows, None

    rows = np.zeros((USERS, 2))
    assert outcome(lambda: enter(rows)) == outcome(lambda: enter(rows + 1))
    assert outcome(lambda: enter(rows)) != outcome(lambda: enter(rows * np.nan))
    assert outcome(lambda: enter(rows)) != outcome(lambda: enter(rows[1:]))
