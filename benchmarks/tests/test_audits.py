"""Every claim is attacked, and holds; every bug that others shipped is planted, and seen.

The rows are those of ``scripts/audit``, with fewer trials. A planted bug is put into the shipped function, and the body
that passed without it must fail with it.
"""

import dataclasses
import functools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from protocol_cases import CASES, STEPS, USERS, loss, records, rows_of
from scipy.stats import norm

from benchmarks import audit, audits, report
from benchmarks.audits import rows as harness
from jaxdpbo import accounting, dp_gibo, drivers, gp_ucb, private_evaluations, sensitivity
from jaxdpbo import audit as _auditing
from jaxdpbo.algorithms import dp_gd
from jaxdpbo.drivers import compiled_steps
from jaxdpbo.guarantee import guarantees
from jaxdpbo.noise import choice, clipping, mechanisms, private_mean, private_scale

ROWS = {row.name: row for family in audits.FAMILIES.values() for row in family()}
QUICK = 4_000
FAINT = {"silos, a share left out": 20_000}  # noise of two shares for three: fewer trials miss it by chance


@pytest.mark.parametrize("name", ROWS)
def test_what_is_claimed_holds_at_95_percent(name, trials):
    """And the attack is no blunt one; where there is no guarantee it succeeds."""
    row = ROWS[name]
    found = audits.measure_row(
        row, trials(f"audit: {name}, trials under each neighbour", FAINT.get(name, QUICK), 100_000, 0)
    )
    assert found.verdict == ("holds" if row.holds else "broken, as it must be"), found.audit
    if row.holds:
        assert row.least * row.claimed_level <= found.measured_level <= row.claimed_level


# Traps 8, 11 and 13: replays.
WILD = {"far": [1e6, -1e6], "NaN": [np.nan, 0.0], "infinite": [np.inf, -np.inf]}
STEERED = {  # public, and a function of what was released
    "theta", "path", "optimizer", "inner", "inverse", "values", "row", "favoured", "point", "loss",
}  # fmt: skip


def neighbour(wild):
    data = records()
    data[0] = WILD[wild]
    return data


@jax.jit
def evaluated(points, data):
    return jax.vmap(loss, in_axes=(0, None))(points, data)


@jax.jit
def slopes(points, data):
    return jax.vmap(dp_gd.gradient_objective(loss), in_axes=(0, None))(points, data)


@jax.jit
def features_and_targets(points, data):
    return jax.vmap(rows_of, in_axes=(0, None))(points, data)


def replayed(algorithm, config, wild, values_at=evaluated):
    """A run on neighbours under one key, given the same releases: what the raw data move but through those.

    The public part of each state is the one of the first run, so that what was released differently does not count.
    The statistic is what all the steps noised, in units of its declared sensitivity.
    """
    published = []  # the public part of the first run's states

    def run(data):
        first, snapshot = not published, compiled_steps.begin(algorithm, jax.random.key(1), config)
        statistic, seen = [], []
        for t in range(config.steps):
            ask_key, tell_key = jax.random.split(jax.random.fold_in(jax.random.key(2), t))
            query = compiled_steps.ask(algorithm, ask_key, config, snapshot.state)
            snapshot, info = compiled_steps.learn(
                algorithm, tell_key, config, snapshot, query, values_at(query.points, data)
            )
            state = snapshot.state
            moved = info.raw.get("gradient", info.raw.get("mean_loss", np.zeros(())))
            statistic.append(moved / declared(config) if of_one_mechanism(config) else np.zeros(moved.shape))
            seen.append((query, visible(state.public)))
            published.append(state.public) if first else None
            snapshot = snapshot._replace(state=state._replace(public=published[t]))
        return statistic, seen

    return _auditing.replay(run, records(), neighbour(wild))


def visible(public):
    """What of a public state no release steers; in a plan a phase may also start at other points."""
    leaves = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(public):
        names = {getattr(key, "name", "") for key in path}
        if not names & STEERED and not names >= {"phases", "points"}:
            leaves[jax.tree_util.keystr(path)] = leaf
    return leaves


