"""DP-SGD and DP-Adam with batches of fixed size: Avent et al. (2020), Algorithms 3 and 4.

Every number is traced, the batch's size and the number of steps among them: one compilation serves a whole search. The
training loop is compiled for batches up to each power of two, and a setting takes the smallest that holds its own.

Formal guarantee, of the final parameters and of all before: that of ``accounting.sampled_gaussian_epsilon`` for rate
``m / n``, the noise multiplier and the number of steps, replace-one with ``n`` public, for ideal real-number noise.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from jaxdpbo import _checks
from jaxdpbo.privacy import mechanisms, sensitivity
from jaxdpbo.training import models, sampling

OPTIMIZERS = {"sgd": optax.identity, "adam": optax.scale_by_adam}  # Adam's constants are those of Kingma and Ba
MIN_CAPACITY = 8


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["steps", "batch", "learning_rate", "noise_multiplier", "clip_norm"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Settings:
    """Of one training, all traced: ``steps``, ``batch`` ``m``, ``learning_rate``, ``noise_multiplier`` ``z``, the noise
    of the mean gradient over its sensitivity ``2 B / m``, and ``clip_norm`` ``B``.
    """

    steps: jax.Array
    batch: jax.Array
    learning_rate: jax.Array
    noise_multiplier: jax.Array
    clip_norm: jax.Array


def settings(*, steps: int, batch: int, learning_rate: float, noise_multiplier: float, clip_norm: float) -> Settings:
    """Checked settings.

    Raises:
      ValueError: a number out of range; names it.
      TypeError: ``steps`` or ``batch`` is not a whole number.
    """
    dtype = jnp.result_type(float)
    return Settings(
        steps=jnp.asarray(_checks.size("steps", steps), jnp.int32),
        batch=jnp.asarray(_checks.size("batch", batch), jnp.int32),
        learning_rate=jnp.asarray(_checks.positive("learning_rate", learning_rate), dtype),
        noise_multiplier=jnp.asarray(_checks.nonnegative("noise_multiplier", noise_multiplier), dtype),
        clip_norm=jnp.asarray(_checks.positive("clip_norm", clip_norm), dtype),
    )


def steps_of_epochs(epochs: int, records: int, batch: int) -> int:
    """``T round(n / m)``, at least one: what the paper's code runs."""
    records = _checks.size("records", records)
    return _checks.size("epochs", epochs) * max(1, round(records / _checks.size("batch", batch)))


def capacities(largest: int, records: int, smallest: int = MIN_CAPACITY) -> tuple[int, ...]:
    """The batch sizes that are compiled for: ``smallest``, doubled up to ``largest`` itself, at most ``n``."""
    top = min(_checks.size("largest", largest), _checks.size("records", records))
    powers, smallest = [], _checks.size("smallest", smallest)
    while (power := smallest << len(powers)) < top:
        powers.append(power)
    return (*powers, top)


def train(
    key: jax.Array,
    model: models.Model,
    records: models.Records,
    settings: Settings,
    *,
    largest: int,
    smallest: int = MIN_CAPACITY,
    optimizer: str = "sgd",
) -> models.Params:
    """The parameters after exactly ``settings.steps`` steps. Pure: for ``jit``, and ``lax.map`` over settings and keys.

    Args:
      key: of everything random: the start, the batches, the noise.
      model: static.
      records: of ``models.records``; everything is computed in the features' dtype, noise and sums included.
      settings: ``batch`` above ``largest`` or ``n`` counts as that: the caller checks.
      largest: the largest batch that will be asked for; static.
      smallest: the smallest that is compiled for; static. ``largest`` pads every batch to that.
      optimizer: of ``OPTIMIZERS``; static.

    Raises:
      TypeError: the features are neither float32 nor float64, at trace time.
    """
    _checks.single_or_double("features", records.features)
    init_key, loop_key = jax.random.split(key)
    count, dtype = records.features.shape[0], records.features.dtype
    sizes = capacities(largest, count, smallest)
    rule = OPTIMIZERS[_checks.choice("optimizer", optimizer, tuple(OPTIMIZERS))]()
    start = models.init(init_key, model, dtype)
    rate, multiplier, clip_norm = (
        number.astype(dtype) for number in (settings.learning_rate, settings.noise_multiplier, settings.clip_norm)
    )

    def loop(capacity):
        def run(settings):
            batch = jnp.minimum(settings.batch, capacity)

            def some(block, carry):
                first = block * sampling.AHEAD
                times = first + jnp.arange(sampling.AHEAD)
                keys = jax.vmap(lambda t: jax.random.split(jax.random.fold_in(loop_key, t), 3))(times)
                words = jax.vmap(lambda one: sampling.words_of(one, count, capacity))(keys[:, 0])

                def step(i, carry):
                    params, memory, seen = carry
                    rows, mask, seen = sampling.draw(keys[i, 1], words[i], batch, capacity, seen)
                    drawn = jax.tree.map(lambda leaf: leaf[rows], records)
                    total, _ = models.clipped_sum(model, params, drawn, mask, clip_norm)
                    deviation = sensitivity.clipped_sum(clip_norm) * multiplier
                    noised = _noised(keys[i, 2], total, deviation)
                    mean = jax.tree.map(lambda leaf: leaf / batch.astype(leaf.dtype), noised)
                    change, memory = rule.update(mean, memory, params)
                    moved = jax.tree.map(lambda p, c: p - rate * c, params, change)
                    return moved, memory, seen

                carry = *carry, sampling.unseen(count)
                return jax.lax.fori_loop(0, jnp.minimum(sampling.AHEAD, settings.steps - first), step, carry)[:2]

            blocks = -(-settings.steps // sampling.AHEAD)
            return jax.lax.fori_loop(0, blocks, some, (start, rule.init(start)))[0]

        return run

    choice = sum(jnp.asarray(settings.batch > size, jnp.int32) for size in sizes[:-1])
    return jax.lax.switch(choice, [loop(size) for size in sizes], settings)


def _noised(key: jax.Array, total: Any, deviation: jax.Array) -> Any:
    flat, unravel = ravel_pytree(total)
    return unravel(mechanisms.gaussian(key, flat, deviation))
