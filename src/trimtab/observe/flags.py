"""Faults of a sample or an interval, and the use that may still be made of it."""

from __future__ import annotations

from enum import IntFlag
from typing import Final


class Flag(IntFlag):
    """A fault of a sample or an interval; several may be set."""

    LATE = 1
    """Received too long after its tick: not used."""
    UNREADABLE = 2
    """No cluster, tick or known kind: not used."""
    NOT_A_NUMBER = 4
    """Some value was NaN or infinite; it counts as absent."""
    NEGATIVE = 8
    """Some size, offset or counter was below zero; it counts as absent."""
    RESET = 16
    """A counter fell: the system behind it restarted; no rates from this interval."""
    GAP = 32
    """No sample within `gap_seconds` before this one (the first one, or a hole): no rates from it."""
    CLOCK_BACK = 64
    """Read before the sample of the tick before: clocks disagree; no rates from this interval."""
    MISSED = 128
    """Other entities have a tick between this sample and the one before; the rate spans it."""
    CUT = 256
    """Retention or compaction shortened the log: bytes in come from offsets."""
    COPYING = 512
    """Some replica is being copied; its growth is not traffic."""
    LEADER_CHANGED = 1024
    """The leader moved within the interval; topic counters belong to two brokers."""


NO_RATE: Final = Flag.RESET | Flag.GAP | Flag.CLOCK_BACK
"""Any of these, and the interval says nothing of how much was carried."""
