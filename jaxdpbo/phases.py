"""Run private algorithms one after another, under one guarantee: a plan of phases.

A ``Phase`` is an algorithm and, if it begins where earlier phases ended, a function of their releases.
``make_algorithm`` makes one ``Algorithm`` of all of them, for every driver:

>>> import jax.numpy as jnp
>>> from jaxdpbo import dp_gibo, drivers, phases, private_estimate
>>> plan = phases.make_algorithm(phases.Phase(dp_gibo.algorithm), private_estimate.at_answer)
>>> box = {"low": [0, 0], "high": [6, 6]}
>>> config = phases.config(
...     dp_gibo.config(users=500, steps=3, mu=0.9, bounds=box),
...     private_estimate.config(users=500, mu=0.4, bounds=box, loss_range=(0, 9)),
... )
>>> def losses(point, users):
...     return jnp.abs(users - point).sum(axis=1)
>>> run = drivers.run_scan(plan, losses, jnp.full((500, 2), 3.0), config)
>>> [name for name, _ in run.guarantee.parts]
['the noisy means', 'the loss at the answer']

A phase may read *the book*: each user's losses at all points that the plan has evaluated so far. The plan keeps the
book; a choice among the points of earlier phases needs nothing else of them.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from jaxdpbo import namespace, types
from jaxdpbo.guarantee import composed_guarantee, guarantees
from jaxdpbo.noise import calibration, guard, totals, wide_integers
from jaxdpbo.space import Space
from jaxdpbo.surrogate import gp
from jaxdpbo.types import Algorithm, Info, Memory, Query, State

__all__ = [
    "Book",
    "Config",
    "Phase",
    "Release",
    "config",
    "make_algorithm",
]
__dir__ = namespace.list_public(__name__)

PAYS = "an algorithm that pays for every step, such as dp_gibo.algorithm"


class Phase(NamedTuple):
    """One algorithm of a plan.

    Attributes:
      algorithm: pays for every step. Its ``release`` has a ``point``, and draws nothing.
      start: ``(config, state, releases) -> state``, moves the phase's state without steps by the releases of all
        earlier phases: arithmetic on public values. None for a phase that begins by itself.
      reads_book: True for an algorithm whose ``contribute`` takes the book ``(m, s)`` in place of a memory, with the
        losses of this step in it, infinite at masked points. Its ``State.public`` has a field ``book``, a ``Book`` when
        a function is called, and its config has ``after(points)``, the config for a phase after so many points.

    >>> from jaxdpbo import dp_gibo, phases
    >>> phases.Phase(dp_gibo.algorithm).reads_book
    False
    """

    algorithm: Algorithm
    start: Callable[..., State] | None = None
    reads_book: bool = False


class Book(NamedTuple):
    """The public side of the book: ``points (m, d)`` evaluated so far, and ``evaluated (m,)``, False where masked.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import phases
    >>> phases.Book(jnp.zeros((4, 2)), jnp.zeros(4, bool)).points.shape
    (4, 2)
    """

    points: jax.Array
    evaluated: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Made by ``config``: the configs of all ``phases``."""

    phases: tuple[Any, ...]

    @property
    def users(self) -> int:
        """Number of users ``n``, of every phase."""
        return self.phases[0].users

    @property
    def steps(self) -> int:
        """Number of steps ``T``, of all phases."""
        return self.ends[-1]

    @property
    def batch(self) -> int:
        """Evaluations a step ``b``: the most of any phase."""
        return max(phase.batch for phase in self.phases)

    @property
    def space(self) -> Space | None:
        """Search space of every phase."""
        return self.phases[0].space

    @property
    def inner(self) -> Any:
        """The first phase's config, which knows the box."""
        return self.phases[0]

    @property
    def ends(self) -> list[int]:
        """Number of steps until the end of each phase."""
        return list(itertools.accumulate(phase.steps for phase in self.phases))


