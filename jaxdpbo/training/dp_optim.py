"""DP-SGD and DP-Adam with batches of fixed size: Avent et al. (2020), Algorithms 3 and 4.

Every number is traced, the batch size and the number of steps among them: one compilation serves a whole search. The
training loop is compiled for batches up to each power of two, and a setting uses the smallest loop with enough room.
Abadi et al. (2016) and Avent et al. (2020) call a batch a lot.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from jaxdpbo import checks, sensitivity
from jaxdpbo.noise import mechanisms
from jaxdpbo.noise.mechanisms import tables
from jaxdpbo.training import integer_sums, models, sampling

OPTIMIZERS = {"sgd": optax.identity, "adam": optax.scale_by_adam}  # Adam's constants are those of Kingma and Ba
MIN_CAPACITY = 8
NOISES = ("exact", "float")
SIGMA, BITS = 2**13, 64  # of exact noise
TOGETHER = 2**11  # up to this many parameters, noise is drawn for a block of steps at once


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Settings:
    """Numbers of one training, all traced; made by ``settings``.

    Attributes:
      steps: ``T``, a whole number.
      batch: ``m``, a whole number.
      learning_rate: ``()``.
      noise_multiplier: ``z``, the noise of the mean gradient over its sensitivity ``2 B / m``.
      clip_norm: ``B``.
    """

    steps: jax.Array
    batch: jax.Array
    learning_rate: jax.Array
    noise_multiplier: jax.Array
    clip_norm: jax.Array


def settings(*, steps: int, batch: int, learning_rate: float, noise_multiplier: float, clip_norm: float) -> Settings:
    """Check the numbers of one training.

    >>> from jaxdpbo import training
    >>> made = training.settings(steps=50, batch=8, learning_rate=0.5, noise_multiplier=1.0, clip_norm=1.0)
    >>> int(made.steps)
    50

    Raises:
      ValueError: a number out of range; names the argument.
      TypeError: ``steps`` or ``batch`` is not a whole number.
    """
    dtype = jnp.result_type(float)
    return Settings(
        steps=jnp.asarray(checks.size("steps", steps), jnp.int32),
        batch=jnp.asarray(checks.size("batch", batch), jnp.int32),
        learning_rate=jnp.asarray(checks.positive("learning_rate", learning_rate), dtype),
        noise_multiplier=jnp.asarray(checks.nonnegative("noise_multiplier", noise_multiplier), dtype),
        clip_norm=jnp.asarray(checks.positive("clip_norm", clip_norm), dtype),
    )


def steps_of_epochs(epochs: int, records: int, batch: int) -> int:
    """Number of steps ``T round(n / m)``, at least one, as in the paper's code."""
    records = checks.size("records", records)
    return checks.size("epochs", epochs) * max(1, round(records / checks.size("batch", batch)))


def capacities(largest: int, records: int, smallest: int = MIN_CAPACITY) -> tuple[int, ...]:
    """Batch sizes with a compiled loop: ``smallest``, doubled up to ``largest`` itself, at most ``n``."""
    top = min(checks.size("largest", largest), checks.size("records", records))
    powers, smallest = [], checks.size("smallest", smallest)
    while (power := smallest << len(powers)) < top:
        powers.append(power)
    return (*powers, top)


