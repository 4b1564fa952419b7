"""Evaluate a query on a table: one scan adds up the contributions of all users in whole numbers.

No user's values outlive a batch, so users remember nothing between steps. If an algorithm needs the users' memory, its
``history`` names earlier queries, and the scan evaluates these again.
"""

import contextlib
import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import separable, silence, types, user_values
from jaxdpbo import space as spaces
from jaxdpbo.drivers import compiled_run, compiled_steps, progress, result
from jaxdpbo.noise import wide_integers
from jaxdpbo.separable import equations, primitives
from jaxdpbo.separable.equations import ClosedJaxpr
from jaxdpbo.tables import engine
from jaxdpbo.tables import table as _table
from jaxdpbo.types import Algorithm, Config, DTypeLike, Objective, Query, Tree

NOT_EXACT = "a table needs noise='exact' and a finite budget: only whole numbers add up in any order"


class TableUsers:
    """The users of a table, see ``users.Users``: each total is one scan."""

    def __init__(
        self,
        algorithm: Algorithm,
        objective: Objective,
        table: _table.Table,
        config: Config,
        traceable: bool | str,
        shown: bool | str,
    ) -> None:
        """Check that the algorithm adds up whole numbers, and that JAX can trace the objective if asked.

        Raises:
          ValueError: the algorithm, its memory or its noise needs arrays, or the number of users differs.
          Exception: any exception of the objective, if ``traceable`` is True.
        """
        if config.users != table.users:
            raise ValueError(f"users must be the {table.users} users of the table, got {config.users}")
        if algorithm.contribute is None:
            raise ValueError("the algorithm keeps users' values between its steps, so data must be arrays, not a table")
        self._algorithm, self._objective, self._table, self._config = algorithm, objective, table, config
        self._shown = shown  # ``progress`` of a driver
        self.assumptions, self._place = table.assumptions, partial(spaces.place, config.space)
        self._functions = engine.PickledOnce((algorithm, objective))
        engine.expect_travels(table, self._functions)
        self._shapes: dict[bool, Any] = {}  # of the total of a survey, and of a step
        self._program = trace(objective, table, config, must=traceable is True) if traceable is not False else None

    def at(self, places: Sequence[object]) -> "TableUsers":
        """These users, for points that are row numbers of ``places``. The loss is called from Python."""
        moved = copy.copy(self)
        moved._place, moved._program = partial(take, tuple(places)), None
        return moved

    def begin(self, key: jax.Array) -> result.Snapshot:
        """The snapshot before the first step. Users of a table have no memory.

        Raises:
          ValueError: the algorithm needs the users' memory, or its noise is not exact.
        """
        state = _begin(self._algorithm, key, self._config)
        before = result.Snapshot(state, ())
        query = compiled_steps.ask(self._algorithm, jax.random.key(0), self._config, state)  # for its shapes and flags
        self._queries(before, query)
        flatten(self._zeros(query, survey=False).whole)
        return before

    def evaluate(self, key: jax.Array, before: result.Snapshot, query: Query) -> Any:
        """The total of a step, or of its survey. Draws nothing.

        Raises:
          TableError: see ``Table.add``; or the objective returned another shape, which rows may decide.
          ValueError: the noise is not exact.
        """
        del key
        queries = self._queries(before, query)
        return self._scan(before, queries, survey=_surveys(query)) if queries else self._zeros(query, survey=False)

    def learn(self, key: jax.Array, before: result.Snapshot, query: Query, values: Any) -> tuple[result.Snapshot, Any]:
        """Add noise to the total and update the state. A step with a survey scans the table once more."""
        algorithm, config = self._algorithm, self._config
        if query.survey is not None:
            key, refine_key = jax.random.split(key)  # as ``compiled_run`` splits: releases are equal to the bit
            if _surveys(query):
                query = _refine(algorithm, refine_key, config, query, values)
                values = self._scan_after_draw(before, self._queries(before, query))
        after, info = _finish(algorithm, key, config, before.state, query, values)
        return result.Snapshot(after, ()), info

    def recall(self, before: result.Snapshot, query: Query, values: Any) -> Any:
        """The memory after a step on record: none."""
        del before, query, values
        return ()

    def _scan_after_draw(self, before: result.Snapshot, queries: Sequence[Query]) -> Any:
        """Scan once more after the survey. A failure ends the run: the draw must not be made again."""
        try:
            return self._scan(before, queries, survey=False)
        except (Exception, KeyboardInterrupt) as error:
            raise result.RunInterrupted(
                f"stopped on {type(error).__name__} in the second scan of a step, after noise was drawn for a private "
                "scale: this run cannot resume; start a new run, or give clip_norm as a number"
            ) from error

    def _queries(self, before: result.Snapshot, query: Query) -> tuple[Query, ...]:
        """The queries of a scan, the step's own last; empty if the step adds nothing up."""
        return types.history(self._algorithm, self._config, before.state, query)

    def _scan(self, before: result.Snapshot, queries: Sequence[Query], *, survey: bool) -> Any:
        """Add up all users. Raise a TableError if the number of rows differs from the number of users."""
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *queries)
        like = _table.batch_shapes(self._table)
        places = places_of(self._place, stacked) if self._program is None else None
        speaks = can_speak(self._program)
        contribution = Contribution(self._functions, self._config, stacked, survey, places, speaks, like)
        zeros = self._zeros(queries[-1], survey=survey)
        what = f"step {int(before.state.public.step) + 1} of {self._config.steps}" + ", first a scale" * survey
        with progress.scanning(self._shown, what, self._table.users) as count:
            total, users = self._table.add(Counted(contribution, count))
        expect_users(users, self._config.users)
        return unflatten(zeros, total) if survey else zeros._replace(whole=unflatten(zeros.whole, total))

    def _zeros(self, query: Query, *, survey: bool) -> Any:
        """The total of no user: a ``UserTotal``, or the whole numbers of a survey."""
        if survey not in self._shapes:
            stacked = jax.tree.map(lambda leaf: np.asarray(leaf)[None], query)
            public, batch = (self._config, stacked), _table.batch_shapes(self._table)
            values = jax.ShapeDtypeStruct((1, len(query.points), _table.BATCH), query.points.dtype)
            if self._program is not None:
                total = jax.eval_shape(
                    partial(_total_of_columns, self._algorithm, self._objective, survey), *public, *batch
                )
            else:
                total = jax.eval_shape(
                    partial(total_of_values, self._algorithm, survey), *public, values, batch.present
                )
            self._shapes[survey] = total
        return zeros_of_shapes(self._shapes[survey])


