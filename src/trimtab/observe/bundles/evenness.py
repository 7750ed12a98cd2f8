"""How uneven the brokers were at every tick, by the measures that all levels share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.model.bundles_snapshot import RESOURCES
from trimtab.observe.bundles.schemas import IMBALANCE
from trimtab.observe.flags import Flag
from trimtab.observe.imbalance import imbalance_of
from trimtab.observe.quality import quality_of
from trimtab.observe.schemas import conform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from trimtab.observe.settings import PipelineSettings


def imbalance(brokers: DataFrame, settings: PipelineSettings) -> DataFrame:
    """The measures per (cluster, tick, resource), with where the brokers' usage came from.

    Every broker that the cluster names is live: a tick counts only if all of them answered.

    Parameters
    ----------
    brokers
        Columns of `schemas.BROKERS`.
    settings
        Gives θ and ε.

    Returns
    -------
    DataFrame
        Columns of `schemas.IMBALANCE`; `traffic_collapse` is null.
    """
    from pyspark.sql import functions as F

    loaded = brokers.withColumns({f"{name}_load": F.col(name) for name in RESOURCES})
    measured = imbalance_of(loaded, RESOURCES, settings.bundles.theta, settings.bundles.epsilon, "string")
    # One broker that is only declared makes the whole picture a declared one.
    source = brokers.groupBy("cluster", "tick").agg(F.min("usage_source").alias("usage_source"))
    joined = measured.join(source, on=["cluster", "tick"], how="left")
    return conform(joined.withColumn("traffic_collapse", F.lit(None).cast("boolean")), IMBALANCE)


def quality(cleaned: DataFrame, brokers: DataFrame, bundles: DataFrame) -> DataFrame:
    """How many samples of each kind and tick were dirty, and in which way.

    Parameters
    ----------
    cleaned, brokers, bundles
        Columns of `PULSAR.cleaned`, `schemas.BROKERS` and `schemas.BUNDLES`.

    Returns
    -------
    DataFrame
        Columns of `trimtab.observe.schemas.QUALITY`.
    """
    from pyspark.sql import functions as F

    flags = (Flag.GAP, Flag.CLOCK_BACK, Flag.MISSED)
    return quality_of(
        cleaned,
        (brokers.withColumn("kind", F.lit("pulsar_broker")), flags),
        (bundles.withColumn("kind", F.lit("pulsar_bundle")), flags),
    )
