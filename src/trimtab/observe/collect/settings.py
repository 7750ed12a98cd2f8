"""The tables `[collect]` and `[capacity]` of trimtab.toml, and findings on capacities that are not known."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from trimtab.model.errors import Finding, fine, missing
from trimtab.model.load import resource_name
from trimtab_common.documents import one_of
from trimtab_common.errors import SettingsError, did_you_mean
from trimtab_common.settings import check_values


@dataclass(frozen=True)
class BrokerCapacity:
    """Capacities of one broker; None: not declared.

    Attributes
    ----------
    cpu_cores
        Cores, or the container's limit.
    network_in_bytes_per_second
        Maximum receive rate of the network interface, or the usable part of it.
    network_out_bytes_per_second
        Maximum send rate of the network interface, or the usable part of it.
    disk_bytes
        Replaces the sum that the log dirs report; spread evenly over them. Kafka only.
    message_rate_per_second
        Messages per second, in and out together. Pulsar only.
    """

    cpu_cores: float | None = None
    network_in_bytes_per_second: float | None = None
    network_out_bytes_per_second: float | None = None
    disk_bytes: float | None = None
    message_rate_per_second: float | None = None


_ADDRESS = re.compile(r"\S+:\d+")

KEYS = tuple(item.name for item in fields(BrokerCapacity))


@dataclass(frozen=True)
class CapacitySettings(BrokerCapacity):
    """Capacities of all brokers, and in `[capacity.brokers.<id>]` of single brokers.

    Attributes
    ----------
    brokers
        Keys that differ on single brokers, by broker id (Pulsar: `host:port` of the web service).
    """

    brokers: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot be a capacity."""
        _check("capacity", {key: getattr(self, key) for key in KEYS})
        for broker, own in self.brokers.items():
            if not broker.isdigit() and not _ADDRESS.fullmatch(broker):
                raise SettingsError(
                    f"capacity.brokers.{broker} is not a broker id: write its number, like "
                    '[capacity.brokers.3], or for Pulsar its address, like [capacity.brokers."broker1:8080"]'
                )
            _check(f"capacity.brokers.{broker}", own)

    def of(self, broker: int | str) -> BrokerCapacity:
        """Capacities declared for one broker: its own table first, then the values for all."""
        own = self.brokers.get(str(broker), {})
        return BrokerCapacity(**{key: own.get(key, getattr(self, key)) for key in KEYS})


def _check(subject: str, declared: Mapping[str, float | None]) -> None:
    for key, value in declared.items():
        if key not in KEYS:
            hint = did_you_mean(key, KEYS, f"known are {', '.join(KEYS)}", f"{subject}.")
            raise SettingsError(f"{subject}.{key} is not a setting; {hint}")
        if value is not None and not 0 < value < float("inf"):
            raise SettingsError(f"{subject}.{key} is {value}: write a number above 0, or leave it out")


@dataclass(frozen=True)
class PulsarCollectSettings:
    """Settings for Pulsar only.

    Attributes
    ----------
    usage
        Source of brokers' usage. `measured`: each broker's own report; `declared`: its message traffic over
        declared capacities; `auto`: measured, unless several brokers of one host report the same figures of
        their host.
    topics
        Whether topics are sampled. Without them hot topics are not found.
    metrics
        Whether brokers' metrics are read if brokers deny their statistics or have not yet published a report.
    """

    usage: Annotated[str, one_of("auto", "measured", "declared")] = "auto"
    topics: bool = True
    metrics: bool = True


