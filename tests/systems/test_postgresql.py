"""A ledger in PostgreSQL, on a server of its own: two accounts, their grants, kills, a server that fails."""

import contextlib
import glob
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psycopg
import pytest

import jaxdpbo
from jaxdpbo import Recording, commands
from jaxdpbo.ledger import BudgetExceeded, DamagedLedgerError, LedgerError, ledger_file, sql_store

WORDS = {"relation": "replace_one", "protects": "users"}
SECRET = "geheim"  # begins each password
ACCOUNTS = ("anna", "ben")


def find_binaries():
    """The folder of initdb, of Debian's package, which is installed where that is allowed; None if there is none."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb")) or [shutil.which("initdb")]
    if found[-1] is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in ("update", "install -y --no-install-recommends postgresql"):
            subprocess.run(
                ["apt-get", *command.split()],
                capture_output=True,
                env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
            )
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb")) or [None]
    return None if found[-1] is None else Path(found[-1]).resolve().parent


class Server:
    """A cluster in a folder, on a socket there; the superuser is "root_of_all", the owner of ledgers "owner"."""

    def __init__(self, binaries, folder):
        self.binaries, self.folder, self.number = binaries, folder, itertools.count()
        self.account = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        if self.account:
            shutil.chown(folder, "nobody", "nogroup")
        password = folder / "password"
        password.write_text(f"{SECRET} of root_of_all\n")
        password.chmod(0o644)
        options = "-A", "scram-sha-256", "-U", "root_of_all", f"--pwfile={password}", "--no-sync"
        self.run("initdb", "-D", folder / "data", *options)
        self.start()

    def run(self, program, *arguments):
        command = [self.binaries / program, *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, **self.account)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self):
        options = f"-k {self.folder} -c listen_addresses='' -c log_statement=none"
        self.run("pg_ctl", "-D", self.folder / "data", "-l", self.folder / "log", "-w", "-o", options, "start")

    def stop(self):
        self.run("pg_ctl", "-D", self.folder / "data", "-w", "-m", "immediate", "stop")

    def ask(self, *statements, database="postgres", user="root_of_all"):
        """Run statements as an account; return the rows of the last."""
        with psycopg.connect(host=str(self.folder), dbname=database, user=user, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def url(self, user, database):
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def begin(self, level=1, **options):
        """A new ledger that both accounts may charge; return the name of its database."""
        database = f"ledger{next(self.number)}"
        self.ask(f"CREATE DATABASE {database} OWNER owner")
        url = self.url("owner", database)
        ledger_file.create(url, **({"notion": "dp", "level": level} | WORDS | options))
        for account in ACCOUNTS:
            self.ask(
                *(grant.replace(" account;", f" {account};") for grant in ledger_file.list_grants(url)),
                database=database,
                user="owner",
            )
        return database


@pytest.fixture(scope="module")
def server():
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("needs PostgreSQL, and may not install it")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # the path of a socket is short
    passwords = folder.with_name(f"{folder.name}.pgpass")
    names = "root_of_all", "owner", *ACCOUNTS, "carla"
    passwords.write_text("".join(f"*:*:*:{name}:{SECRET} of {name}\n" for name in names))
    passwords.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSFILE", str(passwords))
        try:
            made = Server(binaries, folder)
            made.ask(*(f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET} of {name}'" for name in names[1:]))
            yield made
        finally:
            with contextlib.suppress(AssertionError):
                made.stop()
            shutil.rmtree(folder)
            passwords.unlink()


def spend(level="1/10", notion="dp"):
    return ledger_file.Spend((ledger_file.Event(notion, level),), **WORDS)


def test_each_account_adds_lines_and_none_changes_one(server):
    database = server.begin()
    anna, ben = (server.url(name, database) for name in ACCOUNTS)
    ledger_file.charge(anna, "one", "a mean", spend())
    with pytest.raises(LedgerError, match="was charged with another spend"):
        ledger_file.charge(ben, "one", "a mean", spend("1/5"))
    ledger_file.store_release(ben, "one", {"mean": 0.25})
    assert ledger_file.charge(anna, "one", "a mean", spend()).release == {"mean": 0.25}
    with pytest.raises(BudgetExceeded):
        ledger_file.charge(ben, "two", "w", spend(1))
    written = server.ask("SELECT written_by FROM jaxdpbo.ledger ORDER BY number", database=database)
    assert [name for (name,) in written] == ["owner", "anna", "ben", "ben"]
    before = ledger_file.read(anna)
    for user in (*ACCOUNTS, "owner"):
        for statement in (
            "UPDATE jaxdpbo.ledger SET line = '' WHERE number = 2",
            "UPDATE jaxdpbo.ledger SET number = 9 WHERE number = 4",
            "DELETE FROM jaxdpbo.ledger WHERE number = 4",
            "TRUNCATE jaxdpbo.ledger",
            "INSERT INTO jaxdpbo.ledger VALUES (4, '', 'x') ON CONFLICT (number) DO UPDATE SET line = ''",
            "MERGE INTO jaxdpbo.ledger USING (VALUES (4)) AS v (n) ON number = n WHEN MATCHED THEN DELETE",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                server.ask(statement, database=database, user=user)
    for statement in (
        "INSERT INTO jaxdpbo.ledger VALUES (9, '', 'x', 'ben')",
        "ALTER TABLE jaxdpbo.ledger DISABLE TRIGGER ALL",
        "DROP TABLE jaxdpbo.ledger",
        "DROP SCHEMA jaxdpbo CASCADE",
        "CREATE TABLE jaxdpbo.other ()",
        "SELECT * FROM jaxdpbo.ledger FOR UPDATE",
        "SET session_replication_role = replica",
        "CREATE OR REPLACE FUNCTION jaxdpbo.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            server.ask(statement, database=database, user="anna")
    assert ledger_file.read(anna) == before
    carla = server.url("carla", database)
    for use in (ledger_file.account, ledger_file.adopt):
        with pytest.raises(LedgerError, match="this account may not do that") as refused:
            use(carla)
        assert "carla" not in str(refused.value)


def test_what_a_superuser_changes_shows(server, capsys):
    database = server.begin()
    url = server.url("anna", database)
    for run in ("one", "two", "three"):
        ledger_file.charge(url, run, "a mean", spend())
    head = ledger_file.head(url)

    def change(*statements):
        server.ask("SET session_replication_role = replica", *statements, database=database)

    change("CREATE TABLE kept AS SELECT * FROM jaxdpbo.ledger")
    delete = "DELETE FROM jaxdpbo.ledger WHERE number = 3"
    for statements in (
        ["UPDATE jaxdpbo.ledger SET line = replace(line, '1/10', '1/99') WHERE number = 3"],
        [delete],
        [delete, "UPDATE jaxdpbo.ledger SET number = 3 WHERE number = 4"],
    ):
        change(*statements)
        with pytest.raises(SystemExit, match="line 3"):
            commands.main(["ledger", "verify", url])
        with pytest.raises(DamagedLedgerError):
            ledger_file.charge(url, "four", "w", spend())
        change("TRUNCATE jaxdpbo.ledger", "INSERT INTO jaxdpbo.ledger SELECT * FROM kept")
    change("DELETE FROM jaxdpbo.ledger WHERE number = 4")
    commands.main(["ledger", "verify", url])
    assert "whole, 2 runs charged" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="does not hold the expected line"):
        commands.main(["ledger", "verify", url, "--head", head])


def test_a_run_of_one_account_is_read_by_the_other(server, tmp_path, capsys):
    database = server.begin(notion="gdp", level=3, protects=ledger_file.USERS)
    anna, ben = (server.url(name, database) for name in ACCOUNTS)

    def loss(point, rows):
        return np.abs(rows - point[0])

    arguments = {"space": [(0, 1)], "mu": 1, "loss_range": (0, 1)}
    rows = np.linspace(0, 1, 200)
    first, again = (jaxdpbo.minimize(loss, rows, **arguments, ledger=Recording(url, "march")) for url in (anna, ben))
    assert np.array_equal(first.release.point, again.release.point)
    draw = np.random.default_rng(0)
    table = "".join(f"{x:.3f},{int(x > 0.5)}\n" for x in draw.random(200))
    (tmp_path / "table.csv").write_text(f"x,y\n{table}")
    commands.main(
        ["tune", str(tmp_path / "table.csv"), "--target", "y", "--estimator", "sklearn.linear_model.LogisticRegression"]
        + ["--space", "C=real:0.1:10:log", "--epsilon", "1", "--delta", "1e-5", "--n-iter", "3", "--quiet"]
        + ["--ledger", ben, "--run", "april"]
    )
    commands.main(["ledger", "report", anna, "--out", str(tmp_path / "record.html")])
    page = (tmp_path / "record.html").read_text() + (tmp_path / "record.json").read_text()
    assert "march" in page
    assert "april" in page
    everything = page + "".join(capsys.readouterr())
    assert not any(word in everything for word in (SECRET, "anna", str(server.folder)))


def test_a_database_that_was_copied_takes_no_charge_until_it_is_adopted(server):
    database = server.begin()
    ledger_file.charge(server.url("anna", database), "one", "w", spend())
    server.ask(f"CREATE DATABASE copied TEMPLATE {database}")
    copied = server.url("anna", "copied")
    assert len(ledger_file.account(copied).spends) == 1
    with pytest.raises(LedgerError, match="is a copy"):
        ledger_file.charge(copied, "two", "w", spend())
    ledger_file.adopt(copied)
    ledger_file.charge(copied, "two", "w", spend())


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit"])
def test_a_server_that_may_lose_a_charge_is_refused(server, setting):
    url = server.url("anna", server.begin())
    server.ask(f"ALTER SYSTEM SET {setting} = off", "SELECT pg_reload_conf()")
    try:
        time.sleep(0.5)
        with pytest.raises(LedgerError, match=f"the server may lose a charge when it fails, since {setting} is off"):
            ledger_file.charge(url, "one", "w", spend())
    finally:
        server.ask(f"ALTER SYSTEM RESET {setting}", "SELECT pg_reload_conf()")
        time.sleep(0.5)
    ledger_file.charge(url, "one", "w", spend())


def test_a_writer_that_takes_no_lock_cannot_fork_the_chain(server, monkeypatch):
    database = server.begin()
    anna, ben = (server.url(name, database) for name in ACCOUNTS)
    with ledger_file._open_ledger(anna, writing=True) as opened:
        with pytest.raises(LedgerError, match=r"another process has kept postgresql:///ledger\d+ locked for 0\.1 s"):
            ledger_file.charge(ben, "two", "w", spend(), timeout=0.1)
        with monkeypatch.context() as patch:
            patch.setattr(sql_store, "_lock", lambda *_: None)
            ledger_file.charge(ben, "two", "w", spend())
        with pytest.raises(LedgerError, match="another process wrote this line"):
            opened.append({"kind": "adopted", "by": "x", "when": "2026-01-01T00:00:00+00:00"})
    assert [entry.run for entry in ledger_file.account(anna).spends] == ["two"]


def test_a_session_that_the_server_ends_leaves_no_doubt(server, monkeypatch):
    """The server ends the session before the row, or after: the charge is not there, or it is the caller's own."""
    database = server.begin()
    url, insert = server.url("anna", database), sql_store._insert
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'anna'"

    def ended(when):
        met = []

        def act(connection, row):
            if met:
                return insert(connection, row)
            met.append(row)
            if when == "after":
                insert(connection, row)
            server.ask(end)
            return insert(connection, row | {"number": 99})  # the reply to the first is lost with the session

        return act

    monkeypatch.setattr(sql_store, "_insert", ended("before"))
    with pytest.raises(LedgerError, match="lost before the line was written: call again"):
        ledger_file.charge(url, "one", "w", spend())
    assert not ledger_file.account(url).spends
    monkeypatch.setattr(sql_store, "_insert", ended("after"))
    assert not ledger_file.charge(url, "one", "w", spend()).charged_before
    monkeypatch.setattr(sql_store, "_insert", insert)
    assert ledger_file.charge(url, "one", "w", spend()).charged_before


