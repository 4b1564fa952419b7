"""DP-SGD by Opacus as a ``Training``: its model, its batches, its optimizer, the steps that its accountant counts.

``python -m benchmarks.trainings.opacus_sgd FILE`` trains once and writes what the accountant counted.
"""

import json
import math
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import dp_accounting
import jax
import numpy as np

from benchmarks.trainings import rows as of_rows
from jaxdpbo.privacy import _guarantee
from jaxdpbo.privacy._accounting import stage

EXAMPLE = {"learning_rate": 0.5, "batch": 32, "epochs": 2, "clip_norm": 1.0}, 1.3, 400  # setting, noise, records


@dataclass(frozen=True)
class OpacusSGD:
    """Logistic regression. Settings have a ``learning_rate``, a mean ``batch``, ``epochs`` and a ``clip_norm``.

    The noise multiplier is over the clip norm, as Opacus has it: what one row more or less adds to a sum.
    """

    features: int

    def cost(self, setting, noise, records):
        """Of what their accountant will count; add-or-remove, which group privacy makes replace-one."""
        batches = math.ceil(records / setting["batch"])
        return _cost(noise, 1 / batches, setting["epochs"] * batches)

    def total_variation(self, setting, records):
        """Noise in floats is assumed to be ideal."""
        return 0.0

    def assumptions(self):
        """All randomness is torch's, whose generator has a seed of 32 bits."""
        return _guarantee.IDEAL_NOISE, _guarantee.POISSON_BATCHES, _guarantee.FOREIGN_DRAWS

    def expect(self, rows):
        of_rows.expect(rows, self.features)

    def fit(self, setting, noise, rows, key):
        return train(setting, noise, rows, key)[0]

    def losses(self, model, rows):
        return of_rows.wrong(model["weights"], model["bias"], rows)


@lru_cache
def _cost(noise, rate, steps):
    return stage.foreign_stage(event([(noise, rate, steps)]), "add_or_remove", "the training by Opacus")


def event(history):
    """What Opacus's accountant counted, ``(noise_multiplier, sample_rate, steps)`` each, for dp-accounting."""
    return dp_accounting.ComposedDpEvent(
        [
            dp_accounting.SelfComposedDpEvent(
                dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise)), steps
            )
            for noise, rate, steps in history
        ]
    )


def train(setting, noise, rows, key):
    """The model, in arrays of its own, and what the accountant counted.

    The module itself may not leave: its parameters carry the last batch's gradients, each row's.
    """
    import opacus
    import torch

    x, y = map(torch.from_numpy, of_rows.finite(rows))
    with torch.random.fork_rng(devices=[]):  # what others draw from torch's generator is as it was
        torch.manual_seed(of_rows.words_of(key, 1)[0])
        model = torch.nn.Linear(x.shape[1], 1)
        model, optimizer, batches = (engine := opacus.PrivacyEngine()).make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=setting["learning_rate"]),
            data_loader=torch.utils.data.DataLoader(
                torch.utils.data.TensorDataset(x, y), batch_size=min(setting["batch"], len(y))
            ),
            noise_multiplier=noise,
            max_grad_norm=setting["clip_norm"],
        )
        loss = torch.nn.BCEWithLogitsLoss()
        for _ in range(setting["epochs"]):
            for features, labels in batches:
                optimizer.zero_grad()
                loss(model(features)[:, 0], labels).backward()
                optimizer.step()
    weights, bias = (parameter.detach().numpy().copy() for parameter in model.parameters())
    return {"weights": weights[0], "bias": bias[0]}, engine.accountant.history


def example():
    """One training of random rows: the model and what was counted."""
    setting, noise, records = EXAMPLE
    rng = np.random.default_rng(0)
    x = rng.normal(size=(records, 3))
    return train(setting, noise, (x, x[:, 0] > 0), jax.random.key(0))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(example()[1]) + "\n")
