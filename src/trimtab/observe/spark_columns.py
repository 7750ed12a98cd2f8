"""Column expressions that the transformations of all levels share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from trimtab.observe.flags import NO_RATE, Flag

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.columns import Columns


def conform(frame: DataFrame, columns: Columns) -> DataFrame:
    """The last `select` of every transformation: exactly these columns, in this order, of these types."""
    return frame.select(*(F.col(name).cast(kind).alias(name) for name, kind in columns))


def flagged_where(condition: Column, flag: Flag) -> Column:
    """The flag's bit where the condition holds, else 0; to be joined by `bitwiseOR`."""
    return F.when(condition, F.lit(int(flag))).otherwise(F.lit(0))


def is_flagged(flags: Flag) -> Column:
    """True if any of the flags is set in the row's column `flags`."""
    return F.col("flags").bitwiseAND(int(flags)) != 0


def sound() -> Column:
    """True if an interval tells a rate."""
    return ~is_flagged(NO_RATE)


def scaled(name: str) -> Column:
    """A change, scaled from the time between its two samples to the time between their ticks.

    Rounded to a whole number, so that partitions, groups and brokers add up alike in any order; null where
    the interval is not sound.
    """
    interval = F.unix_micros("tick") - F.unix_micros("previous_tick")
    return F.when(sound(), F.round(F.col(name) * (interval / F.col("elapsed_us")))).cast("bigint")
