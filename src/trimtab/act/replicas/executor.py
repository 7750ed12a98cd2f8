"""The executor of the balancer `replicas`: from a plan and the placement to steps, and to a receipt."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from trimtab.act.executor import (
    ExecutionSummary,
    Executor,
    NewestSnapshot,
    PlanDrift,
    PreparedPlan,
    StateCodec,
)
from trimtab.act.replicas.load_check import ReplicaLoadCheck, ReplicasForecast, forecast
from trimtab.act.replicas.machine import ReplicasMachine, new_execution
from trimtab.act.replicas.overrides import brokers_of, first_rate, warnings, with_drained
from trimtab.act.replicas.port import (
    ClusterObservation,
    ClusterPort,
    PartitionPlacement,
    ThrottleConfig,
    TopicPartition,
)
from trimtab.act.replicas.state import (
    UNMEASURED,
    ReplicasExecutionSettings,
    ReplicasExecutionState,
    ReplicaStep,
    ReplicaStepKind,
    ReplicaStepRecord,
    StepPhase,
)
from trimtab.model.errors import ActError
from trimtab.model.replicas.plan import (
    Plan,
    ReplicaAssignment,
    ReplicaMove,
    ReplicaMoveKind,
    ReplicaOutcome,
    ReplicasPlan,
    ReplicasReceipt,
)


class PartitionFit(StrEnum):
    """The standing of a partition to the plan."""

    AS_PLANNED = "as planned"
    """Where the plan found it."""
    ALREADY_DONE = "already done"
    """Where the plan wants it."""
    REORDERED = "reordered"
    """On the brokers where the plan found it, in another order: harmless."""
    MOVED = "moved"
    """On other brokers than the plan knows."""
    RESIZED = "resized"
    """With another replication factor."""
    DELETED = "deleted"
    """There is no such partition any more."""
    BUSY = "being reassigned"
    """Somebody is reassigning it right now."""


KAFKA_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{22}")
"""The form of Kafka's own cluster ids; a snapshot carries one unless the operator named the cluster."""
BETWEEN_BROKERS = (ReplicaMoveKind.REPLICA, ReplicaMoveKind.ADD, ReplicaMoveKind.DROP)
"""Moves that one change of a partition's list of brokers carries out."""
HARMLESS = frozenset({PartitionFit.AS_PLANNED, PartitionFit.ALREADY_DONE})


@dataclass(frozen=True, slots=True)
class PartitionDifference:
    """A partition that is not where the plan found it."""

    partition: TopicPartition
    fit: PartitionFit
    planned: tuple[int, ...]
    found: tuple[int, ...]

    def __str__(self) -> str:
        if self.fit is PartitionFit.DELETED:
            return f"{self.partition}: deleted since the plan was made"
        return (
            f"{self.partition}: {self.fit}, the plan was made for {list(self.planned)}, "
            f"found {list(self.found)}"
        )


def compare(
    plan: Plan, placements: Mapping[TopicPartition, PartitionPlacement], busy: frozenset[TopicPartition]
) -> PlanDrift[TopicPartition, PartitionFit]:
    """Hold the plan's `assignments.before` against the cluster.

    Parameters
    ----------
    placements
        Of the plan's partitions, as found; one that is missing does not exist.
    busy
        Partitions that somebody is reassigning.
    """
    standing, differences = {}, []
    for assignment in plan.assignments:
        partition = TopicPartition(assignment.topic, assignment.partition)
        placement = placements.get(partition)
        how = PartitionFit.BUSY if partition in busy else _fit_of(assignment, placement)
        standing[partition] = how
        if how not in HARMLESS:
            found = () if placement is None else placement.replicas
            differences.append(PartitionDifference(partition, how, assignment.before, found))
    return PlanDrift(standing, tuple(differences))


def _fit_of(assignment: ReplicaAssignment, placement: PartitionPlacement | None) -> PartitionFit:
    if placement is None:
        return PartitionFit.DELETED
    found = placement.replicas
    if found == assignment.after and assignment.leader_after in (None, placement.leader):
        moved_before = assignment.before == assignment.after
        return PartitionFit.AS_PLANNED if moved_before else PartitionFit.ALREADY_DONE
    if found == assignment.before or found == assignment.after:
        return PartitionFit.AS_PLANNED
    if frozenset(found) in (frozenset(assignment.before), frozenset(assignment.after)):
        return PartitionFit.REORDERED
    return PartitionFit.MOVED if len(found) == len(assignment.before) else PartitionFit.RESIZED


