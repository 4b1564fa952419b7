"""A ledger in a database decides as a file does; its address gives nothing away, nor does an error of the driver.

On SQLite, by the code that PostgreSQL runs; tests/systems/test_postgresql.py has its accounts, locks and kills.
"""

import contextlib
import copy
import pickle
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxdpbo
from jaxdpbo import Recording, commands
from jaxdpbo.guarantee import guarantees, recording
from jaxdpbo.ledger import BudgetExceeded, DamagedLedgerError, LedgerError, ledger_file, sql_store
from jaxdpbo.report import ledger_report

WORDS = {"relation": "replace_one", "protects": "users"}
SECRET = "geheim"


def spend(level="1/10", notion="dp", **words):
    return ledger_file.Spend((ledger_file.Event(notion, level),), **(WORDS | words))


def address(folder, name="ledger.db"):
    return f"sqlite:///{folder / name}"


def begun(folder, level=1, name="ledger.db", **options):
    url = address(folder, name)
    ledger_file.create(url, notion="dp", level=level, **(WORDS | options))
    return url


def small(folder):
    url = begun(folder, by="someone")
    ledger_file.charge(url, "one", "a mean", spend(), fingerprint="f")
    ledger_file.store_release(url, "one", {"mean": 0.25})
    ledger_file.charge(url, "two", "another", spend("0.2"))
    return url


def change(folder, *statements):
    """What a superuser does."""
    with sqlite3.connect(folder / "ledger.db") as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


# The same decisions

RUNS, LEVELS = st.sampled_from(["one", "two", "three"]), st.sampled_from(["1/10", "2/5", "7/10"])
CALLS = st.one_of(
    st.tuples(st.just("charge"), RUNS, st.just("w"), st.builds(spend, LEVELS)),
    st.tuples(st.just("charge"), RUNS, st.just("w"), st.just(spend("1/10", protects="others"))),
    st.tuples(st.just("expect_charge"), RUNS, st.just("w"), st.builds(spend, LEVELS), st.just("")),
    st.tuples(st.just("note"), RUNS, st.integers(1, 3), st.just({"x": 0.5})),
    st.tuples(st.just("store_release"), RUNS, st.sampled_from([{"x": 1}, {"x": "é"}])),
    st.tuples(st.just("adopt")),
)


def outcome(path, call):
    """What a call returns or raises, without the name of the ledger, hashes and times."""
    name, *arguments = call
    try:
        result = getattr(ledger_file, name)(path, *arguments)
    except LedgerError as error:
        result = type(error), str(error)
    return re.sub(r"[0-9a-f]{64}|20\d\d-[\d:.T+-]+|" + re.escape(str(ledger_file.find_place(path))), "*", repr(result))


def lines_of(path):
    dropped = "when", "id", "inode", "folder", "database"
    return [{name: line[name] for name in line if name not in dropped} for line in ledger_file.read(path).lines]


@settings(max_examples=15)
@given(st.lists(CALLS, max_size=12))
def test_a_database_decides_as_a_file_does(tmp_path_factory, calls):
    folder = tmp_path_factory.mktemp("ledgers")
    file, url = folder / "ledger.jsonl", address(folder)
    for path in (file, url):
        ledger_file.create(path, notion="dp", level=1, **WORDS)
    for call in calls:
        assert outcome(url, call) == outcome(file, call)
        assert lines_of(url) == lines_of(file)
    ours, theirs = map(ledger_file.account, (url, file))
    assert (ours.spent, ours.left, len(ours.events)) == (theirs.spent, theirs.left, len(theirs.events))
    assert ledger_file.mark_warning(url) == ""


def test_an_export_of_the_lines_is_a_ledger_to_audit(tmp_path):
    url = small(tmp_path)
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        lines = [line for (line,) in connection.execute("SELECT line FROM ledger ORDER BY number")]
    connection.close()
    path = tmp_path / "export.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    assert ledger_file.account(path) == ledger_file.account(url)
    with pytest.raises(LedgerError, match="is a copy"):
        ledger_file.charge(path, "three", "w", spend())


