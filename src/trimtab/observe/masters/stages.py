"""Transformations of the balancer `masters`, from cleaned samples to loads of groups and of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.model.masters.snapshot import RESOURCES
from trimtab.observe.lake.balancer_pipeline import TableStage, here
from trimtab.observe.lake.columns import SECOND, SampleFlag
from trimtab.observe.masters.pipeline import BROKERS, GROUPS, SHARES, MastersPipelineSettings
from trimtab.observe.spark.expressions import conform, flag_if, is_valid_interval
from trimtab.observe.steps import clean as counts
from trimtab.observe.steps.imbalance import imbalance_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOTALS: Final = {
    "stored": "bigint",
    "stored_bytes": "bigint",
    "pulls": "bigint",
    "pulled_bytes": "bigint",
    "proposals": "bigint",
    "proposed_seconds": "double",
}


def shares(cleaned: DataFrame, settings: MastersPipelineSettings) -> DataFrame:
    """What each node did for each group since the tick before, as rates.

    Counters begin anew with a node's process: what another life counted says nothing of this one's interval.
    """
    rows = cleaned.where(
        "accepted and kind = 'paxos_group' and node is not null and group_number is not null"
    )
    history = Window.partitionBy("cluster", "node", "group_number").orderBy("tick")
    names = ("tick", "incarnation", *(f"{name}_total" for name in TOTALS))
    paired = rows.withColumns({f"_{name}": F.lag(name).over(history) for name in names})
    elapsed = F.unix_micros("tick") - F.unix_micros("_tick")
    near = F.coalesce(elapsed <= settings.gap, F.lit(False))
    anew = near & F.coalesce(F.col("incarnation") != F.col("_incarnation"), F.lit(True))
    flags = (
        F.col("flags").bitwiseOR(flag_if(~near, SampleFlag.GAP)).bitwiseOR(flag_if(anew, SampleFlag.RESET))
    )
    judged = paired.withColumn("elapsed_us", F.when(near, elapsed)).withColumn("flags", flags)

    def grown(name: str) -> Column:
        return F.when(
            is_valid_interval(), (F.col(f"{name}_total") - F.col(f"_{name}_total")).cast(TOTALS[name])
        )

    seconds = F.col("elapsed_us") / SECOND
    return conform(
        judged.withColumns(
            {
                "messages_per_second": grown("stored") / seconds,
                "queries_per_second": (grown("stored") + grown("pulls")) / seconds,
                "bytes_per_second": (grown("stored_bytes") + grown("pulled_bytes")) / seconds,
                "proposals": grown("proposals"),
                "proposed_seconds": grown("proposed_seconds"),
            }
        ),
        SHARES,
    )


def groups(shares: DataFrame) -> DataFrame:
    """What each group costs, over all nodes, and who is its master."""

    def exact(name: str) -> Column:
        """A sum of doubles that does not depend on the order of rows."""
        return F.sum(F.col(name).cast("decimal(28,6)")).cast("double").alias(name)

    held = F.when(F.col("holds"), F.col("node"))
    summed = shares.groupBy("cluster", "tick", "group_number").agg(
        F.max(held).alias("master"),
        F.max(F.when(F.col("holds"), F.col("held_seconds"))).alias("held_seconds"),
        *(exact(name) for name in ("messages_per_second", "queries_per_second", "bytes_per_second")),
        (exact("proposed_seconds") / F.sum("proposals")).alias("propose_seconds"),
        F.max("elapsed_us").alias("elapsed_us"),
    )
    return conform(summed, GROUPS)


def brokers(cleaned: DataFrame, shares: DataFrame) -> DataFrame:
    """What each node carries, of how many groups it is master, and how many slots it is behind in all."""
    newest = Window.partitionBy("cluster", "tick", "group_number")
    behind = shares.withColumn("_behind", F.max("applied").over(newest) - F.col("applied"))
    by_node = behind.groupBy("cluster", "tick", "node").agg(
        F.sum(F.col("holds").cast("int")).cast("int").alias("masters"),
        F.sum("_behind").alias("max_lag_entries"),
        *(
            F.sum(F.col(f"{name}_per_second").cast("decimal(28,6)")).cast("double").alias(f"{name}_load")
            for name in RESOURCES
        ),
    )
    nodes = cleaned.where("accepted and kind = 'paxos_node' and node is not null")
    told = nodes.select("cluster", "tick", "node", "alive")
    tick = Window.partitionBy("cluster", "tick")
    alive = F.sum(F.col("alive").cast("int")).over(tick)
    joined = told.join(by_node, on=["cluster", "tick", "node"], how="left")
    return conform(
        joined.withColumns(
            {
                "broker": F.concat(F.lit("node "), F.col("node").cast("string")),
                "broker_state": F.when(F.col("alive"), F.lit("alive")).otherwise(F.lit("dead")),
                **{
                    f"{name}_capacity": F.greatest(
                        F.lit(1e-9), F.sum(f"{name}_load").over(tick) / F.greatest(alive, F.lit(1))
                    )
                    for name in RESOURCES
                },
            }
        ),
        BROKERS,
    )


def imbalance(brokers: DataFrame) -> DataFrame:
    """The measures per (cluster, tick) of the nodes that answer; `traffic_collapse` is null."""
    return imbalance_table(brokers.where("broker_state = 'alive'"), RESOURCES)


def quality(cleaned: DataFrame, shares: DataFrame) -> DataFrame:
    """Counts of each flag per (cluster, tick, kind)."""
    return counts.quality(
        cleaned, (shares.withColumn("kind", F.lit("paxos_group")), (SampleFlag.GAP, SampleFlag.RESET))
    )


STAGES: Final = (
    TableStage(shares, {"cleaned": lambda s: s.gap}, nearest=True),
    TableStage(groups, {"shares": here}),
    TableStage(brokers, {"cleaned": here, "shares": here}),
    TableStage(imbalance, {"brokers": here}),
    TableStage(quality, {"cleaned": here, "shares": here}),
)
