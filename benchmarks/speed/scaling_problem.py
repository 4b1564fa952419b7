"""What ``scripts/bench scaling`` varies, at which sizes, and what the code says its cost grows as.

A series doubles its variable and leaves the other sizes alone. ``theory`` is the exponent of the term of ``cost``, the
operations of one run, that dominates at these sizes: the least and the largest where two terms are near each other.
Sizes of the upper half are all within the caches of a usual server (32 MiB), or all beyond, where the variable is of
users or candidates: where they cross its edge, a slope is not an exponent. ``b = d + 1`` evaluations a step and
``m = T b`` rows at the end; where rows are staged, a step works on 3/4 of them.
"""

from typing import Any, NamedTuple

GIB = 2**30
LIMIT = 24 * GIB
REPEATS, SHORTEST = 3, 0.05  # runs, and seconds that one of them fills, with several calls where one is shorter
BEYOND = "losses beyond the caches"
SMALL = 3  # sizes of a quick run, the least


class Series(NamedTuple):
    """One variable of one algorithm.

    Attributes:
      variable: as the program calls it.
      sizes: geometric.
      fixed: the other sizes.
      cost: operations of one run, the dominating term first.
      theory: least and largest exponent of what dominates.
      where: when that term does.
    """

    variable: str
    sizes: tuple[int, ...]
    fixed: dict[str, Any]
    cost: str
    theory: tuple[float, float]
    where: str


class Largest(NamedTuple):
    """The largest ``variable`` of a program that fits, searched from ``first``; ``said`` for a reader."""

    variable: str
    first: int
    fixed: dict[str, Any]
    said: str


def doubled_sizes(first: int, count: int = 5) -> tuple[int, ...]:
    return tuple(first * 2**place for place in range(count))


NAMES = {
    "gibo": "DP-GIBO",
    "ucb": "DP-GP-UCB",
    "outsourced": "PO-GP-UCB, the modeler",
    "front": "DPareto",
    "training": "DP-SGD",
    "chosen": "a private choice",
    "blocks": "an objective of blocks",
}
SERIES = {
    "gibo": (
        Series(
            "users",
            doubled_sizes(25_000),
            {"parameters": 10, "steps": 12},
            "n d m T (gradients) + n d m (losses)",
            (1.0, 1.0),
            "many users",
        ),
        Series(
            "steps",
            doubled_sizes(3),
            {"users": 100_000, "parameters": 10},
            "n d b T^2 (gradients) + n d b T (losses)",
            (1.0, 2.0),
            "many users: every step reads all losses so far",
        ),
        Series(
            "steps",
            doubled_sizes(5),
            {"users": 1_000, "parameters": 10},
            "b^3 T^3 (where to evaluate) + n d b T^2",
            (2.0, 3.0),
            "few users, m at most 1,024: beyond, the search for points looks at 512 of them",
        ),
        Series(
            "parameters",
            doubled_sizes(5),
            {"users": 1_000, "steps": 8},
            "T^3 d^3 (where to evaluate) + n T^2 d^2",
            (2.0, 3.0),
            "few users, m at most 1,024",
        ),
        Series(
            "seeds", doubled_sizes(2), {"users": 1_000, "parameters": 5, "steps": 12}, "one run's each", (1.0, 1.0), ""
        ),
    ),
    "ucb": (
        Series("candidates", doubled_sizes(5_000), {"steps": 50}, "c T^2 + c d T", (1.0, 1.0), ""),
        Series(
            "steps",
            doubled_sizes(50),
            {"candidates": 5_000},
            "c T^2 (rows of the factor) + c d T + c (noise)",
            (1.0, 2.0),
            "T above what a candidate costs apart from the factor",
        ),
        Series("seeds", doubled_sizes(2), {"candidates": 2_000, "steps": 50}, "one run's each", (1.0, 1.0), ""),
    ),
    "outsourced": (
        Series("rows", doubled_sizes(5_000), {"steps": 50}, "n T^2 + n d T", (1.0, 1.0), ""),
        Series(
            "steps",
            doubled_sizes(50),
            {"rows": 5_000},
            "n T^2 (rows of the factor) + n d T",
            (1.0, 2.0),
            "T above what a row costs apart from the factor",
        ),
    ),
    "front": (
        Series(
            "proposals",
            doubled_sizes(16),
            {},
            "S T m^2 (predictions) + S T m (kernel, front) + T m^3 (factors); S = 512 samples, m = T + 16",
            (2.0, 3.0),
            "4 from some 1,000 settings on; beyond 64 a refit is every sixteenth step's",
        ),
    ),
    "training": (
        Series(
            "steps",
            doubled_sizes(50),
            {"batch": 128, "features": 100, "hidden": 30, "records": 20_000},
            "T (p b + p)",
            (1.0, 1.0),
            "",
        ),
        Series(
            "batch",
            doubled_sizes(64),
            {"steps": 50, "features": 100, "hidden": 30, "records": 20_000},
            "T (p b + 600 p (exact noise))",
            (0.0, 1.0),
            "a batch above some 600: a parameter's noise costs the same for every batch",
        ),
        Series(
            "features",
            doubled_sizes(50),
            {"steps": 20, "batch": 128, "hidden": 100, "records": 5_000},
            "T p (b + 600 (exact noise))",
            (1.0, 1.0),
            "parameters p, by the number of features",
        ),
    ),
    "chosen": (
        Series("candidates", doubled_sizes(32), {"users": 100_000}, "c n", (1.0, 1.0), BEYOND),
        Series("users", doubled_sizes(100_000), {"candidates": 64}, "c n", (1.0, 1.0), BEYOND),
    ),
    "blocks": (
        Series("blocks", doubled_sizes(100), {"rows": 60_000}, "k (calls) + rows", (0.0, 1.0), "small blocks"),
        Series("rows", doubled_sizes(50_000), {"blocks": 100}, "rows + k (calls)", (0.0, 1.0), "large blocks"),
    ),
}
_GIBO = {"parameters": 10, "steps": 25, "memory": "all", "noise": "float"}
FITS = (
    ("gibo", Largest("users", 10**6, _GIBO | {"memory": "all"}, 'users, d = 10, T = 25, memory="all", float noise')),
    ("gibo", Largest("users", 10**7, _GIBO | {"memory": "none"}, 'users, d = 10, T = 25, memory="none", float noise')),
    ("gibo", Largest("users", 10**6, _GIBO | {"noise": "exact"}, "users, d = 10, T = 25, mu = 1, exact noise")),
    ("ucb", Largest("candidates", 10**6, {"steps": 100}, "candidates in 3 dimensions, T = 100")),
    ("outsourced", Largest("rows", 10**6, {"steps": 100}, "rows of 10 coordinates, T = 100")),
    ("front", Largest("proposals", 2_000, {}, "proposals in 5 dimensions")),
    (
        "training",
        Largest(
            "features",
            10_000,
            {"steps": 1_000, "batch": 512, "hidden": 1_000, "records": 512},
            "features of a perceptron with 1,000 hidden units, batch 512",
        ),
    ),
    ("chosen", Largest("candidates", 1_000, {"users": 100_000}, "candidates, 100,000 users")),
)
