"""Use joblib as an executor: all submitted calls run together when a first result is requested."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from joblib import Parallel, delayed


class Joblib(Executor):
    """An executor with scikit-learn's ``n_jobs``; ``joblib.parallel_config`` applies."""

    def __init__(self, n_jobs: int | None):
        """Keep ``n_jobs``, an argument of ``joblib.Parallel``."""
        self.n_jobs = n_jobs
        self._waiting: list[tuple[_Later, Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a call, to run with all other queued calls."""
        later = _Later(self)
        self._waiting.append((later, delayed(fn)(*args, **kwargs)))
        return later

    def run(self) -> None:
        """Run the queued calls, except cancelled calls."""
        waiting = [(later, call) for later, call in self._waiting if later.set_running_or_notify_cancel()]
        self._waiting = []
        try:
            # max_nbytes=None: a crash must not leave records in files
            results = Parallel(n_jobs=self.n_jobs, max_nbytes=None)(call for _, call in waiting)
        except BaseException as error:
            for later, _ in waiting:
                later.set_exception(error)
            return
        for (later, _), value in zip(waiting, results, strict=True):
            later.set_result(value)


class _Later(Future[Any]):
    """A future that starts the queue when its result is requested."""

    def __init__(self, executor: Joblib):
        super().__init__()
        self._executor = executor

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            self._executor.run()
        return super().result(timeout)
