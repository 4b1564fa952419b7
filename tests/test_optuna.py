"""Optuna: samplers pass its own suite, and a private study stores, logs and shows noised values alone."""

import logging
import multiprocessing
import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optuna
import pandas
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.testing import pytest_samplers as suite

from jaxdpbo import Recording, by_person, ledger, space, terminal
from jaxdpbo.guarantee import guarantees
from jaxdpbo.integrations.optuna import DParetoSampler, GPUCBSampler, coordinates, observations, private_study
from jaxdpbo.integrations.optuna.samplers import DEVIATION, noise_deviation
from jaxdpbo.integrations.optuna.study import GUARANTEE, RUN, ObjectiveFailed

RECORDS = np.linspace(0.2, 0.4, 50)
TESTED = {"users": 50, "loss_range": (0.0, 1.0), "noise": "float", "insecure_key": True}


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield
    optuna.logging.set_verbosity(optuna.logging.INFO)


class TestGPUCBSampler(suite.BasicSamplerTestCase, suite.RelativeSamplerTestCase, suite.SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return lambda: GPUCBSampler(startup_trials=1, seed=0)


class TestDParetoSampler(suite.MultiObjectiveSamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return lambda: DParetoSampler(seed=0)


DISTRIBUTIONS = [
    FloatDistribution(-1.0, 3.0),
    FloatDistribution(1e-4, 1e2, log=True),
    FloatDistribution(-1.0, 1.0, step=0.25),
    IntDistribution(-3, 7),
    IntDistribution(1, 100, log=True),
    IntDistribution(2, 20, step=3),
    CategoricalDistribution((None, "a", 3, True)),
]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_values_come_back_from_their_coordinates(distribution):
    for place in np.linspace(0, 1, 101):
        value = coordinates.decode(distribution, place)
        assert distribution._contains(distribution.to_internal_repr(value))
        assert type(value) in (int, float, str, bool, type(None))
        at = coordinates.encode(distribution, value)
        assert 0 <= at <= 1
        assert coordinates.decode(distribution, at) == pytest.approx(value) if isinstance(value, float) else True
        if not isinstance(value, float):
            assert coordinates.decode(distribution, at) is value or coordinates.decode(distribution, at) == value
    ends = [coordinates.decode(distribution, place) for place in (0.0, 1.0)]
    if not isinstance(distribution, CategoricalDistribution):
        assert ends == pytest.approx([distribution.low, distribution.high])
    assert coordinates.count_values(distribution) is None or coordinates.count_values(distribution) > 1


def test_a_range_of_one_value_has_a_coordinate():
    for distribution in (FloatDistribution(2.0, 2.0), FloatDistribution(2.0, 2.0, log=True), IntDistribution(2, 2)):
        assert coordinates.decode(distribution, coordinates.encode(distribution, 2)) == 2


def suggest(trial):
    return {"x": trial.suggest_float("x", 0.0, 1.0)}


def losses(params, data):
    return np.square(data - params["x"])


def private(of_users=losses, data=RECORDS, study=None, *, suggest=suggest, seed=0, **options):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed), study_name="s") if study is None else study
    given = {"evaluations": 4, "mu": 1.0, "key": jax.random.key(seed)} | TESTED | options
    return private_study(study, suggest, of_users, data, **given)


def test_a_study_holds_noised_values_and_stops_when_the_budget_is_spent():
    found = private()
    assert found.remaining == 4
    found.study.optimize(found, n_trials=10)
    trials = found.study.trials
    assert len(trials) == 4
    assert found.remaining == 0
    for each in trials:
        truth = np.mean(np.square(RECORDS - each.params["x"]))
        assert each.value != truth
        assert abs(each.value - truth) < 6 * found.deviation
        assert each.user_attrs == {DEVIATION: found.deviation, RUN: found.run}
    assert found.study.user_attrs == {GUARANTEE + found.run: str(found.guarantee)}
    assert found.guarantee.level == pytest.approx(1.0)
    assert "0 of 4 evaluations left" in repr(found)
    late = found.study.ask()
    with pytest.raises(optuna.TrialPruned):
        found(late)
    found.optimize()  # nothing is left to do
    assert len(found.study.trials) == 5


