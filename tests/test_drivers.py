"""Drivers: interruption and resumption, what is shown and returned, and the one-call entry."""

import copy
import io
import multiprocessing
import pickle
import re
import sys
import time
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worker_cases
from option_groups import group_options
from protocol_cases import BOUNDS, CASES, DIMENSION, STEPS, USERS, loss, records

from jaxdpbo import (
    accounting,
    dp_gd,
    dp_gibo,
    drivers,
    kernels,
    ledger,
    private_evaluations,
    random_search,
    terminal,
    user_values,
)
from jaxdpbo.checks import low_high
from jaxdpbo.drivers import compiled_steps, progress
from jaxdpbo.guarantee import assumptions
from jaxdpbo.noise import calibration, keys

CASE = CASES["dp_gibo"]
SECRET = 0.987654321
TOLD = re.compile(r"(?<!\d)0\.98(?!step/s)")  # and no rate of steps, such as 170.98step/s


def key(seed=0):
    return jax.random.key(seed)


class Failing:
    """Raises at one evaluation, once; returns what the objective returns otherwise."""

    def __init__(self, at, error=None, objective=loss):
        self.at, self.calls, self.error, self.objective = at, 0, error or OSError("the cluster is down"), objective

    def __call__(self, point, data):
        self.calls += 1
        if self.calls == self.at:
            raise self.error
        return np.asarray(self.objective(point, data))


def test_an_interrupt_from_the_keyboard_loses_nothing():
    with pytest.raises(drivers.RunInterrupted, match="KeyboardInterrupt") as caught:
        drivers.run_loop(
            CASE.algorithm,
            Failing(5, KeyboardInterrupt()),
            records(),
            CASE.config(1.0),
            key=key(),
            insecure_key=True,
        )
    assert int(caught.value.snapshot.state.public.step) == 1


def run_with(executor, objective=worker_cases.loss, data=None, **options):
    data = records() if data is None else data
    return drivers.run_loop(
        CASE.algorithm,
        objective,
        data,
        CASE.config(1.0),
        **group_options(key=key(), insecure_key=True, executor=executor, **options),
    ).release


class Backwards(ThreadPoolExecutor):
    """Finishes a batch in the reverse of its order."""

    def submit(self, function, *arguments):
        future, self.held = Future(), getattr(self, "held", [])
        self.held.append((future, function, arguments))
        if len(self.held) == 3:
            for waiting, evaluate, point in reversed(self.held):
                waiting.set_result(evaluate(*point))
            self.held = []
        return future


def test_an_executor_gives_the_same_path_whatever_order_it_finishes_in():
    alone = run_with(None)
    with ThreadPoolExecutor(2) as threads, Backwards(1) as backwards:
        for executor in (threads, backwards):
            jax.tree.map(np.testing.assert_array_equal, run_with(executor), alone)


def test_a_run_survives_the_death_of_a_worker(tmp_path):
    """One of two processes is killed in the middle of a batch; the path of the resumed run is the same to the bit."""
    spawned = multiprocessing.get_context("spawn")
    (tmp_path / "begun").mkdir()
    data = records(), tmp_path / "begun"
    with pytest.raises(drivers.RunInterrupted) as caught, ProcessPoolExecutor(2, spawned) as pool:
        run_with(pool, worker_cases.dying, data)
    assert isinstance(caught.value.__cause__, BrokenProcessPool)
    assert 1 <= int(caught.value.snapshot.state.public.step) < STEPS
    with ProcessPoolExecutor(2, spawned) as pool:
        resumed = run_with(pool, worker_cases.dying, data, resume=caught.value.snapshot)
    jax.tree.map(np.testing.assert_array_equal, resumed, run_with(None))


def test_a_worker_of_a_cluster_that_is_killed_spends_nothing(tmp_path):
    """Two workers of a real cluster: one dies in the midst of a batch, and its evaluation is redone by another."""
    distributed = pytest.importorskip("distributed", reason="distributed is of the extra dev")
    path = tmp_path / "ledger"
    ledger.create(path, notion="gdp", level=2.0, total_variation=1e-3)
    (tmp_path / "begun").mkdir()
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        run = drivers.run_loop(
            CASE.algorithm, worker_cases.dying, (records(), tmp_path / "begun"), CASE.config(1.0),
            ledger=drivers.Recording(path, "run"), executor=client.get_executor(pure=False),
        )  # fmt: skip
    assert (tmp_path / "killed").exists()
    assert np.all(np.isfinite(run.release.path))
    assert len(list((tmp_path / "begun").iterdir())) > 3 * STEPS  # one evaluation at least began twice
    (entry,) = ledger.account(path).spends
    assert (entry.steps, entry.released) == (2 * STEPS + 1, True)  # each step drawn once, and written once


