"""What ``scripts/bench`` measures is measured right: our side of it at small sizes; figures are never asserted."""

import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import bench, report
from benchmarks.speed import (
    gpu,
    gpu_checks,
    log_ei_problem,
    ours_log_ei,
    ours_outsourced,
    ours_pareto,
    ours_sgd,
    ours_ucb,
    rows,
    sklearn_outsourced,
    sklearn_ucb,
)
from benchmarks.speed import ours_gibo as ours
from benchmarks.speed.worker import Worker
from jaxdpbo import checks
from jaxdpbo.noise import clipping, wide_integers
from jaxdpbo.separable import separability_check
from jaxdpbo.training import integer_sums, models


def test_the_ceilings_are_of_the_same_data_and_the_temporaries_are_small():
    found = ours.clipped_gradient(users=20_000, dimension=10, dtype="float32", repeats=1)
    assert found["share_of_roof"] == pytest.approx(found["roof"] / found["seconds"])
    assert found["temporary_bytes"] < 2 * 275 * 1.5 * 4096 * 4
    assert found["n_by_d_bytes"] == 20_000 * 10 * 4


def test_both_sides_of_the_per_user_solve_find_the_same_gradient():
    assert ours.per_user_solve(dimension=3, dtype="float64", repeats=1)["difference"] < 1e-12


def test_a_worker_answers_and_a_failure_ends_it():
    with Worker("benchmarks.speed.ours_gibo") as worker:
        assert worker("version").startswith("jax ")
        assert worker("peak_memory") > 10
        with pytest.raises(RuntimeError, match="a worker ended with status 1"):
            worker("no_such_function")


def test_a_sweep_of_the_benchmark_reaches_the_minimum():
    swept = ours.sweep(first=0, seeds=2)
    assert swept["failed"] == 0
    assert np.all(np.array(swept["loss"]) < 2.3)  # 3.6 at the start, 2.255 at best


def test_both_sides_of_the_finite_search_see_the_same_values():
    ours_seen = ours_ucb.sweep(first=0, seeds=2)["values"]
    peers = [sklearn_ucb.run(seed) for seed in range(2)]
    assert rows.count_equal_runs(ours_seen, peers, "values") == (2, 0)
    assert len(set(ours_seen[0])) > 40
    moved = [[*ours_seen[0][:9], 0.0, *ours_seen[0][10:]], ours_seen[1]]
    assert rows.count_equal_runs(moved, peers, "values") == (1, 0)
    tied = [one | {"margins": [*one["margins"][:9], 1e-12, *one["margins"][10:]]} for one in peers]
    assert rows.count_equal_runs(moved, tied, "values") == (1, 1)


def test_all_sides_of_the_outsourced_search_ask_for_the_same_rows():
    picks = [ours_outsourced.sweep(plan=plan, count=500, first=0, runs=2)["picks"] for plan in ours_outsourced.PLANS]
    assert picks[0] == picks[1]
    assert rows.count_equal_runs(picks[0], [sklearn_outsourced.run(500, seed) for seed in range(2)], "picks") == (2, 0)
    assert len(set(picks[0][0])) > 20


def test_the_stream_reads_what_it_says():
    found = ours_outsourced.stream(megabytes=4)
    assert found["bytes"] == 4 * 2**20
    assert found["seconds"] > 0


def test_the_searched_front_is_of_the_problems_own_values():
    found = ours_pareto.run(0, 4)
    assert found["largest_difference"] < 1e-12
    assert 0 < found["volume"] < 10


@pytest.mark.parametrize(("method", "batch"), [("log_ei", 1), ("log_ei", 4), ("gp_ucb", 4)])
def test_a_search_by_improvement_evaluates_as_many_points_and_finds_a_better(method, batch):
    count = log_ei_problem.INITIAL + 16
    values = ours_log_ei.run("Branin", 0, count, batch, method)["values"]
    first = [log_ei_problem.value("Branin", point) for point in log_ei_problem.initial_points("Branin", 0)]
    assert values[: len(first)] == pytest.approx(first)
    assert len(values) == count
    assert log_ei_problem.regret("Branin", values) < 0.5 * log_ei_problem.regret("Branin", first)