def of_one_mechanism(config):
    """Otherwise each has its own test of how far one user moves it: of choices tests/test_choice.py."""
    return isinstance(config, (dp_gibo.Config, dp_gd.Config, private_evaluations.Config))


def declared(config):
    """How far one user may move what one step noises, in l2 norm."""
    found = config.noise.scale is not None
    if hasattr(config, "low"):
        high, low = (FOUND, -FOUND) if found else (config.high, config.low)
        return (high - low) / config.users * config.batch**0.5
    radius = clipping.reach(config.noise.radius, len(config.theta0), float) if config.noise.kind == "exact" else 1.0
    scale = float(config.noise.radius) / radius if config.noise.kind == "exact" else 1.0
    return sensitivity.clipped_sum(FOUND if found else float(config.clip_norm)) * scale / config.users


def holds(found, steps=STEPS):
    if found.raised:
        raise RuntimeError(found.raised)  # a replay that broke down is no bug that was seen
    assert found.differing == ()
    assert found.moved <= math.sqrt(steps) * (1 + 1e-12)


ASIDE = [name for name, case in CASES.items() if case.private and not case.follows_values]
FOUND = 0.25  # a scale that both runs of a replay find: it is released
SCALED = [name for name in ASIDE if getattr(getattr(CASES[name].config(1.0), "noise", None), "scale", None)]


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("wild", WILD)
def test_a_scale_is_sought_among_one_number_of_each_user(name, wild, monkeypatch):
    """Neighbours differ in one of them; all that comes later moves as it does for a scale that was given."""
    case, sought = CASES[name], []

    honest = private_scale.count_differences

    def count(numbers, present=None):
        jax.debug.callback(lambda given: sought.append(np.array(given)), numbers)
        return honest(numbers, present)

    monkeypatch.setattr(private_scale, "count_differences", count)
    monkeypatch.setattr(private_scale, "median_of_counts", lambda *given: jnp.asarray(FOUND, given[-1]))
    found = replayed(fresh(case.algorithm), case.config(1.0), wild)
    holds(found)
    assert found.moved > 0.01
    one, other = sought
    assert one.shape == (USERS,)
    np.testing.assert_array_equal(np.flatnonzero(~((one == other) | (np.isnan(one) & np.isnan(other)))), [0])


@pytest.mark.parametrize("name", [name for name in ASIDE if name not in SCALED])
def test_replays_on_neighbours_differ_in_the_release_alone(name):
    case, config = CASES[name], CASES[name].config(1.0)
    moved, values_at = [], {"dp_gd": slopes, "private_linear": features_and_targets}.get(name, evaluated)
    for wild in WILD:
        found = replayed(case.algorithm, config, wild, values_at)
        holds(found)
        moved.append(found.moved)
    assert max(moved) > 0.2 or not of_one_mechanism(config)  # the neighbour does move it


def gains(points, data, users):
    """Gains in ``[0, 9]``, and of a record that is no number whatever comes; or their mean, 9 standing for those."""
    each = 9.0 * jnp.exp(-evaluated(points, data))
    return jnp.mean(jnp.where(jnp.isfinite(each), each, 9.0), axis=1) if users is None else each


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.private and case.follows_values])
@pytest.mark.parametrize("wild", WILD)
def test_replays_of_what_pays_in_the_end_differ_in_raw_utilities_alone(name, wild):
    """Their queries may follow raw utilities; how many there are, and of which shape, must not."""
    case = CASES[name]
    config = case.config(1.0)

    def run(data):
        snapshot, seen = compiled_steps.begin(case.algorithm, jax.random.key(1), config), []
        for t in range(config.steps):
            ask_key, tell_key = jax.random.split(jax.random.fold_in(jax.random.key(2), t))
            query = compiled_steps.ask(case.algorithm, ask_key, config, snapshot.state)
            points = query.points if query.points.shape[1] == 2 else np.zeros((1, 2))
            values = gains(points, data, getattr(config, "users", None))
            snapshot, _ = compiled_steps.learn(case.algorithm, tell_key, config, snapshot, query, values)
            state = snapshot.state
            seen.append((state.public, query.mask, query if "in order" in name else query.points.shape))
        released = compiled_steps.release(case.algorithm, jax.random.key(3), config, state)
        shapes = jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), released)
        return state.raw.utilities, (seen, shapes)

    found = _auditing.replay(run, records(), neighbour(wild), order=np.inf)
    assert (found.differing, found.raised) == ((), "")
    if "in order" in name:
        assert 0.2 * float(config.point_sensitivity) < found.moved <= float(config.point_sensitivity) * (1 + 1e-12)