def test_a_failed_point_cancels_those_not_begun():
    failing = Failing(4)

    def slow_after(point, data):
        if failing.calls >= 4:
            time.sleep(0.5)
        return failing(point, data)

    with ThreadPoolExecutor(1) as one, pytest.raises(drivers.RunInterrupted, match="stopped at step 1 of 3 on OSError"):
        run_with(one, slow_after)
    assert failing.calls == 5  # of six: one more had begun


def test_an_interruption_carries_its_state_out_of_sight():
    def secret(point, data):
        if secret.calls == 4:
            raise ValueError("stop")
        secret.calls += 1
        return np.full(USERS, SECRET)

    secret.calls = 0
    with pytest.raises(drivers.RunInterrupted) as caught:
        drivers.run_loop(CASE.algorithm, secret, records(), CASE.config(1.0), key=key(), insecure_key=True)
    error = caught.value
    assert np.any(np.isclose(error.snapshot.memory, SECRET))
    for shown in (repr(error), str(error), repr(error.args)):
        assert "0.98765" not in shown
    pickled = pickle.dumps(error)
    assert np.float64(SECRET).tobytes()[2:] not in pickled
    assert pickle.loads(pickled).snapshot is None
    assert copy.copy(error).snapshot is None


def test_a_wrong_shape_is_named_at_once_and_a_later_one_interrupts():
    said = rf"values of shape \({USERS + 1},\): values must have shape \(3, {USERS}\), got \(3, {USERS + 1}\)"
    with pytest.raises(drivers.ObjectiveError, match=said):
        drivers.run_loop(
            CASE.algorithm,
            lambda point, data: np.zeros(USERS + 1),
            None,
            CASE.config(1.0),
            key=key(),
            insecure_key=True,
        )
    ragged = iter(range(USERS, 100))
    with pytest.raises(drivers.RunInterrupted) as caught:
        drivers.run_loop(
            CASE.algorithm,
            lambda point, data: np.zeros(next(ragged)),
            None,
            CASE.config(1.0),
            key=key(),
            insecure_key=True,
        )
    assert f"objective must return values of shape ({USERS},)" in str(caught.value.__cause__)


MEAN = r"must return one loss per user, not their mean: shape \(\w+,\), got shape \(\)"


def test_a_mean_in_the_place_of_losses_is_called_so():
    """Before: "values must have shape (2, 50), got (2,)", of a function that no caller knows."""
    case = CASES["dp_gibo"]
    config = case.config(1.0)
    with pytest.raises(ValueError, match=f"objective {MEAN}"):
        drivers.run_scan(case.algorithm, lambda point, data: jnp.mean(loss(point, data)), records(), config)
    with pytest.raises(drivers.ObjectiveError, match=f"objective {MEAN}"):
        drivers.run_loop(case.algorithm, lambda point, data: 0.5, None, config)
    paid = drivers.PrivateObjective(
        lambda point, data: 0.5, None, users=USERS, mu=1.0, evaluations=2, loss_range=(0, 1)
    )
    with pytest.raises(ValueError, match="loss must return one loss per user, not their mean: values of shape"):
        paid(0.5)  # charged, so it does not say the shape that came


class Unreadable:
    """Says the value that it cannot be read at."""

    def __array__(self, *_, **__):
        raise RuntimeError(SECRET)


@pytest.mark.parametrize("one", [10**400, -(10**400), None, "x", 1j, [2.0], [], np.ones((2, 2)), Unreadable()])
def test_a_value_that_is_no_float_is_one_users_alone(one):
    """Beside it NumPy makes objects, or text, of all, or no array at all."""
    found = user_values.to_losses("loss", [0.5, one, jnp.bfloat16(2)], (3,), float)
    np.testing.assert_array_equal(found[[0, 2]], [0.5, 2.0])
    assert found[1] == 2.0 if isinstance(one, list) and one else not np.isfinite(found[1])
    of_vectors = user_values.to_losses("objective", [[0.5, 1], one, (2, 3)], None, float)
    np.testing.assert_array_equal(of_vectors[[0, 2]], [[0.5, 1.0], [2.0, 3.0]])
    assert not np.any(np.isfinite(of_vectors[1]))
    logical = user_values.to_losses("loss", [np.True_, None, np.False_, jnp.ones(())], (4,), float)
    np.testing.assert_array_equal(logical, [1.0, np.nan, 0.0, 1.0])


