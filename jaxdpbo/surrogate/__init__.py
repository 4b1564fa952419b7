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
    probability_of_improvement,
    ucb,
)
from jaxdpbo.surrogate.box_search import BoxSearch, best_candidate, search_box
from jaxdpbo.surrogate.gp import Factorization, GPModel, append, condition, log_marginal_likelihood, predict
from jaxdpbo.surrogate.gp_fit import fit
from jaxdpbo.surrogate.gradient import GradientPosterior, gradient_information, gradient_posterior
from jaxdpbo.surrogate.pareto import Strips, hypervolume, is_non_dominated, strips

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
    "gradient_information",
    "gradient_posterior",
    "hvpoi",
    "hypervolume",
    "is_non_dominated",
    "kernels",
    "log_marginal_likelihood",
    "predict",
    "probability_of_improvement",
    "search_box",
    "strips",
    "ucb",
]
__dir__ = namespace.list_public(__name__)
