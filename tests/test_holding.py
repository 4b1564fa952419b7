"""DP-GIBO along the real parameters of a released point: the same run as in a box of these parameters alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from option_groups import group_options

import jaxdpbo
from jaxdpbo import Space, dp_gibo, drivers, phases, private_choice, space
from jaxdpbo.drivers import methods

USERS, STEPS, BATCH = 300, 4, 4
RECORDS = np.random.default_rng(0).normal(0.8, 0.05, USERS)
INSIDE = {"low": space.real(0, 1), "kind": ["flat", "steep"], "high": space.real(0, 1)}
TREE = Space({"model": space.branches({"pair": INSIDE, "one": {"by": space.real(0, 2)}, "none": {}})})
# The coordinates: model, pair.low, pair.kind, pair.high, one.by.
MODEL, LOW, KIND, HIGH, BY = range(5)
SEEDED = {"key": jax.random.key(0), "insecure_key": True}
OPTIONS = {"users": USERS, "steps": STEPS, "mu": 0.9, "batch": BATCH, "clip_norm": 0.3}
CHOICES = {"users": USERS, "bounds": TREE, "loss_range": (0, 2), "batch": BATCH}
PLAN = phases.make_algorithm(private_choice.design, dp_gibo.holding)


def losses(params, records):
    if params["model"] == "pair":
        steep = 1.5 if params["kind"] == "steep" else 1.0
        return steep * np.abs(records - params["low"]) / 2 + np.abs(records / 2 - params["high"])
    return np.abs(records - params["by"]) + 0.5 if params["model"] == "one" else np.full(len(records), 1.9)


def run(start, **changes):
    """A plan that chooses a point near ``start`` for certain, and descends from there."""
    points = np.tile(TREE.point(start), (BATCH, 1))
    choice = private_choice.design_config(points=points, mu=0.3, **CHOICES)
    config = phases.config(choice, dp_gibo.holding_config(bounds=TREE, **(OPTIONS | changes)))
    return drivers.run_loop(PLAN, losses, RECORDS, config, **group_options(**SEEDED))


@pytest.mark.parametrize("memory", ["all", "none"])
@pytest.mark.parametrize("clip_norm", [0.3, "private"])
@pytest.mark.daily("0.3-all", "private-none")
def test_a_descent_is_that_in_the_box_of_its_real_parameters(clip_norm, memory):
    start = {"model": "pair", "low": 0.2, "kind": "steep", "high": 0.7}
    changes = {"memory": memory, "clip_norm": clip_norm}
    found = run(start, **changes).release
    path = np.asarray(found.path)
    np.testing.assert_allclose(path[:, KIND], 0.75)
    np.testing.assert_allclose(path[:, [MODEL, BY]], np.tile(TREE.point(start)[[MODEL, BY]], (STEPS + 1, 1)))
    np.testing.assert_array_equal(path[:, [LOW, HIGH]], found.phases[1].descent.path)
    np.testing.assert_allclose(path[0, [LOW, HIGH]], [0.2, 0.7])
    plain = Space({"low": space.real(0, 1), "high": space.real(0, 1)})
    alone = phases.make_algorithm(private_choice.design, dp_gibo.from_point)
    choice = private_choice.design_config(
        points=np.tile([0.2, 0.7], (BATCH, 1)), mu=0.3, **(CHOICES | {"bounds": plain})
    )
    config = phases.config(choice, dp_gibo.config(bounds=plain, **(OPTIONS | changes)))

    def of_pair(params, records):
        return losses({"model": "pair", "kind": "steep"} | params, records)

    same = drivers.run_loop(alone, of_pair, RECORDS, config, **group_options(**SEEDED))
    np.testing.assert_allclose(path[:, [LOW, HIGH]], same.release.path, rtol=1e-9, atol=1e-9)
    assert np.ptp(path[:, LOW]) > 0.1


def test_a_branch_with_fewer_real_parameters_moves_those_alone():
    path = np.asarray(run({"model": "one", "by": 0.4}).release.path)
    moved = np.ptp(path, axis=0) > 0
    assert moved.tolist() == [False, False, False, False, True]
    assert path[0, BY] == pytest.approx(0.2)
    still = np.asarray(run({"model": "none"}).release.path)
    assert not np.any(np.ptp(still, axis=0))
    assert TREE.params(still[-1]) == {"model": "none"}


def test_every_point_of_a_descent_is_in_the_branch_that_was_chosen():
    seen = []

    def recorded(params, records):
        seen.append(params)
        return losses(params, records)

    start = TREE.point({"model": "pair", "low": 0.2, "kind": "steep", "high": 0.7})
    choice = private_choice.design_config(points=np.tile(start, (BATCH, 1)), mu=0.3, **CHOICES)
    config = phases.config(choice, dp_gibo.holding_config(bounds=TREE, **OPTIONS))
    drivers.run_loop(PLAN, recorded, RECORDS, config, **group_options(**SEEDED))
    assert len(seen) >= BATCH * (STEPS + 1)
    assert {(params["model"], params["kind"]) for params in seen} == {("pair", "steep")}
    assert len({params["low"] for params in seen}) > STEPS


def test_the_search_finds_the_branch_and_descends_in_it():
    given = {"method": methods.START, "steps": 20, "batch": 6, "mu": 20.0, "loss_range": (0.0, 2.0)}
    found = jaxdpbo.minimize(losses, RECORDS, TREE, **group_options(**(given | SEEDED)))
    params = found.release.params
    assert params["model"] == "pair"
    assert abs(params["low"] - 0.8) < 0.12
    assert abs(params["high"] - 0.4) < 0.12
    assert [name for name, _ in found.guarantee.parts] == [
        "the choice in a design", "the noisy means", "the choice of the answer"
    ]  # fmt: skip
    assert found.guarantee.level <= 20
    table = jaxdpbo.tables.arrays({"x": RECORDS})
    again = jaxdpbo.minimize(
        lambda params, columns: losses(params, np.asarray(columns["x"])),
        table,
        TREE,
        **group_options(**(given | SEEDED)),
    )
    assert again.release.params["model"] == "pair"


def test_a_space_without_branches_holds_whole_numbers_and_categories():
    mixed = Space({"a": space.real(0, 1), "n": space.integer(1, 9), "b": space.real(0, 1)})

    def bowl(params, records):
        return (records - params["a"]) ** 2 + (records / 2 - params["b"]) ** 2 + 0.1 * np.abs(params["n"] - 4)

    given = {"method": methods.START, "steps": 20, "batch": 4, "mu": 20.0, "loss_range": (0.0, 2.0)}
    params = jaxdpbo.minimize(bowl, RECORDS, mixed, **group_options(**(given | SEEDED))).release.params
    assert isinstance(params["n"], int)
    assert abs(params["a"] - 0.8) < 0.15
    assert abs(params["b"] - 0.4) < 0.15


def test_the_most_real_parameters_of_any_branch():
    assert TREE.most_real == 2
    assert Space({"a": space.real(0, 1), "m": TREE.dimensions[0]}).most_real == 3
    deep = space.branches(
        {"x": {"k": space.branches({"u": {"r": space.real(0, 1)}, "v": {}}), "s": space.real(0, 1)}, "y": {}}
    )
    assert Space({"m": deep}).most_real == 2
    assert Space({"n": [1, 2]}).most_real == 0
    for point in np.random.default_rng(0).uniform(size=(50, 5)):
        exist = {name for name in TREE.params(point) if name in ("low", "high", "by")}
        assert np.sum(TREE.real_at(jnp.asarray(point))) == len(exist)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: dp_gibo.holding_config(bounds=Space({"n": [1, 2]}), **OPTIONS), "must have a real parameter"),
        (lambda: dp_gibo.holding_config(bounds=[(0, 1)], **OPTIONS), "bounds must be a Space"),
        (lambda: run({"model": "none"}, steps=0), "steps must be at least 1"),
        (
            lambda: jaxdpbo.minimize(
                losses,
                RECORDS,
                {"n": [1, 2]},
                **group_options(method=methods.START, mu=1.0, loss_range=(0, 1), **SEEDED),
            ),
            "method must not be 'start_then_local' where no dimension is real",
        ),
    ],
)
def test_mistakes_are_named(make, said):
    with pytest.raises((TypeError, ValueError), match=said):
        make()
