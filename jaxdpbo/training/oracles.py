"""The two oracles of DPareto: what ``epsilon`` a setting has, by proof, and what error, by running it.

Avent et al. (2020), sections 2 and 4. A privacy oracle is host arithmetic on the setting alone. A utility oracle runs
the algorithm ``R`` times on the records: what it returns is raw.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import _checks
from jaxdpbo.privacy import accounting
from jaxdpbo.training import dp_optim, models


class Errors(NamedTuple):
    """Of ``R`` runs of one setting: ``mean ()``, ``best ()`` and ``worst ()``. Raw."""

    mean: jax.Array
    best: jax.Array
    worst: jax.Array


def training_epsilon(
    *, records: int, epochs: int, batch: int, noise_multiplier: float, delta: float
) -> accounting.Bound:
    """The smallest proved epsilon of DP-SGD or DP-Adam for so many epochs.

    Raises:
      ValueError: a number out of range, a batch above the records.
    """
    records, batch = _checks.size("records", records), _checks.size("batch", batch)
    if batch > records:
        raise ValueError(f"batch must be at most the records {records}, got {batch}")
    steps = dp_optim.steps_of_epochs(epochs, records, batch)
    return accounting.sampled_gaussian_epsilon(
        rate=batch / records, noise_multiplier=noise_multiplier, steps=steps, delta=delta
    )


def training_errors(
    keys: jax.Array,
    model: models.Model,
    train: models.Records,
    test: tuple[jax.Array, jax.Array],
    settings: dp_optim.Settings,
    *,
    largest: int,
    optimizer: str = "sgd",
) -> Errors:
    """Errors on ``test`` after training with each of ``keys (R,)``, all a step at a time. Pure.

    A training that diverged has error 1: no score that is not finite tells a class.
    """

    def one(key):
        params = dp_optim.train(key, model, train, settings, largest=largest, optimizer=optimizer)
        finite = jnp.all(jnp.isfinite(models.scores(params, test[0])))
        return jnp.where(finite, 1.0 - models.accuracy(params, *test), 1.0)

    return _summary(jax.vmap(one)(keys))


def sparse_vector_errors(
    keys: jax.Array, answers: jax.Array, noise: jax.Array, *, queries: int = 100, ones: int = 10
) -> Errors:
    """``1 - F_1`` of the sparse vector technique on ``queries`` 0/1 queries in random order, ``ones`` of them 1.

    The threshold is 1/2. ``answers ()`` is ``C``, a whole number, and ``noise ()`` the total ``b`` of the two scales,
    split as in ``accounting.split_noise``. Avent et al. (2020), Algorithm 1 and section 2.2.
    """
    answers = jnp.asarray(answers, jnp.result_type(float))
    threshold_scale = noise / (1.0 + jnp.cbrt(2.0 * answers))

    def one(key):
        order_key, threshold_key, query_key = jax.random.split(key, 3)
        truth = jax.random.permutation(order_key, jnp.arange(queries) < ones)
        threshold = 0.5 + threshold_scale * jax.random.laplace(threshold_key)
        noised = truth + (noise - threshold_scale) * jax.random.laplace(query_key, (queries,))
        above = noised >= threshold
        told = above & (jnp.cumsum(above) <= answers)
        right = jnp.sum(told & truth)
        return 1.0 - 2.0 * right / (jnp.sum(told) + ones)

    return _summary(jax.vmap(one)(keys))


def _summary(errors: jax.Array) -> Errors:
    return Errors(jnp.mean(errors), jnp.min(errors), jnp.max(errors))
