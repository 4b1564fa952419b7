"""The papers' objectives: right values, losses that tell users apart, data from where they say."""

import gzip
import operator
import os
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import gp_regression as oracle
from oracles.gp import richardson
from scipy import optimize, stats
from tolerances import rtol

from benchmarks.papers import (
    classification,
    curator_tables,
    datasets,
    gp_regression,
    huber_regression,
    kernel_svm,
    location,
    logistic_regression,
    noisy,
    splits,
)
from jaxdpbo import per_user, random_search, sensitivity, separable
from jaxdpbo.drivers import run_loop, run_scan
from jaxdpbo.problems import _kernel_svr


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


def small_gp(key=0):
    """10 users, 12 training records."""
    return jax.tree.map(np.asarray, gp_sample(jax.random.key(key), 10, 12)[0])


gp_sample = jax.jit(gp_regression.sample, static_argnums=(1, 2))


def moved_losses(objective, point, data, records_of, with_records, value=9.0):
    """Whose losses move when user 3's record does."""
    records = np.array(records_of(data))
    records[3] = value
    before, after = objective(point, data), objective(point, with_records(data, records))
    return np.flatnonzero(np.asarray(before) != np.asarray(after)).tolist()


def test_each_loss_depends_on_its_own_record_alone():
    """What the guarantee assumes of an objective."""
    rows = location.sample(jax.random.key(2), 8)
    assert moved_losses(location.loss, np.zeros(5), rows, lambda d: d, lambda d, r: r) == [3]
    pairs = huber_regression.sample(jax.random.key(2), 8)
    assert moved_losses(huber_regression.loss, np.zeros(4), pairs, lambda d: d[0], lambda d, r: (r, d[1])) == [3]
    noise = noisy.Data(rows, jax.random.key(3), 0.1)
    assert moved_losses(
        noisy.objective(location.loss), np.zeros(5), noise, lambda d: d.records, lambda d, r: d._replace(records=r)
    ) == [3]
    objective, point, data = jax.jit(gp_regression.loss), gp_regression.bounds().mean(axis=0), small_gp()
    for field in ("validation", "validation_targets"):

        def with_records(data, records, field=field):
            return data._replace(**{field: records})

        records_of = operator.attrgetter(field)
        for value in (9.0, np.nan, np.inf):  # a user who is not finite neither raises nor warns
            with warnings.catch_warnings(action="error"):
                assert moved_losses(objective, point, data, records_of, with_records, value) == [3]


def test_a_split_partitions():
    ordered = splits.split_for_svr(datasets.load("diabetes"), 0, train=100, validation=20, ordered=True)
    assert len(ordered.validation) == 20
    for train, validation in ((443, None), (400, 43), (0, None), (10, 0)):
        with pytest.raises(ValueError, match=r"train|validation"):
            splits.split_for_svr(datasets.load("diabetes"), 0, train=train, validation=validation)


def test_features_are_drawn_without_looking():
    whole, rng = datasets.load("diabetes"), np.random.default_rng(0)
    other = datasets.Dataset(rng.normal(size=(442, 10)), rng.normal(size=442), "made up")

    def columns(dataset, seed, **choices):
        drawn = splits.split_for_svr(dataset, seed, train=60, features=4, **choices)
        every = splits.split_for_svr(dataset, seed, train=60, **choices)
        np.testing.assert_array_equal(drawn.validation_targets, every.validation_targets)
        return [np.flatnonzero(np.all(every.train == column[:, None], axis=0)).item() for column in drawn.train.T]

    assert columns(whole, 0) == columns(other, 0) == columns(other, 0, ordered=True)
    assert len({tuple(columns(other, seed)) for seed in range(8)}) == 8
    drawn = np.bincount(np.concatenate([splits.draw_columns(10, 4, seed) for seed in range(2_000)]), minlength=10)
    assert stats.chisquare(drawn).pvalue > 0.01
    assert splits.split_for_svr(whole, 0, train=60, features=10).train.shape == (60, 10)
    for features in (0, 11):
        with pytest.raises(ValueError, match="features must be at"):
            splits.split_for_svr(whole, 0, train=60, features=features)


