"""The users of a ``PrivateObjective``, in memory or in a table: raw totals of their losses, for the noise to cover."""

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import silence, user_values
from jaxdpbo.drivers import progress, result, table_scan
from jaxdpbo.noise import calibration, private_mean, private_scale, totals, wide_integers
from jaxdpbo.tables import engine
from jaxdpbo.tables import table as _table
from jaxdpbo.types import Data, DTypeLike

Loss = Callable[[Any, Any], Any]
Add = Callable[[jax.Array, jax.Array], totals.UserSum]  # of losses (m, s) and present (s,)


class ShapeError(result.ObjectiveError):
    """A loss returned another shape than ``(users,)``. Records may decide that shape, so no message names it."""


class Clip(NamedTuple):
    """How losses are clipped to a range and put on the grid: public numbers."""

    budget: calibration.SumBudget
    low: jax.Array
    high: jax.Array


class ArrayLosses:
    """Losses of users in memory: the loss gets all data at once."""

    assumptions: tuple[str, ...] = ()

    def __init__(self, loss: Loss, data: Data, users: int, dtype: DTypeLike) -> None:
        self._loss, self._data, self._users, self._dtype = loss, data, users, dtype
        self._reference: jax.Array | None = None

    def total(self, point: object, clip: Clip) -> totals.UserSum:
        """The sum ``(1,)`` of clipped losses at a point, or of their differences from the reference. Raw.

        Raises:
          ShapeError: the loss returned another shape.
        """
        losses = self._call(point)[None]
        if self._reference is not None:
            losses = losses - self._reference[None]
        return _sum_clipped(*clip, losses)

    def set_reference(self, point: object) -> None:
        """From now on sum the differences from the losses at a point."""
        self._reference = self._call(point)

    def count_differences(self, design: Sequence[object]) -> wide_integers.Wide:
        """Count users by their largest difference over a design from its first point, which becomes the reference."""
        losses = jnp.stack([self._call(point) for point in design])
        self._reference = losses[0]
        return _count_differences(losses)

    def _call(self, point: object) -> jax.Array:
        """The losses ``(n,)`` at a point."""
        return jnp.asarray(_call(self._loss, point, self._data, self._users, self._dtype))


class TableLosses:
    """Losses of the users of a table: each total is one scan, and the reference is evaluated anew in each batch."""

    def __init__(self, loss: Loss, table: _table.Table, dtype: DTypeLike, shown: bool | str) -> None:
        self._loss, self._table, self._dtype, self._shown = engine.PickledOnce((loss,)), table, dtype, shown
        engine.expect_travels(table, self._loss)
        self.assumptions = table.assumptions
        self._reference: tuple[object, ...] = ()  # the point, if any

    def total(self, point: object, clip: Clip) -> totals.UserSum | _table.UnreadError:
        """See ``ArrayLosses.total``. If the table read no row, return its error: a loss can raise one, never return it.

        Raises:
          TableError: see ``Table.add``; or the loss returned another shape, which rows may decide, so the call counts.
        """
        clip = jax.tree.map(np.asarray, clip)  # workers get plain arrays
        try:
            return self._scan([*self._reference, point], partial(_sum_batch, clip))
        except _table.UnreadError as error:  # of this table alone: see ``Contribution``
            return error

    def set_reference(self, point: object) -> None:
        """From now on sum the differences from the losses at a point."""
        self._reference = (point,)

    def count_differences(self, design: Sequence[object]) -> wide_integers.Wide:
        """See ``ArrayLosses.count_differences``."""
        self.set_reference(design[0])
        return self._scan(design, _count_differences)

    def _scan(self, points: Sequence[object], add: Add) -> Any:
        shapes = _table.batch_shapes(self._table)
        losses = jax.ShapeDtypeStruct((len(points), _table.BATCH), self._dtype)
        like = table_scan.zeros_of_shapes(jax.eval_shape(add, losses, shapes.present))
        summed = None
        contribution = Contribution(self._loss, tuple(points), add, shapes)
        scan = progress.scanning(self._shown, _describe(points), self._table.users)
        with contextlib.suppress(ShapeError), scan as count:
            summed = self._table.add(table_scan.Counted(contribution, count))
        if summed is None:
            raise _table.TableError("loss must return one loss for each row of a batch")
        table_scan.expect_users(summed.users, self._table.users)
        return table_scan.unflatten(like, summed.total)


