"""Rows of ``jaxdpbo.tuning``."""

import jax
import numpy as np
from hypothesis import strategies as st
from training_cases import Trivial

from fuzz_targets.target import Target, is_guarantee
from fuzz_targets.valid_values import either, just, probability, secret
from jaxdpbo import tuning
from jaxdpbo.accounting import stage

ROWS = np.zeros((60, 2)), np.zeros(60, int)


def tunings() -> dict[str, Target]:
    law = {"mean": st.floats(1.5, 8.0), "eta": st.floats(-0.5, 2.0)}
    keyed = {"key": secret(), "insecure_key": st.booleans(), "delta": probability}
    return {
        "private_selection": Target(
            lambda **options: tuning.private_selection(noised, **options),
            law | keyed | {"settings": either([0.0], [1.0, 2.0]), "costs": just({"them": stage.gaussian_stage(0.5)})},
            words=("runs",), check=stated, weight=0.5,
        ),
        "tune_and_train": Target(
            lambda **options: tuning.tune_and_train(Trivial(), ROWS, [0.2, 0.7], **options),
            law | keyed | {"epsilon": st.floats(0.5, 4.0), },
            words=("runs", "costs", "users", "choice", "mu"), check=stated, weight=0.2,
        ),
        "least_epsilon": Target(
            lambda **options: tuning.least_epsilon(Trivial(), ROWS, [0.2, 0.7], **options),
            law | keyed | {"error": st.floats(0.0, 1.0), "epsilons": either((0.5,), (0.5, 2.0)),
                "validation_epsilon": st.floats(0.5, 4.0)},
            tame=("epsilons",), words=("runs", "costs", "users", "choice", "mu"), check=stated, weight=0.05,
        ),
        "private_front": Target(
            lambda **options: tuning.private_front(Trivial(), ROWS, [0.2, 0.7], **options),
            keyed | {"epsilon": st.floats(0.5, 4.0), "count": either(2, 6), "levels": either(None, [0.1, 0.3])},
            tame=("count", "levels"), words=("costs", "users", "mu", "level"), check=stated, weight=0.2,
        ),
    }  # fmt: skip


def noised(setting, key):
    value = setting + float(jax.random.normal(key))
    return value, value


def stated(found, _):
    return all(is_guarantee(each, None) for each in found.guarantees)
