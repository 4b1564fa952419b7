"""One statement for tuning and training: the setting and the model that leave, for every row that either looked at."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks, _quiet
from jaxdpbo.algorithms import private_search
from jaxdpbo.drivers import run_loop
from jaxdpbo.privacy import accounting, calibration, charges, guarantee, keys, private_mean, separable
from jaxdpbo.privacy.accounting import stage
from jaxdpbo.tuning import selection
from jaxdpbo.tuning import training as trainings
from jaxdpbo.tuning.training import Rows, Setting, Training

AUTO, SELECTION, BLOCKS = "auto", "selection", "blocks"
ROUTES = (SELECTION, BLOCKS)
TRAIN, VALIDATION = "training rows", "validation rows"
HELD_OUT = 0.2  # of the rows, where no validation rows are given
SEARCH_SHARE = 0.15  # of mu^2, for the search of the route "blocks"
MEAN_RUNS = 8.0  # of a selection
NOISE = "exact"
LARGEST, LEAST_ROWS = 50.0, 10  # of epsilon, and of rows
DRAWS = 1e-20  # more than the total variation of a search's or a score's own noise
LEAST_SHARE = 0.02  # of epsilon, that one training may cost
SHRUNK = 0.985  # what a training may cost, until all of it fits


class Tuned(NamedTuple):
    """All that may be published.

    Attributes:
      model: of the private training; None where it failed.
      setting: that it was trained with.
      noise: of that training, by its own measure.
      guarantees: a statement for each set of rows, or for all of them.
      route: that was taken.
    """

    model: Any
    setting: Setting
    noise: float
    guarantees: tuple[guarantee.Guarantee, ...]
    route: str


def tune_and_train(
    training: Training,
    rows: Rows,
    settings: Sequence[Setting],
    *,
    epsilon: float,
    delta: float,
    validation: Rows | None = None,
    route: str = AUTO,
    mean: float = MEAN_RUNS,
    eta: float = 0.0,
    k: int | None = None,
    on_error: str = "worst",
    recordings: Mapping[str, charges.Recording] | None = None,
    key: jax.Array | None = None,
    insecure_key: bool = False,
) -> Tuned:
    """Choose a setting and train with it, ``(epsilon, delta)``-DP in all.

    Formal guarantee: replacing one row changes the law of all that is returned by ``(epsilon, delta)`` at most. With
    "selection" the statements of training and of validation rows both hold, each for its own; with "blocks" one holds
    for all rows.

    ============  ========================================================================================
    route         what it does
    ============  ========================================================================================
    "selection"   private trainings with settings drawn at random, scored on rows held out, with noise; the
                  best alone leaves (``private_selection``)
    "blocks"      blocks of rows try every setting, one private choice (15 % of ``mu^2``), one private
                  training with the rest
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
      k: of "blocks", how many; where not given a 300th of the rows, from 10 to 100.
      on_error: "raise" for looking for mistakes on data that nobody minds: otherwise a training that fails has lost.
      recordings: by set of rows ("training rows", "validation rows"; of "blocks", ``guarantee.ALL_ROWS``), where its
        statement is charged before anything begins.
      key: for tests; from the operating system where not given.
      insecure_key: see ``run_scan``.

    Raises:
      ValueError: an argument out of range, or a budget so small that no noise suffices.
      TypeError: an argument of the wrong kind.
      ledger.LedgerError: the budget does not suffice, or the name was used before.
    """
    settings = selection.settings_of(settings)
    taken = SELECTION if _checks.choice("route", route, (AUTO, *ROUTES)) == AUTO else route
    epsilon, delta = _checks.positive("epsilon", epsilon), _checks.probability("delta", delta)
    keys.refuse_trace("the key of tune_and_train()")
    rows = _checked("rows", rows, training)
    if validation is not None:
        if taken == BLOCKS:
            raise ValueError("validation must not be given for route='blocks': blocks hold rows out of their own")
        validation = _checked("validation", validation, training)
        if any(np.shares_memory(one, other) for one, other in zip(rows, validation, strict=True)):
            raise ValueError("validation must be other rows than those that train: these are the same")
    law = accounting.repetitions(eta, mean)
    times = law.mean + 1 if taken == SELECTION else 2.0  # of a training, or of a search
    asked = _Asked(training, settings, epsilon, delta, recordings, key, insecure_key, on_error)
    asked = asked._replace(delta=_ideal_delta(asked, times, len(rows[1])))
    if taken == BLOCKS:
        return _by_blocks(asked, rows, k)
    return _by_selection(asked, rows, validation, law)


class _Asked(NamedTuple):
    training: Training
    settings: tuple[Setting, ...]
    epsilon: float
    delta: float
    recordings: Mapping[str, charges.Recording] | None
    key: jax.Array | None
    insecure_key: bool
    on_error: str


def _ideal_delta(asked: _Asked, times: float, records: int) -> float:
    """What is left of ``delta`` for ideal noise: exact noise is within a total variation of it."""
    variation = max(asked.training.total_variation(each, records) for each in asked.settings) + DRAWS
    if asked.epsilon > LARGEST:
        raise ValueError(f"epsilon must be at most {LARGEST:g}, got {asked.epsilon:g}")
    left = asked.delta - (1 + np.exp(asked.epsilon)) * times * variation
    if not left > asked.delta / 2:
        raise ValueError(f"delta must be larger, or epsilon smaller: exact noise alone takes {asked.delta - left:g}")
    return float(left)


def _by_selection(asked: _Asked, rows: Rows, validation: Rows | None, law: accounting.Repetitions) -> Tuned:
    given = validation is not None
    if validation is None:
        order = np.random.default_rng(0).permutation(len(rows[1]))
        cut = round(HELD_OUT * len(order))
        rows, validation = (_taken(rows, part) for part in (order[cut:], order[:cut]))
    records, users = len(rows[1]), len(validation[1])
    level = _largest_mu(law, asked.epsilon, asked.delta)
    law_of = partial(selection.statements, law, asked.settings, delta=asked.delta)
    noises, costs = _calibrated(
        asked,
        records,
        accounting.gdp_epsilon(level, asked.delta / law.mean),
        asked.delta / law.mean,
        lambda of: law_of({TRAIN: of})[0].level,
    )
    budget = calibration.budget(level, NOISE, users=users, steps=1, dimension=1, dtype=jnp.result_type(float))
    stated = calibration.statement(budget, VALIDATION)

    def run(number: int, key: jax.Array) -> tuple[Any, float]:
        of_training, of_score = jax.random.split(key)
        model = asked.training.fit(deepcopy(asked.settings[number]), noises[number], rows, of_training)
        lost = jnp.asarray(asked.training.losses(model, validation), float)
        if lost.shape != (users,):
            raise ValueError(f"losses must have shape ({users},), got {lost.shape}")
        return model, float(_noised(of_score, budget, lost))

    of_noise = max(asked.training.total_variation(each, records) for each in asked.settings)
    found = selection.private_selection(
        run,
        range(len(asked.settings)),
        mean=law.mean,
        eta=law.eta,
        costs={TRAIN: costs, VALIDATION: stage.gaussian(stated.level, "a noised score")},
        delta=asked.delta,
        run_total_variation=of_noise + stated.total_variation,
        assumptions=(*asked.training.assumptions(), *((guarantee.ROWS_APART,) if given else ())),
        on_error=asked.on_error,
        recordings=asked.recordings,
        key=asked.key,
        insecure_key=asked.insecure_key,
    )
    return Tuned(found.output, asked.settings[found.setting], noises[found.setting], found.guarantees, SELECTION)


def _by_blocks(asked: _Asked, rows: Rows, k: int | None) -> Tuned:
    records = len(rows[1])
    whole = accounting.gdp_mu(asked.epsilon, asked.delta)
    of_search, of_training = np.sqrt(SEARCH_SHARE) * whole, np.sqrt(1 - SEARCH_SHARE) * whole
    count = max(10, min(100, records // 300)) if k is None else k
    points = np.arange(len(asked.settings), dtype=float)[:, None]
    design = private_search.Round(points, 0 * points, np.zeros(points.shape, bool))
    config = private_search.config(
        users=count,
        bounds={"low": [-0.5], "high": [len(points) - 0.5]},
        loss_range=(0.0, 1.0),
        rounds=[design],
        choice_mu=[float(of_search)],
        batch=1,
        noise=NOISE,
    )
    algorithm = private_search.algorithm_of()
    search = algorithm.privacy(config)

    def stages(costs: Sequence[stage.Stage]) -> list[stage.Stage]:
        """The training was chosen by the search: what is composed is one curve above all of them."""
        curve = accounting.worst_of([each.profile for each in costs])
        return [stage.gaussian(search.level, "the search"), stage.under(curve, "the training")]

    noises, costs = _calibrated(
        asked,
        records,
        accounting.gdp_epsilon(float(of_training), asked.delta),
        asked.delta,
        lambda of: accounting.total(stages(of), asked.delta).epsilon,
    )
    composed = accounting.total(stages(costs), asked.delta)
    variation = max(asked.training.total_variation(each, records) for each in asked.settings) + search.total_variation
    stated = guarantee.of_total(
        composed,
        guarantee.ALL_ROWS,
        assumptions=(guarantee.RANDOM_BITS, guarantee.FAILS_BY_NOISE, guarantee.BLOCKS_APART),
        total_variation=variation,
    )
    stated = stated.assuming(*asked.training.assumptions())
    secret, stated = keys.for_release(asked.key, stated, asked.insecure_key)
    of_run, of_blocks, of_last = jax.random.split(secret, 3)

    def learner(point: Any, train: Rows, held_out: Rows) -> float:
        number = round(float(point[0]))
        key = jax.random.fold_in(of_blocks, np.random.randint(2**31))  # noqa: NPY002 (seeded for the block and setting)
        model = asked.training.fit_block(deepcopy(asked.settings[number]), noises[number], train, records, key)
        lost = np.asarray(asked.training.losses(model, held_out), float)
        return float(np.mean(np.clip(np.where(np.isnan(lost), 0.5, lost), 0.0, 1.0)))

    objective = separable.blocks(learner, records, count, on_error=asked.on_error)
    selection.charge(asked.recordings, (stated,), "tune and train by blocks", asked.settings)
    found = run_loop(algorithm, objective, rows, config, key=of_run, insecure_key=True).release
    chosen = round(float(found.point[0]))
    model = _fitted(asked, chosen, noises[chosen], rows, of_last)
    return Tuned(model, asked.settings[chosen], noises[chosen], (stated,), BLOCKS)


def _fitted(asked: _Asked, number: int, noise: float, rows: Rows, key: jax.Array) -> Any:
    """The model, unheard; None where the training fails: an exception may quote rows."""
    with _quiet.unheard():
        try:
            return asked.training.fit(deepcopy(asked.settings[number]), noise, rows, key)
        except (Exception, SystemExit):
            if asked.on_error == "raise":
                raise
            return None


def _calibrated(
    asked: _Asked, records: int, epsilon: float, delta: float, of_all: Callable[[Sequence[stage.Stage]], float]
) -> tuple[list[float], list[stage.Stage]]:
    """The noise of each setting, so that one training costs the same and ``of_all`` what was asked for; no data."""
    while True:
        noises = [trainings.noise_for(asked.training, each, records, epsilon, delta) for each in asked.settings]
        costs = [
            asked.training.cost(setting, noise, records) for setting, noise in zip(asked.settings, noises, strict=True)
        ]
        if of_all(costs) <= asked.epsilon:
            return noises, costs
        epsilon *= SHRUNK
        if epsilon < LEAST_SHARE * asked.epsilon:
            raise ValueError(f"delta must be smaller beside an epsilon of {asked.epsilon:g}, got {asked.delta:g}")


def _largest_mu(law: accounting.Repetitions, epsilon: float, delta: float) -> float:
    """Of one run, so that the selection is within ``(epsilon, delta)``."""
    low, high = 0.0, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        fits = accounting.selection_epsilon(law, partial(accounting.gdp_delta, middle), delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


def _checked(name: str, rows: Any, training: Training) -> Rows:
    """Arrays: of a list, one odd label would change the type of all."""
    if not isinstance(rows, (tuple, list)) or len(rows) != 2:
        raise TypeError(f"{name} must be (features, labels), got {type(rows).__name__}")
    if not all(isinstance(leaf, (np.ndarray, jax.Array)) and leaf.dtype.kind in "fiub" for leaf in rows):
        raise TypeError(f"{name} must be two arrays of numbers")
    features, labels = map(np.asarray, rows)
    if features.ndim < 1 or features.shape[:1] != labels.shape[:1] or len(labels) < LEAST_ROWS:
        raise ValueError(
            f"{name} must be {LEAST_ROWS} or more features and as many labels, got {features.shape}, {labels.shape}"
        )
    training.expect((features, labels))
    return features, labels


def _taken(rows: Rows, part: np.ndarray) -> Rows:
    return tuple(np.asarray(leaf)[part] for leaf in rows)  # pyright: ignore[reportReturnType]


@jax.jit
def _noised(key: jax.Array, budget: calibration.Budget, losses: jax.Array) -> jax.Array:
    zero = jnp.zeros((), losses.dtype)
    return private_mean.of_losses(key, budget, losses[None], zero, zero + 1)[0][0]
