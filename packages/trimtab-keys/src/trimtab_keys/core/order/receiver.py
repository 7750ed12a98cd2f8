"""The consumer's side of the order guard: which of the records received may take effect now."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from trimtab_keys.core.order.messages import (
    CommitOffset,
    DropRecord,
    Fence,
    OrderedRecord,
    OrderingConfig,
    ProbePartition,
    ReadCheckpoint,
    ReceiverOrder,
    ReleaseRecord,
    SearchStream,
    SkipSequence,
    Stream,
)


class HeldRecord(NamedTuple):
    """A record that waits: where it lies, and since when it is here."""

    partition: int
    offset: int
    record: OrderedRecord
    since: float


@dataclass(slots=True)
class PartitionState:
    """A partition that is ours.

    Attributes
    ----------
    position
        The next offset that will be received.
    committed
        What was ordered to be committed.
    unfinished, finished
        Offsets received, in their order, and those of them that are done with.
    behind
        Records that wait at or behind a fence, by key group.
    fenced
        Records that wait at a fence, by stream; they keep their order by their sequence.
    full_since
        When it was last found to hold as many records as may wait; None where it does not.
    """

    position: int
    committed: int
    unfinished: deque[int] = field(default_factory=deque)
    finished: set[int] = field(default_factory=set)
    behind: dict[int, deque[HeldRecord]] = field(default_factory=dict)
    fenced: dict[Stream, deque[HeldRecord]] = field(default_factory=dict)
    full_since: float | None = None


class OrderedReceiver:
    """The partitions that one consumer has, the records in them that are not done, and why they wait.

    All of it is found again in the log, the commits and the marks by whoever takes a partition over.

    Attributes
    ----------
    lanes
        By partition.
    """

    def __init__(self, settings: OrderingConfig | None = None) -> None:
        self.settings = OrderingConfig() if settings is None else settings
        self.lanes: dict[int, PartitionState] = {}
        self._passed: dict[int, int] = {}
        self._marks: dict[Stream, int] = {}
        self._early: dict[Stream, dict[int, HeldRecord]] = {}
        self._searched: dict[Stream, float] = {}
        self._records: dict[tuple[int, int], OrderedRecord] = {}
        self._probed: dict[int, set[tuple[int, int]]] = {}
        self._probed_at: dict[int, float] = {}
        self._forgiven: set[tuple[int, int, int]] = set()

    @property
    def held(self) -> int:
        """Records received that may not take effect yet."""
        held = sum(map(len, self._early.values()))
        for lane in self.lanes.values():
            held += sum(map(len, lane.behind.values())) + sum(map(len, lane.fenced.values()))
        return held

    def has_capacity(self, partition: int, now: float) -> bool:
        """Whether more of a partition is to be fetched; see `OrderingConfig.held_records`."""
        lane, most = self.lanes[partition], self.settings.held_records
        waiting = len(lane.unfinished) - len(lane.finished)
        if waiting <= (most - 1 if lane.full_since is None else most // 2):
            lane.full_since = None
            return True
        if lane.full_since is None:
            lane.full_since = now
        overdue = now - lane.full_since >= self.settings.gap_seconds
        if overdue:
            lane.full_since = now
        return overdue

    def waits_for(self, stream: Stream) -> bool:
        """Whether records of a stream are held until those before them have taken effect."""
        return stream in self._early

    @property
    def waits_at_fence(self) -> bool:
        """Whether a record waits until others' commits have passed its fence."""
        return any(lane.behind or lane.fenced for lane in self.lanes.values())

    @property
    def may_commit(self) -> bool:
        """Whether something is done that was not ordered to be committed."""
        return any(self.done_below(one) > lane.committed for one, lane in self.lanes.items())

    def done_below(self, partition: int) -> int:
        """The offset below which everything of a partition has taken effect."""
        lane = self.lanes[partition]
        while lane.unfinished and lane.unfinished[0] in lane.finished:
            lane.finished.discard(lane.unfinished.popleft())
        return lane.unfinished[0] if lane.unfinished else lane.position

    def assigned(self, partition: int, position: int) -> list[ReceiverOrder]:
        """A partition is ours from now on, to be received from what is committed, or from its beginning."""
        self.lanes[partition] = PartitionState(position, position)
        # Who waits for this partition knows it by its commits: it must have one, though nothing comes.
        return [CommitOffset(partition, position)]

    def revoked(self, partition: int) -> None:
        """A partition is another's; all of its records are forgotten."""
        self.lanes.pop(partition, None)
        for place in [one for one in self._records if one[0] == partition]:
            del self._records[place]
        for stream in list(self._early):
            left = {
                number: held for number, held in self._early[stream].items() if held.partition != partition
            }
            self._early[stream] = left
            if not left:
                del self._early[stream]

    def arrived(self, partition: int, offset: int, record: OrderedRecord, now: float) -> list[ReceiverOrder]:
        """A record was received; offsets ascend, with gaps where a log has no records."""
        lane = self.lanes.get(partition)
        if lane is None or offset < lane.position:
            return []
        lane.position = offset + 1
        lane.unfinished.append(offset)
        held = HeldRecord(partition, offset, record, now)
        stamp = record.stamp
        if stamp.sequence:
            if self._passes(held):
                return self._in_turn(held)
            lane.fenced.setdefault(record.stream, deque()).append(held)
            return []
        queue = lane.behind.get(record.group)
        if queue is not None:
            queue.append(held)
            return []
        if stamp.fence and not self._passes(held):
            lane.behind[record.group] = deque([held])
            return []
        return self._release(held)

    def positioned(self, partition: int, position: int) -> None:
        """Up to there the log has no more records: markers of transactions, or what was compacted away."""
        lane = self.lanes.get(partition)
        if lane is not None:
            lane.position = max(lane.position, position)

    def applied(self, partition: int, offset: int) -> list[ReceiverOrder]:
        """A released record has taken effect, or had done so before."""
        record = self._records.pop((partition, offset), None)
        if record is None:
            return []
        self.lanes[partition].finished.add(offset)
        if not record.stamp.sequence:
            return []
        return self.marked(record.stream, record.stamp.sequence)

    def marked(self, stream: Stream, sequence: int) -> list[ReceiverOrder]:
        """Everything of a stream up to a sequence has taken effect, somewhere."""
        before = self._marks.get(stream, 0)
        mark = self._marks[stream] = max(sequence, before)
        early = self._early.get(stream)
        if early is None:
            return []
        orders: list[ReceiverOrder] = []
        # A mark mostly grows by one: all that waits need not be gone through for it.
        grown = range(before + 1, mark + 1)
        for number in [
            one for one in (grown if len(grown) < len(early) else early) if one in grown and one in early
        ]:
            orders += self._drop(early.pop(number))
        if mark + 1 in early:
            orders += self._release(early.pop(mark + 1))
        if not early:
            del self._early[stream]
            self._searched.pop(stream, None)
        return orders

    def passed(self, partition: int, offset: int) -> list[ReceiverOrder]:
        """Everything below an offset of a partition has taken effect: it is committed."""
        if offset <= self._passed.get(partition, 0):
            return []
        self._passed[partition] = offset
        return self._freed()

    def ticked(self, now: float) -> list[ReceiverOrder]:
        """Time has passed: what is done is committed, and what has waited too long is looked after."""
        orders: list[ReceiverOrder] = []
        for partition, lane in self.lanes.items():
            low = self.done_below(partition)
            if low > lane.committed:
                lane.committed = low
                orders.append(CommitOffset(partition, low))
        for stream, early in self._early.items():
            # Another consumer may have done what is waited for: nobody tells us its marks.
            orders.append(ReadCheckpoint(stream))
            first, last = self._marks.get(stream, 0) + 1, min(early) - 1
            since = max(early[last + 1].since, self._searched.get(stream, 0.0))
            if now - since >= self.settings.gap_seconds:
                self._searched[stream] = now
                orders.append(SearchStream(stream, first, last))
        return orders + self._overdue(now)

    def searched(self, stream: Stream, first: int, found: int | None, last: int) -> list[ReceiverOrder]:
        """The lowest sequence found of those searched for; what is nowhere is skipped."""
        upto = last if found is None else found - 1
        if upto < first or self._marks.get(stream) != first - 1:
            return []
        return [SkipSequence(stream, first, upto)]

    def probed(self, partition: int, committed: int, end: int) -> list[ReceiverOrder]:
        """A partition's end: who waited for more than there is, and than was committed, waits no longer."""
        waiting = self._probed.pop(partition, set())
        if committed < end:
            return []
        self._forgiven.update((place, offset, partition) for place, offset in waiting)
        return self._freed()

    def _passes(self, held: HeldRecord) -> bool:
        fence: Fence = held.record.stamp.fence
        for partition, offset in fence:
            if (
                self._passed.get(partition, 0) < offset
                and (held.partition, held.offset, partition) not in self._forgiven
            ):
                return False
        return True

    def _release(self, held: HeldRecord) -> list[ReceiverOrder]:
        self._records[held.partition, held.offset] = held.record
        return [ReleaseRecord(held.partition, held.offset)]

    def _drop(self, held: HeldRecord) -> list[ReceiverOrder]:
        self.lanes[held.partition].finished.add(held.offset)
        return [DropRecord(held.partition, held.offset)]

    def _in_turn(self, held: HeldRecord) -> list[ReceiverOrder]:
        """A record of a stream that is behind no fence: now, when its turn comes, or never again."""
        stream, sequence = held.record.stream, held.record.stamp.sequence
        mark = self._marks.get(stream)
        if mark is not None and sequence <= mark:
            return self._drop(held)
        if mark is not None and sequence == mark + 1:
            return self._release(held)
        early = self._early.setdefault(stream, {})
        twin = early.get(sequence)
        if twin is not None:
            # The same record twice: either will do, and the first is here already.
            return self._drop(held)
        early[sequence] = held
        return [] if mark is not None else [ReadCheckpoint(stream)]

    def _freed(self) -> list[ReceiverOrder]:
        orders: list[ReceiverOrder] = []
        for lane in self.lanes.values():
            for group, queue in list(lane.behind.items()):
                while queue and self._passes(queue[0]):
                    orders += self._release(queue.popleft())
                if not queue:
                    del lane.behind[group]
            for stream, waiting in list(lane.fenced.items()):
                while waiting and self._passes(waiting[0]):
                    orders += self._in_turn(waiting.popleft())
                if not waiting:
                    del lane.fenced[stream]
        return orders

    def _overdue(self, now: float) -> list[ReceiverOrder]:
        """Probes for records that wait at a fence for too long; the answer excuses only what waits now.

        A partition may only lag: it is probed again after as long a wait, or its consumers would be asked
        at each tick and have no time left.
        """
        found: dict[int, set[tuple[int, int]]] = {}
        for lane in self.lanes.values():
            for held in (queue[0] for queue in (*lane.behind.values(), *lane.fenced.values())):
                if now - held.since >= self.settings.fence_seconds:
                    for partition, offset in held.record.stamp.fence:
                        due = now - self._probed_at.get(partition, -inf) >= self.settings.fence_seconds
                        if due and self._passed.get(partition, 0) < offset:
                            found.setdefault(partition, set()).add((held.partition, held.offset))
        self._probed |= found
        self._probed_at |= dict.fromkeys(found, now)
        return [ProbePartition(partition) for partition in sorted(found)]
