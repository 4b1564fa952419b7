"""Parts for an algorithm of your own: budgets, clipped sums, exact noise, choices, and the guarantee of all of it.

The contract is ``types.Algorithm``. A part that sums over users has three functions: add up in ``contribute``, perturb
in ``perturb``, and read the result in ``tell``. The budget decides whether sums are whole numbers with exact noise.

>>> import jax
>>> import jax.numpy as jnp
>>> from jaxdpbo import parts, secret_key
>>> vectors = jax.random.normal(jax.random.key(0), (2, 500))  # of two numbers for each user
>>> noise = parts.sum_noise(1.0, "exact", users=500, steps=3, dimension=2, dtype=float)
>>> clip_norm = jnp.ones(())
>>> total, clipped, nonfinite = parts.sum_clipped_vectors(noise, vectors, clip_norm)
>>> raw = parts.UserTotal(total, {"clipped": clipped})  # what contribute returns
>>> released = parts.perturb_vectors(secret_key(), noise, raw.whole, clip_norm)
>>> parts.mean_of_vectors(noise, released, clip_norm).shape
(2,)
>>> parts.gdp_guarantee(noise, parts.USERS).level <= 1.0  # of three such steps
True

For the mean loss at each of two points, with losses clipped to a public range:

>>> losses, low, high = jnp.ones((2, 500)), jnp.zeros(()), jnp.ones(())
>>> noise = parts.sum_noise(1.0, "exact", users=500, steps=3, releases=2, dimension=1, dtype=float)
>>> total, clipped = parts.sum_clipped_losses(noise, losses, low, high)  # raw
>>> released = parts.perturb_losses(secret_key(), noise, total, low, high)
>>> parts.mean_of_losses(noise, released, low, high).shape
(2,)

To choose one of the points, by differences of losses that count up to a public width:

>>> noise = parts.choice_noise(1.0, "exact", dtype=float)
>>> total = parts.sum_relative_losses(noise, losses, high - low)  # raw
>>> int(parts.draw_choice(secret_key(), noise, total)) in (0, 1)
True
>>> parts.choice_guarantee("a choice", noise, parts.USERS).notion
'gdp'

``noise_settings`` says in ``State.public`` under which noise a run began, and ``guard_noise`` makes an algorithm
release nothing after its last step or under other noise:

>>> noise = parts.sum_noise(1.0, "exact", users=500, steps=3, dimension=2, dtype=float)
>>> int(parts.noise_settings(noise, clip_norm).steps)
3
>>> from jaxdpbo import dp_gd
>>> def settings(config):
...     return parts.noise_settings(config.noise, config.clip_norm)
>>> guarded = parts.guard_noise(dp_gd.algorithm, settings)

Check the arguments of your config by name:

>>> parts.check_box("bounds", [(0, 1)] * 3).shape, parts.check_interval("loss_range", (0, 1))
((2, 3), (0.0, 1.0))
>>> parts.check_positive("step_size", 0.5)
0.5
>>> parts.check_size("batch", 0)
Traceback (most recent call last):
...
ValueError: batch must be at least 1, got 0
"""

from jaxdpbo import namespace
from jaxdpbo.checks import box as check_box
from jaxdpbo.checks import interval as check_interval
from jaxdpbo.checks import positive as check_positive
from jaxdpbo.checks import size as check_size
from jaxdpbo.guarantee.assumptions import IDEAL_NOISE, PUBLIC_CONFIG, RANDOM_BITS, SEPARABLE_LOSSES
from jaxdpbo.guarantee.composed_guarantee import choice_guarantee, gdp_guarantee, guarantee_from_stages
from jaxdpbo.guarantee.guarantees import USERS
from jaxdpbo.noise.calibration import NoiseSettings, SumNoise, noise_settings, sum_noise
from jaxdpbo.noise.choice import ChoiceNoise, choice_noise
from jaxdpbo.noise.choice import draw as draw_choice
from jaxdpbo.noise.choice import sum_losses as sum_relative_losses
from jaxdpbo.noise.clipping import sum_clipped_vectors
from jaxdpbo.noise.guard import guard_noise
from jaxdpbo.noise.private_mean import (
    mean_of_losses,
    mean_of_vectors,
    perturb_losses,
    perturb_vectors,
    sum_clipped_losses,
)
from jaxdpbo.noise.totals import UserTotal

__all__ = [
    "IDEAL_NOISE",
    "PUBLIC_CONFIG",
    "RANDOM_BITS",
    "SEPARABLE_LOSSES",
    "USERS",
    "ChoiceNoise",
    "NoiseSettings",
    "SumNoise",
    "UserTotal",
    "check_box",
    "check_interval",
    "check_positive",
    "check_size",
    "choice_guarantee",
    "choice_noise",
    "draw_choice",
    "gdp_guarantee",
    "guarantee_from_stages",
    "guard_noise",
    "mean_of_losses",
    "mean_of_vectors",
    "noise_settings",
    "perturb_losses",
    "perturb_vectors",
    "sum_clipped_losses",
    "sum_clipped_vectors",
    "sum_noise",
    "sum_relative_losses",
]
__dir__ = namespace.list_public(__name__)
