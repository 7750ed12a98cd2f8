"""The effect of scenarios on a cluster: measures of every step by Spark, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from trimtab.history.replicas.load_series import LoadSeries
from trimtab.history.replicas.replay import ScenarioTrace
from trimtab.model.goals import ROUNDING
from trimtab.model.load import FloatArray
from trimtab.model.replicas.resources import RESOURCES
from trimtab.observe.imbalance import imbalance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TWICE_SECONDS: Final = 86400.0
"""A replica that goes on within a day was moved twice."""


@dataclass(frozen=True)
class ReplicaMetricSpec:
    """What every scenario of a comparison is measured by, whatever its own settings ask for.

    Attributes
    ----------
    theta
        By resource: usage above it is to be avoided.
    min_utilization
        γ is not counted of a resource that brokers use less than this on average.
    """

    theta: tuple[float, ...]
    min_utilization: float


@dataclass(frozen=True, eq=False)
class ReplicasReplayEffect:
    """A scenario in figures; all arrays have shape (steps,).

    Attributes
    ----------
    at
        End of the step, seconds since 1970.
    step_seconds
        Length of a step.
    above
        Brokers that are above θ in some resource.
    peak
        Highest usage of any broker and resource; NaN where none has a capacity.
    gamma, sigma
        The worst resource's largest γ, and the worst resource's σ.
    replicas, moved_twice, leaders, plans
        Replicas moved, those of them that had come by a move less than `TWICE_SECONDS` before, leader roles
        handed over for their own sake, and plans made.
    copied_bytes
        Bytes copied.
    """

    at: FloatArray
    step_seconds: float
    above: np.ndarray
    peak: FloatArray
    gamma: FloatArray
    sigma: FloatArray
    replicas: np.ndarray
    moved_twice: np.ndarray
    leaders: np.ndarray
    plans: np.ndarray
    copied_bytes: FloatArray

    @property
    def seconds_above(self) -> float:
        """Time with some broker above θ."""
        return float((self.above > 0).sum() * self.step_seconds)

    @property
    def broker_seconds_above(self) -> float:
        """The same, every such broker counted."""
        return float(self.above.sum() * self.step_seconds)


def effects_of(
    session: SparkSession,
    series: LoadSeries,
    traces: Mapping[str, ScenarioTrace],
    measured_by: ReplicaMetricSpec,
) -> dict[str, ReplicasReplayEffect]:
    """The effect of each scenario, by name."""
    loads = session.createDataFrame(_loads(series, traces))
    rows = _over_time(loads, measured_by).toArrow().sort_by([("cluster", "ascending"), ("tick", "ascending")])
    names = np.array(rows["cluster"].to_pylist(), dtype=object)
    found = {}
    for name, trace in traces.items():
        own = rows.filter(pa.array(names == name))
        steps = len(trace.load)
        twice = (trace.moves[:, 1] >= 0) & (
            (trace.moves[:, 0] - trace.moves[:, 1]) * series.step_seconds < TWICE_SECONDS
        )
        found[name] = ReplicasReplayEffect(
            at=own["tick"].cast("int64").to_numpy() / 1e6,
            step_seconds=series.step_seconds,
            above=own["above"].to_numpy(),
            **{name: own[name].to_numpy().astype(np.float64) for name in ("peak", "gamma", "sigma")},
            replicas=np.bincount(trace.moves[:, 0], minlength=steps),
            moved_twice=np.bincount(trace.moves[twice, 0], minlength=steps),
            leaders=trace.leaders,
            plans=trace.plans,
            copied_bytes=trace.copied_bytes,
        )
    return found


def _loads(series: LoadSeries, traces: Mapping[str, ScenarioTrace]) -> pa.Table:
    """A row a scenario, step and broker in service, as `trimtab.observe.imbalance` takes them."""
    brokers = series.initial.brokers
    serves = np.flatnonzero(brokers.in_service)
    capacity = np.where(np.isfinite(brokers.capacity), brokers.capacity, np.nan)[serves]
    end = series.end[series.first :]
    parts = []
    for name, trace in traces.items():
        load = trace.load[:, serves]
        columns: dict[str, pa.Array] = {
            "cluster": pa.array([name] * (len(end) * len(serves))),
            "tick": pa.array(np.repeat(end, len(serves))).cast(pa.timestamp("us", tz="UTC")),
            "broker": pa.array(np.tile(brokers.id[serves], len(end)).astype(np.int32)),
        }
        for place, resource in enumerate(RESOURCES):
            columns[f"{resource}_load"] = pa.array(load[:, :, place].ravel())
            columns[f"{resource}_capacity"] = pa.array(
                np.tile(capacity[:, place], len(end)), from_pandas=True
            )
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def _over_time(loads: DataFrame, measured_by: ReplicaMetricSpec) -> DataFrame:
    """A row a scenario and step: brokers above θ, the fullest, the worst γ, the worst σ."""
    limits = F.create_map(
        *(
            F.lit(one)
            for pair in zip(RESOURCES, measured_by.theta, strict=True)
            for one in (pair[0], float(pair[1]))
        )
    )
    measured = imbalance(loads, RESOURCES, "int").withColumn("theta", limits[F.col("resource")])
    full = F.transform(
        F.filter("by_broker", lambda it: it["usage"] > F.col("theta") * (1 + ROUNDING)),
        lambda it: it["broker"],
    )
    # Of what nobody uses, evenness is not asked: γ of a resource near 0 is noise.
    idle = F.col("peak_usage").isNotNull() & (F.col("mean") < measured_by.min_utilization)
    return (
        measured.withColumns({"full": full, "idle": idle})
        .groupBy("cluster", "tick")
        .agg(
            F.size(F.array_distinct(F.flatten(F.collect_list("full")))).cast("bigint").alias("above"),
            F.max("peak_usage").alias("peak"),
            F.max(F.when(~F.col("idle"), F.col("worst_deviation"))).alias("gamma"),
            F.max(F.when(~F.col("idle"), F.col("sigma"))).alias("sigma"),
        )
    )
