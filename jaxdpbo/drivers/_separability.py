"""Prepare objectives that keep users apart, and update the assumptions of the guarantee."""

from dataclasses import replace

import jax

from jaxdpbo._types import Data, Objective, Tree
from jaxdpbo.drivers import _result
from jaxdpbo.privacy import _assumptions, _guarantee, _separable
from jaxdpbo.tables import _table

CONDITIONS = _assumptions.SEPARABLE_LOSSES, _assumptions.SEPARABLE_GAINS


def prepare_objective(objective: Objective, data: Data, user_axes: Tree) -> tuple[Objective, Data]:
    """Return the objective of a run, checked under tracing if you give ``user_axes``, and its data.

    Raises:
      ValueError: an array is both public and the users'; ``user_axes`` for an objective with its own; a table for an
        objective that fixes the number of rows.
    """
    rows, in_table = _row_objective(objective), isinstance(data, _table.Table)
    if in_table and isinstance(objective, (_separable.ByPerson, _separable.Blocks)):
        raise ValueError("the objective must be of any rows for a table: by_person and blocks fix the number of rows")
    if user_axes is not None:
        if isinstance(rows, _separable.SeparableObjective):
            raise ValueError(f"user_axes must not be given where the objective has its own user_axes, got {rows!r}")
        rows = _separable.CheckedObjective(rows, user_axes)
        objective = objective.replace_objective(rows) if isinstance(objective, _separable.ByPerson) else rows
    if in_table and isinstance(rows, _separable.SeparableObjective):
        axes = jax.tree.leaves(rows.user_axes, is_leaf=lambda axis: axis is None)
        if any(axis != 0 for axis in axes):
            raise ValueError(f"user_axes must be 0 for all columns of a table, got {rows.user_axes!r}")
    if in_table or not isinstance(rows, _separable.SeparableObjective):
        return objective, data
    _separable.expect_one_role(data, rows.user_axes)
    return objective, _result.to_arrays(data)


def update_assumptions(
    guarantee: _guarantee.Guarantee, objective: Objective, *, traced: bool = True
) -> _guarantee.Guarantee:
    """Remove the assumptions checked by tracing; ``traced`` is False if some step was not traced."""
    if not set(CONDITIONS) & set(guarantee.assumptions):
        return guarantee
    if isinstance(objective, _separable.Blocks):  # an entry is a block, not a person; each row is in a single block
        grouping = (_assumptions.ROW_OWNERS,) if objective.grouped else ()
        grouping += (_assumptions.COMPILED_APART,) if objective.traceable else ()
        of_all = _without_conditions(replace(guarantee, protects=_guarantee.ALL_ROWS))
        return of_all.assuming(_assumptions.BLOCKS_APART, *grouping)
    if isinstance(objective, _separable.ByPerson):
        guarantee = guarantee.assuming(_assumptions.ROW_OWNERS)
    if not (traced and isinstance(_row_objective(objective), _separable.SeparableObjective)):
        return guarantee
    return _without_conditions(guarantee).assuming(_assumptions.OWN_ROWS, _assumptions.COMPILED_APART)


def _without_conditions(guarantee: _guarantee.Guarantee) -> _guarantee.Guarantee:
    for condition in CONDITIONS:
        guarantee = guarantee.without(condition)
    return guarantee


def _row_objective(objective: Objective) -> Objective:
    """The objective with an entry for each row; a person may have several rows."""
    return objective.rows if isinstance(objective, _separable.ByPerson) else objective
