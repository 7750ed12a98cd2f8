"""Every confirmed record of a load, looked for in the log: there, once, and in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trimtab.lab.sandbox.truth import RecordRun

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class ReadBackLog:
    """The log of one partition or topic, read back after the load.

    Parameters
    ----------
    begin
        The first place that retention has left.
    records
        Those of the load, in the order of the log.
    gapless
        Whether places without a record do not occur (Kafka's offsets).
    """

    begin: int
    records: list[RecordRun] = field(default_factory=list)
    gapless: bool = True


@dataclass(frozen=True)
class LogCheck:
    """The outcome for a whole load.

    Parameters
    ----------
    confirmed
        Records whose arrival brokers confirmed.
    read_back, read_by_consumers, by_place
        Those found in the log; removed by retention since, but read by a consumer; and removed unread, so
        that only the places that brokers named for them tell that they were there, once and in order.
    lost, twice, out_of_order
        Numbers of records by partition or topic. `lost` also counts a confirmed place that another record
        took; `twice` also a place before the kept log that no record of the load explains.
    """

    confirmed: int = 0
    read_back: int = 0
    read_by_consumers: int = 0
    by_place: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    twice: dict[str, int] = field(default_factory=dict)
    out_of_order: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if nothing is lost, there twice, or out of order."""
        return not (self.lost or self.twice or self.out_of_order)

    def text(self, records: str) -> str:
        """The outcome in a sentence; `records` is the system's word."""
        if not self.ok:
            faults = {"lost": self.lost, "there twice": self.twice, "out of order": self.out_of_order}
            told = [
                f"{sum(found.values()):,} {what} (first in {next(iter(found))})"
                for what, found in faults.items()
                if found
            ]
            return f"of {self.confirmed:,} confirmed {records} {', '.join(told)}"
        ways = {
            "read back from the log": self.read_back,
            "read by consumers before retention removed them": self.read_by_consumers,
        }
        told = [f"{count:,} {way}" for way, count in ways.items() if count]
        parts = []
        if told:
            parts.append(f"{self.read_back + self.read_by_consumers:,} once and in order ({', '.join(told)})")
        if self.by_place:
            parts.append(f"{self.by_place:,} removed unread, known by their offsets alone")
        return f"every one of {self.confirmed:,} confirmed {records} is accounted for" + (
            f": {', '.join(parts)}" if parts else ""
        )


def check_log(
    sent: Mapping[str, int],
    confirmed: Mapping[str, Iterable[RecordRun]],
    read: Mapping[str, Iterable[RecordRun]],
    logs: Mapping[str, ReadBackLog],
) -> LogCheck:
    """Look for every confirmed record.

    Parameters
    ----------
    sent
        Number of records that were sent, by partition or topic. What was sent and not confirmed may be there,
        once.
    confirmed
        Numbers and places as the producer was told.
    read
        The same as consumers read them, all together; a record that was handed out twice is no fault.
    logs
        What was read back; a key that is missing is an empty log.
    """
    every = read_back = read_by_consumers = by_place = 0
    lost: dict[str, int] = {}
    twice: dict[str, int] = {}
    out_of_order: dict[str, int] = {}
    for key in sorted({*confirmed, *logs}):
        log = logs.get(key, ReadBackLog(0))
        told, kept, handed_out = (
            _numbers_and_places(one) for one in (confirmed.get(key, ()), log.records, read.get(key, ()))
        )
        number, place = told
        found = np.isin(number, kept[0])
        removed = ~found & (place >= 0) & (place < log.begin)
        seen = removed & np.isin(number, handed_out[0])
        every += len(number)
        read_back += int(found.sum())
        read_by_consumers += int(seen.sum())
        by_place += int((removed & ~seen).sum())
        overwritten, doubled, backwards, places = _contradictions(log.begin, told, kept, handed_out)
        if log.gapless and len(number):
            unexplained = _gaps(places, log.begin) - max(0, sent.get(key, 0) - len(places))
            doubled += max(0, unexplained)
        absent = int((~found & ~removed).sum()) + overwritten
        for faults, count in ((lost, absent), (twice, doubled), (out_of_order, backwards)):
            if count:
                faults[key] = count
    return LogCheck(every, read_back, read_by_consumers, by_place, lost, twice, out_of_order)


def _contradictions(begin: int, *sources: tuple[Numbers, Numbers]) -> tuple[int, int, int, Numbers]:
    """Losses of places before `begin`, records of two places, steps backwards, and the known places."""
    pairs = np.unique(
        np.concatenate([np.stack((place, number), axis=1)[place >= 0] for number, place in sources]), axis=0
    )
    places = np.unique(pairs[:, 0])
    _, first = np.unique(pairs[:, 1], return_index=True)
    in_order = pairs[np.sort(first), 1]
    return (
        int((pairs[:, 0] < begin).sum() - (places < begin).sum()),
        len(pairs) - len(first),
        int((np.diff(in_order) < 0).sum()),
        places,
    )


def _gaps(places: Numbers, end: int) -> int:
    """Places before `end` of which nothing is known."""
    before = places[places < end]
    return int(end - before[0]) - len(before) if len(before) else 0


def _numbers_and_places(stretches: Iterable[RecordRun]) -> tuple[Numbers, Numbers]:
    """Both of every record, in order; a place that is not known is -1."""
    numbers, places = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for first, last, place in stretches:
        count = np.arange(last - first + 1)
        numbers.append(first + count)
        places.append(np.full(len(count), -1) if place is None else place + count)
    return np.concatenate(numbers), np.concatenate(places)
