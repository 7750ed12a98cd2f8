"""A producer's clock: every record at its due time, every tick with what was due and what was confirmed."""

from __future__ import annotations

import heapq
import random
import statistics
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from trimtab.lab.sandbox.stamps import RecordRuns
from trimtab.lab.sandbox.truth import TICK_SECONDS, LongestPauses, Traffic, TruthTick, tick_begin

LATE_SECONDS = 1.0


@dataclass(frozen=True)
class RecordStream:
    """Records of one size that are due at one interval; `key` names where they go in the truth."""

    key: str
    interval_seconds: float
    record_bytes: int


class ProducerTick:
    """Counts of the running tick; confirmations arrive from the client's own thread."""

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
        """A record that was sent at a time of `time.monotonic` has been confirmed now, with its place."""
        self._confirmed.append((key, number, place, (time.monotonic() - sent) * 1000, time.time()))

    def fail(self, cause: str, sent: float) -> None:
        """A record that was sent at a time of `time.monotonic` has been given up now, for a named cause."""
        self._failed.append((cause, time.time() - (time.monotonic() - sent)))

    def close(self, end: float, *, last: bool = False) -> TruthTick:
        """The tick as it is written; what is confirmed later belongs to the next."""
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
