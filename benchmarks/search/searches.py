"""The searches that are compared, on equal numbers of evaluations: ``loss_of`` runs a search with a seed.

What counts is the mean loss of the answer over the same users that steered the search, without noise, each loss clipped
to its public range.

====================  ============================================================================================
minimize              with its defaults
minimize, public      given the training rows as public records, as ``PrivateSearchCV`` does
one choice            ten lines: one exponential mechanism over random points, with the whole budget
training rows alone   every evaluation on the training rows, two thirds to fit to and one third to measure
before                the rule of ``minimize`` before a pair was spent in full: descent, with or without a start, or
                      five choices, at the implied GDP level
random search         WITHOUT privacy: the best of uniform points
Optuna's TPE          WITHOUT privacy
default parameters    what the model's library chose; a model without any has the middle of the box
a random point        no evaluation
====================  ============================================================================================
"""

import math
from typing import Any

import jax
import numpy as np

from benchmarks.search.budgets import Budget
from benchmarks.search.cells import Cell
from benchmarks.search.problems import PROBLEMS, Problem
from jaxdpbo import Search, minimize
from jaxdpbo import space as spaces
from jaxdpbo.drivers import methods, proposals
from jaxdpbo.drivers import methods as _methods

DEFAULT, PUBLIC, ONE_CHOICE, TRAINING = "minimize", "minimize, public", "one choice", "training rows alone"
BEFORE, RANDOM, TPE = "before", "random search", "Optuna's TPE"
UNTUNED, PICK = "default parameters", "a random point"
FORMER_SHARP = 50.0  # the least sharpness for a start, by the former rule
FREE = (TRAINING, RANDOM, TPE, UNTUNED, PICK)  # without noise, so the same for every budget
NAMES = (DEFAULT, PUBLIC, ONE_CHOICE, TRAINING, BEFORE, RANDOM, TPE, UNTUNED, PICK)


def names(problem: Problem) -> list[str]:
    """Those that can search a problem, named methods of ``minimize`` among them."""
    own = [name for name in NAMES if problem.public is not None or name not in (PUBLIC, TRAINING)]
    methods = [name for name in _methods.METHODS if name != _methods.PROPOSED]
    return own + [name for name in methods if problem.is_box or name not in _methods.DESCENT_METHODS]


def run_cell(cell: Cell) -> dict[str, Any]:
    """One run."""
    loss, method = loss_of(PROBLEMS[cell.problem], cell.search, Budget.parse(cell.budget), cell.seed)
    return {"loss": loss, "method": method}


def loss_of(problem: Problem, search: str, budget: Budget, seed: int) -> tuple[float, str]:
    """The mean loss of one run's answer, and which method ran."""
    data = problem.draw(seed)
    without = {UNTUNED: default_place, PICK: pick, RANDOM: random_search, TPE: tpe, TRAINING: training_rows}
    if search in without:
        return problem.mean(without[search](problem, data, seed), data), ""
    if search == ONE_CHOICE:
        return problem.mean(one_choice(problem, data, budget, seed), data), ""
    method, typed = search, budget.arguments
    options: dict[str, Any] = {}
    if search in (DEFAULT, PUBLIC):
        method = _methods.AUTO
        options["public"] = problem.public(data) if search == PUBLIC and problem.public else None
    if search == BEFORE:
        method, typed = former_method(problem, budget.mu), {"mu": budget.mu}
        options |= {"clip_norm": 0.25 * (problem.loss_range[1] - problem.loss_range[0]), "rounds": 4}
    run = run_minimize(problem, data, method, typed, seed, **options)
    return problem.mean(run.release.point if problem.is_box else run.release.params, data), run.method


def run_minimize(
    problem: Problem, data: Any, method: str, typed: dict[str, float], seed: int, *, public: Any = None,
    clip_norm: float | None = None, rounds: int | None = None,
) -> Any:  # fmt: skip
    """``minimize`` with a seed; ``rounds`` of points near the last choice, for "choice", with and without noise."""
    defaults = methods.ROUNDS, methods.ROUNDS_WITHOUT_NOISE
    if rounds is not None:
        methods.ROUNDS = methods.ROUNDS_WITHOUT_NOISE = rounds
    descends = method in _methods.DESCENT_METHODS
    try:
        return minimize(
            problem.loss,
            data,
            {"low": problem.box[0], "high": problem.box[1]} if problem.is_box else problem.searched,
            **typed,
            users=problem.users,
            loss_range=problem.loss_range,
            public=public,
            search=Search(method=method, steps=problem.steps, clip_norm=clip_norm if descends else None),
            key=jax.random.key(seed),
            insecure_key=True,
            traceable=problem.traceable,
        )
    finally:
        methods.ROUNDS, methods.ROUNDS_WITHOUT_NOISE = defaults


