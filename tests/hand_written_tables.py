"""Tables of the pipeline written by hand, so that their readers can be tested without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet

from support.local_paths import local
from trimtab.observe.lake.lake import Lake, microseconds
from trimtab.observe.lake.manifest import Manifest, publish_manifest
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.observe.lake.balancer_pipeline import BalancerPipeline

_PLAIN = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a Spark type's name."""
    if kind.startswith("array<"):
        return pa.list_(arrow_type(kind[len("array<") : -1]))
    if kind.startswith("struct<"):
        fields = (field.split(":") for field in kind[len("struct<") : -1].split(","))
        return pa.struct([(name, arrow_type(inner)) for name, inner in fields])
    return _PLAIN[kind]


def lake_with(
    folder: Path, tables: dict[str, list[dict[str, Any]]], balancer: BalancerPipeline = REPLICAS
) -> Lake:
    """A lake whose tables hold exactly these rows; columns left out are null."""
    lake = Lake(folder, balancer)
    columns = balancer.tables
    manifest = Manifest()
    for name, rows in tables.items():
        schema = pa.schema([(column, arrow_type(kind)) for column, kind in columns[name]])
        unknown = {column for row in rows for column in row} - set(schema.names)
        assert not unknown, f"{name} has no columns {unknown}"
        target = local(lake.tables) / name / "one"
        target.mkdir(parents=True)
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows, schema=schema), target / "rows.parquet")
        times = [microseconds(row[balancer.time_column(name)]) for row in rows]
        span = (min(times), max(times))
        manifest = manifest.replaced(name, [(span[0], span[1] + 1)], f"{name}/one", span)
    publish_manifest(lake.tables, manifest)
    return lake
