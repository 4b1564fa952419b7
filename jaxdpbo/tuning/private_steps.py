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


def train_by_steps(
    features: np.ndarray,
    labels: np.ndarray,
    classes: int,
    *,
    weights: np.ndarray | None = None,
    mean_weight: float = 1.0,
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
      epsilon: of the replacement of one row.
      delta: with ``epsilon``.
      ledger: charged after all is compiled and before the first row is read; a name used before is refused.
      key: for tests; by default from the operating system.
      insecure_key: see ``run_scan``.

    Raises:
      ValueError: a budget so small that no noise suffices.
      ledger.LedgerError: the budget does not suffice, or the name was used before.
    """
    keys.refuse_trace("the key of a fit")
    held, kept = fitting.held_out_rows(len(labels))
    weight = None if weights is None else mean_weight
    plan, guarantee = make_plan(kept.size, held.size, features.shape[1], classes, epsilon, delta, ledger, weight)
    secret, guarantee = release_key.for_release(key, guarantee, insecure_key)
    train = _compile(plan.linear, secret)
    ledgers = None if ledger is None else {_guarantee.ALL_ROWS: ledger}
    selection.charge_selection(ledgers, (guarantee,), "a private model by steps", tuple(plan))
    of_training, of_error = jax.random.split(secret)
    rows = [features, labels[:, None], *([] if weights is None else [weights[:, None]])]
    data = jnp.asarray(np.concatenate([part[kept] for part in rows], axis=1), plan.linear.clip_norms.dtype)
    trained = np.asarray(train(data, plan.linear, of_training))
    predicted = predict(features[held] @ trained, classes)
    measured = measured_error.measure(of_error, plan.error, predicted, labels[held])
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
) -> tuple[Plan, _guarantee.Guarantee]:
    """Calibrate both parts to the whole budget; reads no row."""
    link, outputs = "identity", 1
    if classes:
        link, outputs = ("logistic", 1) if classes == 2 else ("softmax", classes)
    variation = private_linear.total_variation(features, outputs, STEPS[-1])
    variation = max(variation, measured_error.total_variation(classes))
    budget = budget_calibration.check_budget(
        None, epsilon, delta, users=rows + held_out, total_variation=variation, dtype=jnp.result_type(float)
    )

    def make(mu: float) -> Plan:
        steps = STEPS[rows * mu >= ENOUGH]
        linear = private_linear.config(
            users=rows, features=features, mu=mu, link=link, outputs=outputs, steps=steps, weight=weight
        )
        return Plan(linear, measured_error.config(mu, classes))

    as_gdp = ledger is not None and recording.notion(ledger) == "gdp"
    return budget_calibration.calibrate(make, privacy, budget, as_gdp=as_gdp)


def privacy(plan: Plan) -> _guarantee.Guarantee:
    """The larger of both guarantees: which rows train is public, so a row is in one part, whatever it holds."""
    parts = private_linear.algorithm.privacy(plan.linear), measured_error.privacy(plan.error, fitting.VALIDATION)
    larger = max(parts, key=lambda part: part.level)
    variation = max(part.total_variation for part in parts)
    stated = replace(larger, protects=_guarantee.ALL_ROWS, total_variation=variation)
    return stated.without(assumptions.SEPARABLE_LOSSES).assuming(assumptions.OWN_ROWS, assumptions.ONE_ROW)


def predict(scores: np.ndarray, classes: int) -> np.ndarray:
    """The most probable class of each row of ``scores (n, k)``, or its prediction in [-1, 1]: ``(n,)``."""
    if not classes:
        return np.clip(scores[:, 0], -1.0, 1.0)
    return (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else np.argmax(scores, axis=1)


def _as_values(point: jax.Array, data: jax.Array) -> jax.Array:
    del point
    return data.T


@jax.jit
def _train(data: jax.Array, config: private_linear.Config, key: jax.Array) -> jax.Array:
    run = partial(compiled_run.pure_run, private_linear.algorithm, _as_values)
    return run(data, config, key)[0].weights


def _compile(config: private_linear.Config, key: jax.Array) -> Any:
    """Compile before the charge, from shapes alone: an interrupted compilation then costs nothing."""
    leaves, static = jax.tree.flatten(config)
    shapes = (jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in (key, *leaves))
    return _compiled(static, *shapes)


@lru_cache(maxsize=16)
def _compiled(static: Any, key: jax.ShapeDtypeStruct, *leaves: jax.ShapeDtypeStruct) -> Any:
    config = jax.tree.unflatten(static, leaves)
    shape = config.users, config.features + 1 + config.weighted
    return _train.lower(jax.ShapeDtypeStruct(shape, config.clip_norms.dtype), config, key).compile()
