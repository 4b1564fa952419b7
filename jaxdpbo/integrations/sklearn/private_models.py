"""``PrivateClassifier`` and ``PrivateRegressor``: a private model of a table under one epsilon; nothing to tune."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import issparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from jaxdpbo import cells, checks, not_private, notes, report, silence
from jaxdpbo.drivers.release_notes import error_notes
from jaxdpbo.guarantee import release_key
from jaxdpbo.guarantee.guarantees import Guarantee
from jaxdpbo.guarantee.recording import Recording
from jaxdpbo.integrations.sklearn import argument_errors, layered_training, losses
from jaxdpbo.integrations.sklearn import columns as _columns
from jaxdpbo.integrations.sklearn.private_estimator import (
    READ_RAW,
    ROWS_OF_A_PERSON,
    SEVERAL_ROWS,
    Key,
    PrivateEstimator,
    say_unprotected,
)
from jaxdpbo.integrations.sklearn.type_aliases import Rows, Targets
from jaxdpbo.report import drawings, records
from jaxdpbo.space import Categorical, Dimension, Integer, NumberText, Real
from jaxdpbo.training import models
from jaxdpbo.tuning import fitting, joint_tuning, measured_error, private_ranges, private_steps
from jaxdpbo.types import ArrayLike

LEAST_MEAN = 1e-6  # of weights, the largest of them 1
TARGET_OFFSET = 0.5  # a regression begins at the middle of the range of targets
TARGETS = "the targets"
DRAWN = 2  # of the values of a column, each second one is in a picture
Columns = dict[Any, Dimension | Sequence[Any] | str | None] | Dimension | str


class _Table(NamedTuple):
    """The columns of a table: names, and values, each an array ``(n,)``."""

    names: list[Any]
    columns: list[np.ndarray]


class _TrainingRows(NamedTuple):
    """What trains beside the features.

    ``labels (n,)``: class numbers with -1 for none, or targets in [-1/2, 1/2] with NaN for none; ``classes``, 0 for a
    regression; ``weights (n,)`` in [0, 1] or None, and their public mean; what was taken for public about them; the
    person of each row, or None; the targets ``(n,)`` as numbers if their range is to be found; and the classes or the
    range of targets, which a run in a ledger is bound to.
    """

    labels: np.ndarray
    classes: int
    weights: np.ndarray | None
    mean_weight: float
    public: dict[str, Any]
    owners: np.ndarray | None = None
    unscaled: np.ndarray | None = None
    named: tuple[Any, ...] = ()


PUBLIC = "class_shares", "class_weight", "largest_weight"  # of labels and weights


class _Trained(NamedTuple):
    """What a training returns, to publish: the public dimensions, found ones too, and what is said of them."""

    encoding: _columns.Encoding
    model: models.Params
    guarantee: Guarantee
    said: notes.Notes = ()


class _PrivateModel(PrivateEstimator):
    """Base class of ``PrivateClassifier`` and ``PrivateRegressor``."""

    _released = ("model_",)
    _described = (
        "setting_", "error_", "error_deviation_", "error_interval_", "constant_error_", "constant_deviation_",
        "confusion_", "confusion_deviation_", "encoding_", "classes_", "target_range_",
    )  # fmt: skip
    columns: Any
    epsilon: Any
    delta: Any
    private_range: Any
    settings: Any
    person: Any
    cap: int | None
    ledger: Recording | None
    n_features_in_: int
    _training_terms: Callable[[], tuple[int, float | None, dict[str, Any], dict[str, Any]]]
    _outputs: Callable[[np.ndarray], np.ndarray]  # predictions, or probabilities, of scores (n, k)

    def _expect_arguments(self, X: Any, *more: Callable[[], Any]) -> None:
        """Check all that is public and wrong in a first call at once: a beginner mends it in one go."""
        table = _read_table(X)
        argument_errors.raise_together(
            lambda: self._check_private_range(self._make_encoding(table)),
            *more,
            lambda: argument_errors.expect_given("epsilon", self.epsilon, "epsilon=1, the budget of the whole fit"),
            lambda: argument_errors.expect_given(
                "delta", self.delta, "delta=1e-5, far below 1 over the number of rows"
            ),
        )

    def _make_encoding(self, table: _Table) -> _columns.Encoding:
        """The encoding of all columns but that of the person."""
        columns: Any = self.columns
        if self.person is not None:
            if self.person not in table.names:
                raise ValueError(f"person must be a column of X, got {self.person!r}; X has {table.names!r}")
            if _columns.is_for_all(columns):
                columns = dict.fromkeys(table.names, columns)
            if columns is None or isinstance(columns, Mapping):  # anything else is refused below
                columns = {**(columns or {}), self.person: None}
        return _columns.make_encoding(columns, table.names)

    def plan(self, X: Rows) -> report.Report:
        """Make the page of what ``fit`` to these rows will spend, to be signed before it does.

        Reads the names of the columns, the number of rows, and with ``person`` that column; spends nothing. The record
        of the fit cites the page: ``model.report_.against(plan)``.

        >>> import numpy as np
        >>> from jaxdpbo import space
        >>> from jaxdpbo.integrations.sklearn import PrivateClassifier
        >>> X = np.linspace(0, 1, 600)[:, None]
        >>> model = PrivateClassifier(space.real(0, 1), classes=(0, 1), epsilon=1, delta=1e-5)
        >>> signed = model.plan(X)
        >>> model.fit(X, X[:, 0] > 0.5).report_.against(signed).details["differs from the plan"]
        'in nothing'

        Raises:
          ValueError: an argument out of range, a column without a dimension, or ``settings``, which choose by the rows.
        """
        if self.settings is not None:
            raise ValueError("plan must be of a model without settings: private steps alone are planned")
        self._expect_arguments(X, self._training_terms)
        classes, mean, terms, public = self._training_terms()
        table = _read_table(X)
        encoding, owners = self._make_encoding(table), _number_people(table, self.person)
        unknown = len(encoding.private) + self._finds_targets()
        rows = len(table.columns[0])
        _, steps, stated = private_steps.plan_rows(
            rows,
            owners,
            encoding.trained_width,
            classes,
            weight=mean,
            unknown=(unknown, self.private_range if unknown else 0.0),
            epsilon=self.epsilon,
            delta=self.delta,
            ledger=self.ledger,
        )
        users = rows if owners is None else int(np.max(owners)) + 1
        ranges = {} if encoding.private else {"encoding_": encoding.to_sign}
        details = {
            "setting_": {"steps": steps.linear.steps - 1},
            "users": users,
            **terms,
            **encoding.declared,
            **ranges,
        }
        details |= {name: public.get(name, records.NONE) for name in PUBLIC}
        details |= {"private_range": self.private_range if unknown else records.NONE}
        _, stated = release_key.for_release(self._given_key(), stated, self.insecure_key)
        stated = say_unprotected(stated, READ_RAW, SEVERAL_ROWS if owners is None else ROWS_OF_A_PERSON)
        return report.plan(f"a fit of {type(self).__name__}", (stated,), details=details)

    def _check_private_range(self, encoding: _columns.Encoding) -> None:
        """Refuse a range to be found without a share of the budget, and a share without such a range."""
        names = [*map(repr, encoding.private_columns), *([TARGETS] * self._finds_targets())]
        if names and self.private_range is None:
            raise ValueError(
                f"private_range must be given with 'private' for {', '.join(names)}: such as 0.05, the share of the "
                "budget that finds the ranges"
            )
        if self.private_range is not None:
            checks.probability("private_range", self.private_range)
            if not names:
                raise ValueError("private_range must be given with 'private' in place of a range alone")

    def _finds_targets(self) -> bool:
        return _columns.is_private(getattr(self, "target_range", None))

    def _train(self, X: Any, training: _TrainingRows, constant: float | None) -> None:
        """Encode, train, and keep what you may publish, and nothing else; ``constant``: a constant's public error."""
        table = _read_table(X)
        check_consistent_length(*table.columns, training.labels)
        if len(training.labels) < fitting.LEAST_ROWS:
            raise ValueError(f"X must have at least {fitting.LEAST_ROWS} rows, got {len(training.labels)}")
        validate_data(copy(self), X, reset=True, skip_check_array=True)  # before the charge
        encoding = self._make_encoding(table)
        owners = _number_people(table, self.person)
        budget = {
            "epsilon": self.epsilon, "delta": self.delta, "ledger": self.ledger, "key": self._given_key(),
            "insecure_key": self.insecure_key,
        }  # fmt: skip
        encoded = _columns.encode(encoding, table.columns)
        trained = self._take_steps if self.settings is None else self._tune
        training = training._replace(owners=owners)
        with self._counting_fit():
            self.encoding_, model, guarantee, found = trained(encoding, table, encoded, training, budget)
        validate_data(self, X, reset=True, skip_check_array=True)
        self.model_ = jax.tree.map(np.asarray, model)
        self._keep_guarantee(guarantee, READ_RAW, SEVERAL_ROWS if owners is None else ROWS_OF_A_PERSON)
        compared = (constant, 0.0) if self.settings is not None else (self.constant_error_, self.constant_deviation_)
        said = error_notes(self.error_, self.error_deviation_, *compared)
        self._keep_notes(notes.few_rows(self.public_["users"]) + found + said)

    def _take_steps(
        self,
        encoding: _columns.Encoding,
        table: _Table,
        encoded: np.ndarray,
        training: _TrainingRows,
        budget: dict[str, Any],
    ) -> _Trained:
        """Train a linear model by private steps, and measure it once."""
        if self.cap is not None:
            raise ValueError("cap must be given with settings alone: private steps train once")
        labels, classes, weights, mean_weight, public, owners, unscaled, _ = training
        targets = labels if classes else labels / TARGET_OFFSET  # of a half width of 1
        features = _columns.unit_features(encoding, encoded)
        numbers = [cells.real_numbers(table.columns[encoding.positions[place]]) for place in encoding.private]
        numbers += [] if unscaled is None else [unscaled]

        def rescale(ranges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            scaled = encoding.with_ranges(ranges[: len(encoding.private)])
            of_targets = targets if unscaled is None else _scale_targets(unscaled, *ranges[-1]) / TARGET_OFFSET
            return _columns.unit_features(scaled, _columns.encode(scaled, table.columns)), of_targets

        sought = private_ranges.Sought(np.column_stack(numbers), self.private_range, rescale) if numbers else None
        identity = str(encoding), sorted(public), list(public.values()), str(self.person), mean_weight, weights is None
        result = private_steps.train_by_steps(
            features, targets, classes, weights=weights, mean_weight=mean_weight, owners=owners, sought=sought,
            public=(*identity, *training.named), **budget,
        )  # fmt: skip
        measured, found = result.release.measured, result.release.found
        users = len(labels) if owners is None else int(np.max(owners)) + 1
        self.setting_, self.public_ = {"steps": result.steps}, {"users": users, **public, **encoding.declared}
        said = result.said
        if found is not None:
            encoding, of_ranges = self._keep_ranges(encoding, found)
            said += of_ranges
        self.error_, self.error_deviation_ = measured.error, measured.deviation
        self.error_interval_ = measured_error.interval(measured.error, measured.deviation, measured.rows)
        self.constant_error_, self.constant_deviation_ = measured.constant_error, measured.constant_deviation
        if measured.table is not None:
            self.confusion_, self.confusion_deviation_ = measured.table, measured.table_deviation
        trained = result.release.weights if classes else result.release.weights * TARGET_OFFSET
        layer = models.Layer(*map(jnp.asarray, _columns.layer_of_weights(encoding, trained)))
        return _Trained(encoding, (layer,), result.guarantee, said)

    def _keep_ranges(
        self, encoding: _columns.Encoding, found: private_ranges.Found
    ) -> tuple[_columns.Encoding, notes.Notes]:
        """Keep the ranges that were found; return the encoding with them, and what is said of them."""
        self.public_["private_range"] = self.private_range
        names = [*map(repr, encoding.private_columns), *([TARGETS] * self._finds_targets())]
        if self._finds_targets():
            self.target_range_ = tuple(found.ranges[-1].tolist())
        ended = np.any(np.abs(found.ranges) >= private_ranges.LARGEST, axis=1)
        said = notes.ranges_from_rows(names, self.private_range)
        said += notes.ranges_like_noise([name for name, clear in zip(names, found.clear, strict=True) if not clear])
        said += notes.ranges_at_limits([name for name, at_end in zip(names, ended, strict=True) if at_end])
        return encoding.with_ranges(found.ranges[: len(encoding.private)]), said

    def _tune(
        self,
        encoding: _columns.Encoding,
        table: _Table,
        encoded: np.ndarray,
        training: _TrainingRows,
        budget: dict[str, Any],
    ) -> _Trained:
        """Choose one of the settings, and train with it."""
        labels, classes, weights = training[:3]
        if weights is not None or training.owners is not None or self.private_range is not None:
            raise ValueError(
                "weights, person and private_range must be given without settings: private steps alone take them"
            )
        layered = layered_training.LayeredDPSGD(encoding.width, classes)
        result = joint_tuning.tune_table(layered, (encoded, labels), self.settings, cap=self.cap, **budget)
        self.setting_, self.public_ = result.setting, {"users": len(labels), "settings": deepcopy(self.settings)}
        self.error_, self.error_deviation_ = result.error, result.error_deviation
        self.error_interval_ = result.interval
        return _Trained(encoding, result.model, result.guarantees[0])

    @property
    def coef_(self) -> np.ndarray:
        """The weights of a linear model, ``(1, width)`` or ``(k, width)``; see ``get_feature_names_out``."""
        return np.asarray(self._linear_layer().weights).T

    @property
    def intercept_(self) -> np.ndarray:
        """The bias of a linear model, ``(1,)`` or ``(k,)``."""
        return np.asarray(self._linear_layer().bias)

    def _linear_layer(self) -> models.Layer:
        check_is_fitted(self, "model_")
        if len(self.model_) > 1:
            raise AttributeError("coef_ and intercept_ are of linear models; this one has hidden layers, see model_")
        return self.model_[0]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features that the model is linear in: of each column, and of waves over all numbers."""
        del input_features
        check_is_fitted(self, "model_")
        return np.asarray(_columns.feature_names(self.encoding_), dtype=object)

    def partial_dependence(self, column: Any, at: Mapping[Any, Any] | None = None) -> tuple[list[Any], np.ndarray]:
        """The predictions along one column: reads no row, so you may publish them.

        Other columns are at public values, and not averaged over rows as in scikit-learn: numbers at the middle of
        their ranges, categories missing. ``plotting.plot_partial_dependence`` draws the result.

        Args:
          column: the name, or of an array the number.
          at: values of other columns, by name.

        Returns:
          The values of the column, from end to end of the range, or the choices and None for a missing value; and for
          each the prediction ``(m,)``, or of a classifier the probabilities ``(m, k)``.

        Raises:
          ValueError: a column that the model leaves out.
        """
        check_is_fitted(self, "model_")
        values, columns = _columns.public_columns(self.encoding_, column, at or {})
        return values, self._outputs(self._scores_of(columns))

    @property
    def report_(self) -> report.Report:
        """The record of the fit, to sign, with a picture of each column: ``model.report_.save("record.html")``."""
        names = list(self.encoding_.names or range(max(self.encoding_.positions) + 1))
        drawn = tuple(self._draw(names[position]) for position in self.encoding_.positions)
        return replace(super().report_, dependences=drawn)

    def _draw(self, column: Any) -> drawings.Dependence:
        """The predictions along one column, of a classifier of two classes those of the second."""
        values, predicted = self.partial_dependence(column)
        if all(isinstance(value, float) for value in values):
            values, predicted = values[::DRAWN], predicted[::DRAWN]
        named = {"prediction": predicted}
        if (classes := getattr(self, "classes_", None)) is not None:
            first = int(len(classes) == 2)
            lines = zip(classes[first:], predicted.T[first:], strict=True)
            named = {f"probability of {label}": line for label, line in lines}
        return drawings.Dependence(str(column), tuple(values), {name: tuple(line) for name, line in named.items()})

    def _check(self, X: Any, targets: Any, dimension: Dimension, what: str) -> not_private.NotPrivateCheck:
        """Count the cells and targets that the public dimensions do not foresee."""
        table = _read_table(X)
        check_consistent_length(*table.columns, targets)
        encoding = self._make_encoding(table)
        found = [not_private.count_cells(what, targets, dimension)]
        for position, of in zip(encoding.positions, encoding.dimensions, strict=True):
            found.append(not_private.count_cells(f"column {table.names[position]!r}", table.columns[position], of))
        return not_private.make_check(len(targets), *found)

    def _scores(self, X: Any) -> np.ndarray:
        """The scores ``(n, k)`` of the rows."""
        check_is_fitted(self, "model_")
        table = _read_table(X)
        names = list(self.encoding_.names) or list(range(self.n_features_in_))
        if hasattr(X, "columns") and len(names) == len(table.names) and set(names) == set(table.names):
            table = _in_order(table, names)
        elif hasattr(X, "columns") and not all(isinstance(name, str) for name in table.names):
            raise ValueError(f"X must have the columns of fit, {names}, got {table.names}")  # others are scikit-learn's
        else:
            validate_data(self, X, reset=False, skip_check_array=True)
        return self._scores_of(table.columns)

    def _scores_of(self, columns: Sequence[Any]) -> np.ndarray:
        outputs = _columns.encode(self.encoding_, columns)
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
    """Train a private classifier on a table under one ``epsilon``, with nothing to tune.

    ``fit`` encodes the columns by their public dimensions, trains a logistic regression of these features by a noised
    Gram matrix and a fixed number of noised steps (``private_linear``) on four fifths of the rows, and measures the
    released model once, with noise, on the other fifth, chosen by a public permutation of row numbers. A row is in one
    of both parts, so each part spends the whole budget. The rows choose nothing but ranges that are ``"private"``.

    Formal guarantee: all attributes with a trailing underscore are together ``(epsilon, delta)``-DP for the replacement
    of one row of ``X`` and ``y``; see ``guarantee_`` for the assumptions. ``score`` is not private if its rows are
    protected. Each ``fit`` spends a budget again. In a ``Pipeline``, no step before the model may learn from the rows.
    With ``settings`` the guarantee is that of ``tuning.tune_and_train``.

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
        ``space.integer``, ``space.categorical``, a pair ``(low, high)`` or a list of choices), None to leave it out, or
        ``"private"`` to find the range of its numbers (``private_range``); or one dimension, or ``"private"``, for all
        columns. Write ranges and choices down without looking at the rows. Numbers outside of a range count as its
        ends. Missing values and other categories have features of their own. Text that is no number, such as "1,234",
        counts as missing, unless the dimension says how it spells numbers: ``space.real(0, 1e6, thousands=",",
        unit="$")``. Read such a column as text, or the reader may take "1.234" for a fraction. A date or a time counts
        as missing, too: convert it, such as to days since a public date.
      classes: all labels, text or numbers. Rows with other labels do not train. ``predict_proba`` and ``classes_`` have
        them in sorted order.
      epsilon: the budget, for the model and its error, with ``delta``.
      delta: in (0, 1), far below 1 over the number of rows.
      class_shares: the share of each class from a census or another public source: a dict or a pandas ``Series`` by
        class, or a list in the order of ``classes``.
      class_weight: what an error in each class costs, public numbers, given as ``class_shares`` are;
        or "balanced", one over ``class_shares``, for rare classes. Probabilities are then those of so weighted rows,
        and with few rows farther from a half (see ``predict_proba``).
      largest_weight: the largest weight that ``sample_weight`` gives a row, a public number; larger ones count as this.
        Steps are made for rows of about this weight: far above the usual weight they are too short.
      person: the column that names the person of each row, if a person may have several rows. The guarantee is then for
        the replacement of what all rows of a person hold; who owns which row is public. Each person counts as one row,
        and all rows of a person either train or measure. Ids are compared as categories are; each row needs one. Of
        a person with thousands of rows, rounding loses the small share of each.
      private_range: for columns ``"private"``: the share of the budget (of the square of its GDP level), such as 0.05,
        that finds their ranges in the rows that train, by noised counts. The noise grows with the root of the number of
        such columns; a range leaves out thin tails, and ``notes_`` say if noise hid all counts of a column.
      settings: a public list of settings to choose from in place of private steps, each of a DP-SGD training: those of
        ``tuning.DPSGD``, and ``hidden``, the widths of hidden layers, ``()`` for logistic regression. ``fit`` then
        tries a random, hidden number of settings, and the guarantee assumes that nobody times ``fit`` (``cap``).
      cap: with ``settings``: always train this many models, so that the duration of ``fit`` does not reveal their
        number, see ``tuning.private_selection``. If ``cap`` is too small for ``delta``, the error names a larger one.
      ledger: ``Recording(path, run)``: charge ``guarantee_`` before the first draw. The same call again returns the
        release that the ledger holds, and goes on if it ended before its first draw; one that ended in a draw has spent
        its charge. With ``settings`` a second fit under the same name is refused. Create the ledger with
        ``protects="all rows, training and validation"``, or with ``person`` of "all people of the rows, training and
        validation".
      key: a typed key, FOR TESTS ALONE, with ``insecure_key=True``: anyone who knows the key can remove the noise.
        Clones share it; a pickle leaves it out.
      insecure_key: permit a key.

    Attributes:
      classes_: the classes ``(k,)``.
      guarantee_: the guarantee, see ``Guarantee``.
      setting_: the number of private steps; with ``settings``, the chosen one.
      error_: the share of wrong predictions on the rows held out, noised once, so without bias, also below 0 or above
        1. A row with another label counts as wrong. With ``settings``: measured again after the choice.
      error_deviation_: the standard deviation of the noise of ``error_``.
      error_interval_: ``(low, high)``, which holds the error on new rows with a probability of 95 %, over the noise and
        the draw of the rows.
      constant_error_: the error of always predicting the commonest class of the rows held out, noised; with many
        classes a little too small, since it is the least of noised errors.
      constant_deviation_: about the standard deviation of its noise. With ``settings`` neither these two nor
        ``confusion_`` is measured.
      confusion_: ``(k + 1, k)``, the rows held out by class and predicted class, noised; the last row is of labels that
        are not in ``classes``.
      confusion_deviation_: the standard deviation of the noise of a cell.
      notes_: sentences about public facts and the release: of few rows, of an error that a constant has too, or that
        noise hides, and without a ledger, that the guarantee counts one fit; see ``jaxdpbo.notes``.
      model_: the layers, each ``(weights, bias)``.
      report_: the record of the model, to sign, see ``report.Report``.
      encoding_: the public dimensions of the columns, and found ranges.
      public_: the number of users (rows, or people with ``person``), weights and settings.
      coef_: see ``intercept_`` and ``get_feature_names_out``: the weights of the linear model.
    """

    confusion_: np.ndarray
    confusion_deviation_: float

    @checks.refuse_others("PrivateClassifier", argument_errors.model_advice)
    def __init__(
        self,
        columns: Columns | None = None,
        *,
        classes: Sequence[Any] | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        class_shares: Mapping[Any, float] | Sequence[float] | None = None,
        class_weight: Mapping[Any, float] | Sequence[float] | str | None = None,
        largest_weight: float | None = None,
        person: Any = None,
        private_range: float | None = None,
        settings: Sequence[dict[str, Any]] | None = None,
        cap: int | None = None,
        ledger: Recording | None = None,
        key: Key = None,
        insecure_key: bool = False,
    ):
        """Keep the arguments; ``fit`` checks them, and names all that are missing at once."""
        self.columns = columns
        self.classes = classes
        self.epsilon = epsilon
        self.delta = delta
        self.class_shares = class_shares
        self.class_weight = class_weight
        self.largest_weight = largest_weight
        self.person = person
        self.private_range = private_range
        self.settings = settings
        self.cap = cap
        self.ledger = ledger
        self.key = key
        self.insecure_key = insecure_key

    @silence.numeric_checks_off()
    def fit(self, X: Rows, y: Targets, sample_weight: ArrayLike | None = None) -> "PrivateClassifier":
        """Train and measure, and spend the budget.

        Args:
          X: a data frame, or an array ``(n, d)``.
          y: a label for each row.
          sample_weight: how much each row counts in the training, from 0 to ``largest_weight``. ``error_`` counts all
            rows alike.

        Raises:
          ValueError: an argument out of range, or a column without a dimension.
          TypeError: an argument of the wrong type.
          tuning.AllRunsFailed: with ``settings``: every training failed; the budget is spent.
          ledger.LedgerError: the budget does not suffice, the name belongs to another call, or the run ended in a draw.
        """
        self._begin_fit()
        self._expect_arguments(X, lambda: _check_classes(self.classes))
        classes = _check_classes(self.classes)
        shares = _check_shares(len(classes), self._of_classes("class_shares"))
        numbers = np.maximum(cells.category_numbers(classes, _read_targets(self, y)), -1)
        of_class, mean = _class_weights(classes, self._of_classes("class_weight"), shares)
        weights = _row_weights(sample_weight, self.largest_weight, len(numbers))
        if of_class is not None:
            weights = (1.0 if weights is None else weights) * of_class[numbers]  # those of -1 train nothing
        *_, public = self._training_terms()
        constant = 1.0 - (1.0 / len(classes) if shares is None else float(np.max(shares)))
        training = _TrainingRows(numbers, len(classes), weights, mean, public, named=tuple(classes))
        self._train(X, training, constant)
        self.classes_ = np.asarray(classes)
        return self

    def _training_terms(self) -> tuple[int, float | None, dict[str, Any], dict[str, Any]]:
        """The number of classes, the mean weight, and what is public of the labels and of their weights."""
        classes = _check_classes(self.classes)
        public = {name: self._of_classes(name) for name in PUBLIC}
        shares = _check_shares(len(classes), public["class_shares"])
        of_class, mean = _class_weights(classes, public["class_weight"], shares)
        weighted = of_class is not None or self.largest_weight is not None
        return len(classes), mean if weighted else None, {"classes_": np.asarray(classes)}, _given(public)

    def _of_classes(self, name: str) -> Any:
        """An argument in the order of ``classes_``, which ``fit`` has, from that of ``classes`` or by class.

        Raises:
          ValueError: numbers by class, of other classes.
        """
        given, labels = getattr(self, name), list(cast(Any, self.classes))
        if hasattr(given, "items"):  # a dict, or a Series of pandas
            by_class = dict(given.items())
            if set(by_class) != set(labels) or len(given) != len(labels):
                raise ValueError(f"{name} must have a number for each of {labels!r}, got {given!r}")
            given = [by_class[label] for label in labels]
        if np.ndim(given) != 1 or len(given) != len(labels):  # one that should be a list is refused where it is read
            return given
        return [list(given)[place] for place in np.argsort(np.asarray(labels))]

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
        labels = tuple(_check_classes(self.classes))
        classes = Categorical(labels, labels)
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

    def decision_function(self, X: Rows) -> np.ndarray:
        """The scores of the rows, ``(n,)`` for two classes, above 0 for the second, and ``(n, k)`` for more."""
        scores = self._scores(X)
        return scores if scores.shape[1] > 1 else scores[:, 0]

    @property
    def recall_(self) -> np.ndarray:
        """The share of each class that is found, ``(k,)``, from ``confusion_``; NaN where noise leaves no rows."""
        table = self.confusion_[:-1]
        return _ratio(np.diagonal(table), table.sum(axis=1))

    @property
    def precision_(self) -> np.ndarray:
        """The share of right ones among the predictions of each class, ``(k,)``, as ``recall_``."""
        return _ratio(np.diagonal(self.confusion_), self.confusion_.sum(axis=0))

    def predict_proba(self, X: Rows) -> np.ndarray:
        """The probability of each class, ``(n, k)``; with few rows it is farther from a half than the class's share.

        See docs/private_models.md, "What ``fit`` does".
        """
        return self._outputs(self._scores(X))

    @staticmethod
    def _outputs(scores: np.ndarray) -> np.ndarray:
        if scores.shape[1] > 1:
            return softmax(scores, axis=1)
        return np.column_stack([expit(-scores[:, 0]), expit(scores[:, 0])])


class PrivateRegressor(_PrivateModel, RegressorMixin, BaseEstimator):
    """Train a private regression on a table under one ``epsilon``, with nothing to tune.

    The regression of ``PrivateClassifier``: least squares, but with few rows long residuals are shortened.

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
        says how text spells the targets; or "private", to find it (``private_range``). Targets outside count as its
        ends, in ``error_`` too. Rows without a target do not train.
      epsilon: the budget, for the model and its error, with ``delta``.
      delta: in (0, 1), far below 1 over the number of rows.
      largest_weight: see ``PrivateClassifier``.
      person: see ``PrivateClassifier``.
      private_range: see ``PrivateClassifier``; also for ``target_range="private"``.
      settings: see ``PrivateClassifier``.
      cap: see ``PrivateClassifier``.
      ledger: see ``PrivateClassifier``.
      key: see ``PrivateClassifier``.
      insecure_key: see ``PrivateClassifier``.

    Attributes:
      guarantee_: the guarantee, see ``Guarantee``.
      setting_: see ``PrivateClassifier``.
      error_: the mean squared error on the rows held out, over the square of the width of the range, noised once. A
        row without a target counts as 0.25, of predicting the middle.
      error_deviation_: see ``PrivateClassifier``.
      error_interval_: see ``PrivateClassifier``.
      constant_error_: the error of the best constant prediction for the rows held out, noised: ``1 - error_ /
        constant_error_`` estimates R2.
      notes_: see ``PrivateClassifier``.
      model_: the layers, each ``(weights, bias)``.
      report_: the record of the model, to sign, see ``report.Report``.
      encoding_: the public dimensions of the columns, and found ranges.
      public_: the number of users (rows, or people with ``person``), weights and settings.
      coef_: see ``PrivateClassifier``.
      target_range_: ``(low, high)``, as given or found.
    """

    @checks.refuse_others("PrivateRegressor", argument_errors.model_advice)
    def __init__(
        self,
        columns: Columns | None = None,
        *,
        target_range: ArrayLike | Real | Integer | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        largest_weight: float | None = None,
        person: Any = None,
        private_range: float | None = None,
        settings: Sequence[dict[str, Any]] | None = None,
        cap: int | None = None,
        ledger: Recording | None = None,
        key: Key = None,
        insecure_key: bool = False,
    ):
        """Keep the arguments; ``fit`` checks them, and names all that are missing at once."""
        self.columns = columns
        self.target_range = target_range
        self.epsilon = epsilon
        self.delta = delta
        self.largest_weight = largest_weight
        self.person = person
        self.private_range = private_range
        self.settings = settings
        self.cap = cap
        self.ledger = ledger
        self.key = key
        self.insecure_key = insecure_key

    @silence.numeric_checks_off()
    def fit(self, X: Rows, y: Targets, sample_weight: ArrayLike | None = None) -> "PrivateRegressor":
        """Train and measure, and spend the budget; errors as of ``PrivateClassifier.fit``.

        Args:
          X: a data frame, or an array ``(n, d)``.
          y: a number for each row.
          sample_weight: see ``PrivateClassifier.fit``.
        """
        self._begin_fit()
        example = "target_range=(0, 100), known without the rows, or 'private'"
        self._expect_arguments(X, lambda: argument_errors.expect_given("target_range", self.target_range, example))
        low, high, text = _check_target_range(self.target_range)
        targets = cells.real_numbers(_read_targets(self, y), text)
        scaled = _scale_targets(targets, low, high)
        weights = _row_weights(sample_weight, self.largest_weight, len(scaled))
        (*_, public), found = self._training_terms(), self._finds_targets()
        training = _TrainingRows(
            scaled, 0, weights, 1.0, public, unscaled=targets if found else None, named=(low, high, text)
        )
        self._train(X, training, measured_error.MIDDLE_ERROR)
        if not found:
            self.target_range_ = low, high
        return self

    def _training_terms(self) -> tuple[int, float | None, dict[str, Any], dict[str, Any]]:
        """No classes, the mean weight, and what is public of the targets and of their weights."""
        low, high, _ = _check_target_range(self.target_range)
        public = _given({"largest_weight": self.largest_weight})
        return 0, 1.0 if public else None, {} if self._finds_targets() else {"target_range_": (low, high)}, public

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
        return self._outputs(self._scores(X))

    def _outputs(self, scores: np.ndarray) -> np.ndarray:
        low, high = self.target_range_
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


def _check_shares(classes: int, shares: Any) -> np.ndarray | None:
    if shares is None:
        return None
    checked = checks.vector("class_shares", shares, classes)
    if min(checked) < 0 or not math.isclose(sum(checked), 1.0, abs_tol=1e-3):
        raise ValueError(f"class_shares must be {classes} shares with a sum of 1, one for each class, got {shares!r}")
    return np.asarray(checked) / sum(checked)


def _class_weights(classes: list[Any], given: Any, shares: np.ndarray | None) -> tuple[np.ndarray | None, float]:
    """The weight of each class, the largest 1, and their public mean, 1 where the shares are not known."""
    if given is None:
        return None, 1.0
    if isinstance(given, str):
        if given != "balanced" or shares is None or min(shares) <= 0:
            raise ValueError(
                f"class_weight must be numbers, or 'balanced' with class_shares above 0, got {given!r}: what the rows "
                "hold must not choose weights"
            )
        weights = 1 / shares
    else:
        weights = np.asarray(checks.vector("class_weight", given, len(classes)))
        if not np.all((weights >= 0) & np.isfinite(weights)) or not np.any(weights > 0):
            raise ValueError(f"class_weight must be numbers from 0, not all 0, got {given!r}")
    weights = weights / np.max(weights)
    mean = 1.0 if shares is None else min(1.0, float(weights @ shares))
    if mean < LEAST_MEAN:
        raise ValueError(f"class_weight must be nearer to each other: the mean weight of a row is {mean:.2g}")
    return weights, mean


def _row_weights(given: Any, largest: Any, rows: int) -> np.ndarray | None:
    """Weights in [0, 1]; one that is no number is 0."""
    if given is None:
        return None
    if largest is None:
        raise ValueError("largest_weight must be given with sample_weight: the public bound of a row's weight")
    largest = checks.positive("largest_weight", largest)
    column = losses.to_column(given)
    column = column if isinstance(column, Sequence) else _to_array(column)
    shape = (len(column),) if isinstance(column, Sequence) else column.shape
    if shape != (rows,):
        raise ValueError(f"sample_weight must have shape ({rows},), got {shape}")
    values = cells.real_numbers(column)
    return np.clip(np.where(np.isfinite(values), values, 0.0) / largest, 0.0, 1.0)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: deepcopy(value) for name, value in options.items() if value is not None}


def _ratio(counts: np.ndarray, of: np.ndarray) -> np.ndarray:
    return np.divide(counts, of, out=np.full(len(of), np.nan), where=of > 0)


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


def _scale_targets(targets: np.ndarray, low: float, high: float) -> np.ndarray:
    """Targets in [-1/2, 1/2]; one that is no number stays NaN."""
    return (np.clip((targets - low) / (high - low), 0.0, 1.0) - TARGET_OFFSET).astype(np.float32)


def _check_target_range(target_range: Any) -> tuple[float, float, NumberText | None]:
    """The ends of the range of targets, and how text spells them; of all numbers for a range to be found."""
    if _columns.is_private(target_range):
        return -private_ranges.LARGEST, private_ranges.LARGEST, None
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
    elif array.dtype.kind == "c":  # of a frame it may follow from cells; scikit-learn's error would quote rows
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


def _number_people(table: _Table, person: Any) -> np.ndarray | None:
    """Number the people of the rows by their public ids, in the order of their first rows."""
    if person is None:
        return None
    return cells.number_people(table.columns[table.names.index(person)])


def _in_order(table: _Table, names: list[Any]) -> _Table:
    places = [table.names.index(name) for name in names]
    return _Table(names, [table.columns[place] for place in places])


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
