"""The demo and the reproductions run, small, and write what they say; release.json holds nothing raw."""

import json
import types
from collections import Counter

import dataset_cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import report, reproduce, reproductions
from benchmarks.papers import datasets, huber_regression
from benchmarks.reproductions import avent, common, kharkovskii, kusner, sopa
from benchmarks.reproductions.avent import points as avent_points
from benchmarks.reproductions.avent import settings as avent_settings
from benchmarks.reproductions.avent import tasks as avent_tasks
from benchmarks.reproductions.kharkovskii import regret as sound
from benchmarks.reproductions.kharkovskii import settings as kharkovskii_settings
from benchmarks.reproductions.kharkovskii import tables
from benchmarks.reproductions.kusner import fig1 as correlation
from benchmarks.reproductions.kusner import regret
from benchmarks.reproductions.kusner import settings as kusner_settings
from benchmarks.reproductions.sopa import fig2, fig3, fig4, fig5, settings
from benchmarks.tables import verdicts
from jaxdpbo import commands
from jaxdpbo.commands import demo
from jaxdpbo.guarantee import assumptions
from jaxdpbo.problems import _kernel_svr
from jaxdpbo.training import oracles, spaces


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    return tmp_path


def test_the_demo_compares_and_publishes_only_what_is_private(results, monkeypatch, capfd):
    losses = []

    def watched(point, data, honest=_kernel_svr.kernel_svr_loss):
        losses.append(honest(point, data))
        return losses[-1]

    monkeypatch.setattr(demo, "STEPS", 2)
    monkeypatch.setattr(demo, "EVALUATIONS", 3)
    monkeypatch.setattr(demo, "SEEDS", range(1))
    monkeypatch.setattr(_kernel_svr, "kernel_svr_loss", watched)
    commands.main(["demo", "--folder", str(results / "demo")])
    shown = capfd.readouterr()
    rows = {line.split("  ")[0]: line for line in shown.out.splitlines()}
    for method in (demo.GIBO, demo.EVALUATED):
        assert rows[method].endswith("mu=1: epsilon=4.38 at delta=1e-05")
    for method in (demo.BARE, demo.SEARCH):
        assert rows[method].endswith("not private")
    for method in demo.METHODS:
        assert f"  {3 if method == demo.EVALUATED else 2 * 14}  " in rows[method]
    assert f"{4 * 2 * 14 + 3}/{4 * 2 * 14 + 3}" in shown.err  # the bar counts evaluations

    published = json.loads((results / "demo" / "release.json").read_text())
    assert set(published) == {"hyper_parameters", "guarantee", "epsilon"}
    assert published["guarantee"]["notion"] == "gdp"
    assert assumptions.KEY_SECRET not in published["guarantee"]["assumptions"]  # the published run drew its own key
    numbers = [
        *published["hyper_parameters"].values(),
        published["guarantee"]["level"],
        published["epsilon"]["epsilon"],
    ]
    raw = np.concatenate([np.append(one, one.mean()) for one in losses])
    assert not any(np.any(np.isclose(number, raw, rtol=1e-12, atol=0)) for number in numbers)
    box = _kernel_svr.kernel_svr_bounds(datasets.load("diabetes").features.shape[1])
    assert np.all((numbers[:13] >= box[0]) & (numbers[:13] <= box[1]))
    assert (results / "demo" / "plot.png").stat().st_size > 10_000


TINY = {
    "fig1": {"steps": 6, "replications": 2, "step_sizes": (0.1, 0.4), "tuning_seeds": 2},
    "fig2": {"steps": 5, "replications": 2, "step_sizes": (0.2, 0.4), "lengthscales": (2.0,), "tuning_seeds": 1},
    "fig3": {
        "dataset": "diabetes", "train": 40, "users": 30, "ordered": False, "steps": 1, "replications": 2,
        "step_sizes": ((0.5, 0.0), (1.0, 0.1)), "tuning_seeds": 1, "tuning_records": 20,
    },
    "fig4": {
        "users": 20, "train": 10, "steps": 2, "batch": 3, "evaluations": 4, "replications": 2, "budgets": (1.0, np.inf),
        "step_sizes": (1.0,), "lengthscales": (2.5,), "ucb_lengthscales": (3.95,), "ucb_betas": (None,),
        "tuning_seeds": 1, "refit_every": 0,
    },
    "fig5": {
        "users": 20, "train": 10, "steps": 2, "batch": 3, "replications": 2, "step_sizes": (1.0,), "tuning_seeds": 1,
    },
}  # fmt: skip


