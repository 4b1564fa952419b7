"""Types of the arguments that scikit-learn passes without types."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias


class Estimator(Protocol):
    """A scikit-learn estimator; fitted where a function asks for predictions."""

    def fit(self, *arguments: Any, **options: Any) -> Any:
        """Fit to rows."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        ...

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name."""


Rows: TypeAlias = object  # features, in any type that the estimator takes: an array, a frame, a sparse matrix, a list
Targets: TypeAlias = object  # a target for each row, or None
Loss: TypeAlias = str | Callable[..., Any]  # by name, or (estimator, rows, targets) -> losses (n,)
