"""DP-GP-UCB: the picks and means of a dense oracle, draws of the probabilities said, and a preview that is right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from option_groups import group_options
from oracles import dp_gp_ucb as oracle
from oracles import kernels as kernel_oracle
from scipy.stats import beta as beta_law
from scipy.stats import chisquare, kstest
from scipy.stats import laplace as laplace_law

from jaxdpbo import dp_gp_ucb, drivers, kernels, sensitivity
from jaxdpbo.accounting import prior_averaged_constants
from jaxdpbo.drivers import compiled_steps
from jaxdpbo.guarantee import assumptions
from jaxdpbo.surrogate import box_search

CANDIDATES = np.random.default_rng(0).uniform(size=(40, 2))
LENGTHSCALE, STEPS, DELTA = np.array([0.3, 0.4]), 15, 0.05


def config(**changes):
    options = {
        "noise": "float",
        "steps": STEPS, "epsilon": 1.0, "delta": DELTA, "correlation": 0.95, "candidates": CANDIDATES,
        "kernel_params": kernels.stationary_params(LENGTHSCALE, 2),
    }  # fmt: skip
    return dp_gp_ucb.finite_config(**(options | changes))


GAINS = {
    "candidates": CANDIDATES, "users": 50, "epsilon": 1.0, "largest_gain": 2.0, "noise": "float",
    "kernel_params": kernels.stationary_params(LENGTHSCALE, 2),
}  # fmt: skip


def gains_config(**changes):
    return dp_gp_ucb.in_order_config(**(GAINS | changes))


def search_config(**changes):
    return dp_gp_ucb.lipschitz_config(**(GAINS | {"steps": 3} | changes))


def hilly_gains(point, data):
    """The same gain for every one of 50 users."""
    return jnp.full(50, hills(point, data))


def hills(point, data):
    """A utility with its maximum 1 near ``data``."""
    return jnp.exp(-4.0 * jnp.sum(jnp.square(point - data))) - 0.3 * jnp.sin(9.0 * point[0])


TOP = jnp.array([0.7, 0.4])
UTILITIES = np.array([float(hills(jnp.asarray(point), TOP)) for point in CANDIDATES])


def run(chosen, data=TOP, objective=None, seed=0, **options):
    objective = objective or (hills if chosen.users is None else hilly_gains)
    return drivers.run_scan(
        dp_gp_ucb.algorithm,
        objective,
        data,
        chosen,
        **group_options(key=jax.random.key(seed), diagnostics=True, **options),
    )


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_the_picks_and_the_scores_are_the_oracles(noise):
    chosen = config(noise_variance=noise, centre=0.2, scale=0.5, release="both")
    state = run(chosen).diagnostics.state
    share = prior_averaged_constants.shares(DELTA, "both", exact=noise == 0).confidence
    kernel = kernel_oracle.matern52(LENGTHSCALE, 1.0)
    rows, values, mean = oracle.picks(
        kernel, CANDIDATES, lambda t, row: (UTILITIES[row] - 0.2) / 0.5, STEPS, noise, "ucb",
        lambda t: prior_averaged_constants.confidence_beta(40, t, share),
    )  # fmt: skip
    np.testing.assert_allclose(state.raw.utilities, values, atol=1e-9)
    np.testing.assert_allclose(state.raw.posterior.mean, mean, atol=1e-7)
    assert len(set(rows)) > 5


def test_expected_improvement_picks_are_the_oracles():
    chosen = search_config(
        acquisition="expected_improvement", steps=STEPS, gain_lipschitz=1.0, loss_lipschitz=1.0,
    )  # fmt: skip
    state = run(chosen).diagnostics.state
    utilities = (np.clip(UTILITIES, 0, 2) - 1.0) / 0.5
    _, values, _ = oracle.picks(
        kernel_oracle.matern52(LENGTHSCALE, 1.0), CANDIDATES, lambda t, row: utilities[row], STEPS, 0.0,
        "expected_improvement", None,
    )  # fmt: skip
    np.testing.assert_allclose(state.raw.utilities, values, atol=1e-9)


def released(chosen, state, count=20_000, seed=0):
    keys = jax.random.split(jax.random.key(seed), count)
    return jax.jit(jax.vmap(lambda key: dp_gp_ucb.algorithm.release(key, chosen, state)))(keys)


@pytest.mark.parametrize("kind", ["noisy", "exact", "in order"])
def test_the_release_is_drawn_as_it_is_said(kind):
    chosen = {
        "noisy": lambda: config(epsilon=60.0, noise_variance=0.01, release="both", point_share=0.8),
        "exact": lambda: config(epsilon=60.0, release="both", point_share=0.8, scale=0.5),
        "in order": lambda: gains_config(epsilon=0.16, release="both", point_share=0.8),
    }[kind]()
    done = run(chosen)
    state = done.diagnostics.state
    epsilon = done.guarantee.level
    np.testing.assert_allclose(chosen.epsilon_point, 0.8 * epsilon)
    scores = state.raw.utilities if kind == "in order" else state.raw.posterior.mean
    exact = np.exp(
        oracle.exponential_log_probabilities(np.asarray(scores), 0.8 * epsilon, float(chosen.point_sensitivity))
    )
    found = released(chosen, state)
    counts = np.bincount(np.asarray(found.row), minlength=40)
    pooled = exact * len(found.row) >= 5
    observed = np.append(counts[pooled], counts[~pooled].sum())
    expected = np.append(exact[pooled], exact[~pooled].sum()) * len(found.row)
    assert chisquare(observed + 1e-9, expected + 1e-9, sum_check=False).pvalue > 1e-3
    assert exact.max() > 1.5 / 40  # not the uniform distribution, which a mechanism that reads nothing would pass
    np.testing.assert_array_equal(found.point, CANDIDATES[np.asarray(found.row)])
    assert len(set(np.asarray(found.row).tolist())) > STEPS  # trap 17: not only among the points visited
    best = np.max(np.asarray(state.raw.utilities))
    noise = np.asarray(found.value) - float(chosen.centre + chosen.scale * best)
    scale = float(chosen.scale * chosen.value_sensitivity) / (0.2 * epsilon)
    assert kstest(noise, laplace_law(scale=scale).cdf).pvalue > 1e-3
    assert kstest(noise, laplace_law(scale=scale / 2).cdf).pvalue < 1e-9
    assert abs(np.corrcoef(found.value, np.asarray(scores)[np.asarray(found.row)])[0, 1]) < 0.05  # keys apart


def test_only_what_was_asked_for_is_released():
    assert run(config()).release.value is None
    value = run(config(release="value")).release
    assert value.point is None
    assert value.row is None
    assert run(gains_config()).release.row is None
    assert float(config().epsilon_value) == 0
    assert np.isinf(config().value_sensitivity)


def test_guarantees_say_what_each_algorithm_earns():
    exact, noisy = (dp_gp_ucb.algorithm.privacy(config(noise_variance=noise)) for noise in (0.0, 0.01))
    for statement in (exact, noisy):
        assert (statement.notion, statement.level, statement.delta) == ("prior_averaged_dp", 1.0, DELTA)
        assert statement.relation == "replace_one"
        assert any("Assumption 1" in name for name in statement.assumptions)
        with pytest.raises(ValueError, match="does not convert"):
            statement.epsilon(0.1)
    assert exact.assumptions != noisy.assumptions
    pure = dp_gp_ucb.algorithm.privacy(gains_config())
    assert (pure.notion, pure.level, pure.delta) == ("dp", 1.0, 0.0)
    assert pure.epsilon(1e-9) == 1.0
    assert assumptions.IDEAL_NOISE in pure.assumptions
    assert not any("Assumption 1" in name or "minimiser" in name for name in pure.assumptions)
    for changes, computed in (
        ({"noise": "exact"}, True), ({"noise": "float"}, False), ({"noise": "exact", "release": "value"}, False),
    ):  # fmt: skip
        stated = dp_gp_ucb.algorithm.privacy(config(noise_variance=0.01, **changes)).assumptions
        assert (assumptions.COMPUTED_MEAN in stated) == computed
    searched = dp_gp_ucb.algorithm.privacy(lambdas_config())
    assert any("exact minimiser" in name for name in searched.assumptions)
    anywhere = dp_gp_ucb.algorithm.privacy(search_config(gain_lipschitz=1.0))
    assert not any("minimiser" in name for name in anywhere.assumptions)  # the range of a gain rests on nothing
    both = dp_gp_ucb.algorithm.privacy(config(release="both", epsilon=3.0, point_share=0.25))
    assert both.level == pytest.approx(3.0)


def hills_or_valleys(point, record):
    """The utility of a validation set of one record, 1 or -1."""
    return record * hills(point, TOP)


@pytest.mark.parametrize(
    ("release", "noise_variance"), [("point", 0.01), ("value", 0.01), ("both", 0.01), ("value", 0.0)],
    ids=["corollary 1", "corollary 2", "section 3.2", "corollary 3"],
)  # fmt: skip
def test_a_worst_pair_breaks_corollaries_1_to_3(release, noise_variance):
    """P(A) > e^epsilon P'(A) + delta: DP is about every pair, and the prior allows every table of utilities.

    A validation set of one record, which is replaced: the utilities are hundreds of the prior's deviations apart.
    """
    chosen, hits, draws = config(release=release, noise_variance=noise_variance, scale=1e-3), [], 1000
    for record in (1.0, -1.0):
        done = run(chosen, jnp.asarray(record), hills_or_valleys)
        found = released(chosen, done.diagnostics.state, draws)
        of_first = np.ones(draws, bool) if found.row is None else UTILITIES[np.asarray(found.row)] > 0
        if found.value is not None:
            of_first &= np.asarray(found.value) > 0.6
        hits.append(np.sum(of_first))
    least = beta_law.ppf(1e-4, hits[0], draws - hits[0] + 1)  # Clopper-Pearson
    most = beta_law.ppf(1 - 1e-4, hits[1] + 1, draws - hits[1])
    assert least > np.exp(done.guarantee.level) * most + done.guarantee.delta
    assert done.guarantee.notion == "prior_averaged_dp"  # and so the code does not say DP


def test_the_papers_constants_earn_what_is_true_of_them():
    paper = {"constants": "paper"}
    assert dp_gp_ucb.algorithm.privacy(config(**paper)).notion == "prior_averaged_dp"  # theorem 1 holds
    for release in ("value", "both"):
        statement = dp_gp_ucb.algorithm.privacy(config(release=release, noise_variance=0.01, **paper))
        assert statement.notion == "none"
        assert "theorems 3 and 5" in statement.no_guarantee_reason
    assert dp_gp_ucb.algorithm.privacy(lambdas_config(**paper)).notion == "none"
    assert float(lambdas_config(**paper).value_sensitivity) < float(lambdas_config().value_sensitivity)


def lambdas_config(low=1.0, high=1.2, **changes):
    """Over ``lambda`` alone."""
    given = {"gain_lipschitz": 1.0, "loss_lipschitz": 1.0, "kernel_params": None}
    return search_config(**({"candidates": np.linspace(low, high, 4)[:, None]} | given | changes))


def test_the_fixed_set_shrinks_with_the_users_and_the_search_does_not():
    def moved(chosen):
        return float(chosen.value_sensitivity * chosen.scale)

    for users in (50, 5000):
        assert moved(gains_config(users=users)) == pytest.approx(2.0 / users)
        assert moved(lambdas_config(users=users)) == pytest.approx(1.0 * (1 - 1 / 1.2) + 2.0 / users)
        assert moved(lambdas_config(0.1, users=users)) == 2.0  # capped: no gain moves by more than its range
    assert moved(lambdas_config(gain_lipschitz=np.inf)) == 2.0  # nothing is known of the slopes: the range is left
    assert moved(lambdas_config(candidates=[[1.0]])) == pytest.approx(2.0 / 50)
    planes = search_config(gain_lipschitz=1.0, loss_lipschitz=1.0)  # two coordinates
    assert moved(planes) == 2.0


def test_in_order_evaluates_every_candidate_once():
    state = run(gains_config()).diagnostics.state
    np.testing.assert_allclose(np.asarray(state.raw.utilities) * 0.5 + 1.0, np.clip(UTILITIES, 0, 2), atol=1e-12)
    assert state.raw.posterior is None


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 1e308])
@pytest.mark.parametrize("kind", ["exact", "noisy", "in order", "box"])
def test_a_utility_that_is_no_number_is_a_bad_one_and_nothing_raises(junk, kind):
    chosen = {
        "exact": lambda: config(release="both"),
        "noisy": lambda: config(release="both", noise_variance=0.01),
        "in order": lambda: gains_config(release="both"),
        "box": boxed,
    }[kind]()
    done = run(chosen, jnp.asarray(junk), treacherous if chosen.users is None else treacherous_gains)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(done.release))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(done.diagnostics.state.raw))


def treacherous(point, data):
    """Junk on a part of the square."""
    return jnp.where(point[0] < 0.4, data, hills(point, TOP))


def treacherous_gains(point, data):
    return jnp.full(50, treacherous(point, data))


def test_preview_says_how_noisy_the_release_is():
    """Its probability is the mechanism's own, averaged over the prior; a usual budget gives a uniform draw."""
    usual, rich = (
        dp_gp_ucb.preview_release(config(release="both")),
        dp_gp_ucb.preview_release(config(release="both", epsilon=1e4)),
    )
    assert usual.best_percent < 1.5 * usual.uniform_percent
    assert usual.uniform_percent == 1 / 40
    assert rich.best_percent > 0.9
    assert rich.best_five_percent >= rich.best_percent
    chosen = config(epsilon=500.0, release="both", scale=3.0)
    found = dp_gp_ucb.preview_release(chosen, draws=2000)
    rng = np.random.default_rng(0)
    covariance = kernel_oracle.gram(kernel_oracle.matern52(LENGTHSCALE, 1.0), CANDIDATES, CANDIDATES)
    draws = rng.normal(size=(2000, 40)) @ np.linalg.cholesky(covariance + 1e-10 * np.eye(40)).T
    exact = np.exp(
        [oracle.exponential_log_probabilities(draw, 250.0, float(chosen.point_sensitivity)) for draw in draws]
    )
    ranked = np.sort(exact, axis=1)[:, ::-1]
    assert found.best_percent == pytest.approx(ranked[:, 0].mean(), rel=0.05)
    assert found.best_five_percent == pytest.approx(ranked[:, :2].sum(axis=1).mean(), rel=0.05)
    assert found.resolution == pytest.approx(2 * found.point_sensitivity / 250.0)
    assert found.point_sensitivity == pytest.approx(3 * float(chosen.point_sensitivity))
    state = dp_gp_ucb.algorithm.init(jax.random.key(0), chosen)
    noise = np.asarray(released(chosen, state).value)
    assert found.value_deviation == pytest.approx(noise.std(), rel=0.05)
    only = dp_gp_ucb.preview_release(config(release="value"))
    assert only.resolution is None
    assert only.value_deviation > 0
    ordered = dp_gp_ucb.preview_release(gains_config(users=10_000, release="both"))
    assert ordered.resolution == pytest.approx(2 * (2.0 / 10_000) / 0.5)
    assert ordered.best_percent > 0.5


