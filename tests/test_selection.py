"""Private selection: the law is drawn as it says, the winner alone leaves, and what is claimed survives an attack."""

import logging
import math
import pickle
import random
import sys
import threading
import time
import warnings
from decimal import Decimal
from fractions import Fraction

import jax
import numpy as np
import pytest
from oracles import accounting as oracle

from jaxdpbo import Recording, accounting, ledger, tuning
from jaxdpbo import audit as _auditing
from jaxdpbo.accounting import stage
from jaxdpbo.guarantee import assumptions, guarantees
from jaxdpbo.guarantee import recording as _recording
from jaxdpbo.ledger import ledger_file
from jaxdpbo.noise import keys
from jaxdpbo.tuning import repetition, selection

PEOPLE = "the people"
SETTINGS = [0.0, 1.0, 5.0]
COST = stage.gaussian_stage(0.5, "one run")


def counted(setting, key, data=0.0):
    noised = data + setting + 2 * float(jax.random.normal(key))
    return {"model": noised}, noised


def select(run=counted, settings=SETTINGS, seed=0, **options):
    chosen = {"mean": 4.0, "costs": {PEOPLE: COST}, "delta": 1e-5, "key": jax.random.key(seed), "insecure_key": True}
    return tuning.private_selection(run, settings, **(chosen | options))


@pytest.mark.parametrize(("eta", "mean"), [(-0.5, 4.0), (0.0, 3.0), (0.0, 16.0), (1.0, 16.0), (2.5, 8.0)])
def test_the_table_is_the_law(eta, mean):
    law = accounting.repetitions(eta, mean)
    table = repetition.table(law)
    counts = np.diff([0, *table.ends])
    assert min(counts) >= 0
    assert sum(counts) == 2**128
    found = np.array([float(Fraction(int(count), 2**128)) for count in counts])
    np.testing.assert_allclose(found[:-1], accounting.repetition_probabilities(law, len(found) - 1), rtol=1e-9, atol=0)
    assert accounting.tail_probability(law, len(found)) <= table.total_variation < 2e-21
    assert table.runs(0) == 1
    assert table.runs(2**128 - 1) == len(table.ends)
    for end in table.ends[:3]:
        assert table.runs(end) == table.runs(end - 1) + 1


@pytest.mark.parametrize("eta", [0.5, 1e-3, 1e-29, 1e-31, 1e-45, -1e-45, 1e-58, 1e-59, -1e-59, 1e-300, 5e-324, 0.0])
@pytest.mark.parametrize("mean", [1.1, 4.0])
def test_the_table_of_any_shape_is_as_near_to_its_law_as_it_says(eta, mean):
    """Shapes near 0 too, where the formula of the first probability is 0 / 0."""
    law = accounting.repetitions(eta, mean)
    table = repetition.table(law)
    counts = [Decimal(int(count)) / 2**128 for count in np.diff([0, *table.ends])]
    exact = oracle.repetition_law(law.eta, law.gamma, 4000)
    counts += [Decimal(0)] * (len(exact) - len(counts))
    apart = sum(abs(drawn - share) for drawn, share in zip(counts, exact, strict=True)) / 2
    assert apart <= Decimal(table.total_variation)
    assert table.total_variation < 2e-21


def test_numbers_of_runs_and_settings_are_drawn_as_the_law_says():
    law = accounting.repetitions(0.0, 4.0)
    seen, drawn = [], []

    def run(setting, key):
        drawn.append(setting)
        return None, 0.0

    for seed in range(600):
        before = len(drawn)
        select(run, [0, 1, 2], seed=seed)
        seen.append(len(drawn) - before)
    chances = accounting.repetition_probabilities(law, 3)
    for number, chance in enumerate(chances, start=1):
        assert abs(np.mean(np.array(seen) == number) - chance) < 4 * math.sqrt(chance / 600)
    assert abs(np.mean(seen) - 4) < 4 * np.std(seen) / math.sqrt(600)
    for setting in range(3):
        assert abs(np.mean(np.array(drawn) == setting) - 1 / 3) < 4 * math.sqrt(0.25 / len(drawn))


