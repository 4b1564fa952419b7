"""Train a linear model by private steps, and measure its error once: nothing is chosen, so no budget pays for a choice.

Four fifths of the rows train (``algorithms.private_linear``), and one fifth, by a public permutation of row numbers,
measures the error of the released model. A row is in one of both parts, so each part spends the whole budget.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.algorithms import private_linear
from jaxdpbo.drivers import compiled_run
from jaxdpbo.guarantee import assumptions, budget_calibration, composed_guarantee, recording, release_key
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.noise import calibration, keys, private_mean
from jaxdpbo.tuning import fitting, selection
from jaxdpbo.tuning.training import Rows


class StepsResult(NamedTuple):
    """Everything you may publish.

    Attributes:
      weights: ``(d, k)``.
      error: mean loss of the model on the rows held out, noised once, so without bias; it may lie outside of [0, 1].
      error_deviation: the standard deviation of the noise of ``error``.
      guarantee: of all rows.
    """

    weights: np.ndarray
    error: float
    error_deviation: float
    guarantee: _guarantee.Guarantee


class _Plan(NamedTuple):
    """What trains and what measures, at one level."""

    linear: private_linear.Config
    error: calibration.SumBudget


def train_by_steps(
    rows: Rows,
    classes: int,
    *,
    epsilon: float,
    delta: float,
    ledger: recording.Recording | None,
    key: jax.Array | None,
    insecure_key: bool,
) -> StepsResult:
    """Train, ``(epsilon, delta)``-DP for everything returned.

    Args:
      rows: features ``(n, d)`` of l2 norm at most 1; labels ``(n,)``: class numbers with -1 for none, or for a
        regression targets in [-1, 1] with NaN for none.
      classes: the number of classes; 0 for a regression.
      epsilon: of the replacement of one row.
      delta: with ``epsilon``.
      ledger: charged before the first row is read; a name that was used before is refused.
      key: for tests; by default from the operating system.
      insecure_key: see ``run_scan``.

    Raises:
      ValueError: a budget so small that no noise suffices.
      ledger.LedgerError: the budget does not suffice, or the name was used before.
    """
    keys.refuse_trace("the key of a fit")
    (features, labels), (held_features, held_labels) = fitting.split_rows(rows, None)
    plan, guarantee = make_plan(features.shape, len(held_labels), classes, epsilon, delta, ledger)
    secret, guarantee = release_key.for_release(key, guarantee, insecure_key)
    ledgers = None if ledger is None else {_guarantee.ALL_ROWS: ledger}
    selection.charge_selection(ledgers, (guarantee,), "a private model by steps", plan.linear)
    of_training, of_error = jax.random.split(secret)
    data = jnp.asarray(features), jnp.asarray(labels, features.dtype)
    weights = np.asarray(_train(data, plan.linear, of_training))
    lost = losses(weights, held_features, held_labels, classes)
    error = float(_noisy_mean(of_error, plan.error, jnp.asarray(lost)))
    return StepsResult(weights, error, private_mean.loss_deviation(plan.error, 0.0, 1.0), guarantee)


def make_plan(
    shape: tuple[int, ...], held_out: int, classes: int, epsilon: float, delta: float, ledger: Any
) -> tuple[_Plan, _guarantee.Guarantee]:
    """Calibrate both parts to the whole budget; reads no row."""
    users, dtype = shape[0] + held_out, jnp.result_type(float)
    link, outputs = "identity", 1
    if classes:
        link, outputs = ("logistic", 1) if classes == 2 else ("softmax", classes)
    budget = budget_calibration.check_budget(None, epsilon, delta, users=users, dtype=dtype)

    def make(mu: float) -> _Plan:
        linear = private_linear.config(users=shape[0], features=shape[1], mu=mu, link=link, outputs=outputs)
        return _Plan(linear, calibration.budget(mu, fitting.NOISE, users=held_out, steps=1, dimension=1, dtype=dtype))

    as_gdp = ledger is not None and recording.notion(ledger) == "gdp"
    return budget_calibration.calibrate(make, _privacy, budget, as_gdp=as_gdp)


def _privacy(plan: _Plan) -> _guarantee.Guarantee:
    """The larger of both guarantees: which rows train is public, so a row is in one part, whatever it holds."""
    parts = private_linear.algorithm.privacy(plan.linear), composed_guarantee.gdp_guarantee(plan.error, fitting.VALIDATION)
    larger = max(parts, key=lambda part: part.level)
    stated = replace(
        larger,
        protects=_guarantee.ALL_ROWS,
        total_variation=max(part.total_variation for part in parts),
    ).without(assumptions.SEPARABLE_LOSSES)
    return stated.assuming(assumptions.OWN_ROWS, assumptions.ONE_ROW)


def losses(weights: np.ndarray, features: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Zero-one losses, or squared errors in widths of the range; a row without a label counts 1, or 1/4."""
    scores = features @ weights
    if not classes:
        errors = np.square((np.clip(scores[:, 0], -1, 1) - labels) / 2)
        return np.where(np.isfinite(labels), errors, 0.25)
    return (predicted_classes(scores) != labels).astype(float)


def predicted_classes(scores: np.ndarray) -> np.ndarray:
    """The most probable class of each row of ``scores (n, k)``: ``(n,)``."""
    return (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else np.argmax(scores, axis=1)


def _features_and_target(point: jax.Array, data: tuple[jax.Array, jax.Array]) -> jax.Array:
    del point
    features, labels = data
    return jnp.concatenate([features.T, labels[None]])


@jax.jit
def _train(data: tuple[jax.Array, jax.Array], config: private_linear.Config, key: jax.Array) -> jax.Array:
    run = partial(compiled_run.pure_run, private_linear.algorithm, _features_and_target)
    return run(data, config, key)[0].weights


@jax.jit
def _noisy_mean(key: jax.Array, budget: calibration.SumBudget, lost: jax.Array) -> jax.Array:
    ends = jnp.zeros((), budget.mu.dtype), jnp.ones((), budget.mu.dtype)
    return private_mean.noisy_mean_loss(key, budget, lost[None].astype(budget.mu.dtype), *ends)[0]
