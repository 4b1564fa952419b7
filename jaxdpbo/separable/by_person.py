"""Objectives for people with several rows of data each: one value for each person; the owner of each row is public."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks, silence, user_values
from jaxdpbo.types import ArrayLike, Data, Objective


class ByPerson:
    """An objective ``(point, data) -> values (..., n)``: the mean, or the sum, over the values of each person's rows.

    Two instances with equal objectives and the same rows are equal, and share compiled programs.
    """

    def __init__(self, rows: Objective, person_of_row: np.ndarray, persons: int, average: bool):
        """Store the arguments; ``by_person`` checks them."""
        self.rows, self.person_of_row, self.persons, self.average = rows, person_of_row, persons, average
        self._same = rows, person_of_row.tobytes(), persons, average

    def __call__(self, point: ArrayLike, data: Data) -> Any:
        """Evaluate a point: return NumPy arrays for an objective in Python, JAX arrays for an objective in JAX."""
        returned = self.rows(point, data)
        library: Any = jnp if isinstance(returned, jax.Array) else np
        with silence.numeric_checks_off() if library is jnp else silence.silence():
            return self._sum_over_rows(library, _to_floats(returned, len(self.person_of_row)))

    def _sum_over_rows(self, library: Any, values: Any) -> Any:
        if values.shape[-1:] != self.person_of_row.shape:
            raise ValueError(
                f"objective must return values of {len(self.person_of_row)} rows along the last axis, "
                f"got shape {values.shape}"
            )
        whole = library.zeros((*values.shape[:-1], self.persons), values.dtype)
        if library is jnp:
            whole = whole.at[..., self.person_of_row].add(values)
        else:
            np.add.at(np.moveaxis(whole, -1, 0), self.person_of_row, np.moveaxis(np.asarray(values), -1, 0))
        if not self.average:
            return whole
        counts = np.maximum(np.bincount(self.person_of_row, minlength=self.persons), 1)
        return whole / library.broadcast_to(library.asarray(counts, whole.dtype), whole.shape)

    def replace_objective(self, rows: Objective) -> "ByPerson":
        """Use another objective of rows, for the same people."""
        return ByPerson(rows, self.person_of_row, self.persons, self.average)

    def __eq__(self, other: object) -> bool:
        """Compare the objectives, and the rows of the people."""
        return isinstance(other, ByPerson) and self._same == other._same

    def __hash__(self) -> int:
        """Hash the compared fields."""
        return hash(self._same)

    def __repr__(self) -> str:
        """Show the code, no data."""
        name = getattr(self.rows, "__qualname__", None) or repr(self.rows)
        return f"ByPerson({name}, {len(self.person_of_row)} rows of {self.persons} persons)"


def _to_floats(values: Any, rows: int) -> Any:
    """Convert to floats: sums of Booleans would be Boolean, sums of bytes modulo 256."""
    if isinstance(values, jax.Array):
        return values.astype(jnp.result_type(float)) if values.dtype.kind in "biu" else values
    listed = isinstance(values, (list, tuple)) and len(values) == rows
    numbers = user_values.to_numbers(values, (rows,) if listed else None)
    return numbers if numbers.dtype.kind == "f" else numbers.astype(np.float64)


def by_person(
    objective: Objective, person_of_row: ArrayLike, *, persons: int | None = None, average: bool = True
) -> ByPerson:
    """Make an objective for people with several rows each from an objective of rows.

    A run then protects the content of all rows of a person. The number and the positions of each person's rows are
    public: the guarantee assumes this (``assumptions.ROW_OWNERS``). Entry ``p`` of the values is a function of the
    entries of person ``p``'s rows alone: if the objective comes from ``per_user``, or you pass a run ``user_axes`` to
    count the rows, the guarantee no longer assumes separable losses.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import by_person, per_user
    >>> def loss(point, row):
    ...     return jnp.sum(jnp.square(row - point))
    >>> visits = jnp.array([[1.0], [3.0], [2.0]])
    >>> print(by_person(per_user(loss), [0, 0, 1])(jnp.zeros(1), visits))
    [5. 4.]

    Args:
      objective: ``(point, data) -> values (..., m)``, rows along the last axis; of JAX or of Python.
      person_of_row: ``(m,)`` integers in ``[0, n)``, chosen without the users' data.
      persons: the number ``n`` of people; by default, one more than the largest of ``person_of_row``.
      average: True for the mean over a person's rows, with equal weight for each person and the same loss range; False
        for the sum. A person without rows has the value 0.

    Returns:
      A function of ``(point, data)``, with the data of the rows. ``minimize`` reads ``users`` from the function. To
      look for mixed rows in Python code, pass ``objective`` itself to ``audit_separable``.

    Raises:
      TypeError: ``objective`` is no function, ``person_of_row`` no array of integers.
      ValueError: ``person_of_row`` is not of shape ``(m,)``, or holds a number outside ``[0, n)``; on a call, the
        values are not those of ``m`` rows.
    """
    checks.takes_two("objective", objective, "point", "data")
    if isinstance(person_of_row, jax.Array) and jnp.issubdtype(person_of_row.dtype, jax.dtypes.prng_key):
        raise TypeError(f"person_of_row must be integers, got {person_of_row.dtype}")
    try:
        rows = np.asarray(person_of_row)
    except ValueError:  # rows of different lengths
        rows = np.zeros(0, object)
    if rows.dtype.kind not in "iu":
        raise TypeError(f"person_of_row must be integers, got {rows.dtype}")
    if rows.ndim != 1 or not len(rows):
        raise ValueError(f"person_of_row must have shape (m,), got {rows.shape}")
    count = int(rows.max()) + 1 if persons is None else checks.size("persons", persons)
    if rows.min() < 0 or rows.max() >= min(count, 2**31):
        raise ValueError(f"person_of_row must be within [0, {min(count, 2**31)}), got {rows.min()} to {rows.max()}")
    return ByPerson(objective, rows.astype(np.int32), count, checks.flag("average", average))
