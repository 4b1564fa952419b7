"""Objectives of blocks of rows, for any learner: a search protects ALL rows, including the training rows.

Sample and aggregate (Nissim, Raskhodnikova and Smith 2007): a public permutation of row numbers cuts the rows into
``k`` blocks. Block ``j`` fits the learner to its own training rows and measures the loss on its own held-out rows, so
entry ``j`` of the losses depends on block ``j``'s rows alone, for any learner. A replaced row is in a single block.
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

from jaxdpbo import cells, checks, silence, user_values
from jaxdpbo.separable import separability_check
from jaxdpbo.types import ArrayLike, Data

Learner = Callable[[Any, Any, Any], Any]
ON_ERROR = ("worst", "raise")
TRAIN_SHARE = 0.75  # of a block's rows
ROWS_OF_BLOCK, MOST_BLOCKS = 30, 100  # defaults: ``scripts/bench blocks``


class Block(NamedTuple):
    """The row numbers of a block: ``train`` and ``held_out``."""

    train: np.ndarray
    held_out: np.ndarray


class Blocks:
    """An objective ``(params, data) -> losses (k,)``; made by ``blocks``.

    Attributes:
      partition: the ``k`` blocks of row numbers, public.
      persons: the number of owners of rows, the protected users; without ``groups``, of rows.
    """

    def __init__(
        self,
        learner: Learner,
        rows: int,
        partition: tuple[Block, ...],
        *,
        persons: int,
        grouped: bool,
        traceable: bool,
        on_error: str,
        take: Any,
    ):
        """Store the arguments; ``blocks`` checks them."""
        self.learner, self.rows, self.partition = learner, rows, partition
        self.persons, self.grouped = persons, grouped
        self.traceable, self._on_error, self._take = traceable, on_error, take

    @property
    def count(self) -> int:
        """The number of blocks, ``k``."""
        return len(self.partition)

    def __call__(self, params: Any, data: Data) -> Any:
        """Evaluate the loss ``(k,)`` of each block.

        Raises:
          ValueError: a leaf of the data has another number of rows.
          TypeError: the data hold a list.
        """
        if self._take is None:
            data = user_values.to_data(data)
            self._expect(data)
        if self.traceable:
            train, held_out = (np.stack(numbers) for numbers in zip(*self.partition, strict=True))
            rows = [jax.tree.map(lambda leaf, of=of: jnp.asarray(leaf)[of], data) for of in (train, held_out)]
            return self._vmap_blocks(params, *rows)
        return np.array([self._loss(params, data, number) for number in range(self.count)])

    def _vmap_blocks(self, params: Any, train: Any, held_out: Any) -> jax.Array:
        """The losses of all blocks by ``jax.vmap``; raise if the learner uses an operation that may mix blocks."""
        leaves, inputs = jax.tree.flatten((train, held_out))

        def one_loss(*rows: Any) -> Any:
            return self.learner(params, *jax.tree.unflatten(inputs, rows))

        parts = [jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in leaves]
        program = separability_check.program_of_one(one_loss, parts, [0] * len(leaves), public_constants=True)
        (losses,) = jax.vmap(core.jaxpr_as_fun(program))(*leaves)
        return losses

    def _loss(self, params: Any, data: Data, number: int) -> float:
        """The loss of a block, independent of all other blocks: own random generators, silence, errors caught."""
        take = _copy_rows if self._take is None else self._take
        with silence.isolate():
            _seed(params, number)
            try:
                rows = [take(data, of) for of in self.partition[number]]
                loss = np.asarray(self.learner(deepcopy(params), *rows), float)  # a learner may modify its arguments
                return float(loss) if loss.shape == () and not np.isnan(loss) else np.inf
            except silence.STOPS:
                raise
            except BaseException:
                if self._on_error == "raise":
                    raise
                return np.inf  # the largest loss of any range

    def _expect(self, data: Data) -> None:
        """Check the number of rows: for a missing row, JAX would silently read the last row."""
        for leaf in jax.tree.leaves(data):
            if np.shape(leaf)[:1] != (self.rows,):
                raise ValueError(f"data must have {self.rows} rows in every leaf, got shape {np.shape(leaf)}")

    def __repr__(self) -> str:
        """Show the code and the numbers of rows, no data."""
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
    """Make an objective with blocks of rows as users: a run then protects all rows, training and validation.

    Formal guarantee: the guarantee of the run, for the replacement of one row (with ``groups``, of all rows of one
    person). It covers the releases of the run, such as ``params``; a model fitted to the rows later is another release.

    >>> import numpy as np
    >>> import jaxdpbo
    >>> def learner(params, train, held_out):  # ridge regression; y is the last column
    ...     X, y = train[:, :-1], train[:, -1]
    ...     w = np.linalg.solve(X.T @ X + params[0] * np.eye(X.shape[1]), X.T @ y)
    ...     return np.mean(np.minimum(np.abs(held_out[:, -1] - held_out[:, :-1] @ w), 1))
    >>> rows = np.random.default_rng(0).normal(size=(3000, 4))
    >>> objective = jaxdpbo.blocks(learner, len(rows), 60)
    >>> run = jaxdpbo.minimize(objective, rows, [(0.1, 10.0)], mu=1, loss_range=(0, 1), search=jaxdpbo.Search(steps=4))
    >>> run.guarantee.protects
    'all rows, training and validation'

    Args:
      learner: ``(params, training rows, held-out rows) -> mean loss of the held-out rows``; ``params`` is a point or,
        for a ``Space``, a dict. The learner must keep nothing between calls. It must derive classes, means, a
        vocabulary, column types or rows to drop inside the call, from the training rows of the call.
      rows: the number of rows, public: the leading length of all leaves of ``data``.
      k: the number of blocks; more blocks mean less noise and smaller models. Each block has ``rows // k`` rows; the
        remaining rows are not used.
      groups: ``(rows,)``, the owner of each row: public, chosen without the content of the rows. All rows of one person
        are in the same block, so blocks differ in size.
      traceable: True for a learner in JAX: ``jax.vmap`` fits all blocks at once, and the trace refuses operations that
        may mix blocks (``NotSeparable``, see ``per_user``). Without ``groups``.
      on_error: "worst": a block with a failed fit or a NaN loss has the largest loss, and so has NaN of a traceable
        learner, as everywhere. "raise": raise the error, to find mistakes on harmless data; an error
        reveals something about the rows.
      take: ``(data, row numbers) -> copies of these rows``; by default, index every leaf.
      seed: the public seed of the permutation.

    Returns:
      A function of ``(params, data)``. ``minimize`` reads ``users``, ``k``, from the function.

    Raises:
      ValueError: fewer than two rows (or persons) in a block, a number out of range, ``groups`` of another length or
        with a traceable learner.
      TypeError: ``learner`` is no function.
    """
    if not callable(learner):
        raise TypeError(f"learner must be a function of params and two sets of rows, got {type(learner).__name__}")
    rows = checks.size("rows", rows)
    if traceable and groups is not None:
        raise ValueError("groups must not be given for a traceable learner: jax.vmap needs blocks of one size")
    return Blocks(
        learner,
        rows,
        cut(rows, k, groups=groups, seed=seed),
        persons=rows if groups is None else int(np.max(number_owners(groups, rows))) + 1,
        grouped=groups is not None,
        traceable=checks.flag("traceable", traceable),
        on_error=checks.one_of("on_error", on_error, ON_ERROR),
        take=take,
    )


def number_owners(groups: ArrayLike, rows: int) -> np.ndarray:
    """The number of each row's owner, ``(rows,)``, from 0 on in the order of their first rows.

    >>> from jaxdpbo import separable
    >>> separable.number_owners(["eva", "tom", "eva"], 3)
    array([0, 1, 0])

    Args:
      groups: ``(rows,)``, numbers or text. Equal ones are of one person, see ``cells.identities``: 7 equals "7".
      rows: the number of rows.

    Raises:
      ValueError: another shape; or an id is missing, since a sort would put such rows, and others, anywhere.
    """
    ids = np.asarray(groups) if isinstance(groups, (np.ndarray, jax.Array)) else np.asarray(groups, object)
    if ids.shape != (rows,):
        raise ValueError(f"groups must have shape ({rows},), an id for each row, got {ids.shape}")
    try:
        return cells.number_people(ids)
    except ValueError:
        raise ValueError("groups must hold an id for each row, a number or text: some are missing or dates") from None


def usual_count(rows: int) -> int:
    """The default number of blocks: a 30th of the rows (or persons), at most 100 and at least two."""
    return max(2, min(MOST_BLOCKS, checks.size("rows", rows) // ROWS_OF_BLOCK))


def cut(rows: int, k: int, *, groups: ArrayLike | None = None, seed: int = 0) -> tuple[Block, ...]:
    """Cut row numbers into ``k`` blocks; see ``blocks`` for the arguments.

    Raises:
      ValueError: see ``blocks``.
    """
    rows, k = checks.size("rows", rows), checks.size("k", k)
    persons, owners = rows, None
    if groups is not None:
        owners = number_owners(groups, rows)
        persons = int(owners.max()) + 1
    size = persons // k
    train = min(max(round(TRAIN_SHARE * size), 1), size - 1)
    if size < 2:
        raise ValueError(f"k must leave two rows (with groups, persons) a block, at most {persons // 2}, got {k}")
    order = np.random.default_rng(checks.size("seed", seed, minimum=0)).permutation(persons)
    parts = [order[number * size : (number + 1) * size] for number in range(k)]
    return tuple(Block(_take_rows(part[:train], owners), _take_rows(part[train:], owners)) for part in parts)


def _take_rows(persons: np.ndarray, owners: np.ndarray | None) -> np.ndarray:
    return persons if owners is None else np.flatnonzero(np.isin(owners, persons))


def _copy_rows(data: Any, numbers: np.ndarray) -> Any:
    """Copy rows: a learner may modify its arguments."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[numbers], data)


def _seed(params: Any, number: int) -> None:
    """Seed the global generators by the block and the setting alone; ``isolate`` restores them.

    With a shared generator, the second block's numbers would depend on the number of draws by the first block.
    """
    setting = repr(sorted(params.items()) if isinstance(params, dict) else np.asarray(params).tolist())
    seed = int.from_bytes(blake2b(f"{number}:{setting}".encode(), digest_size=4).digest(), "little")
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
