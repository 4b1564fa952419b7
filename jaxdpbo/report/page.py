"""The page of a report: HTML with its style and its drawing inside, for screens, notebooks and two sheets of A4."""

from collections.abc import Sequence
from html import escape
from typing import Any

from jaxdpbo import rounding

STYLE = """
.jaxdpbo { color: #1a1a1a; background: #fff; font: 15px/1.45 system-ui, sans-serif; max-width: 52em; margin: 0 auto;
  padding: 1em; }
.jaxdpbo h1 { font-size: 1.5em; margin: 0 0 .2em; padding: 0; }
.jaxdpbo h2 { font-size: 1.1em; margin: 1.2em 0 .3em; padding: 0; border-radius: 0; border-bottom: 1px solid #ccc; }
.jaxdpbo p { margin: .3em 0; }
.jaxdpbo .main { font-size: 1.15em; font-weight: 600; }
.jaxdpbo .not { color: #9a1c1c; font-weight: 600; }
.jaxdpbo .small { color: #555; font-size: .85em; overflow-wrap: anywhere; }
.jaxdpbo table { border-collapse: collapse; width: 100%; }
.jaxdpbo th, .jaxdpbo td { text-align: left; vertical-align: top; padding: .2em .5em .2em 0;
  border-bottom: 1px solid #eee; }
.jaxdpbo td { overflow-wrap: break-word; }
.jaxdpbo .facts td:last-child { overflow-wrap: anywhere; }
.jaxdpbo tr:nth-child(n):nth-child(n) { background: none; }
.jaxdpbo.jaxdpbo table { margin: 0; font-size: inherit; }
.jaxdpbo.jaxdpbo :is(th, td, tr) { text-align: left; }
.jaxdpbo td.sign { border-bottom: 1px solid #1a1a1a; min-width: 9em; }
@media screen and (max-width: 40em) { .jaxdpbo table { font-size: .85em; } .jaxdpbo td.sign { min-width: 4em; } }
.jaxdpbo .sides { display: flex; flex-wrap: wrap; gap: 1.5em; align-items: flex-start; }
.jaxdpbo .sides > * { flex: 1 1 15em; }
@media print { @page { size: A4; margin: 14mm; } .jaxdpbo { font-size: 9.5pt; padding: 0; max-width: none; }
  .jaxdpbo tr, .jaxdpbo .sides, .jaxdpbo .approval { break-inside: avoid; } .jaxdpbo h2 { break-after: avoid; } }
"""
# Every sheet has the title and the hash of the record, so that a signature on the last one is tied to the others.
SHEETS = """
@page { @top-left { content: %s; font: 8pt sans-serif; } @bottom-left { content: %s; font: 8pt sans-serif; }
  @bottom-right { content: counter(page) " of " counter(pages); font: 8pt sans-serif; } }
"""
DIGEST = "SHA-256 of this record"
SIDE, MARGIN = 200, 44  # of the drawing, in pixels


def page(facts: dict[str, Any], digest: str) -> str:
    """A whole file; ``facts`` and ``digest``: of ``Report``."""
    title = _title(facts)
    head = f'<head><meta charset="utf-8"><title>{escape(title)}</title>'
    head += f"<style>{SHEETS % (_css_text(title), _css_text(f'{DIGEST}: {digest}'))}</style>"
    head += '<meta name="viewport" content="width=device-width"></head>'
    return f'<!doctype html>\n<html lang="en">\n{head}\n<body>\n{fragment(facts, digest)}\n</body>\n</html>\n'


def _title(facts: dict[str, Any]) -> str:
    return f"Privacy {'plan' if facts['planned'] else 'record'}: {facts['title']}"


def _css_text(text: str) -> str:
    """A string of CSS: all but letters, digits and spaces by number, since a title may hold anything."""
    plain = (sign if sign.isascii() and (sign.isalnum() or sign == " ") else f"\\{ord(sign):x} " for sign in text)
    return f'"{"".join(plain)}"'


