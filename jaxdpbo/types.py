"""The contract every algorithm keeps, and the letters every shape is written in.

========  ==========================================================
letter    counts
========  ==========================================================
``n``     users (one loss each)
``m``     evaluated points: the capacity of a buffer, not its filling
``b``     points in one query
``d``     parameters (the dimension of a point)
``T``     steps
``k``     points predicted at, in one call
``c``     candidates of a finite set
========  ==========================================================

Points come first and users last, in every buffer: ``(m, d)``, ``(m, n)``. Shapes stand in docstrings.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax
import numpy.typing as npt

ArrayLike: TypeAlias = jax.Array | npt.ArrayLike  # arrays, numbers, nested sequences
DTypeLike: TypeAlias = jax.typing.DTypeLike
Bounds: TypeAlias = Any  # a box, in any spelling of ``minimize``
Data: TypeAlias = Any  # what the objective is given: a pytree of arrays, or anything where it runs in Python
Tree: TypeAlias = Any  # a pytree of arrays
KernelParams: TypeAlias = Any  # the numbers of a kernel: a pytree, such as kernels.Stationary
Unchecked: TypeAlias = Any  # what a caller gave, before it is checked
Values: TypeAlias = Any  # what an objective returns: an array, or what becomes one
Kernel = Callable[[KernelParams, jax.Array, jax.Array], jax.Array]  # (params, x (d,), y (d,)) -> ()
Objective = Callable[[Any, Data], Values]  # (point (d,), data) -> values


class Config(Protocol):
    """What every config has; made by an algorithm's ``config(...)``.

    Attributes:
      users: ``n``, where the objective returns a value for each user; None where it returns one for all.
      steps: ``T``, the number of steps of a run.
      space: a ``jaxdpbo.Space``, whose parameters the drivers give to the objective by name; None where it gets points.
    """

    @property
    def users(self) -> int | None: ...  # noqa: D102

    @property
    def steps(self) -> int: ...  # noqa: D102

    @property
    def space(self) -> Any: ...  # noqa: D102


class PublicState(Protocol):
    """What every ``State.public`` has: released, or independent of the users' data.

    Attributes:
      step: ``()``, steps taken.
      budget: all that sets the noise of the run as it was begun, a NamedTuple of arrays: ``calibration.NoiseSettings``
        where ``tell`` pays, another where ``release`` does; None where nothing is paid. No driver goes on from a state
        under another budget.
    """

    @property
    def step(self) -> jax.Array: ...  # noqa: D102

    @property
    def budget(self) -> Any: ...  # noqa: D102


class Info(Protocol):
    """What every ``Info`` has: raw diagnostics of one step. NOT PRIVATE.

    Attributes:
      factorisation_failed: ``()``, that the covariance of PUBLIC points could not be factored: the drivers raise on it.
        None where there is no such covariance, or where its points follow the users' values.
    """

    @property
    def factorisation_failed(self) -> jax.Array | None: ...  # noqa: D102


def missing(value: object, contract: type) -> list[str]:
    """The fields of ``contract``, one of the protocols above, that ``value`` lacks.

    >>> from jaxdpbo import types
    >>> types.missing(types.State(public=(), private=()), types.PublicState)
    ['step', 'budget']
    """
    fields = [name for name, member in vars(contract).items() if isinstance(member, property)]
    return [name for name in fields if not hasattr(value, name)]


class Algorithm(NamedTuple):
    """Five functions; the first four are pure and jit-compatible, and take a typed key first.

    Attributes:
      init: ``(key, config) -> State``, independent of the users' data. ``config`` is a ``Config``, ``State.public`` a
        ``PublicState``.
      ask: ``(key, config, state) -> Query``, where to evaluate next.
      tell: ``(key, config, state, query, values) -> (State, Info)``; the second an ``Info``.
      release: ``(key, config, state) -> Release``, the only thing to publish.
      privacy: ``(config) -> Guarantee``, on the host: of a run of ``steps`` steps whose keys ``secret_key`` drew, each
        used once. With other keys it is what ``privacy.keys.for_release`` makes of it: the drivers ask there, and so
        must a loop of one's own. The four functions take any key, as tests and research need, and no key shows where
        it came from.
    """

    init: Callable[..., Any]
    ask: Callable[..., Any]
    tell: Callable[..., Any]
    release: Callable[..., Any]
    privacy: Callable[..., Any]


class State(NamedTuple):
    """What a run knows. ``public`` is released or data-independent; ``private`` is raw.

    ``public`` is a ``PublicState``: a run goes on under the budget it was begun with, since otherwise the guarantee
    would be of a run that never was. What acts on released values alone (an optimizer, a box, a kernel) may change.
    A state prints its private arrays: keep it out of logs.
    """

    public: Any
    private: Any


class Query(NamedTuple):
    """Where to evaluate next.

    Attributes:
      points: ``(b, d)`` points, all inside the box.
      mask: ``(b,)`` True where the point is to be evaluated; values elsewhere are ignored.
      rows: ``(b,)`` which candidates the points are, where the search is over a finite set; otherwise None.
    """

    points: jax.Array
    mask: jax.Array
    rows: jax.Array | None = None
