"""A ledger in a database, for accounts and hosts that share it: the lines of ``ledger_file`` in a table of PostgreSQL.

The table holds a line in each row, by its number. An account that charges may read and insert rows, no more: grants say
so, and a trigger refuses a change even by the owner. A superuser can take both away: the hashes, and a head kept
elsewhere, then show what they show of a file.

A writer holds an advisory lock of its session from the reading of the lines to the last line that it appends. The lock
alone lets writers wait for each other: what keeps two of them from continuing one chain is the primary key, the number
of the line, also against a writer that takes no lock. A lock, rather than serialisable transactions that are tried
again: each decision is made once, and several ledgers stay locked while all are asked, and each line is a transaction
of its own, durable before the next step. A lock of the table would need the right to change rows.

A connection that is lost during an insert leaves its outcome unknown. Each row therefore has a random number of its
attempt. The writer connects again and takes the lock, which the lost session holds until it has ended: then the row
is there for good, or it will never be. Nothing is drawn before that is known.

No error quotes what a driver says: that may hold a line, or the account. SQLite is for tests: it has no accounts, and
one host.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from jaxdpbo import checks

PATIENCE = 30.0  # seconds to reach a server that is starting again
LOCK = 0x6A617864_70626F00  # of a session, in the ledger's database
CREATE = """
CREATE SCHEMA jaxdpbo;
CREATE TABLE jaxdpbo.ledger (
  number integer PRIMARY KEY,
  line text NOT NULL,
  attempt text NOT NULL UNIQUE,
  written_by text NOT NULL DEFAULT session_user
);
CREATE FUNCTION jaxdpbo.refuse() RETURNS trigger LANGUAGE plpgsql AS
  $$BEGIN RAISE 'a ledger only grows' USING ERRCODE = 'insufficient_privilege'; END$$;
CREATE TRIGGER only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON jaxdpbo.ledger
  EXECUTE FUNCTION jaxdpbo.refuse();
