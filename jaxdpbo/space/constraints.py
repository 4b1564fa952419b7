"""Constraints on real parameters: a weighted sum between two ends."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

import jax
import numpy as np

from jaxdpbo import checks
from jaxdpbo.space.dimensions import Real
from jaxdpbo.space.trees import Axis

ROUNDING, HALVINGS = 1e-6, 60  # of a sum, over the sum of the sizes of its parts; of a bracket, to the last digit


@dataclass(frozen=True)
class Linear:
    """``least <= sum of weights times parameters <= most``, of real parameters; made by ``linear``."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    least: float
    most: float

    def __str__(self) -> str:
        """Show the sum between its ends."""
        terms = " + ".join(name if weight == 1 else f"{weight:g} {name}" for name, weight in self._pairs())
        low, high = ("" if math.isinf(end) else f"{end:g}" for end in (self.least, self.most))
        return f"{terms} = {low}" if low == high else " <= ".join(filter(None, (low, terms, high)))

    def sum(self, values: Mapping[str, Any]) -> Any:
        """The weighted sum of parameters."""
        return sum(weight * values[name] for name, weight in zip(self.names, self.weights, strict=True))

    def is_of(self, dimensions: Mapping[str, Any]) -> bool:
        """True if these parameters exist and are real: in another branch they may be fixed values."""
        return all(isinstance(dimensions.get(name), Real) for name in self.names)

    def holds(self, values: Mapping[str, Any]) -> Any:
        """True where the sum is between its ends, to rounding."""
        total, slack = self.sum(values), ROUNDING * sum(abs(weight * values[name]) for name, weight in self._pairs())
        return (total >= self.least - slack) & (total <= self.most + slack)

    def project(self, values: Mapping[str, Any], ranges: Mapping[str, Real], library: ModuleType) -> dict[str, Any]:
        """The nearest parameters in their ranges with a sum between its ends, to rounding, in sides of the box.

        In coordinates of the box they are ``places - multiplier * slopes``, cut off at 0 and 1; slopes are weights
        times sides. The sum falls as the multiplier grows, so a bisection finds the multiplier.
        """
        sides = {name: ranges[name].high - ranges[name].low for name in self.names}
        scale = max(abs(weight) * sides[name] for name, weight in self._pairs())
        slopes = {name: weight * sides[name] / scale for name, weight in self._pairs()}
        places = {name: (values[name] - ranges[name].low) / sides[name] for name in self.names}

        def move(multiplier: Any) -> dict[str, Any]:
            return {name: library.clip(places[name] - multiplier * slopes[name], 0.0, 1.0) for name in self.names}

        def total(at: Mapping[str, Any]) -> Any:
            return sum(slopes[name] * at[name] for name in self.names)

        offset = sum(weight * ranges[name].low for name, weight in self._pairs())
        now, ends = total(places), [(end - offset) / scale for end in (self.least, self.most)]
        target = library.clip(now, *ends)

        def halve(_: Any, bracket: tuple[Any, Any]) -> tuple[Any, Any]:
            middle = (bracket[0] + bracket[1]) / 2
            above = total(move(middle)) > target
            return library.where(above, middle, bracket[0]), library.where(above, bracket[1], middle)

        farthest = 1.0 / min(abs(slope) for slope in slopes.values())
        bracket = (library.full_like(target, -farthest), library.full_like(target, farthest))
        if library is np:
            for _ in range(HALVINGS):
                bracket = halve(None, bracket)
        else:
            bracket = jax.lax.fori_loop(0, HALVINGS, halve, bracket)
        moved = move(library.where(now > target, bracket[1], bracket[0]))  # on the side where the sum holds
        return {
            name: library.where(
                now == target,
                values[name],
                library.clip(ranges[name].low + sides[name] * moved[name], *ranges[name].ends),
            )
            for name in self.names
        }

    def _pairs(self) -> Iterator[tuple[str, float]]:
        return zip(self.names, self.weights, strict=True)


def linear(weights: Mapping[str, float], *, least: float = -math.inf, most: float = math.inf) -> Linear:
    """Make a constraint: the sum of ``weights`` times parameters is at least ``least`` and at most ``most``.

    >>> from jaxdpbo import Space, space
    >>> share = space.real(0, 1)
    >>> mixed = Space({"a": share, "b": share}, constraints=[space.linear({"a": 1, "b": 1}, most=1)])
    >>> mixed.params([0.25, 0.5]), mixed.params([1.0, 1.0])
    ({'a': 0.25, 'b': 0.5}, {'a': 0.5, 'b': 0.5})

    With both ends equal it is a mixture, such as shares that add up to 1.

    Args:
      weights: numbers other than 0, by the names of real parameters, two or more.
      least: the least sum.
      most: the largest sum.

    Raises:
      ValueError: fewer than two names, a weight of 0 or not finite, no end, or ends not in order.
      TypeError: an argument of the wrong type.
    """
    if not isinstance(weights, Mapping) or not all(isinstance(name, str) for name in weights):
        raise TypeError(f"weights must be a dict of names, got {type(weights).__name__}")
    numbers = {name: float(checks.number(f"weights[{name!r}]", weight)) for name, weight in weights.items()}
    if len(numbers) < 2 or not all(weight and math.isfinite(weight) for weight in numbers.values()):
        raise ValueError(f"weights must be finite, not 0, and two or more, got {dict(weights)!r}")
    low, high = (float(checks.number(name, end)) for name, end in (("least", least), ("most", most)))
    if not low <= high or (math.isinf(low) and math.isinf(high)):
        raise ValueError(f"least must be at most most, and one of them given, got {low}, {high}")
    return Linear(tuple(numbers), tuple(numbers.values()), low, high)


def check_constraints(constraints: Any, axes: Sequence[Axis]) -> None:
    """Raise for what is no constraint of these coordinates, see ``Space``."""
    if not isinstance(constraints, (list, tuple)) or not all(isinstance(each, Linear) for each in constraints):
        raise TypeError(f"constraints must be a list of space.linear(...), got {constraints!r}")
    together = Counter(name for each in constraints for name in each.names)
    if twice := [name for name, count in together.items() if count > 1]:
        raise ValueError(f"constraints must have no name in common, since each moves its own, got {twice[0]!r} in two")
    for constraint in constraints:
        _check_constraint(constraint, axes)


def _check_constraint(constraint: Linear, axes: Sequence[Axis]) -> None:
    own = [axis for axis in axes if axis.parameter in constraint.names]
    real = all(isinstance(axis.dimension, Real) for axis in own) and len({axis.parent for axis in own}) == 1
    if len(own) != len(constraint.names) or not real:
        raise ValueError(f"constraints must be of real parameters of one branch, got {constraint}")
    weights = dict(constraint._pairs())
    sums = [[weights[axis.parameter or ""] * end for end in cast(Real, axis.dimension).ends] for axis in own]
    lowest, highest = sum(map(min, sums)), sum(map(max, sums))
    if lowest > constraint.most or highest < constraint.least:
        raise ValueError(f"constraints must be met by some parameters, got a sum from {lowest:g} to {highest:g}")
