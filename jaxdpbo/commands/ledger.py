"""``jaxdpbo ledger``: create, adopt, read and verify ledgers of privacy budgets, and write their record to sign.

Only ``create`` and ``adopt`` write to a ledger.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxdpbo.ledger import ledger_file
from jaxdpbo.report import ledger_records

Answer = tuple[dict[str, Any], str]  # with --json, and in words
PLACE = "the path of the ledger, or the address of its database, postgresql://ACCOUNT@HOST/DATABASE"


def place(text: str) -> ledger_file.Place:
    """An argument that is a path or an address; argparse quotes nothing of what is refused here."""
    try:
        return ledger_file.find_place(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (summary, _) in ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name == "report":
            _add_report_arguments(action)
        else:
            action.add_argument("path", type=place, help=PLACE)
        if name == "create":
            _add_budget_arguments(action)
        if name in ("create", "adopt"):
            action.add_argument("--by", help="the author; by default, the user and the machine")
        if name == "verify":
            action.add_argument(
                "--head", help="an earlier output of 'jaxdpbo ledger head'; the ledger may have grown since"
            )
        action.add_argument("--json", action="store_true", help="print the answer as a JSON object")


def _add_budget_arguments(action: argparse.ArgumentParser) -> None:
    """Numbers stay text: the ledger reads "0.1" or "1/10" exactly."""
    action.add_argument("--mu", help="a budget of GDP")
    action.add_argument("--epsilon", type=float, help="with --delta, the largest budget of GDP with this guarantee")
    action.add_argument("--delta", help="with --epsilon; with --level, a delta to spend")
    action.add_argument("--notion", choices=list(ledger_file.LEVELS), help="of any other budget, with its --level")
    action.add_argument("--level", help="see --notion")
    action.add_argument("--relation", default="replace_one", help="the neighbouring relation (default %(default)s)")
    action.add_argument("--unit", help="the distance, with --relation unit_distance")
    action.add_argument("--protects", default=ledger_file.USERS, help="the people, in words (default: %(default)s)")


def _add_report_arguments(action: argparse.ArgumentParser) -> None:
    action.add_argument("paths", type=place, nargs="+", metavar="path", help="the paths or addresses of the ledgers")
    action.add_argument("--delta", type=float, help="state epsilon at this delta; below one over the number of users")
    action.add_argument("--since", metavar="DAY", help="the first day of the table, such as 2026-01-01, in UTC")
    action.add_argument("--until", metavar="DAY", help="the last day of the record")
    action.add_argument("--out", type=Path, default=Path("record.html"), help="the page; its JSON twin lies beside it")


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Print the answer; exit with status 1 if a file is damaged or no ledger, or a request is refused."""
    del parser
    _, act = ACTIONS[arguments.action]
    try:
        facts, words = act(arguments)
    except (ledger_file.LedgerError, OSError, ValueError) as error:
        if arguments.json:
            print(json.dumps({"error": str(error)}))
            sys.exit(1)
        sys.exit(f"jaxdpbo ledger: {error}")
    print(json.dumps(facts, indent=1) if arguments.json else words)


def _create(arguments: argparse.Namespace) -> Answer:
    names = ("mu", "epsilon", "delta", "notion", "level", "relation", "unit", "protects", "by")
    given = {name: getattr(arguments, name) for name in names}
    if given["epsilon"] is not None and given["delta"] is not None:
        given["delta"] = float(given["delta"])
    ledger_file.create(arguments.path, **given)
    whole = next(iter(ledger_records.describe_epsilons(arguments.path)), "the budget has no epsilon")
    grants = ledger_file.list_grants(arguments.path)
    words = [
        f"{arguments.path}: created; {whole}",
        *(["", "for each account that charges it:", *grants] if grants else []),
    ]
    return _facts(arguments.path) | {"grants": grants}, "\n".join(words)


def _adopt(arguments: argparse.Namespace) -> Answer:
    ledger_file.adopt(arguments.path, by=arguments.by)
    return _facts(arguments.path), f"{arguments.path}: adopted; use this file alone"


def _describe(arguments: argparse.Namespace) -> Answer:
    words = [ledger_file.describe(arguments.path), *ledger_records.describe_epsilons(arguments.path)]
    return _facts(arguments.path), "\n".join(words)


def _head(arguments: argparse.Namespace) -> Answer:
    head = ledger_file.account(arguments.path).head
    return {"path": str(arguments.path), "head": head}, head


def _verify(arguments: argparse.Namespace) -> Answer:
    account = ledger_file.account(arguments.path, expected_head=arguments.head)
    if warning := ledger_file.mark_warning(arguments.path):
        raise ledger_file.DamagedLedgerError(warning)
    facts = {"path": str(arguments.path), "runs": len(account.spends), "head": account.head}
    return facts, f"{arguments.path}: whole, {len(account.spends)} runs charged"


def _report(arguments: argparse.Namespace) -> Answer:
    record = ledger_records.ledger_report(
        arguments.paths, delta=arguments.delta, since=arguments.since, until=arguments.until
    )
    record.save(arguments.out)
    twin = arguments.out.with_suffix(".json")
    return record.to_dict(), f"wrote {arguments.out} and {twin}"


def _facts(path: ledger_file.Place) -> dict[str, Any]:
    """A ledger in full."""
    warning = ledger_file.mark_warning(path)
    account = ledger_file.to_dict(ledger_file.account(path))
    return {"path": str(path), "warning": warning} | account | {"epsilons": ledger_records.describe_epsilons(path)}


ACTIONS: dict[str, tuple[str, Callable[[argparse.Namespace], Answer]]] = {
    "create": ("create a ledger with a budget", _create),
    "adopt": ("make this copy the valid file, after a move or from a backup; stop using the original", _adopt),
    "describe": ("print all spends with purpose, author and time, and the remaining budget", _describe),
    "verify": (
        "check every line, and the mark if you can read it; with --head, find a line noted earlier",
        _verify,
    ),
    "head": ("print the hash of the last line, to keep elsewhere", _head),
    "report": ("write a page to sign, for all releases that one ledger or several paid for", _report),
}
