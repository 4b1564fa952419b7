"""Type aliases for scikit-learn's untyped objects."""

from collections.abc import Callable
from typing import Any, TypeAlias

Estimator: TypeAlias = Any  # has fit, predict, get_params and set_params; fitted where a function asks for predictions
Rows: TypeAlias = Any  # of features, as the estimator takes: an array, a frame, a sparse matrix, a list
Targets: TypeAlias = Any  # a target for each row, or None
Loss: TypeAlias = str | Callable[..., Any]  # by name, or (estimator, rows, targets) -> losses (n,)
