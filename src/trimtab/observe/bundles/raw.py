"""Raw samples of a Pulsar cluster: one wide row per (cluster, tick, entity), as its collector lands them.

Brokers tell rates, not counters: each row is what the broker said of the last minute, at `sampled_at`. All
rows of a report are landed at once, with one `received_at`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import msgspec

from trimtab.model.bundles.policies import BundlePolicies, IsolationPolicy
from trimtab.observe.columns import Columns, RawSchema, numbers, of_raw

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
    told: dict[str, Any] = {}
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
