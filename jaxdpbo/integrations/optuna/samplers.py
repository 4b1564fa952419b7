"""GP-UCB and DPareto as Optuna samplers. A suggestion is as private as the values of the study.

Suggestions are post-processing of the stored values. In a ``private_study``, GP-UCB reads the noise of each value from
its trial. As in Optuna's own samplers, conditional parameters and changing ranges are drawn at random.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from jaxdpbo import checks
from jaxdpbo.algorithms import dpareto, gp_ucb
from jaxdpbo.algorithms.dpareto import surrogates
from jaxdpbo.integrations.optuna import coordinates
from jaxdpbo.surrogate import gp, gp_fit, kernels, preprocessing
from jaxdpbo.types import State

DEVIATION = "jaxdpbo:noise_deviation"  # attribute of a trial: the public standard deviation of the noise of its value
ROOM = 16  # trials of the first program; each further program holds twice as many
Params = dict[str, Any]
Distributions = dict[str, BaseDistribution]


class _Modelled(BaseSampler):
    """Suggest by a model of the ended trials, or at random before ``startup_trials``.

    A trial that failed, or with a value that is not finite, counts as the worst value so far, so the next suggestions
    keep away from it.
    """

    def __init__(self, *, startup_trials: int, seed: int | None):
        self._startup_trials = checks.size("startup_trials", startup_trials)
        self._rng = np.random.default_rng(seed)
        self._independent = RandomSampler(seed)
        self._spaces = IntersectionSearchSpace()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> Distributions:
        """The parameters common to all complete trials, with the same distribution."""
        del trial
        shared = self._spaces.calculate(study)
        return {name: distribution for name, distribution in shared.items() if not distribution.single()}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: Distributions) -> Params:
        """Suggest parameters by the model; none before ``startup_trials``."""
        del trial
        self._expect(study)
        ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.FAIL))
        trials = [past for past in ended if search_space.keys() <= past.params.keys()]
        costs = _costs(study, trials)
        if not search_space or np.sum(np.isfinite(costs[:, 0])) < self._startup_trials:
            return {}
        worst = np.max(costs, axis=0, where=np.isfinite(costs), initial=-np.inf)
        points = np.array(
            [
                [coordinates.encode(distribution, past.params[name]) for name, distribution in search_space.items()]
                for past in trials
            ]
        )
        key = jax.random.key(int(self._rng.integers(2**31)))
        place = self._propose(key, points, np.where(np.isfinite(costs), costs, worst), trials)
        return {
            name: coordinates.decode(distribution, coordinate)
            for (name, distribution), coordinate in zip(search_space.items(), place, strict=True)
        }

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw a parameter uniformly."""
        self._expect(study)
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """Draw new seeds, for parallel jobs."""
        self._rng = np.random.default_rng()
        self._independent.reseed_rng()

    def _expect(self, study: Study) -> None:
        raise NotImplementedError

    def _propose(
        self, key: jax.Array, points: np.ndarray, costs: np.ndarray, trials: Sequence[FrozenTrial]
    ) -> np.ndarray:
        """The next point ``(d,)``, from finite ``costs (n, objectives)`` at ``points (n, d)``."""
        raise NotImplementedError


class GPUCBSampler(_Modelled):
    """Sample by GP-UCB (``gp_ucb``) with known noise, refitting the kernel at every suggestion.

    >>> import optuna
    >>> from jaxdpbo.integrations.optuna import GPUCBSampler
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=GPUCBSampler(seed=0))
    >>> study.optimize(lambda trial: trial.suggest_float("x", 0, 1) ** 2, n_trials=3)
    >>> len(study.trials)
    3

    Args:
      startup_trials: the number of random trials before the first suggestion of the model.
      noise_deviation: standard deviation of the noise for trials without this attribute; None to estimate the noise.
      seed: the seed of suggestions, not a secret.
    """

    def __init__(self, *, startup_trials: int = 5, noise_deviation: float | None = None, seed: int | None = None):
        """Check the arguments."""
        super().__init__(startup_trials=startup_trials, seed=seed)
        self._deviation = None if noise_deviation is None else checks.nonnegative("noise_deviation", noise_deviation)

    def _expect(self, study: Study) -> None:
        self._raise_error_if_multi_objective(study)

    def _propose(
        self, key: jax.Array, points: np.ndarray, costs: np.ndarray, trials: Sequence[FrozenTrial]
    ) -> np.ndarray:
        config, padded = _pad(points)
        measured = [trial for trial in trials if trial.state == TrialState.COMPLETE]
        deviation = jnp.asarray(noise_deviation(measured, self._deviation))
        utilities = jnp.asarray(_fill(-costs[:, 0], len(padded)))
        point = _suggest(key, config, padded, utilities, len(points), deviation)
        return np.asarray(point, float)


