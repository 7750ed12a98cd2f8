"""The interruptions that clients of a load noticed."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from trimtab.lab.sandbox.truth import TruthTick


@dataclass(frozen=True)
class ClientInterruption:
    """The longest pause of one client at one topic or partition.

    Parameters
    ----------
    client
        `producer`, or the name of a reader.
    key
        The topic, or `topic:partition`.
    begin, end
        The last confirmation (or record read) before it and the first after it, seconds since the epoch.
    """

    client: str
    key: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length; the usual time between two records is in it."""
        return self.end - self.begin


@dataclass(frozen=True)
class InterruptionSummary:
    """Median and longest of interruptions: how many there are, `p50_seconds` and `max_seconds`."""

    count: int
    p50_seconds: float
    max_seconds: float


def interruptions(
    ticks: Iterable[TruthTick], keys: Collection[str], begin: float, end: float
) -> tuple[ClientInterruption, ...]:
    """The interruptions that clients of some topics noticed between two times.

    Parameters
    ----------
    ticks
        Of a load that went on for a while after `end`: a pause is known when it is over, or with the last
        tick of its client.
    keys
        Topics (of Pulsar, by their full names) or partitions of Kafka.
    begin, end
        Seconds since the epoch; pauses that touch this span count, in full.

    Returns
    -------
    tuple[Interruption, ...]
        The longest for each client and key, ordered by client and key. A client that was not at work there,
        or whose pause goes on, is not in it.
    """
    longest: dict[tuple[str, str], ClientInterruption] = {}
    wanted = set(keys)
    for tick in ticks:
        for key in wanted & tick.pauses.keys():
            for pause_begin, pause_end in tick.pauses[key]:
                found = ClientInterruption(tick.client, key, pause_begin, pause_end)
                before = longest.get((tick.client, key))
                touches = pause_begin <= end and pause_end >= begin
                if touches and (before is None or found.seconds > before.seconds):
                    longest[tick.client, key] = found
    return tuple(longest[place] for place in sorted(longest))


def summarize_interruptions(found: Iterable[ClientInterruption]) -> InterruptionSummary | None:
    """Median and maximum over clients and topics; None where there were none."""
    seconds = [one.seconds for one in found]
    return InterruptionSummary(len(seconds), statistics.median(seconds), max(seconds)) if seconds else None