@pytest.fixture
def figure(results, monkeypatch):
    """``figure(item)`` runs it at its tiniest, and returns what it wrote."""

    def run(item, seeds=None):
        name = f"{item}_quick" + (f"_{seeds.start}-{seeds.stop}" if seeds else "")
        monkeypatch.setitem(settings.QUICK, item, TINY[item])
        with jax.numpy_rank_promotion("allow"):
            sopa.ITEMS[item](seeds=seeds, quick=True)
        assert (results / "sopa" / f"{name}.png").stat().st_size > 10_000
        written = json.loads((results / "sopa" / f"{name}.json").read_text(), parse_constant=pytest.fail)
        assert written["seeds"] == ([seeds.start, seeds.stop] if seeds else [0, TINY[item]["replications"]])
        for tuning in written["tuning"].values():
            assert tuning["seeds"][0] >= common.TUNING_SEEDS > written["seeds"][1]  # tuned on seeds not reported
            scores = [one["score"] for one in tuning["tried"]]
            best = tuning["tried"][scores.index(min(scores))]
            assert tuning["chosen"] == {name: value for name, value in best.items() if name != "score"}
        assert written["settings"]["changed by --quick"]
        assert written["data"]
        return written

    return run


def test_the_settings_are_the_papers():
    """As printed in section 4 and appendix C; where the figure is run otherwise, the settings say so."""
    printed = {item: of for item, of in settings.PRINTED.items() if of}  # nothing of an item that is ours
    both = {(item, name): value for item in printed for name, value in printed[item].items()}
    for name, values in {
        "users": (50, 100, 5000, 4500, 4500),
        "batch": (3, 2, 34, 11, 11),
        "dimension": (5, 4, 33, 10, 10),
        "clip_norm": (1, 1, 1, 1, 1),
        "mu": ((0.5, 2), 1, (1, np.inf), 1, 1),
    }.items():
        assert tuple(both[item, name] for item in printed) == values
    assert [printed[item].get("steps") for item in printed] == [150, 100, None, 25, 25]
    assert [printed[item].get("replications") for item in printed] == [None, None, 5, 10, 10]
    assert [printed[item].get("optimizer") for item in printed] == [None, None, "adagrad", "adagrad", "adagrad"]
    assert printed["fig3"]["train"] == 5000
    assert printed["fig3"]["features"] == 30
    assert printed["fig4"]["evaluations"] == 265 != 25 * 11
    assert printed["fig5"]["deviation"] == 0.01
    assert printed["fig5"]["sigmas"] == (0.01, 1.0, 0.0001)
    replaced = {(item, name) for item in printed for name in printed[item] if name in settings.OURS[item]}
    assert replaced == {("fig3", "train"), ("fig3", "users")}  # records that are not to be had
    for item in printed:
        assert vars(common.settings_of(settings, item, False)) == printed[item] | settings.OURS[item]


def test_figure_1_writes_its_table_and_its_picture(figure, capsys):
    written = figure("fig1")
    for mu in ("0.5", "2"):
        medians = written["median"][mu]
        assert len(medians["loss"]) == 7
        assert medians["gap"][-1] < medians["gap"][0]
        assert medians["surrogate_bias"][-1] < medians["noise"][-1]
        assert medians["gap"][-1] == pytest.approx(np.median(written["by_seed"][mu]["excess loss at the end"]))
    assert "example 4.1" in capsys.readouterr().out
    other = figure("fig1", seeds=range(7, 9))
    for mu in ("0.5", "2"):
        starts = [one["by_seed"][mu]["distance at the start"] for one in (written, other)]
        assert not set(starts[0]) & set(starts[1])  # other records


