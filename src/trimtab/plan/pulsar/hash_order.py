"""The order in which Java iterates over its hash maps of texts: among equals, it decides.

Of `java.util.HashMap` and `java.util.concurrent.ConcurrentHashMap` (OpenJDK 17 and later): the table is a
power of two, an entry's place in it comes from the hash of its key, and iteration follows the table. Entries
of one place stand in the order in which they came. Left out: a place that holds eight entries or more becomes
a tree, which happens by ill chance or ill will.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

SMALLEST_TABLE = 16


def java_hashes(names: Sequence[str]) -> NDArray[np.uint32]:
    """Shape (names,): `String.hashCode` of each, spread as both maps do (`h ^ h >>> 16`).

    No name may have characters beyond the basic multilingual plane: those of brokers and bundles have none.
    """
    if not names:
        return np.zeros(0, dtype=np.uint32)
    texts = np.array(names)
    letters = texts.view(np.uint32).reshape(len(names), -1)
    lengths = np.char.str_len(texts)
    hashes = np.zeros(len(names), dtype=np.uint32)
    for place in range(letters.shape[1]):
        inside = place < lengths
        hashes[inside] = hashes[inside] * np.uint32(31) + letters[inside, place]
    return hashes ^ (hashes >> np.uint32(16))


def hash_map_order(names: Iterable[str], most: int = 0) -> list[str]:
    """The order in which a `HashMap` gives keys back that were put in this order.

    `most` is the most keys that it ever held: `clear` empties the table and leaves its size.
    """
    table = SMALLEST_TABLE
    given = list(names)
    while max(most, len(given)) * 4 > table * 3:
        table *= 2
    places = java_hashes(given) & np.uint32(table - 1)
    return [given[at] for at in np.argsort(places, kind="stable")]


def concurrent_hash_map_order(names: Iterable[str]) -> list[str]:
    """The order in which a new `ConcurrentHashMap` gives these keys back, put in their order."""
    given = tuple(names)
    return list(ConcurrentHashMapKeys().after(given).names)


@dataclass(frozen=True)
class ConcurrentHashMapKeys:
    """The keys of a `ConcurrentHashMap` that lives on while they come and go.

    It grows one entry earlier than `HashMap`, and its growing turns around some entries of one place, so that
    the growing is done over again here. It never shrinks.

    Attributes
    ----------
    names
        In the order in which it gives them back.
    table
        How many places it has.
    """

    names: tuple[str, ...] = ()
    table: int = SMALLEST_TABLE

    def after(self, desired: Collection[str]) -> "ConcurrentHashMapKeys":
        """After those that are new were put, in their order, and those not wanted any more were removed."""
        held, kept = set(self.names), set(desired)
        fresh = [name for name in desired if name not in held]
        if not fresh:
            return self if kept == held else replace(self, names=self._without(self.names, kept))
        names = (*self.names, *fresh)
        hashes = java_hashes(names).tolist()
        places: Places = [None] * self.table
        for at, key in enumerate(hashes):
            _put(places, key & (len(places) - 1), at)
            if at >= len(self.names) and (at + 1) * 4 >= len(places) * 3:
                places = _grown(places, hashes)
        ordered = tuple(names[at] for place in places for at in _entries(place))
        return ConcurrentHashMapKeys(self._without(ordered, kept), len(places))

    @staticmethod
    def _without(names: tuple[str, ...], retained: set[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name in retained)


# A list for every place would keep the garbage collector busy: most have one entry, or none.
Place = int | list[int] | None
Places = list[Place]


def _put(places: Places, place: int, at: int) -> None:
    """Add an entry at the end of a place."""
    there = places[place]
    if there is None:
        places[place] = at
    elif isinstance(there, list):
        there.append(at)
    else:
        places[place] = [there, at]


def _entries(place: Place) -> Sequence[int]:
    if isinstance(place, list):
        return place
    return () if place is None else (place,)


def _grown(table: Places, hashes: list[int]) -> Places:
    """The table twice as large (`ConcurrentHashMap.transfer`): each place is divided by one more bit.

    The longest tail of a place that stays together is kept as it is; what stands before it is put in front of
    it, one by one, and so turned around.
    """
    bit = len(table)
    larger: Places = [None] * (2 * bit)
    for place, entries in enumerate(table):
        if entries is None:
            continue
        if not isinstance(entries, list):
            larger[place + (hashes[entries] & bit)] = entries
            continue
        tail = len(entries)
        while tail > 0 and (hashes[entries[tail - 1]] ^ hashes[entries[-1]]) & bit == 0:
            tail -= 1
        for at in (*reversed(entries[:tail]), *entries[tail:]):
            _put(larger, place + (hashes[at] & bit), at)
    return larger


def copied_map_order(names: Iterable[str], left: Iterable[str]) -> list[str]:
    """The order in which a `ConcurrentHashMap` made as a copy of another map gives back what is left in it.

    Parameters
    ----------
    names
        All that was copied, in the order of the other map: its table is made large enough for half as many
        more at once, and then, as a rule, twice as large again (`tryPresize`).
    left
        Those that were not removed since.
    """
    given, kept = list(names), set(left)
    enough = 1
    while enough < len(given) + len(given) // 2 + 1:
        enough *= 2
    table = max(SMALLEST_TABLE, enough)
    while enough * 4 > table * 3:
        table *= 2
    places = java_hashes(given) & np.uint32(table - 1)
    return [given[at] for at in np.argsort(places, kind="stable") if given[at] in kept]