def train(
    key: jax.Array,
    model: models.Model,
    examples: models.Examples,
    settings: Settings,
    *,
    largest: int,
    smallest: int = MIN_CAPACITY,
    optimizer: str = "sgd",
    noise: str = "exact",
) -> models.Params:
    """Train for exactly ``settings.steps`` steps. Pure: for ``jit``, and ``lax.map`` over settings and keys.

    Formal guarantee, for the final parameters and all before: ``accounting.sampled_gaussian_epsilon`` at rate
    ``m / n``, the noise multiplier and the number of steps. Replace-one, ``n`` public; assumes a secret key used once.
    With exact noise, the guarantee holds up to the total variation of its draws: each example's clipped gradient is
    made of whole numbers, and rounded Gaussian noise is added to their sum (docs/theorems.md). With noise in floats,
    the guarantee also assumes ideal real-number noise. ``training.training_guarantee`` returns the guarantee for
    ``settings``.

    With exact noise, features count as rounded to some 8 bits, in an example's own unit; a noise multiplier below
    ``SIGMA / (2 integer_sums.largest_radius(largest))``, mostly 1/8, counts as this limit.

    Args:
      key: for everything random: the start, the batches, the noise.
      model: static.
      examples: of ``training.examples``; everything is computed in the features' dtype, noise and sums included.
      settings: a ``batch`` above ``largest`` or ``n`` counts as the limit: the caller checks.
      largest: the largest batch in use; static.
      smallest: the smallest batch with a compiled loop; static. With ``smallest=largest`` every batch is padded to
        ``largest``.
      optimizer: of ``OPTIMIZERS``; static.
      noise: "exact", or "float" for research sweeps; static.

    Returns:
      ``weights (i, o)`` and ``bias (o,)`` for each layer of the model.

    Raises:
      ValueError: an unknown optimizer or noise, or a layer too wide for exact noise, at trace time.
      TypeError: the features are neither float32 nor float64, at trace time.

    Examples:
      >>> import jax, jax.numpy as jnp
      >>> from jaxdpbo import training
      >>> features = jax.random.normal(jax.random.key(0), (40, 2))
      >>> labels = (features[:, 0] > 0).astype(int)
      >>> settings = training.settings(steps=50, batch=8, learning_rate=0.5, noise_multiplier=1.0, clip_norm=1.0)
      >>> params = training.train(
      ...     jax.random.key(1), training.logistic_regression(2), training.examples(features, labels), settings,
      ...     largest=8,
      ... )
      >>> bool(training.accuracy(params, features, labels) > 0.8)
      True

    References:
      Abadi et al. (2016), algorithm 1; Avent et al. (2020), algorithms 3 and 4.
    """
    checks.single_or_double("features", examples.features)
    rule = OPTIMIZERS[checks.one_of("optimizer", optimizer, tuple(OPTIMIZERS))]()
    init_key, loop_key = jax.random.split(key)
    count, dtype = examples.features.shape[0], examples.features.dtype
    rate, multiplier, clip_norm = (
        number.astype(dtype) for number in (settings.learning_rate, settings.noise_multiplier, settings.clip_norm)
    )
    if checks.one_of("noise", noise, NOISES) == "exact":
        radius = _radius(settings.noise_multiplier, min(largest, count))
        prepared, scale = (
            integer_sums.integer_examples(examples, model, radius),
            clip_norm / jnp.maximum(radius, 1).astype(dtype),
        )
    else:
        radius, prepared, scale = None, examples, sensitivity.clipped_sum(clip_norm) * multiplier
    problem = _Problem(model, prepared, rule, loop_key, rate, clip_norm, radius, scale)
    start = models.init_params(init_key, model, dtype)
    sizes = capacities(largest, count, smallest)
    choice = sum(jnp.asarray(settings.batch > size, jnp.int32) for size in sizes[:-1])
    loops = [partial(_loop, problem, count, capacity, start) for capacity in sizes]
    return jax.lax.switch(choice, loops, settings.steps, settings.batch)


def total_variation(model: models.Model, steps: int) -> float:
    """Bound the total variation between a training with exact noise and one with ideal noise."""
    return checks.size("steps", steps) * _parameter_count(model) * tables.gaussian_total_variation(SIGMA, BITS)


def _parameter_count(model: models.Model) -> int:
    """Number of parameters of a model."""
    return sum((i + 1) * o for i, o in zip(model.sizes[:-1], model.sizes[1:], strict=True))


