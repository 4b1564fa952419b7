"""DP-SGD by Opacus as a training for ``tune_and_train`` and ``least_epsilon``; needs the ``opacus`` extra.

Opacus draws Poisson batches, clips and adds noise; the cost is computed from the event that its accountant records.
"""

import copy
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from jaxdpbo import checks, namespace
from jaxdpbo.accounting import stage
from jaxdpbo.guarantee import assumptions as _assumptions
from jaxdpbo.tuning import labels as _labels
from jaxdpbo.tuning import other_trainings, training
from jaxdpbo.tuning.training import Rows, Setting

__all__ = ["DPSGD", "stack"]
__dir__ = namespace.list_public(__name__)


@dataclass(frozen=True)
class DPSGD:
    """DP-SGD of a ``torch`` module, on the CPU.

    Settings have a ``learning_rate``, a mean ``batch``, ``epochs`` and a ``clip_norm``, as those of ``tuning.DPSGD``,
    and the names of a ``model`` and of an ``optimizer`` where there are several: an optimizer sees noised gradients
    alone, so each has the same cost. ``noise`` is the ``noise_multiplier`` of Opacus: the standard deviation of the
    noise over the clipping norm. The model is a new module that holds the trained parameters alone. The module that
    Opacus trains still holds the gradients of each row of the last batch, which are not private.

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
      make_model: ``() -> module``, or a dict of such functions by name. The module takes features ``(b, ...)``, and
        returns scores ``(b,)``, ``(b, 1)`` or ``(b, k)``.
      loss: "cross_entropy" for classes, or "squared" for a regression. If the model returns one score, a positive score
        predicts the second class.
      classes: see ``tuning.DPSGD``; not for a regression.
      optimizers: a dict of functions ``(parameters, learning_rate) -> torch.optim.Optimizer`` by name, such as
        ``{"adam": lambda parameters, rate: torch.optim.Adam(parameters, rate)}``; None for SGD.
    """

    make_model: Callable[[], Any] | Mapping[str, Callable[[], Any]]
    loss: str = "cross_entropy"
    classes: Sequence[int] | None = None
    optimizers: Mapping[str, Callable[[Any, float], Any]] | None = None

    def __post_init__(self):
        """Raise ValueError for an unknown loss, or for wrong ``classes``, models or optimizers."""
        other_trainings.check_choices("make_model", self.make_model, self.optimizers)
        checks.one_of("loss", self.loss, other_trainings.LOSSES)
        if self.classes is not None:
            object.__setattr__(self, "classes", _labels.check_classes(self.classes))

    def cost(self, setting: Setting, noise: float, records: int) -> stage.Stage:
        """Cost of the event that Opacus counts: about ``records / batch`` batches an epoch."""
        batch = self._check_setting(setting, records)
        batches = int(1 / (1 / math.ceil(records / batch)))  # as the data loader of Opacus rounds
        return _cost(noise, 1 / batches, int(setting["epochs"]) * batches)

    def total_variation(self, setting: Setting, records: int) -> float:
        """0: noise in floats is assumed to be ideal."""
        return 0.0

    def assumptions(self) -> tuple[str, ...]:
        """Ideal noise, Poisson batches, good draws, and separate predictions."""
        return (*other_trainings.DRAWS, _assumptions.PREDICTED_APART)

    def expect(self, rows: Rows) -> None:
        """Check a copy of the module: by the ``ModuleValidator`` of Opacus, a prediction and a step on zeros.

        Raises:
          ValueError: a wrong shape or dtype, ``classes`` missing for numbers, or a module that cannot be trained.
          ImportError: the ``opacus`` extra is not installed.
        """
        torch, opacus = _libraries()
        shape = rows[0].shape[1:]
        demand = f"make_model must return a module that Opacus can train, of float32 and for features {('n', *shape)}"
        for choice in other_trainings.all_choices(self.make_model, self.optimizers):
            of_choice = demand + "".join(f", {name} {value!r}" for name, value in choice.items())
            with other_trainings.dry_run(of_choice), torch.random.fork_rng(devices=[]), torch.no_grad():
                model = self._new_model(choice).train()
                opacus.validators.ModuleValidator.validate(model, strict=True)
                scores = model.eval()(torch.zeros((2, *shape), dtype=torch.float32))
            other_trainings.expect_rows(rows, tuple(scores.shape[1:]), self._classes, regression=self._is_regression)
            with other_trainings.dry_run(of_choice):
                other_trainings.try_one_step(self, other_trainings.ONE_STEP | choice, rows, self._classes)

    def fit(self, setting: Setting, noise: float, rows: Rows, key: jax.Array) -> Any:
        """Train, and return a new module, in evaluation mode."""
        return self._train(setting, noise, rows, key)[0]

    def losses(self, model: Any, rows: Rows) -> np.ndarray:
        """Return 1 where a row is classified wrongly; for a regression squared errors, at most 1, 1/4 for no target."""
        torch, _ = _libraries()
        examples = other_trainings.finite_examples(rows, self._classes, regression=self._is_regression)
        with torch.random.fork_rng(devices=[]), torch.no_grad():  # or its state would tell the number of runs
            scores = copy.deepcopy(model)(torch.from_numpy(examples.features)).numpy()  # a module may store its input
        return other_trainings.row_losses(scores, examples, regression=self._is_regression)

    @property
    def _is_regression(self) -> bool:
        return self.loss == "squared"

    @property
    def _classes(self) -> _labels.Classes | None:
        return None if self.classes is None else tuple(self.classes)

    def _check_setting(self, setting: Setting, records: int) -> int:
        """The rows in a batch."""
        choices = other_trainings.choices(self.make_model, self.optimizers)
        batch = training.check_setting(setting, records, *choices)[1]
        for name, given in ((other_trainings.MODEL, self.make_model), (other_trainings.OPTIMIZER, self.optimizers)):
            other_trainings.chosen(given, name, setting)
        return batch

    def _new_model(self, setting: Mapping[str, Any]) -> Any:
        make_model = other_trainings.chosen(self.make_model, other_trainings.MODEL, setting)
        return copy.deepcopy(make_model())  # a factory may return one module at every call

    def _train(self, setting: Setting, noise: float, rows: Rows, key: jax.Array) -> tuple[Any, Any]:
        """The trained module, and what Opacus's accountant counted."""
        torch, opacus = _libraries()
        batch = self._check_setting(setting, len(rows[1]))
        examples = other_trainings.finite_examples(rows, self._classes, regression=self._is_regression)
        seeds = other_trainings.seed_words(key, 3)
        make_optimizer = other_trainings.chosen(
            self.optimizers,
            other_trainings.OPTIMIZER,
            setting,
            lambda parameters, rate: torch.optim.SGD(parameters, rate),
        )
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():  # restores torch's global generator
            warnings.filterwarnings("ignore", "Full backward hook")  # of any module that Opacus hooks first
            torch.manual_seed(seeds[0])
            trained = self._new_model(setting).train()
            released = copy.deepcopy(trained).eval()
            # Generators of their own: a factory, or another thread, may seed torch's global generator.
            of_noise, of_batches = (torch.Generator().manual_seed(seed) for seed in seeds[1:])
            engine = opacus.PrivacyEngine()
            private, optimizer, batches = engine.make_private(
                module=trained,
                optimizer=make_optimizer(trained.parameters(), setting["learning_rate"]),
                data_loader=torch.utils.data.DataLoader(
                    torch.utils.data.TensorDataset(*map(torch.from_numpy, examples)),
                    batch_size=batch,
                    generator=of_batches,
                ),
                noise_multiplier=noise,
                max_grad_norm=setting["clip_norm"],
                noise_generator=of_noise,
            )
            for _ in range(setting["epochs"]):
                for features, targets, mask in batches:
                    optimizer.zero_grad()
                    _mean_loss(torch, private(features), targets, mask, self.loss).backward()
                    _drop_infinite_gradients(torch, trained)
                    optimizer.step()
            with torch.no_grad():  # the parameters alone, without gradients and hooks
                for own, parameter in zip(released.parameters(), trained.parameters(), strict=True):
                    own.copy_(parameter.detach())
            return released, engine.accountant.history


