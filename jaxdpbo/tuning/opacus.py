"""DP-SGD by Opacus as a training for ``tune_and_train`` and ``least_epsilon``; needs the ``opacus`` extra.

Opacus draws Poisson batches, clips and noises; the cost is the event that its accountant counts.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from jaxdpbo import _checks, _namespace
from jaxdpbo.privacy import _guarantee
from jaxdpbo.privacy._accounting import stage
from jaxdpbo.tuning import _labels, _other_trainings, _training
from jaxdpbo.tuning._training import Rows, Setting

__all__ = ["DPSGD", "stack"]
__dir__ = _namespace.list_public(__name__)


@dataclass(frozen=True)
class DPSGD:
    """DP-SGD of a ``torch`` module, on the CPU.

    Settings have a ``learning_rate``, a mean ``batch``, ``epochs`` and a ``clip_norm``, as those of ``tuning.DPSGD``.
    The noise is over the clip norm, as Opacus has it. The trained model is a new module with the trained parameters:
    the module that Opacus trains carries the gradients of each row of its last batch.

    Formal guarantee: replace-one, by group privacy from the add-or-remove event of Opacus, so for about twice its
    epsilon; under the assumptions that noise in floats is ideal, that batches are Poisson, that the draws of torch
    cannot be distinguished from ideal draws (its generator has a seed of 32 bits), and that the module predicts each
    row by itself.

    >>> from jaxdpbo.tuning import opacus
    >>> training = opacus.DPSGD(lambda: torch.nn.Linear(5, 1))  # after ``import torch``
    >>> setting = {"learning_rate": 0.5, "batch": 50, "epochs": 10, "clip_norm": 1.0}
    >>> round(training.cost(setting, 2.0, 5000).epsilon(1e-5), 1)
    1.3

    Attributes:
      make_model: ``() -> module``. The module takes features ``(b, ...)``, and returns scores ``(b,)``, ``(b, 1)`` or
        ``(b, k)``.
      loss: "cross_entropy" for classes: of one score, positive means the second class; "squared" for a regression.
      classes: see ``tuning.DPSGD``; not for a regression.
    """

    make_model: Callable[[], Any]
    loss: str = "cross_entropy"
    classes: Sequence[int] | None = None

    def __post_init__(self):
        """Raise ValueError for an unknown loss, or for wrong ``classes``."""
        _checks.one_of("loss", self.loss, _other_trainings.LOSSES)
        if self.classes is not None:
            object.__setattr__(self, "classes", _labels.check_classes(self.classes))

    def cost(self, setting: Setting, noise: float, records: int) -> stage.Stage:
        """Cost of the event that Opacus counts, with ``ceil(records / batch)`` batches an epoch."""
        batch = _training.check_setting(setting, records)[1]
        batches = math.ceil(records / batch)
        return _cost(noise, 1 / batches, setting["epochs"] * batches)

    def total_variation(self, setting: Setting, records: int) -> float:
        """0: noise in floats is assumed to be ideal."""
        return 0.0

    def assumptions(self) -> tuple[str, ...]:
        """Ideal noise, Poisson batches, good draws, and separate predictions."""
        return (*_other_trainings.DRAWS, _guarantee.PREDICTED_APART)

    def expect(self, rows: Rows) -> None:
        """Check shapes and dtypes by a prediction of zeros, and the module by Opacus.

        Raises:
          ValueError: a wrong shape or dtype, or ``classes`` missing for numbers.
          ImportError: the ``opacus`` extra is not installed.
          RuntimeError: the module does not take features of this shape.
        """
        torch, opacus = _libraries()
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            model = self.make_model().train()
            opacus.validators.ModuleValidator.validate(model, strict=True)
            scores = model.eval()(torch.zeros((2, *rows[0].shape[1:])))
        _other_trainings.expect(rows, tuple(scores.shape[1:]), self._classes, regression=self._regresses)

    def fit(self, setting: Setting, noise: float, rows: Rows, key: jax.Array) -> Any:
        """Train, and return a module of its own, in evaluation mode."""
        return self._train(setting, noise, rows, key)[0]

    def losses(self, model: Any, rows: Rows) -> np.ndarray:
        """Return 1 where a row is classified wrongly; for a regression squared errors, at most 1."""
        torch, _ = _libraries()
        of = _other_trainings.examples(rows, self._classes, regression=self._regresses)
        with torch.no_grad():
            scores = model(torch.from_numpy(of.features)).numpy()
        return _other_trainings.losses(scores, of, regression=self._regresses)

    @property
    def _regresses(self) -> bool:
        return self.loss == "squared"

    @property
    def _classes(self) -> _labels.Classes | None:
        return None if self.classes is None else tuple(self.classes)

    def _train(self, setting: Setting, noise: float, rows: Rows, key: jax.Array) -> tuple[Any, Any]:
        """The trained module, and what Opacus's accountant counted."""
        torch, opacus = _libraries()
        batch = _training.check_setting(setting, len(rows[1]))[1]
        of = _other_trainings.examples(rows, self._classes, regression=self._regresses)
        # What others draw from torch's generator is as it was.
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Full backward hook")  # of any module that Opacus hooks first
            torch.manual_seed(_other_trainings.seed_words(key, 1)[0])
            model = self.make_model().train()
            engine = opacus.PrivacyEngine()
            private, optimizer, batches = engine.make_private(
                module=model,
                optimizer=torch.optim.SGD(model.parameters(), lr=setting["learning_rate"]),
                data_loader=torch.utils.data.DataLoader(
                    torch.utils.data.TensorDataset(*map(torch.from_numpy, of)), batch_size=batch
                ),
                noise_multiplier=noise,
                max_grad_norm=setting["clip_norm"],
            )
            for _ in range(setting["epochs"]):
                for features, targets, counted in batches:
                    optimizer.zero_grad()
                    _mean_loss(torch, private(features), targets, counted, self.loss).backward()
                    optimizer.step()
            return _copy(torch, self.make_model(), model), engine.accountant.history


