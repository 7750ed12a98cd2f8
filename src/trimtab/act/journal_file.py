"""The SQLite file of a journal: its tables, how it is opened, and what makes a write durable."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trimtab.model.errors import ActError

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE executions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, cluster_id TEXT NOT NULL, cluster TEXT NOT NULL,
    created_at REAL NOT NULL, ended_at REAL, status TEXT NOT NULL, owner TEXT NOT NULL, plan TEXT NOT NULL,
    facts TEXT NOT NULL, head TEXT NOT NULL);
CREATE TABLE steps (
    execution INTEGER NOT NULL REFERENCES executions(id), number INTEGER NOT NULL,
    step TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (execution, number)) WITHOUT ROWID;
CREATE TABLE log (
    execution INTEGER NOT NULL REFERENCES executions(id), sequence INTEGER NOT NULL, at REAL NOT NULL,
    event TEXT NOT NULL, order_given TEXT NOT NULL, changes TEXT NOT NULL,
    PRIMARY KEY (execution, sequence)) WITHOUT ROWID;
CREATE TABLE requests (
    execution INTEGER NOT NULL REFERENCES executions(id), sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL, request TEXT NOT NULL, by TEXT NOT NULL, taken INTEGER NOT NULL DEFAULT 0);
CREATE TRIGGER log_is_only_added_to BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER log_is_never_cut BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'append-only'); END;
"""


class JournalFile:
    """One open journal file, made anew where there is none.

    Raises
    ------
    ActError
        If the file is no journal, or one of another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, timeout=30.0, isolation_level=None)
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            raise ActError(
                f"the journal {path} cannot be read ({error}): move it away to begin a new one, after making "
                "sure that no reassignment and no throttle is left in the cluster"
            ) from error

    def _open(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("PRAGMA foreign_keys=ON")
        with self.transaction():
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                for statement in _statements(_SCHEMA):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
            elif version != SCHEMA_VERSION:
                raise ActError(
                    f"the journal {self.path} has version {version}, this trimtab knows {SCHEMA_VERSION}: "
                    "use the trimtab that wrote it"
                )

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute one SQL statement; the cursor gives its rows."""
        return self._db.execute(statement, values)

    def execute_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Execute one SQL statement for each of these rows of values."""
        self._db.executemany(statement, rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is executed inside takes effect together, durably, or not at all."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
