"""What all private estimators share: the results of one fit at a time, keys for tests alone, and a record to sign."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from sklearn.utils.validation import check_is_fitted

from jaxdpbo import checks, notes, report
from jaxdpbo.guarantee import guarantees
from jaxdpbo.guarantee.guarantees import Guarantee
from jaxdpbo.guarantee.recording import Recording, check_recording
from jaxdpbo.ledger import ledger_file
from jaxdpbo.report import ledger_records

HASHED = str, bool, int, float, np.ndarray, np.generic, jax.Array
READ_RAW = "the rows that are passed to predict, score or cross_val_score"
SEVERAL_ROWS = "users with several rows"
CLONED = (
    "{path}: run {run} was charged before, and this estimator is a clone, perhaps for the rows of another fold: give "
    "each fit a run name of its own, as by clone(model).set_params(ledger=Recording(path, 'fold 2'))"
)
ROWS_OF_A_PERSON = "the number of rows of a person"


class HiddenKey:
    """A key as an estimator holds it: clones share it, no pickle holds it, and neither repr nor HTML shows it.

    The wrapper does so inside of pipelines and searches too, which copy and show the parameters of their steps.

    Attributes:
      value: the key.
    """

    def __init__(self, value: jax.Array):
        """Hide a key."""
        self.value = value

    def __copy__(self) -> "HiddenKey":
        """Return the same object."""
        return self

    def __deepcopy__(self, memo: object) -> "HiddenKey":
        """Return the same object: scikit-learn's ``clone`` requires that the constructor keeps what it was given."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as None: a fit of the copy draws a key from the operating system."""
        return _no_key, ()

    def __repr__(self) -> str:
        """Show that there is a key."""
        return "<hidden key>"


def _no_key() -> None:
    """What the pickle of a key is read as."""


Key = jax.Array | HiddenKey | None


def say_unprotected(guarantee: Guarantee, *unprotected: str) -> Guarantee:
    """The guarantee, with more words for what it does not protect."""
    others = "; ".join(filter(None, (guarantee.unprotected, *unprotected)))
    return replace(guarantee, protects=guarantees.NOT.join(filter(None, (guarantee.users, others))))


