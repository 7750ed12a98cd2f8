"""Decisions as lines of JSON, in a file that is there as a whole or not at all."""

import json
from pathlib import Path

import numpy as np
import pytest

from trimtab.files.bundles.decisions import decision_file, decision_line
from trimtab_common.errors import InputError


def test_a_decision_is_one_line_of_json() -> None:
    """Also with numbers of numpy's, tuples, and what JSON has no number for."""
    why = {"usage": np.float32(0.5), "pool": ("a:1", "b:1"), "score": float("inf"), "hits": np.int64(3)}
    line = decision_line(1795410000.5, {"a:1": ("x",)}, {"x": "b:1"}, why)
    assert line.endswith("}\n")
    assert json.loads(line) == {
        "at": "2026-11-23T05:00:00.5Z",
        "unloads": {"a:1": ["x"]},
        "destinations": {"x": "b:1"},
        "why": {"usage": 0.5, "pool": ["a:1", "b:1"], "score": "inf", "hits": 3},
    }


def test_the_file_appears_when_all_is_written(tmp_path: Path) -> None:
    """Until then a file of that name is untouched, and afterwards nothing else is left."""
    path = tmp_path / "out.jsonl"
    path.write_text("old")
    with decision_file(path) as write:
        write("{}\n")
        assert path.read_text() == "old"
    assert path.read_text() == "{}\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    """A recording that is refused in its last line leaves no half of the decisions."""
    path = tmp_path / "out.jsonl"
    with pytest.raises(InputError), decision_file(path) as write:
        write("{}\n")
        raise InputError("line 2 is wrong")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Before anything is decided."""
    with (
        pytest.raises(InputError, match="does not exist; make it first"),
        decision_file(tmp_path / "no" / "o"),
    ):
        pass
    with pytest.raises(InputError, match="it is a folder"), decision_file(tmp_path):
        pass
