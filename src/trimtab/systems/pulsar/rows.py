"""Rows of a tick: brokers, bundles, topics and namespaces, as `.raw` has them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab.model.bundles.policies import is_heartbeat_or_sla
from trimtab.observe.collect.settings import BrokerCapacity
from trimtab.observe.collect.sinks import RowBatch, RowBatchBuilder, whole_number
from trimtab.systems.pulsar.bundles import BundleSample
from trimtab.systems.pulsar.figures import TRAFFIC, Figures
from trimtab.systems.pulsar.namespaces import NamespacesSample
from trimtab.systems.pulsar.report import RESOURCES
from trimtab.systems.pulsar.topics import TopicSample

_USAGE: Final = tuple(f"{name}_{part}" for name in RESOURCES for part in ("usage", "limit"))
CAPACITY: Final = {
    "cpu_capacity_cores": "cpu_cores",
    "bandwidth_in_capacity_bytes_per_second": "network_in_bytes_per_second",
    "bandwidth_out_capacity_bytes_per_second": "network_out_bytes_per_second",
    "message_rate_capacity_per_second": "message_rate_per_second",
}
"""Columns that declare capacity, and fields of `BrokerCapacity`."""

_COUNTS: Final = ("topics", "producers", "consumers", "cache_size_bytes")
_TOPIC_COUNTS: Final = ("producers", "consumers", "subscriptions", "backlog_messages", "storage_size_bytes")


@dataclass(frozen=True)
class BrokerSample:
    """One broker of a tick, ready to be written.

    Attributes
    ----------
    source
        `measured`, or `declared`: usage is the host's then, and traffic over capacity stands for it.
    usage
        (usage, limit) by prefix of the columns, as the broker reports them.
    capacity
        Columns that declare it.
    sampled_at, read_at
        When the broker made its report, and when it was asked.
    """

    broker: str
    reachable: bool
    read_at: datetime.datetime
    sampled_at: datetime.datetime
    capacity: Mapping[str, object]
    source: str = "measured"
    load_manager: str | None = None
    usage: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    traffic: Figures = field(default_factory=dict)
    bundles: tuple[BundleSample, ...] = ()
    topics: tuple[TopicSample, ...] = ()
    weighted_max_ema: float | None = None
    msg_throughput_ema: float | None = None


def capacity_columns(declared: BrokerCapacity) -> dict[str, float | None]:
    """Columns of a `pulsar_broker` row that declare capacity."""
    return {column: getattr(declared, field) for column, field in CAPACITY.items()}


def broker_batch(brokers: Iterable[BrokerSample], leader: str | None) -> RowBatch:
    """One row per broker, also for those that do not answer."""
    writer = RowBatchBuilder(
        "pulsar_broker",
        *("owner", "position", "sampled_at", "broker_state", "is_leader", "load_manager", "usage_source"),
        *_USAGE,
        *CAPACITY,
        *("weighted_max_ema", "msg_throughput_ema", "bundles"),
        *TRAFFIC,
    )
    for position, one in enumerate(brokers):
        pairs = (one.usage.get(name, (None, None)) for name in RESOURCES)
        owned = sum(sample.position is not None for sample in one.bundles)
        writer.add(
            one.broker,
            position,
            one.sampled_at,
            "alive" if one.reachable else "unreachable",
            None if leader is None else one.broker == leader,
            one.load_manager,
            one.source if one.reachable else None,
            *(value for pair in pairs for value in pair),
            *(one.capacity[name] for name in CAPACITY),
            one.weighted_max_ema,
            one.msg_throughput_ema,
            owned if one.reachable else None,
            *(one.traffic.get(name) for name in TRAFFIC),
        )
    return writer.batch()


def bundle_batches(brokers: Iterable[BrokerSample]) -> Iterable[RowBatch]:
    """A batch per broker, a row per bundle that it owns or has figures of."""
    for one in brokers:
        writer = RowBatchBuilder(
            "pulsar_bundle",
            *("bundle", "position", "has_stats", "stats_position"),
            *TRAFFIC,
            *_COUNTS,
            owner=one.broker,
            sampled_at=one.sampled_at,
        )
        for sample in one.bundles:
            found = sample.figures or {}
            writer.add(
                sample.bundle,
                sample.position,
                sample.figures is not None,
                sample.stats_position,
                *(found.get(name) for name in TRAFFIC),
                *(whole_number(found.get(name)) for name in _COUNTS),
            )
        yield writer.batch()


def topic_batches(brokers: Iterable[BrokerSample]) -> Iterable[RowBatch]:
    """A batch per broker, a row per topic; the topics by which brokers probe themselves are left out."""
    for one in brokers:
        writer = RowBatchBuilder(
            "pulsar_topic",
            *("bundle", "topic"),
            *TRAFFIC,
            *_TOPIC_COUNTS,
            owner=one.broker,
            sampled_at=one.read_at,
        )
        for sample in one.topics:
            if not is_heartbeat_or_sla(sample.bundle.rpartition("/")[0]):
                writer.add(
                    sample.bundle,
                    sample.topic,
                    *(sample.figures.get(name) for name in TRAFFIC),
                    *(whole_number(sample.figures.get(name)) for name in _TOPIC_COUNTS),
                )
        yield writer.batch()


def namespace_batch(found: NamespacesSample, read_at: datetime.datetime) -> RowBatch:
    """One row per namespace."""
    writer = RowBatchBuilder("pulsar_namespace", "namespace", "boundaries", "policies", sampled_at=read_at)
    for name, boundaries in found.boundaries.items():
        writer.add(name, list(boundaries), found.policies.get(name))
    return writer.batch()