def test_the_best_run_leaves_with_the_statement_of_all():
    found = select(settings=[0.0, 100.0], costs={PEOPLE: COST, "others": [COST, stage.gaussian_stage(0.1)]})
    assert found.output == {"model": found.score}
    assert found.setting == 0.0
    mine, others = found.guarantees
    law = accounting.repetitions(0.0, 4.0)
    assert mine.level == pytest.approx(accounting.selection_epsilon(law, COST.profile, 1e-5))
    average = accounting.average_profile([0.5, 0.5], [COST.profile, stage.gaussian_stage(0.1).profile])
    assert others.level == pytest.approx(accounting.selection_epsilon(law, average, 1e-5))
    assert others.level < mine.level
    for stated, run in ((mine, COST.profile), (others, average)):
        assert stated.attained == pytest.approx(accounting.attained_selection_epsilon(law, run, 1e-5))
        assert 0.9 * stated.level < stated.attained <= stated.level
    assert (mine.protects, mine.delta, mine.relation) == (PEOPLE, 1e-5, "replace_one")
    for name in (assumptions.RUNS_UNKNOWN, assumptions.RUN_COST, assumptions.FAILS_BY_NOISE, assumptions.WEAK_KEY):
        assert name in mine.assumptions
        assert name in others.assumptions
    secret = tuning.private_selection(counted, SETTINGS, mean=4.0, costs={PEOPLE: COST}, delta=1e-5)
    assert assumptions.RANDOM_BITS in secret.guarantees[0].assumptions
    assert assumptions.WEAK_KEY not in secret.guarantees[0].assumptions
    rough = select(run_total_variation=1e-10).guarantees[0]
    assert rough.total_variation == pytest.approx(4e-10)


def test_a_run_that_fits_the_object_of_the_run_before_releases_the_best_alone():
    """Before: the score of the best run, with the model of the last, which no part of the guarantee covers."""

    class Model:
        def fit(self, score):
            self.score = score
            return self

    for output, read in ((Model(), lambda model: model.score), (np.zeros(1), lambda buffer: buffer[0])):

        def run(setting, key, output=output):
            score = float(jax.random.normal(key))
            if isinstance(output, Model):
                return output.fit(score), score
            output[0] = score
            return output, score

        for cap in (None, 500):
            found = select(run, seed=3, mean=8.0, cap=cap)
            assert read(found.output) == found.score
            assert found.output is not output


def test_runs_share_no_key_and_no_bits():
    seen = []

    def run(setting, key):
        seen.append(tuple(np.asarray(jax.random.key_data(key)).tolist()))
        return None, 0.0

    for seed in range(20):
        select(run, seed=seed)
    assert len(seen) == len(set(seen)) > 40


def test_what_fails_has_lost():
    def run(setting, key):
        if setting < 2:
            raise RuntimeError("seen")
        return setting, np.nan if setting < 4 else 7.0

    found = select(run, [0.0, 3.0, 5.0], mean=60.0, eta=5.0)
    assert (found.setting, found.output, found.score) == (5.0, 5.0, 7.0)
    with pytest.raises(RuntimeError, match="seen"):
        select(run, [0.0], on_error="raise")


def test_a_selection_without_a_model_says_what_it_spent_and_nothing_else(tmp_path):
    """It follows from the output and the score that would be released: nothing tells a run's exception, or how many."""

    def run(setting, key):
        ran.append(1)
        raise ValueError("a record")

    raised = []
    for number in range(3):
        ran, path = [], tmp_path / str(number)
        ledger.create(path, notion="dp", level=9.0, delta=1e-3, protects=PEOPLE)
        recordings = {PEOPLE: Recording(path, "one")}
        with pytest.raises(tuning.AllRunsFailed, match=r"The budget is spent: dp 2\.\d+ .* for the people") as failed:
            select(run, seed=number, ledgers=recordings)
        raised.append((len(ran), pickle.dumps(failed.value), str(failed.value)))
        assert failed.value.__cause__ is failed.value.__context__ is None
        assert pickle.loads(raised[-1][1]).guarantees == failed.value.guarantees == select().guarantees
        assert "a record" not in str(raised[-1])
        assert len(ledger.account(path).spends) == 1
        with pytest.raises(ledger.LedgerError, match="was charged before"):
            select(run, seed=number, ledgers=recordings)
    counts, pickles, messages = map(set, zip(*raised, strict=True))
    assert len(counts) > len(pickles) == len(messages) == 1
    assert select(lambda setting, key: ("a model", np.nan)).output == "a model"  # its score is its own affair


