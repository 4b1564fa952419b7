"""Release the noised mean loss at one point: a public point, or the answer of a search before it.

A loss measured at an answer is raw data. ``at_answer`` is the phase of a plan (``jaxdpbo.phases``) that evaluates the
answer once more, and releases the mean of the losses, clipped to a public range, with noise from a budget of its own.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import arrays, checks, namespace, types
from jaxdpbo import space as spaces
from jaxdpbo.guarantee import composed_guarantee, guarantees
from jaxdpbo.noise import calibration, guard, private_mean, totals
from jaxdpbo.phases import Phase
from jaxdpbo.space import Space
from jaxdpbo.types import Algorithm, ArrayLike, Bounds, Info, Query, State

__all__ = [
    "Config",
    "Release",
    "algorithm",
    "at_answer",
    "config",
]
__dir__ = namespace.list_public(__name__)

ESTIMATE = "the loss at the answer"  # name of a part of the guarantee


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Made by ``config``: the ``budget``; ``low ()``, ``high ()``, ``bounds (2, d)`` and ``point (d,)``, traced."""

    budget: calibration.SumBudget
    low: jax.Array
    high: jax.Array
    bounds: jax.Array
    point: jax.Array
    space: Space | None = field(metadata={"static": True})

    @property
    def users(self) -> int:
        """Number of users ``n``."""
        return self.budget.users

    @property
    def steps(self) -> int:
        """One step."""
        return 1

    @property
    def batch(self) -> int:
        """One evaluation."""
        return 1


def config(
    *,
    users: int,
    mu: float,
    bounds: Bounds,
    loss_range: ArrayLike,
    point: ArrayLike | None = None,
    noise: str = "exact",
) -> Config:
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
    low, high = checks.interval("loss_range", loss_range, dtype)
    bounds, space = spaces.box(bounds)
    box = checks.box("bounds", bounds)
    where = checks.inside("point", checks.from_box("point", point, box, checks.middle), box)
    return Config(
        budget=calibration.budget(mu, noise, users=users, steps=1, dimension=1, dtype=dtype),
        low=arrays.to_device(low, dtype),
        high=arrays.to_device(high, dtype),
        bounds=arrays.to_device(box, dtype),
        point=arrays.to_device(where, dtype),
        space=space,
    )


def deviation(config: Config) -> float:
    """Standard deviation of the noise; 0 for no noise."""
    return private_mean.loss_deviation(config.budget, float(config.low), float(config.high))


class Public(NamedTuple):
    """Released values, and values independent of the users' data.

    Attributes:
      step: ``()`` steps taken.
      budget: all noise settings at the start of the run.
      point: ``(d,)``, to evaluate.
      loss: ``()``, released; NaN before.
    """

    step: jax.Array
    budget: calibration.NoiseSettings
    point: jax.Array
    loss: jax.Array


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


def init(key: jax.Array, config: Config) -> State:
    """Make the state before the step; ``key`` is unused."""
    del key
    nothing = jnp.full((), jnp.nan, config.low.dtype)
    return State(Public(jnp.zeros((), jnp.int32), _settings(config), config.point, nothing))


def ask(key: jax.Array, config: Config, state: State) -> Query:
    """Ask for the losses at the point; ``key`` is unused."""
    del key, config
    return Query(state.public.point[None], jnp.ones(1, bool))


def contribute(
    config: Config, query: Query, memory: types.Memory, values: jax.Array, present: jax.Array | None = None
) -> tuple[totals.UserTotal, types.Memory]:
    """Sum the users' losses ``values (1, s)``, clipped to the range.

    ================================  =======================================================
    case                              result
    ================================  =======================================================
    a loss outside the range          counts as the end of the range
    a loss NaN or infinite            counts as the upper end of the range, the worst
    ================================  =======================================================

    Raises:
      ValueError: ``values`` is of another shape, at trace time.
    """
    del query
    types.check_values(values, 1, memory=memory, present=present)
    values = values.astype(config.low.dtype)
    whole, _ = private_mean.sum_clipped_losses(config.budget, values, config.low, config.high, present)
    losses = values if present is None else jnp.where(present[None], values, 0)
    return totals.UserTotal(whole, {"losses": jnp.sum(losses, axis=1)}), memory


def perturb(key: jax.Array, config: Config, query: Query, whole: totals.UserSum) -> totals.UserSum:
    """Add the noise. Formal guarantee: ``privacy``."""
    del query
    return private_mean.perturb_losses(key, config.budget, whole, config.low, config.high)


def tell(config: Config, state: State, query: Query, released: totals.UserSum) -> State:
    """Keep the noised mean."""
    del query
    public = state.public
    loss = private_mean.mean_of_losses(config.budget, released, config.low, config.high)[0]
    return State(public._replace(step=public.step + 1, loss=loss))


def inform(config: Config, query: Query, total: totals.UserTotal) -> Info:
    """Compute ``mean_loss (1,)``, without clip and noise. NOT PRIVATE."""
    del query
    return Info({"mean_loss": total.facts["losses"] / config.users})


def release(key: jax.Array, config: Config, state: State) -> Release:
    """Return the point and its noised mean loss; ``key`` is unused."""
    del key, config
    return Release(state.public.point, state.public.loss)


def privacy(config: Config) -> guarantees.Guarantee:
    """``mu``-GDP for replace-one on the users; no guarantee at ``mu = inf``.

    Raises:
      ValueError: a stacked config; pass a single config.
    """
    own = composed_guarantee.gdp_guarantee(config.budget, guarantees.USERS)
    if own.notion == "none":
        return own
    return composed_guarantee.guarantee_from_stages(
        [(ESTIMATE, "gaussian", own.level)],
        guarantees.USERS,
        assumptions=own.assumptions,
        total_variation=own.total_variation,
    )


def _settings(config: Config) -> calibration.NoiseSettings:
    return calibration.noise_settings(config.budget, config.low, config.high)


def _start_at_answer(config: Config, state: State, releases: list[Any]) -> State:
    """Measure at the answer of the phase before."""
    del config
    return State(state.public._replace(point=releases[-1].point))


_steps = Algorithm(
    init, ask, tell, release, privacy, contribute=contribute, perturb=perturb, inform=inform,
)  # fmt: skip
algorithm = guard.guard_budget(_steps, _settings)
at_answer = Phase(algorithm, start=_start_at_answer)