def require_same_cluster(plan: Plan, observation: ClusterObservation) -> None:
    """Refuse a plan that was made for another cluster.

    Raises
    ------
    ActError
        If the plan names another cluster by its id, or by a name of the operator's own and none of its
        partitions is there, or a destination that this cluster does not have. Kafka's own topics (`__...`)
        are in every cluster.
    """
    planned = plan.snapshot.cluster
    own = [TopicPartition(a.topic, a.partition) for a in plan.assignments if not a.topic.startswith("__")]
    strange = bool(own) and not any(partition in observation.placements for partition in own)
    if planned != observation.cluster_id and (strange or KAFKA_CLUSTER_ID.fullmatch(planned)):
        none = f", which has none of the plan's {len(own)} partitions" if strange else ""
        raise ActError(
            f"this plan is for cluster {planned}, this is {observation.cluster_id}{none}: check --cluster"
        )
    wanted = {broker for a in plan.assignments for broker in a.after if broker not in a.before}
    unknown = sorted(wanted - set(observation.brokers))
    if unknown:
        raise ActError(
            f"the plan gives replicas to broker {', '.join(map(str, unknown))}, and cluster "
            f"{observation.cluster_id} has no such broker: make a new plan, or start it first"
        )


def topics_that_shrink(plan: Plan) -> tuple[str, ...]:
    """Topics of which the plan drops replicas, ascending."""
    return tuple(sorted({a.topic for a in plan.assignments if len(a.after) < len(a.before)}))


def require_min_in_sync(plan: Plan, least: Mapping[str, int]) -> None:
    """Refuse to leave a partition fewer replicas than its topic needs in sync.

    Parameters
    ----------
    least
        `min.insync.replicas` of the topics that shrink, as far as they exist.

    Raises
    ------
    ActError
        Naming the topic, both numbers, and what to do.
    """
    for a in plan.assignments:
        if len(a.after) < min(len(a.before), least.get(a.topic, 0)):
            raise ActError(
                f"{a.topic}-{a.partition} would have {len(a.after)} replicas, and topic {a.topic} has "
                f"min.insync.replicas = {least[a.topic]}: producers with acks=all could write no more; ask "
                f"for {least[a.topic]} replicas or more, or lower min.insync.replicas first"
            )


def steps_of(
    plan: Plan, observation: ClusterObservation, comparison: PlanDrift[TopicPartition, PartitionFit]
) -> tuple[ReplicaStep, ...]:
    """The steps that lead from the placement as it is to the plan's, in the order of the plan's moves.

    Parameters
    ----------
    comparison
        Of the same placement; partitions that have moved, been resized, deleted or are busy get no step, and
        those that are only in another order do.
    observation
        A look that covers the plan's partitions and their brokers' log dirs; where a size was not told, the
        plan's figure counts.
    """
    moves: dict[TopicPartition, list[ReplicaMove]] = defaultdict(list)
    for move in sorted(plan.moves, key=lambda move: move.order):
        moves[TopicPartition(move.topic, move.partition)].append(move)
    assignments = {TopicPartition(a.topic, a.partition): a for a in plan.assignments}
    ordered = sorted(assignments, key=lambda p: (moves[p][0].order if p in moves else len(plan.moves) + 1, p))
    steps: list[ReplicaStep] = []
    for partition in ordered:
        if comparison.fit[partition] in (PartitionFit.AS_PLANNED, PartitionFit.REORDERED):
            _add(steps, assignments[partition], observation, moves[partition])
    return tuple(steps)


