"""Private evaluations: every utility is released through a mechanism, so everything after it is post-processing.

The simple answer to what Kusner et al. (2015) name as the open problem, "to release each sampled hyper-parameter and
validation accuracy privately (during the run)": each user's loss is clipped to a public range, their mean is released
with Gaussian noise, and ``T b`` such evaluations compose to ``mu``. Any optimiser may steer by the released values: fit
its kernel to them, standardise them, stop early. All points and values may be published, and the guarantee rests on no
Gaussian process.

``algorithm_of(inner)`` makes an ``Algorithm`` of an inner one, compiled like any other. For an optimiser that is not
ours ``drivers.PrivateObjective`` makes a scalar function of a per-user loss.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks, types
from jaxdpbo.privacy import calibration, guarantee, private_mean, private_scale
from jaxdpbo.space import Space
from jaxdpbo.types import Algorithm, ArrayLike, State


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Made by ``config``: the ``inner`` config; ``budget``, whose ``steps`` and ``releases`` are the inner steps and
    the evaluations in each; the range of a loss, ``low ()`` and ``high ()``, traced, 0 where it is found from the
    losses on the ``design (m, d)``, otherwise None.
    """

    inner: Any
    budget: calibration.Budget
    low: jax.Array
    high: jax.Array
    design: jax.Array | None = None

    @property
    def users(self) -> int:
        """``n``."""
        return self.budget.users

    @property
    def steps(self) -> int:
        """``T``, and before it ``m / b`` on the design."""
        return self.budget.steps + self.design_steps

    @property
    def design_steps(self) -> int:
        """``m / b``."""
        return 0 if self.design is None else self.design.shape[0] // self.batch

    @property
    def batch(self) -> int:
        """``b``."""
        return self.budget.releases

    @property
    def space(self) -> Space | None:
        """The inner algorithm's."""
        return self.inner.space


def config(
    inner: Algorithm,
    inner_config: types.Config,
    *,
    users: int,
    mu: float,
    loss_range: ArrayLike | str,
    design: ArrayLike | None = None,
    noise: str = "exact",
) -> Config:
    """Check a configuration.

    Args:
      inner: an algorithm that maximises one utility a point (``gp_ucb.config(users=None)``), or minimises the mean loss
        of ONE user (``random_search.config(users=1)``): its one value is the released mean.
      inner_config: its config; ``noise_deviation`` says how noisy the values will be.
      users: ``n``, public.
      mu: the GDP budget of all evaluations together; ``inf`` for none.
      loss_range: ``(low, high)``, chosen without the users' data: losses are clipped there. "private" finds it first,
        for 5 % of ``mu^2``, from the ``design``: see ``private_scale.largest_differences``. The values are then mean
        differences from the loss at the design's first point.
      design: ``(m, d)``, public points that tell how much losses differ; ``m`` a multiple of ``b``. They are evaluated
        before the first step of the inner algorithm, in ``m / b`` steps that release the range alone.
      noise: "exact", on an integer grid; "float", for research sweeps; or "none" (only with ``mu = inf``).

    Raises:
      ValueError: a number out of range, or an inner config that wants more users than one.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import gp_ucb, private_evaluations
    >>> inner = gp_ucb.config(steps=5, candidates=[[0.0], [0.5], [1.0]])
    >>> chosen = private_evaluations.config(gp_ucb.algorithm, inner, users=500, mu=1.0, loss_range=(0, 1))
    >>> chosen.users, chosen.steps
    (500, 5)
    """
    if inner_config.users not in (None, 1):
        raise ValueError(
            f"inner_config must be for one value a point (users None or 1), got {inner_config.users} users"
        )
    key = jax.random.key(0)
    query = jax.eval_shape(lambda: inner.ask(key, inner_config, inner.init(key, inner_config)))
    dtype = jnp.result_type(float)
    batch = query.points.shape[0]
    low, high = given_range(loss_range)
    points = _design(design, loss_range, *query.points.shape)
    budget = calibration.budget(
        mu,
        noise,
        users=users,
        steps=inner_config.steps,
        releases=batch,
        dimension=1,
        dtype=dtype,
        find_scale=points is not None,
    )
    rows = None if points is None else jnp.asarray(points, dtype)
    return Config(inner_config, budget, jnp.asarray(low, dtype), jnp.asarray(high, dtype), rows)


