"""Raw samples to snapshots over history, against a cluster whose truth is known."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
import pytest

from support.local_paths import local
from synthetic_telemetry import SyntheticCluster, land
from trimtab.files.replicas.snapshot import read_snapshot
from trimtab.model.errors import ObserveError
from trimtab.model.replicas.settings import CPU, DISK, NETWORK_IN, NETWORK_OUT
from trimtab.observe.lake import rebuild
from trimtab.observe.lake.compaction import MIN_FOLDERS, compacted_tables, remove_unnamed_folders
from trimtab.observe.lake.lake import Lake
from trimtab.observe.lake.manifest import publish_manifest
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.spark.session import make_archive
from trimtab.observe.steps.batch import run_batch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SETTINGS = ReplicasPipelineSettings(window_seconds=20, slide_seconds=20)
TICKS = 13


@pytest.fixture(scope="module")
def cluster() -> SyntheticCluster:
    """Six brokers whose rates, sizes and CPU costs are known."""
    return SyntheticCluster()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, cluster: SyntheticCluster, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Its tables and snapshot."""
    lake = Lake(tmp_path_factory.mktemp("lake"), REPLICAS)
    land(cluster.raw(TICKS), lake.raw, "all")
    run_batch(spark, lake, SETTINGS)
    return lake


def truth(cluster: SyntheticCluster, ticks: int = TICKS) -> dict[str, np.ndarray]:
    """Per partition over the recent windows: bytes in per second, of the last window and their mean;
    sizes.
    """
    records = cluster.records(ticks)
    rate = np.diff(records, axis=0) * cluster.bytes_per_record / cluster.seconds_per_tick
    # Ticks are 1..12 after the first; windows of two ticks end at every second one.
    windows = rate.reshape(-1, 2, cluster.partitions).mean(axis=1)
    return {
        "mean": windows[-10:].mean(axis=0),
        "latest": windows[-1],
        "size": records[-1] * cluster.bytes_per_record,
    }


def test_snapshot_carries_the_true_loads(lake: Lake, cluster: SyntheticCluster) -> None:
    """Latest window for disk and network in, mean of windows for CPU and network out; followers have no
    out.
    """
    snapshot, true = read_snapshot(lake.newest_snapshot()), truth(cluster)
    leader, follower = snapshot.partitions.leader_load, snapshot.partitions.follower_load
    np.testing.assert_allclose(leader[:, NETWORK_IN], true["latest"], rtol=1e-5)
    np.testing.assert_allclose(follower[:, NETWORK_IN], true["latest"], rtol=1e-5)
    np.testing.assert_allclose(leader[:, NETWORK_OUT], true["mean"] * cluster.fan_out, rtol=1e-5, atol=1.0)
    assert (follower[:, NETWORK_OUT] == 0).all()
    np.testing.assert_array_equal(leader[:, DISK], true["size"])
    cost = true["mean"] * (cluster.costs[0] + cluster.costs[1] * cluster.fan_out)
    np.testing.assert_allclose(leader[:, CPU], cost, rtol=0.02, atol=1e-6)
    np.testing.assert_allclose(follower[:, CPU], true["mean"] * cluster.costs[2], rtol=0.05, atol=1e-6)
    assert snapshot.quality.cpu == "measured"
    assert dict(snapshot.quality.extra)["x_nominal_capacity"] == ["network_in", "network_out"]


def test_placement_is_kafkas_own(lake: Lake, cluster: SyntheticCluster) -> None:
    """Replicas in Kafka's order, leaders, log dirs and hosts are those of the samples."""
    snapshot = read_snapshot(lake.newest_snapshot())
    np.testing.assert_array_equal(snapshot.brokers.id[snapshot.partitions.replicas], cluster.replicas)
    np.testing.assert_array_equal(snapshot.brokers.id[snapshot.partitions.leader], cluster.replicas[:, 0])
    assert snapshot.partitions.in_sync.all()
    assert (snapshot.partitions.log_dir >= 0).all()
    assert snapshot.brokers.host == ("host-0", "host-0", "host-1", "host-1", "host-2", "host-2")


def test_imbalance_is_the_models_own(lake: Lake) -> None:
    """The table's σ, γ and peak are what equations 1 to 5 of the model give for the brokers' loads of that
    tick.
    """
    from trimtab.model.load import imbalance

    rows = lake.table("imbalance", context=pc.field("complete")).to_pylist()
    assert {row["resource"] for row in rows} == {"cpu", "disk", "network_in", "network_out"}
    for row in rows:
        load = np.array([[one["load"]] for one in row["by_broker"]])
        limited = row["by_broker"][0]["capacity"] is not None
        capacity = np.array([[one["capacity"] if limited else 1.0] for one in row["by_broker"]])
        expected = imbalance(load, capacity, np.ones(len(load), dtype=bool), (row["resource"],))
        np.testing.assert_allclose(row["sigma"], expected.sigma[0], rtol=1e-12)
        np.testing.assert_allclose(row["worst_deviation"], expected.worst_deviation[0], rtol=1e-12)
        np.testing.assert_allclose(
            [one["share"] for one in row["by_broker"]], expected.share[:, 0], rtol=1e-12
        )
        assert (row["peak_usage"] is None) == (not limited)


