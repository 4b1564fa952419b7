"""Optuna studies of noised values, and samplers for known noise; needs the ``optuna`` extra."""

from jaxdpbo import namespace
from jaxdpbo.integrations.optuna.samplers import DParetoSampler, GPUCBSampler
from jaxdpbo.integrations.optuna.study import Best, Observations, PrivateStudy, observations, private_study

__all__ = [
    "Best",
    "DParetoSampler",
    "GPUCBSampler",
    "Observations",
    "PrivateStudy",
    "observations",
    "private_study",
]
__dir__ = namespace.list_public(__name__)
