"""The machine under a measurement: its load and pauses, and the samples and records that they disturb.

`MachineLog` reads the counters of the processors. `check_sample` decides whether a sample is valid.
`failures` counts failed records by what went on at their time.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimtab.lab.sandbox.truth import TruthTick


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


PRODUCED_WITHIN = 0.02
"""Produced bytes may differ from those due by this share."""
CONFIRMED_WITHIN_SECONDS = 0.6
"""And by what is due in this time: brokers confirm when followers have fetched."""
OUTSIDE_CORES = 0.5
"""What processes that are not ours may use on average during a sample, unless a whole core is left over."""


@dataclass(frozen=True)
class SampleValidity:
    """One sample's checks.

    Attributes
    ----------
    produced
        Bytes confirmed over bytes due.
    outside_cores, idle_cores
        Processor time of everything that is not ours, and of nobody, in cores; NaN where nobody tells.
    late_records, errors
        As clients counted them.
    seconds
        Length of the sample.
    """

    produced: float
    outside_cores: float
    idle_cores: float
    late_records: int
    errors: int
    seconds: float

    @property
    def valid(self) -> bool:
        """Whether the sample counts."""
        return not self.reason

    @property
    def reason(self) -> str:
        """Why it does not count; empty if it does."""
        if abs(self.produced - 1) > PRODUCED_WITHIN + CONFIRMED_WITHIN_SECONDS / self.seconds:
            return f"producers got {self.produced:.0%} of what was due confirmed"
        if self.outside_cores > OUTSIDE_CORES and self.idle_cores < 1:
            return f"other programs used {self.outside_cores:.1f} cores"
        return ""


def check_sample(ticks: Iterable[TruthTick], load: MachineLoad, begin: float, end: float) -> SampleValidity:
    """Check one sample.

    Parameters
    ----------
    ticks
        What the load's clients wrote down.
    load
        The machine in the sample's interval.
    begin, end
        That interval, seconds since the epoch.
    """
    within = [tick for tick in ticks if begin <= tick.at + tick.seconds / 2 < end]
    producer = [tick for tick in within if tick.client == "producer"]
    due = sum(part.bytes for tick in producer for part in tick.planned.values())
    done = sum(part.bytes for tick in producer for part in tick.done.values())
    return SampleValidity(
        produced=done / due if due else 0.0,
        outside_cores=load.outside_cores,
        idle_cores=load.idle_cores,
        late_records=sum(tick.late_records for tick in within),
        errors=sum(tick.errors for tick in within),
        seconds=end - begin,
    )


def check_samples(
    ticks: Iterable[TruthTick], machine: MachineLog, ends: Iterable[float]
) -> list[SampleValidity]:
    """Check samples one after the other; `ends` begins with the begin of the first."""
    known = list(ticks)
    return [check_sample(known, machine.between(begin, end), begin, end) for begin, end in pairwise(ends)]


STRETCH_SECONDS = 10.0
MACHINE = "while this machine had no breath"
MOVE = "while the plan was carried out"
BOTH = "while the plan was carried out on a machine without breath"
NEITHER = "while neither machine nor move tell why"


def failures(
    ticks: Iterable[TruthTick], moving: tuple[float, float] | None, machine: MachineLog
) -> dict[str, dict[str, int]]:
    """Counts of failed records (and polls) by circumstance and by the name of their error.

    Parameters
    ----------
    ticks
        What the load's clients wrote down.
    moving
        Begin and end of the execution, seconds since the epoch; None without one.
    machine
        Its log. A tick belongs to a machine without breath if that lacked for a stretch between the sending
        of the first record that failed in it and its end, or if clients came to send more than a second late
        then.
    """
    known = list(ticks)
    late = [(tick.at, tick.at + tick.seconds) for tick in known if tick.late_records]
    found: dict[str, Counter[str]] = {}
    for tick in known:
        if not tick.causes:
            continue
        begin = min(tick.at, tick.waited_since or tick.at)
        end = tick.at + tick.seconds
        moved = moving is not None and begin <= moving[1] and moving[0] <= end
        starved = _starved(machine, begin, end) or any(a < end and begin < b for a, b in late)
        where = (BOTH if starved else MOVE) if moved else MACHINE if starved else NEITHER
        found.setdefault(where, Counter()).update(tick.causes)
    return {where: dict(causes.most_common()) for where, causes in found.items()}


def _starved(machine: MachineLog, begin: float, end: float) -> bool:
    """Looked at in stretches: a record may have waited for two minutes, through a pause of ten seconds."""
    pieces = max(1, round((end - begin) / STRETCH_SECONDS))
    length = (end - begin) / pieces
    return any(
        machine.between(begin + piece * length, begin + (piece + 1) * length).lacking
        for piece in range(pieces)
    )


def failures_lines(found: dict[str, dict[str, int]]) -> list[str]:
    """A line for each circumstance."""
    return [
        f"failed {where}: " + ", ".join(f"{count:,} {cause}" for cause, count in causes.items())
        for where, causes in found.items()
    ]
