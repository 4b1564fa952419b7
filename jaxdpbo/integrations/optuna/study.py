"""Noise the values of a study before Optuna sees any. The guarantee does not cover a failed trial, which Optuna stores.

You write two functions in place of Optuna's objective. ``suggest`` gets the trial but no data, since Optuna stores
suggestions as they are. ``losses`` get the parameters and the data, but no trial to report or attach records to.
"""

import contextlib
import json
import secrets
import threading
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from optuna import TrialPruned
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from jaxdpbo import checks, silence, terminal
from jaxdpbo import notes as _notes
from jaxdpbo import report as reports
from jaxdpbo.drivers import ObjectiveError, recorded_run
from jaxdpbo.drivers.execution import AUTO
from jaxdpbo.drivers.private_objective import BudgetExhausted, PrivateObjective
from jaxdpbo.drivers.release_notes import best_notes, point_notes
from jaxdpbo.guarantee.guarantees import Guarantee
from jaxdpbo.guarantee.recording import Recording
from jaxdpbo.integrations.optuna import coordinates, rehearsal, spaces
from jaxdpbo.integrations.optuna.samplers import DEVIATION, noise_deviation, observation_posterior
from jaxdpbo.space import Space, is_named
from jaxdpbo.types import ArrayLike, Data

RUN = "jaxdpbo:run"  # attribute of a trial: the run that its value is of
GUARANTEE = "jaxdpbo:guarantee of "  # and a run, attribute of a study: the guarantee of all values of the run together
RAW = "study must hold noised values alone, but some of its trials were evaluated without noise: create a new study"
Suggest = Callable[[Trial], dict[str, Any]]
Losses = Callable[[dict[str, Any], Any], Any]


class ObjectiveFailed(RuntimeError):
    """Raised if the losses raised. The message names only the type of the error, since Optuna logs messages."""


class Best(NamedTuple):
    """The best setting by the posterior mean of all values: post-processing.

    Attributes:
      params: the parameters of the trial; of a ``Space``, with your objects, which it prints by their labels.
      value: the posterior mean of its loss. The least noised value would be too low on average.
      deviation: the standard deviation of the posterior.
      number: the number of the trial.
      notes: that half of the other settings could be as good, see ``jaxdpbo.notes``.
    """

    params: dict[str, Any]
    value: float
    deviation: float
    number: int
    notes: _notes.Notes = ()


class Observations(NamedTuple):
    """The complete trials of a private study. You may publish all of these.

    Attributes:
      params: the parameters of each trial, as they were evaluated.
      values: ``(m,)``, the noised mean losses.
      variances: ``(m,)``, the variances of the noise.
    """

    params: list[dict[str, Any]]
    values: np.ndarray
    variances: np.ndarray


