"""Private models by private steps: what a row can move, an error without bias, and a budget that is spent whole."""

import concurrent.futures
import contextlib
import math
import pickle
import signal
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_validate

from jaxdpbo import Recording, ledger, notes, private_linear, sensitivity, space
from jaxdpbo.guarantee import assumptions, guarantees
from jaxdpbo.integrations.sklearn import PrivateClassifier, PrivateRegressor
from jaxdpbo.integrations.sklearn import columns as _columns
from jaxdpbo.noise import mechanisms
from jaxdpbo.tuning import fitting, measured_error, private_steps

RNG = np.random.default_rng(0)
RUN = {"key": jax.random.key(0), "insecure_key": True}
BUDGET = {"epsilon": 2.0, "delta": 1e-5}
ONE = np.ones(1, np.int64)

# -- What a row can move ----------------------------------------------------------------------------------------------


def test_two_moments_are_no_farther_apart_than_what_is_charged():
    """Of integers, all pairs of numbers on a grid: by (2 m)^2, and no less."""
    for moment in (1, 2, 3, 7, 30, 101):
        numbers = np.linspace(-1, 1, 401)
        config = measured_error.Config(5, moment, 0)
        moved = [measured_error.count_moments(config, np.zeros(1), np.array([number]), ONE) for number in numbers]
        moments = np.array([counted for _, counted in moved])
        apart = ((moments[:, None] - moments[None]) ** 2).sum(axis=-1)
        assert apart.max() == sensitivity.error_and_moments_squared(0, moment) == 4 * moment**2
        errors = np.array([count for count, _ in moved])
        assert 0 <= errors.min() <= errors.max() <= 5


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_a_replaced_row_moves_the_measured_numbers_by_what_is_charged(classes):
    config = measured_error.config(0.3, classes)
    if classes:
        labels, predicted = np.arange(-1, classes), np.arange(classes)
        count = measured_error.count_classes
    else:
        labels = np.array([-1e30, -1.0, -0.3, 0.0, 1.0, 7.0, np.nan, np.inf])
        predicted = np.array([-3.0, -1.0, 0.2, 1.0])
        count = measured_error.count_moments
    rows = [
        np.concatenate([[error], rest.ravel()])
        for label in labels
        for guess in predicted
        for error, rest in [count(config, np.array([guess]), np.array([label]), ONE)]
    ]
    squared = max(int(((first - second) ** 2).sum()) for first in rows for second in rows)
    stated = measured_error.level(config)
    assert 0.98 * stated**2 < squared / measured_error.SIGMA**2 <= Fraction(stated) ** 2
    assert 0.999 * 0.3 < stated <= 0.3


COLUMNS = {"a": (0, 1), "b": space.real(1, 100, log=True), "c": ["x", "y"], "d": space.integer(0, 9)}


def frame(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "a": rng.uniform(size=rows),
            "b": np.exp(rng.uniform(0, math.log(100), rows)),
            "c": rng.choice(["x", "y"], rows),
            "d": rng.integers(0, 10, rows),
        }
    )


def features_of(table, columns=COLUMNS):
    encoding = _columns.make_encoding(columns, list(table.columns))
    return encoding, _columns.encode(encoding, [np.asarray(table[name], dtype=object) for name in table])


@pytest.mark.parametrize(
    "columns", [COLUMNS, {**COLUMNS, "b": None, "d": None}, {**dict.fromkeys("abd"), "c": ["x", "z"]}]
)
def test_no_row_of_features_is_longer_than_one(columns):
    odd = [0.0, 1.0, -1e30, 1e30, np.nan, np.inf, None, "x", "7", 0.31, 4.5, 1e-300, 2**80]
    table = frame()
    for name in table:
        column = table[name].astype(object)
        column[: len(odd)] = odd
        column[50:250] = [odd[number] for number in np.random.default_rng(1).integers(0, len(odd), 200)]
        table[name] = column
    encoding, encoded = features_of(table, columns)
    lengths = np.linalg.norm(_columns.unit_features(encoding, encoded).astype(float), axis=1)
    assert lengths.max() <= 1 + 1e-6
    assert lengths.min() > 0.3


@pytest.mark.parametrize("many", [False, True])
def test_the_layer_of_the_model_predicts_what_was_trained(many, monkeypatch):
    if many:
        monkeypatch.setattr(_columns, "MOST", 50)  # so that features are combined
        _columns._combinations.cache_clear()
    encoding, encoded = features_of(frame(20))
    unit = _columns.unit_features(encoding, encoded)
    assert unit.shape[1] == (50 if many else encoding.width + 1)
    weights = RNG.normal(size=(unit.shape[1], 2)).astype(np.float32)
    layer, bias = _columns.layer_of_weights(encoding, weights)
    np.testing.assert_allclose(encoded @ layer + bias, unit @ weights, atol=1e-4)
    assert len(_columns.feature_names(encoding)) == encoding.width
    _columns._combinations.cache_clear()


def test_many_columns_have_fewer_knots():
    wide = pandas.DataFrame(np.zeros((2, 900)))
    assert features_of(wide, space.real(0, 1))[0].knots == 2
    assert features_of(wide.iloc[:, :100], space.real(0, 1))[0].knots == 11


