"""Producer and consumer on confluent-kafka that keep each key's order."""

from __future__ import annotations

import logging
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import CodeType, FrameType, NoneType
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from trimtab_keys.clients.ordered_consumer import GroupMember, start_offset
from trimtab_keys.clients.ordered_producer import Headers, OrderedProducer
from trimtab_keys.clients.settings import RoutingConfig, check_producer_config
from trimtab_keys.clients.table_router import TableRouter
from trimtab_keys.core.order import PLAIN, Stamp
from trimtab_keys.format import read_stamp, without_stamp

AS_JAVA: Final = ("murmur2", "murmur2_random")
"""Partitioners of librdkafka that agree with the Java client's."""
OF_LIBRDKAFKA: Final = "librdkafka's default is consistent_random, by CRC-32"
REQUEST_TIMEOUT_SECONDS: Final = 10.0
"""Time-out of a request to the brokers."""
_FORM: Final = {
    "value": (bytes, str, NoneType),
    "key": (bytes, str, NoneType),
    "partition": (int, NoneType),
}
"""Types that confluent-kafka (2.16) accepts in a batch."""

Delivered = Callable[[KafkaError | None, Message], object]
RecordHeaders = Mapping[str, str | bytes | None] | Sequence[tuple[str, str | bytes | None]]