def fresh(algorithm):
    """The same, compiled anew: so that what was planted is seen."""
    return algorithm._replace(ask=lambda *arguments: algorithm.ask(*arguments))


def plant(monkeypatch, name, planted):
    """In place of a function of ``clipping``; returns what compiles an algorithm with it, once for each plant."""
    monkeypatch.setattr(clipping, name, planted)
    in_place = tuple(getattr(clipping, each) for each in HONEST)
    return lambda algorithm: compiled_with(algorithm, in_place)


@functools.cache
def compiled_with(algorithm, in_place):
    return fresh(algorithm)


def descends(noise, wild, compiled=lambda algorithm: algorithm):
    config = dp_gd.config(
        users=USERS, steps=2, mu=1.0, bounds={"low": [-2, -1], "high": [2, 3]}, clip_norm=0.5, noise=noise
    )
    holds(replayed(compiled(dp_gd.algorithm), config, wild, slopes), 2)


def infers(noise, wild, compiled=lambda algorithm: algorithm):
    config = dp_gibo.config(
        users=USERS,
        steps=2,
        batch=3,
        mu=1.0,
        bounds={"low": [-2, -1], "high": [2, 3]},
        clip_norm=0.5,
        noise=noise,
        polish_steps=0,
    )
    holds(replayed(compiled(dp_gibo.algorithm), config, wild), 2)


def forgotten(vectors, clip_norm):
    """The clipped copy is made, and the raw one is used."""
    _, clipped, refused = HONEST["clip_by_l2_norm"](vectors, clip_norm)
    return vectors, clipped, refused


def unguarded(vectors, clip_norm):
    """``min(1, B / NaN)`` is NaN."""
    norms = jnp.linalg.norm(vectors, axis=0)
    return vectors * jnp.minimum(1.0, clip_norm / norms)[None], norms > clip_norm, norms < 0


def unchecked(vectors, clip_norm, radius):
    """No integer is looked at."""
    return jnp.rint(vectors * (radius.astype(clip_norm.dtype) / clip_norm)).astype(jnp.int32)


HONEST = {name: getattr(clipping, name) for name in ("clip_by_l2_norm", "quantise")}


@pytest.mark.parametrize("body", [descends, infers])
def test_trap_08_the_clipped_copy_is_ignored(monkeypatch, body):
    body("float", "far")
    body("exact", "far")
    planted = plant(monkeypatch, "clip_by_l2_norm", forgotten)
    with pytest.raises(AssertionError):
        body("float", "far", planted)
    body("exact", "far", planted)  # integers are checked once more, by themselves
    planted = plant(monkeypatch, "quantise", unchecked)
    with pytest.raises(AssertionError):
        body("exact", "far", planted)


@pytest.mark.parametrize("body", [descends, infers])
@pytest.mark.parametrize("wild", ["NaN", "infinite"])
def test_trap_11_nan_defeats_a_clip(monkeypatch, body, wild):
    body("float", wild)
    body("exact", wild)
    planted = plant(monkeypatch, "clip_by_l2_norm", unguarded)
    with pytest.raises(AssertionError):
        body("float", wild, planted)
    body("exact", wild, planted)  # integers are checked once more, by themselves


