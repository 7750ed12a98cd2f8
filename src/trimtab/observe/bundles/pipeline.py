"""The pipeline of the balancer `bundles`: raw samples of Pulsar, tables, and settings; no Spark is needed.

A raw sample is one wide row per (cluster, tick, entity), as the collector writes it. Brokers tell rates,
not counters: each row is what the broker said of the last minute, at `sampled_at`. All rows of a report
are written at once, with one `received_at`. The meaning of the columns of tables: docs/pipeline.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta

from trimtab.model.bundles.policies import BundlePolicies, IsolationPolicy
from trimtab.model.bundles.reports import TRAFFIC
from trimtab.model.bundles.snapshot import RESOURCES
from trimtab.model.documents import Amount
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
from trimtab_common.documents import SmallShare
from trimtab_common.errors import SettingsError

KINDS: Final = ("pulsar_broker", "pulsar_bundle", "pulsar_topic", "pulsar_namespace", "pulsar_client")
"""The kinds of entity that a row describes, and the columns it fills by that:

- `pulsar_broker`: owner (the broker itself), position among the cluster's brokers, broker_state, is_leader,
  load_manager, usage and limit of each resource, its own sums of traffic, bundles; `unreachable` where it did
  not answer;
- `pulsar_bundle`: owner, bundle, position (none: in the figures, but not in the list of those it owns), and
  with `has_stats` its stats_position, traffic, topics, producers, consumers;
- `pulsar_topic`: owner, bundle, topic, its traffic, producers, consumers, subscriptions, backlog, storage;
- `pulsar_namespace`: namespace, boundaries, policies (`policies_text`);
- `pulsar_client`: client, offered and served totals, errors, as for Kafka's clients.
"""

KEYS: Final = ("cluster", "tick", "kind", "owner", "bundle", "topic", "namespace", "client")
"""Two rows that agree in all of these are the same sample (null equals null)."""

COLUMNS: Final = (
    # (name, type); timestamps are UTC in microseconds, `longs` is an array of long
    ("cluster", "string"),
    ("tick", "timestamp"),  # the aligned instant this sample belongs to
    ("kind", "string"),
    ("owner", "string"),  # broker id, host:port of its web service
    ("bundle", "string"),  # tenant/namespace/0x..._0x...
    ("topic", "string"),  # persistent://tenant/namespace/topic
    ("namespace", "string"),  # tenant/namespace
    ("client", "string"),
    ("sampled_at", "timestamp"),  # when the broker made the value, or else when it was read
    ("received_at", "timestamp"),  # when the row was landed
    ("broker_state", "string"),  # alive | unreachable
    ("is_leader", "boolean"),
    ("load_manager", "string"),  # modular | extensible
    ("usage_source", "string"),  # measured | declared: the figures below are the host's, traffic counts
    ("cpu_usage", "double"),  # percent of a core
    ("cpu_limit", "double"),
    ("memory_usage", "double"),  # MB
    ("memory_limit", "double"),
    ("direct_memory_usage", "double"),  # MB
    ("direct_memory_limit", "double"),
    ("bandwidth_in_usage", "double"),  # kbit/s
    ("bandwidth_in_limit", "double"),
    ("bandwidth_out_usage", "double"),  # kbit/s
    ("bandwidth_out_limit", "double"),
    ("cpu_capacity_cores", "double"),  # as declared; null: the report's limit
    ("bandwidth_in_capacity_bytes_per_second", "double"),
    ("bandwidth_out_capacity_bytes_per_second", "double"),
    ("message_rate_capacity_per_second", "double"),
    ("weighted_max_ema", "double"),  # extensible only
    ("msg_throughput_ema", "double"),  # extensible only
    ("bundles", "long"),  # how many the broker says it owns
    ("position", "long"),  # in the list that named it: where two are equal, the order decides
    ("has_stats", "boolean"),  # False: listed as owned, without figures yet
    ("stats_position", "long"),  # of the bundle among the report's figures
    ("msg_rate_in", "double"),  # messages per second
    ("msg_rate_out", "double"),
    ("msg_throughput_in", "double"),  # bytes per second
    ("msg_throughput_out", "double"),
    ("topics", "long"),
    ("producers", "long"),
    ("consumers", "long"),
    ("subscriptions", "long"),
    ("cache_size_bytes", "long"),
    ("backlog_messages", "long"),
    ("storage_size_bytes", "long"),
    ("boundaries", "longs"),
    ("policies", "string"),  # JSON: the cluster's isolation policies and domains, the namespace's group
    ("offered_messages_total", "long"),  # counter
    ("served_messages_total", "long"),  # counter
    ("errors_total", "long"),  # counter
)

_COLUMNS: Final[Columns] = of_raw(COLUMNS)

FORM: Final = RawSchema(
    columns=_COLUMNS, keys=KEYS, kinds=KINDS, negative=numbers(_COLUMNS, "bigint", "double")
)
"""No figure of Pulsar's is ever below zero."""


