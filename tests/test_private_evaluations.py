"""Private evaluations: noise of the stated distribution, neighbours within the sensitivity, a refused budget."""

import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest, norm

from jaxdpbo import accounting, drivers, gp_ucb, random_search, tables
from jaxdpbo.algorithms import private_evaluations
from jaxdpbo.drivers import BudgetExhausted, PrivateObjective, compiled_steps
from jaxdpbo.guarantee import assumptions
from jaxdpbo.noise import private_mean

USERS, STEPS, RANGE = 200, 12, (0.0, 2.0)
CANDIDATES = np.linspace(0.0, 1.0, 15)[:, None]
RECORDS = np.random.default_rng(0).normal(0.6, 0.2, size=USERS)


def loss(point, data):
    return jnp.square(data - point[0]) * 4.0


def search(**changes):
    return gp_ucb.config(**({"steps": STEPS, "candidates": CANDIDATES, "answer": "best_posterior_mean"} | changes))


def config(mu=1.0, inner=None, of=gp_ucb.algorithm, **changes):
    return private_evaluations.config(
        of, inner or search(), **({"users": USERS, "mu": mu, "loss_range": RANGE, "noise": "float"} | changes)
    )


ALGORITHM = private_evaluations.make_algorithm(gp_ucb.algorithm)


def run(chosen, records=RECORDS, objective=loss, seed=0, algorithm=ALGORITHM):
    return drivers.run_scan(
        algorithm,
        objective,
        jnp.asarray(records),
        chosen,
        key=jax.random.key(seed),
        diagnostics=True,
    )


def test_one_record_for_each_inner_algorithm():
    assert private_evaluations.make_algorithm(gp_ucb.algorithm) is ALGORITHM
    assert private_evaluations.make_algorithm(random_search.algorithm) is not ALGORITHM


def test_the_guarantee_is_unconditional_gdp():
    statement = ALGORITHM.privacy(config(2.0))
    assert (statement.notion, statement.level, statement.relation) == ("gdp", 2.0, "replace_one")
    assert set(statement.assumptions) == {
        assumptions.IDEAL_NOISE,
        assumptions.PUBLIC_CONFIG,
        assumptions.SEPARABLE_LOSSES,
    }
    assert ALGORITHM.privacy(config(np.inf)).notion == "none"


def test_without_noise_it_is_the_inner_algorithm():
    bare = drivers.run_scan(gp_ucb.algorithm, mean_utility, jnp.asarray(RECORDS), search(), key=jax.random.key(0))
    wrapped = run(config(np.inf))
    clipped = np.clip((RECORDS[None] - CANDIDATES) ** 2 * 4, *RANGE).mean(axis=1)
    rows = np.searchsorted(CANDIDATES[:, 0], np.asarray(wrapped.release.points)[:, 0])
    np.testing.assert_allclose(wrapped.release.values, clipped[rows], rtol=1e-12)
    assert clipped[int(wrapped.release.row)] == clipped.min()
    assert clipped[int(bare.release.row)] == clipped.min()


def mean_utility(point, data):
    return -jnp.mean(jnp.clip(loss(point, data), *RANGE))


def test_released_values_carry_the_declared_noise():
    chosen = config(0.7)
    runs = drivers.sweep(ALGORITHM, loss, jnp.asarray(RECORDS), chosen, seeds=500, key=jax.random.key(1))
    points, values = np.asarray(runs.release.points)[..., 0], np.asarray(runs.release.values)
    exact = np.clip((RECORDS - points[..., None]) ** 2 * 4, *RANGE).mean(axis=-1)
    deviation = private_evaluations.noise_deviation(
        users=USERS, mu=0.7, loss_range=RANGE, evaluations=STEPS, noise="float"
    )
    np.testing.assert_allclose(deviation, 2.0 / USERS * np.sqrt(STEPS) / 0.7)
    noise = values - exact
    assert kstest(noise.ravel(), norm(scale=deviation).cdf).pvalue > 1e-3
    assert kstest(noise.ravel(), norm(scale=deviation * 1.2).cdf).pvalue < 1e-9
    assert np.max(np.abs(np.corrcoef(noise.T) - np.eye(STEPS))) < 0.25  # a key for each step
    each = accounting.gaussian_mu(2.0 / USERS, deviation)
    assert accounting.compose_gdp([each] * STEPS) == pytest.approx(0.7)


