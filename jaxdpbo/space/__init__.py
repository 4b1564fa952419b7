"""The space of a search: named real, integer and categorical dimensions, branches, and the unit box for algorithms.

A ``Space`` converts points of ``[0, 1]^d`` to parameters by name, and back. A branch (``branches``) decides which
parameters exist, a constraint (``linear``) keeps a sum of them between two ends, and ``feasible`` is any condition.
"""

from jaxdpbo import namespace
from jaxdpbo.space.boxes import box, is_named, place
from jaxdpbo.space.constraints import Linear, linear
from jaxdpbo.space.designs import sobol
from jaxdpbo.space.dimensions import (
    Categorical,
    Dimension,
    Integer,
    NumberText,
    Real,
    categorical,
    integer,
    real,
)
from jaxdpbo.space.named_space import (
    SEARCHES,
    Params,
    Space,
    by_name,
    copy_objects,
    imputation,
    middles,
    refuse_branches,
    relabel,
    spread,
)
from jaxdpbo.space.trees import KINDS, AnyDimension, Branches, branches, read_tables

__all__ = [
    "Branches",
    "Categorical",
    "Integer",
    "Linear",
    "Real",
    "Space",
    "branches",
    "categorical",
    "integer",
    "linear",
    "real",
]
__dir__ = namespace.list_public(__name__)