@pytest.mark.parametrize(
    "all_of_them", [["a", "b"], [None, None], [[], [1.0, 2.0]], [1j, 2j], ("a", None), deque([None, "a"]), Unreadable()]
)
def test_losses_that_are_no_numbers_are_nan(all_of_them):
    """Were they refused where all are, whoever is the only one with a number would be known."""
    found = user_values.to_losses("loss", all_of_them, (2,), float)
    np.testing.assert_array_equal(found, [np.nan, np.nan])


@pytest.mark.parametrize("returned", [None, 0.5, [0.5], np.zeros((2, 1)), {"a": 1}, object()])
def test_losses_of_another_shape_are_refused(returned):
    with pytest.raises(
        ValueError, match=r"loss must return (values of|one loss per user, not their mean:) shape \(2,\), got shape"
    ):
        user_values.to_losses("loss", returned, (2,), float)


def test_a_mean_of_losses_is_refused_in_words():
    with pytest.raises(ValueError, match="one loss per user, not their mean"):
        user_values.to_losses("loss", np.mean([0.1, 0.2]), (2,), float)


def test_traced_data_are_refused_in_words():
    config = CASE.config(1.0)
    with pytest.raises(RuntimeError, match="would be a constant of the program"):
        jax.jit(lambda data: drivers.run_loop(CASE.algorithm, CASE.objective, data, config))(records())


def test_a_square_root_of_one_users_is_one_users_alone():
    found = user_values.to_losses("loss", np.sqrt(np.array([4.0, -1.0, 0.25], complex)), (3,), float)
    np.testing.assert_array_equal(found, [2.0, np.nan, 0.5])


def test_values_that_are_no_numbers_neither_raise_nor_are_quoted():
    run = drivers.run_loop(
        CASE.algorithm, lambda point, data: [str(SECRET)] * (USERS - 1) + ["x"], None, CASE.config(1.0)
    )
    assert np.all(np.isfinite(run.release.point))


def test_a_state_of_another_config_is_refused():
    other = CASES["dp_gibo, few points"]
    stood = {"resume": compiled_steps.begin(other.algorithm, key(), other.config(1.0)), "insecure_key": True}
    with pytest.raises(ValueError, match="resume must be a snapshot of a run with this config"):
        drivers.run_loop(CASE.algorithm, loss, records(), CASE.config(1.0), **group_options(key=key(), **stood))


def test_a_state_of_another_budget_is_refused():
    """Four steps at mu = 2 and one at mu = 0.5 are not 0.5-GDP."""
    with pytest.raises(drivers.RunInterrupted) as caught:
        drivers.run_loop(CASE.algorithm, Failing(5), records(), CASE.config(2.0), key=key(), insecure_key=True)
    with pytest.raises(ValueError, match=r"noise of this config, got mu 0.5 after 2.0, radius \d+ after 2364, "):
        drivers.run_loop(
            CASE.algorithm,
            loss,
            records(),
            CASE.config(0.5),
            key=key(),
            insecure_key=True,
            resume=caught.value.snapshot,
        )


def descent(**changes):
    """Radius 100 and width 4,096 unless changed."""
    fixed = {"users": USERS, "steps": STEPS, "bounds": low_high(BOUNDS), "theta0": np.zeros(2), "mu": mu_of(4096)}
    return dp_gd.config(**(fixed | changes))


def mu_of(sigma, radius=100):
    return accounting.rounded_gaussian_mu(2 * radius, sigma, STEPS) * (1 + 1e-9)


def searched(steps=2, batch=3, **changes):
    inner = random_search.config(users=1, steps=steps, batch=batch, bounds=low_high(BOUNDS))
    fixed = {"users": USERS, "mu": 1.0, "loss_range": (0.0, 1.0)}
    return private_evaluations.config(random_search.algorithm, inner, **(fixed | changes))


