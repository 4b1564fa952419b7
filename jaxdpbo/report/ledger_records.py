"""The record of ledgers: all releases that they paid for, added up by the people they protect."""

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from jaxdpbo import accounting, checks, rounding
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.ledger import ledger_file
from jaxdpbo.report import odds, records

HUGE = Fraction(2) ** 1000  # a float holds it
LEVEL_UP = 1 + 2.0**-40  # a sum of fractions in a float, rounded up
WHOLE = "whole budget: the guarantee if earlier releases led to later runs"
SUM = (
    "the squares of the runs' GDP levels were added up; the record of a single run composes the run's mechanisms, and "
    "states an epsilon that is no larger"
)
WITH_EPSILON = ("gdp", "dp")
Day = str | datetime.date


@dataclass(frozen=True)
class _Book:
    """A ledger: its file's name, its account, the warning of its mark, and the hash of its first line."""

    name: str
    account: ledger_file.Account
    warning: str
    first: str


def ledger_report(
    path: str | ledger_file.Place | Sequence[str | ledger_file.Place],
    *,
    delta: float | None = None,
    since: Day | None = None,
    until: Day | None = None,
) -> records.Report:
    """Make the record of all releases that a ledger, or several, paid for.

    Spends of ledgers that protect the same people, in the same words, are added up: there is a guarantee for each group
    of people, of all releases on record up to the last day. A first day hides earlier rows, never their cost.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from jaxdpbo import ledger, report
    >>> path = Path(tempfile.mkdtemp()) / "budget.jsonl"
    >>> ledger.create(path, mu=2)
    >>> report.ledger_report(path).spends[0][:3]
    ('when', 'run', 'what')

    Args:
      path: the path of a ledger, or a list of paths.
      delta: in (0, 1): the delta to state an epsilon at; by default the largest delta typed beside a ledger's epsilon,
        or 1e-5. Choose a delta below one over the number of users.
      since: the first day of the table, in UTC, such as "2026-01-01".
      until: the last day of the record.

    Raises:
      ledger.LedgerError: a file is damaged, or no ledger.
      ValueError: ``delta`` is out of range, or too small for the delta or the total variation of a ledger; a day is no
        date; no path, or two copies of one ledger.
    """
    paths = [path] if isinstance(path, (str, Path, ledger_file.Address)) else list(path)
    first, last = _day("since", since), _day("until", until)
    books = [_until(book, last) for book in _open_books(paths)]
    groups = _groups([book.account for book in books], None if delta is None else checks.probability("delta", delta))
    if delta is not None:
        for group in groups:
            _expect_delta(delta, (*_spent(group), *_budget_guarantee(group.budget)))
    inside = _Period(first, last)
    title = f"the ledger {books[0].name}" if len(books) == 1 else f"{len(books)} ledgers"
    guarantees = tuple(found for group in groups for found in _spent(group))
    return records.Report(
        title + inside.words,
        guarantees,
        _details(books, groups, inside),
        "",
        records.now(),
        records.versions(),
        _spend_rows(books, inside),
        _event_rows(books, inside),
        tuple({"name": book.name} | ledger_file.to_dict(book.account) for book in books),
    )


def describe_epsilons(path: str | ledger_file.Place) -> list[str]:
    """The epsilons of a ledger's budget and of its spends together, a line each; none for notions without epsilon."""
    record = ledger_report(path)
    lines = [f"budget: {record.details[WHOLE]}"] if WHOLE in record.details else []
    for guarantee in map(records.describe, record.guarantees):
        if "epsilon" in guarantee:
            at = rounding.shorten_up(guarantee["delta"])
            lines.append(f"spent: epsilon = {guarantee['epsilon']} at delta = {at}")
    return lines


def charge_rows(path: str | ledger_file.Place, run: str) -> tuple[tuple[str, ...], ...]:
    """What a run was charged, and what its ledger has left, a row each after a header, for the record of the run."""
    account = ledger_file.account(path)
    own = tuple(entry for entry in account.spends if entry.run == run)
    alone = account._replace(spends=own, spent=ledger_file.add_up(own))
    (charged, sums), own_row = map(_short_sums, (alone, account)), f"this release, run {run!r}"
    epsilons = describe_epsilons(path) if account.budget.notion == "gdp" else []
    return (
        (f"ledger {ledger_file.find_place(path).name}", ledger_file.COSTS[account.budget.notion], "delta"),
        ("budget", *sums["budget"]),
        (own_row, *charged["spent"]),
        ("spent by all runs so far", *sums["spent"]),
        ("left", *sums["left"]),
        *((f"in epsilon, {words}", "", "") for words in epsilons),
    )


