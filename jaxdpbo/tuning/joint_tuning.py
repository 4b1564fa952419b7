"""Tune and train under one guarantee: it covers the released setting and model, for every row used by either."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo import accounting, checks, notes
from jaxdpbo.accounting import stage
from jaxdpbo.guarantee import assumptions, composed_guarantee, recording
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.noise import calibration, keys
from jaxdpbo.tuning import fitting, selection
from jaxdpbo.tuning.training import Rows, Setting, Training

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
    ledgers: Mapping[str, recording.Recording] | None = None,
    key: jax.Array | None = None,
    insecure_key: bool = False,
) -> fitting.TuningResult:
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
      key: see ``minimize``.
      insecure_key: see ``minimize``.

    Raises:
      ValueError: an argument out of range, or a budget so small that no noise suffices.
      TypeError: an argument of the wrong kind.
      AllRunsFailed: every training failed; the budget is spent.
      ledger.LedgerError: the budget does not suffice, or the name was used before.
    """
    settings, repetitions = selection.check_settings(settings), accounting.repetitions(eta, mean)
    arguments = fitting.TuningArguments(training, settings, epsilon, delta, ledgers, key, insecure_key, on_error)
    checked, rows, validation = _check_arguments(arguments, rows, validation)
    return _select_and_train(
        checked, repetitions, selection.check_cap(repetitions, cap, checked.delta, checked.epsilon), rows, validation
    )


def tune_table(
    training: Training,
    rows: Rows,
    settings: Sequence[Setting],
    *,
    epsilon: float,
    delta: float,
    cap: int | None,
    ledger: recording.Recording | None,
    key: jax.Array | None,
    insecure_key: bool,
) -> fitting.TuningResult:
    """``tune_and_train`` with one guarantee and one ledger, for all rows.

    The split into training and validation rows is public, so a row either trains or scores, and the larger of both
    guarantees covers the row.
    """
    ledgers = None if ledger is None else {_guarantee.ALL_ROWS: ledger}
    settings = selection.check_settings(settings)
    arguments = fitting.TuningArguments(training, settings, epsilon, delta, ledgers, key, insecure_key, "worst")
    checked, rows, _ = _check_arguments(arguments, rows, None)
    repetitions = accounting.repetitions(ETA, MEAN_RUNS)
    cap = selection.check_cap(repetitions, cap, checked.delta, checked.epsilon)
    return _select_and_train(checked, repetitions, cap, rows, None, single_guarantee=True)


def _check_arguments(
    arguments: fitting.TuningArguments, rows: Rows, validation: Rows | None
) -> tuple[fitting.TuningArguments, Rows, Rows | None]:
    """Check what the caller passed, before anything is charged."""
    epsilon, delta = checks.positive("epsilon", arguments.epsilon), checks.probability("delta", arguments.delta)
    on_error = checks.one_of("on_error", arguments.on_error, selection.ON_ERROR)
    keys.refuse_trace("the key of tune_and_train()")
    rows, validation = fitting.check_rows(arguments.training, rows, validation)
    fitting.expect_small_delta(arguments.delta, rows, validation)
    return arguments._replace(epsilon=epsilon, delta=delta, on_error=on_error), rows, validation


def _select_and_train(
    arguments: fitting.TuningArguments,
    repetitions: accounting.Repetitions,
    cap: int | None,
    rows: Rows,
    validation: Rows | None,
    *,
    single_guarantee: bool = False,
) -> fitting.TuningResult:
    """Choose a setting and train with it; all arguments are checked. ``single_guarantee``: see ``tune_table``."""
    cut = 0.0 if cap is None else accounting.tail_probability(repetitions, cap)
    arguments = arguments._replace(delta=fitting.ideal_delta(arguments, repetitions.mean + 1, len(rows[1]), cut))
    split_assumptions = () if validation is None else (assumptions.ROWS_APART,)
    rows, validation = fitting.split_rows(rows, validation)
    validation, unseen = fitting.halve(validation)
    records, users = len(rows[1]), len(validation[1])
    level, noises, costs = _calibrate(arguments, records, repetitions)
    score_noise = calibration.sum_noise(
        level, fitting.NOISE, users=users, steps=1, dimension=1, dtype=jnp.result_type(float)
    )
    score_guarantee = composed_guarantee.gdp_guarantee(score_noise, fitting.VALIDATION)

    def run(number: int, key: jax.Array) -> tuple[Any, float]:
        of_training, of_score = jax.random.split(key)
        model = arguments.training.fit(deepcopy(arguments.settings[number]), noises[number], rows, of_training)
        return model, fitting.release_score(arguments.training, model, validation, score_noise, of_score)

    guarantees = selection.selection_guarantees(
        repetitions,
        arguments.settings,
        {
            fitting.TRAIN: costs,
            fitting.VALIDATION: stage.gaussian_stage(score_guarantee.level, "a noised score"),
        },
        arguments.delta,
        max(arguments.training.total_variation(setting, records) for setting in arguments.settings)
        + score_guarantee.total_variation,  # of the error too: it is one such draw, of other rows
        cap,
        (*fitting.row_assumptions(arguments.training), *split_assumptions),
    )
    if single_guarantee:
        guarantees = (replace(max(guarantees, key=lambda guarantee: guarantee.level), protects=_guarantee.ALL_ROWS),)
    of_choice, of_error = (None, keys.secret_key()) if arguments.key is None else jax.random.split(arguments.key)
    execution = selection.SelectionExecution(
        cap, arguments.on_error, arguments.ledgers, of_choice, arguments.insecure_key
    )
    selected = selection.select(run, tuple(range(len(arguments.settings))), repetitions, guarantees, execution)
    number = selected.setting
    scored = next(stated for stated in guarantees if stated.protects != fitting.TRAIN)
    error, deviation, interval = fitting.measure_unseen(arguments, selected.output, unseen, scored, of_error)
    result = fitting.TuningResult(
        selected.output,
        deepcopy(arguments.settings[number]),
        noises[number],
        selected.guarantees,
        error,
        deviation,
        interval,
    )
    notes.show(result.notes)
    return result


def _calibrate(
    arguments: fitting.TuningArguments, records: int, repetitions: accounting.Repetitions
) -> tuple[float, list[float], list[stage.Stage]]:
    """Compute the GDP level of a score, and the noise and the cost of a training with each setting; no data."""
    level, delta = (
        fitting.largest_mu(repetitions, arguments.epsilon, arguments.delta),
        arguments.delta / repetitions.mean,
    )

    def total_epsilon(costs: Sequence[stage.Stage]) -> float:
        by_rows = {fitting.TRAIN: costs}
        (train,) = selection.base_guarantees(repetitions, arguments.settings, by_rows, arguments.delta)
        return train.level

    noises, costs = fitting.calibrate(arguments, records, accounting.gdp_epsilon(level, delta), delta, total_epsilon)
    return level, noises, costs