"""
EXISTS = "SELECT to_regclass('jaxdpbo.ledger')"
PLACE = "SELECT system_identifier, oid::bigint FROM pg_control_system(), pg_database WHERE datname = current_database()"
EXISTS_IN_SQLITE = "SELECT name FROM sqlite_master WHERE name = 'ledger'"
CREATE_IN_SQLITE = "CREATE TABLE ledger (number INTEGER PRIMARY KEY, line TEXT NOT NULL, attempt TEXT NOT NULL UNIQUE)"
GRANTS = (
    "GRANT USAGE ON SCHEMA jaxdpbo TO account;",
    "GRANT SELECT, INSERT (number, line, attempt) ON jaxdpbo.ledger TO account;",
)
DURABLE = "fsync", "synchronous_commit"
CLIENT = {"connect_timeout": 10, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
SESSION = (  # the lock of a host that is gone is free after a minute
    "tcp_keepalives_idle = 30", "tcp_keepalives_interval = 10", "tcp_keepalives_count = 3",
    "default_transaction_isolation = 'read committed'",
)  # fmt: skip
REASONS = {  # the beginning of an SQLSTATE -> what it says of a ledger
    "08": "the connection was lost: call again",
    "23505": "another process wrote this line, and did not wait for its lock: call again",
    "25006": "the server takes no line, being a copy that is only read",
    "28": "the server refuses this account",
    "3D": "there is no such database",
    "3F": "there is no ledger (ledger.create begins one)",
    "42P01": "there is no ledger (ledger.create begins one)",
    "42501": "this account may not do that: its owner grants it what `jaxdpbo ledger create` printed",
    "53": "the server lacks space, memory or connections",
    "55P03": "another process has kept the ledger locked",
    "57014": "the server has a time limit, and gave up",
    "57": "the server is shutting down or starting: call again",
}
# Before a session the driver has words alone, and of these it is no use to try again.
REFUSALS = "authentication failed", "pg_hba.conf", "does not exist", "no password", "permission denied", "not permitted"
Result = TypeVar("Result")


class Server(NamedTuple):
    """Where a ledger lies: its address, what may be printed of that, and the exception to raise, in words of a ledger.

    The exception is given, not imported: the module of the ledger, which auditors load alone, opens what is here.
    """

    url: str
    name: str
    error: type[Exception]


class Rows(NamedTuple):
    """The rows of a ledger, open; a writer has the lock."""

    server: Server
    connection: Any
    connections: ExitStack  # closes this one, and those after it was lost

    def read(self) -> list[tuple[int, str]]:
        """All rows, a number and a line, in the order of the numbers. One statement: a reader needs no lock."""
        sqlalchemy, table = _table(self.connection)
        asked = sqlalchemy.select(table.c.number, table.c.line).order_by(table.c.number)
        return [(number, line) for number, line in self._run(lambda: self.connection.execute(asked).all())]

    def insert(self, number: int, line: str) -> "Rows":
        """Insert a row, durable when this returns; return the rows, whose connection may be another one."""
        row = {"number": number, "line": line, "attempt": os.urandom(16).hex()}
        try:
            _run(self.server, lambda: _insert(self.connection, row))
            return self
        except _LostError:
            _close(self.connection)
        return self._expect_arrived(row)

    def create(self, line: str) -> None:
        """Create the table, its trigger and the first row, in one transaction.

        Raises:
          FileExistsError: there is a ledger.
        """
        run, of_sqlite = self.connection.exec_driver_sql, self.connection.dialect.name == "sqlite"
        if self._run(lambda: run(EXISTS_IN_SQLITE if of_sqlite else EXISTS).scalar()) is not None:
            name, second = self.server.name, "a second budget for the same records would be a second spend"
            raise FileExistsError(f"{name}: the ledger exists, and {second}")

        def write() -> None:
            run("BEGIN")
            run(CREATE_IN_SQLITE if of_sqlite else CREATE)
            _insert(self.connection, {"number": 1, "line": line, "attempt": os.urandom(16).hex()})
            run("COMMIT")

        self._run(write)

    def locate(self) -> tuple[int, int]:
        """Two numbers of the server and its database: a copy of the table elsewhere has others."""
        if self.connection.dialect.name == "sqlite":
            file = os.stat(self.connection.engine.url.database)
            return file.st_dev, file.st_ino
        server, database = self._run(lambda: self.connection.exec_driver_sql(PLACE).one())
        return server, database

    def _expect_arrived(self, row: dict[str, Any]) -> "Rows":
        """Connect again, and raise an error if a row did not arrive; with the lock, for the lost session has ended."""
        try:
            connection = _open(self.server, self.connections, writing=True, timeout=PATIENCE)
            again = self._replace(connection=connection)
            sqlalchemy, table = _table(connection)
            asked = sqlalchemy.select(table.c.attempt).where(table.c.number == row["number"])
            attempt = again._run(lambda: connection.execute(asked).scalar())
        except self.server.error:
            again = attempt = None
        if again is None:
            raise self.server.error(
                f"{self.server.name}: the connection was lost, and nobody can tell whether the line was written: call "
                "again, which pays for nothing twice"
            )
        if attempt != row["attempt"]:
            raise self.server.error(
                f"{self.server.name}: the connection was lost before the line was written: call again"
            )
        return again

    def _run(self, act: Callable[[], Result]) -> Result:
        try:
            return _run(self.server, act)
        except _LostError as error:
            words = str(error)
        raise self.server.error(words)


@contextmanager
def open_rows(server: Server, *, writing: bool, timeout: float | None) -> Iterator[Rows]:
    """Connect, and take the lock if somebody writes.

    Raises:
      Exception: ``server.error``: the server cannot be reached, refuses the account or is not durable, or another
        process has kept the ledger locked.
    """
    with ExitStack() as stack:
        yield Rows(server, _open(server, stack, writing=writing, timeout=timeout), stack)


def _open(server: Server, stack: ExitStack, *, writing: bool, timeout: float | None) -> Any:
    """A connection, closed by the stack; of a writer with the lock. Wait for a server that is starting again."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            connection = _connect(server)
            stack.callback(_close, connection)
            if writing:
                _lock(server, connection, timeout)
            return connection
        except _LostError as error:
            if time.monotonic() >= until:
                words = str(error)
                break
        time.sleep(0.1)
    raise server.error(words)


