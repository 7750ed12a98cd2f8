"""The newest state of a cluster, read from published tables."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hand_written_tables import lake_with
from support.local_paths import local
from support.small_lake import NOON, STEP, broker_rows, imbalance_rows, publish, snapshot_folder
from trimtab.model.bundles.snapshot import RESOURCES as BUNDLE_RESOURCES
from trimtab.model.errors import ObserveError
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.lake import compaction
from trimtab.observe.lake.compaction import compacted_tables
from trimtab.observe.lake.lake import Lake
from trimtab.observe.lake.manifest import publish_manifest
from trimtab.observe.lake.status import TICKS, read_status, read_statuses
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS

UNEVEN = {1: (0.6, 0.3, 0.3, 0.1), 2: (0.2, 0.3, 0.1, 0.3)}
EVEN = {1: (0.4, 0.3, 0.2, 0.2), 2: (0.4, 0.3, 0.2, 0.2)}
ALIVE = {1: "alive", 2: "alive"}


def one_tick(path: Path) -> Lake:
    """Two brokers at noon."""
    lake = publish(path, {"imbalance": [imbalance_rows(NOON, UNEVEN)], "brokers": [broker_rows(NOON, ALIVE)]})
    snapshot_folder(lake, quality='{"cpu": "measured", "valid_share": 0.9}')
    return lake


def test_the_figures_of_a_tick_are_those_of_the_table(tmp_path: Path) -> None:
    """Usage and signed deviation of four resources."""
    status = read_status(one_tick(tmp_path))
    assert (status.cluster, status.ticks, status.last_tick, status.newest_tick) == ("orders", 1, NOON, NOON)
    assert [(b.id, b.host, b.rack, b.state) for b in status.brokers] == [
        (1, "h1", "r1", "alive"),
        (2, "h2", "r1", "alive"),
    ]
    np.testing.assert_allclose(status.usage, [[0.6, 0.3, 0.3, 0.1], [0.2, 0.3, 0.1, 0.3]])
    np.testing.assert_allclose(status.deviation, [[0.5, 0, 0.5, -0.5], [-0.5, 0, -0.5, 0.5]], atol=1e-12)
    assert status.quality["cpu"] == "measured"


def test_usage_and_deviation_are_means_over_the_ticks(tmp_path: Path) -> None:
    """Two ticks that are uneven in opposite directions: the result is balanced."""
    swapped = {1: UNEVEN[2], 2: UNEVEN[1]}
    lake = publish(
        tmp_path, {"imbalance": [imbalance_rows(NOON, UNEVEN), imbalance_rows(NOON + STEP, swapped)]}
    )
    status = read_status(lake, "orders")
    np.testing.assert_allclose(status.deviation, 0, atol=1e-12)
    np.testing.assert_allclose(status.usage[:, 0], 0.4)


def test_only_the_newest_ticks_count(tmp_path: Path) -> None:
    """An hour of unevenness followed by ten balanced ticks is over."""
    ticks = [NOON + number * STEP for number in range(130)]
    rows = [row for tick in ticks[:-TICKS] for row in imbalance_rows(tick, UNEVEN)]
    newest = [row for tick in ticks[-TICKS:] for row in imbalance_rows(tick, EVEN)]
    status = read_status(publish(tmp_path, {"imbalance": [newest[:20], rows, newest[20:]]}), "orders")
    assert status.ticks == TICKS
    assert status.last_tick == ticks[-1]
    np.testing.assert_allclose(status.deviation, 0, atol=1e-12)


def test_ticks_that_lack_a_broker_are_passed_over(tmp_path: Path) -> None:
    """The newest tick lacks one broker's CPU: figures end before it, and both times are printed."""
    torn = {1: (None, 0.3, 0.3, 0.1), 2: UNEVEN[2]}
    parts = [imbalance_rows(NOON, UNEVEN) + imbalance_rows(NOON + STEP, torn)]
    status = read_status(publish(tmp_path, {"imbalance": parts}), "orders")
    assert (status.ticks, status.last_tick, status.newest_tick) == (1, NOON, NOON + STEP)


def test_a_cluster_without_cpu_signal_has_three_resources(tmp_path: Path) -> None:
    """CPU is not invented, and the other three are printed."""
    blind = {broker: (None, *rest) for broker, (_, *rest) in UNEVEN.items()}
    status = read_status(publish(tmp_path, {"imbalance": [imbalance_rows(NOON, blind)]}), "orders")
    assert np.isnan(status.usage[:, 0]).all()
    assert np.isfinite(status.deviation[:, 1:]).all()


def test_without_capacities_there_is_deviation_but_no_usage(tmp_path: Path) -> None:
    """γ needs no capacity."""
    lake = publish(tmp_path, {"imbalance": [imbalance_rows(NOON, UNEVEN, limited=False)]})
    status = read_status(lake, "orders")
    assert np.isnan(status.usage).all()
    np.testing.assert_allclose(status.deviation[:, 0], [0.5, -0.5])


def test_a_dead_broker_is_there_with_its_state(tmp_path: Path) -> None:
    """It carries no load, so only the table of brokers knows it."""
    lake = publish(
        tmp_path,
        {"imbalance": [imbalance_rows(NOON, EVEN)], "brokers": [broker_rows(NOON, ALIVE | {3: "fenced"})]},
    )
    status = read_status(lake, "orders")
    assert [(b.id, b.state) for b in status.brokers] == [(1, "alive"), (2, "alive"), (3, "fenced")]
    assert np.isnan(status.usage[2]).all()