def test_people_count_once_and_are_on_one_side():
    owners = np.repeat(np.arange(150), 4)
    held, kept, counts = private_steps._split(600, owners)
    assert not set(owners[held]) & set(owners[kept])
    assert (len(set(owners[held])), set(counts)) == (30, {4})
    labels, predicted = RNG.integers(0, 2, len(held)), RNG.integers(0, 2, len(held))
    config = measured_error.config(1e6, 2)
    found = measured(jax.random.key(0), config, predicted, labels, counts[held])
    assert found.rows == 30
    assert found.error == pytest.approx(np.mean(labels != predicted), abs=0.01)
    table = frame().assign(who=[f"p{number}" for number in owners])
    model = classifier(person="who", classes=("x", "y"), **RUN).fit(table, table["c"])
    assert model.guarantee_.protects.startswith(f"{guarantees.ALL_PEOPLE}; NOT ")
    assert assumptions.ROW_OWNERS in model.guarantee_.assumptions
    assert assumptions.ONE_ROW not in model.guarantee_.assumptions
    assert model.public_["users"] == 150
    assert model.score(table, table["c"]) > 0.8
    with pytest.raises(TypeError, match="columns must be a dict, got list"):
        classifier([1], person="who", classes=("x", "y")).fit(table, table["c"])
    with pytest.raises(ValueError, match="person must be a column of X"):
        classifier(person="whom", classes=("x", "y")).fit(table, table["c"])


@pytest.mark.parametrize("classes", [0, 2])
def test_two_people_move_the_measured_numbers_by_what_is_charged(classes):
    config = measured_error.config(0.3, classes)
    count = measured_error.count_classes if classes else measured_error.count_moments
    rng, rows = np.random.default_rng(5), []
    for _ in range(400):
        predicted = rng.integers(0, classes, 3) if classes else rng.choice([-1.0, 0.0, 1.0], 3)
        labels = rng.integers(-1, classes, 3) if classes else rng.choice([-1.0, 1.0, 0.3, np.nan], 3)
        error, rest = count(config, predicted, labels, np.full(3, 3))
        rows.append([error, *rest.ravel()])
    found = np.array(rows)
    squared = max(int(((found - one) ** 2).sum(axis=1).max()) for one in found)
    assert 0.5 < squared / measured_error.SIGMA**2 / measured_error.level(config) ** 2 <= 1


# -- The measured error -----------------------------------------------------------------------------------------------


def measured(key, config, *given):
    return measured_error.measure(measured_error.draw_noise(key, config), config, *given)


def test_the_error_has_no_bias_and_the_stated_deviation():
    labels, predicted = RNG.integers(-1, 3, 500), RNG.integers(0, 3, 500)
    config = measured_error.config(0.2, 3)
    drawn = [measured(key, config, predicted, labels) for key in jax.random.split(jax.random.key(1), 300)]
    errors = np.array([each.error for each in drawn])
    deviation = drawn[0].deviation
    assert abs(errors.mean() - np.mean(predicted != labels)) < 4 * deviation / math.sqrt(len(drawn))
    assert errors.std() == pytest.approx(deviation, rel=0.17)  # four deviations of a sample's deviation
    assert errors.min() < np.mean(predicted != labels) - 2 * deviation  # nothing is cut
    table = np.mean([each.table for each in drawn], axis=0)
    expected = np.array(
        [[np.sum((labels == row) & (predicted == column)) for column in range(3)] for row in (0, 1, 2, -1)]
    )
    np.testing.assert_allclose(table, expected, atol=4.5 * drawn[0].table_deviation / math.sqrt(len(drawn)))
    cells = np.array([each.table.ravel() for each in drawn])
    assert cells.std() == pytest.approx(np.hypot(drawn[0].table_deviation, expected.std()), rel=0.1)


def test_the_errors_of_a_regression_are_those_of_numpy():
    labels = np.append(RNG.uniform(-1, 1, 400), np.nan)
    predicted = np.append(RNG.uniform(-1.5, 1.5, 400), 0.3)
    config = measured_error.config(1e6, 0)  # so much that the noise is nothing
    found = measured(jax.random.key(0), config, predicted, labels)
    squares = np.square((np.clip(predicted, -1, 1) - labels) / 2)
    assert found.error == pytest.approx((np.nansum(squares) + 0.25) / 401, abs=1e-3)
    assert found.constant_error == pytest.approx(np.nanvar(labels) / 4, rel=0.01)
    assert found.table is None


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_the_interval_holds_the_error_on_new_rows(share):
    config = measured_error.config(0.3, 2)
    held = 0
    for number, key in enumerate(jax.random.split(jax.random.key(2), 400)):
        wrong = np.random.default_rng(number).random(300) < share
        found = measured(key, config, wrong.astype(int), np.zeros(300, int))
        low, high = measured_error.interval(found.error, found.deviation, found.rows)
        assert 0 <= low <= high <= 1
        held += low <= share <= high
    assert held / 400 > 0.95 - 4 * math.sqrt(0.05 * 0.95 / 400)
    assert measured_error.interval(math.inf, 0.1, 5) == (0.0, 1.0)