def test_a_run_on_record_is_paid_once_and_read_again(tmp_path):
    url = address(tmp_path)
    ledger_file.create(url, mu=2)

    def loss(point, rows):
        return np.abs(rows - point[0])

    arguments = {"space": [(0, 1)], "mu": 1, "loss_range": (0, 1), "ledger": Recording(url, "march")}
    rows = np.linspace(0, 1, 200)
    first = jaxdpbo.minimize(loss, rows, **arguments)
    again = jaxdpbo.minimize(loss, rows, **arguments)
    assert np.array_equal(first.release.point, again.release.point)
    assert 3 <= ledger_file.account(url).left.cost < 3.001
    with pytest.raises(BudgetExceeded, match=re.escape(f"sqlite:///{tmp_path}/ledger.db: run 'april' would spend")):
        jaxdpbo.minimize(loss, rows, **(arguments | {"mu": 2, "ledger": Recording(url, "april")}))
    record = ledger_report([url])
    assert "march" in repr(record.spends)
    assert not (tmp_path / "sqlite:").exists()


def test_a_file_and_a_database_pay_together_or_not_at_all(tmp_path):
    url, path = begun(tmp_path), tmp_path / "ledger.jsonl"
    ledger_file.create(path, notion="dp", level="1/2", **WORDS)
    guarantee = guarantees.Guarantee("dp", 0.4, "replace_one", "users")
    for run in "ab":
        payments = {"x": (Recording(url, run), guarantee), "y": (Recording(path, run), guarantee)}
        if run == "a":
            recording.charge_together(payments, "w")
        else:
            with pytest.raises(BudgetExceeded, match=r"ledger\.jsonl: run 'b'"):
                recording.charge_together(payments, "w")
        assert ledger_file.account(url).left.cost == pytest.approx(0.6)


# A changed table


def test_a_changed_row_is_damage(tmp_path):
    url = small(tmp_path)
    head, kept = ledger_file.head(url), tmp_path / "kept"
    shutil.copy(tmp_path / "ledger.db", kept)
    for statement in (
        "UPDATE ledger SET line = replace(line, '1/10', '1/20') WHERE number = 2",
        "UPDATE ledger SET line = replace(line, 'a mean', 'A mean') WHERE number = 2",
        "DELETE FROM ledger WHERE number = 3",
        "DELETE FROM ledger WHERE number = 1",
        "DELETE FROM ledger",
        "UPDATE ledger SET number = 9 WHERE number = 4",
        "UPDATE ledger SET number = -number WHERE number > 2",
        "INSERT INTO ledger SELECT 5, line, 'x' FROM ledger WHERE number = 4",
        "INSERT INTO ledger SELECT 5, '', 'x'",
    ):
        change(tmp_path, statement)
        for use in (lambda: ledger_file.account(url), lambda: ledger_file.charge(url, "three", "w", spend())):
            with pytest.raises(DamagedLedgerError):
                use()
        shutil.copy(kept, tmp_path / "ledger.db")
    change(tmp_path, "DELETE FROM ledger WHERE number = 4")  # a rollback: the rest is a whole chain
    assert len(ledger_file.account(url).spends) == 1
    with pytest.raises(DamagedLedgerError, match="does not hold the expected line"):
        ledger_file.account(url, expected_head=head)


def test_two_lines_in_one_row_are_damage(tmp_path):
    url = small(tmp_path)
    change(
        tmp_path,
        "UPDATE ledger SET line = line || char(10) || (SELECT line FROM ledger WHERE number = 4) WHERE number = 3",
        "DELETE FROM ledger WHERE number = 4",
    )
    with pytest.raises(DamagedLedgerError, match="not numbered as its lines"):
        ledger_file.account(url)


def test_a_copy_takes_no_charge_until_it_is_adopted(tmp_path):
    url = small(tmp_path)
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    other = address(tmp_path, "copy.db")
    assert ledger_file.account(other) == ledger_file.account(url)
    with pytest.raises(LedgerError, match="is a copy"):
        ledger_file.charge(other, "three", "w", spend())
    ledger_file.adopt(other, by="the new server")
    ledger_file.charge(other, "three", "w", spend())
    assert "by the new server" in ledger_file.describe(other)
    assert ledger_file.read_id(other) != ledger_file.read_id(url)


# Locks, and connections that are lost


def test_one_writer_at_a_time(tmp_path):
    url, done = begun(tmp_path), []

    def charge(number):
        with contextlib.suppress(BudgetExceeded):
            done.append(ledger_file.charge(url, str(number), "w", spend()))

    threads = [threading.Thread(target=charge, args=(number,)) for number in range(12)]
    with ledger_file._open_ledger(url, writing=True):
        for thread in threads:
            thread.start()
        with pytest.raises(LedgerError, match=r"another process has kept .*ledger\.db locked for 0\.05 s"):
            ledger_file.charge(url, "late", "w", spend(), timeout=0.05)
    for thread in threads:
        thread.join()
    assert len(done) == len(ledger_file.account(url).spends) == 10


class Lost(Exception):
    """What a driver raises when a connection is lost; it quotes the row."""

    sqlstate = "08006"