class Producer(confluent_kafka.Producer):
    """A `confluent_kafka.Producer` that sends the records of one topic by the routing table and keeps order.

    Records without a key, with an explicit partition or of other topics are sent as usual. The configuration
    must name the partitioner of the Java client, `murmur2_random`, because librdkafka's default places keys
    elsewhere. While tables change, another thread may call delivery callbacks.

    Parameters
    ----------
    topic
        The topic.
    following
        Where its routing tables are.
    config
        Configuration of the client.

    Raises
    ------
    SettingsError
        If `acks`, idempotence, the delivery time-out, a transaction or the partitioner would break the order.
    """

    # Found sooner than in a dictionary: .06 us of each record.
    __slots__ = ("_header", "_own", "_own_batch", "_plain", "_router", "_sending", "_topic")

    def __init__(self, topic: str, following: RoutingConfig, config: Mapping[str, Any]) -> None:
        limit_ms = int(following.ordering.delivery_seconds * 1000)
        config = {"acks": "all", "enable.idempotence": True, **config}
        given = config.pop("delivery.timeout.ms", config.pop("message.timeout.ms", limit_ms))
        partitioner = config.get("partitioner", f"not set ({OF_LIBRDKAFKA})")
        check_producer_config(
            config["acks"],
            config["enable.idempotence"],
            float(given),
            config.get("transactional.id"),
            None if partitioner in AS_JAVA else partitioner,
            following,
        )
        super().__init__({**config, "delivery.timeout.ms": given})
        self._topic = topic
        self._router = TableRouter(following, topic, "confluent-kafka", _ConfluentAdapter(self, topic))
        self._sending = self._router.sending
        self._plain, self._header = self._sending.plain, _header_type(self._sending)
        self._own: Callable[..., None] = super().produce
        self._own_batch: Callable[..., int] = super().produce_batch

    def produce(  # type: ignore[override]
        self,
        topic: str,
        value: bytes | str | None = None,
        key: Any = None,
        partition: int = -1,
        on_delivery: Delivered | None = None,
        timestamp: int = 0,
        headers: RecordHeaders | None = None,
        callback: Delivered | None = None,
    ) -> None:
        """Like the method of the client. A key whose route changes waits, at most for `switch_seconds`.

        A stamp in the headers was copied from another record and is removed.
        """
        if headers:
            headers = without_stamp(headers)
        if topic == self._topic and partition == -1:
            # Most records come by here. A lock would cost a third of what the client's own call does; instead
            # whoever has emptied `plain`, to change routes, waits until nobody is between here and `return`.
            try:
                place = self._plain.get(key)
            except TypeError:  # not hashable
                place = None
            if place is not None:
                self._own(topic, value, key, place, on_delivery, callback, timestamp, headers)
                return
        self._produce(topic, value, key, partition, on_delivery or callback, timestamp, headers)

    def produce_batch(  # type: ignore[override]
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        on_delivery: Delivered | None = None,
        callback: Delivered | None = None,
    ) -> int:
        """Like the method of the client: the number of queued records; `_error` of each other record has the
        reason.

        Batches of the client carry no headers. Records with a stamp, and the first record of each key, follow
        one by one. A batch with a malformed record is rejected as a whole.

        Raises
        ------
        TypeError, NotImplementedError
            If the client would reject the batch.
        """
        told = on_delivery or callback
        if topic != self._topic or partition != -1:
            return self._own_batch(topic, messages, partition, told)
        if not isinstance(messages, list):
            raise TypeError(f"messages is {type(messages).__name__}, expected a list")
        sending, plain, queued = self._sending, self._plain, 0
        # It overlooks a partition that stands in a message, so that each partition is a batch to it.
        batches: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        singly: list[dict[str, Any]] = []
        with sending.lock:
            self._router.check()
            for number, message in enumerate(messages):
                key, given = _key_and_partition(number, message)
                if key is None or given != -1:
                    batches[given].append(message)
                elif (known := plain.get(key)) is None:
                    singly.append(message)
                else:
                    batches[known].append(message)
            for place, batch in batches.items():
                queued += self._own_batch(topic, batch, place, told)
        for message in singly:
            try:
                self.produce(
                    topic, message.get("value"), message["key"], on_delivery=message.get("callback") or told
                )
                queued += 1
            except BufferError as error:
                message["_error"] = KafkaError(KafkaError._QUEUE_FULL, str(error))
            except KafkaException as error:
                message["_error"] = error.args[0]
        return queued

    def close(self) -> bool:
        """Wait until all sent records are delivered or have failed, and close."""
        self._router.close()
        self.flush()
        return bool(super().close())

    def _produce(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None,
        partition: int,
        text: Delivered | None,
        timestamp: int,
        headers: RecordHeaders | None,
    ) -> None:
        """Send a record whose partition is not known yet."""
        if topic != self._topic or partition != -1 or not isinstance(key, (bytes, str)):
            self._own(topic, value, key, partition, text, None, timestamp, headers)
            return
        data, sending = key.encode() if isinstance(key, str) else key, self._sending
        # librdkafka takes a record or refuses it, but never waits, and calls nobody back meanwhile.
        with sending.lock:
            self._router.check()
            placed = sending.placed(data)
            if placed is not None:
                place, stamp = placed
                self._hand(value, data, place, stamp, text, timestamp, headers)
                return
        since = time.monotonic()
        turn, place, stamp = sending.begin(data)
        try:
            self._hand(value, data, place, stamp, text, timestamp, headers, since)
        finally:
            sending.end(turn)

    def _hand(
        self,
        value: bytes | str | None,
        key: bytes,
        place: int,
        stamp: Stamp,
        text: Delivered | None,
        timestamp: int,
        headers: RecordHeaders | None,
        since: float | None = None,
    ) -> None:
        if stamp is not PLAIN:
            name, data = self._sending.header(stamp)
            header = self._header(data)
            if not headers:
                headers = [(name, header)]
            else:
                headers = [*(headers.items() if isinstance(headers, dict) else headers), (name, header)]
            if stamp.sequence:
                text = header if text is None and since is None else partial(header, text=text, since=since)
        try:
            self._own(self._topic, value, key, place, text, None, timestamp, headers)
        except BaseException:
            self._sending.failed(key, stamp)
            raise