def test_runs_tell_each_other_nothing():
    def run(setting, key):
        setting.append(random.random())
        return len(setting), float(jax.random.normal(key))

    state, settings = random.getstate(), [[]]
    found = select(run, settings, mean=20.0, eta=3.0)
    assert (found.output, found.setting, settings) == (1, [], [[]])
    assert random.getstate() == state


def loud(data):
    """Says everything that it should not, as often as it runs."""

    def run(setting, key):
        print(setting, data)
        warnings.warn(str(data), stacklevel=1)
        logging.getLogger("loud").critical(str(data))
        print(data, file=sys.stderr)
        if data > 8 and setting == 1.0:
            raise ValueError(str(data))
        return setting, setting + (np.random.normal() > 9)  # noqa: NPY002

    return run


def test_nothing_but_the_winner_differs_between_neighbours(tmp_path, caplog, capfd, trials):
    """Trap 27: the same K and settings, other rows; and other numbers of runs, the same winner."""
    count = trials("neighbouring selections that were compared", 4, 50, 2)
    said = []
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.INFO, logger="jax"):
        for number in range(count):
            path = tmp_path / f"{number}"
            ledger.create(path, notion="dp", level=9.0, delta=1e-3, protects=PEOPLE)
            caplog.clear()
            state = np.random.get_state()[1].copy()  # noqa: NPY002
            recording = {PEOPLE: Recording(path, "one")}
            options = {"ledgers": recording, "key": keys.secret_key(), "settings": [0.0]}  # another K each time
            found = select(loud(float(number * 5)), **options)
            np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
            (spend,) = ledger.account(path).spends
            kept = spend._replace(when="", who="", fingerprint="")
            said.append(
                (
                    repr(found),
                    pickle.dumps(found),
                    caplog.text.replace(str(path), ""),
                    tuple(capfd.readouterr()),
                    repr(kept),
                )
            )
    assert len(set(said)) == 1
    assert repr(select(loud(0.0), settings=[2.0])) != said[0][0]  # the comparison can fail


def test_a_budget_is_charged_before_the_first_run_and_once(tmp_path):
    path = tmp_path / "ledger"
    ledger.create(path, notion="dp", level=3.0, delta=1e-4, protects=PEOPLE)
    ran = []

    def run(setting, key):
        ran.append(len(ledger.account(path).spends))
        raise KeyboardInterrupt

    options = {"ledgers": {PEOPLE: Recording(path, "one")}, "delta": 1e-5}
    with pytest.raises(KeyboardInterrupt):
        select(run, **options)
    assert ran == [1]
    with pytest.raises(ledger.LedgerError, match="charged before"):
        select(**options)
    with pytest.raises(ledger.LedgerError):
        select(mean=60.0, **(options | {"ledgers": {PEOPLE: Recording(path, "two")}}))
    with pytest.raises(ValueError, match="ledgers must be"):
        select(ledgers={"nobody": Recording(path, "three")})
    assert ran == [1]


SECOND = "their scores"


def two_ledgers(tmp_path, *, second=None):
    """Recordings for two sets of rows, each in a ledger of its own; ``second``: changes to the second ledger."""
    terms = {"notion": "dp", "level": 9.0, "delta": 1e-3}
    ledger.create(tmp_path / "first", protects=PEOPLE, **terms)
    ledger.create(tmp_path / "second", **({"protects": SECOND} | terms | (second or {})))
    return {PEOPLE: Recording(tmp_path / "first", "one"), SECOND: Recording(tmp_path / "second", "one")}


def select_for_two(recordings, **options):
    return select(ledgers=recordings, costs={PEOPLE: COST, SECOND: COST}, **options)


