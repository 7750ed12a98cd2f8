"""Simulation of producers and consumers that follow routing tables and keep the order of each key.

Tables are published while records flow, by the same steps as an execution of the balancer `keys`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from math import floor, inf
from random import Random
from typing import Protocol

from trimtab.act.keys.machine import settled, with_routes
from trimtab.files.keys.settings import KeysSettings
from trimtab.history.keys.simulation import (
    KeysSimulationRun,
    KeysSimulationSettings,
    KeyStream,
    SimulatedConsumers,
)
from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.keys import (
    HotKey,
    KeyGroupLoad,
    KeysPlan,
    KeysSnapshot,
    PartitionLoad,
    RoutingMoveKind,
    key_text,
)
from trimtab.plan.keys.trim import plan_keys
from trimtab_keys.core.order import (
    CommitOffset,
    Flush,
    OrderedReceiver,
    OrderedRecord,
    OrderedSender,
    OrderingConfig,
    ReadCheckpoint,
    ReadEnds,
    ReceiverOrder,
    ReleaseRecord,
    SenderOrder,
    Stream,
)
from trimtab_keys.core.routing import RoutingTable, group_count, key_group


@dataclass(frozen=True, slots=True)
class OrderingDelays:
    """The durations of the steps of the order guard.

    Attributes
    ----------
    acknowledge_seconds
        Until records are acknowledged, and until ends are read.
    tick_seconds
        Between two looks of a consumer at commits and at what waits.
    mark_seconds
        Until a mark that was asked for is there.
    heartbeat_seconds
        Until other consumers hear of a mark that has grown; None: they only ask.
    """

    acknowledge_seconds: float = 0.005
    tick_seconds: float = 0.05
    mark_seconds: float = 0.001
    heartbeat_seconds: float | None = 0.001


@dataclass(frozen=True, slots=True)
class PublisherObservation:
    """The observation that a publisher of tables decides by.

    Attributes
    ----------
    now
        Seconds.
    records
        By index of a key: how many were sent so far.
    follows
        The version that every producer has come to.
    ends, committed
        Shape (partitions,): offsets.
    """

    now: float
    records: Sequence[int]
    follows: int
    ends: Sequence[int]
    committed: Sequence[int]


class TablePublisher(Protocol):
    """Makes routing tables while records flow.

    Attributes
    ----------
    next_plan_at
        When it has to look although nothing has happened since its last look; infinity for never.
    """

    next_plan_at: float

    def next_table(self, observation: PublisherObservation, /) -> RoutingTable | None:
        """A new table; None if the last one stays in force."""
        ...


@dataclass(slots=True)
class _Producer:
    sender: OrderedSender
    chance: Random
    waiting: deque[int] = field(default_factory=deque)


class OrderedSimulation:
    """A run of the simulation.

    Parameters
    ----------
    stream
        What is sent.
    world
        Partitions and consumers; producers go by tables, and look at nothing.
    publisher
        Makes tables.
    publish_seconds
        Between two looks of the publisher.
    delays
        Of the guard's steps.
    settings
        Its time-outs.
    """

    def __init__(
        self,
        stream: KeyStream,
        world: KeysSimulationSettings,
        publisher: TablePublisher,
        *,
        publish_seconds: float = 1.0,
        delays: OrderingDelays | None = None,
        settings: OrderingConfig | None = None,
    ) -> None:
        self.stream, self.world, self.publisher = stream, world, publisher
        self.delays = OrderingDelays() if delays is None else delays
        self._consumers = SimulatedConsumers(world.partitions, world.capacity)
        self._producers = [
            _Producer(OrderedSender(world.partitions, settings), Random(f"{world.seed} {one}"))
            for one in range(stream.producers)
        ]
        self._receivers = [OrderedReceiver(settings) for _ in range(world.partitions)]
        for place, receiver in enumerate(self._receivers):
            receiver.assigned(place, 0)
        count = len(stream.at)
        self._place, self._done, self._ready = [-1] * count, [-1.0] * count, [-1.0] * count
        self._logs: list[list[tuple[int, OrderedRecord]]] = [[] for _ in range(world.partitions)]
        self._committed = [0] * world.partitions
        self._released: list[set[int]] = [set() for _ in range(world.partitions)]
        self._marks: dict[Stream, int] = defaultdict(int)
        self._records = [0] * len(stream.keys)
        self._events: list[tuple[float, int, str, tuple[object, ...]]] = []
        self._number = 0
        # Clocks that strike only after something has happened: publishing, and then each consumer's. What
        # they cost goes with records, not with the time that a recording covers.
        every = self.delays.tick_seconds
        self._periods = [publish_seconds, *[every] * world.partitions]
        shifted = (every * (1 + one / world.partitions) for one in range(world.partitions))
        self._firsts = [publish_seconds, *shifted]
        self._resting = set(range(1 + world.partitions))
        self._next_deadline = inf
        self._left = count
        self._sent = 0
        self.tables = 0
        """Published."""

    def run(self) -> KeysSimulationRun:
        """Send everything, and wait until all of it has taken effect."""
        producer_of = self.stream.producer_of_key()
        self._stir(0.0)
        for index, (at, which) in enumerate(zip(self.stream.at, self.stream.which, strict=True)):
            self._until(at)
            self._records[which] += 1
            self._send(at, index, producer_of[which])
        while self._left:
            self._next()
        held = [done - ready for done, ready in zip(self._done, self._ready, strict=True)]
        return KeysSimulationRun(self.stream, self._place, self._done, len(self._consumers), held=held)

    def _at(self, when: float, what: str, *values: object) -> None:
        self._number += 1
        heappush(self._events, (when, self._number, what, values))

    def _until(self, now: float) -> None:
        while self._events and self._events[0][0] <= now:
            self._next()

    def _stir(self, now: float) -> None:
        """An event happened: start every timer that rests."""
        while self._resting:
            self._fire_timer(self._resting.pop(), now)

    def _fire_timer(self, clock: int, after: float) -> None:
        """Schedule a timer at its first period after an instant."""
        first, period = self._firsts[clock], self._periods[clock]
        when = first + period * max(0, floor((after - first) / period) + 1)
        if clock:
            self._at(when, "_tick", clock - 1)
        else:
            self._at(when, "_publish")

    def _next(self) -> None:
        when, _, what, given = heappop(self._events)
        getattr(self, what)(when, *given)

    # -- producers

    def _send(self, now: float, index: int, one: int) -> None:
        producer = self._producers[one]
        key = self.stream.keys[self.stream.which[index]]
        placed = producer.sender.place(key, producer.chance.random)
        if placed is None:
            producer.waiting.append(index)
            return
        place, stamp = placed
        self._place[index] = place
        self._stir(now)
        log = self._logs[place]
        record = OrderedRecord(f"{one}", key, producer.sender.group(key), stamp)
        log.append((index, record))
        self._carry_out(now, place, self._receivers[place].arrived(place, len(log) - 1, record, now))
        self._at(self._consumers.receive(place, now), "_prepared", place, len(log) - 1)

    def _publish(self, now: float) -> None:
        self._resting.add(0)
        self._make_table(now)

    def _make_table(self, now: float) -> None:
        seen = PublisherObservation(
            now,
            self._records,
            min(one.sender.table.version for one in self._producers),
            [len(log) for log in self._logs],
            self._committed,
        )
        table = self.publisher.next_table(seen)
        if table is not None:
            self.tables += 1
            for one in range(len(self._producers)):
                self._at(now + self.delays.acknowledge_seconds, "_read", one, table)
        due = self.publisher.next_plan_at
        if now < due < inf and due != self._next_deadline:
            self._next_deadline = due
            self._at(due, "_make_table")

    def _read(self, now: float, one: int, table: RoutingTable) -> None:
        self._ordered(now, one, self._producers[one].sender.adopt_table(table, now))

    def _flushed(self, now: float, one: int, version: int) -> None:
        self._ordered(now, one, self._producers[one].sender.flushed(version))

    def _ends(self, now: float, one: int, version: int, partitions: tuple[int, ...]) -> None:
        producer = self._producers[one]
        ends = {place: len(self._logs[place]) for place in partitions}
        self._ordered(now, one, producer.sender.ends_read(version, ends, now))
        for _ in range(len(producer.waiting)):
            self._send(now, producer.waiting.popleft(), one)

    def _ordered(self, now: float, one: int, orders: Sequence[SenderOrder]) -> None:
        for order in orders:
            if isinstance(order, Flush):
                self._at(now + self.delays.acknowledge_seconds, "_flushed", one, order.version)
            elif isinstance(order, ReadEnds):
                self._at(now + self.delays.acknowledge_seconds, "_ends", one, order.version, order.partitions)

    # -- consumers

    def _prepared(self, now: float, place: int, offset: int) -> None:
        self._ready[self._logs[place][offset][0]] = now
        self._wake(now, place, offset)

    def _wake(self, now: float, place: int, offset: int) -> None:
        self._carry_out(now, place, self._effect(now, place, offset))

    def _tick(self, now: float, place: int) -> None:
        self._resting.add(1 + place)
        receiver = self._receivers[place]
        for other, offset in enumerate(self._committed):
            self._carry_out(now, place, receiver.passed(other, offset))
        self._carry_out(now, place, receiver.ticked(now))

    def _marked(self, now: float, place: int, stream: Stream, mark: int) -> None:
        self._carry_out(now, place, self._receivers[place].marked(stream, mark))

    def _carry_out(self, now: float, place: int, orders: Sequence[ReceiverOrder]) -> None:
        todo = deque(orders)
        while todo:
            order = todo.popleft()
            if isinstance(order, ReleaseRecord):
                self._released[place].add(order.offset)
                todo.extend(self._effect(now, place, order.offset))
            elif isinstance(order, CommitOffset):
                self._committed[order.partition] = order.offset
                self._stir(now)
            elif isinstance(order, ReadCheckpoint):
                self._at(
                    now + self.delays.mark_seconds, "_marked", place, order.stream, self._marks[order.stream]
                )

    def _effect(self, now: float, place: int, offset: int) -> list[ReceiverOrder]:
        """Let a record take effect that is released and prepared, by a consumer that is awake."""
        index, record = self._logs[place][offset]
        if offset not in self._released[place] or self._ready[index] < 0:
            return []
        awake = self._consumers.awake(place, now)
        if awake > now:
            self._at(awake, "_wake", place, offset)
            return []
        self._released[place].discard(offset)
        self._done[index] = now
        self._left -= 1
        self._stir(now)
        sequence = record.stamp.sequence
        if sequence:
            self._marks[record.stream] = max(sequence, self._marks[record.stream])
            if self.delays.heartbeat_seconds is not None:
                for other, receiver in enumerate(self._receivers):
                    if other != place and receiver.waits_for(record.stream):
                        self._at(
                            now + self.delays.heartbeat_seconds, "_marked", other, record.stream, sequence
                        )
        return self._receivers[place].applied(place, offset)


HOT_KEYS = 100
"""As many as a snapshot names."""


def snapshot_of_rates(
    keys: Sequence[bytes],
    rates: Sequence[float],
    table: RoutingTable,
    backlog: Sequence[int],
    now: float,
    world: KeysSimulationSettings,
) -> KeysSnapshot:
    """The snapshot that the balancer would take at these rates (records per second of each key)."""
    count, capacity = world.partitions, world.capacity.records_per_second
    groups = group_count(count)
    group_of = [key_group(key, count) for key in keys]
    group_rates, loads = [0.0] * groups, [0.0] * count
    for key, group, rate in zip(keys, group_of, rates, strict=True):
        group_rates[group] += rate
        places = table.route(group, key).partitions
        for place in places:
            loads[place] += rate / len(places)
    total = sum(rates) or 1.0
    hot = sorted(range(len(keys)), key=lambda one: -rates[one])[:HOT_KEYS]
    at = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=now)
    return KeysSnapshot(
        SnapshotReference("virtual", at.isoformat(), "0" * 64), Quality(cpu="absent"),
        topic="keyed", topic_id="virtual", consumers="readers", version=table.version, base=count,
        hashed=False, capacity=capacity, consumer_capacity=capacity,
        partitions=tuple(PartitionLoad(one, loads[one], backlog[one], 100.0) for one in range(count)),
        groups=tuple(
            KeyGroupLoad(one, table.route(one, b"").partitions[0], group_rates[one]) for one in range(groups)
        ),
        keys=tuple(
            HotKey(key_text(keys[one]), group_of[one], rates[one], rates[one] / total,
                   table.route(group_of[one], keys[one]).partitions, rates[one] / capacity)
            for one in hot
        ),
    )  # fmt: skip


def next_table(table: RoutingTable, plan: KeysPlan) -> RoutingTable:
    """The routing table that a plan leads to."""
    routes = {
        f"{one.kind}/{one.name}": one.after for one in plan.assignments if one.kind is not RoutingMoveKind.ADD
    }
    return with_routes(table, routes, plan.partitions)


def planned_table(
    keys: Sequence[bytes], rates: Sequence[float], settings: KeysSettings, world: KeysSimulationSettings
) -> RoutingTable:
    """A routing table planned from known rates."""
    table = RoutingTable(0, world.partitions, world.partitions)
    seen = snapshot_of_rates(keys, rates, table, [0] * world.partitions, 0.0, world)
    return next_table(table, plan_keys(seen, settings))


class FixedTable:
    """Publishes one table at the beginning."""

    next_plan_at = inf

    def __init__(self, table: RoutingTable) -> None:
        self._table: RoutingTable | None = table

    def next_table(self, observation: PublisherObservation, /) -> RoutingTable | None:
        """The table at the first call, then None."""
        table, self._table = self._table, None
        return table


class PeriodicPlanner:
    """Plans at intervals from new records; removes earlier partitions once they are passed."""

    def __init__(
        self,
        keys: Sequence[bytes],
        every_seconds: float,
        settings: KeysSettings,
        world: KeysSimulationSettings,
    ) -> None:
        self._keys, self._every, self._settings, self._world = keys, every_seconds, settings, world
        self._table = RoutingTable(0, world.partitions, world.partitions)
        self._last: Sequence[int] = [0] * len(keys)
        self._ends: Sequence[int] | None = None
        self.next_plan_at = every_seconds
        self.plans = 0

    def next_table(self, observation: PublisherObservation, /) -> RoutingTable | None:
        """The next table; None if it is too early, the last one is not followed yet, or nothing changes."""
        if self._table.version:
            if observation.follows < self._table.version:
                return None
            if self._ends is None:
                self._ends = list(observation.ends)
            if any(done < end for done, end in zip(observation.committed, self._ends, strict=True)):
                return None
            if any(one.earlier for one in (*self._table.groups.values(), *self._table.keys.values())):
                return self._publish(settled(self._table), observation)
        if observation.records == self._last:
            # Without records there is nothing to plan: the next period begins with the next one.
            self.next_plan_at = inf
            return None
        if self.next_plan_at == inf:
            self.next_plan_at = observation.now + self._every
        if observation.now < self.next_plan_at:
            return None
        rates = [
            (now - before) / self._every for now, before in zip(observation.records, self._last, strict=True)
        ]
        self._last, self.next_plan_at = list(observation.records), observation.now + self._every
        backlog = [end - done for end, done in zip(observation.ends, observation.committed, strict=True)]
        found = snapshot_of_rates(self._keys, rates, self._table, backlog, observation.now, self._world)
        plan = plan_keys(found, self._settings)
        if not plan.moves:
            return None
        self.plans += 1
        return self._publish(next_table(self._table, plan), observation)

    def _publish(self, table: RoutingTable, observation: PublisherObservation) -> RoutingTable:
        self._table, self._ends = replace(table, passed=tuple(observation.committed)), None
        return self._table
