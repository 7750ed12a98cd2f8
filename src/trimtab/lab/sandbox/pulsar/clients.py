"""Clients of a load on Pulsar: the producer, subscriptions, and reading the topics back at the end.

A client process runs as `python -m trimtab.lab.sandbox.pulsar.clients TASK`.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from trimtab.lab.sandbox.clients import (
    ClientTask,
    ProducerTick,
    RecordStream,
    run_client,
    send_on_time,
)
from trimtab.lab.sandbox.pulsar.workload import PulsarWorkload
from trimtab.lab.sandbox.truth import (
    TICK_SECONDS,
    LongestPauses,
    ReadBackLog,
    RecordRun,
    RecordRuns,
    Traffic,
    TruthTick,
    number_of,
    pulsar_place,
    stamped,
    tick_begin,
)
from trimtab.model.errors import SandboxError
from trimtab.systems.pulsar.connection import PulsarConnection, pulsar_client
from trimtab.systems.pulsar.http import topic_path

if TYPE_CHECKING:
    import pulsar


FLUSH_SECONDS = 10.0
# A topic whose broker has died is without owner for a dozen seconds: what is due meanwhile waits here.
MESSAGES_IN_FLIGHT = 20_000


def produce(task: ClientTask[PulsarConnection, PulsarWorkload], stopped: threading.Event) -> None:
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
    """A counter that several threads change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value = 0

    def add(self, change: int) -> None:
        with self._lock:
            self.value += change


def consume(task: ClientTask[PulsarConnection, PulsarWorkload], stopped: threading.Event) -> None:
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


READ_BACK_MS = 30_000


class TopicLedger(msgspec.Struct):
    """A ledger of a topic's log."""

    ledger: int = msgspec.field(name="ledgerId")


class InternalStats(msgspec.Struct):
    """The ledgers that a topic still has."""

    ledgers: list[TopicLedger]


def read_back(
    connection: PulsarConnection, run: str, confirmed: Mapping[str, list[RecordRun]]
) -> dict[str, ReadBackLog]:
    """The topics of a load that has ended.

    Parameters
    ----------
    run
        The stamp of its messages; others are passed over.
    confirmed
        By the full names of topics.

    Raises
    ------
    SandboxError
        If a topic cannot be read to its end.
    """
    import pulsar

    from trimtab.systems.pulsar.admin import PulsarAdmin

    found = RecordRuns()
    begins = {}
    client = pulsar_client(connection)
    try:
        with PulsarAdmin(connection) as admin:
            for topic in confirmed:
                told = admin.get_json(f"{topic_path(topic)}/internalStats", InternalStats)
                begins[topic] = min((ledger.ledger for ledger in told.ledgers), default=0) << 32
                reader = client.create_reader(topic, pulsar.MessageId.earliest)
                while reader.has_message_available():
                    message = reader.read_next(READ_BACK_MS)
                    at, number = message.message_id(), number_of(run, message.data())
                    if number is not None:
                        found.add(topic, number, pulsar_place(at.ledger_id(), at.entry_id()))
                reader.close()
    except pulsar.PulsarException as error:
        raise SandboxError(f"{topic} cannot be read back: {error}") from error
    finally:
        client.close()
    records = found.take()
    return {
        topic: ReadBackLog(begin, records.get(topic, []), gapless=False) for topic, begin in begins.items()
    }


if __name__ == "__main__":
    run_client(PulsarConnection, PulsarWorkload, produce, consume)
