"""Objectives that keep users apart: what a run evaluates, and what its guarantee then rests on."""

from jaxdpbo.drivers import result
from jaxdpbo.privacy import guarantee, separable
from jaxdpbo.types import Data, Objective, Tree

CONDITIONS = guarantee.SEPARABLE_LOSSES, guarantee.SEPARABLE_GAINS


def shown(objective: Objective, data: Data, user_axes: Tree) -> tuple[Objective, Data]:
    """The objective that a run evaluates, checked when it is traced where ``user_axes`` are given, and its data.

    Raises:
      ValueError: one array is both public and the users'; ``user_axes`` for an objective that has its own.
    """
    if user_axes is not None:
        if isinstance(objective, separable.KeepsApart):
            raise ValueError(f"user_axes must not be given where the objective has its own, got {objective!r}")
        objective = separable.Checked(objective, user_axes)
    if not isinstance(objective, separable.KeepsApart):
        return objective, data
    separable.expect_one_role(data, objective.user_axes)
    return objective, result.arrays(data)


def rests_on(statement: guarantee.Guarantee, objective: Objective) -> guarantee.Guarantee:
    """``statement``, which does not assume of the objective what tracing it shows."""
    if not isinstance(objective, separable.KeepsApart) or not set(CONDITIONS) & set(statement.assumptions):
        return statement
    for condition in CONDITIONS:
        statement = statement.without(condition)
    return statement.assuming(guarantee.OWN_ROWS)