def policies_text(cluster: BundlePolicies, group: str | None) -> str:
    """The column `policies` of a namespace's row: what is laid down for all, and its own group.

    Parameters
    ----------
    cluster
        Isolation policies and failure domains; any row alone holds them all.
    group
        Anti-affinity group of the namespace.
    """
    told: dict[str, object] = {}
    if cluster.isolation:
        told["isolation"] = [asdict(policy) for policy in cluster.isolation]
    if cluster.failure_domains:
        told["failure_domains"] = dict(cluster.failure_domains)
    if group is not None:
        told["anti_affinity_group"] = group
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def policies_from(texts: Mapping[str, str | None]) -> BundlePolicies:
    """The policies of a cluster out of the rows of one tick: the column `policies`, by namespace."""
    isolation: tuple[IsolationPolicy, ...] = ()
    domains: dict[str, str] = {}
    groups: dict[str, str] = {}
    for namespace, text in texts.items():
        told = json.loads(text or "{}")
        if "anti_affinity_group" in told:
            groups[namespace] = told["anti_affinity_group"]
        if "isolation" in told:
            isolation = msgspec.convert(told["isolation"], tuple[IsolationPolicy, ...])
        domains |= told.get("failure_domains", {})
    return BundlePolicies(isolation, groups, domains)


_TRAFFIC: Final = ", ".join(f"{name} double" for name in TRAFFIC)

BROKERS: Final[Columns] = columns(
    "cluster string, tick timestamp, broker string, broker_state string, is_leader boolean, "
    "load_manager string, usage_source string, elapsed_us bigint, cpu double, bandwidth_in double, "
    f"bandwidth_out double, message_rate double, {_TRAFFIC}, cpu_capacity double, "
    "bandwidth_in_capacity double, bandwidth_out_capacity double, message_rate_capacity double, "
    "bundles bigint, weighted_max_ema double, flags int"
)

BUNDLES: Final[Columns] = columns(
    "cluster string, tick timestamp, bundle string, owner string, claims int, is_known boolean, "
    f"elapsed_us bigint, {_TRAFFIC}, topics bigint, sessions bigint, flags int"
)

DEPARTURES: Final[Columns] = columns(
    "cluster string, tick timestamp, bundle string, broker string, target string, last_observed timestamp"
)

TIME_AVERAGE: Final = "struct<samples:int,means:array<double>>"
"""Means in the order of `TRAFFIC`."""

AVERAGES: Final[Columns] = columns(
    f"cluster string, tick timestamp, kind string, name string, topics bigint, short {TIME_AVERAGE}, "
    f"long {TIME_AVERAGE}, usage double, usage_ema double"
)

WINDOWS: Final[Columns] = columns(
    "cluster string, window_end timestamp, kind string, broker string, bundle string, topic string, "
    f"cpu {STATISTICS}, bandwidth_in {STATISTICS}, bandwidth_out {STATISTICS}, "
    f"message_rate {STATISTICS}, {_TRAFFIC}, topics bigint, sessions bigint, samples int, "
    "valid_share double, extrapolated boolean"
)

CPU_MODEL: Final[Columns] = columns(
    f"cluster string, window_end timestamp, method string, {_TRAFFIC}, idle_cores double, r2 double, "
    "rows int, base array<struct<broker:string,cores:double>>"
)

LOAD: Final = "struct<cpu:double,bandwidth_in:double,bandwidth_out:double,message_rate:double>"
"""Fields in the order of `trimtab.model.bundles.snapshot.RESOURCES`."""

