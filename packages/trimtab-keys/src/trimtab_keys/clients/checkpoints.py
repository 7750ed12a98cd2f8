"""Marks of what has taken effect, changed in the same transaction as the effects."""

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
    """Where marks are stored together with effects.

    All changes between the begin and the end of `transaction`, by the handler and by `write`, must be stored
    together or not at all. Two transactions that read the same mark must not both write it: a database needs
    serialisable isolation, or the reader locks the row. If a store violates this, effects may be repeated
    after a consumer is killed; their order is still correct.
    """

    def transaction(self) -> AbstractContextManager[object]:
        """Store all changes inside together; an error inside undoes all of them."""
        ...

    def read(self, name: bytes) -> int:
        """The number stored under a name, or 0."""
        ...

    def write(self, name: bytes, number: int) -> None:
        """Store a number under a name, inside a transaction."""
        ...


def mark_name(*parts: object) -> bytes:
    """The name of a mark from its parts: 16 bytes for any key, because a key may be secret or long."""
    return blake2b(msgspec.msgpack.encode(parts), digest_size=16).digest()


class InMemoryCheckpointStore:
    """Marks of a process whose effects are in memory too; both end with the process.

    Attributes
    ----------
    numbers
        Numbers by name.
    """

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        self._before: dict[bytes, int] = {}

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Undo the marks if an error occurs inside."""
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
    """Marks in the SQLite database that has the handler's effects, through the same connection.

    Parameters
    ----------
    connection
        Opened with `isolation_level=None`, and with `check_same_thread=False` for asyncio. This class begins
        and ends all transactions; the handler must not. Other threads need connections of their own: if one
        reads through this connection, the next transaction may fail ("database is locked").
    clock
        Seconds since 1970.
    """

    def __init__(self, connection: sqlite3.Connection, clock: Callable[[], float] = time.time) -> None:
        self._connection, self._clock = connection, clock
        connection.execute(CREATE)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock from its beginning, so that no other transaction reads a
        mark.
        """
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
        """Delete marks that have not changed for this time; the number of deleted marks.

        Each run of a producer leaves a mark for each split key. A mark may be deleted once none of its
        records can be received again: use the topic's retention time, or more.
        """
        with self.transaction() as connection:
            limit = self._clock() - older_seconds
            return connection.execute("DELETE FROM trimtab_marks WHERE changed_at < ?", (limit,)).rowcount


class PostgresCheckpointStore:
    """Marks in the PostgreSQL database that has the handler's effects, through the same connection.

    All members of a group may use the same database, from any number of machines. A transaction locks each
    mark that it reads until its end.

    Parameters
    ----------
    connection
        A connection by the Python database interface (psycopg, psycopg2, pg8000), without autocommit. This
        class ends all transactions; the handler must not.
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
        """Store the changes of the handler and the marks together."""
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
        """Delete marks that have not changed for this time, like `SqliteCheckpointStore.prune`."""
        with self.transaction():
            limit = self._clock() - older_seconds
            return int(self._run("DELETE FROM trimtab_marks WHERE changed_at < %s", limit).rowcount)

    def _run(self, statement: str, *values: object) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(statement, values)
        return cursor
