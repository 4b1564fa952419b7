"""What the peers ask of a training beyond what ``tune_and_train`` asks, and DP-SGD with both."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import tuning
from jaxdpbo.training import dp_optim, models
from jaxdpbo.tuning import Training
from jaxdpbo.tuning import training as trainings
from jaxdpbo.tuning.training import Rows, Setting


@runtime_checkable
class InBlocks(Training, Protocol):
    """A training of all blocks at once, for the route "blocks"."""

    def block_losses(
        self,
        settings: Sequence[Setting],
        noises: Sequence[float],
        train: Rows,
        held_out: Rows,
        records: int,
        key: jax.Array,
    ) -> Any:
        """The mean loss of each block's held-out rows ``(settings, k)``, of block ``j`` by ``j``'s rows alone.

        Rows have leading axes ``(k, n)``, of ``records`` in all: as like the whole's training as may be; no privacy.
        """
        ...


@runtime_checkable
class Reaching(Training, Protocol):
    """A training with a reach that can be set, for the route "trials"."""

    def reach(self, setting: Setting, records: int) -> float:
        """How far it goes at most, such as learning rate times steps."""
        ...

    def with_reach(self, setting: Setting, reach: float, records: int) -> Setting:
        """The setting that goes as far; it must cost the same."""
        ...


@dataclass(frozen=True)
class DPSGD(tuning.DPSGD):
    """``tuning.DPSGD`` for every route."""

    def block_losses(
        self,
        settings: Sequence[Setting],
        noises: Sequence[float],
        train: Rows,
        held_out: Rows,
        records: int,
        key: jax.Array,
    ) -> np.ndarray:
        """By trainings of as many steps, with as large batches and as much noise as in the whole, for their rows."""
        numbers = []
        for setting, noise in zip(settings, noises, strict=True):
            steps, batch = trainings.check_setting(setting, records)
            size = max(1, round(batch * train[1].shape[1] / records))
            numbers.append(trainings._numbers(setting, steps, size, noise * size / batch))
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *numbers)
        largest = trainings._room(max(int(entry.batch) for entry in numbers))
        train, held_out = self._examples(train), (held_out[0], self._targets(held_out[1]))
        return np.asarray(_block_losses(key, self.model, stacked, train, held_out, largest, self.optimizer), float)

    def reach(self, setting: Setting, records: int) -> float:
        """Learning rate times steps times clip norm: of SGD, no parameter moves further but for the noise."""
        return setting["learning_rate"] * trainings.check_setting(setting, records)[0] * setting["clip_norm"]

    def with_reach(self, setting: Setting, reach: float, records: int) -> Setting:
        """By the learning rate alone, which costs nothing."""
        return setting | {"learning_rate": setting["learning_rate"] * reach / self.reach(setting, records)}


@partial(jax.jit, static_argnums=(1, 5, 6))
def _block_losses(
    key: jax.Array,
    model: models.Model,
    numbers: dp_optim.Settings,
    train: Rows,
    held_out: Rows,
    largest: int,
    optimizer: str,
) -> jax.Array:
    """``(settings, k)``."""
    count = len(held_out[1])

    def setting_losses(pair: tuple[jax.Array, dp_optim.Settings]) -> jax.Array:
        keys = jax.random.split(jax.random.fold_in(key, pair[0]), count)

        def block_loss(key: jax.Array, train: Rows, held_out: Rows) -> jax.Array:
            options = {"largest": largest, "smallest": largest, "optimizer": optimizer, "noise": "float"}
            params = dp_optim.train(key, model, models.examples(*train), pair[1], **options)
            return jnp.mean(trainings._losses(model, params, *held_out))

        return jax.vmap(block_loss)(keys, train, held_out)

    return jax.lax.map(setting_losses, (jnp.arange(numbers.steps.shape[0]), numbers))
