"""Batches of steps: their choice, Kafka's answers, rollbacks of hopeless copies, and elections of leaders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from trimtab.act.execution.port import Command, Failure
from trimtab.act.execution.state import well, without_destination
from trimtab.act.execution.steps import Blocked, Choice, held_by_earlier
from trimtab.act.replicas.overrides import brokers_of, first_rate, order_for_throttle
from trimtab.act.replicas.port import (
    Answers,
    CancelAnswered,
    CancelReassignments,
    ClusterObservation,
    ElectionAnswered,
    ElectPreferred,
    LogDirMovesAnswered,
    MoveLogDirs,
    Reassign,
    ReassignAnswered,
    Vector,
)
from trimtab.act.replicas.reconcile import out_of_order, outrun, relieved
from trimtab.act.replicas.state import (
    UNMEASURED,
    ReplicasExecutionSettings,
    ReplicasExecutionState,
    ReplicaStep,
    ReplicaStepKind,
    ReplicaStepRecord,
    ReplicaStepState,
    StepPhase,
)
from trimtab.model.replicas.settings import RESOURCES


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


MISSING: Final = frozenset({"UnknownTopicOrPartition", "UnknownTopicId"})
"""Kafka's codes for a partition that does not exist."""


def reassigned(state: ReplicasExecutionState, event: ReassignAnswered) -> ReplicasExecutionState:
    """Kafka's answer to each reassignment that was asked for."""
    return _requested(state, event.answers, (ReplicaStepKind.COPY, ReplicaStepKind.LEAD))


def log_dirs_moved(state: ReplicasExecutionState, event: LogDirMovesAnswered) -> ReplicasExecutionState:
    """Kafka's answer to each move between log dirs."""
    return _requested(state, event.answers, (ReplicaStepKind.LOG_DIR,))


def _requested(
    state: ReplicasExecutionState, answers: Answers, kinds: tuple[ReplicaStepKind, ...]
) -> ReplicasExecutionState:
    changed = {}
    for record in state.active:
        if record.step.kind not in kinds or record.step.partition not in answers:
            continue
        failure = answers[record.step.partition]
        if record.state is ReplicaStepState.REQUESTED:
            changed[record.step.number] = (
                replace(record, state=ReplicaStepState.MOVING, advanced_at=state.now)
                if failure is None
                else _refused(state, record, failure)
            )
    return well(replace(state.with_records(changed), fresh=False))


def _refused(state: ReplicasExecutionState, record: ReplicaStepRecord, failure: Failure) -> ReplicaStepRecord:
    if failure.code in MISSING:
        return record.end(
            ReplicaStepState.SKIPPED, state.now, f"{record.step.partition.topic} has been deleted"
        )
    if failure.code == "InvalidReplicationFactor":
        return record.end(ReplicaStepState.SKIPPED, state.now, failure.message)
    why = f"Kafka refused: {failure.code}: {failure.message}"
    if failure.transient:
        return record.set_back(state.now, state.settings, why)
    return record.end(ReplicaStepState.FAILED, state.now, why)


def cancelled(state: ReplicasExecutionState, event: CancelAnswered) -> ReplicasExecutionState:
    """Whatever the answer, the next look tells; a transient refusal is tried again soon."""
    changed = {}
    for record in state.active:
        failure = event.answers.get(record.step.partition)
        if record.state is ReplicaStepState.ROLLING_BACK and failure is not None and failure.transient:
            changed[record.step.number] = _retry(record, state)
    return well(replace(state.with_records(changed), fresh=False))


def elected(state: ReplicasExecutionState, event: ElectionAnswered) -> ReplicasExecutionState:
    """Kafka's answer to each election; a follower that could not take over is tried again."""
    changed = {}
    for record in state.active:
        failure = event.answers.get(record.step.partition)
        if record.state is not ReplicaStepState.ELECTING or failure is None:
            continue
        attempts = record.attempts + 1
        why = f"broker {record.step.leader} could not take over: {failure.code}: {failure.message}"
        if failure.code in MISSING:
            changed[record.step.number] = _refused(state, record, failure)
        elif attempts >= state.settings.max_attempts:
            changed[record.step.number] = record.end(ReplicaStepState.FAILED, state.now, why)
        else:
            changed[record.step.number] = _retry(record, state, why)
    return well(replace(state.with_records(changed), fresh=False))


