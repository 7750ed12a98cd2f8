"""A world of partitions, producers and consumers in virtual time, stepped by whoever explores it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from simulate.keys.checker import KeysInvariantError, SimulatedEffects
from simulate.keys.clients import (
    PendingAcks,
    SequencePositions,
    SimulatedKeyConsumer,
    SimulatedKeyProducer,
    SimulatedLogEntry,
)
from trimtab_keys.core.order import (
    CommitOffset,
    DropRecord,
    FillGap,
    Flush,
    OrderedReceiver,
    OrderedRecord,
    OrderedSender,
    OrderingConfig,
    ProbePartition,
    ReadCheckpoint,
    ReadEnds,
    ReceiverOrder,
    ReleaseRecord,
    SearchStream,
    SenderOrder,
    SkipSequence,
)
from trimtab_keys.core.routing import RoutingTable

MAX_IDLE_ROUNDS = 100
"""In each, more time passes than anything may take."""


class KeysWorld:
    """The whole.

    Parameters
    ----------
    partitions, consumers
        How many; partitions are handed out in turn.
    plans
        For each producer, the keys of the records that it will send, in order.
    chance
        Picks among equals.
    retention
        Whether logs may be cut.
    """

    def __init__(
        self,
        partitions: int,
        consumers: int,
        plans: Sequence[Sequence[bytes]],
        settings: OrderingConfig,
        chance: Callable[[], float],
        *,
        retention: bool = False,
    ) -> None:
        self.settings, self.now = settings, 0.0
        self._chance = chance
        self.logs: list[list[SimulatedLogEntry]] = [[] for _ in range(partitions)]
        self.begins = [0] * partitions
        self.committed = [0] * partitions
        self.places = SequencePositions(partitions)
        self.owner = [partition % consumers for partition in range(partitions)]
        self.orphans: list[deque[SimulatedLogEntry]] = [deque() for _ in range(partitions)]
        self.tables: list[RoutingTable] = []
        self.effects = SimulatedEffects()
        self.producers = [self._producer(f"{one}", plan) for one, plan in enumerate(plans)]
        self.consumers = [SimulatedKeyConsumer(OrderedReceiver(settings)) for _ in range(consumers)]
        self.pending_acks = PendingAcks(retention=retention)
        self.started = len(plans)
        for partition, owner in enumerate(self.owner):
            self._carry_out(self.consumers[owner], self.consumers[owner].receiver.assigned(partition, 0))

    # -- producers

    def send(self, one: int, count: int = 1) -> int:
        """Hand records to the client; how many of them did not have to wait."""
        producer, done = self.producers[one], 0
        while producer.to_send and done < count:
            key = producer.to_send[0]
            placed = producer.sender.place(key, self._chance)
            if placed is None:
                break
            producer.to_send.popleft()
            number = producer.numbers[key] = producer.numbers.get(key, 0) + 1
            partition, stamp = placed
            self._fly(
                producer,
                partition,
                OrderedRecord(producer.name, key, producer.sender.group(key), stamp),
                number,
            )
            done += 1
        return done

    def append(self, one: int, partition: int, count: int = 1) -> None:
        """The log takes the next records that are on their way there."""
        flying = self.producers[one].flying[partition]
        for _ in range(min(count, len(flying))):
            self._append(partition, flying.popleft())

    def fail(self, one: int, partition: int, there: bool) -> None:
        """The client gives up the next record on its way to a partition; it may be there all the same."""
        producer = self.producers[one]
        entry = producer.flying[partition].popleft()
        assert entry.record is not None
        if there:
            self.logs[partition].append(entry)
        self._send_orders(producer, producer.sender.failed(entry.record.key, entry.record.stamp))

    def read_table(self, one: int, which: int) -> None:
        """A producer reads one of the tables that were published."""
        producer = self.producers[one]
        self._send_orders(producer, producer.sender.adopt_table(self.tables[which], self.now))

    def switchable(self, one: int) -> bool:
        """Whether a producer has flushed what it wanted to, or may read the ends that it asked for."""
        producer = self.producers[one]
        if producer.ends is not None:
            return True
        return producer.flush is not None and not any(
            flying and flying[0].sent < producer.flush[1] for flying in producer.flying
        )

    def switch(self, one: int) -> None:
        """Tell the producer that it has flushed, or the ends."""
        producer = self.producers[one]
        if producer.ends is not None:
            asked, producer.ends = producer.ends, None
            ends = {partition: len(self.logs[partition]) for partition in asked.partitions}
            self._send_orders(producer, producer.sender.ends_read(asked.version, ends, self.now))
        elif producer.flush is not None:
            (version, _), producer.flush = producer.flush, None
            self._send_orders(producer, producer.sender.flushed(version))

    def kill_producer(self, one: int) -> None:
        """A producer dies; requests of its that are on their way may still arrive. Another run goes on."""
        dead = self.producers[one]
        for partition, flying in enumerate(dead.flying):
            self.orphans[partition].extend(flying)
        self.producers[one] = self._producer(f"{self.started}", dead.to_send)
        self.producers[one].before = (*dead.before, dead.name)
        self.started += 1

    def orphan(self, partition: int, arrives: bool) -> None:
        """The next request of the dead arrives, or is lost."""
        entry = self.orphans[partition].popleft()
        if arrives:
            self.logs[partition].append(entry)

    def retain(self, partition: int, begin: int) -> None:
        """Retention deletes a log below an offset, whether anybody has consumed that or not."""
        for offset in range(self.begins[partition], begin):
            entry = self.logs[partition][offset]
            if entry.record is not None:
                self.effects.delete(entry.record, entry.number)
        self.begins[partition] = max(self.begins[partition], begin)

    # -- consumers

    def poll(self, one: int, partition: int, count: int = 1) -> None:
        """A consumer receives the next records of a partition that it believes to be its own."""
        consumer, log = self.consumers[one], self.logs[partition]
        receiver = consumer.receiver
        if not receiver.has_capacity(partition, self.now):
            return
        begin = self.begins[partition]
        if receiver.lanes[partition].position < begin:
            # The broker says that it is out of range, and the client goes on with the earliest there is.
            receiver.positioned(partition, begin)
        position = receiver.lanes[partition].position
        for offset in range(position, min(position + count, len(log))):
            record = log[offset].record
            if record is None:
                receiver.positioned(partition, offset + 1)
            else:
                consumer.retained.add((partition, offset))
                self._carry_out(consumer, receiver.arrived(partition, offset, record, self.now))

    def effect(self, one: int, count: int = 1) -> None:
        """A consumer lets what was released take effect."""
        consumer = self.consumers[one]
        for _ in range(count):
            if not consumer.ready:
                return
            partition, offset = consumer.ready.popleft()
            consumer.retained.discard((partition, offset))
            entry = self.logs[partition][offset]
            assert entry.record is not None
            self.pending_acks.check(entry, entry.record, self.effects)
            self.effects.apply(partition, offset, entry.record, entry.number)
            self._carry_out(consumer, consumer.receiver.applied(partition, offset))

    def tick(self, one: int) -> None:
        """A consumer commits, and looks after what waits."""
        self._carry_out(self.consumers[one], self.consumers[one].receiver.ticked(self.now))

    def read_commits(self, one: int) -> None:
        """A consumer reads what is committed of all partitions."""
        consumer = self.consumers[one]
        for partition, offset in enumerate(self.committed):
            self._carry_out(consumer, consumer.receiver.passed(partition, offset))

    def kill_consumer(self, one: int) -> None:
        """A consumer dies and comes back with nothing in mind; its partitions begin at their commits."""
        consumer = self.consumers[one] = SimulatedKeyConsumer(OrderedReceiver(self.settings))
        for partition, owner in enumerate(self.owner):
            if owner == one:
                self._carry_out(consumer, consumer.receiver.assigned(partition, self._start(partition)))

    def hand_over(self, partition: int, to: int, text: bool = True) -> None:
        """A partition becomes another consumer's; who had it may sleep and not know of it."""
        before = self.owner[partition]
        self.owner[partition] = to
        if text and before != to:
            self._revoke(before, partition)
        consumer = self.consumers[to]
        self._revoke(to, partition)
        self._carry_out(consumer, consumer.receiver.assigned(partition, self._start(partition)))

    def wake(self, one: int) -> None:
        """A consumer learns which partitions are no longer its own."""
        for partition in list(self.consumers[one].receiver.lanes):
            if self.owner[partition] != one:
                self._revoke(one, partition)

    # -- the end

    def pass_time(self, seconds: float) -> None:
        """Time passes; clients give up what is on its way for too long."""
        self.now += seconds
        limit = self.now - self.settings.delivery_seconds
        for one, producer in enumerate(self.producers):
            for partition, flying in enumerate(producer.flying):
                while flying and flying[0].since <= limit:
                    self.fail(one, partition, there=False)
            self._send_orders(producer, producer.sender.ticked(self.now))
        for orphans in self.orphans:
            while orphans and orphans[0].since <= limit:
                orphans.popleft()

    def settle(self) -> None:
        """Let everything that is on its way arrive and take effect, then hold the promises against it.

        Raises
        ------
        ViolationError
            If something is lost, held for ever, or kept after it took effect.
        """
        rounds, done = 0, -1
        while not self._settled():
            before, done = done, sum(self.committed) + sum(self.effects.checkpoints.values())
            rounds = rounds + 1 if done == before else 0
            if rounds == MAX_IDLE_ROUNDS:
                waiting = [one.receiver.held for one in self.consumers]
                raise KeysInvariantError(
                    f"records are held for ever: {waiting}, {[len(p.to_send) for p in self.producers]}"
                )
        self.effects.check_complete()
        if any(one.retained for one in self.consumers):
            raise KeysInvariantError(
                f"consumers keep {[len(one.retained) for one in self.consumers]} records for ever"
            )

    def _settled(self) -> bool:
        for one in range(len(self.producers)):
            while self.switchable(one):
                self.switch(one)
            self.send(one, 10**9)
            for partition in range(len(self.logs)):
                self.append(one, partition, 10**9)
            while self.switchable(one):
                self.switch(one)
        self.pass_time(self.settings.gap_seconds + self.settings.fence_seconds)
        for one, consumer in enumerate(self.consumers):
            self.wake(one)
            for partition in list(consumer.receiver.lanes):
                self.poll(one, partition, 10**9)
            self.effect(one, 10**9)
            self.tick(one)
            self.read_commits(one)
            self.effect(one, 10**9)
        return all(
            committed == len(log) for committed, log in zip(self.committed, self.logs, strict=True)
        ) and not any(one.to_send or any(one.flying) for one in self.producers)

    @property
    def behind(self) -> int:
        """Records in the logs that are not committed."""
        return sum(map(len, self.logs)) - sum(self.committed)

    # -- inside

    def _start(self, partition: int) -> int:
        """Where a consumer begins that gets a partition: its commit, or the log's begin if that is later."""
        return max(self.committed[partition], self.begins[partition])

    def _producer(self, name: str, plan: Sequence[bytes] | deque[bytes]) -> SimulatedKeyProducer:
        count = len(self.logs)
        base = min(count, self.tables[0].base) if self.tables else count
        flying: list[deque[SimulatedLogEntry]] = [deque() for _ in range(count)]
        return SimulatedKeyProducer(name, OrderedSender(base, self.settings), deque(plan), flying)

    def _fly(
        self, producer: SimulatedKeyProducer, partition: int, record: OrderedRecord, number: int
    ) -> None:
        producer.flying[partition].append(SimulatedLogEntry(record, number, producer.sent, self.now))
        producer.sent += 1

    def _append(self, partition: int, entry: SimulatedLogEntry) -> None:
        self.logs[partition].append(entry)
        if entry.number and entry.record is not None:
            name = entry.record.producer, entry.record.key
            self.effects.acknowledged.setdefault(name, []).append(entry.number)
            # The first runs are there before any table.
            self.pending_acks.acknowledged(entry, name, from_the_first=int(name[0]) < len(self.producers))

    def _send_orders(self, producer: SimulatedKeyProducer, orders: Sequence[SenderOrder]) -> None:
        self.pending_acks.follows(producer)
        for order in orders:
            if isinstance(order, Flush):
                producer.flush = order.version, producer.sent
            elif isinstance(order, ReadEnds):
                producer.ends = order
            elif isinstance(order, FillGap):
                partition = order.partitions[int(self._chance() * len(order.partitions))]
                group = producer.sender.group(order.key)
                self._fly(producer, partition, OrderedRecord(producer.name, order.key, group, order.stamp), 0)

    def _revoke(self, one: int, partition: int) -> None:
        consumer = self.consumers[one]
        consumer.receiver.revoked(partition)
        consumer.ready = deque(place for place in consumer.ready if place[0] != partition)
        consumer.retained = {place for place in consumer.retained if place[0] != partition}

    def _carry_out(self, consumer: SimulatedKeyConsumer, orders: Sequence[ReceiverOrder]) -> None:
        for order in orders:
            if isinstance(order, ReleaseRecord):
                consumer.ready.append((order.partition, order.offset))
            elif isinstance(order, DropRecord):
                consumer.retained.discard((order.partition, order.offset))
            elif isinstance(order, CommitOffset):
                # Kafka refuses the commit of a member that has been replaced.
                if self.consumers[self.owner[order.partition]] is consumer:
                    self.committed[order.partition] = max(self.committed[order.partition], order.offset)
            elif isinstance(order, ReadCheckpoint):
                mark = self.effects.checkpoints.get(order.stream, 0)
                self._carry_out(consumer, consumer.receiver.marked(order.stream, mark))
            elif isinstance(order, SearchStream):
                begins = [self._start(one) for one in range(len(self.logs))]
                found = self.places.found(order, self.logs, begins)
                answer = consumer.receiver.searched(order.stream, order.first, found, order.last)
                self._carry_out(consumer, answer)
            elif isinstance(order, SkipSequence):
                mark = self.effects.skip(order.stream, order.first, order.last)
                self._carry_out(consumer, consumer.receiver.marked(order.stream, mark))
            elif isinstance(order, ProbePartition):
                at = order.partition
                answer = consumer.receiver.probed(at, self.committed[at], len(self.logs[at]))
                self._carry_out(consumer, answer)
