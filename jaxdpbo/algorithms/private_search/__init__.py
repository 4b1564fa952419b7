"""Memory search: points of a public design, a private choice among them, and what is near the chosen one.

What is released is which point was chosen, by the exponential mechanism on the users' losses (``privacy.choice``). That
is sharp where there are thousands of users, needs no gradient, and takes any point: whole numbers and categories too.
``make_algorithm(inner)`` makes an ``Algorithm``:

1. each round evaluates points of its design, in the first anywhere in the box, later around the point chosen last,
   and chooses one of all points evaluated so far;
2. an inner algorithm that can be started anywhere, such as DP-GIBO, goes on from there (None: there is none);
3. its answer and means of the ends of its path are evaluated, and the last choice is among all points.

Notation: ``m`` points in all, ``b`` in a step, ``n`` users, ``d`` parameters.
"""

from jaxdpbo.algorithms.private_search.configs import DESIGN_CHOICE, LAST_CHOICE, Config, Round, config
from jaxdpbo.algorithms.private_search.run import (
    Info,
    Public,
    Release,
    make_algorithm,
)

__all__ = [
    "DESIGN_CHOICE",
    "LAST_CHOICE",
    "Config",
    "Info",
    "Public",
    "Release",
    "Round",
    "config",
    "make_algorithm",
]
