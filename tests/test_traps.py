"""Bugs of others: every trap of docs/traps.md has its test, and those that belong nowhere else stand here."""

import inspect
import re
import warnings
from fractions import Fraction
from functools import partial
from pathlib import Path

import evidence
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from protocol_cases import CASES, records

import jaxdpbo
from jaxdpbo import dp_gd, dp_gp_ucb, drivers, random_search, transforms
from jaxdpbo.algorithms import private_evaluations
from jaxdpbo.guarantee import assumptions
from jaxdpbo.noise import calibration, clipping, mechanisms

TESTS = Path(__file__).parent
TABLE = (TESTS.parent / "docs" / "traps.md").read_text()
PLANTED = {8, 11, 13, 20, 29, 42, 65}


def defines(file, name):
    """Whether a file of tests, its folder named if it is the benchmarks', has a test; "" of the file itself."""
    folder = TESTS.parent if "/" in file else TESTS if (TESTS / file).exists() else TESTS / "systems"
    path = folder / file
    return evidence.is_left_out(path) or (path.exists() and (not name or f"\ndef {name}(" in path.read_text()))


def test_every_trap_has_tests_that_exist():
    rows = [line for line in TABLE.splitlines() if re.match(r"\| \d+\. ", line)]
    assert [int(row.split(".")[0][2:]) for row in rows] == list(range(1, 83))
    assert {int(row.split(".")[0][2:]) for row in rows if "*planted*" in row} == PLANTED
    for row in rows:
        file = None
        named = re.findall(r"((?:benchmarks/tests/)?test_\w+\.py)?::(\w+|\*)", row)
        assert named, row
        for written, name in named:
            file = written or file
            assert name == "*" or defines(file, name), (file, name)


@pytest.mark.parametrize("page", ["threat-model.md", "findings.md"])
def test_tests_that_a_page_names_exist(page):
    written = (TESTS.parent / "docs" / page).read_text()
    named = re.findall(r"((?:benchmarks/tests/)?test_\w+\.py)((?:(?:, )?::test_\w+)+)", written)
    assert len(named) > 5
    for file, names in named:
        for name in re.findall(r"::(test_\w+)", names):
            assert defines(file, name), (file, name)
    for file in re.findall(r"(?:benchmarks/tests/)?test_\w+\.py", written):
        assert defines(file, ""), file


def test_what_is_released_lies_on_the_declared_grid():
    """Traps 2 and 26: every value of an exact run is a whole number of grid units, and of a float run is not."""
    for noise, whole in (("exact", True), ("float", False)):
        inner = random_search.config(users=1, steps=3, batch=2, bounds=[[0.0], [1.0]])
        config = private_evaluations.config(
            random_search.algorithm, inner, users=6, mu=1.0, loss_range=(0.0, 3.0), noise=noise
        )
        algorithm = private_evaluations.make_algorithm(random_search.algorithm)
        run = drivers.run_scan(algorithm, one_loss, jnp.asarray(records())[:, 0], config)
        radius = config.noise.radius if whole else 200
        units = (np.asarray(run.release.values) - 1.5) / (1.5 / np.asarray(radius) / 6)
        assert bool(np.all(np.abs(units - np.rint(units)) < 1e-6)) == whole


WILD = {"far": 1e300, "NaN": np.nan, "infinite": -np.inf}
RUNS = ["dp_gibo", "dp_gd", "private evaluations", "dp_gp_ucb, in order"]
TRANSFORMS = {
    "product_laplace": transforms.product_laplace(centre=np.zeros(2), scale=1.0, epsilon=2.0),
    "planar_laplace": transforms.planar_laplace(centre=np.zeros(2), scale=1.0, epsilon=2.0, radius=3.0),
    "gaussian": transforms.gaussian(centre=np.zeros(2), scale=1.0, epsilon=2.0, delta=1e-5),
    "randomised_response": transforms.randomised_response(
        centre=np.zeros(2), scale=1.0, epsilon=2.0, cells=[[-1.0, 0.0], [1.0, 0.0]]
    ),
}


def shapes(tree):
    return jax.tree.map(lambda leaf: (np.shape(leaf), np.asarray(leaf).dtype), tree)


def of_neighbours(release):
    """What is released of the records, and of those with one who is wild: of one shape, finite, without a warning."""
    expected = None
    for value in (0.0, *WILD.values()):
        data = records()
        data[0] = value
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            released = release(data)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(released))
        expected = shapes(released) if expected is None else expected
        assert shapes(released) == expected


@pytest.mark.parametrize("name", RUNS)
def test_a_run_succeeds_whatever_one_user_is(name):
    """Trap 15, on the drivers that are shipped."""
    case = CASES[name]
    of_neighbours(lambda data: drivers.run_scan(case.algorithm, case.objective, data, case.config(1.0)).release)