def _add(
    steps: list[ReplicaStep],
    assignment: ReplicaAssignment,
    observation: ClusterObservation,
    moves: list[ReplicaMove],
) -> None:
    partition = TopicPartition(assignment.topic, assignment.partition)
    placement = observation.placements[partition]
    size = _size(partition, placement, observation)
    held, after = placement.replicas, assignment.after
    leader = assignment.leader_after
    orders = {kind: tuple(m.order for m in moves if m.kind is kind) for kind in ReplicaMoveKind}
    orders[ReplicaMoveKind.LEADER] = tuple(
        sorted(orders[ReplicaMoveKind.LEADER] + orders[ReplicaMoveKind.ORDER])
    )
    previous: int | None = None

    def add(kind: ReplicaStepKind, phase: StepPhase, **fields: object) -> None:
        nonlocal previous
        number = len(steps) + 1
        steps.append(ReplicaStep(number, kind, phase, partition, follows=previous, **fields))  # type: ignore[arg-type]
        previous = number

    orders[ReplicaMoveKind.REPLICA] = tuple(sorted(o for kind in BETWEEN_BROKERS for o in orders[kind]))
    copies = frozenset(held) != frozenset(after)
    # Lead where the plan wants it only if that is the preferred leader: electing another needs a list that
    # is not the plan's, and a leader that stays where it is needs nothing.
    leads = leader is not None and after[:1] == (leader,)
    if leads and leader in held and (placement.leader != leader or (not copies and held != after)):
        order = after if not copies else (leader, *(broker for broker in held if broker != leader))
        add(
            ReplicaStepKind.LEAD,
            StepPhase.RELIEF,
            before=held,
            after=order,
            leader=leader,
            moves=orders[ReplicaMoveKind.LEADER],
        )
        held = order
    elif not copies and held != after:
        add(
            ReplicaStepKind.LEAD,
            StepPhase.RELIEF,
            before=held,
            after=after,
            moves=orders[ReplicaMoveKind.LEADER],
        )
        held = after
    if copies:
        dirs = {
            m.target: m.target_dir for m in moves if m.kind is not ReplicaMoveKind.LEADER and m.target_dir
        }
        added = [broker for broker in after if broker not in held]
        add(
            ReplicaStepKind.COPY,
            StepPhase.COPY,
            before=held,
            after=after,
            bytes=_bytes(size, moves, BETWEEN_BROKERS, len(added)),
            directories=tuple((broker, dirs[broker]) for broker in added if broker in dirs),
            moves=orders[ReplicaMoveKind.REPLICA],
        )
        if leads:
            # A new replica can lead only after its copy; else the role was handed over before, or stays.
            late = orders[ReplicaMoveKind.LEADER] if leader not in placement.replicas else ()
            add(ReplicaStepKind.LEAD, StepPhase.SETTLE, before=after, after=after, leader=leader, moves=late)
    final = {m.target: m.target_dir for m in moves if m.kind is ReplicaMoveKind.LOG_DIR and m.target_dir}
    for broker, path in final.items():
        if broker not in placement.replicas or broker not in after:
            continue  # a replica that is still to come is told its dir by its copy
        old = tuple(
            (broker, copy.path) for copy in observation.copies.get((partition, broker), ()) if not copy.future
        )
        add(
            ReplicaStepKind.LOG_DIR,
            StepPhase.COPY,
            before=after,
            after=after,
            bytes=_bytes(size, moves, (ReplicaMoveKind.LOG_DIR,), 1),
            directories=((broker, path),),
            old_directories=old,
            moves=orders[ReplicaMoveKind.LOG_DIR],
        )


def _size(
    partition: TopicPartition, placement: PartitionPlacement, observation: ClusterObservation
) -> int | None:
    """Bytes of one replica: the leader's, else the largest seen."""
    sizes = {
        broker: copy.size_bytes
        for broker in placement.replicas
        for copy in observation.copies.get((partition, broker), ())
        if not copy.future
    }
    if placement.leader in sizes:
        return sizes[placement.leader]
    return max(sizes.values(), default=None)


def _bytes(
    size: int | None, moves: list[ReplicaMove], kinds: tuple[ReplicaMoveKind, ...], copies: int
) -> int:
    if size is not None:
        return size * copies
    return max((move.bytes for move in moves if move.kind in kinds), default=0) * copies


def observe(port: ClusterPort, plan: ReplicasPlan) -> tuple[str, ClusterObservation]:
    """Read the partitions, reassignments and log dirs of a plan."""
    partitions = [TopicPartition(a.topic, a.partition) for a in plan.assignments]
    brokers = {b for a in plan.assignments for b in (*a.before, *a.after)}
    brokers |= {move.target for move in plan.moves if move.kind is ReplicaMoveKind.LOG_DIR}
    seen = port.observe(partitions, sorted(brokers), wide=True)
    require_same_cluster(plan, seen)
    if topics := topics_that_shrink(plan):
        require_min_in_sync(plan, port.min_in_sync(topics))
    return seen.cluster_id, seen


def prepare(plan: ReplicasPlan, observation: ClusterObservation, rebase: bool) -> PreparedPlan:
    """Compare a plan with the observed cluster; returns the steps that still fit."""
    comparison = compare(plan, observation.placements, frozenset(observation.reassignments))
    comparison.require_unchanged("partitions have changed", rebase=rebase)
    return PreparedPlan(
        plan, observation.cluster_id, observation, comparison, steps_of(plan, observation, comparison)
    )


