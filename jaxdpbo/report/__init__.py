"""The record of a release, to sign: a page, its JSON twin, and an entry for a registry of deployments."""

from jaxdpbo import namespace
from jaxdpbo.report.ledger_records import ledger_report
from jaxdpbo.report.records import Report, hash_record, plan, report

__all__ = ["Report", "hash_record", "ledger_report", "plan", "report"]
__dir__ = namespace.list_public(__name__)
