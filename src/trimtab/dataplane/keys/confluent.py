"""Order kept on confluent-kafka: a producer and a consumer."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import NoneType
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from trimtab.dataplane.keys.guide import Guide
from trimtab.dataplane.keys.marks import Marks
from trimtab.dataplane.keys.promises import kept_by_consumer, kept_by_producer
from trimtab.dataplane.keys.receiving import Handler, Receiving
from trimtab.dataplane.keys.sending import Headers, Sending
from trimtab.dataplane.keys.settings import Following
from trimtab.online.keys.order.messages import PLAIN, Stamp

LOG = logging.getLogger("trimtab.keys")
AS_JAVA: Final = ("murmur2", "murmur2_random")
"""Partitioners of librdkafka that agree with the Java client's; its default, by CRC-32, does not."""
ASK_SECONDS: Final = 10.0
"""Waited for one answer of the brokers."""
BEGIN_SECONDS: Final = 60.0
"""Asked where a partition begins, again and again: its leader may just have died, the next be unknown."""
AGAIN_SECONDS: Final = 0.2
_FORM: Final = {
    "value": (bytes, str, NoneType),
    "key": (bytes, str, NoneType),
    "partition": (int, NoneType),
}
"""What confluent-kafka (2.16) takes in a batch."""
MOST_RECORDS: Final = 500
"""Records taken at a step."""

Delivered = Callable[[Any, Any], object]


class Producer(confluent_kafka.Producer):
    """A `confluent_kafka.Producer` whose records of one topic go where the routing table says, in order.

    Records without a key, with a partition of their own, or of other topics go as ever; their partitioner is
    set to the Java client's (`murmur2_random`) unless the configuration names one. While tables change,
    delivery callbacks may be called from another thread.

    Parameters
    ----------
    topic
        The topic.
    following
        Where its tables are.
    config
        Of the client.

    Raises
    ------
    SettingsError
        If `acks`, idempotence or the delivery time-out break what order rests on.
    """

    def __init__(self, topic: str, following: Following, config: Mapping[str, Any]) -> None:
        limit_ms = int(following.guarding.delivery_seconds * 1000)
        config = {
            "acks": "all",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            **config,
        }
        given = config.pop("delivery.timeout.ms", config.pop("message.timeout.ms", limit_ms))
        kept_by_producer(config["acks"], config["enable.idempotence"], float(given), following)
        if config["partitioner"] not in AS_JAVA:
            LOG.warning(
                "partitioner is %s: keys of other topics go elsewhere than with Java clients: a key "
                "that both send has two partitions; murmur2_random agrees with them",
                config["partitioner"],
            )
        super().__init__({**config, "delivery.timeout.ms": given})
        self._topic = topic
        self._guide = Guide(following, topic, "confluent-kafka", _Outlet(self, topic))
        self._follower, self._sending = self._guide.follower, self._guide.sending
        self._own = super().produce
        self._own_batch: Callable[..., int] = super().produce_batch

    def produce(  # type: ignore[override]
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        on_delivery: Delivered | None = None,
        timestamp: int = 0,
        headers: Any = None,
        callback: Delivered | None = None,
    ) -> None:
        """As the client's own; a key whose route changes waits, for `switch_seconds` at most."""
        told = on_delivery or callback
        if topic != self._topic or key is None or partition != -1:
            self._hand(topic, value, key, partition, told, timestamp, headers)
            return
        sending = self._sending
        data: bytes = key if key.__class__ is bytes else key.encode() if isinstance(key, str) else bytes(key)
        # librdkafka takes a record or refuses it, but never waits, and calls nobody back meanwhile.
        with sending.lock:
            known = sending.plain.get(data)
            if known is not None and self._follower.recreated is None:
                if headers is None and told is None and not timestamp:
                    self._own(topic, value, data, known)
                else:
                    self._hand(topic, value, data, known, told, timestamp, headers)
                sending.load[known] += 1
                return
            self._guide.check()
            since = time.monotonic()
            placed = sending.placed(data)
            if placed is not None:
                self._hand_stamped(value, data, *placed, since, told, timestamp, headers)
                return
        turn, place, stamp = sending.begin(data)
        try:
            self._hand_stamped(value, data, place, stamp, since, told, timestamp, headers)
        finally:
            sending.end(turn)

    def produce_batch(  # type: ignore[override]
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        on_delivery: Delivered | None = None,
        callback: Delivered | None = None,
    ) -> int:
        """As the client's own: how many were queued; of the others, `_error` says why.

        The client's batches carry no headers: records with a stamp, and those whose key comes for the first
        time, follow one by one. A batch that has a malformed record is refused whole.

        Raises
        ------
        TypeError, NotImplementedError
            If the client's own would refuse it.
        """
        told = on_delivery or callback
        if topic != self._topic or partition != -1:
            return self._own_batch(topic, messages, partition, told)
        if not isinstance(messages, list):
            raise TypeError(f"messages is {type(messages).__name__}, expected a list")
        sending, queued = self._sending, 0
        # It overlooks a partition that stands in a message, so that each partition is a batch to it.
        batches: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        singly: list[dict[str, Any]] = []
        with sending.lock:
            self._guide.check()
            for number, message in enumerate(messages):
                key, given = _key_and_partition(number, message)
                if key is None or given != -1:
                    batches[given].append(message)
                elif (known := sending.plain.get(key)) is None:
                    singly.append(message)
                else:
                    sending.load[known] += 1
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
        """Wait until what was sent is delivered or has failed, and end."""
        self._guide.close()
        self.flush()
        return bool(super().close())

    def _hand_stamped(
        self,
        value: Any,
        key: bytes,
        place: int,
        stamp: Stamp,
        since: float,
        told: Delivered | None,
        timestamp: int,
        headers: Any,
    ) -> None:
        sending, delivered = self._sending, told
        if stamp is not PLAIN:
            header = sending.header(stamp)
            given = headers.items() if isinstance(headers, dict) else headers
            headers = [*given, header] if given else [header]
            if stamp.sequence:
                delivered = partial(_delivered, sending, key, stamp, since, told)
        try:
            self._hand(self._topic, value, key, place, delivered, timestamp, headers)
        except BaseException:
            sending.failed(key, stamp)
            raise

    def _hand(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int,
        told: Delivered | None,
        timestamp: int,
        headers: Any,
    ) -> None:
        more = {} if headers is None else {"headers": headers}
        if told is not None:
            more["on_delivery"] = told
        if timestamp:
            more["timestamp"] = timestamp
        self._own(topic, value, key, partition, **more)