@pytest.mark.full
def test_figure_2_sets_dp_gibo_beside_descent(figure, capsys):
    written = figure("fig2")
    shown = capsys.readouterr().out
    for method in (fig2.GIBO, fig2.GD, fig2.PLAIN):
        assert method in shown
        assert written["median"][method]["distance"][0] > 1
    assert written["median"][fig2.PLAIN]["gap"][-1] < written["median"][fig2.PLAIN]["gap"][0]
    data, best = fig2.draw_records(jax.random.key(0), 100)
    slope = jax.grad(lambda theta: jnp.mean(huber_regression.loss(theta, data)))(best)
    np.testing.assert_allclose(slope, 0, atol=1e-9)


@pytest.mark.full
def test_figure_3_may_be_stopped_and_started(figure, results, monkeypatch, capsys):
    for name, value in {"COMMIT": "one", "MODIFIED": False, "REVISION": "one"}.items():
        monkeypatch.setattr(report, name, value)
    honest = fig3.gibo

    def stopped(config, problem, *others):
        if problem.seed == 1:
            raise KeyboardInterrupt
        return honest(config, problem, *others)

    monkeypatch.setattr(fig3, "gibo", stopped)
    with pytest.raises(KeyboardInterrupt):
        figure("fig3")
    monkeypatch.setattr(fig3, "gibo", honest)
    first = json.loads((results / "sopa" / "fig3_quick.json").read_text())
    runs = first["runs"]
    assert {len(of) for of in runs.values()} == {1}
    assert {len(of["0"]) for method, of in runs.items() if method != fig3.DEFAULT} == {2}
    monkeypatch.setattr(fig3, "tune", None)  # is not tuned again
    second = figure("fig3")
    assert "going on from fig3_quick.json: 6 runs are there" in capsys.readouterr().out
    for method, of in second["runs"].items():
        assert of["0"] == runs[method]["0"]
        assert set(of) == {"0", "1"}
    monkeypatch.setitem(TINY, "fig3", TINY["fig3"] | {"steps": 2})
    other = common.Report(settings, "fig3", first["figure"], True, first["data"])
    assert fig3.resume(other, fig3.Problem(**first["problem"]))["runs"]
    other.described = {"changed": True}
    assert not fig3.resume(other, fig3.Problem(**first["problem"]))["runs"]  # settings of another run


@pytest.mark.full
def test_figure_4_reads_every_method_at_both_counts(figure, capsys):
    written = figure("fig4")
    assert "4 evaluations are 1 x 3 + 1; T = 2 steps of b = 3 are 6" in capsys.readouterr().out
    curves, finals = written["mean_curves"], written["final"]
    boxed = list(fig4.BOXED.values())
    assert [len(curves[name]) for name in ("1", "inf", *boxed, fig4.SEARCH, fig4.UCB)] == [3, 3, 3, 3, 6, 6]
    assert [curves[name][0] for name in boxed] == [curves["1"][0]] * 2  # the same starts
    assert set(finals[fig4.DEFAULT]) == {"6"}
    for name, at in (("1", 1), (boxed[0], 1), (fig4.SEARCH, 3), (fig4.UCB, 3)):
        np.testing.assert_allclose(np.mean(finals[name]["4"]), curves[name][at], rtol=1e-5)
        np.testing.assert_allclose(np.mean(finals[name]["6"]), curves[name][-1], rtol=1e-5)
    assert np.all(np.diff(curves[fig4.SEARCH]) <= 0)  # without noise the best seen is the best


def test_figure_5_reads_the_noise_both_ways(figure, capsys):
    written = figure("fig5")
    assert set(written["verdicts"]) == set(fig5.READINGS)
    curves = written["mean_curves"]
    assert len(curves) == 2 * 4
    first, second = (curves[f"{reading}: sigma=0.0001"] for reading in fig5.READINGS)
    assert first[0] == second[0]  # the same start
    assert first[-1] != second[-1]  # other noise
    assert "one Z for all users: sigma=0.0001 - random search" in capsys.readouterr().out