def _key_and_partition(number: int, message: Any) -> tuple[bytes | None, int]:
    """Key and partition of a message of a batch, whose form is checked like the client checks it."""
    if message.__class__ is dict and len(message) == 2:
        key = message.get("key")
        if key.__class__ is bytes and message.get("value").__class__ is bytes:
            return key, -1
    if not isinstance(message, dict):
        raise TypeError(f"message {number} of the batch is {type(message).__name__}, expected a dict")
    for name, kinds in _FORM.items():
        if not isinstance(message.get(name), kinds):
            raise TypeError(
                f"message {number} of the batch: its {name} is {type(message[name]).__name__}, "
                f"expected {' or '.join(one.__name__ for one in kinds[:-1])}"
            )
    if message.get("timestamp") is not None:
        raise NotImplementedError(
            f"message {number} of the batch has a timestamp, which batches of this client cannot carry: "
            "use produce"
        )
    key, given = message.get("key"), message.get("partition")
    return key.encode() if isinstance(key, str) else key, -1 if given is None else given


def _header_type(sending: OrderedProducer) -> type[Any]:
    """The type of the stamps of one producer: a header that is also the delivery callback of its record.

    The garbage collector visits all objects of records in flight repeatedly. With 100,000 such records it
    needs 1.5 µs for each closure over key, stamp and time, and 0.3 µs for an object without more.
    """

    class Header(bytes):
        __slots__ = ()

        def __call__(
            self,
            error: KafkaError | None,
            message: Any,
            text: Delivered | None = None,
            since: float | None = None,
        ) -> None:
            if error is None:
                # A record that had not to wait went to the client as it was placed: its own clock will do.
                age = message.latency() if since is None else time.monotonic() - since
                why = sending.late(age)
                if why is not None:
                    error = KafkaError(KafkaError._MSG_TIMED_OUT, why)
            if error is not None:
                written = read_stamp(self, "what this producer wrote")
                assert written is not None
                sending.failed(message.key(), written.stamp)
            if text is not None:
                text(error, message)

    return Header


def _may_hold_unsent_record() -> bool:
    """Whether a thread may have read `plain` and not yet passed its record to the client.

    Threads run on while their stacks are inspected. A result for a thread counts only if its frame is the
    same before and after.
    """
    before = sys._current_frames()
    found = any(_delivers(frame) for frame in before.values())
    after = sys._current_frames()
    return found or any(after.get(thread, frame) is not frame for thread, frame in before.items())


def _delivers(frame: FrameType | None) -> bool:
    above: CodeType | None = None
    while frame is not None:
        if frame.f_code is _PRODUCE and above is not _RETRIABLE:
            return True
        above, frame = frame.f_code, frame.f_back
    return False


_PRODUCE: Final = Producer.produce.__code__
_RETRIABLE: Final = Producer._produce.__code__


class _ConfluentAdapter:
    # librdkafka's flush ends when nothing at all is on its way: it would not end while others send.
    quiet = True

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer, self._topic, self._known = producer, topic, 0

    def flush(self, seconds: float) -> bool:
        return not self._producer.flush(seconds)

    def may_hold_unsent_record(self) -> bool:
        return _may_hold_unsent_record()

    def partitions(self, desired: int) -> int:
        if self._known < max(desired, 1):
            with suppress(KafkaException):
                found = self._producer.list_topics(self._topic, timeout=REQUEST_TIMEOUT_SECONDS).topics[
                    self._topic
                ]
                self._known = len(found.partitions)
        return self._known

    def fill_gap(self, key: bytes, partition: int, headers: Headers, failed: Callable[[], None]) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed()

        try:
            self._producer._own(self._topic, None, key, partition, delivered, None, 0, headers)
        except (BufferError, KafkaException):
            failed()


LOG = logging.getLogger("trimtab.keys")
BEGIN_SECONDS: Final = 60.0
"""Time for which the beginning of a partition is requested: its leader may have died, and the next be
unknown.
"""
RETRY_SECONDS: Final = 0.2
MOST_RECORDS: Final = 500
"""Maximum number of records of a step."""


