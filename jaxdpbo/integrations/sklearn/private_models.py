"""``PrivateClassifier`` and ``PrivateRegressor``: a private model of a table, its settings tuned under one epsilon."""

import math
from collections.abc import Callable, Iterable, Sequence
from copy import copy, deepcopy
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from scipy.sparse import issparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from jaxdpbo import cells, checks, not_private, notes
from jaxdpbo.drivers import Execution
from jaxdpbo.drivers.release_notes import error_notes
from jaxdpbo.guarantee.recording import Recording
from jaxdpbo.integrations.sklearn import argument_errors, layered_training, losses
from jaxdpbo.integrations.sklearn import columns as _columns
from jaxdpbo.integrations.sklearn.private_estimator import READ_RAW, SEVERAL_ROWS, PrivateEstimator
from jaxdpbo.integrations.sklearn.type_aliases import Rows, Targets
from jaxdpbo.space import Categorical, Dimension, Integer, NumberText, Real
from jaxdpbo.tuning import fitting, joint_tuning
from jaxdpbo.types import ArrayLike

TARGET_OFFSET = 0.5  # a regression begins at the middle of the range of targets
MIDDLE_ERROR = 0.25  # of always predicting the middle, over the squared width of the range, for any targets
Columns = dict[Any, Dimension | Sequence[Any] | None] | Dimension


class _Table(NamedTuple):
    """The columns of a table: names, and values, each an array ``(n,)``."""

    names: list[Any]
    columns: list[np.ndarray]


class _PrivateModel(PrivateEstimator):
    """Base class of ``PrivateClassifier`` and ``PrivateRegressor``."""

    _released = ("model_",)
    _described = ("setting_", "error_", "error_deviation_", "encoding_", "classes_", "target_range_")
    columns: Any
    epsilon: Any
    delta: Any
    settings: Any
    cap: int | None
    ledger: Recording | None

    def _expect_arguments(self, X: Any, *more: Callable[[], Any]) -> None:
        """Check all that is public and wrong in a first call at once: a beginner mends it in one go."""
        table = _read_table(X)
        argument_errors.raise_together(
            lambda: _columns.make_encoding(self.columns, table.names),
            *more,
            lambda: argument_errors.expect_given("epsilon", self.epsilon, "epsilon=1, the budget of the whole fit"),
            lambda: argument_errors.expect_given(
                "delta", self.delta, "delta=1e-5, far below 1 over the number of rows"
            ),
        )

    def _tune(self, run: Execution, X: Any, labels: np.ndarray, classes: int, constant: float) -> None:
        """Encode, tune and train, and keep what you may publish, and nothing else; ``constant``: a constant's error."""
        table = _read_table(X)
        check_consistent_length(*table.columns, labels)
        if len(labels) < fitting.LEAST_ROWS:
            raise ValueError(f"X must have at least {fitting.LEAST_ROWS} rows, got {len(labels)}")
        validate_data(copy(self), X, reset=True, skip_check_array=True)  # before the charge
        encoding = _columns.make_encoding(self.columns, table.names)
        default_settings = layered_training.default_settings(len(labels), regression=not classes)
        settings = default_settings if self.settings is None else self.settings
        result = joint_tuning.tune_table(
            layered_training.LayeredDPSGD(encoding.width, classes),
            (_columns.encode(encoding, table.columns), labels),
            settings,
            epsilon=self.epsilon,
            delta=self.delta,
            cap=self.cap,
            ledger=self.ledger,
            key=run.key,
            insecure_key=run.insecure_key,
        )
        validate_data(self, X, reset=True, skip_check_array=True)
        self.encoding_, self.model_ = encoding, jax.tree.map(np.asarray, result.model)
        self.setting_, self.error_ = result.setting, result.error
        self._keep_guarantee(result.guarantees[0], READ_RAW, SEVERAL_ROWS)
        self.public_ = {"users": len(labels), "settings": deepcopy(settings)}
        self.error_deviation_ = result.error_deviation
        said = error_notes(self.error_, self.error_deviation_, constant)
        self._keep_notes(notes.few_rows(len(labels)) + said)

    def _check(self, X: Any, targets: Any, dimension: Dimension, what: str) -> not_private.NotPrivateCheck:
        """Count the cells and targets that the public dimensions do not foresee."""
        table = _read_table(X)
        check_consistent_length(*table.columns, targets)
        encoding = _columns.make_encoding(self.columns, table.names)
        found = [not_private.count_cells(what, targets, dimension)]
        for position, of in zip(encoding.positions, encoding.dimensions, strict=True):
            found.append(not_private.count_cells(f"column {table.names[position]!r}", table.columns[position], of))
        return not_private.make_check(len(targets), *found)

    def _scores(self, X: Any) -> np.ndarray:
        """The scores ``(n, k)`` of the rows."""
        check_is_fitted(self, "model_")
        table = _read_table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        names = self.encoding_.names
        if names and hasattr(X, "columns") and names != tuple(table.names):
            raise ValueError(f"X must have the columns of fit, in their order: {', '.join(map(repr, names))}")
        outputs = _columns.encode(self.encoding_, table.columns)
        for number, layer in enumerate(self.model_):
            outputs = np.maximum(outputs, 0.0) if number else outputs
            outputs = outputs @ layer.weights.astype(float) + layer.bias
        return outputs

    def __sklearn_tags__(self) -> Any:
        """Missing values and text have features of their own; with few rows a private model is poor."""
        mixin: Any = super()
        tags = mixin.__sklearn_tags__()
        for estimator_tags in (tags.classifier_tags, tags.regressor_tags):
            if estimator_tags is not None:
                estimator_tags.poor_score = True
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


