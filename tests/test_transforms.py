"""Transforms for outsourcing: noise of the stated distribution, and guarantees that say what each earns."""

import math
from fractions import Fraction

import jax
import numpy as np
import pytest
from oracles import discrete
from oracles import input_noise as oracle
from scipy.stats import binom, chisquare, kstest, laplace, norm
from transform_cases import CENTRE, SOUND, curate, published, soundly

from jaxdpbo import accounting, audit, input_noise, transforms
from jaxdpbo.guarantee import assumptions
from jaxdpbo.noise import keys, mechanisms
from jaxdpbo.noise.mechanisms import tables

GRID = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), -1).reshape(-1, 2)
CELLS = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])


@pytest.mark.daily("1", "5")
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_draws_have_the_law_that_is_said(dimension):
    for kind in input_noise.KINDS:
        distribution = input_noise.distribution(kind, 0.7, dimension)
        drawn = np.asarray(
            jax.jit(lambda key, distribution=distribution: input_noise.draw_noise(key, distribution, 20_000))(
                jax.random.key(0)
            )
        )
        assert drawn.shape == (20_000, dimension)
        np.testing.assert_allclose(
            np.cov(drawn.T),
            input_noise.variance(distribution) * np.eye(dimension),
            atol=0.06 * input_noise.variance(distribution),
        )
        if kind != "planar_laplace":
            own = norm(scale=0.7) if kind == "gaussian" else laplace(scale=0.7)
            assert kstest(drawn[:, 0], own.cdf).pvalue > 1e-3
            assert kstest(drawn[:, -1] * 1.2, own.cdf).pvalue < 1e-3
            continue
        radii = np.linalg.norm(drawn, axis=1)
        ends = np.linspace(0.1, 6.0, 25)
        expected = oracle.planar_laplace_radius_cdf(ends, 0.7, dimension)
        np.testing.assert_allclose([np.mean(radii <= end) for end in ends], expected, atol=0.015)
        wrong = oracle.planar_laplace_radius_cdf(ends, 0.7 * 1.5, dimension)
        assert np.max(np.abs(np.array([np.mean(radii <= end) for end in ends]) - wrong)) > 0.1
        if dimension > 1:
            angle = np.arctan2(drawn[:, 0], drawn[:, 1])
            assert kstest((angle + np.pi) / (2 * np.pi), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("noise", ["float", "exact"])
def test_the_released_noise_is_that_of_the_metadata(name, noise):
    chosen = soundly(scale=3.0, noise=noise)[name]
    inputs = np.random.default_rng(0).normal(size=(20_000, len(chosen.centre)))
    curated = transforms.curate(jax.random.key(0), chosen, inputs, insecure_key=True)
    rows = (inputs - chosen.centre) / 3.0
    if curated.metadata.projection is not None:
        rows = rows @ np.asarray(curated.metadata.projection)
    noise = np.asarray(curated.z) - rows
    np.testing.assert_allclose(noise.var(axis=0), input_noise.variance(curated.metadata.distribution), rtol=0.05)
    assert curated.metadata.scale == 3.0
    assert abs(np.corrcoef(noise[:, 0], rows[:, 0])[0, 1]) < 0.03
    assert np.all(np.abs(noise.mean(axis=0)) < 5 * noise.std(axis=0) / 20_000**0.5)


@pytest.mark.parametrize("name", SOUND)
def test_exact_rows_are_cells_of_a_grid_and_cost_what_is_said(name):
    near, anywhere = (soundly(noise="exact", radius=radius)[name] for radius in (None, 2.0))
    inputs = np.random.default_rng(1).normal(size=(50, len(near.centre)))
    for chosen in (near, anywhere):
        curated = transforms.curate(None, chosen, inputs)
        stretch = curated.metadata.distribution.scale / chosen.distribution.scale
        cells = np.asarray(curated.z) / (chosen.cell * stretch) - 0.5
        np.testing.assert_allclose(cells, np.rint(cells), atol=1e-6)
        statement = curated.guarantee
        assert set(statement.assumptions) == {
            assumptions.RANDOM_BITS,
            assumptions.PUBLIC_CONFIG,
        }
        assert statement.total_variation == 2.0**-100
        stated = soundly(radius=None if chosen is near else 2.0)[name]
        assert stated.guarantee.level * 0.98 < statement.level <= stated.guarantee.level
        assert (
            stated.distribution.scale
            < chosen.distribution.scale
            < stated.distribution.scale * (1.25 if name == "planar_laplace" else 1.02)
        )


def test_exact_noise_that_a_grid_cannot_give_is_refused():
    common = {"centre": CENTRE, "scale": 1.0}
    for call, message in (
        (lambda: transforms.planar_laplace(epsilon=0.2, **common), "epsilon be at least 0.5"),
        (lambda: transforms.planar_laplace(epsilon=1.0, centre=np.zeros(3), scale=1.0), "must have 2 coordinates"),
        (lambda: transforms.product_laplace(epsilon=1e-4, **common), "epsilon must be at least"),
        (lambda: transforms.gaussian(epsilon=1e-6, delta=1e-9, **common), "epsilon must be larger"),
        (lambda: transforms.gaussian(epsilon=1.0, delta=1e-9, noise="none", **common), "noise must be one of"),
        (lambda: transforms.planar_laplace(epsilon=1e9, **common), "epsilon must be smaller"),
        (lambda: transforms.product_laplace(centre=CENTRE, scale=1e-300, epsilon=1.0), "scale must give cells"),
        (
            lambda: transforms.private_projection(
                centre=np.zeros(100_000), scale=1.0, projected=2, epsilon=1.0, delta=1e-5
            ),
            "centre must have fewer coordinates",
        ),
        (
            lambda: transforms.randomised_response(cells=CELLS, epsilon=1e-300, **common),
            "epsilon must be at least 5.29e-38 for 3 answers",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_guarantees_say_what_each_transform_earns():
    near, anywhere = soundly(epsilon=2.0), soundly(epsilon=2.0, radius=25.0)
    mu = accounting.gdp_mu(2.0, 1e-5)
    for name, notion, level in (
        ("planar_laplace", "metric_dp", 2.0), ("product_laplace", "metric_dp", 2.0), ("gaussian", "gdp", mu),
        ("private_projection", "gdp", mu),
    ):  # fmt: skip
        assert (near[name].guarantee.notion, near[name].guarantee.relation) == (notion, "unit_distance")
        assert near[name].guarantee.level == pytest.approx(level)
        assert anywhere[name].guarantee.relation == "replace_one"
        assert anywhere[name].distribution.scale == pytest.approx(50 * near[name].distribution.scale)
    assert anywhere["planar_laplace"].guarantee.notion == "dp"
    assert near["gaussian"].distribution.scale == pytest.approx(1 / mu)
    respond = transforms.randomised_response(centre=CENTRE, scale=1.0, epsilon=1.5, cells=CELLS).guarantee
    assert (respond.notion, respond.level, respond.relation) == ("dp", 1.5, "replace_one")
    nothing = published().guarantee
    assert nothing.notion == "none"
    assert "column-space attack" in nothing.no_guarantee_reason


def test_the_published_transform_is_algorithm_1():
    """Both branches, by their definition: the matrix M is recovered, and is standard normal."""
    for epsilon, raised in ((1e4, False), (0.1, True)):
        chosen = published(projected=400, epsilon=epsilon)
        omega = 16 * math.sqrt(400 * math.log(2e5)) * math.log(16 * 400 * 1e5) / epsilon
        assert chosen.threshold == pytest.approx(omega)
        z = np.asarray(transforms.curate(jax.random.key(0), chosen, GRID).z)
        centred = GRID - GRID.mean(axis=0)
        left, singular, right = np.linalg.svd(centred, full_matrices=False)
        assert (singular.min() < omega) == raised
        values = np.sqrt(singular**2 + omega**2) if raised else singular
        matrix = np.linalg.lstsq((left * values) @ right, z * math.sqrt(400), rcond=None)[0]
        assert kstest(matrix.ravel(), norm.cdf).pvalue > 1e-3
        np.testing.assert_allclose((left * values) @ right @ matrix / 20, z, atol=1e-9 * np.abs(z).max())


@pytest.mark.parametrize("noise", transforms.NOISES)
def test_randomised_response_answers_as_often_as_it_says(noise):
    epsilon, count = 1.2, 30_000
    chosen = transforms.randomised_response(centre=np.zeros(2), scale=1.0, epsilon=epsilon, cells=CELLS, noise=noise)
    truth = math.exp(epsilon) / (math.exp(epsilon) + 2)
    counted = []
    for row in CELLS:
        z = np.asarray(curate(jax.random.key(int(row.sum())), chosen, np.tile(row + 0.4, (count, 1))))
        counted.append([int(np.all(z == cell, axis=1).sum()) for cell in CELLS])
    for answers, cell in zip(counted, range(3), strict=True):
        expected = np.full(3, (1 - truth) / 2)
        expected[cell] = truth
        assert chisquare(answers, expected * count).pvalue > 1e-3
    shown = audit.epsilon_lower_bound(counted[0][0], counted[1][0], count).epsilon
    assert 0.9 * epsilon < shown <= epsilon


def test_odds_of_a_randomised_response_are_at_most_what_is_said(monkeypatch, trials):
    """Of the table that is drawn from, in integers: K = 2 and epsilon = 1e-15 had odds of 1 + 6.2e-15."""
    given, rng = [], np.random.default_rng(0)

    def outcome(key, shape, probabilities):
        given.append(probabilities)
        return np.zeros(shape, np.int32)

    monkeypatch.setattr(mechanisms, "outcome", outcome)
    number = trials("epsilons and numbers of cells of a randomised response", 60, 4000, 0)
    cases = [(1e-15, 2), (1e-16, 2), (1e-16, 50), (50.0, 2), (50.0, 50), (88.7, 3), (700.0, 2), (700.0, 50)]
    cases += [(float(10 ** rng.uniform(-16, 1.7)), int(rng.integers(2, 51))) for _ in range(number)]
    cases += [(count**2 * 2.0**-127, count) for count in (2, 3, 7, 50)]
    for epsilon, count in cases:
        cells = np.arange(float(count))[:, None]
        chosen = transforms.randomised_response(centre=[0.0], scale=1.0, epsilon=epsilon, cells=cells)
        transforms.curate(jax.random.key(0), chosen, [[0.0]], insecure_key=True)
        drawn = discrete.drawn(tables.choice(given.pop()))
        most = discrete.power_below(Fraction(epsilon))
        assert len(drawn) == count
        assert max(drawn) <= most * min(drawn), (epsilon, count)
        assert chosen.distribution.truth == pytest.approx(drawn[0] / 2**128, rel=1e-15)
        if epsilon > 1e-30:
            odds = Fraction(drawn[0], drawn[1])
            assert odds - 1 > (most - 1) * Fraction(99, 100) or epsilon > 80
    for count in (2, 50):
        with pytest.raises(ValueError, match="epsilon must be at least"):
            tables.truth(count**2 * 2.0**-127.1, count)


@pytest.mark.parametrize("noise", transforms.NOISES)
def test_a_key_passed_in_is_an_assumption_and_none_comes_from_the_operating_system(noise):
    chosen = soundly(noise=noise)["gaussian"]
    passed = transforms.curate(keys.key_from_bytes(bytes(32)), chosen, GRID)
    assert assumptions.KEY_SECRET in passed.guarantee.assumptions
    drawn = [transforms.curate(None, chosen, GRID) for _ in range(2)]
    assert all(assumptions.KEY_SECRET not in one.guarantee.assumptions for one in drawn)
    # Two exact draws are equal with probability 7e-5: of 800 numbers nine or more never are, of 100 one sometimes was.
    assert np.mean(np.asarray(drawn[0].z) != np.asarray(drawn[1].z)) > 0.99


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("noise", transforms.NOISES)
def test_a_row_that_is_no_number_is_the_centre_and_nothing_raises(junk, noise):
    respond = transforms.randomised_response(centre=CENTRE, scale=1.0, epsilon=1.0, cells=CELLS, noise=noise)
    for chosen in (*soundly(radius=2.0, noise=noise).values(), *soundly(noise=noise).values(), respond, published(2)):
        inputs = np.zeros((6, len(chosen.centre)))
        inputs[1:3, 0] = junk, 3.0
        centred = inputs.copy()
        centred[1] = 0.0 if chosen.kind == "random_projection" else chosen.centre
        found, expected = (np.asarray(curate(jax.random.key(0), chosen, rows)) for rows in (inputs, centred))
        assert np.all(np.isfinite(found))
        same = np.arange(6) != 1 if np.isfinite(junk) else slice(None)  # a far row is brought nearer, and is no junk
        if chosen.kind != "random_projection" or not np.isfinite(junk):
            np.testing.assert_array_equal(found[same], expected[same])


@pytest.mark.parametrize("noise", transforms.NOISES)
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_rows_are_brought_into_the_ball_where_the_guarantee_is_for_any_replacement(noise, scale):
    """So little noise that the row itself shows."""
    rows = np.array([[30.0, 40.0, 0], [0.5, -0.5, 0], [1e4, 1e4, 0], [-1e200, 0, 0], [0, 2.5, 0], [np.nan, 1, 0]])
    inside = np.array([[1.2, 1.6, 0], [0.5, -0.5, 0], [2**0.5, 2**0.5, 0], [-2.0, 0, 0], [0, 2.0, 0], [0, 0, 0]])
    for chosen in soundly(epsilon=1e6, radius=2.0, scale=scale, noise=noise).values():
        dimension = len(chosen.centre)
        given = chosen.centre + scale * rows[:, :dimension]
        curated = transforms.curate(jax.random.key(0), chosen, given, insecure_key=True)
        projection = np.eye(dimension) if curated.metadata.projection is None else curated.metadata.projection
        wanted, noises = (
            inside[:, :dimension] @ np.asarray(projection),
            8 * input_noise.variance(curated.metadata.distribution) ** 0.5,
        )
        assert noises + chosen.cell < 0.05
        np.testing.assert_allclose(curated.z, wanted, rtol=0, atol=noises + chosen.cell, err_msg=chosen.kind)


@pytest.mark.parametrize("noise", transforms.NOISES)
def test_the_unit_of_a_statement_is_the_scale_of_its_transform(noise):
    inputs = np.ones((6, 3))
    for name in SOUND:
        statements = []
        for scale in (1.0, 1e-3):
            near, anywhere = (soundly(scale=scale, radius=radius, noise=noise)[name] for radius in (None, 2.0))
            for chosen, unit in ((near, scale), (anywhere, None)):
                given = inputs[:, : len(chosen.centre)]
                curated = transforms.curate(jax.random.key(0), chosen, given, insecure_key=True)
                assert curated.guarantee.unit == chosen.guarantee.unit == unit
                assert curated.metadata.scale == scale
            statements.append(near.guarantee)
        assert statements[0] != statements[1]
    respond = transforms.randomised_response(centre=CENTRE, scale=2.0, epsilon=1.0, cells=CELLS, noise=noise)
    assert respond.guarantee.unit is None


@pytest.mark.parametrize("noise", transforms.NOISES)
def test_curate_is_not_traced(noise):
    chosen, key = soundly(noise=noise)["product_laplace"], jax.random.key(0)
    for call, traced in (
        (lambda: jax.jit(lambda rows: curate(key, chosen, rows))(GRID), "inputs"),
        (lambda: jax.grad(lambda rows: curate(key, chosen, rows).sum())(GRID), "inputs"),
        (lambda: jax.jit(lambda key: curate(key, chosen, GRID))(key), "key"),
        (lambda: jax.vmap(lambda key: curate(key, chosen, GRID))(jax.random.split(key)), "key"),
        (lambda: jax.jit(lambda: curate(key, chosen, GRID))(), "key"),
        (lambda: jax.jit(lambda rows: curate(None, chosen, rows))(GRID), "inputs"),
    ):
        with pytest.raises(TypeError, match=f"{traced} must not be traced"):
            call()


def test_an_audit_covers_as_often_as_it_says():
    """Of true rates whose ratio is known, the bound exceeds it in at most 5 % of audits."""
    p, q, count = 0.3, 0.1, 500
    rng = np.random.default_rng(0)
    truth = math.log(p / q)
    bounds = [
        audit.epsilon_lower_bound(int(a), int(b), count).epsilon
        for a, b in zip(
            binom.rvs(count, p, size=400, random_state=rng),
            binom.rvs(count, q, size=400, random_state=rng),
            strict=True,
        )
    ]
    assert np.mean(np.array(bounds) > truth) <= 0.05
    assert np.mean(bounds) > 0.5 * truth
    assert audit.epsilon_lower_bound(0, 50, 100).epsilon == 0
    assert audit.epsilon_lower_bound(100, 0, 100, delta=1e-5).epsilon == pytest.approx(
        math.log((0.025**0.01 - 1e-5) / (1 - 0.025**0.01))
    )


def test_a_threshold_is_not_judged_on_the_trials_that_chose_it():
    """Trap 33: scores that say nothing show nothing, though their best threshold in hindsight would."""
    rng = np.random.default_rng(1)
    shown = [audit.threshold_audit(*rng.normal(size=(2, 400))).epsilon for _ in range(200)]
    assert np.mean(np.array(shown) > 0) <= 0.05
    assert audit.threshold_audit(rng.normal(2, 1, 4000), rng.normal(0, 1, 4000)).epsilon > 2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: published(0), ValueError, "projected must be at least 1"),
        (lambda: published(epsilon=0.0), ValueError, "epsilon must be positive"),
        (
            lambda: transforms.random_projection(dimension=2, projected=2, epsilon=1.0, delta=0.1, scale=-1.0),
            ValueError, "scale must be positive, got -1.0",
        ),
        (lambda: soundly(scale=0.0), ValueError, "scale must be positive"),
        (lambda: soundly(radius=-1.0), ValueError, "radius must be positive"),
        (lambda: soundly(centre=[np.nan, 0]), ValueError, "centre must be finite"),
        (lambda: transforms.planar_laplace(scale=1.0, epsilon=1.0), TypeError, "centre"),
        (
            lambda: transforms.private_projection(centre=CENTRE, scale=1.0, projected=2, epsilon=1.0, delta=0.1),
            ValueError, "projected must be under the dimension 2, got 2",
        ),
        (
            lambda: transforms.private_projection(centre=CENTRE, scale=1.0, projected=0, epsilon=1.0, delta=0.1),
            ValueError, "projected must be at least 1, got 0",
        ),
        (
            lambda: transforms.randomised_response(centre=CENTRE, scale=1.0, epsilon=1.0, cells=CELLS[:1]),
            ValueError, "cells must be at least 2",
        ),
        (lambda: curate(0, published(), GRID), TypeError, "key must be a typed key"),
        (lambda: curate(jax.random.key(0), published(), GRID[0]), ValueError, r"inputs must have shape \(n, 2\)"),
        (
            lambda: transforms.randomised_response(centre=[0.0], scale=1.0, epsilon=1.0, cells=CELLS),
            ValueError, "cells must be of dimension 1, got 2",
        ),
        (lambda: input_noise.distribution("laplace", 1.0, 2), ValueError, "kind must be one of"),
        (lambda: input_noise.response(CELLS, 1.0), ValueError, "truth must lie strictly"),
        (lambda: audit.epsilon_lower_bound(3, 1, 2), ValueError, r"correct must lie in \[0, 2\]"),
        (lambda: audit.threshold_audit(np.ones(3), np.ones(3)), ValueError, "at least 4"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