def test_rows_outside_their_entry_do_not_count(tmp_path: Path) -> None:
    """A file whose ticks a later step recomputed is truncated in the manifest, and its old rows
    are ignored.
    """
    lake = publish(
        tmp_path, {"imbalance": [imbalance_rows(NOON, EVEN) + imbalance_rows(NOON + STEP, UNEVEN)]}
    )
    manifest = local(lake.tables) / "manifests" / f"{1:020d}.json"
    last = int((NOON + STEP).timestamp() * 1e6)
    manifest.write_text(manifest.read_text().replace(f'"end": {last + 1}', f'"end": {last}'))
    assert read_status(lake, "orders").last_tick == NOON


def test_an_empty_lake_names_the_commands_to_run(tmp_path: Path) -> None:
    """No lake, or one without that cluster: one sentence with the commands."""
    with pytest.raises(ObserveError, match="no load of any cluster: collect samples"):
        read_status(Lake(tmp_path, REPLICAS))
    with pytest.raises(ObserveError, match="no load of cluster 'other'"):
        read_status(one_tick(tmp_path), "other")


def test_of_several_clusters_one_must_be_named(tmp_path: Path) -> None:
    """Figures of other clusters are not printed."""
    lake = one_tick(tmp_path)
    snapshot_folder(lake, "second")
    with pytest.raises(ObserveError, match="2 clusters .*--cluster"):
        read_status(lake)


def test_neither_pandas_nor_spark_is_loaded(tmp_path: Path) -> None:
    """Either would cost more than the whole command may."""
    one_tick(tmp_path)
    script = (
        "import sys\n"
        "from trimtab.observe.lake.lake import Lake\n"
        "from trimtab.observe.lake.status import read_status\n"
        "from trimtab.observe.replicas.pipeline import PIPELINE\n"
        "read_status(Lake(sys.argv[1], PIPELINE))\n"
        "print([name for name in ('pandas', 'pyspark', 'pyarrow.dataset', 'numba') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_both_balancers_of_a_lake_are_reported(tmp_path: Path) -> None:
    """Kafka's brokers are numbers, Pulsar's are names, and each balancer has resources of its own."""
    lake = one_tick(tmp_path)
    names = ("a:1", "b:1")
    loads = [{"broker": name, "usage": usage, "share": usage / 0.8, "deviation": abs(usage / 0.4 - 1)}
             for name, usage in zip(names, (0.6, 0.2), strict=True)]  # fmt: skip
    imbalance = [
        {"cluster": "pulsar", "tick": NOON, "resource": name, "brokers": 2, "complete": name != "cpu",
         "sigma": 0.25, "by_broker": loads}
        for name in BUNDLE_RESOURCES
    ]  # fmt: skip
    brokers = [{"cluster": "pulsar", "tick": NOON, "broker": name, "broker_state": "alive"} for name in names]
    views = [lake, Lake(tmp_path, BUNDLES)]
    lake_with(tmp_path, {"imbalance": imbalance, "brokers": brokers}, BUNDLES)
    assert [one.cluster for one in read_statuses(views, "pulsar")] == ["pulsar"]
    (local(lake.snapshots) / "pulsar" / "2026").mkdir(parents=True)
    (local(lake.snapshots) / "pulsar" / "2026" / "meta.json").write_text(
        '{"format": "trimtab/bundles-snapshot/1"}'
    )
    kafka, pulsar = read_statuses(views)
    assert (kafka.balancer, pulsar.balancer) == ("replicas", "bundles")
    assert [broker.id for broker in pulsar.brokers] == ["a:1", "b:1"]
    assert pulsar.resources == BUNDLE_RESOURCES
    np.testing.assert_allclose(pulsar.deviation, [[np.nan, 0.5, 0.5, 0.5], [np.nan, -0.5, -0.5, -0.5]])
    with pytest.raises(ObserveError, match="no load of cluster 'other'"):
        read_statuses(views, "other")


def test_of_a_file_of_many_ticks_the_end_alone_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compacted table may hold a month in one file: the result is equal, from few row groups."""
    ticks = [imbalance_rows(NOON + number * STEP, {1: (0.2, 0.2, 0.2, 0.2)}) for number in range(60)]
    brokers = [broker_rows(NOON + number * STEP, {1: "alive"}) for number in range(60)]
    apart = publish(tmp_path / "apart", {"imbalance": ticks, "brokers": brokers})
    told = read_status(apart, "orders")
    joined = compacted_tables(apart, apart.manifest())
    monkeypatch.setattr(compaction, "ROWS_PER_GROUP", 8)
    small = compacted_tables(apart, apart.manifest())
    read: list[int] = []
    whole = pq.ParquetFile.read_row_group

    def counted(file: pq.ParquetFile, number: int, **named: object) -> pa.Table:
        read.append(number)
        return whole(file, number, **named)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    for manifest, groups in ((joined, 1), (small, 30)):
        publish_manifest(apart.tables, replace(manifest, version=apart.manifest().version))
        read.clear()
        found = read_status(apart, "orders")
        assert (found.last_tick, found.ticks) == (told.last_tick, told.ticks)
        assert (found.usage == told.usage).all()
        assert len(read) < max(groups / 2, 3)