def test_an_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(100, 2, 40)) + np.array([[[0.3], [0.0]]])
    found = [common.interval(common.mean_difference, *pair) for pair in samples]
    covered = sum(low <= 0.3 <= high for _, low, high in found)
    assert 88 <= covered <= 99
    few = [common.paired_difference(*pair[:, :5])["95%"] for pair in rng.normal(size=(1000, 2, 40))]
    assert 930 <= sum(low <= 0.0 <= high for low, high in few) <= 970
    paired = common.paired_difference(samples[0, 1] - 0.1, samples[0, 1])
    np.testing.assert_allclose([paired["mean difference"], *paired["95%"]], -0.1)
    assert (paired["lower in"], paired["of"]) == (40, 40)


def test_options_are_tried_in_every_combination():
    assert common.grid(a=(1, 2), b=("x", "y")) == [{"a": a, "b": b} for a in (1, 2) for b in "xy"]
    assert report.json_value({0.5: np.array([1, np.inf]), "n": np.int64(3)}) == {"0.5": [1.0, "inf"], "n": 3}


def test_a_table_lines_up(capsys):
    report.print_table(("name", "n"), [("a", 1), ("longer", 22)])
    assert capsys.readouterr().out.splitlines() == ["name     n", "------  --", "a        1", "longer  22"]


SIZES = ("logistic", "lengthscales", "svm")
KUSNER = {
    "fig1": {"train": 60, "sizes": (40, 300), "sets": 3, "models": 6, "correlations": (0.3, 0.95), "exponents": (2, 4)},
    "regret": {
        "epsilons": (1.0, 20.0), "evaluations": 3, "refit_every": 0, "seeds": dict.fromkeys(SIZES, 2),
        "candidates": dict.fromkeys(SIZES, 8), "train": dict.fromkeys(SIZES, 40), "users": dict.fromkeys(SIZES, 50),
        "gibo_steps": dict.fromkeys(SIZES, 2),
    },
}  # fmt: skip


@pytest.fixture
def kusner_item(results, monkeypatch):
    def bundled(name, honest=datasets.load):
        return honest("digits" if name == "covtype" else name)  # a test has no file

    monkeypatch.setattr(datasets, "load", bundled)

    def run(item):
        monkeypatch.setitem(kusner_settings.QUICK, item, KUSNER[item])
        with jax.numpy_rank_promotion("allow"):
            kusner.ITEMS[item](quick=True)
        assert (results / "kusner" / f"{item}_quick.png").stat().st_size > 10_000
        return json.loads((results / "kusner" / f"{item}_quick.json").read_text(), parse_constant=pytest.fail)

    return run


def test_kusners_figure_1_finds_a_large_correlation_and_says_why(kusner_item, capsys):
    written = kusner_item("fig1")
    assert correlation.CAVEAT in capsys.readouterr().out
    assert written["caveat"]
    for size, curve in written["mean_log_likelihood"].items():
        assert len(curve) == 4
        assert curve[1] > curve[0]
        assert written["largest_move"][size] <= 1 / (int(size) - 1)


def test_a_drawn_neighbour_differs_by_one_record():
    right = np.random.default_rng(0).integers(0, 2, (5, 400)).astype(float)
    accuracies, neighbours = correlation.draw_sets(right, 50, 200, np.random.default_rng(1))
    counts = accuracies * 50
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
    more, less = neighbours * 51, neighbours * 49
    added = np.isclose(more, np.round(more), atol=1e-9).all(axis=1)
    assert 60 < added.sum() < 140
    assert np.all(np.isin(np.round((more - counts)[added]), (0, 1)))
    assert np.all(np.isin(np.round((counts - less)[~added]), (0, 1)))


@pytest.mark.full
def test_the_comparison_runs_every_method_on_every_problem(kusner_item, capsys):
    written = kusner_item("regret")
    shown = capsys.readouterr().out
    assert set(written["regret"]) == set(SIZES)
    for of in written["regret"].values():
        assert tuple(of) == regret.METHODS
        assert all(len(values) == 2 for values in of.values())
        for method in (regret.CHOICE, regret.FREE):
            assert of[method][0] == of[method][1]  # no budget enters
        assert all(value >= 0 for method, values in of.items() if method != regret.GIBO for value in values)
    assert all(notion in shown for notion in regret.NOTIONS.values())


