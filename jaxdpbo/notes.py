"""All notes of the library: sentences about public facts, said after the charge.

The library has two voices. What follows from declared schemas, shapes, names, arguments, versions, a ledger or a
release is said aloud: refused before the charge, or noted here. What follows from users' values is never said, and a
dtype that a reader of files chose by the cells is such a value. So each function here takes public numbers and names
alone, and ``SOURCES`` says of each note what it may follow from; ``tests/test_neighbours.py`` replaces records and
compares.

A note is a sentence with an ``id`` that stays the same for all numbers in the sentence. Results hold notes in a
tuple, and show them in their ``repr`` and in their report. A terminal shows each sentence once.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from jaxdpbo import rounding, terminal

DECLARED = "arguments, declared types, the number of users, and the code of the loss"
LEDGER = "the ledger"
RELEASE = "the release, and public numbers"
SOURCES = {
    "few-users": DECLARED,
    "few-rows": DECLARED,
    "few-public-rows": DECLARED,
    "one-fit": DECLARED,
    "weights-train-alone": DECLARED,
    "ranges-from-rows": DECLARED,
    "loss-without-code": DECLARED,
    "narrowed-columns": DECLARED,
    "clipped-integers": DECLARED,
    "many-readings": DECLARED,
    "from-ledger": LEDGER,
    "resumed": LEDGER,
    "not-compared": LEDGER,
    "path-like-noise": RELEASE,
    "values-like-noise": RELEASE,
    "equal-points": RELEASE,
    "best-within-noise": RELEASE,
    "error-like-constant": RELEASE,
    "wide-error": RELEASE,
    "ranges-like-noise": RELEASE,
    "ranges-at-limits": RELEASE,
    "epsilon-reached": RELEASE,
    "error-not-reached": RELEASE,
}
SHOWN = 3  # names of columns in a note
FEW_USERS = 500  # with fewer, an epsilon of 1 leaves a choice among settings little better than a guess
FEW_PUBLIC_ROWS = 12  # docs/searches.md: with 4, searches are worse than without any on most problems


@dataclass(frozen=True)
class Note:
    """A sentence about public facts.

    >>> from jaxdpbo import notes
    >>> (note,) = notes.few_users(30, private=True)
    >>> note.id, note.text[:34]
    ('few-users', '30 users are fewer than 500: unles')

    Attributes:
      id: of the kind of note; one of ``SOURCES``, listed in docs/limits.md.
      text: the sentence.
    """

    id: str
    text: str

    def __str__(self) -> str:
        """The sentence, with its id."""
        return f"{self.text} [{self.id}]"


Notes: TypeAlias = tuple[Note, ...]

_shown: set[Note] = set()  # on a terminal, by this process


def show(notes: Notes) -> Notes:
    """Write to a terminal the notes that this process has not written before, and return all."""
    if terminal.is_there():
        for note in notes:
            if note not in _shown:
                _shown.add(note)
                terminal.write(f"jaxdpbo: {_printable(str(note))}\n")
    return notes


def _printable(text: str) -> str:
    """The text without what steers a terminal: the name of an account, in a ledger of others, may hold anything."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def lines(notes: Notes) -> list[str]:
    """A line of a ``repr`` for each note."""
    return [f"note: {note}" for note in notes]


def hide_accounts(text: str) -> str:
    """The text of a note without the accounts that charged. An account may hold any text: rather hide too much."""
    return re.sub(r", which .* charged on ", ", charged on ", text, flags=re.DOTALL)


def few_users(users: int, *, private: bool, blocks: bool = False) -> Notes:
    """So few users make an answer little better than a guess, unless the guarantee is none (``private`` False).

    ``blocks``: the users are blocks of rows, and the noise is that of so many users.
    """
    if users >= FEW_USERS or not private:
        return ()
    have, more = ("blocks", "cut the rows into more blocks") if blocks else ("users", "collect more users")
    return _note(
        "few-users",
        f"{users} {have} are fewer than {FEW_USERS}: unless the budget is large, expect an answer near a guess; "
        f"{more}, measure the loss on more of your records, or keep the default parameters, which cost nothing",
    )