def test_at_correlation_one_the_sensitivity_is_still_wider_than_the_utilities():
    """Kusner et al., section 6: the bounds are "quite small" there. No gap is left, and 2 sqrt(beta) is."""
    draws = np.linalg.cholesky(
        kernel_oracle.gram(kernel_oracle.matern52(LENGTHSCALE, 1.0), CANDIDATES, CANDIDATES) + 1e-10 * np.eye(40)
    ) @ np.random.default_rng(0).normal(size=(40, 2000))
    previews = [dp_gp_ucb.preview_release(config(release="both", noise_variance=0.01, correlation=of)) for of in (0, 1)]
    beta = prior_averaged_constants.confidence_beta(40, STEPS + 1, DELTA / 4)
    assert previews[1].point_sensitivity == pytest.approx(2 * np.sqrt(beta))
    assert min(previews[1].point_sensitivity, previews[1].value_sensitivity) > np.max(np.ptp(draws, axis=0))
    for found in previews:  # less at 1, and no help: the draw is as good as uniform
        assert found.best_percent < 1.5 * found.uniform_percent
    assert 0.5 * previews[0].point_sensitivity < previews[1].point_sensitivity < previews[0].point_sensitivity


GRID = np.stack(np.meshgrid(np.linspace(0, 1, 6), np.linspace(0, 1, 6)), -1).reshape(-1, 2)


