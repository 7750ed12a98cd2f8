"""A lease in a folder or an object store: one process at a time holds it, on any of several machines.

The lease is a folder of numbered documents. The process that adds the next document holds the lease, and adds
further ones as heartbeats. Nothing depends on clocks of different machines: a candidate takes over when it
sees no new document for the duration of the lease, by its own clock. A holder that ended on the candidate's
own machine is replaced at once, because its process can be looked for there.

A holder that was frozen must not act when it wakes up. `StoredLease.require` refuses once its last heartbeat
is older than the lease, by its own clock, and a heartbeat fails once another holder has added a document. A
resource that can compare numbers refuses older holders by `epoch`, which grows with every holder.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Final, TypeVar

from trimtab.files.machine import Runtime, host_id, lease_clock, start_time
from trimtab.files.store import Location
from trimtab.files.versioned_documents import VersionConflictError, VersionedDocuments
from trimtab_common.errors import TrimtabError

LEASE_SECONDS = 30.0
"""Default duration of a lease; a holder sends three heartbeats in this time."""
RETAINED_DOCUMENTS = 4

_released: set[str] = set()
"""Tokens of leases that this process released, also where the store could not be told."""


class LeaseLostError(TrimtabError):
    """Another process holds the lease, or the last heartbeat of this process is too old."""


@dataclass(frozen=True)
class StoredLeaseHolder:
    """A process that holds a lease, or held it.

    Attributes
    ----------
    name
        Name of the holder, for messages.
    host, machine
        Name of its host, and an id that tells machines, and containers on them, apart.
    pid, started_at
        Its process, and the start of that process, which tells it from a later process of the same number.
    token
        Differs for every acquisition.
    epoch
        Number of the document of the acquisition; later holders have a larger one.
    heartbeats
        Number of heartbeats since the acquisition.
    released
        Whether it has released the lease.
    lease_seconds
        Time without a heartbeat after which another process may take over.
    """

    name: str
    host: str
    machine: str
    pid: int
    started_at: str
    token: str
    epoch: int
    heartbeats: int = 0
    released: bool = False
    lease_seconds: float = LEASE_SECONDS

    @property
    def is_on_this_machine(self) -> bool:
        """Whether its process can be looked for here."""
        return self.machine == host_id()

    @property
    def is_running(self) -> bool:
        """Whether its process runs on this machine, and has not released the lease."""
        running = self.is_on_this_machine and start_time(self.pid) == self.started_at != ""
        return running and self.token not in _released

    def __str__(self) -> str:
        return f"{self.name}, process {self.pid} on {self.host}"


class StoredLease:
    """A lease that this process has acquired.

    Attributes
    ----------
    holder
        This process.
    replaced
        The holder before, if it never released the lease and may still believe that it holds it.
    """

    def __init__(
        self,
        documents: VersionedDocuments,
        holder: StoredLeaseHolder,
        replaced: bool = False,
        clock: Callable[[], float] = lease_clock,
    ) -> None:
        self.holder = holder
        self.replaced = replaced
        self._documents = documents
        self._number = holder.epoch
        self._clock = clock
        self._renewed_at = clock()
        self._lost = False

    @property
    def epoch(self) -> int:
        """The fencing number: a resource refuses a holder whose number is below the largest seen."""
        return self.holder.epoch

    @property
    def is_lost(self) -> bool:
        """Whether another process was found to have taken the lease."""
        return self._lost

    @property
    def is_valid(self) -> bool:
        """Whether this process may act: the lease is not lost, and the last heartbeat is recent enough."""
        return not self._lost and self._clock() - self._renewed_at < self.holder.lease_seconds

    def require(self) -> None:
        """Refuse to act without a valid lease.

        Raises
        ------
        LeaseLostError
            If the lease is lost, or if the last heartbeat is too old.
        """
        if not self.is_valid:
            current = self.current_holder()
            other = "" if current is None or current.token == self.holder.token else f"{current} holds it: "
            raise LeaseLostError(
                f"{other}the lease {self._documents.folder} of {self.holder} is lost, because no heartbeat "
                f"was written for {self.holder.lease_seconds:g} s or another process took over; acquire it "
                "again before you act"
            )

    def renew(self) -> None:
        """Write a heartbeat; afterwards `is_lost` tells whether another process has taken the lease."""
        at = self._clock()  # before the request: the candidates may see the document at once
        if not self._lost and self._add(replace(self.holder, heartbeats=self.holder.heartbeats + 1)):
            self._renewed_at = at

    def release(self) -> None:
        """Release the lease, unless it is lost; where the store does not answer, the lease expires."""
        _released.add(self.holder.token)
        if not self._lost:
            with suppress(OSError, TrimtabError):
                self._add(replace(self.holder, released=True))

    def lose(self) -> None:
        """Mark the lease as lost, because a fenced resource refused this holder."""
        self._lost = True

    def current_holder(self) -> StoredLeaseHolder | None:
        """The holder that the newest document names; None where no document can be read."""
        found = self._documents.newest()
        return None if found is None else _decoded(found[1])

    def _add(self, holder: StoredLeaseHolder) -> bool:
        try:
            self._documents.add(self._number + 1, _encoded(holder))
        except VersionConflictError:
            self._lost = True
            return False
        self.holder, self._number = holder, self._number + 1
        return True


class LeaseCandidate:
    """A process that wants to hold a lease; a service calls `attempt` at intervals.

    Parameters
    ----------
    folder
        The folder of the lease, of this machine or of an object store.
    name
        Name of this process as a holder, for messages.
    lease_seconds
        Duration of the lease that it acquires.
    lowest_epoch
        Gives the largest epoch that the resource has seen, should the folder of the lease have been removed.
    clock
        Monotonic time, which must not stand still while the machine sleeps.
    """

    def __init__(
        self,
        folder: Location,
        name: str,
        lease_seconds: float = LEASE_SECONDS,
        *,
        lowest_epoch: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = lease_clock,
    ) -> None:
        self.documents = VersionedDocuments(folder, retained=RETAINED_DOCUMENTS)
        self._name = name
        self._lease_seconds = lease_seconds
        self._lowest_epoch = lowest_epoch
        self._clock = clock
        self._newest: tuple[int, bytes] | None = None
        self._first_read_at = 0.0

    def attempt(self) -> StoredLease | StoredLeaseHolder | None:
        """Acquire the lease if it is free or has expired.

        Returns
        -------
        StoredLease | StoredLeaseHolder | None
            The lease; or its holder; or None where another process acquires it at this moment.
        """
        newest = self.documents.newest()
        holder = None if newest is None else _decoded(newest[1])
        held = holder is not None and not holder.released
        if holder is not None and held:
            if newest != self._newest:
                self._newest, self._first_read_at = newest, self._clock()
            has_ended = holder.is_on_this_machine and not holder.is_running
            if not has_ended and self._clock() - self._first_read_at < holder.lease_seconds:
                return holder
        epoch = max(0 if newest is None else newest[0], self._lowest_epoch()) + 1
        pid = os.getpid()
        mine = StoredLeaseHolder(
            self._name, socket.gethostname(), host_id(), pid, start_time(pid), secrets.token_hex(8), epoch,
            lease_seconds=self._lease_seconds,
        )  # fmt: skip
        lease = StoredLease(
            self.documents, mine, newest is not None and (holder is None or held), self._clock
        )
        try:
            self.documents.add(epoch, _encoded(mine))
        except VersionConflictError:
            return None
        return lease


_REAL: Final = Runtime()
LeaseT = TypeVar("LeaseT", bound=StoredLease)


@contextmanager
def renewed(lease: LeaseT, runtime: Runtime = _REAL) -> Iterator[LeaseT]:
    """Send heartbeats of a lease from a thread, and release it in the end."""
    over = runtime.event()
    heartbeats = runtime.start("lease", partial(_renew, lease, over.wait))
    try:
        yield lease
    finally:
        over.set()
        heartbeats.join()
        lease.release()


def _renew(lease: StoredLease, wait: Callable[[float], bool]) -> None:
    while not wait(lease.holder.lease_seconds / 3) and not lease.is_lost:
        # Where one heartbeat fails, the next may get through; else the lease expires.
        with suppress(OSError, TrimtabError):
            lease.renew()


def _encoded(holder: StoredLeaseHolder) -> bytes:
    return json.dumps(asdict(holder)).encode()


def _decoded(text: bytes) -> StoredLeaseHolder | None:
    try:
        return StoredLeaseHolder(**json.loads(text))
    except (ValueError, TypeError):
        return None
