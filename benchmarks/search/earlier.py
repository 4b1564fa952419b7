"""Others' scores from an earlier result, in place of hours of theirs: ``JAXDPBO_OTHERS=JSON``.

For a change of our models alone: splits, features and budgets must be the same, and of these only seeds are checked.
"""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

ORIGIN = "commit", "date", "machine"


class Earlier(NamedTuple):
    """The measurements, and where they come from."""

    found: dict[str, Any]
    origin: dict[str, Any]


def load(seeds: range) -> Earlier | None:
    """The result that ``JAXDPBO_OTHERS`` names, if it does.

    Raises:
      ValueError: it was measured on other seeds, or ``JAXDPBO_BEFORE`` is given too.
    """
    path = os.environ.get("JAXDPBO_OTHERS")
    if path is None:
        return None
    if "JAXDPBO_BEFORE" in os.environ:
        raise ValueError("JAXDPBO_OTHERS holds the scores of an older checkout too: leave JAXDPBO_BEFORE out")
    found = json.loads(Path(path).read_text())
    if found["seeds"] != [seeds.start, seeds.stop]:
        raise ValueError(f"{path} has seeds {found['seeds']}, this run [{seeds.start}, {seeds.stop}]")
    return Earlier(found, found.get("others") or {name: found[name] for name in ORIGIN})