LITTLE = {"runs": 2, "steps": 3, "points": 8, "fitted": 20}
KHARKOVSKII = {
    "table1": LITTLE | {"regrets": {3: 0.073, 10: 0.014}},
    "table4": LITTLE | {"regrets": {3: 0.083, 10: 0.069}},
    "fig2": {"runs": 2, "fitted": 20, "shrink": {"steps": 3, "points": 8}},
    "branin": LITTLE,
    "regret": LITTLE | {"other_sides": (), "cells": (2,)},
}


@pytest.fixture
def kharkovskii_item(results, monkeypatch):
    monkeypatch.setattr(datasets, "table", dataset_cases.table)

    def run(item):
        monkeypatch.setitem(kharkovskii_settings.QUICK, item, KHARKOVSKII[item])
        with jax.numpy_rank_promotion("allow"):
            kharkovskii.ITEMS[item](quick=True)
        assert (results / "kharkovskii" / f"{item}_quick.png").stat().st_size > 10_000
        return json.loads((results / "kharkovskii" / f"{item}_quick.json").read_text(), parse_constant=pytest.fail)

    return run


def test_kharkovskiis_settings_are_the_papers():
    printed = kharkovskii_settings.PRINTED
    for number, largest in tables.ALLOWED.items():
        table = printed[f"table{number}"]
        assert largest in table["regrets"]
        assert len(table["regrets"]) == 6
        assert table["delta"] == (1e-4 if number > 6 else 1e-5)
        assert table["steps"] == (100 if number > 6 else 50)
    powers = [round(float(np.log(printed[f"table{number}"]["epsilon"])), 9) for number in tables.ALLOWED]
    assert powers == [1.1, 1.3, 1.5, 2.7, 2.9, 3.1, 2.6, 2.8, 3.0]
    best = [min(of, key=of.get) for of in (printed[f"table{number}"]["regrets"] for number in tables.ALLOWED)]
    assert best == [10, 15, 20, 10, 9, 15, 10, 15, 20]  # the paper's "in general": not tables 5 and 6
    assert [panel["projected"] for panel in printed["fig2"]["panels"].values()] == [10, 15, 15]


@pytest.mark.parametrize("item", ["table1", "table4"])
def test_a_table_sets_the_papers_numbers_beside_ours(kharkovskii_item, item, capsys):
    written = kharkovskii_item(item)
    shown = capsys.readouterr().out
    assert "the paper's" in shown
    assert list(written["mean"]) == ["3", "10"]
    assert all(mean >= 0 for mean in written["mean"].values())
    if item == "table4":
        assert written["largest_r"] == 10
        assert "no guarantee here covers them" in written["notes"][0]


@pytest.mark.parametrize("item", ["fig2", "branin"])
def test_curves_fall_and_begin_alike(kharkovskii_item, item):
    written = kharkovskii_item(item)
    for curves in written["mean"].values() if item == "fig2" else [written["mean"]]:
        assert len(curves) == 4
        assert len({curve[0] for curve in curves.values()}) == 1  # the same first row
        assert all(np.all(np.diff(curve) <= 1e-12) for curve in curves.values())


@pytest.mark.full
def test_sound_transforms_stand_beside_the_published_one(kharkovskii_item, capsys):
    written = kharkovskii_item("regret")
    shown = capsys.readouterr().out
    assert len(written["mean"]) == 2
    for means in written["mean"].values():
        assert {name.split(",")[0] for name in means} >= {name.split(",")[0] for name in sound.NOTIONS}
        assert all(len(values) == 3 for values in means.values())
    assert all(notion in shown for notion in sound.NOTIONS.values())
    assert shown.count("within the margin 0.01") == 6  # the first table alone has one
    cells = sound.cells(25.0, 3, 2)
    assert cells.shape == (9, 2)
    assert np.linalg.norm(cells, axis=1).max() == pytest.approx(25 * 2 / 3)


