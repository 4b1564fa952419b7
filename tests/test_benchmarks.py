"""The demo and the reproductions run, small, and write what they say; release.json holds nothing raw."""

import json

import jax
import numpy as np
import pytest

from benchmarks import demo, report, sopa
from jaxdpbo.problems import datasets, kernel_svr


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    return tmp_path


def test_the_demo_compares_and_publishes_only_what_is_private(results, monkeypatch, capfd):
    losses = []

    def watched(point, data, honest=kernel_svr.loss):
        losses.append(honest(point, data))
        return losses[-1]

    monkeypatch.setattr(demo, "STEPS", 2)
    monkeypatch.setattr(demo, "SEEDS", range(1))
    monkeypatch.setattr(kernel_svr, "loss", watched)
    demo.main()
    shown = capfd.readouterr()
    rows = {line.split("  ")[0]: line for line in shown.out.splitlines()}
    assert rows["DP-GIBO, mu=1"].endswith("mu=1: epsilon=4.38 at delta=1e-05")
    assert rows["DP-GIBO, mu=inf"].endswith("not private")
    assert rows["random search"].endswith("not private")
    assert all(f"{2 * 14}" in rows[method] for method in demo.METHODS)  # the same number of evaluations
    assert f"{4 * 2 * 14}/{4 * 2 * 14}" in shown.err  # the bar counts evaluations

    published = json.loads((results / "demo" / "release.json").read_text())
    assert set(published) == {"hyper_parameters", "guarantee", "epsilon"}
    assert published["guarantee"]["notion"] == "gdp"
    assert "key secret" not in published["guarantee"]["holds_if"]  # the published run drew its own key
    numbers = [
        *published["hyper_parameters"].values(),
        published["guarantee"]["level"],
        published["epsilon"]["epsilon"],
    ]
    raw = np.concatenate([np.append(one, one.mean()) for one in losses])
    assert not any(np.any(np.isclose(number, raw, rtol=1e-12, atol=0)) for number in numbers)
    box = kernel_svr.bounds(datasets.load("diabetes").features.shape[1])
    assert np.all((numbers[:13] >= box[0]) & (numbers[:13] <= box[1]))
    assert (results / "demo" / "plot.png").stat().st_size > 10_000


def test_figure_1_writes_its_table_and_its_picture(results, monkeypatch, capsys):
    monkeypatch.setattr(sopa, "FIG1", sopa.FIG1 | {"steps": 6})
    monkeypatch.setattr(sopa, "FIG1_STEP_SIZES", (0.1, 0.4))
    with jax.numpy_rank_promotion("allow"):
        sopa.fig1(seeds=2, quick=True)
    written = json.loads((results / "sopa" / "fig1.json").read_text())
    assert written["seeds"] == [0, 2]
    assert written["tuning"]["seeds"][0] > written["seeds"][1]  # tuned on seeds that are not reported
    for mu in ("0.5", "2.0"):
        medians = written["median"][mu]
        assert len(medians["loss"]) == 7
        assert medians["gap"][-1] < medians["gap"][0]
        assert medians["surrogate_bias"][-1] < medians["noise"][-1]
    assert "example 4.1" in capsys.readouterr().out
    assert (results / "sopa" / "fig1.png").stat().st_size > 10_000


def test_a_table_lines_up(capsys):
    report.print_table(("name", "n"), [("a", 1), ("longer", 22)])
    assert capsys.readouterr().out.splitlines() == ["name     n", "------  --", "a        1", "longer  22"]
