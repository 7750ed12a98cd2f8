"""Transformations of the balancer `queues`: from raw samples to tables, and to a snapshot."""

from __future__ import annotations

import json
from math import fsum
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.files.queues import SNAPSHOT_FORMAT
from trimtab.model.documents import Quality
from trimtab.model.queues import RESOURCES, ClassLoad, QueueLoad, QueuesSnapshot
from trimtab.observe.lake.balancer_pipeline import TableStage, here
from trimtab.observe.lake.columns import SECOND, Row, SampleFlag
from trimtab.observe.lake.lake import microseconds
from trimtab.observe.lake.snapshots import SnapshotInputs, write_snapshots
from trimtab.observe.queues.pipeline import BROKERS, CLASSES, FORECAST_ERRORS, SPEEDS, WEIGHTS, WINDOWS
from trimtab.observe.spark.expressions import conform, flag_if, is_valid_interval, with_window_ends
from trimtab.observe.steps import clean as counts
from trimtab.observe.steps.imbalance import imbalance_table
from trimtab_queues.format.documents import WAIT_BUCKETS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

    from trimtab.files.store import Location
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import Manifest
    from trimtab.observe.queues.pipeline import QueuesPipelineSettings


TOTALS: Final = {
    "processed": "bigint",
    "busy_seconds": "decimal(28,6)",
    "busy_squares": "decimal(28,9)",
    "waited_seconds": "decimal(28,6)",
    "accepted": "bigint",
    "refused": "bigint",
}
"""Counters of a process and class, and types in which sums do not depend on their order."""


def brokers(cleaned: DataFrame, settings: QueuesPipelineSettings) -> DataFrame:
    """Length, work and rates of each queue per tick, and its work as the forecast has it at the horizon.

    Capacity in work is what a queue holds when it is full of messages of the classes' mean weight.
    """
    queues = cleaned.where("accepted and kind = 'queue' and queue is not null")
    history = Window.partitionBy("cluster", "queue").orderBy("tick")
    before = {
        f"_before_{name}": F.lag(name).over(history)
        for name in ("tick", "arrived_seconds_total", "served_seconds_total")
    }
    paired = queues.withColumns(before).join(
        F.broadcast(_mean_weights(cleaned)), on=["cluster", "tick"], how="left"
    )
    elapsed = F.unix_micros("tick") - F.unix_micros("_before_tick")
    near = F.coalesce(elapsed <= settings.gap, F.lit(False))

    def grown(name: str) -> Column:
        return F.col(f"{name}_seconds_total") - F.col(f"_before_{name}_seconds_total")

    fell = F.coalesce(near & ((grown("arrived") < 0) | (grown("served") < 0)), F.lit(False))
    flags = (
        F.col("flags").bitwiseOR(flag_if(~near, SampleFlag.GAP)).bitwiseOR(flag_if(fell, SampleFlag.RESET))
    )
    judged = paired.withColumn("elapsed_us", F.when(near, elapsed)).withColumn("flags", flags)

    def rate(name: str) -> Column:
        return F.when(is_valid_interval(), grown(name) / (F.col("elapsed_us") / SECOND))

    rated = judged.withColumns({f"{name}_seconds_per_second": rate(name) for name in ("arrived", "served")})
    trend = F.col("arrived_seconds_per_second") - F.col("served_seconds_per_second")
    ahead = F.col("work_seconds") + trend * (settings.horizon / SECOND)
    # Where no rate is known nothing is forecast; Spark's greatest would pass over the null: 0.
    ahead = F.when(ahead.isNotNull(), F.greatest(F.lit(0.0), ahead))
    return conform(
        rated.withColumns(
            {
                "broker": F.concat(F.lit("queue "), F.col("queue").cast("string")),
                "broker_state": F.when(F.col("alive"), F.lit("alive")).otherwise(F.lit("without a worker")),
                "work_load": F.col("work_seconds"),
                "work_capacity": F.col("capacity") * F.col("mean_weight"),
                "forecast_seconds": ahead,
            }
        ),
        BROKERS,
    )