def zeros_of_shapes(shapes: Tree) -> Any:
    """NumPy zeros of these shapes and dtypes."""
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


class Contribution(NamedTuple):
    """The whole numbers that the users of a batch add: a function of the batch and of public values alone.

    Attributes:
      functions: the algorithm, with ``contribute``, and the objective, ``(point, columns) -> values (..., BATCH)``.
      config: of the algorithm.
      queries: stacked along a first axis; the total is that of the last.
      survey: True for the total of the algorithm's ``survey``.
      places: what the objective gets in the place of each point; None if JAX traces the objective.
      speaks: see ``can_speak``.
      like: the shapes and dtypes of every batch, which must not depend on values.
    """

    functions: engine.PickledOnce
    config: Any
    queries: Query
    survey: bool
    places: tuple[tuple[Any, ...], ...] | None
    speaks: bool
    like: _table.Batch

    def __call__(self, batch: _table.Batch) -> np.ndarray:
        """The total of a batch, int64 ``(k,)``.

        Raises:
          TableError: the batch, or an array that the objective returned, has another shape; or the objective raised an
            UnreadError, of a table that it reads.
        """
        expect_like(self.like, batch)
        if self.speaks:
            return silence.call(self._total, batch)
        with silence.numeric_checks_off():  # an engine's threads have checks of their own
            return self._total(batch)

    def _total(self, batch: _table.Batch) -> np.ndarray:
        (algorithm, objective), config, queries, survey = self.functions.objects, self.config, self.queries, self.survey
        if self.places is None:
            total = _total_of_columns(algorithm, objective, survey, config, queries, *batch)
        else:
            total = total_of_values(algorithm, survey, config, queries, self._call(batch.columns), batch.present)
        return flatten(total if survey else total.whole)

    def _call(self, columns: _table.Columns) -> np.ndarray:
        """The values ``(m, b, BATCH)`` at all places, called from Python; zeros at masked points."""
        (_, objective), points = self.functions.objects, self.queries.points
        values = np.zeros((*points.shape[:2], _table.BATCH), points.dtype)
        assert self.places is not None
        for query, row in zip(*np.nonzero(self.queries.mask), strict=True):
            values[query, row] = _losses_at(objective, self.places[query][row], columns, points.dtype)
        return values


