"""All log records of the library: one for each charge, scan, retry, release, resume and message of a silo.

No record holds a value of a user's record.

``logging.getLogger("jaxdpbo")`` gets them at level INFO, messages as "jaxdpbo.silos". Python shows them to nobody until
you ask:

>>> import logging
>>> logging.getLogger("jaxdpbo").setLevel(logging.INFO)

Each function takes public names and counts alone, and is called for any users' values. It is called outside of
a silence (``silence``), where logging is off. A selection with a hidden number of runs logs its charge and not its
release: the time between the two would tell the number. A scan logs its beginning: its end may follow from a record.
"""

import logging

LOGGER = logging.getLogger("jaxdpbo")
SILOS = logging.getLogger("jaxdpbo.silos")


def charged(path: object, run: str, what: str) -> None:
    """A ledger paid for a run, or a ``PrivateObjective`` for an evaluation."""
    LOGGER.info("charge: %s, run %r: %s", path, run, what)


def evaluation_charged(number: int, evaluations: int) -> None:
    """An evaluation was paid for, out of those of one budget."""
    LOGGER.info("charge: evaluation %d of %d", number, evaluations)


def scanned(what: str, users: int) -> None:
    """A scan of a table begins."""
    LOGGER.info("scan: %s, %d users", what, users)


def retried(what: str) -> None:
    """Something is done again after a failure that no record decides."""
    LOGGER.info("retry: %s", what)


def released(what: str) -> None:
    """A release was drawn, and stored if there is a ledger."""
    LOGGER.info("release: %s", what)


def resumed(what: str) -> None:
    """A run goes on after what an earlier call did."""
    LOGGER.info("resume: %s", what)


def message(way: str, silo: str, step: int | None, what: str, size: int) -> None:
    """A message between a server and a silo: ``way`` is "sent" or "received", ``step`` counts from 0.

    ``what`` is a kind of message, or a sentence of ``silos.messages.SENTENCES``: no text that the other side wrote.
    """
    of_step = "no step" if step is None else f"step {step + 1}"
    SILOS.info("%s: silo %s, %s, %s, %d bytes", way, silo, of_step, what, size)


def waits(run: str, names: str) -> None:
    """A server waits for silos."""
    SILOS.info("wait: run %r: not there: %s", run, names)


def show() -> None:
    """Write all records to standard error, with their times; for the commands that run for hours."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
