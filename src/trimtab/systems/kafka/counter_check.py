"""Whether what an endpoint calls a counter counts: its change against the growth of the broker's logs.

A rate under a counter's name, or another broker's counter, looks right in one scrape. Two scrapes, and the
logs of the partitions that the broker led in between, decide.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trimtab.systems.kafka.broker_sample import KafkaBrokerSample, Offsets
from trimtab.systems.kafka.exposition import BrokerCounters
from trimtab.systems.kafka.prometheus import CounterScrape

TOLERANCE: Final = 0.25
"""Largest difference of counter and logs, of the larger of both: the two are not read in the same instant."""
MIN_BYTES: Final = 10_000
"""Below it the logs grow too little to say anything about a counter."""
_STILL: Final = 0.01
"""A counter that rises by less than this share of what the logs grow by does not count bytes."""
_MAX_ERROR: Final = 10
"""How many comparisons are remembered against a counter."""

CAUSE: Final = "it does not rise as the logs of the partitions that the broker leads do"


class CounterCheckResult(StrEnum):
    """What a comparison says."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NO_COUNTER = "no counter"
    IDLE = "idle"
    UNKNOWN = "unknown"
    """There is no counter, it was reset, sizes are not told, or leaders moved in between."""


@dataclass(frozen=True)
class TrafficReading:
    """One broker at one instant: its counters, and the logs of the partitions that it leads.

    Attributes
    ----------
    sizes
        Bytes of its own replica, by partition that it leads.
    """

    sampled_at: datetime.datetime
    counters: BrokerCounters
    start_offsets: Offsets
    end_offsets: Offsets
    sizes: Mapping[tuple[str, int], int]

    @classmethod
    def of(cls, found: CounterScrape, answer: KafkaBrokerSample) -> TrafficReading:
        """The reading that a scrape and an answer of the same tick make."""
        sizes: dict[tuple[str, int], int] = {}
        if answer.replicas is not None:
            columns = answer.replicas.columns
            names = ("topic", "partition", "is_future", "size_bytes")
            for topic, number, is_future, size in zip(*(columns[name] for name in names), strict=True):
                if not is_future and (topic, number) in answer.end_offsets:
                    sizes[topic, number] = size
        return cls(found.sampled_at, found.counters, answer.start_offsets, answer.end_offsets, sizes)


@dataclass(frozen=True)
class CounterComparison:
    """A broker's bytes in between two readings, by its counter and by its logs.

    Attributes
    ----------
    counted_bytes
        The counter's change; None where it is not there.
    logged_bytes
        By how much the logs of the partitions grew that the broker led at both readings.
    cpu_seconds
        The change of the CPU time; None where it is not there.
    """

    outcome: CounterCheckResult
    seconds: float
    counted_bytes: float | None
    logged_bytes: float
    cpu_seconds: float | None


def compare(before: TrafficReading, after: TrafficReading) -> CounterComparison:
    """Compare two readings of one broker."""
    counted = _change(before, after, "bytes_in_total")
    cpu = _change(before, after, "cpu_time_ns")
    logged = sum(_growth(before, after, key) for key in before.end_offsets.keys() & after.end_offsets.keys())
    seconds = (after.sampled_at - before.sampled_at).total_seconds()

    def result(outcome: CounterCheckResult) -> CounterComparison:
        return CounterComparison(outcome, seconds, counted, logged, None if cpu is None else cpu / 1e9)

    sized = all(one.sizes or not one.end_offsets for one in (before, after))
    if counted is None or not sized or before.end_offsets.keys() != after.end_offsets.keys():
        return result(CounterCheckResult.UNKNOWN)
    if counted < 0:
        # Where the broker was restarted, its CPU time fell as well.
        return result(
            CounterCheckResult.NO_COUNTER if cpu is not None and cpu >= 0 else CounterCheckResult.UNKNOWN
        )
    if max(counted, logged) < MIN_BYTES:
        return result(CounterCheckResult.IDLE)
    if counted < _STILL * logged:
        return result(CounterCheckResult.NO_COUNTER)
    close = abs(counted - logged) <= TOLERANCE * max(counted, logged)
    return result(CounterCheckResult.AGREES if close else CounterCheckResult.DIFFERS)


class CounterCheck:
    """Which brokers' counters of traffic do not count, as readings come in.

    One comparison is enough against a counter that never followed the logs. Against another it takes two: a
    burst between the scrape and the sizes of one tick makes one comparison wrong, and the next differ.
    """

    def __init__(self) -> None:
        self._last: dict[int, TrafficReading] = {}
        self._map_error: dict[int, int] = {}
        self._followed: set[int] = set()

    def checked(self, broker: int, reading: TrafficReading) -> BrokerCounters:
        """The counters of a reading, without those of traffic where these do not count."""
        before = self._last.get(broker)
        self._last[broker] = reading
        wrong = self._map_error.get(broker, 0)
        if before is not None:
            outcome = compare(before, reading).outcome
            if outcome is CounterCheckResult.NO_COUNTER:
                wrong = min(wrong + 1, _MAX_ERROR)
            elif outcome is CounterCheckResult.AGREES:
                wrong = 0
                self._followed.add(broker)
            elif outcome is CounterCheckResult.DIFFERS:
                wrong = max(wrong - 1, 0)
            self._map_error[broker] = wrong
        if wrong < (2 if broker in self._followed else 1):
            return reading.counters
        return reading.counters.without_traffic(CAUSE)


def _change(before: TrafficReading, after: TrafficReading, column: str) -> float | None:
    first, second = before.counters.broker.get(column), after.counters.broker.get(column)
    return None if first is None or second is None else second - first


def _growth(before: TrafficReading, after: TrafficReading, key: tuple[str, int]) -> float:
    """Bytes that a log grew by; where some were removed, offsets times its bytes per record."""
    first, second = before.sizes.get(key), after.sizes.get(key)
    if first is None or second is None:
        return 0.0
    same_start = before.start_offsets.get(key) == after.start_offsets.get(key)
    if second >= first and same_start:
        return float(second - first)
    records = after.end_offsets[key] - before.end_offsets[key]
    held = after.end_offsets[key] - after.start_offsets.get(key, 0)
    return max(0.0, records * second / held) if held > 0 else 0.0