class PrivateEstimator:
    """An estimator with a ``guarantee_``, and a ``report_`` of it.

    Attributes:
      guarantee_: the guarantee of one fit.
      notes_: the notes of one fit, see ``jaxdpbo.notes``.
      budget_: with a ledger alone: what was charged and is left after the fit, rows of text.
      public_: what ``fit`` took for public and no other attribute holds, by name.
      _released: names of the attributes in the hash of the record.
      _described: names of the attributes to write down, also in the hash.
      _fits: how many fits this process made of the estimator and its clones, which share the list.
    """

    guarantee_: Guarantee
    notes_: notes.Notes
    budget_: tuple[tuple[str, ...], ...]
    public_: dict[str, Any]
    ledger: Recording | None
    insecure_key: bool
    _cloned_ledger: Recording | None = None
    _fits: list[int]
    _released: tuple[str, ...]
    _described: tuple[str, ...]

    @property
    def key(self) -> Key:
        """The key of the constructor, hidden."""
        return vars(self)["key"]

    @key.setter
    def key(self, key: Key) -> None:
        vars(self)["key"] = HiddenKey(key) if isinstance(key, jax.Array) else key

    def _given_key(self) -> jax.Array | None:
        return self.key.value if isinstance(self.key, HiddenKey) else self.key

    def _begin_fit(self) -> None:
        """Forget the fit before, and check how to execute this one; ``fit`` calls this first.

        Raises:
          TypeError: ``insecure_key`` is not a flag, or ``ledger`` no ``Recording``.
          ValueError: a key without ``insecure_key``.
          ledger.LedgerError: a clone has the run name of an earlier fit, or there is no such ledger.
        """
        self._forget_fit()  # if this fit fails, its arguments must not stand beside the guarantee of another
        permitted = checks.flag("insecure_key", self.insecure_key)
        if self.key is not None and not permitted:
            raise ValueError("key must be given with insecure_key=True, for tests alone: clones share it")
        if self.ledger is not None:
            self._refuse_charged_clone(check_recording(self.ledger))

    def _forget_fit(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _refuse_charged_clone(self, recording: Recording) -> None:
        """Refuse the run name of an earlier fit: the ledger would return the release of another fold's rows."""
        charged = any(entry.run == recording.run for entry in ledger_file.account(recording.path).spends)
        if charged and self._is_cloned(recording):
            raise ledger_file.LedgerError(CLONED.format(path=recording.path, run=repr(recording.run)))

    def _is_cloned(self, recording: Recording) -> bool:
        """True if the estimator was cloned with this run name of this ledger, however its path was written."""
        cloned = self._cloned_ledger
        if not isinstance(cloned, Recording) or cloned.run != recording.run:
            return False
        try:
            return ledger_file.read_identity(cloned.path) == ledger_file.read_identity(recording.path)
        except (OSError, ValueError, ledger_file.LedgerError):
            return cloned.path == recording.path

    def _keep_guarantee(self, guarantee: Guarantee, *unprotected: str) -> None:
        self.guarantee_ = say_unprotected(guarantee, *unprotected)

    def _keep_notes(self, said: notes.Notes) -> None:
        """Keep the notes of a fit, and show them. Nothing but a ledger sees all other fits.

        Raises:
          ledger.LedgerError: a clone that fitted meanwhile charged the run name: its rows are behind the release, or
            behind a step of it.
        """
        others = {"from-ledger", "resumed"}.intersection(note.id for note in said)
        if others and self._is_cloned(recording := check_recording(self.ledger)):
            self._forget_fit()
            raise ledger_file.LedgerError(CLONED.format(path=recording.path, run=repr(recording.run)))
        if self.ledger is not None:
            place = check_recording(self.ledger)
            with suppress(OSError, ValueError, ledger_file.LedgerError):  # the release is made, and stands without it
                self.budget_ = ledger_records.charge_rows(place.path, place.run)
        self.notes_ = notes.show(said if self.ledger is not None else said + notes.one_fit(self._shared_fits()[0]))

    @contextmanager
    def _counting_fit(self) -> Iterator[None]:
        """Count what the block spends: a fit that ends in an error too, but for one that is refused before a draw."""
        try:
            yield
        except (TypeError, ValueError, ledger_file.LedgerError):
            raise
        except BaseException:
            self._shared_fits()[0] += 1
            raise
        self._shared_fits()[0] += 1

    def _shared_fits(self) -> list[int]:
        return vars(self).setdefault("_fits", [0])

    def __sklearn_clone__(self) -> Any:
        """Clone, and remember the run name of the ledger: clones are fitted to other rows, such as those of a fold.

        The clones of one estimator count their fits together: those of ``cross_val_score`` each spend a budget.
        """
        base: Any = super()
        clone = base.__sklearn_clone__()
        clone._cloned_ledger, clone._fits = clone.ledger, self._shared_fits()
        return clone

    @property
    def report_(self) -> report.Report:
        """The record of the fit, to sign: ``estimator.report_.save("record.html")``."""
        check_is_fitted(self, "guarantee_")
        named = [(name, getattr(self, name, "")) for name in self._described]
        details: dict[str, Any] = {name: of for name, of in named if not isinstance(of, str) or of} | self.public_
        release = [getattr(self, name) for name in self._released], details
        plain = jax.tree.map(lambda leaf: leaf if isinstance(leaf, HASHED) else repr(leaf), release)
        if "encoding_" in details:
            details |= {"encoding_": details["encoding_"].to_sign}
        title = f"a fit of {type(self).__name__}"
        made = report.report(title, (self.guarantee_,), release=plain, details=details, notes=self.notes_)
        return replace(made, spends=getattr(self, "budget_", ()))
