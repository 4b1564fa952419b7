"""A linear model of several silos: its sums are those of one machine, and no requests cost more than stated."""

import json
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_silos import Federation, X, messages, no_draws, no_noise

from jaxdpbo import private_linear, silos, tables
from jaxdpbo.accounting import noise_shares
from jaxdpbo.drivers import run_loop, table_scan
from jaxdpbo.guarantee import assumptions
from jaxdpbo.silos import silo as _silo
from jaxdpbo.silos.agreement import make_zeros

__all__ = ["no_noise"]  # a fixture
USERS, FEATURES, STEPS = len(X), 3, 3
Y = X[:, 0] + X[:, 1] > 3


def features(point, batch):
    """Two numbers of public ranges, a constant, and the class."""
    del point
    numbers = [jnp.clip(batch[name] / 3, 0, 1) * 2 - 1 for name in ("x", "y")]
    target = (batch["x"] + batch["y"] > 3).astype(batch["x"].dtype)
    return jnp.stack([*(number / math.sqrt(3) for number in numbers), jnp.full_like(target, 1 / math.sqrt(3)), target])


def linear(**options):
    settings = {"users": USERS, "features": FEATURES, "mu": 3.0, "link": "logistic", "steps": STEPS}
    return private_linear.algorithm, private_linear.config(**settings | options)


@pytest.fixture
def hospitals(tmp_path):
    return Federation(tmp_path, search=linear, objective=features, mu=20, answers=6)


def of_step(federation, first, weights):
    """The leaves of a query, as a server writes them."""
    template = federation.agreement.template
    broadcast = template.broadcast._replace(
        first=np.asarray(first), weights=np.asarray(weights, template.broadcast.weights.dtype)
    )
    query = template._replace(broadcast=broadcast)
    return messages.write_leaves([np.asarray(leaf)[None] for leaf in jax.tree.leaves(query)]), query


def total_of(federation, request):
    answers = [np.frombuffer(silo.answer(request), "<u8") for silo in federation.silos.values()]
    return np.sum(answers, axis=0, dtype=np.uint64).view(np.int64)


