"""Producer and consumer on kafka-python 3 that keep each key's order, and a partitioner that does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.future import Future
from kafka.partitioner import DefaultPartitioner, StickyPartitioner
from kafka.partitioner import Partitioner as PartitionerOfKafka
from kafka.producer.future import FutureRecordMetadata, RecordMetadata
from kafka.structs import OffsetAndMetadata

from trimtab_common.errors import InputError
from trimtab_keys.clients.ordered_consumer import PollingMember, start_offset
from trimtab_keys.clients.ordered_producer import (
    STEP_SECONDS,
    Headers,
    OrderedProducer,
    ProducerAdapter,
    SerializedKey,
)
from trimtab_keys.clients.partitioners import PolicyPartitioner
from trimtab_keys.clients.settings import RoutingConfig, check_producer_config
from trimtab_keys.clients.table_router import TableRouter
from trimtab_keys.core.order import PLAIN
from trimtab_keys.format import without_stamp

if TYPE_CHECKING:
    from kafka.cluster import ClusterMetadata

JOIN_SECONDS: Final = 1.0
"""Time that a step waits while the consumer joins its group."""


class Partitioner(PolicyPartitioner, PartitionerOfKafka):  # type: ignore[misc]
    """A key policy for `KafkaProducer(partitioner=...)`; the arguments are those of `PolicyPartitioner`."""

    _requested_at: object = None

    def partition(
        self,
        topic: str,
        key: object,
        serialized_key: bytes | None,
        value: object,
        serialized_value: object,
        cluster: ClusterMetadata,
    ) -> int:
        """The partition of a record.

        Raises
        ------
        InputError
            If the partitioner uses the load of another topic.
        """
        partitions = cluster.partitions_for_topic(topic)
        if self._load is not None:
            if topic != self._load.settings.topic:
                raise InputError(
                    f"this partitioner goes by the load of topic {self._load.settings.topic}, and was asked "
                    f"for {topic}: use a producer with a partitioner of its own for each topic"
                )
            if len(partitions) < self._load.partitions and self._load.load is not self._requested_at:
                # One was added; the client would learn of it within `metadata_max_age_ms`, five minutes.
                self._requested_at = self._load.load
                cluster.request_update()
        return self(serialized_key, partitions)


class Producer(KafkaProducer):  # type: ignore[misc]
    """A `KafkaProducer` that sends the records of one topic by the routing table and keeps each key's order.

    Records without a key, with an explicit partition or of other topics are sent as usual.

    Parameters
    ----------
    topic
        The topic.
    following
        Where its routing tables are.
    config
        Keyword arguments of `KafkaProducer`.

    Raises
    ------
    SettingsError
        If `acks`, idempotence, the delivery time-out, a transaction or the partitioner would break the order.
    """

    # Of a producer that was refused the client's own `__del__` asks for its configuration.
    config: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, topic: str, following: RoutingConfig, **config: Any) -> None:
        config.setdefault("acks", "all")
        config.setdefault("enable_idempotence", True)
        limit = config.setdefault("delivery_timeout_ms", int(following.ordering.delivery_seconds * 1000))
        partitioner = config.get("partitioner")
        own = partitioner is None or isinstance(partitioner, (DefaultPartitioner, StickyPartitioner))
        check_producer_config(
            config["acks"],
            config["enable_idempotence"],
            limit,
            config.get("transactional_id"),
            None if own else type(partitioner).__name__,
            following,
        )
        super().__init__(**config)
        self._topic = topic
        self._router = TableRouter(following, topic, "kafka-python", _KafkaPythonAdapter(self, topic))

    def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Like `KafkaProducer.send`. A key whose route changes waits, at most for `switch_seconds`.

        A stamp in the headers was copied from another record and is removed.
        """
        headers = without_stamp(headers)
        if topic != self._topic or key is None or partition is not None:
            return super().send(topic, value, key, headers, partition, timestamp_ms)
        self._router.check()
        sending = self._router.sending
        data: bytes = self._serialize(self.config["key_serializer"], topic, headers, key)
        since = time.monotonic()
        turn, place, stamp = sending.begin(bytes(data))
        try:
            if stamp is PLAIN:
                return super().send(topic, value, SerializedKey(data), headers, place, timestamp_ms)
            headers = [*(headers or ()), sending.header(stamp)]
            future = super().send(topic, value, SerializedKey(data), headers, place, timestamp_ms)
            if stamp.sequence:
                future = _DeadlineFuture(future, sending, since)
                future.add_errback(lambda _: sending.failed(data, stamp))
            return future
        except BaseException:
            sending.failed(data, stamp)
            raise
        finally:
            sending.end(turn)

    def close(self, timeout: float | None = None, **more: object) -> None:
        """Deliver all sent records, and close."""
        guide = self.__dict__.pop("_router", None)
        if guide is not None:
            guide.close()
        super().close(timeout, **more)

    def _serialize(self, serializer: object, topic: str, headers: Headers | None, data: object) -> Any:
        if isinstance(data, SerializedKey):
            return data.data
        return super()._serialize(serializer, topic, headers, data)