def _short_sums(account: ledger_file.Account) -> dict[str, tuple[str, ...]]:
    """The sums of an account in four digits: spends rounded up, the budget and what is left down."""
    rounds = {"budget": rounding.shorten_down, "spent": rounding.shorten_up, "left": rounding.shorten_down}
    cells = ledger_file.sum_cells(account)  # rounded to six digits, both by one rule
    return {name: tuple(rounds[name](float(text), 4) for text in texts) for name, texts in cells.items()}


# Ledgers and days


def _open_books(paths: Sequence[str | ledger_file.Place]) -> list[_Book]:
    if not paths:
        raise ValueError("path must be the path of a ledger, or a list of paths, got none")
    places = [ledger_file.find_place(path) for path in paths]
    books = [
        _Book(
            path.name,
            ledger_file.account(path),
            ledger_file.mark_warning(path),
            ledger_file.read_identity(path)[1],
        )
        for path in places
    ]
    if len({book.first for book in books}) < len(books):
        raise ValueError(f"path must name each ledger once, got copies of one: {', '.join(map(str, places))}")
    names = [book.name for book in books]
    if len(set(names)) < len(names):
        books = [replace(book, name=str(path)) for path, book in zip(places, books, strict=True)]
    return books


@dataclass(frozen=True)
class _Period:
    """The days of a table, both included; None for no limit."""

    first: datetime.date | None
    last: datetime.date | None

    def __contains__(self, when: str) -> bool:
        day = _date(when)
        return (self.first is None or day >= self.first) and (self.last is None or day <= self.last)

    @property
    def words(self) -> str:
        """The days, for a title."""
        since = "" if self.first is None else f" since {self.first}"
        return since + ("" if self.last is None else f" until {self.last}")


def _day(name: str, value: Any) -> datetime.date | None:
    if value is None or type(value) is datetime.date:
        return value
    try:
        return datetime.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a day such as '2026-01-01', got {value!r}") from None


def _date(when: str) -> datetime.date:
    return datetime.datetime.fromisoformat(when).astimezone(datetime.UTC).date()


def _until(book: _Book, last: datetime.date | None) -> _Book:
    """The ledger with what it charged up to a day."""
    if last is None:
        return book
    account = book.account
    number = max((entry.number for entry in account.spends if _date(entry.when) <= last), default=0)
    spends = tuple(entry for entry in account.spends if entry.number <= number)  # the clock of a line may be ahead
    spent = ledger_file.add_up(spends)
    budget = map(sum, zip(account.left, account.spent, strict=True))
    left = ledger_file.Amounts(*(has - used for has, used in zip(budget, spent, strict=True)))
    return replace(book, account=account._replace(spends=spends, spent=spent, left=left))


# Sums by people


def _groups(accounts: Sequence[ledger_file.Account], delta: float | None) -> list[ledger_file.Account]:
    """One account for each group of people, relation and notion; GDP and DP of one group add up as GDP."""
    groups: dict[tuple[Any, ...], list[ledger_file.Account]] = {}
    for account in accounts:
        budget = account.budget
        groups.setdefault((budget.protects, budget.relation, budget.unit), []).append(account)
    return [_with_delta(_add(group), delta) for together in groups.values() for group in _by_notion(together)]


def _by_notion(accounts: list[ledger_file.Account]) -> list[list[ledger_file.Account]]:
    """Accounts that add up, together."""
    notions = {account.budget.notion for account in accounts}
    if notions >= set(WITH_EPSILON):
        converted = [_as_gdp(account) for account in accounts if account.budget.notion in WITH_EPSILON]
        if None not in converted:
            rest = [account for account in accounts if account.budget.notion not in WITH_EPSILON]
            return [[account for account in converted if account is not None], *_by_notion(rest)]
    return [[account for account in accounts if account.budget.notion == notion] for notion in sorted(notions)]


