"""What is fuzzed: a row for each public function, its valid arguments, and the odd ones that take their place.

One module for each package of ``jaxdpbo``; ``coverage`` checks them against the package's public
functions.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fuzz_targets.algorithms import configs, protocols
from fuzz_targets.constants import constants
from fuzz_targets.drivers import runners
from fuzz_targets.integrations import studies
from fuzz_targets.ledger import ledgers
from fuzz_targets.outsourcing import parties
from fuzz_targets.privacy import accountants, compositions, groupings, noises, selections, statements
from fuzz_targets.surrogate import surrogates
from fuzz_targets.tables import users_tables
from fuzz_targets.target import Target
from fuzz_targets.training import trainings
from fuzz_targets.transforms import curators
from fuzz_targets.tuning import tunings


def table(folder: Path) -> dict[str, Target]:
    """Every row; ``folder`` is for files."""
    return together(
        accountants(), selections(), compositions(), statements(), groupings(), noises(), curators(), ledgers(folder),
        parties(folder), constants(), surrogates(), configs(), runners(folder), protocols(), trainings(), studies(),
        tunings(), users_tables(folder),
    )  # fmt: skip


def together(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """One table; no two rows may have the same name."""
    found: dict[str, Any] = {}
    for rows in tables:
        for name in rows:
            if name in found:
                raise ValueError(f"two rows are named {name!r}")
        found |= rows
    return found
