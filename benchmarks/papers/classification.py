"""Records to train classifiers on, for the experiments of Avent et al. (2020): Adult and MNIST.

Adult is encoded as LIBSVM's a1a: a column for each category, quintiles of the continuous ones, whether there was a
capital gain or loss: 123 binary features. Quintiles are of the records themselves, as there.
"""

from typing import NamedTuple

import numpy as np

from benchmarks.papers import datasets
from jaxdpbo import checks

CONTINUOUS = ("age", "fnlwgt", "education-num", "hours-per-week")
GAINS = ("capital-gain", "capital-loss")
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
NAMES = ("adult", "mnist")


class TrainTest(NamedTuple):
    """``features (n, d)`` float64 and ``labels (n,)`` class numbers, for training and for testing; where from."""

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    classes: int
    source: str


def load(name: str, *, seed: int = 0, test: int | None = None) -> TrainTest:
    """Shuffled and split; ``test`` records, or as many as the paper has, or a tenth where there are too few.

    Raises:
      ValueError: an unknown name, ``test`` that leaves nothing to train on.
    """
    features, labels, source = _adult() if checks.one_of("name", name, NAMES) == "adult" else _mnist()
    order = np.random.default_rng(seed).permutation(len(labels))
    test_count = 1605 if name == "adult" else 10_000
    size = checks.size("test", test) if test is not None else min(test_count, len(labels) // 10)
    if size >= len(labels):
        raise ValueError(f"test must leave records to train on, got {size} of {len(labels)}")
    parts = order[size:], order[:size]
    (train_x, train_y), (test_x, test_y) = ((features[rows], labels[rows]) for rows in parts)
    description = f"{source}; {len(train_y)} to train, {size} to test"
    return TrainTest((train_x, train_y), (test_x, test_y), int(labels.max()) + 1, description)


def _adult():
    rows = datasets.table("adult")
    table = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    columns = []
    for name in COLUMNS[:-1]:
        column = np.array(table[name])
        if name in CONTINUOUS:
            numbers = column.astype(float)
            fifth = np.digitize(numbers, np.quantile(numbers, (0.2, 0.4, 0.6, 0.8)))
            columns.append(fifth[:, None] == np.arange(5))
        elif name in GAINS:
            positive = column.astype(float) > 0
            columns.append(np.stack([~positive, positive], axis=1))
        else:
            columns.append(column[:, None] == np.array(sorted(set(column) - {"?"}))[None])
    labels = np.array([income.startswith(">50K") for income in table["income"]]).astype(int)
    return np.concatenate(columns, axis=1).astype(float), labels, "UCI Adult, original records, encoded here as a1a is"


def _mnist():
    dataset = datasets.load("mnist")
    return dataset.features / max(dataset.features.max(), 1.0), dataset.targets.astype(int), dataset.source