@pytest.mark.parametrize("chunk", [4, 128])  # two chunks and a remainder; less than one
def test_gp_regression_is_the_oracles(chunk, monkeypatch):
    monkeypatch.setattr(gp_regression, "CHUNK", chunk)
    data = small_gp()
    loss = jax.jit(jax.vmap(lambda theta, data: gp_regression.loss(theta, data), (0, None)))
    thetas = np.random.default_rng(0).uniform(*gp_regression.bounds(), size=(6, 10))
    expected = [oracle.losses(theta, *data, 0.01) for theta in thetas]
    np.testing.assert_allclose(loss(thetas, data), expected, rtol=1e-8, atol=1e-12)
    wrong = [oracle.losses(theta, *data, 0.02) for theta in thetas]
    assert not np.allclose(loss(thetas, data), wrong, rtol=1e-4)


gp_gradient = jax.jit(jax.vmap(jax.grad(lambda theta, data: jnp.mean(gp_regression.loss(theta, data))), (0, None)))
gp_losses = jax.jit(jax.vmap(gp_regression.loss, (0, None)))


def test_gp_regression_has_the_oracles_gradient():
    data, thetas = small_gp(), np.random.default_rng(1).uniform(1, 5, size=(3, 10))
    for theta, gradient in zip(thetas, gp_gradient(thetas, data), strict=True):
        expected = richardson(lambda t: oracle.losses(t, *data, 0.01).mean(), theta, step=0.1)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-8)


def corners(count=20):
    """Of the box: all zeros, all fives, and some between."""
    high = np.random.default_rng(2).integers(0, 2, size=(count, 10))
    high[0], high[1] = 0, 1
    return 5.0 * high


def test_gp_regression_is_finite_on_the_whole_box():
    data = small_gp()
    values = gp_losses(corners(), data)
    assert np.all(np.isfinite(values))
    assert np.all(np.isfinite(gp_gradient(corners(), data)))
    np.testing.assert_array_equal(values[0], np.square(data.validation_targets))
    np.testing.assert_allclose(gp_losses(np.full((1, 10), 0.01), data)[0], values[0])


def test_gp_regression_in_float32(float32):
    data = small_gp()
    assert data.train.dtype == np.float32
    thetas = np.concatenate([np.random.default_rng(0).uniform(0.2, 5, size=(18, 10)), corners()[:2]])
    values = gp_losses(thetas.astype(np.float32), data)
    expected = [oracle.losses(np.maximum(theta, 0.01), *data, 0.01) for theta in thetas]
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, expected, rtol=2e-3, atol=2e-4)
    assert np.all(np.isfinite(gp_losses(corners().astype(np.float32), data)))


def test_gp_regression_records_follow_the_process():
    """Whitened by the right covariance, targets are standard normal; by another, they are not."""
    draw = jax.jit(jax.vmap(lambda key: gp_regression.sample(key, 10, 12)))
    records, lengthscales = map(jax.device_get, draw(jax.random.split(jax.random.key(5), 4_000)))
    inputs = np.concatenate([records.train, records.validation], axis=1)
    targets = np.concatenate([records.train_targets, records.validation_targets], axis=1)

    def whitened(factor, noise):
        scaled = inputs / (factor * lengthscales[:, None])
        apart = np.sum((scaled[:, :, None] - scaled[:, None]) ** 2, axis=-1)
        observed = np.exp(-apart / 2) + noise * np.eye(22)
        return np.linalg.solve(np.linalg.cholesky(observed), targets[..., None]).ravel()

    def excess(z):
        """Of the mean square over 1, in standard errors."""
        return (np.mean(z**2) - 1) * np.sqrt(z.size / 2)

    assert abs(excess(whitened(1.0, 0.01))) < 2.6
    assert stats.kstest(whitened(1.0, 0.01), "norm").pvalue > 0.01
    for factor, noise in ((1.1, 0.01), (0.9, 0.01), (1.0, 0.03)):
        assert abs(excess(whitened(factor, noise))) > 5
    assert stats.kstest(lengthscales.ravel(), "uniform", (0, 5)).pvalue > 0.01
    assert stats.kstest(records.train.ravel(), "norm").pvalue > 0.01