@pytest.fixture
def items_called(results, monkeypatch):
    """The items that ``reproduce all`` called: each writes the committed result here, but one fails the first time."""
    called = []

    def run(command, **_):
        paper, item, *quick = command[3:]
        called.append(f"{paper}_{item}")
        if item == "overhead" and called.count("avent_overhead") == 1:
            return types.SimpleNamespace(returncode=3)
        found = report.find_result(called[-1]) | {"commit": report.REVISION, "modified": False}
        path = results / paper / f"{item}{'_quick' * len(quick)}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(found))
        path.with_suffix(".png").touch()
        return types.SimpleNamespace(returncode=0)

    monkeypatch.setattr(reproduce.subprocess, "run", run)
    return called


def test_all_items_give_the_page_of_verdicts_and_only_what_failed_runs_again(items_called, results, capsys):
    everything = [f"{paper}_{item}" for paper in reproductions.PAPERS for item in reproductions.items(paper)]
    assert reproduce.run_all(quick=False) == 1
    assert items_called == everything
    assert "FAILED, see results/all/avent_overhead.log" in capsys.readouterr().out
    assert "| a search takes about 45 s besides its trainings | not measured |" in page(results)
    assert reproduce.run_all(quick=False) == 0
    assert items_called == [*everything, "avent_overhead"]
    assert page(results) == verdicts.page([lambda name: report.find_result(name) | {"commit": report.REVISION}])


def test_all_small_items_give_no_verdict(items_called, results):
    assert reproduce.run_all(quick=True) == 1
    assert len(items_called) > 30
    assert not (results / "reproduction.md").exists()


def page(results):
    return (results / "reproduction.md").read_text().rstrip("\n")


@pytest.fixture
def avent_item(results, monkeypatch):
    """Runs items on few drawn records; all of them share what was measured."""
    monkeypatch.setattr(datasets, "table", dataset_cases.table)
    limits = {"LogReg+SGD": {"epochs": 2, "records": 60}}
    little = {"seeds": 3, "proposals": 3, "pool": 12, "parts": 2, "tasks": ("LogReg+SGD",), "limits": limits}
    for item in ("fig5", "fig6", "fig7", "fig8", "table2", "luck", "transformed", "accountants"):
        monkeypatch.setitem(avent_settings.QUICK, item, avent_settings.QUICK[item] | little | {"timed": "LogReg+SGD"})
    for item in ("fig1", "fig2", "fig4"):
        monkeypatch.setitem(avent_settings.QUICK, item, avent_settings.QUICK[item] | {"cells": 4, "records": 60})

    def run(name, seeds=None):
        with jax.numpy_rank_promotion("allow"):
            avent.ITEMS[name](quick=True, **({"seeds": seeds} if seeds else {}))
        path = results / "avent" / f"{name}_quick{f'_{seeds.start}-{seeds.stop}' if seeds else ''}.json"
        return json.loads(path.read_text(), parse_constant=pytest.fail)

    return run