def _mean_weights(cleaned: DataFrame) -> DataFrame:
    """The mean weight of the classes that processes told of, per tick; that of the default where none did."""
    told = cleaned.where("accepted and kind = 'queue_class' and weight > 0")
    of_classes = (
        told.groupBy("cluster", "tick", "message_class")
        .agg(F.max("weight").cast("decimal(28,9)").alias("weight"))
        .groupBy("cluster", "tick")
        .agg((F.sum("weight") / F.count("weight")).cast("double").alias("_mean"))
    )
    usual = (
        cleaned.where("accepted and kind = 'queue_process'")
        .groupBy("cluster", "tick")
        .agg(F.max("default_weight").alias("_default"))
    )
    both = usual.join(of_classes, on=["cluster", "tick"], how="left")
    return both.select("cluster", "tick", F.coalesce("_mean", "_default").alias("mean_weight"))


def classes(cleaned: DataFrame, settings: QueuesPipelineSettings) -> DataFrame:
    """What each process did of each class since the tick before.

    A process that was not there at the cluster's tick before has done all that it tells since then.
    """
    told = cleaned.where("accepted and kind = 'queue_class' and process is not null")
    ticks = cleaned.where("accepted and kind = 'queue_server'").select("cluster", "tick").distinct()
    cluster = Window.partitionBy("cluster").orderBy("tick")
    ticks = ticks.withColumn("_cluster_before", F.lag("tick").over(cluster))
    history = Window.partitionBy("cluster", "process", "message_class").orderBy("tick")
    names = ("tick", "waits", *(f"{name}_total" for name in TOTALS))
    before = {f"_before_{name}": F.lag(name).over(history) for name in names}
    paired = told.withColumns(before).join(F.broadcast(ticks), on=["cluster", "tick"], how="left")

    def since(name: str) -> Column:
        return F.unix_micros("tick") - F.unix_micros(name)

    elapsed = F.coalesce(since("_before_tick"), since("_cluster_before"))
    near = F.coalesce(elapsed <= settings.gap, F.lit(False))
    fell = F.coalesce(F.col("processed_total") < F.col("_before_processed_total"), F.lit(False))
    flags = (
        F.col("flags")
        .bitwiseOR(flag_if(~near, SampleFlag.GAP))
        .bitwiseOR(flag_if(near & fell, SampleFlag.RESET))
    )
    judged = paired.withColumn("elapsed_us", F.when(near, elapsed)).withColumn("flags", flags)
    nothing = F.lit(0).cast("bigint")
    waits = F.zip_with(
        "waits",
        F.coalesce("_before_waits", F.array().cast("array<bigint>")),
        lambda now, then: F.coalesce(now, nothing) - F.coalesce(then, nothing),
    )
    grown = {
        name: F.when(
            is_valid_interval(),
            F.col(f"{name}_total").cast(kind)
            - F.coalesce(F.col(f"_before_{name}_total"), F.lit(0)).cast(kind),
        )
        for name, kind in TOTALS.items()
    }
    return conform(judged.withColumns({**grown, "waits": F.when(is_valid_interval(), waits)}), CLASSES)


def forecast_errors(brokers: DataFrame, settings: QueuesPipelineSettings) -> DataFrame:
    """The work of each queue beside what was forecast for then, at the last tick a horizon before or more."""
    at = F.unix_micros("tick")
    frame = (
        Window.partitionBy("cluster", "broker")
        .orderBy(at)
        .rangeBetween(-(settings.horizon + settings.gap), -settings.horizon)
    )
    found = F.last(F.struct("tick", "forecast_seconds", "work_load")).over(frame)
    held = brokers.withColumn("_made", found).where("_made.forecast_seconds is not null")
    return conform(
        held.withColumns(
            {
                "made": F.col("_made.tick"),
                "actual": F.col("work_load"),
                "error": F.col("_made.forecast_seconds") - F.col("work_load"),
                "error_of_latest": F.col("_made.work_load") - F.col("work_load"),
            }
        ),
        FORECAST_ERRORS,
    )


