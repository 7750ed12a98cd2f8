"""The lease of a cluster: its holder as a value and as text, and the two places where it is taken.

One trimtab acts on a cluster at a time. It takes the lease in both places before it changes anything: a
locked file on this machine, and a claim in the cluster, which every trimtab sees whatever its state folder.
docs/decisions/0010-lease.md compares the alternatives.

A claim is a text that names its holder. The port decides where in the cluster it is stored (`ClaimPort`);
operators can see it there. The holder renews it. A holder that is known to be dead (same machine, no such
process), or that has been silent for long enough, is replaced with a message.

Claims do not overwrite each other. If two trimtabs start at the same moment, both claims exist, and both
trimtabs see that the earlier one holds: each writes its claim, waits a moment, and reads all. The claims are
read again before every change.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO
from urllib.parse import parse_qsl, urlencode

import msgspec

from trimtab.act.execution.port import ClaimPort, PortError
from trimtab.files.machine import host_id, start_time
from trimtab.model.errors import ActError


@dataclass(frozen=True)
class LeaseHolder:
    """Who holds a lease; times are seconds since 1970.

    Attributes
    ----------
    host, machine
        Name of its host, and what tells machines, and containers on them, apart; the latter empty in claims
        of older versions.
    process_started_at
        When the process began, in the kernel's ticks since boot: tells it from a later one of the same pid.
    folder, execution
        Its state folder, and the execution it runs; empty and None where it has not said so (yet).
    """

    token: str
    host: str
    pid: int
    process_started_at: str
    user: str
    since: float
    renewed_at: float
    folder: str = ""
    execution: int | None = None
    machine: str = ""

    @property
    def number(self) -> str:
        """The number of its execution as commands take it, after a space; empty where that is not known."""
        return "" if self.execution is None else f" {self.execution}"

    def __str__(self) -> str:
        what = f", execution{self.number}" if self.number else ""
        where = f", TRIMTAB_STATE={self.folder}" if self.folder else ""
        return f"{self.user}@{self.host} (process {self.pid}, since {clock_text(self.since)}{what}{where})"


def this_process(token: str, now: float) -> LeaseHolder:
    """A holder that names this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    pid = os.getpid()
    return LeaseHolder(token, socket.gethostname(), pid, start_time(pid), user, now, now, machine=host_id())


def holder_text(holder: LeaseHolder) -> str:
    """For machines, and for an operator who lists the cluster's settings."""
    return urlencode({name: value for name, value in asdict(holder).items() if value is not None})


def parse_holder(text: str) -> LeaseHolder | None:
    """The holder that a text names; None where it names none."""
    try:
        return msgspec.convert(dict(parse_qsl(text, keep_blank_values=True)), LeaseHolder, strict=False)
    except msgspec.ValidationError:
        return None


class ClusterBusyError(ActError):
    """Another trimtab acts on the cluster, or an interrupted execution must end first."""


def lease_conflict(holder: LeaseHolder | None, cluster_id: str) -> ClusterBusyError:
    """The error of a process that wants to act while the holder does; None: the holder is not known."""
    who, number = ("another trimtab", "") if holder is None else (str(holder), holder.number)
    return ClusterBusyError(
        f"{who} is acting on cluster {cluster_id}: wait until it is through, or stop it with `trimtab "
        f"execution stop{number}` where it runs (`trimtab execution resume{number}` goes on there)"
    )


def is_here(holder: LeaseHolder) -> bool:
    """True if it is, or was, a process that can be looked for from here."""
    return holder.machine == host_id() if holder.machine else holder.host == socket.gethostname()


def is_running(holder: LeaseHolder) -> bool:
    """True if it is such a process and runs."""
    return is_here(holder) and start_time(holder.pid) == holder.process_started_at != ""


