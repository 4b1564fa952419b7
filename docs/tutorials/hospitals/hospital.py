"""Run in each hospital, with a ledger that you made once (``ledger.create``). The first request that passes all checks
charges the run to the ledger.

``python hospital.py Bern --folder keys --ledger budget.jsonl --patients patients.csv --roster roster.json --socket s``
"""

import argparse
from pathlib import Path

import numpy as np
import terms

from jaxdpbo import silos

parser = argparse.ArgumentParser()
parser.add_argument("name")
for option in ("folder", "ledger", "patients", "roster", "socket"):
    parser.add_argument(f"--{option}", type=Path, required=True)
options = parser.parse_args()

east, north = np.loadtxt(options.patients, delimiter=",", skiprows=1, unpack=True)
agreement = terms.agree(options.roster)
patients = {"east": east, "north": north}
silo = silos.Silo(agreement, terms.distance, patients, name=options.name, folder=options.folder, ledger=options.ledger)
silos.serve_silo(silo, options.socket)
