"""Rows of ``jaxdpbo.tuning``."""

import jax
import numpy as np
from hypothesis import strategies as st

from fuzz_targets.target import Target, is_guarantee
from fuzz_targets.valid_values import either, just, probability, secret
from jaxdpbo import tuning
from jaxdpbo.privacy.accounting import stage

ROWS = np.zeros((60, 2)), np.zeros(60, int)


class Nothing:
    """A training that learns nothing."""

    def cost(self, setting, noise, records):
        return stage.gaussian(setting / noise)

    def assumptions(self):
        return ()

    def expect(self, rows):
        pass

    def total_variation(self, setting, records):
        return 0.0

    def fit(self, setting, noise, rows, key):
        return setting

    def fit_block(self, setting, noise, rows, records, key):
        return setting

    def losses(self, model, rows):
        return np.full(len(rows[1]), 0.5)


def tunings() -> dict[str, Target]:
    law = {"mean": st.floats(1.5, 8.0), "eta": st.floats(-0.5, 2.0)}
    keyed = {"key": secret(), "insecure_key": st.booleans(), "delta": probability}
    return {
        "private_selection": Target(
            lambda **options: tuning.private_selection(noised, **options),
            law | keyed | {"settings": either([0.0], [1.0, 2.0]), "costs": just({"them": stage.gaussian(0.5)})},
            words=("law", "runs"), check=stated, weight=0.5,
        ),
        "tune_and_train": Target(
            lambda **options: tuning.tune_and_train(Nothing(), ROWS, [1.0, 2.0], **options),
            law | keyed | {"epsilon": st.floats(0.5, 4.0), "route": either("auto", "selection", "blocks"),
                "k": either(None, 10)},
            tame=("k",), words=("law", "runs", "costs", "users", "choice", "mu"), check=stated, weight=0.2,
        ),
    }  # fmt: skip


def noised(setting, key):
    value = setting + float(jax.random.normal(key))
    return value, value


def stated(found, _):
    return all(is_guarantee(each, None) for each in found.guarantees)
