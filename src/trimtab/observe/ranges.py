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


Reach = int | tuple[tuple[int, int], ...]
"""Dependence of a row on another table: on all of the last so many microseconds, or on some stretches
before it only, each from so many before it to so many before it."""


def forward(ranges: Ranges, reach: Reach) -> Ranges:
    """Everything that may change when something in `ranges` does, if it depends on `reach` before itself."""
    return merged((begin + near, end + far) for begin, end in ranges for far, near in _stretches(reach))


def backward(ranges: Ranges, reach: Reach) -> Ranges:
    """Everything that `ranges` depend on, if they depend on `reach` before themselves."""
    return merged((begin - far, end - near) for begin, end in ranges for far, near in _stretches(reach))


def _stretches(reach: Reach) -> tuple[tuple[int, int], ...]:
    return ((reach, 0),) if isinstance(reach, int) else reach
