"""``check``: the owner's own look at the rows and the losses of a search, NOT PRIVATE, before anything is spent."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks, not_private, separable, silence, user_values
from jaxdpbo import space as spaces
from jaxdpbo.algorithms import random_search
from jaxdpbo.drivers import compiled_run, minimization, separability, table_scan
from jaxdpbo.drivers.execution import AUTO
from jaxdpbo.space import Space
from jaxdpbo.tables import engine
from jaxdpbo.tables import table as _table
from jaxdpbo.types import ArrayLike, Bounds, Config, Data, Objective, Tree

PLACES = (0.25, 0.5, 0.75)  # of each side of the box


def check(
    loss: Objective,
    data: Data,
    space: Bounds | Space,
    *,
    loss_range: ArrayLike | str | None = None,
    users: int | None = None,
    user_axes: Tree = None,
    traceable: bool | str = AUTO,
) -> not_private.NotPrivateCheck:
    """NOT PRIVATE: count what ``minimize`` with these arguments would leave out, clip or not read.

    For the owner of the rows alone. Counts cells that are missing or no number, numbers that JAX's 32 bits change, rows
    and people that are left out, and at three points of the box the losses that are no finite number or outside of
    ``loss_range``. Spends nothing and writes nothing; no run calls it. A range or a list that you mend after looking at
    protected rows is no longer public: check public rows, or rows that are not protected yet.

    >>> import numpy as np
    >>> from jaxdpbo import check
    >>> def loss(point, data):
    ...     return abs(data["age"] - point[0])
    >>> ages = {"age": np.array([31.0, np.nan, 54.0, 180.0])}
    >>> for found in check(loss, ages, [(0, 120)], loss_range=(0, 120)).findings:
    ...     print(f"{found.where}: {found.found} of {found.total} {found.what}")
    data['age']: 1 of 4 missing
    at [30.0]: 1 of 4 losses that are no finite number
    at [30.0]: 1 of 4 losses above 120.0
    at [60.0]: 1 of 4 losses that are no finite number
    at [90.0]: 1 of 4 losses that are no finite number
    at all points: 1 of 4 losses that are the same at all of these points

    Args:
      loss: see ``minimize``.
      data: see ``minimize``.
      space: see ``minimize``.
      loss_range: see ``minimize``.
      users: see ``minimize``.
      user_axes: see ``minimize``.
      traceable: see ``minimize``; False passes data of any type to the loss untouched.

    Raises:
      ValueError: an argument is out of range or has a wrong shape; names the argument.
      TypeError: an argument has the wrong type.
      Exception: of the loss, unchanged.
    """
    if not callable(loss):
        raise TypeError(f"loss must be a function of a point and data, got {type(loss).__name__}")
    ends = None if loss_range is None or isinstance(loss_range, str) else checks.interval("loss_range", loss_range)
    in_table = isinstance(data, _table.Table)
    untouched = in_table or traceable is False
    prepared = separability.prepare_objective(loss, data if untouched else user_values.to_data(data), user_axes)
    config = random_search.config(users=minimization.count_users(users, prepared), steps=1, bounds=space)
    if isinstance(data, _table.Table):
        found = data.check()
        return not_private.make_check(found.rows, found.findings, table_losses(prepared.objective, data, config, ends))
    trying = traceable is not False
    traced = minimization.to_traceable(prepared, config, must=traceable is True) if trying else None
    names, points = points_of(config)
    losses = np.stack([*_evaluate(prepared if traced is None else traced, config, points, traced=traced is not None)])
    counted = not_private.count_losses(losses, ends)
    rows, people = _rows_and_people(prepared.objective, config.users)
    of_losses = not_private.loss_findings(names, counted, ends, config.users)
    return not_private.make_check(rows, people, _cells(data, traced=traced is not None), of_losses)


def _evaluate(
    prepared: separability.Prepared, config: random_search.Config, points: np.ndarray, *, traced: bool
) -> Iterator[np.ndarray]:
    """The losses ``(n,)`` at each point, as the run would evaluate them."""
    objective, data, _ = prepared
    if traced:
        returned: Any = compiled_run.map_points(objective, jnp.asarray(points, config.bounds.dtype), data, config.space)
    else:
        returned = (objective(spaces.place(config.space, point), data) for point in points)
    for losses in returned:
        yield user_values.to_losses("loss", losses, (config.users,), np.float64)


def table_losses(
    objective: Objective, table: _table.Table, config: Config, loss_range: tuple[float, float] | None
) -> list[not_private.Finding]:
    """What the losses of a table are at three points of a config's box, in one scan. NOT PRIVATE."""
    names, points = points_of(config)
    places = tuple(spaces.place(config.space, point) for point in points)
    counted = table.add(_LossCounts(engine.PickledOnce((objective,)), places, loss_range))
    table_scan.expect_users(counted.users, table.users)
    return not_private.loss_findings(names, counted.total, loss_range, table.users)


def points_of(config: Any) -> tuple[list[str], np.ndarray]:
    """Three points ``(3, d)`` of a config's box or candidates, with their words: the same for all data."""
    while not hasattr(config, "bounds"):
        config = config.inner
    if config.bounds is None:
        candidates = np.asarray(config.candidates, np.float64)
        points = candidates[[round(place * (len(candidates) - 1)) for place in PLACES]]
    else:
        low, high = np.asarray(config.bounds, np.float64)
        points = np.stack([low + place * (high - low) for place in PLACES])
    spelled = [point.tolist() if config.space is None else config.space.params(point) for point in points]
    return list(map(str, spelled)), points


class _LossCounts(NamedTuple):
    """The counts of losses that the users of a batch add. Travels to the workers of an engine."""

    functions: engine.PickledOnce
    places: tuple[Any, ...]
    loss_range: tuple[float, float] | None

    def __call__(self, batch: _table.Batch) -> np.ndarray:
        (objective,), size = self.functions.objects, len(batch.present)
        returned = [objective(place, {**batch.columns}) for place in self.places]
        losses = np.stack([user_values.to_losses("loss", each, (size,), np.float64) for each in returned])
        return not_private.count_losses(losses[:, batch.present], self.loss_range)


def _rows_and_people(objective: Objective, users: int) -> tuple[int, list[not_private.Finding]]:
    """The number of rows, and the people of ``by_person`` that have none."""
    if not isinstance(objective, separable.ByPerson):
        return (objective.rows if isinstance(objective, separable.Blocks) else users), []
    held = np.bincount(objective.person_of_row, minlength=objective.persons)
    empty = not_private.Finding("people", "people without a row", int(np.sum(held == 0)), objective.persons)
    return len(objective.person_of_row), [empty]


def _cells(data: Any, *, traced: bool) -> list[not_private.Finding]:
    """The odd cells of each array of data; the inside of other objects is the loss's own."""
    found = []
    leaves: list[tuple[Any, Any]] = jax.tree_util.tree_leaves_with_path(data)
    for path, leaf in leaves:
        if not user_values.is_instance(leaf, np.ndarray, jax.Array) or jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
            continue  # a number alone is no column, nor are keys
        where = f"data{jax.tree_util.keystr(path)}"
        with silence.silence():
            numbers = user_values.to_numbers(leaf)
        kept = np.ma.isMA(leaf) or np.asarray(leaf).dtype.kind in "biufmM"
        values = numbers if kept else np.where(np.isnan(numbers), np.asarray(leaf, object), numbers)
        found += not_private.count_cells(where, values.ravel())  # a date counts in seconds here, and is no cell there
        found += not_private.count_narrowed(where, numbers, as_floats=False) if traced else []
    return found
