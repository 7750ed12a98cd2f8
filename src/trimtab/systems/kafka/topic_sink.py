"""A sink that writes raw samples into a Kafka topic: one JSON record per row, keyed by cluster and entity."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trimtab.model.errors import ObserveError
from trimtab.observe.collect.settings import CollectSettings
from trimtab.observe.collect.sinks import RowBatch, SampleSink
from trimtab.systems.kafka.client import producer
from trimtab.systems.kafka.settings import KafkaConnection

if TYPE_CHECKING:
    from kafka import KafkaProducer

ENTITY = ("broker", "owner", "namespace", "bundle", "topic", "partition", "group", "client")
"""Columns of all balancers that say what a row describes."""


class TopicSink:
    """Lands as JSON records in a Kafka topic, one per row, keyed by cluster and entity.

    Parameters
    ----------
    producer
        A `kafka.KafkaProducer` with the client's own defaults for serialisation (bytes in, bytes out).
    """

    def __init__(self, producer: KafkaProducer, topic: str, timeout_seconds: float) -> None:
        self._producer = producer
        self._topic = topic
        self._timeout_seconds = timeout_seconds

    def write(self, batches: Sequence[RowBatch], cluster: str, tick: datetime.datetime) -> None:
        """Send all rows and wait until the topic has them.

        A record that was sent twice is one sample: the pipeline knows rows by their key columns.
        """
        from kafka.errors import KafkaError

        received_at = datetime.datetime.now(datetime.UTC)
        try:
            sent = [
                self._producer.send(self._topic, key=key, value=value)
                for key, value in json_records(batches, cluster, tick, received_at)
            ]
            self._producer.flush(timeout=self._timeout_seconds)
            failed = [future.exception for future in sent if future.exception or not future.is_done]
        except KafkaError as error:
            raise self._failed(error) from error
        if failed:
            raise self._failed(failed[0] or "not acknowledged in time", len(failed), len(sent))

    def close(self) -> None:
        """Close the producer; what it has not sent was reported by `land`."""
        self._producer.close(timeout=self._timeout_seconds)

    def _failed(self, cause: object, failed: int | None = None, sent: int | None = None) -> ObserveError:
        what = "samples were" if failed is None else f"{failed} of {sent} samples were"
        return ObserveError(
            f"{what} not taken by topic {self._topic!r} ({cause}): "
            "check that the topic exists and that we may write to it"
        )


def json_records(
    batches: Iterable[RowBatch], cluster: str, tick: datetime.datetime, received_at: datetime.datetime
) -> Iterable[tuple[bytes, bytes]]:
    """Key and value of each row: the raw columns that it fills, instants as RFC 3339 in UTC."""
    shared = {"cluster": cluster, "tick": tick, "received_at": received_at}
    for batch in batches:
        for row in batch.rows():
            entity = [row.get(name) for name in ENTITY]
            key = "/".join([cluster, batch.kind, *(str(part) for part in entity if part is not None)])
            yield key.encode(), json.dumps(shared | row, default=_instant, separators=(",", ":")).encode()


def _instant(value: object) -> str:
    assert isinstance(value, datetime.datetime), f"no JSON form for {value!r}"
    return value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@contextmanager
def topic_sink(connection: KafkaConnection, topic: str, settings: CollectSettings) -> Iterator[SampleSink]:
    """Land in a topic.

    Raises
    ------
    ConnectError
        If its cluster cannot be reached.
    """
    patience_ms = int(max(5.0, settings.interval_seconds) * 1000)
    client = producer(
        connection,
        linger_ms=20,
        acks="all",
        max_block_ms=patience_ms,
        request_timeout_ms=patience_ms - 1000,
        delivery_timeout_ms=patience_ms,
    )
    landing = TopicSink(client, topic, patience_ms / 1000)
    try:
        yield landing
    finally:
        landing.close()
