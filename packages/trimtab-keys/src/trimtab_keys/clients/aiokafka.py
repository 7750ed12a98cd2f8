"""Producer and consumer on aiokafka that keep each key's order, and batches that expire at a deadline."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.producer.message_accumulator import BatchBuilder, MessageAccumulator, MessageBatch
from aiokafka.producer.transaction_manager import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PidAndEpoch

from trimtab_keys.clients.ordered_consumer import PollingMember, start_offset
from trimtab_keys.clients.ordered_producer import Headers, OrderedProducer, ProducerAdapter, SerializedKey
from trimtab_keys.clients.settings import RoutingConfig, check_producer_config
from trimtab_keys.clients.table_router import TableRouter
from trimtab_keys.core.order import PLAIN, Stamp
from trimtab_keys.format import without_stamp

if TYPE_CHECKING:
    from aiokafka.structs import RecordMetadata

T = TypeVar("T")
POLL_SECONDS: Final = 1.0
"""Interval of the search for batches that are too old; each request searches too."""
WAITER: Final = "_waiter_future" if hasattr(MessageAccumulator, "waiter") else "_wait_data_future"
"""The attribute of the future that wakes the sender: the first in aiokafka 0.14, the second in 0.13."""


class _TrackedBatch(MessageBatch):  # type: ignore[misc]
    """A batch that reports when its sequence numbers are lost."""

    numbered = False
    accumulator: DeadlineAccumulator

    def set_producer_state(self, *state: int, **named: int) -> None:
        """Number the batch before it is first sent."""
        self.numbered = True
        super().set_producer_state(*state, **named)

    def failure(self, exception: BaseException) -> None:
        """Fail the batch; its sequence numbers are lost if it was numbered."""
        if self.numbered and not self.future.done():
            self.accumulator.numbers_lost = True
        super().failure(exception)


class DeadlineAccumulator(MessageAccumulator):  # type: ignore[misc]
    """An accumulator that sends no batch that is older than the delivery time-out.

    Attributes
    ----------
    numbers_lost
        Whether the producer needs a new id, under which sequence numbers restart.
    """

    numbers_lost = False

    @classmethod
    def of(cls, producer: AIOKafkaProducer, delivery_seconds: float) -> DeadlineAccumulator:
        """Change the accumulator of an idempotent producer into one, before anything is sent."""
        made = producer._message_accumulator
        made.__class__ = cls
        made._batch_ttl = delivery_seconds
        return made  # type: ignore[no-any-return]

    def drain_by_nodes(
        self, ignore_nodes: Collection[int], muted_partitions: Collection[TopicPartition] = frozenset()
    ) -> tuple[dict[int, dict[TopicPartition, MessageBatch]], bool]:
        """Batches to send now, by node; none while the producer needs a new id."""
        self.expire()
        if not self.numbers_lost:
            return super().drain_by_nodes(ignore_nodes, muted_partitions)  # type: ignore[no-any-return]
        self.numbers_lost = False
        self._txn_manager._pid_and_epoch = PidAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self._txn_manager._pid_waiter = self._loop.create_future()
        self._txn_manager._sequence_numbers.clear()
        # The sender goes round again at once, and asks for an id before all else. What is on its way under
        # the old one goes on under it.
        waiter = getattr(self, WAITER)
        if not waiter.done():
            waiter.set_result(None)
        return {}, False

    def expire(self) -> None:
        """Fail batches that have waited too long. Batches in a request are left to the time-out of the
        request.
        """
        for partition in list(self._batches):
            waiting = self._batches[partition]
            while waiting and waiting[0].expired():
                batch = waiting.popleft()
                if batch.numbered:
                    # As when it is sent again: it takes itself out of these as it ends.
                    self._pending_batches.add(batch)
                # Whoever waits for room goes on, in a new batch.
                batch.drain_ready()
                batch.failure(
                    KafkaTimeoutError(f"not acknowledged within {self._batch_ttl:g} s (delivery_seconds)")
                )
            if not waiting:
                del self._batches[partition]

    async def keep(self) -> None:
        """Expire batches regularly. The sender does not do so while it waits for an id or an answer."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            self.expire()

    def _append_batch(self, builder: BatchBuilder, tp: TopicPartition) -> MessageBatch:
        batch = super()._append_batch(builder, tp)
        batch.__class__, batch.accumulator = _TrackedBatch, self
        return batch


GAP_FILL_TIMEOUT_SECONDS: Final = 5.0
WAIT_SECONDS: Final = 0.005
"""Pause between two attempts to send a record whose key changes its route."""


