"""Run on a server that reaches all sockets itself, such as those of ssh tunnels, in place of Flower's app."""

import argparse
import contextlib
from pathlib import Path

import terms

from jaxdpbo import silos

parser = argparse.ArgumentParser()
for option in ("roster", "sockets", "record", "report"):
    parser.add_argument(f"--{option}", type=Path, required=True)
options = parser.parse_args()

agreement = terms.agree(options.roster)
paths = {name: options.sockets / f"{name}.socket" for name in agreement.roster.names}
credentials = dict(silos.parse_credential(silos.forward(path, b"credential")) for path in paths.values())


def send(requests):
    """Pass requests to hospitals, and return the answers; a hospital that is gone or refuses has none."""
    answers = {}
    for name, request in requests.items():
        with contextlib.suppress(OSError, silos.Refused):
            answers[name] = silos.parse_answer(silos.forward(paths[name], request))
    return answers


run = silos.run_silos(agreement, credentials, send, record=options.record)
run.report(options.report)
