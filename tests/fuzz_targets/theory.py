"""Rows of ``jaxdpbo.theory``."""

from hypothesis import strategies as st

from fuzz_targets.target import Target, at_least_zero, whole
from fuzz_targets.valid_values import (
    constant,
    count,
    either,
    epsilon,
    few,
    floats_of,
    just,
    positive,
    probability,
    release,
    share,
    small,
)
from jaxdpbo import sensitivity
from jaxdpbo.accounting import prior_averaged_constants
from jaxdpbo.theory import dp_gibo as gibo_theory
from jaxdpbo.theory import dp_gp_ucb as ucb_theory
from jaxdpbo.theory import po_gp_ucb as po_theory


def proofs() -> dict[str, Target]:
    g, u, p, v, s = gibo_theory, prior_averaged_constants, po_theory, ucb_theory, sensitivity
    noise = {
        "clip_norm": positive,
        "steps": few,
        "users": count,
        "mu": positive,
        "dimension": few,
        "failure": probability,
    }
    traces = st.lists(positive, min_size=1, max_size=3)
    gap = {"initial_gap": positive, "step_size": st.floats(0.01, 1.0), "rkhs_norm": positive, "noise": positive}
    box = st.builds(u.Box, few, positive, st.floats(1.0, 5.0), positive)
    paper = either(*u.CONSTANTS)
    lipschitz = {"gain_lipschitz": positive, "loss_lipschitz": positive}
    return {
        "noise_radius": Target(g.noise_radius, noise, check=at_least_zero),
        "noise_term": Target(g.noise_term, noise, check=at_least_zero),
        "bias_radius": Target(g.bias_radius, {"trace": positive, "rkhs_norm": positive}, check=at_least_zero),
        "mean_squared_gradient_bound": Target(
            g.mean_squared_gradient_bound, {"traces": traces} | gap, check=at_least_zero
        ),
        "geometric_radius": Target(
            g.geometric_radius,
            {"traces": traces, "step_size": st.floats(0.01, 0.5), "convexity": st.floats(0.1, 1.9),
                "rkhs_norm": positive,
             "noise": positive},
            check=at_least_zero,
        ),
        "suboptimality_bound": Target(
            g.suboptimality_bound, {"traces": traces, "convexity": st.floats(0.1, 1.0)} | gap, check=at_least_zero
        ),
        "distance_bound": Target(g.distance_bound, {"suboptimality": positive, "convexity": positive},
            check=at_least_zero),
        "adaptive_mean_squared_gradient_bound": Target(
            g.adaptive_mean_squared_gradient_bound, {"tolerance": positive, "steps": few} | gap, tame=("steps",),
            check=at_least_zero,
        ),
        "adaptive_suboptimality_bound": Target(
            g.adaptive_suboptimality_bound,
            {"tolerance": positive, "steps": few, "convexity": st.floats(0.1, 1.0)} | gap, check=at_least_zero,
        ),
        "shares": Target(u.shares, {"delta": probability, "release": release, "exact": st.booleans(),
            "constants": paper}),
        "confidence_beta": Target(u.confidence_beta, {"candidates": count, "step": few, "share": probability}),
        "final_confidence_beta": Target(u.final_confidence_beta, {"candidates": count, "share": probability}),
        "box_confidence_beta": Target(
            u.box_confidence_beta, {"box": box, "step": few, "share": probability}, fixed=("box",)
        ),
        "net_size": Target(u.net_size, {"box": box, "step": few, "share": probability}, fixed=("box",)),
        "utilities": Target(
            s.utilities, {"candidates": count, "correlation": share, "share": probability}, check=at_least_zero
        ),
        "noise_gap": Target(
            u.noise_gap, {"deviation": positive, "steps": few, "share": probability, "constants": paper},
            check=at_least_zero,
        ),
        "average_regret": Target(
            u.average_regret, {"noise_variance": positive, "beta": positive, "information": positive, "steps": few},
            check=at_least_zero,
        ),
        "exact_regret": Target(
            u.exact_regret,
            {"beta": positive, "steps": few, "candidates": few, "information": just(constant(1.5)),
                "skip_threshold": positive},
            fixed=("information",), check=at_least_zero,
        ),
        "posterior_mean": Target(s.posterior_mean, {"beta": positive, "gap": positive}, check=at_least_zero),
        "largest_observation": Target(
            s.largest_observation, {"regret": positive, "gap": positive, "noise_gap": positive}, check=at_least_zero
        ),
        "decayed_regret": Target(
            u.decayed_regret,
            {"steps": st.integers(3, 50), "dimension": few, "amplitude": positive, "rate": small, "constants": paper},
            check=at_least_zero,
        ),
        "mean_gain": Target(
            s.mean_gain, {"users": count, "largest_gain": positive, "smallest": positive,
                "constants": paper} | lipschitz,
            check=at_least_zero,
        ),
        "regularisation": Target(
            s.regularisation, {"smallest": st.floats(0.1, 1), "largest": st.floats(1, 9)} | lipschitz,
            check=lambda found, _: found >= 0,
        ),
        "point_shortfall": Target(
            v.point_shortfall,
            {"candidates": count, "beta": positive, "sensitivity": positive, "epsilon": epsilon,
                "failure": probability},
        ),
        "selection_shortfall": Target(
            v.selection_shortfall,
            {"candidates": count, "sensitivity": positive, "epsilon": epsilon, "failure": probability},
        ),
        "value_error": Target(
            v.value_error,
            {"regret": positive, "noise_gap": positive, "sensitivity": positive, "epsilon": epsilon,
                "failure": probability},
            check=at_least_zero,
        ),
        "finite_constants": Target(
            u.finite_constants,
            {"candidates": count, "dimension": few, "steps": few, "delta": probability, "correlation": share,
             "noise_variance": either(0.0, 0.1, 2.0), "release": release, "information": just(constant(1.5)),
             "constants": paper, "decay": st.none(), "skip_threshold": either(0.0, 1e-10)},
            fixed=("information",), words=("deviation",),
        ),
        "box_constants": Target(
            u.box_constants,
            {"box": box, "grid": count, "steps": few, "delta": st.floats(0.1, 0.9),
                "delta_point": st.floats(0.01, 0.09),
             "correlation": share, "noise_variance": either(0.1, 2.0), "release": release,
             "information": just(constant(1.5))},
            fixed=("information", "box"), words=("deviation",),
        ),
        "rank_for_distances": Target(
            p.rank_for_distances, {"rows": count, "distortion": st.floats(0.01, 0.4), "failure": probability},
            check=whole
        ),
        "distance_factors": Target(
            p.distance_factors, {"distortion": st.floats(0.01, 0.4), "smallest_singular": positive,
                "threshold": positive}
        ),
        "diagonally_dominant": Target(p.diagonally_dominant, {"covariance": floats_of(3, 3)}),
        "distortion_for_regret": Target(
            p.distortion_for_regret, {"regret": positive, "diameter": positive, "largest_output": positive},
            check=at_least_zero,
        ),
        "simple_regret_bound": Target(
            p.simple_regret_bound,
            {"regret": positive, "steps": few, "beta": positive, "information": positive, "noise_variance": positive,
             "first_constant": positive, "second_constant": positive},
            check=at_least_zero,
        ),
        "replace_one_regret_floor": Target(
            p.replace_one_regret_floor, {"regrets": floats_of(4, elements=positive), "steps": few, "epsilon": epsilon},
            check=at_least_zero,
        ),
    }  # fmt: skip