# -- The guarantee ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [0, 2, 5])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-4), (1.0, 1e-5), (8.0, 1e-5)])
def test_the_budget_is_spent_and_covers_both_parts(classes, epsilon, delta):
    """Also a large epsilon: exact noise takes next to nothing of delta."""
    plan, stated = private_steps.make_plan(4000, 1000, 250, classes, epsilon, delta)
    assert stated.protects == guarantees.ALL_ROWS
    assert 0.97 * epsilon < stated.epsilon(delta) <= epsilon
    for part in (
        private_linear.algorithm.privacy(plan.linear),
        measured_error.privacy(plan.error, fitting.VALIDATION),
    ):
        assert part.epsilon(delta) <= epsilon
    assert (1 + math.exp(epsilon)) * stated.total_variation < 0.01 * delta


def test_clip_norms_grow_with_the_people_their_weight_and_the_level():
    """By the numbers that are public and on one scale: rows, or people, that train, times weight times mu."""

    def chosen(rows, classes=2, epsilon=1.0, **options):
        config = private_steps.make_plan(rows, rows // 4, 20, classes, epsilon, 1e-7, **options)[0].linear
        assert len(set(np.asarray(config.clip_norms))) == 1
        return float(config.clip_norms[0]), float(config.mu)

    for classes, shortest, longest in ((0, 0.25, 2.0), (2, 0.5, 1.0), (3, 0.5**0.5, 2**0.5)):
        assert chosen(1000, classes)[0] == pytest.approx(shortest)
        assert chosen(2_000_000, classes)[0] == pytest.approx(longest)
        norm, mu = chosen(20_000, classes)
        assert norm == pytest.approx(min(longest, shortest * math.sqrt(20_000 * mu / 2_000)))
    assert chosen(20_000)[0] == pytest.approx(chosen(40_000, weight=0.5)[0])
    assert chosen(20_000)[0] == pytest.approx(chosen(60_000, people=25_000)[0], rel=0.02)


def test_a_budget_too_small_for_the_features_is_refused():
    with pytest.raises(ValueError, match=r"epsilon must be at least .* for 1400 features and 1 outputs"):
        private_steps.make_plan(1000, 250, 1400, 2, 0.05, 1e-5)


def test_no_row_trains_and_measures():
    held, kept = fitting.held_out_rows(1003)
    assert sorted([*held, *kept]) == list(range(1003))
    assert len(held) == 201


def ledger_of(folder, protects=guarantees.ALL_ROWS):
    path = folder / "ledger.jsonl"
    ledger.create(path, notion="dp", level=20.0, delta=1e-2, total_variation=1e-3, protects=protects)
    return path


def test_all_is_compiled_before_the_charge(tmp_path, monkeypatch):
    path, said = ledger_of(tmp_path), []
    compiling, charging = private_steps._compile, private_steps.recorded_run.begin_journal
    monkeypatch.setattr(private_steps, "_compile", lambda *given: said.append("compile") or compiling(*given))
    monkeypatch.setattr(
        private_steps.recorded_run,
        "begin_journal",
        lambda *given, **named: said.append("charge") or charging(*given, **named),
    )
    recorded(path).fit(frame(), frame()["c"])
    assert said == ["compile", "charge"]
    assert len(ledger.account(path).spends) == 1


def recorded(path, **options):
    return PrivateClassifier(COLUMNS, **{"classes": ("x", "y"), "ledger": Recording(path, "one"), **BUDGET} | options)


def test_people_of_another_run_are_not_taken_for_those_of_the_first(tmp_path):
    """One row of another person, on the same side: the same numbers of people and of rows train."""
    path, people = ledger_of(tmp_path, guarantees.ALL_PEOPLE), np.repeat(np.arange(150), 4)
    recorded(path, person="who").fit(frame().assign(who=people), frame()["c"])
    kept = np.setdiff1d(people, fitting.held_out_rows(150)[0])
    moved = people.copy()
    moved[np.flatnonzero(people == kept[0])[0]] = kept[1]
    with pytest.raises(ledger.LedgerError, match="was charged with another"):
        recorded(path, person="who").fit(frame().assign(who=moved), frame()["c"])


@pytest.mark.parametrize("kind", ["from-ledger", "resumed"])
def test_a_clone_takes_no_release_or_step_of_another(kind, tmp_path):
    """A clone that goes on where another one stopped would state that rows are protected that trained the other."""
    late = clone(recorded(ledger_of(tmp_path)))
    with pytest.raises(ledger.LedgerError, match="this estimator is a clone"):
        late._keep_notes(notes._note(kind, "a run"))


def test_a_clone_that_was_too_late_for_a_name_takes_no_release(tmp_path, monkeypatch):
    """Two folds at once: the second asked before the first had charged, and the ledger then held its release."""
    model = recorded(ledger_of(tmp_path))
    late = clone(model)
    model.fit(frame(), frame()["c"])
    monkeypatch.setattr(type(late), "_refuse_charged_clone", lambda *_: None)
    with pytest.raises(ledger.LedgerError, match="this estimator is a clone"):
        late.fit(frame(seed=1), frame(seed=1)["c"])
    assert not hasattr(late, "coef_")
    assert not hasattr(late, "error_")


def released(model):
    names = "error_", "error_deviation_", "constant_error_", "confusion_", "coef_", "intercept_", "guarantee_"
    return [np.asarray(getattr(model, name)).tolist() for name in names]


@pytest.mark.parametrize("x64", [True, False])
def test_the_same_call_returns_its_release_and_pays_once(tmp_path, x64):
    with jax.enable_x64(x64):
        path, other = ledger_of(tmp_path), frame(seed=5)
        model, again = recorded(path), recorded(path)
        model.fit(frame(), frame()["c"])
        first = released(model)
        assert released(model.fit(frame(), frame()["c"])) == first
        assert released(again.fit(other, other["c"])) == first  # rows are no part of a run's name: a hash would leak
        assert {"from-ledger", "not-compared"} <= {note.id for note in again.notes_}
        alone = recorded(path, ledger=None).fit(other, other["c"])
        assert "from-ledger" not in [note.id for note in alone.notes_]
        assert released(alone) != first
        (spend,) = ledger.account(path).spends
        assert spend.released
        regressor = PrivateRegressor(
            {**COLUMNS, "a": "private"},
            target_range="private",
            private_range=0.1,
            ledger=Recording(path, "two"),
            **BUDGET,
        )
        ranges = [regressor.fit(frame(), frame()["a"]).target_range_ + (str(regressor.encoding_),) for _ in range(2)]
        assert ranges[0] == ranges[1]


@pytest.mark.daily("change[0-3]", "change5")
@pytest.mark.parametrize(
    "change",
    [
        {"classes": ("x", "z")},
        {"columns": {**COLUMNS, "a": (0, 2)}},
        {"columns": {**COLUMNS, "b": None}},
        {"epsilon": 1.0},
        {"class_weight": (1, 2)},
        {"rows": 590},
    ],
)
def test_another_call_under_the_same_name_is_refused(tmp_path, change):
    path, rows = ledger_of(tmp_path), change.pop("rows", 600)
    recorded(path).fit(frame(), frame()["c"])
    with pytest.raises(ledger.LedgerError, match=r"another run name|belongs to"):
        recorded(path).set_params(**change).fit(frame(rows), frame(rows)["c"])
    assert len(ledger.account(path).spends) == 1


def test_a_fit_that_ends_before_its_first_draw_goes_on_and_one_that_ends_in_a_draw_has_spent_its_charge(
    tmp_path, monkeypatch
):
    """Stopped at any call between the charge and the end: one charge, and never two releases."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    path = ledger_of(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(private_steps.recording, "hold_interrupts", stop)
        with pytest.raises(KeyboardInterrupt):
            recorded(path).fit(frame(), frame()["c"])
    assert len(ledger.account(path).spends) == 1
    model = recorded(path).fit(frame(), frame()["c"])
    assert len(ledger.account(path).spends) == 1
    assert model.guarantee_.level <= 2.0
    for part in ("private_steps._training_data", "measured_error.measure", "recorded_run.record_release"):
        module, name = part.rsplit(".", 1)
        where = {"private_steps": private_steps, "measured_error": measured_error}.get(
            module, private_steps.recorded_run
        )
        begun = recorded(path, ledger=Recording(path, part))
        with monkeypatch.context() as patched:
            patched.setattr(where, name, stop)
            with pytest.raises(KeyboardInterrupt):
                begun.fit(frame(), frame()["c"])
        with pytest.raises(ledger.LedgerError, match="somebody may have seen its draws"):
            begun.fit(frame(), frame()["c"])


def test_ctrl_c_waits_for_a_draw_and_the_same_call_returns_its_release(tmp_path, monkeypatch, request):
    path, measure = ledger_of(tmp_path), measured_error.measure
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, usual))

    def typed(*given):
        signal.raise_signal(signal.SIGINT)
        return measure(*given)

    with monkeypatch.context() as patched:
        patched.setattr(measured_error, "measure", typed)
        with pytest.raises(KeyboardInterrupt):
            recorded(path).fit(frame(), frame()["c"])
    handler = signal.getsignal(signal.SIGINT)
    assert handler is signal.default_int_handler
    (spend,) = ledger.account(path).spends
    assert spend.released
    again = recorded(path).fit(frame(), frame()["c"])
    assert any(note.id == "from-ledger" for note in again.notes_)
    with monkeypatch.context() as patched:  # the control: without waiting the charge is lost
        patched.setattr(measured_error, "measure", typed)
        patched.setattr(private_steps.recording, "hold_interrupts", contextlib.nullcontext)
        with pytest.raises(KeyboardInterrupt):
            recorded(path, ledger=Recording(path, "two")).fit(frame(), frame()["c"])
    with pytest.raises(ledger.LedgerError, match="somebody may have seen its draws"):
        recorded(path, ledger=Recording(path, "two")).fit(frame(), frame()["c"])
    with concurrent.futures.ThreadPoolExecutor(1) as pool:  # which no Ctrl-C reaches
        pool.submit(recorded(path, ledger=Recording(path, "three")).fit, frame(), frame()["c"]).result()
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("person", [None, "who"])
def test_each_row_is_read_once_after_the_charge_with_a_key_of_its_own(tmp_path, monkeypatch, person):
    """What reaches the training and the measurement: rows of one side each, their counts, two keys, in this order."""
    table = frame().assign(who=np.repeat(np.arange(150), 4), number=np.arange(600))
    columns = {"number": (0, 600)} | dict.fromkeys([*"abcd", "who"])
    said, keys = [], []
    train, measure, draw, charge, compiled = (
        private_steps.train, measured_error.measure, measured_error.draw_noise,
        private_steps.recorded_run.begin_journal, private_steps._compile,
    )  # fmt: skip
    labels = np.arange(600) / 600  # so that a target says which row it is

    def see_train(data, config, key):
        said.append(("train", np.round((np.asarray(data)[:, config.features] / 2 + 0.5) * 600).astype(int), data))
        keys.append(key)
        return train(data, config, key)

    def see_measure(noise, config, predicted, targets, counts=None):
        said.append(("measure", np.round((targets / 2 + 0.5) * 600).astype(int), counts))
        return measure(noise, config, predicted, targets, counts)

    monkeypatch.setattr(private_steps, "_compile", lambda config, key: compiled(config, key) and see_train)
    monkeypatch.setattr(measured_error, "measure", see_measure)
    monkeypatch.setattr(measured_error, "draw_noise", lambda key, config: keys.append(key) or draw(key, config))
    monkeypatch.setattr(
        private_steps.recorded_run,
        "begin_journal",
        lambda *given, **named: said.append(("charge",)) or charge(*given, **named),
    )
    path = ledger_of(tmp_path, guarantees.ALL_PEOPLE if person else guarantees.ALL_ROWS)
    model = PrivateRegressor(columns, target_range=(0, 1), person=person, ledger=Recording(path, "one"), **BUDGET)
    model.fit(table, labels)
    assert [step[0] for step in said] == ["charge", "train", "measure"]
    trained, tried = set(said[1][1]), set(said[2][1])
    assert (len(trained), len(tried), trained & tried) == (480, 120, set())
    assert trained | tried == set(range(600))
    assert len({bytes(jax.random.key_data(key)) for key in keys}) == 2
    if person:
        assert not {row // 4 for row in trained} & {row // 4 for row in tried}
        assert set(np.asarray(said[1][2])[:, -1]) == set(said[2][2]) == {4}
    else:
        assert said[2][2] is None


def test_the_noise_of_everything_measured_has_its_deviation_and_is_apart():
    for classes in (0, 2):
        config = measured_error.config(0.3, classes)
        drawn = np.array([measured_error.draw_noise(key, config) for key in jax.random.split(jax.random.key(5), 500)])
        assert drawn.shape[1] == (3 if not classes else 7)
        np.testing.assert_allclose(drawn.std(axis=0), measured_error.SIGMA, rtol=0.13)
        apart = np.corrcoef(drawn.T) - np.eye(drawn.shape[1])
        assert np.abs(apart).max() < 4.5 / math.sqrt(500)


def test_the_guarantee_is_no_better_than_that_of_either_part():
    plan, _ = private_steps.make_plan(4000, 1000, 50, 2, 1.0, 1e-5)
    weaker = (
        plan._replace(error=measured_error.config(1.0, 2)),
        plan._replace(linear=private_linear.config(users=4000, features=50, mu=1.0, link="logistic")),
    )
    for each in (plan, *weaker):
        guarantee = private_steps.privacy(each)
        for part in (private_linear.algorithm.privacy(each.linear), measured_error.privacy(each.error, "rows")):
            assert guarantee.level >= part.level
            assert guarantee.total_variation >= part.total_variation > 0


def test_a_delta_is_small_beside_people_and_few_people_are_refused_before_the_charge(tmp_path):
    table = frame().assign(who=np.arange(600) % 300)
    classifier(person="who", classes=("x", "y"), delta=1 / 500).fit(table, table["c"])
    for named, count in ((None, 600), ("who", 300)):
        model = classifier(COLUMNS | {"who": None}, person=named, classes=("x", "y"), delta=1 / (count - 100))
        with pytest.raises(ValueError, match=f"delta must be below one over the number of users, 1/{count}"):
            model.fit(table, table["c"])
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, notion="dp", level=20.0, delta=1e-2, total_variation=1e-3, protects=guarantees.ALL_PEOPLE)
    options = {"classes": ("x", "y"), "person": "who", "key": None, "ledger": Recording(path, "few")}
    with pytest.raises(ValueError, match="person must name at least 10 people, got 2"):
        classifier(**options).fit(table.assign(who=np.arange(600) % 2), table["c"])
    with pytest.raises(ValueError, match="each row needs an id"):
        classifier(**options).fit(table.assign(who=[None, *range(599)]), table["c"])
    assert not ledger.account(path).spends
    spelled = [[" 7", "7.0", b"7", 7][row % 4] if row % 10 == 0 else f"p{row}" for row in range(600)]
    assert (
        classifier(person="who", classes=("x", "y")).fit(table.assign(who=spelled), table["c"]).public_["users"] == 541
    )


@pytest.mark.parametrize("tiny", [1e-45, 1e-50, 1e-320])
def test_tiny_values_raise_nothing_where_a_process_makes_underflow_an_error(tiny, float32):
    table, weights = frame().astype({"d": float}), np.ones(600)
    table.loc[7, ["a", "b", "d"]] = tiny
    table.loc[8:11, "a"] = tiny
    weights[7] = tiny
    with np.errstate(all="raise"):
        for model in (
            classifier({name: (0, 1) for name in "abd"} | {"c": None}, classes=("x", "y"), largest_weight=1.0),
            classifier(COLUMNS, classes=("x", "y"), largest_weight=1.0, class_weight=(1, 20)),
        ):
            model.fit(table, table["c"], sample_weight=weights).predict(table)


@pytest.mark.parametrize("options", [{"person": "who"}, {"largest_weight": 1.0}])
def test_a_missing_target_raises_nothing_where_a_process_stops_at_nan(options, tmp_path, float32):
    """Before: people and weights made the rows of NumPy's float64, and JAX met the NaN outside of a program."""
    table, path = frame().assign(who=np.arange(600) % 300), tmp_path / "ledger.jsonl"
    ledger.create(path, notion="dp", level=9.0, delta=1e-2, total_variation=1e-3, protects="our customers")
    columns = {"a": (0, 1), "b": None, "c": None, "d": None, "who": None}
    given = BUDGET | options | {"target_range": (0, 9), "ledger": Recording(path, "one", protects="our customers")}
    targets = table["d"].astype(float).mask(table.index < 4)
    weights = np.full(600, 0.5) if "largest_weight" in options else None
    with jax.debug_nans(True), jax.debug_infs(True), np.errstate(all="raise"):
        model = PrivateRegressor(columns, **given).fit(table, targets, sample_weight=weights)
    assert len(ledger.account(path).spends) == 1
    assert np.isfinite(model.error_)


def test_a_compiled_training_is_of_the_callers_mesh_and_none_is_needed_without_compilation(monkeypatch):
    table = frame(40)[["a", "c"]]
    model = classifier({"a": (0, 1)}, classes=("x", "y"), epsilon=8.0, delta=1e-3).fit(table[["a"]], table["c"])
    # Each operation is a program of its own, and the draws are most of them.
    monkeypatch.setattr(mechanisms, "rounded_gaussian", lambda key, shape, sigma, bits=128: jnp.zeros(shape, jnp.int32))
    with jax.disable_jit():
        model.fit(table[["a"]], table["c"])


# -- The estimators ---------------------------------------------------------------------------------------------------


def classifier(columns=COLUMNS, **options):
    return PrivateClassifier(columns, **{"classes": ("no", "yes"), **RUN, **BUDGET} | options)


def test_columns_of_a_frame_come_in_any_order():
    table = frame()
    labels = np.where(table["a"] > 0.5, "yes", "no")
    model = classifier().fit(table, labels)
    np.testing.assert_array_equal(model.predict(table[list("dcba")]), model.predict(table))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[list("abc")])
    with pytest.raises(ValueError, match="column names"):
        model.predict(table[list("abcdd")])
    scores = model.decision_function(table)
    np.testing.assert_array_equal(model.predict(table), np.where(scores > 0, "yes", "no"))
    named = dict(zip(model.get_feature_names_out(), model.coef_[0], strict=True))
    assert {"a spline 0", "b missing", "c=x", "c other", "sin wave 63"} < set(named)
    np.testing.assert_allclose(features_of(table)[1] @ model.coef_[0] + model.intercept_, scores, atol=1e-4)