def test_brokers_without_metrics_still_give_three_resources(
    spark: SparkSession, cluster: SyntheticCluster, tmp_path: Path
) -> None:
    """With the admin API alone, bytes are derived from sizes and offsets, and CPU is reported as missing."""
    bare = SyntheticCluster(metrics=False)
    lake = Lake(tmp_path, REPLICAS)
    land(bare.raw(5), lake.raw, "all")
    run_batch(spark, lake, SETTINGS)
    snapshot, true = read_snapshot(lake.newest_snapshot()), truth(bare, 5)
    np.testing.assert_allclose(snapshot.partitions.leader_load[:, NETWORK_IN], true["latest"], rtol=1e-5)
    np.testing.assert_allclose(
        snapshot.partitions.leader_load[:, NETWORK_OUT], true["mean"] * bare.fan_out, rtol=1e-5, atol=1.0
    )
    assert (snapshot.partitions.leader_load[:, CPU] == 0).all()
    assert np.isinf(snapshot.brokers.capacity[:, CPU]).all()
    assert snapshot.quality.cpu == "absent"
    complete = lake.table("imbalance", context=pc.field("complete"))
    assert set(complete["resource"].to_pylist()) == {"disk", "network_in", "network_out"}


def test_part_of_history_can_be_rebuilt(spark: SparkSession, cluster: SyntheticCluster, lake: Lake) -> None:
    """Building three ticks in the middle again leaves every table as it was."""
    tables = ("rates", "traffic", "windows", "imbalance", "attributed")
    before = {name: sorted(map(repr, lake.table(name).to_pylist())) for name in tables}
    import datetime

    since = cluster.start + datetime.timedelta(seconds=40)
    run_batch(spark, lake, SETTINGS, since, since + datetime.timedelta(seconds=30))
    assert {name: sorted(map(repr, lake.table(name).to_pylist())) for name in tables} == before


def test_other_settings_do_not_mix_into_old_tables(
    spark: SparkSession, cluster: SyntheticCluster, lake: Lake
) -> None:
    """Windows of 10 s among windows of 20 s would be read as one series: refused, with the way out."""
    with pytest.raises(ObserveError, match=r"window_seconds = 20.*not 10.*run `trimtab pipeline run`"):
        run_batch(
            spark, lake, ReplicasPipelineSettings(window_seconds=10, slide_seconds=10), since=cluster.start
        )


def test_compaction_changes_no_row_and_no_reader(lake: Lake) -> None:
    """Many folders become one, a reader with the old manifest reads on, and sweeping ends that."""
    manifest = lake.manifest()
    entry = manifest.tables["rates"]
    times = sorted({row["tick"] for row in lake.table("rates", ["tick"]).to_pylist()})
    assert len(times) > MIN_FOLDERS
    from dataclasses import replace

    from trimtab.observe.lake.lake import microseconds

    cuts = [microseconds(time) for time in times] + [max(one.end for one in entry)]
    pieces = tuple(
        replace(one, begin=begin, end=end)
        for begin, end in pairwise(cuts)
        for one in entry
        if one.begin <= begin < one.end
    )
    split = replace(manifest, tables={**manifest.tables, "rates": pieces})
    before = sorted(map(repr, lake.table("rates", manifest=split).to_pylist()))
    joined = publish_manifest(lake.tables, compacted_tables(lake, split))
    assert len(joined.tables["rates"]) == 1
    assert joined.tables["rates"][0].is_complete
    assert sorted(map(repr, lake.table("rates").to_pylist())) == before
    assert sorted(map(repr, lake.table("rates", manifest=split).to_pylist())) == before
    assert remove_unnamed_folders(lake, joined) == 0, "readers keep what they hold for an hour"
    assert remove_unnamed_folders(lake, joined, grace_seconds=-1) > 0
    assert sorted(map(repr, lake.table("rates").to_pylist())) == before


@pytest.mark.parametrize("rows_per_part", [None, 1])
def test_damaged_raw_files_are_named_and_left_out(
    spark: SparkSession,
    cluster: SyntheticCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows_per_part: int | None,
) -> None:
    """A disk that ran full cut a file, and one has lost a block: the rest is worked in."""
    if rows_per_part is not None:
        monkeypatch.setattr(rebuild, "MAX_ROWS", rows_per_part)
    lake = Lake(tmp_path, REPLICAS)
    raw = cluster.raw(3)
    for name in ("cut", "damaged", "good"):
        land(raw, lake.raw, name)
    broken = [next(local(lake.raw).glob(f"*/{name}.parquet")) for name in ("cut", "damaged")]
    content = broken[0].read_bytes()
    broken[0].write_bytes(content[:1000])
    broken[1].write_bytes(content[:4] + bytes(2000) + content[2004:])
    told: list[str] = []
    done = run_batch(spark, lake, SETTINGS, print_progress=told.append)
    assert (done.files, done.unreadable_files) == (1, tuple(broken))
    for path in broken:
        assert sum(str(path) in line for line in told) == 1
    assert done.samples == raw.num_rows


@pytest.mark.long
def test_sparks_classes_come_from_its_archive(tmp_path: Path) -> None:
    """Half of what a start takes is loading and checking fifteen thousand classes."""
    make_archive()
    log = tmp_path / "classes"
    program = "from trimtab.observe.spark.session import spark_session; spark_session().range(3).count()"
    options = {"JAVA_TOOL_OPTIONS": f"-Xlog:class+load=info:file={log}"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=os.environ | options, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    classes = log.read_text()
    assert classes.count("source: shared objects file (top)") > 5000 > classes.count("source: jar:file")
