"""DP-GP-UCB: global Bayesian optimisation with a private release of the best hyper-parameters and the best gain.

Matt Kusner, Jacob Gardner, Roman Garnett and Kilian Weinberger (2015), "Differentially private Bayesian optimization".

The run adds no noise; ``release`` spends the whole budget at once. Algorithms differ in the source of the sensitivity,
and so in the guarantee:

===========  ==================================  ====================  ================================================
algorithm    made by                             releases              rests on
===========  ==================================  ====================  ================================================
1            ``finite_config``, ``box_config``   point, value          the utilities of all data sets being one draw of
2            ``finite_config`` without noise     point, value          the stated Gaussian process: prior-averaged only
3            ``lipschitz_config``                value                 over ``lambda`` alone Lipschitz gains and convex
                                                                       training, otherwise nothing: pure DP
3, in order  ``in_order_config``                 point, value          one user, one gain: pure DP
===========  ==================================  ====================  ================================================

``in_order_config`` and ``minimize(method="in_order")`` are two different mechanisms: they differ in releases and
guarantee. ``in_order_config`` spends ``epsilon`` on the gains of your candidates, clipped to ``[0, g*]``, and can
release the largest mean gain. ``minimize(method="in_order")`` is ``private_choice`` on a design: it spends ``mu`` on
a design of its own, in batches, uses only differences between a user's losses, and prefers the start. Both draw the
point by ``mechanisms.exact_exponential``.

Call ``preview_release(config)`` before you spend anything: under the constants needed by the proofs, Algorithms 1 and 2
draw almost uniformly at any usual ``epsilon``.

``configs`` and ``gains`` have the configurations, ``run`` the steps, ``previews`` a preview of the release.

Notation: ``T`` steps of a point each (``b = 1``), ``c`` candidates, ``d`` parameters, ``n`` users. The objective
returns a utility, maximised; for Algorithm 3 the gains ``(n,)`` of all users, and their mean is maximised. Inside,
utilities are in standard units, ``(utility - centre) / scale``.
"""

from jaxdpbo import namespace
from jaxdpbo.algorithms.dp_gp_ucb.configs import Config, box_config, finite_config
from jaxdpbo.algorithms.dp_gp_ucb.gains import in_order_config, lipschitz_config
from jaxdpbo.algorithms.dp_gp_ucb.previews import ReleasePreview, preview_release
from jaxdpbo.algorithms.dp_gp_ucb.run import PublicState, Raw, Release, algorithm

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
__dir__ = namespace.list_public(__name__)
