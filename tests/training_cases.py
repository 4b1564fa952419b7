"""Trainings of another library, as small as they may be, for ``tune_and_train``."""

import numpy as np

from jaxdpbo.accounting import stage


class Trivial:
    """Its settings are numbers, how far it goes; its model is its setting, and so is each row's loss."""

    def cost(self, setting, noise, records):
        return stage.gaussian_stage(1 / noise, "the training")

    def total_variation(self, setting, records):
        return 1e-30

    def assumptions(self):
        return ()

    def expect(self, rows):
        pass

    def fit(self, setting, noise, rows, key):
        return setting

    def block_losses(self, settings, noises, train, held_out, records, key):
        return [
            [self._block_loss(setting, noise, *parts, key) for parts in zip(*train, *held_out, strict=True)]
            for setting, noise in zip(settings, noises, strict=True)
        ]

    def _block_loss(self, setting, noise, features, labels, held_out, truth, key):
        try:
            return np.mean(self.losses(self.fit(setting, noise, (features, labels), key), (held_out, truth)))
        except ValueError:  # of one block alone
            return 1.0

    def losses(self, model, rows):
        return np.full(len(rows[1]), model)

    def reach(self, setting, records):
        return setting

    def with_reach(self, setting, reach, records):
        return reach
