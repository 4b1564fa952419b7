"""Train a linear model by private steps, and measure its error once: nothing is chosen, so no budget pays for a choice.

Four fifths of the rows train (``algorithms.private_linear``), and one fifth, by a public permutation of row numbers,
measures the released model. A row is in one of both parts, so each part spends the whole budget.
"""

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.algorithms import private_linear
from jaxdpbo.drivers import compiled_run
from jaxdpbo.guarantee import assumptions, budget_calibration, recording, release_key
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.noise import keys
from jaxdpbo.tuning import fitting, measured_error, selection

STEPS = 8, 16  # the second with enough rows
ENOUGH = 2_000  # rows times the GDP level


class StepsResult(NamedTuple):
    """Everything you may publish: ``weights (d, k)``, what was measured, and the guarantee of all rows."""

    weights: np.ndarray
    measured: measured_error.Measured
    steps: int
    guarantee: _guarantee.Guarantee


class Plan(NamedTuple):
    """What trains and what measures, at one level."""

    linear: private_linear.Config
    error: measured_error.Config


@np.errstate(all="ignore")  # where your process makes underflow an error, one value would raise it
def train_by_steps(
    features: np.ndarray,
    labels: np.ndarray,
    classes: int,
    *,
    weights: np.ndarray | None = None,
    mean_weight: float = 1.0,
    owners: np.ndarray | None = None,
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
      epsilon: of the replacement of one row.
      delta: with ``epsilon``.
      ledger: charged after all is compiled and all noise of the error is drawn, and before the first row trains; a name
        used before is refused.
      key: see ``minimize``.
      insecure_key: see ``minimize``.

    Raises:
      ValueError: a budget so small that no noise suffices.
      ledger.LedgerError: the budget does not suffice, or the name was used before.
    """
    keys.refuse_trace("the key of a fit")
    held, kept, counts = _split(len(labels), owners)
    weight = None if weights is None else mean_weight
    people = None if counts is None else round(float(np.sum(1 / counts)))
    plan, guarantee = make_plan(
        kept.size, held.size, features.shape[1], classes, epsilon, delta, ledger, weight, people
    )
    secret, guarantee = release_key.for_release(key, guarantee, insecure_key)
    of_training, of_error = jax.random.split(secret)
    compiled, noise = _compile(plan.linear, of_training), measured_error.draw_noise(of_error, plan.error)
    ledgers = None if ledger is None else {guarantee.protects: ledger}
    selection.charge_selection(ledgers, (guarantee,), "a private model by steps", tuple(plan))
    parts = [features, *(part[:, None] for part in (labels, weights, counts) if part is not None)]
    data = jnp.asarray(np.concatenate([part[kept] for part in parts], axis=1), plan.linear.clip_norms.dtype)
    trained = np.asarray(compiled(data, plan.linear, of_training))
    predicted = predict(features[held] @ trained, classes)
    held_counts = None if counts is None else counts[held]
    measured = measured_error.measure(noise, plan.error, predicted, labels[held], held_counts)
    return StepsResult(trained, measured, plan.linear.steps - 1, guarantee)


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
) -> tuple[Plan, _guarantee.Guarantee]:
    """Calibrate both parts to the whole budget; reads no row."""
    link, outputs = "identity", 1
    if classes:
        link, outputs = ("logistic", 1) if classes == 2 else ("softmax", classes)
    variation = private_linear.total_variation(features, outputs, STEPS[-1])
    variation = max(variation, measured_error.total_variation(classes))
    users = rows + held_out if people is None else people
    budget = budget_calibration.check_budget(
        None, epsilon, delta, users=users, total_variation=variation, dtype=jnp.result_type(float)
    )

    def make(mu: float) -> Plan:
        steps = STEPS[(1 - fitting.HELD_OUT) * users * mu >= ENOUGH]
        linear = private_linear.config(
            users=rows,
            features=features,
            mu=mu,
            link=link,
            outputs=outputs,
            steps=steps,
            weight=weight,
            people=people is not None,
        )
        return Plan(linear, measured_error.config(mu, classes))

    as_gdp = ledger is not None and recording.notion(ledger) == "gdp"
    return budget_calibration.calibrate(make, privacy, budget, as_gdp=as_gdp)


def privacy(plan: Plan) -> _guarantee.Guarantee:
    """The larger of both guarantees: which rows train is public, so a user is in one part for any values."""
    parts = private_linear.algorithm.privacy(plan.linear), measured_error.privacy(plan.error, fitting.VALIDATION)
    larger = max(parts, key=lambda part: part.level)
    variation = max(part.total_variation for part in parts)
    people = plan.linear.people
    protects = _guarantee.ALL_PEOPLE if people else _guarantee.ALL_ROWS
    stated = replace(larger, protects=protects, total_variation=variation).without(assumptions.SEPARABLE_LOSSES)
    return stated.assuming(assumptions.OWN_ROWS, assumptions.ROW_OWNERS if people else assumptions.ONE_ROW)


def _split(rows: int, owners: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
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