def keeping(config, query, memory, values, present=None):
    """A total that takes along a raw mean, for ``leaning`` and ``stopping``: nothing else can bring it to ``tell``."""
    total, memory = dp_gibo.algorithm.contribute(config, query, memory, values, present)
    return total._replace(whole=(total.whole, jnp.mean(values))), memory


def passing(key, config, query, whole):
    return dp_gibo.algorithm.perturb(key, config, query, whole[0]), whole[1]


def unpacked(config, query, total):
    return dp_gibo.algorithm.inform(config, query, total._replace(whole=total.whole[0]))


def leaning(config, state, query, released):
    """Points that the next queries are made from, nearer to where the raw losses were small."""
    after = dp_gibo.algorithm.tell(config, state, query, released[0])
    return after._replace(public=after.public._replace(points=after.public.points + 1e-6 * jnp.tanh(released[1])))


def stopping(config, state, query, released):
    """No further step where the raw loss is small enough."""
    after = dp_gibo.algorithm.tell(config, state, query, released[0])
    step = jnp.where(released[1] < 100.0, config.steps, after.public.step)
    return after._replace(public=after.public._replace(step=step))


CARRIED = {"contribute": keeping, "perturb": passing, "inform": unpacked}


@pytest.mark.parametrize("planted", [CARRIED | {"tell": leaning}, CARRIED | {"tell": stopping}], ids=["ask", "stop"])
def test_trap_13_something_raw_steers_a_run(monkeypatch, planted):
    infers("exact", "far")
    with pytest.raises(AssertionError):
        infers("exact", "far", lambda algorithm: algorithm._replace(**planted))


@pytest.mark.parametrize("noise", ["exact", "float"])
def test_trap_13_a_range_taken_from_the_raw_losses(monkeypatch, noise):
    """Values standardised on the users' own losses: the declared range is then nobody's."""
    case, honest = CASES["private evaluations"], private_mean.sum_clipped_losses
    config = private_evaluations.config(
        gp_ucb.algorithm, case.config(1.0).inner, users=USERS, mu=1.0, loss_range=(0.0, 3.0), noise=noise
    )

    def standardised(budget, losses, low, high, present=None):
        del low, high
        return honest(budget, losses, jnp.nanmin(losses), jnp.nanmax(losses), present)

    def body():
        holds(replayed(fresh(case.algorithm), config, "far"))

    body()
    monkeypatch.setattr(private_mean, "sum_clipped_losses", standardised)
    with pytest.raises(AssertionError):
        body()


# Traps 20 and 29: attacks.
def best(key, scores, *_):
    """The mechanism object is there, and nobody asks it."""
    del key
    return jnp.argmax(scores)


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("dp_gp_ucb, Algorithm 3 in order: point", "exact_exponential"),
        ("exponential, float", "exponential"),
        ("exact_exponential", "exact_exponential"),
    ],
)
def test_trap_20_the_selection_was_never_privatised(monkeypatch, name, mechanism):
    def body():
        assert audits.measure_row(ROWS[name], QUICK).verdict == "holds"

    body()
    monkeypatch.setattr(mechanisms, mechanism, best)
    with pytest.raises(AssertionError):
        body()


HALVED = {  # half the noise that was paid for
    "rounded_gaussian": lambda honest: lambda key, shape, *width: honest(key, shape, *width) // 2,
    "discrete_laplace": lambda honest: lambda key, shape, rate: honest(key, shape, rate) // 2,
    "gaussian": lambda honest: lambda key, value, deviation: honest(key, value, deviation / 2),
    "exact_exponential": lambda honest: lambda key, scores, rate: honest(key, 2 * scores - mechanisms.top(rate), rate),
}


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("dp_gibo, exact", "rounded_gaussian"),
        ("private_evaluations, float", "gaussian"),
        ("dp_gp_ucb, Algorithm 3 in order: value", "discrete_laplace"),
        ("dp_gp_ucb, Algorithm 3 in order: point", "exact_exponential"),
        ("dp_optim, DP-SGD, 1 step of 2 of 4", "rounded_gaussian"),
        ("dp_optim, DP-SGD, float, 1 step of 2 of 4", "gaussian"),
        ("ranges of the columns of a private model", "rounded_gaussian"),
    ],
)
def test_half_the_noise_is_seen(monkeypatch, name, mechanism):
    """So a pass of the rows means something."""
    monkeypatch.setattr(mechanisms, mechanism, HALVED[mechanism](getattr(mechanisms, mechanism)))
    assert audits.measure_row(ROWS[name], QUICK).verdict == "EXCEEDED"


