"""Marks: what has taken effect, kept with the effects and changed in one transaction with them."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from trimtab_common.errors import SettingsError

CREATE = (
    "CREATE TABLE IF NOT EXISTS trimtab_marks "
    "(name BLOB PRIMARY KEY, number INTEGER NOT NULL, changed_at REAL NOT NULL) WITHOUT ROWID"
)
WRITE = (
    "INSERT INTO trimtab_marks VALUES (?, ?, ?) "
    "ON CONFLICT (name) DO UPDATE SET number = excluded.number, changed_at = excluded.changed_at"
)

CREATE_POSTGRES = (
    "CREATE TABLE IF NOT EXISTS trimtab_marks "
    "(name bytea PRIMARY KEY, number bigint NOT NULL, changed_at double precision NOT NULL)"
)
TABLE_LOCK = 7_236_146
"""Of PostgreSQL's advisory locks: while the table is made."""
READ_LOCKED = "SELECT number FROM trimtab_marks WHERE name = %s FOR UPDATE"
INSERT_NONE = "INSERT INTO trimtab_marks VALUES (%s, 0, %s) ON CONFLICT (name) DO NOTHING"
WRITE_POSTGRES = (
    "INSERT INTO trimtab_marks VALUES (%s, %s, %s) "
    "ON CONFLICT (name) DO UPDATE SET number = excluded.number, changed_at = excluded.changed_at"
)


class CheckpointStore(Protocol):
    """Where effects are kept, as far as the order guard goes.

    Whatever a handler does between `transaction`'s begin and end, and the marks written there, must be kept
    together or not at all; and two transactions that read the same mark must not both write it (in a
    database: serialisable, or the row locked by the reader). What a store cannot do of this becomes effects
    that come twice after a consumer was killed; their order it cannot break.
    """

    def transaction(self) -> AbstractContextManager[object]:
        """What happens inside is kept as a whole; an error inside takes all of it back."""
        ...

    def read(self, name: bytes) -> int:
        """The number kept under a name, 0 where none is."""
        ...

    def write(self, name: bytes, number: int) -> None:
        """Keep a number under a name; only called inside a transaction."""
        ...


def mark_name(*parts: object) -> bytes:
    """A name out of what a mark is of: 16 bytes whatever the key, which may be secret, or long."""
    return blake2b(msgspec.msgpack.encode(parts), digest_size=16).digest()


class InMemoryCheckpointStore:
    """Marks of a process that keeps its effects in memory too: both are gone with it.

    Attributes
    ----------
    numbers
        By name.
    """

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        self._before: dict[bytes, int] = {}

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Take marks back if something goes wrong inside."""
        self._before = {}
        try:
            yield
        except BaseException:
            self.numbers.update(self._before)
            raise

    def read(self, name: bytes) -> int:
        """The number stored under a name, or 0."""
        return self.numbers.get(name, 0)

    def write(self, name: bytes, number: int) -> None:
        """Store a number under a name, inside a transaction."""
        self._before.setdefault(name, self.numbers.get(name, 0))
        self.numbers[name] = number


class SqliteCheckpointStore:
    """Marks in the SQLite database in which a handler keeps its effects, through the same connection.

    Parameters
    ----------
    connection
        Opened with `isolation_level=None`, and `check_same_thread=False` for asyncio: transactions are begun
        and ended here. The handler neither begins nor ends any.
    clock
        Seconds since 1970.
    """

    def __init__(self, connection: sqlite3.Connection, clock: Callable[[], float] = time.time) -> None:
        self._connection, self._clock = connection, clock
        connection.execute(CREATE)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the right to write from its beginning: no other reads a mark meanwhile."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def read(self, name: bytes) -> int:
        """The number stored under a name, or 0."""
        row = self._connection.execute("SELECT number FROM trimtab_marks WHERE name = ?", (name,)).fetchone()
        return 0 if row is None else int(row[0])

    def write(self, name: bytes, number: int) -> None:
        """Store a number under a name, inside a transaction."""
        self._connection.execute(WRITE, (name, number, self._clock()))

    def prune(self, older_seconds: float) -> int:
        """Forget marks that have not changed for so long; how many.

        Each run of a producer leaves one for each split key. A mark may go once no record that it is about
        can be received again: take the topic's retention, or more.
        """
        with self.transaction() as connection:
            limit = self._clock() - older_seconds
            return connection.execute("DELETE FROM trimtab_marks WHERE changed_at < ?", (limit,)).rowcount


class PostgresCheckpointStore:
    """Marks in the PostgreSQL database in which a handler keeps its effects, through the same connection.

    All members of a group may share it, on as many machines as they are. A mark that is read inside a
    transaction is locked until its end.

    Parameters
    ----------
    connection
        By the Python database interface (psycopg, psycopg2, pg8000), without autocommit: transactions are
        ended here. The handler ends none.
    clock
        Seconds since 1970.

    Raises
    ------
    SettingsError
        If the connection commits each statement by itself.
    """

    def __init__(self, connection: Any, clock: Callable[[], float] = time.time) -> None:
        if getattr(connection, "autocommit", False):
            raise SettingsError(
                "autocommit of the connection is on, expected off: effects and marks are kept together or "
                "not at all; set connection.autocommit = False"
            )
        self._connection, self._clock, self._inside = connection, clock, False
        with self.transaction():
            # Two members that begin at once would both find no table, and one would fail.
            self._run("SELECT pg_advisory_xact_lock(%s)", TABLE_LOCK)
            self._run(CREATE_POSTGRES)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """What the handler and the marks do until the end, kept as a whole."""
        self._inside = True
        try:
            yield self._connection
        except BaseException:
            self._connection.rollback()
            raise
        else:
            self._connection.commit()
        finally:
            self._inside = False

    def read(self, name: bytes) -> int:
        """The number stored under a name, or 0."""
        if not self._inside:
            found = self._run("SELECT number FROM trimtab_marks WHERE name = %s", name).fetchone()
            self._connection.commit()
            return 0 if found is None else int(found[0])
        found = self._run(READ_LOCKED, name).fetchone()
        if found is None:
            # A row that is not there cannot be locked: whoever comes second waits here for the first.
            self._run(INSERT_NONE, name, self._clock())
            found = self._run(READ_LOCKED, name).fetchone()
        return int(found[0])

    def write(self, name: bytes, number: int) -> None:
        """Store a number under a name, inside a transaction."""
        self._run(WRITE_POSTGRES, name, number, self._clock())

    def prune(self, older_seconds: float) -> int:
        """Forget marks that have not changed for so long; how many. See `SqliteCheckpointStore.prune`."""
        with self.transaction():
            limit = self._clock() - older_seconds
            return int(self._run("DELETE FROM trimtab_marks WHERE changed_at < %s", limit).rowcount)

    def _run(self, statement: str, *values: object) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(statement, values)
        return cursor
