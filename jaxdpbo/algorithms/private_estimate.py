"""How good is the answer? Any private algorithm, and after it the noised mean loss at its answer.

A loss that is measured at an answer is raw data. ``algorithm_of(inner)`` makes an ``Algorithm`` of an inner one: one
more step evaluates the answer, and its mean loss, clipped to a public range, is released with noise of a budget of its
own.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import _checks, types
from jaxdpbo.privacy import accounting, calibration, guarantee, private_mean
from jaxdpbo.space import Space
from jaxdpbo.types import Algorithm, ArrayLike, Query, State

ESTIMATE = "the loss at the answer"  # a part of a guarantee


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Made by ``config``: the ``inner`` config; the ``budget`` of the estimate; ``low ()`` and ``high ()``, traced."""

    inner: Any
    budget: calibration.Budget
    low: jax.Array
    high: jax.Array

    @property
    def users(self) -> int:
        """``n``."""
        return self.budget.users

    @property
    def steps(self) -> int:
        """``T``: the inner algorithm's, and one."""
        return self.inner.steps + 1

    @property
    def batch(self) -> int:
        """``b``, of the inner algorithm."""
        return self.inner.batch

    @property
    def space(self) -> Space | None:
        """The inner algorithm's."""
        return self.inner.space


def config(inner_config: types.Config, *, users: int, mu: float, loss_range: ArrayLike, noise: str = "exact") -> Config:
    """Check a configuration.

    Args:
      inner_config: of the inner algorithm, of the same users, with a ``batch``.
      users: ``n``, public.
      mu: the GDP budget of the estimate alone; ``inf`` for none.
      loss_range: ``(low, high)``, chosen without the users' data: losses are clipped there.
      noise: "exact", on an integer grid; "float", for research sweeps; or "none" (only with ``mu = inf``).

    Raises:
      ValueError: a number out of range, or an inner config of other users.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import dp_gibo
    >>> from jaxdpbo.algorithms import private_estimate
    >>> inner = dp_gibo.config(users=500, steps=5, mu=0.9, bounds=[(0, 6)] * 3)
    >>> chosen = private_estimate.config(inner, users=500, mu=0.4, loss_range=(0, 1))
    >>> chosen.steps, private_estimate.algorithm_of(dp_gibo.algorithm).privacy(chosen).level < 1
    (6, True)
    """
    dtype = jnp.result_type(float)
    low, high = _checks.interval("loss_range", loss_range, dtype)
    budget = calibration.budget(mu, noise, users=users, steps=1, dimension=1, dtype=dtype)
    if inner_config.users != budget.users:
        raise ValueError(f"inner_config must be of {budget.users} users, got {inner_config.users}")
    return Config(inner_config, budget, jnp.asarray(low, dtype), jnp.asarray(high, dtype))


def deviation_of(config: Config) -> float:
    """The standard deviation of the estimate's noise; 0 for none."""
    return private_mean.loss_deviation(config.budget, float(config.low), float(config.high))


class Public(NamedTuple):
    """Released, or independent of the users' data.

    Attributes:
      step: ``()`` steps taken.
      budget: all that sets the noise, of both, as the run was begun.
      inner: the inner algorithm's.
      loss: ``()``, the estimate; NaN until it is made.
    """

    step: jax.Array
    budget: calibration.NoiseSettings
    inner: Any
    loss: jax.Array


class Info(NamedTuple):
    """NOT PRIVATE. ``mean_loss (b,)`` over users; ``factorisation_failed``: the inner algorithm's."""

    mean_loss: jax.Array
    factorisation_failed: jax.Array | None


class Release(NamedTuple):
    """What may be published; all of it is covered by the guarantee.

    Attributes:
      point: ``(d,)``, the inner algorithm's answer.
      loss: ``()``, the noised mean loss there; NaN before the last step.
      inner: all that the inner algorithm releases.
      params: ``point`` by name, where a ``Space`` was searched, filled in by the drivers.
    """

    point: jax.Array
    loss: jax.Array
    inner: Any
    params: dict[str, Any] | None = None


