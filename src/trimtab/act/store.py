"""The store of executions of every level: the journal and the leases of one state folder."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trimtab.act.acting import Entry
from trimtab.act.execution.codec import Codecs
from trimtab.act.execution.settings import Patience
from trimtab.act.execution.state import FINAL, AnyExecution, Status
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
        self, port: ClaimPort, cluster_id: str, settings: Patience
    ) -> Iterator[tuple[Lease, list[str]]]:
        """The right to act on a cluster, and what is worth saying about it.

        Raises
        ------
        ActError
            If another trimtab has it.
        """
        lease = Lease(
            port,
            self.folder / LEASES_FOLDER,
            cluster_id,
            settings.lease_seconds,
            self.clock,
            self.sleep,
            self._token(),
        )
        notes = lease.acquire()
        try:
            yield lease, notes
        finally:
            lease.release()

    def entry(self, execution: int | None) -> Entry:
        """An execution, by default the newest.

        Raises
        ------
        ActError
            If there is none of that id, or none at all.
        """
        if execution is not None:
            return self.journal.entry(execution)
        entries = self.journal.entries()
        if not entries:
            raise ActError(f"there are no executions in {self.folder}: `trimtab apply` begins one")
        return entries[0]

    def status(self, entry: Entry) -> str:
        """Its status as seen from here: `interrupted` where it has not ended and nobody runs it."""
        if Status(entry.status) in FINAL:
            return entry.status
        if locked(self.folder / LEASES_FOLDER, entry.cluster_id):
            return entry.status
        return "interrupted"

    def refuse_if_interrupted(self, cluster_id: str, *, besides: int | None = None) -> None:
        """Refuse to begin while another execution of the cluster waits to be resumed; hold the lease.

        Raises
        ------
        ActError
            Naming the earlier one.
        """
        for entry in self.journal.entries(cluster_id):
            if entry.id != besides and Status(entry.status) not in FINAL:
                raise ActError(
                    f"execution {entry.id} of cluster {cluster_id} was interrupted ({entry.owner}): go on "
                    f"with `trimtab execution resume {entry.id}`, or clean up with `trimtab execution "
                    f"cancel {entry.id}`"
                )

    def create(
        self, state: AnyExecution, cluster: str, plan_text: str, facts: Mapping[str, Any] | None = None
    ) -> int:
        """Write a new execution down, of a plan for the cluster of that name; returns its id."""
        return self.journal.create(state, cluster, plan_text, self.owner(), dict(facts or {}))

    def owner(self) -> str:
        """The name by which the journal knows this process where it runs an execution."""
        holder = this_process("", self.clock())
        return f"{holder.user}@{holder.host}, process {holder.pid}"
