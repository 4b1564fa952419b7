"""Let public records propose the points of a private choice.

Public records need no noise. The proposed points depend on public records alone, so proposing spends no budget; only
the private choice reads the users' records.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import checks, separable, silence
from jaxdpbo import space as spaces
from jaxdpbo.drivers import methods
from jaxdpbo.drivers import progress as _progress
from jaxdpbo.drivers import proposals as _proposals
from jaxdpbo.noise import private_mean
from jaxdpbo.types import Data, Objective


def propose(
    plan: methods.Plan,
    loss: Objective,
    public: Data,
    *,
    executor: Executor | None = None,
    progress: bool | str = False,
) -> methods.Plan:
    """Return the plan with the points that a search on the public records proposes.

    The search is a function of the public records: NumPy's and Python's global generators get a fixed seed for each
    evaluation, so that an interrupted run proposes the same points again, which its ledger needs to resume.

    Args:
      plan: of the method "proposed".
      loss: ``(point (d,) or params, records) -> losses (m,)``.
      public: ``m`` public records.
      executor: evaluates the points of a batch.
      progress: show a bar of evaluations, see ``minimize``.

    Returns:
      A plan with the same guarantee.

    Raises:
      ValueError: ``loss`` is of ``by_person`` or ``blocks``, which know the owners of the users' rows alone.
      Exception: any exception of the loss, before anything is spent.
    """
    if isinstance(loss, (separable.ByPerson, separable.Blocks)):
        raise ValueError(
            "public must not be given for a loss of by_person or blocks, which fix the number of rows: give a loss of "
            "any rows"
        )
    problem = plan.problem
    (low, high), space = problem.box, plan.config.space
    count = (problem.steps - plan.config.steps) * plan.config.batch  # what the private steps leave
    proposals = len(plan.config.phases[0].points)
    bar = _progress.bar(progress)
    progress_bar = None if bar is None else bar(total=count, unit="public evaluation")
    loss_range = checks.interval("loss_range", problem.loss_range)
    number, rows = iter(range(count)), set[int]()

    def evaluate(points: np.ndarray) -> np.ndarray:
        places = [spaces.place(space, low + (high - low) * point) for point in points]
        calls = [partial(_mean_loss, loss, place, public, loss_range, next(number)) for place in places]
        found = _run_all(executor, calls)
        rows.update(each.rows for each in found)
        if progress_bar is not None:
            progress_bar.update(len(points))
        return np.array([each.mean for each in found])

    design = spaces.spread(space, count, len(low))
    box = _proposals.Box(len(low), space)
    points = _proposals.propose(evaluate, box, count, proposals, design)
    if progress_bar is not None:
        progress_bar.close()
    return plan.with_proposals(np.clip(low + (high - low) * points, low, high), min(rows))


class _Evaluation(NamedTuple):
    mean: float  # of the clipped losses; infinite without a finite one
    rows: int


def _run_all(executor: Executor | None, calls: list[Callable[[], _Evaluation]]) -> list[_Evaluation]:
    if executor is None:
        return [call() for call in calls]
    futures = [executor.submit(call) for call in calls]
    try:
        return [future.result() for future in futures]
    finally:  # if one fails, the others do not start
        for future in futures:
            future.cancel()


def _mean_loss(loss: Objective, place: Any, public: Data, loss_range: tuple[float, float], number: int) -> _Evaluation:
    with silence.isolate():
        silence.seed_generators(np.array([0, number], np.uint32))
        losses = np.asarray(silence.settle(loss(place, public)), np.float64)
    finite = np.any(np.isfinite(losses))
    mean = float(np.mean(private_mean.clip_losses(losses, *loss_range))) if finite else np.inf
    return _Evaluation(mean, losses.size)