@lru_cache
def algorithm_of(inner: Algorithm) -> Algorithm:
    """``inner``, and the estimate.

    Formal guarantee: GDP, replace-one, of all that ``inner`` releases and the estimate together.

    ==========================================  ======================================================
    case                                        result
    ==========================================  ======================================================
    ``state.public.step == T``                  the state unchanged: nothing more is released
    begun with other noise                      likewise: the guarantee is of one budget
    a loss outside the range                    counts as the end of the range
    a loss NaN or infinite                      NaN counts as the middle, infinities as the ends
    ``mu = inf``                                the clipped mean itself: not private
    an inner algorithm without GDP at each step refused by ``init`` and ``privacy``
    ==========================================  ======================================================
    """

    def settings(config, within):
        if not isinstance(within.public.budget, calibration.NoiseSettings):
            raise ValueError("inner must be an algorithm that pays for every step, such as dp_gibo.algorithm")
        own = calibration.noise_settings(config.budget, config.low, config.high)
        return calibration.joined(own, within.public.budget)

    def within(state):
        return State(state.public.inner, state.private)

    def init(key, config):
        inside = inner.init(key, config.inner)
        nothing = jnp.full((), jnp.nan, config.low.dtype)
        public = Public(jnp.zeros((), jnp.int32), settings(config, inside), inside.public, nothing)
        return State(public, inside.private)

    def ask(key, config, state):
        query = inner.ask(key, config.inner, within(state))
        answer = inner.release(key, config.inner, within(state)).point
        last = state.public.step >= config.inner.steps
        points = jnp.where(last, answer[None].astype(query.points.dtype), query.points)
        return Query(points, jnp.where(last, jnp.arange(config.batch, dtype=jnp.int32) == 0, query.mask))

    def tell(key, config, state, query, values):
        if values.shape != (config.batch, config.users):
            raise ValueError(f"values must have shape {(config.batch, config.users)}, got {values.shape}")
        noise_key, inner_key = jax.random.split(key)
        public = state.public
        begun = settings(config, inner.init(key, config.inner))
        active = (public.step < config.steps) & calibration.same_noise(public.budget, begun)
        inside, said = inner.tell(inner_key, config.inner, within(state), query, values)
        searching = active & (public.step < config.inner.steps)
        inside = jax.tree.map(lambda new, old: jnp.where(searching, new, old), inside, within(state))
        values = values.astype(config.low.dtype)
        released, _, _ = private_mean.of_losses(noise_key, config.budget, values[:1], config.low, config.high)
        after = Public(
            step=jnp.where(active, public.step + 1, public.step),
            budget=public.budget,
            inner=inside.public,
            loss=jnp.where(active & ~searching, released[0], public.loss),
        )
        failed = said.factorisation_failed
        return State(after, inside.private), Info(
            jnp.mean(values, axis=1), None if failed is None else searching & failed
        )

    def release(key, config, state):
        found = inner.release(key, config.inner, within(state))
        return Release(found.point, state.public.loss, found)

    def privacy(config):
        return _statement(config, inner.privacy(config.inner))

    return Algorithm(init, ask, tell, release, privacy)


def _statement(config: Config, inner: guarantee.Guarantee) -> guarantee.Guarantee:
    """Both parts together; none where one of them has none."""
    own = calibration.statement(config.budget, guarantee.USERS)
    guarantee.expect_gdp("inner", inner)
    if "none" in (own.notion, inner.notion):
        return guarantee.no_guarantee(guarantee.USERS, "mu is infinite: no noise was added")
    return guarantee.guarantee(
        "gdp",
        accounting.composed_mu(inner.level, own.level),
        "replace_one",
        guarantee.USERS,
        assumptions=own.assumptions,
        total_variation=own.total_variation + inner.total_variation,
        parts=(*calibration.statement_parts(config.inner, inner), (ESTIMATE, own.level)),
    ).assuming(*inner.assumptions)