def few_rows(rows: int) -> Notes:
    """So few rows make a private model little better than a constant."""
    if rows >= FEW_USERS:
        return ()
    return _note(
        "few-rows",
        f"{rows} rows are fewer than {FEW_USERS}: unless the budget is large, the model may predict no better than a "
        "constant; compare error_ with the error of a constant, and collect more rows",
    )


def weights_train_alone(name: str) -> Notes:
    """Weights of a search's records weigh no loss of the search."""
    return _note(
        "weights-train-alone",
        f"{name} trains the estimators and weighs no loss; to weigh records, give the weight a column of the inputs, "
        "and multiply the loss of a record by weight / largest, with a public largest",
    )


def few_public_rows(rows: int) -> Notes:
    """So few public rows can steer a search away from its answer."""
    if rows >= FEW_PUBLIC_ROWS:
        return ()
    return _note(
        "few-public-rows",
        f"public= gave {rows} losses, fewer than {FEW_PUBLIC_ROWS}: so few may steer the search to worse points than "
        "none would; give more public rows, or none",
    )


def one_fit(fits: int) -> Notes:
    """Nothing but a ledger sees all other fits; ``fits`` were made in this process of an estimator and its clones."""
    many = f", and this is fit {fits} of this estimator and its clones in this process" * (fits > 1)
    return _note(
        "one-fit",
        f"this guarantee counts one fit{many}: each further fit, also of a clone in cross_val_score or GridSearchCV, "
        "spends its own budget; to add fits up, give each fit a ledger=Recording(path, run) with a run name of its own",
    )


def ranges_from_rows(names: Sequence[str], share: float) -> Notes:
    """Ranges that nobody stated were found in the rows, and paid for."""
    return _note(
        "ranges-from-rows",
        f"the ranges of {_shorten(names)} were found in the rows with noise, for {100 * share:g} % of the budget; a "
        "range from a codebook costs nothing",
    )


def ranges_like_noise(names: Sequence[str]) -> Notes:
    """No count of these columns stood out of the noise; nothing for no column."""
    if not names:
        return ()
    return _note(
        "ranges-like-noise",
        f"noise hid all counts of {_shorten(names)}, so that these ranges are guesses: state a range, give "
        "private_range more of the budget, or find fewer ranges",
    )


def ranges_at_limits(names: Sequence[str]) -> Notes:
    """A found range ends where the search for it ends; nothing for no column."""
    if not names:
        return ()
    return _note(
        "ranges-at-limits",
        f"the ranges of {_shorten(names)} end at 2^40 or -2^40, where the search ends, and numbers beyond count as the "
        "end: state a range, or give the column in larger units",
    )


def loss_without_code() -> Notes:
    """A ledger cannot tell this loss from another."""
    return _note("loss-without-code", "the loss has no Python code, so the ledger cannot tell it from other losses")


def narrowed_columns(names: Sequence[str], have: str, remedy: str) -> Notes:
    """Columns of a declared type of 64 bits lose digits on their way to a loss; nothing for no column."""
    if not names:
        return ()
    return _note(
        "narrowed-columns",
        f"of {_shorten(list(map(repr, names)))} {have}, and the loss sees 32: numbers of more than 7 digits are "
        f"rounded, such as times since 1970 to about 128 seconds; {remedy}, or enable JAX's x64",
    )


def many_readings(count: int) -> Notes:
    """A table reads its files so often in each scan; nothing for once."""
    if count <= 1:
        return ()
    return _note(
        "many-readings",
        f"each scan reads the files {count} times, once for each four million slots (users times max_rows): give "
        "spill= a folder on a local disk to read them once",
    )