def _as_gdp(account: ledger_file.Account) -> ledger_file.Account | None:
    """An account of DP in GDP: an (epsilon, delta)-DP release is GDP but for its delta, by the range of its log-ratios.

    What an ex-post release did not pay back stays charged. None beyond the floats.
    """
    if account.budget.notion == "gdp":
        return account
    if account.budget.level > HUGE or any(entry.spend.events[0].level > HUGE for entry in account.spends):
        return None
    spends = tuple(
        entry._replace(
            spend=entry.spend._replace(
                events=tuple(event._replace(type="gdp", level=_gdp_level(event.level)) for event in entry.spend.events),
                ex_post=False,
            ),
            paid=None,
        )
        for entry in account.spends
    )
    budget = account.budget._replace(notion="gdp", level=_gdp_level(account.budget.level))
    return account._replace(budget=budget, spends=spends, spent=ledger_file.add_up(spends))


def _gdp_level(epsilon: Fraction) -> Fraction:
    """The level in GDP of a DP release; docs/theorems.md, as for a charge (``recording.charge_run``)."""
    return Fraction(max(accounting.bounded_range_mu(2 * _float_up(epsilon)), _guarantee.LEAST))


def _add(accounts: list[ledger_file.Account]) -> ledger_file.Account:
    """The accounts of one group of people together."""
    one, *others = accounts
    if not others:
        return one
    budgets = [account.budget for account in accounts]
    levels = [budget.level for budget in budgets]
    level = sum(levels, Fraction())
    if one.budget.notion == "gdp":
        squares = sum((exact**2 for exact in levels), Fraction())
        level = Fraction(float(squares) ** 0.5 * LEVEL_UP) if squares <= HUGE else HUGE + 1
    typed = [budget.summary_delta for budget in budgets if budget.summary_delta is not None]
    budget = one.budget._replace(
        level=level,
        delta=sum((each.delta for each in budgets), Fraction()),
        total_variation=sum((each.total_variation for each in budgets), Fraction()),
        summary_delta=max(typed, default=None),
    )
    spends = tuple(entry for account in accounts for entry in account.spends)
    assumptions = tuple(dict.fromkeys(name for account in accounts for name in account.assumptions))
    return one._replace(budget=budget, spends=spends, assumptions=assumptions, spent=ledger_file.add_up(spends))


def _with_delta(account: ledger_file.Account, delta: float | None) -> ledger_file.Account:
    return account if delta is None else account._replace(budget=account.budget._replace(summary_delta=Fraction(delta)))


def _not_added_up(groups: Sequence[ledger_file.Account]) -> str:
    """The people for whom several sums stand apart."""
    apart: dict[str, list[str]] = {}
    for budget in (group.budget for group in groups):
        apart.setdefault(budget.protects, []).append(f"{budget.notion} ({budget.relation})")
    return "; ".join(f"for {people}: {' and '.join(kinds)}" for people, kinds in apart.items() if len(kinds) > 1)


# Guarantees


def _expect_delta(delta: float, guarantees: tuple[_guarantee.Guarantee, ...]) -> None:
    """Raise if a guarantee would be stated at another delta than the requested one."""
    deltas = [odds.display_delta(guarantee) for guarantee in guarantees if guarantee.notion in _guarantee.CONVERTIBLE]
    if any(stated not in (0.0, delta) for stated in deltas):
        raise ValueError(
            "delta must leave an epsilon for the ledger's own delta and total variation, such as "
            f"{rounding.shorten_up(max(deltas))}, got {delta}"
        )


def _spent(account: ledger_file.Account) -> tuple[_guarantee.Guarantee, ...]:
    """The guarantee of all releases together; none if nothing was spent.

    With ex-post releases the sum is known only from the releases: before them, the budget was possible.
    """
    budget, spent = account.budget, account.spent
    if not account.spends:
        return ()
    if spent.cost > HUGE:
        return (_guarantee.no_guarantee(budget.protects, "the runs together cost more than a float holds"),)
    cost = float(spent.cost) ** 0.5 * LEVEL_UP if budget.notion == "gdp" else _float_up(spent.cost)
    ex_post = any(entry.spend.ex_post for entry in account.spends)
    guarantee = _guarantee.Guarantee(
        "ex_post_dp" if ex_post else budget.notion,
        max(cost, _guarantee.LEAST),
        budget.relation,
        budget.protects,
        assumptions=account.assumptions,
        delta=_float_up(budget.delta if ex_post else spent.delta),
        total_variation=_float_up(budget.total_variation if ex_post else spent.total_variation),
        largest=_float_up(min(budget.level, HUGE)) if ex_post else None,
        unit=None if budget.unit is None else float(budget.unit),
        summary_delta=_summary_delta(budget),
    )
    return (guarantee,)


