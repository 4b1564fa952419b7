"""Train a linear model by private steps, and measure its error once: no budget pays for a choice of settings.

Four fifths of the rows train (``algorithms.private_linear``), and one fifth, by a public permutation of row numbers,
measures the released model. A row is in one of both parts, so each part spends the whole budget. Ranges that nobody
stated are found in the rows that train, for a share of their budget.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import notes, silence
from jaxdpbo.algorithms import private_linear
from jaxdpbo.drivers import compiled_run, recorded_run
from jaxdpbo.guarantee import assumptions, budget_calibration, composed_guarantee, recording, release_key
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.ledger.fingerprints import fingerprint
from jaxdpbo.noise import keys
from jaxdpbo.tuning import fitting, measured_error, private_ranges

EITHER = f"{private_linear.PART}, and on other rows the error: the larger of both"  # two parts of disjoint rows


class Release(NamedTuple):
    """All that is released: ``weights (d, k)``, what was measured, and found ranges."""

    weights: np.ndarray
    measured: measured_error.Measured
    found: private_ranges.Found | None


class StepsResult(NamedTuple):
    """Everything you may publish: the release, the guarantee of all rows, and notes on what comes from a ledger."""

    release: Release
    steps: int
    guarantee: _guarantee.Guarantee
    said: notes.Notes


class _Rows(NamedTuple):
    """Raw: features, labels, weights, and the number of rows of each row's person; None for equal ones."""

    features: np.ndarray
    labels: np.ndarray
    weights: np.ndarray | None
    counts: np.ndarray | None
    held: np.ndarray
    kept: np.ndarray


_Split: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # of ``_split``


class Plan(NamedTuple):
    """What trains and what measures, at one level; what finds ranges is a part of the training."""

    linear: private_linear.Config
    error: measured_error.Config
    ranges: private_ranges.Config | None = None


@silence.numeric_checks_off()
def train_by_steps(
    features: np.ndarray,
    labels: np.ndarray,
    classes: int,
    *,
    weights: np.ndarray | None = None,
    mean_weight: float = 1.0,
    owners: np.ndarray | None = None,
    sought: private_ranges.Sought | None = None,
    public: Sequence[object] = (),
    epsilon: float,
    delta: float,
    ledger: recording.Recording | None,
    key: jax.Array | None,
    insecure_key: bool,
) -> StepsResult:
    """Train, ``(epsilon, delta)``-DP for everything returned.

    Args:
      features: ``(n, d)`` of l2 norm at most 1.
      labels: ``(n,)``: class numbers with -1 for none, or for a regression targets in [-1, 1] with NaN for none.
      classes: the number of classes; 0 for a regression.
      weights: ``(n,)``, of each row, in [0, 1]; None for equal weights.
      mean_weight: what ``weights`` are in the mean, as far as the public knows.
      owners: ``(n,)``, the person of each row, whole numbers from 0, public; None if each row is a user.
      sought: the columns without ranges; the values of ``features`` and ``labels`` then do not count, but their shapes.
      public: what else a run in a ledger is bound to, such as the names and ranges of columns.
      epsilon: of the replacement of one row.
      delta: with ``epsilon``.
      ledger: charged after all is compiled and all noise of the error is drawn, and before the first row trains; the
        same call again returns the release that the ledger holds.
      key: see ``minimize``.
      insecure_key: see ``minimize``.

    Raises:
      ValueError: a budget so small that no noise suffices.
      ledger.LedgerError: the budget does not suffice, the name belongs to another run, or the run ended in a draw.
    """
    keys.refuse_trace("the key of a fit")
    (held, kept, counts), plan, guarantee = plan_rows(
        len(labels),
        owners,
        features.shape[1],
        classes,
        weight=None if weights is None else mean_weight,
        unknown=(0, 0.0) if sought is None else (sought.numbers.shape[1], sought.share),
        epsilon=epsilon,
        delta=delta,
        ledger=ledger,
    )
    secret, guarantee = release_key.for_release(key, guarantee, insecure_key)
    of_training, of_error, *others = jax.random.split(secret, 2 if plan.ranges is None else 3)
    compiled, noise = _compile(plan.linear, of_training), measured_error.draw_noise(of_error, plan.error)
    of_ranges = None if plan.ranges is None else private_ranges.draw_noise(others[0], plan.ranges)
    rows = _Rows(features, labels, weights, counts, held, kept)

    def release() -> Release:
        found, scaled = None, rows
        if sought is not None and plan.ranges is not None and of_ranges is not None:
            people_of = None if counts is None else counts[kept]
            found = private_ranges.find(of_ranges, plan.ranges, sought.numbers[kept], people_of)  # training rows alone
            scaled = rows._replace(**dict(zip(("features", "labels"), sought.rescale(found.ranges), strict=True)))
        trained = np.asarray(compiled(_training_data(scaled, plan.linear), plan.linear, of_training))
        return Release(trained, _measure(noise, plan.error, trained, scaled), found)

    released, said = (release(), ()) if ledger is None else _on_record(ledger, guarantee, plan, owners, public, release)
    return StepsResult(released, plan.linear.steps - 1, guarantee, said)


