"""DPareto finds fronts that random settings do not, keeps whole numbers whole, survives what oracles may return."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import pareto as oracle
from protocol_cases import CASES
from scipy.special import logit
from scipy.stats import norm

from jaxdpbo import drivers
from jaxdpbo.algorithms import dpareto
from jaxdpbo.algorithms.dpareto import configs, predictions, surrogates
from jaxdpbo.algorithms.dpareto.run import MANY
from jaxdpbo.drivers import compiled_steps
from jaxdpbo.surrogate import batched_gp, box_search, gp, pareto

BOUNDS = np.array([[0.0, 1.0, -1.0], [1.0, 9.0, 1.0]])
INTEGERS = [False, True, False]
SEEDS, PROPOSALS = 6, 24


def settings(count, seed=0):
    rng = np.random.default_rng(seed)
    points = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * rng.uniform(size=(count, 3))
    points[:, 1] = np.round(points[:, 1])
    return points


def config(**changes):
    options = {
        "bounds": BOUNDS,
        "initial_design": settings(SEEDS),
        "proposals": PROPOSALS,
        "integer_mask": INTEGERS,
        "search": box_search.BoxSearch(200, 4, 12),
    }
    return dpareto.config(**(options | changes))


def trade(point, data):
    """More of the first is less epsilon and more error; the others are best at 5 and 0."""
    lost = data * (jnp.square((point[1] - 5) / 8) + jnp.square(point[2]))
    epsilon = jnp.exp(2.5 - 5 * point[0] + lost)
    return jnp.stack([epsilon, jax.nn.sigmoid(-2 + 3 * point[0] + lost)])


def measured(point, data):
    """``trade``, and beyond a limit of the first something else: one program for all searches here."""
    strength, limit, beyond = data
    return jnp.where(point[0] > limit, beyond, trade(point, strength))


def data_of(limit=jnp.inf, beyond=(1.0, 0.5)):
    return jnp.asarray(2.0), jnp.asarray(limit, float), jnp.asarray(beyond)


def run(chosen=None, seed=0, **data):
    return drivers.run_scan(
        dpareto.algorithm,
        measured,
        data_of(**data),
        chosen or config(),
        key=jax.random.key(seed),
        diagnostics=True,
    )


def test_the_seeds_come_first_and_everything_is_inside_and_whole():
    done = run()
    released = done.release
    np.testing.assert_allclose(released.points[:SEEDS], settings(SEEDS), atol=1e-12)
    points = np.asarray(released.points)
    assert len(points) == SEEDS + PROPOSALS
    assert np.all((points >= BOUNDS[0] - 1e-12) & (points <= BOUNDS[1] + 1e-12))
    np.testing.assert_array_equal(points[:, 1], np.round(points[:, 1]))
    assert len(np.unique(points[:, 1])) > 2
    values = np.array([trade(point, 2.0) for point in points])
    np.testing.assert_allclose(released.values, values, rtol=1e-9)
    expected = [not oracle.dominated(v, values) for v in values]
    np.testing.assert_array_equal(released.front, expected)
    assert released.hypervolume == pytest.approx(oracle.hypervolume(values, np.array([10.0, 0.999])), rel=1e-9)
    volumes = np.asarray(done.diagnostics.info.raw["hypervolume"])
    assert np.all(np.diff(volumes) >= -1e-12)


def test_it_finds_more_than_random_settings_do():
    """The expected improvement of the transformed front, too, but by less: it is another front than this one."""
    worst = np.array([10.0, 0.999])
    random = [
        oracle.hypervolume(np.array([trade(p, 2.0) for p in settings(SEEDS + 24, seed)]), worst)
        for seed in range(1, 11)
    ]
    for acquisition, beaten in (("hvpoi", max(random)), ("hvpoi_transformed", max(random)), ("ehvi", np.mean(random))):
        assert run(config(acquisition=acquisition)).release.hypervolume > beaten


@pytest.mark.full
def test_a_batch_is_of_different_settings_and_nearly_as_good():
    done = run(config(batch=3))
    points = np.asarray(done.release.points)
    for start in range(SEEDS, len(points), 3):
        assert len(np.unique(np.round(points[start : start + 3], 6), axis=0)) == 3
    assert done.release.hypervolume > 0.95 * run().release.hypervolume


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ((0.0, 0.5), dpareto.BAD_EPSILON), ((np.inf, 0.5), dpareto.BAD_EPSILON), ((np.nan, 0.5), dpareto.BAD_EPSILON),
        ((-1.0, 0.5), dpareto.BAD_EPSILON), ((1.0, np.nan), dpareto.BAD_ERROR), ((1.0, 1.5), dpareto.BAD_ERROR),
        ((1.0, -0.1), dpareto.BAD_ERROR), ((1e-300, 0.0), dpareto.USABLE), ((1e300, 1.0), dpareto.USABLE),
    ],
)  # fmt: skip
def test_what_an_oracle_may_return_is_a_failed_setting_with_a_reason(values, reason):
    spoiled = run(seed=1, limit=0.5, beyond=values)
    failed = np.asarray(spoiled.release.failed)
    bad = np.asarray(spoiled.release.points)[:, 0] > 0.5
    assert bad.any()
    np.testing.assert_array_equal(failed[bad], reason)
    assert np.all(failed[~bad] == dpareto.USABLE)
    assert not np.any(np.asarray(spoiled.release.front)[failed != dpareto.USABLE])
    private = spoiled.diagnostics.state.raw
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((private.units, private.models)))
    assert np.isfinite(spoiled.release.hypervolume)


def test_the_surrogates_are_fitted_from_the_last_seed_on():
    case = CASES["dpareto"]
    chosen = case.config(1.0)
    seeds, fitted = len(chosen.initial_design), []
    snapshot = compiled_steps.begin(case.algorithm, jax.random.key(0), chosen)
    for step in range(chosen.steps):
        query = compiled_steps.ask(case.algorithm, jax.random.key(step), chosen, snapshot.state)
        values = jnp.asarray([[0.5 + step, 0.9 / (1 + step)]])
        after, _ = compiled_steps.learn(case.algorithm, jax.random.key(step), chosen, snapshot, query, values)
        fitted.append(not all(jax.tree.leaves(jax.tree.map(np.array_equal, *(
            each.state.raw.models for each in (snapshot, after)
        )))))  # fmt: skip
        snapshot = after
    assert fitted == [step + 1 >= seeds for step in range(chosen.steps)]


@pytest.mark.daily("3")
@pytest.mark.parametrize("batch", [1, 3])
def test_what_whitens_the_settings_is_that_of_the_models_however_it_grew(batch):
    """After refits, which make every row anew, and after settings that came since the last of them."""
    chosen = config(batch=batch, proposals=66, search=box_search.BoxSearch(8, 1, 1), fit_steps=1)
    private = run(chosen, limit=0.9, beyond=(jnp.nan, 0.5)).diagnostics.state.raw
    assert len(private.units) > max(batched_gp.BLOCK, MANY)
    for model, whitening in zip(private.models, private.whitening, strict=True):
        expected = gp.condition(model, private.units, private.failed != dpareto.UNMEASURED).whitening
        np.testing.assert_allclose(whitening, expected, atol=1e-7 * np.max(np.abs(expected)))


def test_what_a_front_leaves_is_the_same_of_epsilon_and_error_as_of_what_the_processes_see():
    chosen, done = config(), run(seed=2, limit=0.9)
    private = done.diagnostics.state.raw
    ok = private.failed == dpareto.USABLE
    given = surrogates.standardise_values(chosen, private.units, private.values, ok, ok, private.models)
    found = jax.jit(surrogates.undominated_region)(chosen, given).original
    expected = pareto.undominated_strips(private.values, ok, chosen.reference)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_search_of_nothing_but_failures_goes_on():
    done = run(limit=-jnp.inf, beyond=(jnp.inf, 0.5))
    assert not np.any(done.release.front)
    assert done.release.hypervolume == 0
    with pytest.raises(ValueError, match="released must hold a setting that counts"):
        dpareto.best_setting(jax.random.key(0), config(), done.release, epsilon=1.0)
    assert len(np.unique(np.asarray(done.release.points)[SEEDS:], axis=0)) > 3


def test_one_program_serves_anti_ideals_bounds_and_seeds(compilations):
    run()
    others = [
        config(reference=(3.0, 0.8)),
        config(initial_design=settings(SEEDS, 3)),
        config(bounds=BOUNDS * [[1.0], [2.0]]),
    ]
    keys = jax.random.key(0)
    compilations.clear()
    for other in others:
        jax.block_until_ready(
            drivers.run_scan(dpareto.algorithm, measured, data_of(limit=0.9), other, key=keys).release
        )
    assert compilations["programs"] <= 6  # conversions of the data, not the search


def test_surrogates_see_whole_numbers_as_whole():
    """Of bounds 1 to 9: 3.4 is asked for as 3, a quarter of the side."""
    np.testing.assert_allclose(configs.snap(config(), jnp.array([0.3, 0.3, 0.3])), [0.3, 0.25, 0.3])


def test_the_best_setting_is_searched_from_the_best_that_was_measured_within_epsilon(monkeypatch):
    """Of three: one has too large an epsilon, and one of the others less error."""
    chosen = dpareto.config(bounds=[[0.0], [1.0]], initial_design=[[0.2], [0.5], [0.8]], proposals=1)
    points, values = jnp.array([[0.2], [0.5], [0.8]]), jnp.array([[2.0, 0.1], [0.7, 0.3], [0.5, 0.4]])
    usable = jnp.zeros(3, jnp.int32)
    released = dpareto.Release(points[0], points, values, usable, usable == 0, jnp.asarray(1.0), chosen.model)
    monkeypatch.setattr(box_search, "sample_and_ascend", lambda *_, incumbent, **__: (incumbent, None))
    found = jax.jit(predictions._best_setting.__wrapped__)(jax.random.key(0), chosen, released, jnp.asarray(1.0))
    np.testing.assert_allclose(found.point, [0.5])


def test_a_front_has_no_guarantee_and_says_why():
    statement = dpareto.algorithm.privacy(config())
    assert statement.notion == "none"
    assert "choosing among them is not" in str(statement)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"bounds": BOUNDS[::-1]}, ValueError, "bounds"),
        ({"initial_design": settings(SEEDS) + 5}, ValueError, "initial_design must be inside bounds"),
        ({"initial_design": settings(SEEDS) - 9}, ValueError, "initial_design must be inside bounds"),
        (
            {"initial_design": settings(SEEDS)[:, :2]},
            ValueError,
            r"initial_design must be inside bounds, got .*\(6, 2\)",
        ),
        (
            {"initial_design": settings(5), "batch": 3},
            ValueError,
            "initial_design must be a multiple of the batch 3, got 5",
        ),
        ({"proposals": 4, "batch": 3}, ValueError, "proposals must be a multiple of the batch 3, got 4"),
        ({"integer_mask": [True]}, ValueError, "integer_mask must be 3 booleans"),
        (
            {"integer_mask": [False, True, True], "bounds": BOUNDS * 0.5, "initial_design": settings(SEEDS) * 0.5},
            ValueError,
            "bounds must be whole numbers where integer_mask",
        ),
        ({"reference": (0.0, 0.5)}, ValueError, "reference must be positive"),
        ({"reference": (1.0, 1.0)}, ValueError, "reference must lie strictly"),
        ({"acquisition": "guess"}, ValueError, "acquisition must be one of"),
        ({"proposals": 0}, ValueError, "proposals must be at least 1"),
        ({"search": (8, 1, 1)}, TypeError, "search must be a surrogate.BoxSearch, such as BoxSearch.*, got tuple"),
        ({"search": box_search.BoxSearch(8, 9, 1)}, ValueError, "num_restarts must be at most raw_samples = 8, got 9"),
        ({"search": box_search.BoxSearch(8, 1, 0)}, ValueError, "ascent_steps must be at least 1"),
    ],
)
def test_bad_configurations_are_named(changes, error, message):
    with pytest.raises(error, match=message):
        config(**changes)


def gain_by_hand(values, mean, deviation):
    """What the median gains in epsilon and error, times the share of draws that are not dominated."""
    worst = np.array([10.0, 0.999])
    mean, deviation = np.asarray(mean), np.asarray(deviation)
    median = np.array([np.exp(mean[0]), 1 / (1 + np.exp(-mean[1]))])
    gain = oracle.hypervolume(np.vstack([values, median]), worst) - oracle.hypervolume(values, worst)
    draws = mean + deviation * np.random.default_rng(0).normal(size=(20_000, 2))
    drawn = np.stack([np.exp(draws[:, 0]), 1 / (1 + np.exp(-draws[:, 1]))], axis=1)
    beaten = np.any(np.all(values[None] <= drawn[:, None], axis=2), axis=1)
    return gain * np.mean(~beaten & np.all(drawn < worst, axis=1))


@pytest.mark.full
def test_what_is_expected_afterwards_is_near_the_truth():
    chosen = config()
    released = run(chosen).release
    points = settings(50, 9)
    mean, deviation = dpareto.predict_settings(chosen, released, points)
    truth = np.array([trade(point, 2.0) for point in points])
    apart = (np.log(truth[:, 0]) - mean[:, 0]) / deviation[:, 0]
    assert np.corrcoef(np.log(truth[:, 0]), mean[:, 0])[0, 1] > 0.9
    assert np.mean(np.abs(apart) < 4) > 0.7
    gains = dpareto.improvement(chosen, released, np.concatenate([points, released.points[np.asarray(released.front)]]))
    assert np.all(gains >= 0)
    expected = [gain_by_hand(np.asarray(released.values), *some) for some in zip(mean, deviation, strict=True)]
    np.testing.assert_allclose(gains[:50], expected, rtol=0.03, atol=2e-4)
    for wanted in (0.5, 3.0):
        found = dpareto.best_setting(jax.random.key(0), chosen, released, epsilon=wanted)
        epsilon, error = trade(found.point, 2.0)
        assert found.epsilon[0] < found.epsilon[1] <= wanted * 1.01 < found.epsilon[2] * 2
        assert epsilon < 1.5 * wanted
        assert found.error[0] < found.error[1] < found.error[2]
        mean, deviation = (each[0] for each in dpareto.predict_settings(chosen, released, found.point[None]))
        ends = norm.ppf([0.025, 0.5, 0.975])
        np.testing.assert_allclose(jnp.log(found.epsilon), mean[0] + deviation[0] * ends, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(logit(found.error), mean[1] + deviation[1] * ends, rtol=1e-3, atol=1e-4)
        measured = np.asarray(released.values)[np.asarray(released.values)[:, 0] <= wanted, 1]
        assert error < measured.min() + 0.05
        assert found.point[1] == round(float(found.point[1]))
    with pytest.raises(ValueError, match="epsilon must be positive"):
        dpareto.best_setting(jax.random.key(0), chosen, released, epsilon=0.0)
    with pytest.raises(TypeError, match="typed key"):
        dpareto.best_setting(0, chosen, released, epsilon=1.0)
