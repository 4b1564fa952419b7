"""Propose points by the mean losses of public records: a Gaussian process search that needs no privacy.

A Sobol design for a third of the evaluations, then batches of ``BATCH`` points: half of each by Thompson sampling, half
by the posterior mean. The proposals are the points with the least posterior mean, and Thompson draws around the best.
Everything runs on the host in float64, so that a search that is run again proposes the same points.

Rasmussen and Williams (2006), algorithm 2.1, equations 4.17 (Matern 5/2) and 5.9; Thompson sampling in batches as in
Kandasamy et al. (2018).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy  # submodules load on first use

from jaxdpbo.space import Branches, Categorical, Space

Evaluate = Callable[[np.ndarray], np.ndarray]
BATCH = 4
DESIGN_SHARE = 1 / 3  # of the evaluations
SPREAD_SHARE = 1 / 3  # of the proposals, spread over the box
POOL = 512  # candidates of a batch; half around the best points
NUM_BEST, MUTATION_SCALE = 4, 0.15  # best points that are mutated; deviation of a mutation, in sides of the box
OUTLIER = 2.0  # values are clipped at median + OUTLIER (median - minimum): failed fits must not set the scale
PRIOR_DEVIATION = 1.0  # of the logarithms of lengthscales, noise and variance
PRIOR_LENGTHSCALE, PRIOR_NOISE = 0.5, 1e-2  # medians, in sides of the box, and over the variance of the values
NUGGET, DRAW_NUGGET = 1e-8, 1e-6  # the difference of two covariances has lost digits


class Box(NamedTuple):
    """Points in the unit box, as the surrogate sees them.

    Attributes:
      dimension: ``d``.
      space: with its whole numbers and categories; None for a box of real numbers.
    """

    dimension: int
    space: Space | None

    def snap(self, points: np.ndarray) -> np.ndarray:
        """Move whole numbers and categories to the middle of their intervals."""
        return points if self.space is None else self.space.snap(points)

    def to_features(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates ``(m, c)`` with a column for each category, and the dimension ``(c,)`` of each column."""
        columns, column_axes = [], []
        for axis in range(self.dimension):
            column = points[:, axis : axis + 1]
            kind = None if self.space is None else self.space.dimensions[axis]
            if isinstance(kind, (Branches, Categorical)):
                # different categories lie at distance 1
                column = (kind.decode(column, np) == np.arange(kind.count)) / np.sqrt(2)
            columns.append(column)
            column_axes += [axis] * column.shape[1]
        return np.concatenate(columns, axis=1), np.array(column_axes)