@pytest.mark.parametrize("name", log_ei_problem.NAMES)
def test_the_functions_are_least_where_they_should_be(name):
    """Ackley and Cosine at the middle of the box, the others nowhere lower."""
    sought = log_ei_problem.function(name)
    dimension = len(sought.lower)
    drawn = np.random.default_rng(0).uniform(size=(2000, dimension))
    assert min(log_ei_problem.value(name, point) for point in drawn) > sought.smallest
    if name in ("Ackley-10", "Cosine-8"):
        assert log_ei_problem.value(name, np.full(dimension, 0.5)) == pytest.approx(sought.smallest, abs=1e-12)


def test_padding_changes_no_number_of_useful_examples():
    plain, padded = (ours_sgd.sweep(settings=1, seed=0, most_epochs=1, padded=padded) for padded in (False, True))
    assert plain["examples"] == padded["examples"] > 0
    assert plain["finite"]
    assert padded["finite"]


# An accelerator beside a CPU.

HERE = jax.devices()[0]


def compared(compute, **options):
    """Of two calls of ``compute``, on the device and beside it, a row."""
    return gpu.compare(gpu_checks.Check("a", compute, **options), 1, HERE, HERE)


def alternating(*values):
    left = list(values)
    return lambda size: jnp.asarray(left.pop(0))


@pytest.mark.parametrize(
    ("first", "second", "seen"),
    [
        ([1.0, np.nan], [1.0, np.nan], "equal"),
        ([1.0, 2.0], [1.0, np.nextafter(np.float32(2), np.float32(3))], "differs, 1 of 2"),
        ([1.0, np.nan], [1.0, 2.0], "differs, 1 of 2"),
    ],
)
def test_a_device_is_compared_bit_by_bit(first, second, seen):
    row = compared(alternating(np.float32(first), np.float32(second)))
    assert (row["passed"], gpu.seen_in(row)) == (seen == "equal", seen)


@pytest.mark.parametrize(
    ("first", "second", "largest"),
    [(1.0, 1.25, 0.25), (1.0, 1.5, 0.5), (np.nan, 1.0, None), (np.inf, np.inf, 0.0), (3, 4, None), (3, 3, 0.0)],
)
def test_a_difference_is_compared_with_its_tolerance_and_a_chosen_row_is_equal_or_not(first, second, largest):
    row = compared(alternating(first, second), tolerance=lambda size: 0.25 * size)
    assert row["largest"] == largest
    assert row["passed"] == (largest in (0.0, 0.25))
    assert gpu.seen_in(row) == f"{'no number' if largest is None else f'{largest:.2g}'} (tolerance 0.25)"


def test_what_was_computed_on_another_device_is_no_result():
    with pytest.raises(RuntimeError, match="in place of another"):
        gpu.expect_on("another", jnp.zeros(()))


def product_in_fewer_digits(whole, layer):
    """As TF32 does it, in the digits of bfloat16."""
    short = (numbers.astype(jnp.bfloat16) for numbers in (whole.T, layer.counts))
    product = jnp.matmul(*short, preferred_element_type=jnp.float32).T
    return models.Layer(product.astype(jnp.int32), jnp.sum(layer.bias[:, None] * whole, axis=0).astype(jnp.int32))


def product_with_rounded_sum(whole, layer):
    return jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16).astype(jnp.int32), EXACT(whole, layer))


def rounded_without_check(vectors, clip_norm, radius):
    return jnp.rint(vectors * (radius.astype(jnp.float32) / clip_norm)).astype(jnp.int32)


EXACT = integer_sums._product