def _radius(noise_multiplier: jax.Array, batch: int) -> jax.Array:
    """Radius for clipping, so that ``SIGMA`` is at least ``noise_multiplier`` times the sensitivity."""
    most = integer_sums.largest_sum_radius(batch)
    distance = SIGMA * (1 - 2.0**-16) / noise_multiplier  # a little less, for any rounding of the division
    return sensitivity.largest_radius(jnp.minimum(distance, 2.0 * most)).astype(jnp.int32)


class _Problem(NamedTuple):
    """Inputs of every step.

    Attributes:
      radius: of integer sums; None where noise is added in floats.
      scale: size of one integer unit, or the standard deviation of the noise in floats.
    """

    model: models.Model
    examples: models.Examples | integer_sums.IntegerExamples
    rule: optax.GradientTransformation
    key: jax.Array
    learning_rate: jax.Array
    clip_norm: jax.Array
    radius: jax.Array | None
    scale: jax.Array


def _loop(problem, records, capacity, start, steps, batch):
    """Run all steps, with batches padded to ``capacity``, in blocks that draw their random words at once."""
    batch = jnp.minimum(batch, capacity)
    blocks = -(-steps // sampling.BLOCK)
    block = partial(_block, problem, records, capacity, steps, batch)
    return jax.lax.fori_loop(0, blocks, block, (start, problem.rule.init(start)))[0]


def _block(problem, records, capacity, steps, batch, number, carry):
    """Run ``sampling.BLOCK`` steps, or the remaining ones."""
    first = number * sampling.BLOCK
    times = first + jnp.arange(sampling.BLOCK, dtype=first.dtype)
    keys = jax.vmap(lambda t: jax.random.split(jax.random.fold_in(problem.key, t), 3))(times)
    words = jax.vmap(lambda key: sampling.random_words(key, records, capacity))(keys[:, 0])
    numbers = _parameter_count(problem.model)
    small = problem.radius is not None and numbers <= TOGETHER
    noise = jax.vmap(lambda key: _noise(key, numbers))(keys[:, 2]) if small else None
    step = partial(_step, problem, capacity, batch, keys[:, 1:], words, noise)
    carry = *carry, sampling.empty_history(records)
    return jax.lax.fori_loop(0, jnp.minimum(sampling.BLOCK, steps - first), step, carry)[:2]


def _step(problem, capacity, batch, keys, words, noise, i, carry):
    """Draw a batch, add noise to the sum of its clipped gradients, and step."""
    params, memory, history = carry
    rows, mask, history = sampling.draw_batches(keys[i, 0], words[i], batch, capacity, history)
    drawn = jax.tree.map(lambda leaf: leaf[rows], problem.examples)
    noised = _sum_and_noise(problem, keys[i, 1], None if noise is None else noise[i], params, drawn, mask)
    mean = jax.tree.map(lambda leaf: leaf / batch.astype(leaf.dtype), noised)
    with jax.numpy_dtype_promotion("standard"):  # optax takes floats to the power of its count of steps
        change, memory = problem.rule.update(mean, memory, params)
    moved = jax.tree.map(lambda p, c: p - problem.learning_rate * c, params, change)
    return moved, memory, history


def _sum_and_noise(problem, key, noise, params, drawn, mask):
    """Sum the clipped gradients of a batch and add ``noise``, drawn before or with ``key``."""
    if problem.radius is None:
        total, _ = models.gradient_sum(problem.model, params, drawn, mask, problem.clip_norm)
        flat, unravel = ravel_pytree(total)
        return unravel(mechanisms.gaussian(key, flat, problem.scale))
    total = integer_sums.exact_gradient_sum(problem.model, params, drawn, mask, problem.clip_norm, problem.radius)
    flat, unravel = ravel_pytree(total)
    noised = unravel(flat + (_noise(key, flat.size) if noise is None else noise))
    return jax.tree.map(lambda leaf: leaf.astype(problem.scale.dtype) * problem.scale, noised)


def _noise(key, count):
    return mechanisms.rounded_gaussian(key, (count,), SIGMA, BITS)