def boxed(**changes):
    options = {
        "noise": "float", "steps": STEPS, "epsilon": 1.0, "delta": DELTA, "correlation": 0.95,
        "kernel_params": kernels.stationary_params(LENGTHSCALE, 2),
        "bounds": {"low": [0.0, 0.0], "high": [1.0, 1.0]}, "noise_variance": 0.01, "release": "both",
        "grid": GRID, "slope": (1.0, 5.0), "search": box_search.BoxSearch(50, 2, 10), "kernel": kernels.rbf,
    }  # fmt: skip
    return dp_gp_ucb.box_config(**(options | changes))


def test_over_a_box_the_point_comes_from_the_grid_and_the_search_finds_the_top():
    chosen = boxed(epsilon=1e5, release="both")
    done = run(chosen)
    assert np.any(np.all(np.asarray(done.release.point) == GRID, axis=1))
    np.testing.assert_array_equal(GRID[int(done.release.row)], done.release.point)
    on_grid = np.array([float(hills(jnp.asarray(point), TOP)) for point in GRID])
    assert float(hills(done.release.point, TOP)) > np.sort(on_grid)[-4]
    points = np.asarray(done.diagnostics.state.raw.posterior.points)
    assert np.all((points >= 0) & (points <= 1))
    assert np.max(np.asarray(done.diagnostics.state.raw.utilities)) > 0.9


