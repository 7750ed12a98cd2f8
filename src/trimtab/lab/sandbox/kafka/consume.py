"""A consumer process of a load on Kafka: one group that reads all topics given to it and commits its offsets.

Run as `python -m trimtab.lab.sandbox.kafka.consume TASK`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

from trimtab.lab.sandbox.client_task import ClientTask, read_task, stop_on_signals
from trimtab.lab.sandbox.kafka.workload import KafkaWorkload
from trimtab.lab.sandbox.stamps import RecordRuns, number_of
from trimtab.lab.sandbox.truth import TICK_SECONDS, Traffic, TruthTick, tick_begin
from trimtab.systems.kafka.client import consumer
from trimtab.systems.kafka.settings import KafkaConnection

POLL_MS = 200


def run(task: ClientTask[KafkaConnection, KafkaWorkload], stopped: threading.Event) -> None:
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


if __name__ == "__main__":
    run(read_task(Path(sys.argv[1]), KafkaConnection, KafkaWorkload), stop_on_signals())