def lose(monkeypatch, *, before=None, after=None):
    """Lose the connection at the next insert: before the server took the row, or after."""
    insert, met = sql_store._insert, []

    def lost(connection, row):
        import sqlalchemy

        if met:
            return insert(connection, row)
        met.append(row)
        if after is not None:
            insert(connection, row)
        connection.close()  # the server lets the lock go with the session
        (after or before)(row)
        raise sqlalchemy.exc.OperationalError(f"INSERT {row}", row, Lost(f"({row})"), connection_invalidated=True)

    monkeypatch.setattr(sql_store, "_insert", lost)
    return met


def test_a_charge_that_arrived_before_the_connection_was_lost_stands(tmp_path, monkeypatch):
    url = begun(tmp_path)
    with monkeypatch.context() as patch:
        assert not lose(patch, after=lambda row: None)
        charged = ledger_file.charge(url, "one", "w", spend())
    assert (charged.number, charged.charged_before) == (2, False)
    assert ledger_file.find_charge(url, "one", hash=charged.hash).number == 2
    assert ledger_file.account(url).spent.cost == Fraction(1, 10)


def test_a_charge_that_others_wrote_after_is_still_the_own(tmp_path, monkeypatch):
    url = begun(tmp_path)
    with monkeypatch.context() as patch:
        lose(patch, after=lambda row: ledger_file.charge(url, "two", "w", spend()))
        charged = ledger_file.charge(url, "one", "w", spend())
    assert charged.number == 2
    assert [entry.run for entry in ledger_file.account(url).spends] == ["one", "two"]


def test_a_charge_that_did_not_arrive_is_refused(tmp_path, monkeypatch):
    url = begun(tmp_path)
    with monkeypatch.context() as patch:
        lose(patch, before=lambda row: None)
        with pytest.raises(LedgerError, match="lost before the line was written: call again") as refused:
            ledger_file.charge(url, "one", "w", spend())
    assert refused.value.__context__ is None
    assert not ledger_file.account(url).spends
    assert not ledger_file.charge(url, "one", "w", spend()).charged_before


def test_the_same_line_by_another_process_is_not_the_own(tmp_path, monkeypatch):
    """Two calls under one name, at one time: both would draw if a line were known by its content."""
    url = begun(tmp_path)
    monkeypatch.setattr(ledger_file, "_now", lambda: "2026-01-01T00:00:00.000+00:00")
    with monkeypatch.context() as patch:
        met = lose(patch, before=lambda row: ledger_file.charge(url, "one", "w", spend()))
        with pytest.raises(LedgerError, match="lost before the line was written"):
            ledger_file.charge(url, "one", "w", spend())
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        (stored,) = connection.execute("SELECT line FROM ledger WHERE number = 2").fetchone()
    connection.close()
    assert stored == met[0]["line"]


def test_a_server_that_stays_away_leaves_the_outcome_open(tmp_path, monkeypatch):
    url = begun(tmp_path)
    monkeypatch.setattr(sql_store, "PATIENCE", 0.3)

    def go_away(row):
        def away(server):
            raise sql_store._LostError("away")

        patch.setattr(sql_store, "_connect", away)

    with monkeypatch.context() as patch:
        lose(patch, before=go_away)
        with pytest.raises(LedgerError, match="nobody can tell whether the line was written"):
            ledger_file.charge(url, "one", "w", spend())


def test_a_refusal_by_the_budget_stands_without_its_line(tmp_path, monkeypatch):
    url = begun(tmp_path)
    lose(monkeypatch, before=lambda row: None)
    with pytest.raises(BudgetExceeded):
        ledger_file.charge(url, "one", "w", spend(2))
    assert not ledger_file.account(url).events


# What gives nothing away

WITH_PASSWORD = (
    f"postgresql://anna:{SECRET}@host/db",
    f"postgresql://anna:{SECRET}@host:5432/db?sslmode=require",
    f"postgresql://anna@host/db?password={SECRET}",
    f"postgresql://anna@host/db?sslmode=require&PassWord={SECRET}",
    f"postgresql://anna@host/db?pass%77ord={SECRET}",
    f"postgresql://anna@host/db?sslpassword={SECRET}",
    f"postgresql://anna:a/{SECRET}@host/db",
    f"postgresql://anna:a@{SECRET}@host/db",
    f"postgresql://anna:#{SECRET}@host/db",
    f"postgresql://anna:{SECRET}/db",
    f"postgresql+psycopg://anna:{SECRET}@host/db",
    f"mysql://anna:{SECRET}@host/db",
    f"://{SECRET}",
)


