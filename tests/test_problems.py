"""The papers' objectives: right values, losses that tell users apart, data from where they say."""

import gzip
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdpbo.problems import datasets, huber_regression, kernel_svr, location


def test_location_is_half_the_squared_distance():
    data = np.asarray(location.sample(jax.random.key(0), 9))
    theta = np.arange(5.0)
    expected = [0.5 * sum((x - t) ** 2 for x, t in zip(row, theta, strict=True)) for row in data]
    np.testing.assert_allclose(location.loss(theta, data), expected)
    gradient = jax.grad(lambda theta: jnp.mean(location.loss(theta, data)))(location.minimiser(data))
    np.testing.assert_allclose(gradient, 0, atol=1e-12)


def test_huber_regression_is_weighted_and_linear_in_the_tails():
    covariates, responses = map(np.asarray, huber_regression.sample(jax.random.key(0), 50))
    theta = np.array([0.3, -0.2, 1.1, 0.0])
    expected = []
    for x, y in zip(covariates, responses, strict=True):
        residual = abs(y - x @ theta)
        huber = residual**2 / 2 if residual <= 1 else residual - 0.5
        expected.append(huber * min(1, 2 / (x @ x)))
    np.testing.assert_allclose(huber_regression.loss(theta, (covariates, responses)), expected)


def test_samples_follow_their_models():
    records = np.asarray(location.sample(jax.random.key(1), 20_000))
    np.testing.assert_allclose(records.mean(axis=0), 1, atol=0.05)
    np.testing.assert_allclose(np.cov(records.T), np.eye(5), atol=0.06)
    covariates, responses = map(np.asarray, huber_regression.sample(jax.random.key(1), 20_000))
    np.testing.assert_allclose(np.linalg.lstsq(covariates, responses)[0], 1, atol=0.05)
    np.testing.assert_allclose((responses - covariates.sum(axis=1)).std(), 1, atol=0.03)


def diabetes(train=60, seed=0):
    return kernel_svr.split(datasets.load("diabetes"), seed, train=train)


def moved_losses(objective, point, data, records_of, with_records):
    """Whose losses move when user 3's record does."""
    records = np.array(records_of(data))
    records[3] = 9.0
    before, after = objective(point, data), objective(point, with_records(data, records))
    return np.flatnonzero(np.asarray(before) != np.asarray(after)).tolist()


def test_each_loss_depends_on_its_own_record_alone():
    """What the guarantee assumes of an objective."""
    rows = location.sample(jax.random.key(2), 8)
    assert moved_losses(location.loss, np.zeros(5), rows, lambda d: d, lambda d, r: r) == [3]
    pairs = huber_regression.sample(jax.random.key(2), 8)
    assert moved_losses(huber_regression.loss, np.zeros(4), pairs, lambda d: d[0], lambda d, r: (r, d[1])) == [3]
    middle = kernel_svr.bounds(10).mean(axis=0)
    assert moved_losses(
        kernel_svr.loss, middle, diabetes(), lambda d: d.validation, lambda d, r: d._replace(validation=r)
    ) == [3]


def test_standardisation_reads_training_records_only():
    whole = datasets.load("diabetes")
    changed = whole.features.copy()
    order = np.random.default_rng(0).permutation(len(whole.targets))
    changed[order[60]] = 1e6  # the first validation record
    before, after = diabetes(), kernel_svr.split(whole._replace(features=changed), 0, train=60)
    np.testing.assert_array_equal(after.train, before.train)
    np.testing.assert_array_equal(after.validation[1:], before.validation[1:])
    assert np.all(after.validation[0] != before.validation[0])


def test_the_machine_is_scikit_learns():
    from sklearn.metrics.pairwise import rbf_kernel
    from sklearn.svm import SVR

    split, rng = diabetes(), np.random.default_rng(0)
    lengthscales = np.exp(rng.uniform(-1, 1, 10))
    point = np.concatenate([np.log(lengthscales), [0.2, 1.5, 0.7]])
    scaled, test = split.train / lengthscales, split.validation / lengthscales
    machine = SVR(kernel="precomputed", epsilon=0.2, C=1.5).fit(rbf_kernel(scaled, gamma=0.7), split.train_targets)
    expected = (machine.predict(rbf_kernel(test, scaled, gamma=0.7)) - split.validation_targets) ** 2
    np.testing.assert_allclose(kernel_svr.loss(point, split), expected, rtol=1e-2, atol=1e-4)


