"""What exact noise hides: how many cells two rows are apart when they are noised, in exact fractions."""

import math
from dataclasses import replace
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import cells as oracle

from jaxdpbo import accounting, transforms
from jaxdpbo.transforms import configs, curation

FAR = 5e6, -1e9, 0.0, 5e5
SCALES = 0.01, 0.1, 1.0, 100 / 3
KINDS = {"product_laplace": (1, 2, 5), "gaussian": (1, 2, 5), "planar_laplace": (2,), "private_projection": (5,)}
CASES = [(kind, dimension) for kind, dimensions in KINDS.items() for dimension in dimensions]
METRIC = 1.0, 1.0 + 2.0**-13, 1.5, 3.0001  # units: the second is half a cell more than a whole number of them
HUGE = 1e12, 1e200  # units


def config(kind, dimension, *, scale=1.0, radius=None, epsilon=1.0, turn=0):
    more = {"gaussian": {"delta": 1e-5}, "private_projection": {"delta": 1e-5, "projected": 2}}.get(kind, {})
    centre = np.resize(np.roll(FAR, turn), dimension)
    return getattr(transforms, kind)(centre=centre, scale=scale, epsilon=epsilon, radius=radius, **more)


@pytest.fixture
def cells_of(monkeypatch):
    """What ``curate`` would noise."""
    seen = []
    monkeypatch.setattr(curation, "_add_noise", lambda key, cells, config: seen.append(cells) or cells)

    def cells(chosen, rows, seed=0):
        transforms.curate(jax.random.key(seed), chosen, rows, insecure_key=True)
        assert seen[-1].dtype == np.int32
        return seen.pop().astype(np.int64)

    return cells


def moved(chosen, first, second):
    """By how many cells two releases under one key are apart: the noise is the same."""
    released = [transforms.curate(jax.random.key(0), chosen, rows, insecure_key=True) for rows in (first, second)]
    stretch = released[0].metadata.distribution.scale / chosen.distribution.scale
    apart = np.diff([np.asarray(one.z, np.float64) for one in released], axis=0)[0] / (chosen.cell * stretch)
    np.testing.assert_allclose(apart, np.rint(apart), atol=0.1)
    return np.rint(apart).astype(int)


@pytest.mark.parametrize("kind", ["product_laplace", "private_projection"])
def test_rows_a_unit_apart_cost_a_unit_whatever_the_centre_and_the_default_dtype(float32, kind):
    """float32 rounds rows of 5e6 by half: by 50 units of .01, and what was claimed 1 cost 35."""
    rng = np.random.default_rng(0)
    for scale in (0.1, 0.01):
        chosen = config(kind, KINDS[kind][-1], scale=scale, epsilon=8.0)  # little noise: float32 shows every cell
        directions = rng.normal(size=(600, len(chosen.centre)))
        directions[:300] = np.sign(directions[:300])
        unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        first = chosen.centre + 0.5 * rng.integers(-2, 3, (600, 1)) + 0.25 - unit * 0.5 * scale
        assert worst(chosen, moved(chosen, first, first + unit * scale * (1 - 2.0**-20))) <= 1


def worst(chosen, apart):
    """The largest cost over what the statement says."""
    squared = max(oracle.squared_cost(chosen.kind, chosen.grid_scale, row) for row in apart)
    return math.sqrt(squared / Fraction(chosen.guarantee.level) ** 2)