class PrivateClassifier(_PrivateModel, ClassifierMixin, BaseEstimator):
    """Train a private classifier on a table and tune its settings, all under one ``epsilon``.

    ``fit`` encodes the columns by their public dimensions, tries a random, hidden number of private trainings with
    random settings (logistic regression, perceptrons) on four fifths of the rows, scores each with noise on the other
    fifth, chosen by a public permutation of row numbers, and keeps the best (``tuning.tune_and_train``).

    Formal guarantee: all attributes with a trailing underscore are together ``(epsilon, delta)``-DP for the replacement
    of one row of ``X`` and ``y``; see ``guarantee_`` for the assumptions. ``score`` is not private if its rows are
    protected. Each ``fit`` spends a budget again. Without a ``cap`` the assumptions include that nobody times ``fit``.
    In a ``Pipeline``, no step before the model may learn from the rows.

    >>> import numpy as np
    >>> import pandas
    >>> from jaxdpbo import space
    >>> from jaxdpbo.integrations.sklearn import PrivateClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = pandas.DataFrame({"age": rng.integers(18, 90, 2000), "sex": rng.choice(["f", "m"], 2000)})
    >>> y = np.where(X["age"] > 50, "yes", "no")
    >>> columns = {"age": space.real(0, 120), "sex": space.categorical("f", "m")}
    >>> model = PrivateClassifier(columns, classes=("no", "yes"), epsilon=2, delta=1e-5).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    >>> model.guarantee_.epsilon(delta=1e-5) <= 2
    True

    Args:
      columns: for each column of ``X``, by name (of an array, by number): its dimension (``space.real``,
        ``space.integer``, ``space.categorical`` or a list of choices), or None to leave the column out; or one
        dimension for all columns. Write ranges and choices down without looking at the rows. Numbers outside of a range
        count as its ends. Missing values and other categories have features of their own. Text that is no number, such
        as "1,234", counts as missing, unless the dimension says how it spells numbers:
        ``space.real(0, 1e6, thousands=",", unit="$")``. Read such a column as text, or the reader may take "1.234" for
        a fraction. A date or a time counts as missing, too: convert it, such as to days since a public date.
      classes: all labels, text or numbers. Rows with other labels do not train. ``predict_proba`` and ``classes_`` have
        them in sorted order.
      epsilon: the budget, for the settings and the model, with ``delta``.
      delta: in (0, 1), far below 1 over the number of rows.
      class_shares: the share of each class, in the order of ``classes``, from a census or another public source.
        ``notes_`` then compare ``error_`` with the error of always predicting the commonest class.
      settings: a public list of settings to choose from: those of ``tuning.DPSGD``, and ``hidden``, the widths of
        hidden layers, ``()`` for logistic regression. By default a list for the number of rows.
      cap: always train this many models, so that the duration of ``fit`` does not reveal the random number of models
        to choose from, see ``tuning.private_selection``. If ``cap`` is too small for ``delta``, the error names a
        larger number.
      ledger: ``Recording(path, run)``: charge ``guarantee_`` before the first training. A second fit under the same
        name is refused. Create the ledger with ``protects="all rows, training and validation"``.
      run: ``Execution(key=..., insecure_key=True)``, FOR TESTS ALONE: anyone who knows the key can remove the noise,
        and clones share it.

    Attributes:
      classes_: the classes ``(k,)``.
      guarantee_: the guarantee, see ``Guarantee``.
      setting_: the chosen setting.
      error_: the share of wrong predictions on the rows held out, noised; the least of several, so a little below the
        error on new rows. A row with another label counts as wrong.
      error_deviation_: the standard deviation of the noise of each of these errors.
      notes_: sentences about public facts and the release: of few rows, of an error that a constant has too, or that
        noise hides, and without a ledger, that the guarantee counts one fit; see ``jaxdpbo.notes``.
      model_: the layers, each ``(weights, bias)``.
      report_: the record of the model, to sign, see ``report.Report``.
      encoding_: the public dimensions of the columns.
      public_: the number of users, which is that of the rows, and the settings to choose from.
    """

    def __init__(
        self,
        columns: Columns | None = None,
        *,
        classes: Sequence[Any] | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        class_shares: Sequence[float] | None = None,
        settings: Sequence[dict[str, Any]] | None = None,
        cap: int | None = None,
        ledger: Recording | None = None,
        run: Execution | None = None,
    ):
        """Keep the arguments; ``fit`` checks them, and names all that are missing at once."""
        self.columns = columns
        self.classes = classes
        self.epsilon = epsilon
        self.delta = delta
        self.class_shares = class_shares
        self.settings = settings
        self.cap = cap
        self.ledger = ledger
        self.run = run

    def fit(self, X: Rows, y: Targets) -> "PrivateClassifier":
        """Tune and train, and spend the budget.

        Args:
          X: a data frame, or an array ``(n, d)``.
          y: a label for each row.

        Raises:
          ValueError: an argument out of range, or a column without a dimension.
          TypeError: an argument of the wrong type.
          tuning.AllRunsFailed: every training failed; the budget is spent.
          ledger.LedgerError: the budget does not suffice, or the name was used before.
        """
        run = self._begin_fit()
        self._expect_arguments(X, lambda: _check_classes(self.classes))
        classes = _check_classes(self.classes)
        constant = _constant_error(len(classes), self.class_shares)
        numbers = cells.category_numbers(classes, _read_targets(self, y))
        self._tune(run, X, np.maximum(numbers, -1), len(classes), constant)
        self.classes_ = np.asarray(classes)
        return self

    def check(self, X: Rows, y: Targets) -> not_private.NotPrivateCheck:
        """NOT PRIVATE: count the labels and cells that ``fit`` would leave out, clip or not read. Needs no ``fit``.

        For the owner of the rows alone. Spends nothing and writes nothing; ``fit`` does not call it. A range or a list
        that you mend after looking at protected rows is no longer public: check public rows.

        >>> import pandas
        >>> from jaxdpbo import space
        >>> from jaxdpbo.integrations.sklearn import PrivateClassifier
        >>> columns = {"age": space.real(0, 120)}
        >>> model = PrivateClassifier(columns, classes=("no", "yes"), epsilon=2, delta=1e-5)
        >>> found = model.check(pandas.DataFrame({"age": [31, 540]}), ["yes", "Yes"])
        >>> print(*(finding[:3] for finding in found.findings), sep="; ")
        ('labels', "none of the listed ('no', 'yes')", 1); ("column 'age'", 'above 120.0', 1)

        Args:
          X: see ``fit``.
          y: see ``fit``.

        Raises:
          ValueError: see ``fit``.
          TypeError: see ``fit``.
        """
        classes = Categorical(tuple(_check_classes(self.classes)))
        return self._check(X, _read_targets(self, y), classes, "labels")

    def predict(self, X: Rows) -> np.ndarray:
        """The most probable class of each row, ``(n,)``."""
        indices = self._indices(X)  # first: an estimator without a fit says so
        return self.classes_[indices]

    def _indices(self, X: Rows) -> np.ndarray:
        """The position of the most probable class of each row, ``(n,)``."""
        scores = self._scores(X)
        return (scores[:, 0] > 0 if scores.shape[1] == 1 else np.argmax(scores, axis=1)).astype(int)

    def score(self, X: Rows, y: Targets, sample_weight: ArrayLike | None = None) -> float:
        """The share of right predictions. NOT PRIVATE for protected rows. Labels are read as ``fit`` reads them."""
        indices, weights = self._indices(X), cast(Any, sample_weight)
        numbers = cells.category_numbers(self.classes_.tolist(), _read_targets(self, y))
        return float(np.average(numbers == indices, weights=weights))

    def predict_proba(self, X: Rows) -> np.ndarray:
        """The probability of each class, ``(n, k)``."""
        scores = self._scores(X)
        if scores.shape[1] > 1:
            return softmax(scores, axis=1)
        return np.column_stack([expit(-scores[:, 0]), expit(scores[:, 0])])


