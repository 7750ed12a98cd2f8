"""The resources of the balancer `replicas`, in the order that every load array uses."""

from typing import Final

RESOURCES: Final = ("cpu", "disk", "network_in", "network_out")

CPU, DISK, NETWORK_IN, NETWORK_OUT = range(4)

UNITS: Final = {
    "cpu": "cores",
    "disk": "bytes",
    "network_in": "bytes per second",
    "network_out": "bytes per second",
}