def test_a_study_states_the_guarantee_of_each_run_once(tmp_path):
    """Before, in each row of ``trials_dataframe``. A run is known by its charge: two ledgers may name theirs alike."""
    study, runs = optuna.create_study(study_name="s"), []
    for name in ("one", "other"):
        path = tmp_path / f"{name}.jsonl"
        ledger.create(path, mu=2.0)
        options = {"ledger": Recording(path, "trials"), "key": None, "insecure_key": False, "noise": "exact"}
        found = private(study=study, **options)
        found.optimize(2)
        again = private(study=study, **options)
        again.optimize(1)
        assert again.run == found.run
        runs += [found.run]
    unnamed = [private(study=study, evaluations=1, seed=seed) for seed in (1, 2)]
    for each in unnamed:
        each.optimize()
    runs += [each.run for each in unnamed]
    assert len(set(runs)) == len(runs) == len(study.user_attrs) == 4
    rows = study.trials_dataframe()
    assert rows[f"user_attrs_{RUN}"].tolist() == [*(run for run in runs[:2] for _ in range(3)), *runs[2:]]
    assert all(study.user_attrs[GUARANTEE + run] for run in runs)
    stated = {str(each.guarantee) for each in (found, *unnamed)}
    assert set(study.user_attrs.values()) == stated
    assert not rows.map(lambda cell: str(cell) in stated).any(axis=None)


def test_a_retried_trial_states_its_own_run():
    """Optuna copies the attributes of a killed worker's trial to the one that takes its place, in another run too."""
    study = optuna.create_study(study_name="s")
    killed = private(study=study)
    killed.optimize(1)
    study.enqueue_trial(study.trials[0].params, user_attrs=study.trials[0].user_attrs)
    found = private(study=study, mu=0.1, evaluations=1, seed=1)
    found.optimize()
    assert study.trials[1].user_attrs == {DEVIATION: found.deviation, RUN: found.run}
    assert len(study.user_attrs) == 2
    assert found.deviation > 4 * killed.deviation


def test_no_deadline_counts_the_values():
    found = private()
    with pytest.raises(ValueError, match="timeout must be None, since how long losses take may depend on records"):
        found.optimize(timeout=60)
    found.optimize(1, timeout=None)
    assert found.remaining == 3


def test_a_script_that_is_run_again_ends_with_a_study_of_noised_values(tmp_path):
    """Its study was in memory: its first trials get the values of the ledger, and are noised trials as the others."""
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, mu=2.0)
    options = {"ledger": Recording(path, "one"), "key": None, "insecure_key": False, "noise": "exact"}
    killed = private(**options)
    killed.optimize(2)
    found = private(**options)
    found.optimize()
    values = [trial.value for trial in found.study.trials]
    assert values[:2] == [trial.value for trial in killed.study.trials]
    assert len(values) == 4
    assert found.best().params in [trial.params for trial in found.study.trials]
    assert all(trial.user_attrs[DEVIATION] == found.deviation for trial in found.study.trials)


def test_a_trial_that_is_evaluated_again_gets_its_answer_again(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, mu=2.0)
    options = {"ledger": Recording(path, "one"), "key": None, "insecure_key": False, "noise": "exact"}
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(storage=storage, study_name="kept")
    first = private(study=study, **options)
    trial = study.ask()
    value = first(trial)
    assert first(trial) == value
    assert first.remaining == 3
    again = private(study=study, **options)  # as after a crash: the charge and the answer are on record
    assert (again.remaining, again(trial)) == (3, value)
    fresh = private(study=optuna.create_study(study_name="kept"), **options)  # trial 0, and other parameters
    assert fresh(fresh.study.ask()) != value
    with pytest.raises(ValueError, match="must be of the study 'kept'"):
        fresh(optuna.create_study(study_name="other").ask())
    assert len(ledger.account(path).spends) == 1


def told(data, caplog):
    """All that a study stored and logged, but for times."""
    caplog.clear()
    optuna.logging.set_verbosity(optuna.logging.DEBUG)
    optuna.logging.enable_propagation()
    found = private(data=data)
    found.run = "run"  # without a ledger its name is random
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found.optimize()
    optuna.logging.disable_propagation()
    assert not [str(each.message) for each in warned]
    stored = [
        (
            each.number,
            each.state,
            each.values,
            each.params,
            each.user_attrs,
            each.system_attrs,
            each.intermediate_values,
        )
        for each in found.study.trials
    ]
    return stored, repr(found), caplog.text


