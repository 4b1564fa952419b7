"""Prepare objectives that keep users apart, and update the assumptions of the guarantee."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax

from jaxdpbo import notes as _notes
from jaxdpbo import separable, silence, user_values
from jaxdpbo.drivers import result
from jaxdpbo.guarantee import assumptions, guarantees
from jaxdpbo.tables import table
from jaxdpbo.types import Data, Objective, Tree

CONDITIONS = assumptions.SEPARABLE_LOSSES, assumptions.SEPARABLE_GAINS


class Prepared(NamedTuple):
    """An objective that keeps users apart as far as it can be checked, its data, and notes; made once a run."""

    objective: Objective
    data: Any
    notes: _notes.Notes = ()

    def count_protected(self, users: int) -> int:
        """How many the guarantee protects, for a ``delta`` below one over them: owners of rows, not blocks of rows."""
        return self.objective.persons if isinstance(self.objective, separable.Blocks) else users

    def to_arrays(self) -> "Prepared":
        """With the data as JAX arrays, see ``result.to_arrays``."""
        said = self.notes or _notes.clipped_integers(_wide_integers(self.data))
        return self._replace(data=result.to_arrays(self.data), notes=said)


def _wide_integers(data: Any) -> list[str]:
    """The arrays of integers of 64 bits that JAX keeps in 32: an array that a caller passes declares its dtype."""
    leaves: list[tuple[Any, Any]] = jax.tree_util.tree_leaves_with_path(data)
    return [
        f"data{jax.tree_util.keystr(path)}"
        for path, leaf in leaves
        if user_values.declares_wide_integers(leaf) and jax.dtypes.canonicalize_dtype(leaf.dtype) != leaf.dtype
    ]


def prepare_objective(objective: Objective, data: Data, user_axes: Tree) -> Prepared:
    """Return the objective of a run, checked under tracing if you give ``user_axes``, and its data.

    Raises:
      ValueError: an array is both public and the users'; ``user_axes`` for an objective with its own; a table for an
        objective that fixes the number of rows.
    """
    rows, in_table = _row_objective(objective), isinstance(data, table.Table)
    if in_table and isinstance(objective, (separable.ByPerson, separable.Blocks)):
        raise ValueError("the objective must be of any rows for a table: by_person and blocks fix the number of rows")
    if user_axes is not None:
        if isinstance(rows, separable.SeparableObjective):
            raise ValueError(f"user_axes must not be given where the objective has its own user_axes, got {rows!r}")
        rows = separable.CheckedObjective(rows, user_axes)
        objective = objective.replace_objective(rows) if isinstance(objective, separable.ByPerson) else rows
    if in_table and isinstance(rows, separable.SeparableObjective):
        axes = jax.tree.leaves(rows.user_axes, is_leaf=lambda axis: axis is None)
        if any(axis != 0 for axis in axes):
            raise ValueError(f"user_axes must be 0 for all columns of a table, got {rows.user_axes!r}")
    if in_table or not isinstance(rows, separable.SeparableObjective):
        return Prepared(objective, data)
    separable.expect_one_role(data, rows.user_axes)
    return Prepared(objective, data).to_arrays()


def expect_separable(objective: Objective, make_point: Callable[[], Any], data: Any) -> None:
    """Trace an objective with ``user_axes`` at a point, from shapes alone. Reads no row, so what it raises is public.

    Before a charge, which it would spend. Other objectives are not called: Python would read rows.

    Raises:
      NotSeparable: the objective mixes users.
      Exception: the objective cannot be traced.
    """
    rows = _row_objective(objective)
    if isinstance(rows, separable.SeparableObjective):
        silence.call(jax.eval_shape, rows, make_point(), data)


def update_assumptions(
    guarantee: guarantees.Guarantee, objective: Objective, *, traced: bool = True
) -> guarantees.Guarantee:
    """Remove the assumptions checked by tracing; ``traced`` is False if some step was not traced."""
    if not set(CONDITIONS) & set(guarantee.assumptions):
        return guarantee
    if isinstance(objective, separable.Blocks):  # an entry is a block, not a person; each row is in a single block
        grouping = (assumptions.ROW_OWNERS,) if objective.grouped else ()
        grouping += (assumptions.COMPILED_APART,) if objective.traceable else ()
        of_all = _without_conditions(replace(guarantee, protects=guarantees.ALL_ROWS))
        return of_all.assuming(assumptions.BLOCKS_APART, *grouping)
    if isinstance(objective, separable.ByPerson):
        guarantee = guarantee.assuming(assumptions.ROW_OWNERS)
    if not (traced and isinstance(_row_objective(objective), separable.SeparableObjective)):
        return guarantee
    return _without_conditions(guarantee).assuming(assumptions.OWN_ROWS, assumptions.COMPILED_APART)


def _without_conditions(guarantee: guarantees.Guarantee) -> guarantees.Guarantee:
    for condition in CONDITIONS:
        guarantee = guarantee.without(condition)
    return guarantee


def _row_objective(objective: Objective) -> Objective:
    """The objective with an entry for each row; a person may have several rows."""
    return objective.rows if isinstance(objective, separable.ByPerson) else objective
