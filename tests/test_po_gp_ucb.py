"""PO-GP-UCB: the picks of a dense oracle, a kernel that knows the noise does better."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import dp_gp_ucb as oracle
from oracles import kernels as kernel_oracle
from oracles.ucb import beta_of_candidates

from jaxdpbo import drivers, po_gp_ucb, transforms

SIDE = 15
GRID = np.stack(np.meshgrid(np.linspace(0, 7.5, SIDE), np.linspace(0, 7.5, SIDE)), -1).reshape(-1, 2)
LENGTHSCALE, NOISE, STEPS = 1.25, 1e-3, 20


def curated(epsilon=3.0, seed=0, kind=transforms.planar_laplace, **options):
    chosen = kind(centre=np.full(2, 3.75), scale=1.0, epsilon=epsilon, **options)
    return transforms.curate(jax.random.key(seed), chosen, GRID, insecure_key=True)


def config(given, **changes):
    options = {"steps": STEPS, "lengthscale": LENGTHSCALE, "noise_variance": NOISE}
    return po_gp_ucb.config(given, **(options | changes))


def output(point, data):
    """The function at a row."""
    return data[jnp.asarray(point[0], int)]


def functions(count):
    covariance = np.exp(-0.5 * np.sum((GRID[:, None] - GRID[None]) ** 2, axis=2) / LENGTHSCALE**2)
    factor = np.linalg.cholesky(covariance + 1e-8 * np.eye(len(GRID)))
    return (factor @ np.random.default_rng(0).normal(size=(len(GRID), count))).T


def test_the_picks_are_the_oracles():
    """With the published transform the rows are taken for inputs."""
    given = transforms.curate(
        jax.random.key(0), transforms.random_projection(dimension=2, projected=4, epsilon=1e4, delta=1e-5), GRID
    )
    (utilities,) = functions(1)
    done = drivers.run_scan(
        po_gp_ucb.algorithm,
        output,
        jnp.asarray(utilities),
        config(given),
        key=jax.random.key(1),
        insecure_key=True,
        diagnostics=True,
    )
    private = done.diagnostics.state.raw
    rows = np.asarray(private.rows)
    expected, values, mean = oracle.picks(
        kernel_oracle.rbf(np.full(4, LENGTHSCALE), 1.0), np.asarray(given.z), lambda t, row: utilities[row], STEPS,
        NOISE, "ucb", lambda t: beta_of_candidates(t, len(GRID), 0.1), first=int(rows[0]),
    )  # fmt: skip
    assert rows.tolist() == expected
    np.testing.assert_allclose(private.utilities, values, rtol=1e-12)
    np.testing.assert_allclose(np.ravel(done.diagnostics.info.raw["utility"]), values, rtol=1e-12)
    np.testing.assert_allclose(private.posterior.mean, mean, atol=1e-7)
    assert int(done.release.row) == rows[np.argmax(values)]
    assert done.guarantee.notion == "none"


def test_the_guarantee_is_the_curators():
    given = curated(2.5)
    assert po_gp_ucb.algorithm.privacy(config(given)) == given.guarantee
    assert given.guarantee.notion == "metric_dp"
    assert "NOT the outputs" in given.guarantee.protects


def test_a_kernel_that_knows_the_noise_searches_better(trials):
    """Paired over functions, at a budget where the noise is about half a lengthscale."""
    count = trials("functions searched with and without the noise-aware kernel", 60, 300, 0)
    tables = jnp.asarray(functions(count))
    keys = jax.random.split(jax.random.key(2), count)
    regrets = {}
    for aware in (True, False):
        chosen = config(curated(2.5, seed=5), noise_aware=aware)
        rows = np.asarray(drivers.distribute(search, (keys, tables), chosen))
        regrets[aware] = np.asarray(tables).max(axis=1) - np.asarray(tables)[np.arange(count), rows]
    gained = regrets[False] - regrets[True]
    assert gained.mean() > 2 * gained.std() / math.sqrt(count)


def search(given, config):
    key, table = given
    return drivers.pure_run(po_gp_ucb.algorithm, output, table, config, key)[0].row


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 1e308])
def test_an_output_that_is_no_number_is_a_bad_one(junk):
    (utilities,) = functions(1)
    table = np.where(np.arange(len(GRID)) % 3 == 0, junk, utilities)
    done = drivers.run_scan(
        po_gp_ucb.algorithm,
        output,
        jnp.asarray(table),
        config(curated()),
        key=jax.random.key(0),
        insecure_key=True,
        diagnostics=True,
    )
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(done.diagnostics.state.raw))
    if not junk > 1e300:
        assert int(done.release.row) % 3 != 0


def test_the_best_rank_is_the_largest_whose_threshold_the_data_reach():
    """The paper's synthetic data: a 100 x 100 grid scaled to a largest norm of 25; delta = 1e-5."""
    axis = np.linspace(-1, 1, 100)
    grid = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    grid *= 25 / np.linalg.norm(grid, axis=1).max()
    smallest = np.linalg.svd(grid - grid.mean(axis=0), compute_uv=False).min()
    assert smallest == pytest.approx(1030.88, abs=0.01)
    found = [transforms.largest_rank(smallest, math.exp(power), 1e-5) for power in (0, 0.9, 1.1, 1.3, 1.5)]
    assert found == [1, 7, 11, 15, 22]
    assert transforms.threshold(11, math.exp(1.1), 1e-5) <= smallest < transforms.threshold(12, math.exp(1.1), 1e-5)
    assert transforms.largest_rank(1.0, 1.0, 1e-5) == 0


def test_a_kernel_that_knows_the_cells_searches_better():
    """Rows that named the same cell are not the same row, as a kernel of places has it."""
    cells, count = np.stack(np.meshgrid([1.25, 3.75, 6.25], [1.25, 3.75, 6.25]), -1).reshape(-1, 2), 100
    chosen = transforms.randomised_response(centre=np.zeros(2), scale=1.0, epsilon=6.0, cells=cells)
    given = transforms.curate(jax.random.key(0), chosen, GRID, insecure_key=True)
    keys, tables = jax.random.split(jax.random.key(2), count), functions(count)
    best, regrets = tables.max(axis=1), {}
    for aware in (True, False):
        rows = drivers.distribute(search, (keys, jnp.asarray(tables)), config(given, noise_aware=aware))
        regrets[aware] = np.mean(best - tables[np.arange(count), np.asarray(rows)])
    drawn = np.random.default_rng(3).integers(0, len(GRID), (count, STEPS))
    at_random = np.mean(best - np.take_along_axis(tables, drawn, axis=1).max(axis=1))
    assert regrets[True] < 0.9 * min(at_random, regrets[False])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: config(curated(), steps=0), "steps must be at least 1"),
        (lambda: config(curated(), lengthscale=0.0), "lengthscale must be positive"),
        (lambda: config(curated(), noise_variance=0.0), "noise_variance must be positive"),
        (lambda: config(curated(), noise_variance=1e-14), "noise_variance must be at least"),
        (lambda: config(curated(), delta=1.0), "delta must lie strictly"),
        (lambda: config(curated(), scale=-1.0), "scale must be positive"),
    ],
)
def test_bad_configurations_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
