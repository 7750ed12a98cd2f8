"""Declared capacities."""

import pytest

from trimtab.balancers.settings import read_settings
from trimtab.observe.collect.settings import BrokerCapacity, CapacitySettings
from trimtab_common.errors import SettingsError


def declared(*overrides: str) -> CapacitySettings:
    """The table that these settings make."""
    settings = read_settings(None, [f"capacity.{text}" for text in overrides], {})
    return settings.section("capacity", CapacitySettings)


def test_a_broker_has_its_own_values_before_those_for_all() -> None:
    """One big broker among small ones needs one line."""
    found = declared("cpu_cores=8", "network_in_bytes_per_second=1.25e8", "brokers.3.cpu_cores=16")
    assert found.of(1) == BrokerCapacity(cpu_cores=8, network_in_bytes_per_second=1.25e8)
    assert found.of(3) == BrokerCapacity(cpu_cores=16, network_in_bytes_per_second=1.25e8)


def test_nothing_declared_is_no_capacity() -> None:
    """Without a declaration nothing is invented."""
    assert declared().of(1) == BrokerCapacity()


@pytest.mark.parametrize(
    "override",
    [
        "cpu_cores=0",
        "cpu_cores=-1",
        "disk_bytes=inf",
        "cores=3",
        "cpu_cores=many",
        "brokers.one.cpu_cores=3",
        "brokers.1.cores=3",
        "brokers.1.cpu_cores=0",
        "brokers.1.cpu_cores=nan",
    ],
)
def test_invalid_capacities_are_rejected(override: str) -> None:
    """A zero, an infinity or a misspelt key would make a broker look empty or full."""
    with pytest.raises(SettingsError, match="capacity"):
        declared(override)
