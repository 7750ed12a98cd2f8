"""How uneven every tick was: equations 1 to 6 of `trimtab.model.imbalance`, over history, as a table.

Source: Gao Zi-yan, Wang Yong, "Load balancing strategy of distributed messaging system for cloud services".
σ belongs to one instant: it is averaged over ticks, never computed from averaged loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.model.load import RESOURCES
from trimtab.observe.schemas import IMBALANCE, SECOND, broker_measures, conform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from trimtab.observe.settings import PipelineSettings

NANOSECONDS_PER_US = 1000


def imbalance(brokers: DataFrame, clients: DataFrame, settings: PipelineSettings) -> DataFrame:
    """B, D, γ of every broker and B̄, σ, η, worst γ and peak per (cluster, tick, resource).

    A tick counts for a resource only if every live broker has a value of it then (`complete`); otherwise
    the measures are null. Where some live broker has no capacity for a resource, D and γ come from the
    loads themselves, usage is null and no capacity can hold or not hold.

    Parameters
    ----------
    brokers
        Columns of `schemas.BROKERS`.
    clients
        Columns of `schemas.CLIENTS`; ticks without clients have `traffic_collapse` null.
    settings
        Gives θ and ε.

    Returns
    -------
    DataFrame
        Columns of `schemas.IMBALANCE`.
    """
    from pyspark.sql import functions as F

    per_second = SECOND / F.col("elapsed_us")
    loads = {
        "cpu": F.col("cpu_ns") / (F.col("elapsed_us") * NANOSECONDS_PER_US),
        "disk": F.col("disk_bytes").cast("double"),
        "network_in": (F.col("leader_bytes_in") + F.col("follower_bytes_in")) * per_second,
        "network_out": F.col("bytes_out") * per_second,
    }
    live = brokers.where("live").withColumns({f"{name}_load": load for name, load in loads.items()})
    measured = imbalance_of(live, RESOURCES, settings.theta, settings.epsilon, "int")
    collapse = clients.select("cluster", "tick", "traffic_collapse")
    return conform(measured.join(collapse, on=["cluster", "tick"], how="left"), IMBALANCE)


def imbalance_of(
    brokers: DataFrame,
    resources: Sequence[str],
    theta: Sequence[float],
    epsilon: Sequence[float],
    broker: str,
) -> DataFrame:
    """The measures of any level's brokers per (cluster, tick, resource).

    Parameters
    ----------
    brokers
        The live ones: `cluster`, `tick`, `broker`, and `<resource>_load`, `<resource>_capacity` of each
        resource.
    resources, theta, epsilon
        Names, and their limits in the same order.
    broker
        Type of the column `broker`.

    Returns
    -------
    DataFrame
        Columns of `schemas.imbalance_columns` but `traffic_collapse`.
    """
    from pyspark.sql import functions as F

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
    ticks = brokers.groupBy("cluster", "tick").agg(members.alias("members"))
    rows = ticks.select(
        "cluster",
        "tick",
        F.explode(F.array(*(_of_resource(name) for name in resources))).alias("row"),
    ).select("cluster", "tick", "row.resource", "row.loads")
    limits = {"theta": _of_each(resources, theta), "epsilon": _of_each(resources, epsilon)}
    return _measured(rows, limits, broker)


def _of_resource(name: str) -> Column:
    from pyspark.sql import functions as F

    loads = F.transform(
        "members",
        lambda it: F.struct(
            it["broker"].alias("broker"),
            it[name]["load"].alias("load"),
            it[name]["capacity"].alias("capacity"),
        ),
    )
    return F.struct(F.lit(name).alias("resource"), loads.alias("loads"))


def _measured(rows: DataFrame, limits: dict[str, Column], broker: str) -> DataFrame:
    from pyspark.sql import functions as F

    number = F.size("loads")
    complete = F.forall("loads", lambda it: it["load"].isNotNull())
    limited = F.forall("loads", lambda it: F.coalesce(it["capacity"] > 0, F.lit(False)))
    # `weight` is B: usage where there are capacities, else the load itself; σ and γ do not depend on its
    # unit.
    weight = F.transform(
        "loads",
        lambda it: F.struct(
            it["broker"].alias("broker"),
            it["load"].alias("load"),
            it["capacity"].alias("capacity"),
            F.when(F.col("limited"), it["load"] / it["capacity"]).otherwise(it["load"]).alias("weight"),
        ),
    )
    weighed = (
        rows.withColumns({"brokers": number, "complete": complete & (number > 0), "limited": limited})
        .withColumn("loads", weight)
        .withColumns(
            {
                "_load": _sum("loads", "load"),
                "_capacity": _sum("loads", "capacity"),
                "_weight": _sum("loads", "weight"),
            }
        )
        .withColumn(
            "mean", F.col("_load") / F.when(F.col("limited"), F.col("_capacity")).otherwise(F.col("brokers"))
        )
    )
    by_broker = F.transform(
        "loads",
        lambda it: F.struct(
            it["broker"].alias("broker"),
            it["load"].alias("load"),
            it["capacity"].alias("capacity"),
            F.when(F.col("limited"), it["weight"]).alias("usage"),
            F.when(
                F.col("complete"),
                F.when(F.col("_weight") > 0, it["weight"] / F.col("_weight")).otherwise(
                    1.0 / F.col("brokers")
                ),
            ).alias("share"),
            F.when(
                F.col("complete"),
                F.when(F.col("mean") > 0, F.abs(it["weight"] - F.col("mean")) / F.col("mean")).otherwise(
                    F.lit(0.0)
                ),
            ).alias("deviation"),
        ),
    )
    judged = weighed.withColumn("by_broker", by_broker.cast(f"array<{broker_measures(broker)}>"))
    spread = F.aggregate(
        "by_broker",
        F.lit(0.0),
        lambda total, it: (
            total + (it["share"] - 1.0 / F.col("brokers")) * (it["share"] - 1.0 / F.col("brokers"))
        ),
    )
    sound = judged.withColumns(limits).withColumns(
        {
            "mean": F.when(F.col("complete"), F.col("mean")),
            "sigma": F.when(F.col("complete"), F.sqrt(spread / F.col("brokers"))),
            "eta": F.col("epsilon") / F.col("brokers"),
            "worst_deviation": F.array_max(F.transform("by_broker", lambda it: it["deviation"])),
            "peak_usage": F.when(
                F.col("complete"), F.array_max(F.transform("by_broker", lambda it: it["usage"]))
            ),
        }
    )
    return sound.withColumns(
        {
            "capacity_holds": F.col("peak_usage") <= F.col("theta"),
            "deviation_holds": F.col("worst_deviation") <= F.col("epsilon"),
            "sigma_holds": F.col("sigma") <= F.col("eta"),
        }
    )


def _of_each(resources: Sequence[str], limits: Sequence[float]) -> Column:
    """The limit of the row's resource."""
    from pyspark.sql import functions as F

    pairs = zip(resources, limits, strict=True)
    return F.coalesce(*(F.when(F.col("resource") == name, F.lit(float(limit))) for name, limit in pairs))


def _sum(array: str, field: str) -> Column:
    from pyspark.sql import functions as F

    return F.aggregate(array, F.lit(0.0), lambda total, it: total + it[field])