@pytest.mark.parametrize("names", [[0, 1], [1990, 2000]])
def test_columns_with_numbers_for_names_are_read_by_name(names):
    """scikit-learn compares names of text alone."""
    table = frame(400)[["a", "b"]].set_axis(names, axis=1)
    model = classifier(dict(zip(names, [(0, 1), (0, 1)], strict=True)))
    model.fit(table, np.where(table[names[0]] > 0.5, "yes", "no"))
    turned = model.predict_proba(table[names[::-1]])
    np.testing.assert_array_equal(turned, model.predict_proba(table))
    np.testing.assert_array_equal(turned, model.predict_proba(table.to_numpy()))
    with pytest.raises(ValueError, match=r"X must have the columns of fit, \[\d+, \d+\], got \[7, \d+\]"):
        model.predict(table.set_axis([7, names[0]], axis=1))


@pytest.mark.full
def test_a_rare_class_is_found_by_weights():
    rng = np.random.default_rng(3)
    table = pandas.DataFrame({"a": rng.uniform(size=8000)})
    rare = rng.uniform(size=8000) < 0.12 * table["a"] ** 2  # never more likely than not
    labels = np.where(rare, "yes", "no")
    columns, shares = {"a": (0, 1)}, (0.96, 0.04)
    plain = classifier(columns).fit(table, labels)
    assert (plain.predict(table) == "no").all()
    for weights in ("balanced", {"yes": 24, "no": 1}, [1, 24]):
        model = classifier(columns, class_weight=weights, class_shares=shares).fit(table, labels)
        found = model.predict(table) == "yes"
        assert np.mean(found[rare]) > 0.6
        assert np.mean(found[~rare]) < 0.6
        assert model.recall_[1] == pytest.approx(np.mean(found[rare]), abs=0.3)
        assert "class_weight" in str(model.report_.details)
    assert model.precision_.shape == (2,)