def test_nothing_of_an_account_is_in_a_message(server, monkeypatch):
    database = server.begin()
    refused = "the server refuses this account or has no such database"
    for url, said in (
        (server.url("anna", "nowhere"), refused),
        (server.url("postgres", database), refused),
        (server.url("anna", database).replace("host=", "host=/nowhere"), "the server cannot be reached: call again"),
    ):
        monkeypatch.setattr(sql_store, "PATIENCE", 0.3)
        with pytest.raises(LedgerError, match=said) as raised:
            ledger_file.account(url)
        chain = f"{raised.value!r} {raised.value.__context__!r} {raised.value.__cause__!r}"
        assert not any(word in chain for word in (SECRET, "anna", "root", str(server.folder)))


# Kills: workers of two accounts, which a bare process forks

FORKS = r"""
import itertools, json, os, random, signal, sys, time
from jaxdpbo.ledger import ledger_file as ledger, sql_store
import psycopg, sqlalchemy.dialects.postgresql.psycopg

write = os.write

def say(**said):
    write(1, (json.dumps(said) + "\n").encode())

def work(order):
    left, plant, sql_store.PATIENCE = order["die_at"], order["plant"], 120.0

    def step():
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(name):
        call = getattr(sql_store, name)
        def watched(*arguments, **options):
            step()
            result = call(*arguments, **options)
            step()
            return result
        setattr(sql_store, name, watched)

    translate = sql_store._translate

    def hear(*arguments):
        failure = translate(*arguments)
        if isinstance(failure, sql_store._LostError):
            say(lost=str(failure))
        return failure

    sql_store._translate = hear
    for name in "_connect", "_lock", "_insert", "_close":
        around(name)
    spend = ledger.Spend((ledger.Event(*order["spend"][0][0]),), *order["spend"][1:])
    for k in itertools.count(order["first"]):
        run = f"shared {k}" if k % 2 else f"{order['worker']} {k}"
        name = f"{run}, try {os.getpid()}" if plant == "second charge" else run
        payload = {"noise": os.urandom(8).hex()}
        while True:
            if plant == "early release":
                say(worker=order["worker"], k=k, run=run, payload=payload, drawn=True)
            try:
                paid = ledger.charge(order["url"], name, run, spend, fingerprint="f")
                say(charged=run)
                step()
                if not paid.charged_before or plant == "every draw":
                    say(drawn=run)
                    payload = ledger.store_release(order["url"], name, payload)
                elif paid.release is None:
                    break  # somebody has drawn, or died before: the charge stands
                else:
                    payload = paid.release
                step()
                if plant != "early release":
                    say(worker=order["worker"], k=k, run=run, payload=payload)
                break
            except ledger.BudgetExceeded:
                say(over=True)
                return
            except ledger.LedgerError as error:
                if "call again" not in str(error):
                    raise

for line in sys.stdin:
    order = json.loads(line)
    if "wait" in order:
        say(dead=order["wait"], killed=os.waitpid(order["wait"], 0)[1] == signal.SIGKILL)
        continue
    pid = os.fork()
    if not pid:
        try:
            work(order)
        except BaseException as error:
            say(failed=f"{type(error).__name__}: {error}")
        finally:
            os._exit(0)
    say(born=pid)
"""
WORKERS = {"a": "anna", "b": "ben", "c": "anna", "d": "ben"}
AFFORDABLE, STEPS, SEED = 40, 16, 7


