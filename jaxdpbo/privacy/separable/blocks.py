"""Any learner as an objective of blocks of rows, so that a search protects ALL rows, those that train among them.

Sample and aggregate (Nissim, Raskhodnikova and Smith 2007): rows are cut into ``k`` blocks by a public permutation of
row numbers. Block ``j`` fits the learner to its own training rows and measures it on its own held-out rows: entry ``j``
of the losses depends on block ``j``'s rows alone, whatever the learner does. A replaced row is in one block.
"""

import random
from collections.abc import Callable
from copy import deepcopy
from hashlib import blake2b
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from jaxdpbo import _checks, _silence, _user_values
from jaxdpbo.privacy.separable import separability_check
from jaxdpbo.types import ArrayLike, Data

Learner = Callable[[Any, Any, Any], Any]
ON_ERROR = ("worst", "raise")
TRAIN_SHARE = 0.75  # of a block's rows
ROWS_OF_BLOCK, MOST_BLOCKS = 30, 100  # where nobody says how many: ``scripts/bench blocks``


class Block(NamedTuple):
    """Numbers of rows: ``train`` and ``held_out``."""

    train: np.ndarray
    held_out: np.ndarray


class Blocks:
    """``(params, data) -> losses (k,)``; made by ``blocks``.

    Attributes:
      partition: a ``Block`` each: public.
    """

    def __init__(
        self,
        learner: Learner,
        rows: int,
        partition: tuple[Block, ...],
        *,
        grouped: bool,
        traceable: bool,
        on_error: str,
        take: Any,
    ):
        """See ``blocks``, which checks."""
        self.learner, self.rows, self.partition, self.grouped = learner, rows, partition, grouped
        self.traceable, self._on_error, self._take = traceable, on_error, take

    @property
    def count(self) -> int:
        """``k``."""
        return len(self.partition)

    def __call__(self, params: Any, data: Data) -> Any:
        """The loss of each block.

        Raises:
          ValueError: a leaf of the data has another number of rows.
          TypeError: the data hold a list.
        """
        if self._take is None:
            data = _user_values.to_data(data)
            self._expect(data)
        if self.traceable:
            train, held_out = (np.stack(numbers) for numbers in zip(*self.partition, strict=True))
            rows = [jax.tree.map(lambda leaf, of=of: jnp.asarray(leaf)[of], data) for of in (train, held_out)]
            return self._vmap_blocks(params, *rows)
        return np.array([self._loss(params, data, number) for number in range(self.count)])

    def _vmap_blocks(self, params: Any, train: Any, held_out: Any) -> jax.Array:
        """Of all blocks by ``jax.vmap``, of a learner that holds nothing which that may mix."""
        leaves, inputs = jax.tree.flatten((train, held_out))

        def one_loss(*rows: Any) -> Any:
            return self.learner(params, *jax.tree.unflatten(inputs, rows))

        parts = [jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in leaves]
        program = separability_check.program_of_one(one_loss, parts, [0] * len(leaves), public_constants=True)
        (losses,) = jax.vmap(core.jaxpr_as_fun(program))(*leaves)
        return losses

    def _loss(self, params: Any, data: Data, number: int) -> float:
        """Of one block, as if there were no other: with generators of its own, silenced, whatever it raises."""
        take = _copy_rows if self._take is None else self._take
        with _silence.isolate():
            _seed(params, number)
            try:
                rows = [take(data, of) for of in self.partition[number]]
                found = np.asarray(self.learner(deepcopy(params), *rows), float)  # a learner may write on what it gets
                return float(found) if found.shape == () and not np.isnan(found) else np.inf
            except _silence.STOPS:
                raise
            except BaseException:
                if self._on_error == "raise":
                    raise
                return np.inf  # the largest loss, whatever the range

    def _expect(self, data: Data) -> None:
        """Rows as many as were cut: beyond the last one, JAX would give every block the same row."""
        for leaf in jax.tree.leaves(data):
            if np.shape(leaf)[:1] != (self.rows,):
                raise ValueError(f"data must have {self.rows} rows in every leaf, got shape {np.shape(leaf)}")

    def __repr__(self) -> str:
        """Code and numbers of rows, no data."""
        name = getattr(self.learner, "__qualname__", type(self.learner).__name__)
        return f"Blocks({name}, {self.count} blocks of {self.rows} rows)"