def stack(dataset: Any) -> Rows:
    """Stack a map-style dataset of ``(features, label)`` pairs into rows for a search.

    The code of the dataset runs once for each row, outside of any guarantee: an exception of it may quote a row.

    >>> from jaxdpbo.tuning import opacus
    >>> pairs = [([0.5, 1.5], 1), ([2.5, 0.0], 0)]  # or a torch.utils.data.Dataset
    >>> features, labels = opacus.stack(pairs)
    >>> features.shape, labels.tolist()
    ((2, 2), [1, 0])

    Raises:
      ValueError: rows of different shapes.
    """
    features, labels = zip(*(dataset[number] for number in range(len(dataset))), strict=True)
    return np.stack([np.asarray(row) for row in features]), np.asarray([np.asarray(label) for label in labels])


def _libraries() -> tuple[Any, Any]:
    what = "tuning.opacus.DPSGD"
    return _checks.extra("torch", "opacus", what), _checks.extra("opacus", "opacus", what)


@lru_cache(maxsize=1024)
def _cost(noise: float, rate: float, steps: int) -> stage.Stage:
    event = _other_trainings.poisson_event(noise, rate, steps)
    return stage.foreign_stage(event, "add_or_remove", "the training by Opacus")


def _mean_loss(torch: Any, scores: Any, targets: Any, counted: Any, loss: str) -> Any:
    """Mean over a batch; rows that do not count have a gradient of zero."""
    functional = torch.nn.functional
    scores = scores.reshape(len(targets), -1)
    if loss == "squared":
        each = torch.square(scores[:, 0] - targets)
    elif scores.shape[1] == 1:
        each = functional.binary_cross_entropy_with_logits(scores[:, 0], targets.to(scores.dtype), reduction="none")
    else:
        each = functional.cross_entropy(scores, targets.long(), reduction="none")
    return (each * counted).mean()


def _copy(torch: Any, fresh: Any, trained: Any) -> Any:
    """A new module with the parameters alone, without gradients and hooks."""
    with torch.no_grad():
        for own, parameter in zip(fresh.parameters(), trained.parameters(), strict=True):
            own.copy_(parameter.detach())
    return fresh.eval()
