"""The record of a release: its guarantees in words and numbers, as a page to sign, as JSON, and for a registry."""

import datetime
import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxdpbo import files, rounding
from jaxdpbo import notes as _notes
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.ledger import fingerprints, ledger_file
from jaxdpbo.report import checkers, drawings, odds, page
from jaxdpbo.report import registry as _registry
from jaxdpbo.space import Params

LIBRARIES = ("jaxdpbo", "jax", "jaxlib", "numpy")
RATE = 0.05  # of false alarms, in the sentence for a meeting
GROUPS = (1, 2, 4)  # users who are replaced together: one, a couple, a household
CURVE = np.linspace(0.0, 1.0, 41)
COMPARED = {"title", "guarantees", "details", "versions"}  # of a plan and a record
NONE = "none"  # in a plan: what the record must not state
OTHERS = "anybody else, and what is true of these people in general"
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
      spends: the budgets and their spends, for ledgers: a row each, with a header.
      events: what else ledgers tell: adoptions, refused charges, a clock set back; a row each, with a header.
      ledgers: each ledger in full, in JSON types.
      notes: of the result, see ``jaxdpbo.notes``.
      dependences: what a model predicts along each column, to draw.
      planned: True for a plan, which says what a release will spend before anything is charged (``plan``).
    """

    title: str
    guarantees: tuple[_guarantee.Guarantee, ...]
    details: Mapping[str, str]
    fingerprint: str
    created: str
    versions: Mapping[str, str]
    spends: tuple[tuple[str, ...], ...] = ()
    events: tuple[tuple[str, ...], ...] = ()
    ledgers: tuple[Mapping[str, Any], ...] = ()
    notes: _notes.Notes = ()
    dependences: tuple[drawings.Dependence, ...] = ()
    planned: bool = False

    @property
    def sentences(self) -> list[str]:
        """A sentence for each guarantee, to repeat in a meeting."""
        return [_sentence(guarantee) for guarantee in self.guarantees]

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON types: what the page says, and the guarantees in full."""
        return {
            "title": self.title,
            "planned": self.planned,
            "created": self.created,
            "guarantees": [describe(guarantee) for guarantee in self.guarantees],
            "details": dict(self.details),
            "notes": [{"id": note.id, "text": note.text} for note in self.notes],
            "fingerprint of the release": self.fingerprint,
            "dependences": [dependence.facts for dependence in self.dependences],
            "spends": [list(row) for row in self.spends],
            "events": [list(row) for row in self.events],
            "ledgers": [dict(ledger) for ledger in self.ledgers],
            "versions": dict(self.versions),
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the record, printed on each sheet and kept in the JSON twin (``hash_record``)."""
        return hash_record(self.to_dict())

    def html(self) -> str:
        """The page: one file without scripts or links to other files, with a style for A4."""
        return page.page(self.to_dict(), self.digest)

    def save(self, path: str | Path) -> "Report":
        """Write the page, and its JSON twin beside it with the ending ".json".

        Raises:
          ValueError: ``path`` does not end in ".html".
          FileExistsError: the file of the twin is there and is no record's, such as a ledger of that name.
        """
        target = Path(path)
        if target.suffix != ".html":
            raise ValueError(f"path must end in .html, got {path!r}")
        beside = target.with_suffix(".json")
        if beside.exists() and not _is_twin(beside):
            raise FileExistsError(f"{beside} is no record: give the page another name, since its twin would replace it")
        files.replace(target, self.html().encode())
        twin = {page.DIGEST: self.digest} | self.to_dict()
        files.replace(beside, (json.dumps(twin, indent=1) + "\n").encode())
        return self

    def against(self, signed: "Report | Mapping[str, Any] | str | Path") -> "Report":
        """Cite a plan that was signed before the release, and say where this record differs from it.

        Facts that the record alone states are not compared; a plan that says "none" of a fact forbids it.

        >>> from jaxdpbo import report
        >>> from jaxdpbo.guarantee import guarantee
        >>> stated = guarantee("gdp", 0.5, "replace_one", "voters")
        >>> signed = report.plan("a search", (stated,), details={"users": 400})
        >>> made = report.report("a search", (stated,), details={"users": 300}).against(signed)
        >>> made.details["differs from the plan"]
        'users: planned 400, got 300'

        Args:
          signed: the plan, its JSON twin, or the twin's path.

        Raises:
          ValueError: it is no plan, or the twin was changed after it was made.
        """
        read = ledger_file.parse_json(Path(signed).read_bytes()) if isinstance(signed, (str, Path)) else signed
        facts = read.to_dict() if isinstance(read, Report) else read
        if not isinstance(facts, Mapping) or facts.get("planned") is not True or not facts.keys() >= COMPARED:
            raise ValueError(
                "signed must be a plan, made by report.plan, preview(...).report, model.plan or agreement.report"
            )
        digest = hash_record(facts)
        if facts.get(page.DIGEST, digest) != digest:
            raise ValueError("signed must be an unchanged plan: its SHA-256 is not that of its content")
        cited = {"plan": digest, "differs from the plan": _differences(facts, self.to_dict()) or "in nothing"}
        return replace(self, details=dict(self.details) | cited)

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
        return page.fragment(self.to_dict(), self.digest)


def plan(title: str, guarantees: tuple[_guarantee.Guarantee, ...], *, details: Mapping[str, object]) -> Report:
    """Make the page of what a release WILL spend, to be signed before anything is charged; arguments as ``report``.

    The record of the release cites it: ``record.against(plan)``.

    >>> from jaxdpbo import report
    >>> from jaxdpbo.guarantee import guarantee
    >>> report.plan("a search", (guarantee("gdp", 0.5, "replace_one", "voters"),), details={"users": 400}).planned
    True
    """
    return replace(report(title, guarantees, details=details), planned=True)


def _differences(planned: Mapping[str, Any], made: Mapping[str, Any]) -> str:
    """What a record states otherwise than its plan: guarantees, title, and each fact of the plan."""
    found = []
    ours, theirs = ([of["claim"] for of in facts["guarantees"]] for facts in (planned, made))
    if ours != theirs:
        found.append(f"guarantee: planned {' and '.join(ours)}, got {' and '.join(theirs)}")
    if more := _assumptions(made) - _assumptions(planned):  # a guarantee that assumes less is more than was signed
        found.append(f"the guarantee also assumes that {' and that '.join(sorted(more))}")
    if planned["title"] != made["title"]:
        found.append(f"title: planned {planned['title']}, got {made['title']}")
    for field in ("details", "versions"):
        ours, theirs = planned[field], made[field]
        differing = [name for name in ours if ours[name] != theirs.get(name, NONE)]
        found += [f"{name}: planned {ours[name]}, got {theirs.get(name, NONE)}" for name in differing]
    return "; ".join(found)


def _assumptions(facts: Mapping[str, Any]) -> set[str]:
    return {row["assumption"] for of in facts["guarantees"] for row in of["assumptions"]}


def _is_twin(path: Path) -> bool:
    """True for a file that ``Report.save`` wrote beside a page."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and page.DIGEST in content


def hash_record(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record in JSON types, as ``Report.to_dict`` or its JSON twin holds it, in any order of names.

    >>> from jaxdpbo import report
    >>> from jaxdpbo.guarantee import guarantee
    >>> made = report.report("a search", (guarantee("gdp", 0.5, "replace_one", "voters"),))
    >>> report.hash_record(made.to_dict()) == made.digest
    True
    """
    content = {name: value for name, value in record.items() if name != page.DIGEST}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


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
    facts = {str(name): _in_words(value) for name, value in dict(details or {}).items()}
    return Report(title, guarantees, facts, _fingerprint(release), now(), versions(), notes=tuple(notes))


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


def _in_words(value: object) -> str:
    """A fact as text: floats with six digits, since the hash of the release covers all of them."""
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.6g}"
    if isinstance(value, (tuple, list)) and value and all(isinstance(part, (float, np.floating)) for part in value):
        return f"({', '.join(map(_in_words, value))})"
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.array2string(value, precision=6, suppress_small=True, separator=", ")
    return str(value)


def _is_empty(part: object) -> bool:
    """True for None and empty containers, which have no leaves: a record shows them, so its hash covers them."""
    return part is None or (isinstance(part, (tuple, list, dict)) and not part)


def now() -> str:
    """The time, in ISO format."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """The versions of the software."""
    return {"python": platform.python_version()} | {name: fingerprints.version(name) for name in LIBRARIES}


def describe(guarantee: _guarantee.Guarantee) -> dict[str, Any]:
    """A guarantee in words and numbers, for the page."""
    found: dict[str, Any] = {
        "sentence": _sentence(guarantee),
        "protects": guarantee.users,
        "does not protect": guarantee.unprotected or OTHERS,
        "neighbours": RELATIONS.get(guarantee.relation or "", ""),
        "claim": guarantee.claim,
        "assumptions": [{"assumption": name, "checked by": checkers.checker(name)} for name in guarantee.assumptions],
        "guarantee": guarantee.to_dict(),
    }
    if guarantee.notion in _guarantee.CONVERTIBLE:
        delta = odds.display_delta(guarantee)
        epsilon = epsilon_of(guarantee, delta)
        groups = {size: odds.group_bound(guarantee, size, delta) for size in GROUPS}
        found |= {
            "epsilon": rounding.round_up(epsilon),
            "delta": delta,
            "epsilon before the release": rounding.round_up(epsilon_of(guarantee.reservation, delta)),
            "detection rates": [CURVE.tolist(), odds.detection_rates(guarantee, CURVE).tolist()],
            "groups": [
                [size, rounding.round_up(epsilon), rounding.shorten_up(bound)]
                for size, (epsilon, bound) in groups.items()
            ],
        }
    return found


def epsilon_of(guarantee: _guarantee.Guarantee, delta: float) -> float:
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
