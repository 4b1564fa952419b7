"""GP-UCB: global Bayesian optimisation by upper confidence bounds. A baseline WITHOUT privacy.

Niranjan Srinivas, Andreas Krause, Sham Kakade and Matthias Seeger (2010), "Gaussian process optimization in the bandit
setting: no regret and experimental design", algorithm 1. The algorithm takes the prior as known; here, as in practice,
the mean and the variance of the objective are estimated from the observed values and, with ``refit_every``, the
parameters of the kernel too.

Notation: ``T`` steps of one point each (``b = 1``), ``d`` parameters, ``c`` candidates of a finite set, ``n`` users.
Step ``t`` evaluates the point of largest ``mean + sqrt(beta_t) deviation`` under the posterior of the steps before.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import arrays, checks, namespace
from jaxdpbo import space as spaces
from jaxdpbo.guarantee import guarantees
from jaxdpbo.space import Space
from jaxdpbo.surrogate import box_search, gp, gp_fit, kernels, preprocessing
from jaxdpbo.surrogate.acquisition import beta_of_box, beta_of_candidates, ucb, upper_bound
from jaxdpbo.types import Algorithm, ArrayLike, Bounds, Info, Kernel, KernelParams, Query, State

__all__ = [
    "Config",
    "Release",
    "algorithm",
    "config",
]
__dir__ = namespace.list_public(__name__)

FIT_SCALE = 1.0  # of the logarithms, around the given parameters
_FIT_RESTARTS = 2
SEARCH = box_search.BoxSearch(raw_samples=512, num_restarts=4, ascent_steps=20)
ANSWERS = ("observed", "best_posterior_mean")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Configuration of a run; made by ``config``. All of it is public.

    Traced: ``bounds (2, d)`` or ``candidates (c, d)``, the other None; the numbers of ``model``; ``beta ()``, or None
    for the schedule; ``delta ()``. The rest is static.
    """

    bounds: jax.Array | None
    candidates: jax.Array | None
    model: gp.GPModel
    beta: jax.Array | None
    delta: jax.Array
    users: int | None = field(metadata={"static": True})
    steps: int = field(metadata={"static": True})
    batch: int = field(metadata={"static": True})
    refit_every: int = field(metadata={"static": True})
    fit_steps: int = field(metadata={"static": True})
    search: box_search.BoxSearch = field(metadata={"static": True})
    answer: str = field(metadata={"static": True})
    space: Space | None = field(metadata={"static": True})


