"""The producer process of a load on Pulsar: a producer for each topic, every message at its due time.

Run as `python -m trimtab.lab.sandbox.pulsar.produce TASK`.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from pathlib import Path

from trimtab.lab.sandbox.client_task import ClientTask, read_task, stop_on_signals
from trimtab.lab.sandbox.pulsar.workload import PulsarWorkload
from trimtab.lab.sandbox.rate_control import ProducerTick, RecordStream, send_on_time
from trimtab.lab.sandbox.stamps import pulsar_place, stamped
from trimtab.systems.pulsar.client import pulsar_client
from trimtab.systems.pulsar.settings import PulsarConnection

FLUSH_SECONDS = 10.0
# A topic whose broker has died is without owner for a dozen seconds: what is due meanwhile waits here.
MESSAGES_IN_FLIGHT = 20_000


def run(task: ClientTask[PulsarConnection, PulsarWorkload], stopped: threading.Event) -> None:
    """Produce until stopped, writing one line of truth per tick."""
    import pulsar

    client = pulsar_client(task.connection)
    topics = [(name, topic) for name, topic in task.workload.topics if topic.messages_per_second > 0]
    producers = [
        client.create_producer(
            name,
            # By this name and our numbers brokers drop what a reconnecting client sends twice.
            producer_name=f"load-{task.run}",
            max_pending_messages=MESSAGES_IN_FLIGHT,
            block_if_queue_full=False,
            batching_enabled=False,
        )
        for name, _ in topics
    ]
    payloads = [random.Random(task.workload.seed).randbytes(topic.message_bytes) for _, topic in topics]
    streams = [
        RecordStream(name, 1 / topic.messages_per_second, topic.message_bytes) for name, topic in topics
    ]
    in_flight = _AtomicCounter()

    def send(tick: ProducerTick, index: int, number: int) -> None:
        key, sent = streams[index].key, time.monotonic()

        def answered(result: pulsar.Result, place: pulsar.MessageId) -> None:
            in_flight.add(-1)
            if result == pulsar.Result.Ok:
                tick.confirm(key, number, pulsar_place(place.ledger_id(), place.entry_id()), sent)
            else:
                tick.fail(result.name, sent)

        in_flight.add(1)
        value = stamped(task.run, number, payloads[index])
        producers[index].send_async(value, answered, sequence_id=number)

    def flush() -> None:
        deadline = time.monotonic() + FLUSH_SECONDS
        while in_flight.value and time.monotonic() < deadline:
            time.sleep(0.01)

    send_on_time(streams, send, flush, task.truth, stopped, random.Random(task.workload.seed))
    client.close()


class _AtomicCounter:
    """A number that the client's threads change as well."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value = 0

    def add(self, change: int) -> None:
        with self._lock:
            self.value += change


if __name__ == "__main__":
    run(read_task(Path(sys.argv[1]), PulsarConnection, PulsarWorkload), stop_on_signals())
