"""The black boxes that searches are compared on: real and simulated records, each with a public range of a loss."""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.papers import classification, datasets, gp_regression, kernel_svm, logistic_regression, splits
from benchmarks.search import table_problems as tables
from jaxdpbo import Space, space
from jaxdpbo.problems import _kernel_svr

MOST_LOG_LOSS = 4.0  # of a record, whatever a model says: its public range has an end
MNIST_SIDE = 10  # pixels, after means over cells
FOREST = Space(
    {
        "n_estimators": space.integer(5, 50, log=True),
        "max_depth": space.integer(1, 20),
        "min_samples_leaf": space.integer(1, 100, log=True),
        "max_features": space.real(0.05, 1.0),
        "criterion": space.categorical("gini", "entropy"),
        "bootstrap": space.categorical(True, False),
    }
)
BOOSTING = Space(
    {
        "learning_rate": space.real(0.01, 1.0, log=True),
        "max_iter": space.integer(5, 50, log=True),
        "max_leaf_nodes": space.integer(2, 64, log=True),
        "min_samples_leaf": space.integer(1, 200, log=True),
        "l2_regularization": space.real(1e-3, 1e2, log=True),
        "interaction_cst": space.categorical("pairwise", "no_interactions", None),
    }
)


class Problem(NamedTuple):
    """One black box.

    Attributes:
      title: for the table.
      searched: a box, or a ``Space``.
      loss: ``(point or params, data) -> losses (n,)``.
      draw: ``seed -> data``.
      users: ``n``.
      loss_range: public.
      steps: of DP-GIBO, ``d + 1`` evaluations each: all methods are given as many.
      traceable: whether ``loss`` is JAX.
      default: what to call ``loss`` with for the parameters that the model's library has chosen; None: it has none.
      public: ``data -> data`` of the training rows alone, split again; None where there are no training rows.
    """

    title: str
    searched: Any
    loss: Callable[..., Any]
    draw: Callable[[int], Any]
    users: int
    loss_range: tuple[float, float]
    steps: int
    traceable: bool
    default: dict[str, Any] | None = None
    public: Callable[[Any], Any] | None = None

    @property
    def is_box(self) -> bool:
        """Whether real numbers are searched, and not a ``Space``."""
        return not isinstance(self.searched, Space)

    def place(self, point: np.ndarray) -> Any:
        """What ``loss`` is called with at a point of the box."""
        return point if self.is_box else self.searched.params(point)

    def losses(self, place: Any, data: Any) -> np.ndarray:
        """The clipped losses ``(n,)``; a loss that is no number counts as the highest."""
        loss = _compile(self.loss) if self.traceable else self.loss
        found, (low, high) = np.asarray(loss(place, data), float), self.loss_range
        return np.clip(np.where(np.isnan(found), high, found), low, high)

    def mean(self, place: Any, data: Any) -> float:
        """The mean of ``losses``."""
        return float(np.mean(self.losses(place, data)))

    @property
    def dimension(self) -> int:
        """``d``."""
        return self.box.shape[1]

    @property
    def box(self) -> np.ndarray:
        """``(2, d)``."""
        return self.searched if self.is_box else self.searched.bounds

    @property
    def evaluations(self) -> int:
        """That every method is given."""
        return self.steps * (self.dimension + 1)


