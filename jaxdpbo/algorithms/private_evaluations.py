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

import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks, types
from jaxdpbo.privacy import accounting, calibration, charges, guarantee, keys, private_mean, sensitivity
from jaxdpbo.privacy import ledger as privacy_ledger
from jaxdpbo.types import Algorithm, ArrayLike, Data, State


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Made by ``config``: the ``inner`` config; ``budget``, whose ``steps`` and ``releases`` are the inner steps and
    the evaluations in each; the range of a loss, ``low ()`` and ``high ()``, traced.
    """

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
        """``T``."""
        return self.budget.steps

    @property
    def batch(self) -> int:
        """``b``."""
        return self.budget.releases


def config(
    inner: Algorithm, inner_config: types.Config, *, users: int, mu: float, loss_range: ArrayLike, noise: str = "exact"
) -> Config:
    """Check a configuration.

    Args:
      inner: an algorithm that maximises one utility a point (``gp_ucb.config(users=None)``), or minimises the mean loss
        of ONE user (``random_search.config(users=1)``): that one is told the released mean.
      inner_config: its config; ``noise_deviation`` says how noisy the values will be.
      users: ``n``, public.
      mu: the GDP budget of all evaluations together; ``inf`` for none.
      loss_range: ``(low, high)``, chosen without the users' data: losses are clipped there.
      noise: "exact", on an integer grid; "float", for research sweeps; or "none" (only with ``mu = inf``).

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
    batch = query.points.shape[0]
    budget = calibration.budget(
        mu, noise, users=users, steps=inner_config.steps, releases=batch, dimension=1, dtype=dtype
    )
    return Config(inner_config, budget, jnp.asarray(low, dtype), jnp.asarray(high, dtype))


def noise_deviation(*, users: int, mu: float, loss_range: ArrayLike, evaluations: int, noise: str = "exact") -> float:
    """The standard deviation of the noise of one released mean: its sensitivity over ``mu / sqrt(evaluations)``.

    The sensitivity is ``sensitivity.mean_loss``. On the grid the noise is a little more, by what the radius was rounded
    down.
    """
    low, high = _range(loss_range)
    evaluations = _checks.size("evaluations", evaluations)
    budget = calibration.budget(mu, noise, users=users, steps=evaluations, dimension=1, dtype=np.float64)
    return _deviation(budget, low, high)


def _deviation(budget: calibration.Budget, low: float, high: float) -> float:
    moved = sensitivity.mean_loss(low, high, budget.users)
    if not moved / 2 > 0:
        raise ValueError(
            f"loss_range must be wider for {budget.users} users, got {low}, {high}: floats lose one user's part"
        )
    if budget.noise == "exact":
        return moved * budget.sigma / sensitivity.integer_sum(int(budget.radius))
    each = accounting.split_gdp(float(budget.mu), budget.steps)
    return accounting.gaussian_standard_deviation(moved, each)


class Public(NamedTuple):
    """Everything: what is not data-independent has been through the mechanism.

    Attributes:
      step: ``()`` steps taken.
      budget: all that sets the noise, as the run was begun.
      inner: the whole state of the inner algorithm, its "private" part included: it was told released values only.
      points: ``(T b, d)`` evaluated so far.
      values: ``(T b,)`` released mean losses; NaN where nothing was evaluated.
    """

    step: jax.Array
    budget: calibration.NoiseSettings
    inner: Any
    points: jax.Array
    values: jax.Array


