"""One trimtab acts on a cluster at a time: a lease in two places.

On this machine a locked file (`LockFile`), across machines a claim in the cluster itself (`claim`): both are
taken before anything is touched. What else was weighed: docs/decisions/0010-lease.md.
"""

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from trimtab.act.claim import Claim
from trimtab.act.holder import Holder, holder_text, parse_holder, refusal, this_process
from trimtab.act.port import ClaimPort


class Lease(Claim):
    """The right to act on one cluster.

    Parameters
    ----------
    port, cluster_id, lease_seconds, clock, sleep
        As for `Claim`.
    folder
        Where the lock file lives.
    token
        Anything that no other holder has.
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
    ) -> None:
        super().__init__(port, cluster_id, this_process(token, clock()), lease_seconds, clock, sleep)
        self._lock_file = LockFile(folder, cluster_id)

    def acquire(self) -> list[str]:
        """Take the lease; returns what is worth saying about it.

        Raises
        ------
        ActError
            Naming the holder and since when, if another trimtab acts on this cluster.
        """
        self._lock_file.lock(self._me)
        try:
            return self.enter()
        except BaseException:
            self._lock_file.unlock()
            raise

    def release(self) -> None:
        """Give the whole lease back."""
        self.withdraw()
        self._lock_file.unlock()


class LockFile:
    """The part of a lease on this machine: an exclusively locked file in the state folder, one a cluster.

    The kernel gives the lock up the moment its holder dies, so it cannot go stale.
    """

    def __init__(self, folder: Path, cluster_id: str) -> None:
        self._path = _path(folder, cluster_id)
        self._cluster_id = cluster_id
        self._file: TextIO | None = None

    def lock(self, me: Holder) -> None:
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
            raise refusal(holder, self._cluster_id) from error
        file.seek(0)
        file.truncate()
        file.write(holder_text(me))
        file.flush()
        self._file = file

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
    return folder / f"{cluster_id}.lease"
