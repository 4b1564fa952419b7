"""DP-GIBO: local Bayesian optimisation by privatised gradient posteriors, for many parameters.

Getoar Sopa, Juraj Marusic, Marco Avella-Medina and John P. Cunningham (2025), "Scalable differentially private
Bayesian optimization". Algorithm 1 (fixed batch), Algorithm 2 (``tolerance``: the smallest batch with a trace under
the tolerance), noisy observations (section 3.4: ``noise_variance`` enters every solve).

Notation: ``n`` users, ``T`` steps, ``b`` evaluations a step, ``d`` parameters, ``B`` the clip norm, ``D`` the points
evaluated so far, ``theta`` the iterate. Each step evaluates every user's loss at ``b`` points near ``theta``,
forms every user's posterior-mean gradient at ``theta``, clips each to norm ``B``, and moves along their mean plus
Gaussian noise of standard deviation ``2 B sqrt(T) / (n mu)``.

The convergence bounds of theorems 3.2 and 3.3 and corollaries 3.4 and 3.6 are in ``benchmarks/papers/theory.py``.
Theorem B.2 (any suboptimality, for a stationary kernel and searching a finite cover first, at
``T = Omega(d^(d+1))``) is existential and has no counterpart in code.

In a box, the search is in BOX UNITS: kernel, clip norm and steps see ``[-1, 1]^d``, so no parameter counts for more
because of its unit. With ``box_units=False`` they see the parameters themselves: Algorithm 1 as published. Points,
starts, paths and answers are always in the parameters' own units.

``from_point`` is the phase of a plan (``jaxdpbo.phases``) that begins at the point of the phase before, and ``holding``
the one for a space where not all parameters are real: it descends along those that are.

``configs`` has the configuration, ``run`` the steps, ``contribution`` the sums over users, ``held`` the phase
``holding``.
"""

from jaxdpbo import namespace
from jaxdpbo.algorithms.dp_gibo.configs import Config, config
from jaxdpbo.algorithms.dp_gibo.held import holding, holding_config
from jaxdpbo.algorithms.dp_gibo.run import PublicState, Release, algorithm, from_point, remask, set_start

__all__ = [
    "Config",
    "Release",
    "algorithm",
    "config",
    "from_point",
    "holding",
    "holding_config",
    "set_start",
]
__dir__ = namespace.list_public(__name__)