def test_over_a_box_the_statements_are_composed():
    both, point, value = (boxed(release=release, **extra) for release, extra in (
        ("both", {}), ("point", {"slope": None}), ("value", {"grid": None}),
    ))  # fmt: skip
    assert float(both.delta) == float(point.delta) == DELTA
    assert float(point.point_sensitivity) < float(both.point_sensitivity)  # half of delta is left to it
    assert float(value.value_sensitivity) < float(both.value_sensitivity)
    share = prior_averaged_constants.shares(DELTA / 2, "point", exact=False)
    expected = sensitivity.posterior_mean(
        prior_averaged_constants.final_confidence_beta(36, share.confidence),
        sensitivity.utilities(36, 0.95, share.gap),
    )
    np.testing.assert_allclose(both.point_sensitivity, expected)
    statement = dp_gp_ucb.algorithm.privacy(value)
    assert any("maximises the upper confidence bound" in name for name in statement.assumptions)
    assert not any("maximises" in name for name in dp_gp_ucb.algorithm.privacy(point).assumptions)


def test_public_decay_constants_are_used_where_they_are_given():
    chosen = config(release="value", decay=(2.0, 0.5))
    gap = sensitivity.utilities(40, 0.95, DELTA / 3)
    np.testing.assert_allclose(
        chosen.value_sensitivity, prior_averaged_constants.decayed_regret(STEPS, 2, 2.0, 0.5) + gap
    )
    assert float(chosen.value_sensitivity) < float(config(release="value").value_sensitivity)


