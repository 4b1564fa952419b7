"""Notes that follow from a release: what is no different from noise says so, and what differs does not."""

import jax
import jax.numpy as jnp
import numpy as np
import optuna
import pytest
import scipy.stats
from option_groups import group_options

import jaxdpbo
from jaxdpbo import PrivateObjective, Search, notes, space
from jaxdpbo.drivers import public_search, release_notes
from jaxdpbo.integrations.optuna import private_study
from jaxdpbo.integrations.sklearn import PrivateClassifier
from jaxdpbo.tuning import fitting

RNG = np.random.default_rng(0)
SEEDED = {"key": jax.random.key(0), "insecure_key": True}


def ids(said):
    return [note.id for note in said]


@pytest.mark.parametrize("count", [2, 4, 20])
def test_values_of_one_mean_are_noise_and_values_far_apart_are_not(count):
    """Against the exact quantile of the range of normal variables."""
    exact = scipy.stats.norm.ppf(1 - 0.0005) * np.sqrt(2)  # of two values
    if count > 2:
        exact = scipy.stats.studentized_range.ppf(0.999, count, 1e6)
    values = np.zeros(count)
    values[0] = 0.3 * 0.999 * exact
    assert ids(release_notes.value_notes(values, 0.3)) == ["values-like-noise"]
    values[0] = 0.3 * 1.05 * exact  # the union over pairs is a little larger
    assert release_notes.value_notes(values, 0.3) == ()
    noise = RNG.normal(0, 0.3, (300, count))
    assert all(release_notes.value_notes(row, 0.3) for row in noise)


def test_few_values_missing_values_and_no_noise_say_nothing():
    for values, deviation in (([], 1.0), ([0.5], 1.0), ([0.5, np.nan, np.inf], 1.0), ([0.5, 0.5], 0.0)):
        assert release_notes.value_notes(values, deviation) == ()
    (said,) = release_notes.value_notes([0.5, np.nan, 0.51], 1.0)
    assert said.text.startswith("the best of 2 released values")


def test_half_of_the_settings_near_the_best_are_a_note():
    widths = np.full(4, 0.1)
    assert release_notes.best_notes([0.0, 1.0, 1.0, 1.0], widths, 0) == ()
    (said,) = release_notes.best_notes([0.0, 0.28, 0.28, 1.0], widths, 0)  # two deviations of a difference are 0.283
    assert said.text == "2 of 3 other settings are within noise of the best"
    assert release_notes.best_notes([0.0, 0.29, 0.28, 1.0], widths, 0) == ()
    assert release_notes.best_notes([0.0], widths[:1], 0) == ()


def test_an_error_is_compared_with_a_constants():
    assert release_notes.error_notes(0.2, 0.02, 0.25) == ()
    assert ids(release_notes.error_notes(0.22, 0.02, 0.25)) == ["error-like-constant"]
    assert ids(release_notes.error_notes(0.1, 0.1, 0.5)) == ["wide-error"]
    assert ids(release_notes.error_notes(0.4, 0.1, 0.5)) == ["error-like-constant", "wide-error"]
    assert release_notes.error_notes(np.nan, np.nan) == ()


def flat(point, data):
    return jnp.full(len(data), 0.5) + 0 * point[0]


def steep(point, data):
    return jnp.full(len(data), point[0])


def searched(loss, box, **search):
    options = {"mu": 1.0, "loss_range": (0, 1), "search": Search(steps=3, batch=2, **search), **SEEDED}
    return jaxdpbo.minimize(loss, np.zeros(2000), box, **options)


def test_a_search_by_evaluations_says_if_its_values_are_noise():
    assert searched(steep, [(0, 1)], method="evaluations").notes == ()
    estimated = searched(flat, [(0, 1)], method="evaluations", estimate_share=0.1)
    assert ids(estimated.notes) == ["values-like-noise"]
    assert estimated.report().notes == estimated.notes


def test_a_choice_among_equal_proposals_says_so(monkeypatch):
    """Points of a box that are different may be one setting of a space."""

    def loss(params, data):
        return np.full(len(data), 0.5)

    def propose(width, public_rows=notes.FEW_PUBLIC_ROWS):
        def proposed(evaluate, box, count, proposals, design):
            evaluate(design)
            return np.linspace(0.5, 0.5 + width, proposals)[:, None]

        monkeypatch.setattr(public_search._proposals, "propose", proposed)
        return jaxdpbo.minimize(
            loss, np.zeros(2000), {"depth": space.integer(3, 9)}, mu=1.0, loss_range=(0, 1),
            public=np.zeros(public_rows), search=Search(method="proposed", steps=4, batch=2), **SEEDED,
        )  # fmt: skip

    assert ids(propose(0.01).notes) == ["equal-points"]
    assert propose(0.5).notes == ()
    assert ids(propose(0.5, notes.FEW_PUBLIC_ROWS - 1).notes) == ["few-public-rows"]