class PrivateRegressor(_PrivateModel, RegressorMixin, BaseEstimator):
    """Train a private regression on a table and tune its settings, all under one ``epsilon``.

    The regression of ``PrivateClassifier``: least squares, by a linear model or a perceptron.

    Formal guarantee: the same as that of ``PrivateClassifier``.

    >>> import numpy as np
    >>> from jaxdpbo import space
    >>> from jaxdpbo.integrations.sklearn import PrivateRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 2))
    >>> y = 10 * X[:, 0] + rng.normal(size=2000)
    >>> model = PrivateRegressor(space.real(0, 1), target_range=(0, 12), epsilon=2, delta=1e-5).fit(X, y)
    >>> bool(model.score(X, y) > 0.5)
    True

    Args:
      columns: see ``PrivateClassifier``.
      target_range: ``(low, high)``, chosen without the data; or ``space.real(low, high, decimal=",", ...)``, which also
        says how text spells the targets. Targets outside count as its ends. Rows without a target do not train.
      epsilon: the budget, for the settings and the model, with ``delta``.
      delta: in (0, 1), far below 1 over the number of rows.
      settings: see ``PrivateClassifier``.
      cap: see ``PrivateClassifier``.
      ledger: see ``PrivateClassifier``.
      run: see ``PrivateClassifier``.

    Attributes:
      guarantee_: the guarantee, see ``Guarantee``.
      setting_: the chosen setting.
      error_: the mean squared error on the rows held out, over the square of the width of the range, noised. A row
        without a target counts as 0.5.
      error_deviation_: see ``PrivateClassifier``.
      notes_: see ``PrivateClassifier``.
      model_: the layers, each ``(weights, bias)``.
      report_: the record of the model, to sign, see ``report.Report``.
      encoding_: the public dimensions of the columns.
      public_: the number of users, which is that of the rows, and the settings to choose from.
      target_range_: ``(low, high)``.
    """

    def __init__(
        self,
        columns: Columns | None = None,
        *,
        target_range: ArrayLike | Real | Integer | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        settings: Sequence[dict[str, Any]] | None = None,
        cap: int | None = None,
        ledger: Recording | None = None,
        run: Execution | None = None,
    ):
        """Keep the arguments; ``fit`` checks them, and names all that are missing at once."""
        self.columns = columns
        self.target_range = target_range
        self.epsilon = epsilon
        self.delta = delta
        self.settings = settings
        self.cap = cap
        self.ledger = ledger
        self.run = run

    def fit(self, X: Rows, y: Targets) -> "PrivateRegressor":
        """Tune and train, and spend the budget; errors as of ``PrivateClassifier.fit``.

        Args:
          X: a data frame, or an array ``(n, d)``.
          y: a number for each row.
        """
        run, example = self._begin_fit(), "target_range=(0, 100), known without the rows"
        self._expect_arguments(X, lambda: argument_errors.expect_given("target_range", self.target_range, example))
        low, high, text = _check_target_range(self.target_range)
        targets = cells.real_numbers(_read_targets(self, y), text)
        with np.errstate(all="ignore"):  # as ``_columns`` does
            scaled = (np.clip((targets - low) / (high - low), 0.0, 1.0) - TARGET_OFFSET).astype(np.float32)
        self._tune(run, X, scaled, 0, MIDDLE_ERROR)
        self.target_range_ = low, high
        return self

    def check(self, X: Rows, y: Targets) -> not_private.NotPrivateCheck:
        """NOT PRIVATE: count the targets and cells that ``fit`` would leave out, clip or not read.

        See ``PrivateClassifier.check``.

        Args:
          X: see ``fit``.
          y: see ``fit``.
        """
        low, high, text = _check_target_range(self.target_range)
        return self._check(X, _read_targets(self, y), Real(low, high, log=False, text=text), "targets")

    def predict(self, X: Rows) -> np.ndarray:
        """The prediction for each row, ``(n,)``, inside the range of targets."""
        scores, (low, high) = self._scores(X), self.target_range_
        return low + (high - low) * np.clip(TARGET_OFFSET + scores[:, 0], 0.0, 1.0)

    def score(self, X: Rows, y: Targets, sample_weight: ArrayLike | None = None) -> float:
        """The coefficient of determination, R2. NOT PRIVATE for protected rows. Targets are read as ``fit`` reads them.

        Rows without a target do not count.
        """
        predicted = self.predict(X)  # first: an estimator without a fit says so
        targets = cells.real_numbers(_read_targets(self, y), _check_target_range(self.target_range)[2])
        known = np.isfinite(targets)
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(r2_score(targets[known], predicted[known], sample_weight=weights))