@pytest.mark.daily("dp_gp_ucb, in order")
@pytest.mark.parametrize("name", ["dp_gd", "dp_gp_ucb, in order"])
def test_a_run_succeeds_in_float32_whatever_one_user_is(name, float32):
    """Trap 15: a loss of 1e300 gave NumPy's warning of an overflow in a cast, and a loss of 1 none."""
    case = CASES[name]
    config = case.config(1.0)

    def objective(point, data):
        values = np.array(case.objective(jnp.asarray(point), jnp.zeros(data.shape)), float)
        values[..., 0] = data[0, 0]
        return values

    of_neighbours(lambda data: drivers.run_loop(case.algorithm, objective, data, config).release)
    made = {"users": 6, "mu": 0.5, "evaluations": 1, "loss_range": (0.0, 3.0)}
    of_neighbours(lambda data: drivers.PrivateObjective(lambda point, d: d[:, 0], data, **made)(0.5))
    of_neighbours(lambda data: drivers.run_scan(case.algorithm, case.objective, data, config).release)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_rows_are_curated_whatever_one_of_them_is(name):
    """Trap 15."""
    of_neighbours(lambda data: transforms.curate(None, TRANSFORMS[name], data).z)
    if name == "gaussian":
        for cell in (2**64, 10**400, None, "", 1j):  # in a list, where one of them decides the type of all
            assert transforms.curate(None, TRANSFORMS[name], [[0.5, 1.0], [2.0, cell]]).z.shape == (2, 2)


def test_a_value_is_given_whatever_one_user_is():
    """Trap 15: a loss from Python, whose NumPy complains of nothing that a user is."""
    made = {"users": 6, "mu": 0.5, "evaluations": 1, "loss_range": (0.0, 3.0)}
    of_neighbours(lambda data: drivers.PrivateObjective(lambda point, d: d[:, 0], data, **made)(0.5))


def one_loss(point, data):
    return jnp.square(data - point[0])


