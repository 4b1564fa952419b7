"""The register of the papers' claims beside our measurements: docs/results/reproduction.md."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks import report
from benchmarks.papers import rules
from benchmarks.papers.claims import REGISTER, Claim
from benchmarks.tables.markdown import table

NAMES = {"sopa": "Sopa et al.", "kusner": "Kusner et al.", "kharkovskii": "Kharkovskii et al.", "avent": "Avent et al."}
Read = Callable[[str], dict[str, Any] | None]
UNREAD = "not measured"
CONTRADICTIONS = {rules.HOLDS, rules.REVERSED}, {rules.SAME, rules.REVERSED}, {rules.HOLDS, rules.DIFFERS}


class Verdict(NamedTuple):
    """What the page says of a claim.

    Attributes:
      measured: the measurement of the first set of seeds that has the verdict.
      verdict: the verdict of most sets of seeds; ``rules.UNDECIDED`` where there is no majority or sets contradict each
        other, "" where none was measured.
      agree: the number of sets of seeds with this verdict.
      sets: the number of sets that count, 0 for a claim that no run decides.
      commit: the commits of the first counted set, "" if the register had other terms then.
      before: the number of sets that do not count, since the register had other terms then.
    """

    measured: str
    verdict: str
    agree: int = 0
    sets: int = 0
    commit: str = ""
    before: int = 0


def verdict_of(claim: Claim, sets: Sequence[Read]) -> Verdict:
    """Decide a claim by each set of seeds that has all results, under the claim's terms where there is such a set."""
    if claim.rule is None:
        return Verdict(claim.why, claim.verdict)
    every = [[read(name) for name in claim.results] for read in sets]
    complete = [[result for result in results if result is not None] for results in every if None not in results]
    if not complete:
        return Verdict(UNREAD, "")
    fixed = [
        results
        for results in complete
        if all(result.get("claims", {}).get(claim.key) == claim.terms for result in results)
    ]
    counted = fixed or complete
    decided = [claim.rule(*results) for results in counted]
    counts = Counter(verdict for _, verdict in decided)
    verdict, agree = counts.most_common(1)[0]
    if agree <= len(decided) / 2 or any(contradiction <= counts.keys() for contradiction in CONTRADICTIONS):
        verdict, agree = rules.UNDECIDED, counts[rules.UNDECIDED]
    text = next((text for text, outcome in decided if outcome == verdict), decided[0][0])
    commits = dict.fromkeys(result["commit"][:8] for results in fixed[:1] for result in results)
    return Verdict(text, verdict, agree, len(counted), ", ".join(commits), len(complete) - len(counted))


def page(sets: Sequence[Read]) -> str:
    """Counts, and a table for each paper; each set of seeds gives a result by name."""
    verdicts_by_paper = {
        paper: [(claim, verdict_of(claim, sets)) for claim in claims] for paper, claims in REGISTER.items()
    }
    parts = [counts(verdicts_by_paper)]
    for paper, pairs in verdicts_by_paper.items():
        rows = [_row(claim, verdict) for claim, verdict in pairs]
        head = ("where", "the paper says", "measured here, or why", "unit; margin", "verdict", "sets", "terms fixed")
        parts.append(f"## {NAMES[paper]}\n\n" + table(head, rows))
    return "\n\n".join(parts)


def counts(verdicts_by_paper: dict[str, list[tuple[Claim, Verdict]]]) -> str:
    """A table of the number of claims, by verdict and paper."""
    counters = {
        paper: Counter(verdict.verdict or UNREAD for _, verdict in rows) for paper, rows in verdicts_by_paper.items()
    }
    kinds = [kind for kind in (*rules.VERDICTS, UNREAD) if any(counter[kind] for counter in counters.values())]
    rows = [
        (
            kind,
            *(counters[paper][kind] or "" for paper in counters),
            sum(counter[kind] for counter in counters.values()),
        )
        for kind in kinds
    ]
    rows.append(("all", *(len(rows) for rows in verdicts_by_paper.values()), sum(map(len, verdicts_by_paper.values()))))
    repeated = [
        verdict
        for rows in verdicts_by_paper.values()
        for _, verdict in rows
        if verdict.sets > 1 and verdict.verdict not in (rules.UNMEASURED, rules.ONCE)
    ]
    agreeing = [verdict.verdict for verdict in repeated if verdict.agree == verdict.sets]
    note = (
        f"{len(repeated)} claims were measured on disjoint sets of seeds, apart from rows with the verdict "
        f'"{rules.UNMEASURED}" or "{rules.ONCE}". For {len(agreeing)} of them all sets agree, '
        f"for {agreeing.count(rules.UNDECIDED)} of these on undecided."
    )
    return table(("verdict", *(NAMES[paper] for paper in verdicts_by_paper), "all"), rows) + f"\n\n{note}"


def _row(claim: Claim, verdict: Verdict) -> tuple[str, ...]:
    if claim.rule is None:
        tests = f" ({', '.join(f'`{test}`' for test in claim.tests)})" if claim.tests else ""
        return claim.item, claim.says, f"{verdict.measured}{tests}".strip(), "", verdict.verdict, "", ""
    unit = f"{claim.unit}; {claim.margin:g}" if claim.margin else claim.unit
    sets = f"{verdict.agree} of {verdict.sets}" if verdict.sets else ""
    sets += f"; {verdict.before} before" if verdict.before else ""
    fixed = f"by {verdict.commit}" if verdict.commit else "after the run" if verdict.sets else ""
    return claim.item, claim.says, verdict.measured, unit, verdict.verdict, sets, fixed


def stored_sets() -> list[Read]:
    """The committed results: of the first seeds, and of each other set of seeds that some item has."""
    names = {name for claims in REGISTER.values() for claim in claims for name in claim.results}
    others = {other.removeprefix(f"{name}_") for name in names for other in report.other_seeds(name)}

    def reader_of(seeds: str) -> Read:
        return lambda name: report.find_result(f"{name}_{seeds}")

    return [
        report.find_result,
        *map(reader_of, sorted(others, key=lambda seeds: [int(end) for end in seeds.split("-")])),
    ]


def verdicts() -> str:
    return page(stored_sets())


BLOCKS = {"verdicts": verdicts}
