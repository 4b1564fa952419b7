"""Where curator and modeler meet, as both commands' arguments say it."""

import argparse
from pathlib import Path

FOLDER = Path("results") / "outsourcing"  # of the current directory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The three ways to meet."""
    parser.add_argument("--port", type=int, help="of this machine; needs --secret; a Unix socket where not given")
    parser.add_argument("--secret", type=Path, help="with --port: a file of 32 bytes, which the curator makes")
    parser.add_argument("--pipe", action="store_true", help="speak over standard input and output instead")


def check(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Refuse a port without a secret."""
    if (arguments.port is None) != (arguments.secret is None):
        parser.error("--port and --secret belong together: on a port, whoever holds the secret is the other party")
    if arguments.pipe and arguments.port is not None:
        parser.error("--pipe and --port exclude each other")


def of(arguments: argparse.Namespace, folder: Path) -> tuple[int | Path, Path]:
    """The port, or the Unix socket beside the released file in ``folder``; and the file of the secret."""
    if arguments.port is not None:
        return arguments.port, arguments.secret
    return folder / "socket" / "curator", folder / "socket" / "secret"
