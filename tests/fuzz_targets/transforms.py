"""Rows of ``jaxdpbo.transforms``, ``jaxdpbo.input_noise`` and ``jaxdpbo.audit.threshold_audit``."""

from hypothesis import strategies as st

from fuzz_targets.odd_values import anything, odd_private
from fuzz_targets.target import Target, at_least_zero, finite, is_guarantee, whole
from fuzz_targets.valid_values import (
    distinct,
    either,
    epsilon,
    few,
    floats_of,
    just,
    key,
    positive,
    private_rows,
    probability,
    secret,
    share,
    words,
)
from jaxdpbo import audit as _auditing
from jaxdpbo import input_noise, transforms
from jaxdpbo.guarantee import guarantees


def curators() -> dict[str, Target]:
    place = {"centre": floats_of(2), "scale": positive, "epsilon": st.floats(0.6, 20.0)}
    options = {"radius": st.none() | positive, "noise": either(*transforms.NOISES)}
    made = st.sampled_from([
        transforms.product_laplace(centre=[0.0, 0.0], scale=1.0, epsilon=1.0),
        transforms.product_laplace(centre=[0.0, 0.0], scale=1.0, epsilon=1.0, radius=2.0, noise="float"),
        transforms.gaussian(centre=[0.0, 0.0], scale=1.0, epsilon=1.0, delta=0.1, radius=2.0),
        transforms.randomised_response(centre=[0.0, 0.0], scale=1.0, epsilon=1.0, cells=[[0.0, 0.0], [1.0, 1.0]]),
    ])  # fmt: skip
    noised = {"check": lambda found, _: is_guarantee(found.guarantee, None)}
    distribution = st.builds(input_noise.distribution, either(*input_noise.KINDS), positive, few)
    response = {"cells": distinct(), "truth": probability}
    fields = distribution.map(lambda one: one._asdict()) | st.fixed_dictionaries(response)
    made_response = st.builds(lambda one: input_noise.response(one, 0.5), distinct())
    guarantee = st.builds(guarantees.guarantee, either("gdp", "dp", "metric_dp"), positive, just("replace_one"), words)
    audit = st.builds(
        lambda hits, delta: _auditing.epsilon_lower_bound(hits, 1, 20, delta=delta),
        st.integers(1, 20),
        share.filter(lambda x: x < 1),
    )
    wrong_fields = st.dictionaries(
        either("kind", "scale", "dimension", "cells", "truth", "more"), anything(), max_size=4
    )
    return {
        "random_projection": Target(
            transforms.random_projection,
            {"dimension": few, "projected": few, "epsilon": epsilon, "delta": probability, "scale": positive},
            tame=("dimension",), **noised,
        ),
        "threshold": Target(
            transforms.threshold, {"projected": few, "epsilon": epsilon, "delta": probability}, check=at_least_zero
        ),
        "largest_rank": Target(
            transforms.largest_rank, {"smallest_singular": positive, "epsilon": epsilon, "delta": probability},
            check=whole,
        ),
        "product_laplace": Target(transforms.product_laplace, place | options, **noised),
        "planar_laplace": Target(transforms.planar_laplace, place | options, **noised),
        "gaussian": Target(transforms.gaussian, place | options | {"delta": probability}, **noised),
        "private_projection": Target(
            transforms.private_projection, place | options | {"delta": probability, "projected": just(1)}, **noised
        ),
        "randomised_response": Target(
            transforms.randomised_response, place | {"cells": distinct(), "noise": either(*transforms.NOISES)},
            **noised
        ),
        "curate": Target(
            transforms.curate,
            {"key": secret(), "config": made, "inputs": private_rows(), "insecure_key": st.booleans()},
            fixed=("config",), private=("inputs",), odd={"inputs": odd_private()},
            check=lambda found, _: finite(found.z, None) and is_guarantee(found.guarantee, None),
        ),
        "input_noise.distribution": Target(
            input_noise.distribution, {"kind": either(*input_noise.KINDS), "scale": positive, "dimension": few}),
        "input_noise.response": Target(input_noise.response, response),
        "input_noise.distribution_from_dict": Target(
            input_noise.distribution_from_dict, {"fields": fields}, odd={"fields": wrong_fields | anything()},
            words=("kind", "scale", "dimension", "cells", "truth"),
        ),
        "input_noise.variance": Target(
            input_noise.variance, {"distribution": distribution}, fixed=("distribution",), check=at_least_zero),
        "input_noise.difference_variances": Target(
            input_noise.difference_variances, {"distribution": distribution}, fixed=("distribution",)),
        "threshold_audit": Target(
            _auditing.threshold_audit,
            {"first": floats_of(8), "second": floats_of(8), "delta": st.floats(0, 0.5),
             "bound": either("epsilon", "mu")},
            words=("scores",), weight=0.3,
        ),
        "trade_off": Target(_auditing.trade_off, {"first": floats_of(8), "second": floats_of(8)}, words=("scores",),
            weight=0.3),
        "epsilon_lower_bound": Target(
            _auditing.epsilon_lower_bound,
            {"correct": st.integers(0, 9), "wrong": st.integers(0, 9), "trials": st.integers(9, 50),
             "delta": st.floats(0, 0.5)},
            check=lambda found, _: at_least_zero(found.epsilon, None),
        ),
        "outcome_scores": Target(
            _auditing.outcome_scores, {"first": floats_of(8), "second": floats_of(8)}, words=("scores",), weight=0.3
        ),
        "declared_trade_off": Target(
            _auditing.declared_trade_off, {"guarantee": guarantee, "type_one": floats_of(4, elements=share)},
            fixed=("guarantee",), words=("notion",), weight=0.3,
        ),
        "is_refuted": Target(
            _auditing.is_refuted, {"audit": audit, "guarantee": guarantee, "distance": positive},
            fixed=("audit", "guarantee"),
            words=("delta", "metric_dp", "prior_averaged_dp"), weight=0.3,
        ),
        "input_noise.draw_noise": Target(
            input_noise.draw_noise, {"key": key(), "distribution": distribution, "count": just(2)},
            fixed=("key", "distribution", "count"),
            weight=0.2),
        "input_noise.probabilities": Target(
            input_noise.probabilities, {"response": made_response}, fixed=("response",), check=finite,
            weight=0.2),
        "input_noise.cell_variances": Target(
            input_noise.cell_variances, {"response": made_response}, fixed=("response",), check=finite,
            weight=0.2),
    }  # fmt: skip
