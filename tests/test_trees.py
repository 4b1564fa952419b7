"""Searches of a space with branches and objects: by every method that there is, in tables, on record, among silos."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from option_groups import group_options

import jaxdpbo
from jaxdpbo import Recording, Space, dp_gibo, dp_gp_ucb, dpareto, gp_ucb, kernels, ledger, private_evaluations, space
from jaxdpbo.drivers import methods, proposals
from jaxdpbo.guarantee import budget_calibration
from jaxdpbo.ledger.fingerprints import fingerprint
from jaxdpbo.surrogate import box_search

USERS = 400
RECORDS = np.random.default_rng(0).normal(0.8, 0.02, USERS)
SEEDED = {"key": jax.random.key(0), "insecure_key": True}
GIVEN = {"mu": 20.0, "loss_range": (0.0, 1.0), "steps": 12, "batch": 4}
TREE = Space(
    {
        "model": space.branches(
            {
                "shift": {"by": space.real(0, 1), "of": space.categorical(mean=np.mean, pair=(1, 2))},
                "depth": {"depth": space.integer(1, 9)},
                "none": {},
            }
        )
    }
)
KEYS = {"shift": {"model", "by", "of"}, "depth": {"model", "depth"}, "none": {"model"}}
SEARCH = box_search.BoxSearch(20, 2, 5)


def loss(params, records):
    """Least, by far, in the branch "shift", at .8 and of a pair."""
    assert set(params) == KEYS[params["model"]]
    if params["model"] == "shift":
        return np.abs(records - params["by"]) + 0.1 * (params["of"] is np.mean)
    return np.full(len(records), 0.5 if params["model"] == "none" else 0.4 + params["depth"] / 20)


def run(*, data=RECORDS, of=TREE, searched=loss, **changes):
    return jaxdpbo.minimize(searched, data, of, **group_options(**(GIVEN | SEEDED | changes)))


@pytest.mark.daily("choice", "in_order")
@pytest.mark.parametrize("method", ["auto", methods.IN_ORDER, methods.CHOICE, methods.EVALUATIONS])
def test_a_tree_is_searched_by_every_method_without_gradients(method):
    found = run(method=method)
    params = found.release.params
    assert params["model"] == "shift"
    assert params["of"] == (1, 2)
    assert abs(params["by"] - 0.8) < 0.2
    assert "'of': 'pair'" in repr(found)
    assert "(1, 2)" not in repr(found)
    assert found.guarantee.level <= 20
    assert found.report().fingerprint
    np.testing.assert_allclose(TREE.point(params), TREE.snap(found.release.point), atol=1e-6)
    table = run(data=jaxdpbo.tables.arrays({"x": RECORDS}), method=method, searched=of_column)
    assert table.release.params == params


def of_column(params, columns):
    return loss(params, np.asarray(columns["x"]))


def test_public_records_propose_points_of_a_tree():
    found = run(public=RECORDS[:50].copy())
    assert found.method.startswith("proposed")
    assert found.release.params["of"] == (1, 2)
    features, owners = proposals.Box(4, TREE).to_features(TREE.snap([[0.1, 0.2, 0.9, 0.9], [0.9, 0.3, 0.1, 0.2]]))
    assert owners.tolist() == [0, 0, 0, 1, 2, 2, 3]
    expected = [[1, 0, 0, 0.2, 0, 1, 0.5], [0, 0, 1, 0.5, 1, 0, 0.5]] / np.array([2, 2, 2, 1, 2, 2, 1]) ** 0.5
    expected[1, 4:6] = [0, 0.5**0.5]  # 0.5 is in the second interval of two
    np.testing.assert_allclose(features, expected)


def test_a_descent_in_a_tree_without_a_start_is_refused_with_what_works():
    with pytest.raises(ValueError, match="no gradient from branch to branch: give method='in_order', 'choice'"):
        run(method=methods.LOCAL)
    with pytest.raises(ValueError, match="space must have no branches, since a descent has no gradient"):
        dp_gibo.config(users=9, steps=3, mu=1.0, bounds=TREE)
    with pytest.raises(ValueError, match="space must have no branches, since DP-GP-UCB over a box"):
        dp_gp_ucb.box_config(
            steps=5, epsilon=1.0, delta=0.01, correlation=0.99, bounds=TREE, noise_variance=0.1, grid=[[0.0] * 4]
        )
    with pytest.raises(TypeError, match="JAX cannot trace the loss"):
        run(traceable=True)


def test_points_that_differ_where_they_do_not_exist_are_one_point_for_a_surrogate():
    """Otherwise a search would explore coordinates that no loss reads."""
    one, other, apart = jnp.array([[0.9, 0.1, 0.2, 0.3], [0.95, 0.8, 0.9, 0.4], [0.7, 0.1, 0.2, 0.3]])
    configs = gp_ucb.config(steps=3, bounds=TREE), dpareto.config(bounds=TREE, initial_design=[[0.5] * 4], proposals=1)
    for model in (configs[0].model, *configs[1].model):
        value, far = (float(model.kernel(model.params, one, x)) for x in (other, apart))
        assert value == pytest.approx(float(model.params.variance))
        assert far < 0.99 * value
        assert np.all(np.asarray(jax.grad(model.kernel, 1)(model.params, one, apart))[1:3] == 0)
    again = gp_ucb.config(steps=3, bounds=Space(dict(zip(TREE.names[:1], TREE.dimensions[:1], strict=True))))
    assert again.model.kernel is configs[0].model.kernel  # equal spaces compile once
    assert gp_ucb.config(steps=3, bounds=Space({"x": space.integer(1, 2)})).model.kernel is kernels.rbf


def test_branches_and_categories_are_equal_or_not_for_a_surrogate():
    """A category that does not exist is one more."""
    lengthscales = np.array([0.4, 0.3, 0.9, 0.7])
    params = kernels.stationary_params(lengthscales, 4)
    kernel = jax.jit(kernels.of_space(kernels.matern52, TREE))
    points = np.random.default_rng(0).uniform(size=(40, 4))
    gram = np.array([[float(kernel(params, x, y)) for y in points] for x in points])

    def coordinates(point):
        found = TREE.params(point)
        kind = None if "of" not in found else TREE.to_labels(found)["of"]
        numbers = [point[1] if "by" in found else 0.5, point[3] if "depth" in found else 0.5]
        return found["model"], numbers[0], kind, numbers[1]

    def distance(one, other):
        apart = [float(a != b) if not isinstance(a, float) else a - b for a, b in zip(one, other, strict=True)]
        return np.linalg.norm(apart / lengthscales)

    placed = [coordinates(point) for point in points]
    scaled = np.sqrt(5) * np.array([[distance(one, other) for other in placed] for one in placed])
    np.testing.assert_allclose(gram, (1 + scaled + scaled**2 / 3) * np.exp(-scaled), rtol=1e-9)
    assert np.linalg.eigvalsh(gram)[0] > -1e-9
    names = Space({"x": ["a", "b", "c"]})
    of_names = kernels.of_space(kernels.rbf, names)
    one, *others = (
        float(of_names(kernels.stationary_params(0.5, 1), jnp.array([0.1]), jnp.array([x]))) for x in (0.3, 0.5, 0.9)
    )
    assert one == 1
    assert others[0] == others[1] < 0.5


def test_a_category_that_does_not_exist_equals_none_of_those_that_do():
    tree = Space({"m": space.branches({"named": {"of": ["a", "b", "c"]}, "plain": {}})})
    kernel, params = kernels.of_space(kernels.rbf, tree), kernels.stationary_params(1.0, 2)
    plain = jnp.array([0.99, 0.5])
    found = [float(kernel(params, jnp.array([0.1, place]), plain)) for place in (0.1, 0.5, 0.9)]
    np.testing.assert_allclose(found, np.exp(-1))


def front(params, records):
    return jnp.asarray([1.0 + (params["model"] == "none"), 0.3 + 0.1 * (params["model"] == "depth")])


def test_dpareto_searches_a_tree():
    config = dpareto.config(bounds=TREE, initial_design=space.sobol(4, 4, 0), proposals=2, search=SEARCH, fit_steps=2)
    found = jaxdpbo.run_loop(dpareto.algorithm, front, RECORDS, config, **group_options(**SEEDED))
    assert found.release.values.shape == (6, 2)
    assert {TREE.params(point)["model"] for point in found.release.points} <= set(KEYS)


def test_a_record_holds_labels_alone_and_resumes_with_other_objects(tmp_path):
    path = tmp_path / "budget.jsonl"
    ledger.create(path, mu=40)
    given = {"ledger": Recording(path, "one"), "key": None, "insecure_key": False}
    first = run(**given).release
    assert b"mean" not in path.read_bytes()
    of = {"by": space.real(0, 1), "of": space.categorical(mean=np.median, pair=(1, 3))}  # in another process
    inside = dict(zip(TREE.dimensions[0].labels, map(dict, TREE.dimensions[0].inside), strict=True))
    later = Space({"model": space.branches(inside | {"shift": of})})
    assert later != TREE
    assert fingerprint(later) == fingerprint(TREE)
    again = run(of=later, **given).release
    np.testing.assert_array_equal(again.point, first.point)
    assert repr(again.params) == repr(first.params)
    assert again.params["of"] == (1, 3)
    renamed = Space({"model": space.branches(inside | {"shift": {"by": of["by"], "of": space.categorical(a=1, b=2)}})})
    with pytest.raises(ledger.LedgerError, match="other"):
        run(of=renamed, **given)


def test_silos_agree_on_labels_and_each_brings_its_own_objects():
    def config(of):
        inner = gp_ucb.config(steps=3, bounds=of, search=SEARCH)
        return private_evaluations.config(gp_ucb.algorithm, inner, users=USERS, mu=1.0, loss_range=(0, 1))

    mine, theirs, other = (
        Space({"m": space.branches({"a": {"f": space.categorical(**named)}, "b": {}})})
        for named in ({"f": np.mean, "g": np.max}, {"f": np.median, "g": np.min}, {"f": np.mean, "h": np.max})
    )
    assert fingerprint(config(mine)) == fingerprint(config(theirs)) != fingerprint(config(other))


def test_a_start_is_parameters_of_a_branch():
    with pytest.raises(ValueError, match="params must be a dict of"):
        run(start={"model": "none", "by": 0.1})
    config = methods.make_problem(
        jaxdpbo.Search(start={"model": "shift", "by": 0.8, "of": "pair"}),
        users=9, budget=budget_calibration.check_budget(mu=1.0, epsilon=None, delta=None, users=9), space=TREE,
        loss_range=(0, 1),
    )  # fmt: skip
    np.testing.assert_allclose(config.start, [3 / 12, 0.8, 0.75, 0.5])