def test_a_split_partitions():
    split = diabetes(train=100)
    assert len(split.train) == 100
    assert len(split.validation) == 342
    np.testing.assert_allclose(split.train.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(split.train.std(axis=0), 1)
    ordered = kernel_svr.split(datasets.load("diabetes"), 0, train=100, validation=20, ordered=True)
    assert len(ordered.validation) == 20
    for train, validation in ((443, None), (400, 43), (0, None), (10, 0)):
        with pytest.raises(ValueError, match=r"train|validation"):
            kernel_svr.split(datasets.load("diabetes"), 0, train=train, validation=validation)


def test_a_constant_feature_stays_finite():
    data = datasets.Dataset(np.ones((20, 2)), np.arange(20.0), "made up")
    assert np.all(np.isfinite(kernel_svr.split(data, 0, train=10).validation))


def test_bounds_are_appendix_c4():
    box = kernel_svr.bounds(2)
    np.testing.assert_array_equal(box, [[-2, -2, 0.01, 0.1, 0.01], [2, 2, 1.0, 3.0, 5.0]])
    with pytest.raises(ValueError, match="features must be at least 1"):
        kernel_svr.bounds(0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXDPBO_DATA", str(tmp_path))

    def write(name, text):
        with gzip.open(tmp_path / name, "wt") as stream:
            stream.write(text)

    return write


def test_files_are_read_from_the_folder(folder):
    folder("modeldata_Chicago.csv.gz", "rownames,ridership,Austin,date\n1,15.7,2.5,2001-01-22\n2,16,3,2001-01-23\n")
    chicago = datasets.load("chicago")
    np.testing.assert_array_equal(chicago.features, [[2.5], [3.0]])
    np.testing.assert_array_equal(chicago.targets, [15.7, 16])
    assert "STAND-IN" in chicago.source

    folder("ct_slice_head.csv.gz", "patientId,value0,value1,reference\n0,0.1,0.2,21.5\n")
    np.testing.assert_array_equal(datasets.load("ct_slice").features, [[0.1, 0.2]])
    folder("mnist_5k.csv.gz", "0,255,3\n7,8,1\n")
    np.testing.assert_array_equal(datasets.load("mnist").targets, [3, 1])
    folder("covtype_20k.csv.gz", "Elevation,Slope,Cover_Type\n2767,17,2\n")
    np.testing.assert_array_equal(datasets.load("covtype").features, [[2767, 17]])
    folder("adult.data.gz", "39, State-gov, <=50K\n\n")
    assert datasets.table("adult") == [["39", "State-gov", "<=50K"]]
    assert datasets.table("ames") is None


def test_bundled_sets_stand_in_and_say_so(monkeypatch, tmp_path):
    monkeypatch.setenv("JAXDPBO_DATA", str(tmp_path / "missing"))
    assert datasets.directory() is None

    def offline(**_):
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_covtype", offline)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    for name in ("covtype", "mnist", "ct_slice", "chicago"):
        assert "STAND-IN" in datasets.load(name).source
    for name, shape in (("digits", (1797, 64)), ("breast_cancer", (569, 30)), ("diabetes", (442, 10))):
        loaded = datasets.load(name)
        assert loaded.features.shape == shape
        assert loaded.source == f"scikit-learn's bundled {name}"


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="name must be one of"):
        datasets.load("patients")
    with pytest.raises(ValueError, match="name must be one of"):
        datasets.table("patients")


def test_the_real_files_where_they_are():
    """Shapes of the files that JAXDPBO_DATA holds; nothing to check where it is not set."""
    shapes = {"covtype": (20_000, 54), "mnist": (5_000, 784), "ct_slice": (682, 384), "chicago": (5_698, 48)}
    present = {
        name
        for name in shapes
        if datasets.directory() and (datasets.directory() / datasets._SOURCES[name].file).exists()
    }
    assert bool(present) == bool(os.environ.get("JAXDPBO_DATA"))
    for name in present:
        assert datasets.load(name).features.shape == shapes[name]
