"""DP-GD against a per-user NumPy oracle, its noise distribution, its sensitivity, and where its gradients come from."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from option_groups import group_options
from oracles import dp_gd as oracle
from scipy import stats

from jaxdpbo import drivers, sensitivity
from jaxdpbo.algorithms import dp_gd
from jaxdpbo.checks import low_high
from jaxdpbo.drivers import compiled_run, compiled_steps
from jaxdpbo.noise import clipping

USERS, STEPS, DIMENSION = 7, 6, 2
BOUNDS = np.array([[-2.0] * DIMENSION, [2.0] * DIMENSION])
STEP_SIZE, CLIP_NORM, MU = 0.4, 0.6, 1.7


def config(**changes):
    options = {
        "noise": "float",
        "users": USERS, "steps": STEPS, "mu": MU, "bounds": low_high(BOUNDS),
        "step_size": STEP_SIZE, "clip_norm": CLIP_NORM,
    }  # fmt: skip
    return dp_gd.config(**(options | changes))


def loss(point, data):
    return jnp.sum(jnp.cos(data - point[None]), axis=1)


def gradients_at(data):
    return lambda point: np.sin(data - point[None]).T


def records(seed=0):
    return np.random.default_rng(seed).normal(size=(USERS, DIMENSION))


def key(seed=0):
    return jax.random.key(seed)


def scan(chosen, data, **options):
    return drivers.run_scan(
        dp_gd.algorithm, dp_gd.gradient_objective(loss), data, chosen, **group_options(key=key(), **options)
    )


def test_gradients_are_those_of_the_losses():
    point, data = jnp.array([0.3, -0.8]), records()
    found = dp_gd.gradient_objective(loss)(point, data)
    np.testing.assert_allclose(found, gradients_at(data)(np.asarray(point)), rtol=1e-12)
    np.testing.assert_allclose(found, jax.jacrev(loss)(point, data).T, rtol=1e-12)
    assert dp_gd.gradient_objective(loss) is dp_gd.gradient_objective(loss)


def test_the_same_loss_compiles_once(compilations):
    scan(config(), records())
    compilations.clear()
    scan(config(mu=0.3, step_size=0.1), records(1))
    assert compilations["programs"] == 0


@pytest.mark.parametrize("data", [records(), records() * 1.5, np.where(np.arange(USERS) == 2, np.nan, records().T).T])
@pytest.mark.parametrize("noise", ["none", "float"])
def test_without_a_budget_the_path_is_the_oracles(data, noise):
    run = scan(config(mu=np.inf, noise=noise), data, diagnostics=True)
    options = {"step_size": STEP_SIZE, "clip_norm": CLIP_NORM, "bounds": BOUNDS}
    expected = oracle.path(gradients_at(data), np.zeros(DIMENSION), np.zeros((STEPS, DIMENSION)), **options)
    np.testing.assert_allclose(run.release.path, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(run.release.point, run.release.path[-1])
    np.testing.assert_array_equal(run.diagnostics.info.raw["nonfinite_users"], np.sum(np.isnan(data[:, 0])))
    assert np.all((run.diagnostics.info.raw["clipped_share"] > 0) & (run.diagnostics.info.raw["clipped_share"] < 1))
    assert run.guarantee.notion == "none"


def noises_of_whole_runs(count):
    """Every increment of ``count`` runs, less its noise-free mean: ``(count T, d)``."""
    chosen = config(step_size=1e-3)  # small: no iterate meets the box
    data = jnp.asarray(records())

    @jax.jit
    @jax.vmap
    def run(one):
        released, _, info = drivers.pure_run(dp_gd.algorithm, dp_gd.gradient_objective(loss), data, chosen, one)
        return -jnp.diff(released.path, axis=0) / 1e-3 - info.raw["gradient"]

    return np.asarray(run(jax.random.split(key(5), count)))


def test_the_noise_has_the_law_that_the_guarantee_states():
    noises = noises_of_whole_runs(500)
    claimed = 2 * CLIP_NORM * np.sqrt(STEPS) / (USERS * MU)
    for coordinate in np.moveaxis(noises, 2, 0):
        assert stats.kstest(coordinate.ravel(), stats.norm(scale=claimed).cdf).pvalue > 1e-3
        for wrong in (claimed / 2, claimed * 2 / 3, claimed * 3 / 2):  # B / n for 2 B / n; too little; too much
            assert stats.kstest(coordinate.ravel(), stats.norm(scale=wrong).cdf).pvalue < 1e-6
    flat = noises.reshape(len(noises), -1)
    correlations = np.corrcoef(flat.T)[~np.eye(flat.shape[1], dtype=bool)]  # between coordinates and between steps
    assert np.max(np.abs(correlations)) < 5 / np.sqrt(len(noises))


def largest_move():
    """Replay on neighbours without noise: how far the mean gradient moves, over ``2 B / n``."""
    chosen = config(mu=np.inf)
    snapshot = compiled_steps.begin(dp_gd.algorithm, key(), chosen)
    query = dp_gd.algorithm.ask(key(), chosen, snapshot.state)
    learn = jax.jit(lambda values: compiled_run.learn(dp_gd.algorithm, key(), chosen, snapshot, query, values))
    rng = np.random.default_rng(3)
    base = rng.normal(size=(1, DIMENSION, USERS))
    moves = []
    for replaced in (
        -base[0, :, 0], rng.normal(size=DIMENSION), [np.nan, 0.0], [np.inf, 1.0], [1e300, -1e300], [1e6, 3e6],
        [0.0, 0.0], [1e-300, 0.0], [1e200, np.nan],
    ):  # fmt: skip
        other = base.copy()
        other[0, :, 0] = replaced
        ((after, _), info), ((after_other, _), info_other) = learn(base), learn(other)
        moves.append(float(np.linalg.norm(info.raw["gradient"] - info_other.raw["gradient"])))
        np.testing.assert_array_equal(after.public.step, after_other.public.step)
    return np.max(moves) / (sensitivity.clipped_sum(CLIP_NORM) / USERS)


def test_one_user_moves_the_gradient_by_the_declared_sensitivity_at_most():
    assert 0.9 < largest_move() <= 1 + 1e-12


def unclipped(vectors, clip_norm):
    nobody = jnp.zeros(vectors.shape[1], bool)
    return jnp.nan_to_num(vectors, nan=0.0, posinf=1e9, neginf=-1e9).clip(-1e9, 1e9), nobody, nobody


def unguarded(vectors, clip_norm):
    nobody = jnp.zeros(vectors.shape[1], bool)
    return vectors * jnp.minimum(1.0, clip_norm / jnp.linalg.norm(vectors, axis=0))[None], nobody, nobody


@pytest.mark.parametrize("bug", [unclipped, unguarded])
def test_a_planted_clipping_bug_is_caught(monkeypatch, bug):
    """Raw gradients used; NaN defeats the clip."""
    monkeypatch.setattr(clipping, "clip_by_l2_norm", bug)
    assert not largest_move() <= 1 + 1e-12


def test_a_step_under_another_budget_releases_nothing():
    chosen = config()
    snapshot = compiled_steps.begin(dp_gd.algorithm, key(), chosen)
    query = dp_gd.algorithm.ask(key(), chosen, snapshot.state)
    values = jnp.ones((1, DIMENSION, USERS))
    after, _ = compiled_run.learn(dp_gd.algorithm, key(), config(mu=MU / 2), snapshot, query, values)
    jax.tree.map(np.testing.assert_array_equal, after, snapshot)


def test_the_last_half_is_averaged_and_any_factory_serves():
    released = scan(config(output="last_half_mean", optimizer=optax.adagrad), records()).release
    np.testing.assert_allclose(released.point, np.asarray(released.path)[STEPS // 2 + 1 :].mean(axis=0), rtol=1e-12)


def test_huber_regression_is_learnt():
    """Example 4.2 of Sopa et al. (2025): n = 100, T = 100, B = 1, mu = 1; the noise at the end is a few tenths."""
    covariates, noise = jax.random.normal(key(1), (100, 4)), jax.random.normal(key(3), (100,))

    def huber(theta, data):
        weight = jnp.minimum(1.0, 2.0 / jnp.sum(jnp.square(data[0]), axis=1))
        return optax.huber_loss(data[1] - data[0] @ theta) * weight

    chosen = dp_gd.config(
        users=100, steps=100, mu=1.0, bounds=np.array([[-5.0], [5.0]]) * np.ones(4), theta0=np.zeros(4), step_size=0.3,
        output="last_half_mean",
    )  # fmt: skip
    loss, data = dp_gd.gradient_objective(huber), (covariates, covariates @ jnp.ones(4) + noise)
    run = drivers.run_scan(dp_gd.algorithm, loss, data, chosen, key=key(2), insecure_key=True)
    assert np.linalg.norm(run.release.point - 1.0) < 0.7 < np.linalg.norm(run.release.path[0] - 1.0)
    assert 0.99 < run.guarantee.level <= 1.0  # on the grid


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"mu": 0}, ValueError, "mu must be positive"),
        ({"noise": "none"}, ValueError, r"mu must be inf with noise='none', got 1\.7"),
        ({"clip_norm": np.inf}, ValueError, "clip_norm must be finite"),
        ({"users": 0}, ValueError, "users must be at least 1"),
        ({"steps": 0}, ValueError, "steps must be at least 1"),
        ({"theta0": [9.0, 9.0]}, ValueError, "theta0 must lie inside bounds"),
        ({"bounds": low_high(BOUNDS * np.inf)}, ValueError, "theta0 must be given if bounds are infinite"),
        ({"step_size": -1.0}, ValueError, "step_size must be positive"),
        ({"optimizer": optax.lbfgs}, ValueError, "optimizer must be an optax factory"),
        ({"output": "best"}, ValueError, "output must be one of"),
    ],
)
def test_bad_configurations_are_named(changes, error, message):
    with pytest.raises(error, match=message):
        config(**changes)


def test_a_stacked_config_has_no_one_guarantee():
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), config())
    with pytest.raises(ValueError, match="privacy takes one config"):
        dp_gd.privacy(stacked)
