"""``PrivateSearchCV`` keeps scikit-learn's conventions, and nothing of a validation record gets out but the release."""

import copy
import logging
import pickle
import sys
import warnings
from concurrent.futures import CancelledError
from decimal import Decimal
from fractions import Fraction
from inspect import signature

import jax
import joblib
import numpy as np
import pandas
import pytest
import sklearn
from option_groups import group_options
from scipy import stats
from sklearn import metrics
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, StackingClassifier
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import (
    GridSearchCV,
    GroupShuffleSplit,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedShuffleSplit,
    cross_val_score,
)
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from jaxdpbo import Recording, Space, ledger, secret_key, space
from jaxdpbo.drivers import RunInterrupted
from jaxdpbo.guarantee import assumptions, guarantees
from jaxdpbo.integrations.sklearn import (
    LOSSES,
    PrivateSearchCV,
    argument_errors,
    fitting,
    joblib_executor,
    losses,
    scale,
    splits,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(int)
SPACE = {"C": space.real(0.1, 1.0)}
TINY = {
    "mu": 1.0,
    "n_iter": 2,
    "method": "in_order",
    "key": jax.random.key(0),
    "insecure_key": True,
}  # one small program, compiled once
MODEL = LogisticRegression(max_iter=20)


def search(estimator=MODEL, searched=None, **options):
    return PrivateSearchCV(estimator, SPACE if searched is None else searched, **group_options(**(TINY | options)))


class Picky(ClassifierMixin, BaseEstimator):
    """Predicts the sign of the first feature; warns of what it sees, and raises where that is more than ``limit``."""

    def __init__(self, limit=9.0, C=1.0):
        self.limit = limit
        self.C = C

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        warnings.warn(f"I saw {X[0, 0]}", stacklevel=1)
        print(X[0, 0])
        print(X[0, 0], file=sys.stderr)
        logging.getLogger("picky").critical(X[0, 0])
        np.random.random()  # noqa: NPY002
        if np.max(X[:, 0]) > self.limit:
            raise ValueError(f"what is {np.max(X[:, 0])}?")
        return self.classes_[(X[:, 0] > 0).astype(int)]


NOT_INSTALLED = {"check_array_api_input"}  # what scikit-learn skips: it checks a rule of array libraries
WITHOUT_REFIT = dict.fromkeys(
    (
        "check_classifier_data_not_an_array",
        "check_classifiers_classes",
        "check_classifiers_one_label_sample_weights",
        "check_classifiers_train",
        "check_supervised_y_2d",
    ),
    "with refit=False there is no fitted estimator, so nothing to predict with",
)


def checked(estimator, expected=None):
    """Verdicts of scikit-learn's suite, which fails strictly: what is expected to fail must."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(estimator, expected_failed_checks=expected, on_skip=None, on_fail=None)
    verdicts = {}
    for each in found:
        verdicts.setdefault(each["status"], set()).add(each["check_name"])
    assert set(verdicts) <= {"passed", "skipped", "xfail"}, verdicts.get("failed")
    assert verdicts.get("skipped", set()) <= NOT_INSTALLED
    assert verdicts.get("xfail", set()) | verdicts.get("skipped", set()) >= set(expected or {})
    assert len(verdicts["passed"]) > 35
    return verdicts


def test_scikit_learns_own_checks_pass():
    assert "xfail" not in checked(search(refit="train"))


@pytest.mark.full
def test_scikit_learns_own_checks_pass_of_a_regressor_and_without_a_refit():
    regressor = PrivateSearchCV(
        Ridge(), {"alpha": space.real(0.1, 1.0)}, **group_options(loss_range=(0, 1), refit=True, **TINY)
    )
    assert "xfail" not in checked(regressor)
    checked(search(), WITHOUT_REFIT)


@pytest.mark.parametrize(("name", "classes"), [("log_loss", 2), ("log_loss", 3), ("hinge", 2), ("hinge", 3)])
def test_losses_are_those_of_scikit_learns_metrics(name, classes):
    labels = np.digitize(X[:, 0], (0.0,) if classes == 2 else (-0.5, 0.5))
    model = (LinearSVC() if name == "hinge" else MODEL).fit(X, labels)
    found = losses.record_losses(name, model, X, labels)
    if name == "hinge":
        assert np.mean(found) == pytest.approx(metrics.hinge_loss(labels, model.decision_function(X)))
    else:
        assert np.mean(found) == pytest.approx(metrics.log_loss(labels, model.predict_proba(X)))
    unseen = losses.record_losses(name, model, X[:2], np.array([7, labels[1]]))
    assert unseen[0] == np.inf
    assert unseen[1] == pytest.approx(found[1])


def test_other_losses_are_those_of_scikit_learns_metrics():
    model, labels = Ridge().fit(X, X[:, 0] ** 2), MODEL.fit(X, Y)
    for name, metric in (("squared", metrics.mean_squared_error), ("absolute", metrics.mean_absolute_error)):
        found = losses.record_losses(name, model, X, X[:, 0] ** 2)
        assert np.mean(found) == pytest.approx(metric(X[:, 0] ** 2, model.predict(X)))
    assert np.mean(losses.record_losses("zero_one", labels, X, Y)) == pytest.approx(
        metrics.zero_one_loss(Y, labels.predict(X))
    )


@pytest.mark.parametrize("model", [MODEL, LinearSVC(), DecisionTreeClassifier(max_depth=2, random_state=0)])
def test_losses_beside_the_rows_themselves_have_the_mean_of_scikit_learns_scores(model):
    """The tree has many ties; labels are text, and rare in one class."""
    labels = np.where(X[:, 1] > 0.9, "ill", "well")
    model = model.fit(X, labels)
    given = model.decision_function(X) if hasattr(model, "decision_function") else model.predict_proba(X)[:, 1]
    for name, score in (
        ("roc_auc", metrics.roc_auc_score(labels, given)),
        ("balanced_accuracy", metrics.balanced_accuracy_score(labels, model.predict(X))),
    ):
        loss = losses.beside(name, model, X, labels)
        found = losses.record_losses(loss, model, X, labels)
        assert np.mean(found) == pytest.approx(1 - score)
        assert np.min(found) >= loss.range[0]
        assert np.max(found) <= loss.range[1] + 1e-12
        unseen = losses.record_losses(loss, model, X[:2], np.array(["dead", labels[1]]))
        assert np.isnan(unseen[0])  # the upper end
        assert unseen[1] == found[1]
    ranks = losses.beside("roc_auc", model, X[:30], labels[:30])
    other = {"ill": "well", "well": "ill"}  # a slow count of pairs
    for row in range(30, 40):
        rivals = [given[i] for i in range(30) if labels[i] == other[labels[row]]]
        sign = 1 if labels[row] == model.classes_[1] else -1
        wrong = sum(1.0 if sign * (rival - given[row]) > 0 else 0.5 * (rival == given[row]) for rival in rivals)
        found = losses.record_losses(ranks, model, X[row : row + 1], labels[row : row + 1])
        assert found[0] == pytest.approx(wrong / len(rivals))


@pytest.mark.parametrize("name", ["roc_auc", "balanced_accuracy"])
def test_a_record_moves_no_other_loss_beside_training_rows(name):
    """And the rows that a record is ranked among are not those that the model was fitted to."""
    split = splits.single_split(None, 60, None, {}, again=False)
    objective = fitting.UserLosses(MODEL, name, raises=True)
    noisy = np.where(np.arange(60) % 5 == 0, 1 - Y, Y)
    task = fitting.validation_task(X, noisy, split, {}, name)
    before = objective({}, task)
    changed, labels = X.copy(), noisy.copy()
    moved = split.validation[3]
    changed[moved], labels[moved] = -changed[moved], 1 - labels[moved]
    after = objective({}, fitting.validation_task(changed, labels, split, {}, name))
    others = np.arange(30) != split.user[3]
    np.testing.assert_array_equal(before[others], after[others])
    fitted, compared = (len(rows[1]) for rows in (task.training, task.beside))
    assert (fitted, compared) == ((20, 10) if name == "roc_auc" else (30, 30))
    if name == "roc_auc":
        assert not {tuple(row) for row in task.training[0]} & {tuple(row) for row in task.beside[0]}
    # the comparison can fail: beside the validation rows themselves, other losses move
    model = objective.fit_clone({}, task)
    within = [
        losses.record_losses(losses.beside(name, model, rows, own), model, rows, own)
        for rows, own in (
            (X[split.validation], Y[split.validation]),
            (changed[split.validation], labels[split.validation]),
        )
    ]
    assert np.any(np.delete(within[0], 3) != np.delete(within[1], 3))


@pytest.mark.parametrize("name", ["roc_auc", "balanced_accuracy"])
def test_a_block_counts_with_the_score_of_its_held_out_rows(name):
    task = fitting.RowTask(X, Y, {}, column=True)
    train, held_out = task.take(np.arange(40)), task.take(np.arange(40, 60))
    learner = fitting.BlockLoss(MODEL, name, (0.0, 1.0))
    model = MODEL.fit(X[:40], Y[:40])
    score = {
        "roc_auc": lambda: metrics.roc_auc_score(Y[40:], model.decision_function(X[40:])),
        "balanced_accuracy": lambda: metrics.balanced_accuracy_score(Y[40:], model.predict(X[40:])),
    }[name]()
    assert learner({}, train, held_out) == pytest.approx(1 - score)
    alone = task.take(np.flatnonzero(Y[40:] == 1) + 40)  # one class: no ranking, and the share of right answers
    assert np.isnan(learner({}, train, alone)) == (name == "roc_auc")


@pytest.mark.parametrize("name", ["roc_auc", "balanced_accuracy"])
def test_a_search_takes_scores_that_are_no_mean_of_losses_by_name(name):
    fitted = search(loss=name).fit(X, Y)
    assert fitted.public_["loss"] == name
    low, high = fitted.public_["loss range"]
    assert (low, high >= 1) == (0.0, True)
    assert search(loss=name, protect="all", n_blocks=6).fit(X, Y).public_["loss range"] == (0.0, 1.0)


def test_scores_by_name_need_what_they_compare():
    labels = np.where(X[:, 1] > 0.9, "ill", "well")
    with pytest.raises(ValueError, match="needs two classes, and rows of both"):
        losses.beside("roc_auc", MODEL.fit(X, labels), X[labels == "ill"], labels[labels == "ill"])
    with pytest.raises(ValueError, match="needs two classes, and rows of both"):
        search(loss="roc_auc").fit(X, np.arange(60) % 3)
    with pytest.raises(ValueError, match="loss='balanced_accuracy' needs a classifier, got Ridge"):
        search(Ridge(), {"alpha": space.real(0.1, 1.0)}, loss="balanced_accuracy").fit(X, Y)
    with pytest.raises(ValueError, match="loss='roc_auc' needs a classifier, got KernelDensity"):
        search(KernelDensity(), {"bandwidth": space.real(0.1, 1.0)}, loss="roc_auc", protect="all").fit(X, Y)
    few = search(loss="roc_auc", cv=[(np.arange(12), np.arange(12, 60))], n_iter=8, method="auto").fit(X, Y)
    assert "public" not in few.method_


def test_the_loss_is_chosen_by_what_the_estimator_can_do():
    assert losses.resolve_loss("auto", MODEL) == "log_loss"
    assert losses.resolve_loss("auto", LinearSVC()) == "zero_one"
    assert losses.resolve_loss("auto", make_pipeline(StandardScaler(), Ridge())) == "squared"
    assert losses.resolve_loss("hinge", MODEL) == "hinge"
    with pytest.raises(ValueError, match="neither a classifier nor a regressor"):
        losses.resolve_loss("auto", StandardScaler())
    with pytest.raises(ValueError, match="loss must be one of"):
        losses.resolve_loss("brier", MODEL)
    with pytest.raises(ValueError, match=r"got the scorer 'f1': docs/tutorials/sklearn.md"):
        losses.resolve_loss("f1", MODEL)
    assert losses.resolve_loss("roc_auc", MODEL) == "roc_auc"
    with pytest.raises(ValueError, match="loss_range must be given"):
        search(Ridge(), {"alpha": space.real(0.1, 1.0)}).fit(X, X[:, 0])


def test_a_record_that_can_not_be_predicted_moves_no_other_and_is_heard_of_by_nobody(recwarn, capfd, caplog):
    model, drawn = Picky().fit(X, Y), np.random.get_state()[1].tolist()  # noqa: NPY002
    good = losses.record_losses("zero_one", model, X, Y)
    for bad in ([7], [0, 31, 59], list(range(60))):
        changed = X.copy()
        changed[bad, 0] = 10.0
        found = losses.record_losses("zero_one", model, changed, Y)
        assert np.all(np.isnan(found[bad]))
        kept = np.delete(np.arange(60), bad)
        np.testing.assert_array_equal(found[kept], good[kept])
    assert not recwarn.list
    assert not caplog.text
    assert capfd.readouterr() == ("", "")
    assert np.random.get_state()[1].tolist() == drawn  # noqa: NPY002
    model.predict(X)  # the comparison can fail
    assert caplog.text
    assert "" not in capfd.readouterr()

    def of_batch(estimator, inputs, targets):
        return np.ones(1) if np.any(inputs[:, 0] > 9) else np.zeros(len(inputs))  # a shape that depends on a record

    changed = X[:4].copy()
    changed[2, 0] = 10.0
    np.testing.assert_array_equal(losses.record_losses(of_batch, model, changed, Y[:4]), [0, 0, np.nan, 0])


def test_a_record_that_cannot_be_predicted_moves_no_others_loss_by_a_bit():
    """BLAS rounds by the number of rows: halves that were predicted apart moved others, and flipped ties."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(201, 40)), rng.integers(2, size=201)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=30)).fit(rows, labels)
    changed = rows.copy()
    changed[[17, 90]] = np.nan
    for name in ("log_loss", "zero_one"):
        good = losses.record_losses(name, model, rows, labels, spare=True)
        found = losses.record_losses(name, model, changed, labels, spare=True)
        np.testing.assert_array_equal(np.flatnonzero(np.isnan(found)), [17, 90])
        kept = np.delete(np.arange(200), [17, 90])
        np.testing.assert_array_equal(found[kept], good[kept])
    apart = [losses.record_losses("log_loss", model, rows[[row]], labels[[row]])[0] for row in range(200)]
    assert np.any(apart != losses.record_losses("log_loss", model, rows, labels, spare=True))  # the comparison can fail


def test_no_targets_are_passed_on_or_refused_before_anything_is_spent():
    def score_samples(estimator, inputs, targets):
        assert targets is None
        return -estimator.score_samples(inputs)

    density = {"bandwidth": space.real(0.1, 1.0)}
    found = PrivateSearchCV(
        KernelDensity(), density, **group_options(loss=score_samples, loss_range=(0, 9), **TINY)
    ).fit(X)
    assert set(found.best_params_) == {"bandwidth"}
    with pytest.raises(ValueError, match="requires y to be passed"):
        search(Ridge(), {"alpha": space.real(0.1, 1.0)}, loss_range=(0, 1)).fit(X)


def test_losses_that_are_nan_for_all_training_rows_are_refused_before_anything_is_spent():
    with pytest.raises(ValueError, match="got NaN for all"):
        search(loss=lambda estimator, inputs, targets: np.full(len(inputs), np.nan), loss_range=(0, 1)).fit(X, Y)


@pytest.mark.parametrize(
    ("labels", "odd"), [(np.array(["a", "b"])[Y], "a much longer"), (Y, 0.5), (Y, 10**30), (Y, None)]
)
def test_the_type_of_a_models_classes_follows_from_training_rows(labels, odd):
    validation = splits.single_split(None, 60, None, {}, again=False).validation
    changed = labels.tolist()
    changed[validation[3]] = odd
    usual, found = (search(refit="train").fit(X, np.array(each)) for each in (labels.tolist(), changed))
    assert found.classes_.dtype == usual.classes_.dtype
    np.testing.assert_array_equal(found.classes_, usual.classes_)


class Ranking(ClassifierMixin, BaseEstimator):
    """Predictions that are ranks among the rows that are predicted together."""

    def __init__(self, C=1.0):
        self.C = C

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[(np.argsort(np.argsort(X[:, 0])) >= len(X) / 2).astype(int)]


def test_a_loss_that_reads_all_rows_is_refused_before_the_charge(tmp_path):
    """An AUC in disguise: one number for each row, the same for all."""

    def ranking(estimator, inputs, targets):
        scores = estimator.predict_proba(inputs)[:, 1]
        return np.full(len(scores), 1 - metrics.roc_auc_score(np.asarray(targets), scores))

    path = tmp_path / "book"
    ledger.create(path, mu=5)
    recorded = {"ledger": Recording(path, "march"), "loss_range": (0, 1)}
    with pytest.raises(ValueError, match=r"changed the loss of a third\. A ranking or a ratio"):
        search(loss=ranking, **recorded).fit(X, Y)
    with pytest.raises(ValueError, match="changed the loss of a third"):
        search(Ranking(), loss="zero_one", **recorded).fit(X, Y)
    assert not ledger.account(path).spends


def test_what_is_wrong_with_the_estimator_is_said_of_training_rows_alone(monkeypatch):
    monkeypatch.setattr("jaxdpbo.integrations.sklearn.search.minimize", None)  # before anything is spent
    train, validation = np.arange(30), np.arange(30, 60)
    bad = X.copy()
    bad[3, 0] = 10.0
    with pytest.raises(ValueError, match="what is 10"):
        search(Picky(), cv=[(train, validation)], loss="zero_one").fit(bad, Y)
    with pytest.raises(ValueError, match="one number a row"):
        search(loss=lambda estimator, inputs, targets: np.ones(1), loss_range=(0, 1)).fit(X, Y)
    with pytest.raises(ValueError, match="Invalid parameter 'D'"):
        search(searched={"D": space.real(0.1, 1.0)}).fit(X, Y)
    with pytest.raises(ValueError, match="loss='log_loss' needs predict_proba"):
        search(LinearSVC(), loss="log_loss").fit(X, Y)


def test_the_last_step_of_a_pipeline_is_what_responds():
    steps = StandardScaler(), StandardScaler()
    argument_errors.expect_response("log_loss", make_pipeline(*steps, LogisticRegression()))
    with pytest.raises(ValueError, match="needs predict_proba, which Pipeline lacks"):
        argument_errors.expect_response("log_loss", make_pipeline(*steps, make_pipeline(*steps, LinearSVC())))


@pytest.mark.parametrize("protect", ["validation", "all"])
@pytest.mark.parametrize(
    ("estimator", "loss", "said"),
    [
        (
            LinearSVC(),
            "log_loss",
            "needs predict_proba, which LinearSVC lacks .*: give loss='hinge' or loss='zero_one' or loss='roc_auc' or ",
        ),
        (make_pipeline(StandardScaler(), SVC()), "log_loss", "needs predict_proba, which Pipeline lacks"),
        (
            RandomForestClassifier(5),
            "hinge",
            "needs decision_function, which .* lacks .*'log_loss' or loss='zero_one' or loss='roc_auc'",
        ),
        (Ridge(), "log_loss", "needs predict_proba, which Ridge lacks .*: give loss='squared' or loss='absolute'$"),
    ],
)
def test_an_estimator_without_what_a_loss_needs_is_named_before_anything_is_spent(
    protect, estimator, loss, said, monkeypatch
):
    """Before, in blocks every fit failed, each counted as the worst, and the budget was spent on that."""
    monkeypatch.setattr("jaxdpbo.integrations.sklearn.search.minimize", None)
    searched = {
        sorted(name for name in estimator.get_params() if name.endswith(("C", "alpha", "n_estimators")))[0]: [1, 2]
    }
    with pytest.raises(ValueError, match=said):
        search(estimator, searched, loss=loss, protect=protect).fit(X, Y)


def test_a_stack_that_makes_its_last_estimator_may_have_a_log_loss(monkeypatch):
    reached = []
    monkeypatch.setattr("jaxdpbo.integrations.sklearn.search.minimize", lambda *_, **__: reached.append(1) or 1 / 0)
    stack = StackingClassifier([("a", MODEL)], cv=2)
    for protect in ("validation", "all"):
        with pytest.raises(ZeroDivisionError):
            search(stack, {"a__C": [0.1, 1.0]}, loss="log_loss", protect=protect).fit(X, Y)
    assert len(reached) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scoring": "accuracy"}, "takes no scoring: a score is of all records at once, .*: give loss='zero_one'$"),
        ({"scoring": "neg_log_loss"}, "give loss='log_loss'$"),
        ({"scoring": "neg_mean_squared_error"}, "give loss='squared'$"),
        (
            {"scoring": metrics.make_scorer(metrics.f1_score)},
            r"give loss=, by name or as \(estimator, X, y\) -> losses",
        ),
        ({"param_grid": {"C": [1, 2]}}, r"takes no param_grid: give space=\{\.\.\.\}, its values lists, scipy"),
        ({"param_distributions": {"C": [1, 2]}}, r"takes no param_distributions: give space="),
        (
            {"random_state": 0},
            "takes no random_state: anyone who knows the seed .* key= is for tests alone$",
        ),
        ({"return_train_score": True}, "no cv_results_, which leaks; search=Search.estimate_share"),
        ({"callbacks": []}, "takes no callbacks: settings are released together, at the end; verbose=True"),
        ({"timeout": 60}, "takes no timeout: how long a fit takes may depend on records, .*: give n_iter$"),
        ({"scoring": "r2", "n_trials": 3}, "takes no scoring: .*'squared'; no n_trials: see help"),
    ],
)
def test_arguments_of_other_searches_are_refused_with_the_spelling_that_works(options, said):
    """Before: "got an unexpected keyword argument", or "missing 1 required positional argument: 'space'"."""
    for given in ((MODEL,), (MODEL, SPACE)):
        with pytest.raises(TypeError, match=rf"PrivateSearchCV takes no .*{said.removeprefix('takes no ')}"):
            PrivateSearchCV(*given, **group_options(**options))