def _describe(points: Sequence[object]) -> str:
    return "losses at 1 point" if len(points) == 1 else f"losses at {len(points)} points"


def make_losses(loss: Loss, data: Data, budget: calibration.SumBudget, shown: bool | str) -> ArrayLosses | TableLosses:
    """The losses of users in arrays or in a table; ``shown``: ``Execution.progress``, of scans of a table.

    Raises:
      ValueError: a table of another number of users, or noise that is not exact with a table.
    """
    dtype = budget.mu.dtype
    if not isinstance(data, _table.Table):
        return ArrayLosses(loss, data, budget.users, dtype)
    if data.users != budget.users:
        raise ValueError(f"users must be the {data.users} users of the table, got {budget.users}")
    if budget.noise != "exact":
        raise ValueError(table_scan.NOT_EXACT)
    return TableLosses(loss, data, dtype, shown)


class Contribution(NamedTuple):
    """The whole numbers that the users of a batch add: a function of the batch and of public values alone.

    Attributes:
      functions: the loss.
      points: where the loss is called.
      add: from the losses at all points to whole numbers.
      like: the shapes and dtypes of every batch.
    """

    functions: engine.PickledOnce
    points: tuple[object, ...]
    add: Add
    like: _table.Batch

    def __call__(self, batch: _table.Batch) -> np.ndarray:
        """The total of a batch, int64 ``(k,)``.

        Raises:
          TableError: the batch has another shape, or the loss raised an UnreadError.
          ShapeError: the loss returned another shape.
        """
        table_scan.expect_like(self.like, batch)
        (loss,), size = self.functions.objects, len(batch.present)
        dtype = jnp.result_type(float)
        try:
            losses = [_call(loss, point, {**batch.columns}, size, dtype) for point in self.points]
        except _table.UnreadError as error:  # of a table that the loss reads: rows may decide it, so the call counts
            failure = str(error)
        else:
            return self._add(losses, batch.present)
        raise _table.TableError(failure)

    def _add(self, losses: list[np.ndarray], present: np.ndarray) -> np.ndarray:
        with silence.debug_checks_off():  # an engine's threads have debug checks of their own
            return table_scan.flatten(self.add(jnp.asarray(np.stack(losses)), jnp.asarray(present)))


def _call(loss: Loss, point: object, data: Data, users: int, dtype: DTypeLike) -> np.ndarray:
    """The losses ``(users,)`` at a point. Raise a ShapeError if they have another shape."""
    returned = silence.call(loss, point, data)
    with contextlib.suppress(ValueError):
        return user_values.to_losses("loss", returned, (users,), dtype)
    # Outside of the handler, since the context of the error would say the shape.
    raise ShapeError(f"loss must return one loss per user, not their mean: values of shape ({users},)")


def _sum_batch(clip: Clip, losses: jax.Array, present: jax.Array) -> totals.UserSum:
    """The sum of the clipped losses at the last point, or of their differences from the first of two."""
    if len(losses) > 1:
        losses = losses[1:] - losses[:1]
    return _sum_clipped(*clip, losses, present)


@jax.jit
def _sum_clipped(
    budget: calibration.SumBudget,
    low: jax.Array,
    high: jax.Array,
    losses: jax.Array,
    present: jax.Array | None = None,
) -> totals.UserSum:
    return private_mean.sum_clipped_losses(budget, losses, low, high, present)[0]


@jax.jit
def _count_differences(losses: jax.Array, present: jax.Array | None = None) -> wide_integers.Wide:
    numbers = private_scale.largest_differences(losses[1:], losses[0])
    return private_scale.count_differences(numbers, present)
