"""``jaxdpbo ledger``: what an auditor asks of a ledger. It reads, and never writes."""

import argparse
import sys
from pathlib import Path

from jaxdpbo.privacy import ledger


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, summary in {
        "describe": "a table of what was spent on what, by which program, when, and what is left",
        "verify": "check every line, and that the ledger holds a line noted earlier",
        "head": "the last line's hash, to be kept elsewhere",
    }.items():
        one = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        one.add_argument("path", type=Path, help="of the ledger")
        if name == "verify":
            one.add_argument("--head", help="what 'jaxdpbo ledger head' printed earlier; the ledger may have grown")


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Print the answer; exit with status 1 where the file is not a whole ledger."""
    del parser
    try:
        if arguments.action == "describe":
            print(ledger.describe(arguments.path))
        elif arguments.action == "head":
            ledger.account(arguments.path)
            print(ledger.head(arguments.path))
        else:
            account = ledger.account(arguments.path, expected_head=arguments.head)
            print(f"{arguments.path}: whole, {len(account.spends)} runs charged")
    except (ledger.LedgerError, OSError) as error:
        sys.exit(f"jaxdpbo ledger: {error}")
