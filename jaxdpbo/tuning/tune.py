"""One statement for tuning and training: the setting and the model that leave, for every row that either looked at."""

from collections.abc import Mapping, Sequence

import jax

from jaxdpbo import _checks
from jaxdpbo.privacy import accounting, charges, keys
from jaxdpbo.tuning import _by_blocks, _by_selection, _by_trials, _routes, selection
from jaxdpbo.tuning.training import Rows, Setting, Training

AUTO = "auto"
ROUTES = (_by_selection.NAME, _by_blocks.NAME, _by_trials.NAME)


def tune_and_train(
    training: Training,
    rows: Rows,
    settings: Sequence[Setting],
    *,
    epsilon: float,
    delta: float,
    validation: Rows | None = None,
    route: str = AUTO,
    mean: float = _by_selection.MEAN_RUNS,
    eta: float = _by_selection.ETA,
    k: int | None = None,
    on_error: str = "worst",
    recordings: Mapping[str, charges.Recording] | None = None,
    key: jax.Array | None = None,
    insecure_key: bool = False,
) -> _routes.Tuned:
    """Choose a setting and train with it, ``(epsilon, delta)``-DP in all.

    Formal guarantee: replacing one row changes the law of all that is returned by ``(epsilon, delta)`` at most. With
    "selection" and "trials" the statements of training and of validation rows both hold, each for its own; with
    "blocks" one holds for all rows.

    ============  ========================================================================================
    route         what it does
    ============  ========================================================================================
    "selection"   private trainings with settings drawn at random, scored on rows held out, with noise; the
                  best alone leaves (``private_selection``)
    "blocks"      blocks of rows try every setting, one private choice (15 % of ``mu^2``), one private
                  training with the rest
    "trials"      private trainings at two small budgets (25 % of ``mu^2``) with four settings drawn at random,
                  scored as above; a line through the best of both says how far the one at the end goes, as
                  it is within what the list reaches (Panda et al. 2024; ``training.Reaching``)
    "auto"        "selection"
    ============  ========================================================================================

    >>> import numpy as np
    >>> from jaxdpbo import tuning
    >>> from jaxdpbo.training import models
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 5))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> settings = [{"learning_rate": rate, "batch": 64, "epochs": 2, "clip_norm": 1.0} for rate in (0.01, 0.1, 1.0)]
    >>> training = tuning.DPSGD(models.logistic_regression(5))
    >>> tuned = tuning.tune_and_train(training, (X, y), settings, epsilon=2, delta=1e-5)
    >>> max(each.epsilon(delta=1e-5) for each in tuned.guarantees) <= 2
    True

    Args:
      training: what is tuned, such as ``DPSGD``.
      rows: ``(features, labels)``.
      settings: a public list, of a fixed length.
      epsilon: of all that is returned.
      delta: likewise.
      validation: rows to score on; a fifth of ``rows``, by a public permutation of row numbers, where not given.
        "blocks" needs none.
      route: see above.
      mean: of the number of trainings of a selection.
      eta: see ``private_selection``.
      k: of "blocks", how many; where not given a 30th of the rows, at most 100.
      on_error: "raise" for looking for mistakes on data that nobody minds: otherwise a training that fails has lost.
      recordings: by set of rows ("training rows", "validation rows"; of "blocks", ``guarantee.ALL_ROWS``), where its
        statement is charged before anything begins.
      key: for tests; from the operating system where not given.
      insecure_key: see ``run_scan``.

    Raises:
      ValueError: an argument out of range, or a budget so small that no noise suffices.
      TypeError: an argument of the wrong kind, or a training without ``reach`` for "trials".
      ledger.LedgerError: the budget does not suffice, or the name was used before.
    """
    settings = selection.settings_of(settings)
    taken = _by_selection.NAME if _checks.choice("route", route, (AUTO, *ROUTES)) == AUTO else route
    epsilon, delta = _checks.positive("epsilon", epsilon), _checks.probability("delta", delta)
    on_error = _checks.choice("on_error", on_error, selection.ON_ERROR)
    keys.refuse_trace("the key of tune_and_train()")
    if validation is not None and taken == _by_blocks.NAME:
        raise ValueError("validation must not be given for route='blocks': blocks hold rows out of their own")
    rows, validation = _routes.given(training, rows, validation)
    law = accounting.repetitions(eta, mean)
    # How many trainings' and searches' noise counts, on average.
    times = {_by_selection.NAME: law.mean + 1, _by_blocks.NAME: 2.0, _by_trials.NAME: 2.0 * _by_trials.COUNT + 2}[taken]
    asked = _routes.Asked(training, settings, epsilon, delta, recordings, key, insecure_key, on_error)
    asked = asked._replace(delta=_routes.ideal_delta(asked, times, len(rows[1])))
    if taken == _by_blocks.NAME:
        return _by_blocks.tuned(asked, rows, k)
    if taken == _by_trials.NAME:
        return _by_trials.tuned(asked, rows, validation)
    return _by_selection.tuned(asked, rows, validation, law)
