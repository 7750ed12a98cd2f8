"""DuckDB, Polars and Spark make equal tables of a day on which much goes wrong."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from synthetic_telemetry import RAW_SCHEMA, START, SyntheticCluster, land
from trimtab.observe.lake.columns import SampleFlag
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE, ReplicasPipelineSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FOLDER = Path(__file__).parents[3] / "benchmarks"
SECONDS_PER_TICK = 10
TICKS = 14
# A gap is longer than three ticks; a record's size is forgotten within the run.
SETTINGS = ReplicasPipelineSettings(
    window_seconds=40,
    slide_seconds=40,
    lateness_seconds=60,
    gap_seconds=30,
    record_size_window_seconds=60,
    traffic_baseline_seconds=60,
)
METERED = "metered"
PARTLY = "one broker without metrics"
BARE = "no metrics"
ROW = dict[str, Any]


def _samples(name: str, seed: int) -> list[ROW]:
    """Samples of a cluster of six brokers, five topics of four partitions and three groups."""
    cluster = SyntheticCluster(
        brokers=6,
        partitions=20,
        partitions_per_topic=4,
        groups=3,
        seconds_per_tick=SECONDS_PER_TICK,
        metrics=name != BARE,
        name=name,
        seed=seed,
    )
    cluster.replicas[16:] = (1, 2)  # One broker leads all partitions of the last topic.
    rows: list[ROW] = cluster.raw(TICKS).to_pylist()
    for row in rows:
        if name == PARTLY and row["broker"] == 5 and row["kind"] in ("broker", "topic_broker"):
            row |= {column: None for column in row if column.endswith(("_total", "_ns"))}
        if name == METERED and row["kind"] == "broker":
            row["network_in_capacity_bytes_per_second"] = 1e7 * row["broker"]
            row["network_out_capacity_bytes_per_second"] = 2e7
    return rows


def _is_missed(row: ROW, tick: int, place: tuple[int, int] | None) -> bool:
    """Whether a sample is missing: of a partition, replica, group, topic counter, broker or log dir."""
    kind, broker = row["kind"], row["broker"]
    return (
        (kind == "partition" and place == (1, 0) and tick == 4)
        or (kind == "partition" and place == (1, 1) and tick in (5, 6, 7))
        # A partition appears at a tick without the topic's counters: those of the next tick span it.
        or (kind == "partition" and place == (2, 0) and tick in (4, 5, 6))
        or (kind == "replica" and place == (1, 2) and tick == 6)
        or (kind == "replica" and place == (1, 3) and tick == 7 and broker % 2 == 0)
        # The size of a record is not known, then its number is not either.
        or (kind == "replica" and place == (4, 0) and tick < 6)
        or (kind == "replica" and place == (4, 3) and tick == 3)
        or (kind == "topic_broker" and place is not None and place[0] == 2 and tick == 7)
        # Commits are missed once, for longer than the gap, until late, and from some tick on.
        or (kind == "group" and row["group"] == "group-0" and place == (2, 1) and tick == 3)
        or (kind == "group" and row["group"] == "group-1" and place == (2, 2) and tick in (4, 5, 6))
        or (kind == "group" and row["group"] == "group-0" and place == (2, 3) and tick < 5)
        or (kind == "group" and row["group"] == "group-0" and place == (3, 3) and tick > 6)
        or (broker == 3 and tick == 8)
        or (kind == "log_dir" and broker == 1 and tick == 9)
        or (broker == 6 and tick >= 11)
    )


def _moved_leader(row: ROW, tick: int, place: tuple[int, int] | None) -> None:
    """Leaders change at ticks 5 and 6, and back; one partition is offline, one has no list of replicas."""
    if row["kind"] != "partition":
        return
    if (place == (0, 0) and 5 <= tick < 9) or (place == (4, 1) and tick >= 6):
        row["replicas"] = row["replicas"][::-1]
        row["leader"] = row["replicas"][0]
    if place == (4, 2) and tick in (7, 8):
        row |= {"leader": None, "in_sync": row["in_sync"][:1]}
    if place == (4, 3) and tick == 9:
        row |= {"in_sync": None, "adding": None}


def _copied(row: ROW, tick: int, place: tuple[int, int] | None) -> list[ROW]:
    """The samples of a future replica, and of one added at tick 4: in sync from 6 on, copied until 7."""
    if place != (3, 0):
        return []
    copies = []
    if row["kind"] == "partition" and tick >= 4:
        added = next(broker for broker in range(1, 6) if broker not in row["replicas"])
        row["replicas"] = [*row["replicas"], added]
        row["adding"] = [added] if tick < 7 else []
        row["in_sync"] = row["replicas"] if tick >= 6 else row["in_sync"]
        size = row["end_offset"] * 1000 * min(tick - 3, 4) // 4
        copies = [
            dict.fromkeys(row)
            | {key: row[key] for key in ("cluster", "tick", "sampled_at", "received_at", "topic")}
            | {"kind": "replica", "partition": 0, "broker": added, "log_dir": "/data", "is_future": False}
            | {"size_bytes": size, "offset_lag": 0}
        ]
    if row["kind"] == "replica" and tick >= 9:
        copies = [row | {"log_dir": "/other", "is_future": True, "size_bytes": 50_000_000 * tick}]
    return copies


def _damage_values(row: ROW, tick: int, place: tuple[int, int] | None, counters: dict[int, ROW]) -> None:
    """Counters fall, logs are cut and compacted, clocks go back, values cannot be, a client is starved."""
    kind, broker = row["kind"], row["broker"]
    if kind == "broker" and broker == 2 and tick >= 6:
        row |= {name: row[name] - value for name, value in counters[broker].items()}
    if kind == "topic_broker" and broker == 2 and tick >= 6 and row["bytes_in_total"] is not None:
        row["bytes_in_total"] //= 9
    if place == (0, 1) and tick >= 5:  # retention
        row["start_offset"] = 3000 if kind == "partition" else row["start_offset"]
        row["size_bytes"] = row["size_bytes"] - 3_000_000 if kind == "replica" else None
    if place == (0, 2) and tick >= 9 and kind == "replica":  # compaction
        row["size_bytes"] -= 40_000
    if place == (0, 3) and kind == "partition" and tick == 7:
        row["end_offset"] = 17  # unclean leader election
    if place == (4, 3) and kind == "partition" and tick == 3:
        row["end_offset"] = 17
    if kind == "group" and place == (0, 3):
        row["committed_offset"] = {2: -1, 4: -2}.get(tick, row["committed_offset"])
    if kind == "replica" and place == (4, 0) and tick == 7:
        row["size_bytes"] = -5
    if kind == "broker" and broker == 4 and tick == 3:
        row["sampled_at"] -= timedelta(hours=1)
    if kind == "broker" and broker == 1 and tick == 2:
        row["processors"] = float("nan")
    if kind == "broker" and broker == 4 and tick >= 10:
        row["broker_state"] = {10: "fenced", 12: "unreachable"}.get(tick, "alive")
        row["bytes_in_total"] = None if tick == 10 else row["bytes_in_total"]
    if kind == "log_dir" and broker == 2 and tick == 5:
        row["disk_total_bytes"] = 0
    if kind == "client" and tick >= 8:
        row["served_bytes_total"] = row["served_bytes_total"] // 20 + 10**9


def _damaged(rows: list[ROW]) -> list[ROW]:
    """The samples of a cluster after a day on which much goes wrong."""
    number = {tick: place for place, tick in enumerate(sorted({row["tick"] for row in rows}))}
    counters = {
        row["broker"]: {
            name: row[name] for name in row if name.endswith(("_total", "_ns")) and row[name] is not None
        }
        for row in rows
        if row["kind"] == "broker" and number[row["tick"]] == 6
    }
    delivered: list[ROW] = []
    for row in rows:
        tick = number[row["tick"]]
        topic = None if row["topic"] is None else int(row["topic"].rpartition("-")[2])
        place = None if topic is None else (topic, row["partition"] or 0)
        if _is_missed(row, tick, place):
            continue
        _moved_leader(row, tick, place)
        copies = _copied(row, tick, place)
        _damage_values(row, tick, place, counters)
        delivered += [row, *copies]
    second = timedelta(seconds=1)
    late = delivered[70] | {"received_at": delivered[70]["tick"] + timedelta(seconds=61)}
    twice = [
        row | {"received_at": row["received_at"] + second, "size_bytes": 12_345} for row in delivered[40:60]
    ]
    unreadable = [delivered[number] | {"kind": kind} for number, kind in ((5, None), (6, "planet"))]
    return [*delivered[:70], late, *delivered[71:], *twice, *unreadable]


@pytest.fixture(scope="module")
def tables(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, dict[str, pa.Table]]]:
    """The tables of each engine, by its name, of three clusters in one lake."""
    scratch = tmp_path_factory.mktemp("engines")
    lake = Lake(scratch / "lake", PIPELINE)
    rows = [
        row for name, seed in ((METERED, 5), (PARTLY, 6), (BARE, 7)) for row in _damaged(_samples(name, seed))
    ]
    # A calm cluster has all its topic counters.
    rows += _samples("calm", 8)
    samples = pa.Table.from_pylist(rows, schema=RAW_SCHEMA)
    early = pa.compute.less(
        samples["tick"], pa.scalar(START + timedelta(seconds=65), RAW_SCHEMA.field("tick").type)
    )
    land(samples.filter(early), lake.raw, "first")
    land(samples.filter(pa.compute.invert(early)), lake.raw, "second")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        pipeline: Any = import_module("pipeline")
        turns = pipeline.engines_without_jvm(lake, scratch, SETTINGS)
        turns |= pipeline.spark_runs(spark, lake, scratch, SETTINGS)
        for turn in ("spark, same job", "duckdb", "polars"):
            turns[turn]()
        yield pipeline.tables_of(lake, scratch)


@pytest.mark.parametrize("rival", ["duckdb", "polars"])
def test_a_rival_makes_the_tables_of_spark(rival: str, tables: dict[str, dict[str, pa.Table]]) -> None:
    """Each figure is equal: whole numbers exactly, fractions but for the order of sums."""
    same_result: Any = import_module("same_result")
    assert same_result.difference(tables["spark"], tables[rival]) is None


def test_the_samples_hold_the_hard_cases(tables: dict[str, dict[str, pa.Table]]) -> None:
    """Each flag of an interval is set, and each figure is both known and unknown somewhere."""
    traffic = tables["spark"]["traffic"]
    found = 0
    for flags in traffic["flags"].to_pylist():
        found |= flags
    wanted = SampleFlag.RESET | SampleFlag.GAP | SampleFlag.MISSED | SampleFlag.CUT
    wanted |= SampleFlag.COPYING | SampleFlag.LEADER_CHANGED
    assert found & wanted == wanted
    for table, names in {
        "traffic": ("leader", "log_bytes", "read_bytes", "bytes_in", "bytes_out", "records_out"),
        "brokers": ("leader_bytes_in", "follower_bytes_in", "bytes_out", "cpu_ns", "disk_bytes"),
        "windows": ("network_in", "network_out", "requests", "cpu"),
        "imbalance": ("mean", "sigma", "peak_usage"),
    }.items():
        for name in names:
            assert 0 < tables["spark"][table][name].null_count < len(tables["spark"][table]), name
    for table, name in (
        ("traffic", "counted"),
        ("traffic", "extrapolated"),
        ("brokers", "network_measured"),
        ("brokers", "live"),
        ("windows", "counted"),
        ("imbalance", "measured"),
        ("imbalance", "complete"),
        ("imbalance", "traffic_collapse"),
    ):
        assert set(tables["spark"][table][name].to_pylist()) == {True, False}, name