@pytest.mark.parametrize("weights", ["balanced", (24, 1)])
def test_shares_and_weights_are_in_the_order_in_which_classes_are_named(weights):
    """That of ``classes_`` is sorted; before, the rare class got the weight of the usual one."""
    table = frame(2000)
    labels = np.where(table["a"] > 0.8, "yes", "no")
    turned = weights if weights == "balanced" else weights[::-1]
    options = {"class_shares": (0.2, 0.8), "class_weight": weights}
    named = classifier(classes=("yes", "no"), **options)
    sorted_ = classifier(classes=("no", "yes"), class_shares=(0.8, 0.2), class_weight=turned)
    np.testing.assert_array_equal(named.fit(table, labels).coef_, sorted_.fit(table, labels).coef_)
    assert named.report_.details == sorted_.report_.details
    assert named.plan(table).details == sorted_.plan(table).details
    assert np.mean(named.predict(table) == "yes") > 0.2
    by_class = pandas.Series({"yes": 0.2, "no": 0.8})  # of a census; its order is that of its frequencies
    for shares in (by_class, by_class[::-1], by_class.to_dict()):
        given = weights if weights == "balanced" else pandas.Series({"no": 1, "yes": 24})
        again = classifier(classes=("no", "yes"), class_shares=shares, class_weight=given)
        assert again._training_terms()[3] == sorted_._training_terms()[3]
    for wrong in ({"yes": 0.2}, {"yes": 0.2, "No": 0.8}, pandas.Series([0.2, 0.8])):
        with pytest.raises(ValueError, match="class_shares must have a number for each of"):
            classifier(class_shares=wrong).fit(table, labels)


