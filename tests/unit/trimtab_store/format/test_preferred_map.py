"""The preferred map as a file that nodes watch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trimtab_common.errors import InputError
from trimtab_store.core.messages import MapChanged
from trimtab_store.format.configuration import PreferredMapFile, read_map, write_map


def test_a_map_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Any node may be master of the last group."""
    write_map(tmp_path / "map.json", MapChanged(3, (0, 2, -1)))
    assert read_map(tmp_path / "map.json", 3, 3) == MapChanged(3, (0, 2, -1))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"format": "trimtab/masters-map/9"}, "has format 'trimtab/masters-map/9', expected"),
        ({"preferred": [0, 3]}, "names node 3 as preferred for group 1, expected 0 to 2, or -1"),
        ({"preferred": [0]}, "has preferred nodes for 1 groups, expected 2"),
        ({"version": "new"}, "cannot be read as a preferred map"),
    ],
)
def test_an_invalid_map_is_rejected(tmp_path: Path, changes: dict[str, object], sentence: str) -> None:
    """One sentence each."""
    path = tmp_path / "map.json"
    path.write_text(
        json.dumps({"format": "trimtab/masters-map/1", "version": 1, "preferred": [0, 1], **changes})
    )
    with pytest.raises(InputError, match=sentence):
        read_map(path, 3, 2)


def test_each_version_is_read_once(tmp_path: Path) -> None:
    """A missing file is reported, once; the last map stays."""
    path = tmp_path / "map.json"
    file = PreferredMapFile(path, 2, 1)
    write_map(path, MapChanged(1, (0,)))
    assert file.changed() == MapChanged(1, (0,))
    assert file.changed() is None
    write_map(path, MapChanged(2, (1,)))
    assert file.changed() == MapChanged(2, (1,))
    path.unlink()
    with pytest.raises(InputError, match=r"map.json is not there, .*: correct .map. .* for each of 1 groups"):
        file.changed()
    assert file.changed() is None
    write_map(path, MapChanged(3, (0,)))
    assert file.changed() == MapChanged(3, (0,))


def test_two_maps_of_one_version_are_reported(tmp_path: Path) -> None:
    """Once, and the first stays."""
    path = tmp_path / "map.json"
    file = PreferredMapFile(path, 2, 1)
    write_map(path, MapChanged(2, (0,)))
    file.changed()
    write_map(path, MapChanged(2, (1,)))
    with pytest.raises(
        InputError, match="another map in version 2, and version 2 was seen: give a new map a"
    ):
        file.changed()
    assert file.changed() is None
