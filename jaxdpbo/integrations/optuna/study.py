"""A study whose values are noised before Optuna sees them: what it stores, logs, shows and plots is private.

The objective gets the suggestions of a trial and nothing else of it: what it would report, prune by or attach would be
stored as it is.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from optuna import TrialPruned
from optuna.study import Study, StudyDirection
from optuna.trial import Trial, TrialState

from jaxdpbo.drivers.private_objective import BudgetExhausted, PrivateObjective
from jaxdpbo.integrations.optuna import coordinates
from jaxdpbo.integrations.optuna.samplers import DEVIATION, deviation_of, posterior
from jaxdpbo.privacy.guarantee import Guarantee

GUARANTEE = "jaxdpbo:guarantee"  # an attribute of a trial: of all values of its budget together
SUGGESTS = ("suggest_float", "suggest_int", "suggest_categorical", "number", "params", "distributions")


class ObjectiveFailed(RuntimeError):
    """The objective raised. Only the kind of its error is said: Optuna logs what an error says."""


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


class _Suggestions:
    """What an objective may have of a trial."""

    def __init__(self, trial: Trial):
        self._trial = trial

    def __getattr__(self, name: str) -> Any:
        if name in SUGGESTS:
            return getattr(self._trial, name)
        raise AttributeError(f"a private trial has {', '.join(SUGGESTS)}; {name} would be stored without noise")


class PrivateStudy:
    """Made by ``private_study``: a function of a trial for ``study.optimize``, that counts its budget.

    Attributes:
      study: Optuna's.
      guarantee: what all values together give.
      deviation: of the noise of one value.
    """

    def __init__(self, study: Study, objective: Callable[[Any, Any], Any], data: Any, options: dict[str, Any]):
        """See ``private_study``."""
        self.study, self._objective = study, objective
        self._running: dict[int, Trial] = {}
        self._lock = threading.Lock()
        self._private = PrivateObjective(self._losses, data, **options)
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
          ObjectiveFailed: the objective raised. The evaluation stays charged, and the trial fails, which is stored:
            return NaN for a user whose record can not be evaluated.
          ValueError: the losses do not have the shape ``(n,)``; it says no value.
        """
        place = {"study": self.study.study_name, "trial": trial.number}
        with self._lock:
            if trial.number in self._running:
                raise RuntimeError(f"trial {trial.number} is being evaluated")
            known = [each.value for each in self._private.spent if each.point == place]
            if known:
                return known[0]
            self._running[trial.number] = trial
        try:
            trial.set_user_attr(DEVIATION, self.deviation)
            trial.set_user_attr(GUARANTEE, self.guarantee.claim)
            value = self._private(place)
        except BudgetExhausted:
            self._stop()
            raise TrialPruned("the privacy budget is spent") from None
        finally:
            with self._lock:
                del self._running[trial.number]
        if not self.remaining:
            self._stop()
        return value

    def optimize(self, n_trials: int | None = None, **options: Any) -> None:
        """``study.optimize``, of as many trials as the budget has left, or fewer; it takes the same options."""
        left = self.remaining if n_trials is None else min(n_trials, self.remaining)
        if left:
            self.study.optimize(self, n_trials=left, **options)

    def best(self) -> Best:
        """The trial of least posterior mean, under a Gaussian process that knows the noise.

        Raises:
          ValueError: no trial is complete, or trials share no parameter.
        """
        done = [each for each in self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))]
        if not done:
            raise ValueError("no trial is complete")
        shared = [
            (name, of)
            for name, of in done[0].distributions.items()
            if all(each.distributions.get(name) == of for each in done)
        ]
        if not shared:
            raise ValueError("trials must share a parameter: there is no one space to compare them in")
        points = np.array([[coordinates.encode(of, each.params[name]) for name, of in shared] for each in done])
        values = np.array([each.value for each in done], float)
        mean, width = posterior(points, -values, deviation_of(done, None))
        row = int(np.argmax(mean))
        return Best(dict(done[row].params), -float(mean[row]), float(width[row]), done[row].number)

    def _losses(self, place: dict[str, Any], data: Any) -> Any:
        trial = self._running[place["trial"]]
        try:
            return self._objective(_Suggestions(trial), data)
        except Exception as error:
            kind = type(error).__name__
        raise ObjectiveFailed(f"the objective raised {kind} at trial {trial.number}; what it says may be of a record")

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
    >>> observations(optuna.create_study())
    Traceback (most recent call last):
    ValueError: no trial is complete
    """
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not done:
        raise ValueError("no trial is complete")
    if any(DEVIATION not in each.user_attrs for each in done):
        raise ValueError("study must hold no values but noised ones: some of its trials were evaluated without noise")
    values = np.array([each.value for each in done], float)
    deviations = np.array([each.user_attrs[DEVIATION] for each in done], float)
    return Observations([dict(each.params) for each in done], values, np.square(deviations))


def private_study(
    study: Study,
    objective: Callable[[Any, Any], Any],
    data: Any,
    *,
    users: int,
    evaluations: int,
    loss_range: Any,
    **options: Any,
) -> PrivateStudy:
    """Evaluate the trials of a study privately: every value that it gets is a noised mean of users' losses.

    Formal guarantee: that of ``PrivateObjective``: ``mu``-GDP, replace-one, of all values together, whatever a sampler,
    a callback, a dashboard or a plot does with them.

    >>> import numpy as np
    >>> import optuna
    >>> from jaxdpbo.integrations.optuna import private_study
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> def losses(trial, data):
    ...     return np.square(data - trial.suggest_float("x", 0, 1))
    >>> records = np.linspace(0.2, 0.4, 5000)
    >>> private = private_study(
    ...     optuna.create_study(), losses, records, users=5000, evaluations=4, loss_range=(0, 1), mu=1.0
    ... )
    >>> private.optimize()
    >>> len(private.study.trials), private.remaining, 0 <= private.best().params["x"] <= 1
    (4, 0, True)

    Args:
      study: of one objective to be minimised, with no values that were not noised.
      objective: ``(trial, data) -> losses (n,)``; ``trial`` has ``suggest_float`` and the like alone, and entry ``i``
        must depend on user ``i``'s record alone.
      data: passed on untouched.
      users: ``n``, public.
      evaluations: how many trials the budget is split into.
      loss_range: ``(low, high)``, chosen without the users' data: losses are clipped there.
      options: of ``PrivateObjective``: ``mu``, or ``epsilon`` and ``delta``; ``recording``; ``noise``, ``key``.

    Raises:
      ValueError: a study that maximises, has several objectives, or holds values that were not noised; a number out of
        range.
      TypeError: an argument of the wrong kind.
    """
    if not isinstance(study, Study):
        raise TypeError(f"study must be an optuna.Study, got {type(study).__name__}")
    if study.directions != [StudyDirection.MINIMIZE]:
        raise ValueError("study must minimise one objective: losses are")
    if any(
        DEVIATION not in each.user_attrs for each in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    ):
        raise ValueError("study must hold no values but noised ones: some of its trials were evaluated without noise")
    given = options | {"users": users, "evaluations": evaluations, "loss_range": loss_range}
    return PrivateStudy(study, objective, data, given)
