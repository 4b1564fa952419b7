"""Whole calls of every entry point for users' values: their draws, the guarantee they return, and the ledger's charge.

As ``test_conformance``, which plays the steps of every algorithm on hundreds of neighbours; here a few neighbours, and
everything between a caller's arguments and the noise: drivers, splits of a budget, compositions, sweeps, integrations.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optuna
import pytest
from neighbour_cases import POINTS, entry_points
from option_groups import group_options
from oracles import conformance
from oracles.accounting import repetition_law
from protocol_cases import BOUNDS, CASES, low_high
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.model_selection import PredefinedSplit

import jaxdpbo
from jaxdpbo import (
    blocks,
    by_person,
    drivers,
    ledger,
    training,
    transforms,
    tuning,
)
from jaxdpbo.accounting import stage
from jaxdpbo.guarantee import assumptions, composed_guarantee
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.integrations.optuna import private_study
from jaxdpbo.integrations.sklearn import PrivateSearchCV
from jaxdpbo.noise import private_mean
from jaxdpbo.noise.mechanisms import tables
from jaxdpbo.testing import draw_costs, tape
from jaxdpbo.training import dp_optim
from jaxdpbo.tuning import joint_tuning, least_epsilon_search, repetition

KEY = {"key": jax.random.key(11), "insecure_key": True}
USERS, HUGE = 6, 1e9
BOX = low_high(BOUNDS)


class Call(NamedTuple):
    """A call of an entry point.

    Attributes:
      enter: ``(data, **options) -> (what leaves, guarantees)``; options are ``KEY``, or a ledger.
      data: the first of all neighbours.
      neighbours: each with the place of the guarantee that covers the difference.
      names: the public functions that are entered, as ``neighbour_cases`` names them.
      attained: the least share of the guarantee that some neighbour costs.
    """

    enter: Callable[..., tuple[Any, Sequence[_guarantee.Guarantee]]]
    data: Any
    neighbours: Sequence[tuple[int, Any]]
    names: tuple[str, ...]
    attained: float = 0.95


@pytest.fixture(scope="module")
def fresh():
    with tape.running() as fresh:
        yield fresh


def own_losses(point, data):
    """Of any sign at different points, as large as the record."""
    return data[:, 0] * jnp.sin(40.0 * jnp.sum(point))


def one_huge(sign: float = 1.0) -> np.ndarray:
    data = np.random.default_rng(0).normal(size=(USERS, 1))
    data[0] = sign * HUGE
    return data


MIRRORED = [(0, one_huge(-1.0)), (0, one_huge(np.nan)), (0, one_huge(0.0))]


def call_minimize(**options):
    def enter(data, **more):
        chosen = {"mu": 1.0, "steps": 4, "batch": 3, "users": USERS, "user_axes": 0} | options | more
        run = drivers.minimize(own_losses, data, BOX, **group_options(**chosen))
        return (run.release, run.method), [run.guarantee]

    return enter


def call_driver(driver, name="dp_gibo", **options):
    case = CASES[name]

    def enter(data, **more):
        chosen = options | more
        run = driver(case.algorithm, own_losses, data, case.config(1.0), **chosen)
        return run.release, [run.guarantee]

    return enter


def call_by_person(data, **more):
    """Two records a person."""
    objective = by_person(lambda point, data: np.asarray(own_losses(point, data)), np.arange(USERS) // 2)
    options = {"mu": 1.0, "steps": 3, "batch": 2, "loss_range": (-1.0, 1.0), "method": "in_order", "traceable": False}
    run = drivers.minimize(objective, data, BOX, **group_options(**options, **more))
    return run.release, [run.guarantee]


def call_blocks(data, **more):
    objective = blocks(lambda point, train, held_out: float(own_losses(point, train[:1])[0]), USERS, 3)
    options = {"mu": 1.0, "steps": 3, "batch": 2, "loss_range": (-1.0, 1.0), "method": "in_order"}
    run = drivers.minimize(objective, data, BOX, **group_options(**options, **more))
    return run.release, [run.guarantee]


def first_trained_row() -> int:
    return int(blocks(lambda *_: 0.0, USERS, 3).partition[0].train[0])


def with_row(row: int, value: float) -> np.ndarray:
    data = one_huge(0.0)
    data[row] = value
    return data


def call_objective(**options):
    def enter(data, **more):
        chosen = {"users": USERS, "mu": 1.0, "evaluations": 3, "loss_range": (-1.0, 1.0)} | options | more
        private = drivers.PrivateObjective(own_losses, data, **chosen)
        return [private(np.array(point)) for point in ([0.1], [0.3], [0.1])], [private.guarantee]

    return enter


def call_study(data, **more):
    budget = {"mu": 1.0} | {name: more.pop(name) for name in PAIR if name in more}
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    private = private_study(
        optuna.create_study(sampler=optuna.samplers.RandomSampler(0)),
        lambda trial: {"x": trial.suggest_float("x", 0, 1)},
        lambda params, data: np.asarray(own_losses(np.array([params["x"]]), data)),
        data,
        **group_options(users=USERS, evaluations=3, loss_range=(-1.0, 1.0), **budget, **more),
    )
    private.optimize()
    return [trial.value for trial in private.study.trials], [private.guarantee]


def call_search_cv(labels, **more):
    """Each label is right by one setting and wrong by the other."""
    budget = {"mu": 1.0} | {name: more.pop(name) for name in PAIR if name in more}
    inputs, fold = np.zeros((4 + len(labels), 1)), PredefinedSplit([-1] * 4 + [0] * len(labels))
    search = PrivateSearchCV(
        DummyClassifier(strategy="constant"), {"constant": [0, 1]}, n_iter=2, cv=fold, refit="train",
        **group_options(method="in_order", **budget, **more),
    )  # fmt: skip
    found = search.fit(inputs, np.concatenate([[0, 1, 0, 1], labels]))
    return found.best_params_, [found.guarantee_]


def call_search_cv_of_all_rows(targets, **more):
    search = PrivateSearchCV(
        DummyRegressor(strategy="constant"), {"constant": [0.0, 1.0]}, n_iter=2, protect="all", n_blocks=2,
        loss_range=(0, 1), **group_options(mu=1.0, method="in_order", **more),
    )  # fmt: skip
    found = search.fit(np.zeros((len(targets), 1)), targets)
    return found.best_params_, [found.guarantee_]


def call_curate(config):
    def enter(rows, **more):
        key = more.pop("key", None)
        found = transforms.curate(key, config, rows, **more)
        return found.z, [found.guarantee]

    return enter


CENTRED = {"centre": [0.0, 0.0], "scale": 1.0, "epsilon": 2.0}
ROWS = np.array([[0.3, 1.0], [-0.7, 0.2], [1.5, -0.5]])


def with_first(row: Sequence[float]) -> np.ndarray:
    return np.concatenate([[row], ROWS[1:]])


def rows_at(distance: float) -> list[tuple[int, np.ndarray]]:
    """Replacements of the first row at that distance."""
    angles = np.linspace(0.0, 2 * np.pi, 200, endpoint=False)
    return [(0, with_first(ROWS[0] + distance * np.array([np.cos(a), np.sin(a)]))) for a in angles]


DIAGONAL = [(0, with_first(ROWS[0] + np.array(sign) / 2**0.5)) for sign in ([1, 1], [1, -1], [-1, 1], [-1, -1])]
FAR = [(0, with_first(row)) for row in ([-1e9, -1e9], [1e300, 0.0], [np.nan, 1.0], [0.0, 0.0])]
CURATE = ("transforms.curation.curate",)

TARGETS, RECORDS = np.random.default_rng(1).normal(size=20), 20
FEATURES = np.random.default_rng(2).normal(size=(RECORDS, 2))
SETTINGS = [{"learning_rate": rate, "batch": RECORDS, "epochs": 3, "clip_norm": 1.0} for rate in (1e-3, 1e-2)]
TUNED = {"epsilon": 3.0, "delta": 1e-3}


def examples(label: float, held_out: float = 0.0, unseen: float = 0.5):
    """Rows to train and to score: the first of each has this label; of rows to score, the second chooses nothing."""
    features, labels = FEATURES.copy(), TARGETS.copy()
    features[0], labels[0] = 1e3, label
    others = np.zeros((RECORDS, 2)), np.concatenate([[held_out, unseen], np.full(RECORDS - 2, 0.5)])
    return (features, labels), others


def regression(noise: str = "exact"):
    return tuning.DPSGD(training.regression(2), noise=noise)


def call_private_front(data, **more):
    rows, validation = data
    found = tuning.private_front(
        regression(), rows, SETTINGS, validation=validation, count=3, levels=[1.0, 2.0], **TUNED, **more
    )
    return (found.settings, found.errors, found.models), found.guarantees


LOOP, SCAN, MINIMIZE = (f"drivers.{name}" for name in ("loop.run_loop", "scan.run_scan", "minimization.minimize"))
OBJECTIVE = "drivers.private_objective.PrivateObjective"
SEARCH_CV = "integrations.sklearn.search.PrivateSearchCV.fit"
BLOCK_ROW = first_trained_row()
RANGE = {"loss_range": (-1.0, 1.0)}
PAIR = {"mu": None, "epsilon": 1.0, "delta": 1e-5}
CALLS = {
    "minimize, local": Call(call_minimize(), one_huge(), MIRRORED, (MINIMIZE,)),
    "minimize, start_then_local": Call(
        call_minimize(method="start_then_local", steps=5, **RANGE), one_huge(), MIRRORED, (MINIMIZE,)
    ),
    "minimize, choice": Call(call_minimize(method="choice", **RANGE), one_huge(), MIRRORED, (MINIMIZE,)),
    "minimize, in_order, an estimate": Call(
        call_minimize(method="in_order", estimate_share=0.3, **RANGE), one_huge(), MIRRORED, (MINIMIZE,)
    ),
    "minimize, evaluations": Call(call_minimize(method="evaluations", **RANGE), one_huge(), MIRRORED, (MINIMIZE,)),
    "minimize, public records": Call(
        call_minimize(public=np.ones((3, 1)), **PAIR, **RANGE), one_huge(), MIRRORED, (MINIMIZE,)
    ),
    "minimize, local, epsilon": Call(call_minimize(**PAIR), one_huge(), MIRRORED, (MINIMIZE,)),
    "minimize, start_then_local, epsilon": Call(
        call_minimize(method="start_then_local", steps=5, **PAIR, **RANGE), one_huge(), MIRRORED, (MINIMIZE,)
    ),
    "minimize, choice, epsilon": Call(
        call_minimize(method="choice", **PAIR, **RANGE), one_huge(), MIRRORED, (MINIMIZE,), 0.93
    ),
    "minimize, in_order, epsilon": Call(
        call_minimize(method="in_order", **PAIR, **RANGE), one_huge(), MIRRORED, (MINIMIZE,)
    ),
    "minimize, in_order, an estimate, epsilon": Call(
        call_minimize(method="in_order", estimate_share=0.3, **PAIR, **RANGE), one_huge(), MIRRORED, (MINIMIZE,)
    ),
    "minimize, evaluations, epsilon": Call(
        call_minimize(method="evaluations", **PAIR, **RANGE), one_huge(), MIRRORED, (MINIMIZE,)
    ),
    "run_scan": Call(call_driver(drivers.run_scan), one_huge(), MIRRORED, (SCAN,)),
    "run_loop": Call(call_driver(drivers.run_loop), one_huge(), MIRRORED, (LOOP,)),
    "by_person": Call(
        call_by_person, one_huge(), [(0, with_row(0, -HUGE)), *MIRRORED], ("separable.by_person.ByPerson",)
    ),
    "blocks": Call(
        call_blocks, with_row(BLOCK_ROW, HUGE), [(0, with_row(BLOCK_ROW, -HUGE))], ("separable.blocks.Blocks",)
    ),
    "PrivateObjective": Call(call_objective(), one_huge(), MIRRORED, (OBJECTIVE,)),
    "PrivateObjective, private range": Call(
        call_objective(loss_range="private", design=[np.zeros(1), np.full(1, 0.2)]), one_huge(), MIRRORED,
        (OBJECTIVE,), 0.9,
    ),
    "PrivateObjective, epsilon": Call(call_objective(**PAIR), one_huge(), MIRRORED, (OBJECTIVE,)),
    "private_study": Call(
        call_study, one_huge(), MIRRORED, (
            "integrations.optuna.study.private_study", "integrations.optuna.study.PrivateStudy"
        ),
    ),
    "private_study, epsilon": Call(
        partial(call_study, **PAIR), one_huge(), MIRRORED, ("integrations.optuna.study.private_study",)
    ),
    "PrivateSearchCV": Call(
        call_search_cv, np.array([0, 1, 1, 0, 1, 0]), [(0, np.array([1, 1, 1, 0, 1, 0]))], (SEARCH_CV,)
    ),
    "PrivateSearchCV, epsilon": Call(
        partial(call_search_cv, **PAIR), np.array([0, 1, 1, 0, 1, 0]), [(0, np.array([1, 1, 1, 0, 1, 0]))], (SEARCH_CV,)
    ),
    "PrivateSearchCV, all rows": Call(
        call_search_cv_of_all_rows, np.zeros(8), [(0, np.eye(8)[row]) for row in range(8)], (SEARCH_CV,)
    ),
    "curate, product_laplace": Call(
        call_curate(transforms.product_laplace(**CENTRED)), ROWS, rows_at(0.99999) + DIAGONAL, CURATE
    ),
    "curate, product_laplace of a ball": Call(
        call_curate(transforms.product_laplace(**CENTRED, radius=2.0)), with_first([1e9, 1e9]), FAR, CURATE
    ),
    "curate, planar_laplace": Call(call_curate(transforms.planar_laplace(**CENTRED)), ROWS, rows_at(0.99999), CURATE),
    "curate, gaussian": Call(
        call_curate(transforms.gaussian(**CENTRED, delta=1e-5, radius=4.0)), with_first([1e9, 1e9]), FAR, CURATE
    ),
    "private_front": Call(
        call_private_front, examples(HUGE), [(0, examples(-HUGE)), (1, examples(HUGE, HUGE))],
        ("tuning.front.private_front",), 0.5,
    ),
}  # fmt: skip


def variation_of(draw: tape.Draw) -> float:
    """The total variation of a draw from ideal noise, by the theorems about tables."""
    size, rate = draw.onto.size, Fraction(draw.scale)
    if draw.mechanism.startswith("exact Gaussian"):
        bits = 64 if "64" in draw.mechanism else 128
        return size * tables.gaussian_total_variation(int(draw.scale), bits)
    if draw.mechanism == "exact Laplace":
        return 2 * size * tables.geometric_total_variation(rate)
    if draw.mechanism == "exact planar Laplace":
        return len(draw.onto) * tables.planar_total_variation(rate)
    return 2.0**-128 if draw.mechanism == "choice" else 0.0


def attained_by(pairs: Sequence[draw_costs.Term], delta: float) -> float:
    """The ``attained_epsilon`` of draws."""
    choices = [pair for pair in pairs if "choice" in pair[0]]
    etas = [eta for _, rate, one, other in choices if (eta := draw_costs.choice_epsilon(one, other, rate)) > 0]
    level = draw_costs.level_of([pair for pair in pairs if "choice" not in pair[0]])
    return conformance.attained_epsilon(level, etas, delta) if etas else conformance.epsilon_at(level, delta)


def share_of(stated: _guarantee.Guarantee, pairs: Sequence[tape.Pair]) -> float:
    """What the draws cost, as a share of the guarantee in its own notion."""
    pairs = tape.terms(pairs)
    if stated.notion == "gdp":
        return draw_costs.level_of(pairs) / stated.level
    if not stated.delta:
        return draw_costs.epsilon_of(pairs) / stated.level
    return attained_by(pairs, stated.delta) / stated.level


@pytest.mark.parametrize("name", CALLS)
def test_a_call_draws_what_it_states(name, fresh, record_property):
    record_property("conformance", {"route": name} | check(CALLS[name], fresh))


def check(call: Call, fresh) -> dict[str, Any]:
    """A row of the table of routes; an AssertionError unless some neighbour costs each guarantee and none more."""
    recording = fresh()
    (released, stated), draws = recording.record(lambda: call.enter(call.data, **KEY))
    assert draws, "nothing is drawn"
    shares = dict.fromkeys(range(len(stated)), 0.0)
    for place, data in call.neighbours:
        (of_other, again), pairs = recording.play(lambda data=data: call.enter(data, **KEY))
        assert len(pairs) == len(draws), "values decide how much is drawn"
        assert again == stated, "values decide what is stated"
        same = jax.tree.map(lambda one, two: np.array_equal(one, two), released, of_other)
        assert all(jax.tree.leaves(same)), "something but the draws depends on a record"
        shares[place] = max(shares[place], share_of(stated[place], pairs))
        changed = sum(variation_of(new) for old, new in pairs if not np.array_equal(old.onto, new.onto))
        assert changed <= stated[place].total_variation * (1 + 1e-9), "the variation of noise is not stated"
    floats = any(draw.mechanism.startswith("float") for draw in draws)
    assert all(floats == (assumptions.IDEAL_NOISE in each.assumptions) for each in stated)
    assert max(shares.values()) <= 1 + 1e-6, f"more is drawn than is charged: {shares}"
    assert min(shares.values()) >= call.attained, f"less is drawn than is charged: {shares}"
    return {
        "draws": tape.summary(draws), "neighbours": len(call.neighbours),
        "composed": ", ".join(f"{share * each.level:.4f}" for share, each in zip(shares.values(), stated, strict=True)),
        "stated": ", ".join(f"{each.notion} {each.level:.4f}" for each in stated),
    }  # fmt: skip


def is_tight(profile: Callable[[float], float], level: float) -> bool:
    """Whether a profile is that of a Gaussian level, above it by at most 5 % of the level."""
    at = [profile(epsilon) for epsilon in (0.1, 0.5, 1.0)]
    least, most = ([conformance.delta_of(level * more, e) for e in (0.1, 0.5, 1.0)] for more in (1.0, 1 / 0.95))
    return all(low * (1 - 1e-6) <= value <= high for low, value, high in zip(least, at, most, strict=True))


def make_training(noise: str, records: int = RECORDS, batch: int = RECORDS):
    """A training alone, and its cost."""
    algorithm, setting = regression(noise), SETTINGS[0] | {"batch": batch, "epochs": 4}

    def enter(data):
        return algorithm.fit(setting, 2.0, data[0], KEY["key"])

    return enter, algorithm.cost(setting, 2.0, records)


def training_levels(fresh, noise: str, **sizes) -> tuple[list[float], Any]:
    """The level of each step between two mirrored examples; and what the training states."""
    enter, cost = make_training(noise, **sizes)
    recording = fresh()
    _, draws = recording.record(enter, examples(HUGE))
    _, pairs = recording.play(enter, examples(-HUGE))
    assert {draw.mechanism for draw in draws} == {"float Gaussian" if noise == "float" else "exact Gaussian of 64 bits"}
    assert len(pairs) == len(draws) > 0
    return [draw_costs.level_of(tape.terms([pair])) for pair in pairs], cost


@pytest.mark.parametrize("noise", ["exact", "float"])
def test_a_training_of_whole_batches_draws_what_it_states(noise, fresh, record_property):
    check_training(noise, fresh, record_property)


def check_training(noise, fresh, record_property=lambda *_: None) -> None:
    levels, cost = training_levels(fresh, noise)
    level = float(np.linalg.norm(levels))
    assert is_tight(cost.profile, level)
    composed, stated = conformance.epsilon_at(level, 1e-5), cost.epsilon(1e-5)
    row = {"composed": f"{composed:.4f}", "stated": f"dp {stated:.4f} at delta=1e-5", "neighbours": 1}
    record_property("conformance", {"route": f"DP-SGD, {noise}", "draws": f"{len(levels)} Gaussian"} | row)


@pytest.mark.parametrize("noise", ["exact", "float"])
def test_a_row_is_in_as_many_batches_as_are_charged_and_moves_each_by_the_sensitivity(noise, fresh):
    levels, _ = training_levels(fresh, noise, batch=RECORDS // 4)
    moved = [level for level in levels if level > 0]
    assert len(levels) == 16
    assert 1 <= len(moved) <= 8  # 4 on average
    assert max(moved) <= (1 + 1e-6) / 2.0
    assert min(moved) >= 0.95 / 2.0


def runs_and_error(pairs):
    """The pairs of draws of each run of a search, which ends with its score, and of the error measured at last."""
    ends = [place for place, (draw, _) in enumerate(pairs) if draw.mechanism == "exact Gaussian"]
    *runs, error = [pairs[start:end] for start, end in itertools.pairwise([0, *(end + 1 for end in ends)])]
    assert sum(map(len, runs)) + len(error) == len(pairs)
    return runs, error


def expect_only_the_error_sees(pairs, guarantee):
    """A row that takes no part in the choice moves the error alone, by what the guarantee of these rows allows."""
    runs, error = runs_and_error(pairs)
    assert all(np.array_equal(draw.onto, new.onto) for run in runs for draw, new in run)
    level = draw_costs.level_of(tape.terms(error))
    assert 0.5 * guarantee.level < conformance.epsilon_at(level, guarantee.delta) <= guarantee.level  # .75 of a range


def call_tune_and_train(data, **more):
    rows, validation = data
    found = tuning.tune_and_train(regression(), rows, SETTINGS, validation=validation, mean=3.0, **TUNED, **more)
    return (found.model, found.setting), found.guarantees


def test_each_run_of_a_selection_draws_what_a_run_costs(fresh, monkeypatch, record_property):
    """And the number of runs has the law of the theorem (``test_selection_accounting`` is about its cost)."""
    stated, real = {}, joint_tuning.selection.selection_guarantees
    monkeypatch.setattr(
        joint_tuning.selection,
        "selection_guarantees",
        lambda *arguments: stated.update(zip(signature(real).parameters, arguments, strict=True)) or real(*arguments),
    )
    recording = fresh()
    (released, guarantees), draws = recording.record(lambda: call_tune_and_train(examples(HUGE), **KEY))
    (train, _), (_, score) = examples(-HUGE), examples(HUGE, HUGE)
    for rows, data in (("training rows", (train, examples(HUGE)[1])), ("validation rows", (examples(HUGE)[0], score))):
        (of_other, again), pairs = recording.play(lambda data=data: call_tune_and_train(data, **KEY))
        assert again == guarantees
        assert all(jax.tree.leaves(jax.tree.map(np.array_equal, released, of_other)))
        runs, error = runs_and_error(pairs)
        assert len(pairs) == len(draws)
        assert all(np.array_equal(draw.onto, new.onto) for draw, new in error)  # of rows that it does not see
        (cost, *others) = stated["costs"][rows] if rows == "training rows" else [stated["costs"][rows]]
        assert all(other.profile(0.5) == pytest.approx(cost.profile(0.5), rel=1e-3) for other in others)
        for run in runs:
            assert is_tight(cost.profile, draw_costs.level_of(tape.terms(run)))
            variation = sum(variation_of(new) for _, new in run)
            assert 0.5 * stated["run_total_variation"] <= variation <= stated["run_total_variation"] * (1 + 1e-9)
        row = {"draws": tape.summary([new for _, new in run]), "neighbours": 1}
        row |= {"route": f"tune_and_train, a run, {rows}", "stated": f"dp {cost.epsilon(1e-5):.4f} at delta=1e-5"}
        row |= {"composed": f"{conformance.epsilon_at(draw_costs.level_of(tape.terms(run)), 1e-5):.4f}"}
        record_property("conformance", row)
    _, pairs = recording.play(lambda: call_tune_and_train(examples(HUGE, 0.0, HUGE), **KEY))
    expect_only_the_error_sees(pairs, guarantees[1])
    law = stated["repetitions"]
    assert (law.eta, law.mean) == (joint_tuning.ETA, 3.0)
    assert all(each.total_variation >= law.mean * stated["run_total_variation"] for each in guarantees)
    table = repetition.table(law)
    chances = np.diff([0, *table.ends]).astype(float) / 2.0**repetition.BITS
    wanted = list(map(float, repetition_law(law.eta, law.gamma, len(chances))))
    np.testing.assert_allclose(chances, wanted, rtol=1e-9, atol=1e-20)
    assert chances @ np.arange(1, len(chances) + 1) == pytest.approx(law.mean)


def test_each_run_of_a_search_for_the_least_epsilon_draws_what_its_level_costs(fresh, monkeypatch, record_property):
    """Training rows: the noise of the run's level; validation rows: the same at every level."""
    noises, plans, fit, plan = [], [], tuning.DPSGD.fit, least_epsilon_search._plan
    monkeypatch.setattr(tuning.DPSGD, "fit", lambda *given: noises.append(given[2]) or fit(*given))
    monkeypatch.setattr(least_epsilon_search, "_plan", lambda *given: plans.append(plan(*given)) or plans[-1])
    options = {"error": 0.1, "epsilons": (1.0, 3.0), "delta": 1e-3, "mean": 8.0} | KEY

    def enter(data):
        rows, validation = data
        return tuning.least_epsilon(regression(), rows, SETTINGS, validation=validation, **options)

    recording = fresh()
    found, draws = recording.record(lambda: enter(examples(HUGE)))
    of_runs, (train, _), (_, score) = list(noises), examples(-HUGE), examples(HUGE, HUGE)
    assert len(set(of_runs)) > 1, "several levels"
    for rows, data in (("training rows", (train, examples(HUGE)[1])), ("validation rows", (examples(HUGE)[0], score))):
        again, pairs = recording.play(lambda data=data: enter(data))
        assert again.guarantees == found.guarantees
        runs, error = runs_and_error(pairs) if found.reached else (runs_and_error([*pairs, pairs[-1]])[0], [])
        assert len(runs) == len(of_runs)
        assert all(np.array_equal(draw.onto, new.onto) for draw, new in error)
        for noise, run in zip(of_runs, runs, strict=True):
            cost = regression().cost(SETTINGS[0], noise, len(train[1]))
            if rows == "validation rows":
                cost = stage.gaussian_stage(composed_guarantee.gdp_guarantee(plans[0].score, rows).level)
            assert is_tight(cost.profile, draw_costs.level_of(tape.terms(run)))
            variation = sum(variation_of(new) for _, new in run)
            assert all(each.total_variation >= options["mean"] * variation * (1 - 1e-9) for each in found.guarantees)
    for level, of_level in zip(options["epsilons"], plans[0].noises, strict=True):
        profiles = [regression().cost(SETTINGS[0], noise, len(train[1])).profile for noise in of_level]
        assert all(profile(level) < 1e-3 / options["mean"] for profile in profiles)
    record_property("conformance", {"route": "least_epsilon, runs", "draws": tape.summary(draws), "neighbours": 2})


