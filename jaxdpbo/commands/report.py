"""``jaxdpbo report``: write the record of all releases that a ledger paid for, to sign."""

import argparse
import sys
from pathlib import Path

from jaxdpbo import report
from jaxdpbo.ledger import ledger_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("ledger", type=Path, help="the path of the ledger")
    parser.add_argument("--delta", type=float, help="state epsilon at this delta; below one over the number of users")
    parser.add_argument("--out", type=Path, default=Path("record.html"), help="the page; its JSON twin lies beside it")


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Write the page and its JSON twin; exit with status 1 if the file is damaged or no ledger."""
    del parser
    try:
        report.ledger_report(arguments.ledger, delta=arguments.delta).save(arguments.out)
    except (ledger_file.LedgerError, OSError, ValueError) as error:
        sys.exit(f"jaxdpbo report: {error}")
    print(f"wrote {arguments.out} and {arguments.out.with_suffix('.json')}")
