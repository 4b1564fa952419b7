"""Private evaluations for any optimiser: a scalar function that noises a per-user loss and counts its budget.

Unlike the other drivers ``PrivateObjective`` has state, since your optimiser decides when to spend the budget.
"""

import contextlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import arrays, checks, logs, notes, silence
from jaxdpbo.algorithms import private_evaluations
from jaxdpbo.algorithms.private_evaluations import one_point
from jaxdpbo.drivers import compiled_steps, recorded_run, result, separability, sharding
from jaxdpbo.drivers.execution import AUTO, check_execution, refuse_options
from jaxdpbo.drivers.release_notes import point_notes, value_notes
from jaxdpbo.drivers.users import Users, make_users
from jaxdpbo.guarantee import budget_calibration, release_key
from jaxdpbo.guarantee import recording as recordings
from jaxdpbo.ledger import ledger_file as ledgers
from jaxdpbo.noise import calibration, keys, private_scale
from jaxdpbo.tables import table
from jaxdpbo.types import ArrayLike, Data, DTypeLike, Query, State, Tree

_ALGORITHM = private_evaluations.make_algorithm(one_point.one_point)


class BudgetExhausted(RuntimeError):
    """Raised after the last evaluation of the budget."""


class Evaluation(NamedTuple):
    """A released, public evaluation: the point and the noised mean loss."""

    point: Any
    value: float


class _Record(NamedTuple):
    """The state of a run by the lines of its ledger. One assignment replaces it, so an interrupt never splits it."""

    lines: int = 0
    charged: int = 0
    range_charged: bool = False
    high: float | None = None
    spent: tuple[Evaluation, ...] = ()

    def read(self, line: dict[str, Any], point: object = None) -> "_Record":
        """The state after the next line; ``point`` replaces the point of an evaluation.

        Raises:
          ledger.DamagedLedgerError: the charges are not numbered in order, or the line is of another kind.
        """
        after = self._replace(lines=self.lines + 1)
        if ledgers.has_fields(line, {"charged": int}):
            if line["charged"] != self.charged + 1:
                raise ledgers.DamagedLedgerError(f"charges must be numbered in order, got {line['charged']!r}")
            return after._replace(charged=self.charged + 1)
        if ledgers.has_fields(line, {"seeking": bool}) and line["seeking"]:
            return after._replace(range_charged=True)
        if ledgers.has_fields(line, {"high": float}) and private_scale.is_scale(line["high"]):
            return after._replace(high=line["high"])
        if line.keys() != {"point", "value"} or type(line["value"]) is not float:
            raise ledgers.DamagedLedgerError(
                f"a line of private evaluations must be a charge, a range or a value, got {sorted(line)}"
            )
        evaluation = Evaluation(_from_json(line["point"]) if point is None else point, line["value"])
        return after._replace(spent=(*self.spent, evaluation))