def test_nothing_but_the_release_differs_between_neighbours(trials, caplog):
    count = trials("neighbouring pairs whose studies were compared", 5, 200, 2)
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, logger="jax")  # whose lines are times
    jax.devices()  # the first call logs
    rng = np.random.default_rng(2)
    start = RECORDS.copy()
    start[0] = 1e9  # its loss is clipped to 1, as that of all its replacements: the releases are equal
    usual = told(start, caplog)
    assert "Trial 3 finished" in usual[2]
    for _ in range(count):
        data = start.copy()
        data[0] = rng.choice([1e300, -1e300, np.inf, -np.inf, rng.uniform(10, 1e6)])
        assert told(data, caplog) == usual
    data[0] = 0.3
    assert told(data, caplog) != usual  # the comparison can fail


def raising(params, data):
    raise ValueError(f"what is {data[0]}?")


def fewer(params, data):
    return losses(params, data[data > 0.25])  # a shape that depends on the records


@pytest.mark.parametrize(("of_users", "said"), [(raising, "ValueError"), (fewer, "must have the shape")])
def test_losses_that_fail_are_not_quoted(of_users, said, caplog):
    optuna.logging.set_verbosity(optuna.logging.DEBUG)
    optuna.logging.enable_propagation()
    found = private(of_users)
    with pytest.raises(ObjectiveFailed, match=said) as error:
        found.optimize()
    optuna.logging.disable_propagation()
    assert error.value.__cause__ is error.value.__context__ is None
    assert found.remaining == 3  # records may decide a shape, too
    assert found.study.trials[0].state == optuna.trial.TrialState.FAIL
    assert "Trial 0 failed" in caplog.text
    for word in ("what is", "0.2?", "(37,)"):
        assert word not in caplog.text


def test_what_a_suggestion_raises_is_raised_and_costs_nothing():
    def mistyped(trial):
        return {"x": trial.suggest_float("x", 1.0, 0.0)}

    found = private(suggest=mistyped)
    with pytest.raises(ValueError, match="low"):
        found.optimize()
    assert found.remaining == 4


@pytest.mark.parametrize("suggested", [None, [0.5], 0.5, "x"])
def test_a_suggestion_that_is_no_dict_is_refused_before_the_charge(suggested):
    found = private(suggest=lambda trial: suggested)
    with pytest.raises(TypeError, match="suggest must return a dict of parameters, got"):
        found.optimize()
    assert found.remaining == 4


def test_a_suggestion_may_hold_arrays():
    def suggest_two(trial):
        return {"x": trial.suggest_float("x", 0.0, 1.0), "weights": np.array([trial.number, 0.5])}

    found = private(suggest=suggest_two)
    found.optimize()
    assert found.remaining == 0
    assert found(_as_trial(found, 1)) == found.study.trials[1].value  # of one trial the same value, without a charge


def _as_trial(found, number):
    """A trial that is evaluated again, with the parameters that it had."""

    class Again:
        study, user_attrs = found.study, found.study.trials[number].user_attrs

        def suggest_float(self, name, *_):
            return found.study.trials[number].params[name]

    Again.number = number
    return Again()


def test_the_best_trial_of_a_study_with_raw_values_is_refused():
    found = private()
    found.optimize()
    found.best()
    found.study.add_trial(
        optuna.trial.create_trial(value=-1.0, params={"x": 0.5}, distributions={"x": FloatDistribution(0, 1)})
    )
    with pytest.raises(ValueError, match="some of its trials were evaluated without noise"):
        found.best()


def test_studies_that_hold_raw_values_or_maximise_are_refused():
    raw = optuna.create_study()
    raw.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    with pytest.raises(ValueError, match="evaluated without noise"):
        private(study=raw)
    reported = optuna.create_study()
    trial = reported.ask()
    trial.report(0.5, 1)
    with pytest.raises(ValueError, match="evaluated without noise"):
        private(study=reported)
    for directions in (["maximize"], ["minimize", "minimize"]):
        with pytest.raises(ValueError, match="must minimise one objective"):
            private(study=optuna.create_study(directions=directions))
    with pytest.raises(TypeError, match="study must be an optuna"):
        private(study="s")


