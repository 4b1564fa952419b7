"""Run any private algorithm, then release the noised mean loss at its answer.

A loss measured at an answer is raw data. ``make_algorithm(inner)`` makes an ``Algorithm`` of an inner one: one more
step evaluates the answer, and the mean loss, clipped to a public range, is released with noise from a separate budget.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import arrays, checks, namespace, types
from jaxdpbo.guarantee import composed_guarantee, guarantees
from jaxdpbo.noise import calibration, guard, private_mean, totals, wide_integers
from jaxdpbo.space import Space
from jaxdpbo.types import Algorithm, ArrayLike, Info, Memory, Query, State

__all__ = [
    "Config",
    "Release",
    "config",
    "make_algorithm",
]
__dir__ = namespace.list_public(__name__)

ESTIMATE = "the loss at the answer"  # name of a part of the guarantee
PAYS = "an algorithm that pays for every step, such as dp_gibo.algorithm"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Made by ``config``: the ``inner`` config; the ``budget`` of the estimate; ``low ()`` and ``high ()``, traced."""

    inner: Any
    budget: calibration.SumBudget
    low: jax.Array
    high: jax.Array

    @property
    def users(self) -> int:
        """Number of users ``n``."""
        return self.budget.users

    @property
    def steps(self) -> int:
        """Number of steps ``T``: the inner algorithm's, plus one."""
        return self.inner.steps + 1

    @property
    def batch(self) -> int:
        """Evaluations a step ``b``, of the inner algorithm."""
        return self.inner.batch

    @property
    def space(self) -> Space | None:
        """Search space of the inner algorithm."""
        return self.inner.space


def config(inner_config: types.Config, *, users: int, mu: float, loss_range: ArrayLike, noise: str = "exact") -> Config:
    """Check a configuration.

    Args:
      inner_config: of the inner algorithm, with the same users and a ``batch``.
      users: ``n``, public.
      mu: the GDP budget of the estimate alone; ``inf`` for no privacy.
      loss_range: ``(low, high)``, chosen without the users' data: losses are clipped to this range.
      noise: "exact", on an integer grid; "float", for research sweeps; or "none" (only with ``mu = inf``).

    Raises:
      ValueError: a number out of range, or an inner config of other users.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import dp_gibo, private_estimate
    >>> inner = dp_gibo.config(users=500, steps=5, mu=0.9, bounds=[(0, 6)] * 3)
    >>> chosen = private_estimate.config(inner, users=500, mu=0.4, loss_range=(0, 1))
    >>> chosen.steps, private_estimate.make_algorithm(dp_gibo.algorithm).privacy(chosen).level < 1
    (6, True)
    """
    dtype = jnp.result_type(float)
    low, high = checks.interval("loss_range", loss_range, dtype)
    budget = calibration.budget(mu, noise, users=users, steps=1, dimension=1, dtype=dtype)
    if inner_config.users != budget.users:
        raise ValueError(f"inner_config must be of {budget.users} users, got {inner_config.users}")
    return Config(inner_config, budget, arrays.to_device(low, dtype), arrays.to_device(high, dtype))


def estimate_deviation(config: Config) -> float:
    """Standard deviation of the estimate's noise; 0 for no noise."""
    return private_mean.loss_deviation(config.budget, float(config.low), float(config.high))


class Public(NamedTuple):
    """Released values, and values independent of the users' data.

    Attributes:
      step: ``()`` steps taken.
      budget: all noise settings, of both parts, at the start of the run.
      inner: public state of the inner algorithm.
      loss: ``()``, the estimate; NaN before the last step.
    """

    step: jax.Array
    budget: calibration.NoiseSettings
    inner: Any
    loss: jax.Array


class Work(NamedTuple):
    """Public inputs of ``contribute``.

    Attributes:
      inner: for the inner algorithm.
      estimating: ``()``, whether the step is the estimate; the others belong to the inner algorithm.
    """

    inner: Any
    estimating: jax.Array