def evaluated(places, loss=lambda point, data: np.full(len(data), 0.5)):
    private = PrivateObjective(loss, np.zeros(500), users=500, evaluations=len(places), mu=1.0, loss_range=(0, 1))
    before = [private.notes for place in places if private(place) is not None]
    return before, private.notes


def test_an_objective_says_so_once_its_evaluations_are_spent():
    before, after = evaluated([np.array([0.5]), np.array([0.25]), {"x": 1}])
    assert before == [(), (), after]
    assert ids(after) == ["values-like-noise"]
    assert ids(evaluated([0.5, 0.5])[1]) == ["equal-points", "values-like-noise"]
    assert evaluated([0.0, 1.0], lambda point, data: np.full(len(data), point))[1] == ()


def studied(losses, high=1.0):
    private = private_study(
        optuna.create_study(sampler=optuna.samplers.RandomSampler(0)),
        lambda trial: {"x": trial.suggest_float("x", 0, high)},
        losses,
        np.zeros(5000),
        **group_options(users=5000, evaluations=6, mu=1.0, loss_range=(0, 1)),
    )
    private.optimize()
    return private


def test_a_study_says_if_its_settings_are_one_or_their_values_noise():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    noise = studied(lambda params, data: np.full(len(data), 0.5))
    assert ids(noise.notes) == ["values-like-noise"]
    assert ids(noise.best().notes) == ["best-within-noise"]
    assert ids(noise.report().notes) == ["values-like-noise", "best-within-noise"]
    assert "[values-like-noise]" in repr(noise)
    clear = studied(lambda params, data: np.full(len(data), params["x"]))
    assert (clear.notes, clear.best().notes) == ((), ())
    assert "equal-points" in ids(studied(lambda params, data: data, high=0.0).notes)


def fitted(monkeypatch, error, deviation, **options):
    plain = fitting.TuningResult
    monkeypatch.setattr(
        fitting, "TuningResult", lambda *values: plain(*values)._replace(error=error, error_deviation=deviation)
    )
    settings = [{"hidden": (), "learning_rate": 1.0, "batch": 32, "epochs": 1, "clip_norm": 1.0}]
    model = PrivateClassifier(
        space.real(0, 1), classes=(0, 1), epsilon=5, delta=1e-4, settings=settings, **SEEDED, **options
    )
    return model.fit(np.zeros((600, 1)), np.arange(600) % 2)


def test_a_model_says_if_a_constant_errs_as_little(monkeypatch):
    for error, deviation, options, said in (
        (0.2, 0.01, {}, []),
        (0.49, 0.01, {}, ["error-like-constant"]),
        (0.2, 0.01, {"class_shares": (0.76, 0.24)}, []),
        (0.23, 0.01, {"class_shares": (0.76, 0.24)}, ["error-like-constant"]),
        (0.2, 0.15, {}, ["error-like-constant", "wide-error"]),
    ):
        model = fitted(monkeypatch, error, deviation, **options)
        assert ids(model.notes_) == [*said, "one-fit"], (error, options)
        assert model.report_.notes == model.notes_
        monkeypatch.undo()


@pytest.mark.parametrize("shares", [(0.5,), (0.7, 0.7), (-0.5, 1.5), (np.nan, 1.0), "ab"])
def test_shares_of_classes_are_checked_before_anything_is_spent(shares):
    model = PrivateClassifier(space.real(0, 1), classes=(0, 1), epsilon=5, delta=1e-4, class_shares=shares)
    with pytest.raises((ValueError, TypeError), match="class_shares must"):
        model.fit(np.zeros((600, 1)), np.arange(600) % 2)


def test_a_private_estimate_of_a_model_says_that_its_noise_is_wide():
    result = fitting.TuningResult("weights", 0.1, 1.0, (), 0.2, 0.3)
    assert ids(result.notes) == ["wide-error"]
    assert "weights" not in repr(result)
    assert "note: the noise of the error" in repr(result)
    assert all(note.id in notes.SOURCES for note in result.notes)
