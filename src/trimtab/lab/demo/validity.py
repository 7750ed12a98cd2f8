"""Whether a sample may be used: the load ran as it should, and nothing else kept the machine busy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from trimtab.lab.demo.machine import MachineLoad, MachineLog

if TYPE_CHECKING:
    from trimtab.lab.sandbox.truth import TruthTick

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


def check(ticks: Iterable[TruthTick], load: MachineLoad, begin: float, end: float) -> SampleValidity:
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


def check_all(ticks: Iterable[TruthTick], machine: MachineLog, ends: Iterable[float]) -> list[SampleValidity]:
    """Check samples one after the other; `ends` begins with the begin of the first."""
    known = list(ticks)
    return [check(known, machine.between(begin, end), begin, end) for begin, end in pairwise(ends)]
