"""Steps of the search: state, queries, and releases."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import types
from jaxdpbo.algorithms.private_search import contribution
from jaxdpbo.algorithms.private_search.configs import DESIGN_CHOICE, LAST_CHOICE, Config
from jaxdpbo.guarantee import assumptions as _assumptions
from jaxdpbo.guarantee import composed_guarantee, guarantees
from jaxdpbo.ledger import fingerprints
from jaxdpbo.noise import calibration, guard, totals
from jaxdpbo.noise import choice as _choice
from jaxdpbo.surrogate import gp
from jaxdpbo.types import Algorithm, Info, Query, State

PAYS = "an algorithm that pays for every step, such as dp_gibo.algorithm"


class Public(NamedTuple):
    """Released values, and values independent of the users' data.

    Attributes:
      step: ``()`` steps taken.
      budget: all noise settings at the start of the run.
      inner: public state of the inner algorithm; ``()`` where there is none.
      points: ``(m, d)``, queried so far.
      evaluated: ``(m,)``, whether a point was evaluated: an inner algorithm may mask some.
      chosen: ``(k,)``, the row of each choice, 0 before the choice.
    """

    step: jax.Array
    budget: calibration.NoiseSettings
    inner: Any
    points: jax.Array
    evaluated: jax.Array
    chosen: jax.Array


class Release(NamedTuple):
    """Everything you may publish; the guarantee covers all of it.

    Attributes:
      point: ``(d,)``, chosen last.
      start: ``(d,)``, chosen in the designs: ``point``, without an inner algorithm.
      path: ``(T + 1, d)``, the inner algorithm's; None where there is none.
      points: ``(m, d)``, all points evaluated.
      params: ``point`` by name, if you searched a ``Space``; filled in by the drivers.
    """

    point: jax.Array
    start: jax.Array
    path: jax.Array | None
    points: jax.Array
    params: dict[str, Any] | None = None


@lru_cache
def make_algorithm(inner: Algorithm | None = None, set_start: Callable[..., State] | None = None) -> Algorithm:
    """Make the algorithm; ``set_start(config, state, point)`` must move an inner state without steps.

    Formal guarantee: GDP, replace-one, of all choices and the inner algorithm together.

    ==========================================  ==============================================================
    case                                        result
    ==========================================  ==============================================================
    after T, or with other noise or rounds      the state unchanged, see ``noise.guard``
    a loss NaN or infinite                      see ``choice.choose_row``, and the inner algorithm's own rule
    a masked point                              is never chosen: the favoured row takes its place
    an inner algorithm without GDP in a step    refused here, or by ``init`` and ``privacy``
    ``mu = inf``                                the best point evaluated: not private
    ==========================================  ==============================================================

    >>> from jaxdpbo import private_search
    >>> private_search.make_algorithm().contribute is not None
    True
    """
    if (inner is None) != (set_start is None):
        raise ValueError("set_start must be given with an inner algorithm, and only then")
    if inner is not None and inner.contribute is None:
        raise ValueError(f"inner must be {PAYS}")

    functions = FUNCTIONS if inner is None else FUNCTIONS | FINDING
    own = {name: types.bind(function, inner) for name, function in functions.items()}
    steps = Algorithm(**own, tell=types.bind(_tell, inner, set_start))
    return guard.guard_budget(
        steps, lambda config: _settings(config, _begin_inner(inner, jax.random.key(0), config).public)
    )


def _begin_inner(inner: Algorithm | None, key: jax.Array, config: Config) -> State:
    return State(()) if inner is None else inner.init(key, config.inner)


def _inner_state(state: State) -> State:
    return State(state.public.inner)


def _init(inner: Algorithm | None, key: jax.Array, config: Config) -> State:
    inside = _begin_inner(inner, key, config)
    count, dimension, dtype = config.steps * config.batch, config.bounds.shape[1], config.width.dtype
    public = Public(
        step=jnp.zeros((), jnp.int32),
        budget=_settings(config, inside.public),
        inner=inside.public,
        points=jnp.zeros((count, dimension), dtype),
        evaluated=jnp.zeros(count, bool),
        chosen=jnp.zeros(len(config.choices), jnp.int32),
    )
    return State(public)


def _ask(inner: Algorithm | None, key: jax.Array, config: Config, state: State) -> Query:
    public = state.public

    def design_query():
        return _design_query(config, public)

    def answers():
        assert inner is not None
        released = inner.release(key, config.inner, _inner_state(state))
        return Query(_answers(released.point, released.path, config.batch), jnp.ones(config.batch, bool))

    if inner is None:
        query = design_query()
    else:
        asks = partial(inner.ask, key, config.inner, _inner_state(state))
        blank = totals.make_zeros(asks)

        def fill(new_query):  # branches return trees of one structure
            return blank._replace(points=new_query.points, mask=new_query.mask)

        phases = (lambda: fill(design_query()), asks, lambda: fill(answers()))
        query = jax.lax.switch(contribution.phase(config, public.step), phases)
    number, favoured = _choice_due(config, public)
    return query._replace(work=contribution.Work(public.step, number, favoured, query.work))


def _history(inner: Algorithm | None, config: Config, state: State, query: Query) -> tuple[Query, ...]:
    """At a choice, all queries so far; in an inner step, those of the inner algorithm; otherwise nothing adds up."""
    work, public = query.work, state.public
    if inner is not None:  # refuses an inner algorithm with a memory before the first step
        inside = types.history(inner, config.inner, _inner_state(state), contribution.inner_query(query))
        if contribution.is_searching(config, query):
            return tuple(inner_query._replace(work=work._replace(inner=inner_query.work)) for inner_query in inside)
    if not work.number:
        return ()
    earlier = []
    for step in range(int(public.step)):
        rows = slice(step * config.batch, (step + 1) * config.batch)
        unpaid = work._replace(step=jnp.asarray(step, jnp.int32), number=jnp.zeros((), jnp.int32))
        earlier.append(query._replace(points=public.points[rows], mask=public.evaluated[rows], work=unpaid))
    return (*earlier, query)


def _tell(
    inner: Algorithm | None,
    set_start: Callable[..., State] | None,
    config: Config,
    state: State,
    query: Query,
    released: contribution.Parts,
) -> State:
    work, public, inside = query.work, state.public, _inner_state(state)
    first = jnp.minimum(public.step, config.steps - 1) * config.batch
    public = public._replace(
        points=gp.write(public.points, query.points, first),
        evaluated=gp.write(public.evaluated, query.mask, first),
    )
    row = jnp.where(public.evaluated[released.choice], released.choice, work.favoured)  # never a masked row
    number = jnp.arange(1, len(config.choices) + 1, dtype=jnp.int32)
    chosen = jnp.where(number == work.number, row, public.chosen)
    if inner is not None and set_start is not None:
        tells = partial(inner.tell, config.inner, inside, contribution.inner_query(query), released.inner)
        inside = jax.lax.cond(contribution.is_searching(config, query), tells, lambda: _inner_state(state))
        start = set_start(config.inner, inside, public.points[chosen[len(config.rounds) - 1]])
        moved = public.step == config.design_steps - 1
        inside = jax.tree.map(lambda new, old: jnp.where(moved, new, old), start, inside)
    return State(public._replace(step=public.step + 1, inner=inside.public, chosen=chosen))


def _inform(inner: Algorithm | None, config: Config, query: Query, total: totals.UserTotal) -> Info:
    failed = None
    if inner is not None:
        inside = totals.UserTotal(total.whole.inner, total.facts["inner"])
        failed = inner.inform(config.inner, contribution.inner_query(query), inside).factorisation_failed
        failed = None if failed is None else failed & contribution.is_searching(config, query)
    return Info({"mean_loss": total.facts["losses"] / config.users}, failed)


def _release(inner: Algorithm | None, key: jax.Array, config: Config, state: State) -> Release:
    public = state.public
    point, start = public.points[public.chosen[-1]], public.points[public.chosen[len(config.rounds) - 1]]
    path = None if inner is None else inner.release(key, config.inner, _inner_state(state)).path
    return Release(point, start, path, public.points)


def _design_query(config: Config, public: Public) -> Query:
    """Next points of the designs, some near the point chosen last."""
    first = jnp.minimum(public.step * config.batch, sum(config.rounds) - config.batch)
    points = config.fresh if config.proposals is None else config.proposals
    fresh, offset, kept = (
        jax.lax.dynamic_slice_in_dim(rows, first, config.batch) for rows in (points, config.offset, config.kept)
    )
    choices_made = jnp.sum(first >= jnp.asarray(np.cumsum(config.rounds), jnp.int32), dtype=jnp.int32)  # choices so far
    near = public.points[public.chosen[jnp.maximum(choices_made - 1, 0)]][None] + offset
    inside = jnp.clip(near, config.bounds[:1], config.bounds[1:])
    return Query(jnp.where(kept, inside, fresh), jnp.ones(config.batch, bool))


def _answers(point: jax.Array, path: jax.Array, batch: int) -> jax.Array:
    """Candidate answers ``(b, d)``: ``point``, and the means of growing ends of ``path (T + 1, d)``."""
    length = path.shape[0]
    counts = [max(1, round((length - 1) * i / max(batch - 1, 1))) for i in range(batch - 1)]
    weights = np.array([np.arange(length) >= length - count for count in counts], float).reshape(batch - 1, length)
    means = jnp.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1), path.dtype) @ path
    return jnp.concatenate([point[None], means])


def _choice_due(config: Config, public: Public) -> tuple[jax.Array, jax.Array]:
    """Number of the choice at the end of this step, counted from 1 (0 for none), and its favoured row.

    Each choice has its own step, and favours the row chosen before; the last favours the inner algorithm's answer.
    """
    number, favoured = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)
    for place, end in enumerate(contribution.choice_ends(config)):
        due = public.step == end // config.batch - 1
        answer = place == len(config.rounds)
        row = jnp.asarray(end - config.batch, jnp.int32) if answer else public.chosen[max(place - 1, 0)]
        number = jnp.where(due, place + 1, number)
        favoured = jnp.where(due, row if place else 0, favoured)
    return number, favoured


def _settings(config: Config, inner: Any) -> calibration.NoiseSettings:
    """All noise settings of the choices and of the inner algorithm."""

    def counts(*values: Any) -> jax.Array:
        return jnp.stack([jnp.asarray(value, jnp.int32) for value in values])

    own = calibration.NoiseSettings(
        mu=jnp.stack([budget.mu for budget in config.choices]),
        radius=counts(*(budget.units for budget in config.choices)),
        sigma=counts(*(budget.digits for budget in config.choices)),
        noise=counts(*(calibration.NOISES.index(budget.noise) for budget in config.choices)),
        users=counts(config.users),
        steps=jnp.concatenate([counts(config.steps, *config.rounds), _checksum(config)]),
        releases=counts(config.batch),
        clip=config.width[None],
    )
    if not inner:
        return own
    if not isinstance(inner.budget, calibration.NoiseSettings):
        raise ValueError(f"inner must be {PAYS}")
    return calibration.join_settings(own, inner.budget)


def _checksum(config: Config) -> jax.Array:
    """Of the proposals: a run must not go on with others."""
    if config.proposals is None:
        return jnp.zeros(0, jnp.int32)
    return jax.lax.bitcast_convert_type(fingerprints.checksum(config.proposals, "proposals"), jnp.int32)


def _privacy(inner: Algorithm | None, config: Config) -> guarantees.Guarantee:
    """Compose all parts; no guarantee if any part has none."""
    inner_guarantee = None if inner is None else guarantees.complete_assumptions(inner.privacy(config.inner))
    if config.width.ndim:
        raise ValueError(f"privacy takes one config, got a width of shape {config.width.shape}")
    if inner_guarantee is not None:
        guarantees.expect_gdp("inner", inner_guarantee)
    if config.noise == "none" or (inner_guarantee is not None and inner_guarantee.notion == "none"):
        return guarantees.no_guarantee(guarantees.USERS, "mu is infinite: no noise was added")
    ranges = [("bounded_range", _choice.pure_level(budget)) for budget in config.choices]
    stages = [(DESIGN_CHOICE, *choice) for choice in ranges[: len(config.rounds)]]
    if inner_guarantee is not None:
        stages += [*composed_guarantee.guarantee_stages(config.inner, inner_guarantee), (LAST_CHOICE, *ranges[-1])]
    exact = config.noise == "exact"
    assumptions = (
        _assumptions.RANDOM_BITS if exact else _assumptions.IDEAL_NOISE,
        _assumptions.PUBLIC_CONFIG,
        _assumptions.SEPARABLE_LOSSES,
        *([_assumptions.PUBLIC_RECORDS] if config.proposals is not None else []),
    )
    joint = composed_guarantee.guarantee_from_stages(
        stages,
        guarantees.USERS,
        assumptions=assumptions,
        total_variation=len(ranges) * _choice.TOTAL_VARIATION * exact
        + (inner_guarantee.total_variation if inner_guarantee else 0.0),
    )
    return joint if inner_guarantee is None else joint.assuming(*inner_guarantee.assumptions)


FUNCTIONS = {
    "init": _init, "ask": _ask, "release": _release, "privacy": _privacy, "inform": _inform,
    "contribute": contribution.contribute, "perturb": contribution.perturb, "remember": contribution.remember,
    "history": _history,
}  # fmt: skip
FINDING = {"survey": contribution.survey, "refine": contribution.refine}  # an inner algorithm may find its clip norm
