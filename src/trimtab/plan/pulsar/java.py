"""Java's arithmetic, sort, and order of hash maps, reproduced where they affect decisions.

A stable sort is a stable sort as long as "less" is an order. Pulsar 4.0's AvgShedder calls scores equal that
differ by less than one point, which is no order (0 = 0.9 = 1.8, but 0 < 1.8): the result depends on which
pairs are compared, so that the steps of `java.util.TimSort` (OpenJDK 17) are taken one by one.

Among equals, the order in which Java iterates over its hash maps of texts decides. Of `java.util.HashMap` and
`java.util.concurrent.ConcurrentHashMap` (OpenJDK 17 and later): the table is a power of two, an entry's place
in it comes from the hash of its key, and iteration follows the table. Entries of one place stand in the order
in which they came. Left out: a place that holds eight entries or more becomes a tree, which happens by ill
chance or ill will.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Compare = Callable[[T, T], int]

LARGEST: Final = 2**31 - 1
MIN_MERGE: Final = 32
MIN_GALLOP: Final = 7


def truncated(number: float) -> int:
    """A double cast to `int`: towards zero, and held at the ends."""
    return int(max(min(number, LARGEST), -LARGEST - 1))


def wrapped(number: int) -> int:
    """The sum or product of `int`s that this number is: what does not fit runs over to the other end."""
    return (number + 2**31) % 2**32 - 2**31


def divided(number: float, by: float) -> float:
    """A double by a double: by zero it is infinite, and zero by zero is not a number."""
    if by != 0:
        return number / by
    return math.nan if number == 0 or math.isnan(number) else math.copysign(math.inf, number)


def rounded(value: float) -> int:
    """`Math.round`: half up, exactly; adding .5 first would round 0.49999999999999994 up."""
    whole = math.floor(value)
    return whole + (value - whole >= 0.5)


class ComparisonContractError(ValueError):
    """Java detects a contradictory order and throws `IllegalArgumentException`."""


def java_sorted(items: Iterable[T], compare: Compare[T]) -> list[T]:
    """The items in the order that `Arrays.sort(items, compare)` leaves them in.

    Parameters
    ----------
    compare
        Below zero where the first comes first, above zero where the second does, else zero.

    Raises
    ------
    ContradictionError
        Where Java would throw.
    """
    array = list(items)
    least, odd = len(array), 0
    if least < MIN_MERGE:
        _insert(array, 0, least, _run_length(array, 0, compare), compare)
        return array
    while least >= MIN_MERGE:
        least, odd = least >> 1, odd | least & 1
    runs: list[tuple[int, int]] = []
    gallop, at = MIN_GALLOP, 0
    while at < len(array):
        length = _run_length(array, at, compare)
        forced = min(len(array) - at, least + odd)
        if length < forced:
            _insert(array, at, at + forced, at + length, compare)
            length = forced
        runs.append((at, length))
        at += length
        while (place := _unbalanced(runs, last=at == len(array))) is not None:
            gallop = _merge(array, runs, place, gallop, compare)
    return array


def _run_length(array: list[T], low: int, compare: Compare[T]) -> int:
    """Number of items from `low` on that are in order; a strictly falling run is turned around."""
    end = low + 1
    if end >= len(array):
        return len(array) - low
    falling = compare(array[end], array[low]) < 0
    end += 1
    while end < len(array) and (compare(array[end], array[end - 1]) < 0) == falling:
        end += 1
    if falling:
        array[low:end] = array[low:end][::-1]
    return end - low


def _insert(array: list[T], low: int, high: int, start: int, compare: Compare[T]) -> None:
    """Binary insertion of the items from `start` on into those from `low` to it."""
    for at in range(max(start, low + 1), high):
        item = array[at]
        left, right = low, at
        while left < right:
            middle = (left + right) >> 1
            if compare(item, array[middle]) < 0:
                right = middle
            else:
                left = middle + 1
        array[left + 1 : at + 1] = array[left:at]
        array[left] = item


def _unbalanced(runs: list[tuple[int, int]], *, last: bool) -> int | None:
    """The run of the stack to be merged with the next, if any (`mergeCollapse`, then `mergeForceCollapse`).

    The lengths of the runs fall fast enough from the bottom of the stack to its top, until all are merged.
    """
    if len(runs) < 2:
        return None
    length = [run[1] for run in runs]
    at = len(length) - 2
    if (at > 0 and length[at - 1] <= length[at] + length[at + 1]) or (
        at > 1 and length[at - 2] <= length[at] + length[at - 1]
    ):
        return at - (length[at - 1] < length[at + 1])
    if length[at] <= length[at + 1]:
        return at
    # In the end Java merges what is left by the same choice of the shorter neighbour.
    return at - (at > 0 and length[at - 1] < length[at + 1]) if last else None


def _gallop(array: list[T], hint: int, before: Callable[[T], bool]) -> int:
    """Number of items that come before a key, searched outwards from a hint (`gallopLeft`, `gallopRight`).

    Parameters
    ----------
    before
        Whether an item comes before the key; the two differ in what they make of equals.
    """
    last, offset = 0, 1
    if before(array[hint]):
        most = len(array) - hint
        while offset < most and before(array[hint + offset]):
            last, offset = offset, 2 * offset + 1
        last, offset = last + hint, min(offset, most) + hint
    else:
        most = hint + 1
        while offset < most and not before(array[hint - offset]):
            last, offset = offset, 2 * offset + 1
        last, offset = hint - min(offset, most), hint - last
    last += 1
    while last < offset:
        middle = last + ((offset - last) >> 1)
        if before(array[middle]):
            last = middle + 1
        else:
            offset = middle
    return offset


def _merge(array: list[T], runs: list[tuple[int, int]], place: int, gallop: int, compare: Compare[T]) -> int:
    """Make one run out of two neighbours; the answer is the new number of wins from which Java gallops.

    The shorter run is the one that Java copies away. From the beginnings upwards (`mergeLo`) if that is the
    first, else from the ends downwards (`mergeHi`): the same steps, mirrored, but for the first run being
    galloped through first in both.
    """
    (base, length), (base2, length2) = runs[place : place + 2]
    runs[place : place + 2] = [(base, length + length2)]
    ahead = _gallop(array[base:base2], 0, lambda item: compare(array[base2], item) >= 0)
    if ahead == length:
        return gallop
    start, last = base + ahead, array[base2 - 1]
    behind = _gallop(array[base2 : base2 + length2], length2 - 1, lambda item: compare(last, item) > 0)
    if behind == 0:
        return gallop
    rest = [array[start:base2], array[base2 : base2 + behind]]
    upwards = len(rest[0]) <= behind
    copied, other = (0, 1) if upwards else (1, 0)
    out: list[T] = []

    def take(run: int, count: int) -> None:
        items = rest[run]
        cut = count if upwards else len(items) - count
        out.extend(items[:cut] if upwards else items[cut:][::-1])
        rest[run] = items[cut:] if upwards else items[:cut]

    def head(run: int) -> T:
        return rest[run][0 if upwards else -1]

    def ahead_of_other(run: int) -> int:
        """Number of items of a run that come out before the head of the other."""
        key, items = head(1 - run), rest[run]
        hint = 0 if upwards else len(items) - 1
        if run == 0:
            reached = _gallop(items, hint, lambda item: compare(key, item) >= 0)
        else:
            reached = _gallop(items, hint, lambda item: compare(key, item) > 0)
        return reached if upwards else len(items) - reached

    def ended() -> bool:
        return len(rest[copied]) <= 1 or not rest[other]

    take(other, 1)
    while not ended():
        wins = [0, 0]
        while not ended() and max(wins) < gallop:
            winner = int((compare(head(1), head(0)) < 0) == upwards)
            take(winner, 1)
            wins[winner], wins[1 - winner] = wins[winner] + 1, 0
        while not ended():
            for run in (0, 1):
                wins[run] = ahead_of_other(run)
                take(run, wins[run])
                if wins[run] and ended():
                    break
                take(1 - run, 1)
                if ended():
                    break
            else:
                gallop -= 1
                if max(wins) < MIN_GALLOP:
                    gallop = max(gallop, 0) + 2
                    break
    if not rest[copied]:
        raise ComparisonContractError("the order contradicts itself")
    for run in (other, copied):
        take(run, len(rest[run]))
    array[start : start + len(out)] = out if upwards else out[::-1]
    return max(gallop, 1)


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
