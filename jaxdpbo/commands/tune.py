"""``jaxdpbo tune``: the settings of a scikit-learn estimator for the rows of a CSV file, and the guarantee.

The first half of a public shuffle trains, the other half is protected. Nothing but the numbers of rows and columns is
taken from protected rows to prepare the data: which columns are numbers, their means and scales and the categories are
those of training rows; what a protected row has instead is missing, or no category. Nothing is printed but the answer.
"""

import argparse
import ast
import csv
import importlib
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from jaxdpbo import _checks, space
from jaxdpbo.space import Dimension, Space

MODEL = "model"  # a step of the pipeline
KINDS = {"real": space.real, "integer": space.integer}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this command."""
    parser.add_argument("table", type=Path, help="a CSV file with a header")
    parser.add_argument("--target", required=True, help="the column to predict")
    parser.add_argument("--estimator", required=True, help="by import path: sklearn.linear_model.LogisticRegression")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="parameters that are not searched")
    spaces = parser.add_mutually_exclusive_group(required=True)
    spaces.add_argument(
        "--space",
        nargs="+",
        metavar="NAME=DIMENSION",
        help="C=real:0.01:100:log, max_depth=integer:1:20 or kernel=categorical:rbf,poly",
    )
    spaces.add_argument(
        "--space-file", type=Path, help="TOML: a table for each name, with type, low, high, log; choices"
    )
    parser.add_argument("--epsilon", type=float, required=True, help="the budget, with --delta")
    parser.add_argument("--delta", type=float, required=True, help="far under one over the number of rows")
    parser.add_argument("--loss", default="auto", help="log_loss, hinge, zero_one, squared or absolute")
    parser.add_argument(
        "--loss-range",
        nargs="+",
        metavar="NUMBER",
        help="after the table: lowest and highest loss, chosen without the data; or: private",
    )
    parser.add_argument("--n-iter", type=int, default=100, help="settings tried at most")
    parser.add_argument("--n-jobs", type=int, help="settings at once")
    parser.add_argument("--quiet", action="store_true", help="no bar of steps")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Search, and print the answer."""
    from jaxdpbo.integrations.sklearn import PrivateSearchCV

    try:
        searched = _space_file(arguments.space_file) if arguments.space is None else _space(arguments.space)
        inputs, targets = read(arguments.table, arguments.target)
        train, validation = halves(len(targets))
        estimator = _estimator(arguments.estimator, arguments.set)
        pipeline, targets = prepare(estimator, inputs, targets, train)
        found = PrivateSearchCV(
            pipeline,
            Space({f"{MODEL}__{name}": of for name, of in searched.items()}),
            epsilon=arguments.epsilon,
            delta=arguments.delta,
            loss=arguments.loss,
            loss_range=_loss_range(arguments.loss_range),
            n_iter=arguments.n_iter,
            n_jobs=arguments.n_jobs,
            verbose=not arguments.quiet,
            cv=[(train, validation)],
        ).fit(inputs, targets)
    except (OSError, ValueError, TypeError, AttributeError, ImportError) as error:
        if isinstance(error, ModuleNotFoundError):
            raise
        parser.error(str(error))
    params = {name.removeprefix(f"{MODEL}__"): value for name, value in found.best_params_.items()}
    if arguments.json:
        print(json.dumps({"params": params, "guarantee": found.guarantee_.to_dict(), "method": found.method_}))
        return
    for name, value in params.items():
        print(f"{name} = {value!r}")
    print(f"\n{found.guarantee_}\nmethod {found.method_}")


