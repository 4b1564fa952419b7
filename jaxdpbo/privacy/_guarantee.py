"""The privacy guarantee of a run, as a typed record: never a bare epsilon."""

import decimal
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from jaxdpbo import _checks
from jaxdpbo.privacy import _accounting, _ledger

NOTIONS = ("gdp", "dp", "metric_dp", "prior_averaged_dp", "none")
RELATIONS = ("replace_one", "unit_distance")
LEAST = sys.float_info.min  # levels are positive
DELTA = 1e-5  # the default delta of a summary

USERS = _ledger.USERS  # one wording, so that a ledger adds up all spends on the same users
ALL_ROWS = "all rows, training and validation"

# Assumptions, in words for the people who answer for the data. A guarantee with no ``assumptions`` always holds.
IDEAL_NOISE = "the noise is made of ideal real numbers, not of floating-point numbers"
KEY_SECRET = "the key that was passed in is secret and is used only once"
PUBLIC_CONFIG = (
    "all settings, the number of users, and the types and shapes of arrays were chosen without the users' data"
)
SEPARABLE_LOSSES = "each user's loss is computed from that user's record alone"
SEPARABLE_GAINS = "each user's gain is computed from that user's record alone"
OWN_ROWS = "row i of the data was made from record i and public values alone, and everything declared public is public"
COMPILED_APART = "XLA compiles a program that keeps users apart to code that keeps them apart, to the last bit"
ROW_OWNERS = "the owner of each row, and the number of rows of each user, are public"
BLOCKS_APART = "a block's loss depends on its own rows and public values alone: its learner keeps nothing between calls"
RUN_COST = "one run, including its score, costs these rows no more than stated for one run"
STAGE_COSTS = "each stage costs these rows no more than stated, for all outputs of the stages before it"
POISSON_BATCHES = (
    "every batch includes each row independently with the stated probability, and nobody learns which rows it includes"
)
FOREIGN_DRAWS = "nobody can distinguish the training library's random draws from ideal ones, or guess their seed"
RUNS_UNKNOWN = "nobody learns the number of runs, from running time or otherwise"
FAILS_BY_NOISE = "failure and stopping of a run depend only on its noised values"
ROWS_APART = "no row is used for both training and validation"
PREDICTED_APART = "the prediction for a record does not depend on the other records that are predicted with it"
SPLIT_UNSEEN = "the split into training and validation records was made without looking at any record"
RANDOM_BITS = "nobody can distinguish the output of the ChaCha20 generator from random bits"
UNCHECKED = "the file that this guarantee was read from is correct, which nobody checked here"
WIRE = "nobody reads the messages between the processes of a run: keys, and sums without noise"
WEAK_KEY = "nobody guesses the key or inverts its generator, which has no security claim"
# Of DP-GP-UCB.
GAUSSIAN_PROCESS = "the utilities of all data sets are one draw of the stated Gaussian process (Assumption 1)"
GAUSSIAN_NOISE = "each utility is observed with independent Gaussian noise of the stated variance"
EXACT_UTILITY = "each utility is observed without noise"
BEST_QUERIES = "every query maximises the upper confidence bound over the box"
COMPUTED_MEAN = "the computed posterior mean is within 0.05 prior standard deviations of the exact one"
EXACT_TRAINING = (
    "w is the exact minimiser of lambda |w|^2 / 2 + a convex loss on public records, lambda is the candidate itself, "
    "and gains and losses are Lipschitz in w as stated"
)

PAGE = "docs/assumptions.md"  # the consequences of a false assumption, and who can check it
SECTIONS = {
    IDEAL_NOISE: "ideal-noise", KEY_SECRET: "key-secret", PUBLIC_CONFIG: "public-configuration",
    SEPARABLE_LOSSES: "separable-losses", SEPARABLE_GAINS: "separable-gains", OWN_ROWS: "own-rows",
    COMPILED_APART: "compiled-apart", ROW_OWNERS: "row-owners", BLOCKS_APART: "blocks-apart",
    PREDICTED_APART: "predicted-apart",
    **dict.fromkeys((RUN_COST, RUNS_UNKNOWN, FAILS_BY_NOISE, ROWS_APART), "private-selection"),
    STAGE_COSTS: "stage-costs", POISSON_BATCHES: "poisson-batches", FOREIGN_DRAWS: "foreign-draws",
    SPLIT_UNSEEN: "split-unseen", RANDOM_BITS: "key-generator", UNCHECKED: "unchecked", WEAK_KEY: "weak-key",
    WIRE: "private-wire",
    **dict.fromkeys((GAUSSIAN_PROCESS, GAUSSIAN_NOISE, EXACT_UTILITY, BEST_QUERIES), "gaussian-process"),
    COMPUTED_MEAN: "computed-mean", EXACT_TRAINING: "exact-training",
}  # fmt: skip


