"""DP-SGD by jax-privacy as a ``Training``: its batches, its clipped gradients, its noise, its event."""

from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy import batch_selection, clipping, noise_addition
from jax_privacy.experimental import accounting

from benchmarks.trainings import rows as of_rows
from jaxdpbo.privacy import _guarantee
from jaxdpbo.privacy._accounting import stage


@dataclass(frozen=True)
class JaxPrivacySGD:
    """Logistic regression. Settings have a ``learning_rate``, a mean ``batch``, ``steps`` and a ``clip_norm``.

    The noise multiplier is over the clip norm, as jax-privacy has it: what one row more or less adds to a sum.
    """

    features: int

    def cost(self, setting, noise, records):
        """Their event is of add-or-remove; group privacy makes it replace-one, for about twice the epsilon."""
        return _cost(noise, setting["steps"], setting["batch"] / records)

    def total_variation(self, setting, records):
        """Noise in floats is assumed to be ideal."""
        return 0.0

    def assumptions(self):
        """The noise is in floats; batches are drawn by NumPy."""
        return _guarantee.IDEAL_NOISE, _guarantee.POISSON_BATCHES, _guarantee.FOREIGN_DRAWS

    def expect(self, rows):
        of_rows.expect(rows, self.features)

    def fit(self, setting, noise, rows, key):
        return _trained(setting, noise, rows, key)

    def losses(self, model, rows):
        return of_rows.wrong(model["weights"], model["bias"], rows)


@lru_cache
def _cost(noise, steps, rate):
    event = accounting.dpsgd_event(noise, steps, sampling_prob=rate)
    return stage.foreign_stage(event, "add_or_remove", "the training by jax-privacy")


def _trained(setting, noise, rows, key):
    batch = setting["batch"]
    x, y = of_rows.finite(rows)
    of_batches, of_noise = jax.random.split(key)
    sampling = batch_selection.CyclicPoissonSampling(
        sampling_prob=batch / len(y),
        iterations=setting["steps"],
        partition_type=batch_selection.PartitionType.INDEPENDENT,
    )
    params = {"weights": jnp.zeros(x.shape[1], jnp.float32), "bias": jnp.zeros((), jnp.float32)}
    state = noise_addition.gaussian_privatizer(stddev=noise, prng_key=of_noise).init(params)
    room = 2 * max(8, round(batch))  # batches are filled up to multiples of this: one shape, now and then another
    for indices in sampling.batch_iterator(len(y), rng=np.random.default_rng(of_rows.words_of(of_batches, 8))):
        padded = batch_selection.pad_to_multiple_of(indices, room) if len(indices) else np.full(room, -1)
        params, state = _step(
            params,
            state,
            x[padded],
            y[padded],
            padded < 0,
            noise,
            setting["clip_norm"],
            setting["learning_rate"] / batch,
        )
    return jax.tree.map(np.asarray, params)


@jax.jit
def _step(params, state, x, y, padding, noise, clip_norm, rate):
    gradient = clipping.clipped_grad(_loss, l2_clip_norm=clip_norm, rescale_to_unit_norm=True, batch_argnums=(1, 2))
    total = gradient(params, x, y, is_padding_example=padding)
    privatizer = noise_addition.gaussian_privatizer(stddev=noise, prng_key=0)  # the key that counts is in the state
    total, state = privatizer.update(total, state)
    return jax.tree.map(lambda old, change: (old - rate * clip_norm * change).astype(old.dtype), params, total), state


def _loss(params, x, y):
    score = x @ params["weights"] + params["bias"]
    return jnp.mean(jnp.logaddexp(0.0, score) - y * score)
