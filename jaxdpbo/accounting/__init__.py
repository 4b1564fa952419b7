"""Proved privacy costs of mechanisms: Gaussian DP, batches, selection, output perturbation, SVT; `total` of stages."""

from jaxdpbo import namespace
from jaxdpbo.accounting import stage
from jaxdpbo.accounting.attained import attained_selection_epsilon
from jaxdpbo.accounting.bounded_range import bounded_range_eta, bounded_range_mu
from jaxdpbo.accounting.composition import Item, Total, compose_profile, gdp_level, stages_epsilon, total
from jaxdpbo.accounting.ex_post import LevelCosts, ex_post_epsilons
from jaxdpbo.accounting.gdp import (
    compose_gdp,
    dp_event,
    gaussian_mu,
    gaussian_standard_deviation,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    split_gdp,
)
from jaxdpbo.accounting.output_perturbation import learner_epsilon
from jaxdpbo.accounting.rounded_gaussian import compose_gdp_rounded_up, largest_distance, rounded_gaussian_mu
from jaxdpbo.accounting.sampling import (
    Bound,
    compose_epsilon,
    sampled_gaussian_epsilon,
    sampled_gaussian_epsilons,
    sampled_gaussian_profile,
)
from jaxdpbo.accounting.selection import (
    Repetitions,
    repetition_probabilities,
    repetitions,
    selection_epsilon,
    selection_profile,
    tail_probability,
)
from jaxdpbo.accounting.sparse_vector import sparse_vector_epsilon, split_noise
from jaxdpbo.accounting.stage import (
    Stage,
    StageFields,
    approximate_stage,
    average_profile,
    bounded_range_stage,
    curve_stage,
    foreign_stage,
    gaussian_stage,
    pure_stage,
    sampled_gaussian_stage,
    selection_stage,
    stage_from_fields,
    worst_profile,
)

__all__ = [
    "Bound",
    "Item",
    "LevelCosts",
    "Repetitions",
    "Stage",
    "Total",
    "approximate_stage",
    "attained_selection_epsilon",
    "average_profile",
    "bounded_range_eta",
    "bounded_range_mu",
    "bounded_range_stage",
    "compose_epsilon",
    "compose_gdp",
    "compose_gdp_rounded_up",
    "compose_profile",
    "curve_stage",
    "dp_event",
    "ex_post_epsilons",
    "foreign_stage",
    "gaussian_mu",
    "gaussian_stage",
    "gaussian_standard_deviation",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_level",
    "gdp_mu",
    "learner_epsilon",
    "pure_stage",
    "repetitions",
    "sampled_gaussian_epsilon",
    "sampled_gaussian_epsilons",
    "sampled_gaussian_profile",
    "sampled_gaussian_stage",
    "selection_epsilon",
    "selection_profile",
    "selection_stage",
    "sparse_vector_epsilon",
    "total",
    "worst_profile",
]
__dir__ = namespace.list_public(__name__)
