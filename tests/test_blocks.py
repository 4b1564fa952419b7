"""A search over blocks of rows protects all rows: whatever a learner does, a row is in one block's loss."""

import logging
import random
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from option_groups import group_options

import jaxdpbo
from jaxdpbo import Search, blocks, ledger, minimize, separable
from jaxdpbo.drivers import separability
from jaxdpbo.guarantee import assumptions, guarantees

ROWS = np.random.default_rng(0).normal(size=(120, 3))
PARAMS = np.array([0.3])


def spread(params, train, held_out):
    return np.mean(np.minimum(np.abs(held_out - params[0] * train.mean()), 1))


def drawing(params, train, held_out):
    """Draws as many numbers of global generators as its rows say, prints them, warns and writes on them."""
    count = int(np.sum(train > 0))
    found = np.mean(np.random.random(count + 1)) + sum(random.random() for _ in range(count))  # noqa: NPY002
    print(train)
    warnings.warn(str(train), stacklevel=1)
    logging.getLogger("blocks").critical(str(train))
    train[:] = 0
    if held_out[0, 0] > 5:
        raise ValueError(str(held_out))
    return found


@pytest.mark.parametrize("learner", [spread, drawing])
@pytest.mark.parametrize("params", [PARAMS, {"a": 0.3, "b": "word"}])
def test_a_row_moves_the_loss_of_its_own_block_alone(learner, params, capfd, caplog, trials):
    if isinstance(params, dict) and learner is spread:
        params = {0: 0.3}
    objective = blocks(learner, len(ROWS), 8)
    before = ROWS.copy()
    with warnings.catch_warnings(record=True) as warned, caplog.at_level(logging.DEBUG):
        warnings.simplefilter("always")
        usual = objective(params, ROWS)
        before_all = np.random.get_state()  # noqa: NPY002
        state = before_all[1].copy()
        rng = np.random.default_rng(1)
        moved = 0
        for _ in range(trials("neighbouring rows whose block losses were compared", 12, 200, 4)):
            data, row = ROWS.copy(), rng.integers(len(ROWS))
            data[row] = rng.choice([0.0, 9.0, -1e300, np.nan, np.inf], 3)
            (own,) = [number for number, block in enumerate(objective.partition) if row in np.concatenate(block)]
            found = objective(params, data)
            others = np.arange(8) != own
            np.testing.assert_array_equal(found[others], usual[others])
            moved += found[own] != usual[own]
    assert moved  # the comparison can fail
    np.random.seed(7)  # noqa: NPY002 (nor do they depend on what was drawn before)
    random.seed(7)
    np.testing.assert_array_equal(objective(params, ROWS), usual)
    np.random.set_state(before_all)  # noqa: NPY002
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.testing.assert_array_equal(ROWS, before)
    assert not warned
    assert "blocks" not in caplog.text
    assert capfd.readouterr() == ("", "")


def test_a_learner_that_keeps_something_is_what_the_statement_assumes_away():
    kept = []

    def keeps(params, train, held_out):
        kept.append(train.sum())
        return kept[0]

    first, second = ROWS.copy(), ROWS.copy()
    second[blocks(keeps, 120, 4).partition[0].train[0]] = 9.0
    one = blocks(keeps, 120, 4)(PARAMS, first)
    kept.clear()
    assert np.all(blocks(keeps, 120, 4)(PARAMS, second) != one)  # all blocks: hence the assumption
    run = minimize(
        blocks(spread, 120, 30),
        ROWS,
        [(0.0, 1.0)],
        mu=1,
        loss_range=(0, 1),
        search=Search(steps=3),
        traceable=False,
    )
    assert assumptions.BLOCKS_APART in run.guarantee.assumptions
    assert assumptions.SEPARABLE_LOSSES not in run.guarantee.assumptions
    assert run.guarantee.protects == guarantees.ALL_ROWS


def test_a_guarantee_of_users_becomes_one_of_all_rows():
    of_users = guarantees.guarantee("gdp", 1.0, "replace_one", "users", assumptions=(assumptions.SEPARABLE_LOSSES,))
    for traceable in (False, True):
        stated = separability.update_assumptions(of_users, blocks(spread, 120, 30, traceable=traceable))
        assert stated.protects == guarantees.ALL_ROWS
        assert (assumptions.COMPILED_APART in stated.assumptions) == traceable