class Producer(AIOKafkaProducer):  # type: ignore[misc]
    """An `AIOKafkaProducer` that sends the records of one topic by the routing table and keeps each key's
    order.

    Records without a key, with an explicit partition or of other topics are sent as usual.

    Parameters
    ----------
    topic
        The topic.
    following
        Where its routing tables are.
    config
        Keyword arguments of `AIOKafkaProducer`.

    Raises
    ------
    SettingsError
        If `acks`, idempotence, the delivery time-out, a transaction or the partitioner would break the order.
    """

    _key_serializer: Callable[[object], bytes] | None

    def __init__(self, topic: str, following: RoutingConfig, **config: Any) -> None:
        config.setdefault("acks", "all")
        config.setdefault("enable_idempotence", True)
        partitioner = config.get("partitioner")
        own = partitioner is None or isinstance(partitioner, DefaultPartitioner)
        check_producer_config(
            config["acks"],
            config["enable_idempotence"],
            config.get("request_timeout_ms", 40_000),
            config.get("transactional_id"),
            None if own else getattr(partitioner, "__name__", type(partitioner).__name__),
            following,
        )
        super().__init__(**config)
        self._topic, self._following = topic, following
        self._router: TableRouter | None = None
        self._batches = DeadlineAccumulator.of(self, following.ordering.delivery_seconds)
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, and read the routing table."""
        await super().start()
        self._keeping = asyncio.create_task(self._batches.keep())
        outlet = _AiokafkaAdapter(self, self._topic, asyncio.get_running_loop())
        self._router = await asyncio.to_thread(TableRouter, self._following, self._topic, "aiokafka", outlet)

    async def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Like `AIOKafkaProducer.send`. A key whose route changes waits, at most for `switch_seconds`.

        A stamp in the headers was copied from another record and is removed.
        """
        headers = without_stamp(headers)
        guide = self._router
        if guide is None or topic != self._topic or key is None or partition is not None:
            plain: asyncio.Future[RecordMetadata] = await super().send(
                topic, value, key, partition, timestamp_ms, headers
            )
            return plain
        guide.check()
        sending = guide.sending
        data: bytes = self._serialised(key)
        since = time.monotonic()
        begun = sending.try_begin(data)
        if begun is None:
            loop = asyncio.get_running_loop()
            until = loop.time() + self._following.ordering.switch_seconds
            while begun is None:
                await asyncio.sleep(WAIT_SECONDS)
                if loop.time() >= until:
                    sending.give_up()
                begun = sending.try_begin(data)
        turn, place, stamp = begun
        try:
            if stamp is not PLAIN:
                headers = [*(headers or ()), sending.header(stamp)]
            given = data if self._key_serializer is None else SerializedKey(data)
            future: asyncio.Future[RecordMetadata] = await super().send(
                topic, value, given, place, timestamp_ms, headers
            )
            if stamp.sequence:
                future = _in_time(future, sending, data, stamp, since)
            return future
        except BaseException:
            sending.failed(data, stamp)
            raise
        finally:
            sending.end(turn)

    def create_batch(self) -> BatchBuilder:
        """Like the method of `AIOKafkaProducer`, but removes a stamp from the headers of a record."""
        builder = super().create_batch()
        append = builder.append
        builder.append = lambda headers=None, **record: append(headers=without_stamp(headers), **record)
        return builder

    async def stop(self) -> None:
        """Deliver all sent records, and stop."""
        guide, self._router = self._router, None
        if guide is not None:
            await asyncio.to_thread(guide.close)
        try:
            await super().stop()
        finally:
            if self._keeping is not None:
                self._keeping.cancel()

    def _serialize(self, key: object, value: object, headers: Headers | None) -> Any:
        if not isinstance(key, SerializedKey):
            return super()._serialize(key, value, headers)
        serializer, self._key_serializer = self._key_serializer, None
        try:
            return super()._serialize(key.data, value, headers)
        finally:
            self._key_serializer = serializer

    def _serialised(self, key: Any) -> bytes:
        serializer = self._key_serializer
        data = key if serializer is None else serializer(key)
        return data if data.__class__ is bytes else bytes(memoryview(data))


def _in_time(
    of: asyncio.Future[T], sending: OrderedProducer, key: bytes, stamp: Stamp, since: float
) -> asyncio.Future[T]:
    """The future of a record, except that an acknowledgement after the delivery time-out is a failure."""
    promised = asyncio.get_running_loop().create_future()

    def done(_: object) -> None:
        error = KafkaError("given up") if of.cancelled() else of.exception()
        if error is None:
            why = sending.late(time.monotonic() - since)
            error = None if why is None else KafkaTimeoutError(why)
        if error is not None:
            sending.failed(key, stamp)
        if promised.done():
            # The application cancelled it; the record went on.
            return
        if error is None:
            promised.set_result(of.result())
        else:
            promised.set_exception(error)

    of.add_done_callback(done)
    return promised


