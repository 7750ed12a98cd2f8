"""Figures of topics and bundles: statistics, their sums, and metrics where statistics are refused.

A bundle is counted once: by its broker's report, by what the broker owns now, and by its topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from trimtab.model.bundles.snapshot import (
    BundleRange,
    bundle_positions,
    bundles_between,
    parse_bundle,
    topic_hashes,
)
from trimtab.observe.collect.prometheus import metric_name, read_sample
from trimtab.systems.pulsar.reports import TRAFFIC, Figures, SampleErrors, figure, figures
from trimtab_common.errors import InputError


@dataclass(frozen=True)
class TopicSample:
    """One topic at one broker."""

    bundle: str
    topic: str
    figures: Figures


def topic_samples(text: Mapping[str, object], broker: str, faults: SampleErrors) -> tuple[TopicSample, ...]:
    """The sound part of the answer to `broker-stats/topics`; a topic whose traffic cannot be is left out."""
    subject = f"broker {broker}"
    return tuple(
        sample
        for bundle, topic, one in _topics(text, subject, faults)
        if (sample := _topic_sample(bundle, topic, one, subject, faults)) is not None
    )


def bundle_sums(samples: Iterable[TopicSample]) -> dict[str, Figures]:
    """Figures of bundles as brokers compute them (`PulsarStats.updateStats`): the sums of their topics'."""
    sums: dict[str, Figures] = {}
    for sample in samples:
        total = sums.setdefault(
            sample.bundle, dict.fromkeys((*TRAFFIC, "topics", "producers", "consumers"), 0.0)
        )
        total["topics"] += 1
        for column in (*TRAFFIC, "producers", "consumers"):
            total[column] += sample.figures[column]
    return sums


def _topics(
    text: Mapping[str, object], subject: str, faults: SampleErrors
) -> Iterator[tuple[str, str, object]]:
    """Bundle, topic and statistics of every topic."""
    for namespace, ranges in text.items():
        for name, kinds in _members(ranges):
            bundle = f"{namespace}/{name}"
            try:
                parse_bundle(bundle)
            except InputError:
                faults.note(subject, "name", f'has topics in "{bundle}", which is no bundle\'s name')
                continue
            for _, topics in _members(kinds):
                for topic, one in _members(topics):
                    yield bundle, topic, one


def _topic_sample(
    bundle: str, topic: str, text: object, subject: str, faults: SampleErrors
) -> TopicSample | None:
    if not isinstance(text, dict):
        faults.note(subject, "topic", f"tells no figures of {topic}")
        return None
    found = figures(text, TRAFFIC, subject, f" of {topic}", faults)
    if len(found) < len(TRAFFIC):
        return None
    subscriptions = [one for _, one in _members(text.get("subscriptions")) if isinstance(one, dict)]
    publishers = text.get("publishers")
    found["producers"] = float(len(publishers) if isinstance(publishers, list) else 0)
    found["consumers"] = float(sum(_length(one.get("consumers")) for one in subscriptions))
    found["subscriptions"] = float(len(subscriptions))
    backlogs = [figure(one, "msgBacklog", subject, f" of {topic}", faults) for one in subscriptions]
    if None not in backlogs:
        found["backlog_messages"] = sum(one or 0.0 for one in backlogs)
    if "storageSize" in text:  # topics that are not persistent have none
        stored = figure(text, "storageSize", subject, f" of {topic}", faults)
        if stored is not None:
            found["storage_size_bytes"] = stored
    return TopicSample(bundle, topic, found)


