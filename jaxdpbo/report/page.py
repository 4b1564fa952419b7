"""The page of a report: HTML with its style and its drawing inside, for screens, notebooks and two sheets of A4."""

from collections.abc import Sequence
from html import escape
from typing import Any

from jaxdpbo import rounding
from jaxdpbo.report import drawings

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
.jaxdpbo .many { columns: 9.5em; column-gap: 1em; }
.jaxdpbo .many figure { margin: 0 0 .6em; break-inside: avoid; }
.jaxdpbo svg { display: block; width: 100%; height: auto; }
.jaxdpbo svg text { fill: #1a1a1a; font-family: system-ui, sans-serif; }
@media print { @page { size: A4; margin: 14mm; } .jaxdpbo { font-size: 9.5pt; padding: 0; max-width: none; }
  .jaxdpbo tr, .jaxdpbo .sides, .jaxdpbo .approval { break-inside: avoid; }
  .jaxdpbo h2, .jaxdpbo h2 + .small { break-after: avoid; } }
"""
# Every sheet has the title and the hash of the record, so that a signature on the last one is tied to the others.
SHEETS = """
@page { @top-left { content: %s; font: 8pt sans-serif; } @bottom-left { content: %s; font: 8pt sans-serif; }
  @bottom-right { content: counter(page) " of " counter(pages); font: 8pt sans-serif; } }
"""
DIGEST = "SHA-256 of this record"
RELEASED = "SHA-256 of the release"
CHECK = "It is of the JSON file that was saved with this page: jaxdpbo.report.hash_record of its content computes it."
ALONE = "The sentence at the top is of this release alone. A reader of all these releases may tell more."
MEANINGS = {  # of the attributes of an estimator, and of other facts, that a record writes down
    "best_loss_": "the mean loss of the setting, with noise",
    "best_params_": "the chosen setting",
    "classes_": "the labels, in the order of predictions",
    "confusion_": "rows held out by true class (the last: another label) and predicted class, with noise",
    "confusion_deviation_": "the standard deviation of the noise of each number",
    "constant_deviation_": "about the standard deviation of its noise",
    "constant_error_": "the error of always giving the one best answer, with noise",
    "encoding_": "ranges and categories of the columns",
    "error_": "on rows held out from training, with noise, without bias, covered by the guarantee: the share of wrong "
    "predictions; of numbers the mean squared error, over the squared width of their range",
    "error_deviation_": "the standard deviation of its noise",
    "error_interval_": "holds the error on new rows in 95 % of fits, if new rows are like the rows held out",
    "method_": "how settings were searched, and why so",
    "plan": "SHA-256 of the plan that was made before the release, to be signed",
    RELEASED: "of the released numbers, which the model or the run holds: its record computes it again",
    "setting_": "the number of private steps, by a public rule, or the setting that was chosen privately",
    "target_range_": "the range of the numbers to predict",
    "users": "how many are protected, a public number",
}


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
        parts += [f'<p class="small">{ALONE}</p>'] * bool(facts["guarantees"])
    if facts["events"]:
        parts += ["<h2>Events</h2>", _table(facts["events"][0], facts["events"][1:])]
    parts += [
        _assumptions(facts["guarantees"]),
        f"<h2>{'Terms' if facts['planned'] else 'Release'}</h2>",
        _pairs(facts),
    ]
    if facts["dependences"]:
        parts += ["<h2>What the model predicts along each column</h2>", drawings.dependences(facts["dependences"])]
    if facts["notes"]:
        parts += ["<h2>Notes</h2>", _table((), [(note["text"], note["id"]) for note in facts["notes"]])]
    lines = _table(("name and role", "date", "signature"), [("\u00a0",) * 3] * 2, sign=3)
    record = f'<p class="small">Of {escape(facts["title"])}. {DIGEST}: {digest}. {CHECK}</p>'
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
        lines.append(f'<div class="sides">{drawings.trade_off(*guarantee["detection rates"])}<div>{table}</div></div>')
    lines.append(f'<p class="small">For an expert: {escape(guarantee["claim"])}{escape(_stages(guarantee))}</p>')
    return "\n".join(lines)


def _stages(guarantee: dict[str, Any]) -> str:
    """The mechanisms that the guarantee is composed of, each with its level alone, rounded up."""
    stages = [
        f"{name} ({kind.replace('_', ' ')}, alone {rounding.shorten_up(level)})"
        for name, kind, level in guarantee["guarantee"]["stages"]
    ]
    return f". Composed of: {'; '.join(stages)}" if stages else ""


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
        rows.append((RELEASED, facts["fingerprint of the release"]))
    rows += [
        ("record made", facts["created"]),
        ("software", ", ".join(" ".join(pair) for pair in facts["versions"].items())),
    ]
    cells = [f"<td>{escape(name)}</td><td>{escape(str(value))}{_meaning(name)}</td>" for name, value in rows]
    return f"<table class=facts>{''.join(f'<tr>{cell}</tr>' for cell in cells)}</table>"


def _meaning(name: str) -> str:
    return f'<div class="small">{escape(MEANINGS[name])}</div>' if name in MEANINGS else ""


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


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
