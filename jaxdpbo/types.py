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

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy.typing as npt

ArrayLike: TypeAlias = jax.Array | npt.ArrayLike  # arrays, numbers, nested sequences
DTypeLike: TypeAlias = jax.typing.DTypeLike
Bounds: TypeAlias = Any  # a box, in any spelling of ``minimize``
Data: TypeAlias = Any  # what the objective is given: a pytree of arrays, or anything where it runs in Python
Tree: TypeAlias = Any  # a pytree of arrays
KernelParams: TypeAlias = Any  # the numbers of a kernel: a pytree, such as kernels.Stationary
Unchecked: TypeAlias = Any  # what a caller gave, before it is checked
Values: TypeAlias = Any  # what an objective returns: an array, or what becomes one
Memory: TypeAlias = Any  # what users carry from step to step: a pytree of arrays with users on the last axis
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


def missing_fields(value: object, contract: type) -> list[str]:
    """The fields of ``contract``, one of the protocols above, that ``value`` lacks.

    >>> from jaxdpbo import types
    >>> types.missing_fields(types.State(public=()), types.PublicState)
    ['step', 'budget']
    """
    fields = [name for name, member in vars(contract).items() if isinstance(member, property)]
    return [name for name in fields if not hasattr(value, name)]


def remember_nothing(config: Config, users: int) -> tuple[()]:
    """The default of ``Algorithm.remember``: users carry nothing from step to step."""
    del config, users
    return ()


class Facts(NamedTuple):
    """The default ``Info``: NOT PRIVATE.

    Attributes:
      facts: as ``contribute`` gave them, summed over all users.
      factorisation_failed: None.
    """

    facts: Any
    factorisation_failed: None = None


def inform_facts(config: Config, query: "Query", total: Tree) -> Facts:
    """The default of ``Algorithm.inform``."""
    del config, query
    return Facts(total.facts)


class Algorithm(NamedTuple):
    """The functions of an algorithm: pure, and jit-compatible but for ``privacy``.

    A step is ``ask``, the objective, ``contribute``, ``perturb``, ``tell``. Users' values enter ``contribute`` alone,
    randomness that protects users enters ``perturb`` alone, and ``tell`` is arithmetic on public numbers.

    An algorithm whose objective returns one value for all users, or that keeps raw values until ``release``, has
    ``contribute=None``: its ``tell`` is ``(key, config, state, query, values) -> (State, Info)``.

    Attributes:
      init: ``(key, config) -> State``, independent of the users' data. ``config`` is a ``Config``, ``State.public`` a
        ``PublicState``.
      ask: ``(key, config, state) -> Query``, where to evaluate next, and what users need to know for their part.
      tell: ``(config, state, query, released) -> State``: sees no user, no total and no key.
      release: ``(key, config, state) -> Release``, the only thing to publish.
      privacy: ``(config) -> Guarantee``, on the host: of a run of ``steps`` steps whose keys ``secret_key`` drew, each
        used once. With other keys it is what ``privacy.keys.for_release`` makes of it: the drivers ask there, and so
        must a loop of one's own. The other functions take any key, as tests and research need, and no key shows where
        it came from.
      contribute: ``(config, query, memory, values, present=None) -> (Total, memory)``, for any ``s`` of the users:
        ``values (..., s)``, and ``present (s,)`` is False at columns that stand for nobody and add nothing. Reads no
        key and no state. The query may say in which units a user's part is counted, and whether the step has this part
        at all, never how large the part may be: that is the config's to say. (With ``noise="float"``, for research, a
        clip norm or range that is found privately is the query's.)
      perturb: ``(key, config, query, whole) -> released``, the noise or the choice, on the total of all users. The
        privacy guarantee is earned here: ``released`` is public, and zeros in steps that do not pay for it.
      inform: ``(config, query, total) -> Info``, diagnostics of a step. NOT PRIVATE.
      remember: ``(config, s) -> memory``, what ``s`` users carry from step to step: a pytree of arrays with users on
        the last axis. Raw.
      survey: ``(config, query, memory, values, present=None) -> whole``, of a first round in steps whose
        ``query.survey`` is True; for algorithms that find a scale privately.
      refine: ``(key, config, query, whole) -> Query``, with what the noised survey says; it is perturbed here.
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


def bind(function: Callable[..., Any], *first: Any) -> Callable[..., Any]:
    """``function`` with its ``first`` arguments given, for an algorithm that is made of another one."""

    @functools.wraps(function)
    def bound(*arguments: Any, **options: Any) -> Any:
        return function(*first, *arguments, **options)

    signature = inspect.signature(function)
    left = list(signature.parameters.values())[len(first) :]
    vars(bound)["__signature__"] = signature.replace(parameters=left)
    return bound


class State(NamedTuple):
    """What a run knows. ``public`` is released or data-independent; ``raw`` is neither.

    ``public`` is a ``PublicState``: a run goes on under the budget it was begun with, since otherwise the guarantee
    would be of a run that never was. What acts on released values alone (an optimizer, a box, a kernel) may change.
    ``raw`` is ``()`` where there is a ``contribute``. A state with raw arrays prints them: keep it out of logs.
    """

    public: Any
    raw: Any = ()


class Query(NamedTuple):
    """Where to evaluate next; all of it is public, and belongs together: ``ask`` makes it, and nothing else changes it.

    Attributes:
      points: ``(b, d)`` points, all inside the box.
      mask: ``(b,)`` True where the point is to be evaluated; values elsewhere are ignored.
      rows: ``(b,)`` which candidates the points are, where the search is over a finite set; otherwise None.
      work: what ``contribute`` needs besides, broadcast to whoever adds users up.
      local: what ``tell`` needs besides, and no user's part does.
      survey: ``()``, whether this step has a first round; None where no step has.
    """

    points: jax.Array
    mask: jax.Array
    rows: jax.Array | None = None
    work: Any = ()
    local: Any = ()
    survey: jax.Array | None = None


def check_values(
    values: jax.Array, *leading: int, memory: Memory = (), present: jax.Array | None = None, users: int | None = None
) -> None:
    """Refuse values of another shape than ``(*leading, users)``, or ``(*leading, s)`` for any ``s``.

    Args:
      values: what the objective returned.
      leading: all axes but that of the users.
      memory: of the same users: each leaf has as many on its last axis.
      present: ``(s,)``, or None.
      users: how many there must be; any number where it is None.

    Raises:
      ValueError: values, memory or ``present`` are of other shapes; at trace time.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import types
    >>> types.check_values(jnp.zeros((2, 5)), 3)
    Traceback (most recent call last):
    ...
    ValueError: values must have shape (3, 5), got (2, 5)
    """
    found = jnp.shape(values)
    wanted = (*leading, *found[-1:]) if users is None else (*leading, users)
    if found != wanted:
        raise ValueError(f"values must have shape {wanted}, got {found}")
    for leaf in jax.tree.leaves(memory):
        if jnp.shape(leaf)[-1:] != found[-1:]:
            raise ValueError(f"memory must be of the {found[-1]} users of the values, got shape {jnp.shape(leaf)}")
    if present is not None and jnp.shape(present) != found[-1:]:
        raise ValueError(f"present must have shape {found[-1:]}, got {jnp.shape(present)}")