def _training_data(rows: _Rows, config: private_linear.Config) -> jax.Array:
    parts = [rows.features, *(part[:, None] for part in (rows.labels, rows.weights, rows.counts) if part is not None)]
    return jnp.asarray(np.concatenate([part[rows.kept] for part in parts], axis=1), config.clip_norms.dtype)


def _measure(
    noise: np.ndarray, config: measured_error.Config, trained: np.ndarray, rows: _Rows
) -> measured_error.Measured:
    predicted = predict(rows.features[rows.held] @ trained, config.classes)
    counts = None if rows.counts is None else rows.counts[rows.held]
    return measured_error.measure(noise, config, predicted, rows.labels[rows.held], counts)


def _on_record(
    ledger: recording.Recording,
    guarantee: _guarantee.Guarantee,
    plan: Plan,
    owners: np.ndarray | None,
    public: Sequence[object],
    release: Callable[[], Release],
) -> tuple[Release, notes.Notes]:
    """Charge, release, and store the release; or return the release that the same call stored before.

    A call that ended before its first draw goes on under its charge. One that ended in a draw has spent it, as a
    compiled run: somebody may have seen the draw. So Ctrl-C waits for the end of the draws.

    Raises:
      ledger.LedgerError: the budget does not suffice, the name belongs to another run, or the run ended in a draw.
    """
    shape = plan.linear.users, plan.linear.features
    subject = recorded_run.Subject("private steps", fingerprint(shape), fingerprint(owners))
    what = "a private model by steps"
    journal, charged = recorded_run.begin_journal(ledger, what, guarantee, tuple(plan), *public, subject=subject)
    if charged.release is not None:
        return _from_record(recorded_run.load_release(charged, _like(plan))), subject.notes(charged)
    if charged.steps:
        recording.expect_first(journal.recording, charged)
    with recording.hold_interrupts():
        journal.write({"draws": what}, after=0)
        drawn = jax.tree.map(np.asarray, release())
        stored = recorded_run.record_release(journal.recording, journal.charge, drawn)
    return _from_record(stored), ()


def _like(plan: Plan) -> Release:
    """A release of the shapes and dtypes of this plan, as it is read from a ledger."""
    dtype, classes = plan.linear.clip_norms.dtype, plan.error.classes
    table = np.zeros((classes + 1, classes)) if classes else None
    measured = measured_error.Measured(0.0, 0.0, 0.0, 0.0, table, 0.0, 0)
    columns = 0 if plan.ranges is None else plan.ranges.columns
    found = private_ranges.Found(np.zeros((columns, 2)), np.zeros(columns, bool)) if columns else None
    weights = np.zeros((plan.linear.features, plan.linear.outputs), dtype)
    return jax.tree.map(np.asarray, Release(weights, measured, found))


def _from_record(stored: Any) -> Release:
    """A stored release in NumPy's arrays and Python's numbers."""
    return jax.tree.map(lambda leaf: np.asarray(leaf) if leaf.ndim else leaf.item(), stored)


def plan_rows(
    rows: int,
    owners: np.ndarray | None,
    features: int,
    classes: int,
    *,
    weight: float | None,
    unknown: tuple[int, float],
    epsilon: float,
    delta: float,
    ledger: recording.Recording | None,
) -> tuple[_Split, Plan, _guarantee.Guarantee]:
    """Split the rows, and calibrate both parts; of the rows, reads their number and their people alone.

    Args:
      rows: ``n``.
      owners: see ``train_by_steps``.
      features: ``d``.
      classes: see ``train_by_steps``.
      weight: what the weights are in the mean; None for equal ones.
      unknown: the number of columns without a range, and their share of the budget.
      epsilon: see ``train_by_steps``.
      delta: see ``train_by_steps``.
      ledger: for the notion of its budget.
    """
    held, kept, counts = split = _split(rows, owners)
    people = None if counts is None else round(float(np.sum(1 / counts)))
    sizes = kept.size, held.size, features
    return split, *make_plan(*sizes, classes, epsilon, delta, ledger, weight, people, *unknown)