def test_threads_share_one_budget():
    found = private(evaluations=8)
    found.optimize(n_trials=20, n_jobs=3)
    values = [each.value for each in found.study.trials if each.state == optuna.trial.TrialState.COMPLETE]
    assert len(values) == 8 == len(set(values))
    busy, entered, leave = [], threading.Event(), threading.Event()

    def waiting(params, data):
        entered.set()
        assert leave.wait(60)
        return losses(params, data)

    slow = private(waiting)
    trial = slow.study.ask()
    worker = threading.Thread(target=lambda: busy.append(slow(trial)))
    worker.start()
    assert entered.wait(60)
    with pytest.raises(RuntimeError, match="is being evaluated"):
        slow(trial)  # the same trial at the same time: nothing is charged
    leave.set()
    worker.join()
    assert slow.remaining == 3
    assert slow(trial) == busy[0]


def test_the_best_is_by_the_posterior_mean_and_not_by_luck():
    found = private(evaluations=16, mu=0.5, seed=3)
    found.optimize()
    best = found.best()
    truth = np.mean(np.square(RECORDS - best.params["x"]))
    assert abs(best.value - truth) < abs(
        found.study.best_value - np.mean(np.square(RECORDS - found.study.best_params["x"]))
    )
    assert 0 < best.deviation < found.deviation
    assert best.params == found.study.trials[best.number].params
    with pytest.raises(ValueError, match="no trial is complete"):
        private().best()


def branched(trial):
    """One kind is better the nearer ``x`` is to the records, the other is equally bad everywhere."""
    kind = trial.suggest_categorical("kind", ["near", "flat"])
    own = {"x": trial.suggest_float("x", 0, 1)} if kind == "near" else {"depth": trial.suggest_int("depth", 1, 9)}
    return {"kind": kind} | own


def losses_of_branches(params, data):
    return np.abs(data - params["x"]) * 0.5 if params["kind"] == "near" else np.full(len(data), 0.45)


def ranges(trial):
    """No parameter in common: each trial has a range or a name of its own."""
    names = ("x", trial.number % 2), ("y", 2.0 + trial.number)
    name, high = names[trial.number % 3 == 0]
    return {"kind": "near", "x": trial.suggest_float(name, -1, max(high, 1.0 + trial.number / 50)) % 1.0}


@pytest.mark.parametrize("suggested", [branched, ranges, lambda trial: {"kind": "near", "x": 0.3}])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_is_right_where_trials_have_parameters_of_their_own(suggested, seed):
    found = private(losses_of_branches, suggest=suggested, seed=seed, evaluations=20, mu=3000.0)
    found.optimize()
    best = found.best()
    tried = [trial.value for trial in found.study.trials]
    assert tried[best.number] <= min(tried) + 8 * found.deviation
    assert best.value == pytest.approx(tried[best.number], abs=8 * found.deviation)
    assert best.params == found.study.trials[best.number].params
    assert "best setting" in found.report().details


def test_trials_that_a_suggestion_prunes_give_their_evaluations_back():
    """It has read no record."""

    def sparing(trial):
        if trial.number % 3:
            raise optuna.TrialPruned
        return suggest(trial)

    found = private(suggest=sparing)
    found.optimize()
    states = [trial.state.name for trial in found.study.trials]
    assert found.remaining == 0
    assert states.count("COMPLETE") == 4
    assert states.count("PRUNED") >= 6
    some = private(suggest=sparing)
    some.optimize(n_trials=3)
    assert some.remaining == 3
    assert len(some.study.trials) == 3

    def never(trial):
        raise optuna.TrialPruned

    none = private(suggest=never)
    none.optimize()
    assert none.remaining == len(none.study.trials) == 4
    stopped = private(suggest=sparing)
    stopped.optimize(callbacks=[lambda study, trial: study.stop()])
    assert stopped.remaining == 3
    assert len(stopped.study.trials) == 1


TREE = {
    "model": space.branches(
        {"near": {"x": space.real(0, 1), "of": space.categorical(mean=np.mean, pair=[1, 2])}, "flat": {}}
    ),
    "depth": space.integer(1, 9, log=True),
}


def losses_of_tree(params, data):
    assert set(params) == {"model", "depth"} | ({"x", "of"} if params["model"] == "near" else set())
    if params["model"] == "near" and params["of"] is not np.mean:
        params["of"].append(data)  # as a fit would
    return np.full(len(data), 0.9) if params["model"] == "flat" else np.abs(data - params["x"])


