"""Transformations of the balancer `keys`: from raw samples to tables, and to a snapshot."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.files.keys.formats import SNAPSHOT_FORMAT
from trimtab.model.documents import Quality
from trimtab.model.keys import RESOURCES, HotKey, KeyGroupLoad, KeysSnapshot, PartitionLoad
from trimtab.observe.keys.pipeline import BROKERS, KeysPipelineSettings
from trimtab.observe.lake.balancer_pipeline import TableStage, here
from trimtab.observe.lake.columns import SECOND, Row, SampleFlag
from trimtab.observe.lake.lake import microseconds
from trimtab.observe.lake.snapshots import SnapshotInputs, write_snapshots
from trimtab.observe.spark.expressions import conform, flag_if, is_valid_interval
from trimtab.observe.steps import clean as counts
from trimtab.observe.steps.imbalance import imbalance_table
from trimtab_keys.core.load import (
    PartitionContent,
    PartitionLoadView,
    by_content,
    by_load,
    literal_consumption,
    repaired_consumption,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from trimtab.files.store import Location
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import Manifest


BUSY_SECONDS: Final = 5.0
"""A consumer with more work waiting than it does in so long is at its limit."""
CHANCE: Final = 3.0
"""Standard deviations of a count by which two rates may differ, and be the same; see `brokers`."""


def brokers(cleaned: DataFrame, settings: KeysPipelineSettings) -> DataFrame:
    """What arrives in each partition, waits there and is committed; and what its consumer can do.

    What arrives is told by two looks at offsets, some ten seconds apart: 130 records tell it to 9 %.
    Timestamps of the records that were read reach further back, and tell it better as long as nothing has
    changed: where the looks found what they would lead to expect, within chance, they count. Of n partitions
    the one furthest off is some sqrt(2 ln n) deviations away, so that the bound is the square root of
    `CHANCE`² + 2 ln n: else one in fifteen looks at 24 partitions takes chance for a change.

    Consumers are taken for alike. One can do what those did that had more than `BUSY_SECONDS` of work waiting
    in some partition at both ends of an interval, over all such intervals of `capacity_seconds`: the mean,
    since commits come in lumps and their maximum would promise too much. A partition has its share of a
    consumer. Where none was ever busy, each has the topic's whole load, the same for all. Offsets count
    markers of transactions too.
    """
    parts = cleaned.where("accepted and kind = 'key_partition' and partition is not null")
    history = Window.partitionBy("cluster", "partition").orderBy("tick")
    at = F.unix_micros("tick")
    paired = parts.withColumns(
        {f"_{name}": F.lag(name).over(history) for name in ("tick", "end_offset", "committed_offset")}
    ).withColumn("_elapsed", at - F.unix_micros("_tick"))
    near = F.coalesce(F.col("_elapsed") <= settings.gap, F.lit(False))
    fell = F.coalesce(near & (F.col("end_offset") < F.col("_end_offset")), F.lit(False))
    flags = (
        F.col("flags").bitwiseOR(flag_if(~near, SampleFlag.GAP)).bitwiseOR(flag_if(fell, SampleFlag.RESET))
    )
    judged = paired.withColumn("elapsed_us", F.when(near, F.col("_elapsed"))).withColumn("flags", flags)
    seconds = F.col("elapsed_us") / SECOND
    done = F.greatest(F.lit(0), F.col("committed_offset") - F.col("_committed_offset"))
    waited = F.col("_end_offset") - F.col("_committed_offset")
    waits = F.col("end_offset") - F.col("committed_offset")
    # What is received and not yet committed waits for nobody: an automatic commit comes every five seconds.
    busy = is_valid_interval() & (F.least(waited, waits) > done / seconds * BUSY_SECONDS) & (done > 0)
    came = F.col("end_offset") - F.col("_end_offset")
    steady = F.col("recent_records") / F.col("recent_seconds")
    expected = steady * seconds
    tick, consumer = (Window.partitionBy("cluster", "tick", *more) for more in ((), ("_member",)))
    deviations = F.sqrt(F.lit(CHANCE**2) + 2 * F.log("_partitions"))
    same = (F.col("recent_seconds") > seconds) & (
        F.abs(came - expected) <= deviations * F.sqrt(F.greatest(expected, F.lit(1.0)))
    )
    rated = judged.withColumn("_partitions", F.count(F.lit(1)).over(tick)).withColumns(
        {
            "records_load": F.when(is_valid_interval(), F.when(same, steady).otherwise(came / seconds)),
            "served_per_second": F.when(is_valid_interval(), done / seconds),
            "_done": F.when(is_valid_interval(), done),
            "_busy": F.coalesce(busy, F.lit(False)),
            "_seconds": F.when(is_valid_interval(), seconds),
            "_member": F.coalesce("member", F.col("partition").cast("string")),
        }
    )
    # Each row stands for a share of its consumer, so that sums over rows are sums over consumers.
    part = rated.withColumn("_part", 1 / F.count(F.lit(1)).over(consumer))
    some = F.max("_busy").over(consumer)
    worked = part.withColumns(
        {
            "_worked": F.when(some, F.sum("_done").over(consumer) * F.col("_part")),
            "_for_seconds": F.when(some, F.max("_seconds").over(consumer) * F.col("_part")),
        }
    )
    frame = Window.partitionBy("cluster").orderBy(at).rangeBetween(-settings.capacity, 0)
    one = F.sum("_worked").over(frame) / F.sum("_for_seconds").over(frame)
    if settings.capacity_per_second:
        one = F.lit(float(settings.capacity_per_second))
    measured = worked.withColumn("consumer_capacity", one)
    known = F.col("consumer_capacity") * F.sum("_part").over(tick) / F.col("_partitions")
    everything = F.greatest(F.lit(1.0), F.sum("records_load").over(tick))
    waiting = F.col("end_offset") - F.greatest(F.col("committed_offset"), F.col("begin_offset"))
    return conform(
        measured.withColumns(
            {
                "broker": F.concat(F.lit("partition "), F.col("partition").cast("string")),
                "broker_state": F.lit("alive"),
                # Where no group reads the topic, nothing waits for anybody.
                "backlog": F.when(F.col("consumers").isNotNull(), F.greatest(F.lit(0), waiting)).otherwise(0),
                "records_capacity": F.coalesce(known, everything),
            }
        ),
        BROKERS,
    )


def imbalance(brokers: DataFrame) -> DataFrame:
    """The measures per (cluster, tick) of the records that arrive; `traffic_collapse` is null."""
    return imbalance_table(brokers, RESOURCES)


def quality(cleaned: DataFrame, brokers: DataFrame) -> DataFrame:
    """Counts of each flag per (cluster, tick, kind)."""
    return counts.quality(
        cleaned, (brokers.withColumn("kind", F.lit("key_partition")), (SampleFlag.GAP, SampleFlag.RESET))
    )


STAGES: Final = (
    TableStage(brokers, {"cleaned": lambda s: s.capacity + s.gap}),
    TableStage(imbalance, {"brokers": here}),
    TableStage(quality, {"cleaned": here, "brokers": here}),
)


MAX_COMPARED: Final = 64
"""With more partitions they are not compared with one another: there would be thousands of figures."""
ADDED_MICROS: Final = 86_400_000_000
"""So far back it is looked at whether partitions were added."""
WEIGHT: Final = 0.5
"""λ1 of ISC; λ2 is the rest."""
POWER: Final = 2
"""p of PS; the features weigh the same."""


def write_newest_snapshots(lake: Lake, manifest: Manifest, settings: KeysPipelineSettings) -> list[Location]:
    """A snapshot of every topic at its newest reading; returns a folder per topic."""

    def write(inputs: SnapshotInputs[KeysPipelineSettings], path: Path) -> None:
        SNAPSHOT_FORMAT.write(snapshot_at(inputs), path)

    read = pc.field("kind") == "keyed_topic"
    return write_snapshots(lake, manifest, settings, "cleaned", write, read & pc.field("base").is_valid())


def added_seconds(rows: pa.Table, tick: int) -> float | None:
    """Since a topic was first seen with more partitions than at the look before; None where it never was.

    Parameters
    ----------
    rows
        A row for each look and partition: `tick`, `partition`.
    tick
        Now, microseconds.
    """
    seen = rows.group_by("tick").aggregate([("partition", "count_distinct")]).to_pylist()
    counts = sorted((microseconds(row["tick"]), row["partition_count_distinct"]) for row in seen)
    added = [at for (_, before), (at, now) in pairwise(counts) if now > before]
    return (tick - added[-1]) / SECOND if added else None


def snapshot_at(inputs: SnapshotInputs[KeysPipelineSettings]) -> KeysSnapshot:
    """The snapshot of one topic at one reading, with how far it can be trusted in `quality`."""
    raw = inputs.rows("cleaned", inputs.tick).to_pylist()
    topic: Row = next(row for row in raw if row["kind"] == "keyed_topic")
    read = {row["partition"]: row for row in raw if row["kind"] == "key_partition"}
    loads = inputs.rows("brokers", inputs.tick).sort_by("partition").to_pylist()
    rates = {row["partition"]: row["records_load"] or 0.0 for row in loads}
    consumer = next((row["consumer_capacity"] for row in loads), None)
    capacity = None if consumer is None else loads[0]["records_capacity"]
    looks = inputs.rows(
        "cleaned",
        inputs.tick - ADDED_MICROS,
        columns=("tick", "partition"),
        context=pc.field("kind") == "key_partition",
    )
    extra: list[tuple[str, object]] = [
        ("x_records_read", topic["records"] or 0),
        ("x_distinct_keys", sum(row["distinct_keys"] or 0 for row in read.values())),
        ("x_keyless_share", _share(sum(row["keyless"] or 0 for row in read.values()), topic["records"] or 0)),
    ]
    hot = [row for row in raw if row["kind"] == "hot_key"]
    if topic["keyed_records"]:
        extra.append(("x_placed_share", topic["placed_records"] / topic["keyed_records"]))
        extra.append(("x_partitioner", topic["partitioner"] or ""))
        extra += [("x_elsewhere", list(one)) for one in _misplaced_keys(hot)[:1]]
    if capacity is None:
        extra.append(("x_nominal_capacity", ["records"]))
    return KeysSnapshot(
        reference=inputs.reference,
        quality=Quality(
            valid_share=_share(sum(row["records_load"] is not None for row in loads), len(loads)),
            oldest_sample_seconds=0.0,
            cpu="absent",
            extra=tuple(extra),
        ),
        topic=topic["topic"],
        topic_id=topic["topic_id"],
        consumers=topic["consumers"] or "",
        version=topic["version"],
        base=topic["base"],
        hashed=bool(topic["hashed"]),
        capacity=capacity,
        consumer_capacity=consumer,
        added_seconds=added_seconds(looks, inputs.tick),
        partitions=_partitions(loads, read, capacity),
        groups=_groups(topic["routes"], read, rates),
        keys=_keys(hot, read, rates, consumer),
    )


def _partitions(
    loads: Sequence[Row], read: dict[int, Row], capacity: float | None
) -> tuple[PartitionLoad, ...]:
    view = PartitionLoadView(len(loads))
    for place, row in enumerate(loads):
        own = read.get(row["partition"], {})
        view.load[place], view.rate[place] = row["backlog"] or 0, row["records_load"] or 0.0
        view.record_bytes[place] = _share(own.get("bytes") or 0, own.get("records") or 0)
        view.keys[place] = own.get("distinct_keys") or 0
        # One member of a group has a partition, and fetches it over one connection.
        view.members[place] = int(own.get("member") is not None)
        view.connections[place] = view.members[place]
        view.content[place] = PartitionContent(_shares(own.get("groups")), _shares(own.get("sizes")))
    printed = literal_consumption(view, WEIGHT)
    compared = range(len(loads)) if len(loads) <= MAX_COMPARED else ()
    halves, thirds = (0.5, 0.5), (1 / 3, 1 / 3, 1 / 3)
    return tuple(
        PartitionLoad(
            partition=row["partition"],
            records_per_second=view.rate[place],
            backlog=row["backlog"] or 0,
            record_bytes=view.record_bytes[place],
            served_per_second=row["served_per_second"],
            isc=None
            if capacity is None
            else repaired_consumption(view.rate[place], view.load[place], capacity, WEIGHT),
            isc_literal=printed[place],
            ps_content=tuple(by_content(view, place, other, halves, POWER) for other in compared),
            ps_load=tuple(by_load(view, place, other, thirds, POWER) for other in compared),
        )
        for place, row in enumerate(loads)
    )


def _groups(routes: Sequence[int], read: dict[int, Row], rates: dict[int, float]) -> tuple[KeyGroupLoad, ...]:
    """Each partition's rate, split by what was read there: partitions may have been read unlike far back."""
    found = [0.0] * len(routes)
    for number, row in sorted(read.items()):
        if row["records"]:
            each = rates.get(number, 0.0) / row["records"]
            for group, count in enumerate(row["groups"]):
                found[group] += count * each
    return tuple(KeyGroupLoad(group, routes[group], rate) for group, rate in enumerate(found))