def stack(dataset: Any) -> Rows:
    """Stack a map-style dataset of ``(features, label)`` pairs into rows for a search.

    The code of the dataset runs once for each row, outside of any guarantee: its exceptions may quote a row.

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
    return checks.extra("torch", "opacus", what), checks.extra("opacus", "opacus", what)


@lru_cache(maxsize=1024)
def _cost(noise: float, rate: float, steps: int) -> stage.Stage:
    event = other_trainings.poisson_event(noise, rate, steps)
    return stage.foreign_stage(event, "add_or_remove", "the training by Opacus")


def _mean_loss(torch: Any, scores: Any, targets: Any, mask: Any, loss: str) -> Any:
    """Mean over a batch, 0 if it is empty; masked rows have a gradient of zero."""
    functional = torch.nn.functional
    scores = scores.reshape(len(targets), math.prod(scores.shape[1:]))
    if loss == "squared":
        losses = torch.square(scores[:, 0] - targets)
    elif scores.shape[1] == 1:
        losses = functional.binary_cross_entropy_with_logits(scores[:, 0], targets.to(scores.dtype), reduction="none")
    else:
        losses = functional.cross_entropy(scores, targets.long(), reduction="none")
    return (losses * mask).sum() / max(len(targets), 1)


def _drop_infinite_gradients(torch: Any, module: Any) -> None:
    """Set the gradient of a row to 0 unless all its entries are finite: Opacus would clip it to NaN.

    Raises:
      ValueError: parameters without a gradient, which Opacus could not step.
    """
    trained = {name: parameter.grad_sample for name, parameter in module.named_parameters() if parameter.requires_grad}
    if unused := [name for name, gradient in trained.items() if gradient is None]:
        raise ValueError(f"call requires_grad_(False) on parameters that no prediction uses: {', '.join(unused)}")
    gradients = trained.values()
    gradients = [part for entry in gradients for part in (entry if isinstance(entry, list) else [entry])]
    finite = [torch.isfinite(gradient).flatten(1).all(1) for gradient in gradients]
    keep = torch.stack(finite).all(0)
    for gradient in gradients:
        gradient[~keep] = 0.0
