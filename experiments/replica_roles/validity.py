"""Whether a sample may be used: the load ran as recorded, and nothing else kept the machine busy."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trimtab.lab.sandbox.truth import TruthTick

PRODUCED_WITHIN = 0.02
"""Produced bytes may differ from those due by this share."""
OUTSIDE_CORES = 0.5
"""What processes that are not the experiment's may use on average during a sample."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Validity:
    """One sample's checks.

    Attributes
    ----------
    produced
        Bytes confirmed over bytes due.
    outside_cores
        Processor time of everything that is not ours, in cores.
    late_records, errors
        As clients counted them.
    """

    produced: float
    outside_cores: float
    late_records: int
    errors: int

    @property
    def valid(self) -> bool:
        """Whether the sample counts."""
        return abs(self.produced - 1) <= PRODUCED_WITHIN and self.outside_cores <= OUTSIDE_CORES


def check(
    ticks: Iterable[TruthTick], processor: list[tuple[float, float, float]], begin: float, end: float
) -> Validity:
    """Check one sample.

    Parameters
    ----------
    ticks
        What the load's clients wrote down.
    processor
        As `ProcessorLog.readings`.
    begin, end
        The sample's interval, seconds since the epoch.
    """
    within = [tick for tick in ticks if begin <= tick.at + tick.seconds / 2 < end]
    producer = [tick for tick in within if tick.client == "producer"]
    due = sum(part.bytes for tick in producer for part in tick.planned.values())
    done = sum(part.bytes for tick in producer for part in tick.done.values())
    inside = [reading for reading in processor if begin - 0.6 <= reading[0] <= end + 0.6]
    outside = float("nan")
    if len(inside) > 1:
        (first, busy, ours), (last, busy_end, ours_end) = inside[0], inside[-1]
        outside = max(0.0, (busy_end - busy) - (ours_end - ours)) / (last - first)
    return Validity(
        produced=done / due if due else 0.0,
        outside_cores=outside,
        late_records=sum(tick.late_records for tick in within),
        errors=sum(tick.errors for tick in within),
    )


class ProcessorLog:
    """Writes down twice a second how much processor time the machine and our own processes have used.

    Attributes
    ----------
    readings
        (seconds since the epoch, machine's busy seconds, our seconds) in order of time.
    """

    def __init__(self) -> None:
        self.readings: list[tuple[float, float, float]] = []
        self._ended: dict[int, float] = {}
        self._alive: dict[int, float] = {}

    @contextlib.contextmanager
    def running(self) -> Iterator[ProcessorLog]:
        """Read until the block is left."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(0.5):
                self.readings.append((time.time(), _busy_seconds(), self._ours()))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join()

    def _ours(self) -> float:
        """Seconds of this process and all below it, those that have ended meanwhile included."""
        now = _family_seconds(os.getpid())
        for pid in self._alive.keys() - now.keys():
            self._ended[pid] = self._alive[pid]
        self._alive = now
        return sum(now.values()) + sum(self._ended.values())


def _busy_seconds() -> float:
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _, _, interrupt, soft = (int(field) for field in fields[:7])
    return (user + nice + system + interrupt + soft) / _TICKS


def _family_seconds(root: int) -> dict[int, float]:
    parent, used = {}, {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                pid = int(entry.name)
                parent[pid] = int(fields[1])
                used[pid] = (int(fields[11]) + int(fields[12])) / _TICKS
    family = {root}
    grown = True
    while grown:
        more = {pid for pid, above in parent.items() if above in family} - family
        grown = bool(more)
        family |= more
    return {pid: used[pid] for pid in family if pid in used}
