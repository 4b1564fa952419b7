"""Tune and train under one guarantee: it covers the released setting and model, for every row used by either."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo import _checks
from jaxdpbo.privacy import (
    _accounting,
    _assumptions,
    _calibration,
    _composed_guarantee,
    _guarantee,
    _keys,
    _private_mean,
    _recording,
)
from jaxdpbo.privacy._accounting import stage
from jaxdpbo.privacy._requested_budget import expect_small_delta
from jaxdpbo.tuning import _fitting, _selection
from jaxdpbo.tuning._training import Rows, Setting, Training

MEAN_RUNS, ETA = 24.0, 3.0  # ``scripts/bench repetitions``: with eta = 0, a third of all calls try a single setting


def tune_and_train(
    training: Training,
    rows: Rows,
    settings: Sequence[Setting],
    *,
    epsilon: float,
    delta: float,
    validation: Rows | None = None,
    mean: float = MEAN_RUNS,
    eta: float = ETA,
    cap: int | None = None,
    on_error: str = "worst",
    ledgers: Mapping[str, _recording.Recording] | None = None,
    key: jax.Array | None = None,
    insecure_key: bool = False,
) -> _fitting.TuningResult:
    """Choose a setting and train with it, ``(epsilon, delta)``-DP in all.

    Run a random, hidden number of private trainings with random settings, score each on held-out rows with noise, and
    release only the best (``private_selection``).

    Formal guarantee: everything returned is ``(epsilon, delta)``-DP, replace-one. Training rows and validation rows
    each have a guarantee of their own, with its assumptions (among them: nobody learns the number of trainings).

    >>> import numpy as np
    >>> from jaxdpbo import training, tuning
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 5))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> settings = [{"learning_rate": rate, "batch": 64, "epochs": 2, "clip_norm": 1.0} for rate in (0.01, 0.1, 1.0)]
    >>> training = tuning.DPSGD(training.logistic_regression(5), classes=(0, 1))
    >>> tuned = tuning.tune_and_train(training, (X, y), settings, epsilon=2, delta=1e-5)
    >>> max(guarantee.epsilon(delta=1e-5) for guarantee in tuned.guarantees) <= 2
    True

    Args:
      training: the training to tune, such as ``DPSGD``.
      rows: ``(features, labels)``.
      settings: a public list, of a fixed length.
      epsilon: for everything returned.
      delta: for everything returned.
      validation: rows to score on; default: a fifth of ``rows``, by a public permutation of row numbers.
      mean: mean number of trainings.
      eta: see ``private_selection``.
      cap: see ``private_selection``.
      on_error: "worst": a training that fails loses. "raise": for debugging on data without privacy needs.
      ledgers: for each set of rows ("training rows", "validation rows"), the ledger charged with their guarantee
        before the first training.
      key: for tests; default: from the operating system.
      insecure_key: see ``run_scan``.

    Raises:
      ValueError: an argument out of range, or a budget so small that no noise suffices.
      TypeError: an argument of the wrong kind.
      AllRunsFailed: every training failed; the budget is spent.
      ledger.LedgerError: the budget does not suffice, or the name was used before.
    """
    settings, repetitions = _selection.check_settings(settings), _accounting.repetitions(eta, mean)
    arguments = _fitting.TuningArguments(training, settings, epsilon, delta, ledgers, key, insecure_key, on_error)
    checked, rows, validation = _check_arguments(arguments, rows, validation)
    return _select_and_train(
        checked, repetitions, _selection.check_cap(repetitions, cap, checked.delta, checked.epsilon), rows, validation
    )


def tune_table(
    training: Training,
    rows: Rows,
    settings: Sequence[Setting],
    *,
    epsilon: float,
    delta: float,
    cap: int | None,
    ledger: _recording.Recording | None,
    key: jax.Array | None,
    insecure_key: bool,
) -> _fitting.TuningResult:
    """``tune_and_train`` with one guarantee and one ledger, for all rows.

    The split into training and validation rows is public, so a row either trains or scores, and the larger of both
    guarantees covers the row.
    """
    ledgers = None if ledger is None else {_guarantee.ALL_ROWS: ledger}
    settings = _selection.check_settings(settings)
    arguments = _fitting.TuningArguments(training, settings, epsilon, delta, ledgers, key, insecure_key, "worst")
    checked, rows, _ = _check_arguments(arguments, rows, None)
    repetitions = _accounting.repetitions(ETA, MEAN_RUNS)
    cap = _selection.check_cap(repetitions, cap, checked.delta, checked.epsilon)
    return _select_and_train(checked, repetitions, cap, rows, None, single_guarantee=True)


def _check_arguments(
    arguments: _fitting.TuningArguments, rows: Rows, validation: Rows | None
) -> tuple[_fitting.TuningArguments, Rows, Rows | None]:
    """Check what the caller passed, before anything is charged."""
    epsilon, delta = _checks.positive("epsilon", arguments.epsilon), _checks.probability("delta", arguments.delta)
    on_error = _checks.one_of("on_error", arguments.on_error, _selection.ON_ERROR)
    _keys.refuse_trace("the key of tune_and_train()")
    rows, validation = _fitting.check_rows(arguments.training, rows, validation)
    expect_small_delta(arguments.delta, len(rows[1]))
    return arguments._replace(epsilon=epsilon, delta=delta, on_error=on_error), rows, validation


def _select_and_train(
    arguments: _fitting.TuningArguments,
    repetitions: _accounting.Repetitions,
    cap: int | None,
    rows: Rows,
    validation: Rows | None,
    *,
    single_guarantee: bool = False,
) -> _fitting.TuningResult:
    """Choose a setting and train with it; all arguments are checked. ``single_guarantee``: see ``tune_table``."""
    cut = 0.0 if cap is None else _accounting.tail_probability(repetitions, cap)
    arguments = arguments._replace(delta=_fitting.ideal_delta(arguments, repetitions.mean + 1, len(rows[1]), cut))
    split_assumptions = () if validation is None else (_assumptions.ROWS_APART,)
    rows, validation = _fitting.split_rows(rows, validation)
    records, users = len(rows[1]), len(validation[1])
    level, noises, costs = _calibrate(arguments, records, repetitions)
    budget = _calibration.budget(level, _fitting.NOISE, users=users, steps=1, dimension=1, dtype=jnp.result_type(float))
    score_guarantee = _composed_guarantee.gdp_guarantee(budget, _fitting.VALIDATION)

    def run(number: int, key: jax.Array) -> tuple[Any, float]:
        of_training, of_score = jax.random.split(key)
        model = arguments.training.fit(deepcopy(arguments.settings[number]), noises[number], rows, of_training)
        return model, _fitting.score(arguments.training, model, validation, budget, of_score)

    guarantees = _selection.selection_guarantees(
        repetitions,
        arguments.settings,
        {
            _fitting.TRAIN: costs,
            _fitting.VALIDATION: stage.gaussian_stage(score_guarantee.level, "a noised score"),
        },
        arguments.delta,
        max(arguments.training.total_variation(setting, records) for setting in arguments.settings)
        + score_guarantee.total_variation,
        cap,
        (*_fitting.row_assumptions(arguments.training), *split_assumptions),
    )
    if single_guarantee:
        guarantees = (replace(max(guarantees, key=lambda guarantee: guarantee.level), protects=_guarantee.ALL_ROWS),)
    execution = _selection.SelectionExecution(
        cap, arguments.on_error, arguments.ledgers, arguments.key, arguments.insecure_key
    )
    selected = _selection.select(run, tuple(range(len(arguments.settings))), repetitions, guarantees, execution)
    number = selected.setting
    return _fitting.TuningResult(
        selected.output,
        deepcopy(arguments.settings[number]),
        noises[number],
        selected.guarantees,
        selected.score,
        _private_mean.loss_deviation(budget, 0.0, 1.0),
    )


def _calibrate(
    arguments: _fitting.TuningArguments, records: int, repetitions: _accounting.Repetitions
) -> tuple[float, list[float], list[stage.Stage]]:
    """Compute the GDP level of a score, and the noise and the cost of a training with each setting; no data."""
    level, delta = (
        _fitting.largest_mu(repetitions, arguments.epsilon, arguments.delta),
        arguments.delta / repetitions.mean,
    )

    def total_epsilon(costs: Sequence[stage.Stage]) -> float:
        by_rows = {_fitting.TRAIN: costs}
        (train,) = _selection.base_guarantees(repetitions, arguments.settings, by_rows, arguments.delta)
        return train.level

    noises, costs = _fitting.calibrate(arguments, records, _accounting.gdp_epsilon(level, delta), delta, total_epsilon)
    return level, noises, costs
