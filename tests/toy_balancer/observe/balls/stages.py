"""Transformations of the balancer `balls`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from trimtab.observe.balls.pipeline import BOXES, RESOURCES
from trimtab.observe.lake.balancer_pipeline import TableStage, here
from trimtab.observe.lake.columns import imbalance_columns
from trimtab.observe.spark.expressions import conform
from trimtab.observe.steps import clean
from trimtab.observe.steps import imbalance as measures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def brokers(cleaned: DataFrame) -> DataFrame:
    """Boxes with what lies in them."""
    told = cleaned.where("accepted")
    balls = (
        told.where("kind = 'ball'")
        .groupBy("cluster", "tick", "box")
        .agg(
            F.sum("weight").alias("carried"),
            F.array_sort(F.collect_list(F.struct(F.col("ball").alias("name"), "weight"))).alias("balls"),
        )
    )
    boxes = told.where("kind = 'box'").select(
        "cluster", "tick", "box", F.col("capacity").alias("weight_capacity")
    )
    joined = boxes.join(balls, ["cluster", "tick", "box"], "left")
    return conform(
        joined.withColumns(
            {
                "broker": F.col("box"),
                "broker_state": F.lit("alive"),
                "weight_load": F.coalesce("carried", F.lit(0.0)),
            }
        ),
        BOXES,
    )


def imbalance(brokers: DataFrame) -> DataFrame:
    """How unevenly the boxes are filled."""
    measured = measures.imbalance(brokers, RESOURCES, "string")
    return conform(
        measured.withColumn("traffic_collapse", F.lit(None).cast("boolean")), imbalance_columns("string")
    )


def quality(cleaned: DataFrame) -> DataFrame:
    """Faults of samples."""
    return clean.quality(cleaned)


STAGES = (
    TableStage(brokers, {"cleaned": here}),
    TableStage(imbalance, {"brokers": here}),
    TableStage(quality, {"cleaned": here}),
)