@pytest.mark.parametrize(
    ("check", "place", "name", "planted"),
    [
        (gpu_checks.outer_products, integer_sums, "_product", product_in_fewer_digits),
        (gpu_checks.parts_of_training, integer_sums, "_product", product_with_rounded_sum),
        (gpu_checks.beyond_radius, clipping, "quantise", rounded_without_check),
        (gpu_checks.masked, wide_integers, "add", lambda one, two: jax.tree.map(jnp.add, one, two)),
    ],
)
def test_what_must_hold_on_every_device_is_seen_where_it_does_not(check, place, name, planted, monkeypatch, float32):
    assert int(check(2_000)) == 0
    monkeypatch.setattr(place, name, planted)
    assert int(check(2_000)) > 0


def test_on_a_single_device_the_sum_over_all_is_its_own(float32):
    np.testing.assert_array_equal(gpu_checks.spread_sum(20_000), np.zeros(3))


def test_a_loss_that_mixes_users_and_one_that_iterates_are_seen(monkeypatch, float32):
    squares, eigenvalues, ranks = (gpu_checks.LOSSES[name][0] for name in ("squares", "eigenvalues", "ranks"))
    assert [int(gpu_checks.moved(loss, 12)) for loss in (squares, ranks)] == [0, gpu_checks.REFUSED]
    monkeypatch.setattr(gpu_checks.separable, "check_separable", lambda loss, *_, **__: loss)
    assert int(gpu_checks.moved(ranks, 12)) > 0
    monkeypatch.undo()
    monkeypatch.setattr(separability_check.backend, "backends", lambda: {"cpu": None, "cuda": None})
    assert int(gpu_checks.moved(eigenvalues, 12)) == gpu_checks.REFUSED == gpu_checks.LOSSES["eigenvalues"][1]("gpu")


def test_rows_survive_an_error_and_stop_where_the_time_is_up(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)

    def written():
        return json.loads((tmp_path / "bench" / "gpu_quick.json").read_text())

    results = gpu.Results(HERE, True)
    results.attempt("times", "one", lambda: {"device_s": 1.0, "cpu_s": 2.0})
    assert (results.status(), written()["times"]) == (0, [{"name": "one", "device_s": 1.0, "cpu_s": 2.0}])
    results.attempt("times", "two", lambda: 1 / 0)
    assert (results.status(), written()["failed"][0]["reason"]) == (1, "ZeroDivisionError: division by zero")
    results.attempt("checks", "three", lambda: compared(alternating(1, 1)))
    assert [row["name"] for row in written()["checks"]] == ["three"]
    monkeypatch.setattr(gpu.problem, "BEGIN", 0.0)
    results.attempt("checks", "four", lambda: compared(alternating(1, 2)))
    assert written()["skipped"] == [{"name": "four", "reason": "0 s had passed"}]
    failed = gpu.Results(HERE, True)
    failed.add("checks", {"name": "five"} | compared(alternating(1, 2)), "differs")
    assert failed.status() == 1


# Without a peer.


@pytest.mark.parametrize(
    ("name", "hidden", "extras"),
    [
        ("search", "sklearn", "bench"),
        ("dpareto", "botorch", "bench"),
        ("engines", "pyarrow", "bench,dask,ray,spark,beam"),
    ],
)
def test_a_peer_that_is_not_installed_is_named_with_its_extra(name, hidden, extras, tmp_path):
    """In this process, and in a worker's."""
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{hidden!r}] = None\n")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{report.ROOT}"}
    command = [sys.executable, "-m", "benchmarks.bench", name, "--quick"]
    done = subprocess.run(command, env=environment, cwd=report.ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2, done.stderr[-2000:]
    assert done.stderr == f"scripts/bench {name} needs {hidden}: {checks.install_hint(extras)}\n"


def test_a_name_that_is_wrong_is_no_missing_peer():
    assert bench.describe_missing("search", ImportError("cannot import name 'a' from 'jaxdpbo'")) is None
    assert bench.describe_missing("search", ModuleNotFoundError("no a", name="benchmarks.a")) is None
    own = ImportError(f"problems needs sklearn: {checks.install_hint('sklearn')}")
    assert bench.describe_missing("search", own) == f"scripts/bench search: {own}"
