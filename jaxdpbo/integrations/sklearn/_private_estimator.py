"""What all private estimators share: the results of one fit at a time, keys for tests alone, and a record to sign."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from jaxdpbo import report
from jaxdpbo.drivers import Execution
from jaxdpbo.drivers._execution import check_execution


class PrivateEstimator:
    """An estimator with a ``guarantee_``, and a ``report_`` of it.

    Attributes:
      _released: names of the attributes that hold the release.
      _described: names of the attributes to write down.
    """

    guarantee_: Any
    run: Execution | None
    _released: tuple[str, ...]
    _described: tuple[str, ...]

    def _begin_fit(self) -> Execution:
        """Forget the fit before, and check how to execute this one; ``fit`` calls this first.

        Raises:
          TypeError: ``run`` is not an ``Execution``.
          ValueError: ``run`` has other options than a key, or a key without ``insecure_key``.
        """
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)  # if this fit fails, its arguments must not stand beside the guarantee of another
        run = check_execution(type(self).__name__, self.run, "key", "insecure_key")
        if run.key is not None and not run.insecure_key:
            raise ValueError("key must be given with insecure_key=True, for tests alone: clones share it")
        return run

    @property
    def report_(self) -> report.Report:
        """The record of the fit, to sign: ``estimator.report_.save("record.html")``."""
        check_is_fitted(self, "guarantee_")
        details = {name: getattr(self, name) for name in self._described if getattr(self, name) != ""}
        release = [getattr(self, name) for name in self._released]
        return report.report(f"a fit of {type(self).__name__}", (self.guarantee_,), release=release, details=details)
