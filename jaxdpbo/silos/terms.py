"""Terms of a run in a file, so that no silo needs code for them: settings of DP-GIBO, space, columns and roster."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxdpbo import checks, files, space
from jaxdpbo.algorithms import dp_gibo
from jaxdpbo.ledger import ledger_file
from jaxdpbo.silos import messages
from jaxdpbo.silos.agreement import Agreement, agree
from jaxdpbo.silos.roster import Roster, parse_roster

LARGEST_AGREEMENT = 2**20  # bytes of a file
FIELDS = {"terms": dict, "roster": dict, "expects": dict}
TERMS = {"run": str, "settings": dict, "space": dict, "columns": list}  # and, if given:
OPTIONAL = {"answers": int, "colluding": int, "versions": list}


def save_agreement(path: str | Path, terms: Mapping[str, Any], roster: Roster) -> Agreement:
    """Check the terms of a search by DP-GIBO, and write them to a file that all silos and the server load.

    The file holds what every machine must compute equally: the protocol, the precision, the bound of a user's integers,
    the width of the noise, and the hash of all terms. ``load_agreement`` names the first that differs.

    >>> import base64, pathlib, tempfile
    >>> from jaxdpbo import silos
    >>> cards = [silos.Member(name, 100, base64.b64encode(name.encode() * 32).decode()) for name in "ABC"]
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "agreement.json"
    >>> terms = {
    ...     "run": "march",
    ...     "settings": {"steps": 5, "mu": 1.0, "clip_norm": 1.0},
    ...     "space": {"east": {"type": "real", "low": 0, "high": 6}, "north": {"type": "real", "low": 0, "high": 6}},
    ...     "columns": ["x", "y"],
    ... }
    >>> agreement = silos.save_agreement(path, terms, silos.make_roster(cards))
    >>> silos.load_agreement(path).digest == agreement.digest
    True

    Args:
      path: of the file; an older file is replaced.
      terms: ``run``, its name; ``settings``, arguments of ``dp_gibo.config`` by name; ``space``, a table for each
        parameter, as of ``jaxdpbo tune --space-file``; ``columns``, the numbers of each user; and, if you like,
        ``answers``, ``colluding`` and ``versions``, see ``agree``.
      roster: of ``make_roster``.

    Raises:
      ValueError, TypeError: a term that is missing, unknown or out of range.
    """
    agreement = _agree(dict(terms), roster)
    content = {"terms": dict(terms), "roster": json.loads(roster.to_json()), "expects": _expects(agreement)}
    files.replace(Path(path), json.dumps(content, indent=1).encode())
    return agreement


def load_agreement(path: str | Path) -> Agreement:
    """Read the terms of a run from a file, and check that this machine computes what they expect.

    >>> from jaxdpbo import silos
    >>> silos.load_agreement("agreement.json")
    Traceback (most recent call last):
      ...
    FileNotFoundError: [Errno 2] No such file or directory: 'agreement.json'

    Raises:
      ValueError: the file holds no terms, has more than a MiB, or this machine computes another protocol, precision,
        noise or hash: the sentence names the first that differs.
    """
    with open(path, "rb") as file:
        content = ledger_file.parse_fields(file.read(LARGEST_AGREEMENT + 1), FIELDS, most=LARGEST_AGREEMENT)
    roster = parse_roster(content["roster"], Path(path).name)
    try:
        agreement = _agree(content["terms"], roster)
    except ValueError:
        raise
    except Exception as error:  # of settings that no config takes
        raise ValueError(f"{Path(path).name}: {error}") from None
    for name, own in _expects(agreement).items():
        if (expected := content["expects"].get(name)) != own:
            raise ValueError(
                f"{name} must be {expected!r} by the agreement, and this machine has {own!r}: give all machines the "
                "agreed versions and one JAX_ENABLE_X64, or agree again, which costs nothing before the first sum"
            )
    return agreement


def _expects(agreement: Agreement) -> dict[str, Any]:
    """What must be equal on all machines, the plainest first."""
    return {
        "protocol": messages.PROTOCOL,
        "precision": str(agreement.template.points.dtype),
        "bounds of a user's integers": list(agreement.sums.radii),
        "widths of a silo's noise": [sigma for _, sigma in agreement.share_widths],
        "hash of all terms": agreement.digest.hex(),
    }


def _agree(terms: dict[str, Any], roster: Roster) -> Agreement:
    """The agreement on terms as JSON holds them."""
    for name, kind in (TERMS | OPTIONAL).items():
        if (name in terms and type(terms[name]) is not kind) or (name in TERMS and name not in terms):
            raise ValueError(f"terms must have {name!r}, of type {kind.__name__}")
    for name in terms:
        checks.one_of("a term", name, (*TERMS, *OPTIONAL))
    columns, versions = terms["columns"], terms.get("versions")
    if not columns or not all(type(name) is str for name in columns) or len(set(columns)) < len(columns):
        raise ValueError("columns must be different names, one or more")
    if versions is not None and len(versions) != 2:
        raise ValueError(f"versions must be two releases, the oldest and the newest, got {len(versions)}")
    config = dp_gibo.config(
        users=roster.users, bounds=space.Space(space.read_tables(terms["space"])), memory="none", **terms["settings"]
    )
    return agree(
        terms["run"],
        dp_gibo.algorithm,
        config,
        roster,
        answers=terms.get("answers"),
        colluding=terms.get("colluding", 1),
        versions=None if versions is None else (versions[0], versions[1]),
        columns=columns,
    )