class DParetoSampler(_Modelled):
    """Sample by DPareto (``dpareto``), for studies of two objectives such as epsilon and error.

    >>> from jaxdpbo.integrations.optuna import DParetoSampler
    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(directions=["minimize", "minimize"], sampler=DParetoSampler(seed=0))
    >>> study.optimize(lambda trial: (trial.suggest_float("x", 0, 1), 0.5), n_trials=2)
    >>> len(study.trials)
    2

    Args:
      startup_trials: the number of random trials before the first suggestion of the models.
      acquisition: the acquisition of ``dpareto``: "hvpoi_transformed" or "ehvi".
      seed: the seed of suggestions, not a secret.
    """

    def __init__(self, *, startup_trials: int = 8, acquisition: str = "ehvi", seed: int | None = None):
        """Check the arguments."""
        super().__init__(startup_trials=startup_trials, seed=seed)
        self._acquisition = checks.one_of("acquisition", acquisition, ("ehvi", "hvpoi_transformed"))

    def _expect(self, study: Study) -> None:
        if len(study.directions) != 2:
            raise ValueError(f"DParetoSampler needs a study of two objectives, got {len(study.directions)}")

    def _propose(
        self, key: jax.Array, points: np.ndarray, costs: np.ndarray, trials: Sequence[FrozenTrial]
    ) -> np.ndarray:
        del trials
        low, scale = costs.mean(axis=0), np.maximum(costs.std(axis=0), 1e-12)
        standard = (costs - low) / scale
        size = _room(len(points))
        config = dpareto.config(
            bounds={"low": np.zeros(points.shape[1]), "high": np.ones(points.shape[1])},
            initial_design=np.full((1, points.shape[1]), 0.5),
            proposals=1,
            acquisition=self._acquisition,
        )
        point = _suggest_front(
            key,
            config,
            jnp.asarray(_fill(points, size)),
            jnp.asarray(_fill(standard, size)),
            len(points),
            jnp.asarray(standard.max(axis=0) + 0.1),
        )
        return np.asarray(point, float)


def _costs(study: Study, trials: Sequence[FrozenTrial]) -> np.ndarray:
    """Values to minimise ``(n, objectives)``; a row is NaN where a trial failed or has a value that is not finite."""
    signs = np.array([1.0 if direction == StudyDirection.MINIMIZE else -1.0 for direction in study.directions])
    rows = [np.nan * signs if trial.values is None else signs * np.array(trial.values, float) for trial in trials]
    costs = np.array(rows).reshape(len(trials), len(signs))
    return np.where(np.all(np.isfinite(costs), axis=1, keepdims=True), costs, np.nan)


def noise_deviation(done: Sequence[FrozenTrial], otherwise: float | None) -> float:
    """The root mean square of the trials' noise deviations; NaN if a trial has none and ``otherwise`` is None."""
    deviations = [trial.user_attrs.get(DEVIATION, otherwise) for trial in done]
    return float("nan") if None in deviations else float(np.sqrt(np.mean(np.square(np.asarray(deviations, float)))))


def observation_posterior(points: np.ndarray, utilities: np.ndarray, deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """The posterior mean and standard deviation at the evaluated points, with a fitted kernel and known noise."""
    config, padded = _pad(points)
    values = jnp.asarray(_fill(utilities, len(padded)))
    mean, width = _posterior(jax.random.key(0), config, padded, values, len(points), jnp.asarray(deviation))
    return np.asarray(mean, float)[: len(points)], np.asarray(width, float)[: len(points)]


def _room(count: int) -> int:
    size = ROOM
    while size < count:
        size *= 2
    return size


def _fill(rows: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([rows, np.zeros((size - len(rows), *rows.shape[1:]))])


def _pad(points: np.ndarray) -> tuple[gp_ucb.Config, jax.Array]:
    size, dimension = _room(len(points)), points.shape[1]
    box = {"low": np.zeros(dimension), "high": np.ones(dimension)}
    return gp_ucb.config(steps=size, bounds=box, kernel=kernels.matern52), jnp.asarray(_fill(points, size))


def _fit(key, config, points, utilities, count, deviation):
    """The state of GP-UCB after ``count`` trials with a fitted kernel; a NaN ``deviation`` is fitted too."""
    mask = jnp.arange(points.shape[0]) < count
    standard = preprocessing.standardize(jnp.where(mask, utilities, 0.0), mask)  # not ranked: their noise is known
    spread = jnp.var(jnp.where(mask, utilities, 0.0), where=mask)
    share = jnp.square(deviation) / jnp.where(spread > 0, spread, 1.0)  # of the variance: values are standardised
    start = dataclasses.replace(
        config.model, noise_variance=jnp.where(jnp.isnan(share), config.model.noise_variance, jnp.maximum(share, 1e-6))
    )
    fit = gp_fit.fit(key, start, points, standard, mask, num_restarts=2, steps=30, scale=gp_ucb.FIT_SCALE)
    model = dataclasses.replace(
        fit, noise_variance=jnp.where(jnp.isnan(share), fit.noise_variance, start.noise_variance)
    )
    after = gp.condition(model, points, mask)
    worked = jnp.all(jnp.isfinite(after.whitening))
    model = jax.tree.map(lambda new, old: jnp.where(worked, new, old), model, start)
    values = jnp.where(mask, utilities, -jnp.inf)
    return gp_ucb.Raw(model, gp.condition(model, points, mask), None, values, standard)


@jax.jit
def _suggest(key, config, points, utilities, count, deviation):
    fit_key, ask_key = jax.random.split(key)
    private = _fit(fit_key, config, points, utilities, count, deviation)
    state = State(gp_ucb.PublicState(jnp.asarray(count, jnp.int32), None), private)
    return gp_ucb.ask(ask_key, config, state).points[0]


@jax.jit
def _posterior(key, config, points, utilities, count, deviation):
    private = _fit(key, config, points, utilities, count, deviation)
    mean, variance = gp.predict(private.model, private.factorization, private.values, points)
    mask = jnp.arange(points.shape[0]) < count
    level = jnp.mean(utilities, where=mask)
    width = jnp.std(utilities, where=mask)
    return level + width * mean, width * jnp.sqrt(variance)


@jax.jit
def _suggest_front(key, config, points, standard, count, reference):
    mask = jnp.arange(points.shape[0]) < count
    zero = jnp.zeros(2, standard.dtype)
    measured = surrogates.Observations(
        points, standard, mask, mask, zero, zero + 1.0, reference.astype(standard.dtype), config.model
    )
    measured = measured._replace(models=surrogates.fit_models(config, measured, count))
    return surrogates.propose(key, config, measured, surrogates.surrogate_posterior(measured))[0]
