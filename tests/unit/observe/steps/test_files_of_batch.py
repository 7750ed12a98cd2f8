"""Which files a micro-batch consists of, by what Spark writes into the checkpoint of its stream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from trimtab.files.object_store import StorePath
from trimtab.observe.steps.stream import files_of_batch

if TYPE_CHECKING:
    from pathlib import Path


def entry(path: str, number: int) -> str:
    """A line of Spark's log of a source of files."""
    return json.dumps({"path": path, "timestamp": 0, "batchId": number})


@pytest.mark.parametrize("name", ["4", "4.compact"])
def test_a_micro_batch_has_the_files_of_its_entry(tmp_path: Path, name: str) -> None:
    """The entry, not the micro-batch, has a number in the log; a compacted file has all entries before it."""
    log = tmp_path / "sources" / "0"
    log.mkdir(parents=True)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").write_text('v1\n{"batchWatermarkMs":0}\n{"logOffset":4}')
    raw = tmp_path / "a lake" / "raw"
    own = [f"file://{tmp_path}/a%20lake/raw/date=2026-11-29/{number}.parquet" for number in range(2)]
    earlier = [entry("file:///elsewhere/3.parquet", 3)] if name.endswith("compact") else []
    (log / name).write_text("\n".join(["v1", *earlier, *(entry(path, 4) for path in own)]))
    found = files_of_batch(tmp_path, 7, raw)
    assert found == [raw / "date=2026-11-29" / f"{number}.parquet" for number in range(2)]


def test_files_of_an_object_store_are_found_there(tmp_path: Path) -> None:
    """Spark has a name of its own for the store."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"logOffset":0}')
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_text(
        "v1\n" + entry("s3a://bucket/lake/raw/date=2026-11-29/one.parquet", 0)
    )
    raw = StorePath("s3://bucket", "lake/raw")
    (found,) = files_of_batch(tmp_path, 0, raw)
    assert found == raw / "date=2026-11-29" / "one.parquet"
