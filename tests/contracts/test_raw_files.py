"""Raw files are joined and removed so that readers see each sample once, wherever a process is killed."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.object_store import ObjectStore
from trimtab.files.object_store import StorePath
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.balancer_pipeline import LakeSettings
from trimtab.observe.lake.compaction import MIN_FOLDERS, consumed_by_stream, join_raw, remove_doomed
from trimtab.observe.lake.housekeeping import outdated, remove_raw_and_snapshots
from trimtab.observe.lake.lake import Lake, RawIndex, publish_index
from trimtab.observe.lake.manifest import Manifest
from trimtab.observe.lake.parquet import rows_of_files, write_rows
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings

FIRST = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
NOW = 2e9
HOUR = 3600.0
FILES = MIN_FOLDERS + 1
STREAM = "0b7e5f9e-7f3c-4d0a-9c52-0d8a6d6a9f10"


class Killed(BaseException):
    """The process is no more."""


class Mortal:
    """Counts what changes a store, and from one such operation on does none any more."""

    OPERATIONS = (
        (os, ("link", "replace", "unlink", "fsync", "mkdir")),
        (StorePath, ("create", "write_bytes", "unlink")),
    )

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done = 0
        self.last: int | None = None
        for owner, names in self.OPERATIONS:
            for name in names:
                monkeypatch.setattr(owner, name, self._mortal(getattr(owner, name)))

    def _mortal(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            if self.last is not None and self.done >= self.last:
                raise Killed
            self.done += 1
            return operation(*given, **named)

        return called


@pytest.fixture(params=["folder", "s3"])
def lakes(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Lake]:
    """Makes lakes with samples 0 to 10: nine files of a day, one of the next."""
    numbers = iter(range(1000))

    def made() -> Lake:
        if request.param == "folder":
            lake = Lake(tmp_path / f"lake-{next(numbers)}", REPLICAS)
        else:
            store: ObjectStore = request.getfixturevalue("s3")
            lake = Lake(f"{store.bucket()}/lake", REPLICAS)
        for number in range(FILES + 1):
            land(lake, number, FIRST if number < FILES else FIRST + datetime.timedelta(days=1))
        return lake

    return made


def land(lake: Lake, number: int, tick: datetime.datetime) -> None:
    """One sample in a file of its own."""
    at = pa.array([tick], pa.timestamp("us", tz="UTC"))
    rows = pa.table({"cluster": ["c"], "tick": at, "broker": pa.array([number], pa.int32())})
    write_rows(lake.raw / f"date={tick:%Y-%m-%d}" / f"tick-{number:03d}.parquet", rows)


def samples(lake: Lake) -> list[int]:
    """Those that a reader sees at this moment."""
    return sorted(
        row for path in lake.raw_files() for row in rows_of_files([path], ["broker"])["broker"].to_pylist()
    )


def landed(lake: Lake) -> list[str]:
    """Names of all files as landed, whether they count or not: what a stream sees."""
    return sorted(path.name for day in lake.raw_retention_days() for path in day.glob("*.parquet"))


def test_killed_at_any_operation_nothing_is_lost_and_nothing_twice(
    lakes: Callable[[], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Joining, then removing two hours later: before each operation on the store, and after a restart."""

    def keep(lake: Lake) -> None:
        join_raw(lake, Manifest(), NOW)
        remove_doomed(lake, NOW + 2 * HOUR)

    every = list(range(FILES + 1))
    mortal = Mortal(monkeypatch)
    whole = lakes()
    begun = mortal.done
    keep(whole)
    operations = mortal.done - begun
    assert operations > FILES, "one to write, one to publish, and one for each file removed at least"
    assert samples(whole) == every
    assert landed(whole) == ["tick-009.parquet"]
    for at in range(operations):
        mortal.last = None
        lake = lakes()
        mortal.last = mortal.done + at
        with pytest.raises(Killed):
            keep(lake)
        mortal.last = None
        assert samples(lake) == every, f"killed before operation {at}"
        keep(lake)
        assert samples(lake) == every, f"killed before operation {at}, and started again"
        assert landed(lake) == ["tick-009.parquet"]
        assert len(lake.raw_files()) == 2
        # Nor is anything left behind of the one that was killed.
        remove_doomed(lake, NOW + 4 * HOUR, grace_seconds=-1e9)
        names = {path.name for path in (lake.joined / "date=2026-11-20").glob("*.parquet")}
        assert names == set(lake.raw_index().joined["date=2026-11-20"])


def test_a_reader_that_has_listed_files_has_an_hour_to_read_them(lakes: Callable[[], Lake]) -> None:
    """The files of a day stay until then, and late rows of the day are read together with the merged file."""
    lake = lakes()
    held = lake.raw_files()
    assert [one.files for one in join_raw(lake, Manifest(), NOW)] == [FILES]
    assert remove_doomed(lake, NOW + HOUR - 1) == 0
    assert rows_of_files(held, ["broker"]).num_rows == FILES + 1
    land(lake, 99, FIRST)
    assert samples(lake) == [*range(FILES + 1), 99]
    assert join_raw(lake, Manifest(), NOW) == [], "one file is not worth another"
    assert remove_doomed(lake, NOW + HOUR) == FILES
    assert samples(lake) == [*range(FILES + 1), 99]