class Info(NamedTuple):
    """NOT PRIVATE.

    Attributes:
      mean_loss: ``(b,)`` over users, clipped, before the noise.
      clipped: ``(b,)`` how many users' losses were moved by the clip, those not finite included.
      factorisation_failed: the inner algorithm's: its points are public here.
    """

    mean_loss: jax.Array
    clipped: jax.Array
    factorisation_failed: jax.Array | None


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
    begun with other noise                      likewise: the guarantee is of one budget
    another inner config of the same sizes      the run goes on: it acts on what was released
    a loss outside the range                    counts as the end of the range
    a loss NaN or infinite                      NaN counts as the middle, infinities as the ends
    a masked point                              not released: the inner algorithm is told so
    ==========================================  ======================================================
    """

    def settings(config):
        return calibration.noise_settings(config.budget, config.low, config.high)

    def init(key, config):
        within = inner.init(key, config.inner)
        dimension = jax.eval_shape(lambda: inner.ask(key, config.inner, within)).points.shape[1]
        count, dtype = config.steps * config.batch, config.low.dtype
        public = Public(
            step=jnp.zeros((), jnp.int32),
            budget=settings(config),
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
        active = (public.step < config.steps) & calibration.same_noise(public.budget, settings(config))
        released, means, clipped = private_mean.of_losses(
            noise_key, config.budget, values.astype(config.low.dtype), config.low, config.high
        )
        told = -released if config.inner.users is None else released[:, None]
        within, said = inner.tell(inner_key, config.inner, public.inner, query, told)
        failed = said.factorisation_failed
        failed = None if failed is None else active & failed
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
        return State(after, ()), Info(means, clipped, failed)

    def release(key, config, state):
        answer = inner.release(key, config.inner, state.public.inner)
        return Release(answer.point, answer.row, state.public.points, state.public.values)

    return Algorithm(init, ask, tell, release, privacy)


def privacy(config: Config) -> guarantee.Guarantee:
    """GDP, as ``calibration.statement`` says, of all evaluations together."""
    return calibration.statement(config.budget, guarantee.USERS)


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
    copy would count for itself and draw the same noise, so it refuses to be pickled, and to work after a fork.

    Attributes:
      deviation: the standard deviation of the noise of one value.
      guarantee: what all evaluations together give.
    """

    def __init__(
        self,
        loss: Callable[[Any, Any], Any],
        data: Data,
        *,
        users: int,
        mu: float,
        evaluations: int,
        loss_range: ArrayLike,
        noise: str = "exact",
        key: jax.Array | None = None,
        insecure_key: bool = False,
        ledger: str | Path | None = None,
        run: str | None = None,
    ):
        """Check and split.

        Args:
          loss: ``(point, data) -> losses (n,)``; entry ``i`` must depend on user ``i``'s record alone.
          data: passed on untouched.
          users: ``n``, public.
          mu: the GDP budget of all evaluations together.
          evaluations: how many there may be.
          loss_range: ``(low, high)``, chosen without the users' data: losses are clipped there.
          noise: see ``config``.
          key: a typed key for tests; from the operating system where not given.
          insecure_key: permit a key of a generator without a security claim.
          ledger: charge all evaluations there (``privacy.ledger``). An object of the same ``run`` in another process
            goes on: what was returned is among ``spent``, what was charged stays charged. No ``key`` may be given.
          run: its name in the ledger, and of this loss and data: needed there.

        Raises:
          ledger.LedgerError: the budget does not suffice, or the name stands for something else.
          ValueError: a number out of range; ``key`` with a ledger, or no ``run``.
          TypeError: ``key`` is not a typed key, or of such a generator.
        """
        if key is None:
            keys.refuse_trace("the key of the evaluations")
        self._loss, self._data = loss, data
        self._users, self._evaluations = _checks.size("users", users), _checks.size("evaluations", evaluations)
        low, high = _range(loss_range)
        dtype = jnp.result_type(float)
        budget = calibration.budget(mu, noise, users=users, steps=evaluations, dimension=1, dtype=dtype)
        self.deviation = _deviation(budget, low, high)
        self._config = Config(None, budget, jnp.asarray(low, dtype), jnp.asarray(high, dtype))
        if ledger is not None and key is not None:
            raise ValueError(
                "key must not be given with a ledger: evaluations on record draw from the operating system"
            )
        self._key, self.guarantee = keys.for_release(key, privacy(self._config), insecure_key)
        self._ledger = None if ledger is None else Path(ledger).absolute()
        self._run, self._noted, self._process = run, 0, os.getpid()
        self._lock, self._charged, self._spent = threading.Lock(), 0, []
        if ledger is not None:
            what = f"private evaluations, {evaluations} of one point"
            charged = charges.charge(ledger, run, what, self.guarantee, "PrivateObjective", self._config)
            self._recall(charged.steps)

    def __call__(self, point: ArrayLike) -> float:
        """One evaluation.

        Raises:
          BudgetExhausted: none is left.
          RuntimeError: another process than the one that made this object.
          TypeError: ``point`` does not fit on record: numbers, text, arrays, lists and dicts of them do.
          ValueError: the losses do not have the shape ``(n,)``; it says no value.
          TypeError: they are no real numbers; it says none of them.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                "a PrivateObjective works in the process that made it: a fork would draw its noise twice"
            )
        place = None if self._ledger is None else _written(point)
        with self._lock:
            if self._charged == self._evaluations:
                raise BudgetExhausted(f"all {self._evaluations} evaluations are spent")
            self._note({"charged": self._charged + 1})
            number, self._charged = self._charged, self._charged + 1
        returned = self._loss(point, self._data)
        losses = _checks.users_values("loss", returned, self._config.low.dtype)
        if losses.shape != (self._users,):
            raise ValueError(f"losses must have shape {(self._users,)}, got {losses.shape}")
        given = jnp.asarray(losses[None])
        key, config = jax.random.fold_in(self._key, number), self._config
        value = float(_private_means(key, config.budget, given, config.low, config.high)[0][0])
        with self._lock:
            self._note({"point": place, "value": value})
            self._spent.append(Spent(jax.tree.map(_copied, point), value))
        return value

    def _note(self, line: dict[str, Any]) -> None:
        """On the disk before anything is done or said; public, as all that is returned."""
        if self._ledger is not None and self._run is not None:
            privacy_ledger.note(self._ledger, self._run, self._noted + 1, line)
            self._noted += 1

    def _recall(self, steps: tuple[dict[str, Any], ...]) -> None:
        """What other processes noted."""
        self._noted = len(steps)
        for line in steps:
            if "charged" in line:
                self._charged = line["charged"]
            else:
                self._spent.append(Spent(np.asarray(line["point"]), line["value"]))

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


def _written(point: Any) -> Any:
    """A point for JSON; refused before anything is charged."""
    try:
        told = jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), point)
        json.dumps(told, allow_nan=False)
    except (TypeError, ValueError):
        told = point
    else:
        return told
    raise TypeError(f"point must be finite numbers, text, and lists or dicts of them on record, got {told!r}")


def _copied(leaf: Any) -> Any:
    """An optimiser may write its next point into the array of this one."""
    return np.array(leaf) if isinstance(leaf, np.ndarray) else leaf


_private_means = jax.jit(private_mean.of_losses)


def _range(value: Any) -> tuple[float, float]:
    low, high = _checks.vector("loss_range", value, 2).tolist()
    if not low < high:
        raise ValueError(f"loss_range must have low < high, got {low}, {high}")
    if not np.isfinite(high - low):
        raise ValueError(f"loss_range must be of a width that floats hold, got {low}, {high}")
    return low, high