def test_what_fails_is_the_largest_loss():
    def fails(params, train, held_out):
        if held_out[0, 0] > 0:
            raise RuntimeError(str(held_out))
        return held_out if held_out[0, 1] > 0 else np.nan if held_out[0, 2] > 0 else 0.5

    found = blocks(fails, 120, 20)(PARAMS, ROWS)
    assert set(found) == {0.5, np.inf}
    with pytest.raises(RuntimeError):
        blocks(fails, 120, 20, on_error="raise")(PARAMS, ROWS)


def test_what_a_learner_is_given_is_its_own():
    def writing(params, train, held_out):
        params["a"] += 1
        return params.pop("a")

    params = {"a": 1.0}
    np.testing.assert_array_equal(blocks(writing, 120, 5)(params, ROWS), np.full(5, 2.0))
    assert params == {"a": 1.0}

    def leaving(params, train, held_out):
        raise SystemExit(str(train))

    assert np.all(np.isposinf(blocks(leaving, 120, 5)(PARAMS, ROWS)))
    quoting = blocks(spread, 120, 5, take=lambda data, numbers: 1 / 0)
    assert np.all(np.isposinf(quoting(PARAMS, ROWS)))


@pytest.mark.parametrize("traceable", [True, False])
def test_rows_that_were_not_cut_are_refused(traceable):
    objective = blocks(spread, 150, 5, traceable=traceable)
    with pytest.raises(ValueError, match="150 rows"):  # JAX would give every block the last row
        objective(PARAMS, ROWS)


def test_an_array_of_objects_is_one_of_numbers():
    objective, rows = blocks(spread, 120, 5), ROWS.astype(object)
    np.testing.assert_array_equal(objective(PARAMS, rows), objective(PARAMS, ROWS))
    with pytest.raises(TypeError, match="must not hold lists"):
        objective(PARAMS, ROWS.tolist())


def test_a_learner_that_is_not_of_jax_is_not_traced():
    def learner(params, train, held_out):
        return float(np.abs(params[0] - 0.9))  # of a tracer this raises, and what raises is a loss

    run = minimize(
        blocks(learner, 120, 30), ROWS, [(0.0, 1.0)], mu=20, loss_range=(0, 1), search=Search(steps=10, batch=2)
    )
    assert run.release.point[0] > 0.6
    with pytest.raises(ValueError, match="traceable needs a learner that JAX can trace"):
        minimize(blocks(learner, 120, 30), ROWS, [(0.0, 1.0)], mu=20, loss_range=(0, 1), traceable=True)


def test_a_learner_of_jax_is_fitted_to_all_blocks_at_once():
    def learner(params, train, held_out):
        return jnp.mean(jnp.minimum(jnp.abs(held_out - params[0] * jnp.mean(train)), 1))

    at_once = blocks(learner, 121, 11, traceable=True)
    np.testing.assert_allclose(
        at_once(PARAMS, np.append(ROWS, ROWS[:1], axis=0)),
        blocks(spread, 121, 11)(PARAMS, np.append(ROWS, ROWS[:1], axis=0)),
        rtol=1e-6,
    )
    run = minimize(
        at_once, np.append(ROWS, ROWS[:1], axis=0), [(0.0, 1.0)], mu=1, loss_range=(0, 1), search=Search(steps=3)
    )
    assert run.guarantee.protects == guarantees.ALL_ROWS


@jax.custom_batching.custom_vmap
def fitted(mean):
    return mean


@fitted.def_vmap
def _(size, batched, mean):
    return mean - jnp.mean(mean), batched[0]


def test_a_learner_of_jax_holds_nothing_that_vmap_may_mix():
    """Correct for one block, and it keeps nothing; public arrays it may capture."""
    weights = jnp.linspace(0.5, 1.0, 3)

    def learner(params, train, held_out):
        return jnp.mean(jnp.minimum(jnp.abs(held_out @ weights - fitted(jnp.mean(train)) * params[0]), 1))

    with pytest.raises(separable.NotSeparable, match="runs code that no analysis sees"):
        blocks(learner, 120, 10, traceable=True)(PARAMS, ROWS)


