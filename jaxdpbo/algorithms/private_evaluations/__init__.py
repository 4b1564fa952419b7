"""Private evaluations: release every utility through a mechanism, so everything afterwards is post-processing.

A simple answer to the open problem of Kusner et al. (2015), "to release each sampled hyper-parameter and validation
accuracy privately (during the run)": clip each user's loss to a public range, release the mean with Gaussian noise, and
compose ``T b`` such evaluations to ``mu``. Any optimiser may use the released values: fit its kernel to them,
standardise them, stop early. You may publish all points and values, and the guarantee rests on no Gaussian process.

``make_algorithm(inner)`` makes an ``Algorithm`` of an inner algorithm, compiled like any other. For an optimiser of
another library, ``PrivateObjective`` makes a scalar function of a per-user loss.

``configs`` has the configuration, ``run`` the steps, and ``one_point`` an inner algorithm for one point at a time.
"""

from jaxdpbo import namespace
from jaxdpbo.algorithms.private_evaluations.configs import Config, check_loss_range, config, deviation, noise_deviation
from jaxdpbo.algorithms.private_evaluations.run import PublicState, Release, make_algorithm, perturb, privacy

__all__ = [
    "Config",
    "Release",
    "config",
    "make_algorithm",
]
__dir__ = namespace.list_public(__name__)