def windows(classes: DataFrame, settings: QueuesPipelineSettings) -> DataFrame:
    """What was done of each class per window (end - length, end], over all queues and in each.

    Rates are over the time that samples stand for; waits are told by the upper end of their length's bucket,
    which is at most 41 % above them.
    """
    told = with_window_ends(classes.where("processed is not null"), settings)
    whole = _summed(told, "cluster", "window_end", "message_class").withColumn(
        "queue", F.lit(None).cast("int")
    )
    each = _summed(told.where("queue is not null"), "cluster", "window_end", "message_class", "queue")
    return conform(whole.unionByName(each, allowMissingColumns=True), WINDOWS)


def _summed(rows: DataFrame, *keys: str) -> DataFrame:
    covered = F.aggregate(
        F.collect_set(F.struct("tick", "elapsed_us")),
        F.lit(0).cast("bigint"),
        lambda total, one: total + one["elapsed_us"],
    )
    nothing = F.array_repeat(F.lit(0).cast("bigint"), WAIT_BUCKETS)
    waits = F.aggregate(
        F.collect_list("waits"),
        nothing,
        lambda total, one: F.zip_with(total, one, lambda a, b: a + F.coalesce(b, F.lit(0).cast("bigint"))),
    )
    sums = rows.groupBy(*keys).agg(
        F.max_by("weight", F.struct("tick", "weight")).alias("weight"),
        *(F.sum(name).alias(name) for name in ("processed", "busy_seconds", "busy_squares")),
        *(F.sum(name).alias(name) for name in ("waited_seconds", "accepted", "refused")),
        (covered / SECOND).alias("_seconds"),
        waits.alias("_waits"),
    )
    waited = F.aggregate("_waits", F.lit(0).cast("bigint"), lambda total, one: total + one)
    counted = sums.withColumn("_waited", waited)
    done, begun = F.col("processed") > 0, F.col("_waited") > 0
    per_second = {"sent": "accepted", "processed": "processed", "refused": "refused"}
    return counted.withColumns(
        {
            "mean_seconds": F.when(done, F.col("busy_seconds").cast("double") / F.col("processed")),
            "wait_seconds": F.when(begun, F.col("waited_seconds").cast("double") / F.col("_waited")),
            "wait_p50_seconds": F.when(begun, _wait_of_share(0.5)),
            "wait_p99_seconds": F.when(begun, _wait_of_share(0.99)),
            **{
                f"{name}_per_second": F.when(F.col("_seconds") > 0, F.col(count) / F.col("_seconds"))
                for name, count in per_second.items()
            },
        }
    )


def _wait_of_share(share: float) -> Column:
    """The length of waits that a share of `_waits` does not exceed, seconds."""
    start = F.struct((F.col("_waited") * share).alias("left"), F.lit(-1).alias("at"))
    bucket = F.aggregate(
        "_waits",
        start,
        lambda state, one: F.struct(
            (state["left"] - one).alias("left"),
            F.when(state["left"] > 0, state["at"] + 1).otherwise(state["at"]).alias("at"),
        ),
    )["at"]
    return F.lit(0.001) * F.pow(F.lit(2.0), bucket / 2.0)


