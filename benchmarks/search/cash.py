"""``scripts/bench cash``: choose among three learners with parameters of their own, on Adult, in an hour.

The models are fitted to rows that nobody protects, users have the log losses, at most 4, and each search has the same
number of evaluations at an epsilon of 1. The table shows the loss on rows that no search has seen.

=============================  ========================================================================================
minimize                       with default arguments, over branches
start_then_local               descent along the real parameters of the branch that a private choice begins in
PrivateSearchCV                over a list of dicts; its training rows propose settings
private_study                  Optuna draws parameters at random, and ``best()`` answers
flat choice                    ``minimize`` over a flat space, where all parameters exist in every case
training rows alone            Optuna's TPE on the training rows, two thirds to fit to and one third to measure
TPE, not private               Optuna's TPE on exact mean losses of the users
default parameters             the learner of least exact loss, as it is in scikit-learn; not private
=============================  ========================================================================================
"""

import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")

import jax
import numpy as np

from benchmarks import report
from benchmarks.papers import classification
from benchmarks.reproductions import common
from benchmarks.search import cells
from jaxdpbo import Search, Space, minimize, space

FIRST_SEED, SEEDS = 7600, 20
TRAIN, USERS, TEST = 2_000, 10_000, 10_000
EPSILON, DELTA, EVALUATIONS, HIGH = 1.0, 1e-5, 60, 4.0
LEARNERS = {
    "logistic": {"C": space.real(1e-4, 1e2, log=True)},
    "boosting": {
        "learning_rate": space.real(0.01, 1.0, log=True),
        "max_leaf_nodes": space.integer(2, 64, log=True),
        "l2_regularization": space.real(1e-3, 1e2, log=True),
    },
    "forest": {
        "max_depth": space.integer(1, 20),
        "max_features": space.real(0.02, 1.0, log=True),
        "min_samples_leaf": space.integer(1, 50, log=True),
    },
}
TREE = Space({"learner": space.branches(LEARNERS)})
OWN = {f"{label}_{name}": of for label, inside in LEARNERS.items() for name, of in inside.items()}
FLAT = Space({"learner": list(LEARNERS)} | OWN)
MINIMIZE, START, CV, STUDY = "minimize", "start_then_local", "PrivateSearchCV", "private_study"
CHOICE, ALONE, TPE, DEFAULTS = "flat choice", "training rows alone", "TPE, not private", "default parameters"


def main(quick: bool, *, seeds: int | None = None) -> None:
    count = seeds or (2 if quick else SEEDS)
    numbers = range(FIRST_SEED, FIRST_SEED + count)
    all_cells = [cells.Cell("adult", search, EPSILON, seed) for seed in numbers for search in SEARCHES]
    runs = cells.run("cash", all_cells, run_cell)
    losses = {search: [runs[cell]["loss"] for cell in all_cells if cell.search == search] for search in SEARCHES}
    results = common.compare_with(MINIMIZE, losses)
    for search, result in results.items():
        result["learners"] = [runs[cell]["params"]["learner"] for cell in all_cells if cell.search == search]
    report.print_table(
        ("search", "loss", "less that of minimize (95 %)", "learners"),
        [
            (name, f"{result['mean']:.4f}", "" if result["paired"] is None else common.sentence(result["paired"]))
            + (", ".join(f"{result['learners'].count(learner)} {learner}" for learner in LEARNERS),)
            for name, result in results.items()
        ],
    )
    report.write_bench(
        "cash",
        {"searches": results},
        quick=quick,
        seeds=[numbers.start, numbers.stop],
        noise="exact",
        dtype="float64",
        chosen={
            "training rows": TRAIN, "users": USERS, "rows held out": TEST, "epsilon": EPSILON, "delta": DELTA,
            "evaluations": EVALUATIONS,
        },
    )  # fmt: skip


def run_cell(cell: cells.Cell) -> dict[str, Any]:
    """The mean loss of one search on the rows held out, and its setting."""
    (features, labels), _, _, _ = classification.load("adult", seed=0)
    order = np.random.default_rng(cell.seed).permutation(len(labels))
    ends = np.cumsum([TRAIN, USERS, TEST])
    train, users, test = ((features[rows], labels[rows]) for rows in np.split(order[: ends[-1]], ends[:-1]))
    params = SEARCHES[cell.search](train, users, cell.seed)
    return {"loss": float(np.mean(losses_of(params, train, test))), "params": params}