def _twice(budget):
    return dataclasses.replace(budget, units=2 * budget.units, digits=budget.digits // 2)


def _favouring_the_best(key, budget, total, favoured=None):
    """A prior made of the data."""
    return DRAW(key, budget, total, jnp.argmax(choice.scores(budget, total)))


def _wider(losses, width):
    return jnp.clip((losses - jnp.min(losses, axis=0)[None]) / width, 0, 20)


DRAW, SUM_LOSSES, PURE_LEVEL = choice.draw, choice.sum_losses, choice.pure_level
CHOICES = {
    # Whoever attacks knows the bug: a choice tells twice as much, and counts for twice as much.
    "the choices' budget doubled": {
        "draw": lambda key, budget, *given: DRAW(key, _twice(budget), *given),
        "sum_losses": lambda budget, *given: SUM_LOSSES(_twice(budget), *given),
        "pure_level": lambda budget: 2 * PURE_LEVEL(budget),
    },
    "a prior from the data": {"draw": _favouring_the_best},
    "a range that is not clipped where it ends": {"relative_losses": _wider},
}


@pytest.mark.parametrize("bug", CHOICES)
def test_a_dishonest_choice_in_the_default_search_is_seen(monkeypatch, trials, bug):
    """A start, descent, an answer. Few trials see it where the choices have most of the budget; --full, as it is."""
    count = trials(f"the default search attacked: {bug}", QUICK, 100_000, 0)
    row = ROWS["private_choice around dp_gibo, exact" + ", mostly choices" * (count == QUICK)]
    for name, planted in CHOICES[bug].items():
        monkeypatch.setattr(choice, name, planted)
    assert audits.measure_row(row, count).verdict == "EXCEEDED"


def turning(point, slopes):
    """Gradients ``(1, n)``, of one sign at the start and of the other anywhere else."""
    return slopes[None] * jnp.where(point[0] == 0, 1.0, -1.0)


def twice(noise):
    return dp_gd.config(
        users=2, steps=2, mu=1.0, bounds=[[-np.inf], [np.inf]], theta0=[0.0], step_size=1e-3, clip_norm=0.5, noise=noise
    )


@pytest.mark.parametrize("noise", ["exact", "float"])
def test_trap_29_the_same_noise_on_two_releases(monkeypatch, noise):
    """What user 0 adds to the first it takes from the second: their difference has no noise if both have the same."""
    config = twice(noise)

    def difference(key, slopes):
        path = drivers.pure_run(dp_gd.algorithm, turning, slopes, config, key)[0].path[:, 0]
        return path[0] - 2 * path[1] + path[2]

    row = audits.Row(
        "two releases", dp_gd.privacy(config), lambda trials: harness.simulate(
            difference, np.array([9.0, 0.0]), np.array([-9.0, 0.0]), trials
        )
    )  # fmt: skip

    def body():
        assert audits.measure_row(row, QUICK).verdict == "holds"

    body()
    monkeypatch.setattr(jax.random, "fold_in", lambda key, data: key)
    with pytest.raises(AssertionError):
        body()


@pytest.mark.parametrize("driver", [drivers.run_scan, drivers.run_loop])
def test_trap_29_a_key_used_twice(monkeypatch, driver):
    """JAX's own check sees it, in one program and step by step."""

    def body():
        with jax.debug_key_reuse(True):
            data = np.array([9.0, 0.0])
            driver(
                fresh(dp_gd.algorithm),
                turning,
                data,
                twice("exact"),
                key=jax.random.key(0),
                insecure_key=True,
            )

    body()
    monkeypatch.setattr(jax.random, "fold_in", lambda key, data: key)
    jax.clear_caches()  # the keys of a step are one program, traced before
    with pytest.raises((jax.errors.KeyReuseError, drivers.RunInterrupted)) as caught:
        body()
    jax.clear_caches()
    assert jax.errors.KeyReuseError in (type(caught.value), type(caught.value.__cause__))


# The bounds themselves.
def test_mu_and_epsilon_come_from_the_same_two_ends():
    low, high = 0.025**0.01, 1 - 0.025**0.01
    found = _auditing.epsilon_lower_bound(100, 0, 100)
    assert found.mu == pytest.approx(norm.ppf(low) - norm.ppf(high))
    assert found.epsilon == pytest.approx(math.log(low / high))
    assert _auditing.epsilon_lower_bound(0, 100, 100)[:2] == (0.0, 0.0)
    assert _auditing.epsilon_lower_bound(50, 50, 100)[:2] == (0.0, 0.0)
    for delta in (0.0, 0.01):  # the other guess: what says "second" on the second more often than on the first
        rare, common = (_auditing.epsilon_lower_bound(*counts, 1000, delta=delta) for counts in ((600, 20), (980, 400)))
        assert rare[:2] == pytest.approx(common[:2])


def test_the_bound_on_mu_covers_as_often_as_it_says():
    rng, truth, count = np.random.default_rng(0), 1.0, 400
    counts = [rng.binomial(count, rate, size=1000) for rate in norm.cdf([truth / 2, -truth / 2])]
    found = [_auditing.epsilon_lower_bound(int(a), int(b), count).mu for a, b in zip(*counts, strict=True)]
    assert np.mean(np.array(found) > truth) <= 0.05
    assert np.mean(found) > 0.7 * truth


def test_either_side_of_a_threshold_may_speak_for_the_first():
    first, second = np.random.default_rng(1).normal(size=(2, 4000)) + np.array([[1.0], [0.0]])
    up, down = (_auditing.threshold_audit(s * first, s * second, bound="mu") for s in (1.0, -1.0))
    assert up.mu == pytest.approx(down.mu, abs=0.02)
    assert 0.75 < up.mu <= 1.0
    assert (up.trials, up.delta) == (2000, 0.0)


def test_trap_33_outcomes_are_not_judged_on_the_trials_that_ranked_them():
    """Many outcomes that say nothing: in hindsight some would."""
    rng = np.random.default_rng(3)
    drawn = rng.integers(0, 50, (100, 2, 400))
    shown = [_auditing.threshold_audit(*_auditing.outcome_scores(*one)).epsilon for one in drawn]
    assert np.mean(np.array(shown) > 0) <= 0.05
    hindsight = [_auditing.threshold_audit(*_auditing.outcome_scores(*np.tile(one, (1, 2)))).epsilon for one in drawn]
    assert np.mean(np.array(hindsight) > 0) > 0.5  # the judging half is the ranking one again
    outcomes = rng.choice(3, 4000, p=[0.6, 0.2, 0.2]), rng.choice(3, 4000, p=[0.2, 0.6, 0.2])
    assert 0.8 < _auditing.threshold_audit(*_auditing.outcome_scores(*outcomes)).epsilon <= math.log(3)


def test_curves_lie_where_they_must():
    rng, rates = np.random.default_rng(4), np.linspace(0, 1, 11)
    gdp, dp = (guarantees.guarantee(notion, 1.0, "replace_one", "rows") for notion in ("gdp", "dp"))
    measured = _auditing.trade_off(rng.normal(1, 1, 40_000), rng.normal(0, 1, 40_000))
    np.testing.assert_allclose(measured.type_two, _auditing.declared_trade_off(gdp, measured.type_one), atol=0.015)
    noised = _auditing.trade_off(*(rng.laplace(size=(2, 40_000)) + np.array([[1.0], [0.0]])))
    assert np.all(noised.type_two > _auditing.declared_trade_off(dp, noised.type_one) - 0.015)
    for statement in (gdp, dp):  # symmetric, from 1 to 0
        curve = _auditing.declared_trade_off(statement, rates)
        np.testing.assert_allclose(_auditing.declared_trade_off(statement, curve), rates, atol=1e-12)
    epsilon = 0.7  # what a curve allows at a point, and its delta: Dong et al. 2022, proposition 2.12
    delta = accounting.gdp_delta(1.0, epsilon)
    fine = np.linspace(0, 1, 10_001)
    slack = guarantees.guarantee("dp", epsilon, "replace_one", "rows", delta=delta)
    above = _auditing.declared_trade_off(gdp, fine) - _auditing.declared_trade_off(slack, fine)
    assert -1e-9 < np.min(above) < 1e-6
    lines = [  # the slack is added to delta at every epsilon: the curve is the envelope of their lines
        1.0 - (accounting.gdp_delta(1.0, epsilon) + 0.1) - math.exp(epsilon) * rates
        for epsilon in np.linspace(0, 9, 901)
    ]
    halves = np.max(lines, axis=0), np.max([np.interp(rates, line[::-1], rates[::-1]) for line in lines], axis=0)
    slack = guarantees.guarantee("gdp", 1.0, "replace_one", "rows", delta=0.1)
    np.testing.assert_allclose(
        _auditing.declared_trade_off(slack, rates), np.maximum(0.0, np.maximum(*halves)), atol=1e-4
    )
    certain = guarantees.guarantee("dp", 800.0, "replace_one", "rows")  # its odds are beyond the floats
    assert _auditing.declared_trade_off(certain, np.array([0.0, 5e-324, 1.0])).tolist() == [1.0, 0.0, 0.0]


def test_a_bound_refutes_what_is_below_it():
    shown = _auditing.epsilon_lower_bound(900, 100, 1000)
    mu, epsilon = shown.mu, shown.epsilon
    claims = {"gdp": mu, "dp": epsilon, "metric_dp": epsilon / 3, "prior_averaged_dp": epsilon}
    for notion, level in claims.items():
        relation, unit = ("unit_distance", 1.0) if notion == "metric_dp" else ("replace_one", None)
        for factor, wrong in ((0.99, True), (1.01, False)):
            statement = guarantees.guarantee(notion, level * factor, relation, "rows", unit=unit)
            assert _auditing.is_refuted(shown, statement, distance=3.0) == wrong
    assert not _auditing.is_refuted(shown, guarantees.no_guarantee("rows", "none was made"))
    at_delta = _auditing.epsilon_lower_bound(900, 100, 1000, delta=1e-5)
    for mu, wrong in ((0.1, True), (1e3, False)):  # with a slack of its own
        assert (
            _auditing.is_refuted(at_delta, guarantees.guarantee("gdp", mu, "replace_one", "rows", delta=1e-6)) == wrong
        )
    with pytest.raises(ValueError, match=r"delta must be at least the guarantee's 0.01, got 1e-05"):
        _auditing.is_refuted(at_delta, guarantees.guarantee("dp", 1.0, "replace_one", "rows", delta=0.01))


def test_a_replay_says_what_differs_and_how_far_it_moved():
    def run(data):
        return (data.sum(), [data[:2]]), {"count": len(data), "query": (np.zeros(2), None)}

    first = np.array([1.0, 2.0, 3.0])
    assert _auditing.replay(run, first, first.copy()) == _auditing.Replay((), 0.0)
    assert _auditing.replay(run, first, first + [3, 0, 0]) == _auditing.Replay((), pytest.approx(math.sqrt(18)))
    assert _auditing.replay(run, first, first + [3, 0, 0], order=np.inf).moved == 3
    assert _auditing.replay(run, first, np.append(first, 1.0)).differing == ("count",)
    assert _auditing.replay(run, first, first * np.nan).moved == math.inf
    assert _auditing.replay(run, first * np.nan, first * np.nan).moved == 0
    for other in ({"a": np.zeros(2, int)}, {"a": np.zeros(3)}, {"b": np.zeros(2)}, {}):  # though all are 0
        assert "a" in _auditing.replay(lambda rest: (0.0, rest), {"a": np.zeros(2)}, other).differing
    assert _auditing.replay(lambda size: (np.zeros(size), ()), 2, 3).moved == math.inf


def test_success_or_failure_tells():
    """Trap 15."""

    def run(data):
        return (0.0, ()) if data >= 0 else {}[data] if data > -2 else [][int(data)]

    assert _auditing.replay(run, 0, -1) == _auditing.Replay(("returned", "KeyError"), math.inf)
    assert _auditing.replay(run, -5, -1).differing == ("IndexError", "KeyError")
    assert _auditing.replay(run, -1, -1) == _auditing.Replay((), 0.0, "KeyError")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _auditing.threshold_audit([1.0] * 4, [np.nan] * 4), "scores must not be NaN"),
        (lambda: _auditing.threshold_audit([1.0] * 4, [1.0] * 5), "two vectors of one length"),
        (lambda: _auditing.threshold_audit([1.0] * 4, [1.0] * 4, bound="rho"), "bound must be one of"),
        (lambda: _auditing.outcome_scores([1] * 3, [1] * 3), "at least 4"),
        (lambda: _auditing.declared_trade_off(guarantees.no_guarantee("rows", "none"), [0.1]), "notion must be one of"),
        (
            lambda: _auditing.declared_trade_off(guarantees.guarantee("dp", 1.0, "replace_one", "rows"), [1.1]),
            r"type_one must lie in \[0, 1\]",
        ),
        (
            lambda: _auditing.is_refuted(
                _auditing.epsilon_lower_bound(9, 1, 10),
                guarantees.guarantee("dp", 1.0, "replace_one", "rows"),
                distance=0,
            ),
            "distance must be positive",
        ),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# The command.
