"""Differentially private training to be tuned: models, optimisers, their privacy and utility, and their settings."""

from jaxdpbo import _namespace
from jaxdpbo.training._dp_optim import Settings, settings, train
from jaxdpbo.training._models import (
    Examples,
    Model,
    accuracy,
    examples,
    linear_svm,
    logistic_regression,
    mlp,
    regression,
)
from jaxdpbo.training._objectives import Data, objective
from jaxdpbo.training._oracles import training_epsilon, training_guarantee
from jaxdpbo.training._permutation_sgd import train_by_permutation
from jaxdpbo.training._spaces import INTEGER_MASK, Ranges, random_settings

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
__dir__ = _namespace.list_public(__name__)
