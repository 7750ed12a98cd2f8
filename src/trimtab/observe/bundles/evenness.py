"""Imbalance of the brokers at every tick, and faults of samples, by the measures that all levels share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from trimtab.model.bundles.snapshot import RESOURCES
from trimtab.observe import clean as counts
from trimtab.observe import imbalance as measures
from trimtab.observe.bundles.schemas import IMBALANCE
from trimtab.observe.columns import Flag
from trimtab.observe.spark_columns import conform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from trimtab.observe.bundles.pipeline import BundlesPipelineSettings


def imbalance(brokers: DataFrame, settings: BundlesPipelineSettings) -> DataFrame:
    """The measures per (cluster, tick, resource), with where the brokers' usage came from.

    Every broker that the cluster names is live: a tick counts only if all of them answered.
    `traffic_collapse` is null.
    """
    loaded = brokers.withColumns({f"{name}_load": F.col(name) for name in RESOURCES})
    measured = measures.imbalance(loaded, RESOURCES, settings.theta, settings.epsilon, "string")
    # One broker that is only declared makes the whole picture a declared one.
    source = brokers.groupBy("cluster", "tick").agg(F.min("usage_source").alias("usage_source"))
    joined = measured.join(source, on=["cluster", "tick"], how="left")
    return conform(joined.withColumn("traffic_collapse", F.lit(None).cast("boolean")), IMBALANCE)


def quality(cleaned: DataFrame, brokers: DataFrame, bundles: DataFrame) -> DataFrame:
    """Counts of each flag per (cluster, tick, kind)."""
    flags = (Flag.GAP, Flag.CLOCK_BACK, Flag.MISSED)
    return counts.quality(
        cleaned,
        (brokers.withColumn("kind", F.lit("pulsar_broker")), flags),
        (bundles.withColumn("kind", F.lit("pulsar_bundle")), flags),
    )
