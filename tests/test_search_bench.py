"""What ``scripts/bench search`` compares is compared right: cells kept and taken again, equal evaluations, verdicts."""

import json

import numpy as np
import pytest

from benchmarks import report, tuning_peers
from benchmarks.search import block_losses, blocks, cells, minimize, private_tuning, searches, tunings
from benchmarks.search.problems import PROBLEMS, Problem
from jaxdpbo import Space, accounting, space
from jaxdpbo.integrations.sklearn import _scaling
from jaxdpbo.privacy import _choice
from jaxdpbo.privacy._accounting import gdp, stage

CALLS = []
MIXED = Space({"x": space.real(0.0, 2.0), "kind": space.categorical("near", "far")})


def _mixed(params, data):
    CALLS.append(params)
    return np.abs(data - params["x"]) + 0.5 * (params["kind"] == "far")


def _draw(seed):
    return np.random.default_rng(seed).normal(1.3, 0.1, 4000)


PROBLEM = Problem("mixed", MIXED, _mixed, _draw, 4000, (0.0, 2.0), 8, False, {"x": 0.0, "kind": "far"})


def test_lines_of_other_code_and_lines_cut_off_are_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "REVISION", "now")
    path = tmp_path / "cells.jsonl"
    cell = cells.Cell("mixed", searches.DEFAULT, float("inf"), 3)
    said = {"loss": 0.25, "method": "choice: why", "seconds": 2.0}
    lines = [json.dumps(cell._asdict() | said | {"revision": of}) for of in ("now", "before")]
    path.write_text("\n".join([*lines, lines[0][:-9]]))
    assert dict(cells._kept(path)) == {cell: said}
    assert cells.run(path, [cell], tmp_path, searches.timed) == {cell: said}
    assert "about 0.0 hours for 1 of them" in cells._estimate({cell: said}, [cell, cell._replace(search="other")])


def test_every_search_is_given_as_many_evaluations():
    counted = {}
    for search in (searches.RANDOM, searches.DEFAULT, searches.UNTUNED, "in_order"):
        assert search in searches.names(PROBLEM)
        CALLS.clear()
        loss, method = searches.loss_of(PROBLEM, search, 1.0, 5)
        counted[search] = len(CALLS)
        assert np.isfinite(loss)
        assert bool(method) == (search in (searches.DEFAULT, "in_order"))
    assert counted[searches.UNTUNED] == 1
    assert PROBLEM.evaluations == 24 == counted[searches.RANDOM] == counted[searches.DEFAULT] - 1  # one for its answer
    assert {"local", "start_then_local", searches.BEFORE}.isdisjoint(searches.names(PROBLEM))


def test_random_search_is_the_best_of_uniform_points():
    points = np.random.default_rng([5, 1]).random((24, 2))
    means = [float(np.mean(_mixed(MIXED.params(point), _draw(5)))) for point in points]
    assert searches.loss_of(PROBLEM, searches.RANDOM, 1.0, 5)[0] == min(means)


@pytest.mark.parametrize(("moved", "verdict"), [(-1.0, "better"), (1.0, "worse"), (0.0, "no different")])
def test_a_verdict_needs_the_whole_interval(moved, verdict):
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=20), rng.normal(size=20)
    assert minimize._compared(first + 2 * moved, second)["verdict"] == verdict


def test_models_are_searched_at_an_epsilon_of_one_too():
    assert gdp.gdp_epsilon(minimize.EPSILON_ONE, 1e-5) == pytest.approx(1.0)
    for name, problem in PROBLEMS.items():
        found = minimize.budgets_of(name, (0.5, np.inf), every=True)
        plain = (1.0,) if name == minimize.FULL_SIZE else (0.5, np.inf)
        assert found == (plain if problem.default is None else (minimize.EPSILON_ONE, 0.5, np.inf))
        assert minimize.budgets_of(name, (0.5, np.inf), every=False) == (0.5, np.inf)
    assert minimize._cell("forest", searches.RANDOM, 0.5, 1) == minimize._cell("forest", searches.RANDOM, 2.0, 1)
    assert minimize._cell("forest", searches.DEFAULT, 0.5, 1).mu == 0.5


def test_slow_problems_and_other_budgets_have_fewer_seeds():
    assert [minimize.seeds_of("logistic", mu, 20) for mu in (1.0, 0.5, np.inf)] == [20, 10, 10]
    assert minimize.seeds_of("svr_ridership", 1.0, 20) == 10
    assert minimize.seeds_of("svr_ridership", 1.0, 2) == 2
    assert searches.BEFORE in minimize._compared_on("svr_ridership_700", (searches.BEFORE, searches.DEFAULT))
    assert minimize._compared_on("svr_ridership", (searches.BEFORE, searches.DEFAULT)) == [searches.DEFAULT]


def test_problems_say_what_they_are():
    assert len(PROBLEMS) == 11
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
        budget = _choice.budget(mu, "exact", dtype=float)
        exact = np.exp(
            np.asarray(_choice.scores(budget, _choice.sum_losses(budget, losses, np.asarray(4.0))), float)
            * float(_choice.RATE)
        )
        np.testing.assert_allclose(block_losses.law(losses, 4.0, mu), exact / exact.sum(), rtol=0.05)
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
    measured = report.stored("bench_blocks")["exponents"]
    assert measured.keys() == block_losses.LEARNERS.keys()
    for name, learner in block_losses.LEARNERS.items():
        assert _scaling.find_exponent(learner.estimator, learner.parameter) == measured[name]["best"]


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
        assert ours < tunings._published(stage.selection_stage(law, run)) < 6 * ours