def forecast_of(
    prepared: PreparedPlan, settings: ReplicasExecutionSettings, sense: ReplicaLoadCheck | None
) -> ReplicasForecast:
    """Batches of a prepared plan, with their sizes and durations."""
    load = None if sense is None else sense.without_drops()
    return forecast(prepared.steps, prepared.observation, prepared.observation.at, settings, load)


def warnings_before(
    port: ClusterPort, prepared: PreparedPlan, settings: ReplicasExecutionSettings, expected: ReplicasForecast
) -> list[str]:
    """See `Executor.warnings`: throttles that others have set."""
    rate = expected.rate_bytes_per_second
    # Without a throttle of ours nothing is replaced, and the right to read settings may be missing.
    default = ThrottleConfig() if rate is None else port.read_throttle([])
    return _of_throttles(port, prepared.steps, prepared.observation.alive, rate, default)


def resume_warnings(port: ClusterPort, state: ReplicasExecutionState) -> list[str]:
    """See `Executor.resume_warnings`: the brokers' own throttles; the rate for all brokers may be ours."""
    left = tuple(record.step for record in state.records if not record.ended)
    alive = port.observe((), (), wide=False).alive
    return _of_throttles(port, left, alive, _resumed_throttle(state, state.settings), ThrottleConfig())


def _resumed_throttle(state: ReplicasExecutionState, settings: ReplicasExecutionSettings) -> float | None:
    """The throttle that an execution is gone on with, by the load that it knew last."""
    left = [record.step for record in state.records if not record.ended and record.step.added]
    return first_rate(settings, state.load.headroom, brokers_of(left))


def _of_throttles(
    port: ClusterPort,
    steps: tuple[ReplicaStep, ...],
    alive: frozenset[int],
    rate: float | None,
    default: ThrottleConfig,
) -> list[str]:
    # Steps without copies are held back by no throttle.
    brokers = {broker for step in steps if step.added for broker in (*step.before, *step.added)}
    return warnings(rate, default, port.own_rates(brokers & alive)) if brokers else []


def with_settings(
    state: ReplicasExecutionState, settings: ReplicasExecutionSettings
) -> ReplicasExecutionState:
    """See `Executor.with_settings`: the pace begins anew."""
    return replace(
        state,
        settings=settings,
        initial_copies_per_broker=settings.initial_copies_per_broker,
        rate_bytes_per_second=_resumed_throttle(state, settings),
    )


def sense(
    plan: ReplicasPlan, newest: NewestSnapshot, settings: ReplicasExecutionSettings
) -> ReplicaLoadCheck | None:
    """See `Executor.sense`: the load of the newest snapshots; None where there is none."""
    first = newest()
    return None if first is None else ReplicaLoadCheck(plan, first[1], newest, drop=settings.skip_unneeded)


def receipt_of(entry: ExecutionSummary, state: ReplicasExecutionState, sense: object) -> ReplicasReceipt:
    """The receipt of an execution of replicas, complete or partial."""
    measured, source = None, ""
    if isinstance(sense, ReplicaLoadCheck):
        measured, source = sense.measures(state.records, entry.created_at)
    return ReplicasReceipt(
        measured=measured,
        measured_from=source,
        notes=state.notes,
        outcomes=tuple(_outcome(record) for record in state.records),
        **entry.receipt_fields(state),
    )


def _outcome(record: ReplicaStepRecord) -> ReplicaOutcome:
    step = record.step
    return ReplicaOutcome(
        topic=step.partition.topic,
        partition=step.partition.partition,
        before=step.before,
        after=step.after,
        bytes=step.bytes,
        kind=step.kind,
        moves=step.moves,
        **record.outcome_fields(),
    )


EXECUTOR = Executor(
    codec=StateCodec(
        ReplicasExecutionState, ReplicaStepRecord, frozenset({"copied_bytes", "advanced_at", *UNMEASURED})
    ),
    settings=ReplicasExecutionSettings,
    observe=observe,
    prepare=prepare,
    forecast=forecast_of,
    warnings=warnings_before,
    resume_warnings=resume_warnings,
    new_execution=new_execution,
    of_plan=with_drained,
    with_settings=with_settings,
    sense=sense,
    machine=ReplicasMachine,
    receipt=receipt_of,
)
