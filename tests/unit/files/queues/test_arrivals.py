"""Recorded arrivals in files of three kinds, and what is refused of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from trimtab.files.queues import read_arrivals
from trimtab_common.errors import InputError


def written(folder: Path, text: str, name: str = "arrivals.csv") -> Path:
    """A file of that text."""
    path = folder / name
    path.write_text(text)
    return path


def test_rows_come_in_the_order_of_time(tmp_path: Path) -> None:
    """Classes in the order of the alphabet; a cell without a key is a message without one."""
    path = written(tmp_path, "seconds,class,time,key,more\n1,vote,2,,x\n0.5,quiz,1.5,ann,y\n")
    found = read_arrivals(path)
    assert (found.at.tolist(), found.seconds.tolist()) == ([1.5, 2.0], [0.5, 1.0])
    assert (found.classes, found.of_class.tolist(), found.keys) == (("quiz", "vote"), [0, 1], ("ann", None))
    assert found.between(1.75, None).at.tolist() == [2.0]
    assert found.between(None, 2.0).keys == ("ann",)


def test_all_file_formats_yield_the_same_arrivals(tmp_path: Path) -> None:
    """Times of day, with zone or without, are seconds since 1970, to the microsecond."""
    lines = [
        '{"time": "2026-11-21T05:00:00.000001Z", "class": 7, "seconds": 1}',
        '{"time": "2026-11-21T05:00:01Z", "class": 8, "seconds": 2}',
    ]
    rows = {"class": [7, 8], "seconds": [1, 2]}
    times = pa.array([1795237200000001, 1795237201000000], pa.timestamp("us"))
    pyarrow.parquet.write_table(pa.table({"time": times, **rows}), tmp_path / "arrivals.parquet")
    paths = [
        written(tmp_path, "\n".join(lines), "arrivals.jsonl"),
        tmp_path / "arrivals.parquet",
        written(tmp_path, "time,class,seconds\n2026-11-21T05:00:00.000001Z,7,1\n2026-11-21T05:00:01Z,8,2\n"),
    ]
    for path in paths:
        found = read_arrivals(path)
        assert found.at.tolist() == [1795237200.000001, 1795237201.0], path
        assert (found.classes, found.seconds.tolist(), found.keys) == (("7", "8"), [1.0, 2.0], ()), path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("time,class\n1,a\n", 'has no column "seconds"'),
        ("time,class,seconds\n", "holds no messages"),
        ("time,class,seconds\n1,a,1\n2,a,-1\n", "row 1: seconds is -1"),
        ("time,class,seconds\n1,a,\n", "row 0: seconds is None"),
        ("time,class,seconds\n1,a,soon\n", "seconds holds what is no number"),
        ("time,class,seconds\nnoon,a,1\n", "time holds what is none"),
        ("time,class,seconds\n1,a\n", "is no sound csv"),
    ],
)
def test_an_error_is_reported_with_its_location(tmp_path: Path, text: str, told: str) -> None:
    """The file first, then the row, the value and the remedy."""
    with pytest.raises(InputError, match=told) as error:
        read_arrivals(written(tmp_path, text))
    assert str(error.value).startswith(str(tmp_path / "arrivals.csv"))


def test_a_missing_class_and_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    """Weights belong to classes; the name of a file determines its format."""
    with pytest.raises(InputError, match="row 1: class is missing"):
        read_arrivals(
            written(
                tmp_path,
                '{"time":1,"class":"a","seconds":1}\n{"time":1,"class":null,"seconds":1}',
                "a.jsonl",
            )
        )
    with pytest.raises(InputError, match="of no kind that is read"):
        read_arrivals(tmp_path / "arrivals.txt")
    with pytest.raises(InputError, match="cannot be read"):
        read_arrivals(tmp_path / "absent.csv")
