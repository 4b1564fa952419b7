"""PO-GP-UCB: GP-UCB over rows transformed by a curator before release.

Dmitrii Kharkovskii, Zhongxiang Dai and Bryan Kian Hsiang Low (2020), "Private outsourced Bayesian optimization via
Gaussian processes". Two parties: the curator holds ``X (n, d)`` and the function, and sends ``Z = curate(X)``
(``transforms``, Algorithm 1); the modeler has ``Z`` alone, queries rows by number and receives the function's
values there (this module, Algorithm 2).

The budget is spent before ``init``, in ``curate``: nothing here adds to it, and nothing here protects the outputs
returned by the curator. The published transform carries no guarantee; ``privacy`` returns the guarantee of the curated
rows.

Notation: ``T`` steps of one row (``b = 1``), ``n`` rows of ``r`` coordinates. A point of a query is a row number.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import arrays, checks, namespace, rounding, transforms
from jaxdpbo.guarantee import guarantees
from jaxdpbo.surrogate import box_search, finite_gp, gp, noisy_inputs, preprocessing
from jaxdpbo.surrogate.acquisition import beta_of_candidates
from jaxdpbo.types import Algorithm, Info, Query, State

__all__ = [
    "Config",
    "Release",
    "algorithm",
    "config",
]
__dir__ = namespace.list_public(__name__)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Configuration of the modeler; made by ``config``.

    Traced: the ``released (n, r)`` rows, or ``(n, 1 + r)`` with their numbers; the numbers of ``model``; ``centre ()``
    and ``scale ()`` of the outputs; ``delta ()``; ``level ()`` of the curated rows' guarantee. Static: ``users``,
    None, since the function has one output; ``steps``; ``guarantee_template``, the guarantee without its level, so that
    budgets do not recompile.
    """

    released: jax.Array
    model: gp.GPModel
    centre: jax.Array
    scale: jax.Array
    delta: jax.Array
    level: jax.Array
    users: None = field(metadata={"static": True})
    steps: int = field(metadata={"static": True})
    guarantee_template: guarantees.Guarantee = field(metadata={"static": True})

    @property
    def space(self) -> None:
        """None: the objective gets points."""
        return


def config(
    curated: transforms.CuratedRows,
    *,
    steps: int,
    lengthscale: float,
    noise_variance: float,
    noise_aware: bool = True,
    centre: float = 0.0,
    scale: float = 1.0,
    delta: float = 0.1,
) -> Config:
    """Check a configuration. The kernel is squared-exponential.

    Args:
      curated: the curator's release.
      steps: ``T``.
      lengthscale: in the units of distance of ``curated.z``.
      noise_variance: of an output, in standard units.
      noise_aware: average the kernel over the noise given in the metadata (``surrogate.noisy_inputs``); if False, or
        without noise, rows are taken for the inputs themselves, as published.
      centre: the prior's mean, in units of the output.
      scale: the prior's standard deviation, in units of the output.
      delta: of ``beta_t = 2 log(n t^2 pi^2 / (6 delta))``: Algorithm 2, line 3.

    Raises:
      ValueError: a number out of range; names the argument.
      TypeError: an argument of the wrong kind.

    >>> import numpy as np
    >>> from jaxdpbo import po_gp_ucb, transforms
    >>> transform = transforms.product_laplace(centre=[0.0, 0.0], scale=1.0, epsilon=1.0)
    >>> curated = transforms.curate(None, transform, np.ones((9, 2)))
    >>> po_gp_ucb.config(curated, steps=3, lengthscale=0.5, noise_variance=0.1).steps
    3
    """
    dtype = jnp.result_type(float)
    noise = checks.positive("noise_variance", noise_variance)
    if noise < gp.jitter(dtype):
        raise ValueError(f"noise_variance must be at least {rounding.shorten_up(gp.jitter(dtype))}, got {noise}")
    distribution = curated.metadata.distribution if checks.flag("noise_aware", noise_aware) else None
    kernel, params, rows = noisy_inputs.make_kernel(distribution, curated.z, lengthscale)

    def leaf(value: float) -> jax.Array:
        return arrays.to_device(value, dtype)

    return Config(
        released=rows,
        model=gp.GPModel(kernel, params, leaf(noise)),
        centre=leaf(checks.number("centre", centre)),
        scale=leaf(checks.positive("scale", scale)),
        delta=leaf(checks.probability("delta", delta)),
        level=leaf(curated.guarantee.level),
        users=None,
        steps=checks.size("steps", steps),
        guarantee_template=replace(curated.guarantee, level=0.0, stages=(), also=None),
    )


