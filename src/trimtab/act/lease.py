"""One trimtab acts on a cluster at a time: a lease in two places.

On this machine, an exclusively locked file in the state folder, named after the cluster: the kernel gives it
up the moment its holder dies, so it cannot go stale. Across machines, a claim in the cluster itself: a
dynamic setting of the cluster-wide broker default whose *name* is `trimtab.lease.` and who holds it (Kafka
hides the values of settings that it does not know). Every trimtab can see it, whatever its state folder, and
operators can too. It is renewed while its holder lives; a holder that is known to be dead (same machine, no
such process) or has been silent for long enough is replaced, which is said.

Names do not overwrite each other, so of two that start at the same moment both claims stand, and both see
that the earlier one holds: each writes its claim, waits a moment, and reads all. The claims are read again
before every change that is made. What else was weighed: docs/decisions/0010-lease.md.
"""

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

from trimtab.act.port import ClusterPort, PortError
from trimtab.model.errors import ActError

SETTLE_SECONDS = 0.3
SECOND_LOOK_SECONDS = 2.0
LOOK_AGAIN_SECONDS = 1.0


@dataclass(frozen=True)
class Holder:
    """Who holds a lease; times are seconds since 1970.

    Attributes
    ----------
    born
        When the process began, in the kernel's ticks since boot: tells it from a later one of the same pid.
    """

    token: str
    host: str
    pid: int
    born: str
    user: str
    since: float
    renewed_at: float

    def __str__(self) -> str:
        return f"{self.user}@{self.host} (process {self.pid}, since {_clock_text(self.since)})"


