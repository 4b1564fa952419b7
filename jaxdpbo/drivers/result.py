"""Results and exceptions of the drivers, and the checks shared by all drivers."""

import dataclasses
import operator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdpbo import checks, user_values
from jaxdpbo import notes as _notes
from jaxdpbo.accounting import requested_budget
from jaxdpbo.drivers import sharding
from jaxdpbo.guarantee import guarantees
from jaxdpbo.noise import keys
from jaxdpbo.report import records as reports
from jaxdpbo.types import Algorithm, Config, Data, Info, Memory, PublicState, State, Tree, missing_fields

TITLE = "the answer of a private search"


class Snapshot(NamedTuple):
    """The state of a run between two steps: ``state``, and the users' ``memory``. NOT PRIVATE: never publish it."""

    state: State
    memory: Memory


class Diagnostics(NamedTuple):
    """Raw ``state`` and users' ``memory`` at the end, ``info`` of each step. NOT PRIVATE: never publish these."""

    state: State
    memory: Memory
    info: Any


class Run(NamedTuple):
    """The result of a run. You may publish everything but ``diagnostics``.

    Attributes:
      release: the release of the algorithm.
      guarantee: the guarantee of the release.
      diagnostics: raw values, None by default. Pickling a ``Run`` with diagnostics writes private arrays.
      notes: what follows from the release, the ledger and public numbers alone, see ``jaxdpbo.notes``: few users, a
        path like noise, or that the release or its first steps come from the ledger, and who charged them.
      method: the method of ``minimize``, and the public numbers behind its choice; "" for other drivers.
      terms: of ``minimize``, what a person who signs must check, by name; in the record.
    """

    release: Any
    guarantee: guarantees.Guarantee
    diagnostics: Diagnostics | None = None
    notes: _notes.Notes = ()
    method: str = ""
    terms: tuple[tuple[str, Any], ...] = ()

    def __repr__(self) -> str:
        """Show the guarantee, the method, the notes and the release; never the diagnostics."""
        lines = [str(self.guarantee), *[f"method: {self.method}"] * bool(self.method), *_notes.lines(self.notes)]
        lines += ["diagnostics: NOT PRIVATE, not shown"] * bool(self.diagnostics)
        return "\n".join([*lines, f"release: {self.release}"])

    def report(self, path: str | Path | None = None) -> reports.Report:
        """Make the record of this run, to sign; with a ``path`` that ends in ".html", also write the page and its JSON.

        >>> import jax.numpy as jnp
        >>> import jaxdpbo
        >>> def loss(point, data):
        ...     return jnp.abs(data - point[0])
        >>> run = jaxdpbo.minimize(loss, jnp.linspace(0, 1, 500), space=[(0, 1)], mu=1)
        >>> run.report().title
        'the answer of a private search'
        """
        made = reports.report(
            TITLE, (self.guarantee,), release=self.release, details=dict(self.terms), notes=self.notes
        )
        return made if path is None else made.save(path)

    def _repr_html_(self) -> str:
        """The record, for notebooks."""
        return self.report()._repr_html_()


def name_params(released: Any, config: Config) -> Any:
    """Add the ``params`` at the ``point`` of a release, for a search in a ``Space``: post-processing, on the host."""
    if config.space is None or released.point is None:
        return released
    return released._replace(params=config.space.params(released.point))


class ObjectiveError(ValueError):
    """The first values of an objective have the wrong shape or type. No noise was drawn.

    A charge in a ledger stays. After you mend the objective, the same call resumes under this charge.
    """


class ShapeError(ObjectiveError):
    """An objective returned another shape than its algorithm needs."""