def _keys(
    rows: Sequence[Row], read: dict[int, Row], rates: dict[int, float], capacity: float | None
) -> tuple[HotKey, ...]:
    total = sum(rates.values())
    by_key: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["key"], row["partition"])):
        by_key.setdefault(row["key"], []).append(row)
    found = []
    for key, its in by_key.items():
        rate = sum(
            _share(row["records"], read[row["partition"]]["records"] or 0) * rates.get(row["partition"], 0.0)
            for row in its
        )
        found.append(
            HotKey(
                key=key,
                group=its[0]["key_group"],
                records_per_second=rate,
                share=_share(rate, total),
                partitions=tuple(its[0]["route"]),
                consumer=None if capacity is None else rate / capacity,
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.records_per_second, one.key)))


def _misplaced_keys(rows: Sequence[Row]) -> list[tuple[str, int, int]]:
    """Frequent keys of which most records lie where they do not go: key, that partition, where they go."""
    most: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: (-row["records"], row["partition"])):
        most.setdefault(row["key"], row)
    return [
        (key, row["partition"], row["route"][0])
        for key, row in most.items()
        if row["partition"] not in row["route"]
    ]


def _shares(counts: Sequence[int] | None) -> tuple[float, ...]:
    total = sum(counts or ())
    return tuple(one / total for one in counts) if counts and total else ()


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