def test_a_sweep_draws_what_each_config_states(fresh):
    """Configs and seeds are rows of one program: every key is its own, and every noise its config's."""
    case, levels = CASES["dp_gibo"], (0.5, 1.0)
    configs = [case.config(level) for level in levels]

    def enter(data):
        return drivers.sweep(case.algorithm, own_losses, data, configs, seeds=2, key=jax.random.key(3))

    recording = fresh()
    found, draws = recording.record(enter, one_huge())
    assert len(draws) == 2 * sum(config.steps for config in configs)
    _, pairs = recording.play(enter, one_huge(-1.0))
    assert len(pairs) == len(draws)
    costs = [draw_costs.level_of(tape.terms([pair])) ** 2 for pair in pairs]
    stated = [each.level**2 / config.steps for each, config in zip(found.guarantees, configs, strict=True)]
    least, most = np.repeat(np.sort(stated), 2 * configs[0].steps) * [[0.95**2], [1 + 1e-6]]
    assert all(least <= np.sort(costs))
    assert all(np.sort(costs) <= most)


def charge_call(path, stated: _guarantee.Guarantee, data, call: Call, recording: Any) -> ledger.Account:
    """What a ledger says after a call that was charged to it."""
    of_ledgers = _guarantee.USERS, _guarantee.ALL_ROWS  # an estimator's guarantee leaves out more, in words of its own
    protects = next((users for users in of_ledgers if stated.protects.startswith(users)), stated.protects)
    ledger.create(
        path, notion=stated.notion, level=100, delta=0.5, total_variation=0.5, protects=protects,
        relation=stated.relation, unit=stated.unit,
    )  # fmt: skip
    call.enter(data, ledger=recording)
    return ledger.account(path)


