"""A confluent-kafka consumer that lets records take effect in each key's order."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from trimtab_keys.clients.checkpoints import CheckpointStore
from trimtab_keys.clients.client_config import check_consumer_config
from trimtab_keys.clients.ordered_consumer import Handler, OrderedConsumer
from trimtab_keys.clients.settings import RoutingConfig

LOG = logging.getLogger("trimtab.keys")
REQUEST_TIMEOUT_SECONDS: Final = 10.0
"""Waited for one answer of the brokers."""
BEGIN_SECONDS: Final = 60.0
"""Asked where a partition begins, again and again: its leader may just have died, the next be unknown."""
RETRY_SECONDS: Final = 0.2
MOST_RECORDS: Final = 500
"""Records taken at a step."""


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
        marks: CheckpointStore,
        following: RoutingConfig,
        config: Mapping[str, Any],
    ) -> None:
        check_consumer_config(
            config.get("enable.auto.commit", False), config.get("auto.offset.reset", "earliest")
        )
        self.receiving = OrderedConsumer(following, topic, group_id, "confluent-kafka", handler, marks)
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
                return self._requested(partition)
            except KafkaException:
                if time.monotonic() >= until:
                    raise
                time.sleep(RETRY_SECONDS)

    def _requested(self, partition: int) -> int:
        name = TopicPartition(self._topic, partition)
        (found,) = self.client.committed([name], timeout=REQUEST_TIMEOUT_SECONDS)
        low, high = self.client.get_watermark_offsets(name, timeout=REQUEST_TIMEOUT_SECONDS)
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