def clipped_integers(names: Sequence[str]) -> Notes:
    """Arrays of integers of 64 bits end at 32 on their way to a loss; nothing for no array."""
    if not names:
        return ()
    return _note(
        "clipped-integers",
        f"{_shorten(names)} {'holds' if len(names) == 1 else 'hold'} integers of 64 bits, and the loss sees 32: a "
        "number beyond them counts as their largest or least; subtract long numbers, such as times, in NumPy, pass "
        "astype('int32') where all are short, or enable JAX's x64",
    )


def from_ledger(run: str, who: str, when: str) -> Notes:
    """The release was made by an earlier call: another team may have chosen the same name."""
    return _note("from-ledger", f"this is the release of {_describe_run(run, who, when)}; nothing was charged")


def resumed(run: str, who: str, when: str, count: int, noun: str) -> Notes:
    """Steps or evaluations come from the ledger; nothing for none."""
    if not count:
        return ()
    comes = f"{noun} comes" if count == 1 else f"{noun}s come"
    return _note("resumed", f"{count} {comes} from {_describe_run(run, who, when)}")


def _describe_run(run: str, who: str, when: str) -> str:
    return f"run {run!r}, which {who} charged on {when[:10]}"


def not_compared() -> Notes:
    """What of a loss and its data a ledger could not compare: a hash of records would be a release."""
    return _note(
        "not-compared",
        "of the loss its code alone was compared, and of the data names and shapes, and the split or groups of rows",
    )


def path_like_noise() -> Notes:
    """The released path could be noise alone."""
    return _note(
        "path-like-noise",
        "the released path is no different from noise alone: a flat loss, losses that are not finite, a start at a "
        "minimum, or too few users for the budget (jaxdpbo.preview shows the noise before you spend a budget)",
    )


def values_like_noise(count: int) -> Notes:
    """Noise alone could be the difference between the best of the released values and the worst."""
    return _note(
        "values-like-noise",
        f"the best of {count} released values is within noise of the worst: nothing tells their settings apart; "
        "evaluate fewer settings, collect more users, or allow a larger budget",
    )


def equal_points(count: int) -> Notes:
    """A search looked at one point alone."""
    return _note("equal-points", f"all {count} points are equal: there was nothing to choose from")


def best_within_noise(near: int, others: int) -> Notes:
    """Many settings could be as good as the one named best."""
    return _note("best-within-noise", f"{near} of {others} other settings are within noise of the best")


def error_like_a_constant(error: float, constant: float) -> Notes:
    """A model may predict no better than one that reads no features."""
    return _note(
        "error-like-constant",
        f"an error of {error:.3g} is within noise of {constant:.3g}, the error of a constant: the model may have "
        "learnt nothing; allow a larger epsilon, or collect more rows",
    )


def wide_error(deviation: float) -> Notes:
    """The noise of an error hides how good the model is."""
    return _note(
        "wide-error",
        f"the noise of the error has a standard deviation of {deviation:.2g}, so the error says little about the "
        "model: allow a larger epsilon, or collect more rows",
    )


def epsilon_reached(epsilon: float, largest: float) -> Notes:
    """A search for the least epsilon reached its error."""
    return _note(
        "epsilon-reached",
        f"the error was reached at epsilon {_epsilon(epsilon)}; at most {_epsilon(largest)} was possible",
    )


def error_not_reached(epsilon: float, largest: float) -> Notes:
    """A search for the least epsilon did not reach its error."""
    return _note(
        "error-not-reached",
        f"no training reached the error; this outcome cost epsilon {_epsilon(epsilon)}, at most {_epsilon(largest)} "
        "was possible: ask for a larger error, allow a larger epsilon, or bring more rows; a training that raises an "
        "exception counts as one that misses the error, so try your trainings on public rows",
    )


def _shorten(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)


def _epsilon(level: float) -> str:
    return rounding.shorten_up(level, 4)


def _note(id: str, text: str) -> Notes:
    assert id in SOURCES, id
    return (Note(id, text),)