def _constant_error(classes: int, shares: Any) -> float:
    """The error of always predicting the commonest class, or without shares its largest value for so many classes."""
    if shares is None:
        return 1.0 - 1.0 / classes
    checked = checks.vector("class_shares", shares, classes)
    if min(checked) < 0 or not math.isclose(sum(checked), 1.0, abs_tol=1e-3):
        raise ValueError(f"class_shares must be {classes} shares with a sum of 1, one for each class, got {shares!r}")
    return 1.0 - max(checked)


def _check_classes(classes: Any) -> list[Any]:
    """The classes in order, as scikit-learn's metrics expect them."""
    if classes is None or isinstance(classes, str) or not isinstance(classes, Iterable):
        raise TypeError(f"classes must list all labels, such as classes=('no', 'yes'), got {classes!r}")
    labels = list(classes)
    kinds = {str: (str, bytes), bool: (bool, np.bool_)}
    label_types = {next((kind for kind in kinds if isinstance(label, kinds[kind])), float) for label in labels}
    if len(labels) < 2 or len(label_types) > 1 or any(np.ndim(label) for label in labels):
        raise ValueError(f"classes must be two labels or more, all text or all numbers, got {labels!r}")
    cells.check_choices("classes", labels)
    return np.unique(np.asarray(labels)).tolist()