@dataclass(frozen=True)
class CollectSettings:
    """Settings of the collector.

    Attributes
    ----------
    interval_seconds
        Time between two ticks. Bytes per partition come from size growth, so keep it well below retention: 30
        to 60 s has no bias, 300 s misses 6 % of a cluster's traffic.
    timeout_seconds
        Time-out of one broker's response; none: a third of the interval, at most 10 s.
    cluster
        Name of the cluster in samples; none: the cluster's own id.
    prometheus
        Addresses of the brokers' JMX exporters: a URL with `{host}` and `{id}`, or a table from broker id to
        address.
    topic_label
        Label of the topic in the exporters' metrics; none: `topic`, or a label whose values are all topic
        names.
    hosts
        Machine of each broker, by broker id, if the advertised address does not show it.
    groups
        Whether committed offsets of consumer groups are read.
    client_samples
        Files, or glob patterns of files, of JSON lines that producers and consumers write about themselves.
    pulsar
        The table `[collect.pulsar]`.
    """

    interval_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 30.0
    timeout_seconds: float | None = None
    cluster: str | None = None
    prometheus: str | dict[str, str] | None = None
    topic_label: str | None = None
    hosts: dict[str, str] = field(default_factory=dict)
    groups: bool = True
    client_samples: tuple[Path, ...] = ()
    pulsar: PulsarCollectSettings = PulsarCollectSettings()

    def __post_init__(self) -> None:
        check_values(self, lambda name: f"collect.{name}")
        if self.timeout_seconds is not None and not 0 < self.timeout_seconds <= self.interval_seconds:
            raise SettingsError(
                f"collect.timeout_seconds is {self.timeout_seconds}: write more than 0 and at most "
                f"collect.interval_seconds ({self.interval_seconds:g}), or leave it out"
            )
        for key in self.hosts:
            if not key.isdigit():
                raise SettingsError(
                    f'collect.hosts has the key {key!r}: keys are broker ids, as in "1" = "rack3-node7"'
                )
        if self.cluster is not None and not self.cluster.strip():
            raise SettingsError(
                "collect.cluster is empty: name the cluster, or leave it out to use its own id"
            )

    @property
    def request_timeout_seconds(self) -> float:
        """The configured time-out, or a third of the interval (at most 10 s)."""
        return min(10.0, self.interval_seconds / 3) if self.timeout_seconds is None else self.timeout_seconds


def unknown_ids(settings: CollectSettings, capacity: CapacitySettings, known: Collection[int]) -> list[str]:
    """A sentence for each broker id that the settings name and a Kafka cluster does not have.

    Parameters
    ----------
    known
        Ids of all brokers of the cluster, also of those that are down.
    """
    exporters = settings.prometheus if isinstance(settings.prometheus, dict) else {}
    found = []
    for section, table in (
        ("capacity.brokers", [name for name in capacity.brokers if name.isdigit()]),
        ("collect.hosts", settings.hosts),
        ("collect.prometheus", exporters),
    ):
        for name in table:
            if int(name) not in known:
                hint = _nearest(name, map(str, sorted(known)), section)
                found.append(f"{section}.{name}: the cluster has no broker {name}; {hint}")
    return found


def unknown_addresses(capacity: CapacitySettings, known: Collection[str]) -> list[str]:
    """A sentence for each address in `[capacity.brokers]` at which no broker of a Pulsar cluster serves."""
    return [
        f"capacity.brokers.{name}: no broker {name} is in service; "
        f"{_nearest(name, known, 'capacity.brokers')}"
        for name in capacity.brokers
        if not name.isdigit() and name not in known
    ]


def _nearest(name: str, known: Iterable[str], section: str) -> str:
    return did_you_mean(name, known, "correct it or take it out", f"{section}.")


LONGEST_LIST = 5


@dataclass(frozen=True)
class KnownCapacity:
    """One resource's capacities.

    Attributes
    ----------
    setting
        Key of `[capacity]` that declares it.
    origin
        By broker, where its capacity is from, `declared` or in other words; None where it has none.
    """

    resource: str
    setting: str
    origin: Mapping[int | str, str | None]


def capacity_findings(part: str, known: KnownCapacity, meaning: str) -> Iterator[Finding]:
    """One finding on a resource.

    Parameters
    ----------
    meaning
        What plans do where it is missing.
    """
    subject = f"capacity of {resource_name(known.resource)}"
    lacking = [str(broker) for broker, origin in known.origin.items() if origin is None]
    if not lacking:
        ways = Counter(origin for origin in known.origin.values() if origin is not None)
        yield fine(part, subject, ", ".join(f"{way} for {number}" for way, number in ways.items()))
        return
    if len(lacking) == len(known.origin):
        whom = "any broker"
    else:
        more = f" and {len(lacking) - LONGEST_LIST} more" if len(lacking) > LONGEST_LIST else ""
        whom = f"{'broker' if len(lacking) == 1 else 'brokers'} {', '.join(lacking[:LONGEST_LIST])}{more}"
    yield missing(part, subject, f"not known of {whom}: {meaning}", f"set capacity.{known.setting}")
