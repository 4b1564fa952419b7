"""Files of another user are refused: each that docs/threat-model.md lists, planted where this package would read it."""

import argparse
import base64
import contextlib
import os
import re
from pathlib import Path

import numpy as np
import pytest
from option_groups import group_options
from protocol_cases import CASES, records

from jaxdpbo import dp_gibo, drivers, files, ledger, outsourcing, silos
from jaxdpbo.commands import curator, streams
from jaxdpbo.drivers import checkpoint as checkpoints
from jaxdpbo.noise import keys
from jaxdpbo.outsourcing import ProtocolError
from jaxdpbo.tables import beam_table

ANOTHER = 12345  # a user
KEY = keys.key_from_bytes(bytes(range(32)))
CASE = CASES["dp_gd"]
ROWS = np.arange(6.0).reshape(3, 2)
SECRET = b"31415926"  # stands in every file that may hold data or a key


class Stopped(BaseException):
    """As a signal is."""


@pytest.fixture
def plant(monkeypatch):
    """Make a file, or a link, another user's. Who is not root may not: then it is this user who is another."""

    def planted(path):
        if os.geteuid() == 0:
            os.chown(path, ANOTHER, ANOTHER, follow_symlinks=False)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: ANOTHER)

    return planted


# Each file: how it is made by its own program, and what then reads it


def begun_ledger(folder):
    path = folder / "ledger.jsonl"
    ledger.create(path, notion="dp", level=1, relation="replace_one", protects="users")
    return path


def charge(folder):
    spend = ledger.Spend((ledger.Event("dp", "1/10"),), "replace_one", "users")
    return ledger.charge(folder / "ledger.jsonl", "march", "a mean", spend)


def mark_of(folder):
    begun_ledger(folder)
    (mark,) = folder.glob("ledger-*.head")
    return mark


def run(folder):
    options = {"key": KEY, "checkpoint": folder / "run.npz"}
    return drivers.run_scan(CASE.algorithm, CASE.objective, records(), CASE.config(1.0), **group_options(**options))


def checkpoint(folder):
    kept, checkpoints.delete = checkpoints.delete, stop
    try:
        with pytest.raises(Stopped):
            run(folder)
    finally:
        checkpoints.delete = kept
    return folder / "run.npz"


def stop(*_):
    raise Stopped


def serve(folder):
    """The curator's command, without its hold on the standard streams."""
    parser = argparse.ArgumentParser()
    curator.add_arguments(parser)
    arguments = parser.parse_args(["--epsilon", "1", "--folder", str(folder)])
    channel = streams.Channel(iter(()), lambda line: None, lambda text: None)
    curator.serve_all(arguments, channel, curator.PrivateSide(ROWS, lambda row: 0.0, SECRET))


def released(folder):
    serve(folder)
    (folder / "record.jsonl").unlink()
    return folder / "released.jsonl"


def open_record(folder):
    published = outsourcing.read_publication(folder / "released.jsonl")
    with outsourcing.open_journal(folder / "record.jsonl", published, SECRET, 5):
        pass


def record(folder):
    released(folder)
    (folder / "record.jsonl.key").unlink()
    open_record(folder)
    return folder / "record.jsonl"


def record_key(folder):
    path = record(folder)
    key = path.with_name("record.jsonl.key")
    key.write_bytes(SECRET * 4)
    path.unlink()  # an attacker plants the key before there is a record
    return key


def log(folder):
    os.close(streams._open_log(folder / "curator.log"))
    (folder / "curator.log").write_bytes(SECRET)
    return folder / "curator.log"


def write_log(folder):
    os.close(streams._open_log(folder / "curator.log"))


def raw_sum(folder):
    beam_table._make_writer(str(folder / "sum.json"))((3, [31415926], ""))
    return folder / "sum.json"


def read_raw_sum(folder):
    return beam_table._read_sum(str(folder / "sum.json"))


def a_sum(folder):
    cards = [silos.Member(name, 10, base64.b64encode(name.encode() * 32).decode()) for name in "AB"]
    config = dp_gibo.config(users=20, steps=2, mu=1.0, clip_norm=1.0, bounds=[(0, 1)], memory="none")
    agreement = silos.agree("march", dp_gibo.algorithm, config, silos.make_roster(cards))
    with contextlib.suppress(silos.SiloError):  # nobody answers
        silos.run_silos(agreement, dict, lambda requests: {}, record=folder / "sums.jsonl")
    return folder / "sums.jsonl"


