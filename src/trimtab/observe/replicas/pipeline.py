"""The pipeline of the balancer `replicas`: raw samples of Kafka, tables, and settings; no Spark is needed.

A raw sample is one wide row per (cluster, tick, entity), as collectors write them and the pipeline reads
them. The columns are the same whether a row lies in a Parquet file of the lake or is a JSON value in a
Kafka topic. Counters are monotonic totals as the system reports them (they reset when a broker restarts);
transformations make rates of them. The meaning of the columns of tables: docs/pipeline.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from trimtab.model.replicas.settings import RESOURCES
from trimtab.observe.lake.balancer_pipeline import BalancerPipeline, PipelineSettings, UpToAYear
from trimtab.observe.lake.columns import (
    SECOND,
    STATISTICS,
    Columns,
    RawSchema,
    columns,
    imbalance_columns,
    numbers,
    of_raw,
)
from trimtab_common.documents import Positive, one_of

KINDS: Final = ("broker", "log_dir", "topic_broker", "replica", "partition", "group", "client")
"""The kinds of entity that a row describes, and the columns it fills by that (`OF_MANY` for three of them):

- `broker`: broker, host, rack, broker_state, declared capacities, process and traffic counters;
- `log_dir`: broker, log_dir, dir_state, disk_total_bytes, disk_usable_bytes; every broker has one, so an
  alive broker without any has refused to tell (an empty broker has dirs without replicas);
- `topic_broker`: broker, topic, bytes_in_total, bytes_out_total, messages_in_total (needs a metrics
  endpoint);
