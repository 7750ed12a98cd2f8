"""Where executions of every level are kept and run: the journal and the leases of one state folder."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trimtab.act.execution.machine import Machine
from trimtab.act.execution.settings import Patience
from trimtab.act.execution.state import AnyExecution, StateT
from trimtab.act.execution.status import FINAL, Status
from trimtab.act.holder import this_process
from trimtab.act.journal import Journal
from trimtab.act.journal_entries import Entry
from trimtab.act.lease import Lease
from trimtab.act.lock_file import locked
from trimtab.act.port import ClaimPort
from trimtab.act.runner import Runner
from trimtab.model.errors import ActError

JOURNAL_FILE = "executions.sqlite"
LEASES_FOLDER = "leases"


class Office:
    """Where executions are kept and run: the journal and the leases of one state folder.

    Parameters
    ----------
    folder
        The state folder.
    clock, sleep
        Time.
    token
        Makes a name that no other process has.
    """

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        token: Callable[[], str],
    ) -> None:
        self.folder = folder
        self.journal = Journal(folder / JOURNAL_FILE)
        self._clock = clock
        self._sleep = sleep
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
            self._clock,
            self._sleep,
            self._token(),
        )
        notes = lease.acquire()
        try:
            yield lease, notes
        finally:
            lease.release()

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
        self, state: AnyExecution, cluster: str, plan_text: str, facts: dict[str, Any] | None = None
    ) -> int:
        """Write a new execution down, of a plan for the cluster of that name; returns its id."""
        return self.journal.create(state, cluster, plan_text, self._owner(self._clock()), dict(facts or {}))

    def runner(
        self,
        machine: Machine[StateT],
        lease: Lease | None,
        execution: int,
        state: StateT,
        *,
        watch: Callable[[StateT], None] | None = None,
    ) -> Runner[StateT]:
        """A runner that goes on from a state that the journal has, in the name of this process."""
        self.journal.take_over(execution, self._owner(self._clock()))
        return Runner(
            machine,
            self.journal,
            lease,
            execution,
            state,
            clock=self._clock,
            sleep=self._sleep,
            watch=watch,
        )

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds since 1970."""
        return self._clock

    def _owner(self, now: float) -> str:
        holder = this_process("", now)
        return f"{holder.user}@{holder.host}, process {holder.pid}"
