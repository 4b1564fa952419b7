"""Proofs of separability, each user's loss a function of the user's record alone: by construction or by analysis."""

from jaxdpbo import namespace
from jaxdpbo.separable.blocks import Blocks, blocks, cut, number_owners, usual_count
from jaxdpbo.separable.by_person import ByPerson, by_person
from jaxdpbo.separable.data_axes import expect_apart, expect_one_role
from jaxdpbo.separable.objectives import CheckedObjective, PerUser, SeparableObjective, per_user
from jaxdpbo.separable.separability_audit import SeparabilityAudit, audit_separable
from jaxdpbo.separable.separability_check import NotSeparable, Separable, check_separable

__all__ = [
    "Blocks",
    "ByPerson",
    "CheckedObjective",
    "NotSeparable",
    "PerUser",
    "SeparabilityAudit",
    "Separable",
    "audit_separable",
    "check_separable",
]
__dir__ = namespace.list_public(__name__)