def read(path: Path, target: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns of text ``(n, k)`` without the target, and the target ``(n,)``; short rows are filled with nothing.

    Raises:
      ValueError: no such column, or fewer rows than two.
    """
    csv.field_size_limit(sys.maxsize)  # a long cell, or one of another encoding, raises nothing
    with path.open(newline="", errors="replace") as file:
        header, *rows = [row for row in csv.reader(file) if row] or [[]]
    if target not in header:
        raise ValueError(f"target must be one of {', '.join(header)}, got {target!r}")
    if len(rows) < 2:
        raise ValueError("table must have two rows or more, and a header")
    width, column = len(header), header.index(target)
    cells = np.array([(row + [""] * width)[:width] for row in rows], object)
    return np.delete(cells, column, axis=1), cells[:, column]


def halves(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Of a public shuffle: which rows train, and which are protected."""
    order = np.random.default_rng(0).permutation(rows)
    return np.sort(order[: rows // 2]), np.sort(order[rows // 2 :])


def _loss_range(words: list[str] | None) -> Any:
    if words is None or words == ["private"]:
        return words and words[0]
    try:
        low, high = map(float, words)
    except ValueError:
        raise ValueError(f"loss-range must be two numbers, or private, got {' '.join(words)!r}") from None
    return low, high


def prepare(estimator: Any, inputs: np.ndarray, targets: np.ndarray, train: np.ndarray) -> tuple[Any, np.ndarray]:
    """A pipeline that reads the columns of text as training rows have them, and the targets."""
    from sklearn.base import is_regressor
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    numbers = [column for column in range(inputs.shape[1]) if _is_numeric(inputs[train, column])]
    text = [column for column in range(inputs.shape[1]) if column not in numbers]
    scaled = Pipeline(
        [
            ("read", FunctionTransformer(_numbers)),
            ("fill", SimpleImputer(keep_empty_features=True)),
            ("scale", StandardScaler()),
        ]
    )
    columns = ColumnTransformer(
        [("numbers", scaled, numbers), ("text", OneHotEncoder(handle_unknown="ignore", sparse_output=False), text)]
    )
    pipeline = Pipeline([("columns", columns), (MODEL, estimator)])
    return pipeline, _numbers(targets) if is_regressor(estimator) else targets


def _is_numeric(cells: np.ndarray) -> bool:
    """Whether all cells that are not empty are numbers."""
    filled = cells[np.vectorize(lambda cell: bool(cell.strip()), otypes=[bool])(cells)]
    return len(filled) > 0 and bool(np.all(np.isfinite(_numbers(filled))))


def _numbers(cells: np.ndarray) -> np.ndarray:
    """Floats; NaN for what is none."""
    return np.vectorize(_number, otypes=[float])(cells)


def _number(cell: str) -> float:
    try:
        found = float(cell)
    except ValueError:
        return float("nan")
    return found if np.isfinite(found) else float("nan")


def _estimator(name: str, fixed: list[str]) -> Any:
    module, _, kind = name.rpartition(".")
    if not module:
        raise ValueError(f"estimator must be an import path such as sklearn.svm.SVC, got {name!r}")
    made = getattr(importlib.import_module(module), kind)()
    return made.set_params(**{key: _value(value) for key, value in map(_pair, fixed)})


def _space(words: list[str]) -> dict[str, Dimension]:
    return {name: _dimension(name, said) for name, said in map(_pair, words)}


def _dimension(name: str, said: str) -> Dimension:
    kind, *rest = said.split(":")
    if kind == "categorical" and len(rest) == 1:
        return space.categorical(*map(_value, rest[0].split(",")))
    if kind not in KINDS or len(rest) not in (2, 3) or rest[2:] not in ([], ["log"]):
        raise ValueError(f"{name} must be real:LOW:HIGH[:log], integer:LOW:HIGH[:log] or categorical:A,B, got {said!r}")
    return KINDS[kind](_value(rest[0]), _value(rest[1]), log=len(rest) == 3)


def _space_file(path: Path) -> dict[str, Dimension]:
    with path.open("rb") as file:
        tables = tomllib.load(file)
    found: dict[str, Dimension] = {}
    for name, table in tables.items():
        rest = dict(table) if isinstance(table, dict) else {}
        kind = _checks.choice(f"type of {name}", rest.pop("type", None), (*KINDS, "categorical"))
        found[name] = space.categorical(*rest.pop("choices", ())) if kind == "categorical" else KINDS[kind](**rest)
    return found


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise ValueError(f"{word!r} must be NAME=VALUE")
    return name, value


def _value(word: str) -> Any:
    """A Python literal, or the text itself."""
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return word