# Of pairs one: the others charge by the same line (tests/test_whole_epsilon.py).
CHARGED = {name for name in CALLS if not name.endswith("epsilon")} | {"minimize, in_order, an estimate, epsilon"}


@pytest.mark.parametrize("name", sorted(CHARGED - {"run_scan", "private_front"}))
def test_a_ledger_is_charged_the_whole_guarantee(name, tmp_path, record_property):
    """Of the call that is made: the level, the delta and the total variation."""
    call, path = CALLS[name], tmp_path / "ledger"
    _, (stated,) = call.enter(call.data, **KEY)
    spent = charge_call(path, stated, call.data, call, jaxdpbo.Recording(path, "run")).spent
    charged = Fraction(stated.level) ** (2 if stated.notion == "gdp" else 1)
    assert Fraction(0) <= spent.cost - charged <= Fraction(1, 10**12)
    assert spent.total_variation >= Fraction(stated.total_variation)
    assert spent.delta >= Fraction(stated.delta)
    level = float(spent.cost) ** (0.5 if stated.notion == "gdp" else 1)
    record_property("conformance", {"route": name, "charged": f"{stated.notion} {level:.4f}"})


PLAYED = {name for call in CALLS.values() for name in call.names} | {
    "tuning.joint_tuning.tune_and_train",
    "tuning.least_epsilon_search.least_epsilon",
    "drivers.seed_sweep.sweep",
}
# Entry points without a call of their own here, by the reason.
UNPLAYED = {
    "what is drawn is the caller's": "tuning.selection.private_selection",
    "private steps on encoded columns, in tests/test_private_steps.py": (
        "integrations.sklearn.private_models.PrivateClassifier.fit "
        "integrations.sklearn.private_models.PrivateRegressor.fit"
    ),
    "no draw, a hash of public values": "drivers.recorded_run.make_subject",
    "a share of noise, in tests/test_silos.py": "silos.silo.Silo",
    "run_scan in parts: the bits of a run in one": "drivers.checkpoint.begin_checkpoint drivers.checkpoint.finish",
    "inside of a call": "drivers.result.to_arrays drivers.scan.scan_prepared drivers.loop.loop_prepared "
    "drivers.separability.prepare_objective "
    "drivers.separability.expect_separable separable.objectives.CheckedObjective separable.objectives.PerUser",
}


