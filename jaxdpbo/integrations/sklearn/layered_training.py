"""The training behind ``PrivateClassifier`` and ``PrivateRegressor``: the number and widths of hidden layers are tuned.

Settings are those of ``tuning.DPSGD`` and ``hidden``, the widths of hidden layers: ``()`` for a linear model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxdpbo import tuning
from jaxdpbo.accounting import stage
from jaxdpbo.training import integer_sums, models
from jaxdpbo.tuning.training import Rows, Setting

HIDDEN = "hidden"


@dataclass(frozen=True)
class LayeredDPSGD:
    """DP-SGD of a model with the hidden layers of the setting, on features in [0, 1].

    Attributes:
      features: the number of features.
      classes: the number of classes, labels 0, 1, and so on; 0 for a regression.
    """

    features: int
    classes: int

    def cost(self, setting: Setting, noise: float, records: int) -> stage.Stage:
        """See ``tuning.DPSGD``, as for all methods."""
        training, dpsgd_setting = self._split(setting)
        return training.cost(dpsgd_setting, noise, records)

    def total_variation(self, setting: Setting, records: int) -> float:
        """Bound the total variation of one training, by its number of parameters."""
        training, dpsgd_setting = self._split(setting)
        return training.total_variation(dpsgd_setting, records)

    def assumptions(self) -> tuple[str, ...]:
        """None: the noise is exact."""
        return ()

    def expect(self, rows: Rows) -> None:
        """Check the shapes and dtypes of encoded rows."""
        self._training(()).expect(rows)

    def fit(self, setting: Setting, noise: float, rows: Rows, key: jax.Array) -> models.Params:
        """Train, and return the layers."""
        training, dpsgd_setting = self._split(setting)
        return training.fit(dpsgd_setting, noise, rows, key)

    def losses(self, model: models.Params, rows: Rows) -> np.ndarray:
        """Zero-one losses, or squared errors."""
        return self._training(hidden_widths(model)).losses(model, rows)

    def _split(self, setting: Setting) -> tuple[tuning.DPSGD, Setting]:
        if not isinstance(setting, Mapping) or HIDDEN not in setting:
            raise ValueError(f"settings must be dicts with {HIDDEN!r}, the widths of hidden layers, got {setting!r}")
        training = self._training(setting[HIDDEN])
        try:
            integer_sums.expect(training.model)  # before anything is charged: a refused training counts as failed
        except ValueError as error:
            raise ValueError(
                f"hidden must have fewer widths or smaller ones, got {setting[HIDDEN]!r}: {error}"
            ) from None
        return training, {name: value for name, value in setting.items() if name != HIDDEN}

    def _training(self, hidden: Any) -> tuning.DPSGD:
        if not isinstance(hidden, Sequence) or isinstance(hidden, str):
            raise TypeError(f"hidden must be a sequence of widths, such as (32,), got {hidden!r}")
        if not self.classes:
            return tuning.DPSGD(models.regression(self.features, hidden))
        if self.classes == 2 and not hidden:
            return tuning.DPSGD(models.logistic_regression(self.features), classes=(0, 1))
        model = models.mlp(self.features, hidden, self.classes)
        return tuning.DPSGD(model, classes=tuple(range(self.classes)))


def hidden_widths(model: models.Params) -> tuple[int, ...]:
    """The widths of the hidden layers."""
    return tuple(len(layer.bias) for layer in model[:-1])
