"""Private evaluations: every utility is released through a mechanism, so everything after it is post-processing.

The simple answer to what Kusner et al. (2015) name as the open problem, "to release each sampled hyper-parameter and
validation accuracy privately (during the run)": each user's loss is clipped to a public range, their mean is released
with Gaussian noise, and ``T b`` such evaluations compose to ``mu``. Any optimiser may steer by the released values: fit
its kernel to them, standardise them, stop early. All points and values may be published, and the guarantee rests on no
Gaussian process.

``make_algorithm(inner)`` makes an ``Algorithm`` of an inner one, compiled like any other. For an optimiser that is not
ours ``drivers.PrivateObjective`` makes a scalar function of a per-user loss.

``configs`` says what a run is configured with, ``run`` how it goes.
"""

from jaxdpbo.algorithms.private_evaluations.configs import Config, check_loss_range, config, noise_deviation
from jaxdpbo.algorithms.private_evaluations.run import Info, Public, Release, make_algorithm, perturb, privacy

__all__ = [
    "Config",
    "Info",
    "Public",
    "Release",
    "check_loss_range",
    "config",
    "make_algorithm",
    "noise_deviation",
    "perturb",
    "privacy",
]