def weights(windows: DataFrame, settings: QueuesPipelineSettings) -> DataFrame:
    """Mean processing time of each class: of the newest windows that hold `weight_samples` messages.

    At most `weight_windows` of them, which do not overlap; a class that was not seen in any has no row.
    """
    whole = windows.where("queue is null")
    ends = whole.select("cluster", "window_end").distinct()
    steps = F.sequence(F.lit(0), F.lit(settings.weight_windows - 1))
    reached = whole.withColumn("_age", F.explode(steps)).withColumn(
        "window_end",
        F.timestamp_micros(F.unix_micros("window_end") + F.col("_age") * F.lit(settings.window)),
    )
    by_age = F.array_sort(
        F.collect_list(F.struct("_age", "processed", "busy_seconds", "busy_squares", "weight"))
    )
    pooled = (
        reached.join(F.broadcast(ends), on=["cluster", "window_end"], how="inner")
        .groupBy("cluster", "window_end", "message_class")
        .agg(by_age.alias("_windows"))
    )

    def added(state: Column, one: Column) -> Column:
        more = state["samples"] < settings.weight_samples

        def sum_of(name: str, part: str, kind: str) -> Column:
            return (state[name] + F.when(more, one[part]).otherwise(F.lit(0))).cast(kind).alias(name)

        return F.struct(
            sum_of("samples", "processed", "bigint"),
            sum_of("busy", "busy_seconds", "decimal(38,6)"),
            sum_of("squares", "busy_squares", "decimal(38,9)"),
            (state["windows"] + F.when(more, 1).otherwise(0)).alias("windows"),
        )

    start = F.struct(
        F.lit(0).cast("bigint").alias("samples"),
        F.lit(0).cast("decimal(38,6)").alias("busy"),
        F.lit(0).cast("decimal(38,9)").alias("squares"),
        F.lit(0).alias("windows"),
    )
    enough = F.aggregate("_windows", start, added)
    found = pooled.withColumns({"_sum": enough, "weight": F.element_at("_windows", 1)["weight"]})
    samples, busy = F.col("_sum.samples"), F.col("_sum.busy").cast("double")
    variance = (F.col("_sum.squares").cast("double") - busy * busy / samples) / (samples - 1)
    return conform(
        found.withColumns(
            {
                "samples": samples,
                "windows": F.col("_sum.windows"),
                "mean_seconds": F.when(samples > 0, busy / samples),
                "standard_error_seconds": F.when(
                    samples > 1, F.sqrt(F.greatest(variance, F.lit(0.0)) / samples)
                ),
            }
        ),
        WEIGHTS,
    )


def speeds(windows: DataFrame, weights: DataFrame) -> DataFrame:
    """Seconds of weight that the worker of each queue did in a second of the window, by measured weights.

    Its standard error is that of its own messages' processing times, taken as those of their classes.
    """
    ours = windows.where("queue is not null and processed > 0").select(
        "cluster", "window_end", "message_class", "queue", "processed", "busy_seconds"
    )
    known = weights.where("mean_seconds is not null").select(
        "cluster",
        "window_end",
        "message_class",
        "mean_seconds",
        (F.pow(F.coalesce("standard_error_seconds", F.lit(0.0)), F.lit(2.0)) * F.col("samples")).alias(
            "_variance"
        ),
    )
    joined = ours.join(known, on=["cluster", "window_end", "message_class"], how="inner")

    def exact(value: Column) -> Column:
        return F.sum(value.cast("decimal(28,9)")).cast("double")

    sums = joined.groupBy("cluster", "window_end", "queue").agg(
        exact(F.col("processed") * F.col("mean_seconds")).alias("_weight"),
        exact(F.col("processed") * F.col("_variance")).alias("_square"),
        F.sum("busy_seconds").cast("double").alias("_busy"),
        F.sum("processed").alias("samples"),
    )
    some = F.col("_busy") > 0
    speed = F.when(some, F.col("_weight") / F.col("_busy"))
    return conform(
        sums.withColumns(
            {"speed": speed, "standard_error": F.when(some, speed * F.sqrt("_square") / F.col("_busy"))}
        ),
        SPEEDS,
    )


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


def write_newest_snapshots(
    lake: Lake, manifest: Manifest, settings: QueuesPipelineSettings
) -> list[Location]:
    """A snapshot of every set of queues at its newest tick; returns a folder per cluster."""

    def write(inputs: SnapshotInputs[QueuesPipelineSettings], path: Path) -> None:
        SNAPSHOT_FORMAT.write(snapshot_at(inputs), path)

    return write_snapshots(lake, manifest, settings, "brokers", write)