def test_a_weight_of_zero_trains_nothing_and_a_large_one_counts_as_the_largest():
    table = frame(2000)
    labels = np.where(table["a"] > 0.5, 1, 0)
    options = {"classes": (0, 1), "largest_weight": 2.0, "columns": COLUMNS}
    heavy = classifier(**options).fit(table, labels, sample_weight=np.full(2000, 2.0))
    plain = classifier(**options).fit(table, labels)
    beyond = classifier(**options).fit(table, labels, sample_weight=np.full(2000, 1e30))
    np.testing.assert_allclose(heavy.coef_, plain.coef_, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(heavy.coef_, beyond.coef_)
    wrong = np.arange(2000) % 3 > 0  # most rows: without weights the model is the opposite
    spoiled = np.where(wrong, 1 - labels, labels)
    masked = classifier(**options).fit(table, spoiled, sample_weight=np.where(wrong, 0.0, 2.0))
    assert masked.score(table, labels) > 0.9
    assert classifier(**options).fit(table, spoiled).score(table, labels) < 0.5
    with pytest.raises(ValueError, match="largest_weight must be given with sample_weight"):
        classifier(classes=(0, 1)).fit(table, labels, sample_weight=np.ones(2000))
    with pytest.raises(ValueError, match="sample_weight must have shape"):
        classifier(**options).fit(table, labels, sample_weight=np.ones(3))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"class_weight": "balanced"}, "'balanced' with class_shares"),
        ({"class_weight": {"yes": 2}}, "class_weight must have a number for each"),
        ({"class_weight": (0, 0)}, "not all 0"),
        ({"class_weight": (1, 2, 3)}, "class_weight must"),
        ({"cap": 3}, "cap must be given with settings alone"),
        (
            {"class_weight": (1, 2), "settings": [{"hidden": ()}]},
            "weights, person and private_range must be given without settings",
        ),
        ({"largest_weight": -1.0}, "largest_weight must be positive"),
        ({"class_weight": (1e-9, 1), "class_shares": (1, 0)}, "class_weight must be nearer to each other"),
    ],
)
def test_mistakes_are_named(options, said):
    weights = np.ones(600) if "largest_weight" in options else None
    with pytest.raises((ValueError, TypeError), match=said):
        classifier(**options).fit(frame(), ["no"] * 600, sample_weight=weights)