@jax.jit
def raw_means(losses):
    """Before the noise, and how many were moved."""
    chosen = config(np.inf, noise="none")
    total, clipped = private_mean.sum_clipped_losses(chosen.noise, jnp.asarray(losses), chosen.low, chosen.high)
    released = private_mean.skip_noise(chosen.noise, total)
    return private_mean.mean_of_losses(chosen.noise, released, chosen.low, chosen.high), clipped


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 1e300, -7.0, 0.3])
def test_a_replaced_user_moves_a_mean_within_the_sensitivity(junk):
    """Traps 8 and 11: the replay of a neighbour, whatever the user says."""
    losses = np.random.default_rng(2).uniform(-1, 3, size=(4, USERS))
    neighbour = losses.copy()
    neighbour[:, 17] = junk
    means, moved = (raw_means(of) for of in (losses, neighbour))
    assert np.max(np.abs(means[0] - moved[0])) <= 2.0 / USERS * (1 + 1e-12)
    assert np.all(np.isfinite(moved[0]))
    np.testing.assert_allclose(means[0], np.clip(losses, *RANGE).mean(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(means[1], np.sum((losses < 0) | (losses > 2), axis=1))


def test_a_forgotten_clip_would_be_seen():
    losses = np.zeros((1, USERS))
    neighbour = losses.copy()
    neighbour[0, 0] = 100.0
    assert abs(losses.mean() - neighbour.mean()) > 2.0 / USERS
    found = [float(raw_means(of)[0][0]) for of in (losses, neighbour)]
    assert abs(found[0] - found[1]) == pytest.approx(2.0 / USERS)  # attained


def test_the_whole_state_is_what_was_released():
    """Trap 13: nothing of a user's is there but through the mechanism; so the same releases steer alike."""
    found = run(config()).diagnostics
    assert found.state.raw == found.memory == ()
    chosen, key = config(), jax.random.key(5)
    start = compiled_steps.begin(ALGORITHM, key, chosen)
    query = compiled_steps.ask(ALGORITHM, key, chosen, start.state)
    states = []
    for shift in (0.0, 0.25):  # other users' losses, the same mean: the same everything
        losses = np.full((1, USERS), 0.75)
        losses[0, :100] += shift
        losses[0, 100:] -= shift
        states.append(compiled_steps.learn(ALGORITHM, key, chosen, start, query, jnp.asarray(losses))[0])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), *states)


def test_it_finds_the_minimum_where_the_budget_allows():
    found = [float(run(config(5.0), seed=seed).release.point[0]) for seed in range(5)]
    assert np.max(np.abs(np.array(found) - RECORDS.mean())) < 0.12


def test_an_inner_algorithm_that_minimises_the_loss_of_one_user():
    inner = random_search.config(users=1, steps=4, batch=3, bounds=[[0.0], [1.0]])
    algorithm = private_evaluations.make_algorithm(random_search.algorithm)
    done = run(config(50.0, inner, random_search.algorithm), algorithm=algorithm)
    assert done.release.points.shape == (12, 1)
    best = int(np.argmin(done.release.values))
    np.testing.assert_array_equal(done.release.point, done.release.points[best])
    assert done.release.row is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mu": 0.0}, "mu must be positive"),
        ({"users": 0}, "users must be at least 1"),
        ({"loss_range": (1.0, 1.0)}, "loss_range must have low < high, got 1.0, 1.0"),
        ({"loss_range": (0.0, np.inf)}, "loss_range must be finite"),
        ({"inner": search(users=3)}, "inner_config must be for one value a point .*, got 3 users"),
    ],
)
def test_bad_configurations_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        config(**changes)


def host_loss(point, data):
    return (data - point) ** 2 * 4.0


def objective(**changes):
    options = {
        "users": USERS,
        "mu": 1.0,
        "evaluations": 3,
        "loss_range": RANGE,
        "noise": "float",
        "key": jax.random.key(3),
    }
    return PrivateObjective(host_loss, RECORDS, **options | changes)


