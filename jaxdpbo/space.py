"""Search spaces of named dimensions: real, integer or categorical, linear or logarithmic."""

from jaxdpbo import _namespace
from jaxdpbo._space import Categorical, Integer, Real, Space, categorical, integer, real

__all__ = ["Categorical", "Integer", "Real", "Space", "categorical", "integer", "real"]
__dir__ = _namespace.list_public(__name__)