def test_a_good_and_a_bad_regression_publish_different_errors():
    """Prices in dollars and a range in thousands: the error of a constant is nothing, as is that of the model."""
    table = frame(4000)
    targets = 10 * table["a"] + RNG.normal(size=4000)
    budget = {"epsilon": 8.0, "delta": 1e-5, **RUN}
    good = PrivateRegressor(COLUMNS, target_range=(-3, 13), **budget).fit(table, targets)
    bad = PrivateRegressor(COLUMNS, target_range=(-3000, 13_000), **budget).fit(table, targets)
    assert 1 - good.error_ / good.constant_error_ == pytest.approx(good.score(table, targets), abs=0.15)
    assert not any(note.id == "error-like-constant" for note in good.notes_)
    assert any(note.id == "error-like-constant" for note in bad.notes_)


def test_shares_of_a_census_need_not_add_up_to_the_last_bit():
    classes = tuple(range(20))
    options = {"classes": classes, "class_shares": [0.05] * 20, "class_weight": "balanced"}
    table = frame()
    model = classifier(**options).fit(table, np.arange(600) % 20)
    assert "class_shares" in str(model.report_.details)
    classifier(classes=("x", "y"), class_shares=(0.5005, 0.5004), class_weight=(1, 1)).fit(table, table["c"])


def test_a_prediction_that_is_no_number_counts_as_the_worst():
    config = measured_error.Config(1000, 1000, 0)
    count, _ = measured_error.count_moments(config, np.array([np.nan, 0.5]), np.array([0.5, 0.5]), np.ones(2, int))
    assert count == 1000


