"""The two oracles of DPareto: the proved ``epsilon`` of a setting, and its measured error.

Avent et al. (2020), sections 2 and 4. A privacy oracle is host arithmetic on the setting alone. A utility oracle runs
the algorithm ``R`` times on the data and returns raw results. ``objectives`` joins the two.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import accounting, checks
from jaxdpbo.accounting import stage
from jaxdpbo.guarantee import assumptions, guarantees
from jaxdpbo.training import dp_optim, models


class Errors(NamedTuple):
    """Errors of ``R`` runs of one setting: ``mean ()``, ``best ()`` and ``worst ()``. Raw."""

    mean: jax.Array
    best: jax.Array
    worst: jax.Array


def training_epsilon(settings: dp_optim.Settings, *, records: int, delta: float) -> accounting.Bound:
    """Smallest proved epsilon of DP-SGD or DP-Adam with these settings: host arithmetic, no data.

    Formal guarantee: ``training.train`` with these settings on ``records`` examples is ``(epsilon, delta)``
    differentially private, replace-one, under the assumptions stated there.

    Args:
      settings: concrete, not traced.
      records: ``n``, the number of training examples.
      delta: of the guarantee, in (0, 1).

    Raises:
      ValueError: a number out of range, a batch larger than ``records``.

    Examples:
      >>> from jaxdpbo import training
      >>> settings = training.settings(steps=100, batch=8, learning_rate=0.1, noise_multiplier=1.0, clip_norm=1.0)
      >>> round(training.training_epsilon(settings, records=1000, delta=1e-5).epsilon, 1)
      0.6
    """
    records, batch = checks.size("records", records), int(settings.batch)
    if batch > records:
        raise ValueError(f"batch must be at most the records {records}, got {batch}")
    return accounting.sampled_gaussian_epsilon(
        rate=batch / records,
        noise_multiplier=float(settings.noise_multiplier),
        steps=int(settings.steps),
        delta=delta,
    )


def training_guarantee(
    settings: dp_optim.Settings, model: models.Model, *, records: int, delta: float, noise: str = "exact"
) -> guarantees.Guarantee:
    """Guarantee of ``training.train`` with these settings to each training example; host arithmetic, no data.

    ``(epsilon, delta)``-DP, replace-one, of the final and all earlier parameters, and GDP but for the same ``delta``
    (``accounting.gdp_level``): a ledger of notion "gdp" adds up this level. Exact noise is within the total variation
    of all draws; noise in floats is assumed to be ideal.

    If no finite epsilon is proved for so little noise, the result is no guarantee (notion "none").

    Raises:
      ValueError: as ``training_epsilon``; an unknown noise.

    Examples:
      >>> from jaxdpbo import training
      >>> settings = training.settings(steps=100, batch=8, learning_rate=0.1, noise_multiplier=1.0, clip_norm=1.0)
      >>> print(training.training_guarantee(settings, training.logistic_regression(2), records=1000, delta=1e-5).claim)
      dp 0.609406 at delta=1e-05 and gdp 0.157..., total variation at most 1.1e-14 (replace_one) for training examples
    """
    exact = checks.one_of("noise", noise, dp_optim.NOISES) == "exact"
    bound = training_epsilon(settings, records=records, delta=delta)
    if math.isinf(bound.epsilon):
        return guarantees.no_guarantee("training examples", "no finite epsilon is proved for so little noise")
    rate, z, steps = int(settings.batch) / records, float(settings.noise_multiplier), int(settings.steps)
    mu = accounting.gdp_level([stage.sampled_gaussian_stage(rate=rate, noise_multiplier=z, steps=steps)], delta)
    return guarantees.guarantee(
        "dp",
        max(bound.epsilon, guarantees.LEAST),
        "replace_one",
        "training examples",
        assumptions=(assumptions.RANDOM_BITS if exact else assumptions.IDEAL_NOISE, assumptions.PUBLIC_CONFIG),
        delta=delta,
        total_variation=dp_optim.total_variation(model, steps) if exact else 0.0,
        also=("gdp", max(mu, guarantees.LEAST)) if math.isfinite(mu) else None,
    )


@partial(jax.jit, static_argnames=("model", "largest", "optimizer"))
def training_errors(
    keys: jax.Array,
    model: models.Model,
    train: models.Examples,
    test: tuple[jax.Array, jax.Array],
    settings: dp_optim.Settings,
    *,
    largest: int,
    optimizer: str = "sgd",
) -> Errors:
    """Measure errors on ``test`` after training with each of ``keys (R,)``. Pure; compiled once for all settings.

    A diverged training, with a score that is not finite, has error 1.

    Formal guarantee: none. The errors are raw functions of the training and the test examples.

    Args:
      keys: ``(R,)``, a key for each training; vmapped.
      model: static.
      train: of ``training.examples``.
      test: ``features (t, d)`` and ``labels (t,)``.
      settings: of every training.
      largest: the largest batch in use; static.
      optimizer: of ``dp_optim.OPTIMIZERS``; static.
    """

    def run_once(key):
        params = dp_optim.train(
            key, model, train, settings, largest=largest, optimizer=optimizer, noise="float"
        )  # faster, and the result is raw anyway
        finite = jnp.all(jnp.isfinite(models.model_scores(params, test[0])))
        return jnp.where(finite, 1.0 - models.accuracy(params, *test), 1.0)

    return _summary(jax.vmap(run_once)(keys))


def sparse_vector_errors(
    keys: jax.Array, answers: jax.Array, noise: jax.Array, *, queries: int = 100, ones: int = 10
) -> Errors:
    """Measure ``1 - F_1`` of the sparse vector technique on ``queries`` 0/1 queries, ``ones`` of them 1, shuffled.

    The threshold is 1/2. Avent et al. (2020), Algorithm 1 and section 2.2.

    Formal guarantee: of one run's answers ``accounting.sparse_vector_epsilon``; of the errors returned here none.

    Args:
      keys: ``(R,)``, a key for each run.
      answers: ``C ()``, the number of queries that may be answered with 1; a whole number.
      noise: ``b ()``, the sum of the two scales, split as in ``accounting.split_noise``.
      queries: static.
      ones: number of queries with the true answer 1; static.
    """
    answers = jnp.asarray(answers, jnp.result_type(float))
    threshold_scale = noise / (1.0 + jnp.cbrt(2.0 * answers))

    def run_once(key):
        order_key, threshold_key, query_key = jax.random.split(key, 3)
        truth = jax.random.permutation(order_key, jnp.arange(queries) < ones)
        threshold = 0.5 + threshold_scale * jax.random.laplace(threshold_key)
        noised = truth.astype(answers.dtype) + (noise - threshold_scale) * jax.random.laplace(query_key, (queries,))
        above = noised >= threshold
        answered = above & (jnp.cumsum(above, dtype=answers.dtype) <= answers)
        right = jnp.sum(answered & truth, dtype=answers.dtype)
        return 1.0 - 2.0 * right / (jnp.sum(answered, dtype=answers.dtype) + ones)

    return _summary(jax.vmap(run_once)(keys))


def _summary(errors: jax.Array) -> Errors:
    return Errors(jnp.mean(errors), jnp.min(errors), jnp.max(errors))
