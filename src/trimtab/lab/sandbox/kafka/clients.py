"""Clients of a load on Kafka: the producer, consumer groups, and reading the logs back at the end.

A client process runs as `python -m trimtab.lab.sandbox.kafka.clients TASK`.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import defaultdict
from collections.abc import Mapping

from trimtab.lab.sandbox.clients import (
    ClientTask,
    ProducerTick,
    RecordStream,
    run_client,
    send_on_time,
)
from trimtab.lab.sandbox.kafka.topics import digit_texts
from trimtab.lab.sandbox.kafka.workload import KafkaWorkload
from trimtab.lab.sandbox.truth import (
    TICK_SECONDS,
    ReadBackLog,
    RecordRun,
    RecordRuns,
    Traffic,
    TruthTick,
    number_of,
    stamped,
    tick_begin,
)
from trimtab.model.errors import SandboxError
from trimtab.systems.kafka.client import consumer, producer
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


def produce(task: ClientTask[KafkaConnection, KafkaWorkload], stopped: threading.Event) -> None:
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

    waiting: set[object] = set()

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


POLL_MS = 200


def consume(task: ClientTask[KafkaConnection, KafkaWorkload], stopped: threading.Event) -> None:
    """Read from the end of each partition until stopped, writing one line of truth per tick."""
    from kafka import TopicPartition
    from kafka.errors import KafkaError

    rank = task.rank
    partitions = [
        TopicPartition(topic.name, partition)
        for topic in task.workload.topics
        if topic.consumers >= rank
        for partition in range(topic.partitions)
    ]
    client = consumer(
        task.connection,
        group_id=task.client,
        enable_auto_commit=True,
        auto_commit_interval_ms=5_000,
        check_crcs=False,
        # Few large fetches, so that readers cost the brokers bytes and not requests.
        fetch_min_bytes=262_144,
        fetch_max_wait_ms=500,
    )
    client.assign(partitions)
    # Before the producer begins: the truth's file, opened below, says that we are ready.
    for where, end in client.end_offsets(partitions).items():
        client.seek(where, end)
    stamps = RecordRuns()
    records: dict[str, int] = defaultdict(int)
    sizes: dict[str, int] = defaultdict(int)
    causes: dict[str, int] = defaultdict(int)
    begin = time.time()
    with task.truth.open("w", encoding="utf-8", buffering=1) as truth:
        while True:
            now = time.time()
            tick_end = tick_begin(begin) + TICK_SECONDS
            if now >= tick_end or stopped.is_set():
                end = min(now, tick_end)
                done = {key: Traffic(records[key], sizes[key]) for key in sorted(records)}
                tick = TruthTick(
                    task.client,
                    begin,
                    round(end - begin, 6),
                    done=done,
                    errors=sum(causes.values()),
                    causes=dict(causes),
                    stamps=stamps.take(),
                )
                truth.write(tick.to_line())
                for counts in (records, sizes, causes):
                    counts.clear()
                begin = end
                if stopped.is_set():
                    break
                continue
            try:
                batches = client.poll(timeout_ms=min(POLL_MS, max(1, int((tick_end - now) * 1000))))
            except KafkaError as error:
                causes[type(error).__name__] += 1
                stopped.wait(0.1)
                continue
            for where, batch in batches.items():
                key = f"{where.topic}:{where.partition}"
                records[key] += len(batch)
                for record in batch:
                    sizes[key] += len(record.value)
                    if (number := number_of(task.run, record.value)) is not None:
                        stamps.add(key, number, record.offset)
    client.close()


READ_BACK_SECONDS = 30.0
READ_BACK_POLL_MS = 500


def read_back(
    connection: KafkaConnection, run: str, confirmed: Mapping[str, list[RecordRun]]
) -> dict[str, ReadBackLog]:
    """The logs of a load that has ended.

    Parameters
    ----------
    run
        The stamp of its records; others are passed over.
    confirmed
        By `topic:partition`; each log is read from the first of these on.

    Raises
    ------
    SandboxError
        If brokers hand nothing out for half a minute.
    """
    from kafka import TopicPartition

    if not confirmed:
        return {}
    client = consumer(connection, auto_offset_reset="earliest", enable_auto_commit=False)
    try:
        keys = {TopicPartition(*_topic_partition(key)): key for key in confirmed}
        client.assign(list(keys))
        ends, begins = client.end_offsets(list(keys)), client.beginning_offsets(list(keys))
        for where, key in keys.items():
            first = min(stretch.place or 0 for stretch in confirmed[key])
            client.seek(where, max(begins[where], min(first, ends[where])))
        found = RecordRuns()
        heard = time.monotonic()
        while left := [where for where in keys if client.position(where) < ends[where]]:
            for where, batch in client.poll(timeout_ms=READ_BACK_POLL_MS, max_records=5_000).items():
                heard = time.monotonic()
                for record in batch:
                    if (number := number_of(run, record.value)) is not None:
                        found.add(keys[where], number, record.offset)
            if time.monotonic() - heard > READ_BACK_SECONDS:
                raise SandboxError(
                    f"the log of {keys[left[0]]} cannot be read back: nothing for {READ_BACK_SECONDS:g} s"
                )
        # Retention goes on meanwhile: what it removed before we came to it is not lost.
        begins, records = client.beginning_offsets(list(keys)), found.take()
        return {key: ReadBackLog(begins[where], records.get(key, [])) for where, key in keys.items()}
    finally:
        client.close()


def _topic_partition(key: str) -> tuple[str, int]:
    topic, _, partition = key.rpartition(":")
    return topic, int(partition)


if __name__ == "__main__":
    run_client(KafkaConnection, KafkaWorkload, produce, consume)