def test_every_entry_point_for_users_values_is_played():
    """``neighbour_cases`` finds them by the names of their parameters."""
    entered = {name for point in POINTS.values() for name in point.names}
    assert entry_points() & PLAYED
    assert entered - PLAYED == {name for names in UNPLAYED.values() for name in names.split()}


def draw_floats(monkeypatch):
    """Exact noise of DP-SGD drawn as floats, and rounded."""
    monkeypatch.setattr(
        dp_optim, "_noise",
        lambda key, count: jnp.rint(dp_optim.SIGMA * jax.random.normal(key, (count,))).astype(jnp.int32),
    )  # fmt: skip


def halve_sensitivity(monkeypatch):
    """Of float DP-SGD: as if a row were removed and none put in its place."""
    monkeypatch.setattr(dp_optim.sensitivity, "clipped_sum", lambda clip_norm: clip_norm)


def halve_noise(monkeypatch):
    """Of several evaluations of a step, the noise is for one."""
    real = private_mean.perturb_losses
    monkeypatch.setattr(
        private_mean, "perturb_losses",
        lambda key, budget, *rest: real(key, dataclasses.replace(budget, sigma=budget.sigma // 2), *rest),
    )  # fmt: skip


PLANTS = {
    "float noise in exact DP-SGD": (
        draw_floats, lambda fresh: check_training("exact", fresh)
    ),
    "no factor of two in float DP-SGD": (
        halve_sensitivity, lambda fresh: check_training("float", fresh)
    ),
    "half of the noise of each evaluation": (
        halve_noise, lambda fresh: check(CALLS["PrivateObjective"], fresh)
    ),
}  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_seen(plant, fresh, monkeypatch):
    change, play = PLANTS[plant]
    jax.clear_caches()
    change(monkeypatch)
    try:
        with pytest.raises(AssertionError):
            play(fresh)
    finally:
        monkeypatch.undo()
        jax.clear_caches()
