"""Carrying a plan out, from the plan's file to the receipt: what the commands and the demo call."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trimtab.act.execution.machine import new_execution
from trimtab.act.execution.observation import Observation, TopicPartition
from trimtab.act.execution.prepare import (
    Comparison,
    compare,
    refuse_if_changed,
    refuse_if_elsewhere,
    steps_of,
)
from trimtab.act.execution.settings import ExecutionSettings
from trimtab.act.execution.state import FINAL, ExecutionState, Status
from trimtab.act.execution.steps import Step
from trimtab.act.execution.throttle import first_rate
from trimtab.act.holder import this_process
from trimtab.act.journal import Journal
from trimtab.act.journal_entries import Entry
from trimtab.act.lease import Lease
from trimtab.act.lock_file import locked
from trimtab.act.port import ClusterPort
from trimtab.act.runner import Runner, Sense
from trimtab.act.sensing import LoadSense
from trimtab.model.errors import ActError
from trimtab.model.plan import MoveKind, Plan
from trimtab.model.receipt import Outcome, Receipt

JOURNAL_FILE = "executions.sqlite"
LEASES_FOLDER = "leases"

Watch = Callable[[ExecutionState], None]


@dataclass(frozen=True)
class Prepared:
    """A plan held against the cluster, and the steps that are left of it."""

    plan: Plan
    seen: Observation
    comparison: Comparison
    steps: tuple[Step, ...]


def prepare(port: ClusterPort, plan: Plan, *, rebase: bool = False) -> Prepared:
    """Hold a plan against the cluster as it is; changes nothing.

    Raises
    ------
    ActError
        If the plan is not for replicas, is for another cluster or for brokers that this one does not have,
        or its partitions have changed since and `rebase` is not asked.
    """
    if plan.level != "replicas":
        raise ActError(f"the plan is of level {plan.level}: only replicas can be applied so far")
    partitions = [TopicPartition(a.topic, a.partition) for a in plan.assignments]
    brokers = {b for a in plan.assignments for b in (*a.before, *a.after)}
    brokers |= {move.target for move in plan.moves if move.kind is MoveKind.LOG_DIR}
    seen = port.observe(partitions, sorted(brokers), wide=True)
    refuse_if_elsewhere(plan, seen)
    comparison = compare(plan, seen.placements, frozenset(seen.reassignments))
    refuse_if_changed(comparison, rebase=rebase)
    return Prepared(plan, seen, comparison, steps_of(plan, seen, comparison))


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
        self, port: ClusterPort, cluster_id: str, settings: ExecutionSettings
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
        self,
        prepared: Prepared,
        settings: ExecutionSettings,
        plan_text: str,
        facts: dict[str, Any] | None = None,
    ) -> int:
        """Write a new execution down; returns its id."""
        now = self._clock()
        cluster_id = prepared.seen.cluster_id
        state = new_execution(cluster_id, prepared.steps, settings, now)
        return self.journal.create(
            state, prepared.plan.snapshot.cluster, plan_text, self._owner(now), dict(facts or {})
        )

    def runner(
        self,
        port: ClusterPort,
        lease: Lease | None,
        execution: int,
        *,
        sense: Sense | None = None,
        watch: Watch | None = None,
        settings: ExecutionSettings | None = None,
    ) -> Runner:
        """A runner that goes on from wherever the journal has it; other settings than then may be given."""
        self.journal.take_over(execution, self._owner(self._clock()))
        state = self.journal.state(execution)
        if settings is not None:
            state = replace(
                state,
                settings=settings,
                copies_per_broker=settings.copies_per_broker,
                rate_bytes_per_second=first_rate(settings, {}, ()),
            )
        return Runner(
            port,
            self.journal,
            lease,
            execution,
            state,
            clock=self._clock,
            sleep=self._sleep,
            sense=sense,
            watch=watch,
        )

    def _owner(self, now: float) -> str:
        holder = this_process("", now)
        return f"{holder.user}@{holder.host}, process {holder.pid}"


def receipt_of(entry: Entry, state: ExecutionState, sense: Sense | None = None) -> Receipt:
    """The receipt of an execution, as far as it is; with measures where the load is known."""
    measured, source = sense.measures(state.records) if isinstance(sense, LoadSense) else (None, "")
    return Receipt(
        measured=measured,
        measured_from=source,
        execution=entry.id,
        cluster=entry.cluster,
        cluster_id=entry.cluster_id,
        status=state.status,
        reason=state.reason,
        started_at=entry.created_at,
        ended_at=entry.ended_at if entry.ended_at is not None else max(state.now, entry.created_at),
        batches=state.batches,
        outcomes=tuple(
            Outcome(
                kind=record.step.kind,
                topic=record.step.partition.topic,
                partition=record.step.partition.partition,
                before=record.step.before,
                after=record.step.after,
                bytes=record.step.bytes,
                state=record.state,
                reason=record.reason,
                moves=record.step.moves,
                started_at=record.started_at,
                ended_at=record.ended_at,
            )
            for record in state.records
        ),
    )


def apply_plan(
    port: ClusterPort,
    office: Office,
    plan: Plan,
    plan_text: str,
    settings: ExecutionSettings,
    *,
    rebase: bool = False,
    sense: Sense | None = None,
    watch: Watch | None = None,
    facts: dict[str, Any] | None = None,
) -> Receipt:
    """Carry a plan out to its end: lease, comparison, journal, execution, receipt.

    Raises
    ------
    ActError
        If another trimtab acts there, an earlier execution is interrupted, the plan does not fit the cluster
        any more, or the cluster is out of reach for too long.
    """
    prepared = prepare(port, plan, rebase=rebase)
    cluster_id = prepared.seen.cluster_id
    with office.lease(port, cluster_id, settings) as (lease, _):
        office.refuse_if_interrupted(cluster_id)
        execution = office.create(prepared, settings, plan_text, facts)
        state = office.runner(port, lease, execution, sense=sense, watch=watch).run()
        return receipt_of(office.journal.entry(execution), state, sense)
