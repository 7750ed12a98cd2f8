"""The lock of the one writer of a lake's tables; a writer that lost it cannot publish.

The lock is a folder of numbered documents: the process that adds the next one holds it, and shows by further
ones that it is still there. A writer that was killed is succeeded at once on its own machine, where its
process can be looked for, and elsewhere after a lease without a sign of life, measured by the clock of the
one who waits.

Whoever takes over from a writer that never let go first publishes the tables again as they are. The manifest
that the old writer would publish next has its number taken by that, so it cannot, whatever it believes of the
lock and of time; and it can hold no other number, because a number is that of the tables it read plus one.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from trimtab.files.machine import host_id, start_time
from trimtab.files.versioned_documents import VersionConflictError, VersionedDocuments
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.manifest import Manifest, publish_manifest, read_manifest
from trimtab_common.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.files.store import Location

FOLDER = "writer-lock"
LEASE_SECONDS = 30.0
"""A writer gives a sign of life three times as often."""

_left: set[str] = set()
"""Tokens of this process' own locks that it released, also where the store would not take note of it."""


@dataclass(frozen=True)
class LakeWriter:
    """A process that holds the lock, or held it.

    Attributes
    ----------
    host, machine
        Name of its host, and what tells machines, and containers on them, apart.
    pid, started_at
        Its process, and when that began: tells it from a later one of the same number.
    token
        Different for every time the lock is acquired.
    epoch
        Number of the document with which it acquired the lock; later holders have a larger one.
    signs
        Counts its signs of life.
    left
        True once it has released the lock.
    lease_seconds
        It is succeeded after so long without a sign of life.
    """

    host: str
    machine: str
    pid: int
    started_at: str
    token: str
    epoch: int
    signs: int = 0
    left: bool = False
    lease_seconds: float = LEASE_SECONDS

    @property
    def is_here(self) -> bool:
        """True if its process can be looked for from here."""
        return self.machine == host_id()

    @property
    def is_alive(self) -> bool:
        """True if it is a process of this machine that runs, and not one of ours that is over."""
        return self.is_here and self.token not in _left and start_time(self.pid) == self.started_at != ""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class WriterLock:
    """The lock, as its holder has it.

    Attributes
    ----------
    tables
        The folder of the tables that it is for.
    writer
        This process.
    """

    def __init__(self, tables: Location, signs: VersionedDocuments, number: int, writer: LakeWriter) -> None:
        self.tables = tables
        self.writer = writer
        self._signs = signs
        self._number = number
        self._lost = False

    @property
    def is_lost(self) -> bool:
        """True once somebody else was found to have taken it."""
        return self._lost

    def publish(self, manifest: Manifest) -> Manifest:
        """Make `manifest` what readers see from now on; returns it with its version counted up.

        Raises
        ------
        ObserveError
            If the lock was lost; nothing was published then.
        """
        if not self._lost:
            try:
                return publish_manifest(self.tables, replace(manifest, writer_epoch=self.writer.epoch))
            except VersionConflictError:
                self._lost = True
        raise self._lock_error()

    def renew(self) -> None:
        """Give a sign of life."""
        self._add(replace(self.writer, signs=self.writer.signs + 1))

    def leave(self) -> None:
        """Release the lock, unless it is lost."""
        _left.add(self.writer.token)
        if not self._lost:
            # Where this fails, the lease runs out instead, and what made it fail is told already.
            with suppress(OSError, TrimtabError):
                self._add(replace(self.writer, left=True))

    def _add(self, writer: LakeWriter) -> None:
        try:
            self._signs.add(self._number + 1, _encoded(writer))
        except VersionConflictError:
            self._lost = True
            return
        self.writer, self._number = writer, self._number + 1

    def _lock_error(self) -> ObserveError:
        found = self._signs.newest()
        other = None if found is None else _decoded(found[1])
        who = "another `trimtab pipeline`" if other is None or other == self.writer else str(other)
        return ObserveError(
            f"{self.tables.parent}: {who} has taken over the writing of its tables, because this process "
            "gave no sign of life for too long, or somebody published beside it; nothing was "
            "published: start again"
        )


