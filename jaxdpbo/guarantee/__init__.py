"""What is stated: typed guarantees, their assumptions, and what a ledger is charged for them."""

from jaxdpbo import namespace
from jaxdpbo.accounting.requested_budget import BudgetError, LargeDelta
from jaxdpbo.guarantee.composed_guarantee import guarantee_from_total
from jaxdpbo.guarantee.guarantees import Guarantee, guarantee, guarantee_from_dict
from jaxdpbo.guarantee.recording import Recording
from jaxdpbo.guarantee.release_key import for_release

__all__ = [
    "BudgetError",
    "Guarantee",
    "LargeDelta",
    "Recording",
    "for_release",
    "guarantee",
    "guarantee_from_dict",
    "guarantee_from_total",
]
__dir__ = namespace.list_public(__name__)
