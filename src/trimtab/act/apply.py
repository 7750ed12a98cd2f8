"""Carrying a plan out, from the plan's file to the receipt: what the commands and the demo call."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from trimtab.act.journal_entries import Entry
from trimtab.act.lease import Lease
from trimtab.act.office import Office
from trimtab.act.replicas.machine import new_execution
from trimtab.act.replicas.observation import Observation, TopicPartition
from trimtab.act.replicas.performing import ReplicasMachine, Sense
from trimtab.act.replicas.port import ClusterPort
from trimtab.act.replicas.prepare import Comparison, compare, refuse_if_changed, refuse_if_elsewhere, steps_of
from trimtab.act.replicas.sensing import LoadSense
from trimtab.act.replicas.settings import ExecutionSettings
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import Step
from trimtab.act.replicas.throttle import first_rate
from trimtab.act.runner import Runner
from trimtab.model.errors import ActError
from trimtab.model.plan import MoveKind, Plan
from trimtab.model.receipt import ReplicaOutcome, ReplicasReceipt

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
        raise ActError(f"the plan is of level {plan.level}, not replicas: apply it to a cluster of its own")
    partitions = [TopicPartition(a.topic, a.partition) for a in plan.assignments]
    brokers = {b for a in plan.assignments for b in (*a.before, *a.after)}
    brokers |= {move.target for move in plan.moves if move.kind is MoveKind.LOG_DIR}
    seen = port.observe(partitions, sorted(brokers), wide=True)
    refuse_if_elsewhere(plan, seen)
    comparison = compare(plan, seen.placements, frozenset(seen.reassignments))
    refuse_if_changed(comparison, rebase=rebase)
    return Prepared(plan, seen, comparison, steps_of(plan, seen, comparison))


def begin(
    office: Office,
    prepared: Prepared,
    settings: ExecutionSettings,
    plan_text: str,
    facts: dict[str, Any] | None = None,
) -> int:
    """Write a new execution down; returns its id."""
    state = new_execution(prepared.seen.cluster_id, prepared.steps, settings, office.clock())
    return office.create(state, prepared.plan.snapshot.cluster, plan_text, facts)


def runner_of(
    office: Office,
    port: ClusterPort,
    lease: Lease | None,
    execution: int,
    *,
    sense: Sense | None = None,
    watch: Watch | None = None,
    settings: ExecutionSettings | None = None,
) -> Runner[ExecutionState]:
    """A runner that goes on from wherever the journal has it; other settings than then may be given."""
    state = state_of(office, execution)
    if settings is not None:
        state = replace(
            state,
            settings=settings,
            copies_per_broker=settings.copies_per_broker,
            rate_bytes_per_second=first_rate(settings, {}, ()),
        )
    machine = ReplicasMachine(port, office.clock, sense)
    return office.runner(machine, lease, execution, state, watch=watch)


def state_of(office: Office, execution: int) -> ExecutionState:
    """The state of an execution of this level, as the journal has it."""
    state = office.journal.state(execution)
    assert isinstance(state, ExecutionState), f"execution {execution} is of level {state.level}"
    return state


def receipt_of(entry: Entry, state: ExecutionState, sense: Sense | None = None) -> ReplicasReceipt:
    """The receipt of an execution, as far as it is; with measures where the load is known."""
    measured, source = sense.measures(state.records) if isinstance(sense, LoadSense) else (None, "")
    return ReplicasReceipt(
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
            ReplicaOutcome(
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
) -> ReplicasReceipt:
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
        execution = begin(office, prepared, settings, plan_text, facts)
        state = runner_of(office, port, lease, execution, sense=sense, watch=watch).run()
        return receipt_of(office.journal.entry(execution), state, sense)
