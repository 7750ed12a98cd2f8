"""Samples that came through a topic, landed as raw files: history can then be built anew without the
topic.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from trimtab.observe.manifest import Manifest

_NAME = re.compile(r"stream-(?P<stream>[0-9a-f-]{36})-(?P<batch>\d{9})\.parquet")


def land_rows(raw: DataFrame, folder: Path, name: str) -> None:
    """Write one file per day of ticks; running it again with the same rows and name changes nothing.

    Parameters
    ----------
    raw
        Columns of `schemas.RAW`.
    folder
        A lake's `raw`.
    name
        Of the files, without suffix.
    """
    import pyarrow
    import pyarrow.compute
    import pyarrow.parquet

    rows = raw.toArrow()
    day = pyarrow.compute.strftime(
        pyarrow.compute.coalesce(rows["tick"], rows["received_at"]), format="%Y-%m-%d"
    )
    day = pyarrow.compute.fill_null(day, "1970-01-01")
    for one in sorted(pyarrow.compute.unique(day).to_pylist()):
        target = folder / f"date={one}"
        target.mkdir(parents=True, exist_ok=True)
        making = target / f".{name}.parquet"
        pyarrow.parquet.write_table(rows.filter(pyarrow.compute.equal(day, one)), making)
        making.replace(target / f"{name}.parquet")


def is_published(path: Path, manifest: Manifest) -> bool:
    """True if a raw file may be read as history: one that a stream landed, but has not published, may not
    yet.

    The stream does that micro-batch again; read from here as well, its samples would be counted twice.
    """
    match = _NAME.fullmatch(path.name)
    return match is None or int(match["batch"]) <= manifest.streams.get(match["stream"], -1)
