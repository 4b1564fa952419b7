"""Private evaluations: every utility is released through a mechanism, so everything after it is post-processing.

The simple answer to what Kusner et al. (2015) name as the open problem, "to release each sampled hyper-parameter and
validation accuracy privately (during the run)": each user's loss is clipped to a public range, their mean is released
with Gaussian noise, and ``T b`` such evaluations compose to ``mu``. Any optimiser may steer by the released values: fit
its kernel to them, standardise them, stop early. All points and values may be published, and the guarantee rests on no
Gaussian process.

Two forms. ``algorithm_of(inner)`` makes an ``Algorithm`` of an inner one, compiled like any other. ``PrivateObjective``
makes a scalar function of a per-user loss for an optimiser that is not ours: the one object here with a state of its
own, since it counts a budget that somebody else spends.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks
from jaxdpbo.privacy import accounting, guarantee, keys, mechanisms
from jaxdpbo.types import Algorithm, State

PROTECTS = "the users whose losses are evaluated; NOT the records a model is trained on"


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["inner", "mu", "low", "high"],
    meta_fields=["users", "steps", "batch"],
)
@dataclass(frozen=True)
class Config:
    """Made by ``config``. Traced: the ``inner`` config, ``mu ()``, and the range of a loss, ``low ()`` and ``high ()``.

    Static: ``users``; ``steps`` and ``batch``, the inner one's.
    """

    inner: Any
    mu: jax.Array
    low: jax.Array
    high: jax.Array
    users: int
    steps: int
    batch: int


def config(inner: Algorithm, inner_config: Any, *, users: int, mu: float, loss_range: Any) -> Config:
    """Check a configuration.

    Args:
      inner: an algorithm that maximises one utility a point (``gp_ucb.config(users=None)``), or minimises the mean loss
        of ONE user (``random_search.config(users=1)``): that one is told the released mean.
      inner_config: its config; ``noise_deviation`` says how noisy the values will be.
      users: ``n``, public.
      mu: the GDP budget of all evaluations together; ``inf`` for none.
      loss_range: ``(low, high)``, chosen without the users' data: losses are clipped there.

    Raises:
      ValueError: a number out of range, or an inner config that wants more users than one.
      TypeError: an argument of the wrong kind.
    """
    if inner_config.users not in (None, 1):
        raise ValueError(
            f"inner_config must be for one value a point (users None or 1), got {inner_config.users} users"
        )
    key = jax.random.key(0)
    query = jax.eval_shape(lambda: inner.ask(key, inner_config, inner.init(key, inner_config)))
    low, high = _range(loss_range)
    dtype = jnp.result_type(float)
    return Config(
        inner=inner_config,
        mu=jnp.asarray(_checks.positive("mu", mu, finite=False), dtype),
        low=jnp.asarray(low, dtype),
        high=jnp.asarray(high, dtype),
        users=_checks.size("users", users),
        steps=inner_config.steps,
        batch=query.points.shape[0],
    )


def noise_deviation(*, users: int, mu: float, loss_range: Any, evaluations: int) -> float:
    """The standard deviation of the noise of one released mean: ``(high - low) / n`` over ``mu / sqrt(evaluations)``.

    Replacing one user moves the mean of ``n`` clipped losses by at most ``(high - low) / n``.
    """
    low, high = _range(loss_range)
    each = accounting.split_gdp(mu, evaluations)
    return accounting.gaussian_standard_deviation((high - low) / _checks.size("users", users), each)


class Public(NamedTuple):
    """Everything: what is not data-independent has been through the mechanism.

    Attributes:
      step: ``()`` steps taken.
      budget: ``()`` the ``mu`` this run was begun with.
      inner: the whole state of the inner algorithm, its "private" part included: it was told released values only.
      points: ``(T b, d)`` evaluated so far.
      values: ``(T b,)`` released mean losses; NaN where nothing was evaluated.
    """

    step: jax.Array
    budget: jax.Array
    inner: Any
    points: jax.Array
    values: jax.Array


class Info(NamedTuple):
    """NOT PRIVATE.

    Attributes:
      mean_loss: ``(b,)`` over users, clipped, before the noise.
      clipped: ``(b,)`` how many users' losses were moved by the clip, those not finite included.
    """

    mean_loss: jax.Array
    clipped: jax.Array


class Release(NamedTuple):
    """All of it may be published.

    Attributes:
      point: ``(d,)`` the inner algorithm's answer.
      row: ``()`` which candidate it is, where the inner one searches a finite set; otherwise None.
      points: ``(T b, d)`` every point evaluated.
      values: ``(T b,)`` every released mean loss; NaN where nothing was evaluated.
    """

    point: jax.Array
    row: jax.Array | None
    points: jax.Array
    values: jax.Array


@lru_cache
def algorithm_of(inner: Algorithm) -> Algorithm:
    """``inner``, told released values only. One record for each inner algorithm, so that runs are not compiled twice.

    Formal guarantee: ``mu``-GDP, replace-one, for the answer and for all points and values together.

    Its ``tell`` takes ``values (b, n)``, every user's loss:

    ==========================================  ======================================================
    case                                        result
    ==========================================  ======================================================
    ``state.public.step == T``                  the state unchanged: nothing more is released
    a loss outside the range                    counts as the end of the range
    a loss NaN or infinite                      NaN counts as the middle, infinities as the ends
    a masked point                              not released: the inner algorithm is told so
    ==========================================  ======================================================
    """

    def init(key, config):
        within = inner.init(key, config.inner)
        dimension = jax.eval_shape(lambda: inner.ask(key, config.inner, within)).points.shape[1]
        count, dtype = config.steps * config.batch, config.low.dtype
        public = Public(
            step=jnp.zeros((), jnp.int32),
            budget=config.mu,
            inner=within,
            points=jnp.zeros((count, dimension), dtype),
            values=jnp.full(count, jnp.nan, dtype),
        )
        return State(public, ())

    def ask(key, config, state):
        return inner.ask(key, config.inner, state.public.inner)

    def tell(key, config, state, query, values):
        if values.shape != (config.batch, config.users):
            raise ValueError(f"values must have shape {(config.batch, config.users)}, got {values.shape}")
        noise_key, inner_key = jax.random.split(key)
        public = state.public
        active = public.step < config.steps
        each = config.mu / jnp.sqrt(jnp.asarray(config.steps * config.batch, config.mu.dtype))
        means, clipped = clipped_means(values.astype(config.low.dtype), config.low, config.high)
        released = mechanisms.gaussian(noise_key, means, (config.high - config.low) / config.users / each)
        told = -released if config.inner.users is None else released[:, None]
        within, _ = inner.tell(inner_key, config.inner, public.inner, query, told)
        start = jnp.minimum(public.step, config.steps - 1) * config.batch

        def write(buffer, rows):
            kept = jax.lax.dynamic_slice_in_dim(buffer, start, config.batch)
            return jax.lax.dynamic_update_slice_in_dim(buffer, jnp.where(active, rows, kept), start, 0)

        after = Public(
            step=jnp.where(active, public.step + 1, public.step),
            budget=public.budget,
            inner=jax.tree.map(lambda new, old: jnp.where(active, new, old), within, public.inner),
            points=write(public.points, query.points),
            values=write(public.values, jnp.where(query.mask, released, jnp.nan)),
        )
        return State(after, ()), Info(means, clipped)

    def release(key, config, state):
        answer = inner.release(key, config.inner, state.public.inner)
        return Release(answer.point, getattr(answer, "row", None), state.public.points, state.public.values)

    return Algorithm(init, ask, tell, release, privacy)


def privacy(config: Config) -> guarantee.Guarantee:
    """``mu``-GDP, unconditional but for ideal noise and public numbers."""
    return _statement(float(config.mu))


def clipped_means(losses: jax.Array, low: jax.Array | float, high: jax.Array | float) -> tuple[jax.Array, jax.Array]:
    """Means ``(b,)`` over users of ``losses (b, n)`` clipped to ``[low, high]``, NaN as the middle.

    Moving one user's losses moves each mean by at most ``(high - low) / n``, whatever the losses are.

    Returns:
      The means, and how many losses ``(b,)`` were moved: raw data.
    """
    known = jnp.where(jnp.isnan(losses), (low + high) / 2, losses)
    inside = jnp.clip(known, low, high)
    return jnp.mean(inside, axis=1), jnp.sum(inside != losses, axis=1)


class BudgetExhausted(RuntimeError):
    """Every evaluation that the budget was split into is spent."""


class Spent(NamedTuple):
    """One released evaluation, public: where, and the noised mean loss."""

    point: Any
    value: float


class PrivateObjective:
    """``objective(point) -> float``, a noised mean loss: for any optimiser, which need not know that it is private.

    Formal guarantee: ``mu``-GDP, replace-one, for all that it ever returns together. The budget is split equally among
    ``evaluations`` calls beforehand; a call is charged before the loss is computed, so one that raises stays charged.
    What the exception of a loss says is the loss's own affair. Threads may share one object; processes may not: each
    copy would count for itself, so it refuses to be pickled.

    Attributes:
      deviation: the standard deviation of the noise of one value.
      guarantee: what all evaluations together give.
    """

    def __init__(
        self,
        loss: Callable[[Any, Any], Any],
        data: Any,
        *,
        users: int,
        mu: float,
        evaluations: int,
        loss_range: Any,
        key: jax.Array | None = None,
    ):
        """Check and split.

        Args:
          loss: ``(point, data) -> losses (n,)``; entry ``i`` must depend on user ``i``'s record alone.
          data: passed on untouched.
          users: ``n``, public.
          mu: the GDP budget of all evaluations together.
          evaluations: how many there may be.
          loss_range: ``(low, high)``, chosen without the users' data: losses are clipped there.
          key: a typed key for tests; from the operating system where not given.

        Raises:
          ValueError: a number out of range.
          TypeError: ``key`` is not a typed key.
        """
        self._loss, self._data = loss, data
        self._users, self._evaluations = _checks.size("users", users), _checks.size("evaluations", evaluations)
        self._low, self._high = _range(loss_range)
        self.deviation = noise_deviation(users=users, mu=mu, loss_range=loss_range, evaluations=evaluations)
        statement = _statement(_checks.positive("mu", mu, finite=False))
        self._key = keys.secret_key() if key is None else _checks.key("key", key)
        self.guarantee = statement if key is None else statement.assuming(guarantee.KEY_SECRET)
        self._lock, self._charged, self._spent = threading.Lock(), 0, []

    def __call__(self, point: Any) -> float:
        """One evaluation.

        Raises:
          BudgetExhausted: none is left.
          ValueError: the losses do not have the shape ``(n,)``; it says no value.
          TypeError: they are no real numbers; it says none of them.
        """
        with self._lock:
            if self._charged == self._evaluations:
                raise BudgetExhausted(f"all {self._evaluations} evaluations are spent")
            number, self._charged = self._charged, self._charged + 1
        returned = self._loss(point, self._data)
        try:
            losses = np.asarray(returned, float)
        except (TypeError, ValueError):  # NumPy's own complaint would quote the values
            raise TypeError("loss must return an array of real numbers") from None
        if losses.shape != (self._users,):
            raise ValueError(f"losses must have shape {(self._users,)}, got {losses.shape}")
        mean = clipped_means(jnp.asarray(losses)[None], self._low, self._high)[0][0]
        value = float(mechanisms.gaussian(jax.random.fold_in(self._key, number), mean, self.deviation))
        with self._lock:
            self._spent.append(Spent(point, value))
        return value

    @property
    def remaining(self) -> int:
        """Evaluations left."""
        with self._lock:
            return self._evaluations - self._charged

    @property
    def spent(self) -> tuple[Spent, ...]:
        """All that was returned so far, in the order in which it was: public."""
        with self._lock:
            return tuple(self._spent)

    def __repr__(self) -> str:
        """Counts, no data."""
        return f"PrivateObjective({self.guarantee}; {self.remaining} of {self._evaluations} evaluations left)"

    def __reduce__(self) -> Any:
        """Refuse."""
        raise TypeError("a PrivateObjective cannot be pickled: two copies would spend one budget twice")


def _statement(mu: float) -> guarantee.Guarantee:
    if np.isinf(mu):
        return guarantee.no_guarantee(PROTECTS, "mu = inf adds no noise")
    assumptions = guarantee.IDEAL_NOISE, guarantee.PUBLIC_CONFIG, guarantee.SEPARABLE_LOSSES
    return guarantee.guarantee("gdp", mu, "replace_one", PROTECTS, holds_if=assumptions)


def _range(value: Any) -> tuple[float, float]:
    low, high = _checks.vector("loss_range", value, 2).tolist()
    if not low < high:
        raise ValueError(f"loss_range must have low < high, got {low}, {high}")
    return low, high
