"""Whole runs of the private algorithms, on a user who does the worst that can be done at every step."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.audits.rows import Row, claim, score_both, simulate
from jaxdpbo import audit, dp_gp_ucb, drivers, gp_ucb, kernels, phases, private_choice
from jaxdpbo.algorithms import dp_gd, dp_gibo, private_estimate, private_evaluations, private_linear
from jaxdpbo.noise import choice as _choice

USERS, STEPS, STEP_SIZE = 2, 3, 1e-3
WORST = np.array([1e6, 0.0]), np.array([-1e6, 0.0])  # slopes far beyond the clip, always of one sign
LINE = np.array([[0.0], [1.0]])  # candidates; a point is its own number
GAINS = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 1.0], [0.0, 1.0]])  # of each user at each candidate


def rows() -> list[Row]:
    return [
        *(_descent(f"dp_gibo, {noise}", dp_gibo, slope_times_place, noise) for noise in ("exact", "float")),
        _descent("dp_gibo, exact, private clip norm", dp_gibo, slope_times_place, "exact", clip_norm="private"),
        _descent("dp_gd, exact", dp_gd, dp_gd.gradient_objective(slope_times_place), "exact"),
        *(_evaluations(noise) for noise in ("exact", "float")),
        _private_range(),
        Row("PrivateObjective, one value", claim("gdp", _objective(1e3, 1).guarantee.level), _single_values),
        *(_gains(release) for release in ("point", "value", "both")),
        *(_search(noise, (0.1, 0.8, 0.1)) for noise in ("exact", "float")),
        _search("exact", (0.45, 0.1, 0.45), ", mostly choices"),
        _estimate(),
        _linear(),
    ]


def slope_times_place(point, slopes):
    return slopes * point[0]


def slope_from_afar(point, slopes):
    return slopes * (10 + point[0])


def either_end(point, losses):
    """Losses ``(n,)`` that are the same everywhere: the sum of all released values is then the best score."""
    del point
    return losses


def gains_of_row(point, gains):
    """Gains ``(n,)`` at a candidate of ``gains (n, c)``."""
    return gains[:, point[0].astype(int)]


def _descent(name, module, objective, noise, clip_norm=0.5):
    """Plain descent gives every privatised gradient away; the likelihood ratio of a run is monotone in their sum."""
    options = (
        {"batch": 2, "kernel_params": kernels.stationary_params(1.0, 1), "polish_steps": 0} if module is dp_gibo else {}
    )
    chosen = module.config(
        users=USERS, steps=STEPS, mu=1.0, bounds=[[-np.inf], [np.inf]], theta0=[0.0], step_size=STEP_SIZE,
        clip_norm=clip_norm, noise=noise, **options,
    )  # fmt: skip

    def total(key, slopes):
        path = drivers.pure_run(module.algorithm, objective, slopes, chosen, key)[0].path
        return path[0, 0] - path[-1, 0]

    return Row(name, module.algorithm.privacy(chosen), lambda trials: simulate(total, *WORST, trials))


def _evaluations(noise):
    inner = gp_ucb.config(steps=STEPS, noise_variance=0.1, candidates=LINE)
    chosen = private_evaluations.config(
        gp_ucb.algorithm, inner, users=USERS, mu=1.0, loss_range=(0.0, 1.0), noise=noise
    )

    def total(key, losses):
        algorithm = private_evaluations.make_algorithm(gp_ucb.algorithm)
        return jnp.sum(drivers.pure_run(algorithm, either_end, losses, chosen, key)[0].values)

    def scores(trials):
        return simulate(total, np.array([9.0, 0.5]), np.array([-9.0, 0.5]), trials)

    return Row(f"private_evaluations, {noise}", private_evaluations.privacy(chosen), scores)


def _private_range():
    """One user's slope is beyond every range, up or down; the other has none."""
    places = 1.0 + LINE
    inner = gp_ucb.config(steps=STEPS, noise_variance=0.1, candidates=places)
    chosen = private_evaluations.config(
        gp_ucb.algorithm, inner, users=USERS, mu=1.0, loss_range="private", design=[[0.0], [1.0]]
    )

    def total(key, slopes):
        algorithm = private_evaluations.make_algorithm(gp_ucb.algorithm)
        released = drivers.pure_run(algorithm, slope_times_place, slopes, chosen, key)[0]
        return jnp.sum(released.values) / released.high

    return Row(
        "private_evaluations, private range",
        private_evaluations.privacy(chosen),
        lambda trials: simulate(total, *WORST, trials),
    )