SEARCH = private_evaluations.make_algorithm(random_search.algorithm)
NOISES = {  # an algorithm, the config a run was begun with, one that it must not go on with, and what is said
    "sigma": (
        dp_gd.algorithm,
        descent,
        {"mu": mu_of(65536)},
        r"mu 0.00528\d+ after 0.084\d+, sigma 65536 after 4096$",
    ),
    "users": (dp_gd.algorithm, descent, {"users": 600}, "users 600 after 6$"),
    "clip": (dp_gd.algorithm, descent, {"clip_norm": 9.0}, r"clip \[9.0\] after \[1.0\]$"),
    "kind": (dp_gd.algorithm, descent, {"noise": "float"}, "radius 0 after 100, sigma 0 after 4096, kind 1 after 0$"),
    "steps": (SEARCH, searched, {"steps": 3, "batch": 2}, "steps 3 after 2, releases 2 after 3$"),
    "range": (SEARCH, searched, {"loss_range": (0.0, 9.0)}, r"clip \[0.0, 9.0\] after \[0.0, 1.0\]$"),
}


@pytest.mark.parametrize("name", NOISES)
def test_a_state_under_other_noise_is_refused(name):
    """Trap 38: whatever sets the noise, not one number of it; shapes do not show it, and ``tell`` releases nothing."""
    algorithm, config, changes, message = NOISES[name]
    before, after = config(), config(**changes)
    if name == "sigma":
        assert before.noise.radius == after.noise.radius == 100
    snapshot = compiled_steps.begin(algorithm, key(), before)
    fresh = compiled_steps.begin(algorithm, key(), after)
    assert jax.tree.map(jnp.shape, snapshot.state) == jax.tree.map(jnp.shape, fresh.state)
    snapshot = snapshot._replace(memory=fresh.memory)
    with pytest.raises(ValueError, match=message):
        drivers.run_loop(algorithm, loss, records(), after, key=key(), insecure_key=True, resume=snapshot)
    query = compiled_steps.ask(algorithm, key(), after, snapshot.state)
    values = jnp.ones((1, DIMENSION, after.users) if config is descent else (after.batch, USERS))
    unmoved, _ = compiled_steps.learn(algorithm, key(), after, snapshot, query, values)
    jax.tree.map(np.testing.assert_array_equal, unmoved, snapshot)
    query = compiled_steps.ask(algorithm, key(), after, fresh.state)
    moved, _ = compiled_steps.learn(algorithm, key(), after, fresh, query, values)
    assert moved.state.public.step == 1


def test_a_state_of_another_dtype_is_not_gone_on_from():
    snapshot = compiled_steps.begin(dp_gd.algorithm, key(), descent(clip_norm=0.5))
    with jax.enable_x64(False):
        single = descent(clip_norm=0.5)
        assert not calibration.same_noise(
            snapshot.state.public.noise, calibration.noise_settings(single.noise, single.clip_norm)
        )
        with pytest.raises(ValueError, match="its shapes differ"):
            drivers.run_loop(
                dp_gd.algorithm,
                loss,
                records(),
                single,
                key=key(),
                insecure_key=True,
                resume=snapshot,
            )


def test_a_state_counts_any_number_of_users():
    snapshots = [compiled_steps.begin(dp_gd.algorithm, key(), descent(users=users)) for users in (2**40, 2**40 + 1)]
    assert not calibration.same_noise(*(snapshot.state.public.noise for snapshot in snapshots))


def test_a_run_may_go_on_with_another_box_and_step_size():
    """They act on released values alone."""
    snapshot = compiled_steps.begin(dp_gd.algorithm, key(), descent())
    other = descent(bounds=low_high(0.5 * BOUNDS), step_size=0.1)
    values = dp_gd.gradient_objective(loss)
    run = drivers.run_loop(dp_gd.algorithm, values, records(), other, key=key(), insecure_key=True, resume=snapshot)
    assert np.all(np.abs(run.release.path) <= 0.5 * np.abs(BOUNDS).max(axis=0))


def test_a_resumed_run_rests_on_the_secrecy_of_its_first_key():
    with pytest.raises(drivers.RunInterrupted) as caught:
        drivers.run_loop(CASE.algorithm, Failing(5), records(), CASE.config(1.0), key=key(), insecure_key=True)
    resumed = drivers.run_loop(CASE.algorithm, loss, records(), CASE.config(1.0), resume=caught.value.snapshot)
    assert assumptions.KEY_SECRET in resumed.guarantee.assumptions