def test_a_hand_written_loop_that_runs_on_releases_nothing_more():
    chosen = config()
    snapshot = compiled_steps.begin(dp_gp_ucb.algorithm, jax.random.key(0), chosen)
    states = []
    for t in range(STEPS + 3):
        query = compiled_steps.ask(dp_gp_ucb.algorithm, jax.random.key(t), chosen, snapshot.state)
        values = jnp.asarray([float(t)])
        snapshot, _ = compiled_steps.learn(dp_gp_ucb.algorithm, jax.random.key(t), chosen, snapshot, query, values)
        states.append(snapshot)
    jax.tree.map(np.testing.assert_array_equal, states[-1], states[STEPS - 1])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"candidates": np.zeros((0, 2))}, ValueError, r"candidates must have shape \(c, d\)"),
        ({"candidates": [[0.0], [1.0], [0.0]]}, ValueError, r"candidates must be distinct, got \[0.0\] 2 times"),
        ({"candidates": [[np.inf]]}, ValueError, "candidates must be finite"),
        ({"correlation": 1.1}, ValueError, r"correlation must lie in \[0, 1\], got 1.1"),
        ({"correlation": -0.1}, ValueError, r"correlation must lie in \[0, 1\]"),
        ({"delta": 0.0}, ValueError, "delta must lie strictly between 0 and 1"),
        ({"delta": 1.0}, ValueError, "delta must lie strictly between 0 and 1"),
        ({"epsilon": 0.0}, ValueError, "epsilon must be positive"),
        ({"epsilon": np.inf}, ValueError, "epsilon must be finite"),
        ({"steps": 0}, ValueError, "steps must be at least 1"),
        ({"noise_variance": 1e-12}, ValueError, "noise_variance must be 0 or at least"),
        ({"noise_variance": -1.0}, ValueError, "noise_variance must be at least zero"),
        ({"release": "all"}, ValueError, "release must be one of"),
        ({"constants": "printed"}, ValueError, "constants must be one of"),
        ({"point_share": 1.0}, ValueError, "point_share must lie strictly"),
        ({"kernel_params": kernels.stationary_params(1.0, 2, variance=2.0)}, ValueError, "kernel must have variance 1"),
        ({"decay": (1.0, 1.0), "noise_variance": 0.1}, ValueError, "decay must be None unless observations"),
        ({"release": "value", "constants": "paper"}, ValueError, "decay must be given"),
        ({"scale": 0.0}, ValueError, "scale must be positive"),
        ({"centre": "here"}, TypeError, "centre must be one real number"),
        ({"centre": 1e15, "noise": "exact", "release": "value"}, ValueError, "centre must be nearer to 0"),
    ],
)
def test_bad_configurations_are_named(changes, error, message):
    with pytest.raises(error, match=message):
        config(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": None}, "grid must be given over a box where a point is released"),
        ({"release": "value"}, "grid must be given over a box where a point is released, and only then"),
        ({"slope": None}, "slope must be given over a box where a value is released"),
        ({"noise_variance": 0.0}, "noise_variance must be positive, got 0.0"),
        ({"bounds": {"low": [1.0, 1.0], "high": [0.0, 0.0]}}, "bounds must"),
        ({"search": box_search.BoxSearch(4, 5, 1)}, "num_restarts must be at most raw_samples = 4, got 5"),
        ({"search": box_search.BoxSearch(0, 1, 1)}, "raw_samples must be at least 1"),
    ],
)
def test_bad_boxes_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        boxed(**changes)


