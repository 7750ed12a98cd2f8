"""Columns of every table of the balancer `replicas`: the one place where a table's shape is written down.

Types are Spark's own names. The meaning of each column: docs/pipeline.md.
"""

from __future__ import annotations

from typing import Final

from trimtab.observe.columns import QUALITY, STATISTICS, Columns, columns, imbalance_columns
from trimtab.observe.replicas.raw import FORM

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
"""Names of raw columns' changes within an interval."""

COUNTERS: Final = tuple(name for name in DELTAS if name != "size_bytes")
"""Raw columns that only ever rise, until a restart."""

_STATE: Final[Columns] = columns(
    "host string, rack string, broker_state string, cpu_capacity_cores double, "
    "network_in_capacity_bytes_per_second double, network_out_capacity_bytes_per_second double, "
    "processors double, dir_state string, disk_total_bytes bigint, size_bytes bigint, leader int, "
    "replicas array<int>, in_sync array<int>, adding array<int>, start_offset bigint, end_offset bigint, "
    "latency_p50_ms double, latency_p99_ms double"
)
STATE: Final = tuple(name for name, _ in _STATE)
"""Raw columns that `rates` passes on beside the changes."""

RATES: Final[Columns] = (
    *((name, kind) for name, kind in FORM.columns if name in FORM.keys),
    *columns("sampled_at timestamp, previous_tick timestamp, elapsed_us bigint, flags int"),
    ("previous_leader", "int"),
    ("complete_before", "array<int>"),
    *((name, "bigint") for name in DELTAS.values()),
    *_STATE,
)

_PARTITION: Final[Columns] = columns(
    "cluster string, tick timestamp, topic string, partition int, leader int, replicas array<int>, "
    "in_sync array<int>, elapsed_us bigint, size_bytes bigint, records_in bigint, records_out bigint"
)

GROWTH: Final[Columns] = _PARTITION + columns(
    "previous_leader int, readers int, records_stored bigint, growth_bytes bigint, flags int"
)

TRAFFIC: Final[Columns] = _PARTITION + columns(
    "log_bytes bigint, read_bytes bigint, bytes_in bigint, bytes_out bigint, bytes_per_record double, "
    "flags int, counted boolean, extrapolated boolean"
)

BROKERS: Final[Columns] = columns(
    "cluster string, tick timestamp, broker int, host string, rack string, broker_state string, "
    "live boolean, elapsed_us bigint, cpu_ns bigint, requests bigint, leader_bytes_in bigint, "
    "follower_bytes_in bigint, bytes_out bigint, disk_bytes bigint, network_measured boolean, "
    "cpu_capacity double, disk_capacity double, network_in_capacity double, "
    "network_out_capacity double, flags int"
)

CLIENTS: Final[Columns] = columns(
    "cluster string, tick timestamp, clients int, offered_bytes_per_second double, "
    "served_bytes_per_second double, usual_offered_bytes_per_second double, "
    "usual_served_bytes_per_second double, errors bigint, late bigint, latency_p99_ms_max double, "
    "traffic_collapse boolean"
)

WINDOWS: Final[Columns] = columns(
    "cluster string, window_end timestamp, kind string, broker int, topic string, partition int, "
    f"leader int, replicas array<int>, in_sync array<int>, cpu {STATISTICS}, disk {STATISTICS}, "
    f"network_in {STATISTICS}, network_out {STATISTICS}, leader_in double, follower_in double, "
    "requests double, samples int, valid_share double, counted boolean, extrapolated boolean"
)

CPU_MODEL: Final[Columns] = columns(
    "cluster string, window_end timestamp, method string, leader_in double, leader_out double, "
    "follower_in double, idle_cores double, r2 double, rows int, "
    "base array<struct<broker:int,cores:double>>"
)

CAUSES: Final = ("leader_in", "leader_out", "follower_in")
"""Causes of a broker's CPU: bytes per second produced to leaders, fetched from them by consumers, and
replicated to followers."""

FIXED_SHARES: Final = (0.7, 0.15, 0.15)
"""Shares of a broker's CPU by cause where nothing better is known, as Cruise Control assumes them."""

ROLE_LOAD: Final = "struct<cpu:double,disk:double,network_in:double,network_out:double>"

ATTRIBUTED: Final[Columns] = columns(
    "cluster string, window_end timestamp, topic string, partition int, leader int, "
    f"replicas array<int>, in_sync array<int>, leader_load {ROLE_LOAD}, follower_load {ROLE_LOAD}, "
    "replication_out double, cpu_method string, valid_share double, counted boolean, extrapolated boolean"
)

HOURS: Final[Columns] = columns(
    "cluster string, window_end timestamp, topic string, partition int, replicas array<int>, "
    f"leader_load {ROLE_LOAD}, follower_load {ROLE_LOAD}, windows int"
)

ARRIVALS: Final[Columns] = columns(
    "cluster string, window_end timestamp, topic string, partition int, broker int"
)

PROFILES: Final[Columns] = columns(
    f"cluster string, window_end timestamp, topic string, partition int, leader_load {ROLE_LOAD}, "
    f"follower_load {ROLE_LOAD}, by string, count int"
)

DAYS: Final[Columns] = columns(
    f"cluster string, window_end timestamp, topic string, partition int, leader_load {ROLE_LOAD}, "
    f"follower_load {ROLE_LOAD}, hours int"
)

TRENDS: Final[Columns] = columns(
    f"cluster string, window_end timestamp, topic string, partition int, leader_load {ROLE_LOAD}, "
    f"follower_load {ROLE_LOAD}, weeks int"
)

PROFILE_ERRORS: Final[Columns] = columns(
    f"cluster string, window_end timestamp, topic string, partition int, actual {ROLE_LOAD}, "
    f"error {ROLE_LOAD}, error_with_trend {ROLE_LOAD}, error_of_yesterday {ROLE_LOAD}"
)

IMBALANCE: Final[Columns] = imbalance_columns("int")

TABLES: Final[dict[str, Columns]] = {
    "cleaned": FORM.cleaned,
    "rates": RATES,
    "growth": GROWTH,
    "traffic": TRAFFIC,
    "brokers": BROKERS,
    "clients": CLIENTS,
    "windows": WINDOWS,
    "cpu_model": CPU_MODEL,
    "attributed": ATTRIBUTED,
    "hours": HOURS,
    "arrivals": ARRIVALS,
    "profiles": PROFILES,
    "days": DAYS,
    "trends": TRENDS,
    "profile_errors": PROFILE_ERRORS,
    "imbalance": IMBALANCE,
    "quality": QUALITY,
}