def propose(evaluate: Evaluate, box: Box, evaluations: int, proposals: int, design: np.ndarray) -> np.ndarray:
    """Return ``proposals`` points ``(p, d)`` of the unit box.

    A third are evaluated points by increasing posterior mean, a third are minima of posterior draws (Thompson sampling)
    near the best points, and a third are spread over the box: public records may have their minimum elsewhere.

    Args:
      evaluate: ``(points (b, d)) -> mean losses (b,)`` of public records; infinite where a loss has no value.
      box: the unit box.
      evaluations: the number of points to evaluate.
      proposals: the number of points to return.
      design: points ``(evaluations, d)`` of a low-discrepancy sequence; the first are evaluated first.
    """
    rng = np.random.default_rng(0)
    points = box.snap(design[: max(2, round(DESIGN_SHARE * evaluations))][:evaluations])
    values = evaluate(points)
    while len(points) < evaluations:
        size = min(BATCH, evaluations - len(points))
        surrogate = _fit(box, points, values)
        pool = _candidates(box, points, surrogate, rng, num_uniform=POOL // 2)
        chosen = _select_batch(surrogate, box, pool, size, rng)
        points, values = np.concatenate([points, chosen]), np.concatenate([values, evaluate(chosen)])
    surrogate = _fit(box, points, values)
    order = np.argsort(surrogate.predict(box.to_features(points)[0])[0], kind="stable")
    near = proposals - round(SPREAD_SHARE * proposals)
    pool = _candidates(box, points, surrogate, rng, num_uniform=0)
    drawn = pool[_thompson(surrogate, box, pool, 2 * proposals, rng)]
    best = _distinct(np.concatenate([_distinct(points[order])[: -(-near // 2)], drawn, points[order], pool]))[:near]
    spread = box.snap(design[len(design) - (proposals - near) :])
    candidates = _distinct(np.concatenate([best, spread, drawn, points[order], pool]))
    return np.resize(candidates[:proposals], (proposals, box.dimension))  # a small space has fewer points: repeat them


class _Surrogate(NamedTuple):
    """A posterior of ``k`` observations.

    Attributes:
      features: ``(k, c)``, of the points.
      factor: ``L (k, k)``, ``L L^T`` being the covariance of the observations.
      weights: ``(k,)``, its inverse times the values.
      lengthscales: ``(c,)``, in sides of the box.
      variance: prior variance of the function.
    """

    features: np.ndarray
    factor: np.ndarray
    weights: np.ndarray
    lengthscales: np.ndarray
    variance: float

    def predict(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean ``(m,)``, and ``L^-1`` times the covariances with the points, ``(k, m)``."""
        cross = _kernel(self.features, features, self.lengthscales, self.variance)[0]
        return cross.T @ self.weights, scipy.linalg.solve_triangular(self.factor, cross, lower=True)

    def draw(self, features: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws ``(count, m)`` of the function at all of these places together."""
        mean, whitened = self.predict(features)
        covariance = _kernel(features, features, self.lengthscales, self.variance)[0] - whitened.T @ whitened
        covariance[np.diag_indices_from(covariance)] += DRAW_NUGGET * self.variance
        factor = np.linalg.cholesky(covariance)
        return mean + rng.standard_normal((count, len(mean))) @ factor.T


def _fit(box: Box, points: np.ndarray, values: np.ndarray) -> _Surrogate:
    """The posterior at the most probable lengthscales, variance and noise."""
    features, column_axes = box.to_features(points)
    targets = _standardise(values)
    start = np.concatenate([np.full(box.dimension, np.log(PRIOR_LENGTHSCALE)), [0.0, np.log(PRIOR_NOISE)]])

    def objective(logs: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _negative_log_likelihood(logs, features, column_axes, targets)
        deviations = (logs - start) / PRIOR_DEVIATION
        return value + 0.5 * float(deviations @ deviations), slope + deviations / PRIOR_DEVIATION

    limits = [(centre - 4.0, centre + 4.0) for centre in start]
    logs = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=limits).x
    lengthscales, variance = np.exp(logs[:-2])[column_axes], float(np.exp(logs[-2]))
    covariance = _kernel(features, features, lengthscales, variance)[0]
    covariance[np.diag_indices_from(covariance)] += np.exp(logs[-1]) + NUGGET
    factor = np.linalg.cholesky(covariance)
    return _Surrogate(features, factor, scipy.linalg.cho_solve((factor, True), targets), lengthscales, variance)


def _negative_log_likelihood(
    logs: np.ndarray, features: np.ndarray, column_axes: np.ndarray, targets: np.ndarray
) -> tuple[float, np.ndarray]:
    """With its slope, by the logarithms of the lengthscales, the variance and the noise."""
    lengthscales, variance, noise = np.exp(logs[:-2])[column_axes], np.exp(logs[-2]), np.exp(logs[-1])
    gram, slope_by_square = _kernel(features, features, lengthscales, variance)
    covariance = gram.copy()
    covariance[np.diag_indices_from(covariance)] += noise + NUGGET
    factor = np.linalg.cholesky(covariance)
    inverse = scipy.linalg.cho_solve((factor, True), np.eye(len(targets)))
    weights = inverse @ targets
    outer = inverse - np.outer(weights, weights)
    slopes = np.zeros_like(logs)
    for column, owner in enumerate(column_axes):
        differences = np.subtract.outer(features[:, column], features[:, column]) / lengthscales[column]
        slopes[owner] += 0.5 * float(np.sum(outer * slope_by_square * -2 * differences**2))
    slopes[-2], slopes[-1] = 0.5 * float(np.sum(outer * gram)), 0.5 * float(noise * np.trace(outer))
    return float(np.sum(np.log(np.diag(factor))) + 0.5 * targets @ weights), slopes


def _kernel(
    first: np.ndarray, second: np.ndarray, lengthscales: np.ndarray, variance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Matern 5/2 of all pairs, and its slope by the squared scaled distance."""
    squares = scipy.spatial.distance.cdist(first / lengthscales, second / lengthscales, "sqeuclidean")
    scaled = np.sqrt(5 * squares)
    decay = variance * np.exp(-scaled)
    return decay * (1 + scaled + scaled**2 / 3), -5 / 6 * decay * (1 + scaled)


def _standardise(values: np.ndarray) -> np.ndarray:
    """Values of mean 0 and variance 1; high ones, and those that are not finite, count up to ``OUTLIER``.

    Where most values tie at the least, as shares of errors in a few rows do, the next higher value sets the scale: a
    failed point must never look like the best.
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.zeros(len(values))
    least, middle = np.min(finite), np.median(finite)
    if middle == least:
        middle = np.min(finite, where=finite > least, initial=np.inf)
        middle = middle if np.isfinite(middle) else least + 1.0
    high = middle + OUTLIER * (middle - least)
    clipped = np.where(np.isfinite(values), np.minimum(values, high), high)
    deviation = np.std(clipped)
    return (clipped - np.mean(clipped)) / deviation if deviation > 0 else np.zeros(len(values))


def _candidates(
    box: Box, points: np.ndarray, surrogate: _Surrogate, rng: np.random.Generator, *, num_uniform: int
) -> np.ndarray:
    """Distinct candidates that are not evaluated: some anywhere, the others around the best points."""
    means = surrogate.predict(box.to_features(points)[0])[0]
    best = points[np.argsort(means, kind="stable")[:NUM_BEST]]
    centres = best[rng.integers(0, len(best), POOL - num_uniform)]
    moved = rng.random(centres.shape) < 0.5
    moved[np.arange(len(centres)), rng.integers(0, box.dimension, len(centres))] = True
    near = np.clip(np.where(moved, centres + MUTATION_SCALE * rng.standard_normal(centres.shape), centres), 0.0, 1.0)
    candidates = box.snap(np.concatenate([rng.random((num_uniform, box.dimension)), near]))
    fresh = _distinct(np.concatenate([points, candidates]))[len(_distinct(points)) :]
    return fresh if len(fresh) else candidates


def _select_batch(surrogate: _Surrogate, box: Box, pool: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Half of a batch by Thompson sampling, half by the least posterior mean."""
    means = surrogate.predict(box.to_features(pool)[0])[0]
    rows = dict.fromkeys(_thompson(surrogate, box, pool, size // 2, rng))
    rows |= dict.fromkeys(np.argsort(means, kind="stable")[:size].tolist())
    return np.resize(pool[list(rows)[:size]], (size, box.dimension))


def _thompson(surrogate: _Surrogate, box: Box, pool: np.ndarray, count: int, rng: np.random.Generator) -> list[int]:
    """The rows of the minima of ``count`` draws."""
    draws = surrogate.draw(box.to_features(pool)[0], count, rng)
    return np.argmin(draws, axis=1).tolist()


def _distinct(points: np.ndarray) -> np.ndarray:
    """Each point once, in the order of its first place."""
    _, first = np.unique(points, axis=0, return_index=True)
    return points[np.sort(first)]