class PrivateStudy:
    """An objective for ``study.optimize`` that counts its budget; ``private_study`` makes it.

    Attributes:
      study: the Optuna study.
      guarantee: the guarantee of all values together.
      deviation: the standard deviation of the noise of a value.
      run: the name of the run in the study; the study's attributes state the guarantee of each run once.
    """

    def __init__(
        self, study: Study, suggest: Suggest, losses: Losses, data: Data, options: dict[str, Any], space: Space | None
    ):
        """See ``private_study``."""
        self.study, self._suggest, self._space = study, suggest, space
        self._evaluations, self._running = options["evaluations"], set[int]()
        self._lock = threading.Lock()
        self._private = PrivateObjective(_TrialLosses(losses), data, **options)
        self.guarantee: Guarantee = self._private.guarantee
        self.deviation: float = self._private.deviation
        charge, recording = self._private.charge, options["ledger"]
        # With the charge: two ledgers may hold runs of one name.
        self.run: str = secrets.token_hex(8) if charge is None else f"{recording.run} {charge[:16]}"

    @property
    def notes(self) -> _notes.Notes:
        """See ``PrivateObjective``; and once all evaluations are spent, if all their settings are equal."""
        if self.remaining:
            return self._private.notes
        params = [json.dumps(each.point["params"], default=_to_plain) for each in self._private.spent]
        return self._private.notes + point_notes(params)

    @property
    def remaining(self) -> int:
        """The number of evaluations left."""
        return self._private.remaining

    def __call__(self, trial: Trial) -> float:
        """Return the noised mean loss of a trial; a trial evaluated before returns the same value again.

        Raises:
          optuna.TrialPruned: no evaluation is left, and the study stops.
          ObjectiveFailed: the losses raised, or have another shape than ``(n,)``. The evaluation stays charged, and
            Optuna stores the failure: return NaN for a user if the record cannot be evaluated.
          TypeError: ``suggest`` returned another type than a dict.
          ValueError: the trial belongs to another study.
          RuntimeError: another thread is evaluating the trial.
          Exception: any exception of ``suggest``, before anything is charged, such as ``optuna.TrialPruned``.
        """
        if trial.study.study_name != self.study.study_name:
            raise ValueError(f"trial must be of the study {self.study.study_name!r}, got {trial.study.study_name!r}")
        params = self._suggest(trial)
        if not isinstance(params, Mapping):
            raise TypeError(f"suggest must return a dict of parameters, got {type(params).__name__}")
        place = {"study": self.study.study_name, "trial": trial.number, "params": dict(params)}
        if trial.user_attrs.get(RUN) != self.run:  # new, or a retry, to which Optuna copies what the other trial stated
            self._state(trial)
        with self._lock:
            if trial.number in self._running:
                raise RuntimeError(f"trial {trial.number} is being evaluated")
            values = [spent.value for spent in self._private.spent if _is_same(spent.point, place)]
            if values:
                return values[0]
            self._running.add(trial.number)
        try:
            value = self._evaluate(place)
        except BudgetExhausted:
            self._stop()
            raise TrialPruned("the privacy budget is spent") from None
        finally:
            with self._lock:
                self._running.remove(trial.number)
        if not self.remaining:
            self._stop()
        return value

    def _state(self, trial: Trial) -> None:
        """Say in the storage what the trial's value will be: its run last, so that a kill leaves no half."""
        if GUARANTEE + self.run not in trial.study.user_attrs:
            trial.study.set_user_attr(GUARANTEE + self.run, str(self.guarantee))
        trial.set_user_attr(DEVIATION, self.deviation)
        trial.set_user_attr(RUN, self.run)

    def _evaluate(self, place: dict[str, Any]) -> float:
        """The noised mean loss. Errors do not quote the shape of losses, which may depend on records."""
        with contextlib.suppress(ObjectiveError):
            return self._private(place)
        raise ObjectiveFailed(f"losses of trial {place['trial']} must have the shape (n,), one for each user")

    def optimize(self, n_trials: int | None = None, *, n_jobs: int = 1, **options: Any) -> None:
        """Call ``study.optimize`` until no evaluation is left, or for ``n_trials``; the options are Optuna's, less
        ``timeout``: how long losses take may depend on records, and how many values there are would reveal it.

        A trial that ``suggest`` prunes has read no record and costs nothing, so another trial takes its evaluation. The
        study stops once ``suggest`` has pruned as many trials in a row as there are evaluations in all.

        On a terminal ``show_progress_bar`` is True by default. ``n_jobs`` threads share the evaluations. For processes,
        give each of them the same storage and the same ``ledger`` of ``private_study``.

        Raises:
          ValueError: ``timeout`` is given.
        """
        if options.pop("timeout", None) is not None:
            raise ValueError("timeout must be None, since how long losses take may depend on records: give n_trials")
        options.setdefault("show_progress_bar", terminal.is_there())
        ended = list[int]()  # numbers of trials, by any thread
        callbacks = [*(options.pop("callbacks", None) or ()), lambda study, trial: ended.append(trial.number)]
        left = self.remaining if n_trials is None else min(n_trials, self.remaining)
        with warnings.catch_warnings():
            if n_jobs != 1:  # threads share the filters: restoring them in a thread would show another's warnings
                warnings.simplefilter("ignore")
            pruned = 0  # in a row
            while left and pruned < self._evaluations:
                before, most = self.remaining, len(ended) + left
                self.study.optimize(self, n_trials=left, n_jobs=n_jobs, callbacks=callbacks, **options)
                pruned = pruned + left if self.remaining == before else 0
                over = n_trials is not None or len(ended) < most  # a callback stopped it
                left = 0 if over else self.remaining
        _notes.show(self.notes)

    def report(self, path: str | Path | None = None) -> reports.Report:
        """Make the record of the run's noised values, to sign; with a ``path`` that ends in ".html", write the page.

        The guarantee covers this run alone. The best setting is in the record if all values of the study are of this
        run. Otherwise sign the record of the ledger, ``report.ledger_report``.
        """
        self._private.refresh()
        spent = self._private.spent
        trials = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        details = {"study": self.study.study_name, "evaluations left": self.remaining, "deviation": self.deviation}
        said = self.notes
        others = {trial.value for trial in trials} - {evaluation.value for evaluation in spent}
        if others:
            details["NOT COVERED by this guarantee"] = (
                f"{len(others)} other values in the study, of other runs or without noise: sign their records too"
            )
        else:
            with contextlib.suppress(ValueError):  # no trial
                best = self.best()
                details |= {"best setting": best.params, "its posterior mean": best.value}
                said += best.notes
        release = [(json.dumps(evaluation.point, default=_to_plain), evaluation.value) for evaluation in spent]
        record = reports.report(
            "the values of a private study", (self.guarantee,), release=release, details=details, notes=said
        )
        return record if path is None else record.save(path)

    def _repr_html_(self) -> str:
        """The record, for notebooks."""
        return self.report()._repr_html_()

    def best(self) -> Best:
        """The trial with the least posterior mean, under a Gaussian process with known noise.

        The process sees every parameter of every trial. A parameter that a trial lacks, or has in another range, is in
        the middle there, and trials with other parameters are as far apart as other categories.

        Raises:
          ValueError: no trial is complete, or some were evaluated without noise.
        """
        trials = _noised_trials(self.study)
        values = np.array([trial.value for trial in trials], float)
        mean, width = observation_posterior(_place(trials), -values, noise_deviation(trials, None))
        row = int(np.argmax(mean))
        said = best_notes(-mean, width, row)
        found = dict(trials[row].params)
        params = found if self._space is None else spaces.params(self._space, found)
        return Best(params, -float(mean[row]), float(width[row]), trials[row].number, said)

    def _stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # under study.ask and study.tell no loop can stop
            self.study.stop()

    def __repr__(self) -> str:
        """Show the guarantee and the counts, but no data."""
        return f"PrivateStudy({self.study.study_name!r}, {self._private!r})"


