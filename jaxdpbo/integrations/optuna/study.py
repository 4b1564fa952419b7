"""A study whose values are noised before Optuna sees them: what it stores, logs, shows and plots is private.

Two functions in place of Optuna's one: what is suggested, which is stored as it is, is said without the data; the
losses get the data and the parameters, and no trial to report, prune or attach anything by.
"""

import contextlib
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from optuna import TrialPruned
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from jaxdpbo import _silence
from jaxdpbo.drivers import Execution, ObjectiveError
from jaxdpbo.drivers.private_objective import BudgetExhausted, PrivateObjective
from jaxdpbo.integrations.optuna import coordinates
from jaxdpbo.integrations.optuna.samplers import DEVIATION, noise_deviation, posterior
from jaxdpbo.privacy.guarantee import Guarantee
from jaxdpbo.privacy.recording import Recording
from jaxdpbo.types import ArrayLike, Data

GUARANTEE = "jaxdpbo:guarantee"  # an attribute of a trial: of all values of its budget together
RAW = "study must hold no values but noised ones: some of its trials were evaluated without noise"
Suggest = Callable[[Trial], dict[str, Any]]
Losses = Callable[[dict[str, Any], Any], Any]


class ObjectiveFailed(RuntimeError):
    """The losses raised. The message has the kind of the error alone: Optuna logs what an error says."""


class Best(NamedTuple):
    """The best setting by the posterior mean of all values: post-processing.

    Attributes:
      params: of the trial.
      value: the posterior mean of its loss. The best of noised values themselves is lower than the truth.
      deviation: of the posterior.
      number: of the trial.
    """

    params: dict[str, Any]
    value: float
    deviation: float
    number: int


class Observations(NamedTuple):
    """Public.

    Attributes:
      params: of each trial.
      values: ``(m,)``, noised.
      variances: ``(m,)``, of that noise.
    """

    params: list[dict[str, Any]]
    values: np.ndarray
    variances: np.ndarray


class PrivateStudy:
    """Made by ``private_study``: a function of a trial for ``study.optimize``, that counts its budget.

    Attributes:
      study: Optuna's.
      guarantee: what all values together give.
      deviation: of the noise of one value.
    """

    def __init__(self, study: Study, suggest: Suggest, losses: Losses, data: Data, options: dict[str, Any]):
        """See ``private_study``."""
        self.study, self._suggest, self._losses = study, suggest, losses
        self._running: set[int] = set()
        self._lock = threading.Lock()
        self._private = PrivateObjective(self._user_losses, data, **options)
        self.guarantee: Guarantee = self._private.guarantee
        self.deviation: float = self._private.deviation

    @property
    def remaining(self) -> int:
        """Evaluations left."""
        return self._private.remaining

    def __call__(self, trial: Trial) -> float:
        """The noised mean loss of a trial; of one that has a value, that value again.

        Raises:
          optuna.TrialPruned: no evaluation is left; the study is told to stop.
          ObjectiveFailed: the losses raised. The evaluation stays charged, and the trial fails, which is stored: return
            NaN for a user whose record can not be evaluated.
            Losses of another shape than ``(n,)`` are not charged.
          TypeError: ``suggest`` returned no dict.
          ValueError: a trial of another study.
          Exception: whatever ``suggest`` raises, before anything is charged.
        """
        if trial.study.study_name != self.study.study_name:
            raise ValueError(f"trial must be of the study {self.study.study_name!r}, got {trial.study.study_name!r}")
        params = self._suggest(trial)
        if not isinstance(params, Mapping):
            raise TypeError(f"suggest must return a dict of parameters, got {type(params).__name__}")
        place = {"study": self.study.study_name, "trial": trial.number, "params": dict(params)}
        with self._lock:
            if trial.number in self._running:
                raise RuntimeError(f"trial {trial.number} is being evaluated")
            known = [each.value for each in self._private.spent if _is_same(each.point, place)]
            if known:
                return known[0]
            self._running.add(trial.number)
        try:
            trial.set_user_attr(DEVIATION, self.deviation)
            trial.set_user_attr(GUARANTEE, str(self.guarantee))
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

    def _evaluate(self, place: dict[str, Any]) -> float:
        """The noised mean loss; a shape that the losses have may be of the records, and is not quoted."""
        with contextlib.suppress(ObjectiveError):
            return self._private(place)
        raise ObjectiveFailed(f"losses of another shape than one a user from trial {place['trial']}")

    def optimize(self, n_trials: int | None = None, *, n_jobs: int = 1, **options: Any) -> None:
        """``study.optimize``, of as many trials as the budget has left, or fewer; it takes the same options."""
        left = self.remaining if n_trials is None else min(n_trials, self.remaining)
        with warnings.catch_warnings():
            if (
                n_jobs != 1
            ):  # filters are the process's: a thread that restores its own would let another's warnings out
                warnings.simplefilter("ignore")
            if left:
                self.study.optimize(self, n_trials=left, n_jobs=n_jobs, **options)

    def best(self) -> Best:
        """The trial of least posterior mean, under a Gaussian process that knows the noise.

        Raises:
          ValueError: no trial is complete, some were evaluated without noise, or trials share no parameter.
        """
        done = _noised_trials(self.study)
        shared = [
            (name, of)
            for name, of in done[0].distributions.items()
            if all(each.distributions.get(name) == of for each in done)
        ]
        if not shared:
            raise ValueError("trials must share a parameter: there is no one space to compare them in")
        points = np.array([[coordinates.encode(of, each.params[name]) for name, of in shared] for each in done])
        values = np.array([each.value for each in done], float)
        mean, width = posterior(points, -values, noise_deviation(done, None))
        row = int(np.argmax(mean))
        return Best(dict(done[row].params), -float(mean[row]), float(width[row]), done[row].number)

    def _user_losses(self, place: dict[str, Any], data: Any) -> Any:
        """The losses of a trial; what they raise is not quoted."""
        try:
            return _silence.settle(self._losses(dict(place["params"]), data))
        except _silence.STOPS:
            raise
        except BaseException as error:
            kind = type(error).__name__
        raise ObjectiveFailed(
            f"{kind} from the losses of trial {place['trial']}; what else there is to say may be of a record"
        )

    def _stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # asked and told by hand: there is no loop
            self.study.stop()

    def __repr__(self) -> str:
        """Counts, no data."""
        return f"PrivateStudy({self.study.study_name!r}, {self._private!r})"