def _design(design: Any, loss_range: Any, batch: int, dimension: int) -> np.ndarray | None:
    """Checked points; None where the range is given."""
    if isinstance(loss_range, str) == (design is None):
        raise ValueError("design must be given with loss_range='private', and with no other")
    if design is None:
        return None
    points = _checks.rows("design", design)
    if points.shape[1] != dimension or len(points) < 2 or len(points) % batch:
        raise ValueError(
            f"design must have two rows or more, a multiple of {batch}, of {dimension} numbers, got {points.shape}"
        )
    return points


def noise_deviation(*, users: int, mu: float, loss_range: ArrayLike, evaluations: int, noise: str = "exact") -> float:
    """The standard deviation of the noise of one released mean: its sensitivity over ``mu / sqrt(evaluations)``.

    The sensitivity is ``sensitivity.mean_loss``. On the grid the noise is a little more, by what the radius was rounded
    down.
    """
    dtype = jnp.result_type(float)
    low, high = _checks.interval("loss_range", loss_range, dtype)
    evaluations = _checks.size("evaluations", evaluations)
    budget = calibration.budget(mu, noise, users=users, steps=evaluations, dimension=1, dtype=dtype)
    return private_mean.loss_deviation(budget, low, high)


class Public(NamedTuple):
    """What is not data-independent here has been through the mechanism.

    Attributes:
      step: ``()`` steps taken.
      budget: all that sets the noise, as the run was begun.
      inner: the whole state of the inner algorithm, its "private" part included: it got released values only.
      points: ``(T b, d)`` evaluated so far.
      values: ``(T b,)`` released mean losses; NaN where nothing was evaluated, and on a design.
      high: ``()``, the end of the range as found privately, 0 until then; None where it is given.
    """

    step: jax.Array
    budget: calibration.NoiseSettings
    inner: Any
    points: jax.Array
    values: jax.Array
    high: jax.Array | None