class Forks:
    """Forks workers, and hears what they acknowledge."""

    def __init__(self, server):
        self.server, self.alive, self.kills, self.lost = server, {}, 0, 0
        self.process = subprocess.Popen(
            [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def begin(self):
        self.database = self.server.begin(f"{AFFORDABLE}/10")
        self.first, self.charged, self.released, self.drawn, self.full = dict.fromkeys(WORKERS, 0), set(), {}, [], False

    def start(self, worker, die_at, plant):
        url = self.server.url(WORKERS[worker], self.database)
        order = {"worker": worker, "first": self.first[worker], "url": url, "die_at": die_at, "plant": plant}
        self.tell(order | {"spend": spend()})
        self.alive[worker] = self.hear("born")["born"]

    def end(self, worker, delay):
        pid = self.alive.pop(worker)
        if delay is not None:
            time.sleep(delay)
            os.kill(pid, signal.SIGKILL)
        self.tell({"wait": pid})
        self.kills += self.hear("dead")["killed"]

    def tell(self, order):
        self.process.stdin.write(json.dumps(order) + "\n")

    def hear(self, until):
        while until not in (said := json.loads(self.process.stdout.readline())):
            assert "failed" not in said, said["failed"]
            self.full |= "over" in said
            self.lost += "lost" in said
            if "drawn" in said:
                self.drawn.append(said["drawn"])
            if "charged" in said:
                self.charged.add(said["charged"])
            if "payload" in said:
                first = self.released.setdefault(said["run"], said["payload"])
                assert said["payload"] == first, "a release was given out again otherwise"
                self.first[said["worker"]] = said["k"] + 1
        return said

    def check(self):
        account = ledger_file.account(self.server.url("anna", self.database))
        names = {entry.what: entry for entry in account.spends}
        assert len(names) == len(account.spends), "a spend was doubled"
        assert self.charged | self.released.keys() <= names.keys(), "a release without a charge, or a charge was lost"
        assert account.spent.cost <= account.budget.level, "the budget was overrun"
        assert len(account.spends) == AFFORDABLE or not self.full, "the budget was refused before it was spent"
        assert len(set(self.drawn)) == len(self.drawn), "two draws under one charge"
        assert all(names[run].released for run in self.released), "a release was given out that is not on record"

    def close(self):
        for pid in self.alive.values():
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def forks(server):
    made = Forks(server)
    yield made
    made.close()


def use_up(forks, draw, *, restart=False, plant=""):
    """Four workers use up one budget; each is killed at a random moment or step, and started anew."""
    forks.begin()
    delays = {}

    def start(worker):
        at_step = draw.random() < 0.5
        delays[worker] = None if at_step else draw.uniform(0, 0.4)
        forks.start(worker, draw.randrange(1, 4 * STEPS) if at_step else 0, plant)

    for worker in WORKERS:
        start(worker)
    for number, worker in enumerate(itertools.cycle(WORKERS)):
        if restart and number == 1:
            forks.server.stop()
            time.sleep(0.5)
            forks.server.start()
        forks.end(worker, delays[worker])
        if forks.full:
            break
        start(worker)
    for worker in list(forks.alive):
        forks.end(worker, 0)
    forks.check()


def test_nothing_is_lost_by_workers_of_two_accounts_that_are_killed(forks):
    draw = random.Random(SEED)
    while forks.kills < 60:
        use_up(forks, draw)


def test_nothing_is_lost_when_the_server_fails(forks):
    draw = random.Random(SEED)
    for _ in range(2):
        use_up(forks, draw, restart=True)
    assert forks.lost


PLANTS = {  # what it does -> what the check says
    "early release": "a release without a charge|not on record|given out again otherwise",
    "second charge": "a spend was doubled|given out again otherwise",
    "every draw": "two draws under one charge",
}


@pytest.mark.parametrize("plant", PLANTS)
def test_the_kills_find_a_worker_where(forks, plant):
    draw = random.Random(SEED)

    def use_up_some():
        for _ in range(5):
            use_up(forks, draw, plant=plant)

    with pytest.raises(AssertionError, match=PLANTS[plant]):
        use_up_some()
