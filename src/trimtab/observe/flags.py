"""What can be wrong with a sample or an interval, and what may still be made of it."""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column


class Flag(IntFlag):
    """What is wrong with a sample or an interval; several may be set."""

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


def flagged_where(condition: Column, flag: Flag) -> Column:
    """The flag's bit where the condition holds, else 0; to be joined by `bitwiseOR`."""
    from pyspark.sql import functions as F

    return F.when(condition, F.lit(int(flag))).otherwise(F.lit(0))


def sound() -> Column:
    """Whether the row's interval tells rates."""
    from pyspark.sql import functions as F

    return F.col("flags").bitwiseAND(int(NO_RATE)) == 0


def scaled(name: str) -> Column:
    """A change, scaled from the time between its two samples to the time between their ticks.

    Rounded to a whole number, so that partitions, groups and brokers add up alike in any order; null where
    the interval is not sound.
    """
    from pyspark.sql import functions as F

    interval = F.unix_micros("tick") - F.unix_micros("previous_tick")
    return F.when(sound(), F.round(F.col(name) * (interval / F.col("elapsed_us")))).cast("bigint")