def make_model(params: dict[str, Any]) -> Any:
    """The learner of the parameters, of a tree or flat."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    makers = {
        "logistic": partial(LogisticRegression, max_iter=200),
        "boosting": partial(HistGradientBoostingClassifier, max_iter=50, early_stopping=False, random_state=0),
        "forest": partial(RandomForestClassifier, n_estimators=50, random_state=0),
    }
    return makers[params["learner"]](**{name: value for name, value in params.items() if name != "learner"})


def losses_of(params: dict[str, Any], train: Any, users: Any) -> np.ndarray:
    """Log losses ``(n,)``, at most ``HIGH``, of a model fitted to the training rows."""
    chances = make_model(params).fit(*train).predict_proba(users[0])
    return -np.log(np.maximum(chances[np.arange(len(chances)), np.asarray(users[1], int)], math.exp(-HIGH)))


def _minimize(train: Any, users: Any, seed: int, of: Space = TREE, search: Search | None = None) -> dict[str, Any]:
    def losses(params: dict[str, Any], records: Any) -> np.ndarray:
        return losses_of(_in_branch(params), train, (records[:, :-1], records[:, -1]))

    run = minimize(
        losses, np.column_stack(users), of, epsilon=EPSILON, delta=DELTA, loss_range=(0, HIGH),
        search=search or Search(steps=EVALUATIONS // 4, batch=4), key=jax.random.key(seed), insecure_key=True,
        progress=False,
    )  # fmt: skip
    return _in_branch(run.release.params)


def _in_branch(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a tree as they are; of a flat space those of the learner."""
    learner, prefix = params["learner"], f"{params['learner']}_"
    own = {name.removeprefix(prefix): value for name, value in params.items() if name.startswith(prefix)}
    return {"learner": learner} | own if own else params


def _search_cv(train: Any, users: Any, seed: int) -> dict[str, Any]:
    from sklearn.pipeline import Pipeline

    from jaxdpbo.integrations.sklearn import PrivateSearchCV

    grids = [
        {"learner": [make_model({"learner": label})]} | {f"learner__{name}": of for name, of in inside.items()}
        for label, inside in LEARNERS.items()
    ]
    rows = np.arange(TRAIN + USERS)
    searched = PrivateSearchCV(
        Pipeline([("learner", make_model({"learner": "logistic"}))]), grids, epsilon=EPSILON, delta=DELTA,
        n_iter=EVALUATIONS, cv=[(rows[:TRAIN], rows[TRAIN:])], loss="log_loss", refit=False,
        key=jax.random.key(seed), insecure_key=True,
    ).fit(*(np.concatenate(pair) for pair in zip(train, users, strict=True)))  # fmt: skip
    found = dict(searched.best_params_)
    label = next(label for label in LEARNERS if type(make_model({"learner": label})) is type(found["learner"]))
    del found["learner"]
    return {"learner": label} | {name.removeprefix("learner__"): value for name, value in found.items()}


def _study(train: Any, users: Any, seed: int) -> dict[str, Any]:
    import optuna

    from jaxdpbo.integrations.optuna import private_study

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = private_study(
        optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed)), TREE,
        lambda params, records: losses_of(params, train, (records[:, :-1], records[:, -1])), np.column_stack(users),
        users=USERS, evaluations=EVALUATIONS, loss_range=(0, HIGH), epsilon=EPSILON, delta=DELTA,
    )  # fmt: skip
    study.optimize()
    return study.best().params


def _tpe(evaluate: Callable[[dict[str, Any]], float], seed: int) -> dict[str, Any]:
    import optuna

    from jaxdpbo.integrations.optuna import spaces

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(lambda trial: evaluate(spaces.params(TREE, spaces.suggest(TREE, trial))), EVALUATIONS)
    return spaces.params(TREE, study.best_params)


def _alone(train: Any, users: Any, seed: int) -> dict[str, Any]:
    del users
    cut = 2 * TRAIN // 3
    fitted, measured = ([part[:cut] for part in train], [part[cut:] for part in train])
    return _tpe(lambda params: float(np.mean(losses_of(params, fitted, measured))), seed)


def _exact(train: Any, users: Any, seed: int) -> dict[str, Any]:
    return _tpe(lambda params: float(np.mean(losses_of(params, train, users))), seed)


def _defaults(train: Any, users: Any, seed: int) -> dict[str, Any]:
    del seed
    return min(
        ({"learner": label} for label in LEARNERS), key=lambda params: float(np.mean(losses_of(params, train, users)))
    )


SEARCHES: dict[str, Callable[[Any, Any, int], dict[str, Any]]] = {
    MINIMIZE: _minimize,
    START: partial(_minimize, search=Search(method=START, steps=EVALUATIONS // 4, batch=4)),
    CV: _search_cv,
    STUDY: _study,
    CHOICE: partial(_minimize, of=FLAT),
    ALONE: _alone,
    TPE: _exact,
    DEFAULTS: _defaults,
}