def test_a_finished_state_spends_nothing_more():
    done = drivers.run_loop(
        CASE.algorithm,
        loss,
        records(),
        CASE.config(1.0),
        key=key(),
        insecure_key=True,
        diagnostics=True,
    )

    def never(point, data):
        raise AssertionError("evaluated")

    end = drivers.Snapshot(done.diagnostics.state, done.diagnostics.memory)
    again = drivers.run_loop(
        CASE.algorithm,
        never,
        records(),
        CASE.config(1.0),
        key=key(1),
        insecure_key=True,
        resume=end,
    )
    jax.tree.map(np.testing.assert_array_equal, again.release, done.release)


def test_masked_points_are_not_evaluated():
    case, seen = CASES["dp_gibo, adaptive"], []

    def watched(point, data):
        seen.append(point)
        return loss(point, data)

    run = drivers.run_loop(
        case.algorithm,
        watched,
        records(),
        case.config(1.0),
        key=key(),
        insecure_key=True,
        diagnostics=True,
    )
    assert len(seen) == int(run.diagnostics.state.public.mask.sum()) < 3 * STEPS


def test_the_progress_bar_counts_and_tells_nothing(capfd):
    def secret(point, data):
        return np.full(USERS, SECRET)

    drivers.run_loop(
        CASE.algorithm,
        secret,
        None,
        CASE.config(1.0),
        key=key(),
        insecure_key=True,
        progress=True,
    )
    shown = capfd.readouterr()
    assert f"{STEPS}/{STEPS}" in shown.err
    assert not TOLD.search(shown.err)
    assert shown.out == ""
    drivers.run_loop(CASE.algorithm, secret, None, CASE.config(1.0), key=key(), insecure_key=True)
    assert capfd.readouterr() == ("", "")


class Terminal(io.StringIO):
    """Standard error of somebody at a keyboard."""

    def isatty(self):
        return True


