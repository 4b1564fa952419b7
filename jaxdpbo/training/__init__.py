"""Differentially private training to be tuned: models, optimisers, their privacy and utility, and their settings."""

from jaxdpbo import namespace
from jaxdpbo.training.dp_optim import Settings, settings, train
from jaxdpbo.training.models import (
    Examples,
    Model,
    accuracy,
    examples,
    linear_svm,
    logistic_regression,
    mlp,
    regression,
)
from jaxdpbo.training.objectives import Data, objective
from jaxdpbo.training.oracles import training_epsilon, training_guarantee
from jaxdpbo.training.permutation_sgd import train_by_permutation
from jaxdpbo.training.spaces import INTEGER_MASK, Ranges, random_settings

__all__ = [
    "INTEGER_MASK",
    "Data",
    "Examples",
    "Model",
    "Ranges",
    "Settings",
    "accuracy",
    "examples",
    "linear_svm",
    "logistic_regression",
    "mlp",
    "objective",
    "random_settings",
    "regression",
    "settings",
    "train",
    "train_by_permutation",
    "training_epsilon",
    "training_guarantee",
]
__dir__ = namespace.list_public(__name__)