def test_the_true_lengthscales_win():
    for seed in range(2):
        data, true = gp_sample(jax.random.key(seed), 400, 500)
        others = jax.vmap(gp_regression.start)(jax.random.split(jax.random.key(100 + seed), 10))
        means = np.mean(gp_losses(jnp.concatenate([true[None], others]), data), axis=1)
        assert means[0] < 0.8 * means[1:].min()


def test_a_batch_of_lengthscales_keeps_no_matrix_of_every_user():
    records = jax.eval_shape(lambda key: gp_regression.sample(key, 2000, 50)[0], jax.random.key(0))
    compiled = gp_losses.lower(jax.ShapeDtypeStruct((11, 10), float), records).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 0.3 * 11 * 2000 * 50 * 8


def noises(points, users=4_000, key=0, deviation=0.01, common=False):
    """``Z (b, n)`` as observed at points of the location problem."""
    records = location.sample(jax.random.key(9), users)
    data = noisy.Data(records, jax.random.key(key), deviation, common)
    values = jax.vmap(noisy.objective(location.loss), (0, None))(jnp.asarray(points), data)
    return np.asarray((values - jax.vmap(location.loss, (0, None))(jnp.asarray(points), records)) / deviation)


def neighbours():
    """A point, those one bit away in one coordinate, and its coordinates in another order."""
    point = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    changed = np.where(np.eye(5, dtype=bool), np.nextafter(point, 1), point)
    return np.concatenate([point[None], changed, point[None, ::-1]])


def correlated(rows):
    """Pairs of rows whose correlation is beyond 5 standard errors."""
    high = np.abs(np.corrcoef(rows)) > 5 / np.sqrt(rows.shape[1])
    return int(np.sum(np.triu(high, 1)))


def test_observation_noise_is_standard_normal_for_each_user_and_point():
    z = noises(neighbours())
    assert stats.kstest(z.ravel(), "norm").pvalue > 0.01
    np.testing.assert_allclose(z.std(), 1, atol=3.5 / np.sqrt(2 * z.size))
    for wrong in (1.5 * z, z / 1.5, z + 0.05, np.sign(z)):
        assert stats.kstest(wrong.ravel(), "norm").pvalue < 1e-6
    assert correlated(z) == 0
    assert correlated(np.concatenate([z, z[:1]])) == 1
    assert correlated(z.reshape(14, -1)) == 0  # half the users beside the other half
    assert correlated(np.concatenate([z[:2], noises(neighbours()[:2], key=1)])) == 0


def test_observation_noise_may_be_one_for_all_users():
    points = np.linspace(0, 1, 4_000)[:, None] * np.ones(5)
    z = noises(points, users=3, common=True)
    np.testing.assert_allclose(z, np.repeat(z[:, :1], 3, axis=1), rtol=1e-9)
    assert stats.kstest(z[:, 0], "norm").pvalue > 0.01
    assert np.abs(np.corrcoef(z[:-1, 0], z[1:, 0])[0, 1]) < 5 / np.sqrt(len(z))
    assert np.std(noises(points[:5], users=3)[:, 0] - noises(points[:5], users=3)[:, 1]) > 0.1  # not so without


def test_observation_noise_is_a_function_of_the_point():
    points = neighbours()
    z = noises(points, users=50)
    np.testing.assert_array_equal(noises(points[::-1], users=50), z[::-1])
    zeros = noises([[0.0, 1, 1, 1, 1], [-0.0, 1, 1, 1, 1]], users=50)
    np.testing.assert_array_equal(zeros[0], zeros[1])
    data = noisy.Data(location.sample(jax.random.key(9), 50), jax.random.key(0), 0.01)
    one_by_one = [noisy.objective(location.loss)(point, data) for point in points]
    together = jax.vmap(noisy.objective(location.loss), (0, None))(points, data)
    np.testing.assert_allclose(together, one_by_one, rtol=1e-12)
    without = noisy.objective(location.loss)(points[0], data._replace(deviation=0.0))
    np.testing.assert_array_equal(without, location.loss(points[0], data.records))