class Private(NamedTuple):
    """Raw, of each user on the design: ``reference (n,)``, the loss at its first point, and ``largest (n,)``, the
    largest difference from it.
    """

    reference: jax.Array
    largest: jax.Array


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
      points: ``(T b, d)`` every point evaluated, save those of a design.
      values: ``(T b,)`` every released mean loss; NaN where nothing was evaluated.
      high: ``()``, the end of the range as found privately; None where it is given.
      params: ``point`` by name, where a ``Space`` was searched, filled in by the drivers.
    """

    point: jax.Array
    row: jax.Array | None
    points: jax.Array
    values: jax.Array
    high: jax.Array | None
    params: dict[str, Any] | None = None


@lru_cache
def algorithm_of(inner: Algorithm) -> Algorithm:
    """``inner``, given released values only. One record for each inner algorithm, so that runs are not compiled twice.

    Formal guarantee: ``mu``-GDP, replace-one, for the answer and for all points and values together.

    Its ``tell`` takes ``values (b, n)``, every user's loss:

    ==========================================  ======================================================
    case                                        result
    ==========================================  ======================================================
    ``state.public.step == T``                  the state unchanged: nothing more is released
    begun with other noise                      likewise: the guarantee is of one budget
    another inner config of the same sizes      the run goes on: it acts on what was released
    the steps on a design                       release the range alone, after the last
    a loss outside the range                    counts as the end of the range
    a loss NaN or infinite                      NaN counts as the middle, infinities as the ends
    a masked point                              not released: the mask passes on to the inner algorithm
    ==========================================  ======================================================
    """

    def settings(config):
        designed = () if config.design is None else (jnp.asarray(config.design_steps, config.low.dtype),)
        return calibration.noise_settings(config.budget, config.low, config.high, *designed)

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
            high=None if config.design is None else config.high,
        )
        nothing = jnp.zeros(config.users, dtype)
        return State(public, () if config.design is None else Private(nothing, nothing))

    def ask(key, config, state):
        query = inner.ask(key, config.inner, state.public.inner)
        if config.design is None:
            return query
        start = jnp.minimum(state.public.step * config.batch, len(config.design) - config.batch)
        points = jax.lax.dynamic_slice_in_dim(config.design, start, config.batch)
        designing = state.public.step < config.design_steps
        return query._replace(points=jnp.where(designing, points, query.points), mask=query.mask | designing)

    def tell(key, config, state, query, values):
        if values.shape != (config.batch, config.users):
            raise ValueError(f"values must have shape {(config.batch, config.users)}, got {values.shape}")
        noise_key, inner_key = jax.random.split(key)
        public = state.public
        active = (public.step < config.steps) & calibration.same_noise(public.budget, settings(config))
        values, private, low, high = values.astype(config.low.dtype), state.private, config.low, config.high
        learning = active
        if config.design is not None:
            noise_key, scale_key = jax.random.split(noise_key)
            designing = active & (public.step < config.design_steps)
            private = _on_design(private, public.step, designing, values)
            high = private_scale.at_step(
                scale_key,
                config.budget.scale,
                public.step,
                config.design_steps - 1,
                public.high,
                lambda: private.largest,
            )
            low, values = -high, values - private.reference[None]
            learning = active & ~designing
        released, means, clipped = private_mean.of_losses(noise_key, config.budget, values, low, high)
        given = -released if config.inner.users is None else released[:, None]
        within, said = inner.tell(inner_key, config.inner, public.inner, query, given)
        failed = said.factorisation_failed
        failed = None if failed is None else learning & failed
        start = jnp.minimum(public.step, config.steps - 1) * config.batch

        def write(buffer, rows):
            kept = jax.lax.dynamic_slice_in_dim(buffer, start, config.batch)
            return jax.lax.dynamic_update_slice_in_dim(buffer, jnp.where(active, rows, kept), start, 0)

        after = Public(
            step=jnp.where(active, public.step + 1, public.step),
            budget=public.budget,
            inner=jax.tree.map(lambda new, old: jnp.where(learning, new, old), within, public.inner),
            points=write(public.points, query.points),
            values=write(public.values, jnp.where(query.mask & learning, released, jnp.nan)),
            high=None if public.high is None else jnp.where(active, high, public.high),
        )
        return State(after, private), Info(means, clipped, failed)

    def release(key, config, state):
        answer = inner.release(key, config.inner, state.public.inner)
        public, first = state.public, config.design_steps * config.batch
        return Release(answer.point, answer.row, public.points[first:], public.values[first:], public.high)

    return Algorithm(init, ask, tell, release, privacy)


def privacy(config: Config) -> guarantee.Guarantee:
    """GDP, as ``calibration.statement`` says, of all evaluations together."""
    return calibration.statement(config.budget, guarantee.USERS)


def _on_design(private: Private, step: jax.Array, designing: jax.Array, values: jax.Array) -> Private:
    """With what these losses ``(b, n)`` add, if they are of the design."""
    reference = jnp.where(designing & (step == 0), values[0], private.reference)
    largest = jnp.maximum(private.largest, private_scale.largest_differences(values, reference))  # NaN stays
    return Private(reference, jnp.where(designing, largest, private.largest))


def given_range(value: Any) -> tuple[float, float]:
    """A checked ``loss_range``; zeros for "private", which is to be found."""
    if isinstance(value, str):
        _checks.choice("loss_range", value, (private_scale.PRIVATE,))
        return 0.0, 0.0
    return _checks.interval("loss_range", value, jnp.result_type(float))