def former_method(problem: Problem, mu: float) -> str:
    """The rule of "auto" before the whole epsilon was spent."""
    if not problem.is_box:
        return methods.CHOICE
    low, high = problem.loss_range
    if math.isinf(mu):
        return _methods.START
    sharp = _methods.choice.choice_sharpness(mu * math.sqrt(_methods.CHOICE_SHARE), high - low, problem.users)
    return _methods.START if sharp >= FORMER_SHARP else _methods.LOCAL


def uniform_points(problem: Problem, seed: int) -> list[Any]:
    """As many points as evaluations."""
    low, high = problem.box
    points = low + (high - low) * np.random.default_rng([seed, 1]).random((problem.evaluations, problem.dimension))
    return [problem.place(point) for point in points]


def random_search(problem: Problem, data: Any, seed: int) -> Any:
    """Of uniform points, the one of the least mean loss."""
    places = uniform_points(problem, seed)
    return places[int(np.nanargmin([problem.mean(place, data) for place in places]))]


def one_choice(problem: Problem, data: Any, budget: Budget, seed: int) -> Any:
    """A choice among uniform points that spends the whole budget."""
    return choose(problem, uniform_points(problem, seed), data, budget, seed)


def choose(problem: Problem, places: list[Any], data: Any, budget: Budget, seed: int) -> Any:
    """The exponential mechanism on the summed losses (McSherry and Talwar 2007)."""
    low, high = problem.loss_range
    sums = np.array([problem.mean(place, data) for place in places]) * problem.users
    if math.isinf(budget.range):
        return places[int(np.argmin(sums))]
    scores = -budget.range * sums / (2 * (high - low))
    noise = np.random.default_rng([seed, 2]).gumbel(size=len(scores))
    return places[int(np.argmax(scores + noise))]


def training_rows(problem: Problem, data: Any, seed: int) -> Any:
    """The best of a Gaussian process search on the training rows."""
    assert problem.public is not None
    public, (low, high), count = problem.public(data), problem.box, problem.evaluations

    def evaluate(points: np.ndarray) -> np.ndarray:
        return np.array([problem.mean(problem.place(low + (high - low) * point), public) for point in points])

    box = proposals.Box(problem.dimension, None if problem.is_box else problem.searched)
    design = spaces.sobol(count, problem.dimension, seed)
    (best,) = proposals.propose(evaluate, box, count, 1, design)
    return problem.place(low + (high - low) * best)


def tpe(problem: Problem, data: Any, seed: int) -> Any:
    """Optuna's default sampler on the exact mean losses."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    low, high = problem.box
    study.optimize(lambda trial: problem.mean(_suggest(problem, trial, low, high), data), problem.evaluations)
    return _suggest(problem, optuna.trial.FixedTrial(study.best_params), low, high)


def _suggest(problem: Problem, trial: Any, low: np.ndarray, high: np.ndarray) -> Any:
    if problem.is_box:
        return np.array([trial.suggest_float(f"x{i}", low[i], high[i]) for i in range(problem.dimension)])
    params = {}
    for name, kind in zip(problem.searched.names, problem.searched.dimensions, strict=True):
        if isinstance(kind, spaces.Categorical):
            params[name] = trial.suggest_categorical(name, kind.choices)
        else:
            suggest = trial.suggest_int if isinstance(kind, spaces.Integer) else trial.suggest_float
            params[name] = suggest(name, kind.low, kind.high, log=kind.log)
    return params


def default_place(problem: Problem, data: Any, seed: int) -> Any:
    """The library's parameters; of a problem without any, the middle of the box."""
    del data, seed
    return problem.place(problem.box.mean(axis=0)) if problem.default is None else problem.default


def pick(problem: Problem, data: Any, seed: int) -> Any:
    """The first uniform point."""
    del data
    return uniform_points(problem, seed)[0]
