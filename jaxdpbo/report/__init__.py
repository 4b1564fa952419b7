"""The record of a release, to sign: a page, its JSON twin, and an entry for a registry of deployments."""

from jaxdpbo import _namespace
from jaxdpbo.report._report import Report, ledger_report, report

__all__ = ["Report", "ledger_report", "report"]
__dir__ = _namespace.list_public(__name__)
