"""Publishable front of privacy and utility: DPareto on private trainings and noised scores.

The front of Avent et al. (2020) is made of raw errors, and of all trainings in the search. Here every training is
charged its level of Gaussian DP (``accounting.gdp_level``), every error is noised, and the search reads nothing else:
one guarantee for each set of rows covers everything, whichever settings the search chooses. The front's other axis is
the cost of a single training with a setting.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import accounting, checks, rounding
from jaxdpbo import report as reports
from jaxdpbo.accounting import stage
from jaxdpbo.algorithms import dpareto
from jaxdpbo.guarantee import assumptions, composed_guarantee, recording, release_key
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.noise import calibration, keys
from jaxdpbo.tuning import fitting, selection
from jaxdpbo.tuning import training as trainings
from jaxdpbo.tuning.fitting import TRAIN, VALIDATION
from jaxdpbo.tuning.training import Rows, Setting, Training
from jaxdpbo.types import ArrayLike, Query, State

LEVELS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)  # of epsilon, for one training
FIRST, CHEAP = 8, 2  # trainings before the search has a model; none at the CHEAP largest levels, where few fit
SHARE = 0.1  # of delta: sampled trainings are Gaussian DP but for this share
BEYOND = 2.0  # reference, as a multiple of the largest level
WORST = 0.999


class Front(NamedTuple):
    """Everything you may publish: ``t`` trainings in order, each with its setting.

    Attributes:
      settings: of the trainings.
      epsilons: ``(t,)``, cost of one training alone with its setting and noise, at the requested ``delta``.
      errors: ``(t,)``, mean losses on the validation rows, noised, in [0, 1]; 1 for a failed training.
      noises: ``(t,)``, of the trainings, by their own measure.
      front: ``(t,)``, True where no other training has less epsilon and less error.
      models: of the trainings; None for a failed training.
      guarantees: a guarantee for each set of rows, of everything here.
    """

    settings: tuple[Setting, ...]
    epsilons: np.ndarray
    errors: np.ndarray
    noises: np.ndarray
    front: np.ndarray
    models: tuple[Any, ...]
    guarantees: tuple[_guarantee.Guarantee, ...]

    def report(self, path: str | Path | None = None) -> reports.Report:
        """Make the record of the front, to sign; see ``Run.report``."""
        points = zip(self.epsilons[self.front].tolist(), self.errors[self.front].tolist(), strict=True)
        front = "; ".join(f"{error:.4g} at {rounding.round_up(epsilon)}" for epsilon, error in sorted(points))
        details = {"trainings": len(self.errors), "errors on the front, at epsilon for one training": front}
        title = "a front of privacy and utility"
        made = reports.report(title, self.guarantees, release=tuple(self._replace(guarantees=())), details=details)
        return made if path is None else made.save(path)

    def _repr_html_(self) -> str:
        """The record, for notebooks."""
        return self.report()._repr_html_()


class _Candidates(NamedTuple):
    """Every setting at every level, ``(c,)``.

    Attributes:
      setting: number of the setting.
      epsilon: of one training.
      noise: of one training.
      mu: GDP level of one training, but for a delta.
      units: ``(c, d)``, for the search.
    """

    setting: np.ndarray
    epsilon: np.ndarray
    noise: np.ndarray
    mu: np.ndarray
    units: np.ndarray


class _Plan(NamedTuple):
    """Spending plan: the candidates, the GDP level of all trainings, the noise of as many scores."""

    arguments: fitting.TuningArguments
    candidates: _Candidates
    within: float
    score_noise: calibration.SumNoise


def private_front(
    training: Training,
    rows: Rows,
    settings: Sequence[Setting],
    *,
    epsilon: float,
    delta: float,
    levels: ArrayLike | None = None,
    count: int = 32,
    validation: Rows | None = None,
    on_error: str = "worst",
    ledgers: Mapping[str, recording.Recording] | None = None,
    key: jax.Array | None = None,
    insecure_key: bool = False,
) -> Front:
    """Search for a front of privacy and utility, ``(epsilon, delta)``-DP in all, models and errors included.

    Formal guarantee: everything returned is ``(epsilon, delta)``-DP, replace-one, for training rows and for validation
    rows, each by a guarantee of its own. Levels of Gaussian DP chosen from earlier releases add up in squares, and the
    search ends before they exceed the budget (docs/theorems.md).

    Avent et al. (2020), Algorithm 2, over the settings at all levels: train next at the candidate most likely to add to
    the front, in the logarithm of epsilon.

    ============================  =====================================================================
    case                          result
    ============================  =====================================================================
    a training that fails         its error is 1, its model None, and its cost is charged
    all trainings fail            ``AllRunsFailed`` says what was spent
    too little budget is left     the search ends, with fewer than ``count``
    all candidates were tried     the search ends, with fewer than ``count``
    ============================  =====================================================================

    >>> import numpy as np
    >>> from jaxdpbo import training, tuning
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 5))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> settings = [{"learning_rate": rate, "batch": 64, "epochs": 2, "clip_norm": 1.0} for rate in (0.01, 0.1, 1.0)]
    >>> training = tuning.DPSGD(training.logistic_regression(5), classes=(0, 1))
    >>> front = tuning.private_front(training, (X, y), settings, epsilon=2, delta=1e-5, count=4)
    >>> len(front.errors), max(guarantee.epsilon(delta=1e-5) for guarantee in front.guarantees) <= 2
    (4, True)

    Args:
      training: such as ``DPSGD``.
      rows: ``(features, labels)``.
      settings: a public list, of a fixed length; to search a box, pass a fixed sample of it.
      epsilon: for everything returned.
      delta: for everything returned, and for ``Front.epsilons``.
      levels: ``(l,)`` epsilons allowed for one training alone; default: a half of ``epsilon``, a quarter, down to a
        32nd. They are the front's other axis, so public.
      count: number of trainings, at most.
      validation: rows to score on; default: a fifth of ``rows``.
      on_error: "worst": a training that fails loses. "raise": for debugging on data without privacy needs.
      ledgers: for each set of rows ("training rows", "validation rows"), where its guarantee is charged before the
        start.
      key: see ``minimize``.
      insecure_key: see ``minimize``.

    Raises:
      ValueError: an argument out of range, a level so small that no noise suffices, or all too large for the budget; a
        training without a proved level of Gaussian DP.
      TypeError: an argument of the wrong kind.
      AllRunsFailed: every training failed; the budget is spent.
      ledger.LedgerError: the budget does not suffice, or the name was used before.
    """
    settings = selection.check_settings(settings)
    typed_delta, epsilon, delta = delta, checks.positive("epsilon", epsilon), checks.probability("delta", delta)
    on_error, count = checks.one_of("on_error", on_error, selection.ON_ERROR), checks.size("count", count, minimum=2)
    level_values = np.multiply(LEVELS, epsilon) if levels is None else checks.vector("levels", levels)
    axis = np.unique([checks.positive("levels", level) for level in level_values.tolist()])
    keys.refuse_trace("the key of private_front()")
    apart = validation is not None
    rows, validation = fitting.check_rows(training, rows, validation)
    fitting.expect_small_delta(typed_delta, rows, validation)
    arguments = fitting.TuningArguments(training, settings, epsilon, delta, ledgers, key, insecure_key, on_error)
    arguments = arguments._replace(delta=fitting.ideal_delta(arguments, count, len(rows[1])))
    rows, validation = fitting.split_rows(rows, validation)
    plan = _plan(arguments, axis, count, delta, len(rows[1]), len(validation[1]))
    guarantees = _statements(plan, len(rows[1]), apart)
    secret, first = release_key.for_release(key, guarantees[0], insecure_key)
    guarantees = (first, *(other.assuming(*first.assumptions) for other in guarantees[1:]))
    selection.charge_selection(ledgers, guarantees, "a front", settings, axis.tolist(), count)
    front = _search(plan, (rows, validation), secret)._replace(guarantees=guarantees)
    if all(model is None for model in front.models):
        raise selection.AllRunsFailed(guarantees)
    return front


def _plan(
    arguments: fitting.TuningArguments, axis: np.ndarray, count: int, delta: float, records: int, users: int
) -> _Plan:
    """Plan the spending of the budget; host arithmetic, no data."""
    within = accounting.gdp_mu(arguments.epsilon, (1 - SHARE) * arguments.delta)
    candidates = _candidates(arguments, axis, records, delta, SHARE * arguments.delta / count)
    count = min(count, len(candidates.mu))
    if count < 2 or np.sum(np.sort(candidates.mu)[:2] ** 2) > within**2:
        raise ValueError(f"levels must leave two trainings within epsilon={arguments.epsilon:g}, got {axis.tolist()}")
    of_scores = accounting.gdp_mu(arguments.epsilon, arguments.delta)
    dtype = jnp.result_type(float)
    score_noise = calibration.sum_noise(of_scores, fitting.NOISE, users=users, steps=count, dimension=1, dtype=dtype)
    return _Plan(arguments, candidates, within, score_noise)


def _candidates(
    arguments: fitting.TuningArguments, axis: np.ndarray, records: int, delta: float, but_for: float
) -> _Candidates:
    """Make the candidates, each with its least noise; host arithmetic, no data.

    Raises:
      ValueError: no noise suffices, or no level of Gaussian DP is proved.
    """
    training, candidate_rows = arguments.training, []
    coordinates = _coordinates(arguments.settings)
    for number, setting in enumerate(arguments.settings):
        for level in axis.tolist():
            noise = trainings.noise_for(training, setting, records, level, delta)
            mu = max(accounting.gdp_level([training.cost(setting, noise, records)], but_for), _guarantee.LEAST)
            if math.isinf(mu):  # raise now, not in the middle of the search
                raise ValueError(f"training must be Gaussian DP but for a delta of {but_for:g}, got {setting!r:.200}")
            candidate_rows.append(
                (number, level, noise, mu, *coordinates[number], *_places(np.log(axis), math.log(level)))
            )
    table = np.array(candidate_rows)
    number, level, noise, mu = table[:, :4].T
    return _Candidates(number.astype(int), level, noise, mu, table[:, 4:])


def _coordinates(settings: Sequence[Setting]) -> np.ndarray:
    """Map settings to the unit cube, ``(s, d)``: each value by its rank, so units do not matter; words by order.

    Raises:
      ValueError: settings of different names.
    """
    named = [setting if isinstance(setting, Mapping) else {"": setting} for setting in settings]
    if any(set(setting) != set(named[0]) for setting in named):
        raise ValueError(f"settings must all have the same names, got {settings!r:.200}")
    columns = [_ranks([setting[name] for setting in named]) for name in named[0]]
    return np.array(columns).T


def _ranks(values: list[Any]) -> list[float]:
    """Ranks of values, in [0, 1]."""
    if not all(isinstance(value, (int, float)) for value in values):
        values = [list(map(repr, values)).index(repr(value)) for value in values]
    distinct = sorted(set(values))
    return [distinct.index(value) / max(len(distinct) - 1, 1) for value in values]


def _places(axis: np.ndarray, value: float) -> list[float]:
    """Position of a value between the axis' ends."""
    return [(value - axis[0]) / (axis[-1] - axis[0]) if len(axis) > 1 else 0.5]