def _check_target_range(target_range: Any) -> tuple[float, float, NumberText | None]:
    """The ends of the range of targets, and how text spells them."""
    if not isinstance(target_range, (Real, Integer)):
        return *checks.interval("target_range", target_range), None
    if target_range.log:
        raise ValueError(f"target_range must be without log, got {target_range}: give y as its logarithm")
    return float(target_range.low), float(target_range.high), target_range.text


def _read_targets(estimator: Any, y: Targets) -> Any:
    """The targets as a list or an array ``(n,)``; no value is looked at."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    targets = losses.to_column(y)
    if isinstance(targets, Sequence):  # their values would choose a dtype
        return list(targets)
    array = _to_array(targets)
    if array.ndim not in (1, 2) or array.shape[1:] not in ((), (1,)):
        raise ValueError(f"y must have shape (n,), got {array.shape}")
    if isinstance(targets, np.ndarray):
        _refuse_complex(array)
    elif array.dtype.kind == "c":  # of a data frame, whose cells may choose it; scikit-learn's error would quote rows
        array = array.astype(object)
    return column_or_1d(array, warn=True)


def _read_table(X: Any) -> _Table:
    """Read the columns of a data frame or an array; errors name types and shapes, and no value."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        names = list(X.columns)
        columns = [X.iloc[:, place] if hasattr(X, "iloc") else X[name] for place, name in enumerate(names)]
        if not names:
            raise ValueError("X must have at least one column, got a data frame without any")
        return _Table(names, [_to_array(column) for column in columns])
    if isinstance(X, Sequence) or hasattr(X, "columns"):
        raise TypeError(
            f"X must be a data frame of pandas or polars, or an array, got {type(X).__name__}: the values of a list "
            "would choose its shape and dtype"
        )
    if not issparse(X):
        X = _to_array(X)
        _refuse_complex(X)
        if X.ndim != 2:
            raise ValueError(f"X must have shape (n, d), got {X.shape}. Reshape your data")
    any_dtype: Any = None
    X = check_array(X, dtype=any_dtype, ensure_all_finite=False)
    count = X.shape[1]
    return _Table(list(range(count)), [X[:, place] for place in range(count)])


def _refuse_complex(array: np.ndarray) -> None:
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X and y must be real, got {array.dtype}")


def _to_array(column: Any) -> np.ndarray:
    """Convert a column to an array, of objects unless the dtype is NumPy's: NumPy would choose by private values."""
    if isinstance(column, np.ma.MaskedArray):
        values = np.array(column.data, dtype=object)  # a copy
        values[np.ma.getmaskarray(column)] = None
        return values
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype) or (dtype is None and hasattr(column, "__array__")):
        return np.asarray(column)
    return np.asarray(column, dtype=object)
