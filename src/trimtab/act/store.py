"""The store of executions of every balancer: the journal and the leases of one state folder."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trimtab.act.execution.codec import StateCodecs
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.execution.state import FINAL, ExecutionStatus
from trimtab.act.executor import ExecutionSummary
from trimtab.act.journal import Journal
from trimtab.act.lease import Lease, locked
from trimtab.act.lease_holder import clock_text, this_process
from trimtab.act.port import ClaimPort
from trimtab.model.errors import ActError

JOURNAL_FILE = "executions.sqlite"


class ExecutionStore:
    """The journal and the leases of one state folder.

    Parameters
    ----------
    folder
        The state folder.
    codecs
        Of all balancers that the journal may hold.
    clock, sleep
        Time.
    token
        Makes a name that no other process has.
    """

    def __init__(
        self,
        folder: Path,
        codecs: StateCodecs,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        token: Callable[[], str],
    ) -> None:
        self.folder = folder
        self.journal = Journal(folder / JOURNAL_FILE, codecs)
        self.clock = clock
        self.sleep = sleep
        self._token = token

    def close(self) -> None:
        """Close the journal."""
        self.journal.close()

    @contextmanager
    def lease(
        self,
        port: ClaimPort,
        cluster_id: str,
        settings: RetryPolicy,
        print_progress: Callable[[str], None],
        *,
        besides: int | None = None,
    ) -> Iterator[Lease]:
        """The right to act on a cluster of which no execution waits to be resumed.

        Parameters
        ----------
        print_progress
            Told what is worth saying about it.
        besides
            The execution that is to be resumed.

        Raises
        ------
        ActError
            If another trimtab has it, or naming the execution that was interrupted.
        """
        lease = self._lease(port, cluster_id, settings)
        notes = lease.acquire()
        try:
            for note in notes:
                print_progress(note)
            self._require_uninterrupted(cluster_id, besides)
            yield lease
        finally:
            lease.release()

    def require_free_lease(
        self, port: ClaimPort, cluster_id: str, settings: RetryPolicy, print_progress: Callable[[str], None]
    ) -> None:
        """Raise where `lease` would, naming the execution, who runs or ran it, where and since when.

        Nothing is touched; what the dead may have left with state folders of their own is said.
        """
        dead = self._lease(port, cluster_id, settings).check_claims()
        self._require_uninterrupted(cluster_id, None)
        for holder in dead:
            if holder.folder != str(self.folder):  # else our journal knows that its execution has ended
                left = f"{holder} is no longer alive and may have left cluster {cluster_id} half changed"
                print_progress(
                    f"warning: {left}: go on there with `trimtab execution resume{holder.number}` first"
                )

    def status(self, entry: ExecutionSummary) -> str:
        """Its status as seen from here: `interrupted` where it has not ended and nobody runs it."""
        ended = ExecutionStatus(entry.status) in FINAL
        known = ended or locked(self.folder, entry.cluster_id)
        return entry.status if known else "interrupted"

    def _lease(self, port: ClaimPort, cluster_id: str, settings: RetryPolicy) -> Lease:
        seconds = settings.lease_seconds
        return Lease(port, self.folder, cluster_id, seconds, self.clock, self.sleep, self._token())

    def _require_uninterrupted(self, cluster_id: str, besides: int | None) -> None:
        for entry in self.journal.entries(cluster_id):
            if entry.id != besides and ExecutionStatus(entry.status) not in FINAL:
                raise ActError(
                    f"execution {entry.id} of cluster {cluster_id} was interrupted ({entry.owner}, begun "
                    f"{clock_text(entry.created_at)}): go on with `trimtab execution resume {entry.id}`, or "
                    f"clean up with `trimtab execution cancel {entry.id}`"
                )

    def owner(self) -> str:
        """The name by which the journal knows this process where it runs an execution."""
        holder = this_process("", self.clock())
        return f"{holder.user}@{holder.host}, process {holder.pid}"