def _losses_at(objective: Objective, place: Any, columns: _table.Columns, dtype: DTypeLike) -> np.ndarray:
    try:
        returned = silence.settle(objective(place, {**columns}))
    except _table.UnreadError as error:  # of a table that the objective reads: rows may decide it, so it is not free
        failure = str(error)
    else:
        with contextlib.suppress(ValueError):
            return user_values.to_losses("objective", returned, (_table.BATCH,), dtype)
        failure = "objective must return one loss for each row of a batch"  # rows may decide which shape came
    raise _table.TableError(failure)  # outside of handlers: a context would quote more


class Counted(NamedTuple):
    """A contribution that counts the users of each batch, for a bar."""

    contribution: _table.Partial
    tally: progress.Count

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the count here: the copy in another process moves no bar."""
        return _itself, (self.contribution,)

    def __call__(self, batch: _table.Batch) -> np.ndarray:
        """The total of a batch."""
        total = self.contribution(batch)
        self.tally(int(np.sum(batch.present)))
        return total


def places_of(place: Callable[[np.ndarray], Any], queries: Query) -> tuple[tuple[Any, ...], ...]:
    """What an objective gets in the place of each point of stacked queries, in float64."""
    return tuple(tuple(place(np.asarray(point, np.float64)) for point in points) for points in queries.points)


def take(places: tuple[object, ...], point: np.ndarray) -> object:
    """The place of a point that is a row number ``(1,)``."""
    return places[int(point[0])]


def _itself(contribution: _table.Partial) -> _table.Partial:
    return contribution


def trace(objective: Objective, table: _table.Table, config: Config, *, must: bool) -> ClosedJaxpr | None:
    """The program of the objective on a batch; None if JAX cannot trace it. Reads no row.

    Raises:
      ObjectiveError: the objective returns an array of another shape than a loss for each row.
      NotSeparable: an objective with ``user_axes`` mixes rows.
      Exception: with ``must``, what the tracing raised.
    """
    columns = _table.batch_shapes(table).columns
    point = jax.ShapeDtypeStruct((result.dimension(config),), jnp.result_type(float))
    place = partial(spaces.place, config.space)
    try:
        program, returned = jax.make_jaxpr(lambda point, columns: objective(place(point), columns), return_shape=True)(
            point, columns
        )
    except separable.NotSeparable:
        raise
    except Exception:
        if must:
            raise
        return None
    shape = getattr(returned, "shape", None)
    if shape is not None and shape[-1:] != (_table.BATCH,):  # an algorithm may take more numbers of each row
        raise result.ObjectiveError(
            f"objective must return one loss for each row of a batch, shape ({_table.BATCH},), got {shape}: leave out "
            "the mean or the sum over rows"
        )
    return program


def can_speak(program: ClosedJaxpr | None) -> bool:
    """True if an objective runs Python on a batch, in the place of a program or from one: it may print or log rows."""
    return program is None or equations.calls(program, primitives.SPEAKING)


def expect_like(like: _table.Batch, batch: _table.Batch) -> None:
    """Raise a TableError for a batch of other names, shapes or dtypes, by which XLA may round differently."""
    if len(batch.present) != len(like.present):
        raise _table.TableError(f"batches must have {len(like.present)} rows, got {len(batch.present)}")
    if jax.tree.map(_shape_and_dtype, batch._asdict()) != jax.tree.map(_shape_and_dtype, like._asdict()):
        raise _table.TableError("batches must have the table's columns, as arrays of JAX's default float")


def expect_users(counted: int, users: int | None) -> None:
    """Raise a TableError if a scan read another number of rows than there are users."""
    if counted != users:
        raise _table.TableError(f"a scan read {counted} rows of a table of {users}")


def flatten(whole: Tree) -> np.ndarray:
    """A total of ``wide_integers.Wide`` as int64 ``(k,)``.

    Raises:
      ValueError: the noise is not exact, so the total holds floats, which do not add up to the same in any order.
    """
    words = jax.tree.leaves(whole, is_leaf=is_wide)
    if not all(map(is_wide, words)):
        raise ValueError(NOT_EXACT)
    return np.concatenate([wide_integers.to_int64(word).ravel() for word in words])


def unflatten(like: Tree, total: np.ndarray) -> Any:
    """A total in the shapes of ``like`` again."""
    leaves, tree = jax.tree.flatten(like, is_leaf=is_wide)
    cuts = np.cumsum([leaf.low.size for leaf in leaves])[:-1]
    parts = zip(np.split(total, cuts), leaves, strict=True)
    words = [wide_integers.from_int64(part.reshape(leaf.low.shape)) for part, leaf in parts]
    return jax.tree.unflatten(tree, words)


def _shape_and_dtype(leaf: Any) -> tuple[Any, ...]:
    return leaf.shape, leaf.dtype


def is_wide(leaf: Any) -> bool:
    """True for an integer sum."""
    return isinstance(leaf, wide_integers.Wide)


def _surveys(query: Query) -> bool:
    return query.survey is not None and bool(query.survey)


def _fold(algorithm: Algorithm, survey: bool, config: Any, queries: Query, values_of: Any, present: jax.Array) -> Any:
    """The total at the last of some queries; ``values_of`` maps a query's number to the values of the batch."""
    assert algorithm.contribute is not None
    contribute, count = algorithm.contribute, len(queries.points)

    def query_of(number):
        return jax.tree.map(lambda leaf: leaf[number], queries)

    def remember(number, memory):
        return contribute(config, query_of(number), memory, values_of(number), present)[1]

    memory = jax.lax.fori_loop(0, count - 1, remember, algorithm.remember(config, len(present)))
    last, values = query_of(count - 1), values_of(count - 1)
    if survey:
        assert algorithm.survey is not None
        return algorithm.survey(config, last, memory, values, present)
    return contribute(config, last, memory, values, present)[0]


