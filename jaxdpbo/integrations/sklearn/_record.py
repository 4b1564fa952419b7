"""The record of a fitted estimator."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from jaxdpbo import report


class RecordMixin:
    """Add ``report_`` to an estimator with a ``guarantee_``.

    Attributes:
      _released: names of the attributes that hold the release.
      _described: names of the attributes to write down.
    """

    guarantee_: Any
    _released: tuple[str, ...]
    _described: tuple[str, ...]

    @property
    def report_(self) -> report.Report:
        """The record of the fit, to sign: ``estimator.report_.save("record.html")``."""
        check_is_fitted(self, "guarantee_")
        details = {name: getattr(self, name) for name in self._described if getattr(self, name) != ""}
        release = [getattr(self, name) for name in self._released]
        return report.report(f"a fit of {type(self).__name__}", (self.guarantee_,), release=release, details=details)