def test_the_rows_of_a_person_are_in_one_block():
    owners = np.random.default_rng(2).integers(0, 40, 120)
    objective = blocks(spread, 120, 6, groups=owners)
    of = [set(owners[np.concatenate(block)]) for block in objective.partition]
    assert sum(map(len, of)) == len(set.union(*of))
    for block in objective.partition:
        assert not set(owners[block.train]) & set(owners[block.held_out])
    run = minimize(objective, ROWS, [(0.0, 1.0)], mu=1, loss_range=(0, 1), search=Search(steps=3), traceable=False)
    assert assumptions.ROW_OWNERS in run.guarantee.assumptions


@pytest.mark.parametrize("groups", [None, np.arange(120) // 2], ids=["rows", "persons"])
def test_delta_is_compared_with_the_rows_that_are_protected_and_not_with_the_blocks(groups):
    owners = 120 if groups is None else 60
    objective = blocks(spread, 120, 6, groups=groups)
    budget = {"epsilon": 1.0, "loss_range": (0, 1)}

    def evaluated(delta):
        return jaxdpbo.PrivateObjective(objective, ROWS, users=6, evaluations=2, delta=delta, **budget)

    def searched(delta):
        options = {"search": Search(steps=2), "traceable": False}
        return minimize(objective, ROWS, [(0.0, 1.0)], delta=delta, **budget, **options)

    for run in (evaluated, searched):
        with pytest.raises(ValueError, match=rf"^delta must be below one over the number of users, 1/{owners} ="):
            run(1 / owners)
        assert run(0.9 / owners).guarantee.protects == guarantees.ALL_ROWS


def test_the_partition_follows_from_numbers_alone():
    first, second = blocks(spread, 50, 7), blocks(drawing, 50, 7)
    for one, other in zip(first.partition, second.partition, strict=True):
        np.testing.assert_array_equal(np.concatenate(one), np.concatenate(other))
        assert len(one.train) == 5
        assert len(one.held_out) == 2
    every = np.concatenate([np.concatenate(block) for block in first.partition])
    assert len(every) == len(set(every)) == 49
    assert repr(first) == "Blocks(spread, 7 blocks of 50 rows)"


def test_a_ledger_is_of_users_or_of_all_rows(tmp_path):
    objective, box = blocks(spread, 120, 30), [(0.0, 1.0)]
    options = {"mu": 0.5, "loss_range": (0, 1), "steps": 3, "traceable": False}
    for name, protects in (("users", ledger.USERS), ("rows", guarantees.ALL_ROWS)):
        ledger.create(tmp_path / name, mu=1.0, protects=protects)
    with pytest.raises(ledger.LedgerError, match="protects"):
        minimize(objective, ROWS, box, **group_options(ledger=jaxdpbo.Recording(tmp_path / "users", "a"), **options))
    minimize(objective, ROWS, box, **group_options(ledger=jaxdpbo.Recording(tmp_path / "rows", "a"), **options))
    assert guarantees.ALL_ROWS in ledger.describe(tmp_path / "rows")


def test_owners_of_rows_are_known_by_their_ids_and_none_may_lack_one():
    """A sort puts a missing id anywhere, and with it others: rows of one person lay in all blocks."""
    ids = np.repeat([3.0, 1.0, 7.0, 2.0], 5)
    owners = np.repeat(np.arange(4), 5)
    for given in (ids, ids.astype(object), [str(one) for one in ids], ids.astype(int).tolist(), jnp.asarray(ids)):
        np.testing.assert_array_equal(separable.number_owners(given, 20), owners)
    for odd in (np.nan, None, ""):
        missing = ids.astype(object)
        missing[7] = odd
        for call in (separable.number_owners, lambda groups, rows: separable.cut(rows, 2, groups=groups)):
            with pytest.raises(ValueError, match="groups must hold an id for each row"):
                call(missing, 20)
    for wrong in (ids[:19], np.append(ids, 3.0), ids[:, None]):
        with pytest.raises(ValueError, match=r"groups must have shape \(20,\)"):
            separable.number_owners(wrong, 20)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"k": 61}, "k must leave two rows"),
        ({"groups": np.zeros(3, int)}, "groups must have shape"),
        ({"groups": np.zeros(120, int), "traceable": True}, "groups must not"),
        ({"on_error": "ignore"}, "on_error"),
    ],
)
def test_what_is_out_of_range_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        blocks(spread, **({"rows": 120, "k": 6} | options))
    with pytest.raises(TypeError, match="learner"):
        blocks(3, 120, 6)
