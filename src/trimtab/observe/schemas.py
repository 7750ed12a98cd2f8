"""Columns of every table of the level `replicas`: the one place where a table's shape is written down.

Types are Spark's own names. What each column means: docs/pipeline.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trimtab.observe.flags import Flag
from trimtab.observe.raw import COLUMNS as RAW_COLUMNS
from trimtab.observe.raw import KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Columns = tuple[tuple[str, str], ...]

SECOND: Final = 1_000_000
"""Times inside the pipeline are whole microseconds, so that they add up exactly."""


_RAW_TYPES: Final = {"ints": "array<int>", "long": "bigint"}
_KEYS: Final = tuple((name, _RAW_TYPES.get(kind, kind)) for name, kind in RAW_COLUMNS if name in KEYS)

RAW: Final[Columns] = tuple((name, _RAW_TYPES.get(kind, kind)) for name, kind in RAW_COLUMNS)


def with_flags(raw: Columns) -> Columns:
    """Columns of the table `cleaned` of a level: those of its raw rows, and what is wrong with each."""
    return (
        *raw,
        ("accepted", "boolean"),
        ("flags", "int"),
        ("copies", "int"),
        ("late_copies", "int"),
    )


CLEANED: Final[Columns] = with_flags(RAW)

COUNTERS: Final = (
    "cpu_time_ns",
    "bytes_in_total",
    "bytes_out_total",
    "replication_bytes_in_total",
    "replication_bytes_out_total",
    "messages_in_total",
    "produce_requests_total",
    "fetch_requests_total",
    "end_offset",
    "start_offset",
    "committed_offset",
    "offered_bytes_total",
    "served_bytes_total",
    "errors_total",
    "late_total",
)
"""Raw columns that only ever rise, until a restart."""

DELTAS: Final = {
    "cpu_time_ns": "cpu_ns",
    "bytes_in_total": "bytes_in",
    "bytes_out_total": "bytes_out",
    "replication_bytes_in_total": "replication_bytes_in",
    "replication_bytes_out_total": "replication_bytes_out",
    "messages_in_total": "messages_in",
    "produce_requests_total": "produce_requests",
    "fetch_requests_total": "fetch_requests",
    "end_offset": "records_in",
    "start_offset": "records_dropped",
    "committed_offset": "records_out",
    "offered_bytes_total": "offered_bytes",
    "served_bytes_total": "served_bytes",
    "errors_total": "errors",
    "late_total": "late",
    "size_bytes": "growth_bytes",
}
"""What a raw column's change within an interval is called."""

STATE: Final = (
    "host",
    "rack",
    "broker_state",
    "cpu_capacity_cores",
    "network_in_capacity_bytes_per_second",
    "network_out_capacity_bytes_per_second",
    "processors",
    "dir_state",
    "disk_total_bytes",
    "size_bytes",
    "leader",
    "replicas",
    "in_sync",
    "adding",
    "start_offset",
    "end_offset",
    "latency_p50_ms",
    "latency_p99_ms",
)
"""Raw columns that `rates` passes on beside the changes."""

_RAW_TYPE: Final = dict(RAW)

RATES: Final[Columns] = (
    *_KEYS,
    ("sampled_at", "timestamp"),
    ("previous_tick", "timestamp"),
    ("elapsed_us", "bigint"),
    ("flags", "int"),
    ("previous_leader", "int"),
    *((name, "bigint") for name in DELTAS.values()),
    *((name, _RAW_TYPE[name]) for name in STATE),
)

_PARTITION: Final[Columns] = (
    ("cluster", "string"),
    ("tick", "timestamp"),
    ("topic", "string"),
    ("partition", "int"),
    ("leader", "int"),
    ("replicas", "array<int>"),
    ("in_sync", "array<int>"),
    ("elapsed_us", "bigint"),
    ("size_bytes", "bigint"),
    ("records_in", "bigint"),
    ("records_out", "bigint"),
)

GROWTH: Final[Columns] = (
    *_PARTITION,
    ("records_kept", "bigint"),
    ("growth_bytes", "bigint"),
    ("flags", "int"),
)

TRAFFIC: Final[Columns] = (
    *_PARTITION,
    ("log_bytes", "bigint"),
    ("bytes_in", "bigint"),
    ("bytes_out", "bigint"),
    ("bytes_per_record", "double"),
    ("flags", "int"),
    ("extrapolated", "boolean"),
)

BROKERS: Final[Columns] = (
    ("cluster", "string"),
    ("tick", "timestamp"),
    ("broker", "int"),
    ("host", "string"),
    ("rack", "string"),
    ("broker_state", "string"),
    ("live", "boolean"),
    ("elapsed_us", "bigint"),
    ("cpu_ns", "bigint"),
    ("requests", "bigint"),
    ("leader_bytes_in", "bigint"),
    ("follower_bytes_in", "bigint"),
    ("bytes_out", "bigint"),
    ("disk_bytes", "bigint"),
    ("network_measured", "boolean"),
    ("cpu_capacity", "double"),
    ("disk_capacity", "double"),
    ("network_in_capacity", "double"),
    ("network_out_capacity", "double"),
    ("flags", "int"),
)

