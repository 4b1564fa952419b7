"""``PrivateSearchCV``: a hyper-parameter search with differential privacy for the validation records, or for all."""

import contextlib
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing
from sklearn.utils.validation import _check_method_params, _num_samples, check_is_fitted

from jaxdpbo import checks, notes, separable
from jaxdpbo import space as spaces
from jaxdpbo.drivers import Run, RunInterrupted, Search, methods, minimize
from jaxdpbo.guarantee import assumptions
from jaxdpbo.guarantee.recording import Recording
from jaxdpbo.integrations.sklearn import argument_errors, fitting, joblib_executor, losses, scaling, splits
from jaxdpbo.integrations.sklearn.private_estimator import READ_RAW, SEVERAL_ROWS, Key, PrivateEstimator
from jaxdpbo.integrations.sklearn.refitted_method import RefittedMethod
from jaxdpbo.integrations.sklearn.type_aliases import Estimator, Loss, Rows, Targets
from jaxdpbo.space import Space
from jaxdpbo.types import ArrayLike

ON_ERROR = ("worst", "raise")
FEWEST_IN_TWO = 4  # settings in two batches of two: the first proposes, and a choice among two is left
VALIDATION, ALL = "validation", "all"
REFITTED = "the rows that best_estimator_ was fitted to"


class _Ready(NamedTuple):
    """The prepared objective and data of a search.

    Attributes:
      objective: a function of params and ``data``, the rows.
      public: training rows alone, split again, to propose settings; None for a search that proposes none.
      users: the number of records, persons or blocks.
      loss_range: of a record's loss, or of a block's.
      train: numbers of the rows without protection.
      model: an estimator with the public names of its columns, if fitted.
      rests: the search's own assumptions.
      declared: what the record shows as public, by name.
      block_rows: the number of training rows in a block; None without blocks.
    """

    objective: Any
    data: Any
    public: Any
    users: int
    loss_range: Any
    train: np.ndarray
    model: Estimator
    rests: tuple[str, ...]
    declared: dict[str, int]
    block_rows: int | None = None


