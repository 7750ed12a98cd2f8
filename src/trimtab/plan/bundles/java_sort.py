"""Java's own sort, comparison by comparison, for orders that contradict themselves.

A stable sort is a stable sort as long as "less" is an order. Pulsar 4.0's AvgShedder calls scores equal that
differ by less than one point, which is no order (0 = 0.9 = 1.8, but 0 < 1.8): what comes out depends on which
pairs are compared, so that the steps of `java.util.TimSort` (OpenJDK 17) are taken one by one.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

MIN_MERGE = 32
MIN_GALLOP = 7


class ContradictionError(ValueError):
    """Java has noticed that the order contradicts itself, and throws `IllegalArgumentException`."""


def java_sorted(items: Iterable[T], compare: Callable[[T, T], int]) -> list[T]:
    """The items in the order that `Arrays.sort(items, compare)` leaves them in.

    Parameters
    ----------
    items
        In the order in which they are.
    compare
        Below zero where the first comes first, above zero where the second does, else zero.

    Raises
    ------
    ContradictionError
        Where Java would throw.
    """
    array = list(items)
    if len(array) < MIN_MERGE:
        _insert(array, 0, len(array), _run_length(array, 0, len(array), compare), compare)
        return array
    merges = _Merges(array, compare)
    least, at = _least_run(len(array)), 0
    while at < len(array):
        length = _run_length(array, at, len(array), compare)
        if length < least:
            forced = min(len(array) - at, least)
            _insert(array, at, at + forced, at + length, compare)
            length = forced
        merges.runs.append((at, length))
        merges.collapse()
        at += length
    merges.finish()
    return array


def _least_run(length: int) -> int:
    odd = 0
    while length >= MIN_MERGE:
        odd |= length & 1
        length >>= 1
    return length + odd


def _run_length(array: list[T], low: int, high: int, compare: Callable[[T, T], int]) -> int:
    """How many items from `low` on are in order; a strictly falling run is turned around."""
    end = low + 1
    if end >= high:
        return high - low
    falling = compare(array[end], array[low]) < 0
    end += 1
    while end < high and (compare(array[end], array[end - 1]) < 0) == falling:
        end += 1
    if falling:
        array[low:end] = array[low:end][::-1]
    return end - low


def _insert(array: list[T], low: int, high: int, start: int, compare: Callable[[T, T], int]) -> None:
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


def _gallop(
    key: T, array: Sequence[T], base: int, length: int, hint: int, before: Callable[[T, T], bool]
) -> int:
    """How many of `length` items from `base` on come before the key, searched outwards from a hint.

    Parameters
    ----------
    before
        Whether an item comes before the key, given the key and the item: the one thing in which
        `gallopLeft` and `gallopRight` differ.
    """
    last, offset = 0, 1
    if before(key, array[base + hint]):
        most = length - hint
        while offset < most and before(key, array[base + hint + offset]):
            last, offset = offset, 2 * offset + 1
        last, offset = last + hint, min(offset, most) + hint
    else:
        most = hint + 1
        while offset < most and not before(key, array[base + hint - offset]):
            last, offset = offset, 2 * offset + 1
        last, offset = hint - min(offset, most), hint - last
    last += 1
    while last < offset:
        middle = last + ((offset - last) >> 1)
        if before(key, array[base + middle]):
            last = middle + 1
        else:
            offset = middle
    return offset


class _Merges(Generic[T]):
    """The stack of sorted runs, and how two neighbours become one."""

    def __init__(self, array: list[T], compare: Callable[[T, T], int]) -> None:
        self.array = array
        self.compare = compare
        self.runs: list[tuple[int, int]] = []
        self.min_gallop = MIN_GALLOP

    def collapse(self) -> None:
        """Merges until the lengths of the runs fall fast enough from the bottom of the stack to its top."""
        while len(self.runs) > 1:
            length = [run[1] for run in self.runs]
            at = len(length) - 2
            if (at > 0 and length[at - 1] <= length[at] + length[at + 1]) or (
                at > 1 and length[at - 2] <= length[at] + length[at - 1]
            ):
                if length[at - 1] < length[at + 1]:
                    at -= 1
            elif length[at] > length[at + 1]:
                return
            self.merge(at)

    def finish(self) -> None:
        """Merges all that is left."""
        while len(self.runs) > 1:
            at = len(self.runs) - 2
            if at > 0 and self.runs[at - 1][1] < self.runs[at + 1][1]:
                at -= 1
            self.merge(at)

    def right(self, key: T, array: Sequence[T], base: int, length: int, hint: int) -> int:
        """How many items come before the key or are equal to it (`gallopRight`)."""
        return _gallop(key, array, base, length, hint, lambda one, item: self.compare(one, item) >= 0)

    def left(self, key: T, array: Sequence[T], base: int, length: int, hint: int) -> int:
        """How many items come before the key (`gallopLeft`)."""
        return _gallop(key, array, base, length, hint, lambda one, item: self.compare(one, item) > 0)

    def merge(self, at: int) -> None:
        """One run out of the run at this place of the stack and the next."""
        (base, length), (base2, length2) = self.runs[at : at + 2]
        self.runs[at : at + 2] = [(base, length + length2)]
        array = self.array
        ahead = self.right(array[base2], array, base, length, 0)
        base, length = base + ahead, length - ahead
        if length == 0:
            return
        length2 = self.left(array[base + length - 1], array, base2, length2, length2 - 1)
        if length2 == 0:
            return
        first, second = array[base : base + length], array[base2 : base2 + length2]
        merged = self.low(first, second) if length <= length2 else self.high(first, second)
        array[base : base + len(merged)] = merged

    def low(self, first: list[T], second: list[T]) -> list[T]:
        """Both runs as one, merged from their beginnings (`mergeLo`)."""
        out = [second[0]]
        one, two = 0, 1
        gallop = self.min_gallop

        def ended() -> bool:
            return two == len(second) or one >= len(first) - 1

        while not ended():
            wins_one = wins_two = 0
            while not ended() and max(wins_one, wins_two) < gallop:
                if self.compare(second[two], first[one]) < 0:
                    out.append(second[two])
                    two, wins_two, wins_one = two + 1, wins_two + 1, 0
                else:
                    out.append(first[one])
                    one, wins_one, wins_two = one + 1, wins_one + 1, 0
            if ended():
                break
            while True:
                wins_one = self.right(second[two], first, one, len(first) - one, 0)
                out += first[one : one + wins_one]
                one += wins_one
                if wins_one and one >= len(first) - 1:
                    break
                out.append(second[two])
                two += 1
                if two == len(second):
                    break
                wins_two = self.left(first[one], second, two, len(second) - two, 0)
                out += second[two : two + wins_two]
                two += wins_two
                if wins_two and two == len(second):
                    break
                out.append(first[one])
                one += 1
                if one == len(first) - 1:
                    break
                gallop -= 1
                if max(wins_one, wins_two) < MIN_GALLOP:
                    gallop = max(gallop, 0) + 2
                    break
        self.min_gallop = max(gallop, 1)
        if one == len(first):
            raise ContradictionError("the order contradicts itself")
        if one == len(first) - 1:
            return [*out, *second[two:], first[one]]
        return [*out, *first[one:]]

    def high(self, first: list[T], second: list[T]) -> list[T]:
        """Both runs as one, merged from their ends (`mergeHi`)."""
        out = [first[-1]]
        one, two = len(first) - 1, len(second)
        gallop = self.min_gallop

        def ended() -> bool:
            return one == 0 or two <= 1

        while not ended():
            wins_one = wins_two = 0
            while not ended() and max(wins_one, wins_two) < gallop:
                if self.compare(second[two - 1], first[one - 1]) < 0:
                    one -= 1
                    out.append(first[one])
                    wins_one, wins_two = wins_one + 1, 0
                else:
                    two -= 1
                    out.append(second[two])
                    wins_two, wins_one = wins_two + 1, 0
            if ended():
                break
            while True:
                wins_one = one - self.right(second[two - 1], first, 0, one, one - 1)
                out += first[one - wins_one : one][::-1]
                one -= wins_one
                if wins_one and one == 0:
                    break
                two -= 1
                out.append(second[two])
                if two == 1:
                    break
                wins_two = two - self.left(first[one - 1], second, 0, two, two - 1)
                out += second[two - wins_two : two][::-1]
                two -= wins_two
                if wins_two and two <= 1:
                    break
                one -= 1
                out.append(first[one])
                if one == 0:
                    break
                gallop -= 1
                if max(wins_one, wins_two) < MIN_GALLOP:
                    gallop = max(gallop, 0) + 2
                    break
        self.min_gallop = max(gallop, 1)
        if two == 0:
            raise ContradictionError("the order contradicts itself")
        if two == 1:
            return [second[0], *first[:one], *reversed(out)]
        return [*second[:two], *reversed(out)]
