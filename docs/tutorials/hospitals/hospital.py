"""Run in each hospital: ``python hospital.py Bern --folder keys --patients patients.csv --roster roster.json``."""

import argparse
from pathlib import Path

import numpy as np
import terms

from jaxdpbo import ledger, silos

parser = argparse.ArgumentParser()
parser.add_argument("name")
parser.add_argument("--folder", type=Path, required=True)
parser.add_argument("--patients", type=Path, required=True)
parser.add_argument("--roster", type=Path, required=True)
given = parser.parse_args()

east, north = np.loadtxt(given.patients, delimiter=",", skiprows=1, unpack=True)
book = given.folder / "budget.jsonl"
if not book.exists():
    ledger.create(book, mu=3)
agreement = terms.agree(given.roster)
patients = {"east": east, "north": north}
silo = silos.Silo(agreement, terms.distance, patients, name=given.name, folder=given.folder, ledger=book)
silos.serve_silo(silo, given.folder / "silo.socket")
