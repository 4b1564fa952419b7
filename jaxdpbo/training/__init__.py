"""What DPareto measures: models, differentially private optimisers, the oracles of privacy and utility, and objectives.

``objectives.objective`` joins them: a setting in, its epsilon and its error out.
"""

from jaxdpbo.training import dp_optim, models, objectives, oracles, permutation_sgd, sampling, spaces

__all__ = ["dp_optim", "models", "objectives", "oracles", "permutation_sgd", "sampling", "spaces"]