class PrivateObjective:
    """A function ``objective(point) -> float``, the noised mean loss, that you can give to any optimiser.

    Formal guarantee: ``(epsilon, delta)``-DP with the GDP level as ``also`` if you give ``epsilon``; with ``mu``, or a
    ledger that adds up GDP levels, ``mu``-GDP; replace-one, for all returned values together. The budget is split
    equally among ``evaluations`` calls in advance. A call is charged before its noise is drawn, and also if the loss
    raises or returns a wrong shape. A scan that fails before it reads a row of a table costs nothing. Prints, warnings
    and logs of the loss are silenced. An exception of the loss reaches you unchanged, and may quote records. Threads
    may share one object. Processes may not: a copy would draw the same noise, so the object cannot be pickled, and does
    not work after a fork. To share the budget among processes, let each process make an object with the same
    ``Recording``: the ledger counts the evaluations of all of them.

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
      deviation: the standard deviation of the noise of a value.
      guarantee: the guarantee of all evaluations together.
    """

    @silence.numeric_checks_off()
    def __init__(
        self,
        loss: Callable[[Any, Any], Any],
        data: Data,
        *,
        evaluations: int,
        loss_range: ArrayLike | str,
        design: Sequence[Any] | None = None,
        users: int,
        user_axes: Tree = None,
        mu: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        noise: str = "exact",
        ledger: recordings.Recording | None = None,
        key: jax.Array | None = None,
        insecure_key: bool = False,
        progress: bool | str = AUTO,
    ):
        """Check the arguments and split the budget.

        Args:
          loss: ``(point, data) -> losses (n,)``; entry ``i`` must depend on user ``i``'s record alone.
          data: passed to ``loss`` untouched; with ``user_axes``, arrays as for ``run_scan``. Or a ``tables.Table``:
            each call scans the table once, and the loss returns a loss for each row of a batch of columns.
          evaluations: the number of calls.
          loss_range: ``(low, high)``, chosen without the users' data. Losses are clipped to this range, and a loss
            that is not finite counts as ``high``, so no value reveals one. "private" finds the range from ``design``
            when the object is made, for 5 % of ``mu^2``; values are then mean differences from the loss at
            ``design[0]``.
          design: two public points or more, at which the loss is called; only with ``loss_range="private"``.
          users: the public number of users ``n``.
          user_axes: as for ``run_scan``, for a loss that JAX can trace at every point.
          mu: the GDP budget of all evaluations together; or give ``epsilon`` and ``delta``.
          epsilon: with ``delta``, in place of ``mu``: the budget of all evaluations together.
          delta: in (0, 1), and below ``1 / users`` unless you pass a ``LargeDelta``; has no default.
          noise: see ``config``.
          ledger: ``Recording(path, run)``: charge all evaluations to a ledger (``ledger``). To resume after a
            crash, or to work in several processes at once, make the object again with the same ``Recording``: earlier
            values are in ``spent``, and earlier charges count. Give no ``key``. After the first evaluation another loss
            is refused. Data of other names or shapes are always refused.
          key: see ``minimize``.
          insecure_key: see ``minimize``.
          progress: see ``minimize``; on a table alone.

        Raises:
          ledger.LedgerError: the budget does not suffice, or the ledger holds another run of this name.
          ValueError: a number is out of range, a budget is given twice or not at all, ``key`` is given with a ledger,
            or the data lie on several processes.
          TypeError: ``key`` is not a typed key, or its generator has no security claim.
        """
        run = check_execution(key=key, insecure_key=insecure_key, traceable=False, progress=progress)
        if not isinstance(data, table.Table):
            refuse_options("PrivateObjective", run, "progress", on="arrays")
        if key is None:
            keys.refuse_trace("the key of the evaluations")
        sharding.expect_one_process("PrivateObjective", data)
        checks.takes_two("loss", loss, "point", "data")
        prepared = separability.prepare_objective(loss, data, user_axes)
        loss, data, data_notes = prepared
        self._in_table = isinstance(data, table.Table)
        self._loss, self._data = loss, table.batch_shapes(data).columns if isinstance(data, table.Table) else data
        self._count, self._evaluations = checks.size("users", users), checks.size("evaluations", evaluations)
        low, high = private_evaluations.check_loss_range(loss_range)
        self._design = _check_design(design, isinstance(loss_range, str))
        dtype = jnp.result_type(float)
        protected = prepared.count_protected(self._count)
        budget = budget_calibration.check_budget(mu, epsilon, delta, users=protected, dtype=dtype)
        sizes = {"users": self._count, "steps": self._evaluations, "dimension": 1}
        inner, rows = _rows(len(self._design), self._evaluations, dtype)
        ends = arrays.to_device(low, dtype), arrays.to_device(high, dtype)

        def make_config(mu: float) -> private_evaluations.Config:
            drawn = calibration.sum_noise(mu, noise, **sizes, dtype=dtype, find_scale=bool(self._design))
            return private_evaluations.Config(inner, drawn, *ends, rows)

        as_gdp = ledger is not None and recordings.notion(ledger) == "gdp"
        self._config, guarantee = budget_calibration.calibrate(
            make_config, private_evaluations.privacy, budget, as_gdp=as_gdp
        )
        if not self._design:
            self.deviation = private_evaluations.deviation(self._config)
        if ledger is not None and key is not None:
            raise ValueError("key must not be given with a ledger: the operating system then draws the key")
        self._users = make_users(_ALGORITHM, loss, data, self._config, run)
        guarantee = separability.update_assumptions(guarantee, loss).assuming(*self._users.assumptions)
        key, self.guarantee = release_key.for_release(key, guarantee, run.insecure_key)
        init_key, self._key, _ = compiled_steps.run_keys(key)
        self._idle_key = jax.random.key(0)  # for functions that draw nothing here: the points are the caller's
        self._before = self._users.begin(init_key)
        self._process, self._lock, self._in_flight, self._record = os.getpid(), threading.Lock(), 0, _Record()
        self._refusal: Exception | None = None
        self._journal: recorded_run.Journal | None = None
        self._told: notes.Notes = data_notes + table.notes(data)  # from now on what follows from the ledger, too
        if self._design:
            separability.expect_separable(loss, lambda: self._design[0], self._data)
        if ledger is not None:
            self._pay(ledger, recorded_run.make_subject(loss, data, self._count))
        if self._design:
            self._find_range()
            self.deviation = private_evaluations.deviation(self._config, self._record.high)

    @silence.numeric_checks_off()
    def __call__(self, point: Any) -> float:
        """Evaluate the loss at a point and return its noised mean.

        Raises:
          BudgetExhausted: no evaluation is left.
          RuntimeError: another process made the object.
          TypeError: ``point`` cannot be recorded. Give numbers, text, arrays, or lists and dicts of them.
          NotSeparable: of a loss with ``user_axes`` that mixes users. It is traced first: nothing is charged.
          ObjectiveError: the losses do not have the shape ``(n,)``, which records may decide; the call is charged.
          tables.UnreadError: the table failed before a row was read; nothing is charged.
        """
        if os.getpid() != self._process:
            raise RuntimeError("call a PrivateObjective in the process that made it: a fork would draw its noise twice")
        place = None if self._journal is None else _to_json(point)
        separability.expect_separable(self._loss, lambda: point, self._data)
        kept = jax.tree.map(_copy_array, point)
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if self._record.charged + self._in_flight >= self._evaluations:
                raise self._exhausted()
            self._in_flight += 1
            started = self._record.charged
        users = self._users.at((*self._design, point))
        evaluated = self._attempt(users, len(self._design) + started)
        number = self._charge()  # outside of any handler: what it raises must not quote what the loss raised
        if isinstance(evaluated, BaseException):
            raise evaluated
        step = len(self._design) + number
        value = float(np.asarray(self._learn(users, step, evaluated).values)[step])
        with self._lock:
            self._note(lambda: {"point": place, "value": value}, kept)
        logs.released(f"evaluation {number + 1} of {self._evaluations}")
        return value

    def _attempt(self, users: Users, number: int) -> Any:
        """The losses at a point, or what the loss raised, to be charged before it is raised again.

        Raises:
          UnreadError: no row of a table was read. Nothing that a loss raises is free.
        """
        unread = None
        try:
            return self._evaluate(users, *self._step(number))
        except BaseException as error:
            if not (self._in_table and isinstance(error, table.UnreadError)):
                return error
            unread = error
        with self._lock:
            self._in_flight -= 1
        raise unread.with_traceback(None)

    def _evaluate(self, users: Users, before: result.Snapshot, query: Query) -> Any:
        """What ``users`` evaluate. Raise a ShapeError that does not say which shape came: records may decide it."""
        with contextlib.suppress(result.ShapeError):
            return users.evaluate(self._idle_key, before, query)
        raise result.ShapeError(f"loss must return one loss per user, not their mean: values of shape ({self._count},)")

    def _step(self, number: int) -> tuple[result.Snapshot, Query]:
        """The snapshot before a step of ``_ALGORITHM``, on the design or after it, and its query."""
        public = self._before.state.public
        state = State(public._replace(step=np.asarray(number, public.step.dtype)))
        before = self._before._replace(state=state)
        return before, compiled_steps.ask(_ALGORITHM, self._idle_key, self._config, state)

    def _learn(self, users: Users, number: int, evaluated: Any) -> Any:
        """The public state after a step: the only place that draws noise."""
        before, query = self._step(number)
        after, _ = users.learn(compiled_steps.evaluation_key(self._key, number), before, query, evaluated)
        return after.state.public

    def _charge(self) -> int:
        """Charge an evaluation in flight and return its number, the index of its noise.

        Raises:
          BudgetExhausted: other processes took the last evaluations meanwhile.
        """
        with self._lock:
            self._in_flight -= 1
            try:
                self._note(self._next_charge)
            except Exception as error:
                self._refusal = error  # the loss is not called again
                raise
            number = self._record.charged
        logs.evaluation_charged(number, self._evaluations)
        return number - 1

    def _next_charge(self) -> dict[str, Any]:
        if self._record.charged >= self._evaluations:
            raise self._exhausted()
        return {"charged": self._record.charged + 1}

    def _exhausted(self) -> BudgetExhausted:
        return BudgetExhausted(f"all {self._evaluations} evaluations are spent")

    def _find_range(self) -> None:
        """Find the range of losses, once per run; later calls read the range from the record.

        What users remember of the first point of the design is evaluated again by every object.
        """
        if self._record.high is None:
            self._expect_range_budget()
        users, last = self._users.at(self._design), len(self._design) - 1
        for number in range(last if self._record.high is None else 1):
            before, query = self._step(number)
            evaluated = self._evaluate(users, before, query)
            self._before = before._replace(memory=users.recall(before, query, evaluated))
        if self._record.high is None:
            evaluated = self._evaluate(users, *self._step(last))
            self.refresh()  # another process may have found the range meanwhile
            if self._record.high is None:
                self._note(self._expect_range_budget)
                high = float(self._learn(users, last, evaluated).high)
                self._note(lambda: {"high": high})
        assert self._record.high is not None
        public = self._before.state.public
        found = arrays.to_device(self._record.high, public.high.dtype)
        self._before = self._before._replace(state=State(public._replace(high=found)))

    def _expect_range_budget(self) -> dict[str, Any]:
        if self._record.range_charged:
            raise ledgers.LedgerError(
                "the budget for the range is spent, and no range is on record: a crash lost it, or another worker is "
                "about to find it; after a crash give ledger= another run name and a budget of its own"
            )
        return {"seeking": True}

    def _pay(self, recording: recordings.Recording, subject: recorded_run.Subject) -> None:
        """Charge the run, or read its lines if it was charged before: the only place that pays."""
        what = f"private evaluations, {self._evaluations} of one point"
        public = "PrivateObjective", self._config, json.dumps([_to_json(point) for point in self._design])
        self._journal, charged = recorded_run.begin_journal(recording, what, self.guarantee, *public, subject=subject)
        self._read(charged)
        count = self._record.charged
        origin = notes.resumed(charged.run, charged.who, charged.when, count, "evaluation")
        self._told = notes.show(subject.add_limits(origin) + self._told)

    def _note(self, line: Callable[[], dict[str, Any]], point: Any = None) -> None:
        """Write a public line to the ledger, before the caller acts on it; raise what ``line()`` raises.

        The ledger takes a line only from a process that has read all earlier lines, so two processes never write the
        same number. After a refusal, read the lines of the others and ask ``line`` again.
        """
        written = line()
        while not self._is_taken(written):
            written = line()
        self._record = self._record.read(written, point)

    def _is_taken(self, line: dict[str, Any]) -> bool:
        """Offer a line to the ledger; False if there were lines of others, which are now read."""
        if self._journal is None:
            return True
        try:
            self._journal.write(line, after=self._record.lines)
        except ledgers.MovedLedgerError:
            if not self._read(self._journal.read()):
                raise
            return False
        return True

    def _read(self, charged: ledgers.Charge) -> int:
        """Update the state by new lines of other objects, and return their number."""
        lines, record = charged.steps[self._record.lines :], self._record
        for line in lines:
            record = record.read(line)
        self._record = record
        return len(lines)

    def refresh(self) -> None:
        """Read the evaluations of other processes from the ledger, for ``spent`` and ``remaining``."""
        if self._journal is not None:
            with self._lock:
                self._read(self._journal.read())

    @property
    def notes(self) -> notes.Notes:
        """Which columns of a table lose digits; how many evaluations come from the ledger, and who charged them; if the
        loss could not be compared; and once all evaluations are spent, if their values are no different from noise. See
        ``jaxdpbo.notes``.
        """
        if self.remaining or self._in_flight:
            return self._told
        values = [each.value for each in self._record.spent]
        points = [repr(jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), each.point)) for each in self._record.spent]
        return self._told + point_notes(points) + value_notes(values, self.deviation)

    @property
    def charge(self) -> str | None:
        """The hash of the charge's line in the ledger, which no other run has; None without a ledger."""
        return None if self._journal is None else self._journal.charge

    @property
    def loss_range(self) -> tuple[float, float]:
        """The public clipping range of losses, or of their differences from the losses at ``design[0]``."""
        high = self._record.high
        return (float(self._config.low), float(self._config.high)) if high is None else (-high, high)

    @property
    def remaining(self) -> int:
        """The number of evaluations left, as far as this process has read its ledger."""
        return max(0, self._evaluations - self._record.charged - self._in_flight)

    @property
    def spent(self) -> tuple[Evaluation, ...]:
        """All evaluations returned so far, in order. They are public."""
        return self._record.spent

    def __repr__(self) -> str:
        """Show the guarantee, the counts and the notes, but no data."""
        counts = f"{self.remaining} of {self._evaluations} evaluations left"
        return "; ".join([f"PrivateObjective({self.guarantee.claim}", counts, *notes.lines(self.notes)]) + ")"

    def __reduce__(self) -> Any:
        """Refuse to pickle."""
        raise TypeError("a PrivateObjective cannot be pickled, since two copies would spend one budget twice")