def test_files_that_a_stream_may_ask_for_stay(lakes: Callable[[], Lake]) -> None:
    """Spark's log records the micro-batch of a file; files of the last published one may be read again."""
    lake = lakes()
    assert consumed_by_stream(lake, Manifest()) is None
    log = lake.checkpoints / "lake" / "sources" / "0"
    if isinstance(log, Path):
        log.mkdir(parents=True)
    (lake.checkpoints / "lake" / "metadata").write_bytes(json.dumps({"id": STREAM}).encode())
    for batch, names in enumerate((range(4), range(4, FILES), ())):
        lines = [
            json.dumps({"path": f"s3a://b/lake/raw/date%3D2026-11-20/tick-{n:03d}.parquet", "batchId": batch})
            for n in names
        ]
        (log / str(batch)).write_bytes("\n".join(["v1", *lines]).encode())
    for last, free in ((-1, 0), (0, 0), (1, 4), (2, FILES)):
        taken = consumed_by_stream(lake, Manifest(streams={STREAM: last} if last >= 0 else {}))
        assert taken == {f"raw/date=2026-11-20/tick-{n:03d}.parquet" for n in range(free)}
    assert join_raw(lake, Manifest(streams={STREAM: 1}), NOW) == [], "four are too few"
    # Nor are samples too old to keep that are not in the tables yet.
    now = Manifest(streams={STREAM: 1}, watermark=round((FIRST.timestamp() + 40 * 86400) * 1e6))
    found = outdated(lake, now, LakeSettings(), ReplicasPipelineSettings(), NOW)
    assert sorted(found.raw) == [f"raw/date=2026-11-20/tick-{n:03d}.parquet" for n in range(4)]
    assert [one.files for one in join_raw(lake, Manifest(streams={STREAM: 2}), NOW)] == [FILES]


def test_files_of_another_form_or_cut_short_are_left_as_they_are(lakes: Callable[[], Lake]) -> None:
    """What a later trimtab may have landed keeps its columns, and what is broken is named by the next run."""
    lake = lakes()
    day = lake.raw / "date=2026-11-20"
    write_rows(day / "later.parquet", pa.table({"broker": pa.array([50], pa.int32()), "novel": [1]}))
    (day / "broken.parquet").write_bytes(b"PAR1")
    join_raw(lake, Manifest(), NOW)
    remove_doomed(lake, NOW + 2 * HOUR)
    assert landed(lake) == ["broken.parquet", "later.parquet", "tick-009.parquet"]


def test_two_that_join_the_same_do_not_both_count(lakes: Callable[[], Lake]) -> None:
    """A process that slept has its index refused: else each sample would be there twice."""
    lake = lakes()
    before = lake.raw_index()
    join_raw(lake, Manifest(), NOW)
    with pytest.raises(ObserveError, match="putting its raw samples in order"):
        publish_index(
            lake.folder, before.with_joined("date=2026-11-20", "mine.parquet", ["tick-000.parquet"], NOW)
        )
    assert samples(lake) == list(range(FILES + 1))


def test_old_days_go_and_do_not_come_back(lakes: Callable[[], Lake]) -> None:
    """Merged or as written; readers get whole days only, from the published day on, at any progress of the
    removal.
    """
    for joined in (False, True):
        lake = lakes()
        if joined:
            join_raw(lake, Manifest(), NOW)
        newest = FIRST + datetime.timedelta(days=31)
        manifest = Manifest(watermark=round(newest.timestamp() * 1e6))
        ages, settings = LakeSettings(), ReplicasPipelineSettings()
        found = outdated(lake, manifest, ages, settings, NOW)
        assert len(found.raw) == (1 if joined else FILES)
        assert f"raw samples of before 2026-11-21: {len(found.raw)} file" in found.summary[0]
        assert samples(lake) == list(range(FILES + 1)), "looking changes nothing"
        # A clock that is fast shortens no age, nor does a lake that nobody feeds grow old.
        assert not outdated(lake, manifest, ages, settings, FIRST.timestamp()).raw
        assert not outdated(lake, manifest, LakeSettings(raw_retention_days=0), settings, NOW).raw
        assert not outdated(lake, manifest, LakeSettings(raw_retention_days=31.5), settings, NOW).raw
        remove_raw_and_snapshots(lake, found, NOW)
        assert samples(lake) == [FILES]
        remove_doomed(lake, NOW + HOUR)
        assert landed(lake) == ["tick-009.parquet"]
        land(lake, 5, FIRST)
        assert samples(lake) == [FILES], "samples of a day that is gone do not count"


def test_an_index_of_another_version_is_refused(lakes: Callable[[], Lake]) -> None:
    """To take it for none would count samples twice."""
    lake = lakes()
    publish_index(lake.folder, RawIndex())
    path: Any = next(iter((lake.joined / "index").iterdir()))
    path.write_bytes(path.read_bytes().replace(b"raw/1", b"raw/9"))
    with pytest.raises(ObserveError, match="is not of format trimtab/raw/1"):
        lake.raw_files()
