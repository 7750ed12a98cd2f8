"""A lake in an object store, as far as no Spark is needed: collected into, read, planned from."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.object_store import ObjectStore
from support.small_lake import NOON, STEP, broker_rows, imbalance_rows
from trimtab.files import object_store
from trimtab.files.object_store import StoreError, StorePath
from trimtab.model.errors import ObserveError
from trimtab.observe.collect.sinks import LakeSink, RowBatchBuilder
from trimtab.observe.lake.compaction import (
    MIN_FOLDERS,
    compacted_tables,
    is_published,
    remove_unnamed_folders,
)
from trimtab.observe.lake.lake import RETAINED_COPIES, Lake, lake_age, microseconds, uploaded
from trimtab.observe.lake.manifest import Manifest, ManifestEntry
from trimtab.observe.lake.parquet import footer_of, rows_of_files, source_of, write_rows
from trimtab.observe.lake.status import read_status
from trimtab.observe.replicas.pipeline import COLUMNS
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS

EVEN = {1: (0.2, 0.2, 0.2, 0.2), 2: (0.4, 0.2, 0.2, 0.2)}


@pytest.fixture
def lake(s3: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """An empty one in a bucket, and a cache of this test's own."""
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    return Lake(f"{s3.bucket()}/lakes/one", REPLICAS)


@pytest.fixture
def by_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every object is large: only what is needed of it is fetched."""
    monkeypatch.setattr(object_store, "SMALL_BYTES", 16)
    yield


def published(lake: Lake, parts: int) -> None:
    """A table `imbalance` of so many parts, and `brokers`."""
    entries: dict[str, tuple[ManifestEntry, ...]] = {}
    for name, rows in (("imbalance", imbalance_rows), ("brokers", broker_rows)):
        made = []
        for number in range(parts):
            tick = NOON + number * STEP
            given = EVEN if name == "imbalance" else {1: "alive", 2: "alive"}
            table = pa.Table.from_pylist(rows(tick, given))  # type: ignore[arg-type]
            table = table.set_column(
                table.column_names.index("tick"), "tick", table["tick"].cast(pa.timestamp("us", tz="UTC"))
            )
            write_rows(lake.tables / name / f"part-{number}" / "rows.parquet", table)
            at = microseconds(tick)
            made.append(ManifestEntry(f"{name}/part-{number}", at, at + 1, at, at))
        entries[name] = tuple(made)
    with lake.writing() as seat:
        seat.publish(Manifest(tables=entries))


@pytest.mark.usefixtures("by_parts")
def test_a_table_is_read_as_from_a_folder(lake: Lake) -> None:
    """By columns, by time, by expression, and by the parts of large objects that this needs."""
    published(lake, 3)
    assert lake.table("imbalance").num_rows == 12
    assert lake.table("imbalance", ["resource"], since=NOON + STEP).num_rows == 8
    where = pa.compute.field("resource") == "cpu"
    assert lake.table("imbalance", ["tick"], until=NOON + STEP, context=where)["tick"].to_pylist() == [NOON]
    assert lake.table("rates").num_rows == 0
    status = read_status(lake, "orders")
    assert (status.ticks, len(status.brokers)) == (3, 2)


def test_small_parts_are_joined_and_old_ones_swept(lake: Lake) -> None:
    """Compaction and removal of tables use the names and ages that the store reports."""
    published(lake, 2 * MIN_FOLDERS)
    rows = sorted(map(repr, lake.table("imbalance").to_pylist()))
    with lake.writing() as seat:
        after = seat.publish(compacted_tables(lake, lake.manifest()))
        assert [len(entries) for entries in after.tables.values()] == [1, 1]
        assert remove_unnamed_folders(lake, after) == 0
        # Not by a manifest that is no longer the newest.
        newer = seat.publish(after)
        assert remove_unnamed_folders(lake, after, grace_seconds=-60) == 0
        assert remove_unnamed_folders(lake, newer, grace_seconds=-60) == 4 * MIN_FOLDERS
    assert sorted(map(repr, lake.table("imbalance").to_pylist())) == rows


def test_collected_samples_are_there_at_once(lake: Lake) -> None:
    """One object a tick, under its day, whole when it is listed."""
    landing = LakeSink(lake.raw, COLUMNS)
    had_samples = lake.has_samples
    writer = RowBatchBuilder("broker", "broker")
    writer.add(1)
    landing.write([writer.batch()], "orders", NOON)
    (file,) = lake.raw_files()
    assert file.parent.name == "date=2026-11-21"
    assert not had_samples and lake.has_samples
    assert footer_of(file) is not None and is_published(file, Manifest())
    assert rows_of_files([file], ["cluster", "broker"]).to_pylist() == [{"cluster": "orders", "broker": 1}]
    assert lake.raw_files(since=datetime.date(2026, 11, 22)) == []
    age = lake_age(lake)
    assert age.samples_at is not None and age.tables_until is None


def test_a_collector_whose_bucket_is_missing_reports_it(s3: ObjectStore) -> None:
    """The tick is lost, in a sentence; the collector goes on."""
    landing = LakeSink(Lake("s3://gone-long-ago/lake", REPLICAS).raw, COLUMNS)
    with pytest.raises(ObserveError, match=r"samples cannot be written into s3://gone-long-ago/.*not exist"):
        landing.write([], "orders", NOON)


def test_a_snapshot_is_complete_once_visible_and_copied_once(lake: Lake) -> None:
    """Its `meta.json` is written last; readers get a local folder."""
    folder = lake.snapshot_folder("orders")
    (folder / "2026-2" / "partitions.parquet").write_bytes(b"still being uploaded")
    assert lake.clusters() == []
    for name in ("2026-1", "2026-2"):
        with uploaded(folder / name) as made:
            made.mkdir()
            (made / "partitions.parquet").write_bytes(name.encode())
            (made / "meta.json").write_text('{"format": "trimtab/replicas-snapshot/1"}')
    assert lake.clusters() == ["orders"]
    copy = lake.newest_snapshot()
    assert isinstance(copy, Path) and copy.name == "2026-2"
    assert (copy / "partitions.parquet").read_text() == "2026-2"
    assert sorted(path.name for path in copy.iterdir()) == ["meta.json", "partitions.parquet"]
    (copy / "mark").touch()
    assert (lake.newest_snapshot() / "mark").exists()
    for number in range(3, 4 + RETAINED_COPIES):
        (folder / f"2026-{number}" / "meta.json").write_bytes(b'{"format": "trimtab/replicas-snapshot/1"}')
        assert lake.newest_snapshot("orders").name == f"2026-{number}"
    assert len(list(copy.parent.iterdir())) == RETAINED_COPIES


def test_an_unreachable_store_is_no_unsound_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a batch would leave out what it could not fetch, and call that all there is."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "x")
    place = StorePath("s3://out-of-reach", "raw/file.parquet")
    with pytest.raises(StoreError, match="the store cannot be reached"):
        footer_of(place)
    with pytest.raises(StoreError, match="the store cannot be reached"):
        Lake(StorePath("s3://out-of-reach", ""), REPLICAS).clusters()


def test_a_file_that_was_cut_short_is_unsound(lake: Lake) -> None:
    """A broken upload cannot cause this, but a copied lake can."""
    path = lake.raw / "date=2026-11-21" / "a.parquet"
    write_rows(path, pa.table({"a": list(range(1000))}))
    assert footer_of(path) is not None
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert footer_of(path) is None
    assert source_of(path).read() == whole[:-9]
