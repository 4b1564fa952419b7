"""An attack on many runs with real noise: what the accounting of draws cannot see, such as noise of the wrong law."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import audit
from jaxdpbo.drivers import compiled_run, result
from jaxdpbo.noise import wide_integers
from jaxdpbo.testing.subject import Subject, expect
from jaxdpbo.types import Tree

RUNS = 1024  # on each of two neighbours
REHEARSED = 16  # results of ``perturb`` on each neighbour, to learn where they lie and how far they spread


def check_attack(subject: Subject, pair: tuple[list[np.ndarray], list[np.ndarray]]) -> None:
    """Guess from the results of ``perturb`` which of a pair of neighbours was run, knowing the values of both.

    In each step the attacker rehearses ``perturb`` on both, and weighs the released numbers by the difference of the
    means over the variance: for Gaussian noise, the likelihood ratio.

    Raises:
      AssertionError: the guesses are better than the guarantee allows, at a confidence of 95 %.
    """
    stated = subject.stated
    both = jnp.stack([jnp.stack(values) for values in pair], axis=1)  # (T, 2, b, ...)
    keys = jax.random.split(jax.random.key(0), 2 * RUNS).reshape(2, RUNS)
    scores = jax.jit(lambda keys, which: jax.lax.map(lambda key: _score(subject, key, both, which), keys))
    found = [np.asarray(scores(keys[which], which)) for which in (0, 1)]
    bound = "mu" if stated.notion == "gdp" else "epsilon"
    shown = audit.threshold_audit(*found, delta=stated.delta, bound=bound)
    expect(
        not audit.is_refuted(shown, stated),
        f"an attack on the results of perturb shows {bound} {getattr(shown, bound):.3g} at least between two "
        f"neighbours, and privacy states {stated.level:.3g}: the noise is less than it should be",
    )


def _score(subject: Subject, key: jax.Array, both: jax.Array, which: Any) -> jax.Array:
    """How much the released numbers of a run on one of two neighbours speak for the first."""
    algorithm, config = subject.algorithm, subject.config
    init_key, loop_key = jax.random.split(key)

    def step(before, given):
        number, pair = given
        ask_key, tell_key, *more = jax.random.split(jax.random.fold_in(loop_key, number), 2 + REHEARSED)
        query = algorithm.ask(ask_key, config, before.state)

        def perturbed(key, values):
            return compiled_run.perturb_total(algorithm, key, config, before.memory, query, values)

        def rehearse(key):
            return jnp.stack([_numbers(perturbed(key, pair[side])[0]) for side in (0, 1)])

        rehearsed = jax.lax.map(rehearse, jnp.stack(more))  # (REHEARSED, 2, numbers)
        means, variance = jnp.mean(rehearsed, axis=0), jnp.mean(jnp.var(rehearsed, axis=0), axis=0)
        released, query, memory, _ = perturbed(tell_key, pair[which])
        weights = jnp.where(variance > 0, (means[0] - means[1]) / jnp.where(variance > 0, variance, 1), 0)
        after = result.Snapshot(algorithm.tell(config, before.state, query, released), memory)
        return after, jnp.sum(weights * (_numbers(released) - (means[0] + means[1]) / 2))

    begun = compiled_run.begin(algorithm, init_key, config)
    _, scores = jax.lax.scan(step, begun, (jnp.arange(len(both)), both))
    return jnp.sum(scores)


def _numbers(released: Tree) -> jax.Array:
    dtype = jnp.result_type(float)

    def flatten(leaf: Any) -> jax.Array:
        if isinstance(leaf, wide_integers.Wide):
            return wide_integers.to_float(leaf, dtype).reshape(-1)
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jnp.zeros(0, dtype)
        return jnp.asarray(leaf, dtype).reshape(-1)

    leaves = jax.tree.leaves(released, is_leaf=lambda leaf: isinstance(leaf, wide_integers.Wide))
    return jnp.concatenate([flatten(leaf) for leaf in leaves])