def _statements(plan: _Plan, records: int, apart: bool) -> tuple[_guarantee.Guarantee, ...]:
    """Guarantees of training rows, by a curve above all trainings, and of validation rows, by the scores' noise."""
    arguments, count = plan.arguments, plan.score_noise.steps
    but_for = SHARE * arguments.delta

    def curve(epsilon: float) -> float:
        return min(1.0, accounting.gdp_delta(plan.within, epsilon) + but_for)

    trained = accounting.total(
        [stage.curve_stage(curve, f"at most {count} trainings, chosen as they came")], arguments.delta
    )
    of_scores = composed_guarantee.gdp_guarantee(plan.score_noise, VALIDATION)
    scored = accounting.total([stage.gaussian_stage(of_scores.level, "noised scores")], arguments.delta)
    variation = count * max(arguments.training.total_variation(setting, records) for setting in arguments.settings)
    rests = (assumptions.RANDOM_BITS, assumptions.FAILS_BY_NOISE, *fitting.row_assumptions(arguments.training))
    rests += (assumptions.ROWS_APART,) if apart else ()
    return (
        composed_guarantee.guarantee_from_total(trained, TRAIN, assumptions=rests, total_variation=variation),
        composed_guarantee.guarantee_from_total(
            scored, VALIDATION, assumptions=rests, total_variation=of_scores.total_variation
        ),
    )


