"""The figures that we need out of a Pulsar broker's metrics, for where its statistics are refused."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab.model.bundles.range import bundle_positions, bundles_between, topic_hashes
from trimtab.systems.pulsar.figures import TRAFFIC, Figures, SampleErrors
from trimtab.systems.pulsar.topics import TopicSample

_USAGE: Final = {
    "pulsar_lb_cpu_usage": "cpu",
    "pulsar_lb_memory_usage": "memory",
    "pulsar_lb_directMemory_usage": "direct_memory",
    "pulsar_lb_bandwidth_in_usage": "bandwidth_in",
    "pulsar_lb_bandwidth_out_usage": "bandwidth_out",
}
_SUMS: Final = {
    "pulsar_broker_rate_in": "msg_rate_in",
    "pulsar_broker_rate_out": "msg_rate_out",
    "pulsar_broker_throughput_in": "msg_throughput_in",
    "pulsar_broker_throughput_out": "msg_throughput_out",
}
_BUNDLES: Final = {
    "pulsar_bundle_msg_rate_in": "msg_rate_in",
    "pulsar_bundle_msg_rate_out": "msg_rate_out",
    "pulsar_bundle_msg_throughput_in": "msg_throughput_in",
    "pulsar_bundle_msg_throughput_out": "msg_throughput_out",
    "pulsar_bundle_topics_count": "topics",
    "pulsar_bundle_producer_count": "producers",
    "pulsar_bundle_consumer_count": "consumers",
}
_TOPICS: Final = {
    "pulsar_rate_in": "msg_rate_in",
    "pulsar_rate_out": "msg_rate_out",
    "pulsar_throughput_in": "msg_throughput_in",
    "pulsar_throughput_out": "msg_throughput_out",
    "pulsar_producers_count": "producers",
    "pulsar_consumers_count": "consumers",
    "pulsar_subscriptions_count": "subscriptions",
    "pulsar_msg_backlog": "backlog_messages",
    "pulsar_storage_size": "storage_size_bytes",
}
_METRICS_READ: Final = {*_USAGE, *_SUMS, *_BUNDLES, *_TOPICS}

_SAMPLE = re.compile(r"(\w+)\s*(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class BrokerMetrics:
    """One scrape.

    Attributes
    ----------
    percents
        Of its resources, by prefix of the raw columns.
    sums
        The broker's own traffic.
    bundles
        By key; the modular load manager tells them if `exposeBundlesMetricsInPrometheus` is set.
    topics
        By full name; told if `exposeTopicLevelMetricsInPrometheus` is set.
    """

    percents: Figures = field(default_factory=dict)
    sums: Figures = field(default_factory=dict)
    bundles: dict[str, Figures] = field(default_factory=dict)
    topics: dict[str, Figures] = field(default_factory=dict)

    @property
    def complete_bundles(self) -> dict[str, Figures]:
        """Bundles of which all traffic is told."""
        return {name: found for name, found in self.bundles.items() if found.keys() >= TRAFFIC.keys()}


def read_metrics(text: str, broker: str, faults: SampleErrors) -> BrokerMetrics:
    """Pick a broker's figures out of the text format of Prometheus (Pulsar 4.0 and 4.2)."""
    found = BrokerMetrics()
    for line in text.splitlines():
        if line.partition("{")[0].partition(" ")[0] not in _METRICS_READ:
            continue
        sample = _SAMPLE.fullmatch(line)
        value = None if sample is None else _number(sample[3])
        if sample is None or value is None:
            faults.note(f"broker {broker}", "metric", f"has a metric {line.partition('{')[0]} of no number")
            continue
        name, labels = sample[1], dict(_LABEL.findall(sample[2] or ""))
        if name in _USAGE:
            found.percents[_USAGE[name]] = value
        elif name in _SUMS:
            found.sums[_SUMS[name]] = value
        elif name in _BUNDLES and "bundle" in labels:
            found.bundles.setdefault(labels["bundle"], {})[_BUNDLES[name]] = value
        elif name in _TOPICS and "topic" in labels:
            found.topics.setdefault(labels["topic"], {})[_TOPICS[name]] = value
    return found


def topics_of(metrics: BrokerMetrics, boundaries: Mapping[str, tuple[int, ...]]) -> tuple[TopicSample, ...]:
    """Topics with their bundles, which metrics do not name: their hashes and the namespaces' boundaries tell.

    Topics of other namespaces are left out.
    """
    by_namespace: dict[str, list[str]] = {}
    for topic, found in metrics.topics.items():
        namespace = "/".join(topic.partition("://")[2].split("/")[:2])
        if namespace in boundaries and found.keys() >= TRAFFIC.keys():
            by_namespace.setdefault(namespace, []).append(topic)
    samples = []
    for namespace, topics in by_namespace.items():
        cuts = boundaries[namespace]
        bundles = bundles_between(namespace, cuts)
        for topic, place in zip(topics, bundle_positions(cuts, topic_hashes(topics)), strict=True):
            counts = dict.fromkeys(("producers", "consumers"), 0.0)
            samples.append(TopicSample(bundles[int(place)].key, topic, counts | metrics.topics[topic]))
    return tuple(samples)


def usage_of(metrics: BrokerMetrics, capacity: Mapping[str, object]) -> dict[str, tuple[float, float]]:
    """Percentages as usage and limit in the units of reports, where `capacity_columns` declare a limit."""
    # Percent of a core, kbit/s.
    scales = {
        "cpu": ("cpu_capacity_cores", 100.0),
        "bandwidth_in": ("bandwidth_in_capacity_bytes_per_second", 8e-3),
        "bandwidth_out": ("bandwidth_out_capacity_bytes_per_second", 8e-3),
    }
    found = {}
    for resource, (column, scale) in scales.items():
        declared, percent = capacity[column], metrics.percents.get(resource)
        if isinstance(declared, int | float) and percent is not None:
            limit = declared * scale
            found[resource] = (percent / 100 * limit, limit)
    return found


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