def test_observation_noise_in_float32(float32):
    z = noises(neighbours()[:1].astype(np.float32), deviation=10.0)
    assert z.dtype == np.float32
    assert stats.kstest(z.ravel(), "norm").pvalue > 0.01
    ulp = np.array([[0.1] * 5, [0.1] * 4 + [np.nextafter(np.float32(0.1), np.float32(1))]], np.float32)
    assert correlated(noises(ulp, deviation=10.0)) == 0


def test_a_noisy_objective_runs_and_compiles_once(compilations):
    assert noisy.objective(location.loss) is noisy.objective(location.loss)
    config = random_search.config(users=6, steps=2, bounds=[[-1.0] * 5, [1.0] * 5])
    records = location.sample(jax.random.key(9), 6)

    def run(driver, deviation, seed):
        data = noisy.Data(records, jax.random.key(seed), deviation)
        return driver(
            random_search.algorithm,
            noisy.objective(location.loss),
            data,
            config,
            key=jax.random.key(1),
        )

    run(run_scan, 0.01, 0)
    before = compilations["programs"]
    run(run_scan, 0.02, 1)
    assert compilations["programs"] <= before + 1  # jax.random.key of a new seed may be one
    run(run_loop, 0.01, 0)


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


def test_nothing_is_downloaded_and_nothing_stands_in_unasked(monkeypatch, tmp_path):
    monkeypatch.setenv("JAXDPBO_DATA", str(tmp_path / "missing"))
    assert datasets.directory() is None
    asked = []

    def offline(**_):
        asked.append(True)
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_covtype", offline)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    for name in ("covtype", "mnist", "ct_slice", "chicago"):
        with pytest.raises(FileNotFoundError, match="JAXDPBO_DATA") as refused:
            datasets.load(name)
        assert ("download=True" in str(refused.value)) == (name in ("covtype", "mnist"))
    assert not asked
    for name in ("covtype", "mnist"):
        with pytest.raises(OSError, match="no network"):
            datasets.load(name, download=True)
    with pytest.raises(ValueError, match="download must be False for name='chicago'"):
        datasets.load("chicago", download=True)
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
        name for name in shapes if datasets.directory() and (datasets.directory() / datasets._FILES[name].file).exists()
    }
    assert bool(present) == bool(os.environ.get("JAXDPBO_DATA"))
    for name in present:
        assert datasets.load(name).features.shape == shapes[name]


def cancer(seed=0, **sizes):
    return logistic_regression.split(datasets.load("breast_cancer"), seed, **({"train": 80, "validation": 40} | sizes))


def test_logistic_regression_is_at_its_minimum_whatever_the_regularisation():
    data = cancer()
    fit = jax.jit(logistic_regression.fit)
    for at in np.linspace(*logistic_regression.bounds()[:, 0], 7):
        w = np.asarray(fit(np.array([at]), data))

        def penalised(w, at=at):
            margins = data.train_targets * (data.train @ w)
            return np.exp(at) / 2 * w @ w + np.logaddexp(0, -margins).mean()

        gradient = richardson(penalised, w, 1e-3)
        assert np.linalg.norm(gradient) < 1e-9
        best = optimize.minimize(penalised, np.zeros(len(w)), options={"gtol": 1e-8}, method="BFGS")
        assert penalised(w) <= best.fun + 1e-9