class RunInterrupted(RuntimeError):
    """A run stopped on an exception, its ``__cause__``.

    To resume, make the same call with ``resume=error.snapshot``. The snapshot is raw, so ``repr``, ``str`` and pickles
    of this exception leave it out. A run with a ledger has no snapshot and resumes from the ledger alone, since a
    charge pays for a single transcript.
    ``step`` is the number of steps taken, if known.
    """

    def __init__(self, message: str, snapshot: Snapshot | None = None, step: int | None = None):
        """Keep the message, and the ``snapshot`` before the failed step."""
        super().__init__(message)
        self.snapshot, self.step = snapshot, step

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message alone."""
        return type(self), self.args


def expect_host(driver: str, key: Any) -> None:
    """Raise if a driver is called under a trace.

    Raises:
      RuntimeError: the call is traced; names the function to call instead.
    """
    if isinstance(key, Tracer):
        raise RuntimeError(
            f"{driver} runs on the host and cannot be traced: under jit, vmap or grad call "
            "drivers.pure_run(algorithm, objective, data, config, key)"
        )
    keys.refuse_trace("the key of a run")


def state_guarantee(
    algorithm: Algorithm, objective: object, config: Config, delta: float | None = None
) -> guarantees.Guarantee:
    """The guarantee of a run, as ``(epsilon, delta)``-DP if ``delta`` is given.

    Raises:
      TypeError: a wrong algorithm, objective or config, before any spending.
      ValueError: see ``Guarantee.to_dp``.
    """
    if not isinstance(algorithm, Algorithm):
        raise TypeError(f"algorithm must be an Algorithm, such as dp_gibo.algorithm, got {type(algorithm).__name__}")
    if (algorithm.contribute is None) != (algorithm.perturb is None):
        raise TypeError("an algorithm must have both contribute and perturb, or neither")
    checks.takes_two("objective", objective, "point", "data")
    state = None
    try:
        operator.index(config.steps)
        state = jax.eval_shape(algorithm.init, jax.eval_shape(lambda: jax.random.key(0)), config)
        guarantee = algorithm.privacy(config)
    except (AttributeError, TypeError):
        guarantee = None
    if state is not None:
        if not isinstance(state, State):
            raise TypeError(f"algorithm.init must return a State, got {type(state).__name__}")
        _require("the config", config, Config)
        _require("the public state", state.public, PublicState)
    if guarantee is None:
        raise TypeError(f"config must be of this algorithm's config(...), got {type(config).__name__}")
    guarantee = guarantees.complete_assumptions(guarantee, separable=algorithm.contribute is not None)
    guarantee = guarantee if delta is None else guarantee.to_dp(delta)
    if config.users is None:
        return guarantee
    usual = None if guarantee.delta else requested_budget.usual_delta(config.users)
    return dataclasses.replace(guarantee, summary_delta=delta or usual)


def expect_no_mean(name: str, shape: tuple[int, ...], users: int | None) -> None:
    """Refuse a scalar in place of losses. ``users`` is None if the objective returns a single value for all users.

    Raises:
      ValueError: the value is a scalar, perhaps the users' mean.
    """
    if users is not None and shape == ():
        raise ValueError(f"{name} must return one loss per user, not their mean: shape ({users},), got shape ()")


def check_info(info: Info) -> Info:
    """Return ``info``. Raise a TypeError at trace time, before any draw, if an algorithm returned anything else."""
    if not isinstance(info, Info):
        raise TypeError(f"diagnostics of an algorithm must be types.Info(raw by name, flag), got {type(info).__name__}")
    return info


def _require(name: str, value: object, contract: type) -> None:
    for field in missing_fields(value, contract):
        raise TypeError(
            f"{name} of an algorithm must have the field {field!r}, None where it does not apply, "
            f"got {type(value).__name__} without it"
        )


def to_arrays(data: Data) -> Any:
    """Convert ``data`` to JAX arrays (``user_values.to_jax``), still sharded by user, see ``sharding``.

    Raises:
      TypeError: a leaf is a list, or not an array of numbers.
      ValueError: a leaf is sharded along another axis than its users.
    """
    return sharding.place_users(user_values.to_jax(data))


def to_numpy(released: Tree) -> Any:
    """Convert a release to NumPy arrays, with floats as float64."""
    return jax.tree.map(
        lambda leaf: np.asarray(leaf, np.float64 if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf.dtype), released
    )


def dimension(config: Any) -> int:
    """The dimension ``d``; private evaluations and estimates take the box of their inner algorithm."""
    while not hasattr(config, "bounds"):
        config = config.inner
    return config.bounds.shape[1]


def raise_on_failed_factorisation(info: Info | None, snapshot: Snapshot | None) -> None:
    """Raise a RunInterrupted if the covariance of the public points could not be factored.

    The users' gradients then counted as zero. ``info`` is None if no step was taken. ``snapshot`` is None for a run
    with a ledger, since only the ledger may return draws.
    """
    failed = None if info is None else info.factorisation_failed
    if failed is not None and bool(np.any(np.asarray(failed))):
        raise RunInterrupted(
            "the covariance of the evaluated points could not be factored: raise noise_variance or use float64",
            snapshot,
        )
