"""Tests of ``scripts/bench search``: cells that are kept, equal numbers of evaluations, verdicts."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from benchmarks import report, tuning_peers
from benchmarks.search import block_losses, blocks, cells, minimize, private_tables, private_tuning, searches, tunings
from benchmarks.search.budgets import Budget
from benchmarks.search.problems import PROBLEMS, Problem
from jaxdpbo import Space, accounting, space
from jaxdpbo.accounting import stage
from jaxdpbo.integrations.sklearn import scaling
from jaxdpbo.noise import choice
from jaxdpbo.tuning import measured_error

CALLS = []
EPSILON_ONE, NO_NOISE = Budget.parse("epsilon 1"), Budget.parse("mu inf")
MIXED = Space({"x": space.real(0.0, 2.0), "kind": space.categorical("near", "far")})


def _mixed(params, data):
    CALLS.append(params)
    return np.abs(data - params["x"]) + 0.5 * (params["kind"] == "far")


SEARCHES = (searches.DEFAULT, searches.BEFORE, searches.RANDOM, searches.TRAINING)


def _draw(seed):
    return np.random.default_rng(seed).normal(1.3, 0.1, 4000)


PROBLEM = Problem("mixed", MIXED, _mixed, _draw, 4000, (0.0, 2.0), 8, False, {"x": 0.0, "kind": "far"})


def test_lines_of_other_code_and_lines_cut_off_are_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "REVISION", "now")
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    path = report.folder("search") / "it.jsonl"
    cell = cells.Cell("mixed", searches.DEFAULT, "mu inf", 3)
    said = {"loss": 0.25, "method": "choice: why", "seconds": 2.0}
    lines = [json.dumps(cell._asdict() | said | {"revision": of}) for of in ("now", "before")]
    path.write_text("\n".join([*lines, lines[0][:-9]]))
    assert dict(cells._stored_runs(path)) == {cell: said}
    assert cells.run("it", [cell], searches.run_cell) == {cell: said}
    assert "about 0.0 hours for 1 of them" in cells._estimate({cell: said}, [cell, cell._replace(search="other")])


def _public(data):
    return data[:1000].copy()


def test_every_search_is_given_as_many_evaluations():
    problem, counted = PROBLEM._replace(public=_public), {}
    named = {"choice", "evaluations", "in_order"}
    assert set(searches.names(problem)) == named | set(searches.NAMES)
    for search in searches.names(problem):
        CALLS.clear()
        loss, method = searches.loss_of(problem, search, EPSILON_ONE, 5)
        counted[search] = len(CALLS)
        assert np.isfinite(loss)
        assert bool(method) == (search in {searches.DEFAULT, searches.PUBLIC, searches.BEFORE, *named})
    answer = 1  # the loss of the answer is measured at the end
    assert counted[searches.UNTUNED] == counted[searches.PICK] == answer
    searching = set(counted) - {searches.UNTUNED, searches.PICK}
    assert {counted[search] - answer for search in searching} == {problem.evaluations} == {24}


def test_searches_need_what_they_use():
    assert {searches.PUBLIC, searches.TRAINING}.isdisjoint(searches.names(PROBLEM))
    assert {"local", "start_then_local"}.isdisjoint(searches.names(PROBLEM))
    assert "local" in searches.names(PROBLEMS["logistic"])


def test_rivals_find_what_their_definitions_say():
    points = np.random.default_rng([5, 1]).random((24, 2))
    means = np.array([float(np.mean(_mixed(MIXED.params(point), _draw(5)))) for point in points])
    losses = {
        search: searches.loss_of(PROBLEM, search, EPSILON_ONE, 5)[0] for search in (searches.RANDOM, searches.PICK)
    }
    assert losses == {searches.RANDOM: means.min(), searches.PICK: means[0]}
    assert searches.loss_of(PROBLEM, searches.ONE_CHOICE, NO_NOISE, 5)[0] == means.min()


def test_one_choice_is_an_exponential_mechanism():
    """Its answers have the probabilities of the mechanism at the budget, and not at twice the budget."""
    problem = PROBLEM._replace(users=10)
    data, places = _draw(0)[:10], [MIXED.params(point) for point in ([0.5, 0.0], [1.3, 0.0], [1.3, 1.0])]
    sums = 10 * np.array([problem.mean(place, data) for place in places])
    answers = [searches.choose(problem, places, data, EPSILON_ONE, seed) for seed in range(2000)]
    shares = np.array([answers.count(place) for place in places]) / 2000
    for epsilon, close in ((1.0, True), (2.0, False)):
        weights = np.exp(-epsilon * (sums - sums.min()) / (2 * 2.0))
        assert (np.abs(shares - weights / weights.sum()).max() < 0.04) == close


@pytest.mark.parametrize(
    ("moved", "scale", "verdict"),
    [(-1.0, 10.0, "better"), (1.0, 10.0, "worse"), (0.0, 10.0, "no different"), (1.0, 200.0, "no different")],
)
def test_a_verdict_needs_the_interval_and_one_percent_of_the_scale(moved, scale, verdict):
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=20), rng.normal(size=20)
    pair = minimize.compare_losses(first + 1.5 * moved, second, scale)
    assert pair["verdict"] == verdict
    np.testing.assert_allclose(
        pair["95%"], stats.t.interval(0.95, 19, np.mean(first - second) + 1.5 * moved, stats.sem(first - second))
    )


def test_budgets_are_read_from_labels():
    for label, typed in (
        ("epsilon 1", {"epsilon": 1.0, "delta": 1e-5}),
        ("mu 0.5", {"mu": 0.5}),
        ("mu inf", {"mu": np.inf}),
    ):
        budget = Budget.parse(label)
        assert (budget.label, budget.arguments) == (label, typed)
    assert accounting.gdp_epsilon(EPSILON_ONE.mu, 1e-5) == pytest.approx(1.0)
    assert EPSILON_ONE.range == 1.0
    with pytest.raises(ValueError, match="'epsilon NUMBER' or 'mu NUMBER', got 'rho 1'"):
        Budget.parse("rho 1")


def test_searches_without_noise_run_once_for_all_budgets():
    assert minimize._cell("forest", searches.RANDOM, "mu 0.5", 1) == minimize._cell(
        "forest", searches.RANDOM, "mu 1", 1
    )
    assert minimize._cell("forest", searches.DEFAULT, "mu 0.5", 1).budget == "mu 0.5"


def test_a_row_keeps_the_budgets_that_were_not_measured_again():
    def measured(level, losses, commit, first=8100):
        return {
            "first seed": first,
            "commits": {level: [commit]},
            "method": {level: "local: why"},
            "losses": {level: {searches.DEFAULT: losses, searches.RANDOM: [1.0, 1.0]}},
            "seconds a run": {searches.DEFAULT: 1.0, searches.RANDOM: 1.0},
        }

    old = minimize._row("logistic", None, measured("epsilon 1", [0.5, 0.5], "old"))
    both = minimize._row("logistic", old, measured("mu 1", [0.25, 0.25], "new"))
    assert both["commits"] == {"epsilon 1": ["old"], "mu 1": ["new"]}
    assert {level: means[searches.DEFAULT] for level, means in both["mean"].items()} == {"epsilon 1": 0.5, "mu 1": 0.25}
    assert both["seeds"] == {"epsilon 1": 2, "mu 1": 2}
    fresh = minimize._row("logistic", old, measured("mu 1", [0.25, 0.25], "new", first=9000))
    assert set(fresh["losses"]) == {"mu 1"}  # other seeds: no row mixes both


def test_runs_of_another_commit_are_kept_if_the_first_seeds_find_the_same(monkeypatch):
    """A search that finds another loss, or none, drops all runs at its budget; searches without noise are a group."""
    row = {
        "first seed": 8100,
        "commits": {"epsilon 1": ["old"]},
        "method": {"epsilon 1": "in_order: why"},
        "losses": {"epsilon 1": {search: [0.5, 0.25, 0.125] for search in SEARCHES}},
        "seconds a run": dict(zip(SEARCHES, (1.0, 2.0, 3.0, 4.0), strict=True)),
    }
    each = [minimize._cell("logistic", search, "epsilon 1", seed) for search in SEARCHES for seed in (0, 1)]
    found = {cell: {"loss": [0.5, 0.25][minimize._number(cell)], "method": "", "seconds": 5.0} for cell in each}

    def kept(found):
        return {(cell.search, cell.seed) for cell, _ in minimize._unchanged_runs({"logistic": row}, found)}

    private, free = ({(search, 8102) for search in group} for group in (SEARCHES[:2], SEARCHES[2:]))
    assert kept(found) == private | free
    for cell in each:
        of_others = free if cell.search in SEARCHES[:2] else private
        moved = found | {cell: found[cell] | {"loss": found[cell]["loss"] * 1.00001}}
        assert kept(moved) == of_others
        assert kept({other: said for other, said in found.items() if other != cell}) == of_others
    assert not dict(minimize._unchanged_runs({"logistic": row | {"first seed": 8000}}, found))
    monkeypatch.setattr(report, "COMMIT", "new")
    all_runs = found | dict(minimize._unchanged_runs({"logistic": row}, found))
    measured = minimize._new_results(all_runs, "logistic", SEARCHES, ["epsilon 1"], 3)
    assert measured["losses"] == row["losses"]
    assert set(measured["seconds a run"].values()) == {5.0}
    assert measured["commits"] == {"epsilon 1": ["old", "new"]}


def test_budgets_after_the_first_have_fewer_seeds():
    assert [minimize.seeds_of(budget, 20) for budget in minimize.BUDGETS] == [20, 10, 10]
    assert [minimize.seeds_of(budget, 2) for budget in minimize.BUDGETS] == [2, 2, 2]


def test_problems_say_what_they_are():
    assert len(PROBLEMS) == 15
    for name, problem in PROBLEMS.items():
        low, high = problem.loss_range
        assert low < high, name
        assert problem.evaluations == problem.steps * (problem.dimension + 1), name
        assert problem.box.shape == (2, problem.dimension), name
        assert (problem.default is None) == (not isinstance(problem.searched, Space)), name


def test_the_law_of_a_choice_is_that_of_its_integers():
    losses = np.random.default_rng(0).uniform(0, 4, (6, 25)) + np.arange(6)[:, None] / 3
    losses[2, :5], losses[3, 7] = np.inf, np.nan
    for mu in (0.25, 2.0):
        noise = choice.choice_noise(mu, "exact", dtype=float)
        total = choice.sum_losses(noise, losses, np.asarray(4.0))
        for favoured in (None, 0):
            exact = np.exp(np.asarray(choice.scores(noise, total, favoured), float) * float(choice.RATE))
            found = block_losses.law(losses, 4.0, Budget("mu", mu).range, favours_first=favoured == 0)
            np.testing.assert_allclose(found, exact / exact.sum(), rtol=0.05)
    assert block_losses.law(losses, 4.0, np.inf).tolist() == [1, 0, 0, 0, 0, 0]


def test_regret_is_of_the_setting_that_all_rows_are_given():
    learner = block_losses.Learner(None, "C", np.array([1.0, 10.0]), np.array([1.0, 10.0, 100.0]))
    laws = [[1.0, 0.0], [0.5, 0.5], *[[1.0, 0.0]] * 3]  # of a choice, by mu
    said = {
        "rows": 100,
        "values": [1.0, 10.0, 100.0],
        "losses": [3.0, 1.0, 2.0],
        "blocks": {"9": {"rows": 10, "law": laws}},
    }
    found = blocks.regret(learner, said)[0]
    at = blocks.EXPONENTS.index
    np.testing.assert_allclose(found[0, [at(0.0), at(0.5), at(1.0)]], [2, 1, 0], atol=1e-12)  # 1, halfway to 10, 10
    np.testing.assert_allclose(found[1, [at(-1.0), at(0.0), at(1.0)]], [2, 1, 0.5], atol=1e-12)
    np.testing.assert_allclose(found[:, -1], 1)  # a setting at random, as it is


def test_settings_are_carried_as_was_measured():
    measured = report.find_result("bench_blocks")["exponents"]
    assert measured.keys() == block_losses.LEARNERS.keys()
    for name, learner in block_losses.LEARNERS.items():
        assert scaling.find_exponent(learner.estimator, learner.parameter, {}) == measured[name]["best"]


def test_private_tuning_has_all_seeds_where_it_must_and_fewer_elsewhere():
    assert [private_tuning.seeds_of("adult", epsilon, 20) for epsilon in private_tuning.EPSILONS] == [
        10,
        20,
        20,
        20,
        10,
    ]
    assert private_tuning.seeds_of("mnist", 1.0, 20) == 10
    assert private_tuning.seeds_of("mnist", 1.0, 1) == 1
    assert set(tunings.METHODS) > {
        tunings.SELECTION,
        *tuning_peers.ROUTES,
        tunings.RENYI,
        tunings.CHEAT,
        tunings.ORACLE,
    }


def test_the_published_bound_asks_for_more_noise_than_ours():
    """Of a run that is Gaussian, and of one that is sampled: each under the relation that its event is meant for."""
    law = accounting.repetitions(3.0, 24.0)
    for run in (stage.gaussian_stage(0.3), stage.sampled_gaussian_stage(rate=0.01, noise_multiplier=2.0, steps=500)):
        ours = accounting.total([stage.selection_stage(law, run)], tunings.DELTA).epsilon
        assert ours < tunings._published_epsilon(stage.selection_stage(law, run)) < 6 * ours


def test_a_worker_imports_the_checkout_that_it_is_given(tmp_path, monkeypatch):
    """And not the package of the current folder, from which ``scripts/bench`` runs."""
    (tmp_path / "jaxdpbo.py").write_text("here = 'there'")
    monkeypatch.chdir(report.ROOT)
    worker = "import json, jaxdpbo\nprint(json.dumps(jaxdpbo.here))"
    assert private_tables.ask(sys.executable, worker, {}, PYTHONPATH=str(tmp_path)) == "there"


@pytest.mark.parametrize(("moved", "least"), [(0.0, 0.93), (0.05, 0.0)])
def test_a_published_error_is_compared_with_that_of_test_rows(moved, least):
    """Both are draws of rows. Of an error with a bias of .05 the interval holds few, and the offset shows it."""
    random, found = np.random.default_rng(0), []
    for _ in range(1_000):
        error = random.binomial(500, 0.2) / 500 + random.normal(0, 0.01) + moved
        model = SimpleNamespace(
            error_=error, error_deviation_=0.01, error_interval_=measured_error.interval(error, 0.01, 500)
        )
        found.append(private_tables.compare_error(model, (random.random(800) < 0.2).astype(float), 500))
    holds, offsets = map(np.array, zip(*found, strict=True))
    assert least <= holds.mean() <= (0.97 if least else 0.5)
    assert np.std(offsets) == pytest.approx(1, rel=0.1)
    total = np.sqrt(0.01**2 + 0.2 * 0.8 * (1 / 500 + 1 / 800))  # of the noise, of both draws of rows
    assert np.mean(offsets) == pytest.approx(moved / total, abs=0.1)


def test_two_neighbours_of_the_peer_are_one_of_ours():
    """Group privacy, brute force: the worst pair at (e, d) for one step, twice, is within the budget of the task."""
    task = {"epsilon": 1.0, "delta": 1e-3, "rows": "kept"}
    asked = private_tables.count_replaced(task)
    epsilon, delta = asked["epsilon"], asked["delta"]
    after_one = min(1.0, np.exp(epsilon) * 0.1 + delta)  # of an event of probability .1
    after_two = np.exp(epsilon) * after_one + delta
    assert after_two == pytest.approx(np.exp(task["epsilon"]) * 0.1 + task["delta"])
    assert asked["rows"] == "kept"
