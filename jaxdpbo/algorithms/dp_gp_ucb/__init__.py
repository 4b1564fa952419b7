"""DP-GP-UCB: global Bayesian optimisation, the best hyper-parameters and the best gain released privately.

Matt Kusner, Jacob Gardner, Roman Garnett and Kilian Weinberger (2015), "Differentially private Bayesian optimization".

Nothing is noised while it runs; the budget is paid once, in ``release``. What differs is where the sensitivity comes
from, and so what is guaranteed:

===========  ==================================  ====================  ================================================
algorithm    made by                             releases              rests on
===========  ==================================  ====================  ================================================
1            ``finite_config``, ``box_config``   point, value          the utilities of all data sets being one draw of
2            ``finite_config`` without noise     point, value          the stated Gaussian process: prior-averaged only
3            ``lipschitz_config``                value                 over ``lambda`` alone Lipschitz gains and convex
                                                                       training, otherwise nothing: pure DP
3, in order  ``lipschitz_config("in_order")``    point, value          one user, one gain: pure DP
===========  ==================================  ====================  ================================================

Look at ``preview(config)`` before spending anything: under the constants that the proofs need, Algorithms 1 and 2 draw
almost uniformly at any usual ``epsilon``.

``configs`` and ``gains`` say what a run is configured with, ``run`` how it goes, ``previews`` what to expect of it.

Notation: ``T`` steps of one point (``b = 1``), ``c`` candidates, ``d`` parameters, ``n`` users. The objective returns
one utility, maximised; of ``lipschitz_config`` the gains ``(n,)`` of all users, whose mean is. Inside, utilities are in
standard units, ``(utility - centre) / scale``.
"""

from jaxdpbo.algorithms.dp_gp_ucb.configs import Config, box_config, finite_config
from jaxdpbo.algorithms.dp_gp_ucb.gains import lipschitz_config
from jaxdpbo.algorithms.dp_gp_ucb.previews import Preview, preview
from jaxdpbo.algorithms.dp_gp_ucb.run import Info, Private, Public, Release, algorithm

__all__ = [
    "Config",
    "Info",
    "Preview",
    "Private",
    "Public",
    "Release",
    "algorithm",
    "box_config",
    "finite_config",
    "lipschitz_config",
    "preview",
]
