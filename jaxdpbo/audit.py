"""Attacks: lower bounds on a release's privacy loss. An audit falsifies a guarantee and never certifies any.

An attack guesses which of two neighbours was released. If the guess is "first" with probability ``p`` on the first and
``q`` on the second, ``(epsilon, delta)``-DP requires ``p <= e^epsilon q + delta`` and for the other guess ``1 - q
<= e^epsilon (1 - p) + delta``; ``mu``-GDP requires ``Phi^-1(p) - Phi^-1(q) <= mu``. The ends of the confidence
intervals of ``p`` and ``q`` give a lower bound: on both at once, since the two ends are the same.

Trials ALWAYS come in halves. An attack makes its choices (a threshold, outcomes that speak for the first) on the first
half, and is judged on the second, unseen half.

``replay`` (same key, neighbouring data) needs no trials.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy

from jaxdpbo import checks, namespace
from jaxdpbo.guarantee import guarantees
from jaxdpbo.types import Tree

__all__ = [
    "Audit",
    "Replay",
    "declared_trade_off",
    "epsilon_lower_bound",
    "replay",
    "threshold_audit",
]
__dir__ = namespace.list_public(__name__)

BOUNDS = ("epsilon", "mu")
CONFIDENCE = 0.95  # joint confidence of both bounds; the threshold is chosen on the other half of the trials
THRESHOLDS = 201  # to try: quantiles of the first half


class Audit(NamedTuple):
    """The result of an attack.

    Attributes:
      epsilon: the lower bound at ``delta``, at a confidence of 95 %; 0 where nothing was shown.
      mu: the lower bound on GDP's level, valid whenever ``epsilon``'s is.
      delta: of the bound ``epsilon``.
      correct: of ``trials`` on the first data set, how many were classified right.
      wrong: of ``trials`` on the second, how many were taken for the first.
      trials: counted for the bounds, on each of the two.
    """

    epsilon: float
    mu: float
    delta: float
    correct: int
    wrong: int
    trials: int


class TradeOff(NamedTuple):
    """Error rates ``(k,)`` of an attack at many thresholds: of "second" on the first, of "first" on the second."""

    type_one: np.ndarray
    type_two: np.ndarray


class Replay(NamedTuple):
    """The comparison of two runs under the same key.

    Attributes:
      differing: names of parts that must not differ and do.
      moved: how far the statistic was moved; inf if the two are not comparable.
      raised: the error of both, by name: then nothing was compared; "" if they returned.
    """

    differing: tuple[str, ...]
    moved: float
    raised: str = ""


def epsilon_lower_bound(correct: int, wrong: int, trials: int, *, delta: float = 0.0) -> Audit:
    """Bound from below the levels of ``(epsilon, delta)``-DP and GDP, by two one-sided Clopper-Pearson bounds.

    >>> from jaxdpbo.audit import epsilon_lower_bound
    >>> round(epsilon_lower_bound(900, 100, 1000).epsilon, 2)
    1.99

    Raises:
      ValueError: counts that are not within ``trials``, a delta outside [0, 1).
    """
    trials = checks.size("trials", trials)
    for name, count in (("correct", correct), ("wrong", wrong)):
        if not 0 <= checks.size(name, count, minimum=0) <= trials:
            raise ValueError(f"{name} must lie in [0, {trials}], got {count}")
    delta = checks.number("delta", delta)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must lie in [0, 1), got {delta}")
    bounds = _bounds(np.array([correct]), np.array([wrong]), trials, delta, CONFIDENCE)
    epsilon, mu = (float(bounds[name][0]) for name in BOUNDS)
    return Audit(epsilon, mu, delta, correct, wrong, trials)


def threshold_audit(first: np.ndarray, second: np.ndarray, *, delta: float = 0.0, bound: str = "epsilon") -> Audit:
    """Audit by the attack "the score is above a threshold", or below, whichever bounds more.

    >>> import numpy as np
    >>> from jaxdpbo.audit import threshold_audit
    >>> rng = np.random.default_rng(0)
    >>> audit = threshold_audit(rng.normal(0, 1, 1000), rng.normal(1, 1, 1000), bound="mu")
    >>> 0.5 < audit.mu < 1.0
    True

    Args:
      first: ``(trials,)`` scores from releases of the first data set.
      second: ``(trials,)`` scores from releases of the second.
      delta: of the guarantee.
      bound: "epsilon" or "mu": the bound to choose the threshold for.

    Raises:
      ValueError: fewer than 4 trials, different numbers of them, a score that is NaN, an unknown ``bound``.
    """
    learnt, judged = _halves(first, second)
    delta = checks.number("delta", delta)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must lie in [0, 1), got {delta}")
    checks.one_of("bound", bound, BOUNDS)
    tried = _thresholds(learnt)
    (hits, alarms), count = _above(learnt, tried), len(learnt[0])
    hits, alarms = (np.concatenate([above, count - above]) for above in (hits, alarms))  # and below
    of_all = 1.0 - (1.0 - CONFIDENCE) / len(hits)  # bounds for all thresholds at once, so the best is not merely lucky
    best = int(np.argmax(_bounds(hits, alarms, count, delta, of_all)[bound]))
    above = _above(judged, tried[[best % len(tried)]])[:, 0]
    count = len(judged[0])
    correct, wrong = (above if best < len(tried) else count - above).tolist()
    return epsilon_lower_bound(correct, wrong, count, delta=delta)


def trade_off(first: np.ndarray, second: np.ndarray) -> TradeOff:
    """Measure the error rates of "first if the score is above a threshold", on the second half; for a plot.

    Each point is an estimate, without confidence: the point may lie below a valid curve.
    """
    learnt, judged = _halves(first, second)
    hits, alarms = _above(judged, _thresholds(learnt)) / len(judged[0])
    return TradeOff(1.0 - hits, alarms)


def declared_trade_off(guarantee: guarantees.Guarantee, type_one: np.ndarray) -> np.ndarray:
    """Return the least type II error at each type I error that a "gdp" or "dp" guarantee allows any attack.

    The slack ``delta`` of a "gdp" guarantee moves the curve by ``delta`` down and to the left (Dong et al. 2022,
    proposition 2.12: the envelope of its (epsilon, delta) curves).

    >>> import numpy as np
    >>> from jaxdpbo.audit import declared_trade_off
    >>> from jaxdpbo.guarantee import guarantee
    >>> guarantee = guarantee("gdp", 1.0, "replace_one", "the users")
    >>> declared_trade_off(guarantee, np.array([0.05, 0.5])).round(3).tolist()
    [0.74, 0.159]

    Raises:
      ValueError: another notion, an error rate outside [0, 1].
    """
    notion, slack = checks.one_of("notion", guarantee.notion, ("gdp", "dp")), guarantee.delta
    rates = checks.reals("type_one", type_one)
    if not np.all((rates >= 0) & (rates <= 1)):
        raise ValueError(f"type_one must lie in [0, 1], got {np.min(rates):g} to {np.max(rates):g}")
    if notion == "gdp":
        curve = scipy.stats.norm.cdf(
            scipy.stats.norm.ppf(1.0 - np.stack([rates, np.minimum(rates + slack, 1.0)])) - guarantee.level
        )
        return np.maximum(0.0, np.maximum(curve[0] - slack, curve[1]))
    with np.errstate(over="ignore"):
        odds = np.exp(guarantee.level)
        steep = np.where(rates > 0, odds * np.maximum(rates, np.finfo(np.float64).tiny), 0.0)  # never inf times 0
    return np.maximum(0.0, np.maximum((1.0 - slack - rates) / odds, 1.0 - slack - steep))


def outcome_scores(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Score discrete outcomes for ``threshold_audit``: how much likelier the first half found each on the first.

    A threshold on scores is a set of outcomes. Each count is raised by 1: rare outcomes say little, and outcomes unseen
    in the first half say nothing.

    Args:
      first: ``(trials,)`` outcomes, integers of any meaning, from releases of the first data set.
      second: ``(trials,)`` from releases of the second.
    """
    learnt, _ = _halves(first, second)
    kinds, where = np.unique(np.concatenate([first, second]), return_inverse=True)
    of_first, of_second = np.split(where.reshape(-1), 2)
    half = len(learnt[0])
    counts = [np.bincount(of[:half], minlength=len(kinds)) + 1.0 for of in (of_first, of_second)]
    scores = np.log(counts[0]) - np.log(counts[1])
    return scores[of_first], scores[of_second]


