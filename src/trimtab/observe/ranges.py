"""Sets of instants as sorted, disjoint, half-open ranges of microseconds."""

from __future__ import annotations

from collections.abc import Iterable

Ranges = list[tuple[int, int]]


def merged(ranges: Iterable[tuple[int, int]], apart: int = 0) -> Ranges:
    """The union, with ranges that lie at most `apart` from one another made one."""
    union: Ranges = []
    for begin, end in sorted(ranges):
        if begin >= end:
            continue
        if union and begin <= union[-1][1] + apart:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((begin, end))
    return union


def forward(ranges: Ranges, reach: int) -> Ranges:
    """Everything that may change when something in `ranges` does, if it depends on up to `reach` before
    itself.
    """
    return merged((begin, end + reach) for begin, end in ranges)


def backward(ranges: Ranges, reach: int) -> Ranges:
    """Everything that `ranges` depend on, if they depend on up to `reach` before themselves."""
    return merged((begin - reach, end) for begin, end in ranges)