def config(*configs: Any) -> Config:
    """Make the config of a plan of the phases' configs, in order.

    Args:
      configs: of the same users and space. A phase may have fewer points a step than another, but for a choice: the
        plan then masks the rest of its batch.

    Raises:
      ValueError: no config, or configs of other users, spaces or batches.

    >>> from jaxdpbo import dp_gibo, phases, private_estimate
    >>> box = [(0, 6)] * 3
    >>> descent = dp_gibo.config(users=500, steps=5, mu=0.9, bounds=box)
    >>> phases.config(descent, private_estimate.config(users=500, mu=0.4, bounds=box, loss_range=(0, 1))).steps
    6
    """
    if not configs:
        raise ValueError("configs must be one or more, got none")
    for name in ("users", "space"):
        first, *others = (getattr(each, name) for each in configs)
        if any(other != first for other in others):
            raise ValueError(f"configs must be of the same {name}, got {[first, *others]}")
    joint, placed = Config(configs), []
    for each, first in zip(configs, (0, *joint.ends[:-1]), strict=True):
        if hasattr(each, "after"):
            if each.batch != joint.batch:
                raise ValueError(f"configs of choices must be of {joint.batch} points a step, as others are")
            each = each.after(joint.batch * first)
        placed.append(each)
    return Config(tuple(placed))


class PublicState(NamedTuple):
    """Released values, and values independent of the users' data.

    Attributes:
      step: ``()`` steps taken, in all phases.
      noise: the noise settings of all phases at the start of the run.
      book: its rows are those that a later phase reads.
      phases: the public state of each phase; its own ``book`` is None.
    """

    step: jax.Array
    noise: calibration.NoiseSettings
    book: Book
    phases: tuple[Any, ...]


class UserMemory(NamedTuple):
    """Raw memory of users: the ``book (m, s)`` of their losses, () if no phase reads it, and each phase's memory."""

    book: Any
    phases: tuple[Any, ...]


class Broadcast(NamedTuple):
    """Public inputs of ``contribute``: ``step ()``; each phase's ``broadcast`` and ``rows``, zeros in other steps."""

    step: jax.Array
    phases: tuple[Any, ...]


class Release(NamedTuple):
    """Everything you may publish; the guarantee covers all of it.

    Attributes:
      point: ``(d,)``, the last phase's.
      loss: ``()``, the noised mean loss that a phase released; None without such a phase.
      path: ``(T + 1, d)``, of a descent; None without one.
      points: ``(m, d)``, all points evaluated for a choice or for a mean; None without.
      phases: the release of each phase.
      params: ``point`` by name, if you searched a ``Space``; filled in by the drivers.
    """

    point: jax.Array
    loss: jax.Array | None
    path: jax.Array | None
    points: jax.Array | None
    phases: tuple[Any, ...]
    params: dict[str, Any] | None = None


@lru_cache
def make_algorithm(*phases: Phase) -> Algorithm:
    """Make one algorithm of phases that run one after another.

    Formal guarantee: GDP, replace-one, of the releases of all phases together: the composition of their stages. A
    phase reads earlier ones through their releases, which is post-processing, and through the book, in its own
    ``contribute``.

    ==========================================  ==============================================================
    case                                        result
    ==========================================  ==============================================================
    after step T, or with other noise           the state unchanged, see ``noise.guard``
    a phase without GDP in every step           refused here, or by ``init`` and ``privacy``
    a phase at ``mu = inf``                     no guarantee for any
    two phases with a survey                    refused here
    phases that protect different users         refused by ``privacy``
    ==========================================  ==============================================================

    Raises:
      ValueError: see above.

    >>> from jaxdpbo import dp_gibo, phases, private_choice
    >>> plan = phases.make_algorithm(private_choice.design, dp_gibo.from_point, private_choice.at_answers)
    >>> plan.contribute is not None
    True
    """
    if not phases or phases[0].start is not None:
        raise ValueError("phases must be one or more, the first without a start")
    if any(phase.algorithm.contribute is None or phase.algorithm.perturb is None for phase in phases):
        raise ValueError(f"a phase must be {PAYS}")
    surveying = [number for number, phase in enumerate(phases) if phase.algorithm.survey is not None]
    if len(surveying) > 1:
        raise ValueError(f"at most one phase may have a survey, got {len(surveying)}")
    bound = {name: types.bind(function, phases) for name, function in FUNCTIONS.items()}
    if surveying:
        bound |= {name: types.bind(function, phases, *surveying) for name, function in SURVEYS.items()}
    return guard.guard_noise(Algorithm(**bound), partial(_settings, phases))


def _settings(phases: Sequence[Phase], config: Config) -> calibration.NoiseSettings:
    """The noise settings of all phases, in their order."""
    key = jax.random.key(0)  # settings follow from the config alone
    states = [phase.algorithm.init(key, each) for phase, each in zip(phases, config.phases, strict=True)]
    noises = [state.public.noise for state in states]
    if not all(isinstance(noise, calibration.NoiseSettings) for noise in noises):
        raise ValueError(f"a phase must be {PAYS}")
    return reduce(calibration.join_settings, noises)


