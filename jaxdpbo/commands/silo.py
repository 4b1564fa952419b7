"""``jaxdpbo silo``: make the key of a silo, and put the cards of all silos on a roster."""

import argparse
import json
import sys
from pathlib import Path

from jaxdpbo import silos
from jaxdpbo.silos import roster as _roster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    init = actions.add_parser("init", help="make the key of a silo, and write its public card")
    init.add_argument("name", help="of the silo")
    init.add_argument("--users", type=int, required=True, help="the number of the silo's users, public")
    init.add_argument("--folder", type=Path, default=Path(), help="for the key, which only you can read, and the card")
    roster = actions.add_parser("roster", help="put the cards of all silos on a roster")
    roster.add_argument("cards", type=Path, nargs="+", help="a card of each silo")
    roster.add_argument("--missing", type=int, default=0, help="the most silos that may be absent from a sum")
    roster.add_argument("--out", type=Path, default=Path("roster.json"), help="the roster, the same for all silos")


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Run the action; exit with a message if an argument or a file is refused."""
    del parser
    try:
        if arguments.action == "init":
            member = silos.create_identity(arguments.folder, arguments.name, users=arguments.users)
            path = arguments.folder / f"{member.name}.card.json"
            path.write_text(json.dumps(member._asdict()))
            print(f"wrote the key to {arguments.folder / member.name}.identity: keep it secret")
            print(f"wrote the card to {path}: give it to the other silos")
        else:
            members = [_roster.load_card(path) for path in arguments.cards]
            roster = silos.make_roster(members, missing=arguments.missing)
            roster.save(arguments.out)
            print(f"wrote {arguments.out}: {len(members)} silos, {roster.users} users")
            print(f"compare its hash with all silos: {roster.digest().hex()}")
    except (OSError, ValueError, TypeError) as error:
        sys.exit(f"jaxdpbo silo: {error}")
