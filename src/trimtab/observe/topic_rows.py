"""Raw files of a lake: those that stand for what came through a topic, and those that may be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trimtab.files.store import move, remove_folder
from trimtab.observe.parquet import source_of
from trimtab.observe.spark_address import spark_address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from trimtab.files.store import Location
    from trimtab.observe.manifest import Manifest

_NAME = re.compile(r"stream-(?P<stream>[0-9a-f-]{36})-(?P<batch>\d{9})(-\d+)?\.parquet")

ROWS_PER_FILE = 500_000
"""A task each: a micro-batch of a tick should not leave a file for every partition of its topic."""


def write_topic_rows(raw: DataFrame, rows: int, folder: Location, name: str) -> None:
    """Write raw rows of a topic below a lake's `raw`: history can then be built anew without the topic.

    Spark's executors write them, a file or more for each day of ticks. Running it again with the same rows
    and name changes nothing, also after an end in the middle.

    Parameters
    ----------
    raw, rows
        The rows, and how many they are.
    folder, name
        Where the files go, and how their names begin.

    Raises
    ------
    ObserveError
        If fewer rows are found there than Spark wrote.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    from trimtab.observe.tables import check_found  # imports Spark; housekeeping imports this module without

    making = folder / f".{name}"
    remove_folder(making)
    at = F.coalesce("tick", "received_at", F.timestamp_micros(F.lit(0)))
    counted = Observation()
    dated = raw.withColumn("date", F.date_format(at, "yyyy-MM-dd")).coalesce(-(-rows // ROWS_PER_FILE) or 1)
    told = dated.observe(counted, F.count(F.lit(1)).alias("rows"))
    told.write.partitionBy("date").parquet(spark_address(making))
    files: list[Location] = list(making.glob("date=*/*.parquet"))
    files.sort(key=str)
    check_found(raw, "samples", making, counted.get["rows"], sum(map(_rows, files)))
    for old in folder.glob(f"date=*/{name}*.parquet"):
        old.unlink()
    for number, path in enumerate(files):
        move(path, folder / path.parent.name / f"{name}-{number}.parquet")
    remove_folder(making)


def _rows(path: Location) -> int:
    import pyarrow.parquet

    return int(pyarrow.parquet.read_metadata(source_of(path)).num_rows)


def is_published(path: Location, manifest: Manifest) -> bool:
    """True if a raw file may be read as history: one that a stream landed, but has not published, may not
    yet.

    The stream does that micro-batch again; read from here as well, its samples would be counted twice.
    """
    match = _NAME.fullmatch(path.name)
    return match is None or int(match["batch"]) <= manifest.streams.get(match["stream"], -1)
