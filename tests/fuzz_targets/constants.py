"""Rows of the constants and sensitivities of prior-averaged privacy."""

from hypothesis import strategies as st

from fuzz_targets.target import Target, at_least_zero
from fuzz_targets.valid_values import (
    constant,
    count,
    either,
    few,
    just,
    positive,
    probability,
    release,
    share,
    small,
)
from jaxdpbo import sensitivity
from jaxdpbo.accounting import prior_averaged_constants


def constants() -> dict[str, Target]:
    u, s = prior_averaged_constants, sensitivity
    box = st.builds(u.Box, few, positive, st.floats(1.0, 5.0), positive)
    paper = either(*u.CONSTANTS)
    lipschitz = {"gain_lipschitz": positive, "loss_lipschitz": positive}
    return {
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
    }  # fmt: skip
