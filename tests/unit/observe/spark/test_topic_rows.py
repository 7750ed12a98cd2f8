"""Raw files that stand for what came through a topic."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pyarrow.dataset
import pytest

from trimtab.model.errors import ObserveError
from trimtab.observe.lake.compaction import is_published
from trimtab.observe.lake.manifest import Manifest
from trimtab.observe.spark import tables
from trimtab.observe.spark.expressions import frame_of
from trimtab.observe.spark.tables import write_topic_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

STREAM = "0b7e5f9e-7f3c-4d0a-9c52-0d8a6d6a9f10"
NAME = f"stream-{STREAM}-000000007"
NIGHT = datetime.datetime(2026, 11, 21, 23, 59, tzinfo=datetime.UTC)
TWO_MINUTES = datetime.timedelta(minutes=2)


def samples(spark: SparkSession) -> DataFrame:
    """Samples of two days, one without a tick, one without any instant; from four tasks."""
    rows = [(NIGHT, NIGHT, 1), (NIGHT + TWO_MINUTES, NIGHT, 2), (None, NIGHT, 3), (None, None, 4)]
    return frame_of(spark, rows, "tick timestamp, received_at timestamp, broker int").repartition(4)


def rows_of(folder: Path) -> dict[str, list[int]]:
    """Brokers by day."""
    return {
        day.name: sorted(pyarrow.dataset.dataset(day, format="parquet").to_table()["broker"].to_pylist())
        for day in sorted(folder.glob("date=*"))
    }


def test_each_row_is_in_its_day_once_however_often_it_is_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that was killed in mid-landing does the micro-batch again, maybe cut into other tasks."""
    expected = {"date=1970-01-01": [4], "date=2026-11-21": [1, 3], "date=2026-11-22": [2]}
    monkeypatch.setattr(tables, "ROWS_PER_FILE", 1)
    write_topic_rows(samples(spark), 4, tmp_path, NAME)
    assert rows_of(tmp_path) == expected
    several = set(tmp_path.glob("date=*/*"))
    monkeypatch.undo()
    (tmp_path / f".{NAME}").mkdir()
    write_topic_rows(samples(spark), 4, tmp_path, NAME)
    assert rows_of(tmp_path) == expected
    assert len(several) > len(set(tmp_path.glob("date=*/*.parquet"))) == 3
    assert not (tmp_path / f".{NAME}").exists()


def test_a_written_file_is_history_once_its_micro_batch_is_published(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Before that the stream will land it again."""
    write_topic_rows(samples(spark), 4, tmp_path, NAME)
    for path in tmp_path.glob("date=*/*.parquet"):
        assert not is_published(path, Manifest(streams={STREAM: 6}))
        assert is_published(path, Manifest(streams={STREAM: 7}))
    older = tmp_path / f"{NAME}.parquet"
    assert not is_published(older, Manifest()), "files of earlier versions, one a day"


def test_rows_that_executors_write_elsewhere_are_missed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is given the name of a landed file then."""
    monkeypatch.setattr(tables, "_rows", lambda _: 0)
    with pytest.raises(ObserveError, match=r"wrote 4 samples to .* but only 0 are there"):
        write_topic_rows(samples(spark), 4, tmp_path, NAME)
    assert not rows_of(tmp_path)
