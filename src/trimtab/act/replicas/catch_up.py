"""Copies that catch up with their leader, or are outrun by what is written meanwhile.

A copy that gains bytes may still never arrive: under a throttle below the rate at which its partition is
written, what is left of it grows. So the bytes left are watched, not the bytes copied.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from trimtab.act.replicas.port import ClusterObservation
from trimtab.act.replicas.state import ReplicasExecutionState
from trimtab.act.replicas.steps import UNMEASURED, ReplicaStepKind, ReplicaStepRecord, ReplicaStepState
from trimtab.act.replicas.throttle import rate_text

SMOOTHING: Final = 0.2
"""Weight of the newest look in the rate at which a partition is written."""
DISK_SPACE: Final = 2.0
"""A throttle this many times the rate of writing leaves half of itself for what is there already."""
BURST_SECONDS: Final = 20.0
"""Kafka's throttle passes bytes in bursts: what is left swings by less than this much writing."""


def measured(
    record: ReplicaStepRecord, observation: ClusterObservation, copied: int | None, now: float
) -> ReplicaStepRecord:
    """The record with what is left of its copy after a look, where the look shows both ends.

    Parameters
    ----------
    copied
        Bytes that the new copies hold; None where a destination did not answer.
    """
    if copied is None:
        # What piles up while a destination is away says nothing about the throttle.
        return record if record.nearer_at is None else replace(record, **UNMEASURED)
    source = _source_bytes(record, observation)
    if source is None:
        return record
    copies = record.step.copies
    left = max(0, copies * source - copied)
    if record.measured_at is None or record.source_bytes is None:
        return replace(_nearer(record, left, now), source_bytes=source, measured_at=now)
    if now <= record.measured_at:
        return record
    rate = max(0, source - record.source_bytes) / (now - record.measured_at)
    if record.written_bytes_per_second > 0:
        rate = SMOOTHING * rate + (1 - SMOOTHING) * record.written_bytes_per_second
    began_again = copied < record.copied_bytes / 2 and source >= record.source_bytes
    least, most = record.min_remaining_bytes, record.max_remaining_bytes
    if least is None or most is None or began_again:
        record = _nearer(record, left, now)
    elif left < least or left < most - BURST_SECONDS * copies * rate:
        # The second: it had fallen back, while more was written or less let through, and now makes up.
        record = _nearer(record, left, now)
    elif left > most:
        record = replace(record, max_remaining_bytes=left)
    return replace(record, source_bytes=source, measured_at=now, written_bytes_per_second=rate)


def _nearer(record: ReplicaStepRecord, left: int, now: float) -> ReplicaStepRecord:
    return replace(record, min_remaining_bytes=left, max_remaining_bytes=left, nearer_at=now)


def _source_bytes(record: ReplicaStepRecord, observation: ClusterObservation) -> int | None:
    """Size of what is copied from; None where this look does not show it."""
    step = record.step
    if step.kind is ReplicaStepKind.LOG_DIR:
        sources = [broker for broker, _ in step.directories]
    else:
        source = _source(record, observation)
        sources = [] if source is None else [source]
    sizes = [
        copy.size_bytes
        for broker in sources
        for copy in observation.copies.get((step.partition, broker), ())
        if not copy.future and broker not in step.added
    ]
    return max(sizes, default=None)


def _source(record: ReplicaStepRecord, observation: ClusterObservation) -> int | None:
    """Whom a copy between brokers is read from: the leader."""
    placement = observation.placements.get(record.step.partition)
    return None if placement is None else placement.leader


def rate_to_keep_up(records: Iterable[ReplicaStepRecord], observation: ClusterObservation) -> float:
    """The least rate of a throttle at which these copies do not fall behind, bytes per second and broker."""
    passing: dict[tuple[str, int], float] = {}
    for record in records:
        step = record.step
        if step.kind is not ReplicaStepKind.COPY:
            continue
        written = record.written_bytes_per_second
        for broker in step.added:
            passing["in", broker] = passing.get(("in", broker), 0.0) + written
        source = _source(record, observation)
        if source is not None:
            passing["out", source] = passing.get(("out", source), 0.0) + written * len(step.added)
    return max(passing.values(), default=0.0)