def clock_text(at: float) -> str:
    """Seconds since 1970 as date and time of day."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


LEASES_FOLDER = "leases"
SETTLE_SECONDS = 0.3
CONFIRMATION_SECONDS = 2.0
RECHECK_SECONDS = 1.0


class Lease:
    """The right to act on one cluster.

    Parameters
    ----------
    port
        The cluster.
    folder
        The state folder, where the lock file lives.
    lease_seconds
        After how long without renewal another may take over.
    clock, sleep
        Time.
    token
        Anything that no other holder has.
    require
        Called before each change of the cluster; it raises `ActError` where this process must not act.
    """

    def __init__(
        self,
        port: ClaimPort,
        folder: Path,
        cluster_id: str,
        lease_seconds: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        token: str,
        require: Callable[[], None] = lambda: None,
    ) -> None:
        self._require = require
        self._port = port
        self._folder = folder
        self._lock_file = LockFile(folder, cluster_id)
        self._cluster_id = cluster_id
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._sleep = sleep
        self._me = replace(this_process(token, clock()), folder=str(folder))
        self._stands = False
        self._next_deadline = False
        self._observed = 0.0

    def acquire(self) -> list[str]:
        """Take the lease, over the dead if need be; returns what is worth saying about it.

        Raises
        ------
        ActError
            Naming the holder and since when, if another trimtab acts on this cluster.
        PortError
            If the cluster does not answer just now.
        """
        self._lock_file.lock(self._me)
        try:
            return self._enter()
        except BaseException:
            self._lock_file.unlock()
            raise

    def check_claims(self) -> list[LeaseHolder]:
        """The dead whose claims still stand; touches nothing, and raises where `acquire` would."""
        if locked(self._folder, self._cluster_id):
            text = _path(self._folder, self._cluster_id).read_text(encoding="utf-8")
            raise lease_conflict(parse_holder(text), self._cluster_id)
        try:
            return self._dead(self._settled())
        except PortError as error:
            if error.failure.transient:
                raise
            return []  # without the right to see claims there is no lease in the cluster, as is said later

    def release(self) -> None:
        """Give the whole lease back."""
        self.release_claim()
        self._lock_file.unlock()

    def set_execution(self, execution: int) -> None:
        """Say for which execution it is, in the lock file now and in the cluster at the next look."""
        self._me = replace(self._me, execution=execution)
        self._lock_file.write(self._me)
        self._next_deadline = True

    def check(self) -> None:
        """Make sure that the claim is still ours, and renew it in time.

        Raises
        ------
        ActError
            If another trimtab has taken over: nothing must be touched from then on.
        """
        self._require()
        now = self._clock()
        if not self._stands or now - self._observed < RECHECK_SECONDS:
            return
        try:
            texts = self._port.read_claims()
            claims = _holders(texts)
            if self._me.token not in claims or self._conflicting_claim(claims) is not None:
                self._stands = False
                raise ActError(
                    f"{self._conflicting_claim(claims) or 'another trimtab'} has taken over cluster "
                    f"{self._cluster_id}: "
                    "this trimtab steps back and touches nothing more; see `trimtab execution list` there"
                )
            if self._next_deadline or now - self._me.renewed_at >= self._lease_seconds / 4:
                self._me = replace(self._me, renewed_at=now)
                # All of ours go: an earlier renewal may have been lost on its way there or back.
                ours = [text for text in texts if self._is_own(text)]
                self._port.write_claims([holder_text(self._me)], ours)
                self._next_deadline = False
            self._observed = now
        except PortError as error:
            if not error.failure.transient:
                raise

    def release_claim(self) -> None:
        """Take the claim out of the cluster; what cannot be removed runs out by itself."""
        if self._stands:
            self._stands = False
            with contextlib.suppress(PortError):
                self._remove()

    def _enter(self) -> list[str]:
        try:
            return self._take_over()
        except PortError as error:
            if error.failure.transient:
                # The claim may have arrived although its answer did not.
                with contextlib.suppress(PortError):
                    self._remove()
                raise
            return [
                f"no lease in the cluster ({error}): only trimtabs with this state folder are kept out; "
                f"{self._port.claim_rights} for more"
            ]

    def _take_over(self) -> list[str]:
        texts = self._settled()
        dead = self._dead(texts)
        self._port.write_claims([holder_text(self._me)], texts)
        self._sleep(SETTLE_SECONDS)
        claims = _holders(self._port.read_claims())
        rival = self._conflicting_claim(claims)
        if rival is not None or self._me.token not in claims:
            self._remove()
            raise lease_conflict(rival, self._cluster_id)
        self._stands = True
        self._observed = self._clock()
        return [f"took the lease over from {holder}, which is no longer alive" for holder in dead]

    def _settled(self) -> frozenset[str]:
        texts = self._port.read_claims()
        if texts:
            # A claim taken away a moment ago may still be shown by a broker that has not heard of it.
            self._sleep(SETTLE_SECONDS)
            texts = self._port.read_claims()
        return texts

    def _dead(self, texts: Iterable[str]) -> list[LeaseHolder]:
        return [self._require_dead(holder) for holder in _holders(texts).values()]

    def _conflicting_claim(self, claims: Mapping[str, LeaseHolder]) -> LeaseHolder | None:
        """Who claimed before us; of two that claim at once, both agree on the one that goes on."""
        others = [holder for token, holder in claims.items() if token != self._me.token]
        first = min(others, key=_precedence, default=None)
        return first if first is not None and _precedence(first) < _precedence(self._me) else None

    def _require_dead(self, holder: LeaseHolder) -> LeaseHolder:
        if is_running(holder):
            raise lease_conflict(holder, self._cluster_id)
        if not is_here(holder):
            if self._clock() - holder.renewed_at < self._lease_seconds:
                raise lease_conflict(holder, self._cluster_id)
            # Clocks differ between machines: only one that stays silent while we watch counts as dead.
            self._sleep(CONFIRMATION_SECONDS)
            if _holders(self._port.read_claims()).get(holder.token) != holder:
                raise lease_conflict(holder, self._cluster_id)
        return holder

    def _remove(self) -> None:
        texts = {text for text in self._port.read_claims() if self._is_own(text)}
        self._port.write_claims([], texts | {holder_text(self._me)})

    def _is_own(self, text: str) -> bool:
        holder = parse_holder(text)
        return holder is not None and holder.token == self._me.token


class LockFile:
    """The part of a lease on this machine: an exclusively locked file in the state folder, one a cluster.

    The kernel gives the lock up the moment its holder dies, so it cannot go stale.
    """

    def __init__(self, folder: Path, cluster_id: str) -> None:
        self._path = _path(folder, cluster_id)
        self._cluster_id = cluster_id
        self._file: TextIO | None = None

    def lock(self, me: LeaseHolder) -> None:
        """Lock it, and say in it by whom.

        Raises
        ------
        ActError
            Naming the holder and since when, if another process holds it.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = parse_holder(file.read())
            file.close()
            raise lease_conflict(holder, self._cluster_id) from error
        self._file = file
        self.write(me)

    def write(self, me: LeaseHolder) -> None:
        """Say in it who holds it, if it is ours."""
        if self._file is not None:
            self._file.seek(0)
            self._file.truncate()
            self._file.write(holder_text(me))
            self._file.flush()

    def unlock(self) -> None:
        """Give it up, if it is ours."""
        if self._file is not None:
            # Emptied, not deleted: deleting would let two processes lock two files of the same name.
            self._file.truncate(0)
            self._file.close()
            self._file = None


def locked(folder: Path, cluster_id: str) -> bool:
    """True if some process of this machine, with this state folder, holds the lease of a cluster now."""
    path = _path(folder, cluster_id)
    if not path.exists():
        return False
    with path.open("r", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _path(folder: Path, cluster_id: str) -> Path:
    return folder / LEASES_FOLDER / f"{cluster_id}.lease"


def _holders(texts: Iterable[str]) -> dict[str, LeaseHolder]:
    """The newest claim of each token; what nobody can read names nobody we could wait for."""
    holders = [holder for holder in map(parse_holder, texts) if holder is not None]
    return {holder.token: holder for holder in sorted(holders, key=lambda holder: holder.renewed_at)}


def _precedence(holder: LeaseHolder) -> tuple[float, str]:
    return holder.since, holder.token