class Consumer(GroupMember):
    """A member of a consumer group on `confluent_kafka.Consumer`, whose configuration `config` is."""

    client_name = "confluent-kafka"
    separator = "."

    def _connect(self) -> None:
        self.receiving = self._ordered(self._handler)
        self.client = confluent_kafka.Consumer(
            {
                # The client finds new partitions only when it refreshes its metadata by itself.
                "topic.metadata.refresh.interval.ms": 5000,
                **self._config,
                # The client then reports the end of a log, which lies behind markers of transactions.
                "enable.partition.eof": True,
            }
        )
        self._closing = False
        self._trouble: KafkaException | None = None
        strategy = f"{self._config.get('partition.assignment.strategy')} {self._config.get('group.protocol')}"
        self._incremental = "cooperative" in strategy or strategy.endswith("consumer")
        self.client.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def run(self) -> None:
        """Consume records until `stop` is called."""
        while not self._stopped:
            self.step()

    def step(self, seconds: float = 0.2) -> None:
        """Wait at most this long for records, let released records take effect, and commit.

        Records are read one by one, so each record read after a rebalance was fetched after it.

        Raises
        ------
        KafkaException
            If a fatal error is reported, or the beginning of a partition cannot be read. Create a new
            consumer.
        """
        message = self.client.poll(self.receiving.poll_timeout(seconds))
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble
        for _ in range(MOST_RECORDS):
            if message is None:
                break
            self._received(message)
            message = self.client.poll(0)
        else:
            if message is not None:
                self._received(message)
        self.receiving.turn()
        self.receiving.steer(
            lambda one: self.client.pause([TopicPartition(self._topic, one)]),
            lambda one: self.client.resume([TopicPartition(self._topic, one)]),
            KafkaException,
        )
        self._commit(self.receiving.pending_commits())
        self.receiving.member = self.client.memberid()
        seen = self.receiving.follower.description
        assert seen is not None
        self.receiving.partitions = seen.partitions

    def close(self) -> None:
        """Commit finished records, and leave the group."""
        with suppress(KafkaException):
            self._commit(dict(self.receiving.commits))
        self._closing = True
        self.client.close()
        self.receiving.close()

    def _received(self, message: Any) -> None:
        error = message.error()
        if error is None:
            self.receiving.received(
                message.partition(), message.offset(), message.key(), message.headers() or (), message
            )
        elif error.code() == KafkaError._PARTITION_EOF:
            self.receiving.positioned(message.partition(), message.offset())
        elif error.fatal():
            raise KafkaException(error)
        else:
            LOG.warning("keys of %s: %s", self._topic, error.str())

    def _assigned(self, client: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        """Start each partition at its commit or at the beginning of its log."""
        if self._closing:
            return
        try:
            for one in partitions:
                one.offset = self._position(one.partition)
        except KafkaException as error:
            # The client would raise it as a `KafkaError`, which is no exception: nothing catches that.
            self._trouble = error
            return
        for one in partitions:
            self.receiving.assigned(one.partition, one.offset)
        if self._incremental:
            client.incremental_assign(partitions)
        else:
            client.assign(partitions)

    def _position(self, partition: int) -> int:
        until = time.monotonic() + BEGIN_SECONDS
        while True:
            try:
                return self._requested(partition)
            except KafkaException:
                if time.monotonic() >= until:
                    raise
                time.sleep(RETRY_SECONDS)

    def _requested(self, partition: int) -> int:
        name = TopicPartition(self._topic, partition)
        (found,) = self.client.committed([name], timeout=REQUEST_TIMEOUT_SECONDS)
        return start_offset(
            found.offset, *self.client.get_watermark_offsets(name, timeout=REQUEST_TIMEOUT_SECONDS)
        )

    def _revoked(self, client: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        self.receiving.revoked([one.partition for one in partitions])

    def _commit(self, offsets: dict[int, int]) -> None:
        if not offsets:
            return
        names = [TopicPartition(self._topic, one, offset) for one, offset in offsets.items()]
        # During a rebalance, or while the coordinator moves, a later step commits what is still ours.
        with suppress(KafkaException):
            self.client.commit(offsets=names, asynchronous=False)
            self.receiving.committed(offsets)