def outrun(state: ReplicasExecutionState) -> dict[int, str]:
    """Number of each copy that is to be given up because it would never arrive, with the reason.

    Where several share a broker, and so its throttle, the one that is written fastest; what that frees may
    be enough for the others. One that shares with a copy that does get nearer waits for that to end.
    """
    copying = [
        r
        for r in state.active
        if r.state is ReplicaStepState.MOVING and r.step.kind is not ReplicaStepKind.LEAD
    ]
    standing = [r for r in copying if _is_stalled(state, r)]
    standing.sort(key=lambda r: (-r.written_bytes_per_second, r.step.number))
    getting_on = [r for r in copying if r.nearer_at is not None and r not in standing]
    chosen: list[ReplicaStepRecord] = []
    for record in standing:
        if not any(_share(state, record, other) for other in [*getting_on, *chosen]):
            chosen.append(record)
    return {record.step.number: _stall_reason(state, record, copying) for record in chosen}


def relieved(state: ReplicasExecutionState, leaving_numbers: Collection[int]) -> ReplicasExecutionState:
    """The state with new patience for copies that shared a broker with those that ended or are given up."""
    leaving = [r for r in state.records if r.step.number in leaving_numbers]
    staying = [r for r in state.active if r.nearer_at is not None and r.step.number not in leaving_numbers]
    return state.changing(
        [r for r in staying if any(_share(state, r, other) for other in leaving)],
        lambda r: replace(r, nearer_at=state.now, min_remaining_bytes=None),
    )


def _is_stalled(state: ReplicasExecutionState, record: ReplicaStepRecord) -> bool:
    return (
        record.nearer_at is not None and state.now - record.nearer_at >= state.settings.stall_timeout_seconds
    )


def _share(state: ReplicasExecutionState, one: ReplicaStepRecord, other: ReplicaStepRecord) -> bool:
    """True if two copies pass one broker in one direction, and so hold each other back."""
    if one.step.kind is not other.step.kind:
        return False
    return bool(_ends(state, one) & _ends(state, other))


def _ends(state: ReplicasExecutionState, record: ReplicaStepRecord) -> set[tuple[str, int | None]]:
    step = record.step
    if step.kind is ReplicaStepKind.LOG_DIR:
        return {("dir", broker) for broker, _ in step.directories}
    return {("in", broker) for broker in step.added} | {("out", _source(record, state.observation))}


def _stall_reason(
    state: ReplicasExecutionState, record: ReplicaStepRecord, copying: list[ReplicaStepRecord]
) -> str:
    assert record.nearer_at is not None
    written = rate_text(record.written_bytes_per_second)
    stood = f"no nearer to its end in {state.now - record.nearer_at:.0f} s, since {written} are written to it"
    rate = state.rate_bytes_per_second
    if record.step.kind is ReplicaStepKind.LOG_DIR:
        return f"{stood}, faster than its broker copies between log dirs: move it when less is written"
    if rate is None:
        return f"{stood}, faster than it is copied without a throttle: move it when less is written"
    together = [r for r in copying if _share(state, r, record)]
    needed = rate_to_keep_up(together, state.observation)
    if needed < 0.8 * rate:
        return (
            f"{stood}, and it is copied slower than the throttle of {rate_text(rate)} a broker allows: look "
            "for a throttle of a broker's own, a full network or a slow disk"
        )
    among = f", shared by {len(together)} copies" if len(together) > 1 else ""
    return (
        f"{stood} and the throttle lets {rate_text(rate)} a broker through{among}: plan again and apply with "
        f"--throttle {_rounded(DISK_SPACE * needed)} or more"
    )


def _rounded(bytes_per_second: float) -> int:
    """To two digits, upwards; a fraction of a byte is noise of the looks."""
    whole = round(bytes_per_second)
    step = 10 ** max(0, len(str(whole)) - 2)
    return int(-(-whole // step) * step)