def test_sums_are_those_of_one_machine_at_given_weights(hospitals, no_noise):
    algorithm, config = linear()
    users = table_scan.TableUsers(algorithm, features, tables.arrays({"x": X[:, 0], "y": X[:, 1]}), config, True, False)
    before = users.begin(jax.random.key(0))
    weights = np.random.default_rng(1).normal(size=(FEATURES, 1))
    for step, (first, given) in enumerate([(True, np.zeros((FEATURES, 1))), (False, weights), (False, -weights)]):
        leaves, query = of_step(hospitals, first, given)
        found = total_of(hospitals, hospitals.request(step, leaves=leaves))
        expected = table_scan.flatten(users.evaluate(jax.random.key(1), before, query).whole)
        np.testing.assert_array_equal(found, expected)
        assert np.count_nonzero(found) == (FEATURES * (FEATURES + 1) // 2 if first else FEATURES)


def test_a_model_of_silos_predicts(tmp_path):
    federation = Federation(tmp_path, search=lambda: linear(mu=9.0), objective=features, mu=99)
    run = federation.run()
    predicted = np.asarray(features(None, {"x": X[:, 0], "y": X[:, 1]}))[:FEATURES].T @ run.release.weights > 0
    assert np.mean(predicted[:, 0] == Y) > 0.85
    assert run.attempts == 1 + STEPS
    assert "linear model of several silos" in run.report().html()
    run.save(tmp_path / "answer.json")
    saved = json.loads((tmp_path / "answer.json").read_bytes())
    np.testing.assert_array_equal(saved["release"]["weights"], run.release.weights)
    assert "the users with features and targets" in str(run.guarantees.server)


def test_without_noise_the_model_is_that_of_one_machine(hospitals, no_noise, monkeypatch):
    algorithm, config = linear()
    run = hospitals.run()
    monkeypatch.setattr("jaxdpbo.noise.mechanisms.rounded_gaussian", lambda key, shape, *_: jnp.zeros(shape, jnp.int32))
    table = tables.arrays({"x": X[:, 0], "y": X[:, 1]})
    jax.clear_caches()
    alone = run_loop(algorithm, features, table, config, key=jax.random.key(0), insecure_key=True)
    jax.clear_caches()
    np.testing.assert_array_equal(run.release.weights, alone.release.weights)


@pytest.mark.parametrize("first", [True, False])
def test_a_step_adds_up_what_was_agreed(hospitals, first):
    """A server that asks for the Gram matrix in each step would pay for it once."""
    leaves, _ = of_step(hospitals, first, np.zeros((FEATURES, 1)))
    with pytest.raises(silos.Refused, match="the step adds up something else"):
        hospitals.silos["A"].answer(hospitals.request(1 if first else 0, leaves=leaves))
    assert not hospitals.charges()


def test_a_step_is_repeated_as_often_as_others_leave_answers(hospitals):
    """Two of six answers are no other step's: the matrix is given three times."""
    for attempt in range(3):
        hospitals.silos["A"].answer(hospitals.request(attempt=attempt))
    with pytest.raises(silos.Refused, match="the answers left are for other steps"):
        hospitals.silos["A"].answer(hospitals.request(attempt=3))
    assert len(hospitals.answers("A")) == 3


@pytest.mark.parametrize("weights", [np.nan, np.inf, 1e300, -3e38])
def test_no_weights_of_a_server_move_a_user_farther(hospitals, no_noise, weights):
    leaves, _ = of_step(hospitals, False, np.full((FEATURES, 1), weights))
    radius, residual_radius = hospitals.agreement.sums.radii
    found = total_of(hospitals, hospitals.request(1, leaves=leaves)).astype(object)
    assert np.max(np.abs(found)) <= USERS * radius * residual_radius


@pytest.mark.parametrize(("repeated", "steps", "features"), [(0, 1, 2), (0, 8, 30), (2, 3, 3), (40, 8, 5)])
def test_no_requests_cost_more_than_stated(tmp_path, repeated, steps, features):
    """By hand: as many matrices and slopes as the silos give, for the worst users of each."""
    config = private_linear.config(users=USERS, features=features, mu=2.0, steps=steps)
    cards = [silos.create_identity(tmp_path / name, name, users=USERS // 3) for name in "ABC"]
    agreement = silos.agree(
        "march", private_linear.algorithm, config, silos.make_roster(cards), answers=1 + steps + repeated
    )
    radius, residuals = map(float, agreement.sums.radii)
    (_, diagonal), (_, upper), (_, slope) = agreement.share_widths
    for shares, stated in zip((3, 2, 1), agreement.guarantees, strict=True):
        variances = [shares * sigma**2 - 4.5 for sigma in (diagonal, upper, slope)]
        matrix = 2 * radius**4 / min(variances[0], 2 * variances[1])
        step = (2 * radius * residuals) ** 2 / variances[2]
        worst = max((1 + again) * matrix + (steps + repeated - again) * step for again in range(repeated + 1))
        assert worst**0.5 * (1 - 1e-12) <= stated.level < worst**0.5 * (1 + 1e-9)
        assert 0 < stated.total_variation < 1e-13
    least = Fraction(private_linear.SIGMA) ** 2
    assert 3 * diagonal**2 >= least > 3 * (diagonal - 1) ** 2


def reads_the_point(point, batch):
    """Other features of a user where the sign of a zero point says so."""
    numbers = features(point, batch)
    turned = jnp.stack([numbers[1], -numbers[0], *numbers[2:]])
    return jnp.where(jnp.signbit(point[0]), turned, numbers)


def test_a_loss_that_reads_what_a_server_sends_costs_no_more_than_stated(tmp_path, no_noise):
    """A server asks for slopes at -0.0: features of one sum say nothing of those of another."""
    moved = []
    for row in ((3.0, 0.0), (0.0, 0.0)):
        federation = Federation(tmp_path / str(row[0]), search=linear, objective=reads_the_point, mu=30)
        rows = X[federation.parts["A"]].copy()
        rows[0] = row
        silo, sums = federation.open("A", rows=rows), []
        for step in range(1 + STEPS):
            _, query = of_step(federation, step == 0, np.zeros((FEATURES, 1)))
            points = np.full_like(query.points, -0.0 if step else 0.0)
            leaves = [np.asarray(leaf)[None] for leaf in jax.tree.leaves(query._replace(points=points))]
            request = messages.parse_request(
                federation.request(step, leaves=messages.write_leaves(leaves)), federation.agreement.largest_request
            )
            sums.append(silo._sum(silo._check_queries(request)))
        moved.append(sums)
    variances = np.concatenate([np.full(count, 3.0 * sigma**2) for count, sigma in federation.agreement.share_widths])
    cost = sum(float(np.sum((one - two).astype(float) ** 2 / variances)) for one, two in zip(*moved, strict=True))
    assert 0.1 < cost**0.5 < federation.agreement.guarantees.server.level


@pytest.mark.parametrize(("features", "outputs"), [(2, 1), (5, 1), (5, 3)])
def test_each_number_has_the_noise_that_its_part_pays_for(tmp_path, features, outputs):
    link = "softmax" if outputs > 1 else "logistic"
    config = private_linear.config(users=40, features=features, mu=3.0, steps=2, link=link, outputs=outputs)
    cards = [silos.create_identity(tmp_path / name, name, users=20) for name in "AB"]
    agreement = silos.agree("march", private_linear.algorithm, config, silos.make_roster(cards))
    widths = agreement.sums.widths(agreement.answer_size // 8)
    sigmas = np.concatenate([np.full(count, sigma) for count, sigma in widths])
    parts = table_scan.unflatten(make_zeros(agreement, agreement.template).whole, sigmas)
    expected = private_linear.SIGMA, private_linear.UPPER_SIGMA, private_linear.SIGMA
    for part, sigma in zip(parts, expected, strict=True):
        assert np.all(np.asarray(part.low) == sigma)


def test_people_among_silos_assume_that_owners_are_public(tmp_path):
    cards = silos.make_roster([silos.create_identity(tmp_path / name, name, users=USERS // 2) for name in "AB"])
    agreement = silos.agree("march", *linear(people=USERS), cards)
    assert assumptions.ROW_OWNERS in agreement.guarantees.server.assumptions
    assert agreement.terms["a row counts"] == "by the rows of its person"
    assert "space" not in agreement.terms


def test_the_noise_of_a_silo_has_the_agreed_widths():
    widths = (4000, 2**20), (4000, 3 * 2**18), (4000, 2**10)
    draws = _silo._draw_noise(jax.random.key(0), widths)
    for (count, sigma), drawn in zip(widths, np.split(draws, 3), strict=True):
        assert np.std(drawn) == pytest.approx(sigma, rel=5 / math.sqrt(2 * count))
    assert abs(np.corrcoef(np.split(draws, 3))[0, 1]) < 5 / math.sqrt(4000)
    assert len(no_draws(None, widths)) == 12_000
    assert noise_shares.gaussian_variance(200**2) == 200**2 - Fraction(9, 2)


def test_terms_that_no_model_can_have(tmp_path):
    cards = silos.make_roster([silos.create_identity(tmp_path / name, name, users=USERS // 2) for name in "AB"])
    cases = (
        ({"mu": math.inf}, "exact"),
        ({"users": 100}, "config must be of the 210 users"),
        ({"mu": 900.0, "features": 2100}, "config must have sums below 2,097,152 numbers, got 2,208,150"),
    )
    for changed, said in cases:
        with pytest.raises(ValueError, match=said):
            silos.agree("march", *linear(**changed), cards)


def test_the_page_of_a_model_says_what_is_added_up(hospitals):
    page = hospitals.agreement.report().html()
    assert "a linear model of several silos" in page
    assert "users with several rows" in page
