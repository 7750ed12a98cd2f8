"""Finding one's way in the lake."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.local_paths import local
from support.small_lake import NOON, STEP, imbalance_rows, publish
from trimtab.model.errors import ObserveError
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.lake import compaction
from trimtab.observe.lake.compaction import MIN_FOLDERS, compacted_tables
from trimtab.observe.lake.lake import Lake, microseconds, read_entries
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS


def test_newest_snapshot_is_the_latest_tick(tmp_path: Path) -> None:
    """Ticks and folders in the making: the latest finished one wins."""
    lake = Lake(tmp_path, REPLICAS)
    for name in ("2026-11-21T05:00:00.000000Z", "2026-11-21T05:00:30.000000Z", ".2026-11-21T06.making"):
        (local(lake.snapshots) / "orders" / name).mkdir(parents=True)
    assert lake.newest_snapshot().name == "2026-11-21T05:00:30.000000Z"
    assert lake.newest_snapshot("orders") == lake.newest_snapshot()


def test_empty_lake_names_the_commands_to_run_first(tmp_path: Path) -> None:
    """A plan before any collection names the two commands to run first."""
    with pytest.raises(ObserveError, match=r"no snapshot: collect samples .*pipeline run"):
        Lake(tmp_path / "nowhere", REPLICAS).newest_snapshot()


def test_several_clusters_require_a_choice(tmp_path: Path) -> None:
    """Guessing the cluster would act on the wrong one."""
    lake = Lake(tmp_path, REPLICAS)
    for name in ("a", "b"):
        (local(lake.snapshots) / name / "2026").mkdir(parents=True)
    with pytest.raises(ObserveError, match=r"2 clusters \(a, b\): say which with --cluster"):
        lake.newest_snapshot()
    with pytest.raises(ObserveError, match="no snapshot of cluster 'c'"):
        lake.newest_snapshot("c")


@pytest.mark.parametrize("cluster", ["../escape", "with/slash", ".hidden", "blank and ä"])
def test_no_cluster_name_leaves_the_lake(tmp_path: Path, cluster: str) -> None:
    """Any cluster name becomes one folder inside the lake."""
    lake = Lake(tmp_path / "lake", REPLICAS)
    folder = lake.snapshot_folder(cluster)
    assert folder.parent == lake.snapshots
    (local(folder) / "2026").mkdir(parents=True)
    assert lake.clusters() == [cluster]
    assert lake.newest_snapshot(cluster) == folder / "2026"


def test_files_in_the_making_are_no_samples(tmp_path: Path) -> None:
    """A collector killed in mid-write leaves a hidden file; days are read in order."""
    lake = Lake(tmp_path, REPLICAS)
    for name in ("date=2026-11-22/b.parquet", "date=2026-11-21/a.parquet", "date=2026-11-21/.c.parquet",
                 "date=2026-11-21/_d.parquet", "notes/e.parquet"):  # fmt: skip
        path = local(lake.raw) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert [path.name for path in lake.raw_files()] == ["a.parquet", "b.parquet"]


def test_second_writer_is_rejected_and_the_first_one_continues(tmp_path: Path) -> None:
    """Two pipelines on one lake would overwrite each other's manifest."""
    lake = Lake(tmp_path, REPLICAS)
    with lake.writing():
        with (
            pytest.raises(ObserveError, match="being written by another"),
            Lake(tmp_path, REPLICAS).writing(),
        ):
            pass
        lake.manifest()
    with lake.writing():
        pass


def test_table_that_was_never_written_is_empty(tmp_path: Path) -> None:
    """Readers of a new lake get no rows instead of an error."""
    assert Lake(tmp_path, REPLICAS).table("imbalance").num_rows == 0


