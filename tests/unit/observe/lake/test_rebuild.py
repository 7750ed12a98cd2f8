"""A long history that was killed: what of it is taken up, and on which tables it follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.observe.lake.lake import Lake
from trimtab.observe.lake.manifest import Manifest, ManifestEntry, publish_manifest, read_manifest
from trimtab.observe.lake.rebuild import BuildProgress, DayRange, build_key, resumed_progress, save_progress
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