def is_refuted(audit: Audit, guarantee: guarantees.Guarantee, *, distance: float = 1.0) -> bool:
    """Return whether a bound exceeds the guarantee: the guarantee is then false, unless this audit failed by chance.

    ``distance``, of the neighbours, is for "metric_dp" alone. The ``total_variation`` is beyond any trial.

    Raises:
      ValueError: the bound is for a smaller delta than the guarantee, and says nothing of the guarantee; a guarantee of
        "zcdp"; a ``distance`` that is not positive and finite.
    """
    distance = checks.positive("distance", distance)
    if guarantee.notion == "zcdp":
        raise ValueError(f"guarantee must have an epsilon or a mu, got {guarantee.claim}")
    if guarantee.notion == "none":
        return False
    if guarantee.notion == "gdp" and not guarantee.delta:
        return audit.mu > guarantee.level
    if guarantee.notion == "gdp":
        return audit.epsilon > guarantee.epsilon(audit.delta)
    if audit.delta < guarantee.delta:
        raise ValueError(f"delta must be at least the guarantee's {guarantee.delta:g}, got {audit.delta:g}")
    return audit.epsilon > guarantee.level * (distance if guarantee.notion == "metric_dp" else 1.0)


def replay(run: Callable[[Any], tuple[Any, Any]], first: Tree, second: Tree, *, order: float = 2) -> Replay:
    """Run on a data set and on its neighbour: measure the statistic's move and list everything else that differs.

    ``run`` fixes its own key, the same in both calls. A declared sensitivity is refuted if ``moved`` is larger, or
    if ``differing`` is not empty: a query, a count, a shape, a dtype, an error in only one run. Both may raise the
    same error, and NaN at the same places is equal.

    >>> import numpy as np
    >>> from jaxdpbo.audit import replay
    >>> replay(lambda data: (data.sum(), data.shape), np.zeros(3), np.array([1.0, 0.0, 0.0]))
    Replay(differing=(), moved=1.0, raised='')

    Args:
      run: ``data -> (statistic, rest)``: the statistic before its noise, an array or a tree of them, and everything
        else visible to an observer: queries, counts, shapes. Trees are of tuples, lists and dictionaries.
      first: a data set.
      second: its neighbour.
      order: of the norm for the statistic's move.
    """
    result, neighbour_result = _attempt(run, first), _attempt(run, second)
    if isinstance(result, type) or isinstance(neighbour_result, type):
        names = tuple(got.__name__ if isinstance(got, type) else "returned" for got in (result, neighbour_result))
        return Replay((), 0.0, names[0]) if result is neighbour_result else Replay(names, math.inf)
    (statistic, rest), (neighbour_statistic, neighbour_rest) = result, neighbour_result
    leaves, neighbour_leaves = dict(_leaves("", rest)), dict(_leaves("", neighbour_rest))
    both = leaves.keys() & neighbour_leaves.keys()
    differing = tuple(
        name
        for name in {**leaves, **neighbour_leaves}
        if name not in both or not _same(leaves[name], neighbour_leaves[name])
    )
    ends = [[np.ravel(leaf) for _, leaf in _leaves("", side)] for side in (statistic, neighbour_statistic)]
    if [len(leaf) for leaf in ends[0]] != [len(leaf) for leaf in ends[1]]:
        return Replay(differing, math.inf)
    start, end = (np.concatenate([np.zeros(0), *side]).astype(np.float64) for side in ends)
    with np.errstate(invalid="ignore"):
        moved = np.where((start == end) | (np.isnan(start) & np.isnan(end)), 0.0, end - start)
    return Replay(differing, float(np.linalg.norm(moved, order)) if np.all(np.isfinite(moved)) else math.inf)


