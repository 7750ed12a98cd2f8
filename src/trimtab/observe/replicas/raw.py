"""Raw samples: one wide row per (cluster, tick, entity), as collectors land them and the pipeline reads them.

The same columns whether a row lies in a Parquet file of the lake or is a JSON value in a Kafka topic.
Counters are monotonic totals as the system reports them (they reset when a broker restarts); rates are the
pipeline's business.
"""

from typing import Final

from trimtab.observe.columns import Columns, RawSchema, numbers, of_raw

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