def _connect(server: Server) -> Any:
    """A connection in which each statement is a transaction of its own."""
    sqlalchemy = _sqlalchemy()
    url = sqlalchemy.make_url(server.url)
    options: dict[str, Any] = {}
    if url.drivername == "postgresql":
        checks.extra("psycopg", "sql", "a ledger in a database")
        url = url.set(drivername="postgresql+psycopg")
        options = {name: CLIENT[name] for name in CLIENT if name not in url.query}
    engine = sqlalchemy.create_engine(
        url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT", hide_parameters=True, connect_args=options
    )
    return _run(server, engine.connect)


def _sqlalchemy() -> Any:
    return checks.extra("sqlalchemy", "sql", "a ledger in a database")


def _close(connection: Any) -> None:
    """Close a connection: its lock goes with it."""
    with suppress(_errors()):
        connection.close()


def _lock(server: Server, connection: Any, timeout: float | None) -> None:
    """Take the lock of the session, after a look that a row is durable before the server says so."""
    run = connection.exec_driver_sql
    if connection.dialect.name == "sqlite":
        wait = 600.0 if timeout is None else timeout
        _run(server, lambda: run(f"PRAGMA busy_timeout = {1000 * wait:.0f}"))
        # The lock stays after the commit. Before, the mode would let two that wait keep what each other waits for.
        keep = "BEGIN EXCLUSIVE", "PRAGMA locking_mode = EXCLUSIVE", "COMMIT"
        _run(server, lambda: [run(statement) for statement in keep], waited=wait)
        return
    settings = {name: _run(server, lambda name=name: run(f"SHOW {name}").scalar()) for name in DURABLE}
    off = [name for name in DURABLE if settings[name] == "off"]
    if off:
        raise server.error(
            f"{server.name}: the server may lose a charge when it fails, since {' and '.join(off)} is off"
        )
    wait = 0 if timeout is None else max(1, round(1000 * timeout))  # 0 waits without limit
    for setting in (*SESSION, f"lock_timeout = {wait}"):
        _run(server, lambda setting=setting: run(f"SET {setting}"))
    _run(server, lambda: run(f"SELECT pg_advisory_lock({LOCK})"), waited=timeout)


def _insert(connection: Any, row: dict[str, Any]) -> None:
    sqlalchemy, table = _table(connection)
    connection.execute(sqlalchemy.insert(table), row)


def _table(connection: Any) -> tuple[Any, Any]:
    sqlalchemy = _sqlalchemy()
    schema = "jaxdpbo" if connection.dialect.name == "postgresql" else None
    columns = [sqlalchemy.column(name) for name in ("number", "line", "attempt")]
    return sqlalchemy, sqlalchemy.table("ledger", *columns, schema=schema)


# What a driver says


class _LostError(Exception):
    """The connection was lost, or there is none."""


def _errors() -> Any:
    return _sqlalchemy().exc.SQLAlchemyError


def _run(server: Server, act: Callable[[], Result], *, waited: float | None = None) -> Result:
    """Act, and say in words of the ledger why it failed: after the handler, or the driver's own would come along."""
    try:
        return act()
    except _errors() as error:
        failure = _translate(server, error, waited)
    raise failure


def _translate(server: Server, error: Any, waited: float | None) -> Exception:
    origin = getattr(error, "orig", None)
    said, state = str(origin), str(getattr(origin, "sqlstate", None) or "")
    if state == "55P03" or "database is locked" in said:
        return server.error(f"another process has kept {server.name} locked for {waited} s")
    if "no such table" in said:
        return server.error(f"{server.name}: {REASONS['42P01']}")
    known = [REASONS[state[:end]] for end in (5, 2) if state[:end] in REASONS]
    if not _is_lost(error, state):
        return server.error(f"{server.name}: {known[0] if known else f'the database refused this, with state {state}'}")
    if not state and any(words in said for words in REFUSALS):
        words = "the server refuses this account or has no such database: psql with the same address says more"
        return server.error(f"{server.name}: {words}")
    words = "the server cannot be reached: call again, or try psql with the same address"
    return _LostError(f"{server.name}: {known[0] if known else words}")


def _is_lost(error: Any, state: str) -> bool:
    """True if the connection is gone; the driver has no state for what happens before a session."""
    before = not state and type(getattr(error, "orig", None)).__name__ == "OperationalError"
    return before or bool(getattr(error, "connection_invalidated", False)) or state[:2] == "08" or state[:4] == "57P0"