def test_an_argument_more_or_less_leaves_a_search_what_it_was():
    """As clone, set_params and the repr of scikit-learn see it."""
    made = search(steps=None, key=jax.random.key(3), verbose=3)
    assert "scoring" not in made.get_params(deep=False)
    assert clone(made).get_params(deep=False).keys() == made.get_params(deep=False).keys()
    assert "key=<hidden key>" in repr(made)
    assert "insecure_key=True" in repr(made)
    assert "verbose=3" in repr(made)
    assert list(signature(PrivateSearchCV).parameters)[:2] == ["estimator", "space"]
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'space'"):
        PrivateSearchCV(MODEL, mu=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'scoring'"):
        made.set_params(scoring="accuracy")


def test_a_space_may_be_lists_and_distributions_of_scipy():
    searched = {"C": stats.loguniform(0.1, 1.0), "fit_intercept": [True, False]}
    written = {"C": space.real(0.1, 1.0, log=True), "fit_intercept": space.categorical(True, False)}
    found, wanted = (search(searched=each, n_iter=3).fit(X, Y).best_params_ for each in (searched, written))
    assert found == wanted
    assert clone(search(searched=searched)).get_params()["space"].keys() == searched.keys()
    with pytest.raises(TypeError, match=r"C must be real.* or a frozen uniform, loguniform or randint of scipy"):
        search(searched={"C": stats.norm()}).fit(X, Y)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "score"])