def test_a_study_of_a_space_holds_labels_and_losses_get_objects(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, mu=200.0)
    options = {"ledger": Recording(path, "one"), "key": None, "insecure_key": False, "noise": "exact"}
    found = private(losses_of_tree, suggest=TREE, evaluations=12, mu=100.0, rehearse=np.linspace(0, 1, 9), **options)
    found.optimize()
    best = found.best()
    assert best.params["model"] == "near"
    assert set(best.params) == {"model", "depth", "x", "of"}
    assert best.params["of"] is np.mean or best.params["of"] == [1, 2]
    assert all(label in ("mean", "pair") for label in (best.params.labels["of"],))
    shown = [trial.params for trial in found.study.trials]
    assert {"model", "model.near.x", "model.near.of", "depth"} in map(set, shown)
    assert b"pair" in path.read_bytes()
    assert b"[1, 2" not in path.read_bytes()
    assert str(best).count("'of': 'mean'") + str(best).count("'of': 'pair'") == 1
    again = private(losses_of_tree, suggest=TREE, evaluations=12, mu=100.0, study=found.study, **options)
    assert again.remaining == 0
    assert again.best() == best
    grids = private(losses_of_tree, suggest=[{"model": ["near"], "of": [np.mean], "x": [0.1, 0.2], "depth": [1]},
                                             {"model": ["flat"], "depth": [2, 3]}])  # fmt: skip
    grids.optimize()
    assert set(grids.best().params) in ({"model", "depth"}, {"model", "of", "x", "depth"})


@pytest.mark.parametrize("choices", [(1, 1.0, "sqrt"), (True, 1), (0, False)])
def test_choices_that_optuna_cannot_tell_apart_are_refused_before_the_charge(choices, tmp_path):
    """Before: losses of 1.0 stood in trials of 1, and ``best()`` named the wrong one."""
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, mu=200.0)
    options = {"ledger": Recording(path, "one"), "key": None, "insecure_key": False}
    with pytest.raises(ValueError, match="must differ for Optuna"):
        private(losses_of_tree, suggest={"features": space.categorical(*choices)}, **options)
    assert ledger.account(path).spends == ()


@pytest.mark.parametrize("suggest", [lambda trial: {"x": trial.suggest_float("x", 0, 1)}, {"x": space.real(0, 1)}])
def test_other_owners_of_rows_are_another_study(suggest, tmp_path):
    """Trap 69, through what wraps a loss on its way to the ledger."""
    path, owners = tmp_path / "ledger.jsonl", np.repeat(np.arange(25), 2)
    ledger.create(path, mu=9.0, protects=guarantees.USERS)
    options = {"users": 25, "evaluations": 2, "mu": 1.0, "loss_range": (0, 1), "ledger": Recording(path, "one")}

    def begin(people):
        losses = by_person(lambda params, data: abs(data - params["x"]), people)
        return private_study(optuna.create_study(), suggest, losses, np.linspace(0, 1, 50), **options)

    begin(owners).optimize()
    assert begin(owners).remaining == 0
    with pytest.raises(ledger.LedgerError, match="another grouping"):
        begin(np.roll(owners, 1))


def test_samplers_know_the_noise_of_private_trials():
    found = private()
    found.optimize()
    assert noise_deviation(found.study.trials, None) == pytest.approx(found.deviation)
    raw = optuna.create_study()
    raw.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    assert np.isnan(noise_deviation(raw.trials, None))
    assert noise_deviation(raw.trials, 0.5) == 0.5
    with pytest.raises(ValueError, match="noise_deviation"):
        GPUCBSampler(noise_deviation=-1.0)


def test_other_surrogates_are_told_the_noise():
    found = private()
    with pytest.raises(ValueError, match="no trial is complete"):
        observations(found.study)
    found.optimize()
    seen = observations(found.study)
    assert seen.params == [each.params for each in found.study.trials]
    np.testing.assert_array_equal(seen.values, [each.value for each in found.study.trials])
    np.testing.assert_allclose(seen.variances, found.deviation**2)
    found.study.add_trial(optuna.create_trial(params={}, distributions={}, value=0.5))
    with pytest.raises(ValueError, match="without noise"):
        observations(found.study)