def snapshot_at(inputs: SnapshotInputs[QueuesPipelineSettings]) -> QueuesSnapshot:
    """The snapshot of one set of queues at one tick, with how far it can be trusted in `quality`."""
    tick = inputs.tick
    queues = inputs.rows("brokers", tick).sort_by("queue").to_pylist()
    told = inputs.rows("cleaned", tick, context=pc.field("kind").isin(["queue_process", "queue_server"]))
    processes = [row for row in told.to_pylist() if row["kind"] == "queue_process"]
    server: Row = next((row for row in told.to_pylist() if row["kind"] == "queue_server"), {})
    newest: Row = max(processes, key=lambda row: (row["sampled_at"], row["process"]), default={})
    version = server.get("version") or 0
    published = json.loads(server.get("published") or "{}")
    speeds = {row["queue"]: row for row in _of_newest_window(inputs, "speeds")}
    learned = {row["message_class"]: row for row in _of_newest_window(inputs, "weights")}
    latest = {
        row["message_class"]: row for row in _of_newest_window(inputs, "windows") if row["queue"] is None
    }
    extra: list[tuple[str, object]] = [
        ("x_window_seconds", inputs.settings.window_seconds),
        ("x_processes", len(processes)),
        ("x_processes_of_version", sum(row["version"] == version for row in processes)),
    ]
    if error := _forecast_error(inputs):
        extra.append(("x_forecast_error", error))
    ages = [(tick - microseconds(row["sampled_at"])) / SECOND for row in processes]
    return QueuesSnapshot(
        reference=inputs.reference,
        quality=Quality(
            valid_share=sum(row["elapsed_us"] is not None for row in queues) / max(1, len(queues)),
            oldest_sample_seconds=max(0.0, *ages, 0.0),
            cpu="absent",
            extra=tuple(extra),
        ),
        version=version,
        default_weight=newest.get("default_weight") or 1.0,
        policy=newest.get("policy") or "",
        scheduling=json.loads(newest.get("scheduling") or "{}"),
        queues=tuple(_queue(row, speeds.get(row["queue"], {})) for row in queues),
        classes=tuple(
            _class(name, latest.get(name, {}), learned.get(name, {}), published.get(name))
            for name in sorted({*learned, *latest, *published})
        ),
    )


def _queue(row: Row, speed: Row) -> QueueLoad:
    return QueueLoad(
        queue=row["queue"],
        capacity=row["capacity"],
        messages=row["messages"] or 0,
        work_seconds=row["work_load"] or 0.0,
        held_messages=row["held_messages"] or 0,
        held_work_seconds=row["held_work_seconds"] or 0.0,
        arrived_seconds_per_second=row["arrived_seconds_per_second"],
        served_seconds_per_second=row["served_seconds_per_second"],
        paused=bool(row["paused"]),
        alive=bool(row["alive"]),
        speed=speed.get("speed"),
        speed_error=speed.get("standard_error"),
    )


def _class(name: str, latest: Row, learned: Row, published: float | None) -> ClassLoad:
    return ClassLoad(
        message_class=name,
        weight=latest.get("weight") or learned.get("weight"),
        published=published,
        samples=learned.get("samples") or 0,
        mean_seconds=learned.get("mean_seconds"),
        standard_error_seconds=learned.get("standard_error_seconds"),
        sent_per_second=latest.get("sent_per_second") or 0.0,
        processed_per_second=latest.get("processed_per_second") or 0.0,
        refused_per_second=latest.get("refused_per_second") or 0.0,
        wait_seconds=latest.get("wait_seconds"),
        wait_p99_seconds=latest.get("wait_p99_seconds"),
    )


def _of_newest_window(inputs: SnapshotInputs[QueuesPipelineSettings], table: str) -> list[Row]:
    """The rows of a table of the newest window that there is, open or not."""
    rows, ends = inputs.windows(table, 1)
    if not rows.num_rows:
        return []
    newest = int(ends.max())
    return [row for row in rows.to_pylist() if microseconds(row["window_end"]) == newest]


def _forecast_error(inputs: SnapshotInputs[QueuesPipelineSettings]) -> dict[str, float]:
    """Σ|forecast - actual| / Σ actual over queues and the last window, beside that of no change at all."""
    rows = inputs.rows("forecast_errors", inputs.tick - inputs.settings.window).to_pylist()
    # Rounded once, so the same in any order of the rows.
    total = fsum(row["actual"] for row in rows)
    if total <= 0:
        return {}
    columns = {"forecast": "error", "latest": "error_of_latest"}
    return {name: fsum(abs(row[column]) for row in rows) / total for name, column in columns.items()}
