"""The drawings of a report's page, in SVG without scripts: a trade-off curve, and what a model predicts."""

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

SIDE, MARGIN = 200, 44  # of the trade-off curve, in pixels
WIDTH, HEIGHT, ROW, EDGE = 180, 80, 14, 26  # of a picture of a column; of a row of a choice; of its margins
COLOURS = "#1f5fa8", "#b3541e", "#2a7f3f", "#7a3e9d", "#8a6d00", "#007a87", "#a02c5a", "#555555"


class Dependence(NamedTuple):
    """What a model predicts along one column, other columns at public values.

    Attributes:
      column: its name.
      values: numbers, or choices with None for a missing value.
      predictions: for each output, by its name, a number for each value.
    """

    column: str
    values: tuple[Any, ...]
    predictions: dict[str, tuple[float, ...]]

    @property
    def facts(self) -> dict[str, Any]:
        """JSON types: numbers with four digits, and choices as text."""
        values = [value if value is None or isinstance(value, float) else str(value) for value in self.values]
        return {
            "column": self.column,
            "values": [float(f"{value:.4g}") if isinstance(value, float) else value for value in values],
            "predictions": {
                name: [float(f"{height:.4g}") for height in heights] for name, heights in self.predictions.items()
            },
        }


def trade_off(false_alarms: Sequence[float], detections: Sequence[float]) -> str:
    """The most that an attacker detects, by the rate of false alarms; the diagonal is guessing."""

    def place(x: float, y: float) -> str:
        return f"{MARGIN + SIDE * x:.1f},{8 + SIDE * (1 - y):.1f}"

    line = " ".join(place(x, y) for x, y in zip([0.0, *false_alarms], [0.0, *detections], strict=True))
    low, high = place(0, 0), place(1, 1)
    (left, bottom), (right, top) = low.split(","), high.split(",")
    ticks = "".join(
        f'<text x="{MARGIN + SIDE * at:.1f}" y="{SIDE + 22}" font-size="10" text-anchor="middle">{at:g}</text>'
        f'<text x="{MARGIN - 5}" y="{12 + SIDE * (1 - at):.1f}" font-size="10" text-anchor="end">{at:g}</text>'
        for at in (0, 0.25, 0.5, 0.75, 1)
    )
    return (
        f'<svg viewBox="0 0 {SIDE + MARGIN + 8} {SIDE + MARGIN + 10}" style="max-width: 260px" role="img" '
        'aria-label="Detections by false alarms">'
        f'<rect x="{left}" y="{top}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#bbb"/>'
        f'<line x1="{left}" y1="{bottom}" x2="{right}" y2="{top}" stroke="#999" stroke-dasharray="3 3"/>'
        f'<polyline points="{line}" fill="none" stroke="#1f5fa8" stroke-width="2"/>'
        f"{ticks}"
        f'<text x="{left}" y="{SIDE + 38}" font-size="11">false alarms (dashed: guessing)</text>'
        f'<text x="-{SIDE}" y="12" font-size="11" transform="rotate(-90)">detections, at most</text>'
        "</svg>"
    )


def dependences(found: Sequence[dict[str, Any]]) -> str:
    """A picture for each column, from ``Dependence.facts``, all with one axis of predictions."""
    heights = [height for each in found for line in each["predictions"].values() for height in line]
    low, high = min(heights), max(heights)
    names = [*found[0]["predictions"]]
    if all(name != "prediction" for name in names):
        low, high = 0.0, 1.0  # probabilities
    colours = dict(zip(names, (COLOURS[number % len(COLOURS)] for number in range(len(names))), strict=True))
    said = "; ".join(f'<span style="color: {colours[name]}">&#9632;</span> {escape(name)}' for name in names)
    words = (
        "Each picture moves one column, and keeps the others at public values: numbers at the middle of their ranges, "
        "categories missing. It follows from the released model, and from no row."
    )
    figures = "".join(f"<figure>{_dependence(each, colours, low, high)}</figure>" for each in found)
    return f'<p class="small">{words} {said}</p>\n<div class="many">{figures}</div>'


def _dependence(facts: dict[str, Any], colours: dict[str, str], low: float, high: float) -> str:
    values, span = facts["values"], (high - low) or 1.0
    if all(isinstance(value, float) for value in values):
        drawn, height = _curves(facts, colours, low, span), HEIGHT + EDGE
        named = f"{low:.4g} to {high:.4g}"
    else:
        drawn, height = _rows(facts, colours, low, high), ROW * len(values) + EDGE
        named = ", ".join("missing" if value is None else value for value in values)
    label = escape(f"{facts['column']}: {named}", quote=True)
    title = f'<text x="0" y="11" font-size="11" font-weight="600">{escape(_short(facts["column"], 32))}</text>'
    return f'<svg viewBox="0 0 {WIDTH} {height + 16}" role="img" aria-label="{label}">{title}{drawn}</svg>'


def _curves(facts: dict[str, Any], colours: dict[str, str], low: float, span: float) -> str:
    """A line for each output, by the place of a value in its range: a range in logarithms is drawn so."""
    left, values = 30, facts["values"]
    step = (WIDTH - left - 8) / max(len(values) - 1, 1)
    parts = [f'<rect x="{left}" y="16" width="{WIDTH - left - 8}" height="{HEIGHT}" fill="none" stroke="#bbb"/>']
    for name, heights in facts["predictions"].items():
        line = " ".join(
            f"{left + step * number:.1f},{16 + HEIGHT * (1 - (height - low) / span):.1f}"
            for number, height in enumerate(heights)
        )
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colours[name]}" stroke-width="1.5"/>')
    for at, anchor in ((0, "start"), ((len(values) - 1) // 2, "middle"), (len(values) - 1, "end")):
        parts.append(_number(left + step * at, HEIGHT + 27, values[at], anchor))
    parts += [_number(left - 3, 24, low + span, "end"), _number(left - 3, 16 + HEIGHT, low, "end")]
    return "".join(parts)


def _rows(facts: dict[str, Any], colours: dict[str, str], low: float, high: float) -> str:
    """A row for each choice, with a dot for each output."""
    left, span, parts = 84, (high - low) or 1.0, []
    wide = WIDTH - left - 8
    for number, value in enumerate(facts["values"]):
        middle = 16 + ROW * (number + 0.5)
        name = "missing" if value is None else _short(value, 14)
        parts.append(
            f'<text x="{left - 4}" y="{middle + 3:.1f}" font-size="9" text-anchor="end">{escape(name)}</text>'
            f'<line x1="{left}" x2="{WIDTH - 8}" y1="{middle:.1f}" y2="{middle:.1f}" stroke="#ddd"/>'
        )
        for output, heights in facts["predictions"].items():
            across = left + wide * (heights[number] - low) / span
            parts.append(f'<circle cx="{across:.1f}" cy="{middle:.1f}" r="3.5" fill="{colours[output]}"/>')
    bottom = 16 + ROW * len(facts["values"]) + 11
    parts += [_number(left, bottom, low, "start"), _number(WIDTH - 8, bottom, high, "end")]
    return "".join(parts)


def _number(across: float, down: float, value: float, anchor: str) -> str:
    return f'<text x="{across:.1f}" y="{down:.1f}" font-size="9" text-anchor="{anchor}">{value:.4g}</text>'


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"
