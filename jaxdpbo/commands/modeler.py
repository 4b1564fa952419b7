"""``jaxdpbo modeler``: find the row of the largest output, from the released rows and queries by row number.

The modeler starts the curator as a child process and uses the child's standard input and output:
``--curator "jaxdpbo curator --epsilon 3"`` on this machine, ``--curator "ssh hospital"`` on another machine. The
modeler keeps nothing: the curator's greeting holds all answers so far, so you may kill and restart either party. All
messages for the modeler's owner, and all messages of the curator, go to standard error.
"""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TextIO, cast

from jaxdpbo import logs, outsourcing
from jaxdpbo.commands.curator import FOLDER

END_TIME = 10.0  # seconds to wait for the curator's exit before a kill


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "released",
        nargs="?",
        type=Path,
        default=FOLDER / "released.jsonl",
        help="the curator's released file (default %(default)s)",
    )
    parser.add_argument("--curator", required=True, metavar="COMMAND", help="the command to start the curator")
    parser.add_argument(
        "--lengthscale",
        type=float,
        required=True,
        help="lengthscale of the model, in units of distance, as the released rows are",
    )
    parser.add_argument(
        "--noise-variance",
        type=float,
        default=1e-4,
        help="noise variance of standardised outputs (default %(default)s)",
    )
    parser.add_argument("--centre", type=float, default=0.0, help="mean of the outputs (default %(default)s)")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="standard deviation of the outputs (default %(default)s)"
    )


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Query until the curator has answered all queries, then send the answer."""
    try:
        command = shlex.split(arguments.curator)
    except ValueError as error:
        parser.error(f"--curator: {error}")
    if not command:
        parser.error("--curator must be a command, such as 'jaxdpbo curator --epsilon 3'")
    try:
        meet(arguments, command)
    except (outsourcing.ProtocolError, ValueError, OSError) as error:
        sys.exit(f"modeler: {error}")


def meet(arguments: argparse.Namespace, command: list[str]) -> None:
    """Query the curator. If the curator stops, restart it, as long as every restart brings a new answer.

    Raises:
      CuratorStopped: the curator stopped twice at the same query.
    """
    answered = -1
    while True:
        answers: list[outsourcing.Answer] = []
        try:
            with start(command) as curator:
                return talk(arguments, curator, answers)
        except (outsourcing.CuratorStopped, ConnectionError):
            if len(answers) <= answered:
                raise
            answered = len(answers)
            logs.retried(f"the curator, after {answered} answers")
            print(f"modeler: the curator stopped after {answered} answers: starting it again", file=sys.stderr)


@contextmanager
def start(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a curator as a child process; end it with this context."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf8") as curator:
        try:
            yield curator
        finally:
            with suppress(ConnectionError):
                cast(TextIO, curator.stdin).close()
            try:
                curator.wait(END_TIME)
            except subprocess.TimeoutExpired:
                curator.kill()


def talk(arguments: argparse.Namespace, curator: subprocess.Popen[str], answers: list[outsourcing.Answer]) -> None:
    """Connect to the curator once; append all answers to ``answers``, starting with those of earlier contacts."""
    from tqdm import tqdm  # an extra: imported where it is used

    lines, send = outsourcing.read_lines(cast(TextIO, curator.stdout)), outsourcing.sender(cast(TextIO, curator.stdin))
    # Read the greeting first: the released file exists from then on.
    greeting = next(lines, None)
    if greeting is None:
        raise outsourcing.ProtocolError("the curator ended before its greeting: see its messages above")
    published = outsourcing.read_publication(arguments.released)
    print(f"guarantee: {published.curated.guarantee}", file=sys.stderr)
    with tqdm(unit="query", file=sys.stderr) as bar:

        def show(answer):
            answers.append(answer)
            bar.set_postfix(row=answer.row, output=answer.output)
            bar.update()

        answer = outsourcing.search(
            published,
            chain([greeting], lines),
            send,
            on_answer=show,
            lengthscale=arguments.lengthscale,
            noise_variance=arguments.noise_variance,
            centre=arguments.centre,
            scale=arguments.scale,
        )
    print(f"row {answer.row}: output {answer.output:.6g}, the largest of {len(answer.answers)}", file=sys.stderr)
