"""Aligned instants to sample at: every collector of a cluster, restarted or not, names the same ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Tick:
    """One instant.

    Attributes
    ----------
    microseconds
        Since the epoch; a multiple of the interval.
    missed
        How many instants passed by since the tick before, because sampling took longer than the interval or
        the machine slept.
    """

    microseconds: int
    missed: int = 0


def tick_of(seconds: float, interval_seconds: float) -> int:
    """The newest aligned instant that is not after `seconds`, in microseconds since the epoch."""
    interval = round(interval_seconds * MICROSECONDS)
    return math.floor(seconds * MICROSECONDS) // interval * interval


def ticks(interval_seconds: float, now: Callable[[], float], wait: Callable[[float], bool]) -> Iterator[Tick]:
    """Wait for one aligned instant after the other, without drift.

    Parameters
    ----------
    interval_seconds
        Distance of two instants.
    now
        Seconds since the epoch, UTC.
    wait
        Waits so many seconds, or returns True at once when it is time to stop.

    Yields
    ------
    Tick
        Strictly later than the one before, unless the clock was set back by more than two intervals.
    """
    interval = round(interval_seconds * MICROSECONDS)
    last: int | None = None
    while True:
        following = tick_of(now(), interval_seconds) + interval
        if last is not None and last >= following and last - following <= interval:
            # The clock was set back a little: name no instant twice.
            following = last + interval
        while (delay := following / MICROSECONDS - now()) > 0:
            if wait(delay):
                return
        # A machine that slept wakes up in a later tick: samples belong to the one they are taken in.
        following = max(following, tick_of(now(), interval_seconds))
        missed = 0 if last is None else max(0, (following - last) // interval - 1)
        yield Tick(following, missed)
        last = following