def _place(trials: list[FrozenTrial]) -> np.ndarray:
    """Points ``(m, c)``: a column for each parameter in each range, and for each set of parameters if these differ."""
    kinds = list(dict.fromkeys(tuple(sorted(trial.distributions)) for trial in trials))
    found = [pair for trial in trials for pair in trial.distributions.items()]
    columns = [pair for place, pair in enumerate(found) if pair not in found[:place]]  # Optuna's have no hash
    points = np.full((len(trials), len(columns) + len(kinds)), 0.5)
    for row, trial in enumerate(trials):
        placed = spaces.evaluated(trial)
        for column, (name, distribution) in enumerate(columns):
            if trial.distributions.get(name) == distribution:
                points[row, column] = coordinates.encode(distribution, placed.get(name, trial.params[name]))
        apart = np.arange(len(kinds)) == kinds.index(tuple(sorted(trial.distributions)))
        points[row, len(columns) :] = apart / np.sqrt(2)
    return points if len(kinds) > 1 or not columns else points[:, : len(columns)]


class _TrialLosses(NamedTuple):
    """The losses of a trial, by its place in the ledger; workers of an engine load a copy."""

    losses: Losses

    def __call__(self, place: dict[str, Any], data: Any) -> Any:
        """The losses. The error does not quote their exception."""
        try:
            return silence.settle(self.losses(dict(place["params"]), data))
        except silence.STOPS:
            raise
        except BaseException as error:
            kind = type(error).__name__
        raise ObjectiveFailed(
            f"{kind} from the losses of trial {place['trial']}; its message is withheld, since it may quote a record"
        )

    def public_identity(self) -> dict[str, Any]:
        """See ``spaces.OfSpace.public_identity``."""
        return recorded_run.identify_loss(self.losses)


def observations(study: Study) -> Observations:
    """The complete trials of a private study, for any surrogate with a variance for each observation.

    Raises:
      ValueError: no trial is complete, or some were evaluated without noise.

    >>> import optuna
    >>> from jaxdpbo.integrations.optuna import observations
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> observations(optuna.create_study())
    Traceback (most recent call last):
    ValueError: no trial is complete
    """
    trials = _noised_trials(study)
    values = np.array([trial.value for trial in trials], float)
    deviations = np.array([trial.user_attrs[DEVIATION] for trial in trials], float)
    return Observations(list(map(spaces.evaluated, trials)), values, np.square(deviations))