def _members(value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else 0


@dataclass(frozen=True)
class BundleSample:
    """One bundle at one broker.

    Attributes
    ----------
    position
        In the list of those that the broker owns; None: it has figures of it, and no longer owns it.
    figures, stats_position
        None where it has none yet.
    """

    bundle: str
    position: int | None
    figures: Figures | None
    stats_position: int | None


def bundle_samples(
    reported: Sequence[str],
    stats: Mapping[str, Figures],
    owned: Sequence[str] | None,
    sums: Mapping[str, Figures],
) -> tuple[BundleSample, ...]:
    """One broker's bundles.

    A report lags: brokers renew its bundles once a minute. What is owned is asked anew, so that a bundle that
    has just moved has its owner; and the sums of its topics are its figures until the report has some.

    Parameters
    ----------
    reported, stats
        Of the report, in its order.
    owned
        Owned at this moment; None where the broker did not tell: those reported.
    sums
        Of the statistics of its topics.
    """
    still = set(reported if owned is None else owned)
    now = [*(one for one in reported if one in still), *(owned or ())]
    positions = {bundle: place for place, bundle in enumerate(dict.fromkeys(now))}
    told = {**stats, **{bundle: found for bundle, found in sums.items() if bundle not in stats}}
    places = {bundle: place for place, bundle in enumerate(told)}
    return tuple(
        BundleSample(bundle, positions.get(bundle), told.get(bundle), places.get(bundle))
        for bundle in dict.fromkeys([*positions, *told])
    )


def current_bundles(
    by_broker: Mapping[str, Sequence[BundleSample]],
    boundaries: Mapping[str, Sequence[int]],
    faults: SampleErrors,
) -> dict[str, tuple[BundleSample, ...]]:
    """The same without bundles that are none of their namespace, and without any that overlap.

    Parameters
    ----------
    by_broker
        Samples of every broker.
    boundaries
        Of namespaces, read after the brokers were asked: what does not fit was split or merged meanwhile. A
        namespace that is missing is not known; of bundles that overlap there the narrowest stay, since
        splits make them narrower.
    """
    known = {name: {one.key for one in bundles_between(name, cuts)} for name, cuts in boundaries.items()}
    found: dict[str, list[BundleSample]] = {broker: [] for broker in by_broker}
    unsure: dict[str, tuple[BundleRange, str]] = {}
    for broker, samples in by_broker.items():
        for sample in samples:
            namespace = sample.bundle.rpartition("/")[0]
            if namespace not in known:
                unsure[sample.bundle] = (parse_bundle(sample.bundle), broker)
            elif sample.bundle not in known[namespace]:
                faults.note(
                    f"broker {broker}",
                    "unknown",
                    f"tells of {sample.bundle}, which is no bundle of its namespace (any more)",
                )
                continue
            found[broker].append(sample)
    dropped = _overlapping(unsure.values(), faults)
    return {
        broker: tuple(sample for sample in samples if sample.bundle not in dropped)
        for broker, samples in found.items()
    }


def are_valid_boundaries(boundaries: Sequence[int]) -> bool:
    """True if they cut all hashes into bundles that do not overlap."""
    return (
        len(boundaries) > 1
        and boundaries[0] == 0
        and boundaries[-1] == 0xFFFFFFFF
        and all(low < high for low, high in pairwise(boundaries))
    )


def _overlapping(bundles: Iterable[tuple[BundleRange, str]], faults: SampleErrors) -> set[str]:
    """Keys of those that overlap a narrower one."""
    kept: list[BundleRange] = []
    dropped: set[str] = set()
    ordered = sorted(bundles, key=lambda one: (one[0].namespace, one[0].high - one[0].low, one[0].low))
    for bundle, broker in ordered:
        clash = next((one for one in kept if one.overlaps(bundle)), None)
        if clash is None:
            kept.append(bundle)
            continue
        dropped.add(bundle.key)
        faults.note(f"broker {broker}", "overlap", f"tells of {bundle.key}, which overlaps {clash.key}")
    return dropped


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
        name = metric_name(line)
        if name not in _METRICS_READ:
            continue
        labels, value = read_sample(line) or ({}, None)
        if value is None:
            faults.note(f"broker {broker}", "metric", f"has a metric {name} of no number")
            continue
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
