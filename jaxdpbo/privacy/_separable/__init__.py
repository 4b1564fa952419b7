"""Proofs of separability, each user's loss a function of the user's record alone: by construction or by analysis."""

from jaxdpbo.privacy._separable.blocks import Blocks, blocks, cut, usual_count
from jaxdpbo.privacy._separable.by_person import ByPerson, by_person
from jaxdpbo.privacy._separable.data_axes import expect_apart, expect_one_role
from jaxdpbo.privacy._separable.objectives import CheckedObjective, PerUser, SeparableObjective, per_user
from jaxdpbo.privacy._separable.separability_audit import SeparabilityAudit, audit_separable
from jaxdpbo.privacy._separable.separability_check import NotSeparable, Separable, check_separable

__all__ = [
    "Blocks",
    "ByPerson",
    "CheckedObjective",
    "NotSeparable",
    "PerUser",
    "SeparabilityAudit",
    "Separable",
    "SeparableObjective",
    "audit_separable",
    "blocks",
    "by_person",
    "check_separable",
    "cut",
    "expect_apart",
    "expect_one_role",
    "per_user",
    "usual_count",
]
