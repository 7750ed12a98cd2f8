"""Raw files of a lake: those that stand for what came through a topic, and those that may be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trimtab.observe.parquet import write_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from trimtab.files.store import Place
    from trimtab.observe.manifest import Manifest

_NAME = re.compile(r"stream-(?P<stream>[0-9a-f-]{36})-(?P<batch>\d{9})\.parquet")


def land_rows(raw: DataFrame, folder: Place, name: str) -> None:
    """Write raw rows of a topic below a lake's `raw`: history can then be built anew without the topic.

    One file per day of ticks; running it again with the same rows and name changes nothing.
    """
    import pyarrow
    import pyarrow.compute

    rows = raw.toArrow()
    day = pyarrow.compute.strftime(
        pyarrow.compute.coalesce(rows["tick"], rows["received_at"]), format="%Y-%m-%d"
    )
    day = pyarrow.compute.fill_null(day, "1970-01-01")
    for one in sorted(pyarrow.compute.unique(day).to_pylist()):
        write_rows(folder / f"date={one}" / f"{name}.parquet", rows.filter(pyarrow.compute.equal(day, one)))


def is_published(path: Place, manifest: Manifest) -> bool:
    """True if a raw file may be read as history: one that a stream landed, but has not published, may not
    yet.

    The stream does that micro-batch again; read from here as well, its samples would be counted twice.
    """
    match = _NAME.fullmatch(path.name)
    return match is None or int(match["batch"]) <= manifest.streams.get(match["stream"], -1)