def _rows(phases: Sequence[Phase], config: Config) -> int:
    """Rows of the book: the points until the end of the last phase that reads it."""
    ends = [end for phase, end in zip(phases, config.ends, strict=True) if phase.reads_book]
    return config.batch * max(ends, default=0)


def _number(config: Config, step: jax.Array) -> jax.Array:
    """The number of the phase that a step belongs to: ``()``; the last after all steps."""
    return jnp.sum(step >= jnp.asarray(config.ends[:-1], jnp.int32), dtype=jnp.int32)


def _apply(number: jax.Array, functions: Sequence[Callable[[], Any]], others: Sequence[Any]) -> tuple[Any, ...]:
    """Apply the function of one phase, and no other: a tuple with its result in its place among the ``others``.

    A condition for each phase and not one switch of all, which would copy every user's memory in every step.
    """
    if len(functions) == 1:
        return (functions[0](),)
    pairs = enumerate(zip(functions, others, strict=True))
    return tuple(jax.lax.cond(number == own, function, lambda other=other: other) for own, (function, other) in pairs)


def _state(phase: Phase, public: Any, book: Book) -> State:
    """The state of a phase, with the book lent to a phase that reads it."""
    return State(public._replace(book=book) if phase.reads_book else public)


def _public(phase: Phase, state: State) -> Any:
    """The public state of a phase, the book given back."""
    return state.public._replace(book=None) if phase.reads_book else state.public


def _queries(phases: Sequence[Phase], config: Config, query: Query) -> list[Query]:
    """The query of each phase: in its own steps as it asked, in others of zeros."""
    local = query.local or ((),) * len(phases)
    return [
        query._replace(
            points=query.points[: each.batch], mask=query.mask[: each.batch], rows=rows, broadcast=broadcast, local=own
        )
        for each, (broadcast, rows), own in zip(config.phases, query.broadcast.phases, local, strict=True)
    ]


def _releases(phases: Sequence[Phase], config: Config, public: PublicState) -> list[Any]:
    key = jax.random.key(0)  # of no use: a phase releases what it drew in ``perturb``
    each = zip(phases, config.phases, public.phases, strict=True)
    return [phase.algorithm.release(key, own, _state(phase, state, public.book)) for phase, own, state in each]


def _init(phases: Sequence[Phase], key: jax.Array, config: Config) -> State:
    noise, keys = _settings(phases, config), jax.random.split(key, len(phases))
    states = [phase.algorithm.init(*pair) for phase, *pair in zip(phases, keys, config.phases, strict=True)]
    rows = _rows(phases, config)
    asks = partial(phases[0].algorithm.ask, key, config.phases[0], states[0])
    points = jax.eval_shape(asks).points
    book = Book(jnp.zeros((rows, points.shape[1]), points.dtype), jnp.zeros(rows, bool))
    return State(
        PublicState(
            step=jnp.zeros((), jnp.int32),
            noise=noise,
            book=book,
            phases=tuple(_public(phase, state) for phase, state in zip(phases, states, strict=True)),
        )
    )


def _ask(phases: Sequence[Phase], key: jax.Array, config: Config, state: State) -> Query:
    public, batch = state.public, config.batch

    def ask(number: int) -> Query:
        phase = phases[number]
        query = phase.algorithm.ask(key, config.phases[number], _state(phase, public.phases[number], public.book))
        missing = batch - len(query.points)  # masked rows at a point that is evaluated anyway
        return query._replace(
            points=jnp.concatenate([query.points, jnp.repeat(query.points[:1], missing, axis=0)]),
            mask=jnp.pad(query.mask, (0, missing)),
            active=None,
        )

    functions = [partial(ask, number) for number in range(len(phases))]
    shapes = [jax.eval_shape(function) for function in functions]
    blank = [totals.make_zeros(lambda shape=shape: shape) for shape in shapes]
    number = _number(config, public.step)
    queries = _apply(number, functions, blank)
    points, mask = (jnp.stack([getattr(query, name) for query in queries]) for name in ("points", "mask"))
    surveys = [query.survey for query in queries if query.survey is not None]
    return Query(
        points=points[number],
        mask=mask[number],
        broadcast=Broadcast(public.step, tuple((query.broadcast, query.rows) for query in queries)),
        local=tuple(query.local for query in queries),
        survey=surveys[0] if surveys else None,
    )


