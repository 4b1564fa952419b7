"""Mechanisms alone, on the pair that their proofs are about: all of the sensitivity, in the worst direction."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.audits.rows import Row, claim, score_both, simulate
from jaxdpbo import accounting, audit
from jaxdpbo.accounting import noise_shares
from jaxdpbo.noise import clipping, mechanisms, private_scale, wide_integers

MOVED, RATE = 8, Fraction(1, 8)  # on the grid: one unit of epsilon
TRUTH, CHANCES = Fraction(6, 10), (Fraction(6, 10), Fraction(2, 10), Fraction(2, 10))
RADIUS, WIDTH = 64, 128
SHARE = 128  # of the noise of a silo
FAR = 24  # cells, of the planar noise: a cone behind the first point, which is not much of the plane


def rows() -> list[Row]:
    return [
        _noise_row("gaussian, float", "gdp", 1.0, lambda key: mechanisms.gaussian(key, jnp.zeros(()), 1.0), 1.0),
        _noise_row("laplace, float", "dp", 1.0, lambda key: mechanisms.laplace(key, jnp.zeros(()), 1.0), 1.0),
        *(
            _noise_row(
                f"rounded_gaussian, sigma {sigma}",
                "gdp",
                accounting.rounded_gaussian_mu(sigma, sigma),
                lambda key, sigma=sigma: mechanisms.rounded_gaussian(key, (), sigma),
                sigma,
            )
            for sigma in (4, 64)  # one table, and the sum of two
        ),
        _noise_row("discrete_laplace", "dp", 1.0, lambda key: mechanisms.discrete_laplace(key, (), RATE), MOVED),
        _choice_row("exponential, float", lambda key, scores: mechanisms.exponential(key, scores, 1.0, 1.0), 1.0, 3.0),
        _choice_row(
            "exact_exponential",
            lambda key, scores: mechanisms.exact_exponential(key, scores.astype(jnp.int32), RATE / 2),
            MOVED,
            3 * MOVED,
        ),
        _choice_row(
            "noisy_argmax (geometric)",
            lambda key, scores: mechanisms.noisy_argmax(key, scores.astype(jnp.int32), RATE / 2),
            MOVED,
            MOVED,
        ),
        Row(
            "planar_laplace",
            claim("metric_dp", float(RATE), relation="unit_distance", unit=1.0),
            _planar_scores,
            distance=FAR,
        ),
        _scale(),
        Row("outcome", claim("dp", math.log(TRUTH / CHANCES[1])), _outcome),
        _noise_row(
            f"discrete_gaussian, sigma {SHARE}",
            "gdp",
            noise_shares.discrete_gaussian_mu(SHARE, SHARE**2),
            lambda key: mechanisms.discrete_gaussian(key, (), SHARE),
            SHARE,
        ),
        Row("clipped_sum + rounded_gaussian", _sum_claim(), _clipped_sum),
    ]


def _scale() -> Row:
    """One user alone, whose number is below the whole grid or above it."""
    noise = private_scale.scale_noise(1.0, "exact", dtype=float)

    def scores(trials):
        median = partial(private_scale.median, noise=noise)
        ends = np.array([2.0**50]), np.array([0.0])
        return score_both(np.log2, simulate(lambda key, number: median(key, numbers=number), *ends, trials))

    return Row("private_scale.median", claim("gdp", private_scale.level(noise)), scores)


def _noise_row(name: str, notion: str, level: float, noise: Callable[[Any], Any], moved: float) -> Row:
    """Noise on a value that neighbours move by ``moved``."""

    def scores(trials):
        return score_both(np.ravel, simulate(lambda key, value: value + noise(key), moved, 0 * moved, trials))

    return Row(name, claim(notion, level), scores)


def _choice_row(name: str, choose: Callable[[Any, Any], Any], moved: float, behind: float) -> Row:
    """A choice among three scores: row 0 falls, the two others rise, each by ``moved``.

    ``behind``, how far row 0 is behind to begin with, decides how near the odds come to their bound, and how rare they
    are: the exponential mechanism's normalising sum must be the others'.
    """
    first, second = (np.array([base - behind, top, top]) for base, top in ((2 * moved, moved), (moved, 2 * moved)))
    offset = 100.0 * moved  # exact_exponential counts from 0

    def scores(trials):
        return audit.outcome_scores(*simulate(choose, first + offset, second + offset, trials))

    return Row(name, claim("dp", 1.0), scores)


def _planar_scores(trials):
    points = np.array([0, 0], np.int32), np.array([FAR, 0], np.int32)
    drawn = simulate(lambda key, point: point + mechanisms.planar_laplace(key, 1, RATE)[0], *points, trials)
    return score_both(lambda z: np.linalg.norm(z - points[1], axis=1) - np.linalg.norm(z, axis=1), drawn)


def _outcome(trials):
    def response(key, truth):
        return (truth + mechanisms.outcome(key, (), CHANCES)) % len(CHANCES)

    return audit.outcome_scores(*simulate(response, 0, 1, trials))


def _sum_claim():
    return claim("gdp", accounting.rounded_gaussian_mu(2 * RADIUS, WIDTH))


def _clipped_sum(trials):
    """User 0 is as far out as can be, on one side or the other."""
    losses = np.array([[1e6, 0.3, -0.2], [1e6, -0.1, 0.4]])

    def release_sum(key, losses):
        total, _, _ = clipping.weighted_clipped_sum(jnp.eye(2), losses, jnp.ones(()), jnp.int32(RADIUS))
        noise = wide_integers.widen(mechanisms.rounded_gaussian(key, (2,), WIDTH))
        return jnp.sum(wide_integers.to_float(wide_integers.add(total, noise), losses.dtype))

    return simulate(release_sum, losses, losses * np.array([[-1.0, 1.0, 1.0]]), trials)
