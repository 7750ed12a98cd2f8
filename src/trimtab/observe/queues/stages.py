"""Transformations of the balancer `queues`, from cleaned samples to the tables that snapshots are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from trimtab.model.queues.snapshot import RESOURCES
from trimtab.observe import clean as counts
from trimtab.observe.balancer_pipeline import TableStage, here
from trimtab.observe.columns import SampleFlag
from trimtab.observe.imbalance import imbalance_table
from trimtab.observe.queues.samples import brokers, classes, forecast_errors
from trimtab.observe.queues.weights import speeds, weights, windows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def imbalance(brokers: DataFrame) -> DataFrame:
    """The measures per (cluster, tick) of the work in queues that have a worker; `traffic_collapse` is null.

    A queue beyond the workers is passed over by dispatch, and its emptiness says nothing.
    """
    return imbalance_table(brokers.where("alive"), RESOURCES)


def quality(cleaned: DataFrame, brokers: DataFrame, classes: DataFrame) -> DataFrame:
    """Counts of each flag per (cluster, tick, kind)."""
    flags = (SampleFlag.GAP, SampleFlag.RESET)
    return counts.quality(
        cleaned,
        (brokers.withColumn("kind", F.lit("queue")), flags),
        (classes.withColumn("kind", F.lit("queue_class")), flags),
    )


STAGES: Final = (
    TableStage(brokers, {"cleaned": lambda s: s.gap}),
    TableStage(classes, {"cleaned": lambda s: s.gap}),
    TableStage(windows, {"classes": lambda s: s.window}),
    TableStage(weights, {"windows": lambda s: (s.weight_windows - 1) * s.window}),
    TableStage(speeds, {"windows": here, "weights": here}),
    TableStage(forecast_errors, {"brokers": lambda s: s.horizon + s.gap}),
    TableStage(imbalance, {"brokers": here}),
    TableStage(quality, {"cleaned": here, "brokers": here, "classes": here}),
)
