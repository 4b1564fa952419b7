"""DP-GP-UCB: global Bayesian optimisation, with the best point and gain released privately."""

from jaxdpbo import _namespace
from jaxdpbo._algorithms.dp_gp_ucb import (
    Config,
    Release,
    ReleasePreview,
    algorithm,
    box_config,
    finite_config,
    in_order_config,
    lipschitz_config,
    preview_release,
)

__all__ = [
    "Config",
    "Release",
    "ReleasePreview",
    "algorithm",
    "box_config",
    "finite_config",
    "in_order_config",
    "lipschitz_config",
    "preview_release",
]
__dir__ = _namespace.list_public(__name__)
