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
3, in order  ``in_order_config``                 point, value          one user, one gain: pure DP
===========  ==================================  ====================  ================================================

``in_order_config`` and ``minimize(method="in_order")`` are two mechanisms, one implementation each, since neither gives
the releases and the guarantee of the other. The first spends ``epsilon`` on the gains of your candidates, clipped to
``[0, g*]``, and can release the largest mean gain. The second is ``private_search`` with one round: it spends ``mu`` on
a design of its own, in batches, counts differences between a user's losses wherever these lie, and prefers the start.
Both draw the point by ``mechanisms.exact_exponential``.

Look at ``preview_release(config)`` before spending anything: under the constants that the proofs need, Algorithms 1 and
2 draw almost uniformly at any usual ``epsilon``.

``configs`` and ``gains`` say what a run is configured with, ``run`` how it goes, ``previews`` what to expect of it.

Notation: ``T`` steps of one point (``b = 1``), ``c`` candidates, ``d`` parameters, ``n`` users. The objective returns
one utility, maximised; for Algorithm 3 it returns the gains ``(n,)`` of all users, and their mean is maximised. Inside,
utilities are in standard units, ``(utility - centre) / scale``.
"""

from jaxdpbo.algorithms.dp_gp_ucb.configs import Config, box_config, finite_config
from jaxdpbo.algorithms.dp_gp_ucb.gains import in_order_config, lipschitz_config
from jaxdpbo.algorithms.dp_gp_ucb.previews import ReleasePreview, preview_release
from jaxdpbo.algorithms.dp_gp_ucb.run import Info, Public, Raw, Release, algorithm

__all__ = [
    "Config",
    "Info",
    "Public",
    "Raw",
    "Release",
    "ReleasePreview",
    "algorithm",
    "box_config",
    "finite_config",
    "in_order_config",
    "lipschitz_config",
    "preview_release",
]
