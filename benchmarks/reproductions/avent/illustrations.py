"""Two algorithms of two hyper-parameters, whose oracles can be asked everywhere.

Logistic regression by projected permutation SGD with output perturbation, over the regularisation and the noise; and
the sparse vector technique, over the number of answers, a whole number here because the proof counts releases, and the
noise. Coordinates are decimal logarithms where the paper draws on that scale.
"""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers import classification
from jaxdpbo import accounting, mechanisms, sensitivity
from jaxdpbo.training import oracles, permutation_sgd

SHARE = 16  # trainings at once


class Illustration(NamedTuple):
    """``measured(key, points (k, 2)) -> (k, 2)``, epsilon and error, over a box ``(2, 2)``."""

    name: str
    axes: tuple[str, str]
    bounds: np.ndarray
    integer_mask: tuple[bool, bool]
    measured: Callable[[jax.Array, np.ndarray], np.ndarray]
    source: str


def regression(s: SimpleNamespace) -> Illustration:
    """Section 2.2: epsilon by the paper's sensitivity, errors over ``s.orders`` trainings with noise drawn anew."""
    loaded = classification.load("adult")
    (x, y), test = (tuple(part[: s.records] for part in half) for half in (loaded.train, loaded.test))
    train = jnp.asarray(x, jnp.float32), jnp.asarray(y)
    test = jnp.asarray(test[0], jnp.float32), jnp.asarray(test[1])

    @jax.jit
    def fit_all(order_keys, gammas):
        def fit(key, gamma):
            return permutation_sgd.train_by_permutation(key, *train, gamma, jnp.zeros((), jnp.float32), passes=s.passes)

        return jax.vmap(lambda gamma: jax.vmap(lambda key: fit(key, gamma))(order_keys))(gammas)

    @jax.jit
    def errors(keys, weights, deviations):
        def mean_error(inputs):
            key, vectors, deviation = inputs
            many = jnp.broadcast_to(vectors[:, None], (s.orders, s.repeats // s.orders, vectors.shape[1]))
            scores = mechanisms.gaussian(key, many, deviation) @ test[0].T
            return 1.0 - jnp.mean((scores > 0) == (test[1] > 0))

        return jax.lax.map(mean_error, (keys, weights, deviations))

    def measure_points(key, chosen):
        order_key, noise_key = jax.random.split(key)
        order_keys = jax.random.split(order_key, s.orders)
        gammas, deviations = 10 ** np.asarray(chosen).T
        different, where = np.unique(gammas, return_inverse=True)
        weights = np.concatenate([fit_all(order_keys, jnp.asarray(g, jnp.float32)) for g in _shares(different)])[where]
        keys = jax.random.split(noise_key, len(gammas))
        error = errors(keys, jnp.asarray(weights), jnp.asarray(deviations, jnp.float32))
        epsilon = [
            accounting.learner_epsilon(
                sensitivity=sensitivity.permutation_sgd(regularisation=gamma, records=len(y), bound="paper"),
                standard_deviation=deviation, delta=s.delta,
            )
            for gamma, deviation in zip(gammas, deviations, strict=True)
        ]  # fmt: skip
        return np.stack([epsilon, np.asarray(error, float)], axis=1)

    box = np.log10(np.array([s.regularisations, s.deviations])).T
    axes = "log10 regularisation", "log10 noise"
    return Illustration("private logistic regression", axes, box, (False, False), measure_points, loaded.source)


def _shares(values: np.ndarray) -> list[np.ndarray]:
    """Of one length, so that all compile once; the last is filled up with its first."""
    return [np.resize(values[start : start + SHARE], SHARE) for start in range(0, len(values), SHARE)]


def sparse_vector(s: SimpleNamespace) -> Illustration:
    """Section 2.2, the other."""

    @partial(jax.jit, static_argnames="repeats")
    def errors(keys, answers, noise, repeats):
        def mean_error(inputs):
            key, count, total = inputs
            keys = jax.random.split(key, repeats)
            return oracles.sparse_vector_errors(keys, count, total, queries=s.queries, ones=s.ones).mean

        return jax.lax.map(mean_error, (keys, answers, noise))

    def measure_points(key, chosen):
        answers, noise = np.round(chosen[:, 0]).astype(int), 10 ** chosen[:, 1]
        keys = jax.random.split(key, len(chosen))
        error = errors(keys, jnp.asarray(answers), jnp.asarray(noise), s.repeats)
        epsilon = [accounting.sparse_vector_epsilon(b, int(c)) for c, b in zip(answers, noise, strict=True)]
        return np.stack([epsilon, np.asarray(error)], axis=1)

    box = np.array([[s.answers[0], np.log10(s.noise[0])], [s.answers[1], np.log10(s.noise[1])]], float)
    return Illustration(
        "sparse vector technique",
        ("answers", "log10 noise"),
        box,
        (True, False),
        measure_points,
        "none: queries of known answers",
    )
