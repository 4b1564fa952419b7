"""Black boxes of four more kinds, on tables: elastic net, a perceptron, a ranking, a time series.

Text columns become codes or one-hot columns by the values of the whole table: no search sees anything of a split.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.papers import datasets, splits
from jaxdpbo import Space, space

HOUSES = 5  # of a list
MOST_LOG_LOSS = 4.0
ELASTIC_NET = Space(
    {
        "alpha": space.real(1e-4, 10.0, log=True),
        "l1_ratio": space.real(0.0, 1.0),
        "scaling": space.categorical("standard", "quantile", "none"),
        "fit_intercept": space.categorical(True, False),
    }
)
PERCEPTRON = Space(
    {
        "width": space.integer(2, 64, log=True),
        "activation": space.categorical("relu", "tanh", "logistic"),
        "alpha": space.real(1e-5, 10.0, log=True),
        "learning_rate_init": space.real(1e-4, 0.1, log=True),
        "batch_size": space.integer(16, 512, log=True),
    }
)
RANKING = Space(
    {
        "learning_rate": space.real(0.01, 1.0, log=True),
        "max_iter": space.integer(5, 60, log=True),
        "max_leaf_nodes": space.integer(2, 32, log=True),
        "min_samples_leaf": space.integer(1, 200, log=True),
        "loss": space.categorical("squared_error", "absolute_error", "gamma"),
    }
)
FORECAST = Space(
    {
        "lags": space.integer(1, 42),
        "alpha": space.real(1e-3, 1e4, log=True),
        "season": space.categorical("none", "dummies", "difference"),
        "half_life": space.real(10.0, 3000.0, log=True),
        "weather": space.categorical(True, False),
    }
)


class Series(NamedTuple):
    """Days in order: ``ridership (t,)``, the day's ``weather (t, 26)``, and the first of the days to forecast."""

    ridership: np.ndarray
    weather: np.ndarray
    first: int

    def training_days(self) -> "Series":
        """The days that are not forecast, of which the last third are."""
        return Series(self.ridership[: self.first], self.weather[: self.first], self.first * 2 // 3)


@lru_cache
def _ames() -> tuple[np.ndarray, np.ndarray]:
    """Features ``(2930, ...)``, codes of text columns included, and prices in units of 100,000 dollars."""
    header, *rows = datasets.table("ames")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    prices = np.array(columns.pop("Sale_Price"), float) / 1e5
    del columns["rownames"]
    return np.concatenate([_encode(column) for column in columns.values()], axis=1), prices


def numeric_houses() -> tuple[np.ndarray, np.ndarray]:
    """Features ``(2930, 33)`` of the numeric columns, and prices."""
    features, prices = _ames()
    codes = np.all(np.isin(features, (0.0, 1.0)), axis=0)
    return features[:, ~codes], prices


@lru_cache
def _loans() -> tuple[np.ndarray, np.ndarray]:
    """Features and whether a loan went bad."""
    header, *rows = datasets.table("lending_club")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    bad = np.array(columns.pop("Class")) == "bad"
    for name in ("rownames", "addr_state"):
        del columns[name]
    return np.concatenate([_encode(column) for column in columns.values()], axis=1), bad.astype(float)


def _encode(column: tuple[str, ...]) -> np.ndarray:
    try:
        return np.array(column, float)[:, None]
    except ValueError:
        values, codes = np.unique(column, return_inverse=True)
        return np.eye(len(values))[codes]


def draw_houses(seed: int) -> splits.Split:
    features, prices = _ames()
    first, second = splits.divide_rows(len(prices), seed, train=930, validation=2000)
    return splits.Split(features[first], prices[first], features[second], prices[second])


def draw_loans(seed: int) -> splits.Split:
    features, bad = _loans()
    return splits.split_rows(features, bad, seed, train=3000, validation=6000)


def draw_series(seed: int) -> Series:
    """4,000 days of the 5,698, from a start by the seed: the last 2,000 are forecast."""
    dataset = datasets.load("chicago")
    start = int(np.random.default_rng(seed).integers(0, len(dataset.targets) - 4000 + 1))
    days = slice(start, start + 4000)
    return Series(dataset.targets[days], dataset.features[days, 20:46], 2000)


def elastic_net_loss(params: dict[str, Any], data: splits.Split) -> np.ndarray:
    """Absolute error of the logarithm of a price."""
    from sklearn.linear_model import ElasticNet
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, QuantileTransformer, StandardScaler

    options = dict(params)
    kinds = {
        "standard": StandardScaler,
        "quantile": lambda: QuantileTransformer(n_quantiles=100, random_state=0),
        "none": FunctionTransformer,
    }
    model = make_pipeline(kinds[options.pop("scaling")](), ElasticNet(**options, max_iter=200))
    fitted = model.fit(data.train, np.log(data.train_targets))
    return np.abs(fitted.predict(data.validation) - np.log(data.validation_targets))


def perceptron_loss(params: dict[str, Any], data: splits.Split) -> np.ndarray:
    """Log loss of a loan."""
    from sklearn.neural_network import MLPClassifier

    options = dict(params)
    model = MLPClassifier((options.pop("width"),), **options, max_iter=15, random_state=0)
    chances = model.fit(data.train, data.train_targets).predict_proba(data.validation)
    right = chances[np.arange(len(chances)), data.validation_targets.astype(int)]
    return -np.log(np.maximum(right, np.exp(-MOST_LOG_LOSS)))


def ranking_loss(params: dict[str, Any], data: splits.Split) -> np.ndarray:
    """Share of the pairs in a list of five houses that are in the wrong order: a user is a list."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(random_state=0, early_stopping=False, **params)
    scores = model.fit(data.train, data.train_targets).predict(data.validation).reshape(-1, HOUSES)
    prices = data.validation_targets.reshape(-1, HOUSES)
    first, second = np.triu_indices(HOUSES, 1)
    wrong = (scores[:, first] - scores[:, second]) * (prices[:, first] - prices[:, second]) <= 0
    return np.mean(wrong, axis=1)


def forecast_loss(params: dict[str, Any], data: Series) -> np.ndarray:
    """Absolute error of tomorrow's ridership, in tens of thousands: a user is a day."""
    from sklearn.linear_model import Ridge

    lags, rides = params["lags"], data.ridership
    if params["season"] == "difference":
        rides = np.concatenate([np.zeros(7), rides[7:] - rides[:-7]])
    days = np.arange(49, len(rides))
    columns = [rides[days[:, None] - 1 - np.arange(lags)]]
    if params["season"] == "dummies":
        columns.append(np.eye(7)[days % 7])
    if params["weather"]:
        columns.append(data.weather[days])
    inputs, past = np.concatenate(columns, axis=1), days < data.first
    weights = 0.5 ** ((data.first - days[past]) / params["half_life"])
    centred = splits.standardise(inputs, np.flatnonzero(past))
    model = Ridge(params["alpha"]).fit(centred[past], rides[days[past]], sample_weight=weights)
    return np.abs(model.predict(centred[~past]) - rides[days[~past]]) / 10.0