def _history(phases: Sequence[Phase], config: Config, state: State, query: Query) -> tuple[Query, ...]:
    """For a phase that reads the book all queries so far, otherwise the phase's own."""
    for phase, each in zip(phases, config.phases, strict=True):  # refused before the first step, not in its own
        if not phase.reads_book:
            types.expect_history(phase.algorithm, each)
    broadcast, public = query.broadcast, state.public
    number = int(_number(config, broadcast.step))
    phase, each, own = phases[number], config.phases[number], _queries(phases, config, query)[number]
    asked = types.history(phase.algorithm, each, _state(phase, public.phases[number], public.book), own)
    if phase.reads_book and asked:
        rows = [slice(step * config.batch, (step + 1) * config.batch) for step in range(int(broadcast.step))]
        blank = jax.tree.map(jnp.zeros_like, broadcast.phases)
        earlier = [
            query._replace(
                points=public.book.points[of_step],
                mask=public.book.evaluated[of_step],
                broadcast=Broadcast(jnp.asarray(step, jnp.int32), blank),
            )
            for step, of_step in enumerate(rows)
        ]
        return (*earlier, query)

    def place(inside: Query) -> Query:
        broadcasts = list(broadcast.phases)
        broadcasts[number] = (inside.broadcast, inside.rows)
        return query._replace(broadcast=broadcast._replace(phases=tuple(broadcasts)))

    return tuple(map(place, asked))


def _remember(phases: Sequence[Phase], config: Config, users: int) -> Memory:
    own = [
        () if phase.reads_book else phase.algorithm.remember(each, users)
        for phase, each in zip(phases, config.phases, strict=True)
    ]
    rows = _rows(phases, config)
    return UserMemory(jnp.zeros((rows, users), jnp.result_type(float)) if rows else (), tuple(own))


def _contribute(
    phases: Sequence[Phase],
    config: Config,
    query: Query,
    memory: UserMemory,
    values: jax.Array,
    present: jax.Array | None = None,
) -> tuple[totals.UserTotal, Memory]:
    types.check_values(values, config.batch, memory=memory, present=present)
    book, step = memory.book, query.broadcast.step
    if len(book):
        losses = jnp.where(query.mask[:, None], values.astype(book.dtype), jnp.inf)  # nobody chooses a masked point
        open_ = query.active & (step * config.batch < len(book))
        book = gp.write(book, losses, step * config.batch, open_)

    def contribute(number: int, inside: Query) -> tuple[totals.UserTotal, Memory]:
        phase, each = phases[number], config.phases[number]
        assert phase.algorithm.contribute is not None
        own = book if phase.reads_book else memory.phases[number]
        total, after = phase.algorithm.contribute(each, inside, own, values[: each.batch], present)
        return total, () if phase.reads_book else after

    queries = _queries(phases, config, query)
    functions = [partial(contribute, *pair) for pair in enumerate(queries)]
    nobody = [(totals.make_zeros(function)[0], own) for function, own in zip(functions, memory.phases, strict=True)]
    each = _apply(_number(config, step), functions, nobody)
    present_losses = values if present is None else jnp.where(present[None], values, 0)
    facts = {"losses": jnp.sum(present_losses, axis=1), "phases": tuple(total.facts for total, _ in each)}
    return totals.UserTotal(tuple(total.whole for total, _ in each), facts), UserMemory(
        book, tuple(after for _, after in each)
    )


def _perturb(
    phases: Sequence[Phase], key: jax.Array, config: Config, query: Query, whole: Sequence[Any]
) -> tuple[Any, ...]:
    """One phase alone draws in a step, so the step's key is used once."""
    queries = _queries(phases, config, query)
    functions = [
        partial(cast(Callable[..., Any], phase.algorithm.perturb), key, *each)
        for phase, *each in zip(phases, config.phases, queries, whole, strict=True)
    ]
    return _apply(_number(config, query.broadcast.step), functions, [totals.make_zeros(each) for each in functions])


def _survey(
    phases: Sequence[Phase],
    number: int,
    config: Config,
    query: Query,
    memory: UserMemory,
    values: jax.Array,
    present: jax.Array | None = None,
) -> wide_integers.Wide:
    survey, each = phases[number].algorithm.survey, config.phases[number]
    assert survey is not None
    own = _queries(phases, config, query)[number]
    return survey(each, own, memory.phases[number], values[: each.batch], present)


