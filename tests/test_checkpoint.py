"""Compiled runs in parts: whatever kills them, they go on to the same release; another run never takes their key."""

import os
import signal
import stat
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from option_groups import group_options
from protocol_cases import CASES, loss, records

import jaxdpbo
from jaxdpbo import dp_gd, drivers, files
from jaxdpbo.drivers import Recording
from jaxdpbo.drivers import checkpoint as _checkpoint
from jaxdpbo.guarantee import assumptions
from jaxdpbo.ledger import ledger_file
from jaxdpbo.noise import keys

CASE = CASES["dp_gd"]
KEY = keys.key_from_bytes(bytes(range(32)))


class Killed(BaseException):
    """As a signal is."""


@pytest.fixture(autouse=True)
def two_parts(monkeypatch):
    """Of two steps each, of which the last is beyond the run's three."""
    monkeypatch.setattr(_checkpoint, "PARTS", 2)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.npz"


@pytest.fixture
def recording(tmp_path):
    ledger_file.create(tmp_path / "ledger", notion="gdp", level=3.0, total_variation=1e-6)
    return Recording(tmp_path / "ledger", "run")


def run(path, case=CASE, scale=1.0, data=None, **options):
    data = records() if data is None else data
    options = {"checkpoint": path} | options
    return drivers.run_scan(case.algorithm, case.objective, data, case.config(scale), **group_options(**options))


def leaves(tree):
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


def killed_after(monkeypatch, count):
    """The process is killed before, or after, something of a file or a ledger happens for the ``count``-th time."""
    happened = []

    def wrapped(function):
        def call(*arguments, **options):
            happened.append(function)
            if len(happened) == count:
                raise Killed
            done = function(*arguments, **options)
            happened.append(function)
            if len(happened) == count:
                raise Killed
            return done

        call.trace = getattr(function, "trace", None)
        return call

    for module, name in (
        (files, "write_once"), (files, "replace"), (_checkpoint, "_release"), (_checkpoint, "delete"),
        (ledger_file, "charge"), (ledger_file, "note"), (ledger_file, "store_release"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, wrapped(getattr(module, name)))


@pytest.mark.daily("dp_gibo, nearest", "dp_gd")
@pytest.mark.parametrize("name", ["dp_gd", "dp_gibo, nearest", "private evaluations", "dpareto"])
def test_in_parts_it_is_the_run_that_it_is_in_one(name, path):
    case = CASES[name]
    options = {"key": KEY, "diagnostics": True}
    whole, parted = (run(checkpoint, case, **options) for checkpoint in (None, path))
    for one, other in zip(jax.tree.leaves(whole.release), jax.tree.leaves(parted.release), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    of_whole, of_parts = (jax.tree.map(jnp.shape, each.diagnostics.info) for each in (whole, parted))
    assert of_whole == of_parts
    assert not path.exists()


def test_diagnostics_of_a_resumed_run_are_of_every_step(path, monkeypatch):
    options = {"key": KEY, "diagnostics": True}
    stopped(path, monkeypatch, **options)
    resumed, whole = (run(path, **options).diagnostics.info for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, resumed, whole)
    assert len(resumed.raw["gradient"]) == CASE.config(1.0).steps


def words(path):
    """Of the key in a file, None where there is none."""
    return np.load(path)["words"] if path.exists() else None


@pytest.mark.parametrize("given", [True, False])
def test_killed_at_any_point_it_goes_on_to_the_same_release(given, path, monkeypatch):
    options, count, ended = {"key": KEY} if given else {}, 0, False
    while not ended:
        count += 1
        with monkeypatch.context() as patch:
            killed_after(patch, count)
            try:
                done, ended = run(path, **options), True
            except Killed:
                held = words(path)
                done = run(path, **options)
        if given:
            assert leaves(done.release) == leaves(run(path, key=KEY).release)
        elif not ended and held is not None:
            key = jax.random.wrap_key_data(jnp.asarray(held), impl=keys.chacha20)
            assert leaves(done.release) == leaves(run(path, key=key).release)
        assert assumptions.KEY_SECRET in done.guarantee.assumptions
        assert not path.exists()
    assert count == 11  # 5 things, and the two parts write twice


@pytest.mark.parametrize("count", range(1, 18))
def test_on_record_one_transcript_leaves_wherever_it_is_killed(count, path, recording, monkeypatch):
    drawn = []
    with monkeypatch.context() as patch:
        killed_after(patch, count)
        patch.setattr(_checkpoint, "_release", noting(drawn, _checkpoint._release))
        with pytest.raises(Killed) if count < 17 else nullcontext():
            run(path, ledger=recording)
    done = [run(path, ledger=recording, key=None) for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(_checkpoint, "_release", noting(drawn, _checkpoint._release))
        done.append(run(path, ledger=recording))
    assert len({tuple(leaves(each.release)) for each in done} | set(drawn)) == 1
    assert len(ledger_file.account(recording.path).spends) == 1
    assert not path.exists()


def noting(drawn, function):
    def call(*arguments):
        found = function(*arguments)
        drawn.append(tuple(leaves(found)))
        return found

    call.trace = function.trace
    return call


def test_a_process_that_is_killed_leaves_a_file_closed_to_others(path):
    code = (
        "import os, signal, sys\n"
        "from jaxdpbo import files\n"
        "from jaxdpbo.drivers import checkpoint\n"
        "import test_checkpoint\n"
        "checkpoint.PARTS, write = 2, files.replace\n"
        "def once(*arguments):\n"
        "    write(*arguments)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.replace = once\n"
        "test_checkpoint.run(sys.argv[1], key=test_checkpoint.KEY)\n"
    )
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": f"{here.parent}{os.pathsep}{here}", "JAX_ENABLE_X64": "1"}
    done = subprocess.run([sys.executable, "-c", code, path], env=environment)
    assert done.returncode == -signal.SIGKILL
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert int(np.load(path)["done"]) == 2
    wanted = leaves(run(None, key=KEY).release)
    assert leaves(run(path, key=KEY).release) == wanted
    assert [each.name for each in path.parent.iterdir()] == []


def other_loss(point, data):
    return loss(point, data) * 2


def stopped(path, monkeypatch, **options):
    with monkeypatch.context() as patch:
        killed_after(patch, 8 if "ledger" in options else 4)  # after the first part
        with pytest.raises(Killed):
            run(path, **options)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"case": CASE._replace(objective=CASES["dp_gibo"].objective)}, None),
        ({"case": CASES["private evaluations"]}, "its program, its numbers"),
        ({"case": CASE._replace(objective=dp_gd.gradient_objective(other_loss))}, "in its program$"),
        ({"scale": 1.1}, "in its numbers$"),
        ({"data": records() + 1e-9}, "in its data$"),
        ({"key": KEY}, "in its key$"),
    ],
)
def test_another_run_does_not_take_the_key(options, said, path, monkeypatch):
    """Two runs by one key have the same noise: their difference is the data's."""
    content = stopped(path, monkeypatch)
    with pytest.raises(ValueError, match=said or "shape"):
        run(path, **options)
    assert path.read_bytes() == content


