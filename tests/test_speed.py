"""What ``scripts/bench`` measures is measured right: our side of it at small sizes; figures are never asserted."""

import numpy as np
import pytest

from benchmarks.speed import ours_gibo as ours
from benchmarks.speed import ours_outsourced, ours_pareto, ours_sgd, ours_ucb, rows, sklearn_outsourced, sklearn_ucb
from benchmarks.speed.worker import Worker


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


def test_padding_changes_no_number_of_useful_examples():
    plain, padded = (ours_sgd.sweep(settings=1, seed=0, most_epochs=1, padded=padded) for padded in (False, True))
    assert plain["examples"] == padded["examples"] > 0
    assert plain["finite"]
    assert padded["finite"]
