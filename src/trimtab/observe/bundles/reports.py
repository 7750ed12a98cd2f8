"""Cleaned samples to what every broker and every bundle was doing at each tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.model.bundles.reports import TRAFFIC
from trimtab.observe.bundles.schemas import BROKERS, BUNDLES, DEPARTURES
from trimtab.observe.columns import SampleFlag
from trimtab.observe.spark_columns import conform, flag_if, is_flagged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.bundles.pipeline import BundlesPipelineSettings

BYTES_PER_KBIT: Final = 125.0
_BAD_FIGURE: Final = SampleFlag.NOT_A_NUMBER | SampleFlag.NEGATIVE


def brokers(cleaned: DataFrame, settings: BundlesPipelineSettings) -> DataFrame:
    """Load and capacity of each broker per tick, by its own report.

    One row per broker that the cluster names, also where it did not answer: its loads are null then. Where
    usage is declared (one host carries all brokers, so that the host's counters tell nothing of any),
    bandwidth is what the broker's messages take, and there is no CPU. Else bandwidth is what the host's
    network cards count, replication to bookies and all.
    """
    own = cleaned.where("accepted and kind = 'pulsar_broker' and owner is not null")
    judged = _flag_intervals(own.withColumn("broker", F.col("owner")), own, ("broker",), settings)
    answered = F.coalesce(F.col("broker_state") == "alive", F.lit(False))
    sound = answered & ~is_flagged(SampleFlag.CLOCK_BACK)
    declared = F.coalesce(F.col("usage_source") == "declared", F.lit(False))

    def bandwidth(direction: str) -> Column:
        counted = F.col(f"bandwidth_{direction}_usage") * BYTES_PER_KBIT
        return F.when(sound, F.when(declared, F.col(f"msg_throughput_{direction}")).otherwise(counted))

    def limit(name: str, declared_as: str, scale: float) -> Column:
        reported = F.when(F.col(f"{name}_limit") > 0, F.col(f"{name}_limit") * scale)
        return F.coalesce(F.when(F.col(declared_as) > 0, F.col(declared_as)), reported)

    return conform(
        judged.withColumns(
            {
                "cpu": F.when(sound & ~declared, F.col("cpu_usage") / 100.0),
                "bandwidth_in": bandwidth("in"),
                "bandwidth_out": bandwidth("out"),
                "message_rate": F.when(sound, F.col("msg_rate_in") + F.col("msg_rate_out")),
                **{name: F.when(sound, F.col(name)) for name in TRAFFIC},
                "cpu_capacity": limit("cpu", "cpu_capacity_cores", 0.01),
                "bandwidth_in_capacity": limit(
                    "bandwidth_in", "bandwidth_in_capacity_bytes_per_second", BYTES_PER_KBIT
                ),
                "bandwidth_out_capacity": limit(
                    "bandwidth_out", "bandwidth_out_capacity_bytes_per_second", BYTES_PER_KBIT
                ),
                "message_rate_capacity": F.col("message_rate_capacity_per_second"),
            }
        ),
        BROKERS,
    )


def bundles(cleaned: DataFrame, settings: BundlesPipelineSettings) -> DataFrame:
    """Owner and traffic of each bundle per tick, one row per bundle that somebody owns.

    Two brokers may say that they own a bundle while it changes hands: the one that told figures of it, and
    told them last, has it (`claims` counts them).
    """
    # Figures of a bundle that is not in the list are of one that was just given up.
    owned = cleaned.where(
        "accepted and kind = 'pulsar_bundle' and owner is not null and bundle is not null "
        "and (position is not null or not coalesce(has_stats, false))"
    )
    same = Window.partitionBy("cluster", "tick", "bundle")
    has_stats = F.coalesce(F.col("has_stats"), F.lit(False))
    best = same.orderBy(has_stats.desc(), F.col("sampled_at").desc_nulls_last(), F.col("owner"))
    one = owned.withColumns(
        {"_place": F.row_number().over(best), "claims": F.count(F.lit(1)).over(same)}
    ).where("_place = 1")
    judged = _flag_intervals(one, cleaned, ("bundle",), settings)
    wrong = is_flagged(_BAD_FIGURE | SampleFlag.CLOCK_BACK)
    is_known = has_stats & ~wrong
    return conform(
        judged.withColumns(
            {
                "is_known": is_known,
                **{name: F.when(is_known, F.coalesce(F.col(name), F.lit(0.0))) for name in TRAFFIC},
                "topics": F.when(is_known, F.col("topics")),
                "sessions": F.when(
                    is_known, F.coalesce("producers", F.lit(0)) + F.coalesce("consumers", F.lit(0))
                ),
            }
        ),
        BUNDLES,
    )


def departures(bundles: DataFrame, settings: BundlesPipelineSettings) -> DataFrame:
    """Bundles that another broker has than the last time they were seen, whoever moved them.

    At `tick` a bundle was seen at `target` for the first time, at `last_observed` at `broker` for the last,
    no longer than `settings.departure` before.
    """
    history = Window.partitionBy("cluster", "bundle").orderBy("tick")
    seen = bundles.select(
        "cluster",
        "tick",
        "bundle",
        F.col("owner").alias("target"),
        F.lag("owner").over(history).alias("broker"),
        F.lag("tick").over(history).alias("last_observed"),
    )
    near = F.unix_micros("tick") - F.unix_micros("last_observed") <= settings.departure
    return conform(seen.where(near & (F.col("broker") != F.col("target"))), DEPARTURES)


def _flag_intervals(
    rows: DataFrame, cleaned: DataFrame, entity: tuple[str, ...], settings: BundlesPipelineSettings
) -> DataFrame:
    """Rows with `elapsed_us`, and flags that tell gaps, missed ticks and clocks that went back.

    `elapsed_us` is the time since the cluster's tick before: what a rate told at this tick stands for. It is
    null at the first tick and after a gap.
    """
    said = cleaned.where("accepted and kind = 'pulsar_broker'").select("cluster", "tick").distinct()
    cluster = Window.partitionBy("cluster").orderBy("tick")
    ticks = said.withColumn("_cluster_before", F.lag("tick").over(cluster))
    history = Window.partitionBy("cluster", *entity).orderBy("tick")
    before = {f"_before_{name}": F.lag(name).over(history) for name in ("tick", "sampled_at", "owner")}
    paired = rows.withColumns(before).join(F.broadcast(ticks), on=["cluster", "tick"], how="left")

    def since(name: str) -> Column:
        return F.unix_micros("tick") - F.unix_micros(name)

    near = F.coalesce(since("_before_tick") <= settings.gap, F.lit(False))
    same_owner = F.col("_before_owner") == F.col("owner")
    back = F.coalesce(near & same_owner & (F.col("sampled_at") < F.col("_before_sampled_at")), F.lit(False))
    missed = F.coalesce(near & (F.col("_before_tick") < F.col("_cluster_before")), F.lit(False))
    flags = (
        F.col("flags")
        .bitwiseOR(flag_if(~near, SampleFlag.GAP))
        .bitwiseOR(flag_if(back, SampleFlag.CLOCK_BACK))
        .bitwiseOR(flag_if(missed, SampleFlag.MISSED))
    )
    elapsed = F.when(since("_cluster_before") <= settings.gap, since("_cluster_before"))
    return paired.withColumns({"flags": flags, "elapsed_us": elapsed})
