"""Ages of a lake, rule by rule; that nothing is lost on the way is in tests/contracts/test_raw_files.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.lake.balancer_pipeline import LakeSettings
from trimtab.observe.lake.housekeeping import ExpiredData, outdated, remove_raw_and_snapshots
from trimtab.observe.lake.lake import Lake, RawIndex, publish_index
from trimtab.observe.lake.manifest import Manifest, ManifestEntry
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings

DAY = 86_400_000_000
NEWEST = 100 * DAY + DAY // 2
NOW = 200 * 86400.0
SETTINGS = ReplicasPipelineSettings()


def date(number: int) -> str:
    """The folder of a day, counted from 1970."""
    return {0: "1970-01-01", 89: "1970-03-31", 90: "1970-04-01", 91: "1970-04-02", 100: "1970-04-11"}[number]


def by_day(table: str) -> tuple[ManifestEntry, ...]:
    """A folder of rows for each day."""
    return tuple(
        ManifestEntry(f"{table}/{day}", day * DAY, (day + 1) * DAY, day * DAY, (day + 1) * DAY - 1)
        for day in range(101)
    )


def found(lake: Lake, ages: LakeSettings, now: float = NOW, **named: object) -> ExpiredData:
    """What is too old in a lake of a hundred days and a half."""
    manifest = Manifest(watermark=NEWEST, tables={name: by_day(name) for name in ("traffic", "hours")})
    settings = ReplicasPipelineSettings(**named) if named else SETTINGS  # type: ignore[arg-type]
    return outdated(lake, manifest, ages, settings, now)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Samples of four days as they were landed."""
    made = Lake(tmp_path, REPLICAS)
    for day in (0, 89, 90, 91):
        (folder := made.raw / f"date={date(day)}").mkdir(parents=True)  # type: ignore[union-attr]
        (folder / "a.parquet").write_bytes(b"x" * (day + 1))
    return made


def test_rows_are_removed_by_whole_folders(lake: Lake) -> None:
    """Ten days before noon of day 100: day 90 has rows of the afternoon."""
    kept = found(lake, LakeSettings(table_retention_days=10))
    assert kept.tables.tables["traffic"][0].path == "traffic/90"
    assert kept.dropped["traffic"] == 90
    assert "table traffic: 90 folders" in kept.summary
    assert not found(lake, LakeSettings(table_retention_days=0)).dropped


def test_rows_that_later_ones_are_made_of_stay_and_a_day_more(lake: Lake) -> None:
    """Profiles of six weeks read eight weeks of `hours`, including trends; so 57 days stay."""
    kept = found(lake, LakeSettings(table_retention_days=10), profile_weeks=6)
    assert kept.tables.tables["hours"][0].path == "hours/43"
    assert kept.tables.tables["traffic"][0].path == "traffic/90"


def test_samples_go_by_whole_days(lake: Lake) -> None:
    """Ten days before noon of day 100 is noon of day 90, of which the morning stays too."""
    old = found(lake, LakeSettings(raw_retention_days=10))
    assert (old.raw_begins, old.raw) == (
        90 * DAY,
        {"raw/date=1970-01-01/a.parquet": 1, f"raw/date={date(89)}/a.parquet": 90},
    )
    assert old.summary[0] == f"raw samples of before {date(90)}: 2 files, 0.0 MB"
    none = found(lake, LakeSettings(raw_retention_days=0))
    assert (none.raw_begins, none.raw) == (0, {})
    assert found(lake, LakeSettings(raw_retention_days=1000)).raw_begins == 0


def test_a_clock_that_is_fast_removes_nothing(lake: Lake) -> None:
    """The newest sample claims to be of day 100; now it is day 40."""
    old = found(
        lake,
        LakeSettings(raw_retention_days=10, table_retention_days=10, snapshot_retention_days=10),
        now=40 * 86400.0,
    )
    assert old.raw_begins == 30 * DAY
    assert old.tables.tables["traffic"][0].path == "traffic/30"


def test_removed_samples_count_no_more_and_the_joined_ones_neither(lake: Lake) -> None:
    """Readers see the remaining days before any file is removed; an index is not written unnecessarily."""
    index = RawIndex()
    for day in (89, 90):
        index = index.with_joined(f"date={date(day)}", "joined.parquet", (), NOW)
        (folder := Path(str(lake.joined)) / f"date={date(day)}").mkdir(parents=True)
        (folder / "joined.parquet").write_bytes(b"xyz")
    publish_index(lake.folder, index)
    remove_raw_and_snapshots(lake, found(lake, LakeSettings(raw_retention_days=0)), NOW)
    assert lake.raw_index().number == 1
    assert found(lake, LakeSettings(raw_retention_days=10)).raw[f"joined/date={date(89)}/joined.parquet"] == 3
    remove_raw_and_snapshots(lake, found(lake, LakeSettings(raw_retention_days=10)), NOW)
    assert [path.parent.name for path in lake.raw_files()] == [f"date={date(day)}" for day in (90, 90, 91)]
    names = [f"raw/date={date(day)}/a.parquet" for day in (0, 89)]
    assert lake.raw_index().doomed == dict.fromkeys([*names, f"joined/date={date(89)}/joined.parquet"], NOW)
    assert (lake.raw / f"date={date(0)}" / "a.parquet").is_file()


def test_the_newest_snapshot_of_a_cluster_stays(tmp_path: Path) -> None:
    """Of one cluster all are old, of the other the newest is not; a third has newer ones of
    another balancer.
    """
    lake = Lake(tmp_path, REPLICAS)

    def snapshot(cluster: str, day: int, level: str = "replicas") -> Path:
        folder = Path(str(lake.snapshot_folder(cluster))) / f"{date(day)}T00:00:00.000000Z"
        folder.mkdir(parents=True)
        (folder / "meta.json").write_text(json.dumps({"format": f"trimtab/{level}-snapshot/1"}))
        return folder

    gone = [snapshot("a", 0), snapshot("b", 0), snapshot("b", 89), snapshot("c", 0)]
    kept = [snapshot("a", 90), snapshot("b", 91), snapshot("b", 100), snapshot("c", 89)]
    kept += [snapshot("b", 90, BUNDLES.name), snapshot("c", 91, BUNDLES.name), snapshot("p", 0, BUNDLES.name)]
    old = found(lake, LakeSettings(snapshot_retention_days=10))
    assert sorted(map(str, old.snapshots)) == sorted(map(str, gone))
    assert old.summary[-1] == "snapshots: 4"
    assert not found(lake, LakeSettings(snapshot_retention_days=0)).snapshots
    remove_raw_and_snapshots(lake, old, NOW)
    assert all(folder.is_dir() for folder in kept)
    assert not any(folder.exists() for folder in gone)
