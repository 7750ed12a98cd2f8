"""Transformations of balancer `replicas`, from cleaned samples to the tables that snapshots are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from trimtab.model.replicas.settings import RESOURCES
from trimtab.observe.lake.balancer_pipeline import OneTick, TableStage, here
from trimtab.observe.lake.columns import SECOND, SampleFlag
from trimtab.observe.replicas.brokers import brokers, clients
from trimtab.observe.replicas.pipeline import IMBALANCE
from trimtab.observe.replicas.traffic import growth, rates, rates_of_one_tick, traffic, traffic_of_one_tick
from trimtab.observe.replicas.windows import (
    NANOSECONDS_PER_US,
    arrivals,
    attributed,
    cpu_model,
    days,
    error_reach,
    hours,
    profile_errors,
    profile_reach,
    profiles,
    trend_reach,
    trends,
    windows,
)
from trimtab.observe.spark.expressions import DAY, HOUR, conform
from trimtab.observe.steps import clean as counts
from trimtab.observe.steps import imbalance as measures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings

_OF_INTERVALS: Final = (SampleFlag.RESET, SampleFlag.GAP, SampleFlag.CLOCK_BACK, SampleFlag.MISSED)
_OF_PARTITIONS: Final = (SampleFlag.CUT, SampleFlag.COPYING, SampleFlag.LEADER_CHANGED)


def imbalance(brokers: DataFrame, clients: DataFrame) -> DataFrame:
    """B, D, γ of every broker and B̄, σ, worst γ and peak per (cluster, tick, resource).

    A tick counts for a resource only if every live broker has a value of it then (`complete`); otherwise
    the measures are null. Where some live broker has no capacity for a resource, D and γ come from the
    loads themselves, and usage is null. Ticks without clients have `traffic_collapse` null.
    """
    per_second = SECOND / F.col("elapsed_us")
    loads = {
        "cpu": F.col("cpu_ns") / (F.col("elapsed_us") * NANOSECONDS_PER_US),
        "disk": F.col("disk_bytes").cast("double"),
        "network_in": (F.col("leader_bytes_in") + F.col("follower_bytes_in")) * per_second,
        "network_out": F.col("bytes_out") * per_second,
    }
    live = brokers.where("live").withColumns({f"{name}_load": load for name, load in loads.items()})
    measured = measures.imbalance(
        live, RESOURCES, "int", F.col("network_measured"), ("network_in", "network_out")
    )
    collapse = clients.select("cluster", "tick", "traffic_collapse")
    return conform(measured.join(collapse, on=["cluster", "tick"], how="left"), IMBALANCE)


def quality(cleaned: DataFrame, rates: DataFrame, traffic: DataFrame) -> DataFrame:
    """Counts of each flag per (cluster, tick, kind)."""
    return counts.quality(
        cleaned,
        (rates, _OF_INTERVALS),
        (traffic.withColumn("kind", F.lit("partition")), _OF_PARTITIONS),
    )


def _profiled(settings: ReplicasPipelineSettings) -> bool:
    return settings.profile_weeks > 0


STAGES: Final = (
    TableStage(
        rates,
        {"cleaned": lambda s: s.gap},
        nearest=True,
        one_tick=OneTick(
            rates_of_one_tick,
            {"cleaned_before": ("cleaned", lambda _, at, __: None if at is None else (at, at + 1))},
        ),
    ),
    TableStage(growth, {"rates": here}),
    TableStage(
        traffic,
        {"growth": lambda s: max(s.learning, s.gap), "rates": here},
        before=("growth",),
        one_tick=OneTick(
            traffic_of_one_tick,
            {
                "growth_learned": ("growth", lambda tick, _, s: (tick - s.learning + 1, tick)),
                "growth_recent": ("growth", lambda tick, _, s: (tick - s.gap, tick)),
            },
        ),
    ),
    TableStage(brokers, {"rates": here, "traffic": here}),
    TableStage(clients, {"rates": lambda s: s.collapse}),
    TableStage(imbalance, {"brokers": here, "clients": here}),
    TableStage(windows, {"traffic": lambda s: s.window, "brokers": lambda s: s.window}),
    TableStage(cpu_model, {"windows": lambda s: s.cpu_fit_windows * s.slide}, is_computed_here=True),
    TableStage(attributed, {"windows": here, "cpu_model": here}),
    TableStage(hours, {"attributed": lambda _: HOUR}, is_enabled=_profiled),
    TableStage(arrivals, {"hours": lambda _: DAY}, is_enabled=_profiled),
    TableStage(profiles, {"hours": profile_reach}, is_enabled=_profiled),
    TableStage(days, {"hours": lambda _: DAY}, is_enabled=_profiled),
    TableStage(trends, {"profiles": here, "days": trend_reach}, is_enabled=_profiled),
    TableStage(
        profile_errors, {"profiles": here, "trends": here, "hours": error_reach}, is_enabled=_profiled
    ),
    TableStage(quality, {"cleaned": here, "rates": here, "traffic": here}),
)