def _budget_guarantee(budget: ledger_file.Budget) -> tuple[_guarantee.Guarantee, ...]:
    """The guarantee of the budget, which holds however the runs were chosen; none beyond the floats."""
    if budget.level > HUGE:
        return ()
    guarantee = _guarantee.Guarantee(
        budget.notion,
        max(_float_up(budget.level), _guarantee.LEAST),
        budget.relation,
        budget.protects,
        delta=_float_up(budget.delta),
        total_variation=_float_up(budget.total_variation),
        unit=None if budget.unit is None else float(budget.unit),
        summary_delta=_summary_delta(budget),
    )
    return (guarantee,)


def _summary_delta(budget: ledger_file.Budget) -> float | None:
    return None if budget.summary_delta is None else float(budget.summary_delta)


def _float_up(exact: Fraction) -> float:
    """The least float that is no less."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


# Words and tables


def _details(books: Sequence[_Book], groups: Sequence[ledger_file.Account], inside: _Period) -> dict[str, str]:
    """Public facts of all ledgers, and the sums of each group in words."""
    details: dict[str, str] = {}
    for book in books:
        prefix = f"{book.name}: " if len(books) > 1 else ""
        details |= {prefix + name: text for name, text in _facts(book).items()}
    for group in groups:
        budget = group.budget
        unit = "" if budget.unit is None else f" {float(budget.unit):g}"
        whose = f", of {budget.protects} ({budget.notion}, {budget.relation}{unit})" if len(groups) > 1 else ""
        details |= {name + whose: text for name, text in _sums(group, inside).items()}
    missing = _not_added_up(groups)
    return details | ({"NOT added up": missing} if missing else {})


def _facts(book: _Book) -> dict[str, str]:
    """Public facts of a ledger, by name."""
    account = book.account
    facts = {"ledger": book.name, "last line": account.head, "created": f"{account.when} by {account.by}"}
    return facts | ({"WARNING": book.warning} if book.warning else {})


def _sums(group: ledger_file.Account, inside: _Period) -> dict[str, str]:
    """Sums of a group of people in words, by name."""
    sums: dict[str, str] = {}
    if group.budget.notion in WITH_EPSILON:
        stated = [_in_words(guarantee) for guarantee in _budget_guarantee(group.budget)]
        sums[WHOLE] = stated[0] if stated else "no bound"
    if group.budget.notion == "gdp" and group.spends:
        sums["sum of the runs"] = SUM
    within = tuple(entry for entry in group.spends if entry.when in inside)
    if inside.first is not None and len(within) < len(group.spends):
        alone = _spent(group._replace(spends=within, spent=ledger_file.add_up(within)))
        words = [_in_words(guarantee) for guarantee in alone] or ["nothing was released"]
        (sums[f"runs{inside.words} alone ({len(within)})"],) = words
    return sums


def _in_words(guarantee: _guarantee.Guarantee) -> str:
    if guarantee.notion not in _guarantee.CONVERTIBLE:
        return guarantee.claim
    delta = odds.display_delta(guarantee)
    epsilon = rounding.round_up(records.epsilon_of(guarantee, delta))
    return f"epsilon = {epsilon} at delta = {rounding.shorten_up(delta)}"


def _spend_rows(books: Sequence[_Book], inside: _Period) -> tuple[tuple[str, ...], ...]:
    """Each spend of the period, then the sums of each ledger: a row of text each, after a header."""
    heads = ("when", "run", "what", "spent", "delta", "who")
    several = len(books) > 1
    rows, sums = [], []
    for book in books:
        name = (book.name,) * several
        for entry in book.account.spends:
            if entry.when in inside:
                cells = ledger_file.spend_cells(entry) | {"when": str(_date(entry.when))}
                rows.append((*name, *(cells[head] for head in heads)))
        cost = ledger_file.COSTS[book.account.budget.notion]
        for label, amounts in ledger_file.sum_cells(book.account).items():
            sums.append((*name, "", f"{label}, in {cost}", "", *amounts, ""))
    at = len(("ledger",) * several)
    rows.sort(key=lambda row: row[at])
    return (("ledger",) * several + heads, *rows, *sums)


def _event_rows(books: Sequence[_Book], inside: _Period) -> tuple[tuple[str, ...], ...]:
    """Adoptions, refused charges and clocks set back in the period; nothing without any."""
    rows = sorted(
        (str(_date(when)), book.name, event) for book in books for when, event in book.account.events if when in inside
    )
    return (("when", "ledger", "event"), *rows) if rows else ()