def test_without_a_refit_each_method_says_why_it_is_not_there(method):
    """Before, the last line was "This 'PrivateSearchCV' has no attribute 'predict'"."""
    for made in (search(), search(refit="train").set_params(refit=False)):
        assert not hasattr(made, method)
        with pytest.raises(
            AttributeError, match=rf"^{method} needs a fitted estimator, got refit=False: give refit='train', or"
        ):
            getattr(made, method)
    assert hasattr(search(refit="train"), method)
    assert callable(getattr(PrivateSearchCV, method))
    with pytest.raises(AttributeError, match=r"^predict_proba is no method of LinearSVC$"):
        search(LinearSVC(), refit="train").predict_proba  # noqa: B018


@pytest.mark.parametrize(
    ("cv", "said"),
    [
        (5, "k-fold cross-validation each record also trains"),
        (KFold(3), "k-fold cross-validation each record also trains"),
        (ShuffleSplit(2), "got 2 splits"),
        (StratifiedShuffleSplit(1), "must not split by labels"),
        ([([0, 1], [1, 2])], "none that are both"),
        ([([], [1, 2])], "training rows and validation rows"),
        (PredefinedSplit([0, 1] * 30), "got 2 splits"),
        (iter([(np.arange(30), np.arange(30, 60))]), "must not be an iterator"),
    ],
)
def test_a_split_that_no_statement_covers_is_refused(cv, said):
    with pytest.raises(ValueError, match=said):
        search(cv=cv).fit(X, Y)