class PrivateSearchCV(PrivateEstimator, MetaEstimatorMixin, BaseEstimator):
    """Search the hyper-parameters of an estimator, with differential privacy for the validation records, or for all.

    ``fit(X, y)`` splits the rows once. Estimators learn from the training rows, which are NOT protected. Each
    validation record (with ``groups``, all records of a group) gives a loss. By default the training rows also propose
    the settings: half of ``n_iter`` settings are fitted to two thirds of the training rows and measured on the last
    third, a Gaussian process fitted to these losses proposes the other half, and one private choice among the proposals
    reads the validation records. A search with ``loss_range="private"``, fewer than three training rows, ``n_iter``
    below four (with ``estimate_share``, two batches or fewer), or another ``Search(method=...)`` has no proposals. With
    ``protect="all"``, rows are cut into blocks (``jaxdpbo.blocks``) with an estimator each. Blocks protect ALL rows, at
    the price of smaller models, and of noise that falls with the number of blocks.

    Formal guarantee: ``best_params_`` and all other attributes with a trailing underscore are together
    ``(epsilon, delta)``-DP or ``mu``-GDP for replacing a validation record (with ``groups``, a group), or with
    ``protect="all"`` any row. The exceptions are ``best_estimator_`` and ``classes_`` with ``refit=True``, which learn
    from all rows.

    The search has no ``cv_results_`` and no ``best_score_``, since exact scores leak the records. A noised loss of the
    answer costs a share of the budget (``estimate_share``). Each fit spends a budget, ``cross_val_score`` in each fold.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from jaxdpbo import space
    >>> from jaxdpbo.integrations.sklearn import PrivateSearchCV
    >>> search = PrivateSearchCV(
    ...     LogisticRegression(max_iter=50), {"C": space.real(1e-3, 1e2, log=True)}, epsilon=1, delta=1e-5, n_iter=8
    ... )
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> sorted(search.fit(X[:, :4] / 100, y).best_params_)
    ['C']
    >>> search.guarantee_.epsilon(delta=1e-5) <= 1
    True

    Args:
      estimator: a classifier or regressor; cloned, never fitted itself. A ``Pipeline`` has ``step__param``.
      space: a ``Space``, or a dict from parameter names to dimensions, lists of choices, or frozen ``uniform``,
        ``loguniform`` and ``randint`` of scipy.stats. A list of dicts, as in ``GridSearchCV``, is a ``Space`` of
        branches: a list of one choice is a fixed value, such as ``"model": [SVC()]``. Choices may be estimators or any
        other objects (``space.categorical``): each fit gets clones.
      epsilon: the budget, with ``delta``.
      delta: in (0, 1), far below 1 over the number of records.
      mu: the GDP budget, in place of ``epsilon`` and ``delta``.
      n_iter: the largest number of settings to try.
      loss: the loss of a record: "log_loss", "hinge", "zero_one", "squared", "absolute", or your own
        ``(estimator, X, y) -> losses (n,)``; entry ``i`` must depend on row ``i`` alone. Your function gets a NumPy
        array ``y`` as such, and any other ``y`` as an array of objects, since all rows of a Series determine its type.
        "auto" is "log_loss" for classifiers with ``predict_proba``, "zero_one" for others, "squared" for regressors.
        Two scores that are no mean of losses have a loss, 1 minus the score, beside training rows (with
        ``protect="all"``, within each block): "roc_auc" ranks a record among those of the other class in a third of the
        training rows, held out; "balanced_accuracy" divides its error by the share of its class among the training
        rows, and by the number of classes.
      loss_range: ``(low, high)``, chosen without the data. Losses are clipped to this range. The default is (0, 4) for
        "log_loss", (0, 2) for "hinge", (0, 1) for "zero_one" and "roc_auc", and for "balanced_accuracy" from 0 to the
        largest loss. "private" finds how much losses differ, for 5 % of ``mu^2``.
      cv: a single split: ``ShuffleSplit(1)``, ``GroupShuffleSplit(1)``, ``PredefinedSplit``, or
        ``[(train, validation)]``. The default is a fixed split into halves (with ``groups``, halves of the groups).
        Noise falls with the number of validation records.
      protect: "validation", or "all" for every row, training rows included.
      n_blocks: for "all", the number of blocks; by default a 30th of the rows, at most 100.
      scale: for "all", scale ``best_params_`` from blocks to all rows (see ``scale``); False keeps the setting.
      refit: False by default, since an estimator fitted to validation records leaks these. "train" fits
        ``best_estimator_`` to the training rows alone and releases nothing more. True fits ``best_estimator_`` to all
        rows, outside of the guarantee.
      error_score: "worst" gives a setting the largest loss if its fit fails; "raise" stops the search. With
        ``protect="validation"``, ``fit`` first tries the middle of the space (of ``k`` categories, index ``k // 2``),
        or of each of its branches, and raises any error before spending the budget.
      n_jobs: as in scikit-learn, by joblib: the number of settings of a batch to fit in parallel.
      verbose: "auto" shows a bar of steps on a terminal, 0 none, another number always (extra ``progress``).
      search: ``Search(method, batch, start, clip_norm, estimate_share, noise)``; ``n_iter`` takes the place of
        ``steps``. With an ``estimate_share``, ``best_loss_`` is a noised mean loss at ``best_params_``.
      ledger: ``Recording(path, run)``: charge the search first; another fit under its name returns the first answer.
        A clone, such as that of a fold, is refused under the name of an earlier fit.
      key: a typed key, FOR TESTS ALONE, with ``insecure_key=True``: anyone who knows the key can remove the noise.
        Clones share it; a pickle leaves it out.
      insecure_key: permit a key.

    Attributes:
      best_params_: the best setting, a dict of the parameters of its branch, Python scalars and your objects, which it
        prints by their labels; with ``protect="all"`` and ``scale``, for all rows.
      guarantee_: the guarantee, see ``Guarantee``.
      release_: the release; ``release_.params`` is the best setting, before scaling.
      method_: the method, and the reason for its choice.
      notes_: such as of too few users; without a ledger, that the guarantee counts one fit; see ``jaxdpbo.notes``.
      report_: the record of the search, to sign, see ``report.Report``.
      public_: the number of users, of training rows or blocks, the space, the loss and its range.
      best_loss_: the noised mean loss, with an ``estimate_share``.
      best_estimator_: the fitted estimator, with ``refit``; ``predict`` and similar methods call this estimator.
    """

    _released, _described = ("release_",), ("best_params_", "best_loss_", "method_")

    @checks.refuse_others("PrivateSearchCV", argument_errors.advice)
    def __init__(
        self,
        estimator: Estimator,
        space: Space | dict[str, Any] | list[dict[str, Any]],
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        mu: float | None = None,
        n_iter: int = 100,
        loss: Loss = losses.AUTO,
        loss_range: ArrayLike | str | None = None,
        cv: Any = None,
        protect: str = "validation",
        n_blocks: int | None = None,
        scale: bool = True,
        refit: bool | str = False,
        error_score: str = "worst",
        n_jobs: int | None = None,
        verbose: int | str = "auto",
        search: Search | None = None,
        ledger: Recording | None = None,
        key: Key = None,
        insecure_key: bool = False,
    ):
        """Keep the arguments; ``fit`` checks them.

        Raises:
          TypeError: an argument is unknown, such as those of scikit-learn's searches; names the argument to use.
        """
        self.estimator = estimator
        self.space = space
        self.epsilon = epsilon
        self.delta = delta
        self.mu = mu
        self.n_iter = n_iter
        self.loss = loss
        self.loss_range = loss_range
        self.cv = cv
        self.protect = protect
        self.n_blocks = n_blocks
        self.scale = scale
        self.refit = refit
        self.error_score = error_score
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.search = search
        self.ledger = ledger
        self.key = key
        self.insecure_key = insecure_key

    def fit(self, X: Rows, y: Targets = None, **params: Any) -> "PrivateSearchCV":
        """Search and spend the budget.

        Args:
          X: rows of features, of any type known to ``estimator``.
          y: a target for each row.
          params: ``groups``, and parameters of ``estimator.fit`` and ``cv``; with metadata routing, by request. Values
            for each record are split like the records.

        Raises:
          ValueError: an argument is out of range, a parameter of the estimator is unknown, or ``cv`` is not a single
            split.
          TypeError: an argument has the wrong type.
          RunInterrupted: with ``error_score="raise"``, a fit failed. The budget is spent.
        """
        self._begin_fit()
        checks.one_of("protect", self.protect, (VALIDATION, ALL))
        checks.one_of("error_score", self.error_score, ON_ERROR)
        checks.flag("scale", self.scale)
        if not isinstance(self.refit, (bool, np.bool_)) and self.refit not in ("train",) * (self.protect != ALL):
            raise ValueError(f"refit must be True, False or, for protect='validation', 'train', got {self.refit!r}")
        if get_tags(self.estimator).input_tags.pairwise:
            raise ValueError("estimator must take records, not distances, since a distance depends on two users")
        space = self._space()
        X, y = indexable(X, losses.to_column(y))
        fit_params, split_params = self._route_params(params)
        prepare = self._prepare_all_rows if self.protect == ALL else self._prepare_validation
        ready = prepare(X, y, fit_params, split_params, spaces.middles(space))
        run = self._search(ready, space)
        self._keep(run, ready, space, _num_samples(X), fit_params)
        if self.refit:
            rows = ready.train if self.refit == "train" else np.arange(_num_samples(X))
            chosen = fitting.clone_with_params(self.estimator, self.best_params_)
            refitted = fitting.take_rows(X, y, rows, isinstance(losses.resolve_loss(self.loss, self.estimator), str))
            self.best_estimator_ = chosen.fit(*refitted, **_check_method_params(X, fit_params, rows))
            ready = ready._replace(model=self.best_estimator_)
        for name in ("n_features_in_", "feature_names_in_"):  # columns are public
            if hasattr(ready.model, name):
                setattr(self, name, getattr(ready.model, name))
        return self

    def _prepare_validation(
        self, X: Rows, y: Targets, fit_params: Any, split_params: Any, middles: list[dict[str, Any]]
    ) -> "_Ready":
        """Prepare a search that protects validation records."""
        groups, loss = split_params.pop("groups", None), losses.resolve_loss(self.loss, self.estimator)
        split = splits.single_split(self.cv, _num_samples(X), groups, split_params, again=self.ledger is not None)
        fitting.expect_one_kind(y, split.train)
        data = fitting.validation_task(X, y, split, fit_params, loss)
        objective = fitting.UserLosses(self.estimator, loss, self.error_score == "raise")
        # Only training rows: errors of the estimator are raised here, before anything is spent.
        models = [objective.fit_clone(middle, data) for middle in middles]
        for model in models:
            argument_errors.expect_response(loss, model)
        tried = [losses.beside(loss, model, *data.beside) for model in models]
        for each, model in zip(tried, models, strict=True):
            losses.expect(each, model, *data.beside)
        public = None
        if self._proposes() and np.max(split.owner) + 1 >= splits.THIRDS:
            task = fitting.validation_task(X, y, splits.split_training_rows(split), fit_params, loss)
            with contextlib.suppress(ValueError):  # too few training rows to rank among: then they propose nothing
                losses.beside(loss, models[0], *task.beside)
                public = task
        grouping = assumptions.ONE_ROW if groups is None else assumptions.ROW_OWNERS
        rests = (assumptions.OWN_ROWS, assumptions.PREDICTED_APART, assumptions.SPLIT_UNSEEN, grouping)
        declared = {"users": split.users, "training rows": len(split.train)}
        loss_range = self._range(tried[0])
        return _Ready(objective, data, public, split.users, loss_range, split.train, models[0], rests, declared)

    def _proposes(self) -> bool:
        """True if the training rows propose the settings: they need a loss range, and batches enough for two halves."""
        search = self._checked_search()
        private_range = isinstance(self.loss_range, str)
        steps = self._steps(search)[0] - bool(search.estimate_share)
        return search.method in (methods.AUTO, methods.PROPOSED) and not private_range and steps > 1

    def _prepare_all_rows(
        self, X: Rows, y: Targets, fit_params: Any, split_params: Any, middles: list[dict[str, Any]]
    ) -> "_Ready":
        """Prepare a search that protects all rows, in blocks."""
        if self.cv is not None:
            raise ValueError("cv must not be given with protect='all': give n_blocks to cut the rows into blocks")
        groups, loss = split_params.pop("groups", None), losses.resolve_loss(self.loss, self.estimator)
        loss_range, count = self._range(loss), _num_samples(X)
        clipped = None if isinstance(loss_range, str) else checks.interval("loss_range", loss_range)
        learner = fitting.BlockLoss(self.estimator, loss, clipped)
        groups = None if groups is None else separable.number_owners(groups, count)
        persons = count if groups is None else int(np.max(groups)) + 1
        k = separable.usual_count(persons) if self.n_blocks is None else self.n_blocks
        objective = fitting.blocks_objective(learner, count, k, groups, raises=self.error_score == "raise")
        data = fitting.RowTask(X, y, fit_params, isinstance(loss, str))
        models = [fitting.clone_with_params(self.estimator, middle) for middle in middles]  # raises for unknown names
        for model in models:
            argument_errors.expect_response(loss, model)
        block_rows = round(np.mean([len(block.train) for block in objective.partition]))  # equal blocks without groups
        rests = (assumptions.OWN_ROWS, *(assumptions.ONE_ROW,) * (groups is None))
        declared = {"users": persons, "blocks": objective.count}
        users = objective.count
        return _Ready(objective, data, None, users, loss_range, np.arange(0), models[0], rests, declared, block_rows)

    def _range(self, loss: Loss | losses.Loss) -> Any:
        """The range of a record's loss; of the mean over a block, for a score that is no mean of losses."""
        loss_range = losses.usual_range(loss) if self.loss_range is None else self.loss_range
        if loss_range is None:
            raise ValueError(f"loss_range must be given for loss={self.loss!r}: (low, high), or 'private'")
        return loss_range

    def _space(self) -> Space:
        return self.space if isinstance(self.space, Space) else Space(self.space)

    def _checked_search(self) -> Search:
        search = Search() if self.search is None else self.search
        if not isinstance(search, Search):
            raise TypeError(f"search must be a Search, got {type(search).__name__}: type search=Search(method=...)")
        if search.steps is not None:
            raise ValueError(f"search must not have steps, got steps={search.steps}: give n_iter to PrivateSearchCV")
        return search

    def _steps(self, search: Search) -> tuple[int, int]:
        """The number of batches, two or more from four settings on, and of settings in each."""
        count = checks.size("n_iter", self.n_iter)
        usual = min(len(self._space().names) + 1, count if count < FEWEST_IN_TWO else count // 2)
        batch = usual if search.batch is None else checks.size("batch", search.batch)
        return count // batch, batch

    def _search(self, ready: "_Ready", space: Space) -> Run:
        search = self._checked_search()
        steps, batch = self._steps(search)
        if not steps:
            raise ValueError(f"n_iter must be at least {batch}, the number of settings in a batch, got {self.n_iter}")
        executor = None if effective_n_jobs(cast(Any, self.n_jobs)) == 1 else joblib_executor.Joblib(self.n_jobs)
        try:
            with self._counting_fit():
                return minimize(
                    ready.objective,
                    ready.data,
                    space,
                    loss_range=ready.loss_range,
                    mu=self.mu,
                    epsilon=self.epsilon,
                    delta=self.delta,
                    users=ready.users,
                    public=ready.public,
                    search=replace(search, steps=steps, batch=batch),
                    ledger=self.ledger,
                    key=self._given_key(),
                    insecure_key=self.insecure_key,
                    traceable=False,
                    executor=executor,
                    progress=self.verbose if isinstance(self.verbose, str) else bool(self.verbose),
                )
        except RunInterrupted as error:
            if self.ledger is not None:
                raise
            raise RunInterrupted(
                f"fit stopped on {type(error.__cause__).__name__}: its budget is spent, and another fit spends again; "
                "with ledger= you can resume a fit",
                step=error.step,
            ) from error.__cause__

    def _keep(self, run: Run, ready: "_Ready", space: Space, rows: int, fit_params: dict[str, Any]) -> None:
        """Keep the results that you may publish, and nothing else."""
        stated = run.guarantee.without(assumptions.SEPARABLE_LOSSES).assuming(*ready.rests)
        several = (SEVERAL_ROWS,) * (assumptions.ONE_ROW in ready.rests)
        refitted = (REFITTED,) * (self.refit is not False and self.refit != "train")
        self._keep_guarantee(stated, *refitted, *(READ_RAW,) * bool(self.refit), *several)
        loss = losses.resolve_loss(self.loss, self.estimator)
        self.public_ = ready.declared | {
            "space": space,
            "loss": loss if isinstance(loss, str) else "a function of the caller",
            "loss range": ready.loss_range,
        }
        self.release_, self.best_params_, self.method_ = run.release, run.release.params, run.method
        given = [name for name, value in fit_params.items() if value is not None]
        weights = [name for name in given if name.split("__")[-1] == "sample_weight"]  # of a pipeline's step too
        self._keep_notes(sum(map(notes.weights_train_alone, weights), run.notes))
        if ready.block_rows is not None and self.scale:
            scaled = scaling.scale(self.estimator, self.best_params_, ready.block_rows, rows)
            self.best_params_ = spaces.relabel(self.best_params_, scaled)
        if self._checked_search().estimate_share:
            self.best_loss_ = float(run.release.loss)

    @RefittedMethod
    def predict(self, X: Rows) -> Any:
        """Call ``predict`` of ``best_estimator_``; requires ``refit``, like the methods below."""
        return self._require_refit().predict(X)

    @RefittedMethod
    def predict_proba(self, X: Rows) -> Any:
        """Call ``predict_proba`` of ``best_estimator_``."""
        return self._require_refit().predict_proba(X)

    @RefittedMethod
    def predict_log_proba(self, X: Rows) -> Any:
        """Call ``predict_log_proba`` of ``best_estimator_``."""
        return self._require_refit().predict_log_proba(X)

    @RefittedMethod
    def decision_function(self, X: Rows) -> Any:
        """Call ``decision_function`` of ``best_estimator_``."""
        return self._require_refit().decision_function(X)

    @RefittedMethod
    def transform(self, X: Rows) -> Any:
        """Call ``transform`` of ``best_estimator_``."""
        return self._require_refit().transform(X)

    @RefittedMethod
    def score(self, X: Rows, y: Targets = None) -> float:
        """The exact score of ``best_estimator_``, outside of the guarantee if ``X`` holds protected records."""
        return self._require_refit().score(X, y)

    @property
    def classes_(self) -> Any:
        """The classes of ``best_estimator_``."""
        return self._require_refit().classes_

    def get_metadata_routing(self) -> MetadataRouter:
        """Route metadata to the estimator and to the splitter."""
        router = MetadataRouter(owner=self)
        router.add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        if hasattr(self.cv, "split"):
            router.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        return router

    def __sklearn_tags__(self) -> Any:
        """The tags of the estimator."""
        tags, estimator_tags = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = estimator_tags.estimator_type
        tags.classifier_tags = deepcopy(estimator_tags.classifier_tags)
        tags.regressor_tags = deepcopy(estimator_tags.regressor_tags)
        tags.input_tags.sparse = estimator_tags.input_tags.sparse
        return tags

    def _require_refit(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def _route_params(self, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The parameters of the estimator's ``fit``, and those of the splitter."""
        groups = {name: params[name] for name in ("groups",) if params.get(name) is not None}
        others = {name: value for name, value in params.items() if name != "groups"}
        if not _routing_enabled():
            return others, groups
        if not hasattr(self.cv, "split"):  # the default split takes groups without a request
            return dict(process_routing(self, "fit", **others).estimator.fit), groups
        routed = process_routing(self, "fit", **params)
        return dict(routed.estimator.fit), dict(routed.splitter.split)