def private_study(
    study: Study,
    suggest: Suggest | Space | dict[str, Any] | list[dict[str, Any]],
    losses: Losses,
    data: Data,
    *,
    users: int,
    evaluations: int,
    loss_range: ArrayLike,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    noise: str = "exact",
    ledger: Recording | None = None,
    key: jax.Array | None = None,
    insecure_key: bool = False,
    progress: bool | str = AUTO,
    rehearse: Data = None,
) -> PrivateStudy:
    """Evaluate the trials of a study privately: the study stores only noised means of users' losses.

    Formal guarantee: all values together are ``(epsilon, delta)``-DP or ``mu``-GDP, as for ``PrivateObjective``.
    Samplers, callbacks, dashboards and plots are post-processing, but for times: Optuna also stores when each trial
    began and ended, which no guarantee covers. Publish ``observations`` or the report, and give ``study.optimize`` no
    ``timeout``.

    >>> import numpy as np
    >>> import optuna
    >>> from jaxdpbo.integrations.optuna import private_study
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> private = private_study(
    ...     optuna.create_study(),
    ...     lambda trial: {"x": trial.suggest_float("x", 0, 1)},
    ...     lambda params, records: np.square(records - params["x"]),
    ...     np.linspace(0.2, 0.4, 5000),
    ...     users=5000,
    ...     evaluations=4,
    ...     loss_range=(0, 1),
    ...     mu=1.0,
    ... )
    >>> private.optimize()
    >>> len(private.study.trials), private.remaining, 0 <= private.best().params["x"] <= 1
    (4, 0, True)

    Args:
      study: a study with a single objective to minimise, and without values evaluated elsewhere.
      suggest: ``trial -> params``. Optuna stores suggestions as they are, so names, ranges and choices must be public.
        Or a ``Space``, in any spelling of ``minimize``: trials then hold the parameters of their branch and the labels
        of objects, and ``losses`` get the objects. Where a suggestion breaks a constraint, or is not feasible, the
        losses get the nearest parameters that may be used, as do ``best()`` and ``observations``.
      losses: ``(params, data) -> losses (n,)``; entry ``i`` must depend on user ``i``'s record alone.
      data: passed to ``losses`` untouched; or a ``tables.Table``, of which ``losses`` gets batches of columns.
      users: the public number of users ``n``.
      evaluations: the number of trials; they share the budget equally.
      loss_range: ``(low, high)``, chosen without the users' data. Losses are clipped to this range.
      mu: the GDP budget of all values together; or give ``epsilon`` and ``delta``.
      epsilon: with ``delta``, in place of ``mu``.
      delta: in (0, 1).
      noise: "exact", or "float" for research.
      ledger: ``Recording(path, run)``: charge a ledger. With the same ``Recording`` another process resumes the study.
      key: see ``minimize``.
      insecure_key: see ``minimize``.
      progress: see ``minimize``; on a table alone.
      rehearse: public records in the form of ``data``, such as invented ones. ``suggest`` and ``losses`` are tried on
        these before anything is charged, and errors are shown in full. For arrays and frames, replacing a record must
        not change the losses of others; a loss that passes may still mix users.

    Raises:
      ValueError: the study maximises, has several objectives or holds values without noise; a number is out of range;
        the losses of the rehearsal are not a vector of finite numbers, or depend on other records.
      TypeError: an argument has the wrong type.
      Exception: any exception of ``suggest`` or ``losses`` in the rehearsal.
    """
    if not isinstance(study, Study):
        raise TypeError(f"study must be an optuna.Study, got {type(study).__name__}")
    if study.directions != [StudyDirection.MINIMIZE]:
        raise ValueError("study must minimise one objective: create it with direction='minimize'")
    if any(map(_is_raw, study.get_trials(deepcopy=False))):
        raise ValueError(RAW)
    checks.takes_two("losses", losses, "dict of params", "data")
    space, suggested = None, cast(Suggest, suggest)
    if is_named(suggest):
        space = suggest if isinstance(suggest, Space) else Space(suggest)
        spaces.expect_different(space)
        suggested, losses = partial(spaces.suggest, space), spaces.OfSpace(space, losses)
    if rehearse is not None:
        rehearsal.rehearse(suggested, losses, rehearse)
    options = {
        "users": users,
        "evaluations": evaluations,
        "loss_range": loss_range,
        "mu": mu,
        "epsilon": epsilon,
        "delta": delta,
        "noise": noise,
        "ledger": ledger,
        "key": key,
        "insecure_key": insecure_key,
        "progress": progress,
    }
    return PrivateStudy(study, suggested, losses, data, options, space)


def _noised_trials(study: Study) -> list[FrozenTrial]:
    """The complete trials. Raise a ValueError if there are none, or if a value has no noise."""
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not trials:
        raise ValueError("no trial is complete")
    if any(map(_is_raw, trials)):
        raise ValueError(RAW)
    return trials


def _is_same(one: Any, other: Any) -> bool:
    """True if two points are equal. Arrays among the parameters may be lists in a ledger."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[name], other[name]) for name in one)
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))


def _to_plain(value: Any) -> Any:
    """NumPy's numbers and arrays as the ledger writes them; text of anything else."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)


def _is_raw(trial: FrozenTrial) -> bool:
    """True if a trial holds a value without noise."""
    return bool(trial.values or trial.intermediate_values) and DEVIATION not in trial.user_attrs
