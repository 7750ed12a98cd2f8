"""Which landed files are joined, rule by rule; what a kill leaves is in tests/contracts/test_raw_files.py."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pyarrow as pa
import pytest

from trimtab.observe.lake import compaction
from trimtab.observe.lake.compaction import join_raw, remove_doomed
from trimtab.observe.lake.lake import Lake, RawIndex
from trimtab.observe.lake.manifest import Manifest
from trimtab.observe.lake.parquet import rows_of_files, write_rows
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS

MORNING = datetime.datetime(2026, 11, 20, 6, tzinfo=datetime.UTC)
FIRST, SECOND = "date=2026-11-20", "date=2026-11-21"
NOW = 2e9
STREAM = "0b7e5f9e-7f3c-4d0a-9c52-0d8a6d6a9f10"


def land(lake: Lake, name: str, broker: int, day: str = FIRST) -> Path:
    """One sample in a file of its own."""
    tick = pa.array([MORNING], pa.timestamp("us", tz="UTC"))
    path = Path(str(lake.raw)) / day / name
    write_rows(path, pa.table({"cluster": ["c"], "tick": tick, "broker": pa.array([broker], pa.int32())}))
    return path


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Eight files of a day, the fewest that are worth joining, and one of the next."""
    made = Lake(tmp_path, REPLICAS)
    for number in range(8):
        land(made, f"tick-{number}.parquet", number)
    land(made, "tick-8.parquet", 8, SECOND)
    return made


def brokers(lake: Lake) -> list[int]:
    """The samples that count, as their files hold them, in order of the files' names."""
    return [
        row for path in lake.raw_files() for row in rows_of_files([path], ["broker"])["broker"].to_pylist()
    ]


def test_eight_files_of_a_day_that_is_over_become_one(lake: Lake) -> None:
    """In the order of their names; the newest day's are left, and a dry run changes nothing."""
    for number in range(8):
        land(lake, f"tick-8{number}.parquet", 8, SECOND)
    (told,) = join_raw(lake, Manifest(), NOW, dry=True)
    size = sum(path.stat().st_size for path in (Path(str(lake.raw)) / FIRST).iterdir())
    assert (told.day, told.files, told.bytes) == (FIRST, 8, size)
    assert lake.raw_index() == RawIndex()
    assert join_raw(lake, Manifest(), NOW) == [told]
    assert [path.parent.parent.name for path in lake.raw_files()] == ["joined", *["raw"] * 9]
    assert brokers(lake) == [*range(8), *[8] * 9]
    assert lake.raw_index().doomed == {f"raw/{FIRST}/tick-{number}.parquet": NOW for number in range(8)}
    assert join_raw(lake, Manifest(), NOW) == [], "what no longer counts is not joined again"


def test_seven_files_are_left_as_they_are(lake: Lake) -> None:
    """A file for them would be one more to read for an hour, and save little then."""
    (Path(str(lake.raw)) / FIRST / "tick-3.parquet").unlink()
    assert join_raw(lake, Manifest(), NOW) == []


def test_files_that_are_large_together_become_several(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them here, of which each has room for eight; a stream asks for one file at a time."""
    for number in range(8):
        land(lake, f"tock-{number}.parquet", 10 + number)
    size = max(path.stat().st_size for path in (Path(str(lake.raw)) / FIRST).iterdir())
    monkeypatch.setattr(compaction, "LARGEST_BYTES", 9 * size - 1)
    assert [one.files for one in join_raw(lake, Manifest(), NOW, most=1)] == [8]
    assert [one.files for one in join_raw(lake, Manifest(), NOW, most=1)] == [8]
    assert sorted(brokers(lake)) == [*range(9), *range(10, 18)]


def test_rows_are_in_memory_a_part_at_a_time(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of rows is written as soon as it is full."""
    monkeypatch.setattr(compaction, "BATCH_ROWS", 3)
    join_raw(lake, Manifest(), NOW)
    (path,) = (one for one in lake.raw_files() if one.parent.parent == lake.joined)
    footer = pa.parquet.read_metadata(path)
    assert [footer.row_group(number).num_rows for number in range(footer.num_row_groups)] == [3, 3, 2]


def test_files_in_the_making_and_those_of_an_unpublished_micro_batch_are_no_history(lake: Lake) -> None:
    """A stream will land the same names once more; a collector still writes those that begin with a dot."""
    land(lake, ".tick-9.parquet", 90)
    land(lake, "_tick-9.parquet", 91)
    (Path(str(lake.raw)) / FIRST / "notes.txt").write_text("not ours")
    streamed = f"stream-{STREAM}-{4:09d}-0.parquet"
    land(lake, streamed, 92)
    (told,) = join_raw(lake, Manifest(streams={STREAM: 3}), NOW)
    assert told.files == 8
    assert sorted(path.name for path in (Path(str(lake.raw)) / FIRST).iterdir() if path.name not in {
        name.rpartition("/")[2] for name in lake.raw_index().doomed
    }) == sorted([".tick-9.parquet", "_tick-9.parquet", "notes.txt", streamed])  # fmt: skip


def test_columns_of_a_later_version_are_not_lost_and_missing_ones_are_null(lake: Lake) -> None:
    """A file with a column that we do not know stays; one from before a column was thought of is joined."""
    novel = Path(str(lake.raw)) / FIRST / "tick-8.parquet"
    write_rows(novel, pa.table({"broker": pa.array([50], pa.int32()), "novel": [1]}))
    broken = Path(str(lake.raw)) / FIRST / "tick-9.parquet"
    broken.write_bytes(b"PAR1")
    assert [one.files for one in join_raw(lake, Manifest(), NOW)] == [10]
    doomed = {name.rpartition("/")[2] for name in lake.raw_index().doomed}
    assert doomed == {f"tick-{number}.parquet" for number in range(8)}
    (path,) = (one for one in lake.raw_files() if one.parent.parent == lake.joined)
    rows = rows_of_files([path], ["broker", "topic"])
    assert rows["topic"].null_count == rows.num_rows == 8


def test_nothing_to_join_in_files_that_are_all_broken(lake: Lake) -> None:
    """No file is named that would hold no row."""
    for path in (Path(str(lake.raw)) / FIRST).iterdir():
        path.write_bytes(b"PAR1")
    assert join_raw(lake, Manifest(), NOW) == []
    assert lake.raw_index().number == 0


def test_superseded_and_unreferenced_files_are_removed_an_hour_later(lake: Lake) -> None:
    """A joined file whose writer was killed before it could be named: not while he may still be at it."""
    join_raw(lake, Manifest(), NOW)
    folder = Path(str(lake.joined)) / FIRST
    (named,) = (path.name for path in folder.iterdir())
    young, old = folder / "joined-a.parquet", folder / "joined-b.parquet"
    for path, written in ((young, NOW), (old, NOW - 3601), (folder / named, NOW - 3601)):
        path.touch()
        os.utime(path, (written, written))
    assert remove_doomed(lake, NOW) == 1
    assert sorted(path.name for path in folder.iterdir()) == sorted([named, young.name])
    assert remove_doomed(lake, NOW + 3599) == 0
    assert remove_doomed(lake, NOW + 3601) == 9
    assert not list((Path(str(lake.raw)) / FIRST).iterdir())
    assert [path.name for path in folder.iterdir()] == [named]
    assert lake.raw_index().doomed == {}
    assert brokers(lake) == list(range(9))