def blocks(
    learner: Learner,
    rows: int,
    k: int,
    *,
    groups: ArrayLike | None = None,
    traceable: bool = False,
    on_error: str = "worst",
    take: Callable[[Any, np.ndarray], Any] | None = None,
    seed: int = 0,
) -> Blocks:
    """An objective whose users are blocks of rows: what a run protects is then all rows, training and validation.

    Formal guarantee: that of the run, for replacing one row (with ``groups``, all rows of one person). It covers what
    the run releases, such as ``params``: a model that is fitted to the rows afterwards is a release of its own.

    >>> import numpy as np
    >>> import jaxdpbo
    >>> def learner(params, train, held_out):  # ridge regression; y is the last column
    ...     X, y = train[:, :-1], train[:, -1]
    ...     w = np.linalg.solve(X.T @ X + params[0] * np.eye(X.shape[1]), X.T @ y)
    ...     return np.mean(np.minimum(np.abs(held_out[:, -1] - held_out[:, :-1] @ w), 1))
    >>> rows = np.random.default_rng(0).normal(size=(3000, 4))
    >>> objective = jaxdpbo.blocks(learner, len(rows), 60)
    >>> run = jaxdpbo.minimize(objective, rows, [(0.1, 10.0)], mu=1, loss_range=(0, 1), steps=4)
    >>> run.guarantee.protects
    'all rows, training and validation'

    Args:
      learner: ``(params, training rows, held-out rows) -> mean loss of the held-out rows``, ``params`` a point or, of a
        ``Space``, a dict. It must keep nothing from one call for the next. What it learns of the rows beforehand,
        classes, means, a vocabulary, types of columns, which rows to drop, it must learn inside, from the training
        rows it is given.
      rows: how many there are, public: the leading length of all leaves of ``data``.
      k: how many blocks; more blocks mean less noise and smaller models. Each has ``rows // k`` rows; what is left over
        is not used.
      groups: ``(rows,)``, whose row each is: public, chosen without what the rows hold. All rows of one person are in
        one block, and blocks then differ in size.
      traceable: the learner is one of JAX: all blocks are fitted at once by ``jax.vmap``, and what that may mix is
        refused where it is traced (``NotSeparable``, see ``per_user``). Without ``groups``.
      on_error: "worst": a block whose fit fails, or that returns NaN, has the largest loss; NaN of a traceable learner
        is the middle of the range, as everywhere. "raise", for looking for mistakes on data that
        nobody minds: that something failed tells of the rows.
      take: ``(data, numbers of rows) -> copies of these rows``; indexing of every leaf where not given.
      seed: of the permutation, public.

    Returns:
      A function of ``(params, data)``. ``minimize`` takes its ``users``, ``k``, from it.

    Raises:
      ValueError: fewer than two rows (or persons) a block, a number out of range, ``groups`` of another length or of a
        traceable learner.
      TypeError: ``learner`` is no function.
    """
    if not callable(learner):
        raise TypeError(f"learner must be a function of params and two sets of rows, got {type(learner).__name__}")
    rows = _checks.size("rows", rows)
    if traceable and groups is not None:
        raise ValueError("groups must not be given for a traceable learner: its blocks are of one size")
    return Blocks(
        learner,
        rows,
        cut(rows, k, groups=groups, seed=seed),
        grouped=groups is not None,
        traceable=_checks.flag("traceable", traceable),
        on_error=_checks.choice("on_error", on_error, ON_ERROR),
        take=take,
    )


def usual_count(rows: int) -> int:
    """How many blocks, where nobody says: a 30th of the rows (or persons), at most 100 and at least two."""
    return max(2, min(MOST_BLOCKS, _checks.size("rows", rows) // ROWS_OF_BLOCK))


def cut(rows: int, k: int, *, groups: ArrayLike | None = None, seed: int = 0) -> tuple[Block, ...]:
    """The ``k`` blocks of ``blocks``, which says what the arguments are.

    Raises:
      ValueError: as there.
    """
    rows, k = _checks.size("rows", rows), _checks.size("k", k)
    persons, owners = rows, None
    if groups is not None:
        owners = np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
        if len(owners) != rows:
            raise ValueError(f"groups must have {rows} entries, one a row, got {len(owners)}")
        persons = int(owners.max()) + 1
    each = persons // k
    train = min(max(round(TRAIN_SHARE * each), 1), each - 1)
    if each < 2:
        raise ValueError(f"k must leave two rows (with groups, persons) a block, at most {persons // 2}, got {k}")
    order = np.random.default_rng(_checks.size("seed", seed, minimum=0)).permutation(persons)
    parts = [order[number * each : (number + 1) * each] for number in range(k)]
    return tuple(Block(_take_rows(part[:train], owners), _take_rows(part[train:], owners)) for part in parts)


def _take_rows(persons: np.ndarray, owners: np.ndarray | None) -> np.ndarray:
    return persons if owners is None else np.flatnonzero(np.isin(owners, persons))


def _copy_rows(data: Any, numbers: np.ndarray) -> Any:
    """Copies: a learner may write on what it is given."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[numbers], data)


def _seed(params: Any, number: int) -> None:
    """Global generators that depend on the block and the setting alone; ``isolate`` puts them back.

    Of one generator for all blocks the second block's numbers would depend on how many the first one drew.
    """
    said = repr(sorted(params.items()) if isinstance(params, dict) else np.asarray(params).tolist())
    seed = int.from_bytes(blake2b(f"{number}:{said}".encode(), digest_size=4).digest(), "little")
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