ATTRIBUTED: Final[Columns] = columns(
    "cluster string, window_end timestamp, kind string, bundle string, topic string, broker string, "
    f"load {LOAD}, topics bigint, sessions bigint, cpu_method string, valid_share double, "
    "extrapolated boolean"
)

HOURS: Final[Columns] = columns(
    f"cluster string, window_end timestamp, bundle string, load {LOAD}, windows int"
)

FORECASTS: Final[Columns] = columns(
    f"cluster string, window_end timestamp, bundle string, target timestamp, load {LOAD}, intercept {LOAD}, "
    f"trend {LOAD}, hour_of_week {LOAD}, windows int, weeks int"
)

FORECAST_ERRORS: Final[Columns] = columns(
    f"cluster string, window_end timestamp, bundle string, made timestamp, actual {LOAD}, "
    f"error {LOAD}, error_of_latest {LOAD}"
)

IMBALANCE: Final[Columns] = (*imbalance_columns("string"), ("usage_source", "string"))

OWN_TABLES: Final[dict[str, Columns]] = {
    "brokers": BROKERS,
    "bundles": BUNDLES,
    "departures": DEPARTURES,
    "averages": AVERAGES,
    "windows": WINDOWS,
    "cpu_model": CPU_MODEL,
    "attributed": ATTRIBUTED,
    "hours": HOURS,
    "forecasts": FORECASTS,
    "forecast_errors": FORECAST_ERRORS,
    "imbalance": IMBALANCE,
}


@dataclass(frozen=True)
class BundlesPipelineSettings(PipelineSettings):
    """Settings of the pipeline of the balancer `bundles`.

    Attributes
    ----------
    recent_windows
        Number of recent windows in a snapshot.
    horizon_seconds
        Horizon of the load forecast; rounded up to whole slides.
    trend_windows
        Number of windows that intercept and trend are fitted to.
    profile_weeks
        Number of weeks over which an hour of the week is averaged; 0: none.
    departure_retention_seconds
        Time for which departures of bundles are stored; default: Pulsar's grace time.
    history_weight
        Weight of the previous value when a broker's usage is updated
        (`loadBalancerHistoryResourcePercentage`).
    usage_weights
        Weights of CPU, memory, direct memory, bandwidth in and out in a broker's usage
        (`loadBalancer...ResourceWeight`).
    """

    PLACE: ClassVar[str] = "bundles"
    NOT_OF_TABLES = frozenset({"recent_windows"})

    recent_windows: Annotated[int, Meta(ge=1, le=100)] = 3
    # The same hour a week ago must be over when it is looked up.
    horizon_seconds: Annotated[float, Meta(ge=0.001, le=6 * 86400)] = 600.0
    trend_windows: Annotated[int, Meta(ge=2, le=1000)] = 10
    profile_weeks: Annotated[int, Meta(ge=0, le=52)] = 4
    departure_retention_seconds: UpToAYear = 1800.0
    history_weight: SmallShare = 0.9
    usage_weights: tuple[Amount, ...] = (1.0, 0.0, 0.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.usage_weights) != 5:
            raise SettingsError(
                f"pipeline.bundles.usage_weights is {self.usage_weights}: give 5 numbers, none below 0"
            )

    def needed(self, table: str) -> int:
        """As for every balancer; `hours` for all weeks of forecasts."""
        nearest = max(self.recent_windows, self.trend_windows) * self.slide + self.window
        far = (self.profile_weeks + 1) * 7 * 86400 * SECOND if table == "hours" else 0
        return max(super().needed(table), self.departure, self.horizon, nearest, far)

    @property
    def departure(self) -> int:
        """The time for which departures are known, microseconds."""
        return round(self.departure_retention_seconds * SECOND)

    @property
    def horizon(self) -> int:
        """The horizon of forecasts, microseconds: whole slides, at least one."""
        return max(1, -(-round(self.horizon_seconds * SECOND) // self.slide)) * self.slide


PIPELINE: Final = BalancerPipeline(
    name="bundles",
    resources=RESOURCES,
    settings=BundlesPipelineSettings,
    raw=FORM,
    own_tables=OWN_TABLES,
    transformations="trimtab.observe.bundles.stages:STAGES",
    snapshots="trimtab.observe.bundles.snapshot:write_newest_snapshots",
)