def test_a_terminal_shows_steps_by_default_and_a_file_none(monkeypatch):
    def run(**options):
        drivers.run_loop(
            CASE.algorithm, lambda point, data: np.full(USERS, SECRET), None, CASE.config(1.0),
            key=key(), insecure_key=True, **options,
        )  # fmt: skip
        return sys.stderr.getvalue()

    for stream, options, shown in (
        (Terminal(), {}, True),
        (Terminal(), {"progress": False}, False),
        (io.StringIO(), {}, False),
        (io.StringIO(), {"progress": True}, True),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        printed = run(**options)
        assert (f"{STEPS}/{STEPS}" in printed) == shown
        assert not TOLD.search(printed)


def test_without_tqdm_a_terminal_shows_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert progress.bar("auto") is None
    with pytest.raises(ImportError, match="progress=True needs tqdm"):
        progress.bar(True)


def test_a_line_says_that_a_long_compilation_lives(monkeypatch):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    for stream, shown in ((Terminal(), "jaxdpbo: compiling ...\r\033[K"), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.waiting("auto", "compiling"):
            time.sleep(0.2)
        assert stream.getvalue() == shown
    monkeypatch.setattr(progress, "PAUSE", 60.0)
    monkeypatch.setattr(sys, "stderr", quick := Terminal())
    with pytest.raises(KeyError), progress.waiting("auto", "compiling"):
        raise KeyError
    assert quick.getvalue() == ""


class Broken(Terminal):
    """A terminal that went away."""

    def write(self, text):
        raise OSError(5, "Input/output error")


class Sink:
    """What some loggers put in the place of standard error."""

    def write(self, text):
        raise AssertionError("nobody asked for a line")

    def flush(self):
        pass


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [Broken(), Sink(), closed(), None], ids=["broken", "sink", "closed", "none"])
def test_no_terminal_ends_a_run(stream, monkeypatch):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.waiting("auto", "compiling"):
        time.sleep(0.1)
    assert terminal.is_there() == isinstance(stream, Broken)


def test_without_progress_no_line_is_shown(monkeypatch):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with progress.waiting(False, "compiling"):
        time.sleep(0.1)
    assert stream.getvalue() == ""


def negative(params, x, y):
    """No kernel: a covariance that can not be factored."""
    return -kernels.rbf(params, x, y)


def test_a_failed_factorisation_is_raised_after_the_run():
    config = dp_gibo.config(users=USERS, steps=2, mu=1.0, bounds=low_high(BOUNDS), kernel=negative, polish_steps=0)
    for driver in (drivers.run_scan, drivers.run_loop):
        with pytest.raises(drivers.RunInterrupted, match="could not be factored") as caught:
            driver(dp_gibo.algorithm, loss, records(), config, key=key(), insecure_key=True)
        assert np.all(np.isfinite(caught.value.snapshot.state.public.path))  # the users counted as zero


def test_keys_come_from_the_operating_system_unless_given(monkeypatch):
    drawn = []

    def counted():
        drawn.append(key(7))
        return drawn[-1]

    monkeypatch.setattr(keys, "secret_key", counted)
    config = CASE.config(1.0)
    default = drivers.run_scan(CASE.algorithm, loss, records(), config)
    assert len(drawn) == 1
    given = drivers.run_scan(CASE.algorithm, loss, records(), config, key=key(7), insecure_key=True)
    assert len(drawn) == 1
    jax.tree.map(np.testing.assert_array_equal, given.release, default.release)


def minimize(**changes):
    options = {
        "loss": loss,
        "data": records(),
        "space": low_high(BOUNDS),
        "mu": 1.0,
        "steps": 3,
        "key": key(),
        "noise": "float",
    }
    return drivers.minimize(**group_options(**(options | changes)))


def test_minimize_by_scan_and_by_loop_agree():
    scanned = minimize()
    looped = minimize(users=USERS, traceable=False)
    np.testing.assert_allclose(looped.release.path, scanned.release.path, rtol=1e-6, atol=1e-7)
    assert scanned.guarantee.level == 1.0
    assert assumptions.SEPARABLE_LOSSES in scanned.guarantee.assumptions


def test_minimize_resumes():
    failing = Failing(at=5)
    with pytest.raises(drivers.RunInterrupted) as caught:
        minimize(loss=failing, users=USERS, traceable=False)
    resumed = minimize(loss=failing, users=USERS, traceable=False, resume=caught.value.snapshot)
    whole = minimize(loss=Failing(at=0), users=USERS, traceable=False)
    jax.tree.map(np.testing.assert_array_equal, resumed.release, whole.release)


def test_minimize_averages_the_last_half_and_starts_in_the_middle():
    released = minimize().release
    np.testing.assert_allclose(released.path[0], BOUNDS.mean(axis=0))
    np.testing.assert_allclose(released.point, np.asarray(released.path)[2:].mean(axis=0))


def test_minimize_finds_a_minimum_where_noise_is_small():
    centre = np.array([0.7, 1.9])
    data = np.repeat(centre[None], 4000, axis=0)
    found = minimize(data=data, mu=5.0, steps=40).release.point
    np.testing.assert_allclose(found, centre, atol=0.1)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"loss": lambda point, data: jnp.sum(point)},
            ValueError,
            rf"loss must return one loss per user, not their mean: shape \({USERS},\), got shape \(\)",
        ),
        ({"users": USERS + 1}, ValueError, rf"loss must return losses of shape \({USERS + 1},\)"),
        ({"traceable": False, "data": None}, ValueError, "users must be given where the leaves of data share no"),
        ({"progress": True, "traceable": True}, ValueError, "progress must not be given with traceable=True"),
        ({"data": np.zeros((0, 2))}, ValueError, "users must be at least 1, got 0"),
        ({"space": low_high(BOUNDS[::-1])}, ValueError, "space must have lower < upper"),
        ({"space": low_high(BOUNDS * np.inf)}, ValueError, "space must"),
        ({"mu": 0}, ValueError, "mu must be positive"),
        ({"clip_norm": -1}, ValueError, "clip_norm must be positive"),
        ({"steps": 0}, ValueError, "steps must be at least 1"),
        ({"batch": 0}, ValueError, "batch must be at least 1"),
        ({"start": [9.0, 9.0]}, ValueError, "start must lie inside bounds"),
        ({"key": 0}, TypeError, "key must be a typed key"),
        ({"key": jax.random.PRNGKey(0)}, TypeError, "key must be a typed key"),
    ],
)
def test_minimize_names_what_it_refuses(changes, error, message):
    with pytest.raises(error, match=message):
        minimize(**changes)


@pytest.mark.usefixtures("float32")
@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_wide_integers_end_where_narrow_ones_do(dtype):
    """JAX would wrap them: three billion cents would be a negative number."""
    ends = np.iinfo(dtype)
    values = np.array([ends.min, 0, 3, 3_000_000_000, ends.max], dtype)
    found = np.asarray(user_values.to_jax(values))
    narrow = np.iinfo(found.dtype)
    assert found.dtype.itemsize == 4
    np.testing.assert_array_equal(found, np.clip(values, narrow.min, narrow.max))
