"""The contract of all algorithms, and the letters of all shapes.

========  ==========================================================
letter    counts
========  ==========================================================
``n``     users (one loss each)
``m``     evaluated points: the capacity of a buffer, not its filling
``b``     points in a query
``d``     parameters (the dimension of a point)
``T``     steps
``k``     points of a call to predict
``c``     candidates of a finite set
========  ==========================================================

Points come first and users last, in every buffer: ``(m, d)``, ``(m, n)``. Docstrings give the shapes.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy.typing as npt

from jaxdpbo import namespace

__all__ = [
    "Algorithm",
    "ArrayLike",
    "Bounds",
    "Config",
    "Info",
    "Kernel",
    "Objective",
    "PublicState",
    "Query",
    "State",
    "bind",
    "check_values",
]
__dir__ = namespace.list_public(__name__)

ArrayLike: TypeAlias = jax.Array | npt.ArrayLike  # arrays, numbers, nested sequences
DTypeLike: TypeAlias = jax.typing.DTypeLike
Bounds: TypeAlias = object  # a box, in any spelling of ``minimize``
Data: TypeAlias = object  # the data of the objective: a pytree of arrays, or any object for an objective in Python
Tree: TypeAlias = object  # a pytree of arrays
KernelParams: TypeAlias = object  # the numbers of a kernel: a pytree, such as kernels.Stationary
Unchecked: TypeAlias = object  # a caller's argument before its check
Values: TypeAlias = object  # the result of an objective: an array, or an array-like
Memory: TypeAlias = object  # the memory of users between steps: a pytree of arrays with users on the last axis
LEFT_OUT = "left out of a fingerprint"  # of the metadata of a config's field
Kernel = Callable[[Any, jax.Array, jax.Array], jax.Array]  # (params, x (d,), y (d,)) -> ()
Objective = Callable[[Any, Any], Values]  # (point (d,), data) -> values


class Config(Protocol):
    """The fields of every config; made by an algorithm's ``config(...)``.

    Attributes:
      users: ``n`` for an objective with a value for each user; None for an objective with a single value for all users.
      steps: ``T``, the number of steps of a run.
      space: a ``jaxdpbo.Space``; the drivers then pass parameters by name to the objective. None to pass points.
    """

    @property
    def users(self) -> int | None:
        """``n``, or None."""
        ...

    @property
    def steps(self) -> int:
        """``T``."""
        ...

    @property
    def space(self) -> Any:
        """A ``Space``, or None."""
        ...


class PublicState(Protocol):
    """The fields of every ``State.public``: released, or independent of the users' data.

    Attributes:
      step: ``()``, the number of steps taken.
      noise: all noise settings at the start of the run, a NamedTuple of arrays: ``calibration.NoiseSettings`` if
        ``tell`` pays, another type if ``release`` pays; None if nothing is paid. No driver resumes a state under
        other noise.
    """

    @property
    def step(self) -> jax.Array:
        """Steps taken."""
        ...

    @property
    def noise(self) -> Any:
        """All noise settings."""
        ...


def missing_fields(value: object, contract: type) -> list[str]:
    """The fields of ``contract``, a protocol above, missing from ``value``.

    >>> from jaxdpbo import types
    >>> types.missing_fields(types.State(public=()), types.PublicState)
    ['step', 'noise']
    """
    fields = [name for name, member in vars(contract).items() if isinstance(member, property)]
    return [name for name in fields if not hasattr(value, name)]


def remember_nothing(config: Config, users: int) -> tuple[()]:
    """Remember nothing between steps: the default of ``Algorithm.remember``."""
    del config, users
    return ()


class Info(NamedTuple):
    """Diagnostics of one step: NOT PRIVATE.

    >>> from jaxdpbo import types
    >>> types.Info({"clipped": 3}).raw["clipped"]
    3

    Attributes:
      raw: by name; the ``inform`` or the ``tell`` of an algorithm says which.
      factorisation_failed: ``()``, True if the covariance of PUBLIC points could not be factored; the drivers then
        raise. None if there is no such covariance, or if its points depend on the users' values.
    """

    raw: dict[str, Any]
    factorisation_failed: jax.Array | None = None


def inform_facts(config: Config, query: "Query", total: Any) -> Info:
    """Return the facts of a step: the default of ``Algorithm.inform``."""
    del config, query
    return Info(total.facts)


class Algorithm(NamedTuple):
    """The functions of an algorithm: pure, and jit-compatible except ``privacy``.

    A step is ``ask``, the objective, ``contribute``, ``perturb``, ``tell``. Users' values enter ``contribute`` alone,
    randomness to protect users enters ``perturb`` alone, and ``tell`` is arithmetic on public numbers.

    An algorithm for an objective with a single value for all users, or with raw values kept until ``release``, has
    ``contribute=None``: its ``tell`` is ``(key, config, state, query, values) -> (State, Info)``.

    Attributes:
      init: ``(key, config) -> State``, independent of the users' data. ``config`` is a ``Config``, ``State.public`` a
        ``PublicState``.
      ask: ``(key, config, state) -> Query``, the next points, and public inputs of the users' contributions.
      tell: ``(config, state, query, released) -> State``: sees no user, no total and no key.
      release: ``(key, config, state) -> Release``, the only value to publish.
      privacy: ``(config) -> Guarantee``, on the host: for a run of ``steps`` steps with keys from ``secret_key``, each
        used once. State in ``assumptions`` if noise is exact (``RANDOM_BITS``) or in floats (``IDEAL_NOISE``): without
        either, the drivers assume both. For other keys, ``guarantee.for_release`` adjusts the guarantee: the drivers
        call it, and your own loop must call it too. The other functions accept any key, for tests and research: a key
        does not show its origin.
      contribute: ``(config, query, memory, values, present=None) -> (Total, memory)``, for any ``s`` of the users:
        ``values (..., s)``, and ``present (s,)`` is False at columns without a user, to add nothing. Reads no key and
        no state. The query may set the units of a user's contribution, and whether the step has the contribution, but
        never a bound on its size: the config sets bounds. (With ``noise="float"``, for research, the query holds a
        privately found clip norm or range.)
      perturb: ``(key, config, query, whole) -> released``, the noise or the choice, on the total of all users. The
        privacy guarantee comes from this function: ``released`` is public, and zeros in steps without payment.
      inform: ``(config, query, total) -> Info``, diagnostics of a step. NOT PRIVATE.
      remember: ``(config, s) -> memory``, the memory of ``s`` users between steps: a pytree of arrays with users on the
        last axis. Raw.
      survey: ``(config, query, memory, values, present=None) -> whole``, the first round of steps with ``query.survey``
        True; for algorithms with a privately found scale.
      refine: ``(key, config, query, whole) -> Query``, perturbs the survey and adds the result to the query.
      history: ``(config, state, query) -> tuple[Query, ...]``, on the host, if nobody keeps the users' memory, as for
        the rows of a table: earlier queries that rebuild what ``contribute`` needs of the memory, then ``query``;
        ``()`` if the total of this step is zeros for certain. None if users remember nothing, or must remember.
    """

    init: Callable[..., Any]
    ask: Callable[..., Any]
    tell: Callable[..., Any]
    release: Callable[..., Any]
    privacy: Callable[..., Any]
    contribute: Callable[..., Any] | None = None
    perturb: Callable[..., Any] | None = None
    inform: Callable[..., Any] = inform_facts
    remember: Callable[..., Any] = remember_nothing
    survey: Callable[..., Any] | None = None
    refine: Callable[..., Any] | None = None
    history: Callable[..., Any] | None = None


def history(algorithm: Algorithm, config: Config, state: "State", query: "Query") -> tuple["Query", ...]:
    """The queries that rebuild the memory of users in a step, see ``Algorithm.history``.

    Raises:
      ValueError: the memory must be kept.
    """
    expect_history(algorithm, config)
    return (query,) if algorithm.history is None else algorithm.history(config, state, query)


def expect_history(algorithm: Algorithm, config: Config) -> None:
    """Raise a ValueError if users must remember something between steps."""
    if algorithm.history is None and jax.tree.leaves(algorithm.remember(config, 1)):
        raise ValueError("users of a table remember nothing between steps: give memory='none', or arrays in memory")


def bind(function: Callable[..., Any], *first: Any) -> Callable[..., Any]:
    """Bind the ``first`` arguments of a function, to build an algorithm from another algorithm.

    >>> from jaxdpbo import types
    >>> types.bind(lambda a, b: a + b, 1)(2)
    3
    """

    @functools.wraps(function)
    def bound(*arguments: Any, **options: Any) -> Any:
        return function(*first, *arguments, **options)

    signature = inspect.signature(function)
    left = list(signature.parameters.values())[len(first) :]
    vars(bound)["__signature__"] = signature.replace(parameters=left)
    return bound


class State(NamedTuple):
    """The state of a run. ``public`` is released or data-independent; ``raw`` is neither.

    ``public`` is a ``PublicState``: a run resumes only under its original noise, since the guarantee would not hold
    otherwise. Settings for released values alone (an optimizer, a box, a kernel) may change. ``raw`` is ``()`` for an
    algorithm with ``contribute``. A state with raw arrays prints them: keep it out of logs.
    """

    public: Any
    raw: Any = ()


class Query(NamedTuple):
    """The next points to evaluate, all fields public. ``ask`` makes the query; do not change single fields.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import types
    >>> types.Query(jnp.zeros((1, 2)), jnp.ones(1, bool)).points.shape
    (1, 2)

    Attributes:
      points: ``(b, d)`` points, all inside the box.
      mask: ``(b,)`` True for points to evaluate; values at other points are ignored.
      rows: ``(b,)`` the candidates' row numbers in a search over a finite set; otherwise None.
      broadcast: further inputs of ``contribute``, broadcast to all processes that sum users.
      local: further inputs of ``tell``, not needed by ``contribute``.
      survey: ``()``, True if this step has a first round; None if no step has.
      active: ``()``, whether a step is left, see ``noise.guard``; None for an algorithm that pays for no step.
    """

    points: jax.Array
    mask: jax.Array
    rows: jax.Array | None = None
    broadcast: Any = ()
    local: Any = ()
    survey: jax.Array | None = None
    active: Any = None


def check_values(
    values: jax.Array, *leading: int, memory: Memory = (), present: jax.Array | None = None, users: int | None = None
) -> None:
    """Refuse values of another shape than ``(*leading, users)``, or ``(*leading, s)`` for any ``s``.

    Args:
      values: the result of the objective.
      leading: the lengths of all axes except the axis of users.
      memory: the memory of the same users, on the last axis of each leaf.
      present: ``(s,)``, or None.
      users: the required number of users; None for any number.

    Raises:
      ValueError: values, memory or ``present`` have other shapes; at trace time.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import types
    >>> types.check_values(jnp.zeros((2, 5)), 3)
    Traceback (most recent call last):
    ...
    ValueError: values must have shape (3, 5), got (2, 5)
    """
    shape = jnp.shape(values)
    expected = (*leading, *shape[-1:]) if users is None else (*leading, users)
    if shape != expected:
        raise ValueError(f"values must have shape {expected}, got {shape}")
    for leaf in jax.tree.leaves(memory):
        if jnp.shape(leaf)[-1:] != shape[-1:]:
            raise ValueError(f"memory must be of the {shape[-1]} users of the values, got shape {jnp.shape(leaf)}")
    if present is not None and jnp.shape(present) != shape[-1:]:
        raise ValueError(f"present must have shape {shape[-1:]}, got {jnp.shape(present)}")