def spends(recordings):
    return {name: len(ledger.account(recording.path).spends) for name, recording in recordings.items()}


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"level": 0.1}, "would spend epsilon"),
        ({"notion": "zcdp"}, "the ledger's notion is 'zcdp'"),
        ({"protects": "others"}, "the ledger's protects is 'others'"),
        ({"relation": "add_or_remove"}, "the ledger's relation is"),
    ],
)
@pytest.mark.parametrize("last", [PEOPLE, SECOND])
def test_a_ledger_that_refuses_leaves_the_others_uncharged(second, message, last, tmp_path):
    recordings = two_ledgers(tmp_path, second=second)
    ordered = {name: recordings[name] for name in sorted(recordings, key=lambda name: name == last)}
    with pytest.raises(ledger.LedgerError, match=message):
        select_for_two(ordered)
    assert spends(recordings) == {PEOPLE: 0, SECOND: 0}


def test_a_name_in_use_leaves_the_other_ledger_uncharged(tmp_path):
    recordings = two_ledgers(tmp_path)
    select(ledgers={PEOPLE: recordings[PEOPLE]})
    with pytest.raises(ledger.LedgerError, match="another configuration"):  # it says which ledgers pay together
        select_for_two(recordings)
    assert spends(recordings) == {PEOPLE: 1, SECOND: 0}
    recordings[PEOPLE] = recordings[PEOPLE]._replace(run="x" * 201)
    with pytest.raises(ValueError, match="run must be 1 to 200"):
        select_for_two(recordings)
    assert spends(recordings) == {PEOPLE: 1, SECOND: 0}


@pytest.mark.parametrize("other", ["the same path", "a relative path", "a symbolic link", "a hard link"])
def test_one_file_under_two_paths_is_one_ledger(other, tmp_path, monkeypatch):
    path = tmp_path / "first"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "symbolic").symlink_to(path)
    again = {
        "the same path": path,
        "a relative path": "first",
        "a symbolic link": tmp_path / "symbolic",
        "a hard link": tmp_path / "hard",
    }[other]
    costs = (guarantee := select().guarantees[0]).level
    ledger.create(path, notion="dp", level=1.5 * costs, delta=1e-3, protects="customers")
    (tmp_path / "hard").hardlink_to(path)
    pair = {PEOPLE: Recording(path, "one", "customers"), SECOND: Recording(again, "one", "customers")}
    with pytest.raises(ValueError, match="ledgers must name another run for each set of rows in one file"):
        select_for_two(pair)
    with pytest.raises(ledger.BudgetExceeded, match="run 'two' would spend epsilon"):  # each alone would fit
        select_for_two(pair | {SECOND: pair[SECOND]._replace(run="two")})
    assert not ledger.account(path).spends
    (tmp_path / "large").mkdir()
    ledger.create(tmp_path / "large" / "first", notion="dp", level=2.1 * costs, delta=1e-3, protects="customers")
    monkeypatch.chdir(tmp_path / "large")
    select_for_two({name: Recording("first", name, "customers") for name in (PEOPLE, SECOND)})
    assert float(ledger.account("first").spent.cost) == pytest.approx(2 * guarantee.level)


def test_a_call_killed_between_two_charges_may_be_repeated(tmp_path, monkeypatch):
    """The charge that is last in order decides whose draws are paid: no order of two processes draws twice."""
    recordings, append, ran = two_ledgers(tmp_path), ledger_file._append, []

    def run(setting, key):
        ran.append(1)
        return counted(setting, key)

    def kill_second(opened, content):
        if charges:
            raise KeyboardInterrupt
        charges.append(opened.path)
        return append(opened, content)

    charges = []
    with monkeypatch.context() as patch:
        patch.setattr(ledger_file, "_append", kill_second)
        with pytest.raises(KeyboardInterrupt):
            select_for_two(recordings, run=run)
    assert sorted(spends(recordings).values()) == [0, 1]
    with pytest.raises(ledger.LedgerError, match="another configuration"):  # another call does not get this charge
        select_for_two(recordings, run=run, settings=[0.0])
    other_place = {
        name: Recording(tmp_path / "third", "one") for name in recordings if recordings[name].path != charges[0]
    }
    ledger.create(tmp_path / "third", notion="dp", level=9.0, delta=1e-3, protects=next(iter(other_place)))
    with pytest.raises(ledger.LedgerError, match="another configuration"):  # nor the same call with another ledger
        select_for_two(recordings | other_place, run=run)
    assert not ran
    assert select_for_two(dict(reversed(recordings.items())), run=run).output
    count = len(ran)
    assert spends(recordings) == {PEOPLE: 1, SECOND: 1}
    with pytest.raises(ledger.LedgerError, match="was charged before"):
        select_for_two(recordings, run=run)
    assert len(ran) == count