def config(
    *,
    steps: int,
    bounds: Bounds | None = None,
    candidates: ArrayLike | None = None,
    users: int | None = None,
    batch: int = 1,
    kernel: Kernel = kernels.rbf,
    kernel_params: KernelParams = None,
    noise_variance: float = 1e-4,
    beta: float | None = None,
    delta: float = 0.1,
    refit_every: int = 0,
    fit_steps: int = 15,
    search: box_search.BoxSearch = SEARCH,
    answer: str = "observed",
    space: Space | None = None,
) -> Config:
    """Check a configuration and make its leaves canonical. With many parameters, refit: try ``refit_every=10``.

    Args:
      steps: ``T``, number of steps.
      bounds: ``(2, d)``, finite, to search a box; or a ``Space``, to search its unit box.
      candidates: ``(c, d)``, finite, to search a finite set: pass this or ``bounds``.
      users: ``n``, if the objective returns a loss for each user: the mean over finite losses is minimised. None if the
        objective returns one utility, maximised.
      batch: ``b``, points to evaluate in a step. Each point after the first is chosen as if the values at the points
        before it were their posterior means (Desautels, Krause and Burdick 2014, algorithm 1: GP-BUCB).
      kernel: of the surrogate, from ``jaxdpbo.kernels``.
      kernel_params: parameters of the kernel; default for a stationary kernel: lengthscales of ``sqrt(d) / 4`` of each
        side of the search (distances in a box grow as ``sqrt(d)``).
      noise_variance: of one observation, in units of the variance of the values; these are standardised to mean 0 and
        variance 1 before each step. With ``answer="observed"``, values worse than the median count by their rank alone
        (``preprocessing.rank_lower_half``), so that a few very bad values do not hide differences among good ones.
        Raised to ``gp.jitter(dtype) k(x, x)`` if lower.
      beta: a constant; default: the schedule of ``surrogate.ucb`` for a finite set or a box.
      delta: of ``surrogate.beta_of_candidates``; unused otherwise.
      refit_every: steps between fits of the kernel's parameters and the noise variance, each from the last fit on; 0
        for no fit. A fit uses marginal likelihood and a log-normal prior around the given numbers, wide enough for a
        factor of e at one standard deviation.
      fit_steps: gradient steps of a fit.
      search: settings of the search over a box: ``surrogate.BoxSearch(raw_samples, num_restarts, ascent_steps)``.
      answer: the evaluated point to release: "observed", with the best value observed, or "best_posterior_mean", for
        noisy values.
      space: the ``Space`` of the ``candidates``, if any.

    Raises:
      ValueError: a number out of range, a wrong shape, both or neither of ``bounds`` and ``candidates``; names the
        argument.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import gp_ucb
    >>> gp_ucb.config(steps=5, candidates=[[0.0], [0.5], [1.0]]).candidates.shape
    (3, 1)
    """
    if (bounds is None) == (candidates is None):
        both = "neither" if bounds is None else "both"
        raise ValueError(f"config takes exactly one of bounds and candidates, got {both}")
    bounds, space = spaces.box(bounds, space)
    limits = None if bounds is None else checks.box("bounds", bounds)
    rows = None if candidates is None else checks.rows("candidates", candidates)
    extent = limits if rows is None else np.stack([rows.min(axis=0), rows.max(axis=0)])
    assert extent is not None
    dimension = extent.shape[1]
    if kernel_params is None:
        kernel_params = kernels.stationary_params_from_box(extent)
    kernel = kernels.of_space(kernel, space)
    kernels.check(kernel, kernel_params, dimension)
    dtype = jnp.result_type(float)

    def leaf(value: ArrayLike) -> jax.Array:
        return arrays.to_device(value, dtype)

    return Config(
        bounds=None if limits is None else leaf(limits),
        candidates=None if rows is None else leaf(rows),
        model=gp.GPModel(kernel, kernel_params, leaf(checks.positive("noise_variance", noise_variance, dtype=dtype))),
        beta=None if beta is None else leaf(checks.nonnegative("beta", beta)),
        delta=leaf(checks.probability("delta", delta)),
        users=None if users is None else checks.size("users", users),
        steps=checks.size("steps", steps),
        batch=checks.size("batch", batch),
        refit_every=checks.size("refit_every", refit_every, minimum=0),
        fit_steps=checks.size("fit_steps", fit_steps),
        search=box_search.make_search(search),
        answer=checks.one_of("answer", answer, ANSWERS),
        space=space,
    )


class PublicState(NamedTuple):
    """``step ()``: steps taken; ``noise``: None. The points are raw, since they depend on the values."""

    step: jax.Array
    noise: None


class Raw(NamedTuple):
    """Raw data of a run.

    Attributes:
      model: as last fitted.
      factorization: of the points evaluated, ``m = T b``; unused rows hold the first point of the search.
      rows: ``(m,)``, their candidate rows, over a finite set; otherwise None.
      utilities: ``(m,)`` as observed, minus the mean loss where there are users; -inf where not evaluated or not
        finite.
      values: ``(m,)`` of the posterior: ``standardise_utilities``, computed once for a fit and the next search.
    """

    model: gp.GPModel
    factorization: gp.Factorization
    rows: jax.Array | None
    utilities: jax.Array
    values: jax.Array


class Release(NamedTuple):
    """Best point evaluated, by raw values or their posterior mean: carries no privacy guarantee.

    Attributes:
      point: ``(d,)``.
      row: ``()``, the candidate's row, over a finite set; otherwise None.
      params: ``point`` by name, if you searched a ``Space``; filled in by the drivers.
    """

    point: jax.Array
    row: jax.Array | None
    params: dict[str, Any] | None = None


