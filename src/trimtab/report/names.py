"""What people call the resources of the levels."""

from typing import Final

NAMES: Final = {
    "cpu": "CPU",
    "disk": "disk",
    "network_in": "network in",
    "network_out": "network out",
    "bandwidth_in": "bandwidth in",
    "bandwidth_out": "bandwidth out",
    "message_rate": "message rate",
}
"""By the names that load arrays and files have."""


def broker_name(broker: int | str) -> str:
    """How a broker is called in tables and pictures: Kafka's by number, Pulsar's by address."""
    return f"broker {broker}" if isinstance(broker, int) else broker
