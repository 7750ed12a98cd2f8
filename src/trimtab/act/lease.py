"""One trimtab acts on a cluster at a time: a lease in two places.

On this machine a locked file (`lock_file`), across machines a claim in the cluster itself (`claim`): both are
taken before anything is touched. What else was weighed: docs/decisions/0010-lease.md.
"""

from collections.abc import Callable
from pathlib import Path

from trimtab.act.claim import Claim
from trimtab.act.holder import this_process
from trimtab.act.lock_file import LockFile
from trimtab.act.port import ClaimPort


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
        port: ClaimPort,
        folder: Path,
        cluster_id: str,
        lease_seconds: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        token: str,
    ) -> None:
        self._me = this_process(token, clock())
        self._lock_file = LockFile(folder, cluster_id)
        self._claim = Claim(port, cluster_id, self._me, lease_seconds, clock, sleep)

    def acquire(self) -> list[str]:
        """Take the lease; returns what is worth saying about it.

        Raises
        ------
        ActError
            Naming the holder and since when, if another trimtab acts on this cluster.
        """
        self._lock_file.lock(self._me)
        try:
            notes = self._claim.enter()
        except BaseException:
            self._lock_file.unlock()
            raise
        return notes

    def check(self) -> None:
        """Make sure that the lease is still ours, and renew it in time.

        Raises
        ------
        ActError
            If another trimtab has taken over: nothing must be touched from then on.
        """
        self._claim.check()

    def withdraw(self) -> None:
        """Take the claim out of the cluster; what cannot be removed runs out by itself."""
        self._claim.withdraw()

    def release(self) -> None:
        """Give the whole lease back."""
        self._claim.withdraw()
        self._lock_file.unlock()
