"""Batches: the steps to begin now, within the limits in flight and with room on every disk."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trimtab.act.execution.messages import Command
from trimtab.act.execution.record import Blocked, Choice, held_by_earlier
from trimtab.act.replicas.messages import MoveLogDirs, Reassign, Vector
from trimtab.act.replicas.port import ClusterObservation
from trimtab.act.replicas.settings import ReplicasExecutionSettings
from trimtab.act.replicas.state import ReplicasExecutionState
from trimtab.act.replicas.steps import (
    UNMEASURED,
    ReplicaStep,
    ReplicaStepKind,
    ReplicaStepRecord,
    ReplicaStepState,
    StepPhase,
)
from trimtab.act.replicas.throttle import brokers_of, first_rate, order_for_throttle
from trimtab.model.replicas.resources import RESOURCES


def choose_batch(state: ReplicasExecutionState) -> Choice[ReplicaStep]:
    """Pick the next batch from the earliest phase that has a step to begin; none may be active.

    The last look must be fresh and cover every pending step and the log dirs of their destinations.

    Where the load is known, a step that would take a broker past θ on the way waits for those that relieve
    it. When nothing else is left, the first such step goes all the same, alone: a plan may have no other way,
    and the end is what counts.

    Returns
    -------
    Choice
        Steps in order of number. A phase waits for the one before it only where a step follows another of
        its partition; otherwise a blocked step holds nobody up.
    """
    by_number = {record.step.number: record for record in state.records}
    room = _free_bytes(state.observation, state.settings)
    strength = dict(state.load.free)
    crowded: list[ReplicaStep] = []
    blocked: dict[int, Blocked] = {}
    for phase in StepPhase:
        batch: list[ReplicaStep] = []
        load: Counter[int] = Counter()
        busy = set()
        for record in state.pending:
            step = record.step
            if step.phase is not phase:
                continue
            gains = state.load.gains.get(step.number, {})
            why = _held_up(record, by_number, state)
            if why is None and step.partition in busy:
                why = Blocked("another step of its partition is in this batch", blocking=True)
            if why is None:
                why = _over_limit(step, len(batch), load, state)
            if why is None:
                why = _no_disk_space(step, room)
            if why is None:
                why = _too_much(gains, strength)
                crowded += [step] if why is not None else []
            if why is not None:
                blocked[step.number] = why
                continue
            batch.append(step)
            busy.add(step.partition)
            load.update(_endpoints(step))
            _reserve_disk_space(step, room)
            _reserve_bandwidth(gains, strength)
        if batch:
            return Choice(_of_one_request(batch), blocked)
    return Choice(tuple(crowded[:1]), blocked)


def _of_one_request(batch: Sequence[ReplicaStep]) -> tuple[ReplicaStep, ...]:
    """Without the moves between log dirs where there are copies, too: Kafka has a request for each."""
    if any(step.kind is ReplicaStepKind.COPY for step in batch):
        return tuple(step for step in batch if step.kind is not ReplicaStepKind.LOG_DIR)
    return tuple(batch)


def _held_up(
    record: ReplicaStepRecord, by_number: Mapping[int, ReplicaStepRecord], state: ReplicasExecutionState
) -> Blocked | None:
    seen = state.observation
    step = record.step
    settles = step.phase is StepPhase.SETTLE
    if step.follows is not None and (held := held_by_earlier(by_number[step.follows], must_succeed=settles)):
        return held
    if record.not_before > state.now:
        return Blocked(f"will be tried again ({record.reason})", blocking=True)
    if step.partition in seen.reassignments:
        return Blocked("another reassignment of its partition is in flight")
    # A broker that is to move a replica between its own dirs is asked even while it is away.
    for broker in () if step.kind is ReplicaStepKind.LOG_DIR else step.destinations:
        if broker not in seen.alive:
            return Blocked(f"broker {broker} is dead or unknown")
    placement = seen.placements[step.partition]
    if step.kind is ReplicaStepKind.LEAD and frozenset(placement.replicas) != frozenset(step.after):
        # A new order for other brokers would be a copy: somebody has moved it since our own copy ended.
        return Blocked(f"its replicas are now {list(placement.replicas)}, not {list(step.after)}")
    if step.leader is not None and step.leader not in placement.in_sync:
        return Blocked(f"the replica on broker {step.leader} is not in sync")
    if step.kind is ReplicaStepKind.COPY and placement.leader is None:
        return Blocked("it is offline, so there is nothing to copy from")
    return None


def _over_limit(
    step: ReplicaStep, chosen: int, load: Counter[int], state: ReplicasExecutionState
) -> Blocked | None:
    settings = state.settings
    if step.kind is ReplicaStepKind.LEAD:
        if chosen >= settings.max_leaders_per_batch:
            return Blocked("the batch is full", blocking=True)
        return None
    if chosen >= settings.max_copies_per_cluster:
        return Blocked("the batch is full", blocking=True)
    for broker in _endpoints(step):
        if load[broker] >= state.initial_copies_per_broker:
            return Blocked(f"broker {broker} takes part in {load[broker]} copies already", blocking=True)
    return None


def _endpoints(step: ReplicaStep) -> tuple[int, ...]:
    """Brokers that a copy keeps busy: those that get one, and those that lose theirs.

    Data is read from the leader, wherever that is; the replica that leaves stands for it, so that evacuating
    one broker is limited too.
    """
    return () if step.kind is ReplicaStepKind.LEAD else (*step.destinations, *step.removed)


def _free_bytes(
    observation: ClusterObservation, settings: ReplicasExecutionSettings
) -> dict[tuple[int, str], float]:
    """Room of every log dir that takes replicas, above the reserve; infinite where it is not told."""
    room = {}
    for broker, dirs in observation.log_dirs.items():
        for log_dir in dirs:
            if log_dir.online and not log_dir.cordoned:
                free = float("inf")
                if log_dir.usable_bytes is not None and log_dir.usable_bytes >= 0:
                    free = log_dir.usable_bytes - settings.disk_reserve_fraction * (log_dir.total_bytes or 0)
                room[broker, log_dir.path] = free
    return room


def _destinations(step: ReplicaStep, room: Mapping[tuple[int, str], float]) -> list[tuple[int, str, int]]:
    """(broker, log dir, bytes) of each arriving copy.

    Where no dir is asked for, Kafka takes the one with the fewest partitions, whatever its room: we count on
    the fullest.
    """
    if step.kind is ReplicaStepKind.LEAD:
        return []
    asked = dict(step.directories)
    arriving = step.added if step.kind is ReplicaStepKind.COPY else tuple(asked)
    size = step.bytes // max(1, len(arriving))
    found = []
    for broker in arriving:
        path = asked.get(broker)
        if path is None:
            dirs = sorted((free, p) for (b, p), free in room.items() if b == broker)
            if not dirs:
                continue  # the broker did not tell; Kafka will refuse what it cannot hold
            path = dirs[0][1]
        found.append((broker, path, size))
    return found


def _no_disk_space(step: ReplicaStep, room: Mapping[tuple[int, str], float]) -> Blocked | None:
    for broker, path, size in _destinations(step, room):
        free = room.get((broker, path))
        if free is None:
            if any(b == broker for b, _ in room):
                return Blocked(f"broker {broker} has no log dir {path} that takes replicas", permanent=True)
            continue
        if size > free:
            return Blocked(
                f"broker {broker} has {max(0, int(free))} bytes free in {path} above the reserve, "
                f"the copy needs {size}"
            )
    return None


def _reserve_disk_space(step: ReplicaStep, room: dict[tuple[int, str], float]) -> None:
    for broker, path, size in _destinations(step, room):
        if (broker, path) in room:
            room[broker, path] -= size


def _too_much(gains: Mapping[int, Vector], strength: Mapping[int, Vector]) -> Blocked | None:
    for broker, gain in gains.items():
        for resource, (more, left) in enumerate(zip(gain, strength.get(broker, ()), strict=False)):
            if more > 0 and more > left * (1 + 1e-9) + 1e-9:
                return Blocked(
                    f"would take broker {broker} past its limit of {RESOURCES[resource]} on the way",
                    blocking=True,
                )
    return None


def _reserve_bandwidth(gains: Mapping[int, Vector], strength: dict[int, Vector]) -> None:
    """Load that the batch adds counts at once; load that it relieves counts after the next look."""
    for broker, gain in gains.items():
        if broker in strength:
            left_and_more = zip(strength[broker], gain, strict=False)
            strength[broker] = tuple(left - max(0.0, more) for left, more in left_and_more)


def with_first_rate(state: ReplicasExecutionState, batch: tuple[ReplicaStep, ...]) -> ReplicasExecutionState:
    """The state with the throttle that the first copies begin with; one that is set already stays."""
    copies = [step for step in batch if step.kind is ReplicaStepKind.COPY and step.added]
    if not copies or state.rate_bytes_per_second is not None or state.settings.throttle == "none":
        return state
    rate = first_rate(state.settings, state.load.headroom, brokers_of(copies))
    return replace(state, rate_bytes_per_second=rate)


def begin(
    state: ReplicasExecutionState, batch: tuple[ReplicaStep, ...]
) -> tuple[ReplicasExecutionState, Command]:
    """Put the throttle in force, then ask Kafka for the batch."""
    state = with_first_rate(state, batch)
    order = order_for_throttle(state, batch)
    if order is not None:
        return state, order
    chosen = {step.number for step in batch}
    state = replace(state, batches=state.batches + 1, blocked_since={}, full_poll_at=state.now)
    state = state.changing(
        [record for record in state.records if record.step.number in chosen],
        lambda record: replace(
            record,
            state=ReplicaStepState.REQUESTED,
            started_at=record.started_at or state.now,
            advanced_at=state.now,
            reason="",
            copied_bytes=0,
            **UNMEASURED,
        ),
    )
    directories = {(step.partition, broker): path for step in batch for broker, path in step.directories}
    if batch[0].kind is ReplicaStepKind.LOG_DIR:
        return state, MoveLogDirs(directories)
    resized = frozenset(step.partition for step in batch if step.resizes)
    return state, Reassign({step.partition: step.after for step in batch}, directories, resized)
