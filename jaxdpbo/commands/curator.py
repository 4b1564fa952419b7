"""``jaxdpbo curator``: holds the rows and the function, publishes the rows transformed, answers queries.

Everything it says to its owner goes to standard error. The modeler comes to a Unix socket that its owner alone can
open, to a port of this machine with a shared secret, or over standard output and input. Files in ``--folder``:
``released.jsonl`` may leave; ``record.jsonl`` and its key ``record.jsonl.key`` may not; ``socket/`` holds the Unix
socket and its secret.
"""

import argparse
import csv
import importlib
import io
import math
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import jax
import numpy as np

from jaxdpbo import outsourcing
from jaxdpbo.commands import places
from jaxdpbo.privacy import guarantee, transforms
from jaxdpbo.problems import outsourced

TRANSFORMS = ("product_laplace", "planar_laplace", "gaussian", "random_projection")
SIDE, POINTS, LARGEST = 7.5, 100, 25.0  # of the example: the paper's synthetic problem, where the largest norm is 25


class Held(NamedTuple):
    """The private side: ``inputs (n, d)``, the output of a row, and the bytes that both come from."""

    inputs: np.ndarray
    evaluate: Any
    source: bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this command."""
    parser.add_argument("table", nargs="?", type=Path, help="a CSV file with a header; an example where not given")
    parser.add_argument("--inputs", help="columns that are the rows' coordinates: a,b,c")
    parser.add_argument("--output", help="the column to be maximised")
    parser.add_argument("--function", help="instead of a column: MODULE:NAME, called with a row number and its inputs")
    parser.add_argument("--lengthscales", type=numbers, help="public, one for each input, which are divided by them")
    parser.add_argument("--centre", type=numbers, help="public, chosen without the table, after that division")
    parser.add_argument("--unit", type=float, help="public: the distance in which a guarantee is stated")
    parser.add_argument("--transform", choices=TRANSFORMS, default=TRANSFORMS[0])
    parser.add_argument("--epsilon", type=float, required=True, help="for a unit of distance; see --radius")
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--radius", type=float, help="in units: then epsilon is for any replacement in that ball")
    parser.add_argument("--projected", type=int, default=10, help="r of the random projection, which protects nobody")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--folder", type=Path, default=places.FOLDER)
    places.add_arguments(parser)


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Publish where nothing is published yet, then serve until the modeler gives its answer."""
    places.check(arguments, parser)
    if arguments.table is not None:
        for name in ("inputs", "centre", "unit"):
            if getattr(arguments, name) is None:
                parser.error(f"--{name} is needed: it is public, and is not estimated from the table")
        if (arguments.output is None) == (arguments.function is None):
            parser.error("one of --output and --function is needed")
    try:
        with of_protocol() if arguments.pipe else nullcontext() as channel:
            serve_all(arguments, channel, example() if arguments.table is None else of_table(arguments))
    except (outsourcing.ProtocolError, ValueError, OSError) as error:
        sys.exit(f"curator: {error}")


@contextmanager
def of_protocol() -> Iterator[TextIO]:
    """Standard output, for the modeler alone: what is printed meanwhile, by code of any kind, goes to the owner."""
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w") as channel, redirect_stdout(sys.stderr):
        os.dup2(2, 1)
        try:
            yield channel
        finally:
            os.dup2(channel.fileno(), 1)


def numbers(text: str) -> list[float]:
    """Of an argument, separated by commas."""
    return [float(word) for word in text.split(",")]


def example() -> Held:
    """A draw of a Gaussian process on a grid, as in the paper."""
    outputs = np.asarray(outsourced.draws(jax.random.key(0), 1, side=SIDE, points=POINTS, lengthscale=1.25)[0])
    inputs = np.asarray(outsourced.grid(SIDE, POINTS))
    return Held(inputs, outputs.__getitem__, outsourcing.framed("example", inputs, outputs))