@lru_cache
def _compile(loss: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(loss)


def training_rows(data: splits.Split, multiple: int = 1) -> splits.Split:
    """Two thirds of the training rows to fit to, and one third, a multiple of ``multiple``, to measure."""
    rows = np.random.default_rng(0).permutation(len(data.train))
    held = len(rows) // 3 // multiple * multiple
    inputs, targets = np.asarray(data.train), np.asarray(data.train_targets)
    return splits.Split(inputs[rows[held:]], targets[rows[held:]], inputs[rows[:held]], targets[rows[:held]])


def _svr(name: str, train: int, users: int, features: int, ordered: bool, steps: int, title: str) -> Problem:
    def draw(seed: int) -> splits.Split:
        sizes = {"train": train, "validation": users, "features": features}
        return splits.split_for_svr(load_dataset(name), seed, ordered=ordered, **sizes)

    return Problem(
        title,
        _kernel_svr.kernel_svr_bounds(features),
        _kernel_svr.kernel_svr_loss,
        draw,
        users,
        (0.0, 4.0),
        steps,
        False,
        None,
        training_rows,
    )


@lru_cache
def load_dataset(name: str) -> datasets.Dataset:
    return datasets.load(name)


def _draw_simulated_lengthscales(seed: int) -> splits.Split:
    return _sample(jax.random.key(seed))


_sample = jax.jit(lambda key: gp_regression.sample(key, 4500, 500)[0])


def _draw_real_lengthscales(name: str, train: int, users: int, features: int | None, seed: int) -> splits.Split:
    return splits.split_for_svr(load_dataset(name), seed, train=train, validation=users, features=features)


def _pixels(seed: int) -> splits.Split:
    """Even digits from odd ones, by the means of 10 by 10 cells of their pixels."""
    dataset = load_dataset("mnist")
    images = dataset.features.reshape(-1, 28, 28)[:, 4:24, 4:24] / 255.0
    cells = images.reshape(-1, MNIST_SIDE, 2, MNIST_SIDE, 2).mean(axis=(2, 4)).reshape(len(images), -1)
    targets = np.where(dataset.targets % 2 == 0, 1.0, -1.0)
    return splits.split_rows(cells, targets, seed, train=300, validation=3000)


def _adult(seed: int) -> splits.Split:
    (features, labels), _, _, _ = classification.load("adult", seed=0)
    first, second = splits.divide_rows(len(labels), seed, train=2000, validation=10_000)
    return splits.Split(features[first], labels[first], features[second], labels[second])


def _log_losses(model: Any, data: splits.Split) -> np.ndarray:
    chances = model.fit(data.train, data.train_targets).predict_proba(data.validation)
    right = chances[np.arange(len(chances)), data.validation_targets.astype(int)]
    return -np.log(np.maximum(right, math.exp(-MOST_LOG_LOSS)))


def forest_loss(params: dict[str, Any], data: splits.Split) -> np.ndarray:
    from sklearn.ensemble import RandomForestClassifier

    return _log_losses(RandomForestClassifier(random_state=0, **params), data)


def boosting_loss(params: dict[str, Any], data: splits.Split) -> np.ndarray:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return _log_losses(HistGradientBoostingClassifier(random_state=0, early_stopping=False, **params), data)


def _covtype(seed: int) -> splits.Split:
    return kernel_svm.split(load_dataset("covtype"), seed, train=1000, validation=4000)


def _cancer(seed: int) -> splits.Split:
    return logistic_regression.split(load_dataset("breast_cancer"), seed, train=200, validation=369)


def _chicago(train: int) -> Callable[[int], splits.Split]:
    sizes = {"train": train, "validation": 2849, "features": 30}
    return partial(splits.split_for_svr, load_dataset("chicago"), ordered=True, **sizes)


PROBLEMS: dict[str, Problem] = {
    "svr_diabetes": _svr("diabetes", 142, 300, 10, False, 25, "kernel SVR, diabetes"),
    "svr_ridership": _svr("chicago", 2849, 2849, 30, True, 10, "kernel SVR, ridership (Sopa, figure 3)"),
    "svr_ridership_700": _svr("chicago", 700, 2849, 30, True, 10, "kernel SVR, ridership, 700 training rows"),
    "gp_simulated": Problem(
        "GP lengthscales, simulated (Sopa, figure 4)", gp_regression.bounds(), gp_regression.loss,
        _draw_simulated_lengthscales, 4500, (0.0, 4.0), 25, True, None, training_rows,
    ),
    "gp_diabetes": Problem(
        "GP lengthscales, diabetes", gp_regression.bounds(), gp_regression.loss,
        partial(_draw_real_lengthscales, "diabetes", 142, 300, None), 300, (0.0, 4.0), 25, True, None, training_rows,
    ),
    "gp_slices": Problem(
        "GP lengthscales, CT slices", np.array([gp_regression.LENGTHSCALE] * 30).T, gp_regression.loss,
        partial(_draw_real_lengthscales, "ct_slice", 300, 382, 30), 382, (0.0, 4.0), 10, True, None, training_rows,
    ),
    "gp_pixels": Problem(
        "GP lengthscales, pixels of digits", np.array([(0.5, 50.0)] * 100).T, gp_regression.loss, _pixels,
        3000, (0.0, 4.0), 5, True, None, training_rows,
    ),
    "logistic": Problem(
        "regularisation, breast cancer", logistic_regression.bounds(), logistic_regression.loss, _cancer,
        369, (0.0, 1.0), 25, True, None, training_rows,
    ),
    "svm": Problem(
        "kernel SVM, covertype", kernel_svm.bounds(), kernel_svm.loss, _covtype, 4000, (0.0, 1.0), 25, False,
        None, training_rows,
    ),
    "boosting": Problem(
        "gradient boosting, Adult", BOOSTING, boosting_loss, _adult, 10_000, (0.0, MOST_LOG_LOSS), 15, False,
        {}, training_rows,
    ),
    "forest": Problem(
        "random forest, Adult", FOREST, forest_loss, _adult, 10_000, (0.0, MOST_LOG_LOSS), 15, False,
        {}, training_rows,
    ),
    "elastic_net": Problem(
        "elastic net, house prices", tables.ELASTIC_NET, tables.elastic_net_loss, tables.draw_houses,
        2000, (0.0, 1.0), 18, False, {"alpha": 1.0, "l1_ratio": 0.5, "scaling": "none", "fit_intercept": True},
        training_rows,
    ),
    "perceptron": Problem(
        "perceptron, loans", tables.PERCEPTRON, tables.perceptron_loss, tables.draw_loans,
        6000, (0.0, MOST_LOG_LOSS), 15, False,
        {"width": 64, "activation": "relu", "alpha": 1e-4, "learning_rate_init": 1e-3, "batch_size": 200},
        training_rows,
    ),
    "ranking": Problem(
        "ranking of house prices", tables.RANKING, tables.ranking_loss, tables.draw_houses, 400, (0.0, 1.0), 15, False,
        {
            "learning_rate": 0.1, "max_iter": 60, "max_leaf_nodes": 31, "min_samples_leaf": 20,
            "loss": "squared_error",
        },
        partial(training_rows, multiple=tables.HOUSES),
    ),
    "ridership": Problem(
        "time series, ridership", tables.FORECAST, tables.forecast_loss, tables.draw_series, 2000, (0.0, 2.0), 18,
        False, {"lags": 14, "alpha": 1.0, "season": "none", "half_life": 3000.0, "weather": True},
        tables.Series.training_days,
    ),
}  # fmt: skip


def _lengthscales(title: str, load: Callable[[], datasets.Dataset], train: int, users: int, features: int) -> Problem:
    def draw(seed: int) -> splits.Split:
        return splits.split_for_svr(load(), seed, train=train, validation=users, features=features)

    steps = 25 if features <= 12 else 10
    box = np.array([gp_regression.LENGTHSCALE] * features).T
    return Problem(title, box, gp_regression.loss, draw, users, (0.0, 4.0), steps, True, None, training_rows)


def _house_svr(seed: int) -> splits.Split:
    return splits.split_for_svr(_houses(), seed, train=300, validation=1000, features=10)


@lru_cache
def _houses() -> datasets.Dataset:
    """Sales in Ames, by their numeric columns."""
    features, prices = tables.numeric_houses()
    return datasets.Dataset(features, prices, "ames")


@lru_cache
def _covers() -> datasets.Dataset:
    """Whether the cover is of the commonest class, by the ten numeric columns."""
    dataset = load_dataset("covtype")
    return dataset._replace(features=dataset.features[:, :10], targets=np.where(dataset.targets == 2, 1.0, -1.0))


DEVELOPMENT: dict[str, Problem] = {  # boxes with 400 to 1,000 users; no table of results but that of the method rule
    "gp_houses": _lengthscales("GP lengthscales, house prices", _houses, 300, 1000, 10),
    "gp_ridership": _lengthscales("GP lengthscales, ridership", partial(load_dataset, "chicago"), 300, 1000, 12),
    "gp_covertype": _lengthscales("GP lengthscales, covertype", _covers, 300, 1000, 10),
    "gp_cancer": _lengthscales("GP lengthscales, breast cancer", partial(load_dataset, "breast_cancer"), 169, 400, 30),
    "svr_houses": Problem(
        "kernel SVR, house prices", _kernel_svr.kernel_svr_bounds(10), _kernel_svr.kernel_svr_loss, _house_svr, 1000,
        (0.0, 4.0), 25, False, None, training_rows,
    ),
}  # fmt: skip
