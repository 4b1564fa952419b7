"""Gaussian processes for an optimiser of your own: posteriors, gradients, acquisitions and Pareto fronts.

Nothing here is private by itself: see ``jaxdpbo.mechanisms`` and ``jaxdpbo.PrivateObjective``. Kernels are in
``jaxdpbo.kernels``.
"""

from jaxdpbo import namespace
from jaxdpbo.surrogate import kernels
from jaxdpbo.surrogate.acquisition import (
    beta_of_box,
    beta_of_candidates,
    expected_hypervolume_improvement,
    expected_improvement,
    hvpoi,
    log_expected_improvement,
    probability_of_improvement,
    q_log_expected_improvement,
    ucb,
)
from jaxdpbo.surrogate.box_search import BoxSearch, best_candidate, search_box
from jaxdpbo.surrogate.gp import (
    Factorization,
    GPModel,
    append,
    condition,
    joint_posterior,
    log_marginal_likelihood,
    predict,
    predict_outputs,
    sample_posterior,
)
from jaxdpbo.surrogate.gp_fit import fit
from jaxdpbo.surrogate.gradient import GradientPosterior, gradient_covariance, gradient_information, gradient_posterior
from jaxdpbo.surrogate.pareto import Strips, hypervolume, is_non_dominated, undominated_strips
from jaxdpbo.surrogate.preprocessing import standardize, unstandardize, warp_inputs

__all__ = [
    "BoxSearch",
    "Factorization",
    "GPModel",
    "GradientPosterior",
    "Strips",
    "append",
    "best_candidate",
    "beta_of_box",
    "beta_of_candidates",
    "condition",
    "expected_hypervolume_improvement",
    "expected_improvement",
    "fit",
    "gradient_covariance",
    "gradient_information",
    "gradient_posterior",
    "hvpoi",
    "hypervolume",
    "is_non_dominated",
    "joint_posterior",
    "kernels",
    "log_expected_improvement",
    "log_marginal_likelihood",
    "predict",
    "predict_outputs",
    "probability_of_improvement",
    "q_log_expected_improvement",
    "sample_posterior",
    "search_box",
    "standardize",
    "ucb",
    "undominated_strips",
    "unstandardize",
    "warp_inputs",
]
__dir__ = namespace.list_public(__name__)
