"""joblib as an executor: what is submitted runs when the first result is asked for, all at once."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from joblib import Parallel, delayed


class Joblib(Executor):
    """``n_jobs`` as everywhere in scikit-learn: whatever ``joblib.parallel_config`` says is used."""

    def __init__(self, n_jobs: int | None):
        """``n_jobs`` as of ``joblib.Parallel``."""
        self.n_jobs = n_jobs
        self._waiting: list[tuple[_Later, Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """To be run with all others that wait."""
        later = _Later(self)
        self._waiting.append((later, delayed(fn)(*args, **kwargs)))
        return later

    def run(self) -> None:
        """Run what waits; nothing, where it was cancelled."""
        waiting = [(later, call) for later, call in self._waiting if later.set_running_or_notify_cancel()]
        self._waiting = []
        try:
            # max_nbytes: records must not lie in files that a crash leaves behind
            found = Parallel(n_jobs=self.n_jobs, max_nbytes=None)(call for _, call in waiting)
        except BaseException as error:
            for later, _ in waiting:
                later.set_exception(error)
            return
        for (later, _), each in zip(waiting, found, strict=True):
            later.set_result(each)


class _Later(Future[Any]):
    """Begins when it is asked for."""

    def __init__(self, executor: Joblib):
        super().__init__()
        self._executor = executor

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            self._executor.run()
        return super().result(timeout)