@pytest.mark.parametrize("url", WITH_PASSWORD)
def test_an_address_with_a_password_is_refused_and_never_printed(url, tmp_path, capsys):
    given, said = Recording(url, "march"), []
    for use in (
        lambda: ledger_file.account(url),
        lambda: ledger_file.create(url, mu=1),
        lambda: recording.check_recording(given),
        lambda: pickle.dumps(given),
        lambda: copy.deepcopy(given),
        lambda: ledger_report(url),
        lambda: commands.main(["ledger", "describe", url]),
        lambda: commands.main(["ledger", "report", url]),
        lambda: commands.main(
            ["tune", "t.csv", "--target", "y", "--estimator", "x", "--space", "C=real:1:2", "--epsilon", "1"]
            + ["--delta", "1e-5", "--ledger", url, "--run", "march"]
        ),
    ):
        with pytest.raises((ValueError, SystemExit)) as refused:
            use()
        said.append(str(refused.value))
    shown = capsys.readouterr()
    everything = " ".join([*said, shown.out, shown.err, repr(given), str(given), f"{given}"])
    assert SECRET not in everything
    assert "~/.pgpass" in everything


def test_an_address_is_printed_without_account_and_options():
    url = "postgresql://anna%40ward@db.example:5432/ledger?sslmode=verify-full&sslrootcert=/etc/ca.pem"
    place = ledger_file.find_place(url)
    assert str(place) == repr(place).strip("'") == f"{place}" == place.name == "postgresql://db.example:5432/ledger"
    checked = recording.check_recording(Recording(url, "march"))
    for one in (Recording(url, "march"), checked, pickle.loads(pickle.dumps(checked))):
        assert repr(one) == "Recording(path='postgresql://db.example:5432/ledger', run='march', protects=None)"
    assert checked.path.url == url
    assert str(ledger_file.find_place("postgresql://[::1]:5/db")) == "postgresql://[::1]:5/db"
    path = ledger_file.find_place("budget.jsonl")
    assert repr(Recording("budget.jsonl", "a")) == "Recording(path='budget.jsonl', run='a', protects=None)"
    assert recording.check_recording(Recording("budget.jsonl", "a")).path == path.absolute()
    with pytest.raises(ValueError, match="must be text if it is the address"):
        ledger_file.find_place(type(path)(url))


def test_no_error_quotes_the_driver(tmp_path):
    import sqlalchemy

    class Driver(Exception):
        def __init__(self, state):
            super().__init__(f"DETAIL: Failing row contains ({SECRET}); password of {SECRET}")
            self.sqlstate = state

    place = ledger_file.find_place("postgresql://anna@host/db")
    server, seen = sql_store.Server(*place, LedgerError), set()
    for state in (
        "08006",
        "23505",
        "25006",
        "28P01",
        "3D000",
        "42501",
        "42P01",
        "53100",
        "57014",
        "57P01",
        "XX000",
        None,
    ):

        def fail(state=state):
            raise sqlalchemy.exc.IntegrityError(f"INSERT {SECRET}", {"line": SECRET}, Driver(state))

        with pytest.raises(LedgerError) as refused:
            sql_store.Rows(server, None, contextlib.ExitStack())._run(fail)
        assert SECRET not in str(refused.value)
        assert "anna" not in str(refused.value)
        assert not any(SECRET in repr(error) for error in (refused.value.__context__, refused.value.__cause__))
        seen.add(str(refused.value))
    assert len(seen) >= 11


def test_no_ledger_and_no_extra_are_said(tmp_path):
    with pytest.raises(LedgerError, match=r"there is no ledger \(ledger\.create begins one\)"):
        ledger_file.account(address(tmp_path))
    code = (
        "import sys\nsys.modules['sqlalchemy'] = None\nfrom jaxdpbo import ledger\n"
        f"ledger.account({address(tmp_path)!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ".[sql]" in done.stderr.splitlines()[-1]


def test_the_commands_take_an_address(tmp_path, capsys):
    url = address(tmp_path)
    commands.main(["ledger", "create", url, "--mu", "2", "--by", "the board"])
    assert "GRANT SELECT, INSERT (number, line, attempt) ON jaxdpbo.ledger TO account;" in capsys.readouterr().out
    for action in ("describe", "verify", "head"):
        commands.main(["ledger", action, url])
    assert "whole, 0 runs charged" in capsys.readouterr().out
    commands.main(["ledger", "report", url, "--out", str(tmp_path / "record.html")])
    assert f"sqlite:///{tmp_path}" in (tmp_path / "record.html").read_text()
