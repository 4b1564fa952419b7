"""Private evaluations for an optimiser that is not ours: a scalar function of a per-user loss that counts its budget.

The one object here with a state of its own, since it counts a budget that somebody else spends.
"""

import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks, _silence, _user_values
from jaxdpbo.algorithms import private_evaluations
from jaxdpbo.drivers import mesh, result, separation
from jaxdpbo.privacy import asked, calibration, charges, guarantee, keys, ledger, private_mean, private_scale, run_lock
from jaxdpbo.types import Tree


class BudgetExhausted(RuntimeError):
    """Every evaluation that the budget was split into is spent."""


class Spent(NamedTuple):
    """One released evaluation, public: where, and the noised mean loss."""

    point: Any
    value: float


class PrivateObjective:
    """``objective(point) -> float``, a noised mean loss: for any optimiser, which need not know that it is private.

    Formal guarantee: ``mu``-GDP, replace-one, for all that it ever returns together. The budget is split equally among
    ``evaluations`` calls beforehand. A call is charged before its noise is drawn, and where the loss raises; losses of
    a wrong shape are refused without a charge. Prints, warnings and logs of the loss are silenced; what its exception
    says is the loss's own affair. Threads may share one object. Processes may not: each copy would count for itself and
    draw the same noise, so the object refuses to be pickled, and to work after a fork.

    >>> import numpy as np
    >>> from jaxdpbo import PrivateObjective
    >>> def loss(point, data):
    ...     return np.square(data - point)
    >>> records = np.linspace(0, 1, 500)
    >>> objective = PrivateObjective(loss, records, users=500, mu=1.0, evaluations=2, loss_range=(0, 1))
    >>> value = objective(0.5)
    >>> objective.remaining, objective.deviation < 0.01
    (1, True)

    Attributes:
      deviation: the standard deviation of the noise of one value.
      guarantee: what all evaluations together give.
    """

    @_silence.debug_checks_off()
    def __init__(
        self,
        loss: Callable[[Any, Any], Any],
        data: Any,
        *,
        evaluations: int,
        loss_range: Any,
        design: Sequence[Any] | None = None,
        users: int,
        user_axes: Tree = None,
        mu: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        noise: str = "exact",
        key: jax.Array | None = None,
        insecure_key: bool = False,
        recording: charges.Recording | None = None,
    ):
        """Check and split.

        Args:
          loss: ``(point, data) -> losses (n,)``; entry ``i`` must depend on user ``i``'s record alone.
          data: passed on untouched; with ``user_axes`` as for ``run_scan``.
          evaluations: how many there may be.
          loss_range: ``(low, high)``, chosen without the users' data: losses are clipped there. NaN counts as its
            middle: no value says that losses were not finite. "private" finds it at once from the ``design``, for 5 %
            of ``mu^2``; values are then mean differences from the loss at the design's first point.
          design: two public points or more, at which the loss is called; with ``loss_range="private"`` alone.
          users: ``n``, public.
          user_axes: as for ``run_scan``, of a loss that JAX can trace at every point.
          mu: the GDP budget of all evaluations together; or ``epsilon`` and ``delta``.
          epsilon: with ``delta``, in place of ``mu``: the largest ``mu`` that implies both, rounded down.
          delta: in (0, 1); it has no default.
          noise: see ``config``.
          key: a typed key for tests; from the operating system where not given.
          insecure_key: permit a key of a generator without a security claim.
          recording: ``Recording(path, run)``: charge all evaluations to a ledger (``privacy.ledger``). An object of
            the same run in another process goes on: what was returned is among ``spent``, what was charged stays
            charged. No ``key`` may be given.

        Raises:
          ledger.LedgerError: the budget does not suffice, or the name stands for something else.
          run_lock.RunInUse: another process goes on with the run on record.
          ValueError: a number out of range, a budget given twice or not at all; ``key`` with a recording; data that
            lie on several processes.
          TypeError: ``key`` is not a typed key, or of such a generator.
        """
        if key is None:
            keys.refuse_trace("the key of the evaluations")
        mesh.expect_one_process("PrivateObjective", data)
        self._loss, self._data = separation.shown(loss, data, user_axes)
        self._users, self._evaluations = _checks.size("users", users), _checks.size("evaluations", evaluations)
        low, high = private_evaluations.given_range(loss_range)
        find_scale = isinstance(loss_range, str)
        if find_scale == (design is None) or (design is not None and len(design) < 2):
            raise ValueError("design must be two points or more with loss_range='private', and not given otherwise")
        dtype = jnp.result_type(float)
        level = asked.mu_of(mu, epsilon, delta, users=self._users, dtype=dtype)
        sizes = {"users": self._users, "steps": self._evaluations, "dimension": 1}

        def calibrated(mu: float) -> calibration.Budget:
            return calibration.budget(mu, noise, **sizes, dtype=dtype, find_scale=find_scale)

        budget = asked.configure(calibrated, level, epsilon, delta)
        self._config = private_evaluations.Config(None, budget, jnp.asarray(low, dtype), jnp.asarray(high, dtype))
        if design is None:
            self.deviation = self._deviation()
        if recording is not None and key is not None:
            raise ValueError(
                "key must not be given with a recording: evaluations on record draw from the operating system"
            )
        statement = separation.rests_on(private_evaluations.privacy(self._config), self._loss)
        guarantee.expect_within(statement, epsilon, delta)
        self._key, self.guarantee = keys.for_release(key, statement, insecure_key)
        self._recording = None if recording is None else charges.located(recording)
        self._noted, self._process = 0, os.getpid()
        self._lock, self._reserved, self._charged, self._spent = threading.Lock(), 0, 0, []
        self._reference, self._seeking, self._high = None, False, None
        self._refusal: ledger.LedgerError | None = None
        if self._recording is not None:
            run_lock.hold(self._recording, self)
            what = f"private evaluations, {self._evaluations} of one point"
            design_text = () if design is None else (json.dumps([_written(point) for point in design]),)
            public = "PrivateObjective", self._config, *design_text
            charged = charges.charge(self._recording, what, self.guarantee, *public)
            self._recall(charged.steps)
        if design is not None:
            self._find_range(design)
            self.deviation = self._deviation()

    def _deviation(self) -> float:
        config = self._config
        return private_mean.loss_deviation(config.budget, float(config.low), float(config.high))

    @_silence.debug_checks_off()
    def __call__(self, point: Any) -> float:
        """One evaluation.

        Raises:
          BudgetExhausted: none is left.
          RuntimeError: another process than the one that made this object.
          TypeError: ``point`` does not fit on record: numbers, text, arrays, lists and dicts of them do.
          ObjectiveError: the losses do not have the shape ``(n,)``; nothing is charged.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                "a PrivateObjective works in the process that made it: a fork would draw its noise twice"
            )
        place = None if self._recording is None else _written(point)
        kept = jax.tree.map(_copied, point)
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if self._reserved == self._evaluations:
                raise BudgetExhausted(f"all {self._evaluations} evaluations are spent")
            self._reserved += 1
        try:
            returned = self._call(point)
        except BaseException:
            self._charge()
            raise
        try:
            given = self._checked(returned)[None]
        except result.ObjectiveError:
            with self._lock:
                self._reserved -= 1
            raise
        except BaseException:
            self._charge()
            raise
        number = self._charge()
        if self._reference is not None:
            given = given - self._reference[None]
        key, config = jax.random.fold_in(self._key, number), self._config
        value = float(_private_means(key, config.budget, given, config.low, config.high)[0][0])
        with self._lock:
            self._note({"point": place, "value": value})
            self._spent.append(Spent(kept, value))
        return value

    def _charge(self) -> int:
        """Charge one evaluation that was reserved; its number, by which its noise is drawn."""
        with self._lock:
            try:
                self._note({"charged": self._charged + 1})
            except BaseException as error:
                self._reserved -= 1
                self._refusal = error if isinstance(error, ledger.LedgerError) else None  # the loss is not called again
                raise
            number, self._charged = self._charged, self._charged + 1
        return number

    def _call(self, point: Any) -> Any:
        return _silence.call(self._loss, point, self._data)

    def _checked(self, returned: Any) -> jax.Array:
        """Losses ``(n,)``; ObjectiveError where they have another shape."""
        try:
            losses = _user_values.to_losses("loss", returned, (self._users,), self._config.low.dtype)
        except ValueError as error:
            raise result.ObjectiveError(str(error)) from None
        return jnp.asarray(losses)

    def _find_range(self, design: Sequence[Any]) -> None:
        """Once a run: another process of it reads what was found."""
        if self._high is None and self._seeking:
            raise ledger.LedgerError(
                "the budget for the range is spent, and no range is on record: a crash lost it, or another process is "
                "about to find it; a run of another name begins anew"
            )
        points = design if self._high is None else design[:1]
        losses = jnp.stack([self._checked(self._call(point)) for point in points])
        self._reference = losses[0]
        scale = self._config.budget.scale
        if self._high is None and scale is not None:
            self._note({"seeking": True})
            numbers = private_scale.largest_differences(losses[1:], losses[0])
            key = jax.random.fold_in(self._key, self._evaluations)  # evaluations have the numbers below
            self._high = float(private_scale.FACTOR * private_scale.median(key, scale, numbers))
            self._note({"high": self._high})
        high = jnp.asarray(self._high, self._config.high.dtype)
        self._config = replace(self._config, low=-high, high=high)

    def _note(self, line: dict[str, Any]) -> None:
        """On the disk before anything is done or said; public, as all that is returned."""
        if self._recording is not None:
            ledger.note(*self._recording, self._noted + 1, line)
            self._noted += 1

    def _recall(self, steps: tuple[dict[str, Any], ...]) -> None:
        """What other processes noted."""
        self._noted = len(steps)
        for line in steps:
            if "charged" in line:
                self._reserved = self._charged = line["charged"]
            elif "seeking" in line:
                self._seeking = True
            elif "high" in line:
                self._high = line["high"]
            else:
                self._spent.append(Spent(_read(line["point"]), line["value"]))

    @property
    def loss_range(self) -> tuple[float, float]:
        """That losses are clipped to, or differences from those at the design's first point: public, found or given."""
        return float(self._config.low), float(self._config.high)

    @property
    def remaining(self) -> int:
        """Evaluations left."""
        with self._lock:
            return self._evaluations - self._reserved

    @property
    def spent(self) -> tuple[Spent, ...]:
        """All that was returned so far, in the order in which it was: public."""
        with self._lock:
            return tuple(self._spent)

    def __repr__(self) -> str:
        """Counts, no data."""
        return f"PrivateObjective({self.guarantee.claim}; {self.remaining} of {self._evaluations} evaluations left)"

    def __reduce__(self) -> Any:
        """Refuse."""
        raise TypeError("a PrivateObjective cannot be pickled: two copies would spend one budget twice")


def _written(point: Any) -> Any:
    """A point for JSON; refused before anything is charged."""
    try:
        plain = jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), point)
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError):
        plain = point
    else:
        return plain
    raise TypeError(f"point must be finite numbers, text, and lists or dicts of them on record, got {plain!r}")


def _read(point: Any) -> Any:
    """What ``_written`` made: a list of numbers is an array again, everything else is plain."""
    try:
        return np.asarray(point, np.float64) if isinstance(point, list) else point
    except (TypeError, ValueError):  # text, or rows of different lengths
        return point


def _copied(leaf: Any) -> Any:
    """An optimiser may write its next point into the array of this one."""
    return np.array(leaf) if isinstance(leaf, np.ndarray) else leaf


_private_means = jax.jit(private_mean.of_losses)