FILES = {
    "the ledger": (begun_ledger, charge, ledger.LedgerError),
    "its mark": (mark_of, charge, ledger.LedgerError),
    "a checkpoint": (checkpoint, run, ValueError),
    "released.jsonl": (released, serve, ValueError),
    "record.jsonl": (record, open_record, ProtocolError),
    "record.jsonl.key": (record_key, open_record, ProtocolError),
    "curator.log": (log, write_log, OSError),
    "sum.json": (raw_sum, read_raw_sum, ValueError),
    "sums.jsonl of a server of silos": (a_sum, a_sum, ValueError),
}
NOT_OURS = {  # JAX reads the one, the caller the others; a spill has no name, and a plan is known by its hash
    "JAX's compilation cache", "pickles, repr and str of results", "a spill, without a name",
    "a pickle of a table with hashed ids, such as the copy on a worker", "record.html, plan.html and their .json",
    "agreement.json, answer.json of silos",
}  # fmt: skip


def test_each_file_of_the_threat_model_is_planted_below():
    text = (Path(__file__).parent.parent / "docs" / "threat-model.md").read_text()
    table = text.split("## File by file")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]*?) \|", table, re.MULTILINE)[1:]
    names = {re.sub(r" \(0600\)| of run_scan|, ledger-.*", "", row.replace("`", "")) for row in rows}
    assert names - {"---"} == FILES.keys() | NOT_OURS


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_user_is_refused(name, tmp_path, plant):
    """Before, a checkpoint or a key that another user planted was taken, as its mode was 0600: a victim's release had
    the noise that the attacker chose.
    """
    make, read, error = FILES[name]
    path = make(tmp_path)
    before, last = path.read_bytes(), path.stat().st_mtime_ns
    plant(path)
    with pytest.raises(error, match=rf"{re.escape(path.name)} must be yours, and belongs to another user") as refusal:
        read(tmp_path)
    assert SECRET.decode() not in str(refusal.value)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, last)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_ones_own_is_taken(name, tmp_path):
    """So it is the owner that the test above is about."""
    make, read, _ = FILES[name]
    make(tmp_path)
    read(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_a_link_that_another_user_planted_is_refused(name, tmp_path, plant):
    """To a file of the victim's own, of which the attacker knows that it is the right one."""
    make, read, error = FILES[name]
    path = make(tmp_path)
    path.rename(tmp_path / "away")
    path.symlink_to(tmp_path / "away")
    plant(path)
    with pytest.raises((error, OSError), match=r"link|Too many levels"):
        read(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_where_any_user_may_replace_a_file_none_is_trusted(name, tmp_path):
    make, read, error = FILES[name]
    place = tmp_path / "shared"
    place.mkdir()
    make(place)
    place.chmod(0o777)
    with pytest.raises(error, match="must lie where no other user can replace it: chmod o-w its folder"):
        read(place)
    place.chmod(0o1777)  # as /tmp
    read(place)


def test_a_new_file_is_refused_there_before_anything_is_drawn(tmp_path):
    """And not when the run that it is of would go on."""
    tmp_path.chmod(0o777)
    with pytest.raises(files.NotPrivate, match=r"run\.npz must lie where no other user can replace it"):
        run(tmp_path)
    with pytest.raises(ledger.LedgerError, match=r"ledger\.jsonl must lie where no other user can replace it"):
        begun_ledger(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o755, 0o775, 0o700])
def test_a_folder_of_a_group_is_an_ordinary_one(tmp_path, mode):
    """As the usual mask of many systems makes it."""
    tmp_path.chmod(mode)
    begun_ledger(tmp_path)
    charge(tmp_path)


def test_a_ledger_of_another_user_may_be_verified(tmp_path, plant):
    """Whoever audits one does not own it."""
    path = begun_ledger(tmp_path)
    charge(tmp_path)
    plant(path)
    assert len(ledger.account(path).spends) == 1
    with pytest.raises(ledger.LedgerError, match="must be yours"):
        ledger.adopt(path)


def test_a_pipe_keeps_nobody_waiting(tmp_path):
    os.mkfifo(tmp_path / "ledger.jsonl", 0o600)
    for use in (ledger.account, ledger.adopt):
        with pytest.raises(ledger.LedgerError, match="must be a file"):
            use(tmp_path / "ledger.jsonl")
    with pytest.raises(files.NotPrivate, match="must be a file"):
        files.read_private(tmp_path / "ledger.jsonl")


def test_links_that_lead_round_are_refused(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match="symbolic links"):
        ledger.adopt(tmp_path / "a")