@pytest.mark.parametrize("make", [np.asarray, list])
def test_owners_are_checked_whatever_the_split(make):
    """A split that ignores groups, such as a list of one, checks neither their length nor missing ids."""
    groups, cv = np.arange(60.0).astype(object), [(np.arange(30), np.arange(30, 60))]
    search(cv=cv).fit(X, Y, groups=make(groups))
    with pytest.raises(ValueError, match="groups"):
        search(cv=cv).fit(X, Y, groups=make(np.append(groups, 1.0)))
    groups[[3, 40]] = np.nan
    for options in ({"cv": cv}, {"protect": "all", "n_blocks": 3}):
        with pytest.raises(ValueError, match="groups must hold an id"):
            search(**options).fit(X, Y, groups=make(groups))


def test_rows_of_one_owner_are_on_one_side_where_settings_are_proposed():
    """Before, by rows: proposals saw nearest neighbours with no error, since a person's rows were on both sides."""
    owners = np.repeat(np.arange(40), 5)
    split = splits.single_split(None, 200, owners, {}, again=False)
    inner = splits.split_training_rows(split)
    assert sorted([*inner.train, *inner.validation]) == sorted(split.train)
    assert not np.intersect1d(owners[inner.train], owners[inner.validation]).size
    for each in (split, inner):
        pairs = ((each.validation, each.user, each.users), (each.train, each.owner, each.owner.max() + 1))
        for rows, number, count in pairs:  # numbers of owners, and all of them
            assert len(set(zip(owners[rows], number, strict=True))) == len(set(number.tolist())) == count
    alone = splits.single_split(None, 60, None, {}, again=False)
    rows = np.random.default_rng(splits.SEED).permutation(alone.train)
    np.testing.assert_array_equal(splits.split_training_rows(alone).train, rows[10:])


@pytest.mark.parametrize("dtype", ["float64", "Float64", "float32"])
def test_whole_targets_in_a_column_of_pandas_are_those_of_an_array(dtype):
    """Before: NumPy's arguments reached pandas, and every block of whole targets had the largest loss, in silence."""
    targets = np.arange(60.0)
    column = pandas.Series(targets, dtype=dtype, index=np.arange(60) + 7)
    for rows in (np.arange(20), np.arange(5, 9)):
        found = fitting.take_rows(X, column, rows, column=True)[1]
        assert found.dtype.kind == "i"
        np.testing.assert_array_equal(found, targets[rows])
    column.iloc[3] = np.nan
    assert fitting.take_rows(X, column, np.arange(5), column=True)[1].dtype.kind == "f"


def test_training_labels_of_text_and_numbers_are_refused():
    """An estimator reads all as text, and all users with numbers for labels would be wrong in silence."""
    labels = Y.astype(object)
    labels[splits.single_split(None, 60, None, {}, again=False).train[0]] = "1"
    for given in (labels, pandas.Series(labels)):
        with pytest.raises(ValueError, match="must not mix text with numbers"):
            search().fit(X, given)


def test_ensembles_do_not_set_the_key():
    many = BaggingClassifier(search(refit="train", key=None, insecure_key=False), n_estimators=2, random_state=0).fit(
        X, Y
    )
    assert [each.key for each in many.estimators_] == [None, None]
    assert "random_state" not in search().get_params(deep=False)


def test_a_splitter_sees_no_record():
    class Looking(ShuffleSplit):
        def split(self, X, y=None, groups=None):
            assert not np.any(X)
            assert not np.any(y)
            return super().split(X, y, groups)

    found = splits.single_split(Looking(1, test_size=0.25, random_state=0), 60, None, {}, again=False)
    assert (len(found.train), len(found.validation), found.users) == (45, 15, 15)
    np.testing.assert_array_equal(found.user_losses(np.arange(15.0))[found.user], np.arange(15.0))
    usual = [splits.single_split(None, 60, None, {}, again=True) for _ in range(2)]
    assert usual[0].users == 30
    np.testing.assert_array_equal(usual[0].validation, usual[1].validation)
    with pytest.raises(ValueError, match="the same split each time"):
        splits.single_split(ShuffleSplit(1, test_size=0.5), 60, None, {}, again=True)
    with pytest.raises(ValueError, match="cv must not be given"):
        search(protect="all", cv=ShuffleSplit(1)).fit(X, Y)
    with pytest.raises(ValueError, match="refit must be"):
        search(protect="all", refit="train").fit(X, Y)
    with pytest.raises(ValueError, match="k must leave"):
        search(protect="all", n_blocks=40).fit(X, Y)
    with pytest.raises(ValueError, match="Invalid parameter"):
        search(protect="all", searched={"nothing": space.real(0, 1)}).fit(X, Y)


