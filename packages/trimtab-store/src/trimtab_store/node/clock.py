"""The clock that leases are counted on: it goes on while the machine sleeps, and nobody sets it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final


def chosen_clock() -> Callable[[], float]:
    """Seconds since the machine started: asleep or not where the system counts so, else while it was awake.

    `time.monotonic` stands still on Linux while a machine is suspended: its node would be master of what
    others have taken over long ago.
    """
    try:
        boottime = time.CLOCK_BOOTTIME
        time.clock_gettime(boottime)
    except (AttributeError, OSError):
        return time.monotonic
    return lambda: time.clock_gettime(boottime)


lease_clock: Final = chosen_clock()
"""Chosen once: seconds of two clocks must never be compared."""
