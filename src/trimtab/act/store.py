"""The store of executions of every level: the journal and the leases of one state folder."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trimtab.act.acting import Entry
from trimtab.act.execution.codec import Codecs
from trimtab.act.execution.settings import Patience
from trimtab.act.execution.state import FINAL, Status
from trimtab.act.holder import this_process
from trimtab.act.journal import Journal
from trimtab.act.lease import Lease, locked
from trimtab.act.port import ClaimPort
from trimtab.model.errors import ActError

JOURNAL_FILE = "executions.sqlite"
LEASES_FOLDER = "leases"


class ExecutionStore:
    """The journal and the leases of one state folder.

    Parameters
    ----------
    folder
        The state folder.
    codecs
        Of all levels that the journal may hold.
    clock, sleep
        Time.
    token
        Makes a name that no other process has.
    """

    def __init__(
        self,
        folder: Path,
        codecs: Codecs,
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
        settings: Patience,
        say: Callable[[str], None],
        *,
        besides: int | None = None,
    ) -> Iterator[Lease]:
        """The right to act on a cluster of which no execution waits to be resumed.

        Parameters
        ----------
        say
            Told what is worth saying about it.
        besides
            The execution that is to be resumed.

        Raises
        ------
        ActError
            If another trimtab has it, or naming the execution that was interrupted.
        """
        folder, seconds = self.folder / LEASES_FOLDER, settings.lease_seconds
        lease = Lease(port, folder, cluster_id, seconds, self.clock, self.sleep, self._token())
        notes = lease.acquire()
        try:
            for note in notes:
                say(note)
            self._refuse_if_interrupted(cluster_id, besides)
            yield lease
        finally:
            lease.release()

    def status(self, entry: Entry) -> str:
        """Its status as seen from here: `interrupted` where it has not ended and nobody runs it."""
        ended = Status(entry.status) in FINAL
        known = ended or locked(self.folder / LEASES_FOLDER, entry.cluster_id)
        return entry.status if known else "interrupted"

    def _refuse_if_interrupted(self, cluster_id: str, besides: int | None) -> None:
        for entry in self.journal.entries(cluster_id):
            if entry.id != besides and Status(entry.status) not in FINAL:
                raise ActError(
                    f"execution {entry.id} of cluster {cluster_id} was interrupted ({entry.owner}): go on "
                    f"with `trimtab execution resume {entry.id}`, or clean up with `trimtab execution "
                    f"cancel {entry.id}`"
                )

    def owner(self) -> str:
        """The name by which the journal knows this process where it runs an execution."""
        holder = this_process("", self.clock())
        return f"{holder.user}@{holder.host}, process {holder.pid}"