def primitives(jaxpr):
    """Names and equations, those inside calls and loops included."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from primitives(inner)


DATA_DEPENDENT = {
    "while",
    "cond",
    "gather",
    "scatter",
    "scatter-add",
    "dynamic_slice",
    "dynamic_update_slice",
    "sort",
}
KEY = jax.random.key(0)
OBLIVIOUS = {
    "rounded_gaussian": lambda key: mechanisms.rounded_gaussian(key, (7,), 4096),
    "discrete_laplace": lambda key: mechanisms.discrete_laplace(key, (7,), Fraction(1, 4096)),
    "noisy_argmax": lambda key: mechanisms.noisy_argmax(key, jnp.arange(5, dtype=jnp.int32), Fraction(1, 4096)),
    "quantise": lambda key: clipping.clip_and_sum(
        jax.random.normal(key, (3, 7)), jnp.asarray(1.0), jnp.asarray(400, jnp.int32)
    ),
    "outcome": lambda key: mechanisms.outcome(key, (7,), (Fraction(1, 3),) * 3),
}


def suspects(function):
    found = {str(equation.primitive) for equation in primitives(jax.make_jaxpr(function)(KEY).jaxpr)}
    return found & DATA_DEPENDENT


@pytest.mark.parametrize("name", OBLIVIOUS)
def test_no_branch_and_no_address_depends_on_what_is_drawn(name):
    """Trap 6, of the traced program; a loop of a fixed number of rounds is a scan."""
    assert not suspects(OBLIVIOUS[name])


@pytest.mark.parametrize(
    "leaky",
    [
        lambda key: jnp.arange(9)[jax.random.randint(key, (), 0, 9)],
        lambda key: jax.random.poisson(key, 3.0, (2,)),
        lambda key: mechanisms.planar_laplace(key, 3, Fraction(1, 2)),
    ],
)
def test_the_look_at_the_program_sees_an_address_and_a_rejection_loop(leaky):
    assert suspects(leaky)


def test_a_range_counts_from_end_to_end_and_an_empty_one_is_refused():
    """Trap 7: a range far from 0 and not symmetric."""
    said = {"users": 10, "mu": 1.0, "evaluations": 1, "noise": "float"}
    assert private_evaluations.noise_deviation(loss_range=(-1.0, 7.0), **said) == pytest.approx(0.8)
    assert private_evaluations.noise_deviation(loss_range=(5.0, 7.0), **said) == pytest.approx(0.2)
    with pytest.raises(ValueError, match="low < high"):
        private_evaluations.noise_deviation(loss_range=(5.0, 5.0), **said)
    for call in (
        lambda: dp_gd.config(users=5, steps=1, mu=1.0, bounds=[[0.0], [1.0]], clip_norm=0.0),
        lambda: dp_gp_ucb.lipschitz_config(candidates=[[0.0]], users=5, epsilon=1.0, largest_gain=0.0, steps=1),
    ):
        with pytest.raises(ValueError, match="must be positive"):
            call()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.private])
def test_every_statement_that_divides_by_a_count_says_that_it_is_public(name):
    """Trap 14."""
    statement = CASES[name].algorithm.privacy(CASES[name].config(1.0))
    assert statement.relation in ("replace_one", "unit_distance")
    assert assumptions.PUBLIC_CONFIG in statement.assumptions


@pytest.mark.parametrize("noise", ["exact", "float"])
def test_what_is_released_together_costs_together(noise):
    """Trap 21: point and value, all evaluations, all steps."""
    options = {"candidates": [[0.0], [1.0]], "users": 9, "largest_gain": 1.0, "noise": noise}
    both, point = (
        dp_gp_ucb.algorithm.privacy(dp_gp_ucb.in_order_config(epsilon=2.0, release=release, **options)).level
        for release in ("both", "point")
    )
    assert both == pytest.approx(point, rel=0.02)
    halves = dp_gp_ucb.in_order_config(epsilon=2.0, release="both", **options)
    alone = dp_gp_ucb.in_order_config(epsilon=1.0, release="value", **options)
    deviations = [mechanism_deviation(config) for config in (halves, alone)]
    assert deviations[0] == pytest.approx(deviations[1], rel=0.02)  # a half buys half
    few, many = (
        calibration.sum_noise(1.0, "exact", users=9, steps=count, dimension=1, dtype=float) for count in (1, 100)
    )
    assert int(many.radius) == pytest.approx(int(few.radius) / 10, rel=0.01)


def mechanism_deviation(config):
    if config.noise == "float":
        return float(config.value_sensitivity / config.epsilon_value)
    return float(calibration.grid_unit(config.value_units, config.value_sensitivity)) / float(config.value_rate)


def test_selection_without_its_accounting_is_offered_nowhere():
    """Trap 27: repeated private runs are selected from in one place, whose statement says what that costs."""
    suspicious = re.compile("repeat|best_of|retry|restarts|select|papernot", re.IGNORECASE)
    modules = [jaxdpbo] + [each for each in map(partial(getattr, jaxdpbo), jaxdpbo.__all__) if inspect.ismodule(each)]
    found = {
        f"{module.__name__}.{name}"
        for module in modules
        for name in getattr(module, "__all__", vars(module))
        if not name.startswith("_") and suspicious.search(name)
    }
    of_accounting = {"attained_selection_epsilon", "selection_stage", "selection_epsilon", "selection_profile"}
    assert found <= {
        "jaxdpbo.tuning.private_selection", "jaxdpbo.tuning.SelectionResult",
        *(f"jaxdpbo.accounting.{name}" for name in of_accounting),
    }  # fmt: skip
    assert assumptions.RUNS_UNKNOWN in assumptions.SECTIONS


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_scores_on_the_grid_move_by_at_most_their_units(dtype, trials):
    """Neighbouring scores anywhere, near and far, in units of the declared sensitivity."""
    rng = np.random.default_rng(0)
    on_grid = jax.jit(calibration.quantise_scores)
    for _ in range(trials(f"neighbouring scores on the grid, {np.dtype(dtype).name}, of 1,000 each", 20, 1_000, 0)):
        units = jnp.asarray(int(10 ** rng.uniform(2, 6.6)), jnp.int32)
        sensitivity = jnp.asarray(10.0 ** rng.uniform(-6, 2), dtype)
        scores = jnp.asarray(rng.normal(size=1000) * 10.0 ** rng.uniform(-4, 9, 1000) * float(sensitivity), dtype)
        moved = scores + jnp.asarray(rng.choice([-1.0, 1.0, 0.5], 1000), dtype) * sensitivity
        apart = jnp.abs(moved.astype(jnp.float64) - scores.astype(jnp.float64)) <= float(sensitivity)
        first, second = (np.asarray(on_grid(each, units, sensitivity), np.int64) for each in (scores, moved))
        assert np.max(np.abs(first - second)[np.asarray(apart)]) <= int(units)
    unit = float(calibration.grid_unit(units, sensitivity))
    near = np.abs(scores) < 1e5 * unit
    off = np.asarray(on_grid(scores, units, sensitivity), float)[near] * unit - np.asarray(scores, float)[near]
    assert np.max(np.abs(off)) < 1.05 * unit  # it is a grid of the scores
    kept_back = float(units) - float(sensitivity) / unit
    assert kept_back == pytest.approx(2 if dtype == jnp.float64 else 4, abs=1e-6 * float(units))
    np.testing.assert_array_equal(
        on_grid(jnp.asarray([jnp.nan, jnp.inf, -jnp.inf], dtype), units, sensitivity).min(),
        first.dtype.type(-(2**30) if dtype == jnp.float64 else -(2**24)),
    )


def test_an_epsilon_becomes_as_many_units_as_it_pays_for():
    for moves in (1, 2):
        for epsilon in np.geomspace(0.004, 1e4, 60):
            found = calibration.units("epsilon", float(epsilon), moves)
            paid = moves * int(found.units) * found.rate
            assert paid <= Fraction(float(epsilon))
            assert Fraction(float(paid)) == paid  # a guarantee states it in a float: nothing is lost
            assert paid > Fraction(float(epsilon)) * Fraction(98, 100) or int(found.units) == calibration.MAX_UNITS
            assert int(found.units) >= calibration.MIN_UNITS
    with pytest.raises(ValueError, match="epsilon must be at least"):
        calibration.units("epsilon", 1e-4, 1)
