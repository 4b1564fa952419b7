"""Evaluate a query on users in memory: call the objective at each point, and learn from its values."""

import copy
import pickle
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxdpbo import silence, user_values
from jaxdpbo import space as spaces
from jaxdpbo.drivers import compiled_steps, result, table_scan
from jaxdpbo.tables import engine
from jaxdpbo.types import Algorithm, Config, Data, Objective, Query, Values


class ArrayUsers:
    """Users in memory, see ``users.Users``: the objective gets all data at once."""

    assumptions: tuple[str, ...] = ()

    def __init__(
        self, algorithm: Algorithm, objective: Objective, data: Data, config: Config, executor: Executor | None
    ) -> None:
        if isinstance(executor, ProcessPoolExecutor):
            engine.expect_pickled(objective, pickle.dumps, "the processes of executor")
        self._algorithm, self._objective, self._data, self._config = algorithm, objective, data, config
        self._executor, self._place = executor, partial(spaces.place, config.space)
        self._first_seen = False
        self._shape: tuple[int, ...] | None = None  # of the values at a point, if known
        self._usable: set[tuple[int, ...]] = set()  # shapes that ``learn`` was traced with; copies of ``at`` share it

    def at(self, places: Sequence[object]) -> "ArrayUsers":
        """These users, for points that are row numbers of ``places``."""
        moved = copy.copy(self)
        moved._place = partial(table_scan.take, tuple(places))
        return moved

    def begin(self, key: jax.Array) -> result.Snapshot:
        """The snapshot before the first step."""
        return compiled_steps.begin(self._algorithm, key, self._config)

    def learn(self, key: jax.Array, before: result.Snapshot, query: Query, values: Values) -> tuple[Any, Any]:
        """The snapshot after a step, and its ``Info``."""
        return compiled_steps.learn(self._algorithm, key, self._config, before, query, values)

    def recall(self, before: result.Snapshot, query: Query, values: Values) -> Any:
        """The memory after a step on record."""
        return compiled_steps.recall(self._algorithm, self._config, before.memory, query, values)

    def evaluate(self, key: jax.Array, before: result.Snapshot, query: Query) -> np.ndarray:
        """Evaluate the query's points: return values ``(b, ...)``, with zeros at masked points.

        Raises:
          ShapeError: the algorithm cannot use the first value; raised before the next point is evaluated.
          TypeError: ``Info`` lacks a field.
          ValueError: later values have another shape.
        """
        points, mask, dtype = np.asarray(query.points, np.float64), np.asarray(query.mask), query.points.dtype
        rows = np.flatnonzero(mask)
        losses = []
        for value in self._call_all([self._place(point) for point in points[rows]]):
            if self._first_seen:
                losses.append(user_values.to_losses("objective", value, self._shape, dtype))
            else:
                losses.append(self._check_first(key, before, query, value))
        users = self._config.users
        shapes = {value.shape for value in losses} or {() if users is None else (users,)}
        if len(shapes) > 1:
            raise ValueError(f"objective must return values of one shape, got {sorted(shapes)}")
        values = np.zeros((len(points), *shapes.pop()), dtype)
        for row, value in zip(rows, losses, strict=True):
            values[row] = value
        return values

    def _call_all(self, places: list[Any]) -> Any:
        """Values in the order of the places. If a place fails, waiting evaluations are cancelled."""
        if self._executor is None:
            yield from (_call(self._objective, place, self._data) for place in places)
            return
        futures = [self._executor.submit(_call, self._objective, place, self._data) for place in places]
        try:
            yield from [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()

    def _check_first(self, key: jax.Array, before: result.Snapshot, query: Query, returned: Any) -> np.ndarray:
        """Convert the first value, and know from it whether the objective gives a loss per user."""
        users = None if self._config.users is None else (self._config.users,)
        listed = not isinstance(returned, (np.ndarray, jax.Array)) or not user_values.is_numeric(returned)
        expected = users if users and listed and self._takes(key, before, query, users) else None
        try:
            value = user_values.to_losses("objective", returned, expected, query.points.dtype)
            self._expect_usable(key, before, query, value.shape)
        except result.ShapeError:
            raise
        except ValueError as error:
            raise result.ShapeError(str(error)) from None
        self._shape, self._first_seen = users if value.shape == users else None, True
        return value

    def _takes(self, key: jax.Array, before: result.Snapshot, query: Query, shape: tuple[int]) -> bool:
        try:
            self._expect_usable(key, before, query, shape)
        except result.ShapeError:
            return False
        return True

    def _expect_usable(self, key: jax.Array, before: result.Snapshot, query: Query, shape: tuple[int, ...]) -> None:
        """Raise a ShapeError if the algorithm cannot use values of a shape, and a TypeError for an odd ``Info``."""
        if shape in self._usable:
            return
        values = jax.ShapeDtypeStruct((len(query.points), *shape), query.points.dtype)
        try:
            result.expect_no_mean("objective", shape, self._config.users)
            _, info = compiled_steps.learn.eval_shape(self._algorithm, key, self._config, before, query, values)
        except (TypeError, ValueError) as error:
            raise result.ShapeError(f"objective must not return values of shape {shape}: {error}") from None
        result.check_info(info)
        self._usable.add(shape)


def _call(objective: Objective, point: Any, data: Any) -> Any:
    """Evaluate the objective in silence, in the thread or process that the executor chose."""
    return silence.call(objective, point, data)