def test_another_process_spends_before_all_charges_or_after_them(tmp_path, monkeypatch):
    """It asks between two charges for what the second one needs, and waits."""
    level = select().guarantees[0].level
    recordings, append, others = two_ledgers(tmp_path, second={"level": 1.5 * level}), ledger_file._append, []

    def spend():
        other = ledger.Spend((ledger.Event("dp", level),), "replace_one", SECOND)
        with pytest.raises(ledger.BudgetExceeded):
            ledger.charge(recordings[SECOND].path, "other", "w", other)

    def meddle(*arguments):
        if not others:
            others.append(threading.Thread(target=spend))
            others[0].start()
            others[0].join(0.3)
        return append(*arguments)

    monkeypatch.setattr(ledger_file, "_append", meddle)
    select_for_two(recordings)
    others[0].join()
    assert spends(recordings) == {PEOPLE: 1, SECOND: 1}


def test_two_calls_with_ledgers_in_other_orders_wait_for_no_deadlock(tmp_path, monkeypatch):
    locked = ledger_file._open_locked

    def lock_slowly(*arguments):
        descriptor = locked(*arguments)
        time.sleep(0.1)
        return descriptor

    def charge(run, paths):
        payments = {name: (Recording(path, run, "users"), guarantee) for name, path in zip("ab", paths, strict=True)}
        _recording.charge_together(payments, "w")

    for name in "ab":
        ledger.create(tmp_path / name, mu=9, protects="users")
    guarantee = guarantees.guarantee("gdp", 1.0, "replace_one", "users")
    monkeypatch.setattr(ledger_file, "_open_locked", lock_slowly)
    orders = {"one": [tmp_path / "a", tmp_path / "b"], "two": [tmp_path / "b", tmp_path / "a"]}
    calls = [threading.Thread(target=charge, args=order, daemon=True) for order in orders.items()]
    for call in calls:
        call.start()
    for call in calls:
        call.join(30)
    assert not any(call.is_alive() for call in calls)
    monkeypatch.undo()
    assert all(sorted(entry.run for entry in ledger.account(tmp_path / name).spends) == ["one", "two"] for name in "ab")


def test_of_two_calls_at_once_one_draws(tmp_path, monkeypatch):
    """The other process charges both ledgers, and runs, after this call has read which ledgers pay."""
    recordings, charge = two_ledgers(tmp_path), ledger_file.charge_all
    with monkeypatch.context() as patch:
        patch.setattr(
            ledger_file,
            "charge_all",
            lambda *arguments: (patch.undo(), select_for_two(recordings), charge(*arguments))[2],
        )
        with pytest.raises(ledger.LedgerError, match="was charged before"):
            select_for_two(recordings, run=lambda setting, key: pytest.fail("drawn twice"))
    assert spends(recordings) == {PEOPLE: 1, SECOND: 1}


def responses(probability, calls):
    def run(setting, key):
        calls.append(1)
        return None, float(np.random.default_rng(np.asarray(jax.random.key_data(key))).random() >= probability)

    return run


def attacked(count, score, rare, factor, **options):
    """Scores of selections under both neighbours: one run succeeds ``factor`` times as often under the second."""
    found = []
    for which, probability in enumerate((rare, rare * factor)):
        scores = []
        for trial in range(count):
            calls = []
            out = select(responses(probability, calls), [0.0], seed=2 * trial + which, **options)
            scores.append(score(out, len(calls)))
        found.append(np.array(scores, float))
    return found