def make_plan(
    rows: int,
    held_out: int,
    features: int,
    classes: int,
    epsilon: float,
    delta: float,
    ledger: recording.Recording | None = None,
    weight: float | None = None,
    people: int | None = None,
    unknown: int = 0,
    share: float = 0.0,
) -> tuple[Plan, _guarantee.Guarantee]:
    """Calibrate both parts to the whole budget; reads no row. ``unknown`` columns have no range, found for a share."""
    link, outputs = "identity", 1
    if classes:
        link, outputs = ("logistic", 1) if classes == 2 else ("softmax", classes)
    variation = private_linear.total_variation(
        features, outputs, private_linear.STEPS
    ) + private_ranges.total_variation(unknown)
    variation = max(variation, measured_error.total_variation(classes))
    users = rows + held_out if people is None else people
    budget = budget_calibration.check_budget(
        None, epsilon, delta, users=users, total_variation=variation, dtype=jnp.result_type(float)
    )

    def make(mu: float) -> Plan:
        linear = private_linear.config(
            users=rows,
            features=features,
            mu=mu * math.sqrt(1 - share),
            link=link,
            outputs=outputs,
            weight=weight,
            people=None if people is None else people - fitting.count_held_out(people),
        )
        if not unknown:
            return Plan(linear, measured_error.config(mu, classes))
        ranges = private_ranges.config(mu * math.sqrt(share), unknown)
        mu = min(mu, _of_training(linear, ranges).level)  # no more than the training: its parts are named
        return Plan(linear, measured_error.config(mu, classes), ranges)

    as_gdp = ledger is not None and recording.notion(ledger) == "gdp"
    return budget_calibration.calibrate(make, privacy, budget, as_gdp=as_gdp)


def privacy(plan: Plan) -> _guarantee.Guarantee:
    """The larger of both guarantees: which rows train is public, so a user is in one part for any values."""
    parts = _of_training(plan.linear, plan.ranges), measured_error.privacy(plan.error, fitting.VALIDATION)
    larger = max(parts, key=lambda part: part.level)
    variation = max(part.total_variation for part in parts)
    people = plan.linear.people
    protects = _guarantee.ALL_PEOPLE if people else _guarantee.ALL_ROWS
    stages = larger.stages if plan.ranges else tuple((EITHER, *rest) for _, *rest in larger.stages)
    stated = replace(larger, protects=protects, total_variation=variation, stages=stages)
    stated = stated.without(assumptions.SEPARABLE_LOSSES)
    return stated.assuming(assumptions.OWN_ROWS, assumptions.ROW_OWNERS if people else assumptions.ONE_ROW)


def _of_training(linear: private_linear.Config, ranges: private_ranges.Config | None) -> _guarantee.Guarantee:
    """The guarantee of the ranges, the Gram matrix and the steps, one after another on the same rows."""
    alone = private_linear.algorithm.privacy(linear)
    if ranges is None:
        return alone
    found = private_ranges.PART, "gaussian", private_ranges.level(ranges)
    return composed_guarantee.guarantee_from_stages(
        [found, *composed_guarantee.guarantee_stages(linear, alone)],
        alone.protects,
        assumptions=alone.assumptions,
        total_variation=alone.total_variation + private_ranges.total_variation(ranges.columns),
    )


def _split(rows: int, owners: np.ndarray | None) -> _Split:
    """The rows to hold out and the others, those of a person on one side, and how many rows each row's person has."""
    if owners is None:
        return *fitting.held_out_rows(rows), None
    rows_of = np.bincount(owners)
    if len(rows_of) < fitting.LEAST_ROWS:
        raise ValueError(f"person must name at least {fitting.LEAST_ROWS} people, got {len(rows_of)}")
    is_held = np.isin(owners, fitting.held_out_rows(len(rows_of))[0])
    return np.flatnonzero(is_held), np.flatnonzero(~is_held), rows_of[owners]


def predict(scores: np.ndarray, classes: int) -> np.ndarray:
    """The most probable class of each row of ``scores (n, k)``, or its prediction in [-1, 1]: ``(n,)``."""
    if not classes:
        return np.clip(scores[:, 0], -1.0, 1.0)
    return (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else np.argmax(scores, axis=1)


def _as_values(point: jax.Array, data: jax.Array) -> jax.Array:
    del point
    return data.T


@jax.jit
def train(data: jax.Array, config: private_linear.Config, key: jax.Array) -> jax.Array:
    """The weights ``(d, k)`` from ``data (n, config.values)``, traceable."""
    run = partial(compiled_run.pure_run, private_linear.algorithm, _as_values)
    return run(data, config, key)[0].weights


def _compile(config: private_linear.Config, key: jax.Array) -> Any:
    """Compile before the charge, from shapes alone: an interrupted compilation then costs nothing."""
    settings: Any = jax.config
    if settings.jax_disable_jit:
        return train
    leaves, static = jax.tree.flatten(config)
    shapes = (jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in (key, *leaves))
    return _compiled(jax.sharding.get_abstract_mesh(), static, *shapes)


@lru_cache(maxsize=16)
def _compiled(mesh: Any, static: Any, key: jax.ShapeDtypeStruct, *leaves: jax.ShapeDtypeStruct) -> Any:
    del mesh  # of the caller: another one needs another program
    config = jax.tree.unflatten(static, leaves)
    shape = config.users, config.values
    return train.lower(jax.ShapeDtypeStruct(shape, config.clip_norms.dtype), config, key).compile()
