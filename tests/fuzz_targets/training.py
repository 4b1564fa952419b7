"""Rows of ``jaxdpbo.training`` and ``jaxdpbo.problems``."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from protocol_cases import CANDIDATES

from fuzz_targets.target import Target, at_least_zero, finite, whole
from fuzz_targets.valid_values import any_float, count, either, few, floats_of, just, positive, probability, small
from jaxdpbo.problems import _datasets, _gp_draws, _kernel_svr
from jaxdpbo.training import dp_optim, models, objectives, oracles, permutation_sgd, sampling, spaces


def possible(found, given):
    """A batch of the records, and a step at least."""
    return 1 <= int(found.batch) <= min(given["largest"], given["records"]) and int(found.steps) >= 1


def trainings() -> dict[str, Target]:
    settings = {
        "steps": few,
        "batch": few,
        "learning_rate": positive,
        "noise_multiplier": positive,
        "clip_norm": positive,
    }
    labels = jnp.asarray([0, 1] * 4)
    model = models.logistic_regression(2)
    trained = jax.jit(
        lambda features, settings: dp_optim.train(
            jax.random.key(0), model, models.examples(features, labels), settings, largest=4
        )
    )
    projected = jax.jit(
        lambda features: permutation_sgd.train_by_permutation(jax.random.key(0), features, labels, 0.1, 0.1, passes=2)
    )
    errors = jax.jit(
        lambda noise: oracles.sparse_vector_errors(jax.random.split(jax.random.key(0), 2), 3, noise, queries=5, ones=2)
    )
    made = st.builds(dp_optim.settings, **settings | {"learning_rate": small, "clip_norm": small})
    any_rows = floats_of(8, 2, elements=any_float).map(jnp.asarray)
    dataset = _datasets.Dataset(CANDIDATES, np.arange(9.0) % 2, "nine rows")
    return {
        "logistic_regression": Target(models.logistic_regression, {"features": few}),
        "linear_svm": Target(models.linear_svm, {"features": few}),
        "regression": Target(models.regression, {"features": few, "hidden": st.lists(few, max_size=2)}),
        "mlp": Target(
            models.mlp, {"features": few, "hidden": st.lists(few, max_size=2), "classes": st.integers(2, 4)}
        ),
        "dp_optim.settings": Target(dp_optim.settings, settings),
        "steps_of_epochs": Target(dp_optim.steps_of_epochs, {"epochs": count, "records": count, "batch": count},
            check=whole),
        "capacities": Target(dp_optim.capacities, {"largest": count, "records": count, "smallest": either(1, 8)}),
        "dp_optim.train": Target(
            trained, {"features": any_rows, "settings": made}, fixed=("features", "settings"), check=finite, named=False
        ),
        "permutation_sgd.train": Target(projected, {"features": any_rows}, fixed=("features",), check=finite,
            named=False),
        "sampling.draw_count": Target(sampling.draw_count, {"records": count, "capacity": few}, check=whole),
        "training_epsilon": Target(
            oracles.training_epsilon,
            {"settings": made, "records": st.integers(100, 1000), "delta": probability},
            fixed=("settings",), words=("batch",), weight=0.5,
            check=lambda found, _: at_least_zero(found.epsilon, None),
        ),
        "training_guarantee": Target(
            oracles.training_guarantee,
            {"settings": made, "model": just(model), "records": st.integers(100, 1000), "delta": probability,
             "noise": either(*dp_optim.NOISES)},
            fixed=("settings", "model"), words=("batch",), weight=0.5,
        ),
        "dp_optim.total_variation": Target(dp_optim.total_variation, {"model": just(model), "steps": count},
            fixed=("model",), check=at_least_zero),
        "objectives.objective": Target(
            objectives.objective,
            {"model": just(model), "delta": probability, "largest": few, "repeats": few,
             "optimizer": either(*dp_optim.OPTIMIZERS)},
            fixed=("model",),
        ),
        "objectives.to_settings": Target(
            objectives.to_settings,
            {"point": floats_of(5, elements=st.floats(-10, 1000) | just(math.nan)).map(jnp.asarray), "records": count,
             "largest": count},
            fixed=("point", "records", "largest"), nan=True, check=possible,
        ),
        "sparse_vector_errors": Target(errors, {"noise": positive}, fixed=("noise",), check=finite, named=False),
        "random_settings": Target(
            spaces.random_settings, {"space": either(*spaces.SPACES.values()), "count": few, "seed": few},
            fixed=("space",), tame=("count",),
        ),
        "grid_settings": Target(
            spaces.grid_settings, {"space": either(*spaces.SPACES.values()), "size": few}, fixed=("space",),
            tame=("size",)
        ),
        "kernel_svr.split": Target(_kernel_svr.kernel_svr_split,
            {"dataset": just(dataset), "seed": few, "train": few}, fixed=("dataset",)),
        "kernel_svr.bounds": Target(_kernel_svr.kernel_svr_bounds, {"features": few}, tame=("features",)),
        "datasets.load": Target(_datasets.load_dataset, {"name": just("diabetes")}, weight=0.2),
        "gp_draws.grid": Target(_gp_draws.gp_grid, {"side": positive, "points": few}, tame=("points",)),
    }  # fmt: skip