CLIENTS: Final[Columns] = (
    ("cluster", "string"),
    ("tick", "timestamp"),
    ("clients", "int"),
    ("offered_bytes_per_second", "double"),
    ("served_bytes_per_second", "double"),
    ("usual_offered_bytes_per_second", "double"),
    ("usual_served_bytes_per_second", "double"),
    ("errors", "bigint"),
    ("late", "bigint"),
    ("latency_p99_ms_max", "double"),
    ("traffic_collapse", "boolean"),
)

STATISTICS: Final = "struct<mean:double,latest:double,p50:double,p95:double,p99:double,max:double>"

WINDOWS: Final[Columns] = (
    ("cluster", "string"),
    ("window_end", "timestamp"),
    ("kind", "string"),
    ("broker", "int"),
    ("topic", "string"),
    ("partition", "int"),
    ("leader", "int"),
    ("replicas", "array<int>"),
    ("in_sync", "array<int>"),
    ("cpu", STATISTICS),
    ("disk", STATISTICS),
    ("network_in", STATISTICS),
    ("network_out", STATISTICS),
    ("leader_in", "double"),
    ("follower_in", "double"),
    ("requests", "double"),
    ("samples", "int"),
    ("valid_share", "double"),
    ("extrapolated", "boolean"),
)

CPU_MODEL: Final[Columns] = (
    ("cluster", "string"),
    ("window_end", "timestamp"),
    ("method", "string"),
    ("leader_in", "double"),
    ("leader_out", "double"),
    ("follower_in", "double"),
    ("idle_cores", "double"),
    ("r2", "double"),
    ("rows", "int"),
    ("base", "array<struct<broker:int,cores:double>>"),
)

ROLE_LOAD: Final = "struct<cpu:double,disk:double,network_in:double,network_out:double>"

ATTRIBUTED: Final[Columns] = (
    ("cluster", "string"),
    ("window_end", "timestamp"),
    ("topic", "string"),
    ("partition", "int"),
    ("leader", "int"),
    ("replicas", "array<int>"),
    ("in_sync", "array<int>"),
    ("leader_load", ROLE_LOAD),
    ("follower_load", ROLE_LOAD),
    ("replication_out", "double"),
    ("cpu_method", "string"),
    ("valid_share", "double"),
    ("extrapolated", "boolean"),
)


def broker_measures(broker: str) -> str:
    """Type of what `imbalance` says of each broker, whose own name is of type `broker`."""
    return f"struct<broker:{broker},load:double,capacity:double,usage:double,share:double,deviation:double>"


_IMBALANCE: Final[Columns] = (
    ("cluster", "string"),
    ("tick", "timestamp"),
    ("resource", "string"),
    ("brokers", "int"),
    ("complete", "boolean"),
    ("mean", "double"),
    ("sigma", "double"),
    ("eta", "double"),
    ("worst_deviation", "double"),
    ("peak_usage", "double"),
    ("capacity_holds", "boolean"),
    ("deviation_holds", "boolean"),
    ("sigma_holds", "boolean"),
    ("theta", "double"),
    ("epsilon", "double"),
    ("traffic_collapse", "boolean"),
)


def imbalance_columns(broker: str) -> Columns:
    """Columns of the table `imbalance` of a level whose brokers' names are of type `broker`."""
    return (*_IMBALANCE, ("by_broker", f"array<{broker_measures(broker)}>"))


IMBALANCE: Final[Columns] = imbalance_columns("int")

QUALITY: Final[Columns] = (
    ("cluster", "string"),
    ("tick", "timestamp"),
    ("kind", "string"),
    ("entities", "int"),
    ("accepted", "int"),
    ("duplicates", "int"),
    *((flag.name.lower(), "int") for flag in Flag if flag.name is not None),
)

TABLES: Final[dict[str, Columns]] = {
    "cleaned": CLEANED,
    "rates": RATES,
    "growth": GROWTH,
    "traffic": TRAFFIC,
    "brokers": BROKERS,
    "clients": CLIENTS,
    "windows": WINDOWS,
    "cpu_model": CPU_MODEL,
    "attributed": ATTRIBUTED,
    "imbalance": IMBALANCE,
    "quality": QUALITY,
}


def ddl(columns: Columns) -> str:
    """Spark's text form of a schema."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)


def conform(frame: DataFrame, columns: Columns) -> DataFrame:
    """The last `select` of every transformation: exactly these columns, in this order, of these types."""
    from pyspark.sql import functions as F

    return frame.select(*(F.col(name).cast(kind).alias(name) for name, kind in columns))