@pytest.mark.full
def test_avents_fronts_come_from_the_same_points(avent_item, results, capsys):
    both = avent_item("table2")["tasks"]
    table = both["LogReg+SGD, ours"]
    assert len(table["random"]) == 2
    assert np.mean(both["LogReg+SGD, the paper's"]["random"]) < np.mean(table["random"])  # larger epsilons
    assert 0 <= min(table["random"]) <= 10
    assert table["difference"] == pytest.approx(table["search"] - np.mean(table["random"]), abs=1e-5)
    assert "0.158 (0.053 to 0.264)" in capsys.readouterr().out
    first, second = avent_item("luck")["hypervolumes"]["LogReg+SGD, ours"]
    assert first == table["search"] != second
    transformed = avent_item("transformed")
    assert transformed["settings"]["chosen here"]["acquisition"] == "hvpoi_transformed"
    assert first not in transformed["hypervolumes"]["LogReg+SGD, ours"]
    grown = avent_item("fig5")["hypervolumes"]["LogReg+SGD"]
    assert np.all(np.diff(grown["DPareto"]) >= 0)
    assert grown["DPareto"][-1] == table["search"]
    assert grown["random, last"] == table["random"]
    again = avent_item("fig7")
    varied = again["hypervolumes"]["LogReg+SGD"]
    assert varied["best"] >= varied["mean"] >= varied["worst"]
    assert all(0 <= apart <= 1 for apart in again["spread"]["LogReg+SGD"].values())
    grids = avent_item("fig6")["hypervolumes"]["LogReg+SGD"]
    assert list(grids) == ["DPareto, 6 settings", "grid of 32"]
    compared = avent_item("fig8")
    assert np.all(np.diff(list(compared["least_error"]["LogReg+SGD"].values())) <= 0)
    assert compared["timed"]["LogReg+SGD"]["seconds"] > 0
    found = avent_item("accountants")["tasks"]["LogReg+SGD"]
    assert found["hypervolume"]["ours"] >= found["hypervolume"]["the paper's"]
    assert found["paper's epsilon over ours"][0] > 1
    assert 0 < found["publishing the front"] <= found["publishing the search"]
    kept = {path.name.split("-")[1] for path in (results / "avent" / "points").iterdir()}
    assert kept == {"pool", "search", "again", "grid"}
    assert avent_item("table2")["tasks"] == both
    other = avent_item("table2", range(1, 3))
    assert other["tasks"]["LogReg+SGD, ours"]["search"] == second
    assert set(other["tasks"]["LogReg+SGD, ours"]["random"]).isdisjoint(table["random"])
    assert other["seeds"] == {"search": 11, "pool": 12, "grid": 13, "again": 14}
    assert avent_item("luck", range(1, 2))["hypervolumes"]["LogReg+SGD, ours"] == [second]
    assert avent_item("fig6", range(1, 3))["hypervolumes"]["LogReg+SGD"]["grid of 32"] != grids["grid of 32"]
    for item in ("fig5", "fig7", "fig8", "accountants"):
        assert avent_item(item, range(1, 3))["seeds"] == other["seeds"]
    kept = Counter(path.name.split("-")[1] for path in (results / "avent" / "points").iterdir())
    assert kept == {"pool": 2, "search": 8, "grid": 2, "again": 2}  # for each accountant, two by each gain


def test_a_pool_that_was_stopped_goes_on_at_the_same_commit(results, monkeypatch):
    monkeypatch.setattr(datasets, "table", dataset_cases.table)
    calls, stop = [], {2}

    def distribute(run, inputs, records):
        del run, records
        calls.append(len(inputs[0]))
        if len(calls) in stop:
            raise KeyboardInterrupt
        noise = np.asarray(inputs[1].noise_multiplier)
        return oracles.Errors(noise, noise / 2, noise * 2)

    monkeypatch.setattr(avent_tasks.drivers, "distribute", distribute)
    limits = {"LogReg+SGD": {"records": 60}}
    s = types.SimpleNamespace(first=0, pool=70, pools={}, repeats=1, delta=1e-5, limits=limits)
    with pytest.raises(KeyboardInterrupt):
        avent_points.pool(s, "LogReg+SGD")
    points = avent_points.pool(s, "LogReg+SGD")
    assert calls == [32, 32, 32, 6]  # the second is made anew, the first is not
    noise = spaces.HYPER_PARAMETERS.index("noise_multiplier")
    np.testing.assert_allclose(points.values[:, 1], points.settings[:, noise], rtol=1e-6)
    assert np.array_equal(avent_points.pool(s, "LogReg+SGD").values, points.values)
    assert len(calls) == 4
    assert [path.suffix for path in (results / "avent" / "points").iterdir()] == [".npz"]
    monkeypatch.setattr(report, "REVISION", "another")
    avent_points.pool(s, "LogReg+SGD")
    assert len(calls) == 7


@pytest.mark.full
def test_avents_illustrations_ask_both_oracles_everywhere(avent_item):
    for item in ("fig1", "fig2"):
        front = np.array(avent_item(item)["front"]["values"])
        assert np.all(np.diff(front[:, 0]) >= 0)
        assert np.all(np.diff(front[:, 1]) <= 0)
        assert front[0, 0] < 1 < front[-1, 0]
    written = avent_item("fig4")
    volumes = list(written["hypervolume"].values())
    assert volumes[2] >= volumes[1]
    assert written["next"]["setting"][0] == round(written["next"]["setting"][0])
