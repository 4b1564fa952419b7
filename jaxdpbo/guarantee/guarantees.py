"""The privacy guarantee of a run, as a typed record: never a bare epsilon."""

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from jaxdpbo import accounting, checks, rounding, terminal
from jaxdpbo.guarantee import assumptions as _assumptions
from jaxdpbo.guarantee import guarantee_fields
from jaxdpbo.ledger import ledger_file

NOTIONS = ("gdp", "dp", "ex_post_dp", "zcdp", "metric_dp", "prior_averaged_dp", "none")
CONVERTIBLE = ("gdp", "dp", "ex_post_dp")  # notions with an epsilon at every delta
RELATIONS = ("replace_one", "unit_distance")
NOT = "; NOT "  # in ``protects``, before the records without protection
LEAST = sys.float_info.min  # levels are positive
DELTA = 1e-5  # the default delta of a summary

USERS = ledger_file.USERS  # one wording, so that a ledger adds up all spends on the same users
ALL_ROWS = "all rows, training and validation"
ALL_PEOPLE = "all people of the rows, training and validation"


@dataclass(frozen=True)
class Guarantee:
    """A privacy guarantee.

    Attributes:
      notion: "gdp", "dp", "ex_post_dp", "zcdp", "metric_dp", "prior_averaged_dp" or "none".
      level: the number of the notion: mu, epsilon, the epsilon of this release, rho, epsilon per unit of distance,
        epsilon, inf.
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
      stages: the mechanisms behind the whole release, each a description, a kind and a level: "gaussian" and its mu, or
        "bounded_range" and the range of a choice. ``epsilon`` and ``to_dp`` compose them, more tightly than by their
        GDP level alone. Empty if only the level is stated.
      largest: for "ex_post_dp", the epsilon before the release was known; otherwise None.
      attained: for a selection, an epsilon that some selections with the stated cost of a run need at ``delta``: no
        proof that uses this cost alone can state less. None if no lower bound is known.
      summary_delta: the delta at which summaries and records state an epsilon: the typed delta of the budget, otherwise
        one below ``1 / users``; None if neither is known. Says nothing about the release, so guarantees with
        different values are equal.
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
    stages: tuple[accounting.StageFields, ...] = ()
    largest: float | None = None
    attained: float | None = None
    summary_delta: float | None = field(default=None, compare=False)

    def epsilon(self, delta: float) -> float:
        """The ``epsilon`` of the implied ``(epsilon, delta)``-DP guarantee, under the same assumptions.

        inf for "none", and unless ``delta`` covers the guarantee's own delta plus ``(1 + e^epsilon) total_variation``.
        For "ex_post_dp" this is the epsilon of the release at hand, valid while the release carries its epsilon;
        ``reservation`` gives the epsilon of every release.

        Raises:
          ValueError: "metric_dp" and "prior_averaged_dp" imply no (epsilon, delta)-DP, and that of "zcdp" is not
            computed here; ``delta`` not in (0, 1).
        """
        delta = checks.probability("delta", delta)
        if self.notion == "zcdp":
            raise ValueError("an epsilon of zcdp is not computed here")
        if self.notion in ("metric_dp", "prior_averaged_dp"):
            raise ValueError(f"{self.notion} does not convert to (epsilon, delta)-DP")
        epsilon, before = 0.0, -1.0
        while epsilon > before:  # the share of total variation grows with epsilon: iterate up to the least solution
            before, epsilon = epsilon, max(epsilon, self._ideal_epsilon(delta - self._variation_at(epsilon)))
        return epsilon

    def _variation_at(self, epsilon: float) -> float:
        """The delta that pays for the total variation at ``epsilon``, or at the largest that a release may have."""
        most = min(epsilon if self.largest is None else self.largest, 700.0)
        return (1.0 + math.exp(most)) * self.total_variation if self.total_variation else 0.0

    def _ideal_epsilon(self, delta: float) -> float:
        """The epsilon of ideal noise: the smallest by the level, the second level, and the composed stages."""
        slack = delta - self.delta
        levels = {self.notion: self.level} | dict([self.also] if self.also else [])
        own = levels.get("dp", levels.get("ex_post_dp", math.inf))
        bounds = [math.inf if slack < 0 else own]
        if "gdp" in levels and slack > 0:
            bounds.append(accounting.gdp_epsilon(levels["gdp"], slack))
        if self.stages and delta > 0:
            bounds.append(accounting.stages_epsilon(self.stages, delta))
        return min(bounds)

    def to_dp(self, delta: float) -> "Guarantee":
        """State a "gdp" guarantee as ``(epsilon, delta)``-DP, with the GDP level as ``also``.

        With ``delta=0`` a single choice is stated as pure DP. A ledger of notion "dp" accepts the result. A guarantee
        of notion "dp", "ex_post_dp" or "none" stays as stated.

        >>> from jaxdpbo.guarantee import guarantee
        >>> guarantee("gdp", 0.5, "replace_one", "voters").to_dp(1e-6).claim
        'dp 2.25409 at delta=1e-06 and gdp 0.5 (replace_one) for voters'

        Raises:
          ValueError: another notion, a "gdp" guarantee with a delta of its own, or a ``delta`` not in [0, 1), too small
            for ``total_variation``, or 0 without pure DP.
        """
        delta = checks.number("delta", delta)
        if self.notion in ("dp", "ex_post_dp", "none"):
            return self
        expect_gdp("a guarantee for to_dp", self)
        also = "gdp", self.level
        if delta == 0 and self.also:
            return replace(self, notion="dp", level=self.also[1], parts=(), also=also)
        epsilon = self.epsilon(delta)
        ideal = delta if not self.total_variation else (delta - self._variation_at(epsilon)) * (1 - 2.0**-40)
        if math.isinf(epsilon) or not ideal > 0:
            least = rounding.shorten_up(self.total_variation, 2)
            raise ValueError(f"delta must exceed the total variation of the noise, {least}")
        level = max(epsilon, self._ideal_epsilon(ideal), LEAST)
        alone = ((description, accounting.gdp_epsilon(mu, ideal)) for description, mu in self.parts)
        parts = tuple((description, min(max(cost, LEAST), level)) for description, cost in alone)
        return replace(self, notion="dp", level=level, delta=ideal, parts=parts, also=also)

    @property
    def reservation(self) -> "Guarantee":
        """The guarantee before the release is known: "dp" with the largest epsilon, for "ex_post_dp".

        >>> from jaxdpbo.guarantee import guarantee
        >>> paid = guarantee("ex_post_dp", 0.5, "replace_one", "voters", delta=1e-6, largest=4)
        >>> paid.reservation.claim
        'dp 4 at delta=1e-06 (replace_one) for voters'
        """
        return self if self.largest is None else replace(self, notion="dp", level=self.largest, largest=None)

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
            "stages": [list(stage) for stage in self.stages],
        }

    @property
    def claim(self) -> str:
        """The guarantee in one line, without its assumptions."""
        if self.notion == "none":
            return f"no privacy guarantee for {self.protects}: {self.no_guarantee_reason}"
        up = rounding.shorten_up
        variation = f", total variation at most {up(self.total_variation, 2)}" if self.total_variation else ""
        spent = " and ".join(f"{up(level, 3)} for {description}" for description, level in self.parts)
        parts = f", of which {spent}" if self.parts and self.notion == "gdp" else ""
        parts = f", each part alone {spent}" if self.parts and self.notion != "gdp" else parts
        return f"{self.terms}{parts}{variation} ({self._neighbours}) for {self.protects}"

    @property
    def terms(self) -> str:
        """The notion and its level, with the delta and the second notion."""
        up = rounding.shorten_up
        slack = f" at delta={up(self.delta)}" if self.delta else ""
        also = f" and {self.also[0]} {up(self.also[1])}" if self.also else ""
        also += f", at most {up(self.largest)} before the release was known" if self.largest is not None else ""
        return f"{self.notion} {up(self.level)}{slack}{also}"

    @property
    def users(self) -> str:
        """The protected records, in words."""
        return self.protects.partition(NOT)[0]

    @property
    def unprotected(self) -> str:
        """The records that the guarantee names as not protected, in words; "" for none."""
        return self.protects.partition(NOT)[2]

    @property
    def is_pure(self) -> bool:
        """True for ``epsilon``-DP without a delta or a total variation."""
        return self.notion == "dp" and not self.delta and not self.total_variation

    @property
    def _neighbours(self) -> str:
        """The neighbouring relation, with its unit: rounded down, since a larger one promises more."""
        return f"{self.relation} {rounding.shorten_down(self.unit)}" if self.unit else f"{self.relation}"

    def summary(self, delta: float | None = None) -> str:
        """Explain the guarantee in lines: epsilon at ``delta``, protected and unprotected records, assumptions.

        Without a ``delta``, the epsilon is stated at ``display_delta``.

        The epsilon is rounded up; pure DP shows delta = 0. A notion without an epsilon shows ``claim`` instead.

        >>> from jaxdpbo.guarantee import guarantee
        >>> print(guarantee("gdp", 0.5, "replace_one", "voters").summary(1e-6))
        epsilon = 2.255 at delta = 1e-06
        protects: voters (replace_one)
        in full: gdp 0.5

        Raises:
          ValueError: ``delta`` not in (0, 1).
        """
        delta = self.display_delta if delta is None else delta
        lines = [self.claim]
        if self.notion in CONVERTIBLE:
            pure = self.is_pure
            epsilon = self.level if pure else self.epsilon(delta)
            lines = [
                f"epsilon = {rounding.round_up(epsilon)} at delta = {rounding.shorten_up(0.0 if pure else delta)}",
                f"protects: {self.users} ({self._neighbours})",
                *([f"does NOT protect: {self.unprotected}"] if self.unprotected else []),
                f"in full: {self.claim.removesuffix(f' ({self._neighbours}) for {self.protects}')}",
                *self._describe_attained(),
                *self._describe_largest(),
            ]
        pages = {name: f" [{_assumptions.PAGE}#{section}]" for name, section in _assumptions.SECTIONS.items()}
        conditions = [f"- {name}{pages.get(name, '')}" for name in self.assumptions]
        return "\n".join([*lines, *(["assuming that", *conditions] if conditions else [])])

    def _describe_largest(self) -> list[str]:
        if self.largest is None:
            return []
        return [
            "This release cost the epsilon above. Before the release was known, a cost of up to "
            f"{rounding.round_up(self.largest)} was possible. Keep this guarantee with the release: a copy without "
            "its epsilon costs the larger number."
        ]

    def _describe_attained(self) -> list[str]:
        if self.attained is None:
            return []
        return [
            f"proved epsilon at delta = {rounding.shorten_up(self.delta)}: {rounding.round_up(self.level)}. Some "
            "selections of runs with this cost have an epsilon of at least "
            f"{rounding.round_down(self.attained)}: no proof that uses only this cost can go below"
        ]

    @property
    def display_delta(self) -> float:
        """The first with a finite epsilon of ``summary_delta``, ``delta``, the least possible, and ``DELTA``."""
        own = (self.delta + self._variation_at(self.level)) * (1 + 2.0**-40) if self.notion != "gdp" else 0.0
        deltas = [self.summary_delta or 0.0, self.delta, own, DELTA, 2 * self.delta]
        converts = self.notion in CONVERTIBLE
        finite = (delta for delta in deltas if 0 < delta < 1 and converts and math.isfinite(self.epsilon(delta)))
        return next(finite, DELTA)

    def _repr_html_(self) -> str:
        """The guarantee in words, for notebooks."""
        return terminal.cell(str(self))

    def __str__(self) -> str:
        """The summary at ``display_delta``."""
        return self.summary()


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
    stages: Sequence[accounting.StageFields] = (),
    largest: float | None = None,
) -> Guarantee:
    """Check the fields of a guarantee and build it.

    >>> from jaxdpbo.guarantee import guarantee
    >>> guarantee("gdp", 0.5, "replace_one", "the users").level
    0.5

    Raises:
      ValueError: an unknown notion or relation, a level not positive and finite, a ``delta`` or ``total_variation``
        outside [0, 1), text other than one printable line, a "unit_distance" without ``unit`` or a unit elsewhere,
        parts or stages inconsistent with the level, a second notion inconsistent with the first, or a ``largest`` below
        the level, missing for "ex_post_dp" or given for another notion.
      TypeError: ``assumptions`` is one string instead of a tuple of names; ``parts`` or ``also`` are no pairs, or
        ``stages`` no triples.
    """
    if not isinstance(assumptions, (tuple, list)) or not all(isinstance(name, str) for name in assumptions):
        raise TypeError(f"assumptions must be a tuple of names, got {assumptions!r}")
    for name, value in (("protects", protects), *(("assumptions", assumption) for assumption in assumptions)):
        guarantee_fields.check_text(name, value)
    checks.one_of("notion", notion, NOTIONS[:-1])
    if (checks.one_of("relation", relation, RELATIONS) == "unit_distance") != (unit is not None):
        raise ValueError(f"unit must be given for 'unit_distance' and for no other relation, got {unit!r}")
    delta, total_variation = checks.number("delta", delta), checks.number("total_variation", total_variation)
    for name, value in (("delta", delta), ("total_variation", total_variation)):
        if not 0 <= value < 1:
            raise ValueError(f"{name} must lie in [0, 1), got {value}")
    level = checks.positive("level", level)
    largest = guarantee_fields.check_largest(largest, notion, level)
    also = None if also is None else guarantee_fields.check_also(also, notion)
    return Guarantee(
        notion,
        level,
        relation,
        protects,
        tuple(assumptions),
        delta,
        total_variation=total_variation,
        unit=None if unit is None else checks.positive("unit", unit),
        parts=guarantee_fields.check_parts(parts, notion, level),
        also=also,
        stages=guarantee_fields.check_stages(stages, {notion: level} | dict([also] if also else []), relation, delta),
        largest=largest,
    )


def complete_assumptions(guarantee: Guarantee, *, separable: bool = True) -> Guarantee:
    """Add the assumptions of every algorithm in a driver, where the algorithm states no other in their place.

    An algorithm that says nothing of its noise may draw it in floats.

    Args:
      guarantee: of ``algorithm.privacy(config)``.
      separable: True if the algorithm adds users up, in ``contribute``.
    """
    stated = set(guarantee.assumptions)
    noise = {_assumptions.RANDOM_BITS, _assumptions.IDEAL_NOISE}
    losses = {_assumptions.SEPARABLE_LOSSES, _assumptions.SEPARABLE_GAINS}
    return guarantee.assuming(
        *((_assumptions.RANDOM_BITS, _assumptions.IDEAL_NOISE) if not noise & stated else ()),
        _assumptions.PUBLIC_CONFIG,
        *((_assumptions.SEPARABLE_LOSSES,) if separable and not losses & stated else ()),
    )


def no_guarantee(protects: str, no_guarantee_reason: str) -> Guarantee:
    """Build the guarantee of notion "none", with its reason."""
    reason = guarantee_fields.check_text("no_guarantee_reason", no_guarantee_reason)
    return Guarantee(
        "none", math.inf, None, guarantee_fields.check_text("protects", protects), no_guarantee_reason=reason
    )


def expect_gdp(name: str, guarantee: Guarantee) -> None:
    """Raise unless the level composes as in Gaussian DP, or there is no guarantee.

    Raises:
      ValueError: the guarantee has another notion, or a delta.
    """
    if guarantee.notion not in ("gdp", "none") or guarantee.delta:
        raise ValueError(f"{name} must be GDP for its level to compose, got {guarantee.claim}")


def guarantee_from_dict(fields: dict[str, Any]) -> Guarantee:
    """Read and check a guarantee from ``to_dict``, and assume ``assumptions.UNCHECKED``: a file may hold anything.

    >>> from jaxdpbo.guarantee import guarantee, guarantee_from_dict
    >>> guarantee_from_dict(guarantee("gdp", 0.5, "replace_one", "the users").to_dict()).level
    0.5

    Raises:
      ValueError: the fields are not those of a guarantee.
      TypeError: a field has the wrong type.
    """
    if not isinstance(fields, dict) or set(fields) != set(Guarantee.__dataclass_fields__):
        names = ", ".join(map(repr, fields)) if isinstance(fields, dict) else type(fields).__name__
        raise ValueError(f"a guarantee has {', '.join(Guarantee.__dataclass_fields__)}; got {names}")
    if checks.one_of("notion", fields["notion"], NOTIONS) == "none":
        return no_guarantee(fields["protects"], fields["no_guarantee_reason"])
    summary_delta = fields["summary_delta"]
    summary_delta = None if summary_delta is None else checks.probability("summary_delta", summary_delta)
    names = "assumptions", "delta", "total_variation", "unit", "parts", "also", "stages", "largest"
    rest = {name: fields[name] for name in names}
    checked = guarantee(fields["notion"], fields["level"], fields["relation"], fields["protects"], **rest)
    attained = guarantee_fields.check_attained(fields["attained"], checked.notion, checked.level)
    return replace(checked, attained=attained, summary_delta=summary_delta).assuming(_assumptions.UNCHECKED)
