"""Rows of ``jaxdpbo.integrations``."""

import numpy as np
import optuna
from hypothesis import strategies as st

from fuzz_targets.odd_values import odd_private
from fuzz_targets.target import Target, finite
from fuzz_targets.valid_values import any_float, few, floats_of, just, secret, small
from jaxdpbo.integrations.optuna import private_study


def studies() -> dict[str, Target]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    options = {
        "users": just(4), "evaluations": few, "loss_range": just((0.0, 1.0)), "mu": small, "key": secret(),
        "insecure_key": st.booleans(),
    }  # fmt: skip
    return {
        "private_study": Target(
            lambda **options: evaluated(np.zeros(4), **options), options, fixed=("users",), tame=("evaluations",),
            words=("noise", "loss", "mean"), check=finite, weight=0.3,
        ),
        "private_study of anything": Target(
            lambda losses: evaluated(losses, users=4, evaluations=1, loss_range=(0.0, 1.0), mu=1.0),
            {"losses": floats_of(4, elements=any_float)}, odd={"losses": odd_private()}, private=("losses",),
            words=("losses",), raises=(RuntimeError,), check=finite, weight=0.3,
        ),
    }  # fmt: skip


def evaluated(losses, **options):
    """The values that a study is told."""
    private = private_study(
        optuna.create_study(), lambda trial: {"x": trial.suggest_float("x", 0, 1)}, lambda _, data: data, losses,
        **options,
    )  # fmt: skip
    private.optimize(catch=())
    return np.array([trial.value for trial in private.study.trials])