class _DeadlineFuture(FutureRecordMetadata):  # type: ignore[misc]
    """The future of a record, except that an acknowledgement after the delivery time-out is a failure."""

    __slots__ = ("_of", "_sending", "_since")

    def __init__(self, of: FutureRecordMetadata, sending: OrderedProducer, since: float) -> None:
        Future.__init__(self)
        self._of, self._sending, self._since = of, sending, since
        of.add_callback(self._acknowledged)
        of.add_errback(self.failure)

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the result, like the future of the client."""
        try:
            self._of.get(timeout)
        except KafkaError:
            if not self._of.is_done:
                raise
        while not self.is_done:
            # The client wakes who waits before it calls back: it is just about to.
            time.sleep(STEP_SECONDS)
        if self.exception is not None:
            raise self.exception
        return self.value

    def _acknowledged(self, metadata: RecordMetadata) -> None:
        why = self._sending.late(time.monotonic() - self._since)
        if why is None:
            self.success(metadata)
        else:
            self.failure(KafkaTimeoutError(why))


class _KafkaPythonAdapter(ProducerAdapter):
    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer, self._topic = producer, topic

    def flush(self, seconds: float) -> bool:
        try:
            self._producer.flush(timeout=seconds)
        except KafkaError:
            return False
        return True

    def partitions(self, desired: int) -> int:
        known = self._producer._metadata.partitions_for_topic(self._topic)
        if known is None:
            with suppress(KafkaError):
                known = self._producer.partitions_for(self._topic)
        elif len(known) < desired:
            self._producer._metadata.request_update()
        return len(known or ())

    def fill_gap(self, key: bytes, partition: int, headers: Headers, failed: Callable[[], None]) -> None:
        try:
            future = KafkaProducer.send(
                self._producer, self._topic, None, SerializedKey(key), headers, partition
            )
            future.add_errback(lambda _: failed())
        except KafkaError:
            failed()


class Consumer(PollingMember):
    """A member of a consumer group on `KafkaConsumer`, whose keyword arguments `options` are."""

    client_name = "kafka-python"

    def _connect(self) -> None:
        super()._connect()
        self.receiving = self._ordered(self._handler)
        self.client = KafkaConsumer(**self._config)
        self.client.subscribe([self._topic], listener=_RebalanceListener(self))

    def run(self) -> None:
        """Consume records until `stop` is called."""
        while not self._stopped:
            self.step()

    def step(self, seconds: float = 0.2) -> None:
        """Wait at most this long for records, let released records take effect, and commit."""
        receiving = self.receiving
        wait = JOIN_SECONDS if self._joins() else receiving.poll_timeout(seconds)
        self._receive(self.client.poll(timeout_ms=int(wait * 1000)))
        self._start_partitions()
        for partition in list(receiving.assigned_partitions):
            position = self.client.position(TopicPartition(self._topic, partition), timeout_ms=1000)
            if position is not None and not self._revoked:
                receiving.positioned(partition, position)
        receiving.turn()
        self._flow()
        self._commit(self.receiving.pending_commits())
        receiving.member = self.client.group_metadata().member_id
        if self._lacks_partitions(len(self.client.partitions_for_topic(self._topic) or ())):
            self.client._cluster.request_update()

    def close(self) -> None:
        """Commit finished records, and leave the group."""
        with suppress(KafkaError):
            self._commit(dict(self.receiving.commits))
        self.client.close(autocommit=False)
        self.receiving.close()

    def _joins(self) -> bool:
        """Whether the client is joining its group. A poll then waits until it has joined.

        Up to 3.0.12 a group leader that rejoins because partitions were added loses its rejoin state after
        the assignment, if no poll waits for the end at that time. It then sends no heartbeats, and other
        members take over its partitions. The join is therefore retried, and its polls wait long enough.
        """
        coordinator = self.client._coordinator
        if not getattr(coordinator, "rejoining", False):
            return False
        coordinator.request_rejoin()
        return True

    def _start_partitions(self) -> None:
        """Start each new partition at its commit or at the beginning of its log."""
        for partition in sorted(self._new):
            name = TopicPartition(self._topic, partition)
            position = start_offset(
                self.client.committed(name),
                self.client.beginning_offsets([name])[name],
                self.client.end_offsets([name])[name],
            )
            if self._revoked:
                return
            self.client.seek(name, position)
            self.receiving.assigned(partition, position)
            self._new.discard(partition)

    def _flow(self) -> None:
        # Up to 3.0.12 the client puts aside what it has of a paused partition, and takes it up again only
        # when it has had nothing in line of another one: maybe never. Let go, it is fetched again.
        put_aside = getattr(self.client._fetcher, "_paused_partition_records", {})
        resumed = self.receiving.steer(
            lambda one: self.client.pause(TopicPartition(self._topic, one)),
            lambda one: self.client.resume(TopicPartition(self._topic, one)),
            KeyError,
        )
        for partition in resumed:
            left = put_aside.pop(TopicPartition(self._topic, partition), None)
            if left is not None:
                left.drain()

    def _commit(self, offsets: dict[int, int]) -> None:
        if not offsets:
            return
        names = {
            TopicPartition(self._topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        # During a rebalance, or while the coordinator moves, a later step commits what is still ours.
        with suppress(KafkaError):
            self.client.commit(names, timeout_ms=10_000)
            self.receiving.committed(offsets)


class _RebalanceListener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: Consumer) -> None:
        self._member = member

    def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:
        self._member.note_revoked(revoked)

    def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        self._member.note_assigned(assigned)
