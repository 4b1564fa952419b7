"""Release the noised mean loss at one point: a public point, or the answer of a search before it.

A loss measured at an answer is raw data. ``at_answer`` is the phase of a plan (``jaxdpbo.phases``) that evaluates the
answer once more: a private evaluation (``private_evaluations``) of one point, from a budget of its own.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import arrays, checks, namespace
from jaxdpbo import space as spaces
from jaxdpbo.algorithms.private_evaluations import configs, one_point, run
from jaxdpbo.guarantee import composed_guarantee, guarantees
from jaxdpbo.phases import Phase
from jaxdpbo.types import ArrayLike, Bounds, State

__all__ = [
    "Release",
    "algorithm",
    "at_answer",
    "config",
]
__dir__ = namespace.list_public(__name__)

ESTIMATE = "the loss at the answer"  # name of a part of the guarantee


def config(
    *,
    users: int,
    mu: float,
    bounds: Bounds,
    loss_range: ArrayLike,
    point: ArrayLike | None = None,
    noise: str = "exact",
) -> configs.Config:
    """Check a configuration.

    Args:
      users: ``n``, public.
      mu: the GDP budget; ``inf`` for no privacy.
      bounds: ``(2, d)``, finite, or a ``Space``.
      loss_range: ``(low, high)``, chosen without the users' data: losses are clipped to this range.
      point: ``(d,)``, where the loss is measured without a search before; by default the middle of the box.
      noise: "exact", on an integer grid; "float", for research sweeps; or "none" (only with ``mu = inf``).

    Raises:
      ValueError: a number out of range.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import private_estimate
    >>> chosen = private_estimate.config(users=500, mu=0.4, bounds=[(0, 6)] * 3, loss_range=(0, 1))
    >>> chosen.steps, private_estimate.algorithm.privacy(chosen).level <= 0.4
    (1, True)
    """
    dtype = jnp.result_type(float)
    box, space = spaces.box(bounds)
    box = checks.box("bounds", box)
    where = checks.inside("point", checks.from_box("point", point, box, checks.middle), box)
    inner = one_point.PointConfig(arrays.to_device(where, dtype), arrays.to_device(box, dtype), 1, space)
    return configs.config(
        one_point.one_point,
        inner,
        users=users,
        mu=mu,
        loss_range=checks.interval("loss_range", loss_range, dtype),
        noise=noise,
    )


class Release(NamedTuple):
    """Everything you may publish; the guarantee covers all of it.

    Attributes:
      point: ``(d,)``, where the loss was measured.
      loss: ``()``, the noised mean loss there; NaN before the step.
      params: ``point`` by name, if you searched a ``Space``; filled in by the drivers.
    """

    point: jax.Array
    loss: jax.Array
    params: dict[str, Any] | None = None


def privacy(config: configs.Config) -> guarantees.Guarantee:
    """``mu``-GDP for replace-one on the users; no guarantee at ``mu = inf``.

    Raises:
      ValueError: a stacked config; pass a single config.
    """
    return composed_guarantee.gdp_guarantee(config.noise, guarantees.USERS, ESTIMATE)


def _release(key: jax.Array, config: configs.Config, state: State) -> Release:
    released = _evaluations.release(key, config, state)
    return Release(released.point, released.values[0])


def _start_at_answer(config: configs.Config, state: State, releases: list[Any]) -> State:
    """Measure at the answer of the phase before."""
    del config
    inner = state.public.inner
    return State(state.public._replace(inner=State(inner.public._replace(point=releases[-1].point))))


_evaluations = run.make_algorithm(one_point.one_point)
algorithm = _evaluations._replace(release=_release, privacy=privacy)
at_answer = Phase(algorithm, start=_start_at_answer)