def test_the_record_of_a_model_has_its_pictures_and_its_budget(tmp_path):
    rows, path = "all rows, training and validation", tmp_path / "budget.jsonl"
    ledger.create(path, notion="dp", level=5, delta=1e-3, protects=rows)
    table = frame(600)
    targets = np.where(table["a"] > 0.5, "yes", "no")
    model = classifier({**COLUMNS, "d": None}, ledger=Recording(path, "march")).fit(table, targets)
    record = model.report_
    assert [drawn.column for drawn in record.dependences] == ["a", "b", "c"]
    values, predicted = model.partial_dependence("a")
    (name,) = record.dependences[0].predictions
    assert name == "probability of yes"
    assert record.dependences[0].values == tuple(values[::2])
    np.testing.assert_array_equal(record.dependences[0].predictions[name], predicted[::2, 1])
    named = {row[0]: row[1:] for row in record.spends}
    assert named["ledger budget.jsonl"] == ("epsilon", "delta")
    assert named["budget"][0] == "5"
    left = ledger.account(path).left
    assert float(named["left"][0]) == pytest.approx(float(left.cost), rel=1e-3)
    assert float(named["this release, run 'march'"][0]) + float(named["left"][0]) <= 5
    path.unlink()
    assert pickle.loads(pickle.dumps(model)).report_.spends == record.spends  # as of the fit
    assert classifier().fit(frame(600), targets).report_.spends == ()
    regressor = PrivateRegressor(space.real(0, 1), target_range=(0, 9), **BUDGET, **RUN)
    regressor.fit(RNG.uniform(size=(500, 2)), np.zeros(500))
    assert [(drawn.column, [*drawn.predictions]) for drawn in regressor.report_.dependences] == [
        ("0", ["prediction"]), ("1", ["prediction"]),
    ]  # fmt: skip


# -- Pictures, and habits of scikit-learn -----------------------------------------------------------------------------


def test_the_picture_of_a_model_is_what_it_predicts_for_made_up_rows():
    table = frame(2000)
    model = classifier({**COLUMNS, "d": None}).fit(table, np.where(table["a"] > 0.5, "yes", "no"))
    values, predicted = model.partial_dependence("a", {"c": "x"})
    made = pandas.DataFrame({"a": values, "b": 10.0, "c": "x", "d": 0})  # 10 is the middle of 1 to 100 in logarithms
    np.testing.assert_allclose(predicted, model.predict_proba(made))
    assert (values[0], values[-1], len(values)) == (0.0, 1.0, 101)
    assert predicted[0, 1] < 0.3 < 0.7 < predicted[-1, 1]
    values, predicted = model.partial_dependence("c")
    assert values == ["x", "y", None]
    made = pandas.DataFrame({"a": 0.5, "b": 10.0, "c": values, "d": 0})
    np.testing.assert_allclose(predicted, model.predict_proba(made))
    values, _ = model.partial_dependence("b")
    np.testing.assert_allclose(np.diff(np.log(values)), math.log(100) / 100)
    for name in ("d", "e"):
        with pytest.raises(ValueError, match=f"column must be one of 'a', 'b', 'c', got '{name}'"):
            model.partial_dependence(name)
    regressor = PrivateRegressor(space.real(0, 1), target_range=(0, 9), **BUDGET, **RUN)
    places = RNG.uniform(size=(2000, 2))
    regressor.fit(places, 9 * places[:, 1])
    values, predicted = regressor.partial_dependence(1, {0: 0.25})
    np.testing.assert_allclose(predicted, regressor.predict(np.column_stack([np.full(101, 0.25), values])))
    assert predicted[-1] - predicted[0] > 5


@pytest.mark.parametrize("make", [PrivateClassifier, PrivateRegressor])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"random_state": 0}, "anyone who knows the seed can remove the noise"),
        ({"max_iter": 5}, "nothing is tuned"),
        ({"warm_start": True}, "each fit spends a budget"),
        ({"other": 5}, "see help"),
    ],
)
def test_arguments_of_other_models_are_refused_with_a_reason(make, given, said):
    with pytest.raises(TypeError, match=f"{make.__name__} takes no {next(iter(given))}: .*{said}"):
        make(**given)
    assert "random_state" not in make().get_params()
    assert "columns" in make().get_params()


def test_fits_of_clones_are_counted_together():
    table = frame()
    model = classifier(classes=("x", "y"))
    cross_validate(model, table, table["c"], cv=3)
    model.fit(table, table["c"])
    (note,) = (note for note in model.notes_ if note.id == "one-fit")
    assert "this is fit 4 of this estimator and its clones" in note.text
    (note,) = (note for note in classifier(classes=("x", "y")).fit(table, table["c"]).notes_ if note.id == "one-fit")
    assert "this is fit" not in note.text


def test_a_fit_that_fails_after_its_draws_counts_and_a_refused_one_does_not(monkeypatch):
    table, model = frame(), classifier(classes=("x", "y"))
    with pytest.raises(ValueError, match="sample_weight must"):
        clone(model).set_params(largest_weight=1.0).fit(table, table["c"], sample_weight=np.ones(5))

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(measured_error, "measure", interrupted)
        with pytest.raises(KeyboardInterrupt):
            clone(model).fit(table, table["c"])
    (note,) = (note for note in model.fit(table, table["c"]).notes_ if note.id == "one-fit")
    assert "this is fit 2 of this estimator and its clones" in note.text