- `replica`: broker, topic, partition, log_dir, is_future and values;
- `partition`: topic, partition and values;
- `group`: group, topic, partition and values;
- `client`: client, offered and served totals, errors, lateness, latency percentiles.
"""

OF_MANY: Final = {
    "replica": ("size_bytes", "offset_lag"),
    "partition": ("leader", "replicas", "in_sync", "adding", "removing", "start_offset", "end_offset"),
    "group": ("committed_offset",),
}
"""Values that rows hold of the kinds that nearly all rows are of, besides keys and times."""

KEYS: Final = (
    "cluster",
    "tick",
    "kind",
    "broker",
    "topic",
    "partition",
    "log_dir",
    "group",
    "client",
    "is_future",
)
"""Two rows that agree in all of these are the same sample (null equals null)."""

COLUMNS: Final = (
    # (name, type); timestamps are UTC in microseconds, `ints` is an array of int
    ("cluster", "string"),
    ("tick", "timestamp"),  # the aligned instant this sample belongs to
    ("kind", "string"),
    ("broker", "int"),
    ("topic", "string"),
    ("partition", "int"),
    ("log_dir", "string"),
    ("group", "string"),
    ("client", "string"),
    ("is_future", "boolean"),
    ("sampled_at", "timestamp"),  # when the value was read
    ("received_at", "timestamp"),  # when the row was landed; lateness is received_at - tick
    ("host", "string"),
    ("rack", "string"),
    ("broker_state", "string"),  # alive | fenced | unreachable
    ("cpu_capacity_cores", "double"),
    ("network_in_capacity_bytes_per_second", "double"),
    ("network_out_capacity_bytes_per_second", "double"),
    ("cpu_time_ns", "long"),  # counter
    ("processors", "double"),
    ("handler_idle_fraction", "double"),
    ("bytes_in_total", "long"),  # counter, produced by clients
    ("bytes_out_total", "long"),  # counter, fetched by clients
    ("replication_bytes_in_total", "long"),  # counter
    ("replication_bytes_out_total", "long"),  # counter
    ("messages_in_total", "long"),  # counter
    ("produce_requests_total", "long"),  # counter
    ("fetch_requests_total", "long"),  # counter
    ("dir_state", "string"),  # online | offline | cordoned
    ("disk_total_bytes", "long"),
    ("disk_usable_bytes", "long"),
    ("size_bytes", "long"),
    ("offset_lag", "long"),
    ("leader", "int"),  # null: offline
    ("replicas", "ints"),
    ("in_sync", "ints"),
    ("adding", "ints"),
    ("removing", "ints"),
    ("start_offset", "long"),
    ("end_offset", "long"),
    ("committed_offset", "long"),
    ("offered_bytes_total", "long"),  # counter: what the client wanted to send or fetch
    ("served_bytes_total", "long"),  # counter: what was acknowledged or fetched
    ("errors_total", "long"),  # counter
    ("late_total", "long"),  # counter
    ("latency_p50_ms", "double"),
    ("latency_p99_ms", "double"),
)

_COLUMNS: Final[Columns] = of_raw(COLUMNS)

# Kafka writes -1 for "no offset"; a lag may be anything.
_SIGNED: Final = ("committed_offset", "offset_lag")

FORM: Final = RawSchema(
    columns=_COLUMNS,
    keys=KEYS,
    kinds=KINDS,
    negative=tuple(name for name in numbers(_COLUMNS, "bigint") if name not in _SIGNED),
    minus_one=("committed_offset",),
)


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

OWN_TABLES: Final[dict[str, Columns]] = {
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
}


MAX_WEEKS: Final = 52

WEEK_SECONDS: Final = 7 * 86400

_OF_WEEKS: Final = ("hours", "arrivals", "profiles", "days", "trends", "profile_errors")


@dataclass(frozen=True)
class ReplicasPipelineSettings(PipelineSettings):
    """Settings of the pipeline of the balancer `replicas`, and settings that all balancers share.

    Attributes
    ----------
    windows
        Number of recent windows of a load value.
    load_value
        Rule of the load value: `repaired` or `literal` (`trimtab.model.replicas.settings`).
    record_size_window_seconds
        Window over which a partition's bytes per record are measured.
    traffic_baseline_seconds
        Window of a client's usual traffic, for `traffic_collapse`.
    cpu_base
        Treatment of a broker's idle CPU in a snapshot. `apart`: subtracted from its capacity; `replicas`:
        spread evenly over its replicas.
    profile_weeks
        Number of weeks over which an hour of the week is averaged, for `replicas.load`; 0: no profiles, and
        no forecast in snapshots.
    """

    NOT_OF_TABLES = frozenset({"windows", "load_value", "cpu_base"})

    windows: Positive = 10
    load_value: Annotated[str, one_of("repaired", "literal")] = "repaired"
    record_size_window_seconds: UpToAYear = 1800.0
    traffic_baseline_seconds: UpToAYear = 300.0
    cpu_base: Annotated[str, one_of("apart", "replicas")] = "apart"
    profile_weeks: Annotated[int, Meta(ge=0, le=MAX_WEEKS)] = 0

    def of_tables(self) -> dict[str, object]:
        """The settings that stored tables depend on; of profiles only where there are any."""
        kept = super().of_tables()
        return kept if self.profile_weeks else {k: v for k, v in kept.items() if k != "profile_weeks"}

    def needed(self, table: str) -> int:
        """As for every balancer; `hours`, and what is made of them, for all weeks of profiles and trends."""
        nearest = self.windows * self.slide + self.window
        far = (self.profile_weeks + 2) * WEEK_SECONDS * SECOND if table in _OF_WEEKS else 0
        return max(super().needed(table), self.learning, self.collapse, nearest, far)

    @property
    def learning(self) -> int:
        """Reach back for bytes per record, microseconds."""
        return round(self.record_size_window_seconds * SECOND)

    @property
    def collapse(self) -> int:
        """Reach back for a client's usual traffic, microseconds."""
        return round(self.traffic_baseline_seconds * SECOND)


PIPELINE: Final = BalancerPipeline(
    name="replicas",
    resources=RESOURCES,
    settings=ReplicasPipelineSettings,
    raw=FORM,
    own_tables=OWN_TABLES,
    transformations="trimtab.observe.replicas.stages:STAGES",
    snapshots="trimtab.observe.replicas.snapshot:write_newest_snapshots",
)
