"""Recorded records with keys in files of three kinds, and what is refused of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from trimtab.files.keys.formats import read_records
from trimtab_common.errors import InputError


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


def test_all_file_formats_yield_the_same_records(tmp_path: Path) -> None:
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
        ("time,key\n1764136800000,a\n-1,b\n", "time goes from -1 to 1764136800000, expected one unit"),
        ("time,key\n1764136800000,a\n1764136801,b\n", "expected one unit, seconds or milliseconds"),
    ],
)
def test_an_invalid_recording_is_rejected(tmp_path: Path, text: str, told: str) -> None:
    """With the file, the row and what was expected."""
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=told) as error:
        read_records(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("per_second", [1, 1_000, 1_000_000, 1_000_000_000])
@pytest.mark.parametrize("name", ["records.csv", "records.jsonl"])
def test_times_are_seconds_whatever_their_unit(tmp_path: Path, per_second: int, name: str) -> None:
    """Kafka's own timestamps are milliseconds: three seconds of them are no hour."""
    times = [(1_764_136_800 + second) * per_second for second in (0, 3)]
    text = (
        "".join(f'{{"time": {time}, "key": "b"}}\n' for time in times)
        if name.endswith("jsonl")
        else "time,key\n" + "".join(f"{time},b\n" for time in times)
    )
    assert read_records(written(tmp_path, text, name)).at.tolist() == [1_764_136_800.0, 1_764_136_803.0]


def test_seconds_with_another_origin_are_unchanged(tmp_path: Path) -> None:
    """A recording may count from its own beginning."""
    found = read_records(written(tmp_path, "time,key\n0,a\n0.25,b\n9999999999,b\n"))
    assert found.at.tolist() == [0.0, 0.25, 9_999_999_999.0]
