"""``jaxdpbo ledger``: read and verify a ledger, for auditors. The command never writes."""

import argparse
import sys
from pathlib import Path

from jaxdpbo.ledger import ledger_file
from jaxdpbo.report import records


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, summary in {
        "describe": "print all spends with purpose, author and time, and the remaining budget",
        "verify": "check every line, and the mark if you can read it; with --head, also find a line noted earlier",
        "head": "print the hash of the last line, to keep elsewhere",
    }.items():
        action = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        action.add_argument("path", type=Path, help="the path of the ledger")
        if name == "verify":
            action.add_argument(
                "--head", help="an earlier output of 'jaxdpbo ledger head'; the ledger may have grown since"
            )


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Print the answer; exit with status 1 if the file is damaged or no ledger."""
    del parser
    try:
        if arguments.action == "describe":
            print(ledger_file.describe(arguments.path))
            for line in records.describe_epsilons(arguments.path):
                print(line)
        elif arguments.action == "head":
            ledger_file.account(arguments.path)
            print(ledger_file.head(arguments.path))
        else:
            account = ledger_file.account(arguments.path, expected_head=arguments.head)
            if warning := ledger_file.mark_warning(arguments.path):
                sys.exit(f"jaxdpbo ledger: {warning}")
            print(f"{arguments.path}: whole, {len(account.spends)} runs charged")
    except BrokenPipeError:
        raise
    except (ledger_file.LedgerError, OSError) as error:
        sys.exit(f"jaxdpbo ledger: {error}")
