"""``jaxdpbo curator``: hold private rows and a function, publish the rows transformed, and answer queries.

The curator talks to the modeler over standard input and output, and ends with standard input: run the command with
``</dev/null`` to publish only. The modeler may read standard error (``ssh`` forwards it), so only public sentences go
there. The output of the function and its libraries, and the reasons of failed evaluations, go to ``curator.log``. Files
in ``--folder``: publish only ``released.jsonl``; keep ``record.jsonl``, its key ``record.jsonl.key`` and
``curator.log`` private.
"""

import argparse
import importlib
import math
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdpbo import cells, files, not_private, outsourcing, transforms
from jaxdpbo.commands import csv_rows
from jaxdpbo.commands.streams import Channel, take_streams
from jaxdpbo.guarantee import guarantees
from jaxdpbo.problems import _gp_draws

TRANSFORMS = ("product_laplace", "planar_laplace", "gaussian", "random_projection")
FOLDER = Path("results") / "outsourcing"  # of the current directory
WAIT = 0.2  # seconds between attempts to open a record in use
SIDE, POINTS, LARGEST = 7.5, 100, 25.0  # of the example: the paper's synthetic problem, with largest norm 25


class PrivateSide(NamedTuple):
    """The private side: ``inputs (n, d)``, a function from row number to output, and the source bytes of both."""

    inputs: np.ndarray
    evaluate: Any
    source: bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("table", nargs="?", type=Path, help=f"{csv_rows.FORMAT}; by default, a synthetic example")
    parser.add_argument("--inputs", help="the columns with the coordinates of a row: a,b,c")
    parser.add_argument("--output", help="the column to maximise")
    parser.add_argument(
        "--function", help="in place of --output: MODULE:NAME, a function of a row number and the row's inputs"
    )
    parser.add_argument(
        "--lengthscales", type=parse_numbers, help="divide the inputs by these public numbers: 1,2.5,10"
    )
    parser.add_argument(
        "--centre", type=parse_numbers, help="a public centre of the divided inputs, chosen without the table: 50,5"
    )
    parser.add_argument("--unit", type=float, help="the public unit of distance of the guarantee")
    parser.add_argument(
        "--transform", choices=TRANSFORMS, default=TRANSFORMS[0], help="the transform of the rows (default %(default)s)"
    )
    parser.add_argument(
        "--epsilon", type=float, required=True, help="the budget for a unit of distance; see also --radius"
    )
    parser.add_argument(
        "--delta", type=float, default=1e-5, help="delta of gaussian and random_projection (default %(default)s)"
    )
    parser.add_argument(
        "--radius", type=float, help="in units: bring rows into this ball; epsilon then covers any replacement in it"
    )
    parser.add_argument(
        "--projected",
        type=int,
        default=10,
        help="dimension of random_projection, which protects nobody (default %(default)s)",
    )
    parser.add_argument("--queries", type=int, default=50, help="the number of queries to answer (default %(default)s)")
    parser.add_argument(
        "--check",
        action="store_true",
        help="NOT PRIVATE: print how many rows the transform would move, and how many cells are no number, for the "
        "owner alone; publish and write nothing",
    )
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="the folder for the curator's files (default %(default)s)"
    )


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Publish unless published already, then answer queries until the modeler sends its answer or closes."""
    if arguments.table is not None:
        for name in ("inputs", "centre", "unit"):
            if getattr(arguments, name) is None:
                parser.error(f"--{name} must be given with a table: it is public, and never estimated from the table")
        if (arguments.output is None) == (arguments.function is None):
            parser.error("give either --output or --function with a table")
    if arguments.check:
        if arguments.table is None:
            parser.error("--check needs a table")
        print(check(arguments))
        return
    log = arguments.folder / "curator.log"
    with ExitStack() as streams:
        try:
            arguments.folder.mkdir(parents=True, exist_ok=True)
            channel = take_streams(log, streams)
        except OSError as error:
            sys.exit(f"curator: {error}")
        try:
            serve_all(arguments, channel, example() if arguments.table is None else read_table(arguments))
        except (outsourcing.ProtocolError, ValueError, OSError) as error:
            message = f"curator: {error}"
        except BaseException:  # the message may come from the owner's module and contain private values
            traceback.print_exc()
            message = f"curator: stopped; for the reason see {log}"
        else:
            return
        channel.say(message)
        sys.exit(message)


def check(arguments: argparse.Namespace) -> not_private.NotPrivateCheck:
    """NOT PRIVATE: count the rows that the transform would move, and the cells that are no number."""
    table, held = csv_rows.parse(str(arguments.table), arguments.table.read_bytes()), read_table(arguments)
    names = dict.fromkeys(filter(None, [*arguments.inputs.split(","), arguments.output]))
    found = [not_private.count_cells(f"column {name!r}", table.cells[:, table.column(name)]) for name in names]
    moved = transforms.check(choose_transform(arguments, held.inputs.shape[1]), held.inputs)
    return not_private.make_check(moved.rows, moved.findings, *found)


def parse_numbers(text: str) -> list[float]:
    """Parse numbers separated by commas."""
    return [float(word) for word in text.split(",")]


def example() -> PrivateSide:
    """Draw a Gaussian process on a grid, as in the paper."""
    outputs = np.asarray(_gp_draws.gp_draws(jax.random.key(0), 1, side=SIDE, points=POINTS, lengthscale=1.25)[0])
    inputs = np.asarray(_gp_draws.gp_grid(SIDE, POINTS))
    return PrivateSide(inputs, outputs.__getitem__, outsourcing.frame("example", inputs, outputs))


def read_table(arguments: argparse.Namespace) -> PrivateSide:
    """Read a CSV file. A cell that is no number is NaN, in an input the centre, in an output none."""
    content = arguments.table.read_bytes()
    table = csv_rows.parse(str(arguments.table), content)
    print(f"columns of {arguments.table}: {', '.join(table.header)}")  # of a file without a header, a row: for the log
    names = arguments.inputs.split(",")
    numbers = {}
    for name in dict.fromkeys(filter(None, [*names, arguments.output])):
        numbers[name] = cells.real_numbers(table.cells[:, table.column(name)])
        if not np.any(np.isfinite(numbers[name])):  # rows decide this: it is the owner's to read, in the log
            print(f"{arguments.table} has no number in column {name}")
    inputs = np.stack([numbers[name] for name in names], axis=1)
    if arguments.lengthscales is not None:
        if len(arguments.lengthscales) != len(names) or not all(0 < x < math.inf for x in arguments.lengthscales):
            raise ValueError(f"--lengthscales must be {len(names)} positive numbers")
        inputs = inputs / np.array(arguments.lengthscales)
    if arguments.output is not None:
        source = outsourcing.frame("column", content, inputs, arguments.output)
        return PrivateSide(inputs, numbers[arguments.output].__getitem__, source)
    function, file = load_function(arguments.function)
    source = outsourcing.frame("function", content, inputs, arguments.function, file.read_bytes())
    return PrivateSide(inputs, lambda row: function(row, inputs[row]), source)


def load_function(reference: str) -> tuple[Callable[..., Any], Path]:
    """Import the owner's function; return it and the file of its module. Errors of the module go to the log."""
    module, _, name = reference.partition(":")
    sys.path.insert(0, os.getcwd())
    function = file = None
    try:
        loaded = importlib.import_module(module)
        function, file = getattr(loaded, name), getattr(loaded, "__file__", None)
    except BaseException:
        traceback.print_exc()
    if function is None:  # raised outside of the handler, since the context may quote rows
        raise outsourcing.ProtocolError(f"--function: {module} failed; for the reason see curator.log")
    if file is None:
        raise ValueError(f"--function: {module} has no file: call it from a module of your own")
    return function, Path(file)