def of_table(arguments: argparse.Namespace) -> Held:
    """What a CSV file holds; no message tells a value of it."""
    content = arguments.table.read_bytes()
    try:
        header, *rows = csv.reader(io.StringIO(content.decode(), newline=""))
    except (ValueError, csv.Error):
        raise ValueError(f"{arguments.table} must be a CSV file in UTF-8 with a header") from None
    names = arguments.inputs.split(",")
    missing = {*names, *filter(None, [arguments.output])} - set(header)
    if missing:
        raise ValueError(f"{arguments.table} has no column {', '.join(sorted(missing))}")

    def column(name):
        place = header.index(name)
        found = np.array([_number(row[place]) if place < len(row) else np.nan for row in rows])
        if not np.any(np.isfinite(found)):
            raise ValueError(f"{arguments.table} has no number in column {name}")
        return found

    inputs = np.stack([column(name) for name in names], axis=1)
    if arguments.lengthscales is not None:
        if len(arguments.lengthscales) != len(names) or min(arguments.lengthscales) <= 0:
            raise ValueError(f"--lengthscales must be {len(names)} positive numbers")
        inputs = inputs / np.array(arguments.lengthscales)
    if arguments.output is not None:
        source = outsourcing.framed("column", content, inputs, arguments.output)
        return Held(inputs, column(arguments.output).__getitem__, source)
    module, _, name = arguments.function.partition(":")
    sys.path.insert(0, os.getcwd())
    loaded = importlib.import_module(module)
    file = getattr(loaded, "__file__", None)
    if file is None:
        raise ValueError(f"--function: {module} has no file; use a module of your own that calls it")
    function = getattr(loaded, name)
    source = outsourcing.framed("function", content, inputs, arguments.function, Path(file).read_bytes())
    return Held(inputs, lambda row: function(row, inputs[row]), source)


def _number(cell: str) -> float:
    """NaN where there is none: such a row counts as the centre, such an output is none."""
    try:
        return float(cell)
    except ValueError:
        return np.nan


def serve_all(arguments: argparse.Namespace, channel: TextIO | None, held: Held) -> None:
    """Publish, or read what was published, and answer until the modeler gives its answer."""
    arguments.folder.mkdir(parents=True, exist_ok=True)
    released, record = arguments.folder / "released.jsonl", arguments.folder / "record.jsonl"
    config = chosen(arguments, held.inputs.shape[1])
    if not 0 < arguments.queries <= outsourcing.MAX_QUERIES:  # before anything is drawn
        raise ValueError(f"--queries must be 1 to {outsourcing.MAX_QUERIES}, got {arguments.queries}")
    if not released.exists():
        if record.exists():
            raise outsourcing.ProtocolError(f"{released} is gone, and making another would spend its budget again")
        outsourcing.publish(released, transforms.curate(None, config, held.inputs))
    published = outsourcing.read_published(released)
    if published.curated.guarantee != guarantee.from_dict(config.guarantee.to_dict()):
        raise outsourcing.ProtocolError(
            f"{released} was made under other settings: {published.curated.guarantee.claim}"
        )
    if len(published.curated.z) != len(held.inputs):
        raise outsourcing.ProtocolError(f"{released} is of {len(published.curated.z)} rows, not of {len(held.inputs)}")
    private = outsourcing.framed(held.source, config.kind, np.asarray(config.centre))
    with outsourcing.open_journal(record, published, private, arguments.queries) as opened:
        say(f"{released}: {len(held.inputs)} rows, may leave; {record} and its key may not")
        say(f"guarantee: {published.curated.guarantee}")
        say(f"{len(opened.answers)} of {opened.queries} queries are answered")
        answer = contacts(arguments, channel, opened, watched(held.evaluate))
        say("the modeler went away" if answer is None else f"the modeler's answer is row {answer}")


def chosen(arguments: argparse.Namespace, dimension: int) -> transforms.Config:
    """The transform, of public numbers only."""
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


def watched(evaluate: Any) -> Any:
    """The owner sees why an evaluation failed, the modeler does not."""

    def one(row):
        try:
            return evaluate(row)
        except Exception:
            traceback.print_exc()
            raise

    return one


def contacts(
    arguments: argparse.Namespace, channel: TextIO | None, record: outsourcing.Journal, evaluate: Any
) -> int | None:
    """Serve the pipe once, or a socket until the modeler says its answer."""
    if channel is not None:
        return serve(record, evaluate, outsourcing.lines_of(sys.stdin), outsourcing.sender(channel))
    place, path = places.of(arguments, arguments.folder)
    with outsourcing.listen(place, path) as sessions:
        where = place if arguments.port is None else f"port {place} of this machine"
        say(f"listening at {where}; a modeler needs {path}")
        for session in sessions:
            try:
                answer = serve(record, evaluate, session.lines, session.send)
            except OSError:  # the modeler is gone
                answer = None
            if answer is not None:
                return answer
            say(f"the modeler went away; {len(record.answers)} of {record.queries} queries are answered")
    return None


def serve(record: outsourcing.Journal, evaluate: Any, lines: Any, send: Any) -> int | None:
    """The owner sees what is refused."""

    def watched(line):
        if line.startswith('{"error": '):
            say(f"refused: {line}")
        send(line)

    return outsourcing.serve(record, evaluate, lines, watched)


def say(text: str) -> None:
    """To the owner, on standard error."""
    print(text, file=sys.stderr, flush=True)