def test_logistic_gains_have_the_constants_that_algorithm_3_is_told():
    data = cancer()
    assert np.all(np.linalg.norm(data.train, axis=1) <= 1 + 1e-12)
    assert np.all(np.linalg.norm(data.validation, axis=1) <= 1 + 1e-12)
    gains = np.asarray(logistic_regression.gains(np.array([-3.0]), data))
    assert np.all((gains >= 0) & (gains <= logistic_regression.MAX_GAIN))
    w = np.asarray(logistic_regression.fit(np.array([-3.0]), data))
    expected = [
        min(max((1 + y * w @ x) / 2, 0), 1) for x, y in zip(data.validation, data.validation_targets, strict=True)
    ]
    np.testing.assert_allclose(gains, expected, atol=1e-12)
    np.testing.assert_allclose(logistic_regression.loss(np.array([-3.0]), data), 1 - gains)
    with pytest.raises(ValueError, match="dataset must have two classes, got 10"):
        logistic_regression.split(datasets.load("digits"), 0, train=20)


def test_the_kernel_svm_is_scikit_learns():
    from sklearn.svm import SVC

    data = kernel_svm.split(datasets.load("breast_cancer"), 0, train=80, validation=60, positive=1.0)
    for log_c, log_gamma in ((0.0, -3.0), (4.0, -5.0), (-4.0, -8.0)):
        machine = SVC(C=np.exp(log_c), gamma=np.exp(log_gamma)).fit(data.train, data.train_targets)
        wrong = machine.predict(data.validation) != data.validation_targets
        np.testing.assert_array_equal(kernel_svm.loss(np.array([log_c, log_gamma]), data), wrong)
    assert kernel_svm.bounds().shape == (2, 2)
    broken = data._replace(validation=np.where(np.arange(60)[:, None] == 5, np.nan, data.validation))
    losses = kernel_svm.loss(np.array([0.0, -3.0]), broken)
    assert losses[5] == 1
    np.testing.assert_array_equal(np.delete(losses, 5), np.delete(kernel_svm.loss(np.array([0.0, -3.0]), data), 5))


def test_neither_machine_reads_another_users_record():
    for module, data, point in (
        (logistic_regression, cancer(), np.array([-2.0])),
        (
            kernel_svm,
            kernel_svm.split(datasets.load("breast_cancer"), 0, train=60, validation=40, positive=1.0),
            np.array([1.0, -4]),
        ),
    ):
        flipped = data.validation_targets.copy()
        flipped[3] *= -1
        before, after = (np.asarray(module.loss(point, of)) for of in (data, data._replace(validation_targets=flipped)))
        assert np.flatnonzero(before != after).tolist() == [3]


def test_branin_hoo_has_its_three_minima():
    table = curator_tables.branin_hoo(301)
    assert table.outputs.max() == pytest.approx(-0.397887, abs=2e-3)
    for place in ([-np.pi, 12.275], [np.pi, 2.275], [9.42478, 2.475]):
        nearest = np.argmin(np.sum((table.inputs - place) ** 2, axis=1))
        assert table.outputs[nearest] > -0.41


def write_table(path, *lines):
    with gzip.open(path, "wt") as stream:
        stream.write("\n".join(lines) + "\n")