def test_botorch_takes_the_known_noise():
    botorch = pytest.importorskip("botorch")
    import torch

    found = private(evaluations=8)
    found.optimize()
    seen = observations(found.study)
    points = torch.tensor([[each["x"]] for each in seen.params], dtype=torch.float64)
    values, variances = (torch.tensor(each)[:, None] for each in (seen.values, seen.variances))
    model = botorch.models.SingleTaskGP(points, values, variances, outcome_transform=None)
    np.testing.assert_allclose(model.likelihood.noise.detach().numpy().ravel(), seen.variances, rtol=1e-6)


def test_gp_ucb_finds_the_minimum_and_dpareto_the_front():
    study = optuna.create_study(sampler=GPUCBSampler(seed=1, noise_deviation=0.0))
    study.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.3) ** 2, n_trials=14)
    assert study.best_value < 1e-3
    front = optuna.create_study(directions=["minimize", "minimize"], sampler=DParetoSampler(seed=1))

    def both(trial):
        x, y = (trial.suggest_float(name, 0, 1) for name in "xy")
        return x + y**2, 1 - x + y**2  # y is best at 0

    front.optimize(both, n_trials=14)
    proposed = [each.params["y"] for each in front.trials[8:]]
    assert np.median(proposed) < 0.2 < np.median([each.params["y"] for each in front.trials[:8]])
    with pytest.raises(ValueError, match="two objectives"):
        optuna.create_study(sampler=DParetoSampler()).optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)


def _work(url, path, name, done):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(study_name="shared", storage=url)
    options = {"ledger": Recording(path, name), "key": None, "insecure_key": False, "noise": "exact"}
    private(study=study, evaluations=3, **options).optimize()
    done.put(name)


@pytest.mark.daily("shared")
@pytest.mark.parametrize(("names", "trials"), [(("one", "two"), 6), (("one", "one"), 3)], ids=["apart", "shared"])
def test_two_processes_charge_one_ledger_for_one_study(names, trials, tmp_path):
    """Under two names each worker has evaluations of its own; under one name they share them."""
    path, url = tmp_path / "ledger.jsonl", f"sqlite:///{tmp_path}/study.db"
    ledger.create(path, mu=1.5)
    optuna.create_study(storage=url, study_name="shared")
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    workers = [context.Process(target=_work, args=(url, path, name, done)) for name in names]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
    assert sorted(done.get(timeout=1) for _ in workers) == sorted(names)
    study = optuna.load_study(study_name="shared", storage=url)
    complete = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    assert len({trial.value for trial in complete}) == len(complete) == trials
    assert all(DEVIATION in trial.user_attrs for trial in complete)
    assert len(ledger.account(path).spends) == len(set(names))


# -- Rehearsals, progress, records -------------------------------------------------------------------------------------


def test_a_rehearsal_shows_errors_in_full_and_charges_nothing(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, mu=1.5)
    options = {"ledger": Recording(path, "march"), "key": None, "insecure_key": False, "noise": "exact"}

    def failing(params, data):
        raise ArithmeticError(f"at {data[0]}")

    cases = {
        r"shape \(7,\), got shape \(3,\)": lambda params, data: data[:3],
        r"not their mean: shape \(7,\), got shape \(\)": lambda params, data: np.mean(data),
        "must be finite": lambda params, data: np.where(data > 0.21, np.nan, 0.0),
        "own record alone": lambda params, data: np.square(data - data.mean()),
        "depend on the user's own record": lambda params, data: np.abs(data - data[0]),
        "the user's own record": lambda params, data: np.square(data - data[-1]) * 1e-8,
    }
    for said, of_users in cases.items():
        with pytest.raises(ValueError, match=said):
            private(of_users, rehearse=RECORDS[:7], **options)
    with pytest.raises(ArithmeticError, match=r"at 0\.2"):
        private(failing, rehearse=RECORDS[:7], **options)
    with pytest.raises(ZeroDivisionError):
        private(suggest=lambda trial: 1 / 0, rehearse=RECORDS[:7], **options)
    assert not ledger.account(path).spends
    found = private(rehearse=RECORDS[:7], **options)
    assert (found.remaining, found.study.trials) == (4, [])


def test_the_record_of_one_run_leaves_out_a_setting_that_other_runs_chose():
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0), study_name="s")
    one, other = private(study=study), private(study=study, seed=1)
    one.optimize()
    assert "best setting" in one.report().details
    other.optimize(1)
    assert "best setting" not in one.report().details
    assert "best setting" not in other.report().details
    (covered,) = [text for name, text in one.report().details.items() if name.startswith("NOT COVERED")]
    assert covered.startswith("1 other values")