def fragment(facts: dict[str, Any], digest: str) -> str:
    """The record alone, with its style, for a cell of a notebook."""
    parts = [f"<h1>{escape(_title(facts))}</h1>"]
    if facts["planned"]:
        parts.append("<p class='main'>A plan: nothing was charged yet. This is what the release will spend.</p>")
    parts += [_guarantee(guarantee) for guarantee in facts["guarantees"]] or [
        "<p class='main'>Nothing was released.</p>"
    ]
    if facts["spends"]:
        parts += ["<h2>Budget</h2>", _table(facts["spends"][0], facts["spends"][1:])]
    if facts["events"]:
        parts += ["<h2>Events</h2>", _table(facts["events"][0], facts["events"][1:])]
    parts += [
        _assumptions(facts["guarantees"]),
        f"<h2>{'Terms' if facts['planned'] else 'Release'}</h2>",
        _pairs(facts),
    ]
    if facts["notes"]:
        parts += ["<h2>Notes</h2>", _table((), [(note["text"], note["id"]) for note in facts["notes"]])]
    lines = _table(("name and role", "date", "signature"), [("\u00a0",) * 3] * 2, sign=3)
    record = f'<p class="small">Of {escape(facts["title"])}. {DIGEST}: {digest}</p>'
    parts.append(f'<div class="approval"><h2>Approval</h2>{record}{lines}</div>')
    return f'<style>{STYLE}</style>\n<div class="jaxdpbo">\n' + "\n".join(parts) + "\n</div>"


def _guarantee(guarantee: dict[str, Any]) -> str:
    lines = [
        f"<h2>{escape(_capital(guarantee['protects']))}</h2>",
        f'<p class="main">{escape(guarantee["sentence"])}</p>',
    ]
    if "epsilon" in guarantee:
        delta, before = rounding.shorten_up(guarantee["delta"]), guarantee["epsilon before the release"]
        at = f"epsilon = {guarantee['epsilon']} at delta = {delta}, for {guarantee['neighbours']}."
        at += f" Before the release was known: {before}." if before != guarantee["epsilon"] else ""
        lines.append(f"<p>{escape(at)}</p>")
    if guarantee["does not protect"]:
        lines.append(f'<p class="not">NOT protected: {escape(guarantee["does not protect"])}.</p>')
    if "epsilon" in guarantee:
        groups = [
            (_people(size), *(("no bound", "") if epsilon == "inf" else (epsilon, delta)))
            for size, epsilon, delta in guarantee["groups"]
        ]
        table = _table(("replaced together", "epsilon", "delta"), groups)
        lines.append(f'<div class="sides">{_drawing(*guarantee["detection rates"])}<div>{table}</div></div>')
    lines.append(f'<p class="small">For an expert: {escape(guarantee["claim"])}</p>')
    return "\n".join(lines)


def _people(size: int) -> str:
    return {1: "1 user", 4: "4 users, such as a household"}.get(size, f"{size} users")


def _assumptions(guarantees: Sequence[dict[str, Any]]) -> str:
    rows = {row["assumption"]: row["checked by"] for guarantee in guarantees for row in guarantee["assumptions"]}
    if not rows:
        return ""
    table = _table(
        ("assumption", "who can check", "checked by, date"), [(*row, "\u00a0") for row in rows.items()], sign=1
    )
    return f"<h2>The guarantee holds if</h2>\n{table}"


def _pairs(facts: dict[str, Any]) -> str:
    rows = [*facts["details"].items()]
    if facts["fingerprint of the release"]:
        rows.append(("SHA-256 of the release", facts["fingerprint of the release"]))
    rows += [
        ("record made", facts["created"]),
        ("software", ", ".join(" ".join(pair) for pair in facts["versions"].items())),
    ]
    return _table((), rows).replace("<table>", "<table class=facts>", 1)


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]], sign: int = 0) -> str:
    """A table; the last ``sign`` cells of a row are lines to write on."""
    head = "".join(f"<th>{escape(str(cell))}</th>" for cell in header)
    lines = [f"<tr>{head}</tr>"] * bool(header)
    for row in rows:
        cells = [
            f"<td{' class=sign' if place >= len(row) - sign else ''}>{escape(str(cell))}</td>"
            for place, cell in enumerate(row)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _drawing(false_alarms: Sequence[float], detections: Sequence[float]) -> str:
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


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
