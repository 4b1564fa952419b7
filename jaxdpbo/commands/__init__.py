"""The programs of the package: ``jaxdpbo demo``, ``tune``, ``curator``, ``modeler`` and ``ledger``.

``python -m jaxdpbo`` is the same.

Each module has ``add_arguments(parser)`` and ``run(arguments, parser)``. They are programs: they print, they compute in
float64 unless ``JAX_ENABLE_X64`` says otherwise, and they end the process with a status.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

import jax

from jaxdpbo import __version__, _checks

COMMANDS = {
    "demo": "tune a kernel machine privately on 300 patients' records, beside the alternatives",
    "tune": "find the settings of a scikit-learn estimator for the rows of a CSV file, privately for half of them",
    "curator": "hold the rows and the function, publish the rows transformed, answer queries",
    "modeler": "search the released rows of a curator, asking for rows by number",
    "ledger": "read a ledger of privacy budgets: what was spent, what is left, whether it is whole",
}
EXTRAS = {"matplotlib": "demo", "sklearn": "demo", "tqdm": "progress"}  # by the package that is missing


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command.

    Args:
      arguments: those of the process where not given.

    Raises:
      SystemExit: the arguments were refused, or the command failed; with a message.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if "JAX_ENABLE_X64" not in os.environ:
        jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(prog="jaxdpbo", description="Differentially private Bayesian optimisation.")
    parser.add_argument("--version", action="version", version=f"jaxdpbo {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        one = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name in given[:1]:  # the others' modules need not be imported
            module = importlib.import_module(f"jaxdpbo.commands.{name}")
            module.add_arguments(one)
            one.set_defaults(run=module.run, parser=one)
    chosen = parser.parse_args(given)
    try:
        chosen.run(chosen, chosen.parser)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name not in EXTRAS:
            raise
        missing = f"{error.name} is missing: {_checks.install_hint(EXTRAS[error.name])}" if error.name else error
        sys.exit(f"jaxdpbo {chosen.command}: {missing}")
