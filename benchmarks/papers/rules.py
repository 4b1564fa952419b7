"""How a claim of a paper is decided: rules from what was measured to a verdict, for the register in ``claims``.

A margin is the smallest difference that matters, in the units of the measurement, fixed before the run. Intervals are
Student's, at 95 %, over independent units.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

HOLDS, SAME, UNDECIDED, REVERSED = "holds", "no difference", "undecided", "the other way round"
DIFFERS, UNMEASURED, ONCE = "differs", "cannot be measured here", "one run, no interval"
PROVED, MENDED, FALSE, UNTRIED = "proved", "proved, corrected", "false", "not tried"
BUILT, CORRECTED = "built as printed", "built, corrected"
VERDICTS = (  # in the order of the page
    HOLDS, PROVED, MENDED, BUILT, CORRECTED, SAME, UNDECIDED, DIFFERS, REVERSED, FALSE, UNMEASURED, ONCE, UNTRIED,
)  # fmt: skip
ORDER = (REVERSED, DIFFERS, UNMEASURED, UNDECIDED, SAME, HOLDS)  # the weakest of several sentences comes first

Found = Any  # a result, as its JSON holds it
Values = Callable[..., np.ndarray]  # of results: a number for each independent unit
Measured = tuple[str, str]  # what was measured, in words, and the verdict
Rule = Callable[..., Measured]


class Interval(NamedTuple):
    """A mean and its interval."""

    mean: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:+.3g} ({self.low:+.3g} to {self.high:+.3g}; {self.count})"


def interval(values: Sequence[float] | np.ndarray) -> Interval:
    """Student's t, of independent values."""
    values = np.asarray(values, float)
    mean, count = float(values.mean()), len(values)
    half = float(stats.t.ppf(0.975, count - 1) * values.std(ddof=1) / np.sqrt(count)) if count > 1 else np.inf
    return Interval(mean, mean - half, mean + half, count)


def welch(first: Sequence[float], second: Sequence[float]) -> Interval:
    """The difference of two means of independent samples of unequal variance."""
    low, high = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    return Interval(float(np.mean(first) - np.mean(second)), float(low), float(high), len(first))


def widened(over: Interval, half: float, printed: float) -> Interval:
    """The difference from a printed mean that has an error of its own, by the half of its interval."""
    both = float(np.hypot((over.high - over.low) / 2, half))
    return Interval(over.mean - printed, over.mean - printed - both, over.mean - printed + both, over.count)


def turned(over: Interval) -> Interval:
    return Interval(-over.mean, -over.high, -over.low, over.count)


def named(factory: Callable[..., Any]) -> Callable[..., Any]:
    """Name what a factory makes after its call: so a result can hold the rule that decides it, in words."""

    def text(given: Any) -> str:
        return given.__name__ if callable(given) else repr(given)

    @functools.wraps(factory)
    def make(*given: Any, **options: Any) -> Any:
        made = factory(*given, **options)
        inside = [*map(text, given), *(f"{name}={text(one)}" for name, one in options.items())]
        made.__name__ = f"{factory.__name__}({', '.join(inside)})"
        return made

    return make


@named
def at(*path: str) -> Values:
    """The values at these keys of a result."""

    def values(found: Found, *others: Found) -> np.ndarray:
        for key in path:
            found = found[key]
        return np.asarray(found, float)

    return values


@named
def negative(values: Values, margin: float, said: str = "") -> Rule:
    """The claim: the mean is below 0."""

    def rule(*found: Found) -> Measured:
        over = interval(values(*found))
        return f"{said} {over}".strip(), decided(over, margin)

    return rule


@named
def below(first: Values, second: Values, margin: float, said: str = "") -> Rule:
    """The claim: the first is below the second, paired."""
    return negative(lambda *found: first(*found) - second(*found), margin, said)


@named
def above(values: Values, limit: float, margin: float, said: str = "") -> Rule:
    """The claim: the mean is above a limit."""

    def rule(*found: Found) -> Measured:
        over = interval(values(*found))
        shifted = Interval(limit - over.mean, limit - over.high, limit - over.low, over.count)
        return f"{said} {over}, limit {limit:g}".strip(), decided(shifted, margin)

    return rule


@named
def at_most(values: Values, limit: float, margin: float, said: str = "") -> Rule:
    """The claim: the mean is below a limit."""

    def rule(*found: Found) -> Measured:
        over = interval(values(*found))
        shifted = Interval(over.mean - limit, over.low - limit, over.high - limit, over.count)
        verdict = decided(shifted, margin)
        return f"{said} {over}, limit {limit:g}".strip(), DIFFERS if verdict == REVERSED else verdict

    return rule


@named
def equal(values: Values, margin: float, said: str = "") -> Rule:
    """The claim: the mean is 0, up to the margin."""

    def rule(*found: Found) -> Measured:
        over = interval(values(*found))
        return f"{said} {over}".strip(), near_zero(over, margin)

    return rule


@named
def every(*rules: Rule) -> Rule:
    """The claim: all of these. One that is the other way round decides; otherwise the weakest of them."""

    def rule(*found: Found) -> Measured:
        said, verdicts = zip(*(one(*found) for one in rules), strict=True)
        return "; ".join(said), min(verdicts, key=ORDER.index)

    return rule


def decided(found: Interval, margin: float) -> str:
    """For a claim that the mean is negative."""
    if -margin < found.low and found.high < margin:
        return SAME
    return HOLDS if found.high < 0 else REVERSED if found.low > 0 else UNDECIDED


def near_zero(over: Interval, margin: float) -> str:
    inside, outside = -margin < over.low and over.high < margin, over.low > margin or over.high < -margin
    return HOLDS if inside else DIFFERS if outside else UNDECIDED
