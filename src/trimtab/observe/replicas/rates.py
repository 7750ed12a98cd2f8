"""Cleaned samples to changes: what happened to each entity between two of its ticks."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.observe.columns import SampleFlag
from trimtab.observe.replicas.raw import KEYS, OF_MANY
from trimtab.observe.replicas.schemas import COUNTERS, DELTAS, RATES, STATE
from trimtab.observe.spark_columns import conform, flag_if, is_valid_interval

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.settings import PipelineSettings


_ENTITY: Final = (
    *("kind", "topic", "partition", "broker"),
    *(key for key in KEYS if key not in ("kind", "topic", "partition", "broker", "tick")),
)
"""Keys of an entity as its samples mostly lie, so that putting them in order has least to do."""


_OF_MANY: Final = frozenset(name for names in OF_MANY.values() for name in names)


def rates(cleaned: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Changes between consecutive ticks of an entity, as whole numbers with the time they took.

    One row per accepted sample. A counter that fell means a restart: the whole row's changes are void, since
    the other counters restarted too even where they have already passed their old value. So are changes over
    a gap, and those between two samples whose clocks disagree on the order.

    Nearly all samples are of kinds that fill few columns. They are put in order apart from the others, with
    those columns alone: what else such a sample should hold is no value of its kind, and does not get here.
    """
    accepted = cleaned.where("accepted")
    ticks = _ticks(accepted)
    of_many = F.col("kind").isin(*OF_MANY)
    many = _changes(accepted.where(of_many), _OF_MANY, ticks, settings)
    few = _changes(accepted.where(~of_many), frozenset(cleaned.columns), ticks, settings)
    return conform(many.unionByName(few, allowMissingColumns=True), RATES)


def _changes(
    accepted: DataFrame, values: frozenset[str], ticks: DataFrame, settings: PipelineSettings
) -> DataFrame:
    """`rates` of some samples, as far as it is made of some of their values."""
    deltas = {column: name for column, name in DELTAS.items() if column in values}
    counters = [name for name in COUNTERS if name in values]
    state = [name for name in STATE if name in values]
    needed = dict.fromkeys((*KEYS, "sampled_at", "flags", "leader", *deltas, *state))
    entity = Window.partitionBy(*_ENTITY).orderBy("tick")
    placed = [name for name in ("in_sync", "adding") if name in values]
    before = {name: F.lag(name).over(entity) for name in ("tick", "sampled_at", "leader", *placed, *deltas)}
    paired = accepted.select(*needed, *(column.alias(f"_before_{name}") for name, column in before.items()))

    tick = F.unix_micros("tick")
    by_tick = tick - F.unix_micros("_before_tick")
    near = by_tick <= settings.gap
    by_clock = F.unix_micros("sampled_at") - F.unix_micros("_before_sampled_at")
    fell = reduce(
        or_, (F.coalesce(F.col(name) < F.col(f"_before_{name}"), F.lit(False)) for name in counters)
    )
    marked = paired.withColumns(
        {"_near": F.coalesce(near, F.lit(False)), "_fell": fell, "_by_clock": by_clock}
    )
    back = F.coalesce(F.col("_by_clock") <= 0, F.lit(False))
    found = (
        F.col("flags")
        .bitwiseOR(flag_if(~F.col("_near"), SampleFlag.GAP))
        .bitwiseOR(flag_if(F.col("_near") & F.col("_fell"), SampleFlag.RESET))
        .bitwiseOR(flag_if(F.col("_near") & back, SampleFlag.CLOCK_BACK))
    )
    judged = _with_missed_ticks(marked.withColumn("flags", found), ticks)
    changes = {
        name: F.when(is_valid_interval(), F.col(column) - F.col(f"_before_{column}"))
        for column, name in deltas.items()
    }
    return judged.withColumns(
        {
            **changes,
            "previous_tick": F.when(F.col("_near"), F.col("_before_tick")),
            "previous_leader": F.when(F.col("_near"), F.col("_before_leader")),
            "complete_before": _complete_before() if placed else F.lit(None).cast("array<int>"),
            "elapsed_us": F.when(is_valid_interval(), F.coalesce("_by_clock", by_tick)),
        }
    ).select(
        *KEYS,
        "sampled_at",
        "flags",
        "previous_tick",
        "previous_leader",
        "complete_before",
        "elapsed_us",
        *deltas.values(),
        *state,
    )


def _complete_before() -> Column:
    """The brokers whose replica was complete at the sample before; null where the same ones still are."""
    none = F.array().cast("array<int>")
    before, now = (
        F.array_except(f"{prefix}in_sync", F.coalesce(f"{prefix}adding", none)) for prefix in ("_before_", "")
    )
    return F.when(F.col("_near") & ~before.eqNullSafe(now), before)


def _ticks(accepted: DataFrame) -> DataFrame:
    """Each cluster's ticks, with the one before."""
    cluster = Window.partitionBy("cluster").orderBy("tick")
    ticks = accepted.select("cluster", "tick").distinct()
    return ticks.withColumn("_cluster_before", F.lag("tick").over(cluster))


def _with_missed_ticks(marked: DataFrame, ticks: DataFrame) -> DataFrame:
    """Flag intervals that span a tick at which the cluster, but not this entity, has samples."""
    joined = marked.join(F.broadcast(ticks), on=["cluster", "tick"], how="left")
    missed = F.coalesce(F.col("_near") & (F.col("_before_tick") < F.col("_cluster_before")), F.lit(False))
    return joined.withColumn("flags", F.col("flags").bitwiseOR(flag_if(missed, SampleFlag.MISSED)))
