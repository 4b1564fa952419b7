"""Output perturbation of a strongly convex learner: normal noise on an iterate of known sensitivity."""

import math

from jaxdpbo.privacy.accounting import gdp


def learner_epsilon(*, sensitivity: float, standard_deviation: float, delta: float) -> float:
    """Of the last iterate with normal noise, ``sensitivity.permutation_sgd``: the exact Gaussian mechanism.

    inf without noise.
    """
    mu = gdp.gaussian_mu(sensitivity, standard_deviation)
    return math.inf if math.isinf(mu) else gdp.gdp_epsilon(mu, delta)
