"""The lease of the one writer of a lake's tables (`trimtab.files.lease`), and its fence.

A writer that replaces another one, which never released the lease, first publishes the tables again as they
are. This takes the number of the manifest that the old writer would publish next, so the old writer cannot
publish, even if it was suspended and believes that it still holds the lease.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from trimtab.files.lease import (
    LEASE_SECONDS,
    LeaseCandidate,
    StoredLease,
    StoredLeaseHolder,
    renewed,
)
from trimtab.files.machine import lease_clock
from trimtab.files.versioned_documents import VersionConflictError
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.manifest import Manifest, publish_manifest, read_manifest

if TYPE_CHECKING:
    from trimtab.files.store import Location

FOLDER = "writer-lock"
PROGRAM = "trimtab pipeline"


class WriterLock:
    """The lease of a lake's writer, and the tables that it may publish.

    Attributes
    ----------
    tables
        The folder of the tables.
    lease
        The lease, which is lost once another writer has published.
    """

    def __init__(self, tables: Location, lease: StoredLease) -> None:
        self.tables = tables
        self.lease = lease

    def publish(self, manifest: Manifest) -> Manifest:
        """Publish `manifest` to readers, and return it with its new version.

        Raises
        ------
        ObserveError
            If the lock was lost; nothing was published then.
        """
        if not self.lease.is_lost:
            try:
                return publish_manifest(self.tables, replace(manifest, writer_epoch=self.lease.epoch))
            except VersionConflictError:
                self.lease.lose()
        other = self.lease.current_holder()
        who = f"another `{PROGRAM}`" if other is None or other == self.lease.holder else str(other)
        raise ObserveError(
            f"{self.tables.parent}: {who} has taken over the writing of its tables, because this process "
            "sent no heartbeat for too long, or another process published; nothing was published: start "
            "again"
        )


@contextmanager
def hold_writer_lock(
    tables: Location,
    lease_seconds: float = LEASE_SECONDS,
    print_progress: Callable[[str], None] = lambda _: None,
) -> Iterator[WriterLock]:
    """Hold the lock of the writer of some tables, with heartbeats from a thread.

    Parameters
    ----------
    tables
        The folder of the tables.
    lease_seconds
        Time without a heartbeat after which another writer may take over.
    print_progress
        Receives a sentence about a wait for the heartbeat of another writer.

    Raises
    ------
    ObserveError
        If another process is writing.
    """
    lock = acquire(tables, lease_seconds, print_progress)
    with renewed(lock.lease):
        yield lock


def acquire(
    tables: Location,
    lease_seconds: float = LEASE_SECONDS,
    print_progress: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = lease_clock,
    sleep: Callable[[float], None] = time.sleep,
) -> WriterLock:
    """Acquire the lock without heartbeats; waits until a silent holder of another machine has expired.

    Raises
    ------
    ObserveError
        If another process is writing.
    """
    candidate = LeaseCandidate(
        tables / FOLDER,
        f"`{PROGRAM}`",
        lease_seconds,
        lowest_epoch=lambda: read_manifest(tables).writer_epoch,
        clock=clock,
    )
    first: StoredLeaseHolder | None = None
    while True:
        found = candidate.attempt()
        if isinstance(found, StoredLease):
            lock = WriterLock(tables, found)
            if found.replaced:
                _exclude_previous_writer(lock)
            return lock
        if found is None or found.is_running or found != (first or found):
            raise _held_error(tables, found)
        if first is None:
            first = found
            print_progress(f"{found} was writing: waiting {found.lease_seconds:g} s for a heartbeat")
        sleep(min(1.0, found.lease_seconds / 10))


def _exclude_previous_writer(lock: WriterLock) -> None:
    """Publish the tables as they are, under the number that the previous writer would use."""
    while True:
        published = read_manifest(lock.tables)
        if published.writer_epoch > lock.lease.epoch:
            raise _held_error(lock.tables, None)
        try:
            publish_manifest(lock.tables, replace(published, writer_epoch=lock.lease.epoch))
        except VersionConflictError:
            # The previous writer was a moment faster: its tables are sound, and the next ones build on them.
            continue
        return


def _held_error(tables: Location, holder: StoredLeaseHolder | None) -> ObserveError:
    who = "" if holder is None else f" (process {holder.pid} on {holder.host})"
    return ObserveError(
        f"tables of lake {tables.parent} are being written by another `{PROGRAM}`{who}: "
        "stop that one, or use another --lake"
    )
