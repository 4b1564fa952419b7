"""DP-GD: gradient descent along the privatised mean of all users' gradients."""

from jaxdpbo import _namespace
from jaxdpbo._algorithms.dp_gd import Config, Release, algorithm, config, gradient_objective

__all__ = ["Config", "Release", "algorithm", "config", "gradient_objective"]
__dir__ = _namespace.list_public(__name__)