def neighbours(rng, chosen, count, dtype):
    """Rows at most a unit apart, or some units for a metric: near edges of cells, far away, in every direction."""
    dimension, scale = len(chosen.centre), chosen.scale
    lengths = METRIC if chosen.guarantee.notion == "metric_dp" else METRIC[:1]
    side = scale * chosen.cell
    offsets = np.stack([
        np.zeros((count, dimension)),
        side * rng.integers(-5000, 5000, (count, dimension)),
        scale * rng.normal(0, 100, (count, dimension)),
        side * (2.0**29 * rng.choice([-1, 1], (count, dimension)) + rng.integers(-5000, 5000, (count, dimension))),
        scale * 1e12 * rng.normal(size=(count, dimension)),
    ])[rng.integers(5, size=count), np.arange(count)]  # fmt: skip
    first = jittered(rng, as_rows(chosen.centre + offsets, dtype))
    for row in first:
        direction = [np.eye(dimension)[rng.integers(dimension)], rng.choice([-1, 1], dimension) / dimension**0.5,
                     rng.normal(size=dimension)][rng.integers(3)]  # fmt: skip
        direction = direction / np.linalg.norm(direction)
        units = rng.choice(lengths)
        for factor in (1 + 2.0**-50, 1.0, 1 - 2.0**-52, 1 - 2.0**-48, 1 - 2.0**-40, 1 - 2.0**-20, 0.9, 0.4, 0.0):
            second = as_rows(row.astype(float) + factor * units * scale * direction, dtype) if factor else row
            squared = oracle.squared_distance(row, second) / Fraction(scale) ** 2
            if squared <= Fraction(float(units)) ** 2:
                yield row, second, max(squared, Fraction(1))
                break


def as_rows(rows, dtype):
    with np.errstate(over="ignore"):
        return np.rint(rows).astype(dtype) if np.dtype(dtype).kind == "i" else rows.astype(dtype)


def jittered(rng, rows):
    if rows.dtype.kind == "i":
        return rows
    towards = rng.choice([-np.inf, np.inf], rows.shape).astype(rows.dtype)
    return np.where(rng.uniform(size=rows.shape) < 0.5, np.nextafter(rows, towards), rows)


def anywhere(rng, chosen, count, dtype):
    """Any two rows: on the ball, a hair out of it, far beyond; across it."""
    dimension = len(chosen.centre)
    for _ in range(count):
        direction = [np.eye(dimension)[0], np.full(dimension, dimension**-0.5), rng.normal(size=dimension)]
        unit = direction[rng.integers(3)] * rng.choice([-1, 1], dimension)
        unit = unit / np.linalg.norm(unit)
        pair = [
            sign * rng.choice([1.0, 1 + 2.0**-52, 1 - 2.0**-53, 2.0, *HUGE]) * chosen.radius * unit for sign in (1, -1)
        ]
        yield *(as_rows(chosen.centre + chosen.scale * one, dtype) for one in pair), Fraction(1)


def excess(chosen, cells_of, pairs):
    """The largest cost over what the statement allows those two rows, and every cell is where it should be."""
    first, second, allowed = (list(part) for part in zip(*pairs, strict=True))
    both = [cells_of(chosen, np.array(rows)) for rows in (first, second)]
    if math.isinf(chosen.radius) and chosen.kind != "private_projection":
        side, slack = Fraction(chosen.scale * chosen.cell), configs.rounding_bound(chosen)
        for rows, found in zip((first, second), both, strict=True):
            for row, its in zip(rows, found, strict=True):
                ends = oracle.cells(row, chosen.centre, side, 2**29, slack)
                assert all(low <= cell <= high for cell, (low, high) in zip(its, ends, strict=True))
    level = Fraction(chosen.guarantee.level) ** 2
    return max(
        oracle.squared_cost(chosen.kind, chosen.grid_scale, row) / (level * units)
        for row, units in zip(both[1] - both[0], allowed, strict=True)
    )


@pytest.mark.parametrize(("kind", "dimension"), CASES)
@pytest.mark.parametrize("x64", [True, False])
def test_neighbours_move_by_no_more_cells_than_are_paid_for(kind, dimension, x64, cells_of, trials):
    count = trials(f"pairs of rows of {kind}, d = {dimension}, for each of 16 configs", 30, 500, 0)
    rng = np.random.default_rng(0)
    with jax.enable_x64(x64):
        for turn, scale in enumerate(SCALES):
            near = config(kind, dimension, scale=scale, turn=turn)
            for dtype in (np.float64, np.float32, np.int64):
                assert excess(near, cells_of, neighbours(rng, near, count, dtype)) <= 1
            ball = config(kind, dimension, scale=scale, turn=turn, radius=3.7)
            assert excess(ball, cells_of, anywhere(rng, ball, count, np.float64)) <= 1