def test_balancers_have_folders_of_their_own(tmp_path: Path) -> None:
    """Samples of both systems are separate; snapshots of one name are in one folder,
    distinguished by format.
    """
    lake = Lake(tmp_path, REPLICAS)
    other = Lake(lake.path, BUNDLES)
    assert (lake.raw, lake.tables) == (tmp_path / "raw", tmp_path / "tables")
    assert (other.raw, other.tables) == (tmp_path / "bundles" / "raw", tmp_path / "bundles" / "tables")
    for name, level in (("2026-1", "replicas"), ("2026-2", "bundles"), ("2026-3", "replicas")):
        folder = local(lake.snapshots) / "orders" / name
        folder.mkdir(parents=True)
        (folder / "meta.json").write_text(f'{{"format": "trimtab/{level}-snapshot/1"}}')
    assert lake.newest_snapshot("orders").name == "2026-3"
    assert other.newest_snapshot("orders").name == "2026-2"
    (local(lake.snapshots) / "payments" / "2026").mkdir(parents=True)
    assert (lake.clusters(), other.clusters()) == (["orders", "payments"], ["orders"])
    with pytest.raises(ObserveError, match="no snapshot of cluster 'payments' for balancer bundles"):
        other.newest_snapshot("payments")


def test_a_lake_with_parts_from_before_a_column_was_dropped_is_read_and_compacted(tmp_path: Path) -> None:
    """Earlier versions had goals in the table `imbalance`: their rows are read together with new ones."""
    ticks = [NOON + number * STEP for number in range(2 * MIN_FOLDERS)]
    parts = [imbalance_rows(tick, {1: (0.2, 0.2, 0.2, 0.2), 2: (0.4, 0.2, 0.2, 0.2)}) for tick in ticks]
    lake = publish(tmp_path, {"imbalance": parts})
    for number in range(MIN_FOLDERS):
        file = lake.tables / "imbalance" / f"part-{number}" / "rows.parquet"
        rows = pq.read_table(file)
        pq.write_table(rows.append_column("sigma_holds", pa.array([True] * len(rows))), file)
    found = lake.table("imbalance").sort_by("tick")
    assert found["sigma_holds"].to_pylist() == [True] * 4 * MIN_FOLDERS + [None] * 4 * MIN_FOLDERS
    joined = compacted_tables(lake, lake.manifest())
    assert len(joined.tables["imbalance"]) == 1
    assert lake.table("imbalance", ["tick", "resource", "sigma"], manifest=joined).num_rows == 8 * MIN_FOLDERS


def test_large_parts_are_joined_a_part_of_their_time_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of a compaction does not grow with what is joined; rows, order and columns are the same."""
    monkeypatch.setattr(compaction, "PART_BYTES", 2_000)
    ticks = [NOON + number * STEP for number in range(MIN_FOLDERS * 10)]
    rows = [imbalance_rows(tick, {1: (0.2, 0.2, 0.2, 0.2), 2: (0.4, 0.2, 0.2, 0.2)}) for tick in ticks]
    large = [row for part in rows[29::-1] for row in part]  # as a batch writes it, in no order
    lake = publish(tmp_path, {"imbalance": [large, *rows[30:]]})
    held: list[int] = []
    read = read_entries
    monkeypatch.setattr(
        compaction, "read_entries", lambda *rest: held.append(len(found := read(*rest))) or found
    )
    before = lake.table("imbalance").sort_by([("tick", "ascending"), ("resource", "ascending")])
    joined = compacted_tables(lake, lake.manifest())
    assert len(joined.tables["imbalance"]) == 1
    after = lake.table("imbalance", manifest=joined)
    assert after["tick"].to_pylist() == sorted(after["tick"].to_pylist())
    assert after.sort_by([("tick", "ascending"), ("resource", "ascending")]).equals(before)
    assert max(held) < len(large) / 2


def test_days_are_compacted_apart_so_that_the_older_one_can_go(tmp_path: Path) -> None:
    """As many ticks before midnight as after it: a file for each day, and retention takes the first."""
    midnight = NOON.replace(hour=0)
    ticks = [midnight + number * STEP for number in range(-MIN_FOLDERS, MIN_FOLDERS)]
    lake = publish(
        tmp_path, {"imbalance": [imbalance_rows(tick, {1: (0.2, 0.2, 0.2, 0.2)}) for tick in ticks]}
    )
    joined = compacted_tables(lake, lake.manifest())
    spans = [(one.begin, one.last) for one in joined.tables["imbalance"]]
    assert spans == [
        (microseconds(ticks[0]), microseconds(midnight - STEP)),
        (microseconds(midnight), microseconds(ticks[-1])),
    ]
    assert compacted_tables(lake, joined) == joined, "what is one file stays as it is"