def _key_and_partition(number: int, message: Any) -> tuple[bytes | None, int]:
    """Of a message of a batch; its form is what the client's own asks for."""
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


def _delivered(
    sending: Sending,
    key: bytes,
    stamp: Stamp,
    since: float,
    told: Delivered | None,
    error: Any,
    message: Any,
) -> None:
    if error is None:
        why = sending.late(since)
        if why is not None:
            error = KafkaError(KafkaError._MSG_TIMED_OUT, why)
    if error is not None:
        sending.failed(key, stamp)
    if told is not None:
        told(error, message)


class _Outlet:
    # librdkafka's flush ends when nothing at all is on its way: it would not end while others send.
    quiet = True

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer, self._topic, self._known = producer, topic, 0

    def flush(self, seconds: float) -> bool:
        return not self._producer.flush(seconds)

    def partitions(self, wanted: int) -> int:
        if self._known < max(wanted, 1):
            with suppress(KafkaException):
                found = self._producer.list_topics(self._topic, timeout=ASK_SECONDS).topics[self._topic]
                self._known = len(found.partitions)
        return self._known

    def fill(self, key: bytes, partition: int, headers: Headers, failed: Callable[[], None]) -> None:
        def told(error: Any, message: Any) -> None:
            if error is not None:
                failed()

        try:
            self._producer._hand(self._topic, None, key, partition, told, 0, headers)
        except (BufferError, KafkaException):
            failed()


class Consumer:
    """A member of a consumer group that lets records take effect in each key's order.

    Parameters
    ----------
    topic, group_id
        What is consumed, and by which group.
    handler
        Called with each `confluent_kafka.Message`, in order.
    marks
        Where effects are kept.
    following
        Where tables are.
    config
        Of the client.

    Raises
    ------
    SettingsError
        If offsets would be committed by others, or records written before it came were skipped.
    """

    def __init__(
        self,
        topic: str,
        group_id: str,
        handler: Handler,
        marks: Marks,
        following: Following,
        config: Mapping[str, Any],
    ) -> None:
        kept_by_consumer(config.get("enable.auto.commit", False), config.get("auto.offset.reset", "earliest"))
        self.receiving = Receiving(following, topic, group_id, "confluent-kafka", handler, marks)
        self.client = confluent_kafka.Consumer(
            {
                # It learns of new partitions when it looks, and cannot be told to.
                "topic.metadata.refresh.interval.ms": 5000,
                **config,
                "group.id": group_id,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                # Tells how far a log goes, markers of transactions included.
                "enable.partition.eof": True,
            }
        )
        self._topic, self._stopped, self._closing = topic, False, False
        self._trouble: KafkaException | None = None
        strategy = f"{config.get('partition.assignment.strategy')} {config.get('group.protocol')}"
        self._incremental = "cooperative" in strategy or strategy.endswith("consumer")
        self.client.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def run(self) -> None:
        """Consume until `stop`."""
        while not self._stopped:
            self.step()

    def stop(self) -> None:
        """Let `run` end after its step; from any thread."""
        self._stopped = True

    def step(self, seconds: float = 0.2) -> None:
        """Wait for records for so long, let what may take effect, and commit.

        Records are taken one by one: each that comes after a rebalance was fetched after it.

        Raises
        ------
        KafkaException
            If a fatal error is told, or it cannot be asked where a partition begins: make the consumer anew.
        """
        message = self.client.poll(self.receiving.patience(seconds))
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
        self._commit(self.receiving.due())
        self.receiving.member = self.client.memberid()
        seen = self.receiving.follower.seen
        assert seen is not None
        self.receiving.partitions = seen.partitions

    def close(self) -> None:
        """Commit what is done, and leave the group."""
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

    def _assigned(self, client: Any, partitions: list[TopicPartition]) -> None:
        """Begin each partition at its commit, or where its log begins."""
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
                return self._asked(partition)
            except KafkaException:
                if time.monotonic() >= until:
                    raise
                time.sleep(AGAIN_SECONDS)

    def _asked(self, partition: int) -> int:
        name = TopicPartition(self._topic, partition)
        (found,) = self.client.committed([name], timeout=ASK_SECONDS)
        low, high = self.client.get_watermark_offsets(name, timeout=ASK_SECONDS)
        return max(found.offset, low) if found.offset <= high else low

    def _revoked(self, client: Any, partitions: list[TopicPartition]) -> None:
        self.receiving.revoked([one.partition for one in partitions])

    def _commit(self, offsets: dict[int, int]) -> None:
        if offsets:
            names = [TopicPartition(self._topic, one, offset) for one, offset in offsets.items()]
            try:
                self.client.commit(offsets=names, asynchronous=False)
            except KafkaException:
                # A rebalance is on, or the coordinator moves: what is still ours is committed later.
                return
            self.receiving.committed(offsets)
