"""The least epsilon of a list that reaches an error: one selection over levels of privacy.

Few people know which epsilon they need, and most know which error they can live with. Here a random number of private
trainings, each at a random level of a public list, is tried against the error asked for. The training of the lowest
level that passes is released, and its cost is known from the release (``accounting.ex_post_epsilons``).
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import accounting, checks
from jaxdpbo import notes as _notes
from jaxdpbo.accounting import stage
from jaxdpbo.guarantee import assumptions, composed_guarantee, recording, release_key
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.noise import calibration, keys
from jaxdpbo.report import records as reports
from jaxdpbo.tuning import fitting, repetition, selection
from jaxdpbo.tuning.training import Rows, Setting, Training

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
MEAN_RUNS, ETA = 150.0, 3.0  # ``scripts/bench least_epsilon``
RELATIVE_TOLERANCE = 2e-3  # relative, of calibrated epsilons
MAX_SLACK = 1.01  # a level above this multiple of its cost gets less noise, in the first STEPS of a calibration
STEPS, GAUSSIAN_STEPS = 3, 40


class LeastEpsilonResult(NamedTuple):
    """Everything you may publish.

    Attributes:
      reached: True if a training reached the error; otherwise there is no model. Whether every training failed is not
        part of the release.
      epsilon: what the release cost the training rows: at most the epsilon of its level, or the epsilon of the outcome
        that nothing was reached.
      model: of the private training; None if nothing was reached.
      setting: of the training; None if nothing was reached.
      noise: of the training, by its own measure; None if nothing was reached.
      error: mean loss of the model on validation rows that took no part in the search, noised once: without bias, and
        so often above the error that was asked for, which a training passes partly by luck. None if nothing was
        reached.
      interval: 95 % interval of the error on new rows, over the noise and the draw of the rows.
      guarantees: a guarantee for each set of rows; of the training rows by what the release cost.
    """

    reached: bool
    epsilon: float
    model: Any
    setting: Setting | None
    noise: float | None
    error: float | None
    interval: tuple[float, float] | None
    guarantees: tuple[_guarantee.Guarantee, ...]

    @property
    def notes(self) -> _notes.Notes:
        """What happened, and what to do next."""
        say = _notes.epsilon_reached if self.reached else _notes.error_not_reached
        return say(self.epsilon, self.guarantees[0].reservation.level)

    def __repr__(self) -> str:
        """Show the guarantees, the notes and what was chosen, without the model."""
        chosen = [f"setting: {self.setting}", f"error: {self.error}, noised"] * self.reached
        return "\n".join([*map(str, self.guarantees), *_notes.lines(self.notes), *chosen])

    def report(self, path: str | Path | None = None) -> reports.Report:
        """Make the record of the release, to sign; see ``Run.report``."""
        details = {"setting": self.setting, "noise": self.noise, "noised error": self.error}
        details["its 95 % interval"] = self.interval
        release = tuple(self._replace(guarantees=()))
        what = "a private model of" if self.reached else "a search without a model for"
        title = f"{what} the least epsilon that reaches an error"
        made = reports.report(title, self.guarantees, release=release, details=details, notes=self.notes)
        return made if path is None else made.save(path)

    def _repr_html_(self) -> str:
        """The record, for notebooks."""
        return self.report()._repr_html_()


class _Plan(NamedTuple):
    """The noise of each setting at each level, the costs of the outcomes, and the budget of a score."""

    noises: list[list[float]]
    costs: accounting.LevelCosts
    score: calibration.SumNoise


def least_epsilon(
    training: Training,
    rows: Rows,
    settings: Sequence[Setting],
    *,
    error: float,
    delta: float,
    epsilons: Sequence[float] = EPSILONS,
    validation: Rows | None = None,
    validation_epsilon: float = 1.0,
    mean: float = MEAN_RUNS,
    eta: float = ETA,
    cap: int | None = None,
    on_error: str = "worst",
    ledgers: Mapping[str, recording.Recording] | None = None,
    key: jax.Array | None = None,
    insecure_key: bool = False,
) -> LeastEpsilonResult:
    """Search a list of epsilons for the least at which a training reaches an error, and release its model.

    Run a random, hidden number of private trainings, each with a random setting and noise for a random epsilon of the
    list. Score each on held-out rows with noise. Of the trainings that reach the error release one of the least
    epsilon, and of these the best.

    Formal guarantee: for the training rows ex-post differential privacy, replace-one (Ligett et al. 2017; the theorem
    is ours, docs/theorems.md): a release costs the epsilon of its level. Before the release is known it could cost the
    largest epsilon. ``delta`` covers the whole call; given the released level, the delta of a rare level may be larger.
    The validation rows have ``(validation_epsilon, delta)``-DP. Assumptions, by name in the guarantees, are
    those of ``private_selection``.

    >>> import numpy as np
    >>> from jaxdpbo import training, tuning
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 5))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> settings = [{"learning_rate": rate, "batch": 64, "epochs": 2, "clip_norm": 1.0} for rate in (0.1, 1.0)]
    >>> training = tuning.DPSGD(training.logistic_regression(5), classes=(0, 1))
    >>> tuned = tuning.least_epsilon(
    ...     training, (X, y), settings, error=0.2, epsilons=(0.5, 2), delta=1e-5, mean=10
    ... )
    >>> tuned.guarantees[0].epsilon(delta=1e-5) <= tuned.guarantees[0].largest <= 2
    True

    Args:
      training: the training to tune, such as ``DPSGD``.
      rows: ``(features, labels)``.
      settings: a public list, of a fixed length.
      error: a public number: a training passes if its noised mean loss is at most this number. Losses are clipped to
        [0, 1]. Leave a margin for the noise.
      delta: of the whole call.
      epsilons: increasing levels; each is what a release at this level costs the training rows.
      validation: rows to score on; default: a fifth of ``rows``, by a public permutation of row numbers.
      validation_epsilon: for the validation rows, at any level.
      mean: mean number of trainings.
      eta: see ``private_selection``.
      cap: see ``private_selection``.
      on_error: "worst": a training that fails does not pass. "raise": for debugging on data without privacy needs.
      ledgers: for each set of rows ("training rows", "validation rows"), the ledger charged before the first training.
        A ledger of notion "dp" reserves the largest epsilon, and gets the rest back after the release. A ledger of
        notion "gdp" is charged the largest epsilon.
      key: see ``minimize``.
      insecure_key: see ``minimize``.

    Raises:
      ValueError: an argument out of range, or a budget so small that no noise suffices.
      TypeError: an argument of the wrong kind.
      ledger.LedgerError: the budget does not suffice, the name was used before, or somebody else recorded a release of
        this run.
    """
    settings, error = selection.check_settings(settings), _check_error(error)
    levels, validation_epsilon = _check_levels(epsilons), checks.positive("validation_epsilon", validation_epsilon)
    typed_delta, delta = delta, checks.probability("delta", delta)
    keep = checks.one_of("on_error", on_error, selection.ON_ERROR) == "worst"
    keys.refuse_trace("the key of least_epsilon()")
    rows, validation = fitting.check_rows(training, rows, validation)
    repetitions = accounting.repetitions(eta, mean)
    fitting.expect_small_delta(typed_delta, rows, validation)
    largest = max(levels[-1], validation_epsilon)
    cap = selection.check_cap(repetitions, cap, delta, largest)
    table = repetition.table(repetitions, cap)
    arguments = fitting.TuningArguments(training, settings, largest, delta, ledgers, key, insecure_key, on_error)
    arguments = arguments._replace(
        delta=fitting.ideal_delta(arguments, repetitions.mean + 1, len(rows[1]), table.total_variation)
    )
    has_validation = validation is not None
    rows, validation = fitting.split_rows(rows, validation)
    validation, unseen = fitting.halve(validation)
    plan = _plan(arguments, levels, repetitions, len(rows[1]), len(validation[1]), validation_epsilon)
    guarantees = _guarantees(arguments, plan, repetitions, table.total_variation, len(rows[1]), has_validation, cap)
    secret, first = release_key.for_release(key, guarantees[0], insecure_key)
    guarantees = (first, *(other.assuming(*first.assumptions) for other in guarantees[1:]))
    public = repetitions, settings, levels, error, cap
    recordings = selection.charge_selection(ledgers, guarantees, "a search for the least epsilon", *public)

    def run(pair: tuple[int, int], key: jax.Array) -> tuple[Any, float]:
        level, number = pair
        of_training, of_score = jax.random.split(key)
        model = training.fit(deepcopy(settings[number]), plan.noises[level][number], rows, of_training)
        return model, fitting.release_score(training, model, validation, plan.score, of_score)

    def rank(pair: tuple[int, int], score: float) -> tuple[Any, ...]:
        return (0, pair[0], score) if score <= error else (1,)

    pairs = tuple((level, number) for level in range(len(levels)) for number in range(len(settings)))
    of_search, of_error = jax.random.split(secret)
    pair, model, score = selection.best_run(run, pairs, table, of_search, keep=keep, cap=cap, rank=rank)
    reached = pair if score <= error else None
    measured = reached and fitting.measure_unseen(arguments, model, unseen, guarantees[1], of_error)
    result = _result(plan, settings, guarantees, reached, model, measured)
    if fitting.TRAIN in recordings:
        release = {"epsilon": result.guarantees[0].level, "reached": result.reached}
        recording.store_cost(recordings[fitting.TRAIN], result.guarantees[0], release)
    _notes.show(result.notes)
    return result


def _check_error(error: float) -> float:
    """Check a finite number: a training that fails has an infinite error."""
    checked = checks.number("error", error)
    if not math.isfinite(checked):
        raise ValueError(f"error must be finite, got {error!r}")
    return checked


def _check_levels(epsilons: Sequence[float]) -> tuple[float, ...]:
    """Check increasing positive numbers."""
    if not isinstance(epsilons, Sequence) or isinstance(epsilons, str) or not epsilons:
        raise TypeError(f"epsilons must be a sequence of one or more numbers, got {epsilons!r}")
    levels = tuple(checks.positive("epsilons", epsilon) for epsilon in epsilons)
    if any(low >= high for low, high in itertools.pairwise(levels)):
        raise ValueError(f"epsilons must increase, got {epsilons!r}")
    return levels


def _plan(
    arguments: fitting.TuningArguments,
    levels: tuple[float, ...],
    repetitions: accounting.Repetitions,
    records: int,
    users: int,
    validation_epsilon: float,
) -> _Plan:
    """Calibrate noise so that a release at each level costs its epsilon; no data."""
    delta = arguments.delta
    own, steps = _gaussian_epsilons(levels, repetitions, delta), itertools.count()
    noises, ratios = [[0.0]] * len(levels), [0.0] * len(levels)
    profiles: list[stage.Profile] = [float] * len(levels)
    while True:
        for level, ratio in enumerate(ratios):
            if not 1 <= ratio < MAX_SLACK:
                noises[level] = fitting.noises(arguments, records, own[level], delta / repetitions.mean)
                profiles[level] = _average_profile(fitting.costs(arguments, noises[level], records))
        costs = accounting.ex_post_epsilons(repetitions, _level_weights(levels), profiles, delta)
        # "nothing" costs less than the last level, except perhaps among levels that are nearly equal
        bound = math.inf if costs.nothing <= levels[-1] else levels[-1] / costs.nothing
        ratios = [min(level / cost, bound) for level, cost in zip(levels, costs.epsilons, strict=True)]
        most = MAX_SLACK if next(steps) < STEPS else math.inf
        if all(1 <= ratio < most for ratio in ratios):
            break
        moves = [1.0 if 1 <= ratio < most else ratio * (1 - RELATIVE_TOLERANCE) for ratio in ratios]
        own = [epsilon * move for epsilon, move in zip(own, moves, strict=True)]
        if min(own) < fitting.LEAST_SHARE * levels[0]:
            raise ValueError(f"delta must be smaller for epsilons={levels}: even much noise costs more than asked for")
    mu, dtype = fitting.largest_mu(repetitions, validation_epsilon, delta), jnp.result_type(float)
    return _Plan(
        noises,
        costs,
        calibration.sum_noise(mu, fitting.NOISE, users=users, steps=1, dimension=1, dtype=dtype),
    )


def _level_weights(levels: tuple[float, ...]) -> list[float]:
    """The public weights of levels."""
    return [1 / len(levels)] * len(levels)


def _average_profile(costs: list[stage.Stage]) -> stage.Profile:
    """The profile of a training with a setting drawn uniformly."""
    return accounting.average_profile([1 / len(costs)] * len(costs), [cost.profile for cost in costs])


def _gaussian_epsilons(levels: tuple[float, ...], repetitions: accounting.Repetitions, delta: float) -> list[float]:
    """The epsilon of one training at each level, at ``delta / m``, if trainings are Gaussian mechanisms."""
    share = delta / repetitions.mean
    mus = [accounting.gdp_mu(level / 2, share) for level in levels]
    for _ in range(GAUSSIAN_STEPS):
        profiles = [partial(accounting.gdp_delta, mu) for mu in mus]
        costs = accounting.ex_post_epsilons(repetitions, _level_weights(levels), profiles, delta).epsilons
        ratios = [level / cost for level, cost in zip(levels, costs, strict=True)]
        if max(abs(math.log(ratio)) for ratio in ratios) < RELATIVE_TOLERANCE:
            break
        mus = [mu * ratio for mu, ratio in zip(mus, ratios, strict=True)]
    return [accounting.gdp_epsilon(mu, share) for mu in mus]


def _guarantees(
    arguments: fitting.TuningArguments,
    plan: _Plan,
    repetitions: accounting.Repetitions,
    cut: float,
    records: int,
    has_validation: bool,
    cap: int | None,
) -> tuple[_guarantee.Guarantee, ...]:
    """The guarantees before the release is known, of the training rows first."""
    of_score = composed_guarantee.gdp_guarantee(plan.score, fitting.VALIDATION)
    of_noise = max(arguments.training.total_variation(setting, records) for setting in arguments.settings)
    variation = repetitions.mean * (of_noise + of_score.total_variation) + cut
    cost = stage.gaussian_stage(of_score.level, "a noised score")
    costs = {fitting.VALIDATION: cost}
    guarantees = selection.base_guarantees(repetitions, arguments.settings, costs, arguments.delta, variation)
    (validation,) = selection.add_attained(guarantees, repetitions, costs)
    largest = plan.costs.largest
    rests = (selection.timing_assumption(cap), *fitting.row_assumptions(arguments.training))
    validation = validation.assuming(*rests, *((assumptions.ROWS_APART,) if has_validation else ()))
    train = _guarantee.guarantee(
        "ex_post_dp",
        largest,
        "replace_one",
        fitting.TRAIN,
        assumptions=validation.assumptions,
        delta=arguments.delta,
        total_variation=variation,
        largest=largest,
    )
    return train, validation


def _result(
    plan: _Plan,
    settings: tuple[Setting, ...],
    guarantees: tuple[_guarantee.Guarantee, ...],
    pair: tuple[int, int] | None,
    model: Any,
    measured: tuple[float, float, tuple[float, float]] | None,
) -> LeastEpsilonResult:
    """The release, with what it cost; ``pair``: its level and its setting, None if nothing was reached."""
    paid = max(plan.costs.nothing if pair is None else plan.costs.epsilons[pair[0]], _guarantee.LEAST)
    guarantees = replace(guarantees[0], level=paid), *guarantees[1:]
    if pair is None or measured is None:
        return LeastEpsilonResult(False, paid, None, None, None, None, None, guarantees)
    level, number = pair
    error, _, interval = measured
    noise = plan.noises[level][number]
    return LeastEpsilonResult(True, paid, model, settings[number], noise, error, interval, guarantees)
