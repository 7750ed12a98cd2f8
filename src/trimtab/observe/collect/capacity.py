"""Capacities of brokers, as their operator declares them: the `[capacity]` table of the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from trimtab.model.errors import SettingsError


@dataclass(frozen=True)
class BrokerCapacity:
    """One broker's capacities; None is not declared.

    Attributes
    ----------
    cpu_cores
        Cores, or the limit of its container.
    network_in_bytes_per_second, network_out_bytes_per_second
        Of its network interface, or what may be used of it.
    disk_bytes
        Instead of the sum that its log dirs report; spread evenly over them. Kafka only.
    message_rate_per_second
        Messages in and out together. Pulsar only.
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
    """The `[capacity]` table: values for all brokers, and `[capacity.brokers.<id>]` for single ones.

    Attributes
    ----------
    brokers
        By broker id (of Pulsar: `host:port` of its web service), the keys of `BrokerCapacity` that differ
        there.
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
            raise SettingsError(f"{subject}.{key} is not a setting: known are {', '.join(KEYS)}")
        if value is not None and not 0 < value < float("inf"):
            raise SettingsError(f"{subject}.{key} is {value}: write a number above 0, or leave it out")
