"""Recorded records with keys in files of three kinds, and what is refused of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from trimtab.files.keys.records import read_records
from trimtab.model.errors import InputError


def written(folder: Path, text: str, name: str = "records.csv") -> Path:
    """A file of that text."""
    path = folder / name
    path.write_text(text)
    return path


def test_records_come_in_the_order_of_time_and_those_without_a_key_are_counted(tmp_path: Path) -> None:
    """A key that looks like a number is a text; an empty field of CSV is no key."""
    found = read_records(written(tmp_path, "key,time,more\n007,2,x\n,1,\nann,1.5,y\n007,1,z\n"))
    assert found.at.tolist() == [1.0, 1.5, 2.0]
    assert [found.keys[one] for one in found.which] == [b"007", b"ann", b"007"]
    assert (found.keys, found.keyless) == ((b"007", b"ann"), 1)
    assert found.between(1.5, 2.0).at.tolist() == [1.5]
    numbers = read_records(written(tmp_path, "key,time\n007,1\n42,2\n", "numbers.csv"))
    assert numbers.keys == (b"007", b"42")


def test_all_kinds_of_file_say_the_same(tmp_path: Path) -> None:
    """Parquet holds keys that are no text, and an empty key that is one; JSON Lines a null."""
    lines = written(tmp_path, '{"time": 1, "key": "b"}\n{"time": 2, "key": null}\n', "records.jsonl")
    found = read_records(lines)
    assert (found.keys, found.keyless, len(found)) == ((b"b",), 1, 1)
    table = pa.table({"time": [1.0, 2.0, 3.0], "key": pa.array([b"\xff", b"", None], pa.binary())})
    pyarrow.parquet.write_table(table, tmp_path / "records.parquet")
    found = read_records(tmp_path / "records.parquet")
    assert (found.keys, found.which.tolist(), found.keyless) == ((b"", b"\xff"), [1, 0], 1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("time,class\n1,a\n", 'has no column "key"'),
        ("time,key\n", "holds no records"),
        ("time,key\n1,\n2,\n", "no record has a key"),
        ("time,key\n1,a\n,b\n", "row 1: time is None, expected a time"),
        ("time,key\nnoon,a\n", "time holds what is none"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, text: str, told: str) -> None:
    """With the file, the row and what was expected."""
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=told) as error:
        read_records(path)
    assert str(path) in str(error.value)
