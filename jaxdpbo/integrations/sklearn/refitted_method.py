"""Methods of a search that call its refitted estimator."""

from collections.abc import Callable
from types import MethodType
from typing import Any


class RefittedMethod:
    """A method of the refitted estimator. The search has the method only if the estimator has it."""

    def __init__(self, method: Callable[..., Any]):
        self._method = method

    def __get__(self, search: Any, owner: Any = None) -> Any:
        """Return the method, or raise an AttributeError with the reason for its absence."""
        if search is None:
            return self._method
        name, model = self._method.__name__, getattr(search, "best_estimator_", search.estimator)
        if not search.refit:
            raise AttributeError(
                f"{name} needs a fitted estimator, got refit=False: give refit='train', or fit the estimator with "
                "best_params_ yourself"
            )
        if not hasattr(model, name):
            raise AttributeError(f"{name} is no method of {type(model).__name__}")
        return MethodType(self._method, search)
