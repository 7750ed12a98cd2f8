"""Cleaned samples to changes: what happened to each entity between two of its ticks."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.observe.collect.kafka.raw import KEYS
from trimtab.observe.columns import Flag
from trimtab.observe.replicas.schemas import COUNTERS, DELTAS, RATES, STATE
from trimtab.observe.spark_columns import conform, flagged_where, sound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from trimtab.observe.settings import PipelineSettings


_ENTITY: Final = (
    *("kind", "topic", "partition", "broker"),
    *(key for key in KEYS if key not in ("kind", "topic", "partition", "broker", "tick")),
)
"""Keys of an entity as its samples mostly lie, so that putting them in order has least to do."""


def rates(cleaned: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Changes between consecutive ticks of an entity, as whole numbers with the time they took.

    One row per accepted sample. A counter that fell means a restart: the whole row's changes are void, since
    the other counters restarted too even where they have already passed their old value. So are changes over
    a gap, and those between two samples whose clocks disagree on the order.
    """
    accepted = cleaned.where("accepted")
    entity = Window.partitionBy(*_ENTITY).orderBy("tick")
    before = {name: F.lag(name).over(entity) for name in ("tick", "sampled_at", "leader", *DELTAS)}
    paired = accepted.withColumns({f"_before_{name}": column for name, column in before.items()})

    tick = F.unix_micros("tick")
    near = tick - F.unix_micros("_before_tick") <= settings.gap
    by_tick = tick - F.unix_micros("_before_tick")
    by_clock = F.unix_micros("sampled_at") - F.unix_micros("_before_sampled_at")
    fell = reduce(
        or_, (F.coalesce(F.col(name) < F.col(f"_before_{name}"), F.lit(False)) for name in COUNTERS)
    )
    marked = paired.withColumns(
        {"_near": F.coalesce(near, F.lit(False)), "_fell": fell, "_by_clock": by_clock}
    )
    back = F.coalesce(F.col("_by_clock") <= 0, F.lit(False))
    found = (
        F.col("flags")
        .bitwiseOR(flagged_where(~F.col("_near"), Flag.GAP))
        .bitwiseOR(flagged_where(F.col("_near") & F.col("_fell"), Flag.RESET))
        .bitwiseOR(flagged_where(F.col("_near") & back, Flag.CLOCK_BACK))
    )
    judged = _with_missed_ticks(marked.withColumn("flags", found), cleaned)
    changes = {
        name: F.when(sound(), F.col(column) - F.col(f"_before_{column}")) for column, name in DELTAS.items()
    }
    return conform(
        judged.withColumns(
            {
                **changes,
                "previous_tick": F.when(F.col("_near"), F.col("_before_tick")),
                "previous_leader": F.when(F.col("_near"), F.col("_before_leader")),
                "elapsed_us": F.when(sound(), F.coalesce("_by_clock", by_tick)),
            }
        ).select(
            *KEYS,
            "sampled_at",
            "flags",
            "previous_tick",
            "previous_leader",
            "elapsed_us",
            *DELTAS.values(),
            *STATE,
        ),
        RATES,
    )


def _with_missed_ticks(marked: DataFrame, cleaned: DataFrame) -> DataFrame:
    """Flag intervals that span a tick at which the cluster, but not this entity, has samples."""
    ticks = cleaned.where("accepted").select("cluster", "tick").distinct()
    cluster = Window.partitionBy("cluster").orderBy("tick")
    ticks = ticks.withColumn("_cluster_before", F.lag("tick").over(cluster))
    joined = marked.join(F.broadcast(ticks), on=["cluster", "tick"], how="left")
    missed = F.coalesce(F.col("_near") & (F.col("_before_tick") < F.col("_cluster_before")), F.lit(False))
    return joined.withColumn("flags", F.col("flags").bitwiseOR(flagged_where(missed, Flag.MISSED)))