class Seeing(LogisticRegression):
    """Warns of its rows, writes on them, and raises where one of them is large."""

    def fit(self, X, y, sample_weight=None):
        warnings.warn(str(X), stacklevel=1)
        print(X, np.random.normal())  # noqa: NPY002
        if np.max(X) > 8:
            raise ValueError(str(X))
        super().fit(X, y, sample_weight)
        X[:] = 0
        return self


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_all_rows_are_protected_in_blocks(n_jobs, capfd):
    options = {"protect": "all", "n_blocks": 12, "loss": "log_loss", "n_jobs": n_jobs}
    fitted = search(Seeing(), **options).fit(X, Y)
    assert fitted.guarantee_.protects == f"{guarantees.ALL_ROWS}; NOT users with several rows"
    assert assumptions.BLOCKS_APART in fitted.guarantee_.assumptions
    assert assumptions.SEPARABLE_LOSSES not in fitted.guarantee_.assumptions
    assert assumptions.PREDICTED_APART not in fitted.guarantee_.assumptions
    if n_jobs is None:
        assert capfd.readouterr().out == ""
    learner = fitting.BlockLoss(Seeing(), "log_loss", (0.0, 4.0))
    objective = fitting.blocks_objective(learner, 60, 12, None, raises=False)
    usual = objective({"C": 0.5}, fitting.RowTask(X, Y, {}, True))
    assert np.all((usual >= 0) & ((usual <= 4) | (usual == np.inf)))  # a block of one class has no fit
    assert np.isfinite(usual).sum() > 6
    rng = np.random.default_rng(4)
    for bad in (9.0, np.nan, -1e300, 0.0):
        data, targets, row = X.copy(), Y.copy(), rng.integers(60)
        data[row], targets[row] = bad, rng.integers(0, 7)
        (own,) = [number for number, block in enumerate(objective.partition) if row in np.concatenate(block)]
        found = objective({"C": 0.5}, fitting.RowTask(data, targets, {}, True))
        np.testing.assert_array_equal(np.delete(found, own), np.delete(usual, own))
    odd = Y.tolist()
    odd[3] = [1, 2]  # no label at all
    found = objective({"C": 0.5}, fitting.RowTask(X, odd, {}, True))
    (own,) = [number for number, block in enumerate(objective.partition) if 3 in np.concatenate(block)]
    np.testing.assert_array_equal(np.delete(found, own), np.delete(usual, own))
    weights = fitting.RowTask(X, Y, {"sample_weight": np.arange(60.0)}, True)
    train, held_out = (weights.take(of) for of in objective.partition[0])
    np.testing.assert_array_equal(train.fit_params["sample_weight"], objective.partition[0].train)
    assert len(held_out.elements) == len(held_out.rows)
    grouped = search(**options).fit(X, Y, groups=np.arange(60) // 2)
    assert assumptions.ROW_OWNERS in grouped.guarantee_.assumptions
    assert grouped.guarantee_.protects == guarantees.ALL_ROWS
    refitted = search(refit=True, **options).fit(X, Y)
    assert refitted.predict(X).shape == (60,)


def test_a_setting_is_carried_from_a_block_by_the_rule_of_its_owner():
    pipeline = make_pipeline(StandardScaler(), SGDClassifier())
    inside = {"sgdclassifier__alpha": 0.5, "sgdclassifier__penalty": "l2", "standardscaler__with_mean": True}
    assert scale(pipeline, inside, 100, 1600) == inside | {"sgdclassifier__alpha": 0.0625}
    for placed, chosen, alpha in ((SGDClassifier(), Ridge(), 0.5), (Ridge(), SGDClassifier(), 0.0625)):
        found = scale(Pipeline([("model", placed)]), {"model": chosen, "model__alpha": 0.5}, 100, 1600)
        assert found == {"model": chosen, "model__alpha": alpha}  # by the model that was chosen, as for a branch
        nested = Pipeline([("outer", Pipeline([("model", placed)]))])
        inner = {"outer__model": chosen, "outer__model__alpha": 0.5, "outer__verbose": False}
        assert scale(nested, inner, 100, 1600) == inner | {"outer__model__alpha": alpha}
    lacking = {"model": LinearSVC(), "model__alpha": 0.5}  # fails in each block: may still be chosen, by noise
    assert scale(Pipeline([("model", SGDClassifier())]), lacking, 100, 1600) == lacking
    assert scale(SGDClassifier(), {"eta0": 1}, 100, 1600) == {"eta0": 0.5}
    assert scale(Ridge(), {"alpha": 0.5}, 100, 1600) == {"alpha": 0.5}  # of the same name, for a sum over rows
    assert scale(LinearSVC(), {"C": 3}, 100, 1600) == {"C": 3}
    for alpha in (1e-4, 1, 3.0):  # in two steps as in one, and not at all where no row is added
        halfway = scale(SGDClassifier(), {"alpha": alpha}, 10, 77)
        assert scale(SGDClassifier(), halfway, 77, 300) == pytest.approx(
            scale(SGDClassifier(), {"alpha": alpha}, 10, 300)
        )
        assert scale(SGDClassifier(), {"alpha": alpha}, 77, 77) == {"alpha": alpha}
    assert scale(SGDClassifier(), {"alpha": "least"}, 10, 77) == {"alpha": "least"}  # the fit says what is wrong
    with pytest.raises(ValueError, match="rows_block must be at most rows_all, 10"):
        scale(MODEL, {}, 11, 10)
    with pytest.raises(ValueError, match="rows_all must be at least 1"):
        scale(MODEL, {}, 1, 0)


def test_what_was_searched_on_blocks_and_what_it_was_carried_to_are_both_said():
    options = {"searched": {"alpha": space.real(0.1, 1.0)}, "protect": "all", "n_blocks": 12, "loss": "zero_one"}
    model = SGDClassifier(max_iter=5, tol=None, random_state=0)
    fitted = search(model, refit=True, **options).fit(X, Y)
    assert fitted.release_.params["alpha"] >= 0.1
    assert fitted.best_params_ == {
        "alpha": pytest.approx(fitted.release_.params["alpha"] * (4 / 60) ** 0.75)
    }  # of 5, 4
    assert fitted.best_estimator_.alpha == fitted.best_params_["alpha"]
    (few,) = (note.text for note in fitted.notes_ if note.id == "few-users")
    assert few.startswith("12 blocks are fewer than 500")
    plain = search(model, scale=False, refit=True, **options).fit(X, Y)
    assert plain.best_params_ == plain.release_.params == fitted.release_.params
    assert plain.best_estimator_.alpha == plain.release_.params["alpha"]
    halved = search(model, searched=options["searched"], loss="zero_one").fit(X, Y)
    assert halved.best_params_ == halved.release_.params  # models of the search are as large as they will be
    with pytest.raises(TypeError, match="scale must be True or False"):
        search(scale="half").fit(X, Y)


def test_records_of_a_group_are_one_user():
    whose = np.arange(60) // 4
    found = splits.single_split(None, 60, whose, {}, again=False)
    assert not set(whose[found.train]) & set(whose[found.validation])
    of_rows = np.arange(len(found.validation), dtype=float)
    for user, group in enumerate(np.unique(whose[found.validation])):
        assert found.user_losses(of_rows)[user] == np.mean(of_rows[whose[found.validation] == group])
    both = PredefinedSplit([-1, 0] * 30)
    with pytest.raises(ValueError, match="one group on both sides"):
        splits.single_split(list(both.split()), 60, whose, {}, again=False)
    fitted = search(cv=GroupShuffleSplit(1, test_size=0.5, random_state=0)).fit(X, Y, groups=whose)
    assert assumptions.ROW_OWNERS in fitted.guarantee_.assumptions
    assert assumptions.SEPARABLE_LOSSES not in fitted.guarantee_.assumptions
    assert {assumptions.OWN_ROWS, assumptions.PREDICTED_APART, assumptions.SPLIT_UNSEEN} <= set(
        fitted.guarantee_.assumptions
    )


def test_a_refit_is_of_the_rows_that_it_says():
    weights, rows = np.arange(1.0, 61.0), splits.single_split(None, 60, None, {}, again=False).train
    plain = search().fit(X, Y, sample_weight=weights)
    assert not hasattr(plain, "best_estimator_")
    assert not hasattr(plain, "predict")
    for refit, kept in (("train", rows), (True, np.arange(60))):
        fitted = search(refit=refit).fit(X, Y, sample_weight=weights)
        assert fitted.best_params_ == plain.best_params_
        wanted = clone(MODEL).set_params(**fitted.best_params_).fit(X[kept], Y[kept], sample_weight=weights[kept])
        np.testing.assert_array_equal(fitted.predict_proba(X), wanted.predict_proba(X))
        assert fitted.score(X, Y) == wanted.score(X, Y)
    assert fitted.n_features_in_ == plain.n_features_in_ == 3
    assert not hasattr(fitted.set_params(refit=False).fit(X, Y), "best_estimator_")  # nothing of the fit before is left
    with pytest.raises(ValueError, match="refit must be"):
        search(refit="all").fit(X, Y)


@pytest.mark.parametrize(
    ("model", "name"),
    [(MODEL, "sample_weight"), (Pipeline([("step", MODEL)]), "step__sample_weight"), (MODEL, None)],
)
def test_a_note_says_that_weights_weigh_no_loss(model, name):
    space = {"step__C" if name == "step__sample_weight" else "C": [0.1, 1.0]}
    fitted = search(model, space).fit(X, Y, **{name or "sample_weight": None if name is None else np.ones(60)})
    said = [str(note) for note in fitted.notes_ if note.id == "weights-train-alone"]
    assert [each.split()[0] for each in said] == [name] * (name is not None)


@pytest.mark.parametrize("wrong", [{"protect": "none"}, {"error_score": 0}, {"scale": "half"}, {"mu": -1.0}])
def test_a_search_that_fails_leaves_nothing_of_the_search_before(wrong):
    made = search().fit(X, Y)
    with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
        made.set_params(**wrong).fit(X, Y)
    assert not [name for name in vars(made) if name.endswith("_")]


def test_a_record_says_what_the_guarantee_of_a_search_leaves_out():
    def stated(**options):
        fit_params = {"groups": np.arange(60) // 2} if options.pop("grouped", False) else {}
        made = search(**options).fit(X, Y, **fit_params)
        return made, made.report_.to_dict()["guarantees"][0]["does not protect"]

    for protect in ({"protect": "validation"}, {"protect": "all", "n_blocks": 12}):
        _, plain = stated(**protect)
        assert "best_estimator_" not in plain
        assert "score" not in plain
        made, refitted = stated(refit=True, **protect)
        assert "the rows that best_estimator_ was fitted to" in refitted
        for options in ({}, {"grouped": True}):
            made, left_out = stated(**protect, **options)
            assert ("users with several rows" in left_out) != bool(options)
            assert (assumptions.ONE_ROW in made.guarantee_.assumptions) != bool(options)
    _, trained = stated(refit="train")
    assert "predict, score or cross_val_score" in trained
    assert "best_estimator_" not in trained


def test_the_record_of_a_search_shows_what_was_declared_public():
    halves = search(estimate_share=0.1, n_iter=4).fit(X, Y)
    details = halves.report_.details
    assert details["users"] == details["training rows"] == "30"
    assert details["space"] == "Space(C: Real(low=0.1, high=1.0, log=False))"
    assert (details["loss"], details["loss range"]) == ("log_loss", "(0, 4)")
    assert details["best_loss_"] == f"{halves.best_loss_:.6g}"
    blocks = search(protect="all", n_blocks=12, loss="zero_one").fit(X, Y, groups=np.arange(60) // 2)
    assert (blocks.report_.details["users"], blocks.report_.details["blocks"]) == ("30", "12")
    before = blocks.report_.fingerprint
    blocks.best_params_["C"] += 0.1
    assert blocks.report_.fingerprint != before


def test_metadata_is_routed():
    weights, whose = np.arange(1.0, 61.0), np.arange(60) // 4
    cv = GroupShuffleSplit(1, test_size=0.5, random_state=0)
    usual = search(cv=cv, refit="train").fit(X, Y, sample_weight=weights, groups=whose)
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = clone(MODEL).set_fit_request(sample_weight=True)
        routed = search(estimator, cv=cv, refit="train").fit(X, Y, sample_weight=weights, groups=whose)
        halves = search(estimator, refit="train").fit(X, Y, groups=whose)  # the usual split takes groups too
    np.testing.assert_array_equal(routed.best_estimator_.coef_, usual.best_estimator_.coef_)
    assert assumptions.ROW_OWNERS in halves.guarantee_.assumptions


def test_a_fit_that_fails_is_the_worst_setting_or_raises():
    class Failing(LogisticRegression):
        def fit(self, X, y):
            if self.C > 0.55:
                raise ValueError("no such model")
            return super().fit(X, y)

    rows = splits.single_split(None, 60, None, {}, again=False)
    measured = np.append(rows.validation, rows.train[0])
    train = X[rows.train], Y[rows.train]
    data = fitting.ValidationTask(train, (X[measured], Y[measured]), rows, {}, train)
    assert np.all(np.isposinf(fitting.UserLosses(Failing(), "log_loss", False)({"C": 0.9}, data)))
    assert np.all(np.isfinite(fitting.UserLosses(Failing(), "log_loss", True)({"C": 0.2}, data)))
    with pytest.raises(ValueError, match="no such model"):
        fitting.UserLosses(Failing(), "log_loss", True)({"C": 0.9}, data)


def test_a_fit_that_stops_says_what_can_be_done():
    class Stopping(LogisticRegression):
        def fit(self, X, y):
            if abs(self.C - 0.55) > 1e-6:  # but for the middle
                raise OSError
            return super().fit(X, y)

    with pytest.raises(RunInterrupted, match=r"fit stopped on OSError: its budget is spent, .* with ledger=") as caught:
        search(Stopping(), error_score="raise").fit(X, Y)
    assert caught.value.snapshot is None
    assert isinstance(caught.value.__cause__, OSError)


def test_a_label_of_another_type_changes_no_others():
    validation = splits.single_split(None, 60, None, {}, again=False).validation
    usual = search(refit="train").fit(X, Y.tolist())
    for bad in (None, "x", 0.5, 1 + 2j, [1, 2]):
        labels = Y.tolist()
        labels[validation[0]] = bad
        found = search(refit="train").fit(X, labels)
        assert found.classes_.dtype == usual.classes_.dtype
        np.testing.assert_array_equal(found.best_estimator_.classes_, usual.best_estimator_.classes_)
        mixed, plain = (losses.elements(each, validation) for each in (labels, Y.tolist()))
        of = [losses.record_losses("log_loss", MODEL.fit(X, Y), X[validation], each) for each in (mixed, plain)]
        np.testing.assert_array_equal(of[0][1:], of[1][1:])
        assert not np.isfinite(of[0][0])
    numbers = losses.elements([1.0, "x", None, 2.5], np.arange(4))
    found = losses.record_losses("absolute", Ridge().fit(X, X[:, 0]), X[:4], numbers)
    np.testing.assert_array_equal(np.isfinite(found), [True, False, False, True])


def test_frames_and_series_are_what_their_arrays_are():
    usual = search(refit="train").fit(X, Y)
    frame, target = pandas.DataFrame(X, columns=list("abc")), pandas.DataFrame({"sick": Y})
    for y in (target, target["sick"], target["sick"].astype("Int64"), target["sick"].tolist()):
        found = search(refit="train").fit(frame, y)
        assert found.best_params_ == usual.best_params_
        assert list(found.feature_names_in_) == ["a", "b", "c"]
        np.testing.assert_array_equal(found.best_estimator_.coef_, usual.best_estimator_.coef_)
    with pytest.warns(DataConversionWarning):
        found = search(refit="train").fit(frame, Y[:, None])
    np.testing.assert_array_equal(found.best_estimator_.coef_, usual.best_estimator_.coef_)
    with pytest.raises(ValueError, match="y must be one column, or an array, got a frame of 2 columns"):
        search().fit(frame, pandas.DataFrame({"sick": Y, "old": Y}))


def test_a_target_is_any_number():
    numbers = [1, np.int64(2), np.float32(2.5), Decimal("3.5"), Fraction(1, 2), True, None, "x", pandas.NA, 10**400, 1j]
    taken = losses.elements(numbers, np.arange(len(numbers)))
    for name in ("absolute", "squared"):
        found = losses.record_losses(name, Ridge().fit(X, X[:, 0]), X[: len(numbers)], taken)
        np.testing.assert_array_equal(np.isfinite(found), [True] * 6 + [False] * 5)


def test_a_loss_is_checked_with_targets_of_the_type_that_it_will_be_given(tmp_path):
    """Of a Series: one by one, where ``np.log1p`` finds no float. Nothing is spent."""

    def loss(estimator, inputs, targets):
        return np.log1p(targets)

    ledger.create(tmp_path / "ledger", mu=2)
    recording = Recording(tmp_path / "ledger", "fit")
    cv = PredefinedSplit([-1, 0] * 30)
    asked = {"loss": loss, "loss_range": (0, 1), "cv": cv, "key": None, "insecure_key": False}
    with pytest.raises(TypeError, match="log1p"):
        search(**asked, ledger=recording).fit(X, pandas.Series(Y))
    assert not ledger.account(recording.path).spends
    search(**asked, ledger=recording).fit(X, Y)
    assert len(ledger.account(recording.path).spends) == 1


def test_a_cell_of_a_protected_row_changes_no_column_that_trains():
    frame = pandas.DataFrame({"a": np.arange(60), "b": X[:, 1]})
    changed = frame.astype({"a": object})
    changed.iloc[3, 0] = "many"
    train = np.delete(np.arange(60), 3)
    usual, other = (fitting.take_rows(each, Y, train, True)[0] for each in (frame, changed))
    pandas.testing.assert_frame_equal(usual, other)


def test_a_category_of_a_protected_row_is_no_level_of_other_rows():
    """A reader lists the categories of all rows: before, dummies of one user's category were features of the model."""
    names = np.array(["a", "b"] * 30, dtype=object)
    other = names.copy()
    split = splits.single_split(None, 60, None, {}, again=False)
    other[split.validation[0]] = "HIV"
    tasks = [
        fitting.validation_task(frame, Y, split, {}, "roc_auc")
        for frame in (pandas.DataFrame({"x": X[:, 0], "c": each}).astype({"c": "category"}) for each in (names, other))
    ]
    for part in ("training", "beside"):
        pandas.testing.assert_frame_equal(*(getattr(task, part)[0] for task in tasks))
    usual, changed = (task.validation[0] for task in tasks)
    pandas.testing.assert_frame_equal(usual.iloc[1:], changed.iloc[1:])
    assert np.isnan(changed["c"].cat.codes.iloc[0]) or changed["c"].cat.codes.iloc[0] == -1
    rows = fitting.RowTask(pandas.DataFrame({"c": other}).astype("category"), Y, {}, True)
    held_out = rows.take(split.validation[:4])
    fitted = rows.take(split.train)
    seen = []

    class Codes(BaseEstimator, ClassifierMixin):
        def fit(self, frame, labels):
            seen.append(list(frame["c"].cat.categories))
            return self

        def predict(self, frame):
            seen.append(list(frame["c"].cat.categories))
            return np.zeros(len(frame), int)

    fitting.BlockLoss(Codes(), "zero_one", None)({}, fitted, held_out)
    assert seen
    assert all(levels == ["a", "b"] for levels in seen)


def test_distances_between_records_are_refused():
    with pytest.raises(ValueError, match="not distances"):
        search(SVC(kernel="precomputed")).fit(X @ X.T, Y)


def test_threads_say_no_more_than_one(capfd, caplog):
    bad = X.copy()
    bad[splits.single_split(None, 60, None, {}, again=False).validation[3], 0] = 10.0
    with warnings.catch_warnings(record=True) as warned, joblib.parallel_config(backend="threading"):
        warnings.simplefilter("always")
        for inputs in (X, bad):
            search(Picky(), loss="zero_one", n_jobs=2, n_iter=8).fit(inputs, Y)
    assert len({str(each.message) for each in warned}) == 3  # of training rows, each first once


def test_joblib_runs_what_waits_and_keeps_its_order():
    executor = joblib_executor.Joblib(2)
    waiting = [executor.submit(divmod, number, 3) for number in range(5)]
    waiting[1].cancel()
    assert waiting[4].result() == (1, 1)
    assert [each.result() for each in waiting[:1] + waiting[2:4]] == [(0, 0), (0, 2), (1, 0)]
    with pytest.raises(CancelledError):
        waiting[1].result()
    with pytest.raises(ZeroDivisionError):
        executor.submit(divmod, 1, 0).result()
    with joblib.parallel_config(backend="threading"):
        assert search(n_jobs=2).fit(X, Y).best_params_ == search().fit(X, Y).best_params_


def exposed(data, targets, caplog):
    """All that somebody else could read of a fitted search, but for what was released."""
    caplog.clear()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        fitted = search(Picky(), loss="zero_one", refit="train").fit(data, targets)
    released = {name: vars(fitted).pop(name) for name in ("release_", "best_params_")}
    fitted.best_estimator_.set_params(C=1.0)  # fitted to training rows alone, with what was released
    assert set(released["best_params_"]) == {"C"}
    return repr(fitted), pickle.dumps(fitted), caplog.text, [str(each.message) for each in warned]


def test_nothing_but_the_release_differs_between_neighbours(trials, caplog, capfd):
    count = trials("neighbouring pairs whose searches were compared", 6, 200, 1)
    validation = splits.single_split(None, 60, None, {}, again=False).validation
    rng = np.random.default_rng(1)
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.INFO, logger="jax"):  # whose lines are times
        usual = exposed(X, Y, caplog)
        assert "picky" in usual[2]  # of training rows
        for _ in range(count):
            data, targets, row = X.copy(), Y.copy(), rng.choice(validation)
            data[row] = rng.choice([0.0, 10.0, -1e300, 3.0], 3)
            targets[row] = rng.integers(0, 5)
            assert exposed(data, targets, caplog) == usual
    assert len(set(capfd.readouterr().out.split())) == 3  # of training rows, each first once, and each time the same
    attributes = {"guarantee_", "release_", "best_params_", "method_", "notes_", "public_", "n_features_in_"}
    for options in ({}, {"refit": "train"}):
        fitted = search(**options).fit(X, Y)
        expected = attributes | ({"best_estimator_"} if options else set())
        assert set(vars(fitted)) - {"_fits"} == set(fitted.get_params(deep=False)) | expected  # a count of fits
    changed = X.copy()
    changed[splits.single_split(None, 60, None, {}, again=False).train[0]] = 5.0
    other = search(refit="train").fit(changed, Y)  # a training row is seen: the comparison can fail
    assert pickle.dumps(other) != pickle.dumps(search(refit="train").fit(X, Y))


def test_a_search_on_record_is_charged_once_and_given_out_again(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, mu=2.0)
    options = {"ledger": Recording(path, "one"), "key": None, "insecure_key": False}
    first = search(**options).fit(X, Y)
    assert search(**options).fit(X, Y).best_params_ == first.best_params_
    assert len(ledger.account(path).spends) == 1
    with pytest.raises(ValueError, match="the same split each time"):
        search(cv=ShuffleSplit(1, test_size=0.5), **options).fit(X, Y)


def test_a_fold_is_never_given_the_answer_of_another_fold(tmp_path):
    """Of equal size, no ledger can tell them apart: clones of a name that was charged are refused."""
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, mu=3.0)
    options = {"ledger": Recording(path, "one"), "key": None, "insecure_key": False, "refit": "train"}
    with pytest.raises(ledger.LedgerError, match=r"run 'one' was charged before, and .* a clone.*set_params"):
        cross_val_score(search(**options), X, Y, cv=2, error_score="raise")
    assert len(ledger.account(path).spends) == 1
    again = clone(search(**options))
    with pytest.raises(ledger.LedgerError, match="a clone"):
        pickle.loads(pickle.dumps(again)).fit(X[:30], Y[:30])
    first, second = (again.set_params(ledger=Recording(path, "two")).fit(X, Y).best_params_ for _ in range(2))
    assert first == second  # the caller named the run of this very clone, so a retry is given its answer
    assert "one-fit" in [note.id for note in search().fit(X, Y).notes_]
    assert "one-fit" not in [note.id for note in again.notes_]


def test_an_answer_is_made_of_plain_numbers_and_its_loss_costs_a_share():
    mixed = Space({"C": space.real(0.1, 1.0, log=True), "fit_intercept": space.categorical(True, False)})
    fitted = search(searched=mixed, method="auto", n_iter=12, estimate_share=0.1).fit(X, Y)
    assert {name: type(value) for name, value in fitted.best_params_.items()} == {"C": float, "fit_intercept": bool}
    assert isinstance(fitted.best_loss_, float)
    assert fitted.method_.startswith("proposed: public records steer the search")
    assert fitted.guarantee_.level <= 1.0
    assert fitted.guarantee_.parts[-1][0] == "the loss at the answer"
    assert LOSSES["log_loss"].range == (0.0, 4.0)
    with pytest.raises(ValueError, match="n_iter must be at least 3"):
        search(searched=mixed, batch=3).fit(X, Y)
    assert "proposed" in search(searched=mixed, method="auto", n_iter=4).fit(X, Y).method_  # below d + 1 settings each
    assert "in_order" in search(searched=mixed, method="auto", n_iter=3).fit(X, Y).method_
    assert "in_order" in search(searched=mixed, method="auto", n_iter=4, estimate_share=0.1).fit(X, Y).method_


CHOSEN = {"estimator": [DecisionTreeClassifier(max_depth=2), LogisticRegression(max_iter=20)]}
GRIDS = [
    {"estimator": [DecisionTreeClassifier(random_state=0)], "estimator__max_depth": [1, 3]},
    {"estimator": [LogisticRegression(max_iter=20)], "estimator__C": space.real(0.1, 1.0)},
]


class Holder(ClassifierMixin, BaseEstimator):
    """Fits the estimator that it is given itself, and no clone, as a careless one would."""

    def __init__(self, estimator=MODEL):
        self.estimator = estimator

    def fit(self, X, y):
        self.estimator.fit(X, y)
        self.classes_ = self.estimator.classes_
        return self

    def predict_proba(self, X):
        return self.estimator.predict_proba(X)


def is_unfitted(estimator):
    return not [name for name in vars(estimator) if name.endswith("_")]


@pytest.mark.daily("searched1-options0", "searched0-options1", "searched0-options2")
@pytest.mark.parametrize("options", [{}, {"refit": True}, {"protect": "all", "n_blocks": 4, "refit": True}])
@pytest.mark.parametrize("searched", [CHOSEN, GRIDS])
def test_an_estimator_may_be_a_choice_and_is_never_fitted_itself(searched, options):
    """A fitted choice in ``best_params_`` would hold the users' rows."""
    fitted = search(Holder(), searched, n_iter=4, **options).fit(X, Y)
    dicts = searched if isinstance(searched, list) else [searched]
    choices = [choice for each in dicts for choice in each["estimator"]]
    best = fitted.best_params_
    assert any(best["estimator"] is choice for choice in choices)
    assert all(map(is_unfitted, choices))
    assert is_unfitted(fitted.release_.params["estimator"])
    labels = ("DecisionTreeClassifier", "LogisticRegression")
    assert repr(best).startswith(("{'estimator': 'Deci", "{'estimator': 'Logi", "{'estimator__"))
    assert any(label in str(fitted.report_.details["best_params_"]) for label in labels)
    assert "random_state" not in str(fitted.report_.details)
    assert fitted.report_.fingerprint
    tree = isinstance(best["estimator"], DecisionTreeClassifier)
    if searched is GRIDS:
        assert set(best) == {"estimator", "estimator__max_depth" if tree else "estimator__C"}
    assert set(fitted.get_params()["space"][0] if searched is GRIDS else fitted.get_params()["space"]) >= {"estimator"}
    assert clone(fitted).fit(X, Y).best_params_.keys() == best.keys()


def test_each_branch_is_tried_before_anything_is_spent(tmp_path):
    path = tmp_path / "budget.jsonl"
    ledger.create(path, mu=1)
    wrong = [GRIDS[1], {"estimator": [MODEL], "estimator__shape": [1, 2]}]
    with pytest.raises(ValueError, match="Invalid parameter 'shape'"):
        search(Holder(), wrong, ledger=Recording(path, "one"), key=None, insecure_key=False).fit(X, Y)
    assert not ledger.account(path).spends


def test_a_key_of_a_search_is_for_tests_alone():
    """Clones share it, so two fits on other data would have the same noise."""
    made = search(key=secret_key(), insecure_key=False)
    with pytest.raises(ValueError, match="key must be given with insecure_key=True, for tests alone: clones share it"):
        made.fit(X, Y)


def test_a_key_is_shared_with_clones_and_neither_shown_nor_pickled():
    """In a pipeline or a search too, which show and pickle the parameters of their steps, not the steps alone."""
    made = search(key=jax.random.key(4711))
    piped = Pipeline([("search", made)])
    grid = GridSearchCV(piped, {"search__n_iter": [4]})
    for whole, held in ((made, "key"), (piped, "search__key"), (grid, "estimator__search__key")):
        assert clone(whole).get_params()[held] is whole.get_params()[held] is made.key
        assert copy.deepcopy(whole).get_params()[held] is made.key
        assert pickle.loads(pickle.dumps(whole)).get_params()[held] is None
        assert "4711" not in repr(whole) + str(whole) + whole._repr_html_()
    assert "4711" in repr(jax.random.key(4711))  # what would show
    assert made.set_params(key=None).key is None