def test_another_closure_does_not_take_the_key(path, monkeypatch):
    def closing(over):
        def loss(point, data):
            return jnp.sum(jnp.square(jnp.asarray(data) - point[None]) * over[None], axis=-1)

        return CASE._replace(objective=dp_gd.gradient_objective(loss))

    with monkeypatch.context() as patch:
        killed_after(patch, 4)
        with pytest.raises(Killed):
            run(path, closing(np.linspace(0.0, 1.0, len(records()[0]))))
    with pytest.raises(ValueError, match=r"in its program$"):
        run(path, closing(np.linspace(0.1, 1.0, len(records()[0]))))


def test_other_devices_do_not_take_the_key(path, monkeypatch):
    """They may round another user's gradient otherwise: the difference of two releases has no noise."""
    content = stopped(path, monkeypatch)
    of = jax.sharding.Mesh(np.asarray(jax.devices()[:1]), ("a",))
    spread = jax.device_put(records(), jax.sharding.NamedSharding(of, jax.sharding.PartitionSpec("a")))
    with pytest.raises(ValueError, match=r"its devices$"):
        run(path, data=spread)
    for change in (
        lambda patch: patch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2"),
        lambda patch: patch.setattr(_checkpoint.metadata, "version", lambda _: "0"),
        lambda patch: patch.setattr(_checkpoint, "_processor", lambda: "another"),
    ):
        with monkeypatch.context() as patch:
            change(patch)
            with pytest.raises(ValueError, match=r"differs in its devices$"):
                run(path)
    assert path.read_bytes() == content


def foreign(_, shape, row):
    return jax.ffi.ffi_call("that no text shows", shape)(row)


@pytest.mark.parametrize("call", [jax.pure_callback, jax.experimental.io_callback, foreign])
def test_a_program_that_calls_what_no_text_shows_is_refused(call, path):
    """No text shows the function: two of them would have one key."""

    def gradients(point, data):
        found = CASE.objective(point, data)
        return jax.lax.map(lambda row: call(np.asarray, jax.ShapeDtypeStruct(row.shape, row.dtype), row), found)

    with pytest.raises(ValueError, match="checkpoint must not be given where the program calls Python or foreign code"):
        run(path, CASE._replace(objective=gradients))
    assert list(path.parent.iterdir()) == []


def test_what_is_no_checkpoint_is_refused(path, monkeypatch, tmp_path):
    stopped(path, monkeypatch)
    path.chmod(0o640)
    with pytest.raises(ValueError, match="must be closed to others"):
        run(path)
    for content in (b"", b"nothing", path.read_bytes()[:-20]):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(ValueError, match=r"must be a file of run_scan, and run\.npz is none"):
            run(path)
    with pytest.raises(ValueError, match="must be a file"):
        run(tmp_path)
    with pytest.raises(TypeError, match="checkpoint must be a path, got int"):
        run(3)