class Pair(NamedTuple):
    """Parts of the ``inner`` algorithm and of the ``loss (1,)``: of a total, or of a release."""

    inner: Any
    loss: Any


class Release(NamedTuple):
    """Everything you may publish; the guarantee covers all of it.

    Attributes:
      point: ``(d,)``, the inner algorithm's answer.
      loss: ``()``, the noised mean loss there; NaN before the last step.
      inner: the release of the inner algorithm.
      params: ``point`` by name, if you searched a ``Space``; filled in by the drivers.
    """

    point: jax.Array
    loss: jax.Array
    inner: Any
    params: dict[str, Any] | None = None


@lru_cache
def make_algorithm(inner: Algorithm) -> Algorithm:
    """Add an estimate of the loss at the answer to ``inner``.

    Formal guarantee: GDP, replace-one, of the release of ``inner`` and the estimate together.

    ==========================================  ======================================================
    case                                        result
    ==========================================  ======================================================
    after step T, or with other noise           the state unchanged, see ``noise.guard``
    a loss outside the range                    counts as the end of the range
    a loss NaN or infinite                      counts as the upper end of the range, the worst
    ``mu = inf``                                the clipped mean itself: not private
    an inner algorithm without GDP in a step    refused here, or by ``init`` and ``privacy``
    ==========================================  ======================================================

    >>> from jaxdpbo import dp_gd, private_estimate
    >>> private_estimate.make_algorithm(dp_gd.algorithm).contribute is not None
    True
    """
    if inner.contribute is None or inner.perturb is None:
        raise ValueError(f"inner must be {PAYS}")
    steps = Algorithm(**{name: types.bind(function, inner) for name, function in FUNCTIONS.items()})
    return guard.guard_budget(
        steps, lambda config: _joint_settings(config, inner.init(jax.random.key(0), config.inner))
    )


def _joint_settings(config: Config, inside: State) -> calibration.NoiseSettings:
    if not isinstance(inside.public.budget, calibration.NoiseSettings):
        raise ValueError(f"inner must be {PAYS}")
    own = calibration.noise_settings(config.budget, config.low, config.high)
    return calibration.join_settings(own, inside.public.budget)


def _inner_state(state: State) -> State:
    return State(state.public.inner)


def _inner_query(query: Query) -> Query:
    return query._replace(work=query.work.inner, active=query.active & ~query.work.estimating)


def _init(inner: Algorithm, key: jax.Array, config: Config) -> State:
    inside = inner.init(key, config.inner)
    nothing = jnp.full((), jnp.nan, config.low.dtype)
    return State(Public(jnp.zeros((), jnp.int32), _joint_settings(config, inside), inside.public, nothing))


def _ask(inner: Algorithm, key: jax.Array, config: Config, state: State) -> Query:
    public = state.public
    query = inner.ask(key, config.inner, _inner_state(state))
    answer = inner.release(key, config.inner, _inner_state(state)).point
    last = public.step >= config.inner.steps
    return query._replace(
        points=jnp.where(last, answer[None].astype(query.points.dtype), query.points),
        mask=jnp.where(last, jnp.arange(config.batch, dtype=jnp.int32) == 0, query.mask),
        work=Work(query.work, last),
        survey=None if query.survey is None else query.survey & ~last,
    )


def _history(inner: Algorithm, config: Config, state: State, query: Query) -> tuple[Query, ...]:
    """The queries of the inner algorithm; the estimate needs its own alone."""
    inside = types.history(inner, config.inner, _inner_state(state), _inner_query(query))
    if query.work.estimating:
        return (query,)
    return tuple(inner_query._replace(work=query.work._replace(inner=inner_query.work)) for inner_query in inside)


def _remember(inner: Algorithm, config: Config, users: int) -> Memory:
    return inner.remember(config.inner, users)