def _bounds(correct, wrong, trials, delta, confidence) -> dict[str, np.ndarray]:
    """Bound from counts ``(k,)``. Half of the failure probability for each rate; the other guess has the same ends."""
    tail = (1.0 - confidence) / 2.0
    low = np.where(correct > 0, scipy.stats.beta.ppf(tail, np.maximum(correct, 1), trials - correct + 1), 0.0)
    high = np.where(wrong < trials, scipy.stats.beta.ppf(1.0 - tail, wrong + 1, np.maximum(trials - wrong, 1)), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = [
            np.log(np.maximum(low - delta, 0.0) / high),
            np.log(np.maximum(1.0 - high - delta, 0.0) / (1.0 - low)),
        ]
        mu = scipy.stats.norm.ppf(low) - scipy.stats.norm.ppf(high)
    return {"epsilon": np.maximum(0.0, np.fmax(*needed)), "mu": np.fmax(0.0, mu)}


def _halves(first, second) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Split both into a half to learn from and a half to judge by."""
    both = [checks.reals("scores", scores) for scores in (first, second)]
    shapes = [scores.shape for scores in both]
    if both[0].ndim != 1 or shapes[0] != shapes[1] or len(both[0]) < 4:
        raise ValueError(f"scores must be two vectors of one length, at least 4, got {shapes[0]} and {shapes[1]}")
    if np.any(np.isnan(both)):
        raise ValueError("scores must not be NaN")
    half = len(both[0]) // 2
    return [scores[:half] for scores in both], [scores[half:] for scores in both]


def _thresholds(learnt) -> np.ndarray:
    return np.unique(np.quantile(np.concatenate(learnt), np.linspace(0, 1, THRESHOLDS), method="lower"))


def _above(scores, thresholds) -> np.ndarray:
    """Count how many of each are above each threshold: ``(2, k)``."""
    return np.stack([len(side) - np.searchsorted(np.sort(side), thresholds, side="right") for side in scores])


def _attempt(run, data) -> Any:
    """Return the result, or the class of the error raised."""
    try:
        return run(data)
    except Exception as error:
        return type(error)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and arrays of a tree; an empty or missing part has a name too."""
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, (tuple, list)):
        parts = zip(getattr(value, "_fields", range(len(value))), value, strict=True)
    else:
        yield name, value
        return
    for part, inner in parts:
        yield from _leaves(f"{name}.{part}" if name else str(part), inner)


def _same(first: Any, second: Any) -> bool:
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return bool(np.array_equal(first, second, equal_nan=first.dtype.kind in "fc"))