class PublicState(NamedTuple):
    """``step ()``: steps taken; ``noise``: None, since the curator spent it."""

    step: jax.Array
    noise: None


class Raw(NamedTuple):
    """Outputs returned by the curator; no transform protects them.

    Attributes:
      posterior: about every row.
      rows: ``(T,)`` queried.
      utilities: ``(T,)`` in standard units; -inf where nothing was observed.
    """

    posterior: finite_gp.Posterior
    rows: jax.Array
    utilities: jax.Array


class Release(NamedTuple):
    """Answer of the modeler: ``row ()`` of the largest output, also as a ``point (1,)``."""

    point: jax.Array
    row: jax.Array


def init(key: jax.Array, config: Config) -> State:
    """Make the initial state: no queries. ``key`` is unused."""
    del key
    raw = Raw(
        posterior=finite_gp.prior(config.model, config.released, config.steps),
        rows=jnp.zeros(config.steps, jnp.int32),
        utilities=jnp.full(config.steps, -jnp.inf, config.scale.dtype),
    )
    return State(PublicState(jnp.zeros((), jnp.int32), None), raw)


def ask(key: jax.Array, config: Config, state: State) -> Query:
    """Query the row of largest upper confidence bound (Algorithm 2, lines 3 to 5).

    Among equal rows, take the first from a starting row drawn from ``key``, wrapping around. So the very first row is
    uniform, and rows with the same named cell are not queried in their own order, which may reveal where they are.
    """
    posterior, step = state.raw.posterior, state.public.step
    count = config.released.shape[0]
    width = beta_of_candidates(step + 1, count, config.delta)
    start = jax.random.randint(key, (), 0, count)
    best, _ = box_search.first_of_largest(posterior.mean + jnp.sqrt(width * posterior.variance), start)
    row = best[None].astype(jnp.int32)
    return Query(row[:, None].astype(config.scale.dtype), jnp.ones(1, bool), row)


def tell(key: jax.Array, config: Config, state: State, query: Query, values: jax.Array) -> tuple[State, Info]:
    """Learn one output (Algorithm 2, line 6). ``key`` is unused.

    ``Info`` holds, raw, the ``utility (1,)`` as observed by the model, in the output's own units: finite. It has no
    flag: the rows depend on the outputs, and raw outputs must not raise.

    =====================================  ===================================================================
    case                                   result
    =====================================  ===================================================================
    ``state.public.step == T``             the state unchanged
    an output NaN or infinite              observed as 3 deviations below the centre
    an output 1,000 deviations away        observed as 1,000 deviations away
    =====================================  ===================================================================

    Args:
      key: unused.
      config: of the run.
      state: before the step.
      query: from ``ask``.
      values: ``(1,)``, the output.

    Returns:
      The state after the step, and raw diagnostics.

    Raises:
      ValueError: ``values`` is of another shape, at trace time.
    """
    del key
    if values.shape != (1,):
        raise ValueError(f"values must have shape (1,), got {values.shape}")
    assert query.rows is not None
    raw, step = state.raw, state.public.step
    limits = -preprocessing.MAX_STANDARDIZED, preprocessing.MAX_STANDARDIZED
    utility = preprocessing.to_standard_units(values, query.mask, config.centre, config.scale, limits)
    active = step < config.steps
    after = Raw(
        posterior=finite_gp.observe(config.model, raw.posterior, query.rows[0], utility[0], when=active),
        rows=gp.write(raw.rows, query.rows, step, active),
        utilities=gp.write(raw.utilities, utility, step, active),
    )
    observed = Info({"utility": config.centre + config.scale * utility})
    return State(PublicState(jnp.where(active, step + 1, step), None), after), observed


def release(key: jax.Array, config: Config, state: State) -> Release:
    """Return the row of the largest output. ``key`` is unused."""
    del key
    row = state.raw.rows[jnp.argmax(state.raw.utilities)]
    return Release(row[None].astype(config.scale.dtype), row)


def privacy(config: Config) -> guarantees.Guarantee:
    """Guarantee of the curator's transform for the rows of ``X``; the returned outputs are not protected."""
    return replace(config.guarantee_template, level=float(config.level))


algorithm = Algorithm(init, ask, tell, release, privacy)
