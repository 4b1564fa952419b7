"""Runs on record: paid for first, no step noised twice, a release given out again, whatever is killed when."""

import base64
import dataclasses
import functools
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import zlib
from collections import Counter
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from option_groups import group_options
from protocol_cases import CASES, STEPS, records

from jaxdpbo import drivers, private_evaluations, transforms
from jaxdpbo.drivers import compiled_steps, evaluation, recorded_run, result
from jaxdpbo.drivers import private_objective as _private_objective
from jaxdpbo.guarantee import assumptions
from jaxdpbo.guarantee import recording as _recording
from jaxdpbo.ledger import ledger_file
from jaxdpbo.ledger.fingerprints import fingerprint
from jaxdpbo.transforms import curation

scan = import_module("jaxdpbo.drivers.scan")  # its function hides it
NAMES = ["dp_gibo", "dp_gd", "private evaluations", "dp_gp_ucb, in order"]
SENTINEL = 0.123456789


class Killed(BaseException):
    """Nothing catches it: as if the process were gone."""


def book(folder, name="dp_gibo", level=2):
    statement = CASES[name].algorithm.privacy(CASES[name].config(1.0))
    folder.mkdir(exist_ok=True)
    path = folder / "ledger.jsonl"
    ledger_file.create(
        path, notion=statement.notion, level=level, relation=statement.relation, protects=statement.protects
    )
    return path


def watched(case, seen, at=None):
    """The case's objective, which notes where it was asked and is killed at its ``at``-th evaluation."""

    def objective(point, data):
        seen.append(np.array(point))
        if len(seen) == at:
            raise Killed
        return np.asarray(case.objective(jnp.asarray(point), data))

    return objective


def one_code(loss):
    """A loss of one code for all losses: a ledger reads no value in a list, so it takes them for one loss."""
    held = [loss]

    def objective(point, data):
        return held[0](point, data)

    return objective


def go(case, path, objective, **options):
    return drivers.run_loop(
        case.algorithm,
        objective,
        jnp.asarray(records()),
        case.config(1.0),
        **group_options(ledger=drivers.Recording(path, "first"), **options),
    )


def state_of(case):
    return case.algorithm.init(jax.random.key(0), case.config(1.0))


def same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one.release, other.release)
    assert one.guarantee == other.guarantee