def _search(plan: _Plan, rows: tuple[Rows, Rows], key: jax.Array) -> Front:
    """Train until the budget of scores is used up, or no other training fits."""
    arguments, candidates, most = plan.arguments, plan.candidates, plan.score_noise.steps
    of_design, of_runs, of_fits = jax.random.split(key, 3)
    design, width = _design(of_design, candidates, min(FIRST, most // 2)), candidates.units.shape[1]
    config = dpareto.config(
        bounds={"low": np.zeros(width), "high": np.ones(width)},
        initial_design=candidates.units[design],
        proposals=most - len(design),
        reference=(BEYOND * float(candidates.epsilon.max()), WORST),
        acquisition="hvpoi_transformed",
    )
    state, gains = dpareto.algorithm.init(of_fits, config), np.zeros(len(candidates.mu))
    tried: list[int] = []
    errors, models, front = [], [], np.zeros(0, bool)
    while len(tried) < most:
        left = [number for number in range(len(gains)) if number not in tried and _fits(plan, [*tried, number])]
        if not left:
            break
        step = len(tried)
        planned = [number for number in design[step : step + 1] if number in left]
        number = planned[0] if planned else left[int(np.argmax(gains[left]))]
        of_training, of_score, of_globals = jax.random.split(jax.random.fold_in(of_runs, step), 3)
        setting, noise = arguments.settings[candidates.setting[number]], float(candidates.noise[number])
        models.append(fitting.fit_silently(arguments, setting, noise, rows[0], of_training, of_globals))
        score = fitting.release_score_silently(arguments, models[-1], rows[1], plan.score_noise, of_score)
        errors.append(float(np.clip(score, 0.0, 1.0)))
        measured = np.array([[candidates.epsilon[number], errors[-1]]])
        of_fit, unit = jax.random.fold_in(of_fits, step), candidates.units[number][None]
        state, results = _observe(of_fit, config, state, unit, measured, candidates.units)
        gains, front = map(np.asarray, results)
        tried.append(number)
    return Front(
        settings=tuple(arguments.settings[candidates.setting[number]] for number in tried),
        epsilons=candidates.epsilon[tried],
        errors=np.array(errors),
        noises=candidates.noise[tried],
        front=front[: len(tried)],
        models=tuple(models),
        guarantees=(),
    )


def _design(key: jax.Array, candidates: _Candidates, count: int) -> list[int]:
    """Initial design: settings in random order, levels in turn except the largest."""
    levels = np.unique(candidates.epsilon)
    levels = levels[: max(len(levels) - CHEAP, 1)]
    order = np.asarray(jax.random.permutation(key, len(candidates.mu))).tolist()
    of_each = [[number for number in order if candidates.epsilon[number] == level] for level in levels]
    return [number for turn in zip(*of_each, strict=True) for number in turn][:count]


def _fits(plan: _Plan, numbers: Sequence[int]) -> bool:
    """Return whether these trainings are within the budget; rounded up."""
    return accounting.compose_gdp_rounded_up(*plan.candidates.mu[list(numbers)].tolist()) <= plan.within


@jax.jit
def _observe(
    key: jax.Array, config: dpareto.Config, state: State, units: jax.Array, values: jax.Array, candidates: jax.Array
) -> tuple[State, tuple[jax.Array, jax.Array]]:
    """Return the state after one training, the improvement of every candidate, and the front."""
    query = Query(units, jnp.ones(1, bool))
    state, _ = dpareto.algorithm.tell(key, config, state, query, values)
    released = dpareto.algorithm.release(key, config, state)
    return state, (dpareto.improvement(config, released, candidates), released.front)
