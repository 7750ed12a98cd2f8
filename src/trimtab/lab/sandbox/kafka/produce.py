"""The producer process of a load on Kafka: every record at its due time, to its own partition.

Run as `python -m trimtab.lab.sandbox.kafka.produce TASK`.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from trimtab.lab.sandbox.client_task import ClientTask, read_task, stop_on_signals
from trimtab.lab.sandbox.kafka.topics import digit_texts
from trimtab.lab.sandbox.kafka.workload import KafkaWorkload
from trimtab.lab.sandbox.rate_control import ProducerTick, RecordStream, send_on_time
from trimtab.lab.sandbox.stamps import stamped
from trimtab.systems.kafka.client import producer
from trimtab.systems.kafka.settings import KafkaConnection

# A partition has one batch under way, and a broker answers one request of a connection at a time: what comes
# due until then waits here.
BATCH_BYTES = 500_000
# So long that none expires: after a batch that was tried and then expired, kafka-python 3.0.12 forgets its
# producer id, never asks for another, and sends nothing more.
DELIVERY_SECONDS = 3600
# A minute of the usual load: a machine that stands still for that long costs no record, and one that is too
# slow for longer fails them, instead of filling its memory.
WAITING_BYTES = 500_000_000
FLUSH_SECONDS = 10


def run(task: ClientTask[KafkaConnection, KafkaWorkload], stopped: threading.Event) -> None:
    """Produce until stopped, writing one line of truth per tick."""
    from kafka.errors import KafkaError

    load = task.workload
    texts = digit_texts(load.record_bytes, load.seed)
    client = producer(
        task.connection,
        acks="all",
        enable_idempotence=True,
        linger_ms=0,
        batch_size=max(BATCH_BYTES, 2 * load.record_bytes),
        max_block_ms=2_000,
        delivery_timeout_ms=DELIVERY_SECONDS * 1000,
        request_timeout_ms=10_000,
    )
    places = [
        (topic.name, partition, rate)
        for topic in load.topics
        for partition, rate in enumerate(topic.bytes_per_second)
        if rate > 0
    ]
    # Ask for every leader first: records that wait for metadata would all be late.
    for topic in {topic for topic, _, _ in places}:
        client.partitions_for(topic)

    waiting: set[Any] = set()

    def send(tick: ProducerTick, index: int, number: int) -> None:
        topic, partition, _ = places[index]
        key = f"{topic}:{partition}"
        sent = time.monotonic()
        if len(waiting) * load.record_bytes > WAITING_BYTES:
            tick.fail("BufferFull", sent)
            return
        try:
            future = client.send(topic, stamped(task.run, number, next(texts)), partition=partition)
        except KafkaError as error:
            tick.fail(type(error).__name__, sent)
            return
        waiting.add(future)
        future.add_both(lambda _: waiting.discard(future))
        future.add_callback(lambda record: tick.confirm(key, number, record.offset, sent))
        future.add_errback(lambda error: tick.fail(type(error).__name__, sent))

    def flush() -> None:
        # What is not answered by then is told as neither confirmed nor failed.
        with contextlib.suppress(KafkaError):
            client.flush(timeout=FLUSH_SECONDS)

    streams = [
        RecordStream(f"{topic}:{partition}", load.record_bytes / rate, load.record_bytes)
        for topic, partition, rate in places
    ]
    send_on_time(streams, send, flush, task.truth, stopped, random.Random(load.seed))
    with contextlib.suppress(KafkaError):
        client.close(timeout=5)


if __name__ == "__main__":
    run(read_task(Path(sys.argv[1]), KafkaConnection, KafkaWorkload), stop_on_signals())