@pytest.mark.daily("dp_gibo", "dp_gp_ucb, in order")
@pytest.mark.parametrize("name", NAMES)
def test_a_run_killed_at_any_evaluation_pays_once_and_releases_once(name, tmp_path):
    case, whole = CASES[name], []
    drivers.run_loop(case.algorithm, watched(case, whole), jnp.asarray(records()), case.config(1.0))
    for at in range(1, len(whole) + 1, max(1, len(whole) // 4)):
        folder = tmp_path / str(at)
        folder.mkdir()
        path = book(folder, name)
        with pytest.raises(Killed):
            go(case, path, watched(case, [], at))
        assert [entry.released for entry in ledger_file.account(path).spends] == [False]
        run = go(case, path, watched(case, []))
        account = ledger_file.account(path)
        assert [entry.released for entry in account.spends] == [True]
        third = []
        same(go(case, path, watched(case, third)), run)
        assert not third, "a release is given out again without an evaluation"
        assert ledger_file.account(path) == account
        assert assumptions.KEY_SECRET not in run.guarantee.assumptions


def test_what_was_asked_before_a_kill_is_asked_again(tmp_path):
    """DP-GIBO's queries follow from released noise: the same ones come again, for the losses that nobody kept."""
    case, path, before, after = CASES["dp_gibo"], book(tmp_path), [], []
    with pytest.raises(Killed):
        go(case, path, watched(case, before, 2 * CASES["dp_gibo"].config(1.0).batch + 1))
    go(case, path, watched(case, after))
    assert [point.tobytes() for point in after[: len(before)]] == [point.tobytes() for point in before]


def test_the_path_goes_on_from_what_was_released(tmp_path):
    """DP-GD asks at the iterate: every iterate that was asked about before the kill is on the final path."""
    case, path, before, after = CASES["dp_gd"], book(tmp_path), [], []
    with pytest.raises(Killed):
        go(case, path, watched(case, before, STEPS))
    run = go(case, path, watched(case, after))
    np.testing.assert_array_equal(np.stack(before), np.asarray(run.release.path)[:STEPS])
    assert len(after) == 1, "steps on record that left nothing private are not evaluated again"


def test_without_its_record_a_run_would_noise_its_steps_again(tmp_path, monkeypatch):
    """The control of the test above: steps forgotten are drawn anew, and seen twice."""
    real = recorded_run.begin_record
    monkeypatch.setattr(recorded_run, "begin_record", lambda *arguments: real(*arguments)._replace(publics=()))
    case, path, before = CASES["dp_gd"], book(tmp_path), []
    with pytest.raises(Killed):
        go(case, path, watched(case, before, STEPS))
    run = go(case, path, watched(case, []))
    assert np.any(np.stack(before)[1:] != np.asarray(run.release.path)[1:STEPS])


# One transcript, whatever fails


class Failing:
    """Makes the n-th inner call of a run fail, before or after it is made, and counts what is drawn."""

    PLACES = ((ledger_file, "charge"), (ledger_file, "note"), (ledger_file, "store_release"),
              (evaluation.ArrayUsers, "evaluate"), (compiled_steps, "ask"), (compiled_steps, "learn"),
              (compiled_steps, "release"), (scan, "_scan"))  # fmt: skip
    DRAWS = ("learn", "release", "_scan")
    ERRORS = (Killed, KeyboardInterrupt, MemoryError, OSError)

    def __init__(self, monkeypatch):
        self.path, self.left, self.late, self.error, self.drawn = None, 0, False, None, Counter()
        for module, name in self.PLACES:
            monkeypatch.setattr(module, name, self.around(name, getattr(module, name)))

    def next(self, path, left, late, error):
        self.path, self.left, self.late, self.error = path, left, late, error

    def around(self, name, real):
        def called(*arguments, **options):
            self.left -= 1
            if self.left == 0 and not self.late:
                raise self.error
            step = int(arguments[3].state.public.step) if name == "learn" else 0
            if name in self.DRAWS and (name != "learn" or step >= len(states_of(self.path))):  # a replay shows nothing
                self.drawn[name, step] += 1
            found = real(*arguments, **options)
            if self.left == 0:
                raise self.error
            return found

        called.eval_shape = getattr(real, "eval_shape", None)
        return called


def states_of(path):
    """The lines that hold the public states of the one run in a ledger."""
    return [line["content"]["public"] for line in ledger_file.read(path).lines if "public" in line.get("content", {})]


def on_record(path, name="dp_gd"):
    """Those states, in the order in which they were written."""
    found, before = [], jax.tree.map(jnp.zeros_like, state_of(CASES[name]).public)
    for text in states_of(path):
        before = recorded_run._apply_difference(before, zlib.decompress(base64.b64decode(text)))
        found.append(before)
    return found


def path_of(public):
    return np.asarray(public.path)[: int(public.step) + 1]


def attempt(driver, path, left, name="dp_gd"):
    """One call, and what its caller gets to see: an answer, or an exception and what it carries."""
    case = CASES[name]
    given = case.algorithm, case.objective, jnp.asarray(records()), case.config(1.0)
    try:
        run = driver(*given, ledger=drivers.Recording(path, "x"))
    except BaseException as error:
        if getattr(error, "snapshot", None) is not None:
            left.append(path_of(error.snapshot.state.public))
        return error
    left.append(np.asarray(run.release.path))
    return run


def expect_one_transcript(path, left, failing, name):
    """Nothing is drawn twice, and no two paths that left differ at a step that both have."""
    again = [what for what, count in failing.drawn.items() if count > 1]
    assert not again, f"drawn twice: {again}"
    left = left + [path_of(public) for public in on_record(path, name)]
    longest = max(left, key=len, default=np.zeros((0, 1)))
    assert all(np.array_equal(one, longest[: len(one)]) for one in left), "two transcripts"
    assert len(ledger_file.account(path).spends) <= 1


def failed_at_random(folder, monkeypatch, draw, name="dp_gd"):
    """Attempts by either driver that fail anywhere, then two that nothing stops; how those ended."""
    path, left = book(folder), []
    with monkeypatch.context() as patch:
        failing = Failing(patch)
        for _ in range(3):
            failing.next(path, draw.integers(1, 25), bool(draw.integers(2)), Failing.ERRORS[draw.integers(4)])
            attempt((drivers.run_scan, drivers.run_loop)[draw.integers(4) // 3], path, left, name)
        failing.next(path, 0, False, None)
        ends = [attempt(driver, path, left, name) for driver in (drivers.run_loop, drivers.run_scan)]
        expect_one_transcript(path, left, failing, name)
    return [type(end).__name__ for end in ends]


def test_all_that_leaves_under_one_charge_is_one_transcript(tmp_path, monkeypatch, trials):
    count = trials("runs that fail at random places, by either driver, and are tried again", 20, 2000, 7)
    draw, ends = np.random.default_rng(7), Counter()
    for number in range(count):
        name = ("dp_gd", "dp_gibo")[number % 2]  # the one keeps nothing raw, the other is replayed
        ends.update(failed_at_random(tmp_path / str(number), monkeypatch, draw, name))
    assert ends.keys() == {"Run", "LedgerError"}  # never a second draw, and never another way to fail
    assert min(ends.values()) > count / 4


def tried_until_it_succeeds(*arguments):
    """A plant: an unfinished draw is forgiven, and drawn again."""
    try:
        return honest_begin(*arguments)
    except ledger_file.LedgerError:
        recording, *_, subject = arguments
        chain = ledger_file.read(recording.path)
        kinds = [line.get("kind") for line in chain.lines]
        charge, publics = chain.hashes[kinds.index("spend")], tuple(on_record(recording.path))
        journal = recorded_run.Journal(recording, charge, subject.loss)
        return recorded_run.RecordedRun(journal, None, kinds.count("step"), publics, ())


honest_begin = recorded_run.begin_record
PLANTS = {
    "an unfinished draw is forgiven": (recorded_run, "begin_record", tried_until_it_succeeds),
    "a failed program may run again": (_recording, "charge_once", _recording.charge_run),
    "a draw is not written down first": (recorded_run, "note_step", lambda record, what: record),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_second_transcript_is_seen_where(plant, tmp_path, monkeypatch):
    monkeypatch.setattr(*PLANTS[plant])
    draw, folders = np.random.default_rng(3), map(str, range(60))
    with pytest.raises(AssertionError, match="drawn twice"):
        any(failed_at_random(tmp_path / folder, monkeypatch, draw) is None for folder in folders)


def test_an_interrupted_run_carries_no_state_and_the_other_driver_does_not_go_on(tmp_path):
    """Trap 30, 37: minimize(traceable=False) interrupted, then called with traceable=True under the same name."""
    path = book(tmp_path)

    def loss(point, data):
        if not isinstance(point, jax.core.Tracer) and len(on_record_of(path)) >= 4:
            raise MemoryError
        return jnp.sum(jnp.square(data - point[None]), axis=1)

    def on_record_of(path):
        return [line for line in ledger_file.read(path).lines if line.get("kind") == "step"]

    box = {"low": [-1.0] * 2, "high": [1.0] * 2}
    options = {"mu": 1.0, "steps": STEPS, "ledger": drivers.Recording(path, "march")}
    with pytest.raises(
        drivers.RunInterrupted, match="stopped at step 2 of 3 on MemoryError; to resume, make the same call"
    ) as stopped:
        drivers.minimize(loss, records(), box, **group_options(users=len(records()), traceable=False, **options))
    assert stopped.value.snapshot is None
    with pytest.raises(
        ledger_file.LedgerError, match="charged with another fingerprint, for dp_gibo, 3 steps, step by step"
    ):
        drivers.minimize(loss, records(), box, **group_options(**options))


def test_a_program_that_failed_after_it_drew_has_spent_its_charge(tmp_path, monkeypatch):
    """Trap 37: forty-two first iterates came from one spend, by an exception that carried them."""
    path, left = book(tmp_path), []

    def unlucky(info, state):
        raise drivers.RunInterrupted("the covariance of the evaluated points could not be factored", state)

    with monkeypatch.context() as patch:
        patch.setattr(result, "raise_on_failed_factorisation", unlucky)
        first = attempt(drivers.run_scan, path, left)
        assert isinstance(first, drivers.RunInterrupted)
        assert first.snapshot is None
        again = [attempt(driver, path, left) for driver in (drivers.run_scan, drivers.run_loop) * 2]
    assert not left
    assert [type(one) for one in again] == [ledger_file.LedgerError] * 4
    assert "did not end: somebody may have seen its draws, so its budget is spent" in str(again[0])


def test_a_compiled_run_is_charged_and_given_out_again(tmp_path):
    case, path = CASES["dp_gibo"], book(tmp_path)
    given = case.algorithm, case.objective, jnp.asarray(records()), case.config(1.0)
    run = drivers.run_scan(*given, ledger=drivers.Recording(path, "scan"))
    same(drivers.run_scan(*given, ledger=drivers.Recording(path, "scan")), run)
    other = drivers.run_scan(*given, ledger=drivers.Recording(path, "another"))
    assert np.any(np.asarray(other.release.point) != np.asarray(run.release.point))
    with pytest.raises(ledger_file.LedgerError, match="another fingerprint, for dp_gibo, 3 steps, in one program"):
        drivers.run_loop(*given, ledger=drivers.Recording(path, "scan"))
    account = ledger_file.account(path)
    assert len(account.spends) == 2
    assert account.spent.cost < 2  # two runs of mu = 1, each a little less on the grid
    assert "dp_gibo, 3 steps" in ledger_file.describe(path)


def test_a_budget_that_does_not_suffice_stops_a_run_before_its_first_evaluation(tmp_path):
    case, path, seen = CASES["dp_gibo"], book(tmp_path, level="0.9"), []
    with pytest.raises(ledger_file.BudgetExceeded, match="mu\\^2"):
        go(case, path, watched(case, seen))
    assert not seen
    assert not ledger_file.account(path).spends


def test_another_config_under_the_same_name_is_refused(tmp_path):
    case, path = CASES["dp_gibo"], book(tmp_path)
    go(case, path, watched(case, []))
    with pytest.raises(ledger_file.LedgerError, match="another"):
        drivers.run_loop(
            case.algorithm, case.objective, records(), case.config(0.9), ledger=drivers.Recording(path, "first")
        )


def test_a_second_process_that_goes_on_with_a_run_is_turned_away(tmp_path):
    case, path = CASES["dp_gibo"], book(tmp_path)

    def intruder(point, data):
        if not intruder.been:
            intruder.been = True
            go(case, path, watched(case, []))
        return np.asarray(case.objective(jnp.asarray(point), data))

    intruder.been = False
    with pytest.raises(ledger_file.LedgerError, match="has its release: nothing more may be drawn for it"):
        go(case, path, intruder)
    assert len(ledger_file.account(path).spends) == 1


def test_nothing_raw_is_on_record(tmp_path):
    case, path = CASES["dp_gibo"], book(tmp_path)

    def secret(point, data):
        return SENTINEL * (1 + np.arange(case.shape[0]) * point[0])

    go(case, path, secret)
    mark, *rest = sorted(tmp_path.iterdir())
    assert (rest, mark.read_text()) == ([path], ledger_file.head(path))
    state, config = state_of(case), case.config(1.0)
    recording, statement = drivers.Recording(path, "first"), case.algorithm.privacy(config)
    subject = recorded_run.make_subject(secret, jnp.asarray(records()), config.users)
    record = recorded_run.begin_record(recording, case.algorithm, config, statement, state.public, subject)
    assert len(record.publics) == STEPS
    lines = [line["content"] for line in ledger_file.read(path).lines if line.get("kind") == "step"]
    assert [set(line) for line in lines] == [{"draws", "loss"}, *([{"public"}, {"draws"}] * STEPS)]
    assert not any(np.any(np.isclose(leaf, SENTINEL, rtol=1e-9)) for leaf in jax.tree.leaves(record.publics))
    assert str(SENTINEL)[:8] not in path.read_text()
    assert oct(path.stat().st_mode)[-3:] == "600"


@pytest.mark.parametrize("driver", [drivers.run_scan, drivers.run_loop])
def test_what_a_ledger_cannot_hold_is_refused(driver, tmp_path):
    case, path = CASES["dp_gibo"], book(tmp_path)
    given = case.algorithm, case.objective, records(), case.config(1.0)
    with pytest.raises(ValueError, match="run must be given"):
        driver(*given, ledger=drivers.Recording(path, ""))
    with pytest.raises(TypeError, match="ledger must be Recording\\(path, run\\), got PosixPath"):
        driver(*given, ledger=path)
    with pytest.raises(ValueError, match="key"):
        driver(*given, ledger=drivers.Recording(path, "x"), key=jax.random.key(0), insecure_key=True)
    free = CASES["random_search"]
    with pytest.raises(ValueError, match="'none'"):
        driver(free.algorithm, free.objective, records(), free.config(1.0), ledger=drivers.Recording(path, "x"))
    averaged = CASES["dp_gp_ucb"]
    with pytest.raises(ValueError, match="prior_averaged_dp"):
        driver(
            averaged.algorithm,
            averaged.objective,
            records(),
            averaged.config(1.0),
            ledger=drivers.Recording(path, "x"),
        )
    assert not ledger_file.account(path).spends


def test_arrays_are_read_back_bit_for_bit_and_damage_is_seen():
    tree = {"a": jnp.asarray([np.nan, -0.0, 5e-324]), "b": (jnp.arange(3, dtype=jnp.int32), jnp.zeros(()))}
    text = _recording.to_text(tree)
    back = _recording.from_text(tree, text)
    assert [np.asarray(x).tobytes() for x in jax.tree.leaves(back)] == [
        np.asarray(x).tobytes() for x in jax.tree.leaves(tree)
    ]
    for spoiled in (text[:-1], [text[0] | {"shape": [2]}, *text[1:]], [text[0] | {"data": "?"}, *text[1:]], [{}]):
        with pytest.raises(ledger_file.DamagedLedgerError):
            _recording.from_text(tree, spoiled)


def optimizer_of(rate):
    def optimizer(step_size):
        return optax.sgd(rate * step_size)

    return optimizer


def recursive(depth):
    def again(count):
        return depth if count == 0 else again(count - 1)

    return again


ARRAY = np.arange(2000.0)


def test_fingerprints_differ_where_anything_public_does():
    """Trap 41: names and reprs stood for functions and numbers, and an old release went out for a new question."""
    config = CASES["dp_gibo"].config
    changed = ARRAY.copy()
    changed[1000] += 1e-9
    values = [
        *(config(1.0), config(1.1), CASES["dp_gibo, few points"].config(1.0), CASES["dp_gd"].config(1.0)),
        *(dataclasses.replace(config(1.0), optimizer=optimizer_of(rate)) for rate in (1.0, 2.0)),
        *({"lengthscale": value} for value in (1.0, 1.0 + 1e-12, np.float32(1), ARRAY, changed)),
        *(optimizer_of(ARRAY), optimizer_of(changed), recursive(1), recursive(2), optax.sgd, optax.adagrad),
        *(functools.partial(max, 1), functools.partial(max, 2), functools.partial(min, 1)),
        *(lambda x: x + 1, lambda x: x + 2, lambda x, y=1: x + y, lambda x, y=2: x + y),
        *((1, 2), [1, 2], ("1", 2), (1, (2,)), ((1,), 2), True, 1, 1.0, "1", b"1", None, Fraction(1), ()),
        *({1: 2}, {2: 1}, frozenset({1, 2}), np.zeros(2), np.zeros((2, 1)), np.zeros(2, np.float32), np.zeros(2, int)),
    ]
    assert len({fingerprint(one) for one in values}) == len(values)


def test_fingerprints_are_equal_where_nothing_public_differs():
    config = CASES["dp_gibo"].config
    for make in (
        lambda: config(1.0), lambda: optimizer_of(2.0), lambda: optimizer_of(ARRAY.copy()), lambda: recursive(3),
        lambda: {"b": 1, "a": np.ones(3)}, lambda: private_evaluations.make_algorithm(CASES["random_search"].algorithm),
        lambda: jax.jit(optimizer_of(1.0)), lambda: frozenset(map(str, range(20))),
    ):  # fmt: skip
        assert fingerprint(make()) == fingerprint(make())
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


NAMESPACE = """
import dataclasses, functools, jax, numpy as np, optax
RATE, TABLE, LIST, SCALAR = {rate}, {{"a": {rate}}}, [{rate}], np.float32({rate})
RECURSIVE = []
def helper(x): return x * {rate}
def inside(x): return (lambda y: y * RATE)(x)
def listed(x): return [y * RATE for y in x]
def called(x): return helper(x)
compiled = jax.jit(helper)
def calls_compiled(x): return compiled(x)
def from_table(x): return x * TABLE["a"]
def from_list(x): return x * LIST[0]
def from_scalar(x): return x * SCALAR
def itself(x): return RECURSIVE[0](x) * {rate}
RECURSIVE.append(itself)
def attributed(x): return x * attributed.rate
attributed.rate = {rate}
def scheduled(step_size): return optax.chain(optax.scale_by_schedule(lambda t: -RATE))
decay = optax.exponential_decay({rate}, 10, 0.9)
def closed(s): return optax.sgd(decay)
@dataclasses.dataclass(frozen=True)
class Kernel:
    scale: float = 1.0
    def __call__(self, x): return x * {rate} * self.scale
kernel = Kernel()
mapped = jax.vmap(helper)
def indexed(x): return x[..., 0] * {rate}
"""
CONSTANT = {"RATE", "TABLE", "LIST", "SCALAR", "RECURSIVE"}


def names_of(rate):
    made = {"__name__": f"module{rate}".replace(".", "")}
    exec(NAMESPACE.format(rate=rate), made)
    return {name: each for name, each in made.items() if callable(each) and not isinstance(each, type)}


def test_functions_differ_by_everything_that_they_reach():
    first, same, other = names_of(0.1), names_of(0.1), names_of(0.2)
    assert len(first) > 15
    for name in first.keys() - {"Kernel"}:
        assert fingerprint(first[name]) == fingerprint(same[name]), name
        assert fingerprint(first[name]) != fingerprint(other[name]), name
    spread = (lambda f, a: f(a)), (lambda f, a: f(*a))
    assert fingerprint(spread[0]) != fingerprint(spread[1])


def test_fingerprints_are_those_of_another_process(tmp_path):
    code = (
        "import sys, jax, numpy as np; sys.path[:0] = {paths!r}\n"
        "jax.config.update('jax_enable_x64', True)\n"
        "from test_recorded_runs import told_apart\n"
        "print(*told_apart())\n"
    )
    root = Path(__file__).parent.parent
    code = code.format(paths=[str(root / "tests"), str(root)])
    environment = os.environ | {"PYTHONHASHSEED": "5"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == told_apart(), done.stderr


def told_apart():
    configs = [case.config(1.0) for name, case in CASES.items() if name in NAMES]
    reaching = {name: index for index, name in enumerate("abcdefgh")}
    exec("def reach(): return a + b + c + d + e + f + g + h", reaching)
    others = names_of(0.3)["scheduled"], reaching["reach"], {"b": {1, "x"}, "a": ARRAY}
    return [fingerprint(one) for one in (*configs, *others)]


@pytest.mark.parametrize(
    "value", [np.ma.masked_array([1.0]), np.array([object()]), iter(()), jax.random.key(0), threading.Lock()]
)
def test_what_has_no_bytes_is_refused(value):
    with pytest.raises(TypeError, match="has no bytes to hash"):
        fingerprint((1, {"x": value}))


WORKER = """
import os, signal, sys, time
sys.path[:0] = [{tests!r}, {root!r}]
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
from jaxdpbo import drivers
from protocol_cases import CASES, records
from test_recorded_runs import one_code
case, (path, pause, steps) = CASES["dp_gd"], sys.argv[1:]
left, sync = int(steps), os.fsync
def killing(descriptor):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    sync(descriptor)
os.fsync = killing
heard = os.fdopen(os.dup(1), "w")  # what an objective prints is silenced
def slow(point, data):
    print("asked", *[float(x).hex() for x in point], file=heard, flush=True)
    time.sleep(float(pause))
    return np.asarray(case.objective(jnp.asarray(point), data))
where = drivers.Recording(path, "first")
run = drivers.run_loop(case.algorithm, one_code(slow), jnp.asarray(records()), case.config(1.0), ledger=where)
print("released", *[float(x).hex() for x in np.asarray(run.release.path).ravel()], flush=True)
"""


def worker(path, pause, steps):
    root = Path(__file__).parent.parent
    code = WORKER.format(tests=str(root / "tests"), root=str(root))
    return subprocess.Popen(
        [sys.executable, "-c", code, path, str(pause), str(steps)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def test_a_process_that_is_really_killed(tmp_path):
    """By SIGKILL, while a point is evaluated; another process ends the run."""
    path = book(tmp_path)
    first = worker(path, 60, 0)
    asked = first.stdout.readline().split()
    assert asked[0] == "asked"
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    second = worker(path, 0, 0)
    said, complained = second.communicate()
    assert second.returncode == 0, complained
    lines = said.splitlines()
    assert lines[0].split() == asked
    seen = []
    same_run = go(CASES["dp_gd"], path, one_code(watched(CASES["dp_gd"], seen)))
    assert lines[-1].split()[1:] == [float(x).hex() for x in np.asarray(same_run.release.path).ravel()]
    assert not seen
    assert len(ledger_file.account(path).spends) == 1


def printed(line):
    """The points of a line, one after the other."""
    return np.array([float.fromhex(word) for word in line.split()[1:]]).reshape(-1, 2)


def test_processes_killed_while_they_write_leave_one_transcript(tmp_path, trials):
    """SIGKILL at a random write, then once more undisturbed: all that either printed is one path."""
    count = trials("processes killed at a random write of a run on record", 1, 40, 11)
    draw, ends = np.random.default_rng(11), Counter()
    for number in range(count):
        (tmp_path / str(number)).mkdir()
        path = book(tmp_path / str(number))
        said = [worker(path, 0, die_at).communicate()[0].splitlines() for die_at in (draw.integers(3, 16), 0)]
        publics = on_record(path)
        whole = path_of(publics[-1] if publics else state_of(CASES["dp_gd"]).public)
        for lines in said:
            asked = [printed(line) for line in lines if line.startswith("asked")]
            start = len(whole) - 1 - len(asked) if lines is said[1] and asked else 0
            for line in lines:
                at = slice(start, start + 1) if line.startswith("asked") else slice(None)
                np.testing.assert_array_equal(printed(line), whole[at])
                start += 1
        ends[bool(said[1])] += 1
    assert count < 10 or len(ends) == 2  # some go on, some were killed while they drew


def private_objective(path, evaluations=3, loss=None, **changes):
    def square(point, data):
        return (data - point) ** 2

    options = {
        "users": 4,
        "mu": 0.5,
        "evaluations": evaluations,
        "loss_range": (0.0, 4.0),
        "ledger": drivers.Recording(path, "bo"),
    }
    return drivers.PrivateObjective(one_code(loss or square), np.linspace(0.0, 1.0, 4), **options | changes)


def test_private_evaluations_go_on_in_another_process_where_they_stood(tmp_path):
    path = book(tmp_path)
    first = private_objective(path)
    value = first(0.25)

    def fails(point, data):
        raise Killed

    killed = private_objective(path, loss=fails)
    assert [one.value for one in killed.spent] == [value]
    with pytest.raises(Killed):
        killed(0.5)
    last = private_objective(path)
    assert last.remaining == 1, "what was charged stays charged"
    last(0.75)
    with pytest.raises(drivers.BudgetExhausted):
        private_objective(path)(1.0)
    with pytest.raises(drivers.BudgetExhausted):
        first(0.3)  # the ledger says what the others did
    assert first.remaining == 0
    assert [float(one.point) for one in private_objective(path).spent] == [0.25, 0.75]
    assert len(ledger_file.account(path).spends) == 1
    with pytest.raises(ledger_file.LedgerError, match="another"):
        private_objective(path, evaluations=4)
    with pytest.raises(ValueError, match="key must not be given"):
        private_objective(path, key=jax.random.key(0))


def spent_through(path, other, budget=4):
    """How many values an objective gives out through two names of one ledger, refusals apart."""
    values = [private_objective(path, budget)(0.5) for _ in range(2)]
    other(path)
    for name in (path, path.with_name("other.jsonl")) * budget:
        try:
            values.append(private_objective(name, budget)(0.5))
        except (ledger_file.LedgerError, OSError, drivers.BudgetExhausted):
            continue
    return len(values)


@pytest.mark.parametrize(
    "other",
    [
        lambda path: path.with_name("other.jsonl").symlink_to(path),
        lambda path: path.with_name("other.jsonl").hardlink_to(path),
        lambda path: shutil.copy(path, path.with_name("other.jsonl")),
        lambda path: [[file.unlink() for file in path.parent.iterdir() if file != path], ledger_file.adopt(path)],
        lambda path: path.rename(path.with_name("other.jsonl")),
    ],
    ids=["a symbolic link", "a hard link", "a copy", "all beside it deleted, and adopted", "another name"],
)
def test_spent_evaluations_stay_spent_through(other, tmp_path):
    """Trap 36: answers beside a ledger, outside its chain. Each of these was a whole budget again."""
    assert spent_through(book(tmp_path), other) == 4


def test_a_curators_copy_gives_nothing_more(tmp_path):
    """The same for a run of either driver: what is on record is not drawn again from a copy."""
    path, left = book(tmp_path), []
    attempt(drivers.run_scan, path, left)
    copy = Path(shutil.copy(path, tmp_path / "copy.jsonl"))
    assert isinstance(attempt(drivers.run_scan, copy, left), ledger_file.LedgerError)
    ledger_file.adopt(copy)
    attempt(drivers.run_scan, copy, left)
    np.testing.assert_array_equal(*left)  # given out again, not drawn


def test_what_was_returned_is_in_the_head(tmp_path):
    path = book(tmp_path)
    objective = private_objective(path)
    heads = [ledger_file.head(path)]
    for _ in range(2):
        objective(0.5)
        heads.append(ledger_file.head(path))
    assert len(set(heads)) == 3
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]))  # the last evaluation cut off
    with pytest.raises(ledger_file.DamagedLedgerError, match="does not hold the expected line"):
        ledger_file.account(path, expected_head=heads[-1])


@pytest.mark.parametrize("back", ["over it", "after it was deleted"])
def test_a_reader_of_an_older_copy_sees_it_by_the_head_that_was_kept(back, tmp_path):
    """Nothing in a file can show that it is old. Its mark keeps writers from it: test_ledger.py."""
    path = book(tmp_path)
    old = path.read_bytes()
    private_objective(path)(0.5)
    kept = ledger_file.head(path)
    if back == "after it was deleted":
        path.unlink()
    path.write_bytes(old)
    with pytest.raises(ledger_file.DamagedLedgerError, match="does not hold the expected line"):
        ledger_file.account(path, expected_head=kept)


def test_points_are_kept_as_they_were(tmp_path):
    path, objective = book(tmp_path), private_objective(book(tmp_path / "other"))
    asked = np.array([0.25])
    value = objective(asked)
    asked[0] = 9.0  # an optimiser writes into its array
    np.testing.assert_array_equal(objective.spent[0].point, [0.25])
    objective = private_objective(path, loss=lambda point, data: data)
    for wrong in ({"lr": np.nan}, [object()], {"f": len}):
        with pytest.raises(TypeError, match="point must be finite numbers, text, and lists or dicts of them on record"):
            objective(wrong)
    assert objective.remaining == 3
    objective({"lr": np.float32(0.5), "kernel": "rbf", "at": (jnp.asarray(1), 2.5)})
    again = private_objective(path, loss=lambda point, data: data)
    assert again.spent[0].point == {"lr": 0.5, "kernel": "rbf", "at": [1, 2.5]}
    assert isinstance(value, float)


def test_curated_rows_that_failed_are_not_drawn_again(tmp_path, monkeypatch):
    chosen = transforms.gaussian(centre=np.zeros(2), scale=1.0, epsilon=1.0, delta=1e-5, radius=2.0)
    for number, failing in enumerate(["_release", "store_release"]):
        path = tmp_path / f"{number}.jsonl"
        stated = chosen.guarantee
        ledger_file.create(path, notion="gdp", level=stated.level, relation="replace_one", protects=stated.protects)
        with monkeypatch.context() as patch:
            module = curation if failing == "_release" else ledger_file
            real = getattr(module, failing)
            patch.setattr(module, failing, lambda *rest, real=real, **options: real(*rest, **options) and 1 / 0)
            with pytest.raises(ZeroDivisionError):
                transforms.curate(None, chosen, np.ones((3, 2)), ledger=drivers.Recording(path, "rows"))
        if failing == "_release":
            with pytest.raises(ledger_file.LedgerError, match="did not end"):
                transforms.curate(None, chosen, np.ones((3, 2)), ledger=drivers.Recording(path, "rows"))
        else:  # it was stored: the same rows, not others
            one, two = (
                transforms.curate(None, chosen, np.ones((3, 2)), ledger=drivers.Recording(path, "rows")).z
                for _ in range(2)
            )
            np.testing.assert_array_equal(one, two)


def test_curated_rows_of_another_kind_are_damage(tmp_path, monkeypatch):
    chosen = transforms.gaussian(centre=np.zeros(2), scale=1.0, epsilon=1.0, delta=1e-5, radius=2.0)
    path, stated, store = tmp_path / "ledger.jsonl", chosen.guarantee, ledger_file.store_release
    ledger_file.create(path, notion="gdp", level=stated.level, relation="replace_one", protects=stated.protects)
    monkeypatch.setattr(
        ledger_file, "store_release", lambda path, run, payload, **options: store(path, run, {"mean": 1.0}, **options)
    )
    for _ in range(2):
        with pytest.raises(ledger_file.DamagedLedgerError, match="must hold the"):
            transforms.curate(None, chosen, np.ones((3, 2)), ledger=drivers.Recording(path, "rows"))


EVALUATOR = """
import sys
sys.path[:0] = [{tests!r}, {root!r}]
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
from jaxdpbo import drivers
from test_recorded_runs import private_objective
objective = private_objective(sys.argv[1], evaluations=12, loss=lambda point, data: data)
print("ready", flush=True)
sys.stdin.readline()
try:
    while True:
        print(objective(0.5), flush=True)
except drivers.BudgetExhausted:
    pass
"""


def test_processes_share_the_evaluations_of_one_run(tmp_path):
    path = book(tmp_path)
    code = EVALUATOR.format(tests=str(Path(__file__).parent), root=str(Path(__file__).parent.parent))
    workers = [
        subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [worker.stdout.readline() for worker in workers] == ["ready\n"] * 2  # before either has evaluated
    printed = [worker.communicate("go\n")[0] for worker in workers]
    values = [float(line) for text in printed for line in text.splitlines()]
    assert len(set(values)) == 12  # nobody evaluated for free, and no noise was drawn twice
    account = ledger_file.account(path)
    assert [entry.run for entry in account.spends] == ["bo"]
    again = private_objective(path, evaluations=12)
    assert sorted(one.value for one in again.spent) == sorted(values)
    assert again.remaining == 0


def test_objects_of_one_run_count_each_others_evaluations(tmp_path):
    path, called = book(tmp_path), []

    def loss(point, data):
        called.append(point)
        return data

    one, other = (private_objective(path, loss=loss) for _ in range(2))
    values = [one(0.0), other(0.25), one(0.5)]
    assert len(set(values)) == 3
    assert one.remaining == 0
    assert [spent.value for spent in one.spent] == values
    with pytest.raises(drivers.BudgetExhausted, match="all 3 evaluations are spent"):
        one(0.75)
    assert len(called) == 3
    assert other.remaining == 1  # it has not read the last line
    with pytest.raises(drivers.BudgetExhausted):
        other(0.75)
    assert len(called) == 4  # the loss was evaluated, and nothing was drawn
    assert other.remaining == 0
    assert [spent.value for spent in private_objective(path).spent] == values


def test_an_object_reads_what_others_did_when_it_is_told_to(tmp_path):
    path = book(tmp_path)
    one, other = (private_objective(path) for _ in range(2))
    value = one(0.5)
    assert (other.remaining, other.spent) == (3, ())
    other.refresh()
    assert (other.remaining, [spent.value for spent in other.spent]) == (2, [value])
    one.refresh()
    assert len(one.spent) == 1


def test_calls_in_flight_and_those_of_others_never_count_below_zero(tmp_path):
    path = book(tmp_path)
    entered, leave = threading.Event(), threading.Event()

    def slow(point, data):
        if point == 0.25:
            entered.set()
            assert leave.wait(60)
        return data

    one, other = private_objective(path, loss=slow, evaluations=2), private_objective(path, evaluations=2)
    lost = []

    def call():
        try:
            one(0.25)
        except drivers.BudgetExhausted as error:
            lost.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert entered.wait(60)
    other(0.5)
    other(0.75)
    one.refresh()  # two are charged, and one is in flight
    assert one.remaining == 0
    with pytest.raises(drivers.BudgetExhausted):
        one(0.5)
    leave.set()
    thread.join(60)
    assert len(lost) == 1
    assert one.remaining == 0


def test_an_evaluation_that_was_lost_to_another_worker_shows_no_error_of_the_loss(tmp_path):
    path = book(tmp_path)

    def failing(point, data):
        raise ArithmeticError("quotes a record")

    other = private_objective(path, loss=failing, evaluations=1)
    private_objective(path, evaluations=1)(0.5)
    with pytest.raises(drivers.BudgetExhausted) as caught:
        other(0.5)
    assert caught.value.__context__ is None


def test_an_evaluation_that_cannot_be_charged_shows_no_error_of_the_loss_and_is_the_last(tmp_path, monkeypatch):
    path, called = book(tmp_path), []

    def failing(point, data):
        called.append(point)
        raise ArithmeticError("quotes a record")

    def full(*rest, **options):
        raise OSError(28, "No space left")

    objective = private_objective(path, loss=failing)
    with monkeypatch.context() as patch:
        patch.setattr(ledger_file, "note", full)
        with pytest.raises(OSError, match="No space left") as caught:
            objective(0.5)
    assert caught.value.__context__ is None
    with pytest.raises(OSError, match="No space left"):
        objective(0.25)
    assert called == [0.5]
    with pytest.raises(ArithmeticError):
        private_objective(path, loss=failing)(0.5)


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, MemoryError])
def test_reading_that_is_interrupted_gives_nothing_away(stopped, tmp_path, monkeypatch):
    path = book(tmp_path)
    one, other = (private_objective(path) for _ in range(2))
    values = [one(0.25), one(0.5), one(0.75)]
    real, reads = _private_objective._Record.read, itertools.count(1)

    def interrupted(record, line, point=None):
        if next(reads) == 3:
            raise stopped
        return real(record, line, point)

    with monkeypatch.context() as patch:
        patch.setattr(_private_objective._Record, "read", interrupted)
        with pytest.raises(stopped):
            other.refresh()
    with pytest.raises(drivers.BudgetExhausted):
        other(0.9)
    assert [spent.value for spent in other.spent] == values


def test_points_that_no_float_holds_are_read_again(tmp_path):
    path = book(tmp_path)
    one, other = (private_objective(path, loss=lambda point, data: data) for _ in range(2))
    values = [one([10**400]) for _ in range(3)]
    with pytest.raises(drivers.BudgetExhausted):
        other(0.5)
    assert [spent.value for spent in private_objective(path, loss=lambda point, data: data).spent] == values


def test_charges_out_of_order_are_damage(tmp_path):
    path = book(tmp_path)
    private_objective(path)(0.5)
    ledger_file.note(path, "bo", 3, {"charged": 1})
    with pytest.raises(ledger_file.DamagedLedgerError, match="charges must be numbered in order"):
        private_objective(path)
    other = book(tmp_path / "other")
    private_objective(other)
    ledger_file.note(other, "bo", 1, {"colour": "red"})
    with pytest.raises(ledger_file.DamagedLedgerError, match=r"no loss in its first line, got \['colour'\]"):
        private_objective(other)


@pytest.mark.parametrize(
    "line",
    [
        {"charged": True}, {"charged": 1.0}, {"charged": 1, "high": 1.0}, {"seeking": False}, {"seeking": 1},
        {"high": "abc"}, {"high": [1, 2]}, {"high": -3.0}, {"high": 0.0}, {"high": None}, {"high": 1e308},
        {"point": 0.5, "value": "rows"}, {"point": 0.5, "value": [1]}, {"point": 0.5, "value": True}, {"value": 0.5},
        {"loss": "x"}, {},
    ],
)  # fmt: skip
def test_a_line_that_no_object_wrote_is_damage(line, tmp_path):
    path, options = book(tmp_path), {"loss_range": "private", "design": [0.0, 1.0]}
    first = private_objective(path, **options)
    (charged,) = ledger_file.account(path).spends
    ledger_file.note(path, "bo", charged.steps + 1, line)
    for use in first.refresh, lambda: private_objective(path, **options):
        with pytest.raises(ledger_file.DamagedLedgerError):
            use()


@pytest.mark.parametrize("driver", [drivers.run_scan, drivers.run_loop])
def test_a_release_of_another_kind_is_damage(driver, tmp_path, monkeypatch):
    """Also one that somebody stored while the run was drawn."""
    case, path, store = CASES["dp_gibo"], book(tmp_path), ledger_file.store_release
    monkeypatch.setattr(
        ledger_file, "store_release", lambda path, run, payload, **options: store(path, run, {"mean": 1.0}, **options)
    )
    for _ in range(2):
        with pytest.raises(ledger_file.DamagedLedgerError, match="must hold the"):
            driver(
                case.algorithm,
                case.objective,
                jnp.asarray(records()),
                case.config(1.0),
                **group_options(ledger=drivers.Recording(path, "first")),
            )


def test_a_step_that_clears_the_screen_is_damage(tmp_path):
    case, path = CASES["dp_gibo"], book(tmp_path)
    with pytest.raises(Killed):
        go(case, path, one_code(watched(case, [], 1)))
    (charged,) = ledger_file.account(path).spends
    line = {"draws": "\x1b[2J", "loss": recorded_run.fingerprint_code(one_code(None))}
    ledger_file.note(path, "first", charged.steps + 1, line)
    with pytest.raises(ledger_file.DamagedLedgerError):
        go(case, path, one_code(watched(case, [])))


def test_the_range_of_a_run_is_found_by_one_object(tmp_path):
    path, options = book(tmp_path), {"loss_range": "private", "design": [0.0, 0.5, 1.0]}
    one, other = (private_objective(path, **options) for _ in range(2))
    assert one.loss_range == other.loss_range
    assert len({one(0.5), other(0.5), one(0.5)}) == 3
    text = path.read_text()
    assert text.count("seeking") == text.count('"high"') == 1


def test_a_fork_does_not_draw_the_same_noise(monkeypatch):
    objective = drivers.PrivateObjective(
        lambda point, data: data * point, np.ones(4), users=4, mu=0.5, evaluations=3, loss_range=(0, 4)
    )
    process = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: process + 1)  # forking a process with JAX's threads is unsafe
        with pytest.raises(RuntimeError, match="a fork would draw its noise twice"):
            objective(1.0)
    assert objective.remaining == 3


@pytest.mark.parametrize("kind", ["product_laplace", "private_projection"])
def test_curated_rows_are_given_out_again(kind, tmp_path):
    public = {"centre": np.zeros(3), "scale": 1.0, "epsilon": 1.0, "radius": 2.0}
    public |= {} if kind == "product_laplace" else {"projected": 2, "delta": 1e-5}
    chosen, path = getattr(transforms, kind)(**public), tmp_path / "ledger.jsonl"
    statement, inputs = chosen.guarantee, np.random.default_rng(0).normal(size=(5, 3))
    ledger_file.create(
        path, notion=statement.notion, level=statement.level, relation="replace_one", protects=statement.protects
    )
    first, again = (transforms.curate(None, chosen, inputs, ledger=drivers.Recording(path, "rows")) for _ in range(2))
    np.testing.assert_array_equal(first.z, again.z)
    assert first.metadata.distribution == again.metadata.distribution
    assert first.guarantee == again.guarantee
    assert [entry.released for entry in ledger_file.account(path).spends] == [True]
    with pytest.raises(ledger_file.BudgetExceeded):
        transforms.curate(None, chosen, inputs, ledger=drivers.Recording(path, "more"))