@partial(jax.jit, static_argnums=(0, 1, 2))
def _total_of_columns(
    algorithm: Algorithm, objective: Objective, survey: bool, config: Any, queries: Query, columns: Any, present: Any
) -> Any:
    def values_of(number):
        return compiled_run.map_points(objective, queries.points[number], columns, config.space)

    return _fold(algorithm, survey, config, queries, values_of, present)


@partial(jax.jit, static_argnums=(0, 1))
def total_of_values(
    algorithm: Algorithm, survey: bool, config: Any, queries: Query, values: jax.Array, present: Any
) -> Any:
    """The total at the last of stacked queries, or of its survey, from values ``(m, b, s)``."""
    return _fold(algorithm, survey, config, queries, lambda number: values[number], present)


_begin = jax.jit(lambda algorithm, key, config: algorithm.init(key, config), static_argnums=0)
_refine = jax.jit(
    lambda algorithm, key, config, query, whole: algorithm.refine(key, config, query, whole), static_argnums=0
)


@partial(jax.jit, static_argnums=0)
def _finish(algorithm: Algorithm, key: jax.Array, config: Any, state: Any, query: Query, whole: Any) -> Any:
    """The state after a step, and its ``Info`` without what is raw."""
    after, info = compiled_run.finish(algorithm, key, config, state, query, whole)
    return after, result.check_info(info)._replace(raw={})