def test_the_wrapper_spends_and_then_refuses():
    private = objective()
    values = [private(0.1 * i) for i in range(3)]
    assert private.remaining == 0
    for _ in range(2):
        with pytest.raises(BudgetExhausted, match="all 3 evaluations are spent"):
            private(0.5)
    assert [spent.value for spent in private.spent] == values
    assert private.guarantee.level == 1.0
    assert assumptions.KEY_SECRET in private.guarantee.assumptions
    assert assumptions.KEY_SECRET not in objective(key=None).guarantee.assumptions
    assert "0 of 3 evaluations left" in repr(private)


def test_the_wrapper_noises_as_it_says():
    count = 1000
    private = objective(evaluations=count, mu=20.0)
    exact = np.clip((RECORDS - 0.3) ** 2 * 4, *RANGE).mean()
    noise = np.array([private(0.3) for _ in range(count)]) - exact
    assert kstest(noise, norm(scale=private.deviation).cdf).pvalue > 1e-3
    # Five standard errors of a deviation, 11%: one that is 1.3 times as large is five more away.
    assert abs(np.std(noise) / private.deviation - 1) < 5 / np.sqrt(2 * count)
    np.testing.assert_allclose(private.deviation, 2.0 / USERS * np.sqrt(count) / 20.0)
    assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 5 / np.sqrt(count)


def test_no_answer_about_records_is_free():
    def signal(point, data):
        if np.any(data > point):
            raise tables.UnreadError("no row was read")
        return np.abs(data - point)

    def count(point, data):
        return data[data > point]

    for told in (signal, count):
        private = PrivateObjective(told, RECORDS, users=USERS, mu=1.0, evaluations=2, loss_range=RANGE)
        answers = set()
        for point in (0.6, 0.5, 0.4):
            with pytest.raises((tables.UnreadError, drivers.ObjectiveError, BudgetExhausted)) as caught:
                private(point)
            answers.add(f"{type(caught.value).__name__}: {caught.value}")
        assert private.remaining == 0
        assert "all 2 evaluations are spent" in str(caught.value)
        assert len(answers) == 2  # one for all points, and that the budget is spent


def test_a_loss_that_raises_stays_charged_and_a_wrong_shape_shows_no_value():
    def broken(point, data):
        raise OSError("disk")

    private = PrivateObjective(broken, None, users=2, mu=1.0, evaluations=2, loss_range=RANGE)
    with pytest.raises(OSError, match="disk"):
        private(0.0)
    assert private.remaining == 1
    assert private.spent == ()

    def short(point, data):
        return np.array([0.123456789])

    private = PrivateObjective(short, None, users=2, mu=1.0, evaluations=1, loss_range=RANGE)
    with pytest.raises(drivers.ObjectiveError, match=r"not their mean: values of shape \(2,\)$") as caught:
        private(0.0)
    assert caught.value.__context__ is None
    assert private.remaining == 0  # records may decide the shape of losses: a refusal tells of them

    design = {"loss_range": "private", "design": [0.0, 1.0]}
    with pytest.raises(drivers.ObjectiveError, match=r"not their mean: values of shape \(2,\)$") as caught:
        PrivateObjective(short, None, users=2, mu=1.0, evaluations=1, **design)
    assert caught.value.__context__ is None

    def words(point, data):
        return ["a secret", "another"]

    assert np.isfinite(PrivateObjective(words, None, users=2, mu=1.0, evaluations=1, loss_range=RANGE)(0.0))


def test_threads_share_one_budget():
    private = objective(evaluations=40)
    refused = []

    def work():
        for _ in range(10):
            try:
                private(0.2)
            except BudgetExhausted:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(private.spent) == 40
    assert len(refused) == 20
    assert len({spent.value for spent in private.spent}) == 40  # no noise twice


def test_the_wrapper_is_not_copied_and_shows_no_record():
    private = objective()
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(private)
    assert str(RECORDS[0])[:6] not in repr(private)
    with pytest.raises(TypeError, match="key must be a typed key"):
        objective(key=3)
    with pytest.raises(ValueError, match="evaluations must be at least 1"):
        objective(evaluations=0)


def test_mu_infinite_is_no_privacy():
    private = objective(mu=np.inf)
    assert private.guarantee.notion == "none"
    assert private(0.3) == pytest.approx(np.clip((RECORDS - 0.3) ** 2 * 4, *RANGE).mean(), rel=1e-6)
