"""Imbalance of every tick: equations 1 to 5 of `trimtab.model.load`, over history, as a table.

Source: Gao Zi-yan, Wang Yong, "Load balancing strategy of distributed messaging system for cloud services".
σ belongs to one instant: it is averaged over ticks, never computed from averaged loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from trimtab.observe.lake.columns import broker_measures, imbalance_columns
from trimtab.observe.spark.expressions import conform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame


def imbalance(
    brokers: DataFrame,
    resources: Sequence[str],
    broker: str,
    measured: Column | None = None,
    estimated: Sequence[str] = (),
) -> DataFrame:
    """The measures of any balancer's brokers per (cluster, tick, resource), but for `traffic_collapse`.

    Parameters
    ----------
    brokers
        The live ones: `cluster`, `tick`, `broker`, and `<resource>_load`, `<resource>_capacity` of each
        resource.
    resources
        Their names.
    broker
        Type of the column `broker`.
    measured, estimated
        Whether a broker's loads of the resources `estimated` come from counters; None: no load is estimated.
    """
    counted = F.lit(True) if measured is None else F.min(F.coalesce(measured, F.lit(False)))
    one = F.struct(
        F.col("broker"),
        *(
            F.struct(F.col(f"{name}_load").alias("load"), F.col(f"{name}_capacity").alias("capacity")).alias(
                name
            )
            for name in resources
        ),
    )
    # Sorted, so that sums of doubles are made in the order of broker ids whatever the order of rows was.
    members = F.array_sort(F.collect_list(one))
    ticks = brokers.groupBy("cluster", "tick").agg(members.alias("members"), counted.alias("_counted"))
    rows = ticks.select(
        "cluster",
        "tick",
        "_counted",
        F.explode(F.array(*(_of_resource(name) for name in resources))).alias("row"),
    ).select("cluster", "tick", "row.resource", "row.loads", "_counted")
    counts = F.col("_counted") | ~F.col("resource").isin(*estimated) if estimated else F.lit(True)
    return _measured(rows, broker).withColumn("measured", F.col("complete") & counts)


def imbalance_table(brokers: DataFrame, resources: Sequence[str]) -> DataFrame:
    """The table `imbalance` of a balancer that knows nothing of clients: `traffic_collapse` is null.

    Parameters are as in `imbalance`; the names of brokers are strings.
    """
    unknown = F.lit(None).cast("boolean")
    measured = imbalance(brokers, resources, "string").withColumn("traffic_collapse", unknown)
    return conform(measured, imbalance_columns("string"))


def _of_resource(name: str) -> Column:
    loads = F.transform(
        "members",
        lambda it: F.struct(
            it["broker"].alias("broker"),
            it[name]["load"].alias("load"),
            it[name]["capacity"].alias("capacity"),
        ),
    )
    return F.struct(F.lit(name).alias("resource"), loads.alias("loads"))


def _measured(rows: DataFrame, broker: str) -> DataFrame:
    measures = F.transform("loads", _measures_of_broker).cast(f"array<{broker_measures(broker)}>")
    judged = _with_weights(rows).withColumn("by_broker", measures)
    spread = F.aggregate(
        "by_broker",
        F.lit(0.0),
        lambda total, it: (
            total + (it["share"] - 1.0 / F.col("brokers")) * (it["share"] - 1.0 / F.col("brokers"))
        ),
    )
    peak = F.array_max(F.transform("by_broker", lambda it: it["usage"]))
    return judged.withColumns(
        {
            "mean": F.when(F.col("complete"), F.col("mean")),
            "sigma": F.when(F.col("complete"), F.sqrt(spread / F.col("brokers"))),
            "worst_deviation": F.array_max(F.transform("by_broker", lambda it: it["deviation"])),
            "peak_usage": F.when(F.col("complete"), peak),
        }
    )


def _with_weights(rows: DataFrame) -> DataFrame:
    """Rows with the weight of each broker, and the mean, the sums and whether all is known.

    The weight is B: usage where there are capacities, else the load itself; σ and γ do not depend on its
    unit.
    """
    number = F.size("loads")
    complete = F.forall("loads", lambda it: it["load"].isNotNull())
    limited = F.forall("loads", lambda it: F.coalesce(it["capacity"] > 0, F.lit(False)))
    weight = F.transform(
        "loads",
        lambda it: F.struct(
            it["broker"].alias("broker"),
            it["load"].alias("load"),
            it["capacity"].alias("capacity"),
            F.when(F.col("limited"), it["load"] / it["capacity"]).otherwise(it["load"]).alias("weight"),
        ),
    )
    summed = (
        rows.withColumns({"brokers": number, "complete": complete & (number > 0), "limited": limited})
        .withColumn("loads", weight)
        .withColumns(
            {
                "_load": _sum("loads", "load"),
                "_capacity": _sum("loads", "capacity"),
                "_weight": _sum("loads", "weight"),
            }
        )
    )
    carriers = F.when(F.col("limited"), F.col("_capacity")).otherwise(F.col("brokers"))
    return summed.withColumn("mean", F.col("_load") / carriers)


def _measures_of_broker(one: Column) -> Column:
    """B, D and γ of one broker, from its load, its weight and the row's mean and sums."""
    share = F.when(F.col("_weight") > 0, one["weight"] / F.col("_weight")).otherwise(1.0 / F.col("brokers"))
    deviation = F.when(F.col("mean") > 0, F.abs(one["weight"] - F.col("mean")) / F.col("mean"))
    return F.struct(
        one["broker"].alias("broker"),
        one["load"].alias("load"),
        one["capacity"].alias("capacity"),
        F.when(F.col("limited"), one["weight"]).alias("usage"),
        F.when(F.col("complete"), share).alias("share"),
        F.when(F.col("complete"), deviation.otherwise(F.lit(0.0))).alias("deviation"),
    )


def _sum(array: str, field: str) -> Column:
    return F.aggregate(array, F.lit(0.0), lambda total, it: total + it[field])