def this_process(token: str, now: float) -> Holder:
    """A holder that names this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    pid = os.getpid()
    return Holder(token, socket.gethostname(), pid, _born(pid), user, now, now)


class Lease:
    """The right to act on one cluster.

    Parameters
    ----------
    port
        The cluster.
    folder
        Where the lock file lives.
    cluster_id
        Of the cluster.
    lease_seconds
        After how long without renewal another may take over.
    clock, sleep
        Time.
    token
        Anything that no other holder has.
    """

    def __init__(
        self,
        port: ClusterPort,
        folder: Path,
        cluster_id: str,
        lease_seconds: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        token: str,
    ) -> None:
        self._port = port
        self._path = folder / f"{cluster_id}.lease"
        self._cluster_id = cluster_id
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._sleep = sleep
        self._me = this_process(token, clock())
        self._file: TextIO | None = None
        self._in_cluster = False
        self._looked_at = 0.0

    def acquire(self) -> list[str]:
        """Take the lease; returns what is worth saying about it.

        Raises
        ------
        ActError
            Naming the holder and since when, if another trimtab acts on this cluster.
        """
        self._lock_file()
        try:
            notes = self._enter_cluster()
        except BaseException:
            self._unlock_file()
            raise
        return notes

    def check(self) -> None:
        """Make sure that the lease is still ours, and renew it in time.

        Raises
        ------
        ActError
            If another trimtab has taken over: nothing must be touched from then on.
        """
        now = self._clock()
        if not self._in_cluster or now - self._looked_at < LOOK_AGAIN_SECONDS:
            return
        try:
            texts = self._port.read_claims()
            claims = _holders(texts)
            if self._me.token not in claims or self._rival(claims) is not None:
                self._in_cluster = False
                raise ActError(
                    f"{self._rival(claims) or 'another trimtab'} has taken over cluster {self._cluster_id}: "
                    "this trimtab steps back and touches nothing more; see `trimtab execution list` there"
                )
            if now - self._me.renewed_at >= self._lease_seconds / 4:
                self._me = replace(self._me, renewed_at=now)
                # All of ours go: an earlier renewal may have been lost on its way there or back.
                self._port.write_claims([_text(self._me)], [text for text in texts if self._mine(text)])
            self._looked_at = now
        except PortError as error:
            if not error.failure.transient:
                raise

    def withdraw(self) -> None:
        """Take the claim out of the cluster; what cannot be removed runs out by itself."""
        if self._in_cluster:
            self._in_cluster = False
            with contextlib.suppress(PortError):
                self._withdraw()

    def release(self) -> None:
        """Give the whole lease back."""
        self.withdraw()
        self._unlock_file()

    # ------------------------------------------------------------ on this machine

    def _lock_file(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = _parse(file.read())
            file.close()
            raise self._refusal(holder) from error
        file.seek(0)
        file.truncate()
        file.write(_text(self._me))
        file.flush()
        self._file = file

    def _unlock_file(self) -> None:
        if self._file is not None:
            # Emptied, not deleted: deleting would let two processes lock two files of the same name.
            self._file.truncate(0)
            self._file.close()
            self._file = None

    # ------------------------------------------------------------ in the cluster

    def _enter_cluster(self) -> list[str]:
        try:
            return self._take_over()
        except PortError as error:
            if error.failure.transient:
                # The claim may have arrived although its answer did not.
                with contextlib.suppress(PortError):
                    self._withdraw()
                raise
            return [
                f"no lease in the cluster ({error}): only trimtabs with this state folder are kept out; "
                "grant AlterConfigs and DescribeConfigs on the cluster for more"
            ]

    def _take_over(self) -> list[str]:
        texts = self._port.read_claims()
        if texts:
            # A claim taken away a moment ago may still be shown by a broker that has not heard of it.
            self._sleep(SETTLE_SECONDS)
            texts = self._port.read_claims()
        dead = [self._require_dead(holder) for holder in _holders(texts).values()]
        self._port.write_claims([_text(self._me)], texts)
        self._sleep(SETTLE_SECONDS)
        claims = self._claims()
        rival = self._rival(claims)
        if rival is not None or self._me.token not in claims:
            self._withdraw()
            raise self._refusal(rival)
        self._in_cluster = True
        self._looked_at = self._clock()
        return [f"took the lease over from {holder}, which is no longer alive" for holder in dead]

    def _claims(self) -> dict[str, Holder]:
        return _holders(self._port.read_claims())

    def _rival(self, claims: Mapping[str, Holder]) -> Holder | None:
        """Who claimed before us; of two that claim at once, both agree on the one that goes on."""
        others = [holder for token, holder in claims.items() if token != self._me.token]
        first = min(others, key=_precedence, default=None)
        return first if first is not None and _precedence(first) < _precedence(self._me) else None

    def _require_dead(self, holder: Holder) -> Holder:
        if _lives(holder):
            raise self._refusal(holder)
        if not _here(holder):
            if self._clock() - holder.renewed_at < self._lease_seconds:
                raise self._refusal(holder)
            # Clocks differ between machines: only one that stays silent while we watch counts as dead.
            self._sleep(SECOND_LOOK_SECONDS)
            if self._claims().get(holder.token) != holder:
                raise self._refusal(holder)
        return holder

    def _withdraw(self) -> None:
        texts = {text for text in self._port.read_claims() if self._mine(text)}
        self._port.write_claims([], texts | {_text(self._me)})

    def _mine(self, text: str) -> bool:
        holder = _parse(text)
        return holder is not None and holder.token == self._me.token

    def _refusal(self, holder: Holder | None) -> ActError:
        who = "another trimtab" if holder is None else str(holder)
        return ActError(
            f"{who} is acting on cluster {self._cluster_id}: wait until it is through, or stop it with "
            "`trimtab execution stop` where it runs"
        )


def locked(folder: Path, cluster_id: str) -> bool:
    """Whether some process of this machine, with this state folder, holds the lease of a cluster now."""
    path = folder / f"{cluster_id}.lease"
    if not path.exists():
        return False
    with path.open("r", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _holders(texts: Iterable[str]) -> dict[str, Holder]:
    """The newest claim of each token; what nobody can read names nobody we could wait for."""
    holders = [holder for holder in map(_parse, texts) if holder is not None]
    return {holder.token: holder for holder in sorted(holders, key=lambda holder: holder.renewed_at)}


def _here(holder: Holder) -> bool:
    return holder.host == socket.gethostname()


def _lives(holder: Holder) -> bool:
    """Whether it is a process of this machine that runs."""
    return _here(holder) and _born(holder.pid) == holder.born != ""


def _born(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "running"


def _precedence(holder: Holder) -> tuple[float, str]:
    return holder.since, holder.token


def _text(holder: Holder) -> str:
    """For machines, and for an operator who lists the cluster's settings."""
    return urlencode(asdict(holder))


def _parse(text: str | None) -> Holder | None:
    fields = dict(parse_qsl(text or "", keep_blank_values=True))
    try:
        return Holder(
            token=fields["token"],
            host=fields["host"],
            pid=int(fields["pid"]),
            born=fields["born"],
            user=fields["user"],
            since=float(fields["since"]),
            renewed_at=float(fields["renewed_at"]),
        )
    except (KeyError, ValueError):
        return None


def _clock_text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
