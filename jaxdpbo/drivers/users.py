"""The users of a run, wherever their records are: what every driver in steps asks of them, and nothing else."""

from collections.abc import Sequence
from typing import Any, Protocol

import jax

from jaxdpbo.drivers import evaluation, result, table_scan
from jaxdpbo.drivers.execution import Execution
from jaxdpbo.tables import table
from jaxdpbo.types import Algorithm, Config, Data, Objective, Query


class Users(Protocol):
    """All users of a run, with its algorithm, objective and config. What they return is raw.

    Attributes:
      assumptions: what a guarantee assumes about the reading of their records.
    """

    assumptions: tuple[str, ...]

    def at(self, places: Sequence[object]) -> "Users":
        """These users, for points that are row numbers ``(1,)`` of ``places``, any objects for the objective."""
        ...

    def begin(self, key: jax.Array) -> result.Snapshot:
        """The snapshot before the first step."""
        ...

    def evaluate(self, key: jax.Array, before: result.Snapshot, query: Query) -> Any:
        """Evaluate the objective at the query's points, for ``learn`` or ``recall``. Draws nothing."""
        ...

    def learn(self, key: jax.Array, before: result.Snapshot, query: Query, values: Any) -> tuple[result.Snapshot, Any]:
        """The snapshot after a step, and its ``Info``: draws the noise of the step."""
        ...

    def recall(self, before: result.Snapshot, query: Query, values: Any) -> Any:
        """The users' memory after a step that draws nothing, such as one on record."""
        ...


def make_users(algorithm: Algorithm, objective: Objective, data: Data, config: Config, run: Execution) -> Users:
    """The users in arrays or in a table, by the type of ``data``.

    Raises:
      ValueError: a table of another number of users, or an algorithm that needs arrays.
      TypeError: a function that cannot travel to the workers of an engine or an executor.
    """
    if isinstance(data, table.Table):
        return table_scan.TableUsers(algorithm, objective, data, config, run.traceable, run.progress)
    return evaluation.ArrayUsers(algorithm, objective, data, config, run.executor)
