"""The machine under a measurement: its processors' time, whose it was, and how long it stood still."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INTERVAL_SECONDS = 0.5
STALL_SECONDS = 1.0
"""A thread that only sleeps is woken within milliseconds, unless the whole machine stands still."""
BUSY_SHARE = 0.9
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class MachineCounters:
    """The counters at one moment.

    Attributes
    ----------
    at
        Seconds since the epoch.
    busy, idle
        Processor seconds of the whole machine since it started.
    own_seconds
        Those of this process and all below it.
    late_seconds
        By which this reading came too late.
    """

    at: float
    busy: float
    idle: float
    own_seconds: float
    late_seconds: float = 0.0


@dataclass(frozen=True)
class MachineLoad:
    """The machine in a stretch of time; figures that no operating system told are NaN.

    Attributes
    ----------
    outside_cores
        Used by everything that is not ours, on average.
    idle_cores
        Used by nobody.
    cores
        Number of cores.
    stall_seconds
        The longest time for which not even a sleeping thread was woken.
    """

    outside_cores: float
    idle_cores: float
    cores: int
    stall_seconds: float

    @property
    def lacking(self) -> bool:
        """True if processes had to wait: next to nothing was idle, or all stood still for a while."""
        return self.idle_cores < (1 - BUSY_SHARE) * self.cores or self.stall_seconds >= STALL_SECONDS

    @property
    def text(self) -> str:
        """Its state in a few words."""
        stalls = (
            f", still for up to {self.stall_seconds:.1f} s" if self.stall_seconds >= STALL_SECONDS else ""
        )
        busy = 1 - self.idle_cores / self.cores
        return f"{busy:.0%} busy, {self.outside_cores:.1f} of {self.cores} cores by other programs{stalls}"


class MachineLog:
    """Reads the counters twice a second.

    Attributes
    ----------
    readings
        In order of time; none where there is no /proc.
    """

    def __init__(self) -> None:
        self.readings: list[MachineCounters] = []
        self._ended: dict[int, float] = {}
        self._alive: dict[int, float] = {}

    @contextlib.contextmanager
    def running(self) -> Iterator[MachineLog]:
        """Read until the block is left."""
        stop = threading.Event()

        def run() -> None:
            wanted = time.monotonic()
            while not stop.wait(max(0.0, wanted - time.monotonic())):
                late = time.monotonic() - wanted
                with contextlib.suppress(OSError):
                    self.readings.append(
                        MachineCounters(time.time(), *_processor_seconds(), self._own_cpu_seconds(), late)
                    )
                wanted = time.monotonic() + INTERVAL_SECONDS

        thread = threading.Thread(target=run, name="machine", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join()

    def between(self, begin: float, end: float) -> MachineLoad:
        """The machine between two times, seconds since the epoch."""
        margin = 1.2 * INTERVAL_SECONDS
        inside = [one for one in self.readings if begin - margin <= one.at <= end + margin + one.late_seconds]
        cores = os.cpu_count() or 1
        stall = max((one.late_seconds for one in inside), default=0.0)
        if len(inside) < 2:
            return MachineLoad(float("nan"), float("nan"), cores, stall)
        first, last = inside[0], inside[-1]
        seconds = last.at - first.at
        outside = max(0.0, (last.busy - first.busy) - (last.own_seconds - first.own_seconds)) / seconds
        return MachineLoad(outside, (last.idle - first.idle) / seconds, cores, stall)

    def _own_cpu_seconds(self) -> float:
        """Seconds of this process and all below it, those that have ended meanwhile included."""
        now = _family_seconds(os.getpid())
        for pid in self._alive.keys() - now.keys():
            self._ended[pid] = self._alive[pid]
        self._alive = now
        return sum(now.values()) + sum(self._ended.values())


def _processor_seconds() -> tuple[float, float]:
    """Busy and idle; what a virtual machine's host took away is neither."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, idle, waiting, interrupt, soft = (int(field) for field in fields[:7])
    return (user + nice + system + interrupt + soft) / _TICKS, (idle + waiting) / _TICKS


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
