"""``scripts/modeler``: sees the released rows alone, asks for rows by number, finds the row of the largest output.

It keeps nothing: the curator's greeting tells it all answers so far. Everything it says to its owner goes to standard
error. It finds the curator's Unix socket beside the released file; see ``scripts/curator`` for the other ways.
"""

import os

os.environ.setdefault("JAX_ENABLE_X64", "1")

import argparse
import sys
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from benchmarks import places, report
from jaxdpbo import outsourcing


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/modeler", description=__doc__.splitlines()[0])
    parser.add_argument("released", nargs="?", type=Path, default=report.RESULTS / "outsourcing" / "released.jsonl")
    parser.add_argument("--lengthscale", type=float, required=True, help="in units of distance, as the rows are")
    parser.add_argument("--noise-variance", type=float, default=1e-4, help="of an output, in standard units")
    parser.add_argument("--centre", type=float, default=0.0, help="of the outputs")
    parser.add_argument("--scale", type=float, default=1.0, help="of the outputs: their standard deviation")
    places.add_arguments(parser)
    arguments = places.parsed(parser)
    try:
        run(arguments)
    except (ConnectionError, TimeoutError):  # while writing: a reader sees the end of its lines
        sys.exit("modeler: the curator went away: start again to go on")
    except (outsourcing.ProtocolError, ValueError, OSError) as error:
        sys.exit(f"modeler: {error}")


def run(arguments: argparse.Namespace) -> None:
    if arguments.pipe:
        return talk(arguments, outsourcing.lines_of(sys.stdin), outsourcing.sender(sys.stdout))
    place, secret = places.of(arguments, arguments.released.parent)
    print(f"modeler: looking for a curator at {place}", file=sys.stderr)
    with outsourcing.connect(place, secret) as session:
        return talk(arguments, session.lines, session.send)


def talk(arguments, lines, send) -> None:
    # The greeting comes first: once a curator speaks, its released file is there.
    first = next(lines, None)
    if first is None:
        raise outsourcing.ProtocolError("there is no curator")
    published = outsourcing.read_published(arguments.released)
    print(f"guarantee: {published.curated.guarantee}", file=sys.stderr)
    with tqdm(unit="query", file=sys.stderr) as bar:

        def told(answer):
            bar.set_postfix(row=answer.row, output=answer.output)
            bar.update()

        found = outsourcing.search(
            published,
            chain([first], lines),
            send,
            told=told,
            lengthscale=arguments.lengthscale,
            noise_variance=arguments.noise_variance,
            centre=arguments.centre,
            scale=arguments.scale,
        )
    print(f"row {found.row}: output {found.output:.6g}, the largest of {len(found.answers)}", file=sys.stderr)


if __name__ == "__main__":
    main()
