"""Which files make up a table."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from trimtab.files.versioned_documents import VersionConflictError
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.manifest import Manifest, ManifestEntry, publish_manifest, read_manifest


def with_entry(begin: int, end: int, first: int, last: int) -> Manifest:
    """A manifest whose table `rates` is one folder."""
    return Manifest(tables={"rates": (ManifestEntry("rates/old", begin, end, first, last),)})


def test_late_ticks_are_cut_out_of_the_file_that_held_them() -> None:
    """A late sample in the middle of an old file splits that file into two parts around the new one."""
    manifest = with_entry(0, 100, 0, 99).replaced("rates", [(40, 50)], "rates/new", (40, 49))
    pieces = [(entry.path, entry.begin, entry.end) for entry in manifest.tables["rates"]]
    assert pieces == [("rates/old", 0, 40), ("rates/new", 40, 50), ("rates/old", 50, 100)]
    assert [entry.is_complete for entry in manifest.tables["rates"]] == [False, True, False]


def test_file_without_any_row_left_is_let_go_of() -> None:
    """Every micro-batch rewrites an open window; the old file must not remain."""
    manifest = with_entry(0, 1000, 60, 60).replaced("rates", [(50, 1000)], "rates/new", (60, 60))
    assert [entry.path for entry in manifest.tables["rates"]] == ["rates/new"]


def test_ranges_without_rows_take_old_rows_away() -> None:
    """Ticks that turn out to hold nothing leave nothing of what they held before."""
    manifest = with_entry(0, 100, 10, 20).replaced("rates", [(0, 100)], "rates/new", None)
    assert manifest.tables["rates"] == ()


def test_entries_never_overlap_after_any_replacement(tmp_path: Path) -> None:
    """Random replacements leave disjoint entries in order of time, and survive the trip through the file."""
    import random

    dice = random.Random(3)
    manifest = Manifest()
    for step in range(200):
        begin = dice.randrange(1000)
        end = begin + 1 + dice.randrange(60)
        manifest = manifest.replaced("rates", [(begin, end)], f"rates/{step}", (begin, end - 1))
        entries = manifest.tables["rates"]
        assert all(one.end <= other.begin for one, other in pairwise(entries))
        covered = next(entry for entry in entries if entry.begin <= begin < entry.end)
        assert covered.path == f"rates/{step}"
    published = publish_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == published
    assert published.version == 1


@pytest.mark.parametrize(
    "text", ["", "{", '{"format": "trimtab/tables/9"}', "[]", '{"format": "trimtab/tables/1"}']
)
def test_damaged_manifest_is_one_sentence_with_a_remedy(tmp_path: Path, text: str) -> None:
    """An edited or truncated manifest: the error names file and remedy, without a traceback."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / f"{1:020d}.json").write_text(text)
    with pytest.raises(ObserveError, match=r"1\.json is not a manifest .* run `trimtab pipeline run`"):
        read_manifest(tmp_path)


def test_two_publications_on_the_same_tables_are_one(tmp_path: Path) -> None:
    """The second was computed from tables that are no longer the newest: taking it would undo the first."""
    first = publish_manifest(tmp_path, with_entry(0, 100, 0, 99))
    publish_manifest(tmp_path, first.replaced("rates", [(0, 50)], "rates/one", (0, 49)))
    with pytest.raises(VersionConflictError):
        publish_manifest(tmp_path, first.replaced("rates", [(50, 100)], "rates/other", (50, 99)))
    assert [entry.path for entry in read_manifest(tmp_path).tables["rates"]] == ["rates/one", "rates/old"]
