"""Output perturbation of a strongly convex learner: normal noise on an iterate of known sensitivity."""

import math

from jaxdpbo.accounting import gdp


def learner_epsilon(*, sensitivity: float, standard_deviation: float, delta: float) -> float:
    """Return the ``epsilon`` of a last iterate with normal noise: the exact Gaussian mechanism.

    ``sensitivity.permutation_sgd`` bounds ``sensitivity``. Without noise the result is inf.

    >>> from jaxdpbo import accounting
    >>> round(accounting.learner_epsilon(sensitivity=0.1, standard_deviation=0.2, delta=1e-5), 3)
    1.993
    """
    mu = gdp.gaussian_mu(sensitivity, standard_deviation)
    return math.inf if math.isinf(mu) else gdp.gdp_epsilon(mu, delta)