@pytest.mark.parametrize(("kind", "dimension"), [case for case in CASES if case[0] != "private_projection"])
def test_noise_that_pays_for_no_rounding_is_seen(kind, dimension, cells_of):
    """The same pairs, with the cells or the noise that each transform would have without its allowance."""
    found = []
    for radius in (None, 3.7):
        for epsilon in (1.0, 1.7):
            chosen = config(kind, dimension, radius=radius, epsilon=epsilon)
            reach = chosen.cell * float(Fraction(chosen.scale) / Fraction(chosen.scale * chosen.cell))
            reach = reach if radius is None else 2 * radius
            if kind == "product_laplace":
                cells = math.ceil(math.sqrt(dimension) * configs.CELLS)
                planted = replace(chosen, grid_scale=Fraction(epsilon) / cells)
            elif kind == "planar_laplace":
                planted = replace(chosen, cell=reach * float(configs.PLANAR) / epsilon)
            else:
                distance = accounting.largest_distance(accounting.gdp_mu(epsilon, 1e-5), chosen.grid_scale)
                planted = replace(chosen, cell=reach / distance)
            rng = np.random.default_rng(0)
            pairs = (neighbours if radius is None else anywhere)(rng, planted, 200, np.float64)
            found.append(excess(planted, cells_of, pairs))
    if (kind, dimension) == ("gaussian", 1):  # neighbours are a whole number of cells apart: rounding adds nothing
        assert max(found) <= 1
    else:
        assert max(found) > 1.0001, [float(each) for each in found]


@pytest.mark.parametrize("x64", [True, False])
def test_rows_along_the_longest_direction_of_a_projection_move_by_no_more_than_is_paid_for(x64, cells_of, trials):
    rng = np.random.default_rng(0)
    chosen = config("private_projection", 5, scale=0.1)
    with jax.enable_x64(x64):
        for seed in range(trials("public projections, neighbours along their longest direction", 10, 1000, 0)):
            drawn = transforms.curate(jax.random.key(seed), chosen, chosen.centre[None], insecure_key=True)
            direction = np.linalg.svd(np.asarray(drawn.metadata.projection, np.float64))[0][:, 0]
            first = chosen.centre + rng.normal(0, 10, (40, 5))
            second = first + direction * chosen.scale * (1 - 2.0**-20)
            apart = cells_of(chosen, second, seed) - cells_of(chosen, first, seed)
            costs = [oracle.squared_cost(chosen.kind, chosen.grid_scale, row) for row in apart]
            assert 0.98 < max(costs) / Fraction(chosen.guarantee.level) ** 2 <= 1


ROWS = np.arange(-3, 4)[:, None]


LONG = {"uint64": (ROWS + 2**62).astype(np.uint64) * 2, "longdouble": ROWS + np.longdouble(2) ** 60}
OF_EVERY_DTYPE = {
    **{dtype: ROWS.astype(dtype) for dtype in ("int8", "float16", "float32", "longdouble")},
    **{f"jax {dtype}": jnp.asarray(ROWS, dtype) for dtype in ("bfloat16", "float32", "int16")},
    **{f"long {dtype}": rows for dtype, rows in LONG.items()},
    "lists": ROWS.tolist(),
    "long int64": ROWS + 2**60,
    "least int64": np.iinfo(np.int64).min + np.arange(7)[:, None],
}


@pytest.mark.parametrize("dtype", OF_EVERY_DTYPE)
def test_rows_of_every_dtype_count_in_full(dtype, cells_of):
    """Also rows of more digits than float64 has, where the difference from the centre is short."""
    rows, middle = OF_EVERY_DTYPE[dtype], -(2.0**63) if dtype == "least int64" else float(OF_EVERY_DTYPE[dtype][3][0])
    chosen = transforms.product_laplace(centre=[middle], scale=1.0, epsilon=1.0)
    wanted = {"least int64": np.arange(7), "long uint64": 2 * np.arange(-3, 4)}.get(dtype, np.arange(-3, 4))
    np.testing.assert_array_equal(cells_of(chosen, rows)[:, 0], configs.CELLS * wanted)