@dataclass(frozen=True)
class Guarantee:
    """A privacy guarantee.

    Attributes:
      notion: "gdp", "dp", "metric_dp", "prior_averaged_dp" or "none".
      level: the number of the notion: mu, epsilon, epsilon per unit of distance, epsilon, inf.
      relation: the neighbouring relation, "replace_one" or "unit_distance"; None for "none".
      protects: the protected users, in words.
      assumptions: the assumptions of the guarantee, by name; if empty, the guarantee holds always.
      delta: additive slack: for every epsilon, add ``delta`` to the delta of the notion.
      no_guarantee_reason: for "none", why there is no guarantee.
      total_variation: the largest total variation distance between the release and a mechanism with this guarantee.
      unit: for "unit_distance", the largest distance between neighbours, in the units of the records; otherwise None.
        Budgets for different units do not add up.
      parts: the parts of the budget, each a description and a level. The parts of "gdp" compose to ``level``; a part of
        "dp" is the cost of the stage alone, at the same ``delta``. Empty if the budget has no parts.
      also: a second notion and level for the same release, with the same ``delta``: "gdp" beside "dp", or "dp" beside
        "gdp". None if there is no second notion.
    """

    notion: str
    level: float
    relation: str | None
    protects: str
    assumptions: tuple[str, ...] = ()
    delta: float = 0.0
    no_guarantee_reason: str = ""
    total_variation: float = 0.0
    unit: float | None = None
    parts: tuple[tuple[str, float], ...] = ()
    also: tuple[str, float] | None = None

    def epsilon(self, delta: float) -> float:
        """The ``epsilon`` of the implied ``(epsilon, delta)``-DP guarantee, under the same assumptions.

        inf for "none", and unless ``delta`` covers the guarantee's own delta plus ``(1 + e^epsilon) total_variation``.

        Raises:
          ValueError: "metric_dp" and "prior_averaged_dp" imply no (epsilon, delta)-DP; ``delta`` not in (0, 1).
        """
        delta = _checks.probability("delta", delta)
        if self.notion in ("metric_dp", "prior_averaged_dp"):
            raise ValueError(f"{self.notion} does not convert to (epsilon, delta)-DP")
        epsilon, before = 0.0, -1.0
        while epsilon > before:  # the share of total variation grows with epsilon: iterate up to the least solution
            remaining = delta - self.delta
            if self.total_variation:
                remaining -= (1.0 + math.exp(min(epsilon, 700.0))) * self.total_variation
            before, epsilon = epsilon, max(epsilon, self._ideal_epsilon(remaining))
        return epsilon

    def _ideal_epsilon(self, delta: float) -> float:
        if self.notion == "none" or delta < 0:
            return math.inf
        levels = {self.notion: self.level} | dict([self.also] if self.also else [])
        pure = levels.get("dp", math.inf)
        return min(pure, _accounting.gdp_epsilon(levels["gdp"], delta)) if "gdp" in levels and delta else pure

    def assuming(self, *names: str) -> "Guarantee":
        """Add assumptions to a copy of the guarantee. "none" has no assumptions."""
        if self.notion == "none":
            return self
        return replace(self, assumptions=tuple(dict.fromkeys(self.assumptions + names)))

    def without(self, name: str) -> "Guarantee":
        """Remove the assumption ``name`` from a copy of the guarantee, for callers with a stronger one instead."""
        return replace(self, assumptions=tuple(assumption for assumption in self.assumptions if assumption != name))

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON types; an infinite level becomes the string "inf"."""
        fields = asdict(self)
        return fields | {
            "level": self.level if math.isfinite(self.level) else "inf",
            "assumptions": list(self.assumptions),
            "parts": [list(part) for part in self.parts],
            "also": None if self.also is None else list(self.also),
        }

    @property
    def claim(self) -> str:
        """The guarantee in one line, without its assumptions."""
        if self.notion == "none":
            return f"no privacy guarantee for {self.protects}: {self.no_guarantee_reason}"
        slack = f", delta={self.delta:g}" if self.delta else ""
        slack += f", total variation at most {self.total_variation:.2g}" if self.total_variation else ""
        spent = " and ".join(f"{level:.3g} for {what}" for what, level in self.parts)
        parts = f", {'of which' if self.notion == 'gdp' else 'alone'} {spent}" if self.parts else ""
        also = f" and {self.also[0]} {self.also[1]:g}" if self.also else ""
        return f"{self.notion} {self.level:g}{also}{parts}{slack} ({self._neighbours}) for {self.protects}"

    @property
    def _neighbours(self) -> str:
        """The neighbouring relation, with its unit."""
        return f"{self.relation} {self.unit:g}" if self.unit else f"{self.relation}"

    def summary(self, delta: float = DELTA) -> str:
        """Explain the guarantee in lines: epsilon at ``delta``, protected and unprotected records, assumptions.

        The epsilon is rounded up; pure DP shows delta = 0. A notion without an epsilon shows ``claim`` instead.

        >>> from jaxdpbo import privacy
        >>> print(privacy.guarantee("gdp", 0.5, "replace_one", "voters").summary(1e-6))
        epsilon = 2.255 at delta = 1e-06
        protects: voters (replace_one)
        in full: gdp 0.5

        Raises:
          ValueError: ``delta`` not in (0, 1).
        """
        lines = [self.claim]
        if self.notion in ("gdp", "dp"):
            pure = self.notion == "dp" and not self.delta and not self.total_variation
            epsilon = self.level if pure else self.epsilon(delta)
            users, _, others = self.protects.partition("; NOT ")
            lines = [
                f"epsilon = {_round_up(epsilon)} at delta = {0.0 if pure else delta:g}",
                f"protects: {users} ({self._neighbours})",
                *([f"does NOT protect: {others}"] if others else []),
                f"in full: {self.claim.removesuffix(f' ({self._neighbours}) for {self.protects}')}",
            ]
        pages = {name: f" [{PAGE}#{section}]" for name, section in SECTIONS.items()}
        conditions = [f"- {name}{pages.get(name, '')}" for name in self.assumptions]
        return "\n".join([*lines, *(["assuming that", *conditions] if conditions else [])])

    def __str__(self) -> str:
        """The summary at the first of ``self.delta``, ``DELTA`` and ``2 * self.delta`` with a finite epsilon."""
        deltas = [delta for delta in (self.delta, DELTA, 2 * self.delta) if 0 < delta < 1]
        converts = self.notion in ("gdp", "dp")
        return self.summary(next((delta for delta in deltas if converts and math.isfinite(self.epsilon(delta))), DELTA))


def guarantee(
    notion: str,
    level: float,
    relation: str,
    protects: str,
    *,
    assumptions: tuple[str, ...] = (),
    delta: float = 0.0,
    total_variation: float = 0.0,
    unit: float | None = None,
    parts: Sequence[tuple[str, float]] = (),
    also: tuple[str, float] | None = None,
) -> Guarantee:
    """Check the fields of a guarantee and build it.

    >>> from jaxdpbo import privacy
    >>> privacy.guarantee("gdp", 0.5, "replace_one", "the users").level
    0.5

    Raises:
      ValueError: an unknown notion or relation, a level not positive and finite, a ``delta`` or ``total_variation``
        outside [0, 1), text other than one printable line, a "unit_distance" without ``unit`` or a unit elsewhere,
        parts inconsistent with the level, or a second notion inconsistent with the first.
      TypeError: ``assumptions`` is one string instead of a tuple of names; ``parts`` or ``also`` are no pairs.
    """
    if not isinstance(assumptions, (tuple, list)) or not all(isinstance(name, str) for name in assumptions):
        raise TypeError(f"assumptions must be a tuple of names, got {assumptions!r}")
    for name, value in (("protects", protects), *(("assumptions", assumption) for assumption in assumptions)):
        _words(name, value)
    _checks.one_of("notion", notion, NOTIONS[:-1])
    if (_checks.one_of("relation", relation, RELATIONS) == "unit_distance") != (unit is not None):
        raise ValueError(f"unit must be given for 'unit_distance' and for no other relation, got {unit!r}")
    delta, total_variation = _checks.number("delta", delta), _checks.number("total_variation", total_variation)
    for name, value in (("delta", delta), ("total_variation", total_variation)):
        if not 0 <= value < 1:
            raise ValueError(f"{name} must lie in [0, 1), got {value}")
    level = _checks.positive("level", level)
    return Guarantee(
        notion,
        level,
        relation,
        protects,
        tuple(assumptions),
        delta,
        total_variation=total_variation,
        unit=None if unit is None else _checks.positive("unit", unit),
        parts=_check_parts(parts, notion, level),
        also=None if also is None else _check_also(also, notion),
    )


def _check_parts(parts: Any, notion: str, level: float) -> tuple[tuple[str, float], ...]:
    """Check pairs of a description and a level against the level of the whole guarantee."""
    pairs = isinstance(parts, (tuple, list)) and all(isinstance(part, (tuple, list)) for part in parts)
    if not pairs or any(len(part) != 2 for part in parts):
        raise TypeError(f"parts must be pairs of words and a level, got {parts!r}")
    items = tuple((_words("parts", what), _checks.positive("parts", share)) for what, share in parts)
    composed = _accounting.compose_gdp_rounded_up(*(share for _, share in items)) if items else level
    if notion == "gdp" and not math.isclose(composed, level, rel_tol=1e-9):
        raise ValueError(f"parts of a gdp guarantee must compose to its level, {level}, got {composed}")
    if notion != "gdp" and any(notion != "dp" or share > level for _, share in items):
        raise ValueError(
            f"parts must belong to a gdp guarantee, or to a dp one and be at most its level, {level}, got {items}"
        )
    return items


def _check_also(also: Any, notion: str) -> tuple[str, float]:
    """Check the second notion and its level against the first notion."""
    if not isinstance(also, (tuple, list)):
        raise TypeError(f"also must be a notion and a level, got {also!r}")
    if len(also) != 2 or not isinstance(also[0], str) or {notion, also[0]} != {"dp", "gdp"}:
        raise ValueError(
            f"also must be a level of 'dp' for a 'gdp' guarantee, or of 'gdp' for a 'dp' one, got {also!r}"
        )
    return also[0], _checks.positive("also", also[1])


def guarantee_from_total(
    total: _accounting.Total, protects: str, *, assumptions: tuple[str, ...] = (), total_variation: float = 0.0
) -> Guarantee:
    """Build the guarantee of composed stages, itemised by stage, for a result to carry and a ledger to charge.

    Formal guarantee: ``(epsilon, delta)``-DP with the epsilon and delta of ``total``, and Gaussian DP but for the same
    ``delta`` (``also``, by ``accounting.gdp_level``), so that ledgers of both notions accept the charge; under
    ``STAGE_COSTS``, ``PUBLIC_CONFIG`` and ``assumptions``. No guarantee if nothing is proved at this ``delta``.

    >>> from jaxdpbo import accounting, privacy
    >>> total = accounting.total([accounting.gaussian_stage(0.5, "a search")], 1e-5)
    >>> privacy.guarantee_from_total(total, "the rows").notion
    'dp'

    Args:
      total: from ``accounting.total``; its stages must be all releases about these rows.
      protects: the protected users, in words.
      assumptions: the assumptions of the stages, by name, such as ``IDEAL_NOISE`` for noise in floats.
      total_variation: a bound on the total variation between all noise and ideal noise.

    Raises:
      TypeError: ``total`` is no ``accounting.Total``.
    """
    if not isinstance(total, _accounting.Total):
        raise TypeError(f"total must be made by accounting.total, got {total!r:.80}")
    if math.isinf(total.epsilon):
        return no_guarantee(protects, f"nothing is proved of these stages at delta={total.delta:g}")
    level, mu = max(total.epsilon, LEAST), _accounting.gdp_level(total.stages, total.delta)
    counts = Counter((item.what, item.epsilon) for item in total.items)
    return guarantee(
        "dp",
        level,
        total.relation,
        protects,
        assumptions=tuple(dict.fromkeys((STAGE_COSTS, PUBLIC_CONFIG, *assumptions))),
        delta=total.delta,
        total_variation=total_variation,
        # A stage is a part of the release, so its cost is at most the total.
        parts=[
            (what if times == 1 else f"{what} (each of {times})", min(max(epsilon, LEAST), level))
            for (what, epsilon), times in counts.items()
        ],
        also=("gdp", max(mu, LEAST)) if math.isfinite(mu) else None,
    )


def no_guarantee(protects: str, no_guarantee_reason: str) -> Guarantee:
    """Build the guarantee of notion "none", with its reason."""
    reason = _words("no_guarantee_reason", no_guarantee_reason)
    return Guarantee("none", math.inf, None, _words("protects", protects), no_guarantee_reason=reason)


def expect_budget(stated: Guarantee, epsilon: float | None, delta: float | None) -> None:
    """Raise if the guarantee exceeds the requested ``(epsilon, delta)``; skip the check if ``epsilon`` is None.

    Raises:
      ValueError: the run draws noise so often that its total variation exceeds the amount reserved by
        ``_requested_budget.requested_mu``.
    """
    if epsilon is not None and delta is not None and stated.epsilon(float(delta)) > float(epsilon):
        raise ValueError(
            f"epsilon={float(epsilon):g} at delta={float(delta):g} can not be guaranteed for so many draws of noise: "
            f"their total variation is {stated.total_variation:.2g}; raise delta"
        )


def expect_gdp(name: str, stated: Guarantee) -> None:
    """Raise unless the level composes as in Gaussian DP, or there is no guarantee.

    Raises:
      ValueError: the guarantee has another notion, or a delta.
    """
    if stated.notion not in ("gdp", "none") or stated.delta:
        raise ValueError(f"{name} must be GDP for its level to compose, got {stated.claim}")


def guarantee_from_dict(fields: dict[str, Any]) -> Guarantee:
    """Read and check a guarantee from ``to_dict``; add the assumption ``UNCHECKED``, since a file may hold anything.

    >>> from jaxdpbo import privacy
    >>> privacy.guarantee_from_dict(privacy.guarantee("gdp", 0.5, "replace_one", "the users").to_dict()).level
    0.5

    Raises:
      ValueError: the fields are not those of a guarantee.
      TypeError: a field has the wrong type.
    """
    if not isinstance(fields, dict) or set(fields) != set(Guarantee.__dataclass_fields__):
        names = ", ".join(map(repr, fields)) if isinstance(fields, dict) else type(fields).__name__
        raise ValueError(f"a guarantee has {', '.join(Guarantee.__dataclass_fields__)}; got {names}")
    if _checks.one_of("notion", fields["notion"], NOTIONS) == "none":
        return no_guarantee(fields["protects"], fields["no_guarantee_reason"])
    rest = {name: fields[name] for name in ("assumptions", "delta", "total_variation", "unit", "parts", "also")}
    stated = guarantee(fields["notion"], fields["level"], fields["relation"], fields["protects"], **rest)
    return stated.assuming(UNCHECKED)


def _round_up(epsilon: float) -> str:
    """Round ``epsilon`` up to four digits."""
    if math.isinf(epsilon) or not epsilon:
        return f"{epsilon:g}"
    number = decimal.Decimal(epsilon)
    last = decimal.Decimal(1).scaleb(number.adjusted() - 3)
    return f"{number.quantize(last, rounding=decimal.ROUND_CEILING):f}"


def _words(name: str, value: Any) -> str:
    """Check that ``value`` is one printable line: guarantees are printed, and read from files."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {value!r}")
    if not value.isprintable() or not value:
        raise ValueError(f"{name} must be one printable line, got {value!r}")
    return value