def test_a_rehearsal_reads_the_public_records_alone():
    seen = []

    def watched(params, data):
        seen.append(np.array(data))
        return np.square(data - params["x"])

    private(watched, rehearse=np.array([0.9, 0.8, 0.7]))
    assert all(np.all(data >= 0.7) for data in seen)
    assert len(seen) == 7
    assert all(len(data) == 3 for data in seen)


def test_random_losses_and_records_in_other_forms_are_rehearsed_too():
    rng = np.random.default_rng(0)
    private(lambda params, data: rng.random(len(data)), rehearse=RECORDS[:5])
    private(lambda params, data: np.array([len(text) / 9 for text in data]), rehearse=["a", "bcd"])
    private(lambda params, data: [len(text) / 9 for text in data], rehearse=["a", "bcd"])
    with pytest.raises(ValueError, match=r"must have the shape \(n,\), got shape \(\)"):
        private(lambda params, data: 0.5, rehearse=["a", "bcd"])
    for records in (
        jnp.arange(5.0) / 5,
        np.ma.masked_array(np.arange(5.0) / 5),
        np.rec.array([(0.5,), (0.25,)], dtype=[("f0", "f8")]),
    ):
        private(lambda params, data: np.asarray(data["f0"] if hasattr(data, "f0") else data), rehearse=records)
    private(lambda params, data: data.at[0].set(0.5), rehearse=jnp.arange(5.0) / 5)


def test_a_rehearsal_compares_the_rows_of_frames_and_changes_nothing_of_its_caller():
    frame = pandas.DataFrame({"age": [0.1, 0.5, 0.3]}, index=["a", "b", "c"])
    private(lambda params, data: data["age"], rehearse=frame)
    with pytest.raises(ValueError, match="own record alone"):
        private(lambda params, data: data["age"] - data["age"].mean(), rehearse=frame)
    records = np.array([0.3, 0.1, 0.2])

    def sorting(params, data):
        data.sort()
        return data

    with pytest.raises(ValueError, match="own record alone"):
        private(sorting, rehearse=records)
    assert records.tolist() == [0.3, 0.1, 0.2]


def test_a_study_shows_a_bar_on_a_terminal_alone(monkeypatch):
    shown = []
    monkeypatch.setattr(optuna.Study, "optimize", lambda study, objective, **options: shown.append(options))
    private().optimize()
    monkeypatch.setattr(terminal, "is_there", lambda: True)
    private().optimize()
    private().optimize(show_progress_bar=False)
    assert [options["show_progress_bar"] for options in shown] == [False, True, False]


def test_the_record_of_a_study_names_its_best_setting_and_no_raw_value(tmp_path):
    found = private()
    assert "best setting" not in found.report().details
    found.optimize()
    made = found.report(tmp_path / "record.html")
    assert made.details["best setting"] == str(found.best().params)
    assert made.guarantees == (found.guarantee,)
    assert len(made.fingerprint) == 64
    page = (tmp_path / "record.html").read_text()
    for trial in found.study.trials:
        truth = float(np.mean(losses(trial.params, RECORDS)))
        assert repr(truth)[:8] not in page
    assert found._repr_html_().startswith("<style>")


@pytest.mark.parametrize("failure", [float("nan"), RuntimeError])
def test_failing_points_are_not_unexplored_land(failure):
    """Failed trials count as the worst value so far, in both samplers."""

    def fail(trial, *values):
        if trial.suggest_float("x", 0, 1) <= 0.5:
            return values
        if failure is RuntimeError:
            raise failure
        return tuple(failure for _ in values)

    def one(trial):
        return fail(trial, (trial.suggest_float("x", 0, 1) - 0.4) ** 2)[0]

    def two(trial):
        return fail(trial, trial.suggest_float("x", 0, 1), 1 - trial.suggest_float("x", 0, 1))

    study = optuna.create_study(sampler=GPUCBSampler(seed=0))
    study.optimize(one, n_trials=25, catch=RuntimeError)
    assert sum(trial.params["x"] > 0.5 for trial in study.trials[15:]) <= 2
    front = optuna.create_study(directions=["minimize"] * 2, sampler=DParetoSampler(seed=0, startup_trials=5))
    front.optimize(two, n_trials=25, catch=RuntimeError)
    assert sum(trial.params["x"] > 0.5 for trial in front.trials[15:]) <= 3