def audited(monkeypatch, tmp_path, *rows, arguments=()):
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(audits, "FAMILIES", {"few": lambda: list(rows)})
    return audit.main(["--trials", "2000", *arguments])


def halved(row):
    return row._replace(statement=harness.claim(row.statement.notion, row.statement.level / 2))


def test_the_command_succeeds_where_all_is_as_it_must_be(monkeypatch, tmp_path, capsys):
    rows = ROWS["laplace, float"], ROWS["laplace, float, read to the last bit"]
    assert audited(monkeypatch, tmp_path, *rows) == 0
    written = json.loads((tmp_path / "results" / "audit" / "audit.json").read_text())
    assert [row["verdict"] for row in written["rows"]] == ["holds", "broken, as it must be"]
    assert (
        written["rows"][0]["measured"] == written["rows"][0]["audit"]["epsilon"] <= written["rows"][0]["claimed"] == 1.0
    )
    assert (tmp_path / "results" / "audit" / "audit.png").stat().st_size > 10_000
    assert "all as it must be" in capsys.readouterr().out
    assert audited(monkeypatch, tmp_path, *rows, arguments=["last bit"]) == 0
    assert len(json.loads((tmp_path / "results" / "audit" / "audit_part.json").read_text())["rows"]) == 1


@pytest.mark.parametrize("wrong", ["claim", "blind", "no attack"])
def test_the_command_fails_where_a_claim_is_false_or_an_attack_blind(monkeypatch, tmp_path, capsys, wrong):
    honest = ROWS["laplace, float"]
    planted = {
        "claim": halved(honest),
        "blind": honest._replace(statement=harness.claim("dp", 3.0)),
        "no attack": honest._replace(holds=False),
    }[wrong]
    assert audited(monkeypatch, tmp_path, planted) == 1
    assert "WRONG: laplace, float" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing like this"], "no row is named 'nothing like this'"),
        (["--trials", "7"], "must be at least 100, got 7"),
    ],
)
def test_the_command_says_what_it_refuses(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        audit.main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
