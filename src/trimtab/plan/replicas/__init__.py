"""The level `replicas`: Kafka leaders and replicas to brokers."""

from typing import Final

GOALS: Final = {
    "rack": "no rack holds more than ceil(replicas / racks) of a partition",
    "host": "no host holds more than ceil(replicas / hosts) of a partition",
    "theta": "no broker uses more than theta of any capacity",
    "epsilon": "no broker's utilisation deviates from the mean by more than epsilon of it",
}
"""Goals that a plan can be asked for, by name. Emptying dead and draining brokers and offline log dirs, and
giving leaderless partitions a leader, is always part of a plan."""
