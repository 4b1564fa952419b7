"""Checks of a guarantee's fields: they are printed, read from files, and must agree with each other."""

import math
from typing import Any

from jaxdpbo import _checks
from jaxdpbo.privacy import _accounting


def check_words(name: str, value: Any) -> str:
    """Check that ``value`` is one printable line: guarantees are printed, and read from files."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {value!r}")
    if not value.isprintable() or not value:
        raise ValueError(f"{name} must be one printable line, got {value!r}")
    return value


def check_parts(parts: Any, notion: str, level: float) -> tuple[tuple[str, float], ...]:
    """Check pairs of a description and a level against the level of the whole guarantee."""
    pairs = isinstance(parts, (tuple, list)) and all(isinstance(part, (tuple, list)) for part in parts)
    if not pairs or any(len(part) != 2 for part in parts):
        raise TypeError(f"parts must be pairs of words and a level, got {parts!r}")
    items = tuple((check_words("parts", what), _checks.positive("parts", share)) for what, share in parts)
    composed = _accounting.compose_gdp_rounded_up(*(share for _, share in items)) if items else level
    if notion == "gdp" and not math.isclose(composed, level, rel_tol=1e-9):
        raise ValueError(f"parts of a gdp guarantee must compose to its level, {level}, got {composed}")
    if notion != "gdp" and any(notion != "dp" or share > level for _, share in items):
        raise ValueError(
            f"parts must belong to a gdp guarantee, or to a dp one and be at most its level, {level}, got {items}"
        )
    return items


def check_also(also: Any, notion: str) -> tuple[str, float]:
    """Check the second notion and its level against the first notion."""
    if not isinstance(also, (tuple, list)):
        raise TypeError(f"also must be a notion and a level, got {also!r}")
    if len(also) != 2 or not isinstance(also[0], str) or {notion, also[0]} != {"dp", "gdp"}:
        raise ValueError(
            f"also must be a level of 'dp' for a 'gdp' guarantee, or of 'gdp' for a 'dp' one, got {also!r}"
        )
    return also[0], _checks.positive("also", also[1])


def check_stages(stages: Any, levels: dict[str, float], delta: float) -> tuple[_accounting.StageFields, ...]:
    """Check that the stages' fields are those of stages, and that the levels cover them."""
    fields = isinstance(stages, (tuple, list)) and all(isinstance(stage, (tuple, list)) for stage in stages)
    if not fields or any(len(stage) != 3 for stage in stages):
        raise TypeError(f"stages must be triples of words, a kind and a level, got {stages!r}")
    checked = tuple(
        (check_words("stages", what), kind, _checks.positive("stages", level)) for what, kind, level in stages
    )
    if not checked:
        return ()
    made = [_accounting.stage_of_fields(*stage) for stage in checked]
    if "gdp" not in levels or _accounting.gdp_level(made) > levels["gdp"] * (1 + 1e-9):
        raise ValueError(f"stages must compose to the gdp level of the guarantee or less, got {levels}")
    ranges = [level if kind == "bounded_range" else math.inf for _, kind, level in checked]
    composed = _accounting.composed_epsilon(checked, delta) if delta else math.fsum(ranges)
    if "dp" in levels and composed > levels["dp"] * (1 + 1e-9):
        raise ValueError(f"stages must compose to the dp level of the guarantee or less, got {levels}")
    return checked
