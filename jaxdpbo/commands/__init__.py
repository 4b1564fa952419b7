"""The commands of the package: ``jaxdpbo demo``, ``tune``, ``curator``, ``modeler``, ``ledger``, ``silo``.

``python -m jaxdpbo`` is the same.

Each module has ``add_arguments(parser)`` and ``run(arguments, parser)``. Commands print, compute in float64 unless you
set ``JAX_ENABLE_X64``, and end the process with a status.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

import jax

from jaxdpbo import __version__, checks

COMMANDS = {
    "demo": "tune a kernel machine privately on 300 patients' records, and compare with other methods",
    "tune": "tune a scikit-learn estimator on a CSV file; half of the rows train, the other half are protected",
    "curator": "hold private rows and a function, publish the rows transformed, and answer queries",
    "modeler": "search the released rows of a curator, and query rows by number",
    "ledger": "create and read a ledger of privacy budgets, and write the record of its releases to sign",
    "silo": "search among silos that share nothing: keys, roster, agreement, the silo, the server, and its status",
}
EXTRAS = {
    "cryptography": "silos",
    "matplotlib": "demo",
    "psycopg": "sql",
    "sklearn": "demo",
    "sqlalchemy": "sql",
    "tqdm": "progress",
}  # missing package -> extra to install


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command.

    Args:
      arguments: the command line; by default the arguments of the process.

    Raises:
      SystemExit: an argument was refused, or the command failed; with a message.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    if "JAX_ENABLE_X64" not in os.environ:
        jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(prog="jaxdpbo", description="Differentially private Bayesian optimisation.")
    parser.add_argument("--version", action="version", version=f"jaxdpbo {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name in words[:1]:  # import the module of this command only
            module = importlib.import_module(f"jaxdpbo.commands.{name}")
            module.add_arguments(command)
            command.set_defaults(run=module.run, parser=command)
    chosen = parser.parse_args(words)
    try:
        chosen.run(chosen, chosen.parser)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except ModuleNotFoundError as error:
        if error.name is not None and error.name not in EXTRAS:
            raise
        missing = f"{error.name} is missing: {checks.install_hint(EXTRAS[error.name])}" if error.name else error
        sys.exit(f"jaxdpbo {chosen.command}: {missing}")
