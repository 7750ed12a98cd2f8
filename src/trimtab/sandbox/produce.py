"""The producer process of a load: every record at its due time, to its own partition.

Run as `python -m trimtab.sandbox.produce TASK`.
"""

from __future__ import annotations

import heapq
import random
import statistics
import sys
import threading
import time
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

from trimtab.connect.kafka import producer
from trimtab.sandbox.client_task import ClientTask, read_task, stop_on_signals, tick_begin
from trimtab.sandbox.topics import hex_texts
from trimtab.sandbox.truth import TICK_SECONDS, Traffic, TruthTick

LATE_SECONDS = 1.0


class _Tick:
    """Counts of the running tick; confirmations arrive from the client's own thread."""

    def __init__(self, begin: float) -> None:
        self.begin = begin
        self.due: dict[str, int] = defaultdict(int)
        self.late = 0
        self.confirmed: deque[tuple[str, float]] = deque()
        self.failed: deque[str] = deque()

    def close(self, end: float, record_bytes: int) -> TruthTick:
        """The tick as it is written; what is confirmed later belongs to the next."""
        confirmed = [self.confirmed.popleft() for _ in range(len(self.confirmed))]
        errors = len(self.failed)
        self.failed.clear()
        done: dict[str, int] = defaultdict(int)
        for key, _ in confirmed:
            done[key] += 1
        latencies = sorted(latency for _, latency in confirmed)
        percentiles = statistics.quantiles(latencies, n=100) if len(latencies) > 1 else latencies * 99
        tick = TruthTick(
            client="producer",
            at=self.begin,
            seconds=round(end - self.begin, 6),
            planned=_traffic(self.due, record_bytes),
            done=_traffic(done, record_bytes),
            late_records=self.late,
            errors=errors,
            latency_p50_ms=round(percentiles[49], 2) if percentiles else None,
            latency_p99_ms=round(percentiles[98], 2) if percentiles else None,
        )
        self.begin, self.late = end, 0
        self.due.clear()
        return tick


def run(task: ClientTask, stopped: threading.Event) -> None:
    """Produce until stopped, writing one line of truth per tick."""
    load = task.workload
    draw = random.Random(load.seed)
    texts = hex_texts(load.record_bytes, load.seed)
    client = producer(
        task.connection,
        acks=1,
        enable_idempotence=False,
        linger_ms=0,
        batch_size=2 * load.record_bytes,
        max_block_ms=2_000,
        delivery_timeout_ms=30_000,
        request_timeout_ms=10_000,
    )
    streams = [
        (topic.name, partition, load.record_bytes / rate)
        for topic in load.topics
        for partition, rate in enumerate(topic.bytes_per_second)
        if rate > 0
    ]
    # Ask for every leader first: records that wait for metadata would all be late.
    for topic in {topic for topic, _, _ in streams}:
        client.partitions_for(topic)
    begin = time.time()
    due = [(begin + draw.random() * interval, index) for index, (_, _, interval) in enumerate(streams)]
    heapq.heapify(due)
    tick = _Tick(begin)
    with task.truth.open("w", encoding="utf-8", buffering=1) as truth:
        while due and not stopped.is_set():
            now = time.time()
            if now >= tick_begin(tick.begin) + TICK_SECONDS:
                truth.write(tick.close(tick_begin(tick.begin) + TICK_SECONDS, load.record_bytes).to_line())
                continue
            at, index = due[0]
            if at > now:
                stopped.wait(min(at - now, tick_begin(tick.begin) + TICK_SECONDS - now))
                continue
            topic, partition, interval = streams[index]
            heapq.heapreplace(due, (at + interval, index))
            key = f"{topic}:{partition}"
            tick.due[key] += 1
            tick.late += now - at > LATE_SECONDS
            _send(client, tick, topic, partition, key, next(texts))
        client.flush(timeout=10)
        truth.write(tick.close(time.time(), load.record_bytes).to_line())
    client.close(timeout=5)


def _send(client: Any, tick: _Tick, topic: str, partition: int, key: str, value: bytes) -> None:
    from kafka.errors import KafkaError

    sent = time.monotonic()
    try:
        future = client.send(topic, value, partition=partition)
    except KafkaError:
        tick.failed.append(key)
        return
    future.add_callback(lambda _: tick.confirmed.append((key, (time.monotonic() - sent) * 1000)))
    future.add_errback(lambda _: tick.failed.append(key))


def _traffic(records: dict[str, int], record_bytes: int) -> dict[str, Traffic]:
    return {key: Traffic(count, count * record_bytes) for key, count in sorted(records.items())}


if __name__ == "__main__":
    run(read_task(Path(sys.argv[1])), stop_on_signals())
