"""Checks of a guarantee's fields: they are printed, read from files, and must agree with each other."""

import math
from typing import Any

from jaxdpbo import accounting, checks
from jaxdpbo.types import Unchecked


def check_text(name: str, value: Unchecked) -> str:
    """Check that ``value`` is one printable line: guarantees are printed, and read from files."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {value!r}")
    if not value.isprintable() or not value:
        raise ValueError(f"{name} must be one printable line, got {value!r}")
    return value


def check_parts(parts: Unchecked, notion: str, level: float) -> tuple[tuple[str, float], ...]:
    """Check pairs of a description and a level against the level of the whole guarantee."""
    rows = _rows("parts must be pairs of words and a level", parts, 2)
    items = tuple((check_text("parts", description), checks.positive("parts", share)) for description, share in rows)
    composed = accounting.compose_gdp_rounded_up(*(share for _, share in items)) if items else level
    if notion == "gdp" and not math.isclose(composed, level, rel_tol=1e-9):
        raise ValueError(f"parts of a gdp guarantee must compose to its level, {level}, got {composed}")
    if notion != "gdp" and any(notion != "dp" or share > level for _, share in items):
        raise ValueError(
            f"parts must belong to a gdp guarantee, or to a dp one and be at most its level, {level}, got {items}"
        )
    return items


def check_also(also: Unchecked, notion: str) -> tuple[str, float]:
    """Check the second notion and its level against the first notion."""
    if not isinstance(also, (tuple, list)):
        raise TypeError(f"also must be a notion and a level, got {also!r}")
    if len(also) != 2 or not isinstance(also[0], str) or {notion, also[0]} != {"dp", "gdp"}:
        raise ValueError(
            f"also must be a level of 'dp' for a 'gdp' guarantee, or of 'gdp' for a 'dp' one, got {also!r}"
        )
    return also[0], checks.positive("also", also[1])


def check_largest(largest: Unchecked, notion: str, level: float) -> float | None:
    """Check the epsilon of any release, of "ex_post_dp" alone."""
    if (notion == "ex_post_dp") != (largest is not None):
        raise ValueError(f"largest must be given for 'ex_post_dp' and for no other notion, got {largest!r}")
    if largest is None:
        return None
    checked = checks.positive("largest", largest)
    if checked < level:
        raise ValueError(f"largest must be at least the level, {level}, got {checked}")
    return checked


def check_attained(attained: Unchecked, notion: str, level: float) -> float | None:
    """Check the lower bound beside the epsilon of a "dp" guarantee."""
    if attained is None:
        return None
    checked = checks.nonnegative("attained", attained)
    if notion != "dp" or checked > level:
        raise ValueError(f"attained must belong to a dp guarantee and be at most its level, {level}, got {checked}")
    return checked


def check_stages(
    stages: Unchecked, levels: dict[str, float], relation: str, delta: float
) -> tuple[accounting.StageFields, ...]:
    """Check the fields of stages, and their composition against the levels of the whole guarantee."""
    rows = _rows("stages must be triples of words, a kind and a level", stages, 3)
    checked = tuple(
        (check_text("stages", description), kind, checks.positive("stages", level)) for description, kind, level in rows
    )
    if not checked:
        return ()
    if relation != "replace_one":
        raise ValueError(f"stages must belong to a guarantee for 'replace_one', got {relation!r}")
    _expect_levels(checked, levels, delta)
    return checked


def _rows(rule: str, value: Any, length: int) -> list[Any]:
    """The rows of a sequence of sequences of this length. Raise a TypeError with the rule for others."""
    if not isinstance(value, (tuple, list)) or not all(isinstance(row, (tuple, list)) for row in value):
        raise TypeError(f"{rule}, got {value!r}")
    if any(len(row) != length for row in value):
        raise TypeError(f"{rule}, got {value!r}")
    return list(value)


def _expect_levels(stages: tuple[accounting.StageFields, ...], levels: dict[str, float], delta: float) -> None:
    """Raise unless the stages compose to the GDP level, and cost no more than the level of "dp"; but for rounding."""
    level = accounting.gdp_level([accounting.stage_from_fields(*stage) for stage in stages])
    if not math.isclose(level, levels.get("gdp", 0.0), rel_tol=1e-9):
        raise ValueError(f"stages must compose to the gdp level of the guarantee, {level}, got {levels}")
    ranges = (level if kind == "bounded_range" else math.inf for _, kind, level in stages)
    composed = accounting.stages_epsilon(stages, delta) if delta else math.fsum(ranges)
    if "dp" in levels and composed > levels["dp"] * (1 + 1e-9):
        raise ValueError(f"stages must compose to the dp level of the guarantee or less, got {levels}")