def test_on_record_a_run_whose_file_is_gone_is_spent(path, recording, monkeypatch):
    stopped(path, monkeypatch, ledger=recording)
    path.unlink()
    for file in (path, None):
        with pytest.raises(ledger_file.LedgerError):
            run(file, ledger=recording)
    assert not path.exists()


def test_on_record_no_other_file_goes_on(path, recording, monkeypatch):
    """A second file, of an attempt that was killed before it was refused, has another key: what was drawn was seen."""
    stopped(path, monkeypatch, ledger=recording)
    path.unlink()
    with monkeypatch.context() as patch:
        killed_after(patch, 2)
        with pytest.raises(Killed):
            run(path, ledger=recording)
    assert path.exists()
    with pytest.raises(ledger_file.LedgerError, match="was charged before and did not end"):
        run(path, ledger=recording)


def test_what_a_killed_write_left_goes_with_the_file(path, monkeypatch):
    stopped(path, monkeypatch)
    files._write_unfinished(path, path.read_bytes(), 0o600)  # and no more, as where the process was killed
    other = path.with_name(f"{path.name}.txt")
    other.touch()
    run(path)
    assert list(path.parent.iterdir()) == [other]


def test_a_file_that_began_elsewhere_pays_for_no_second_transcript(path, recording, tmp_path, monkeypatch):
    """Two files for one charge: the release of the first that ends is given out for both."""
    with monkeypatch.context() as patch:
        killed_after(patch, 2)  # before it is charged
        with pytest.raises(Killed):
            run(path, ledger=recording)
    first = run(tmp_path / "other.npz", ledger=recording)
    assert leaves(run(path, ledger=recording).release) == leaves(first.release)
    assert not path.exists()


@pytest.mark.parametrize("ends", [True, False])
def test_the_same_call_in_another_process_is_no_end_of_this_one(ends, path, recording, monkeypatch):
    """Between this one's charge and its note the other goes on with the same file: to the end, or it is killed."""
    note, other = ledger_file.note, []

    def late(*arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(ledger_file, "note", note)
            if not ends:
                killed_after(patch, 7)  # after its first part
            with nullcontext() if ends else pytest.raises(Killed):
                other.append(run(path, ledger=recording))
        assert path.exists() is not ends
        return note(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ledger_file, "note", late)
        released = run(path, ledger=recording).release
    other.append(run(path, ledger=recording))
    assert {tuple(leaves(each.release)) for each in other} == {tuple(leaves(released))}
    assert len(ledger_file.account(recording.path).spends) == 1
    assert not path.exists()


def test_a_disk_that_is_full_at_the_note_loses_no_budget(path, recording, monkeypatch):
    def full(*_, **__):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ledger_file, "note", full)
        with pytest.raises(OSError, match="no space"):
            run(path, ledger=recording)
    assert path.exists()
    assert leaves(run(path, ledger=recording).release) == leaves(run(path, ledger=recording).release)
    assert len(ledger_file.account(recording.path).spends) == 1


def squares(point, data):
    return jnp.sum(jnp.square(data - point[0]), axis=1)


def test_minimize_resumes_from_its_checkpoint(path, monkeypatch):
    given = {"mu": 1.0, "search": jaxdpbo.Search(steps=3, batch=2)}
    goes_on = {"key": KEY, "checkpoint": path}
    with monkeypatch.context() as patch:
        killed_after(patch, 4)  # after the first part
        with pytest.raises(Killed):
            jaxdpbo.minimize(squares, records(), [(0.0, 1.0)], **given, **goes_on)
    assert path.exists()
    resumed = jaxdpbo.minimize(squares, records(), [(0.0, 1.0)], **given, **goes_on)
    whole = jaxdpbo.minimize(squares, records(), [(0.0, 1.0)], **given, key=KEY)
    assert leaves(resumed.release) == leaves(whole.release)
    assert not path.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"progress": True}, "progress must not be given with checkpoint: a compiled program has no steps"),
        ({"traceable": False}, "checkpoint must not be given with traceable=False: give ledger="),
    ],
)
def test_a_run_from_python_has_no_checkpoint(path, options, said):
    with pytest.raises(ValueError, match=said):
        jaxdpbo.minimize(squares, records(), [(0.0, 1.0)], mu=1.0, checkpoint=path, **options)
    assert not path.exists()


def test_a_loss_that_cannot_be_traced_is_refused_with_a_checkpoint(path):
    def opaque(point, data):
        return np.sum(np.square(np.asarray(data) - float(point[0])), axis=1)

    with pytest.raises(jax.errors.TracerArrayConversionError):
        jaxdpbo.minimize(opaque, records(), [(0.0, 1.0)], mu=1.0, checkpoint=path)
    assert not path.exists()