def _objective(loss, evaluations, seed=0):
    """An object whose every value is 1-GDP by itself."""
    return drivers.PrivateObjective(
        either_end,
        np.array([loss, 0.5]),
        users=USERS,
        mu=math.sqrt(evaluations),
        evaluations=evaluations,
        loss_range=(0.0, 1.0),
        key=jax.random.key(seed),
        insecure_key=True,
    )


def _single_values(trials):
    """The shipped object itself, asked as often as there are trials: each value has its own key."""
    objectives = (_objective(loss, trials, seed) for seed, loss in enumerate((1e3, -1e3)))
    return tuple(np.array([objective(None) for _ in range(trials)]) for objective in objectives)


def _gains(release):
    """Algorithm 3, in order: user 0 lowers one candidate's utility and raises the other's.

    For the value alone: all of user 0's gains, up or down. For both: the release's likelihood ratio is a sum.
    """
    chosen = dp_gp_ucb.in_order_config(candidates=LINE, users=USERS, epsilon=1.0, largest_gain=1.0, release=release)
    data = (np.ones((2, 2)), np.array([[0.0, 0.0], [1.0, 1.0]])) if release == "value" else GAINS

    def draw_release(key, gains):
        result = drivers.pure_run(dp_gp_ucb.algorithm, gains_of_row, gains, chosen, key)[0]
        return {"row": result.row, "value": result.value}

    def ratio(outputs):
        scores = np.zeros(len(jax.tree.leaves(outputs)[0]))
        if outputs["row"] is not None:
            scores += float(chosen.epsilon_point) * (outputs["row"] == 0)
        if outputs["value"] is not None:
            best = [float(np.max(np.mean(gains, axis=0))) for gains in data]
            scale = 0.5 / float(chosen.epsilon_value)  # one of two users, gains up to 1
            scores += (np.abs(outputs["value"] - best[1]) - np.abs(outputs["value"] - best[0])) / scale
        return scores

    def scores(trials):
        drawn = simulate(draw_release, *data, trials)
        if release == "point":
            return audit.outcome_scores(*(outputs["row"] for outputs in drawn))
        return score_both(ratio, drawn)

    return Row(f"dp_gp_ucb, Algorithm 3 in order: {release}", dp_gp_ucb.algorithm.privacy(chosen), scores)


