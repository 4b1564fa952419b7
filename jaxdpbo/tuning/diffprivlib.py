"""Logistic regression by diffprivlib as a training for ``tune_and_train`` and ``least_epsilon``.

Needs the ``diffprivlib`` extra. The library's own claim is false for some settings with ``data_norm`` above 2, and
unproved with its intercept, which is not regularised (docs/findings.md). This training uses the part of the library
that the theorem of Chaudhuri, Monteleoni and Sarwate (2011) covers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxdpbo import checks, namespace
from jaxdpbo.accounting import stage
from jaxdpbo.guarantee import assumptions as _assumptions
from jaxdpbo.tuning import labels, other_trainings
from jaxdpbo.tuning.training import Rows, Setting

__all__ = ["LogisticRegression"]
__dir__ = namespace.list_public(__name__)
SEED_WORDS = 8  # 256 bits


@dataclass(frozen=True)
class LogisticRegression:
    """Logistic regression with a noised objective, one class against the others, pure differential privacy.

    Settings have ``C``, the inverse of the regularisation. ``noise`` is ``1 / epsilon``. Rows are clipped to ``norm``,
    divided by ``norm``, extended by a constant column in place of the intercept, and divided by the square root of 2,
    so that their norm is at most 1. The model is a dict of ``weights (k, d)`` and ``bias (k,)`` for features clipped to
    ``norm``; ``k`` is the number of classes, or 1 for two classes.

    Formal guarantee: ``epsilon``-DP, replace-one (Chaudhuri, Monteleoni and Sarwate 2011, theorem 9, with the largest
    second derivative of 1/4), a share of ``epsilon / k`` for each of ``k`` objectives; under the assumptions that the
    minimiser is exact, that noise in floats is ideal, and that the draws of NumPy, with a seed of 256 bits, cannot be
    distinguished from ideal draws.

    >>> from jaxdpbo.tuning import diffprivlib
    >>> training = diffprivlib.LogisticRegression(classes=(0, 1), norm=3.0)
    >>> training.cost({"C": 1.0}, 0.5, 5000).how
    '2-DP'

    Attributes:
      classes: the labels of the classes, public.
      norm: a public bound: longer feature vectors are clipped.
    """

    classes: Sequence[int]
    norm: float

    def __post_init__(self):
        """Raise ValueError for wrong ``classes``, or a ``norm`` that is not positive."""
        object.__setattr__(self, "classes", labels.check_classes(self.classes))
        object.__setattr__(self, "norm", checks.positive("norm", self.norm))

    def cost(self, setting: Setting, noise: float, records: int) -> stage.Stage:
        """Pure differential privacy of ``1 / noise``."""
        if set(setting) != {"C"}:
            raise ValueError(f"settings must have C, got {', '.join(map(str, setting))}")
        checks.positive("C", setting["C"])
        return stage.pure_stage(1 / noise, "the training by diffprivlib")

    def total_variation(self, setting: Setting, records: int) -> float:
        """0: noise in floats is assumed to be ideal."""
        return 0.0

    def assumptions(self) -> tuple[str, ...]:
        """Ideal noise, good draws, and an exact minimiser."""
        return _assumptions.IDEAL_NOISE, _assumptions.FOREIGN_DRAWS, _assumptions.EXACT_MINIMISER

    def expect(self, rows: Rows) -> None:
        """Check shapes and dtypes, and fit rows of zeros.

        Raises:
          ValueError: a wrong shape or dtype, or diffprivlib cannot fit beside the installed libraries.
          ImportError: the ``diffprivlib`` extra is not installed.
        """
        _library()
        if rows[0].ndim != 2:
            raise ValueError(f"features must have the shape (n, d), got {rows[0].shape}")
        other_trainings.expect_rows(rows, (len(self.classes),), tuple(self.classes), regression=False)
        with other_trainings.dry_run(
            "training needs versions that diffprivlib works with: take those of the extra diffprivlib"
        ):
            other_trainings.try_one_step(self, {"C": 1.0}, rows, tuple(self.classes))

    def fit(self, setting: Setting, noise: float, rows: Rows, key: jax.Array) -> dict[str, np.ndarray]:
        """Train, and return the weights for features as they are."""
        library = _library()
        examples = other_trainings.finite_examples(rows, tuple(self.classes), regression=False)
        features = np.concatenate(
            [self._clip(examples.features) / self.norm, np.ones((len(examples.targets), 1))], axis=1
        )
        features *= examples.mask[:, None] / math.sqrt(2)
        count = len(self.classes)  # a row of zeros for each class: the gradient is zero, and no class is missing
        features = np.concatenate([features, np.zeros((count, features.shape[1]))])
        targets = np.concatenate([examples.targets, np.arange(count)])
        seed = np.random.RandomState(other_trainings.seed_words(key, SEED_WORDS))
        fitted = library.models.LogisticRegression(
            epsilon=1 / noise,
            data_norm=1.0,
            C=setting["C"],
            fit_intercept=False,
            tol=1e-8,
            max_iter=10_000,
            random_state=seed,
            accountant=library.BudgetAccountant(),
            n_jobs=1,  # processes would draw one noise for all classes
        ).fit(features, targets)
        weights = np.asarray(fitted.coef_) / math.sqrt(2)  # alone: the number of iterations is not noised
        return {"weights": weights[:, :-1] / self.norm, "bias": weights[:, -1]}

    def losses(self, model: dict[str, np.ndarray], rows: Rows) -> np.ndarray:
        """Return 1 where a row is classified wrongly."""
        examples = other_trainings.finite_examples(rows, tuple(self.classes), regression=False)
        scores = self._clip(examples.features) @ model["weights"].T + model["bias"]
        return other_trainings.row_losses(scores, examples, regression=False)

    def _clip(self, features: np.ndarray) -> np.ndarray:
        """Shorten long rows to ``norm``."""
        features = features.astype(float)
        norms = np.linalg.norm(features, axis=1, keepdims=True)
        return features * np.minimum(1.0, self.norm / np.maximum(norms, np.finfo(float).tiny))


def _library() -> Any:
    return checks.extra("diffprivlib", "diffprivlib", "tuning.diffprivlib.LogisticRegression")
