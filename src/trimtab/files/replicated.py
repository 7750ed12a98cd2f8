"""SQLite databases whose transactions lie in a lake too, so that another machine can go on with them.

The lake holds a folder of numbered documents: each has the statements of one transaction. A transaction is
added there first and committed locally afterwards. A number can be taken only once, so that of two writers
one is refused before its transaction has any effect. The local files are a copy: `LakeLog.follow` brings
them up to date, on a reader that waits as well as on a new writer.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from trimtab.files.store import Location, create
from trimtab.files.versioned_documents import VersionConflictError, VersionedDocuments
from trimtab_common.errors import TrimtabError

CHECKPOINT_DOCUMENTS: Final = 256
"""Documents after which the writer stores whole databases, and removes the documents before."""
_ALL: Final = 1 << 62
_CHUNK_BYTES: Final = 1 << 20
"""A multiple of four, so that encoded chunks follow one another without padding."""

Statement = tuple[str, list[Any]]
"""SQL with its parameters; text, numbers and null only."""


class WriterReplacedError(TrimtabError):
    """Another process has added to the log, or this process may not write now: nothing was changed."""


class LakeLog:
    """The log of several databases, by file name without suffix.

    Parameters
    ----------
    folder
        Of the log, on this machine or in an object store.
    local
        Folder of the local databases.
    names
        Names of the databases; `NAME.sqlite` is the file of each.
    """

    def __init__(self, folder: Location, local: Path, names: Iterable[str]) -> None:
        self._folder = folder
        self._documents = VersionedDocuments(folder, retained=_ALL)
        self._local = local
        self._names = tuple(names)
        self._lock = threading.RLock()
        self._number = 0
        self._added = 0
        self._require: Callable[[], None] | None = None

    @property
    def number(self) -> int:
        """Number of the newest document that the local databases contain."""
        return self._number

    def restore(self) -> None:
        """Make the local databases from the newest checkpoint.

        Without a checkpoint the local databases become empty: the log is the truth. Each is replaced in one
        transaction, so that connections to it see the databases of before or of after.
        """
        with self._lock:
            checkpoint = self._newest_checkpoint()
            self._local.mkdir(parents=True, exist_ok=True)
            number, databases = (0, {}) if checkpoint is None else checkpoint
            # A process that ends in between begins with this again.
            self._number = 0
            for name in self._names:
                self._replace(name, databases.get(name, b""))
            self._number = number

    def _replace(self, name: str, content: bytes) -> None:
        path, image = self.path(name), self._local / f".{name}.restored"
        image.write_bytes(content)
        try:
            with closing(sqlite3.connect(image)) as new:
                try:
                    with closing(sqlite3.connect(path, timeout=30.0)) as db:
                        new.backup(db)
                except sqlite3.DatabaseError:
                    # The file is no database any more; nobody can have it open for reading.
                    for suffix in ("", "-wal", "-shm"):
                        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
                    with closing(sqlite3.connect(path, timeout=30.0)) as db:
                        new.backup(db)
        finally:
            image.unlink(missing_ok=True)

    def path(self, name: str) -> Path:
        """The local file of a database."""
        return self._local / f"{name}.sqlite"

    def follow(self) -> int:
        """Apply documents that others have added to the local databases; returns how many.

        The databases must have their tables already.

        Raises
        ------
        WriterReplacedError
            If documents are missing because this process has not looked for long: `restore` first.
        """
        with self._lock:
            numbers = [one for one in self._documents.numbers() if one > self._number]
            for number in numbers:
                if number != self._number + 1:
                    raise WriterReplacedError(
                        f"{self._folder}: document {self._number + 1} is missing, and {number} is there"
                    )
                self._apply(json.loads(self._documents.path(number).read_bytes()))
                self._number = number
            return len(numbers)

    def _apply(self, document: Mapping[str, Any]) -> None:
        if document["database"] not in self._names:
            return
        with closing(sqlite3.connect(self.path(document["database"]), timeout=30.0)) as db, db:
            for sql, parameters in document["statements"]:
                db.execute(sql, parameters)

    @contextmanager
    def writing(self, require: Callable[[], None], by: str) -> Iterator[None]:
        """Write from this process alone: earlier writers are refused from now on.

        Parameters
        ----------
        require
            Called before each transaction; it raises where this process has lost its lease.
        by
            Name of this process.

        Raises
        ------
        WriterReplacedError
            If another process becomes the writer at the same time.
        """
        with self._lock:
            self.follow()
            self._added = len(self._documents.numbers())
            self._require = require
        try:
            self.append("", [], by)
            yield
        finally:
            self._require = None

    def append(self, database: str, statements: list[Statement], by: str = "") -> None:
        """Add a transaction to the log, before it is committed.

        Raises
        ------
        WriterReplacedError
            If this process is not the writer.
        """
        with self._lock:
            if self._require is None:
                raise WriterReplacedError(f"{self._folder}: this instance does not decide")
            self._require()
            content = {"database": database, "statements": statements, **({"by": by} if by else {})}
            try:
                self._documents.add(self._number + 1, json.dumps(content).encode())
            except VersionConflictError:
                self._require = None
                raise WriterReplacedError(f"{self._folder}: another instance has taken over") from None
            self._number += 1
            self._added += 1

    @contextmanager
    def appended(self, database: str, statements: list[Statement]) -> Iterator[None]:
        """Add a transaction to the log, and commit it locally inside.

        No checkpoint is made between the two: it would lack what its number says that it has. Where the local
        commit fails, this process writes no longer, and `follow` applies the document.

        Raises
        ------
        WriterReplacedError
            If this process is not the writer.
        """
        with self._lock:
            self.append(database, statements)
            try:
                yield
            except BaseException:
                self._number -= 1
                self._require = None
                raise

    def write_checkpoint(self) -> bool:
        """Store whole databases once there are many documents, and remove the documents before.

        Transactions wait for the copies of the databases, and not for their compression.
        """
        with self._lock:
            if self._require is None or self._added < CHECKPOINT_DOCUMENTS:
                return False
            number = self._number
            numbers = [one for one in self._documents.numbers() if one <= number]
            images = {name: self._image(name) for name in self._names}
        content = _compressed(images)
        with self._lock:
            with suppress(FileExistsError):
                create(self._folder / f"checkpoint-{number:020d}", content)
            # The newest document stays: writers and readers find their place by it.
            for old in self._checkpoints()[:-2]:
                (self._folder / f"checkpoint-{old:020d}").unlink(missing_ok=True)
            for old in numbers[:-1]:
                self._documents.path(old).unlink(missing_ok=True)
            self._added = 1 + self._number - number
            return True

    def connect(self, path: Path, require: Callable[[], None] = lambda: None) -> sqlite3.Connection:
        """A connection to one of the databases whose transactions are added to the log.

        Parameters
        ----------
        require
            Called before each transaction is added; it raises where the owner of the connection must not
            write any longer.
        """
        return _LoggedConnection(path, partial(self.appended, path.stem), require)

    def _image(self, name: str) -> Path:
        image = self._local / f".{name}.image"
        image.unlink(missing_ok=True)
        with closing(sqlite3.connect(self.path(name), timeout=30.0)) as db:
            db.execute("VACUUM INTO ?", (str(image),))
        return image

    def _checkpoints(self) -> list[int]:
        try:
            names = [path.name for path in self._folder.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(int(name.partition("-")[2]) for name in names if name.startswith("checkpoint-"))

    def _newest_checkpoint(self) -> tuple[int, dict[str, bytes]] | None:
        while numbers := self._checkpoints():
            with suppress(FileNotFoundError):
                content = (self._folder / f"checkpoint-{numbers[-1]:020d}").read_bytes()
                databases = json.loads(gzip.decompress(content))
                return numbers[-1], {name: base64.b85decode(text) for name, text in databases.items()}
        return None


def _compressed(images: Mapping[str, Path]) -> bytes:
    """A checkpoint: an object of texts in JSON, compressed chunk by chunk; the files are removed."""
    found = io.BytesIO()
    with gzip.GzipFile(fileobj=found, mode="wb", compresslevel=6, mtime=0) as file:
        for place, (name, image) in enumerate(images.items()):
            file.write(f'{", " if place else "{"}{json.dumps(name)}: "'.encode())
            with open(image, "rb") as content:
                while chunk := content.read(_CHUNK_BYTES):
                    file.write(base64.b85encode(chunk))
            file.write(b'"')
            image.unlink()
        file.write(b"}")
    return found.getvalue()


def packed(content: bytes) -> str:
    """A document in JSON as a shorter text, for the parameter of a statement.

    Base 64 takes 7 % more than base 85, which Python computes in Python: other threads wait, and each byte
    takes 40 in memory.
    """
    return base64.b64encode(zlib.compress(content, 6)).decode()


def unpacked(text: str) -> bytes:
    """The document; texts that were written as they are begin with a brace, packed ones never do."""
    if text.startswith("{"):
        return text.encode()
    # The first byte of compressed data is an `e` in base 64, and never in base 85, as packed before.
    return zlib.decompress(base64.b64decode(text) if text.startswith("e") else base64.b85decode(text))


class _LoggedConnection(sqlite3.Connection):
    """A connection that adds the statements of each transaction to a log before it commits them."""

    def __init__(
        self,
        path: Path,
        appended: Callable[[list[Statement]], AbstractContextManager[None]],
        require: Callable[[], None],
    ) -> None:
        super().__init__(path, timeout=30.0, isolation_level=None, check_same_thread=False)
        self._appended = appended
        self._require = require
        self._statements: list[Statement] = []

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Execute a statement; a `COMMIT` adds the transaction to the log first."""
        word = sql.lstrip()[:8].upper()
        if word.startswith("COMMIT") and self._statements:
            self._require()
            with self._appended(self._statements):
                cursor = super().execute(sql, parameters)
            self._statements = []
            return cursor
        if word.startswith(("BEGIN", "COMMIT", "ROLLBACK")):
            self._statements = []
        cursor = super().execute(sql, parameters)
        is_trigger = word == "DROP TRI" or (word == "CREATE T" and self._statements)
        if is_trigger or word.startswith(("INSERT", "UPDATE", "DELETE", "REPLACE")):
            self._statements.append((sql, list(parameters)))
        return cursor

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        """Execute a statement once for each row of parameters."""
        rows = [list(row) for row in parameters]
        cursor = super().executemany(sql, rows)
        self._statements += [(sql, row) for row in rows]
        return cursor