def _refine(
    phases: Sequence[Phase], number: int, key: jax.Array, config: Config, query: Query, whole: wide_integers.Wide
) -> Query:
    refine, broadcasts = phases[number].algorithm.refine, list(query.broadcast.phases)
    assert refine is not None
    refined = refine(key, config.phases[number], _queries(phases, config, query)[number], whole)
    broadcasts[number] = (refined.broadcast, refined.rows)
    return query._replace(broadcast=query.broadcast._replace(phases=tuple(broadcasts)))


def _tell(phases: Sequence[Phase], config: Config, state: State, query: Query, released: Sequence[Any]) -> State:
    public, first = state.public, state.public.step * config.batch
    book = public.book
    if len(book.points):
        open_ = first < len(book.points)
        book = Book(
            gp.write(book.points, query.points, first, open_), gp.write(book.evaluated, query.mask, first, open_)
        )

    def tell(number: int, inside: Query) -> Any:
        phase = phases[number]
        before = _state(phase, public.phases[number], book)
        after = phase.algorithm.tell(config.phases[number], before, inside, released[number])
        return _public(phase, after)

    functions = [partial(tell, *pair) for pair in enumerate(_queries(phases, config, query))]
    states = _apply(_number(config, public.step), functions, public.phases)
    after = public._replace(step=public.step + 1, book=book, phases=states)
    return State(after._replace(phases=_begin(phases, config, after)))


def _begin(phases: Sequence[Phase], config: Config, public: PublicState) -> tuple[Any, ...]:
    """The public states of all phases; the phase that the next step begins is moved to its start."""
    states = list(public.phases)
    for number, (phase, each, end) in enumerate(zip(phases[1:], config.phases[1:], config.ends, strict=False), start=1):
        if phase.start is None:
            continue

        def move(number=number, phase=phase, each=each):
            assert phase.start is not None
            earlier = public._replace(phases=public.phases[:number])
            released = _releases(phases[:number], Config(config.phases[:number]), earlier)
            return _public(phase, phase.start(each, _state(phase, public.phases[number], public.book), released))

        states[number] = jax.lax.cond(public.step == end, move, lambda number=number: public.phases[number])
    return tuple(states)


def _inform(phases: Sequence[Phase], config: Config, query: Query, total: totals.UserTotal) -> Info:
    """``mean_loss (b,)`` over users at each point of the query; NOT PRIVATE."""
    number, failed = _number(config, query.broadcast.step), None
    of_phases = zip(phases, config.phases, _queries(phases, config, query), strict=True)
    sums = zip(total.whole, total.facts["phases"], strict=True)
    for own, ((phase, each, asked), (whole, facts)) in enumerate(zip(of_phases, sums, strict=True)):
        flag = phase.algorithm.inform(each, asked, totals.UserTotal(whole, facts)).factorisation_failed
        if flag is not None:
            failed = (flag & (number == own)) | (False if failed is None else failed)
    return Info({"mean_loss": total.facts["losses"] / config.users}, failed)


def _release(phases: Sequence[Phase], key: jax.Array, config: Config, state: State) -> Release:
    del key
    released = _releases(phases, config, state.public)

    def last(name: str) -> Any:
        found = [getattr(each, name) for each in released if getattr(each, name, None) is not None]
        return found[-1] if found else None

    return Release(released[-1].point, last("loss"), last("path"), last("points"), tuple(released))


def _privacy(phases: Sequence[Phase], config: Config) -> guarantees.Guarantee:
    stated = []
    for phase, each in zip(phases, config.phases, strict=True):
        own = guarantees.complete_assumptions(phase.algorithm.privacy(each))
        guarantees.expect_gdp("a phase", own)
        stated.append(own)
    protected, *others = dict.fromkeys(own.protects for own in stated)
    if others:
        raise ValueError(f"phases must protect the same users, got {[protected, *others]}")
    if any(own.notion == "none" for own in stated):
        return guarantees.no_guarantee(protected, "mu is infinite: no noise was added")
    pairs = zip(config.phases, stated, strict=True)
    return composed_guarantee.guarantee_from_stages(
        [stage for pair in pairs for stage in composed_guarantee.guarantee_stages(*pair)],
        protected,
        total_variation=sum(own.total_variation for own in stated),
    ).assuming(*(assumption for own in stated for assumption in own.assumptions))


FUNCTIONS = {
    "init": _init, "ask": _ask, "tell": _tell, "release": _release, "privacy": _privacy, "contribute": _contribute,
    "perturb": _perturb, "inform": _inform, "remember": _remember, "history": _history,
}  # fmt: skip
SURVEYS = {"survey": _survey, "refine": _refine}  # an algorithm may find its clip norm