def _search(noise, shares, label=""):
    """The default of ``minimize`` where a choice is sharp: start, descent and answer, all pushed one way by user 0."""
    first, middle, last = (math.sqrt(share) for share in shares)
    ends = np.array([[-1.0], [1.0]])
    inner = dp_gibo.config(
        users=USERS, steps=STEPS, mu=middle, bounds=[(-2.0, 2.0)], box_units=False, step_size=STEP_SIZE, batch=2,
        clip_norm=0.5, noise=noise, kernel_params=kernels.stationary_params(1.0, 1), polish_steps=0,
    )  # fmt: skip
    around = {"users": USERS, "bounds": [(-2.0, 2.0)], "loss_range": (0.0, 1.0), "batch": 2, "noise": noise}
    start = private_choice.design_config(points=ends, mu=first, **around)
    answer = private_choice.answers_config(mu=last, **around)
    chosen = phases.config(start, inner, answer)
    algorithm = phases.make_algorithm(private_choice.design, dp_gibo.from_point, private_choice.at_answers)

    def draw_release(key, slopes):
        result = drivers.pure_run(algorithm, slope_times_place, slopes, chosen, key)[0]
        low, high = jnp.min(result.points), jnp.max(result.points)
        return {
            "start": -jnp.sign(result.phases[0].point[0]),
            "moved": (result.path[0, 0] - result.path[-1, 0]) / STEP_SIZE,
            "answer": (result.point[0] == low).astype(float) - (result.point[0] == high).astype(float),
        }

    def ratio(outputs):
        """The logarithm of the likelihood ratio, but for the prior of the answer."""
        of_start, of_answer = (_choice.pure_level(choice.noise) for choice in (start, answer))
        clipped, deviation = 0.5 / USERS, 2 * 0.5 * math.sqrt(STEPS) / (USERS * middle)
        moved = 2 * clipped * outputs["moved"] / deviation**2
        return of_start / 2 * outputs["start"] + moved + of_answer / 2 * outputs["answer"]

    return Row(
        f"private_choice around dp_gibo, {noise}{label}",
        algorithm.privacy(chosen),
        lambda trials: score_both(ratio, simulate(draw_release, *WORST, trials)),
    )


def _estimate():
    """User 0 pushes the descent one way, and the loss at its end to one end of the range."""
    mu = math.sqrt(0.5)
    descent = dp_gibo.config(
        users=USERS, steps=STEPS, mu=mu, bounds=[[-np.inf], [np.inf]], theta0=[0.0], step_size=STEP_SIZE,
        clip_norm=0.5, batch=2, kernel_params=kernels.stationary_params(1.0, 1), polish_steps=0,
    )  # fmt: skip
    estimate = private_estimate.config(users=USERS, mu=mu, bounds=[(-1e3, 1e3)], loss_range=(0.0, 1.0))
    chosen = phases.config(descent, estimate)
    algorithm = phases.make_algorithm(phases.Phase(dp_gibo.algorithm), private_estimate.at_answer)

    def ratio(key, slopes):
        result = drivers.pure_run(algorithm, slope_from_afar, slopes, chosen, key)[0]
        moved = (result.path[0, 0] - result.path[-1, 0]) / STEP_SIZE
        apart, deviation = 2 * 0.5 / USERS, 2 * 0.5 * math.sqrt(STEPS) / (USERS * mu)
        return moved * apart / deviation**2 + result.loss / USERS / private_evaluations.deviation(estimate) ** 2

    return Row("private_estimate, exact", algorithm.privacy(chosen), lambda trials: simulate(ratio, *WORST, trials))


def _linear():
    """User 0 has one feature, and a target at one end or the other: every residual is clipped, the same way.

    The other user has none. Two rows apart cannot move the Gram matrix and the steps the furthest at once: this pair
    attacks the steps, which have the larger share.
    """
    norms = (0.5, 0.25, 0.25)
    chosen = private_linear.config(users=USERS, features=1, mu=1.0, clip_norms=norms)

    def features_and_target(point, rows):
        del point
        return rows.T

    def ratio(key, rows):
        public = drivers.pure_run(private_linear.algorithm, features_and_target, rows, chosen, key)[1].state.public
        slopes = jnp.diff(public.path[:, 0, 0]) / public.inverse[0, 0]
        units = jnp.stack([private_linear.slope_unit(chosen, chosen.clip_norms[step]) for step in range(len(norms))])
        return 2 * jnp.sum(chosen.clip_norms * slopes / (units * private_linear.SIGMA) ** 2)

    ends = tuple(np.array([[1.0, end], [0.0, 0.0]]) for end in (1.0, -1.0))
    stated = private_linear.algorithm.privacy(chosen)
    return Row("private_linear, exact", stated, lambda trials: simulate(ratio, *ends, trials))
