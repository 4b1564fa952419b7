"""One public function that is fuzzed, and what its results must be."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jax.flatten_util import ravel_pytree

from jaxdpbo.guarantee import guarantees

MARK = "86420"  # the digits of every private value
OF_PATHS = ("PathLike", "null byte", "empty name")  # what Python says of a path that is none


class Target(NamedTuple):
    """One public function.

    Attributes:
      call: with keyword arguments.
      arguments: a strategy of valid values for each.
      tame: arguments that are sizes of what is allocated, compiled or looped over: no gigantic ones.
      fixed: arguments that are never made odd.
      private: arguments whose values no message may quote.
      odd: strategies of odd values of its own, by argument, in place of the general one.
      raises: documented exceptions besides ValueError and TypeError.
      words: what a message may name besides an argument.
      named: whether a refusal must name an argument.
      nan: whether NaN may come out.
      check: of a result, given the arguments.
      weight: its share of the calls.
    """

    call: Callable[..., Any]
    arguments: Mapping[str, Any]
    tame: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    odd: Mapping[str, Any] = {}
    raises: tuple[type[BaseException], ...] = ()
    words: tuple[str, ...] = ()
    named: bool = True
    nan: bool = False
    check: Callable[[Any, Mapping[str, Any]], bool] | None = None
    weight: float = 1.0


def at_least_zero(value, _):
    return isinstance(value, float) and value >= 0


def whole(value, _):
    return isinstance(value, int) and value >= 0


def unit(value, _):
    return isinstance(value, float) and 0 <= value <= 1


def is_guarantee(value, _):
    return isinstance(value, guarantees.Guarantee) and value.notion in guarantees.NOTIONS


def finite(value, _):
    return bool(np.all(np.isfinite(ravel_pytree(value)[0])))


def promises(algorithm):
    """A config whose guarantee is one."""
    return lambda found, _: is_guarantee(algorithm.privacy(found), None)
