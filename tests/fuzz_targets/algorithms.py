"""Rows of ``jaxdpbo.algorithms``."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
from hypothesis import strategies as st
from protocol_cases import BOUNDS, CANDIDATES, CASES, MIXED

from fuzz_targets.objectives import first_losses
from fuzz_targets.odd_values import anything, is_gigantic
from fuzz_targets.target import Target, at_least_zero, finite, promises
from fuzz_targets.valid_values import (
    any_float,
    boxes,
    count,
    distinct,
    either,
    epsilon,
    few,
    floats_of,
    just,
    key,
    positive,
    probability,
    release,
    secret,
    share,
    small,
    wide,
)
from jaxdpbo import (
    dp_gd,
    dp_gp_ucb,
    drivers,
    kernels,
    phases,
    po_gp_ucb,
    private_choice,
    private_estimate,
    private_linear,
    random_search,
    space,
    transforms,
)
from jaxdpbo.accounting import prior_averaged_constants
from jaxdpbo.algorithms import dp_gibo, dpareto, gp_ucb, private_evaluations
from jaxdpbo.checks import low_high
from jaxdpbo.drivers import compiled_steps
from jaxdpbo.noise import keys
from jaxdpbo.surrogate import box_search

FIRST = private_choice.design_config(
    users=5, bounds=low_high(BOUNDS), loss_range=(0.0, 1.0), batch=2, points=CANDIDATES[:2], mu=0.5
)
NO_NUMBERS = (
    np.array([[0j, 0], [1, 1]]), [[0j, 0.0], [1.0, 1.0]], [["0", "0"], ["1", "1"]], np.array([["0"], ["1"]]),
    [[b"0"], [b"1"]],
    np.array([["0"], ["1"]], object), [[None, 0.0], [1.0, 1.0]],
    np.array(["2020-01-01", "2021-01-01"], "datetime64[D]")[:, None],
)  # fmt: skip


def nothing_may_pass(*_):
    return False


def configs() -> dict[str, Target]:
    descent = {
        "users": either(4, 100), "steps": few, "mu": small, "bounds": boxes(),
        "clip_norm": positive | just("private"),
        "theta0": st.none(),
        "step_size": st.none() | positive, "optimizer": either(optax.sgd, optax.adagrad),
        "output": either("last", "last_half_mean"),
        "noise": either("exact", "float"),
    }  # fmt: skip
    search = {"raw_samples": either(8, 9), "num_restarts": either(1, 2), "ascent_steps": few}
    searched_box = {"search": st.builds(box_search.BoxSearch, either(8, 9), either(1, 2), few)}
    kernel = {"kernel": either(kernels.rbf, kernels.matern52), "kernel_params": st.none()}
    gibo = {
        "batch": st.none() | few, "noise_variance": positive, "tolerance": st.none() | positive,
        "memory": either(*dp_gibo.configs.MEMORIES),
        "remembered": either(0, 4), "polish_steps": few,
    }  # fmt: skip
    finite_set = {"candidates": distinct()}
    named = ("bounds", "candidates", "theta0", "step_size", "kernel_params", "kernel")
    ucb_options = {
        "steps": just(3), "users": st.none() | few, "noise_variance": positive, "beta": st.none() | positive,
        "delta": probability,
        "refit_every": st.integers(0, 3), "fit_steps": few,
        "answer": either(*gp_ucb.ANSWERS),
    }  # fmt: skip
    dp_ucb = {
        "steps": either(3), "epsilon": epsilon, "delta": probability, "correlation": share, "release": release,
        "point_share": probability, "noise_variance": either(0.0, 0.1), "centre": wide, "scale": positive,
        "noise": either("exact", "float"),
    }  # fmt: skip
    paper = {"decay": st.none(), "constants": either(*prior_averaged_constants.CONSTANTS)}
    gains = {
        "users": count, "epsilon": epsilon, "largest_gain": positive, "noise": either("exact", "float"),
    }  # fmt: skip
    searched_gains = {
        "steps": few, "gain_lipschitz": positive | just(math.inf), "loss_lipschitz": positive | just(math.inf),
        "acquisition": either("ucb", "expected_improvement"), "beta": positive,
        "constants": either(*prior_averaged_constants.CONSTANTS),
    }  # fmt: skip
    curated = transforms.curate(
        keys.key_from_bytes(bytes(32)), transforms.gaussian(centre=[0.0, 0.0], scale=1.0, epsilon=2.0, delta=0.1),
        CANDIDATES[:4],
    )  # fmt: skip
    inner = gp_ucb.config(steps=3, candidates=CANDIDATES[:4])
    searched = CASES["dpareto"].config(1.0)
    measured = dpareto.Release(
        point=jnp.asarray(CANDIDATES[0]), points=jnp.asarray(CANDIDATES[:3]),
        values=jnp.asarray([[1.0, 0.1], [2.0, 0.2], [0.5, 0.5]]), failed=jnp.zeros(3, jnp.int32),
        front=jnp.ones(3, bool),
        hypervolume=jnp.asarray(1.0), models=searched.model,
    )  # fmt: skip
    of_a_search = {"config": just(searched), "released": just(measured)}
    places = {"points": floats_of(2, 2, elements=any_float).map(jnp.asarray)}
    front = {
        "bounds": just(low_high(BOUNDS)), "initial_design": just(CANDIDATES[:2]), "proposals": few,
        "reference": st.tuples(positive, probability),
        "integer_mask": st.none(), "batch": either(1, 2), "acquisition": either(*dpareto.ACQUISITIONS),
        "fit_steps": few,
    }  # fmt: skip
    evaluations = {"users": count, "mu": small, "loss_range": just((0.0, 1.0)), "noise": either("exact", "float")}
    private_range = evaluations | {"loss_range": just("private"), "design": just([[0.0, 0.0], [1.0, 1.0]])}
    stationary_words = ("lengthscale", "variance", "users", "evaluations", "scale")
    return {
        "dp_gibo.config": Target(
            dp_gibo.config, descent | gibo | kernel, words=named, check=promises(dp_gibo.algorithm), weight=3
        ),
        "dp_gibo.holding_config": Target(
            lambda **options: dp_gibo.holding_config(bounds=MIXED, **options),
            {name: descent[name] for name in ("users", "steps", "mu", "clip_norm", "noise")} | gibo,
            check=promises(dp_gibo.holding.algorithm),
            weight=0.5,
        ),
        "space.real": Target(space.real, {"low": just(0.5), "high": st.floats(1, 9), "log": st.booleans()}),
        "space.integer": Target(space.integer, {"low": just(1), "high": st.integers(2, 9), "log": st.booleans()}),
        "space.branches": Target(
            lambda low, weight: space.branches(
                {"a": {"x": space.real(low, 9.5)}, "b": {}}, weights={"a": weight, "b": 1.0}
            ),
            {"low": st.floats(0, 9), "weight": st.floats(0.1, 9)},
            words=("weights", "low"),
        ),
        "space.linear": Target(
            lambda one, other, most: space.linear({"a": one, "b": other}, most=most),
            {"one": st.floats(0.1, 9), "other": st.floats(0.1, 9), "most": st.floats(-9, 9)},
            words=("weights", "most"),
        ),
        "space.categorical": Target(
            lambda one, other: space.categorical(one, other),
            {"one": just("a"), "other": either(None, True, 1.5, "b")},
            fixed=("one", "other"),
            words=("choices",),
        ),
        "private_choice.design_config": Target(
            lambda **options: phases.config(private_choice.design_config(**options)),
            {
                "users": count,
                "bounds": just(low_high(BOUNDS)),
                "loss_range": just((0.0, 1.0)),
                "batch": just(2),
                "points": just(CANDIDATES[:2]),
                "mu": small,
                "noise": either("exact", "float"),
            },
            tame=("points",),
            words=("points", "choice", "users", "mu"),
            check=promises(phases.make_algorithm(private_choice.design)),
        ),
        "private_choice.near_config": Target(
            lambda **options: phases.config(FIRST, private_choice.near_config(**options)),
            {
                "users": just(5),
                "bounds": just(low_high(BOUNDS)),
                "loss_range": just((0.0, 1.0)),
                "batch": just(2),
                "points": just(CANDIDATES[:2]),
                "kept": either(np.ones((2, 2), bool), np.zeros((2, 2), bool)),
                "mu": small,
            },
            tame=("points", "kept"),
            words=("points", "choice", "users", "mu"),
            check=promises(phases.make_algorithm(private_choice.design, private_choice.near)),
            weight=0.5,
        ),
        "private_choice.answers_config": Target(
            private_choice.answers_config,
            {
                "users": count,
                "bounds": just(low_high(BOUNDS)),
                "loss_range": just((0.0, 1.0)),
                "batch": few,
                "mu": small,
            },
            words=("choice", "users", "mu"),
            weight=0.5,
        ),
        "private_estimate.config": Target(
            private_estimate.config,
            evaluations | {"users": just(5), "bounds": just(low_high(BOUNDS))},
            words=("users", "mu"),
            check=promises(private_estimate.algorithm),
            weight=0.5,
        ),
        "private_linear.config": Target(
            private_linear.config,
            {
                "users": count,
                "features": few,
                "mu": small,
                "link": either("identity", "logistic"),
                "clip_norms": just((1.0, 0.5)),
            },
            words=("mu", "features"),
            check=promises(private_linear.algorithm),
        ),
        "dp_gd.config": Target(dp_gd.config, descent, check=promises(dp_gd.algorithm), weight=2),
        "random_search.config": Target(
            random_search.config,
            {"users": count, "steps": few, "bounds": boxes(), "batch": few},
            check=promises(random_search.algorithm),
        ),
        "bounds that are no numbers": Target(
            lambda bounds: random_search.config(users=1, steps=1, bounds=bounds),
            {"bounds": either(*NO_NUMBERS)},
            fixed=("bounds",),
            check=nothing_may_pass,
            weight=0.2,
        ),
        "gp_ucb.config over a box": Target(
            gp_ucb.config, ucb_options | searched_box | kernel | {"bounds": boxes()}, words=named, weight=2
        ),
        "gp_ucb.config over candidates": Target(
            gp_ucb.config, ucb_options | searched_box | kernel | finite_set, words=named, weight=2
        ),
        "dp_gp_ucb.finite_config": Target(
            dp_gp_ucb.finite_config,
            dp_ucb | paper | finite_set | {"kernel_params": st.none()},
            words=(*named, "amplitude"),
            weight=2,
            tame=("steps",),
            check=promises(dp_gp_ucb.algorithm),
        ),
        "dp_gp_ucb.box_config": Target(
            dp_gp_ucb.box_config,
            dp_ucb
            | {
                "noise_variance": just(0.1),
                "bounds": boxes(),
                "release": just("point"),
                "grid": distinct(),
                "search": st.builds(box_search.BoxSearch, **search),
            },
            words=named,
            weight=2,
            fixed=("search",),
            tame=("steps",),
            check=promises(dp_gp_ucb.algorithm),
        ),
        "dp_gp_ucb.box_config of a value": Target(
            dp_gp_ucb.box_config,
            dp_ucb
            | {
                "noise_variance": just(0.1),
                "bounds": just(low_high(BOUNDS)),
                "release": just("value"),
                "slope": st.tuples(st.floats(1, 3), positive),
            },
            words=named,
            weight=0.5,
            tame=("steps",),
            check=promises(dp_gp_ucb.algorithm),
        ),
        "dp_gp_ucb.lipschitz_config": Target(
            dp_gp_ucb.lipschitz_config,
            gains | searched_gains | finite_set,
            words=named,
            weight=2,
            check=promises(dp_gp_ucb.algorithm),
        ),
        "dp_gp_ucb.in_order_config": Target(
            dp_gp_ucb.in_order_config,
            gains | finite_set | {"release": release, "point_share": probability},
            words=named,
            weight=2,
            check=promises(dp_gp_ucb.algorithm),
        ),
        "dp_gp_ucb.preview_release": Target(
            dp_gp_ucb.preview_release,
            {"config": just(CASES["dp_gp_ucb"].config(1.0)), "draws": just(4), "rows": just(9)},
            fixed=("config",),
            tame=("draws",),
            odd={"rows": anything().filter(lambda x: not is_gigantic(x)) | just(10**9)},
            weight=0.3,
        ),
        "po_gp_ucb.config": Target(
            po_gp_ucb.config,
            {
                "curated": just(curated),
                "steps": few,
                "lengthscale": positive,
                "noise_variance": positive,
                "noise_aware": st.booleans(),
                "centre": wide,
                "scale": positive,
                "delta": probability,
            },
            fixed=("curated",),
            check=promises(po_gp_ucb.algorithm),
            weight=0.5,
        ),
        "dpareto.config": Target(
            dpareto.config,
            front | {"search": either(box_search.BoxSearch(8, 1, 1), box_search.BoxSearch(9, 2, 3))},
            weight=2,
        ),
        "dpareto.best_setting": Target(
            dpareto.best_setting,
            {"key": key()} | of_a_search | {"epsilon": positive},
            fixed=("config", "released"),
            check=finite,
            weight=0.3,
        ),
        "dpareto.predict": Target(
            dpareto.predict_settings, of_a_search | places, fixed=("config", "released", "points"), nan=True, weight=0.3
        ),
        "dpareto.improvement": Target(
            dpareto.improvement, of_a_search | places, fixed=("config", "released", "points"), nan=True, weight=0.3
        ),
        "private_evaluations.config": Target(
            private_evaluations.config,
            {"inner": just(gp_ucb.algorithm), "inner_config": just(inner)} | evaluations,
            fixed=("inner", "inner_config"),
            words=stationary_words,
            weight=0.3,
        ),
        "private_evaluations.config of a design": Target(
            private_evaluations.config,
            {"inner": just(gp_ucb.algorithm), "inner_config": just(inner)} | private_range,
            fixed=("inner", "inner_config"),
            words=stationary_words,
            weight=0.3,
        ),
        "private_evaluations.noise_deviation": Target(
            private_evaluations.noise_deviation,
            evaluations | {"evaluations": few},
            words=stationary_words,
            check=at_least_zero,
        ),
        "PrivateObjective": Target(
            lambda **options: drivers.PrivateObjective(first_losses, 0.8642097531864209, **options),
            evaluations | {"evaluations": few, "key": secret(), "insecure_key": st.booleans()},
            words=stationary_words,
        ),
    }


def protocols() -> dict[str, Target]:
    """A step of every algorithm, values of wrong shapes: refused at trace time."""
    found = {}
    for name, case in CASES.items():
        config = case.config(1.0)
        start = compiled_steps.begin.eval_shape(case.algorithm, jax.random.key(0), config)
        query = jax.eval_shape(case.algorithm.ask, jax.random.key(0), config, start.state)

        def learn(shape, case=case, config=config, start=start, query=query):
            values = jax.ShapeDtypeStruct(shape, jnp.result_type(float))
            return str(compiled_steps.learn.eval_shape(case.algorithm, jax.random.key(0), config, start, query, values))

        shapes = st.lists(st.integers(0, 7), max_size=4).map(tuple)
        found[f"tell of {name}"] = Target(
            learn, {"shape": shapes}, fixed=("shape",), words=("values",), weight=0.1
        )  # fmt: skip
    return found