def init(key: jax.Array, config: Config) -> State:
    """Make the initial state: no evaluations, the middle of the box or candidate 0 as the best. ``key`` is unused."""
    del key
    start = _middle(config.bounds) if config.candidates is None else config.candidates[0]
    count = config.steps * config.batch
    nothing = gp.empty(count, start.shape[0], start.dtype)
    raw = Raw(
        model=config.model,
        factorization=nothing._replace(points=nothing.points + start[None]),
        rows=None if config.candidates is None else jnp.zeros(count, jnp.int32),
        utilities=jnp.full(count, -jnp.inf, start.dtype),
        values=jnp.zeros(count, start.dtype),
    )
    return State(PublicState(jnp.zeros((), jnp.int32), None), raw)


def ask(key: jax.Array, config: Config, state: State) -> Query:
    """Propose the point of largest upper confidence bound (algorithm 1, line 2). Reads ``state.raw``.

    Before any value is known, propose the middle of a box, or a candidate drawn from ``key``. Over a box,
    ``surrogate.search_box`` maximises the bound from starts drawn from ``key``; over a finite set the maximum is exact,
    and ``key`` is otherwise unused. A batch gives a key to each of its points.
    """
    raw, evaluations = state.raw, state.public.step * config.batch
    if config.batch == 1:
        point, row = _pick(key, config, raw, evaluations)
        return Query(point[None], jnp.ones(1, bool), None if row is None else row[None])

    def pick(before, given):
        number, own_key = given
        point, row = _pick(own_key, config, before, evaluations + number)
        mean, _ = gp.predict(before.model, before.factorization, before.values, point[None])
        return before._replace(  # the mean everywhere stays, and the variance shrinks around the point
            values=gp.write(before.values, mean, before.factorization.used),
            factorization=_factorize(before, point[None], jnp.ones(1, bool), jnp.ones((), bool)),
        ), (point, row)

    numbers = jnp.arange(config.batch, dtype=evaluations.dtype)
    _, (points, rows) = jax.lax.scan(pick, raw, (numbers, jax.random.split(key, config.batch)))
    return Query(points, jnp.ones(config.batch, bool), rows)


def _pick(key, config, raw, evaluations):
    """The point ``(d,)``, and its row ``()``, of largest bound after so many evaluations."""
    evaluated = jnp.any(raw.factorization.mask)
    if config.candidates is not None:
        heights = ucb(raw.model, raw.factorization, raw.values, config.candidates, beta(config, evaluations))
        drawn = jax.random.randint(key, (), 0, config.candidates.shape[0]).astype(jnp.int32)
        row = jnp.where(evaluated, box_search.first_of_largest(heights)[0], drawn)
        return config.candidates[row], row

    width = beta(config, evaluations)
    predicted = gp.predictor(raw.model, raw.factorization, raw.values)
    point, _ = box_search.search_box(
        key,
        lambda points: upper_bound(*predicted(points), width),
        config.bounds[0],
        config.bounds[1],
        incumbent=raw.factorization.points[jnp.argmax(raw.utilities)],
        search=config.search,
    )
    return jnp.where(evaluated, point, _middle(config.bounds)), None


def tell(key: jax.Array, config: Config, state: State, query: Query, values: jax.Array) -> tuple[State, Info]:
    """Learn the values of a step (algorithm 1, lines 3 and 4), and refit the kernel when due.

    =========================================  ==========================================================
    case                                       result
    =========================================  ==========================================================
    ``state.public.step == T``                 the state unchanged
    a user's loss NaN or infinite              the mean leaves out this user
    no user's loss, or the utility, finite     observed as the worst value so far, and never the best
    the value at a masked point                ignored
    the covariance could not be factored       the points may still be released, but the posterior forgets them
    =========================================  ==========================================================

    The last case sets no flag for a driver to raise on: here the points depend on the users' values, and raw values
    must not raise.

    Args:
      key: for the starts of a fit.
      config: see ``config``.
      state: before the step.
      query: from ``ask``.
      values: ``(b,)``, the utilities; with users ``(b, n)``, every user's losses.

    Returns:
      The state after the step, and ``Info``, NOT PRIVATE: ``value (b,)``, the mean losses over users with a finite loss
      (inf where there is none), or the utilities; ``learnt (b,)``, whether the points entered the posterior.

    Raises:
      ValueError: ``values`` is of another shape, at trace time.
    """
    shape = (config.batch,) if config.users is None else (config.batch, config.users)
    if values.shape != shape:
        raise ValueError(f"values must have shape {shape}, got {values.shape}")
    raw, step = state.raw, state.public.step
    active, start = step < config.steps, step * config.batch
    values = values.astype(raw.utilities.dtype)
    value = values if config.users is None else preprocessing.finite_mean_loss(values, query.mask)
    utility = value if config.users is None else -value
    utility = jnp.where(query.mask & jnp.isfinite(utility), utility, -jnp.inf)

    factorization, learnt = _learn(raw, query, active)
    rows = raw.rows
    if rows is not None:
        assert query.rows is not None
        rows = gp.write(rows, query.rows, start, active)
    utilities = gp.write(raw.utilities, utility, start, active)
    after = Raw(raw.model, factorization, rows, utilities, standardise_utilities(config, utilities, factorization.mask))
    if config.refit_every:
        due = active & ((step + 1) % config.refit_every == 0)
        after = jax.lax.cond(due, lambda raw: _refit(key, config, raw), lambda raw: raw, after)
    return State(PublicState(jnp.where(active, step + 1, step), None), after), Info({"value": value, "learnt": learnt})


