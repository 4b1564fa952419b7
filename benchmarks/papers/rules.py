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


def difference_from_printed(over: Interval, half: float, printed: float) -> Interval:
    """The difference from a printed mean that has an error of its own, by the half of its interval."""
    half_width = float(np.hypot((over.high - over.low) / 2, half))
    return Interval(over.mean - printed, over.mean - printed - half_width, over.mean - printed + half_width, over.count)


def negate(over: Interval) -> Interval:
    return Interval(-over.mean, -over.high, -over.low, over.count)


def name_by_call(factory: Callable[..., Any]) -> Callable[..., Any]:
    """Name what a factory makes after its call: so a result can hold the rule that decides it, in words."""

    def text(argument: Any) -> str:
        return argument.__name__ if callable(argument) else repr(argument)

    @functools.wraps(factory)
    def make(*arguments: Any, **options: Any) -> Any:
        made = factory(*arguments, **options)
        inside = [*map(text, arguments), *(f"{name}={text(value)}" for name, value in options.items())]
        made.__name__ = f"{factory.__name__}({', '.join(inside)})"
        return made

    return make


@name_by_call
def at(*path: str) -> Values:
    """The values at these keys of a result."""

    def values(value: Found, *others: Found) -> np.ndarray:
        for key in path:
            value = value[key]
        return np.asarray(value, float)

    return values


@name_by_call
def negative(values: Values, margin: float, label: str = "") -> Rule:
    """The claim: the mean is below 0."""

    def rule(*results: Found) -> Measured:
        over = interval(values(*results))
        return f"{label} {over}".strip(), verdict_below_zero(over, margin)

    return rule


@name_by_call
def below(first: Values, second: Values, margin: float, label: str = "") -> Rule:
    """The claim: the first is below the second, paired."""
    return negative(lambda *results: first(*results) - second(*results), margin, label)


@name_by_call
def above(values: Values, limit: float, margin: float, label: str = "") -> Rule:
    """The claim: the mean is above a limit."""

    def rule(*results: Found) -> Measured:
        over = interval(values(*results))
        shifted = Interval(limit - over.mean, limit - over.high, limit - over.low, over.count)
        return f"{label} {over}, limit {limit:g}".strip(), verdict_below_zero(shifted, margin)

    return rule


@name_by_call
def at_most(values: Values, limit: float, margin: float, label: str = "") -> Rule:
    """The claim: the mean is below a limit."""

    def rule(*results: Found) -> Measured:
        over = interval(values(*results))
        shifted = Interval(over.mean - limit, over.low - limit, over.high - limit, over.count)
        verdict = verdict_below_zero(shifted, margin)
        return f"{label} {over}, limit {limit:g}".strip(), DIFFERS if verdict == REVERSED else verdict

    return rule


@name_by_call
def equal(values: Values, margin: float, label: str = "") -> Rule:
    """The claim: the mean is 0, up to the margin."""

    def rule(*results: Found) -> Measured:
        over = interval(values(*results))
        return f"{label} {over}".strip(), verdict_near_zero(over, margin)

    return rule


@name_by_call
def every(*rules: Rule) -> Rule:
    """The claim: all of these. One that is the other way round decides; otherwise the weakest of them."""

    def rule(*results: Found) -> Measured:
        texts, verdicts = zip(*(part(*results) for part in rules), strict=True)
        return "; ".join(texts), min(verdicts, key=ORDER.index)

    return rule


def verdict_below_zero(over: Interval, margin: float) -> str:
    """For a claim that the mean is negative."""
    if -margin < over.low and over.high < margin:
        return SAME
    return HOLDS if over.high < 0 else REVERSED if over.low > 0 else UNDECIDED


def verdict_near_zero(over: Interval, margin: float) -> str:
    inside, outside = -margin < over.low and over.high < margin, over.low > margin or over.high < -margin
    return HOLDS if inside else DIFFERS if outside else UNDECIDED
