"""What every driver returns and raises."""

import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdpbo import _user_values
from jaxdpbo.drivers import sharding
from jaxdpbo.privacy import guarantee, keys
from jaxdpbo.types import Algorithm, Config, Data, Info, Memory, PublicState, State, Tree, missing_fields


class Snapshot(NamedTuple):
    """Where a run stands between two steps: the ``state``, and the ``memory`` of all users. Raw: never publish it."""

    state: State
    memory: Memory


class Diagnostics(NamedTuple):
    """Raw: ``state`` and users' ``memory`` at the end, ``info`` of each step. NOT PRIVATE: never publish it."""

    state: State
    memory: Memory
    info: Any


class Run(NamedTuple):
    """What a run returns: all that may be published, and under which guarantee.

    Attributes:
      release: of the algorithm.
      guarantee: of the release.
      diagnostics: None unless asked for; with it this tuple pickles private arrays.
      note: what ``release`` itself shows of the run, in words, "" where nothing: see ``preview.path_note``. It is
        computed from the release and public numbers alone.
      method: which method ``minimize`` ran, and by which public numbers it was chosen; "" of other drivers.
    """

    release: Any
    guarantee: guarantee.Guarantee
    diagnostics: Diagnostics | None = None
    note: str = ""
    method: str = ""

    def __repr__(self) -> str:
        """Show the guarantee, the method, the note and the release; never the diagnostics."""
        told = {
            "method": self.method,
            "note": self.note,
            "diagnostics": "NOT PRIVATE, not shown" * bool(self.diagnostics),
        }
        lines = [f"{name}: {text}" for name, text in told.items() if text]
        return "\n".join([str(self.guarantee), *lines, f"release: {self.release}"])


def name_params(released: Any, config: Config) -> Any:
    """A release with the ``params`` at its ``point``, where a ``Space`` was searched: post-processing, on the host."""
    if config.space is None or released.point is None:
        return released
    return released._replace(params=config.space.params(released.point))


class ObjectiveError(ValueError):
    """The first values of an objective have the wrong shape or kind: one sentence, and nothing was drawn.

    A charge that a recording made stays, and the same call goes on under it.
    """


class RunInterrupted(RuntimeError):
    """A run stopped on an exception, which is its ``__cause__``; ``snapshot`` is where it stood.

    ``run_loop(..., snapshot=error.snapshot)`` goes on from there. The snapshot is raw, so it is kept out of ``repr``,
    ``str`` and pickles of this exception. It is None for a run on record, which goes on by its record alone: a second
    way on would be a second transcript under one charge. ``step`` is the number of steps taken, where it is known.
    """

    def __init__(self, message: str, snapshot: Snapshot | None = None, step: int | None = None):
        """``message`` says at which step; ``snapshot`` is of before it."""
        super().__init__(message)
        self.snapshot, self.step = snapshot, step

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message alone."""
        return type(self), self.args


def expect_host(driver: str, key: Any) -> None:
    """Nothing, unless a driver is called under a trace.

    Raises:
      RuntimeError: it is; says what to do.
    """
    if isinstance(key, Tracer):
        raise RuntimeError(
            f"{driver} runs on the host and can not be traced: under jit, vmap or grad call "
            "drivers.pure_run(algorithm, objective, key, config, data)"
        )
    keys.refuse_trace("the key of a run")


def state_guarantee(algorithm: Algorithm, objective: object, config: Config) -> guarantee.Guarantee:
    """What a run guarantees; refuses what is no algorithm, no objective or no config before anything is spent."""
    if not isinstance(algorithm, Algorithm):
        raise TypeError(f"algorithm must be an Algorithm, such as dp_gibo.algorithm, got {type(algorithm).__name__}")
    if (algorithm.contribute is None) != (algorithm.perturb is None):
        raise TypeError("an algorithm must have both contribute and perturb, or neither")
    if not callable(objective):
        raise TypeError(f"objective must be a function of a point and data, got {type(objective).__name__}")
    state = None
    try:
        operator.index(config.steps)
        state = jax.eval_shape(algorithm.init, jax.eval_shape(lambda: jax.random.key(0)), config)
        statement = algorithm.privacy(config)
    except (AttributeError, TypeError):
        statement = None
    if state is not None:
        if not isinstance(state, State):
            raise TypeError(f"algorithm.init must return a State, got {type(state).__name__}")
        _require("the config", config, Config)
        _require("the public state", state.public, PublicState)
    if statement is None:
        raise TypeError(f"config must be of this algorithm's config(...), got {type(config).__name__}")
    return statement


def expect_no_mean(name: str, shape: tuple[int, ...], users: int | None) -> None:
    """Refuse one number where each user has a loss. ``users`` is None where the objective returns one value for all.

    Raises:
      ValueError: there is one number; says that it may be the users' mean.
    """
    if users is not None and shape == ():
        raise ValueError(f"{name} must return one loss per user, not their mean: shape ({users},), got shape ()")


def check_info(info: Info) -> Info:
    """``info``, refused at trace time, before anything is drawn, where it lacks a field that the drivers read."""
    _require("the Info", info, Info)
    return info


def _require(name: str, value: object, contract: type) -> None:
    for field in missing_fields(value, contract):
        raise TypeError(
            f"{name} of an algorithm must have the field {field!r}, None where it does not apply, "
            f"got {type(value).__name__} without it"
        )


def to_arrays(data: Data) -> Any:
    """``data`` as JAX arrays (``_user_values.to_jax``); what is sharded by user is so afterwards, see ``sharding``.

    Raises:
      TypeError: a list, or a leaf that is no array of numbers.
      ValueError: a leaf is sharded along something else than its users.
    """
    return sharding.place_users(_user_values.to_jax(data))


def to_numpy(released: Tree) -> Any:
    """A release as every driver returns it, compiled or not: NumPy arrays, floats as float64."""
    return jax.tree.map(
        lambda leaf: np.asarray(leaf, np.float64 if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf.dtype), released
    )


def raise_on_failed_factorisation(info: Info | None, snapshot: Snapshot | None) -> None:
    """A flag on public points, where an algorithm has one; the users' gradients then counted as zero.

    ``info`` is None where no step was taken. ``snapshot`` is None for a run on record: what it drew leaves by its
    record or not at all.
    """
    failed = None if info is None else info.factorisation_failed
    if failed is not None and bool(np.any(np.asarray(failed))):
        raise RunInterrupted(
            "the covariance of the evaluated points could not be factored: raise noise_variance or use float64",
            snapshot,
        )
