"""``scripts/modeler``: sees the released rows alone, asks for rows by number, finds the row of the largest output.

It keeps nothing: the curator's greeting tells it all answers so far. Everything it says to its owner goes to standard
error; standard output and input are the pipe to the curator, where no port is given.
"""

import os

os.environ.setdefault("JAX_ENABLE_X64", "1")

import argparse
import socket
import sys
import time
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from benchmarks import report
from jaxdpbo import outsourcing

PATIENCE = 60.0  # seconds for a curator to come


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/modeler", description=__doc__.splitlines()[0])
    parser.add_argument("released", nargs="?", type=Path, default=report.RESULTS / "outsourcing" / "released.jsonl")
    parser.add_argument("--lengthscale", type=float, required=True, help="in units of distance, as the rows are")
    parser.add_argument("--noise-variance", type=float, default=1e-4, help="of an output, in standard units")
    parser.add_argument("--centre", type=float, default=0.0, help="of the outputs")
    parser.add_argument("--scale", type=float, default=1.0, help="of the outputs: their standard deviation")
    parser.add_argument("--port", type=int, help="of this machine; a pipe where not given")
    arguments = parser.parse_args()
    try:
        run(arguments)
    except ConnectionError:  # while writing: a reader sees the end of its lines
        sys.exit("modeler: the curator went away: start again to go on")
    except (outsourcing.Refused, ValueError, OSError) as error:
        sys.exit(f"modeler: {error}")


def run(arguments: argparse.Namespace) -> None:
    if arguments.port is None:
        return talk(arguments, outsourcing.lines_of(sys.stdin), outsourcing.sender(sys.stdout))
    with connected(arguments.port) as connection, connection.makefile("rw") as stream:
        return talk(arguments, outsourcing.lines_of(stream), outsourcing.sender(stream))


def connected(port: int) -> socket.socket:
    """A connection to a curator that may still be starting."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise outsourcing.Refused("there is no curator") from None
            time.sleep(0.2)


def talk(arguments, lines, send) -> None:
    # The greeting comes first: once a curator speaks, its released file is there.
    first = next(lines, None)
    if first is None:
        raise outsourcing.Refused("there is no curator")
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