def test_a_loan_returns_its_instalments(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXDPBO_DATA", str(tmp_path))
    write_table(
        tmp_path / "modeldata_lending_club.csv.gz", "annual_inc,term,int_rate,funded_amnt,Class",
        "50000,term_36,12,1000,good", "60000,term_60,6,2000,bad",
    )  # fmt: skip
    table = curator_tables.loans()
    np.testing.assert_array_equal(table.inputs, [[1000, 12, 50000], [2000, 6, 60000]])
    for number, (rate, months, share) in enumerate(((0.01, 36, 1.0), (0.005, 60, 0.5))):
        # The instalment is what leaves nothing owed: interest on the rest, month by month.
        owed, instalment = 1.0, rate / (1 - (1 + rate) ** -months)
        for _ in range(months):
            owed += owed * rate - instalment
        assert abs(owed) < 1e-9
        assert table.outputs[number] == pytest.approx(np.log(share * months * instalment))
    assert "derived from rate and term" in table.source


def test_properties_are_cheap_where_their_output_is_large(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXDPBO_DATA", str(tmp_path))
    write_table(
        tmp_path / "modeldata_ames.csv.gz", "Sale_Price,Gr_Liv_Area,Latitude,Longitude,Sale_Condition",
        "200000,1000,42.1,-93.5,Normal", "100,1000,42.2,-93.6,Family", "100000,1000,42.3,-93.7,Normal",
    )  # fmt: skip
    table = curator_tables.properties()
    np.testing.assert_array_equal(table.inputs, [[-93.5, 42.1], [-93.7, 42.3]])
    np.testing.assert_allclose(table.outputs, -np.log([200, 100]))


@pytest.mark.parametrize(
    "made", [curator_tables.loans, curator_tables.properties, partial(classification.load, "adult")]
)
def test_a_table_that_is_missing_is_an_error_that_names_its_file(tmp_path, monkeypatch, made):
    monkeypatch.setenv("JAXDPBO_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"needs the file \S+\.gz in the directory that .* JAXDPBO_DATA names"):
        made()


# The problems keep users apart.

USERS = 7
DATA = np.random.default_rng(0).normal(size=(USERS, 3))


def split(users=USERS):
    """Records for a model that is trained on others."""
    rng = np.random.default_rng(1)
    inputs, labels = rng.normal(size=(12 + users, 10)), np.sign(rng.normal(size=12 + users))
    return splits.Split(inputs[:12], labels[:12], inputs[12:], labels[12:])


PAIRS = DATA, DATA[:, 0].copy()


PROBLEMS = {
    "location": (location.loss, np.ones(3), DATA, 0),
    "huber_regression": (huber_regression.loss, np.ones(3), PAIRS, 0),
    "logistic_regression": (logistic_regression.loss, np.zeros(1), split(), splits.OF_USERS),
    "logistic_regression, gains": (logistic_regression.gains, np.zeros(1), split(), splits.OF_USERS),
    "noisy": (
        noisy.objective(location.loss), np.ones(3), noisy.Data(DATA, jax.random.key(0), np.array(0.1), np.array(True)),
        noisy.Data(0, None, None, None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_that_jax_traces_keeps_users_apart(name):
    objective, point, data, axes = PROBLEMS[name]
    run = separable.check_separable(objective, point, jax.tree.map(jnp.asarray, data), axes)
    assert run.axis == 0
    np.testing.assert_allclose(run(point, data), objective(jnp.asarray(point), data), rtol=rtol(1e-12))


OF_ONE_PERSON = {
    "location": location, "huber_regression": huber_regression, "logistic_regression": logistic_regression,
    "gp_regression": gp_regression,
}  # fmt: skip


@pytest.mark.parametrize("name", OF_ONE_PERSON)
def test_a_problem_written_for_one_person_is_the_same(name):
    module = OF_ONE_PERSON[name]
    _, point, data, axes = PROBLEMS.get(name, (None, np.full(10, 2.0), split(), splits.OF_USERS))
    found = per_user(module.loss_of_one, axes)(jnp.asarray(point), jax.tree.map(jnp.asarray, data))
    np.testing.assert_allclose(found, module.loss(jnp.asarray(point), data), rtol=rtol(1e-9))


def test_a_problem_whose_users_go_in_chunks_is_not_shown_to_and_replays_as_if_it_did():
    """Its users' axis is divided among chunks, which the analysis does not follow."""
    data, point = split(), np.ones(10)
    with pytest.raises(separable.NotSeparable, match=r"takes a part of the users at .*gp_regression\.py"):
        separable.check_separable(gp_regression.loss, point, split(300), splits.OF_USERS)
    assert separable.audit_separable(gp_regression.loss, [point], data, USERS, replace=replaced)


def test_adult_is_encoded_in_123_columns(monkeypatch):
    row = ["39", "State-gov", "77516", "Bachelors", "13", "Never-married", "Adm-clerical", "Not-in-family", "White",
           "Male", "2174", "0", "40", "United-States", "<=50K"]  # fmt: skip
    other = ["50", "?", "83311", "HS-grad", "9", "Divorced", "Sales", "Wife", "Black", "Female", "0", "5", "13", "Cuba",
             ">50K"]  # fmt: skip
    monkeypatch.setattr(datasets, "table", lambda name: [row, other] * 10)
    loaded = classification.load("adult", test=4)
    # Two values of each of the other categories, one known workclass, four continuous in five parts, two gains in two.
    assert loaded.train[0].shape == (16, 4 * 5 + 2 * 2 + 7 * 2 + 1)
    assert set(np.unique(loaded.train[0])) <= {0.0, 1.0}
    assert set(loaded.train[1]) <= {0, 1}
    assert (loaded.classes, len(loaded.test[1])) == (2, 4)
    with pytest.raises(ValueError, match="name must be one of"):
        classification.load("iris")
    with pytest.raises(ValueError, match="test must leave records"):
        classification.load("adult", test=20)


def test_theorem_7_holds_on_real_records(trials):
    """Two regularisations, one user replaced: never more than both terms, and at least .9 of them at worst.

    The user's record lies along the model, with the label the model gets right, and then the other. Half the pairs have
    one regularisation, where the bound is of the user alone; at small ones the largest gain is what it is.
    """
    data = logistic_regression.split(datasets.load("breast_cancer"), 0, train=100, validation=60)
    low, high = logistic_regression.bounds()[:, 0]
    fit = jax.jit(logistic_regression.fit)
    rng, closest = np.random.default_rng(1), {"one regularisation": 0.0, "two": 0.0, "large": 0.0}
    for number in range(trials("theorem 7 on logistic regressions", 60, 300, 1)):
        kind = ("one regularisation", "two", "large")[number % 3]
        first = rng.uniform(low, high) if kind != "large" else rng.uniform(0, 4)
        second = first + (rng.uniform(0, 0.02) if kind == "two" else 0.0)
        one, other = (np.asarray(fit(np.array([at]), data)) for at in (first, second))
        user = rng.integers(60)
        inputs, labels = data.validation.copy(), data.validation_targets.copy()
        inputs[user] = rng.choice([1, -1]) * one / np.linalg.norm(one)
        labels[user] = np.sign(inputs[user] @ one)
        flipped = np.where(np.arange(60) == user, -labels, labels)
        before = np.clip((1 + labels * (inputs @ one)) / 2, 0, 1).mean()
        after = np.clip((1 + flipped * (inputs @ other)) / 2, 0, 1).mean()
        smallest, largest = np.exp((first, second))
        slopes = {
            "gain_lipschitz": logistic_regression.GAIN_LIPSCHITZ, "loss_lipschitz": logistic_regression.LOSS_LIPSCHITZ,
        }  # fmt: skip
        bound = sensitivity.mean_gain(60, largest_gain=1.0, smallest=smallest, **slopes)
        bound += sensitivity.regularisation(smallest=smallest, largest=largest, **slopes)
        assert abs(before - after) <= bound * (1 + 1e-12)
        closest[kind] = max(closest[kind], abs(before - after) / bound)
    assert closest["one regularisation"] > 0.99
    assert closest["two"] > 0.5
    assert closest["large"] > 1 / 4  # the term without g*, of which a logistic slope of at most 1/2 leaves half


@pytest.mark.parametrize(("loss", "parameters"), [(kernel_svm.loss, 2), (_kernel_svr.kernel_svr_loss, 13)])
def test_a_problem_in_python_replays_as_if_it_kept_users_apart(loss, parameters):
    point = np.full(parameters, 0.5)
    assert separable.audit_separable(loss, [point], split(), USERS, replace=replaced)


def replaced(data, row):
    """A user far away, with the other label."""
    inputs, labels = data.validation.copy(), data.validation_targets.copy()
    inputs[row], labels[row] = 50.0, -labels[row]
    return data._replace(validation=inputs, validation_targets=labels)