def release(key: jax.Array, config: Config, state: State) -> Release:
    """Return the best point evaluated: NOT private. ``key`` is unused."""
    del key
    raw = state.raw
    heights = raw.utilities
    if config.answer == "best_posterior_mean":
        mean, _ = gp.predict(raw.model, raw.factorization, raw.values, raw.factorization.points)
        heights = jnp.where(jnp.isfinite(heights), mean, -jnp.inf)
    best = jnp.argmax(heights)
    return Release(raw.factorization.points[best], None if raw.rows is None else raw.rows[best])


def privacy(config: Config) -> guarantees.Guarantee:
    """No guarantee, with the reason."""
    del config
    return guarantees.no_guarantee(
        guarantees.USERS, "every point is chosen by raw values, and the best by comparing them"
    )


algorithm = Algorithm(init, ask, tell, release, privacy)


def beta(config: Config, evaluations: jax.Array) -> jax.Array:
    """``beta_t ()`` for the point after so many ``evaluations ()``, ``t = evaluations + 1``."""
    if config.beta is not None:
        return config.beta
    if config.candidates is not None:
        return beta_of_candidates(evaluations + 1, config.candidates.shape[0], config.delta)
    assert config.bounds is not None
    return beta_of_box(evaluations + 1, config.bounds.shape[1])


def standardise_utilities(config: Config, utilities: jax.Array, mask: jax.Array) -> jax.Array:
    """Prepare ``utilities (m,)`` for the posterior: finite, of mean 0 and variance 1."""
    values = preprocessing.repair(utilities, mask)
    ranks = config.answer == "observed"
    return preprocessing.rank_lower_half(values, mask) if ranks else preprocessing.standardize(values, mask)


def _middle(bounds):
    return jnp.mean(bounds, axis=0)


def _learn(raw, query, active):
    """Return the posterior with the query's points, and whether they entered ``(b,)``."""
    after = _factorize(raw, query.points, query.mask, active)
    entered = jax.lax.dynamic_slice_in_dim(after.mask, raw.factorization.used, len(query.mask))
    return after, active & query.mask & entered


def _factorize(raw, points, mask, active):
    """Append points, without their rows where the covariance cannot be factored."""
    before = raw.factorization
    after = gp.append(raw.model, before, points, mask, when=active)
    factored = jnp.all(jnp.isfinite(after.whitening))
    return after._replace(
        mask=jnp.where(factored, after.mask, before.mask),
        whitening=jnp.where(factored, after.whitening, before.whitening),
    )


def _refit(key, config, raw):
    """Fit the most likely model and condition on the points under the fit; keep both unchanged where the fit fails."""
    before, values = raw.factorization, raw.values
    model = gp_fit.fit(
        key,
        config.model,
        before.points,
        values,
        before.mask,
        num_restarts=_FIT_RESTARTS,
        steps=config.fit_steps,
        scale=FIT_SCALE,
        initial=raw.model,
    )
    whitening = gp.condition(model, before.points, before.mask).whitening
    fitted = raw._replace(model=model, factorization=before._replace(whitening=whitening))
    worked = jnp.all(jnp.isfinite(whitening)) & jnp.any(values != 0)  # zeros alone determine no scale
    return jax.tree.map(lambda new, old: jnp.where(worked, new, old), fitted, raw)
