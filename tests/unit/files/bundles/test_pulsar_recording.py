"""A recording is one file or a folder of files by date."""

import gzip
from pathlib import Path

import pytest

from support.recordings import skewed, tick, written
from trimtab.files.bundles.recording import read_recording, recording_files
from trimtab.files.bundles.reports import read_reports
from trimtab_common.errors import InputError

TICKS = [tick(minute, skewed()) for minute in range(4)]


def test_a_folder_reads_as_the_file_that_it_was_cut_from(tmp_path: Path) -> None:
    """Plain and compressed, below one another, in the order of names; hidden and foreign ones are left."""
    whole = written(tmp_path / "whole.jsonl", TICKS)
    folder = tmp_path / "folder"
    (folder / "2026-12").mkdir(parents=True)
    written(folder / "2026-11.jsonl", TICKS[:2])
    later = written(tmp_path / "later.jsonl", TICKS[2:])
    (folder / "2026-12" / "01.jsonl.gz").write_bytes(gzip.compress(later.read_bytes()))
    (folder / ".2026-13.jsonl").write_text("half a li")
    (folder / "README.md").write_text("what this is")
    assert list(read_recording(folder)) == list(read_recording(whole)) == list(read_reports(whole))
    assert [one.name for one in recording_files(folder)] == ["2026-11.jsonl", "01.jsonl.gz"]


def test_files_out_of_order_are_reported(tmp_path: Path) -> None:
    """A file that begins before the one before it ends is refused with both names."""
    written(tmp_path / "a.jsonl", TICKS[2:])
    written(tmp_path / "b.jsonl", TICKS[:2])
    with pytest.raises(
        InputError, match=r"b\.jsonl: holds a tick of .*05:00:00Z, earlier than .* in a\.jsonl"
    ):
        list(read_recording(tmp_path))


def test_an_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    """With its line."""
    written(tmp_path / "a.jsonl", [TICKS[0], "{"])
    with pytest.raises(InputError, match=r"a\.jsonl: line 2"):
        list(read_recording(tmp_path))


def test_a_folder_without_a_recording_is_reported(tmp_path: Path) -> None:
    """And one that is not there, likewise."""
    with pytest.raises(InputError, match="holds no recording"):
        list(read_recording(tmp_path))
    with pytest.raises(InputError, match="no such file"):
        list(read_recording(tmp_path / "absent"))
