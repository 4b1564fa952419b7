"""``jaxdpbo silo``: make keys, a roster and an agreement; answer in a silo, run a search on the server, and look at it.

``run`` and ``serve`` write a log to standard error, with a line for each message.
"""

import argparse
import importlib
import json
import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from jaxdpbo import cells, logs, silos
from jaxdpbo.commands import csv_rows
from jaxdpbo.ledger import LedgerError
from jaxdpbo.silos import roster as _roster
from jaxdpbo.silos import sockets

FAILED = (
    "the loss, the table or the ledger failed, so this silo answers nothing more in this run, and the reason may hold "
    "a value: find it without a run, by your loss on rows of your own, and agree on a new run"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    init = actions.add_parser("init", help="make the key of a silo, and write its public card")
    init.add_argument("name", help="of the silo")
    init.add_argument("--users", type=int, required=True, help="the number of the silo's users, public")
    init.add_argument("--folder", type=Path, default=Path(), help="for the key, which only you can read, and the card")
    roster = actions.add_parser("roster", help="put the cards of all silos on a roster")
    roster.add_argument("cards", type=Path, nargs="+", help="a card of each silo")
    roster.add_argument("--missing", type=int, default=0, help="the most silos that may be absent from a later sum")
    roster.add_argument("--out", type=Path, default=Path("roster.json"), help="the roster, the same for all silos")
    agree = actions.add_parser("agree", help="check the terms of a run, and write the agreement for all machines")
    agree.add_argument("terms", type=Path, help="a TOML file: run, columns, settings, space; answers, versions")
    agree.add_argument("--roster", type=Path, default=Path("roster.json"), help="of the silos (default %(default)s)")
    agree.add_argument("--out", type=Path, default=Path("agreement.json"), help="the same file for all machines")
    run = actions.add_parser("run", help="answer requests in a silo; the first one charges the ledger")
    run.add_argument("agreement", type=Path, help="of `jaxdpbo silo agree`")
    run.add_argument("--name", required=True, help="of this silo")
    run.add_argument("--folder", type=Path, required=True, help="with the key of this silo")
    run.add_argument("--data", type=Path, required=True, help=csv_rows.FORMAT)
    run.add_argument("--loss", required=True, metavar="MODULE:FUNCTION", help="(point, columns) -> a loss of each user")
    run.add_argument("--ledger", type=Path, required=True, help="of `jaxdpbo ledger create`")
    run.add_argument("--socket", type=Path, required=True, help="where to answer")
    serve = actions.add_parser("serve", help="run the search on the server, and write its answer")
    serve.add_argument("agreement", type=Path, help="of `jaxdpbo silo agree`")
    serve.add_argument("--sockets", type=Path, required=True, help="a folder with NAME.socket for each silo")
    serve.add_argument(
        "--folder", type=Path, required=True, help="of this run: for its sums, status, answer and record"
    )
    serve.add_argument("--wait", type=float, default=60.0, help="seconds for an answer (default %(default)g)")
    serve.add_argument(
        "--patience", type=float, default=86400.0, help="seconds for all silos to come first (default %(default)g)"
    )
    for name, help in (("status", "ask a running server"), ("health", "fail unless the silos and attempts suffice")):
        look = actions.add_parser(name, help=help)
        look.add_argument("folder", type=Path, help="of `jaxdpbo silo serve`")
        look.add_argument("--json", action="store_true", help="print a JSON object")


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Run the action; exit with a message if an argument or a file is refused."""
    del parser
    try:
        ACTIONS[arguments.action](arguments)
    except (OSError, ValueError, TypeError, LedgerError, silos.SiloError) as error:
        sys.exit(f"jaxdpbo silo: {error}")


def _init(arguments: argparse.Namespace) -> None:
    member = silos.create_identity(arguments.folder, arguments.name, users=arguments.users)
    path = arguments.folder / f"{member.name}.card.json"
    path.write_text(json.dumps(member._asdict()))
    print(f"wrote the key to {arguments.folder / member.name}.identity: keep it secret")
    print(f"wrote the card to {path}: give it to the other silos")


def _put_on_roster(arguments: argparse.Namespace) -> None:
    members = [_roster.load_card(path) for path in arguments.cards]
    roster = silos.make_roster(members, missing=arguments.missing)
    roster.save(arguments.out)
    print(f"wrote {arguments.out}: {len(members)} silos, {roster.users} users")
    print(f"compare its hash with all silos: {roster.digest().hex()}")


def _agree(arguments: argparse.Namespace) -> None:
    with arguments.terms.open("rb") as file:
        terms = tomllib.load(file)
    agreement = silos.save_agreement(arguments.out, terms, silos.load_roster(arguments.roster))
    for name, value in agreement.terms.items():
        print(f"{name}: {value}")
    print(f"each silo charges: {agreement.guarantees.colluding.claim}")
    print(f"wrote {arguments.out}: compare the hash of all terms with all silos")


def _answer(arguments: argparse.Namespace) -> None:
    logs.show()
    agreement, loss = silos.load_agreement(arguments.agreement), _load(arguments.loss)
    agreement.roster.member(arguments.name)
    table = csv_rows.parse(str(arguments.data), arguments.data.read_bytes())
    columns = {name: cells.real_numbers(table.cells[:, table.column(name)]) for name in agreement.columns}
    data = {name: np.asarray(column, float) for name, column in columns.items()}
    options = {"name": arguments.name, "folder": arguments.folder, "ledger": arguments.ledger}
    silo = silos.Silo(agreement, loss, data, **options)
    print(f"{agreement!r}, hash of all terms {agreement.digest.hex()}\n{silo.guarantee.claim}", flush=True)
    with sockets.listen(arguments.socket) as listener:
        sockets.answer_until_failure(silo, listener)  # what it returns may quote rows
    sys.exit(f"jaxdpbo silo: {FAILED}")


def _serve(arguments: argparse.Namespace) -> None:
    logs.show()
    agreement, folder = silos.load_agreement(arguments.agreement), arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    run = silos.run_on_sockets(
        agreement,
        {name: arguments.sockets / f"{name}.socket" for name in agreement.roster.names},
        record=folder / "sums.jsonl",
        wait=arguments.wait,
        patience=arguments.patience,
        status=folder / "status",
        tell=lambda status: print(status, flush=True),
    )
    run.save(folder / "answer.json")
    run.report(folder / "record.html")
    print(f"wrote {folder / 'answer.json'} and {folder / 'record.html'}\n{run}")


def _look(arguments: argparse.Namespace) -> None:
    status = silos.ask_status(arguments.folder / "status")
    print(status.to_json() if arguments.json else status)
    if arguments.action == "health" and not status.healthy:
        sys.exit(1)


def _load(reference: str) -> Callable[..., Any]:
    """Import a loss, before a row is read."""
    module, _, name = reference.partition(":")
    sys.path.insert(0, os.getcwd())
    loss: Any = None
    try:
        loss = getattr(importlib.import_module(module), name, None)
    except Exception as error:
        raise ValueError(f"--loss: {module} cannot be imported: {type(error).__name__}: {error}") from None
    if not callable(loss):
        raise ValueError(f"--loss must be MODULE:FUNCTION, got {reference!r}")
    return loss


ACTIONS = {
    "init": _init,
    "roster": _put_on_roster,
    "agree": _agree,
    "run": _answer,
    "serve": _serve,
    "status": _look,
    "health": _look,
}