def give_up_hopeless(state: ReplicasExecutionState) -> ReplicasExecutionState:
    """Roll back copies whose destination is dead or that do not get on; fail what waits for the dead."""
    left = (r for r in state.records if not r.ended and r.state is not ReplicaStepState.ROLLING_BACK)
    without = without_destination(state, left)
    hopeless = {n: f"broker {broker}, its destination, is dead" for n, broker in without.items()}
    for record in state.active:
        copying = record.step.kind is not ReplicaStepKind.LEAD and record.state is ReplicaStepState.MOVING
        still = state.now - (record.advanced_at if record.advanced_at is not None else state.now)
        if copying and still >= state.settings.stall_timeout_seconds:
            hopeless.setdefault(record.step.number, f"no progress in {still:.0f} s")
    state = relieved(state, outrunning := outrun(state))
    hopeless = outrunning | hopeless
    state = state.changing(
        [record for record in state.pending if record.step.number in hopeless],
        lambda record: record.end(ReplicaStepState.FAILED, state.now, hopeless[record.step.number]),
    )
    return roll_back(state, hopeless, ReplicaStepState.FAILED)


def roll_back(
    state: ReplicasExecutionState, why: dict[int, str], final: ReplicaStepState
) -> ReplicasExecutionState:
    """Mark steps under way as to be rolled back, to end as `final`.

    Parameters
    ----------
    why
        Step number -> reason; an empty one leaves the reason that the record has.
    """
    chosen = [
        r for r in state.active if r.step.number in why and r.state is not ReplicaStepState.ROLLING_BACK
    ]
    return state.changing(
        chosen,
        lambda record: replace(
            record,
            state=ReplicaStepState.ROLLING_BACK,
            rollback=final,
            reason=why[record.step.number] or record.reason,
            not_before=0.0,
            advanced_at=state.now,
        ),
    )


def order_for_active(state: ReplicasExecutionState) -> tuple[ReplicasExecutionState, Command | None]:
    """The next order for steps under way: rolling back, then elections."""
    rolling = [r for r in state.active if r.state is ReplicaStepState.ROLLING_BACK]
    disordered = [r for r in rolling if out_of_order(r, state.observation)]
    again = [r for r in disordered if r.not_before <= state.now or r.attempts == 0]
    if again:
        state = state.changing(again, lambda r: _retry(r, state))
        return state, Reassign({r.step.partition: r.step.before for r in again}, {})
    due = [r for r in state.active if r.not_before <= state.now and r not in disordered]
    later = state.now + state.settings.metadata_lag_seconds
    for kind in ReplicaStepKind:
        chosen = [r for r in due if r.state is ReplicaStepState.ROLLING_BACK and r.step.kind is kind]
        if chosen:
            state = state.changing(chosen, lambda r: replace(r, not_before=later))
            return state, _rollback_command(kind, chosen)
    electing = [r for r in due if r.state is ReplicaStepState.ELECTING]
    if electing:
        state = state.changing(electing, lambda r: replace(r, not_before=later))
        return state, ElectPreferred(tuple(record.step.partition for record in electing))
    return state, None


def _retry(
    record: ReplicaStepRecord, state: ReplicasExecutionState, why: str | None = None
) -> ReplicaStepRecord:
    attempts = record.attempts + 1
    again = state.now + state.settings.backoff(attempts)
    reason = record.reason if why is None else why
    return replace(record, attempts=attempts, not_before=again, reason=reason)


def _rollback_command(kind: ReplicaStepKind, records: list[ReplicaStepRecord]) -> Command:
    steps = [record.step for record in records]
    if kind is ReplicaStepKind.COPY:
        return CancelReassignments(tuple(step.partition for step in steps))
    if kind is ReplicaStepKind.LEAD:
        return Reassign({step.partition: step.before for step in steps}, {})
    return MoveLogDirs({(s.partition, broker): path for s in steps for broker, path in s.old_directories})