def _contribute(
    inner: Algorithm, config: Config, query: Query, memory: Memory, values: jax.Array, present: jax.Array | None = None
) -> tuple[totals.UserTotal, Memory]:
    assert inner.contribute is not None
    types.check_values(values, config.batch, memory=memory, present=present)
    total, memory = inner.contribute(config.inner, _inner_query(query), memory, values, present)
    values = values.astype(config.low.dtype)
    losses, _ = private_mean.sum_clipped_losses(config.budget, values[:1], config.low, config.high, present)
    present_losses = values if present is None else jnp.where(present[None], values, 0)
    facts = {"inner": total.facts, "losses": jnp.sum(present_losses, axis=1)}
    return totals.UserTotal(_paid(query, Pair(total.whole, losses)), facts), memory


def _survey(
    inner: Algorithm, config: Config, query: Query, memory: Memory, values: jax.Array, present: jax.Array | None = None
) -> wide_integers.Wide:
    assert inner.survey is not None
    return inner.survey(config.inner, _inner_query(query), memory, values, present)


def _refine(inner: Algorithm, key: jax.Array, config: Config, query: Query, whole: wide_integers.Wide) -> Query:
    assert inner.refine is not None
    refined = inner.refine(key, config.inner, _inner_query(query), whole)
    return query._replace(work=query.work._replace(inner=refined.work))


def _perturb(inner: Algorithm, key: jax.Array, config: Config, query: Query, whole: Pair) -> Pair:
    assert inner.perturb is not None
    noise_key, inner_key = jax.random.split(key)
    released = Pair(
        inner.perturb(inner_key, config.inner, _inner_query(query), whole.inner),
        private_mean.perturb_losses(noise_key, config.budget, whole.loss, config.low, config.high),
    )
    return _paid(query, released)


def _paid(query: Query, pair: Pair) -> Pair:
    """Keep the part released by this step, and set the other to zero."""
    return Pair(totals.only_if(~query.work.estimating, pair.inner), totals.only_if(query.work.estimating, pair.loss))


def _tell(inner: Algorithm, config: Config, state: State, query: Query, released: Pair) -> State:
    public = state.public
    inside = inner.tell(config.inner, _inner_state(state), _inner_query(query), released.inner).public
    loss = private_mean.mean_of_losses(config.budget, released.loss, config.low, config.high)[0]
    after = Public(
        step=public.step + 1,
        budget=public.budget,
        inner=inside,
        loss=jnp.where(query.work.estimating, loss, public.loss),
    )
    return State(after)


def _inform(inner: Algorithm, config: Config, query: Query, total: totals.UserTotal) -> Info:
    info = inner.inform(config.inner, _inner_query(query), totals.UserTotal(total.whole.inner, total.facts["inner"]))
    return Info({"mean_loss": total.facts["losses"] / config.users}, info.factorisation_failed)


def _release(inner: Algorithm, key: jax.Array, config: Config, state: State) -> Release:
    answer = inner.release(key, config.inner, _inner_state(state))
    return Release(answer.point, state.public.loss, answer)


def _privacy(inner: Algorithm, config: Config) -> guarantees.Guarantee:
    """Compose both guarantees; no guarantee if either part has none."""
    own = composed_guarantee.gdp_guarantee(config.budget, guarantees.USERS)
    inner_guarantee = guarantees.complete_assumptions(inner.privacy(config.inner))
    guarantees.expect_gdp("inner", inner_guarantee)
    if "none" in (own.notion, inner_guarantee.notion):
        return guarantees.no_guarantee(guarantees.USERS, "mu is infinite: no noise was added")
    return composed_guarantee.guarantee_from_stages(
        [*composed_guarantee.guarantee_stages(config.inner, inner_guarantee), (ESTIMATE, "gaussian", own.level)],
        guarantees.USERS,
        assumptions=own.assumptions,
        total_variation=own.total_variation + inner_guarantee.total_variation,
    ).assuming(*inner_guarantee.assumptions)


FUNCTIONS = {
    "init": _init, "ask": _ask, "tell": _tell, "release": _release, "privacy": _privacy, "contribute": _contribute,
    "perturb": _perturb, "inform": _inform, "remember": _remember, "survey": _survey, "refine": _refine,
    "history": _history,
}  # fmt: skip
