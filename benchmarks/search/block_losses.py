"""What a search by blocks would choose, and how good every setting is on all rows: one learner, one split.

No search is run: a table of losses, settings by blocks, gives the law of a private choice among the settings exactly.
"""

import os
import warnings
from functools import lru_cache
from typing import Any, NamedTuple

os.environ.setdefault("JAX_ENABLE_X64", "1")

import jax.numpy as jnp
import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks.papers import classification, datasets
from benchmarks.search import cells
from benchmarks.search.budgets import Budget
from jaxdpbo import sensitivity, separable
from jaxdpbo.integrations.sklearn import LOSSES
from jaxdpbo.noise import choice

COUNTS = (10, 25, 50, 100, 200)  # of blocks
LEVELS = (0.25, 0.5, 1.0, 2.0, np.inf)  # mu of the choice
ROWS = {"adult": (20_000, 4_000), "covertype": (16_000, 4_000), "adult, 3,000 rows": (3_000, 4_000)}  # and held out
LEAST = 30  # rows of a block: with fewer there is no such number of blocks


class Learner(NamedTuple):
    """What is searched.

    Attributes:
      estimator: of which one parameter is searched.
      parameter: its name.
      searched: what may be chosen, as a user would who knows little.
      measured: values on all rows, between which a loss is interpolated in their logarithms: wider, since what was
        chosen on a block is carried to more rows.
      loss: of ``LOSSES``.
    """

    estimator: Any
    parameter: str
    searched: np.ndarray
    measured: np.ndarray
    loss: str = "log_loss"

    @property
    def is_count(self) -> bool:
        """Whether it is a number of rows."""
        return self.searched.dtype.kind == "i"


def _tens(low: int, high: int, wider: tuple[int, int], step: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Powers of ten; of the wider range two a decade."""
    return 10 ** np.arange(low, high + 0.1, step), 10 ** np.arange(wider[0], wider[1] + 0.1, 0.5)


def _twos(searched: int, measured: int) -> tuple[np.ndarray, np.ndarray]:
    return 2 ** np.arange(searched + 1), 2 ** np.arange(measured + 1)


DESCENT = {"loss": "log_loss", "max_iter": 10, "tol": None, "random_state": 0}  # ten passes
LEARNERS = {
    "logistic regression": Learner(LogisticRegression(), "C", *_tens(-4, 2, (-6, 2))),
    "ridge regression": Learner(Ridge(), "alpha", *_tens(-2, 4, (-4, 6)), "squared"),
    "decision tree": Learner(DecisionTreeClassifier(random_state=0), "min_samples_leaf", *_twos(7, 12)),
    "random forest": Learner(
        RandomForestClassifier(n_estimators=10, random_state=0), "min_samples_leaf", *_twos(5, 10)
    ),
    "nearest neighbours": Learner(KNeighborsClassifier(algorithm="brute"), "n_neighbors", *_twos(6, 11)),
    "SGD, its rate": Learner(
        SGDClassifier(learning_rate="constant", alpha=0.0, **DESCENT), "eta0", *_tens(-3, 0, (-5, 0), 0.5)
    ),
    "SGD, its penalty": Learner(SGDClassifier(**DESCENT), "alpha", *_tens(-5, 1, (-7, 1))),
}


def measure_learner(cell: cells.Cell) -> dict[str, Any]:
    """The law of a choice by number of blocks and budget, rows a model of a block has, and the losses on all rows."""
    learner = LEARNERS[cell.search]
    (X, y), (others, truth) = records(cell.problem, cell.seed)
    laws: dict[str, Any] = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for k in counts(cell.problem):
            partition = separable.blocks(lambda *_: 0.0, len(y), k, seed=cell.seed).partition
            parts = [((X[block.train], y[block.train]), (X[block.held_out], y[block.held_out])) for block in partition]
            losses = np.array([[loss(learner, value, *part) for part in parts] for value in learner.searched])
            laws[str(k)] = {
                "rows": len(partition[0].train),
                "law": [law(losses, width(learner), Budget("mu", mu).range).tolist() for mu in LEVELS],
            }
        values = learner.measured[learner.measured <= len(y) / 2] if learner.is_count else learner.measured
        whole = [loss(learner, value, (X, y), (others, truth)) for value in values]
    return {"rows": len(y), "blocks": laws, "values": values.tolist(), "losses": whole}


def counts(name: str) -> list[int]:
    """Of blocks, for data of that name."""
    return [k for k in COUNTS if ROWS[name][0] // k >= LEAST]


def loss(learner: Learner, value: Any, train: Any, held_out: Any) -> float:
    """As of ``PrivateSearchCV(protect="all")``: the mean of clipped losses, infinite where there is no fit."""
    kind = LOSSES[learner.loss]
    try:
        model: Any = clone(learner.estimator)
        model.set_params(**{learner.parameter: value.item()}).fit(*train)
        losses = kind.compare(model, held_out[1], getattr(model, kind.responses[0])(held_out[0]))
    except ValueError:  # one class alone, or too few rows
        return np.inf
    return float(np.mean(np.clip(np.where(np.isnan(losses), width(learner) / 2, losses), 0.0, width(learner))))


def width(learner: Learner) -> float:
    """Of the range of a record's loss, which begins at 0; squared errors of 0 and 1 have none of their own."""
    return (LOSSES[learner.loss].range or (0.0, 1.0))[1]


def law(losses: np.ndarray, wide: float, eta: float, *, favours_first: bool = False) -> np.ndarray:
    """How likely each setting is chosen, ``(m,)``, by its losses ``(m, k)``: the float form of ``choose_row``.

    ``eta`` is the range of the choice; with ``favours_first`` the first setting has half of the prior.
    """
    means = wide * np.mean(np.asarray(choice.relative_losses(jnp.asarray(losses), jnp.asarray(wide))), axis=1)
    if np.isinf(eta):
        return np.asarray(np.arange(len(means)) == np.argmin(means), float)
    weights = np.exp(-losses.shape[1] * eta / sensitivity.between_scores(wide) * (means - means.min()))
    weights[0] *= len(weights) - 1 if favours_first else 1
    return weights / weights.sum()


@lru_cache(maxsize=1)
def records(name: str, seed: int) -> Any:
    """Rows to search with, and others: features and labels 0 or 1."""
    rows, held_out = ROWS[name]
    features, labels = _load_rows(name.partition(",")[0])
    order = np.random.default_rng(seed).permutation(len(labels))[: rows + held_out]
    return tuple((features[part], labels[part]) for part in (order[:rows], order[rows:]))


@lru_cache(maxsize=2)
def _load_rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "adult":
        split = classification.load("adult", seed=0)
        return tuple(map(np.concatenate, zip(split.train, split.test, strict=True)))  # pyright: ignore[reportReturnType]
    dataset = datasets.load("covtype")  # lodgepole pine, half of the rows, or another cover
    scaled = (dataset.features - dataset.features.mean(axis=0)) / np.maximum(dataset.features.std(axis=0), 1e-9)
    return scaled, np.asarray(dataset.targets == 2, int)
