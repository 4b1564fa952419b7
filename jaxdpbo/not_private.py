"""The owner's own look at protected rows: exact counts, NOT PRIVATE, which no run takes.

A typo in a range, a list of labels or a spelling of numbers changes no error message, since what a cell holds is a
secret: it shows only as a bad model. The owner holds the rows, and may count. This is the one engine of every
``check``: searches, models, tables, silos and curators are its doors, and nothing else may call it
(``tests/test_check.py``).
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxdpbo import cells
from jaxdpbo.space import Categorical, Dimension

HEADER = "NOT PRIVATE: exact counts of protected rows, for their owner alone. Do not publish, log or commit them."
FOUND_NOTHING = "Nothing was left out, unread or outside of what was declared."
MENDED = (
    "A range or a list that you mend after looking at protected rows is no longer public. Take it from a codebook or a "
    "form, or check public rows."
)
MISSING, NO_NUMBER, UNLISTED = "missing", "no number", "none of the listed"
ROUNDED, CLIPPED = "rounded to 7 digits by JAX's 32 bits", "beyond 32 bits, and clipped to them"
SAME = "losses that are the same at all of these points"
WHOLE = 2**24  # to here a float of 32 bits holds every whole number


class Finding(NamedTuple):
    """How many of some things are odd. NOT PRIVATE.

    Attributes:
      where: what was looked at, such as "column 'age'".
      what: what is odd.
      found: how many are.
      total: of how many.
    """

    where: str
    what: str
    found: int
    total: int


class NotPrivateCheck(NamedTuple):
    """What the owner's own look found. NOT PRIVATE.

    >>> import numpy as np
    >>> from jaxdpbo import tables
    >>> found = tables.arrays({"age": [31, 54, "n/a"]}).check()
    >>> print(str(found).splitlines()[0][:11], found.findings[0].found)
    NOT PRIVATE 1

    Attributes:
      rows: the number of rows.
      findings: all that was found, each with a count above 0.
    """

    rows: int
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        """The counts in words, the warning first."""
        lines = [f"{each.where}: {each.found:,} of {each.total:,} {each.what}" for each in self.findings]
        return "\n".join([HEADER, f"{self.rows:,} rows.", *(lines or [FOUND_NOTHING]), MENDED])

    def __repr__(self) -> str:
        """The same words, so that no prompt shows a count without the warning."""
        return str(self)


def make_check(rows: int, *parts: Iterable[Finding]) -> NotPrivateCheck:
    """Put findings together: those of the same thing add up, and those of nothing are left out."""
    found: dict[tuple[str, str], Finding] = {}
    for part in parts:
        for each in part:
            key = each.where, each.what
            before = found.get(key, each._replace(found=0, total=0))
            found[key] = each._replace(found=before.found + each.found, total=before.total + each.total)
    return NotPrivateCheck(rows, tuple(each for each in found.values() if each.found))


def count_cells(where: str, column: Any, dimension: Dimension | None = None) -> list[Finding]:
    """Count the cells of a column that a public dimension does not foresee; without one, those that are no number."""
    total = len(column)
    if isinstance(dimension, Categorical):
        numbers = cells.category_numbers(dimension.choices, column)
        counts = {f"{UNLISTED} {dimension.choices!r}": numbers == cells.UNLISTED, MISSING: numbers == cells.ABSENT}
    else:
        numbers = cells.real_numbers(column, None if dimension is None else dimension.text)
        unread, missing = np.isnan(numbers), cells.are_missing(column)
        counts = {MISSING: unread & missing, NO_NUMBER: unread & ~missing}
        if dimension is not None:
            counts |= {
                f"below {dimension.low}": numbers < dimension.low,
                f"above {dimension.high}": numbers > dimension.high,
            }
    return [Finding(where, what, int(np.sum(odd)), total) for what, odd in counts.items()]


def count_narrowed(where: str, numbers: np.ndarray, *, as_floats: bool) -> list[Finding]:
    """Count the numbers that JAX's 32 bits change; none where JAX computes in 64.

    Args:
      where: what the numbers are of.
      numbers: of any shape.
      as_floats: False where JAX keeps whole numbers whole.
    """
    if jnp.result_type(float) == jnp.float64 or numbers.dtype.kind not in cells.NUMBERS:
        return []
    if numbers.dtype.kind in "biu" and not as_floats:
        ends = np.iinfo(np.int32 if numbers.dtype.kind == "i" else np.uint32)
        return [Finding(where, CLIPPED, int(np.sum((numbers < ends.min) | (numbers > ends.max))), numbers.size)]
    with np.errstate(all="ignore"):
        wide = numbers.astype(np.float64)
        changed = np.isfinite(wide) & (np.abs(wide) > WHOLE) & (wide.astype(np.float32) != wide)
    return [Finding(where, ROUNDED, int(np.sum(changed)), numbers.size)]


def count_losses(losses: np.ndarray, loss_range: tuple[float, float] | None) -> np.ndarray:
    """Whole numbers that add up over users, from losses ``(points, n)``: see ``loss_findings``."""
    finite = np.isfinite(losses)
    low, high = (-np.inf, np.inf) if loss_range is None else loss_range
    counts = [np.sum(odd, axis=1) for odd in (~finite, finite & (losses < low), finite & (losses > high))]
    same = np.sum(np.all((losses == losses[:1]) | (~finite & ~finite[:1]), axis=0))
    return np.append(np.stack(counts, axis=1).ravel(), same).astype(np.int64)


def loss_findings(
    points: Sequence[str], counted: np.ndarray, loss_range: tuple[float, float] | None, users: int
) -> list[Finding]:
    """What ``count_losses`` found at some points, in words."""
    low, high = (None, None) if loss_range is None else loss_range
    words = "losses that are no finite number", f"losses below {low}", f"losses above {high}"
    found = [
        Finding(f"at {point}", what, int(count), users)
        for point, counts in zip(points, counted[:-1].reshape(len(points), len(words)), strict=True)
        for what, count in zip(words, counts, strict=True)
    ]
    return [*found, Finding("at all points", SAME, int(counted[-1]), users)]