def test_float32_refuses_a_point_from_exact_utilities(float32):
    with pytest.raises(ValueError, match="noise_variance must be positive where a point is released in float32"):
        config(noise="exact")
    assert config(noise="exact", release="value").noise == config(noise="exact", noise_variance=0.01).noise == "exact"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"release": "all"}, "release must be one of"),
        ({"users": 0}, "users must be at least 1"),
        ({"largest_gain": 0.0}, "largest_gain must be positive"),
        ({"largest_gain": 1e-305}, "largest_gain must be within"),
    ],
)
def test_bad_in_order_configurations_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        gains_config(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"acquisition": "greedy"}, "acquisition must be one of"),
        ({"acquisition": "in_order"}, "acquisition must be one of"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"largest_gain": 1e-305}, "largest_gain must be within"),
        (
            {"candidates": [[-1.0], [1.0]], "kernel_params": None, "gain_lipschitz": 1.0, "loss_lipschitz": 1.0},
            "candidates must be positive, as each is a lambda, got -1",
        ),
    ],
)
def test_bad_lipschitz_configurations_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        search_config(**changes)


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        (gains_config, {"steps": 40}),
        (gains_config, {"gain_lipschitz": 1.0}),
        (gains_config, {"loss_lipschitz": 1.0}),
        (gains_config, {"acquisition": "ucb"}),
        (gains_config, {"beta": 4.0}),
        (gains_config, {"constants": "paper"}),
        (search_config, {"release": "point"}),
        (search_config, {"point_share": 0.5}),
    ],
)
def test_what_is_for_one_of_the_two_configs_of_gains_is_refused_by_the_other(make, changes):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{next(iter(changes))}'"):
        make(**changes)
