"""Trainings of jax-privacy and Opacus, as docs/tutorials/libraries.md shows them: what they claim is what they do.

Opacus itself runs with --full alone; here what its accountant counted, as stored, is what is charged.
"""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from benchmarks.trainings import opacus_sgd, rows
from jaxdpbo import tuning
from jaxdpbo.privacy import _guarantee

COUNTED = Path(__file__).with_name("opacus_counted.json")  # python -m benchmarks.trainings.opacus_sgd FILE
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = X[:, 0] > 0
STEPS = {"jax_privacy": {"steps": 12}, "opacus": {"epochs": 1}}


@pytest.fixture(params=["jax_privacy", "opacus"])
def library(request):
    """A training, and a setting of it."""
    if request.param == "opacus":
        request.getfixturevalue("full_only")
        pytest.importorskip("opacus")
        training = opacus_sgd.OpacusSGD(3)
    else:
        pytest.importorskip("jax_privacy")
        from benchmarks.trainings.jax_privacy_sgd import JaxPrivacySGD

        training = JaxPrivacySGD(3)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield training, {"learning_rate": 1.0, "batch": 32, "clip_norm": 1.0} | STEPS[request.param]


def test_tuned_and_trained_under_one_statement(library, capfd):
    training, setting = library
    settings = [setting | {"learning_rate": rate} for rate in (1e-4, 1.0)]
    found = tuning.tune_and_train(
        training, (X, Y), settings, epsilon=8.0, delta=1e-4, key=jax.random.key(3), insecure_key=True, on_error="raise"
    )
    assert found.setting in settings
    for each in found.guarantees:
        assert 6.0 < each.epsilon(delta=1e-4) <= 8.0
        assert set(training.assumptions()) <= set(each.assumptions)
    assert {_guarantee.IDEAL_NOISE, _guarantee.POISSON_BATCHES, _guarantee.FOREIGN_DRAWS} == set(training.assumptions())
    assert {each.relation for each in found.guarantees} == {"replace_one"}
    assert "group privacy" in training.cost(setting, found.noise, 320).how
    assert capfd.readouterr() == ("", "")


def test_it_learns_from_its_key_alone(library):
    training, setting = library

    def model(seed):
        return training.fit(setting, 0.5, (X, Y), jax.random.key(seed))

    np.random.seed(1)  # noqa: NPY002
    first, state = model(0), np.random.get_state()[1]  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    again, other = model(0), model(1)
    for name in ("weights", "bias"):
        assert type(first[name]).__module__ == "numpy"
        assert np.array_equal(first[name], again[name])
    assert not np.array_equal(first["weights"], other["weights"])
    np.random.seed(1)  # noqa: NPY002
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert np.mean(training.losses(first, (X, Y))) < 0.2


def test_rows_of_any_values_raise_nothing_and_spoil_nothing(library):
    training, setting = library
    for value in (np.nan, np.inf, -1e300, 1e38):
        junk, labels = X.copy(), Y.astype(float)
        junk[:30], labels[:30] = value, value
        training.expect((junk, labels))
        assert all(np.all(np.isfinite(leaf)) for leaf in rows.finite((junk, labels)))
        model = training.fit(setting, 1.0, (junk, labels), jax.random.key(0))
        assert np.all(np.isfinite(model["weights"]))
        assert np.all(np.isfinite(training.losses(model, (junk, labels))))
    with pytest.raises(ValueError, match="rows must be floats"):
        training.expect((X[:, :2], Y))


def test_one_row_moves_a_sum_by_no_more_than_the_clip_norm():
    """Of jax-privacy's steps, as they are put together here."""
    pytest.importorskip("jax_privacy")
    from benchmarks.trainings import jax_privacy_sgd as peer

    x, y = rows.finite((X[:9] * 40, Y[:9]))
    params = {"weights": np.zeros(3, np.float32), "bias": np.zeros((), np.float32)}
    padding = np.zeros(9, bool)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        state = peer.noise_addition.gaussian_privatizer(stddev=0.0, prng_key=0).init(params)
        found = [
            peer._step(params, state, x, y, padding | (np.arange(9) == left), 0.0, 0.7, 1.0)[0] for left in (-1, 0, 4)
        ]
    for other in found[1:]:
        moved = np.hypot(np.linalg.norm(found[0]["weights"] - other["weights"]), found[0]["bias"] - other["bias"])
        assert 0.69 < moved <= 0.7 * (1 + 1e-5)  # each gradient is far over the clip norm


def test_what_is_charged_is_what_jax_privacy_draws(monkeypatch):
    """The rate, the steps and the noise of the event are the sampler's and the privatizer's; batches are Poisson."""
    pytest.importorskip("jax_privacy")
    from benchmarks.trainings import jax_privacy_sgd as peer

    training, setting = peer.JaxPrivacySGD(3), {"learning_rate": 1.0, "batch": 32, "clip_norm": 1.0, "steps": 12}
    made, drawn = peer.batch_selection.CyclicPoissonSampling, []
    noised, deviations = peer.noise_addition.gaussian_privatizer, []
    monkeypatch.setattr(
        peer.batch_selection, "CyclicPoissonSampling", lambda **given: drawn.append(made(**given)) or drawn[-1]
    )
    monkeypatch.setattr(
        peer.noise_addition,
        "gaussian_privatizer",
        lambda **given: deviations.append(given["stddev"]) or noised(**given),
    )
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        training.fit(setting, 1.7, (X, Y), jax.random.key(0))
    event, _ = training.cost(setting, 1.7, len(Y)).arguments
    (sampling,) = drawn
    assert (event.event.sampling_probability, event.count) == (sampling.sampling_prob, sampling.iterations)
    assert event.event.event.noise_multiplier == deviations[0]  # of clipped gradients scaled to length 1
    many = made(sampling_prob=0.1, iterations=4000, partition_type=sampling.partition_type)
    counts = [np.bincount(one, minlength=50) for one in many.batch_iterator(50, rng=np.random.default_rng(0))]
    sizes = np.sum(counts, axis=1)
    assert np.max(counts) == 1
    assert np.mean(sizes) == pytest.approx(5.0, abs=0.15)
    assert np.var(sizes) == pytest.approx(4.5, rel=0.1)


def test_what_is_charged_is_what_opacus_counted():
    """The rate and the steps that its data loader made of a batch, and epochs, of 400 rows."""
    setting, noise, records = opacus_sgd.EXAMPLE
    event, relation = opacus_sgd.OpacusSGD(3).cost(setting, noise, records).arguments
    assert relation == "add_or_remove"
    assert event == opacus_sgd.event(json.loads(COUNTED.read_text()))


def test_opacus_counts_what_is_stored(full_only):
    pytest.importorskip("opacus")
    import torch

    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    model, counted = opacus_sgd.example()
    assert torch.equal(before, torch.random.get_rng_state())
    assert [list(one) for one in counted] == json.loads(COUNTED.read_text())
    assert opacus_sgd.OpacusSGD(3).losses(model, (X, Y)).shape == (400,)
    torch.manual_seed(1)
    first = torch.rand(3)
    torch.manual_seed(1 + 2**32)
    assert torch.equal(first, torch.rand(3))  # the seed has 32 bits, which the page says
