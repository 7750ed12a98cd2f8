"""Client processes of a load on any system: their task, and sending records at their due times."""

from __future__ import annotations

import heapq
import json
import os
import random
import signal
import statistics
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from trimtab.lab.sandbox.state import decode, encode
from trimtab.lab.sandbox.truth import TICK_SECONDS, LongestPauses, RecordRuns, Traffic, TruthTick, tick_begin


class WorkloadPlan(Protocol):
    """A load as one system's workload describes it."""

    system: ClassVar[str]

    @property
    def consumers(self) -> int:
        """The number of clients that read: `reader-1` reads every topic with a reader, and so on."""
        ...

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Names of the topics that must exist."""
        ...

    @property
    def rates_text(self) -> str:
        """Its rates, as a load announces them."""
        ...


Connection = TypeVar("Connection")
Plan = TypeVar("Plan", bound=WorkloadPlan)


def clients_of(workload: WorkloadPlan) -> str:
    """The module with the clients of a workload's system: `produce`, `consume` and `read_back`."""
    return f"trimtab.lab.sandbox.{workload.system}.clients"


@dataclass(frozen=True)
class ClientTask(Generic[Connection, Plan]):
    """One client process: its connection, its workload, and the file for its truth.

    Parameters
    ----------
    connection, workload
        Of the load.
    client
        `producer`, or the name of a consumer group or subscription.
    truth
        The file of its ticks.
    run
        Of the load, 16 hexadecimal digits: what records are stamped with.
    """

    connection: Connection
    workload: Plan
    client: str
    truth: Path
    run: str

    @property
    def module(self) -> str:
        """The module that the process runs."""
        return clients_of(self.workload)

    @property
    def rank(self) -> int:
        """The number in a reader's name."""
        return int(self.client.rpartition("-")[2])

    def write(self, path: Path) -> None:
        """Save the task for the process, readable by its owner only, since it may contain a password."""
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(encode(self), file)


def read_task(path: Path, connection: type[Connection], workload: type[Plan]) -> ClientTask[Connection, Plan]:
    """The task that `ClientTask.write` saved, for a connection and a workload of these types."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return ClientTask(
        decode(document["connection"], connection),
        decode(document["workload"], workload),
        document["client"],
        Path(document["truth"]),
        document["run"],
    )


def run_client(
    connection: type[Connection],
    workload: type[Plan],
    produce: Callable[[ClientTask[Connection, Plan], threading.Event], None],
    consume: Callable[[ClientTask[Connection, Plan], threading.Event], None],
) -> None:
    """Run the client of the task file on the command line until a signal stops it."""
    task = read_task(Path(sys.argv[1]), connection, workload)
    (produce if task.client == "producer" else consume)(task, stop_on_signals())


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set, so that a client can finish its tick."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    return stopped


LATE_SECONDS = 1.0


@dataclass(frozen=True)
class RecordStream:
    """Records of one size that are due at one interval; `key` is their topic or partition in the truth."""

    key: str
    interval_seconds: float
    record_bytes: int


class ProducerTick:
    """Counts of the current tick; confirmations come from the client's own thread."""

    def __init__(self, begin: float, streams: Sequence[RecordStream]) -> None:
        self.begin = begin
        self.scheduled: dict[str, int] = defaultdict(int)
        self.late = 0
        self._bytes = {stream.key: stream.record_bytes for stream in streams}
        self._confirmed: deque[tuple[str, int, int | None, float, float]] = deque()
        self._failed: deque[tuple[str, float]] = deque()
        self._pauses = LongestPauses()
        self._stamps = RecordRuns()

    def confirm(self, key: str, number: int, place: int | None, sent: float) -> None:
        """Count a record as confirmed now; `sent` is its time of `time.monotonic`."""
        self._confirmed.append((key, number, place, (time.monotonic() - sent) * 1000, time.time()))

    def fail(self, cause: str, sent: float) -> None:
        """Count a record as failed now for a named cause; `sent` is its time of `time.monotonic`."""
        self._failed.append((cause, time.time() - (time.monotonic() - sent)))

    def close(self, end: float, *, last: bool = False) -> TruthTick:
        """Close the tick; later confirmations belong to the next one."""
        confirmed = [self._confirmed.popleft() for _ in range(len(self._confirmed))]
        failed = [self._failed.popleft() for _ in range(len(self._failed))]
        done: dict[str, int] = defaultdict(int)
        for key, number, place, _, at in confirmed:
            done[key] += 1
            self._stamps.add(key, number, place)
            self._pauses.add(key, at)
        latencies = sorted(latency for _, _, _, latency, _ in confirmed)
        percentiles = statistics.quantiles(latencies, n=100) if len(latencies) > 1 else latencies * 99
        tick = TruthTick(
            client="producer",
            at=self.begin,
            seconds=round(end - self.begin, 6),
            planned=self._traffic(self.scheduled),
            done=self._traffic(done),
            late_records=self.late,
            errors=len(failed),
            latency_p50_ms=round(percentiles[49], 2) if percentiles else None,
            latency_p99_ms=round(percentiles[98], 2) if percentiles else None,
            pauses=self._pauses.take(end if last else None),
            causes=dict(sorted(Counter(cause for cause, _ in failed).items())),
            waited_since=min((sent for _, sent in failed), default=None),
            stamps=self._stamps.take(),
        )
        self.begin, self.late = end, 0
        self.scheduled.clear()
        return tick

    def _traffic(self, records: dict[str, int]) -> dict[str, Traffic]:
        return {key: Traffic(number, number * self._bytes[key]) for key, number in sorted(records.items())}


def send_on_time(
    streams: Sequence[RecordStream],
    send: Callable[[ProducerTick, int, int], None],
    flush: Callable[[], None],
    truth: Path,
    stopped: threading.Event,
    draw: random.Random,
) -> None:
    """Send until stopped, writing one line of truth per tick.

    Parameters
    ----------
    streams
        What is due, at intervals with phases of their own.
    send
        Takes the tick, the stream's index and the record's number in it, from 0; tells the tick when the
        record is confirmed or given up.
    flush
        Waits a while for what is under way.
    truth
        The file of ticks.
    stopped
        Set to end.
    draw
        Of the phases.
    """
    begin = time.time()
    due = [(begin + draw.random() * stream.interval_seconds, index) for index, stream in enumerate(streams)]
    heapq.heapify(due)
    numbers = [count() for _ in streams]
    tick = ProducerTick(begin, streams)
    with truth.open("w", encoding="utf-8", buffering=1) as lines:
        while due and not stopped.is_set():
            now = time.time()
            if now >= tick_begin(tick.begin) + TICK_SECONDS:
                lines.write(tick.close(tick_begin(tick.begin) + TICK_SECONDS).to_line())
                continue
            at, index = due[0]
            if at > now:
                stopped.wait(min(at - now, tick_begin(tick.begin) + TICK_SECONDS - now))
                continue
            heapq.heapreplace(due, (at + streams[index].interval_seconds, index))
            tick.scheduled[streams[index].key] += 1
            tick.late += now - at > LATE_SECONDS
            send(tick, index, next(numbers[index]))
        flush()
        lines.write(tick.close(time.time(), last=True).to_line())
