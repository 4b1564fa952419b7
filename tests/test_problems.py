"""The demo's objective and records, and the curator's example: right values, and losses that keep users apart."""

import warnings

import jax
import numpy as np
import pytest

from jaxdpbo.problems import _datasets, _gp_draws, _kernel_svr


def diabetes(train=60, seed=0):
    return _kernel_svr.kernel_svr_split(_datasets.load_dataset("diabetes"), seed, train=train)


@pytest.mark.parametrize("field", ["validation", "validation_targets"])
@pytest.mark.parametrize("value", [9.0, np.nan, np.inf])
def test_each_loss_depends_on_its_own_record_alone(field, value):
    """What the guarantee assumes of an objective; a user who is not finite neither raises nor warns."""
    data, point = diabetes(), _kernel_svr.kernel_svr_bounds(10).mean(axis=0)
    changed = getattr(data, field).copy()
    changed[3] = value
    with warnings.catch_warnings(action="error"):
        before, after = (_kernel_svr.kernel_svr_loss(point, each) for each in (data, data._replace(**{field: changed})))
    assert np.flatnonzero(before != after).tolist() == [3]


def test_a_split_partitions():
    split = diabetes(train=100)
    assert len(split.train) == 100
    assert len(split.validation) == 342
    np.testing.assert_allclose(split.train.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(split.train.std(axis=0), 1)
    for train in (443, 0):
        with pytest.raises(ValueError, match="train"):
            diabetes(train=train)


def test_an_unknown_data_set_is_refused():
    with pytest.raises(ValueError, match="name must be one of 'digits', 'breast_cancer', 'diabetes'"):
        _datasets.load_dataset("covtype")


def test_standardisation_reads_training_records_only():
    whole = _datasets.load_dataset("diabetes")
    changed = whole.features.copy()
    order = np.random.default_rng(0).permutation(len(whole.targets))
    changed[order[60]] = 1e6  # the first validation record
    before, after = diabetes(), _kernel_svr.kernel_svr_split(whole._replace(features=changed), 0, train=60)
    np.testing.assert_array_equal(after.train, before.train)
    np.testing.assert_array_equal(after.validation[1:], before.validation[1:])
    assert np.all(after.validation[0] != before.validation[0])


def test_the_machine_is_scikit_learns():
    """Up to where libsvm stops, 1e-3 in its dual: rounding in the kernel may end its path elsewhere."""
    from sklearn.svm import SVR

    split, rng = diabetes(), np.random.default_rng(0)
    lengthscales = np.exp(rng.uniform(-1, 1, 10))
    scaled, test = split.train / lengthscales, split.validation / lengthscales
    for epsilon, c, gamma in ((0.2, 1.5, 0.7), (1.0, 0.1, 0.01), (0.01, 3.0, 5.0), (9.0, 1.0, 1.0)):
        point = np.concatenate([np.log(lengthscales), [epsilon, c, gamma]])
        machine = SVR(kernel="rbf", epsilon=epsilon, C=c, gamma=gamma).fit(scaled, split.train_targets)
        expected = (machine.predict(test) - split.validation_targets) ** 2
        np.testing.assert_allclose(_kernel_svr.kernel_svr_loss(point, split), expected, rtol=1e-3, atol=1e-5)
    assert len(machine.support_) == 0  # an epsilon that forgives all leaves a constant


def test_a_constant_feature_stays_finite():
    data = _datasets.Dataset(np.ones((20, 2)), np.arange(20.0), "made up")
    assert np.all(np.isfinite(_kernel_svr.kernel_svr_split(data, 0, train=10).validation))


def test_bounds_are_appendix_c4():
    box = _kernel_svr.kernel_svr_bounds(2)
    np.testing.assert_array_equal(box, [[-2, -2, 0.01, 0.1, 0.01], [2, 2, 1.0, 3.0, 5.0]])
    with pytest.raises(ValueError, match="features must be at least 1"):
        _kernel_svr.kernel_svr_bounds(0)


def test_draws_on_a_grid_have_the_covariance_that_is_said():
    drawn = np.asarray(_gp_draws.gp_draws(jax.random.key(0), 20_000, side=3.0, points=4, lengthscale=1.25))
    grid = _gp_draws.gp_grid(3.0, 4)
    np.testing.assert_allclose([grid.min(axis=0), grid.max(axis=0)], [[-1.5, -1.5], [1.5, 1.5]])
    exact = np.exp(-np.sum((grid[:, None] - grid[None]) ** 2, axis=2) / (2 * 1.25**2))
    np.testing.assert_allclose(drawn.T @ drawn / len(drawn), exact, atol=0.04)
