"""What carries no guarantee, or not the one that was printed: here the attack must succeed."""

import jax.numpy as jnp
import numpy as np

from benchmarks.audits import algorithms
from benchmarks.audits.rows import Row, claim, score_both, simulate
from jaxdpbo import audit, dp_gp_ucb, drivers, gp_ucb, mechanisms, random_search, transforms

ROWS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 2.0], [0.5, 0.5]])
ASSUMED = 1.0  # an epsilon that somebody might take for granted where nothing is claimed


def rows() -> list[Row]:
    return [
        Row("random_projection (paper: theorem 1)", claim("dp", 1.0, delta=1e-5), _column_space, holds=False),
        *(_worst_pair(number, variance) for number, variance in ((1, 0.01), (2, 0.0))),
        _half_of_what_moves(),
        Row("laplace, float, read to the last bit", claim("dp", 1.0), _last_bits, holds=False),
        Row("random_search", claim("dp", ASSUMED), _random_search_scores, holds=False),
        Row("gp_ucb", claim("dp", ASSUMED), _gp_ucb_scores, holds=False),
    ]


def _column_space(trials):
    """Five rows, the last of them a unit of distance nearer or not: the fit of one affine map has no error."""
    chosen = transforms.random_projection(dimension=2, projected=3, epsilon=1.0, delta=1e-5)
    neighbour = ROWS.copy()
    neighbour[-1] -= np.array([0.6, 0.8])

    def release(key, inputs):
        return transforms.project(key, chosen, inputs)

    def misfit(z):
        """The column-space attack on many releases: how badly one affine map fits all rows with either candidate."""
        fits = []
        for data in (ROWS, neighbour):
            design = np.column_stack([data, np.ones(len(data))])
            left = np.eye(len(data)) - design @ np.linalg.pinv(design)
            fits.append(np.linalg.norm(np.einsum("ij,tjr->tir", left, z), axis=(1, 2)))
        return np.log(fits[1] + 1e-300) - np.log(fits[0] + 1e-300)

    return score_both(misfit, simulate(release, ROWS, neighbour, trials, together=False))


def _worst_pair(number, variance):
    """Algorithms 1 and 2 average over their prior: a pair of data sets that no draw of it has is distinguished."""
    chosen = dp_gp_ucb.finite_config(
        steps=2, epsilon=1.0, delta=0.05, correlation=0.95, candidates=algorithms.LINE, noise_variance=variance,
        constants="paper", noise="float",
    )  # fmt: skip

    def row_of(key, utilities):
        return drivers.pure_run(dp_gp_ucb.algorithm, utility_of_row, utilities, chosen, key)[0].row

    def scores(trials):
        drawn = simulate(row_of, np.array([900.0, -900.0]), np.array([-900.0, 900.0]), trials, together=False)
        return audit.outcome_scores(*drawn)

    name = f"dp_gp_ucb, Algorithm {number}, on the worst pair (paper: corollary {number})"
    return Row(name, claim("dp", 1.0, delta=0.05), scores, holds=False)


def utility_of_row(point, utilities):
    return utilities[point[0].astype(int)]


def _half_of_what_moves():
    """Theorem 7's second term as printed: hinge loss, ``w = (1/2, 0)``, one of one users' label flipped moves 1/2."""
    chosen = dp_gp_ucb.lipschitz_config(
        candidates=[[1.0]], users=1, epsilon=1.0, largest_gain=2.0, steps=1, gain_lipschitz=0.5, loss_lipschitz=0.5,
        constants="paper",
    )  # fmt: skip

    def value(key, gains):
        return drivers.pure_run(dp_gp_ucb.algorithm, algorithms.either_end, gains, chosen, key)[0].value

    def scores(trials):
        return simulate(value, np.full(1, 1.25), np.full(1, 0.75), trials)

    return Row("dp_gp_ucb, Algorithm 3, printed constants", claim("dp", 1.0), scores, holds=False)


def _last_bits(trials):
    """Noise around 1 is a multiple of half the machine's precision, noise around 0 often is not: the value is named.

    Why what is released has exact noise, and the claims for floats rest on "ideal noise".
    """
    drawn = simulate(lambda key, value: mechanisms.laplace(key, value, 1.0), 0.0, 1.0, trials)
    grain = np.finfo(drawn[0].dtype).eps / 2
    return score_both(lambda released: (np.remainder(released, grain) != 0).astype(float), drawn)


def mean_gain_of_row(point, gains):
    return jnp.mean(algorithms.gains_of_row(point, gains))


def _random_search_scores(trials):
    """Random search keeps the point of least raw loss: user 0 says on which side."""
    chosen = random_search.config(users=2, steps=4, bounds=[[0.0], [1.0]])

    def point(key, slopes):
        return drivers.pure_run(random_search.algorithm, algorithms.slope_times_place, slopes, chosen, key)[0].point[0]

    return simulate(point, np.array([-9.0, 1.0]), np.array([9.0, 1.0]), trials)


def _gp_ucb_scores(trials):
    """GP-UCB names the candidate of largest raw utility."""
    chosen = gp_ucb.config(steps=3, noise_variance=0.01, candidates=algorithms.LINE)

    def point(key, gains):
        released = drivers.pure_run(gp_ucb.algorithm, mean_gain_of_row, gains, chosen, key)[0]
        return released.point[0]

    drawn = simulate(point, np.array([[1.0, 0.0], [0.0, 0.5]]), np.array([[0.0, 1.0], [0.0, 0.5]]), trials)
    return audit.outcome_scores(*(np.rint(points).astype(int) for points in drawn))
