"""Memory search: evaluate points of a public design, choose one privately, then search near the chosen point.

The release is the row of the chosen point, by the exponential mechanism on the users' losses (``noise.choice``). The
choice is accurate with thousands of users, needs no gradient, and takes any point: whole numbers and categories too.
``make_algorithm(inner)`` makes an ``Algorithm``:

1. each round evaluates the points of its design, in the first round anywhere in the box, later around the point chosen
   last, and chooses among all points evaluated so far;
2. an inner algorithm with a free start, such as DP-GIBO, continues from the chosen point (None: no inner algorithm);
3. its answer and means of the ends of its path are evaluated, and the last choice is among all points.

Notation: ``m`` points in all, ``b`` in a step, ``n`` users, ``d`` parameters.
"""

from jaxdpbo import namespace
from jaxdpbo.algorithms.private_search.configs import DESIGN_CHOICE, LAST_CHOICE, Config, Round, config
from jaxdpbo.algorithms.private_search.run import Public, Release, make_algorithm

__all__ = [
    "Config",
    "Release",
    "Round",
    "config",
    "make_algorithm",
]
__dir__ = namespace.list_public(__name__)