def serve_all(arguments: argparse.Namespace, channel: Channel, held: PrivateSide) -> None:
    """Publish or read the released file, and answer queries until the modeler sends its answer or closes."""
    released, record = arguments.folder / "released.jsonl", arguments.folder / "record.jsonl"
    config = choose_transform(arguments, held.inputs.shape[1])
    if not 0 < arguments.queries <= outsourcing.MAX_QUERIES:  # before anything is drawn
        raise ValueError(f"--queries must be 1 to {outsourcing.MAX_QUERIES}, got {arguments.queries}")
    if not released.exists():
        if record.exists():
            raise outsourcing.ProtocolError(
                f"{released} is missing, and another release would spend its budget again: restore it from a copy"
            )
        with suppress(FileExistsError):  # another curator was first: drop this release
            outsourcing.publish(released, transforms.curate(None, config, held.inputs))
    files.expect_own(released)  # a file of another user was not made of these rows
    published = outsourcing.read_publication(released)
    if published.curated.guarantee != guarantees.guarantee_from_dict(config.guarantee.to_dict()):
        raise outsourcing.ProtocolError(
            f"{released} was made under other settings: {published.curated.guarantee.claim}"
        )
    if len(published.curated.z) != len(held.inputs):
        raise outsourcing.ProtocolError(
            f"{released} has {len(published.curated.z)} rows, the table has {len(held.inputs)}"
        )
    private = outsourcing.frame(held.source, config.kind, np.asarray(config.centre))
    channel.say(f"{released}: {len(held.inputs)} rows to publish; keep {record}, its key and curator.log private")
    channel.say(f"guarantee: {published.curated.guarantee}")
    with ExitStack() as stack:
        opened = open_record(stack, record, published, private, arguments.queries, channel)
        channel.say(f"{len(opened.answers)} of {opened.queries} queries are answered")
        try:
            answer = serve(opened, held.evaluate, channel)
        except OSError:  # the modeler closed its side
            answer = None
    channel.say("the modeler sent no answer" if answer is None else f"the modeler's answer is row {answer}")


