"""What may be released: guarantees, keys, checks that losses are separable, clipping, and audits.

See also ``jaxdpbo.accounting``, ``jaxdpbo.ledger``, ``jaxdpbo.mechanisms`` and ``jaxdpbo.transforms``.
"""

from jaxdpbo import _namespace
from jaxdpbo.privacy._auditing import Audit, Replay, declared_trade_off, epsilon_lower_bound, replay, threshold_audit
from jaxdpbo.privacy._choice import choice_sharpness
from jaxdpbo.privacy._clipping import clip_by_l2_norm
from jaxdpbo.privacy._composed_guarantee import guarantee_from_total
from jaxdpbo.privacy._guarantee import guarantee, guarantee_from_dict
from jaxdpbo.privacy._keys import key_from_bytes
from jaxdpbo.privacy._release_key import for_release
from jaxdpbo.privacy._requested_budget import BudgetError
from jaxdpbo.privacy._separable.blocks import Blocks
from jaxdpbo.privacy._separable.by_person import ByPerson
from jaxdpbo.privacy._separable.objectives import CheckedObjective, PerUser
from jaxdpbo.privacy._separable.separability_audit import SeparabilityAudit, audit_separable
from jaxdpbo.privacy._separable.separability_check import NotSeparable, Separable, check_separable

__all__ = [
    "Audit",
    "Blocks",
    "BudgetError",
    "ByPerson",
    "CheckedObjective",
    "NotSeparable",
    "PerUser",
    "Replay",
    "SeparabilityAudit",
    "Separable",
    "audit_separable",
    "check_separable",
    "choice_sharpness",
    "clip_by_l2_norm",
    "declared_trade_off",
    "epsilon_lower_bound",
    "for_release",
    "guarantee",
    "guarantee_from_dict",
    "guarantee_from_total",
    "key_from_bytes",
    "replay",
    "threshold_audit",
]
__dir__ = _namespace.list_public(__name__)