def _to_json(point: Any) -> Any:
    """Convert a point to JSON types. Raise a TypeError if JSON has no such type, before anything is charged."""
    try:
        plain = jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), point)
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError):
        plain = point
    else:
        return plain
    raise TypeError(f"point must be finite numbers, text, and lists or dicts of them on record, got {plain!r}")


def _from_json(point: Any) -> Any:
    """Invert ``_to_json``: a list of numbers becomes an array, everything else stays plain."""
    try:
        return np.asarray(point, np.float64) if isinstance(point, list) else point
    except (TypeError, ValueError, OverflowError):  # a list of text, of rows of different lengths, of huge integers
        return point


def _copy_array(leaf: Any) -> Any:
    """Copy an array: an optimiser may write its next point into the same array."""
    return np.array(leaf) if isinstance(leaf, np.ndarray) else leaf


def _check_design(design: Sequence[Any] | None, find_scale: bool) -> tuple[Any, ...]:
    if find_scale == (design is None) or (design is not None and len(design) < 2):
        raise ValueError("design must be two points or more with loss_range='private', and not given otherwise")
    return () if design is None else tuple(design)


def _rows(design: int, evaluations: int, dtype: DTypeLike) -> tuple[one_point.PointConfig, jax.Array | None]:
    """The search of a caller who names points: row numbers, first of the design, then always the row after it."""
    rows = jnp.arange(design + 1, dtype=dtype)[:, None]
    inner = one_point.PointConfig(rows[-1], jnp.stack([rows[0], rows[-1]]), evaluations)
    return inner, rows[:-1] if design else None
