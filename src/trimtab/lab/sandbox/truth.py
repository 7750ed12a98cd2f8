"""The truth of a load: stamps, traffic and pauses, and the check that the log holds each record once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

STAMP_BYTES = 16
"""Eight of the run, eight of the number; a record is never smaller."""


def stamped(run: str, number: int, value: bytes) -> bytes:
    """The value with a stamp at its beginning, of the same size; `run` has 16 hexadecimal digits."""
    return bytes.fromhex(run) + number.to_bytes(8) + value[STAMP_BYTES:]


def number_of(run: str, value: bytes) -> int | None:
    """The number in a value's stamp; None for a record that is not of this run."""
    if len(value) < STAMP_BYTES or value[:8] != bytes.fromhex(run):
        return None
    return int.from_bytes(value[8:STAMP_BYTES])


class RecordRun(NamedTuple):
    """Records whose numbers, and whose places in the log, follow each other.

    Parameters
    ----------
    first, last
        Numbers, both included.
    place
        Of the first one: Kafka's offset, or `pulsar_place`; None where the broker did not tell.
    """

    first: int
    last: int
    place: int | None


class RecordRuns:
    """Collects runs of records by stream."""

    def __init__(self) -> None:
        self._by_key: dict[str, list[RecordRun]] = {}

    def add(self, key: str, number: int, place: int | None) -> None:
        """The next record of a stream."""
        found = self._by_key.setdefault(key, [])
        if found:
            first, last, begin = found[-1]
            follows = None if begin is None else begin + number - first
            if number == last + 1 and place == follows:
                found[-1] = RecordRun(first, number, begin)
                return
        found.append(RecordRun(number, number, place))

    def take(self) -> dict[str, list[RecordRun]]:
        """The runs since the last call."""
        taken, self._by_key = self._by_key, {}
        return taken


def pulsar_place(ledger: int, entry: int) -> int | None:
    """A message's place as one number that grows along the topic; None for a duplicate that was dropped."""
    return (ledger << 32) + entry if ledger >= 0 else None


TICK_SECONDS = 1.0
# An unload takes some tenths of a second: one pause a tick would let a longer one before it hide its own.
PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class Traffic:
    """Records and their value bytes, before any compression."""

    records: int
    bytes: int


@dataclass(frozen=True)
class TruthTick:
    """The traffic of one client in one second.

    Parameters
    ----------
    client
        `producer`, or the name of a consumer group.
    at
        Begin of the tick, seconds since the epoch.
    seconds
        Its length; the last one of a run may be shorter.
    planned, done
        By `topic:partition`: what was due, and what brokers confirmed (producer) or handed out (group).
    late_records
        Records sent more than a second after they were due.
    errors
        Records given up, or polls that failed.
    causes
        The same by the name of the error, as the client names it.
    waited_since
        When the first of the records given up in this tick was sent, seconds since the epoch: what was in its
        way lies between then and the tick's end. None without any.
    latency_p50_ms, latency_p99_ms
        From send to confirmation; None for a tick without any, and for groups.
    pauses
        By the same keys: begin and end of times between two confirmations (or records read), the longest of
        each `PAUSE_SECONDS` in which one ended, in time order; in a client's last tick also such as have not
        ended. Seconds since the epoch. Readers of Kafka tell none.
    stamps
        By the same keys: the records that `done` counts, in the order of confirmation or reading.
    """

    client: str
    at: float
    seconds: float
    planned: dict[str, Traffic] = field(default_factory=dict)
    done: dict[str, Traffic] = field(default_factory=dict)
    late_records: int = 0
    errors: int = 0
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    pauses: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    causes: dict[str, int] = field(default_factory=dict)
    waited_since: float | None = None
    stamps: dict[str, list[RecordRun]] = field(default_factory=dict)

    def to_line(self) -> str:
        """The tick as one line of JSON."""
        return msgspec.json.encode(self).decode() + "\n"


class LongestPauses:
    """The longest times between two events of each key, one for each `PAUSE_SECONDS`."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._longest: dict[str, dict[int, tuple[float, float]]] = {}

    def add(self, key: str, at: float) -> None:
        """Add an event; events of one key come in the order of time."""
        before = self._last.get(key)
        self._last[key] = at
        if before is not None:
            self._keep(key, before, at)

    def take(self, end: float | None = None) -> dict[str, list[tuple[float, float]]]:
        """Begin and end of the pauses since the last call; with `end`, open pauses end there."""
        if end is not None:
            for key, last in self._last.items():
                self._keep(key, last, end)
        taken = {
            key: [(round(begin, 6), round(end, 6)) for begin, end in kept.values()]
            for key, kept in sorted(self._longest.items())
        }
        self._longest.clear()
        return taken

    def _keep(self, key: str, begin: float, end: float) -> None:
        kept = self._longest.setdefault(key, {})
        place = math.floor(end / PAUSE_SECONDS)
        longest = kept.get(place)
        if longest is None or end - begin > longest[1] - longest[0]:
            kept[place] = (begin, end)


def tick_begin(now: float) -> float:
    """The begin of the tick that holds a time."""
    return math.floor(now / TICK_SECONDS) * TICK_SECONDS


def read_truth(folder: Path) -> Iterator[TruthTick]:
    """All ticks of a load, client by client; an incomplete last line is skipped."""
    for path in sorted(folder.glob("*.truth.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):
                    yield msgspec.json.decode(line, type=TruthTick)


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
