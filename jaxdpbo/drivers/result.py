"""What every driver returns and raises."""

import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.privacy import guarantee
from jaxdpbo.types import Algorithm, State


class Diagnostics(NamedTuple):
    """Raw: ``state`` at the end and ``info`` with a leading axis of steps. NOT PRIVATE: never publish it."""

    state: State
    info: Any


class Run(NamedTuple):
    """What a run returns: all that may be published, and under which guarantee.

    ``diagnostics`` is None unless asked for; with it this tuple prints and pickles private arrays.
    """

    release: Any
    guarantee: guarantee.Guarantee
    diagnostics: Diagnostics | None = None


class RunInterrupted(RuntimeError):
    """A run stopped on an exception, which is its ``__cause__``; ``state`` is where it stood.

    ``run_loop(..., state=error.state)`` goes on from there. The state is raw, so it is kept out of ``repr``, ``str``
    and pickles of this exception. It is None for a run on record, which goes on by its record alone: a second way on
    would be a second transcript under one charge.
    """

    def __init__(self, message: str, state: State | None = None):
        """``message`` says at which step; ``state`` is the state before it."""
        super().__init__(message)
        self.state = state

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message alone."""
        return type(self), self.args


def statement_of(algorithm: Algorithm, objective: Any, config: Any) -> guarantee.Guarantee:
    """What a run guarantees; refuses what is no algorithm, no objective or no config before anything is spent."""
    if not isinstance(algorithm, Algorithm):
        raise TypeError(f"algorithm must be one, such as dp_gibo.algorithm, got {type(algorithm).__name__}")
    if not callable(objective):
        raise TypeError(f"objective must be a function of a point and data, got {type(objective).__name__}")
    try:
        operator.index(config.steps)
        jax.eval_shape(algorithm.init, jax.eval_shape(lambda: jax.random.key(0)), config)
        return algorithm.privacy(config)
    except (AttributeError, TypeError):
        said = f"config must be of this algorithm's config(...), got {type(config).__name__}"
    raise TypeError(said)


def arrays(data: Any) -> Any:
    """``data`` as JAX arrays: what they hold neither warns, nor is quoted where a leaf is no array."""
    try:
        with np.errstate(all="ignore"):
            return jax.tree.map(jnp.asarray, data)
    except Exception:  # whatever an array-like says
        pass
    raise TypeError("data must be a pytree of arrays of numbers")


def raise_on_failed_factorisation(info: Any, state: State | None) -> None:
    """A flag on public points, where an algorithm has one; the users' gradients then counted as zero.

    ``state`` is None for a run on record: what it drew leaves by its record or not at all.
    """
    failed = getattr(info, "factorisation_failed", None)
    if failed is not None and bool(np.any(failed)):
        raise RunInterrupted(
            "the covariance of the evaluated points could not be factored: raise noise_variance or use float64",
            state,
        )
