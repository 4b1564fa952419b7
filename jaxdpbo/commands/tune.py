"""``jaxdpbo tune``: tune a scikit-learn estimator on a CSV file, and print the setting and the guarantee.

The first half of a public shuffle trains, the other half is protected. Data preparation takes only the number of rows
and columns from protected rows: the training rows alone decide the numeric columns, their means and scales, and the
categories; any other value in a protected row counts as missing, or as no category. The command prints only the answer.
"""

import argparse
import ast
import importlib
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from jaxdpbo import Recording, space
from jaxdpbo.cells import real_numbers
from jaxdpbo.commands import csv_rows, ledger
from jaxdpbo.ledger import LedgerError, ledger_file
from jaxdpbo.space import AnyDimension, Dimension, Space

MODEL = "model"  # the estimator's step in the pipeline
STEP = f"{MODEL}__"  # before the names of its parameters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("table", type=Path, help=csv_rows.FORMAT)
    parser.add_argument("--target", required=True, help="the column to predict")
    parser.add_argument(
        "--estimator", required=True, help="an import path, such as sklearn.linear_model.LogisticRegression"
    )
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="fixed parameters of the estimator")
    spaces = parser.add_mutually_exclusive_group(required=True)
    spaces.add_argument(
        "--space",
        nargs="+",
        metavar="NAME=DIMENSION",
        help="parameters to search, such as C=real:0.01:100:log, max_depth=integer:1:20 or kernel=categorical:rbf,poly",
    )
    spaces.add_argument(
        "--space-file",
        type=Path,
        help="a TOML file: a table for each parameter, with type, low, high, log; or choices; or branches, tables of "
        "such tables",
    )
    parser.add_argument("--epsilon", type=float, required=True, help="the privacy budget, with --delta")
    parser.add_argument("--delta", type=float, required=True, help="far below 1 / (number of rows)")
    parser.add_argument(
        "--loss",
        default="auto",
        help="auto, log_loss, hinge, zero_one, roc_auc, balanced_accuracy, squared or absolute (default %(default)s)",
    )
    parser.add_argument(
        "--loss-range",
        nargs="+",
        metavar="NUMBER",
        help="lowest and highest loss, chosen without the data; or: private; give this option after the table",
    )
    parser.add_argument(
        "--n-iter", type=int, default=100, help="the largest number of settings to try (default %(default)s)"
    )
    parser.add_argument("--n-jobs", type=int, help="the number of settings to fit in parallel")
    parser.add_argument(
        "--ledger",
        type=ledger.place,
        help="charge this ledger, a path or an address, and store the answer; needs --run",
    )
    parser.add_argument("--run", dest="run_name", metavar="NAME", help="the name of the run in the ledger")
    parser.add_argument("--quiet", action="store_true", help="hide the progress bar")
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON object")


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Search, and print the setting and the guarantee."""
    from jaxdpbo.integrations.sklearn import PrivateSearchCV

    try:
        of_file = arguments.space is None
        searched = _space_file(arguments.space_file, STEP) if of_file else _space(arguments.space, STEP)
        inputs, targets = read(arguments.table, arguments.target)
        train, validation = halves(len(targets))
        estimator = _estimator(arguments.estimator, arguments.set)
        pipeline, targets = prepare(estimator, inputs, targets, train)
        search = PrivateSearchCV(
            pipeline,
            Space(searched),
            epsilon=arguments.epsilon,
            delta=arguments.delta,
            loss=arguments.loss,
            loss_range=_loss_range(arguments.loss_range),
            n_iter=arguments.n_iter,
            n_jobs=arguments.n_jobs,
            verbose=not arguments.quiet,
            cv=[(train, validation)],
            ledger=_recording(arguments.ledger, arguments.run_name),
        ).fit(inputs, targets)
    except (OSError, ValueError, TypeError, AttributeError, ImportError, LedgerError) as error:
        if isinstance(error, ModuleNotFoundError):
            raise
        parser.error(str(error))
    params = {name.removeprefix(STEP): value for name, value in search.best_params_.items()}
    if arguments.json:
        print(json.dumps({"params": params, "guarantee": search.guarantee_.to_dict(), "method": search.method_}))
        return
    for name, value in params.items():
        print(f"{name} = {value!r}")
    print(f"\n{search.guarantee_}\nmethod {search.method_}")


def read(path: Path, target: str) -> tuple[np.ndarray, np.ndarray]:
    """Read columns of text ``(n, k)`` without the target, and the target ``(n,)``.

    Raises:
      ValueError: no such column, or fewer than two rows; quotes no name of a column, see ``csv_rows.Table.column``.
    """
    table = csv_rows.parse(str(path), path.read_bytes())
    column, cells = table.column(target), table.cells
    if len(cells) < 2:
        raise ValueError(f"table must have a header and at least two rows, got {len(cells)} rows")
    return np.delete(cells, column, axis=1), cells[:, column]


def halves(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Divide row numbers by a public shuffle: training rows and protected rows."""
    order = np.random.default_rng(0).permutation(rows)
    return np.sort(order[: rows // 2]), np.sort(order[rows // 2 :])


def _recording(place: ledger_file.Place | None, run: str | None) -> Recording | None:
    if (place is None) != (run is None):
        raise ValueError("--ledger and --run must be given together: --run is the name of this answer in the ledger")
    return None if place is None or run is None else Recording(place, run)


def _loss_range(words: list[str] | None) -> Any:
    if words is None or words == ["private"]:
        return words and words[0]
    try:
        low, high = map(float, words)
    except ValueError:
        raise ValueError(f"loss-range must be two numbers, or private, got {' '.join(words)!r}") from None
    return low, high


def prepare(estimator: Any, inputs: np.ndarray, targets: np.ndarray, train: np.ndarray) -> tuple[Any, np.ndarray]:
    """Make a pipeline for columns of text, with column types from the training rows; return it and the targets."""
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
    """True if all nonempty cells are finite numbers."""
    filled = cells[np.vectorize(lambda cell: bool(cell.strip()), otypes=[bool])(cells)]
    return len(filled) > 0 and bool(np.all(np.isfinite(_numbers(filled))))


def _numbers(cells: np.ndarray) -> np.ndarray:
    """Convert cells to finite floats; all else becomes NaN."""
    numbers = real_numbers(cells.ravel()).reshape(cells.shape)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _estimator(name: str, fixed: list[str]) -> Any:
    module, _, kind = name.rpartition(".")
    try:
        estimator = getattr(importlib.import_module(module), kind)()
    except (AttributeError, ImportError, ValueError) as error:
        raise ValueError(f"estimator must be an import path such as sklearn.svm.SVC, got {name!r}: {error}") from None
    return estimator.set_params(**{key: _value(value) for key, value in map(_pair, fixed)})


def _space(words: list[str], step: str = "") -> dict[str, Dimension]:
    return {step + name: _dimension(name, spelling) for name, spelling in map(_pair, words)}


def _dimension(name: str, spelling: str) -> Dimension:
    kind, *rest = spelling.split(":")
    if kind == "categorical" and len(rest) == 1:
        return space.categorical(*map(_value, rest[0].split(",")))
    if kind not in space.KINDS or len(rest) not in (2, 3) or rest[2:] not in ([], ["log"]):
        raise ValueError(
            f"{name} must be real:LOW:HIGH[:log], integer:LOW:HIGH[:log] or categorical:A,B, got {spelling!r}"
        )
    return space.KINDS[kind](_value(rest[0]), _value(rest[1]), log=len(rest) == 3)


def _space_file(path: Path, step: str = "") -> dict[str, AnyDimension]:
    with path.open("rb") as file:
        return space.read_tables(tomllib.load(file), step)


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise ValueError(f"a parameter must be NAME=VALUE, got {word!r}")
    return name, value


def _value(word: str) -> Any:
    """Parse a Python literal; return other text unchanged."""
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return word