def observations(study: Study) -> Observations:
    """The complete trials of a private study, for any surrogate that takes the variance of an observation.

    Raises:
      ValueError: no trial is complete, or some were evaluated without noise.

    >>> import optuna
    >>> from jaxdpbo.integrations.optuna import observations
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> observations(optuna.create_study())
    Traceback (most recent call last):
    ValueError: no trial is complete
    """
    done = _noised_trials(study)
    values = np.array([each.value for each in done], float)
    deviations = np.array([each.user_attrs[DEVIATION] for each in done], float)
    return Observations([dict(each.params) for each in done], values, np.square(deviations))


def private_study(
    study: Study,
    suggest: Suggest,
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
    run: Execution | None = None,
) -> PrivateStudy:
    """Evaluate the trials of a study privately: every value that it gets is a noised mean of users' losses.

    Formal guarantee: that of ``PrivateObjective``: ``mu``-GDP, replace-one, of all values together, whatever a sampler,
    a callback, a dashboard or a plot does with them.

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
      study: of one objective to be minimised, with no values that were not noised.
      suggest: ``trial -> params``. What it suggests is stored as it is: names, ranges and choices must be public.
      losses: ``(params, data) -> losses (n,)``; entry ``i`` must depend on user ``i``'s record alone.
      data: passed on untouched.
      users: ``n``, public.
      evaluations: how many trials the budget is split into.
      loss_range: ``(low, high)``, chosen without the users' data: losses are clipped there.
      mu: the GDP budget of all values together; or
      epsilon: with
      delta: in (0, 1).
      noise: "exact", or "float" for research.
      ledger: ``Recording(path, run)``: charge a ledger. With the same ``Recording`` another process resumes the study.
      run: ``Execution(key, insecure_key)``, for tests.

    Raises:
      ValueError: a study that maximises, has several objectives, or holds values that were not noised; a number out of
        range.
      TypeError: an argument of the wrong kind.
    """
    if not isinstance(study, Study):
        raise TypeError(f"study must be an optuna.Study, got {type(study).__name__}")
    if study.directions != [StudyDirection.MINIMIZE]:
        raise ValueError("study must minimise one objective: losses are")
    if any(map(_is_raw, study.get_trials(deepcopy=False))):
        raise ValueError(RAW)
    options = {
        "users": users,
        "evaluations": evaluations,
        "loss_range": loss_range,
        "mu": mu,
        "epsilon": epsilon,
        "delta": delta,
        "noise": noise,
        "ledger": ledger,
        "run": run,
    }
    return PrivateStudy(study, suggest, losses, data, options)


def _noised_trials(study: Study) -> list[FrozenTrial]:
    """The complete trials; ValueError where there are none, or one that was added without noise."""
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not done:
        raise ValueError("no trial is complete")
    if any(map(_is_raw, done)):
        raise ValueError(RAW)
    return done


def _is_same(one: Any, other: Any) -> bool:
    """Whether two points are equal; arrays may be among their parameters, and are lists on record."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[name], other[name]) for name in one)
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))


def _is_raw(trial: FrozenTrial) -> bool:
    """Whether a trial holds a value that nobody noised."""
    return bool(trial.values or trial.intermediate_values) and DEVIATION not in trial.user_attrs
