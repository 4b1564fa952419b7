"""The record of a release: its guarantees in words and numbers, as a page to sign, as JSON, and for a registry."""

import datetime
import hashlib
import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxdpbo import checks, files, rounding
from jaxdpbo import notes as _notes
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.ledger import fingerprints, ledger_file
from jaxdpbo.report import checkers, odds, page
from jaxdpbo.report import registry as _registry
from jaxdpbo.space import Params

LIBRARIES = ("jaxdpbo", "jax", "jaxlib", "numpy")
HUGE = Fraction(2) ** 1000  # a float holds it
LEVEL_UP = 1 + 2.0**-40  # a sum of fractions in a float, rounded up
RATE = 0.05  # of false alarms, in the sentence for a meeting
GROUPS = (1, 2, 4)  # users who are replaced together: one, a couple, a household
CURVE = np.linspace(0.0, 1.0, 41)
WHOLE = "whole budget: the guarantee if earlier releases led to later runs"
SUM = (
    "the squares of the runs' GDP levels were added up; the record of a single run composes the run's mechanisms, and "
    "states an epsilon that is no larger"
)
RELATIONS = {
    "replace_one": "another person's record in place of one record",
    "unit_distance": "one record moved by at most the unit of distance",
}


@dataclass(frozen=True)
class Report:
    """The record of a release. Nothing in it depends on users' values but through the release.

    >>> from jaxdpbo import report
    >>> from jaxdpbo.guarantee import guarantee
    >>> guarantee = guarantee("gdp", 0.5, "replace_one", "voters")
    >>> report.report("a search", (guarantee,)).sentences[0]
    'An attacker who accepts 1 false alarm in 20 detects a user among voters at most 2.523 times in 20; ...'

    Attributes:
      title: of what was released.
      guarantees: a guarantee for each set of users.
      details: public facts, such as the method and the chosen setting, by name.
      fingerprint: SHA-256 of the release, "" for a report of a ledger.
      created: the time, in ISO format.
      versions: of the software.
      spends: the budget and its spends, for a ledger: a row each, with a header.
      notes: of the result, see ``jaxdpbo.notes``.
    """

    title: str
    guarantees: tuple[_guarantee.Guarantee, ...]
    details: Mapping[str, str]
    fingerprint: str
    created: str
    versions: Mapping[str, str]
    spends: tuple[tuple[str, ...], ...] = ()
    notes: _notes.Notes = ()

    @property
    def sentences(self) -> list[str]:
        """A sentence for each guarantee, to repeat in a meeting."""
        return [_sentence(guarantee) for guarantee in self.guarantees]

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON types: what the page says, and the guarantees in full."""
        return {
            "title": self.title,
            "created": self.created,
            "guarantees": [_describe(guarantee) for guarantee in self.guarantees],
            "details": dict(self.details),
            "notes": [{"id": note.id, "text": note.text} for note in self.notes],
            "fingerprint of the release": self.fingerprint,
            "spends": [list(row) for row in self.spends],
            "versions": dict(self.versions),
        }

    def html(self) -> str:
        """The page: one file without scripts or links to other files, with a style for A4."""
        return page.page(self.to_dict())

    def save(self, path: str | Path) -> "Report":
        """Write the page, and its JSON twin beside it with the ending ".json".

        Raises:
          ValueError: ``path`` does not end in ".html".
        """
        target = Path(path)
        if target.suffix != ".html":
            raise ValueError(f"path must end in .html, got {path!r}")
        files.replace(target, self.html().encode())
        files.replace(target.with_suffix(".json"), (json.dumps(self.to_dict(), indent=1) + "\n").encode())
        return self

    def registry(self, **entry: object) -> str:
        """An entry in YAML for a registry of deployments, tier 3, see docs/budget.md.

        Args:
          entry: what the library cannot know: ``name``, ``data_curators`` (a list), ``intended_use``,
            ``data_product_region``, ``publication_date`` ("2026-11-26"), ``registry_authors`` (a list), and optionally
            ``description``, ``data_product_type``, ``data_product_sector``, ``data_domain``, ``actors``,
            ``release_type``, ``preprocessing_and_hyperparameter_tuning``, ``justification``, ``sources``, ``notes``.

        Raises:
          ValueError: an entry is missing or unknown, or no guarantee has an epsilon; of several, the largest is stated,
            before the release was known.
          TypeError: an entry is not text, or not a list of text.
          ImportError: the extra "registry" is missing.
        """
        return _registry.registry(self.to_dict(), entry)

    def _repr_html_(self) -> str:
        """The record, for notebooks."""
        return page.fragment(self.to_dict())


def report(
    title: str,
    guarantees: tuple[_guarantee.Guarantee, ...],
    *,
    release: object = None,
    details: Mapping[str, object] | None = None,
    notes: _notes.Notes = (),
) -> Report:
    """Make the record of a release from its guarantees.

    >>> from jaxdpbo import report
    >>> from jaxdpbo.guarantee import guarantee
    >>> guarantee = guarantee("gdp", 0.5, "replace_one", "voters")
    >>> report.report("a search", (guarantee,), details={"method": "local"}).details
    {'method': 'local'}

    Args:
      title: of what was released, a printable line.
      guarantees: one or more.
      release: what you publish, for its fingerprint: numbers, text, arrays and records of these. A release that holds
        other values, such as a module of PyTorch, has no fingerprint.
      details: public facts by name. Pass nothing that is not in the release.
      notes: of the result.

    Raises:
      TypeError: no guarantee, or a guarantee of another type.
      ValueError: a title that is no printable line.
    """
    guarantees = tuple(guarantees)
    if not guarantees or not all(isinstance(guarantee, _guarantee.Guarantee) for guarantee in guarantees):
        raise TypeError(f"guarantees must be one or more of jaxdpbo.Guarantee, got {type(guarantees).__name__}")
    if not isinstance(title, str) or not title or not title.isprintable():
        raise ValueError(f"title must be one printable line, got {title!r}")
    facts = {str(name): str(value) for name, value in dict(details or {}).items()}
    return Report(title, guarantees, facts, _fingerprint(release), _now(), _versions(), notes=tuple(notes))


def ledger_report(path: str | Path, *, delta: float | None = None) -> Report:
    """Make the record of all releases that a ledger paid for.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from jaxdpbo import ledger, report
    >>> path = Path(tempfile.mkdtemp()) / "budget.jsonl"
    >>> ledger.create(path, mu=2)
    >>> report.ledger_report(path).spends[0][:3]
    ('run', 'what', 'spent')

    Args:
      path: the path of the ledger.
      delta: in (0, 1): the delta to state an epsilon at; by default the delta typed beside the ledger's epsilon, or
        1e-5. Choose a delta below one over the number of users.

    Raises:
      ledger.LedgerError: the file is damaged, or no ledger.
      ValueError: ``delta`` is out of range, or too small for the delta or the total variation of the ledger.
    """
    account = ledger_file.account(path)
    if delta is not None:
        delta = checks.probability("delta", delta)
        account = account._replace(budget=account.budget._replace(summary_delta=Fraction(delta)))
        _expect_delta(delta, (*_spent(account), *_budget_guarantee(account.budget)))
    rows = ledger_file.spends_table(account)
    details = {"ledger": Path(path).name, "last line": account.head, "created": f"{account.when} by {account.by}"}
    changes = {"copies": "; ".join(account.adopted), "WARNING": ledger_file.mark_warning(path)}
    details |= {name: text for name, text in changes.items() if text}
    if account.budget.notion in ("gdp", "dp"):
        details[WHOLE] = _whole_budget(account.budget)
    if account.budget.notion == "gdp" and account.spends:
        details["sum of the runs"] = SUM
    return Report(f"the ledger {Path(path).name}", _spent(account), details, "", _now(), _versions(), rows)


def describe_epsilons(path: str | Path) -> list[str]:
    """The epsilons of a ledger's budget and of its spends together, a line each; none for notions without epsilon."""
    record = ledger_report(path)
    lines = [f"budget: {record.details[WHOLE]}"] if WHOLE in record.details else []
    for guarantee in map(_describe, record.guarantees):
        if "epsilon" in guarantee:
            at = rounding.shorten_up(guarantee["delta"])
            lines.append(f"spent: epsilon = {guarantee['epsilon']} at delta = {at}")
    return lines


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


