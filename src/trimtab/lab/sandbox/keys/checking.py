"""Effects held against what was acknowledged, record by record: order, loss, doubles."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

Stream = tuple[str, bytes]
"""A run of a producer, and a key."""


class KeysViolation(AssertionError):
    """Something was promised and did not hold."""


@dataclass(frozen=True)
class VerifiedRecords:
    """What processes left behind, after it was seen to be in order.

    Attributes
    ----------
    acknowledged
        By stream, the numbers of records that brokers had confirmed.
    effects
        By stream, number and place among all effects, in the order of those.
    """

    acknowledged: dict[Stream, set[int]]
    effects: dict[Stream, list[tuple[int, int]]]

    @property
    def counts(self) -> tuple[int, int]:
        """Records acknowledged, and effects."""
        return sum(map(len, self.acknowledged.values())), sum(map(len, self.effects.values()))


def check(folder: Path) -> VerifiedRecords:
    """Hold the effects in a folder against what was acknowledged.

    Raises
    ------
    Violation
        If a record of a stream took effect out of its order, twice, or, acknowledged, not at all.
    """
    acknowledged: dict[Stream, set[int]] = defaultdict(set)
    for path in folder.glob("acknowledged-*"):
        for line in path.read_bytes().splitlines():
            key, _, number = line.rpartition(b" ")
            acknowledged[path.name.removeprefix("acknowledged-"), key].add(int(number))
    effects: dict[Stream, list[tuple[int, int]]] = defaultdict(list)
    with sqlite3.connect(folder / "effects") as database:
        for place, key, value in database.execute("SELECT place, key, value FROM effects ORDER BY place"):
            run, number, *_ = value.decode().split(" ")
            effects[run, key].append((int(number), place))
    for (run, key), numbers in effects.items():
        order = [number for number, _ in numbers]
        if any(later <= earlier for earlier, later in pairwise(order)):
            raise KeysViolation(f"{run}, {key!r}: effects {order} are out of order or doubled")
    for name, confirmed in acknowledged.items():
        lost = confirmed - {number for number, _ in effects[name]}
        if lost:
            raise KeysViolation(f"{name}: {len(lost)} acknowledged records had no effect, first {min(lost)}")
    return VerifiedRecords(acknowledged, effects)