@contextmanager
def hold_writer_lock(
    tables: Location,
    lease_seconds: float = LEASE_SECONDS,
    print_progress: Callable[[str], None] = lambda _: None,
) -> Iterator[WriterLock]:
    """Hold the lock of the writer of some tables, with signs of life from a thread.

    Parameters
    ----------
    tables
        The folder of the tables.
    lease_seconds
        How long others shall wait for our signs of life.
    print_progress
        Told of a wait for those of another one.

    Raises
    ------
    ObserveError
        If another process is writing.
    """
    lock = acquire(tables, lease_seconds, print_progress)
    over = threading.Event()
    signs = threading.Thread(target=_renewing, args=(lock, over), name="writer-lock", daemon=True)
    signs.start()
    try:
        yield lock
    finally:
        over.set()
        signs.join()
        lock.leave()


def acquire(
    tables: Location,
    lease_seconds: float = LEASE_SECONDS,
    print_progress: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> WriterLock:
    """Acquire the lock, once its holder is known to have ended; `hold_writer_lock` with nothing that keeps
    it.

    Raises
    ------
    ObserveError
        If another process is writing.
    """
    signs = VersionedDocuments(tables / FOLDER, retained=4)
    found = signs.newest()
    before = None if found is None else _decoded(found[1])
    if before is not None and not before.left:
        if before.is_alive:
            raise _acquired(tables, str(before))
        if not before.is_here:
            print_progress(f"{before} was writing: waiting {before.lease_seconds:g} s for a sign of life")
            until = clock() + before.lease_seconds
            while clock() < until:
                sleep(min(1.0, before.lease_seconds / 10))
                if signs.newest() != found:
                    raise _acquired(tables, str(before))
    # Also more than what tables were published from, should the folder of the lock have been removed.
    number = max(0 if found is None else found[0], read_manifest(tables).writer_epoch) + 1
    writer = LakeWriter(
        socket.gethostname(), host_id(), os.getpid(), start_time(os.getpid()), secrets.token_hex(8), number,
        lease_seconds=lease_seconds,
    )  # fmt: skip
    try:
        signs.add(number, _encoded(writer))
    except VersionConflictError:
        raise _acquired(tables, "another `trimtab pipeline`") from None
    lock = WriterLock(tables, signs, number, writer)
    if found is not None and (before is None or not before.left):
        _shut_out(lock)
    return lock


def _shut_out(lock: WriterLock) -> None:
    """Take the number that the writer before would publish under."""
    while True:
        published = read_manifest(lock.tables)
        if published.writer_epoch > lock.writer.epoch:
            raise _acquired(lock.tables, "another `trimtab pipeline`")
        try:
            publish_manifest(lock.tables, replace(published, writer_epoch=lock.writer.epoch))
        except VersionConflictError:
            # It was a moment faster: its tables are sound, and we go on from them.
            continue
        return


def _renewing(lock: WriterLock, over: threading.Event) -> None:
    while not over.wait(lock.writer.lease_seconds / 3) and not lock.is_lost:
        try:
            lock.renew()
        except (OSError, TrimtabError):
            # Perhaps the next one gets through; if not, publishing says what is wrong.
            continue


def _acquired(tables: Location, who: str) -> ObserveError:
    return ObserveError(
        f"tables of lake {tables.parent} are being written by another `trimtab pipeline` ({who}): "
        "stop that one, or use another --lake"
    )


def _encoded(writer: LakeWriter) -> bytes:
    return json.dumps(asdict(writer)).encode()


def _decoded(text: bytes) -> LakeWriter | None:
    try:
        return LakeWriter(**json.loads(text))
    except (ValueError, TypeError):
        return None
