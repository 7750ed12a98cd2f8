"""What brokers can carry, as their operator declares it: the `[capacity]` table of the settings."""

from __future__ import annotations

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
        Instead of the sum that its log dirs report; spread evenly over them.
    """

    cpu_cores: float | None = None
    network_in_bytes_per_second: float | None = None
    network_out_bytes_per_second: float | None = None
    disk_bytes: float | None = None


@dataclass(frozen=True)
class CapacitySettings(BrokerCapacity):
    """The `[capacity]` table: values for all brokers, and `[capacity.brokers.<id>]` for single ones."""

    brokers: dict[str, BrokerCapacity] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot be a capacity."""
        for subject, declared in (
            ("capacity", self),
            *((f"capacity.brokers.{k}", v) for k, v in self.brokers.items()),
        ):
            for item in fields(BrokerCapacity):
                value = getattr(declared, item.name)
                if value is not None and not 0 < value < float("inf"):
                    raise SettingsError(
                        f"{subject}.{item.name} is {value}: write a number above 0, or leave it out"
                    )
        for key in self.brokers:
            if not key.isdigit():
                raise SettingsError(
                    f"capacity.brokers.{key} is not a broker id: write its number, as in [capacity.brokers.3]"
                )

    def of(self, broker: int) -> BrokerCapacity:
        """What is declared for one broker: its own table first, then the values for all."""
        own = self.brokers.get(str(broker), BrokerCapacity())
        return BrokerCapacity(
            **{
                item.name: _first(getattr(own, item.name), getattr(self, item.name))
                for item in fields(BrokerCapacity)
            }
        )


def capacity_columns(declared: BrokerCapacity) -> Mapping[str, object]:
    """The columns of a `broker` row that declare capacity."""
    return {
        "cpu_capacity_cores": declared.cpu_cores,
        "network_in_capacity_bytes_per_second": declared.network_in_bytes_per_second,
        "network_out_capacity_bytes_per_second": declared.network_out_bytes_per_second,
    }


def _first(own: float | None, shared: float | None) -> float | None:
    return shared if own is None else own
