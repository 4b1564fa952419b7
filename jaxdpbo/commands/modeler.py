"""``jaxdpbo modeler``: holds the released rows alone, asks for rows by number, finds the row of the largest output.

It keeps nothing: the curator's greeting holds all answers so far. Everything it says to its owner goes to standard
error. It finds the curator's Unix socket beside the released file; see ``jaxdpbo curator`` for the other ways.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from jaxdpbo import outsourcing
from jaxdpbo.commands import places


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this command."""
    parser.add_argument("released", nargs="?", type=Path, default=places.FOLDER / "released.jsonl")
    parser.add_argument("--lengthscale", type=float, required=True, help="in units of distance, as the rows are")
    parser.add_argument("--noise-variance", type=float, default=1e-4, help="of an output, in standard units")
    parser.add_argument("--centre", type=float, default=0.0, help="of the outputs")
    parser.add_argument("--scale", type=float, default=1.0, help="of the outputs: their standard deviation")
    places.add_arguments(parser)


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Ask until every query is answered, then give the answer."""
    places.check(arguments, parser)
    try:
        meet(arguments)
    except (ConnectionError, TimeoutError):  # while writing: a reader sees the end of its lines
        sys.exit("modeler: the curator went away: start again to go on")
    except (outsourcing.ProtocolError, ValueError, OSError) as error:
        sys.exit(f"modeler: {error}")


def meet(arguments: argparse.Namespace) -> None:
    """By the pipe or the socket that the arguments name."""
    if arguments.pipe:
        return talk(arguments, outsourcing.lines_of(sys.stdin), outsourcing.sender(sys.stdout))
    place, secret = places.of(arguments, arguments.released.parent)
    print(f"modeler: looking for a curator at {place}", file=sys.stderr)
    with outsourcing.connect(place, secret) as session:
        return talk(arguments, session.lines, session.send)


def talk(arguments: argparse.Namespace, lines: Iterator[str], send: Callable[[str], None]) -> None:
    """One contact with the curator."""
    from tqdm import tqdm  # an extra: imported where it is used

    # The greeting comes first: once a curator speaks, its released file is there.
    first = next(lines, None)
    if first is None:
        raise outsourcing.ProtocolError("there is no curator")
    published = outsourcing.read_published(arguments.released)
    print(f"guarantee: {published.curated.guarantee}", file=sys.stderr)
    with tqdm(unit="query", file=sys.stderr) as bar:

        def show(answer):
            bar.set_postfix(row=answer.row, output=answer.output)
            bar.update()

        found = outsourcing.search(
            published,
            chain([first], lines),
            send,
            on_answer=show,
            lengthscale=arguments.lengthscale,
            noise_variance=arguments.noise_variance,
            centre=arguments.centre,
            scale=arguments.scale,
        )
    print(f"row {found.row}: output {found.output:.6g}, the largest of {len(found.answers)}", file=sys.stderr)
