"""An executor whose evaluations may be slow or lost: those are begun anew."""

from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from typing import Any

import numpy as np

from jaxdpbo import _checks


class Retrying:
    """Another executor, of threads, processes or a cluster, that gives up on an evaluation and begins it anew.

    What an evaluation returns is the same whenever it is begun, so nothing is spent twice: noise is drawn when all
    values of a batch are there. That one was slow or failed may tell of the data, and so may the time that a run takes;
    neither is a part of what is released. So no attempt may see what another has done to its arguments: NumPy's arrays
    are read-only, plain dicts, lists and tuples are each attempt's own, and what else there is (a data frame, a tensor,
    another kind of dict) the function must leave as it is.

    What an executor itself survives is its own affair: a process pool of the standard library is broken by one worker's
    death, and a run around it is interrupted, to be resumed with another pool.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> from jaxdpbo import drivers, random_search
    >>> def losses(point, data):
    ...     return np.square(data - point[0])
    >>> data, config = np.array([0.1, 0.5, 0.9]), random_search.config(users=3, steps=2, batch=2, bounds=[(0.0, 1.0)])
    >>> with ThreadPoolExecutor(2) as threads:
    ...     executor = drivers.Retrying(threads, timeout=60, retries=2)
    ...     run = drivers.run_loop(random_search.algorithm, losses, data, config, executor=executor)
    >>> run.release.point.shape
    (1,)
    """

    def __init__(self, executor: Executor, *, timeout: float | None = None, retries: int = 1):
        """Keep the executor, which stays the caller's to close.

        Args:
          executor: with ``submit``, such as ``dask.distributed.Client.get_executor()``.
          timeout: seconds to wait for an evaluation after those before it in its batch came back; None to wait on.
            Threads and processes can not be stopped: what was given up goes on in its place.
          retries: how often an evaluation that failed, was lost or too slow is begun anew.

        Raises:
          TypeError: it has no ``submit``.
          ValueError: a number out of range.
        """
        if not hasattr(executor, "submit"):
            raise TypeError(f"executor must be one of concurrent.futures, got {type(executor).__name__}")
        self._executor = executor
        self._timeout = None if timeout is None else _checks.positive("timeout", timeout)
        self._retries = _checks.size("retries", retries, minimum=0)

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> "Attempts":
        """Begin an evaluation; its ``result`` waits for it, and begins it anew."""
        return Attempts(lambda: self._executor.submit(function, *map(_lent, arguments)), self._timeout, self._retries)


class Attempts:
    """What ``Retrying.submit`` returns, with the two methods of a future that ``run_loop`` calls."""

    def __init__(self, begin: Callable[[], Future], timeout: float | None, retries: int):
        """Begin."""
        self._begin, self._timeout, self._left, self._future = begin, timeout, retries, begin()

    def result(self) -> Any:
        """Of the first attempt that ends well; raises as the last one does, TimeoutError where it is too slow."""
        while True:
            try:
                return self._future.result(self._timeout)
            except (Exception, CancelledError):
                self._future.cancel()
                if not self._left:
                    raise
                self._left -= 1
                self._future = self._begin()

    def cancel(self) -> bool:
        """Whether the attempt that counts will not begin."""
        return self._future.cancel()


def _lent(argument: Any) -> Any:
    """The same to whoever gets it next."""
    if isinstance(argument, np.ndarray):
        argument = argument.view()
        argument.flags.writeable = False
        return argument
    if isinstance(argument, tuple) and (make := getattr(argument, "_make", None)):
        return make(map(_lent, argument))
    if type(argument) in (tuple, list):
        return type(argument)(map(_lent, argument))
    if type(argument) is dict:
        return {name: _lent(each) for name, each in argument.items()}
    return argument
