"""Objectives that keep users apart: what a run evaluates, and what its guarantee then rests on."""

from dataclasses import replace

from jaxdpbo.drivers import result
from jaxdpbo.privacy import guarantee, separable
from jaxdpbo.types import Data, Objective, Tree

CONDITIONS = guarantee.SEPARABLE_LOSSES, guarantee.SEPARABLE_GAINS


def prepare_objective(objective: Objective, data: Data, user_axes: Tree) -> tuple[Objective, Data]:
    """The objective that a run evaluates, checked when it is traced where ``user_axes`` are given, and its data.

    Raises:
      ValueError: one array is both public and the users'; ``user_axes`` for an objective that has its own.
    """
    rows = _row_objective(objective)
    if user_axes is not None:
        if isinstance(rows, separable.SeparableObjective):
            raise ValueError(f"user_axes must not be given where the objective has its own, got {rows!r}")
        rows = separable.CheckedObjective(rows, user_axes)
        objective = objective.replace_objective(rows) if isinstance(objective, separable.ByPerson) else rows
    if not isinstance(rows, separable.SeparableObjective):
        return objective, data
    separable.expect_one_role(data, rows.user_axes)
    return objective, result.to_arrays(data)


def update_assumptions(
    statement: guarantee.Guarantee, objective: Objective, *, shown: bool = True
) -> guarantee.Guarantee:
    """``statement``, without what tracing the objective shows; ``shown`` is False where a step was not traced."""
    if not set(CONDITIONS) & set(statement.assumptions):
        return statement
    if isinstance(objective, separable.Blocks):  # whose entries are not those of people: a row is in one block
        whose = (guarantee.WHOSE_ROWS,) if objective.grouped else ()
        of_all = _without_conditions(replace(statement, protects=guarantee.ALL_ROWS))
        return of_all.assuming(guarantee.BLOCKS_APART, *whose)
    if isinstance(objective, separable.ByPerson):
        statement = statement.assuming(guarantee.WHOSE_ROWS)
    if not (shown and isinstance(_row_objective(objective), separable.SeparableObjective)):
        return statement
    return _without_conditions(statement).assuming(guarantee.OWN_ROWS)


def _without_conditions(statement: guarantee.Guarantee) -> guarantee.Guarantee:
    for condition in CONDITIONS:
        statement = statement.without(condition)
    return statement


def _row_objective(objective: Objective) -> Objective:
    """What gives one entry a row of the data: a person's may be several."""
    return objective.rows if isinstance(objective, separable.ByPerson) else objective
