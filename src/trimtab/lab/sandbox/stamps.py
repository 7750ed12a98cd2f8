"""Stamps by which the records of a load are known again: its run, and each record's number in its stream."""

from __future__ import annotations

from typing import NamedTuple

STAMP_BYTES = 16
"""Eight of the run, eight of the number; a record is never smaller."""


def stamped(run: str, number: int, value: bytes) -> bytes:
    """A value of the same size that begins with its stamp; `run` has 16 hexadecimal digits."""
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
    """Stretches by stream, as records come."""

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
        """Those since the last call."""
        taken, self._by_key = self._by_key, {}
        return taken


def pulsar_place(ledger: int, entry: int) -> int | None:
    """A message's place as one number that grows along the topic; None for a duplicate that was dropped."""
    return (ledger << 32) + entry if ledger >= 0 else None
