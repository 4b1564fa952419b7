"""Proved privacy costs of mechanisms: Gaussian DP, batches, selection, output perturbation, SVT; `total` of stages."""

from jaxdpbo.privacy._accounting import stage
from jaxdpbo.privacy._accounting.attained import attained_selection_epsilon
from jaxdpbo.privacy._accounting.bounded_range import bounded_range_eta, bounded_range_mu
from jaxdpbo.privacy._accounting.composition import Item, Total, compose_profile, gdp_level, stages_epsilon, total
from jaxdpbo.privacy._accounting.ex_post import LevelCosts, ex_post_epsilons
from jaxdpbo.privacy._accounting.gdp import (
    compose_gdp,
    dp_event,
    gaussian_mu,
    gaussian_standard_deviation,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    split_gdp,
)
from jaxdpbo.privacy._accounting.output_perturbation import learner_epsilon
from jaxdpbo.privacy._accounting.rounded_gaussian import compose_gdp_rounded_up, largest_distance, rounded_gaussian_mu
from jaxdpbo.privacy._accounting.sampling import (
    Bound,
    compose_epsilon,
    sampled_gaussian_epsilon,
    sampled_gaussian_epsilons,
    sampled_gaussian_profile,
)
from jaxdpbo.privacy._accounting.selection import (
    Repetitions,
    repetition_probabilities,
    repetitions,
    selection_epsilon,
    selection_profile,
    tail_probability,
)
from jaxdpbo.privacy._accounting.sparse_vector import sparse_vector_epsilon, split_noise
from jaxdpbo.privacy._accounting.stage import Stage, StageFields, average_profile, stage_from_fields, worst_profile

__all__ = [
    "Bound",
    "Item",
    "LevelCosts",
    "Repetitions",
    "Stage",
    "StageFields",
    "Total",
    "attained_selection_epsilon",
    "average_profile",
    "bounded_range_eta",
    "bounded_range_mu",
    "compose_epsilon",
    "compose_gdp",
    "compose_gdp_rounded_up",
    "compose_profile",
    "dp_event",
    "ex_post_epsilons",
    "gaussian_mu",
    "gaussian_standard_deviation",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_level",
    "gdp_mu",
    "largest_distance",
    "learner_epsilon",
    "repetition_probabilities",
    "repetitions",
    "rounded_gaussian_mu",
    "sampled_gaussian_epsilon",
    "sampled_gaussian_epsilons",
    "sampled_gaussian_profile",
    "selection_epsilon",
    "selection_profile",
    "sparse_vector_epsilon",
    "split_gdp",
    "split_noise",
    "stage",
    "stage_from_fields",
    "stages_epsilon",
    "tail_probability",
    "total",
    "worst_profile",
]
