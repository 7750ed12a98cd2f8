"""Transformations of balancer `bundles`, from cleaned samples to the tables that snapshots are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from trimtab.model.bundles.snapshot import RESOURCES
from trimtab.observe import clean as counts
from trimtab.observe import imbalance as measures
from trimtab.observe.balancer_pipeline import TableStage, here
from trimtab.observe.bundles.averages import averages
from trimtab.observe.bundles.forecasts import forecast_errors, forecasts, hour_reach, hours
from trimtab.observe.bundles.reports import brokers, bundles, departures
from trimtab.observe.bundles.schemas import IMBALANCE
from trimtab.observe.bundles.windows import attributed, cpu_model, windows
from trimtab.observe.columns import SampleFlag
from trimtab.observe.seasons import HOUR
from trimtab.observe.spark_columns import conform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def imbalance(brokers: DataFrame) -> DataFrame:
    """The measures per (cluster, tick, resource), with where the brokers' usage came from.

    Every broker that the cluster names is live: a tick counts only if all of them answered.
    `traffic_collapse` is null.
    """
    loaded = brokers.withColumns({f"{name}_load": F.col(name) for name in RESOURCES})
    measured = measures.imbalance(loaded, RESOURCES, "string")
    # One broker that is only declared makes the whole picture a declared one.
    source = brokers.groupBy("cluster", "tick").agg(F.min("usage_source").alias("usage_source"))
    joined = measured.join(source, on=["cluster", "tick"], how="left")
    return conform(joined.withColumn("traffic_collapse", F.lit(None).cast("boolean")), IMBALANCE)


def quality(cleaned: DataFrame, brokers: DataFrame, bundles: DataFrame) -> DataFrame:
    """Counts of each flag per (cluster, tick, kind)."""
    flags = (SampleFlag.GAP, SampleFlag.CLOCK_BACK, SampleFlag.MISSED)
    return counts.quality(
        cleaned,
        (brokers.withColumn("kind", F.lit("pulsar_broker")), flags),
        (bundles.withColumn("kind", F.lit("pulsar_bundle")), flags),
    )


STAGES: Final = (
    TableStage(brokers, {"cleaned": lambda s: s.gap}),
    TableStage(bundles, {"cleaned": lambda s: s.gap}),
    TableStage(averages, {"cleaned": here}, carries=True),
    TableStage(departures, {"bundles": lambda s: s.departure}),
    TableStage(imbalance, {"brokers": here}),
    TableStage(windows, {name: lambda s: s.window for name in ("cleaned", "brokers", "bundles")}),
    TableStage(cpu_model, {"windows": lambda s: s.cpu_fit_windows * s.slide}),
    TableStage(attributed, {"windows": here, "cpu_model": here}),
    TableStage(hours, {"attributed": lambda _: HOUR}),
    TableStage(forecasts, {"attributed": lambda s: s.trend_windows * s.slide, "hours": hour_reach}),
    TableStage(
        forecast_errors,
        {
            "forecasts": lambda s: ((s.horizon, s.horizon),),
            "attributed": lambda s: ((0, 0), (s.horizon, s.horizon)),
        },
    ),
    TableStage(quality, {"cleaned": here, "brokers": here, "bundles": here}),
)
