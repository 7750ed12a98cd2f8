"""A long history that was killed: what of it is taken up, and on which tables it follows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from trimtab.observe.lake.columns import DAY
from trimtab.observe.lake.lake import Lake
from trimtab.observe.lake.manifest import Manifest, ManifestEntry, publish_manifest, read_manifest
from trimtab.observe.lake.parquet import ParquetFooter
from trimtab.observe.lake.rebuild import (
    HOUR,
    BuildProgress,
    DayRange,
    build_key,
    day_ranges,
    resumed_progress,
    save_progress,
)
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS

PIECES = [DayRange(0, 10, (), "a"), DayRange(10, 20, (), "b"), DayRange(20, 30, (), "c")]
FOUND = {"samples": 3, "ticks": 2, "received": 9}
KEY = build_key(Manifest(), "as asked")


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Those of a lake whose run was killed after one piece of three; nothing is published."""
    folder = Path(str(Lake(tmp_path, REPLICAS).tables))
    made = Manifest(tables={"cleaned": (ManifestEntry("cleaned/1", 0, 10, 0, 9),)})
    save_progress(folder, BuildProgress(KEY, Manifest()).after(PIECES[0], made, FOUND, {"cleaned": 3}))
    return folder


def test_it_follows_on_the_tables_that_its_successor_published(tables: Path) -> None:
    """To shut out the killed writer they were published once more as they were: that number is taken."""
    published = publish_manifest(tables, read_manifest(tables))
    assert build_key(published, "as asked") == KEY
    found = resumed_progress(tables, published.version, KEY, PIECES)
    assert found is not None
    assert (found.done, found.samples, found.rows) == (("a",), 3, {"cleaned": 3})
    assert publish_manifest(tables, found.manifest).version == 2
    assert read_manifest(tables).tables == found.manifest.tables


def test_another_run_starts_again(tables: Path) -> None:
    """Requested with other options or files, or without remaining or completed parts."""
    assert resumed_progress(tables, 0, KEY, PIECES) is not None
    assert resumed_progress(tables, 0, build_key(Manifest(), "asked otherwise"), PIECES) is None
    assert resumed_progress(tables, 0, KEY, PIECES[1:]) is None
    assert resumed_progress(tables, 0, KEY, PIECES[:1]) is None
    save_progress(tables, BuildProgress(KEY, Manifest()))
    assert resumed_progress(tables, 0, KEY, PIECES) is None


def test_a_large_day_is_built_by_the_hour() -> None:
    """Memory is that of the rows of a piece, whether a file holds a tick or a day; pieces have no gaps."""
    joined = [
        (Path(f"date=1/{day}"), ParquetFooter(24_000, (day * DAY, (day + 1) * DAY - 1))) for day in range(2)
    ]
    landed = [
        (
            Path(f"date=1/{day}-{hour}"),
            ParquetFooter(1_000, (day * DAY + hour * HOUR, day * DAY + hour * HOUR)),
        )
        for day in range(2)
        for hour in range(24)
    ]
    for files in (joined, landed):
        pieces = day_ranges(files, 0, 2 * DAY, max_rows=6_000)
        assert [piece.begin // HOUR for piece in pieces] == [0, 6, 12, 18, 24, 30, 36, 42]
        assert all(one.end == other.begin for one, other in pairwise(pieces))
        assert pieces[-1].end == 2 * DAY
        assert [len(day_ranges(files, 0, 2 * DAY, max_rows=most)) for most in (24_000, 48_000)] == [2, 1]
    assert [len(piece.files) for piece in day_ranges(landed, 0, 2 * DAY, max_rows=6_000)] == [6] * 8


def test_a_wrong_time_in_a_file_costs_no_loop_over_years() -> None:
    """A sample of 1970 beside those of today: the ends of the span alone count."""
    wrong = [(Path("date=1/a"), ParquetFooter(10, (0, 20_000 * DAY)))]
    assert [piece.begin // HOUR for piece in day_ranges(wrong, 0, 2**62, max_rows=6)] == [0, 480_000]