def _whole_budget(budget: ledger_file.Budget) -> str:
    """The guarantee of the budget in words."""
    for guarantee in _budget_guarantee(budget):
        delta = odds.display_delta(guarantee)
        epsilon = rounding.round_up(_epsilon(guarantee, delta))
        return f"epsilon = {epsilon} at delta = {rounding.shorten_up(delta)}"
    return "no bound"


def _summary_delta(budget: ledger_file.Budget) -> float | None:
    return None if budget.summary_delta is None else float(budget.summary_delta)


def _float_up(exact: Fraction) -> float:
    """The least float that is no less."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _fingerprint(release: object) -> str:
    """SHA-256 of the leaves with their paths, dtypes and shapes: equal in every process; "" for other values."""
    digest = hashlib.sha256()
    if release is None:
        return ""
    for path, leaf in jax.tree_util.tree_flatten_with_path(release, is_leaf=_is_empty)[0]:
        if isinstance(leaf, (str, bool, int, float, Params)) or _is_empty(leaf):  # objects count by their labels
            content = repr(leaf).encode()
        elif isinstance(leaf, (np.ndarray, np.generic, jax.Array)) and leaf.dtype != object:
            array = np.asarray(leaf)
            content = f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()
        else:
            return ""
        digest.update(f"{jax.tree_util.keystr(path)} {len(content)} ".encode() + content)
    return digest.hexdigest()


def _is_empty(part: object) -> bool:
    """True for None and empty containers, which have no leaves: a record shows them, so its hash covers them."""
    return part is None or (isinstance(part, (tuple, list, dict)) and not part)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: fingerprints.version(name) for name in LIBRARIES}


def _describe(guarantee: _guarantee.Guarantee) -> dict[str, Any]:
    found: dict[str, Any] = {
        "sentence": _sentence(guarantee),
        "protects": guarantee.users,
        "does not protect": guarantee.unprotected,
        "neighbours": RELATIONS.get(guarantee.relation or "", ""),
        "claim": guarantee.claim,
        "assumptions": [{"assumption": name, "checked by": checkers.checker(name)} for name in guarantee.assumptions],
        "guarantee": guarantee.to_dict(),
    }
    if guarantee.notion in _guarantee.CONVERTIBLE:
        delta = odds.display_delta(guarantee)
        epsilon = _epsilon(guarantee, delta)
        groups = {size: odds.group_bound(guarantee, size, delta) for size in GROUPS}
        found |= {
            "epsilon": rounding.round_up(epsilon),
            "delta": delta,
            "epsilon before the release": rounding.round_up(_epsilon(guarantee.reservation, delta)),
            "detection rates": [CURVE.tolist(), odds.detection_rates(guarantee, CURVE).tolist()],
            "groups": [
                [size, rounding.round_up(epsilon), rounding.shorten_up(bound)]
                for size, (epsilon, bound) in groups.items()
            ],
        }
    return found


def _epsilon(guarantee: _guarantee.Guarantee, delta: float) -> float:
    """The epsilon at ``delta``; pure DP has a ``delta`` of 0, and its level."""
    return guarantee.epsilon(delta) if delta else guarantee.level


def _sentence(guarantee: _guarantee.Guarantee) -> str:
    if guarantee.notion not in _guarantee.CONVERTIBLE:
        return guarantee.claim
    times = detections_in_twenty(guarantee)
    return (
        f"An attacker who accepts 1 false alarm in 20 detects a user among {guarantee.users} at most {times} times in "
        "20; without the release, by guessing, once in 20."
    )


def detections_in_twenty(guarantee: _guarantee.Guarantee) -> str:
    """How often in 20 an attacker who accepts 1 false alarm in 20 detects a user at most, rounded up."""
    (rate,) = odds.detection_rates(guarantee, np.array([RATE]))
    return rounding.round_up(float(f"{20 * rate:.12g}"))