class _AiokafkaAdapter(ProducerAdapter):
    def __init__(self, producer: Producer, topic: str, loop: asyncio.AbstractEventLoop) -> None:
        self._producer, self._topic, self._loop = producer, topic, loop

    def flush(self, seconds: float) -> bool:
        try:
            self._run(self._producer.flush(), seconds)
        except (TimeoutError, KafkaError):
            return False
        return True

    def partitions(self, desired: int) -> int:
        known = self._producer.client.cluster.partitions_for_topic(self._topic)
        if len(known or ()) < desired:
            with suppress(TimeoutError, KafkaError):
                if known is None:
                    known = self._run(self._producer.partitions_for(self._topic), 5.0)
                else:
                    self._run(self._refresh(), 5.0)
        return len(known or ())

    def fill_gap(self, key: bytes, partition: int, headers: Headers, failed: Callable[[], None]) -> None:
        async def send() -> None:
            future = await AIOKafkaProducer.send(
                self._producer, self._topic, None, SerializedKey(key), partition, None, headers
            )
            future.add_done_callback(lambda done: failed() if done.cancelled() or done.exception() else None)

        try:
            self._run(send(), GAP_FILL_TIMEOUT_SECONDS)
        except (TimeoutError, KafkaError):
            failed()

    async def _refresh(self) -> None:
        await self._producer.client.force_metadata_update()

    def _run(self, work: Coroutine[object, object, T], seconds: float) -> T:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), self._loop).result(
            seconds + 1
        )


class Consumer(PollingMember):
    """A member of a consumer group on `AIOKafkaConsumer`, whose keyword arguments `options` are.

    Handlers and marks run on a thread beside the event loop, one record after the other. A handler that is a
    coroutine function runs on the loop, and the thread waits for it.
    """

    client_name = "aiokafka"

    def _connect(self) -> None:
        super()._connect()
        self._working = asyncio.Lock()

    async def start(self) -> None:
        """Connect, and join the group."""
        loop = asyncio.get_running_loop()
        run = handler = self._handler
        if inspect.iscoroutinefunction(run):

            def on_loop(record: object) -> object:
                return asyncio.run_coroutine_threadsafe(run(record), loop).result()

            handler = on_loop
        self.receiving = await asyncio.to_thread(self._ordered, handler)
        self.client = AIOKafkaConsumer(**self._config)
        self.client.subscribe([self._topic], listener=_RebalanceListener(self, self._working))
        await self.client.start()

    async def run(self) -> None:
        """Consume records until `stop` is called."""
        while not self._stopped:
            await self.step()

    async def step(self, seconds: float = 0.2) -> None:
        """Wait at most this long for records, let released records take effect, and commit."""
        receiving = self.receiving
        wait_ms = int(receiving.poll_timeout(seconds) * 1000)
        batches = await self.client.getmany(timeout_ms=wait_ms, max_records=500)
        # Nothing is awaited between the fetch and this call, so no rebalance comes in between.
        self._receive(batches)
        await self._start_partitions()
        async with self._working:
            self._forget_revoked()
            for partition in list(receiving.assigned_partitions):
                if partition not in self._new:
                    position = await self.client.position(TopicPartition(self._topic, partition))
                    receiving.positioned(partition, position)
            await asyncio.to_thread(receiving.turn)
            receiving.steer(
                lambda one: self.client.pause(TopicPartition(self._topic, one)),
                lambda one: self.client.resume(TopicPartition(self._topic, one)),
                KafkaError,
            )
            await self._commit(receiving.pending_commits())
        receiving.member = self.client._coordinator.member_id
        if self._lacks_partitions(len(self.client.partitions_for_topic(self._topic) or ())):
            await self.client._client.force_metadata_update()

    async def close(self) -> None:
        """Commit finished records, and leave the group."""
        with suppress(KafkaError):
            await self._commit(dict(self.receiving.commits))
        await self.client.stop()
        await asyncio.to_thread(self.receiving.close)

    async def _start_partitions(self) -> None:
        """Start each new partition at its commit or at the beginning of its log."""
        for partition in sorted(self._new):
            name = TopicPartition(self._topic, partition)
            position = start_offset(
                await self.client.committed(name),
                (await self.client.beginning_offsets([name]))[name],
                (await self.client.end_offsets([name]))[name],
            )
            if self._revoked or partition not in self._new:
                return
            self.client.seek(name, position)
            self.receiving.assigned(partition, position)
            self._new.discard(partition)

    async def _commit(self, offsets: dict[int, int]) -> None:
        if not offsets:
            return
        names = {TopicPartition(self._topic, one): offset for one, offset in offsets.items()}
        # During a rebalance, or while the coordinator moves, a later step commits what is still ours.
        with suppress(KafkaError):
            await self.client.commit(names)
            self.receiving.committed(offsets)


class _RebalanceListener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes a rebalance; a revocation waits until the current step has finished its work."""

    def __init__(self, member: Consumer, working: asyncio.Lock) -> None:
        self._member, self._working = member, working

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._member.note_revoked(revoked)
        async with self._working:
            pass

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._member.note_assigned(assigned)
