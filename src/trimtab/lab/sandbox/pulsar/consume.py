"""A consumer process of a load on Pulsar: one subscription to each topic that it reads, acknowledging all.

Run as `python -m trimtab.lab.sandbox.pulsar.consume TASK`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict, deque
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.lab.sandbox.client_task import ClientTask, read_task, stop_on_signals
from trimtab.lab.sandbox.pulsar.workload import PulsarWorkload
from trimtab.lab.sandbox.stamps import RecordRuns, number_of, pulsar_place
from trimtab.lab.sandbox.truth import TICK_SECONDS, LongestPauses, Traffic, TruthTick, tick_begin
from trimtab.systems.pulsar.client import pulsar_client
from trimtab.systems.pulsar.settings import PulsarConnection

if TYPE_CHECKING:
    import pulsar


def run(task: ClientTask[PulsarConnection, PulsarWorkload], stopped: threading.Event) -> None:
    """Read new messages until stopped, writing one line of truth per tick."""
    client = pulsar_client(task.connection)
    rank = task.rank
    arrived: deque[tuple[str, int, int | None, int | None, float]] = deque()

    def subscribe(topic: str) -> None:
        def take(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
            value, at = message.data(), message.message_id()
            place = pulsar_place(at.ledger_id(), at.entry_id())
            arrived.append((topic, len(value), number_of(task.run, value), place, time.time()))
            consumer.acknowledge(message)

        client.subscribe(topic, task.client, message_listener=take)

    for topic, load in task.workload.topics:
        if load.consumers >= rank:
            subscribe(topic)
    pauses, stamps = LongestPauses(), RecordRuns()
    begin = time.time()
    with task.truth.open("w", encoding="utf-8", buffering=1) as truth:
        last = False
        while not last:
            last = stopped.wait(max(0.0, tick_begin(begin) + TICK_SECONDS - time.time()))
            end = time.time() if last else tick_begin(begin) + TICK_SECONDS
            messages: dict[str, int] = defaultdict(int)
            sizes: dict[str, int] = defaultdict(int)
            for topic, size, number, place, at in [arrived.popleft() for _ in range(len(arrived))]:
                messages[topic] += 1
                sizes[topic] += size
                pauses.add(topic, at)
                if number is not None:
                    stamps.add(topic, number, place)
            done = {key: Traffic(messages[key], sizes[key]) for key in sorted(messages)}
            tick = TruthTick(task.client, begin, round(end - begin, 6), done=done, stamps=stamps.take())
            tick.pauses.update(pauses.take(end if last else None))
            truth.write(tick.to_line())
            begin = end
    client.close()


if __name__ == "__main__":
    run(read_task(Path(sys.argv[1]), PulsarConnection, PulsarWorkload), stop_on_signals())