def open_record(
    stack: ExitStack, path: Path, published: outsourcing.Publication, private: bytes, queries: int, channel: Channel
) -> outsourcing.Journal:
    """Open the record. If another curator has the record open, wait for its end.

    A curator without its modeler finishes its current evaluation first.
    """
    waiting = False
    while True:
        try:
            return stack.enter_context(outsourcing.open_journal(path, published, private, queries))
        except outsourcing.RecordInUse as error:
            if not waiting:
                channel.say(f"{error}: waiting for it to end")
            waiting = True
            time.sleep(WAIT)


def choose_transform(arguments: argparse.Namespace, dimension: int) -> transforms.Config:
    """Make the transform from public numbers only."""
    centre = np.zeros(dimension) if arguments.table is None else np.array(arguments.centre)
    unit = SIDE / math.sqrt(2) / LARGEST if arguments.table is None else arguments.unit
    if arguments.transform == "random_projection":
        return transforms.random_projection(
            dimension=dimension, projected=arguments.projected, epsilon=arguments.epsilon, delta=arguments.delta,
            scale=unit,
        )  # fmt: skip
    public = {"centre": centre, "scale": unit, "epsilon": arguments.epsilon, "radius": arguments.radius}
    if arguments.transform == "gaussian":
        return transforms.gaussian(**public, delta=arguments.delta)
    laplace = transforms.planar_laplace if arguments.transform == "planar_laplace" else transforms.product_laplace
    return laplace(**public)


def serve(record: outsourcing.Journal, evaluate: Callable[[int], float], channel: Channel) -> int | None:
    """Answer the modeler. The reason of a failed evaluation goes to the log, not to the modeler."""

    def log_failure(row):
        try:
            return evaluate(row)
        except (Exception, SystemExit):
            traceback.print_exc()
        raise RuntimeError  # outside of the handler, since its context may quote rows

    def send(line):
        if line.startswith('{"error": '):
            channel.say(f"refused: {line}")
        channel.send(line)

    try:
        return outsourcing.serve(record, log_failure, channel.lines, send)
    except ValueError:  # from a signal handler of the owner, say
        traceback.print_exc()
    raise outsourcing.ProtocolError("stopped; for the reason see curator.log")
