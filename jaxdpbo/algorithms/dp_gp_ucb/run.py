"""Steps of DP-GP-UCB: state, queries, and the only place where a run spends its budget."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import accounting, sensitivity
from jaxdpbo.algorithms.dp_gp_ucb import gains
from jaxdpbo.algorithms.dp_gp_ucb.configs import Config
from jaxdpbo.guarantee import guarantees
from jaxdpbo.ledger import fingerprints
from jaxdpbo.noise import calibration, choice, mechanisms, wide_integers
from jaxdpbo.noise.mechanisms import tables
from jaxdpbo.surrogate import acquisition, box_search, finite_gp, gp, preprocessing
from jaxdpbo.surrogate.acquisition import ucb
from jaxdpbo.types import Algorithm, Info, Query, State


class Terms(NamedTuple):
    """Budgets spent by ``release``, and a checksum of the config, which defines the units of a state.

    Attributes:
      epsilon: ``(2,)``, of the point and of the value.
      rest: ``(2,)``, a checksum of the whole config.
    """

    epsilon: jax.Array
    rest: jax.Array


class PublicState(NamedTuple):
    """``step ()``: steps taken; ``noise``: at the start of the run. Points are raw: they depend on the utilities."""

    step: jax.Array
    noise: Terms


class Raw(NamedTuple):
    """Raw data, in standard units.

    Attributes:
      posterior: of the candidates, or over a box the posterior of the points evaluated; None for "in_order".
      utilities: ``(T,)`` as observed, of gains the mean; 0 where nothing was observed.
      scores: ``Wide (g, T)``, of gains with exact noise: the scores before noise, on each of ``config.gain_grids``
        (``gains.score_gains``); 0 where nothing was observed. Otherwise None.
    """

    posterior: Any  # finite_gp.Posterior, gp.Factorization or None
    utilities: jax.Array
    scores: wide_integers.Wide | None


class Release(NamedTuple):
    """Everything you may publish; parts that were not configured are None.

    Attributes:
      point: ``(d,)``, drawn by the exponential mechanism.
      row: ``()``, the row of the point in the candidates or the grid.
      value: ``()``, the largest utility with Laplace noise. With "value" alone, the point of this utility stays
        unknown.
      params: ``point`` by name, if you searched a ``Space``; filled in by the drivers.
    """

    point: jax.Array | None
    row: jax.Array | None
    value: jax.Array | None
    params: dict[str, Any] | None = None


def init(key: jax.Array, config: Config) -> State:
    """Make the initial state: no observations. ``key`` is unused."""
    del key
    dtype = config.limits.dtype
    if config.acquisition == "in_order":
        posterior = None
    elif config.candidates is not None:
        posterior = finite_gp.prior(config.model, config.candidates, config.steps)
    else:
        assert config.bounds is not None
        posterior = gp.empty(config.steps, config.bounds.shape[1], dtype)
    scores = None
    if config.gain_grids:
        scores = wide_integers.widen(jnp.zeros((len(config.gain_grids), config.steps), jnp.int32))
    public = PublicState(jnp.zeros((), jnp.int32), terms(config))
    return State(public, Raw(posterior, jnp.zeros(config.steps, dtype), scores))


def ask(key: jax.Array, config: Config, state: State) -> Query:
    """Propose the point of largest acquisition (equation 3). Reads ``state.raw``.

    Over candidates the maximum is exact, the first of equal ones, and ``key`` is unused; over a box,
    ``box_search.sample_and_ascend`` maximises from starts drawn from ``key``.
    """
    raw, step = state.raw, state.public.step
    if config.candidates is None:
        return _ask_box(key, config, state)
    if config.acquisition == "in_order":
        row = jnp.minimum(step, config.candidates.shape[0] - 1)
    else:
        mean, variance = raw.posterior.mean, raw.posterior.variance
        if config.acquisition == "ucb":
            heights = mean + jnp.sqrt(beta(config, step) * variance)
        else:
            heights = acquisition.expected_improvement(mean, variance, best(config, state))
        row, _ = box_search.first_of_largest(heights)
    rows = row[None].astype(jnp.int32)
    return Query(config.candidates[rows], jnp.ones(1, bool), rows)


def tell(key: jax.Array, config: Config, state: State, query: Query, values: jax.Array) -> tuple[State, Info]:
    """Learn one utility; for Algorithm 3, the mean of ``n`` gains. ``key`` is unused.

    =====================================  ===================================================================
    case                                   result
    =====================================  ===================================================================
    ``state.public.step == T``             the state unchanged
    started under another config           the state unchanged: its numbers are in other units
    a utility NaN or infinite              counts as a bad one: 3 deviations below the centre
    a user's gain NaN or infinite          counts as 0, for that user alone
    a gain outside ``[0, g*]``             counts as the nearer end
    a utility outside ``config.limits``    counts as the limit
    a candidate already known exactly      not learnt again (``finite_gp.observe``)
    =====================================  ===================================================================

    Args:
      key: unused.
      config: of the run.
      state: before the step.
      query: from ``ask``.
      values: ``(1,)``, the utility; for Algorithm 3 ``(1, n)``, every user's gain.

    Returns:
      The state after the step, and ``Info``, NOT PRIVATE: ``utility (1,)`` as observed by the model, in the utility's
      units, finite and clipped. It has no flag: the points depend on the utilities, and raw values must not raise.

    Raises:
      ValueError: ``values`` is of another shape, at trace time.
    """
    del key
    shape = (1,) if config.users is None else (1, config.users)
    if values.shape != shape:
        raise ValueError(f"values must have shape {shape}, got {values.shape}")
    raw, step = state.raw, state.public.step
    active = (step < config.steps) & calibration.same_noise(state.public.noise, terms(config))
    scored = raw.scores
    if config.users is None:
        means = values
    else:
        user_gains = gains.clip_gains(
            jnp.where(query.mask, values[0], 0).astype(config.scale.dtype), gains.largest_gain(config)
        )
        means = jnp.mean(user_gains)[None]
        if scored is not None:
            new_scores = [gains.score_gains(user_gains, gains.largest_gain(config), grid) for grid in config.gain_grids]
            at = jnp.minimum(step, config.steps - 1)
            scored = jax.tree.map(
                lambda kept, *new: jnp.where(active, kept.at[:, at].set(jnp.stack(new)), kept), scored, *new_scores
            )
    utility = preprocessing.to_standard_units(means, query.mask, config.centre, config.scale, config.limits)
    if config.acquisition == "in_order":
        posterior = None
    elif config.candidates is not None:
        assert query.rows is not None
        posterior = finite_gp.observe(config.model, raw.posterior, query.rows[0], utility[0], when=active)
    else:
        posterior = gp.append(config.model, raw.posterior, query.points, query.mask, when=active)
    after = Raw(posterior, gp.write(raw.utilities, utility, step, active), scored)
    public = state.public._replace(step=jnp.where(active, step + 1, step))
    return State(public, after), Info({"utility": config.centre + config.scale * utility})


def release(key: jax.Array, config: Config, state: State) -> Release:
    """Spend the budget and return the release. A SECOND CALL IS A SECOND SPEND: the drivers call ``release`` once.

    Algorithm 1, lines 8 and 9; Algorithm 2 and 3, the last lines. Formal guarantee: ``privacy(config)``. A state
    started under another config has numbers in other units, and counts as a state without observations.
    """
    fresh = init(key, config)
    own = calibration.same_noise(state.public.noise, fresh.public.noise)
    state = jax.tree.map(lambda seen, nothing: jnp.where(own, seen, nothing), state, fresh)
    point_key, value_key = jax.random.split(key)
    point = row = value = None
    if config.release != "value":
        row = _choose(point_key, config, state)
        point = config.shortlist[row]
    if config.release != "point":
        value = _add_noise(value_key, config, state)
    return Release(point, row, value)


def _choose(key, config, state):
    """Draw a row by the exponential mechanism; for posterior means on a grid, by geometric noise, at least as accurate.

    Gains use the exponential mechanism on the grid too: the mechanism has bounded range, noisy scores have not. The
    best score is subtracted from all, so all fit the mechanism's table.
    """
    if config.noise == "float":
        return mechanisms.exponential(key, scores(config, state), config.epsilon_point, config.point_sensitivity)
    if config.gain_grids:
        whole, top = _take_row(state.raw.scores, 0), mechanisms.top(config.point_rate)
        worse = wide_integers.add(wide_integers.maximum(whole), wide_integers.negate(whole))
        return mechanisms.exact_exponential(key, top - wide_integers.narrow(worse, top), config.point_rate)
    whole = calibration.quantise_scores(scores(config, state), config.point_units, config.point_sensitivity)
    return mechanisms.noisy_argmax(key, whole, config.point_rate)


def _add_noise(key, config, state):
    """Add Laplace noise to the largest utility; on the grid, to the middle of its unit."""
    if config.noise == "float":
        scale = config.value_sensitivity / config.epsilon_value
        return config.centre + config.scale * mechanisms.laplace(key, best(config, state), scale)
    noise = mechanisms.discrete_laplace(key, (), config.value_rate)
    if config.gain_grids:
        largest = wide_integers.maximum(_take_row(state.raw.scores, -1))
        unit = gains.unit(config, config.gain_grids[-1])
        noised = wide_integers.to_float(wide_integers.add(largest, wide_integers.widen(noise)), unit.dtype)
        return (noised + 0.5) * unit
    whole = calibration.quantise_scores(best(config, state), config.value_units, config.value_sensitivity)
    unit = calibration.grid_unit(config.value_units, config.value_sensitivity)
    return config.centre + config.scale * ((whole + noise).astype(unit.dtype) + 0.5) * unit


def _take_row(scores, row):
    return jax.tree.map(lambda word: word[row], scores)


def privacy(config: Config) -> guarantees.Guarantee:
    """Guarantee of the configuration: see the table in the package docstring."""
    if config.no_guarantee_reason:
        return guarantees.no_guarantee(guarantees.USERS, config.no_guarantee_reason)
    delta, total_variation = float(config.delta), 0.0
    epsilon = float(config.epsilon_point) + float(config.epsilon_value)
    if config.noise == "exact":  # dyadic numbers, exact in floats
        point, value = int(config.point_units), int(config.value_units)
        epsilon = float(sensitivity.between_scores(point) * config.point_rate + value * config.value_rate)
        of_point = choice.TOTAL_VARIATION if point else 0.0
        if point and not config.gain_grids:
            of_point = len(config.shortlist) * tables.geometric_total_variation(config.point_rate)
        of_value = 2 * tables.geometric_total_variation(config.value_rate)
        total_variation = of_point + of_value * bool(value)
    alone = config.acquisition == "in_order" and config.release == "point"
    return guarantees.guarantee(
        "prior_averaged_dp" if delta else "dp", epsilon, "replace_one", guarantees.USERS,
        assumptions=config.assumptions, delta=delta, total_variation=total_variation,
        also=("gdp", accounting.bounded_range_mu(epsilon)) if alone else None,
    )  # fmt: skip


algorithm = Algorithm(init, ask, tell, release, privacy)


def terms(config: Config) -> Terms:
    """Compute the terms of a run with this config."""
    static = config.noise, config.point_rate, config.value_rate, config.users, config.steps, config.release
    description = repr((*static, config.acquisition, getattr(config.model.kernel, "__qualname__", "")))
    return Terms(jnp.stack([config.epsilon_point, config.epsilon_value]), fingerprints.checksum(config, description))


def beta(config: Config, step: jax.Array) -> jax.Array:
    """``beta_t ()`` for the query after ``step ()`` steps, ``t = step + 1``: equation 3."""
    return config.beta_offset + config.beta_slope * jnp.log((step + 1).astype(float))


def best(config: Config, state: State) -> jax.Array:
    """Largest utility ``()`` observed so far, in standard units; the least limit before any. Raw."""
    raw, step = state.raw, state.public.step
    observed = jnp.arange(config.steps, dtype=jnp.int32) < step
    return jnp.max(jnp.where(observed, raw.utilities, config.limits[0]))


def scores(config: Config, state: State) -> jax.Array:
    """Scores for the exponential mechanism: the posterior mean, or for "in_order" the utilities. Raw."""
    raw = state.raw
    if config.acquisition == "in_order":
        return raw.utilities
    if config.candidates is not None:
        return raw.posterior.mean
    return gp.predict(config.model, raw.posterior, raw.utilities, config.shortlist)[0]


def _ask_box(key, config, state):
    """Propose a point of the box: the middle, before anything is known."""
    raw = state.raw
    assert config.search is not None
    lower, upper = config.bounds
    point, _ = box_search.sample_and_ascend(
        key,
        lambda point: ucb(config.model, raw.posterior, raw.utilities, point[None], beta(config, state.public.step))[0],
        lower,
        upper,
        incumbent=raw.posterior.points[jnp.argmax(jnp.where(raw.posterior.mask, raw.utilities, -jnp.inf))],
        raw_samples=config.search.raw_samples,
        num_restarts=config.search.num_restarts,
        steps=config.search.ascent_steps,
    )
    point = jnp.where(jnp.any(raw.posterior.mask), point, (lower + upper) / 2)
    return Query(point[None], jnp.ones(1, bool))