def base(rare, factor, mean):
    def profile(epsilon):
        """Of one run, both directions."""
        pairs = [(rare, rare * factor), (1 - rare, 1 - rare * factor)]
        both = pairs, [pair[::-1] for pair in pairs]
        return max(sum(max(a - math.exp(epsilon) * b, 0.0) for a, b in each) for each in both)

    return {"mean": mean, "costs": {PEOPLE: stage.curve_stage(profile)}, "delta": 1e-6}


@pytest.fixture
def without_lower_bounds(monkeypatch):
    """Thousands of selections by a curve: a lower bound beside each epsilon, which no attack reads, takes most time."""
    monkeypatch.setattr(selection, "add_attained", lambda guarantees, repetitions, costs: tuple(guarantees))


@pytest.mark.usefixtures("without_lower_bounds")
def test_an_attack_on_a_selection_does_not_exceed_its_claim(trials):
    count = trials("selections of randomised responses that were attacked", 600, 100_000, 5)
    options = base(0.05, math.e, 16.0)
    claim = select(**options).guarantees[0]
    assert claim.level == pytest.approx(1.84, abs=0.01)
    scores = attacked(count, lambda out, runs: out.score, 0.05, math.e, **options)
    for sign in (1.0, -1.0):
        audit = _auditing.threshold_audit(*(sign * each for each in scores), delta=1e-6, bound="epsilon")
        assert not _auditing.is_refuted(audit, claim)


@pytest.mark.daily("runs shown")
@pytest.mark.usefixtures("without_lower_bounds")
@pytest.mark.parametrize("planted", ["runs shown", "forty runs"])
def test_planted_selections_are_caught(planted, trials, monkeypatch):
    shown = planted == "runs shown"
    count = trials(f"selections with {planted} that were attacked", 1500 if shown else 800, 100_000, 6)
    rare, factor, mean, least = (0.2, 4.0, 4.0, 3) if shown else (0.04, 3.0, 2.0, 0)
    options = base(rare, factor, mean)
    claim = select(**options).guarantees[0]
    if not shown:
        monkeypatch.setattr(repetition.Table, "runs", lambda self, number: 40)
    scores = attacked(count, lambda out, runs: out.score * (runs >= least), rare, factor, **options)
    audit = _auditing.threshold_audit(*scores, delta=1e-6, bound="epsilon")
    assert _auditing.is_refuted(audit, claim), (audit, claim.level)


def test_an_unnoised_score_of_validation_rows_is_caught():
    """What ``RUN_COST`` assumes: the score leaves too."""
    claim = select(costs={PEOPLE: stage.gaussian_stage(0.5)}).guarantees[0]
    found = [[select(lambda setting, key, mean=mean: (None, mean), seed=seed).score for seed in range(400)]
             for mean in (0.5, 0.5 + 1 / 300)]  # fmt: skip
    audit = _auditing.threshold_audit(*map(np.array, found), delta=1e-5, bound="epsilon")
    assert _auditing.is_refuted(audit, claim)


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"mean": 1.0}, ValueError, "mean"),
        ({"eta": -1.0}, ValueError, "eta"),
        ({"costs": {}}, ValueError, "costs"),
        ({"costs": {PEOPLE: 0.5}}, TypeError, "costs"),
        ({"costs": {PEOPLE: [COST, COST]}}, ValueError, "costs"),
        ({"costs": {PEOPLE: stage.curve_stage(lambda epsilon: 0.5)}}, ValueError, "costs must be smaller"),
        ({"settings": []}, ValueError, "settings"),
        ({"settings": "ab"}, ValueError, "settings"),
        ({"delta": 0.0}, ValueError, "delta"),
        ({"run": 3}, TypeError, "train_and_score"),
        ({"mean": 1e6}, ValueError, "mean must be smaller"),
    ],
)
def test_what_is_out_of_range_is_refused(options, kind, said):
    with pytest.raises(kind, match=said):
        select(**options)
