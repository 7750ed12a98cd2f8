"""Kafka's replication throttle: a rate measured over a window of samples, not a steady tap.

A sensor lets bytes pass while (bytes in the window) / (seconds of the window) is within the limit. A fresh
sensor counts its window as full, so about (samples - 1) seconds' worth pass at once, and then nothing until
that burst leaves the window: 60 MB at 5 MB/s with 11 samples take 12 s, at 20 MB/s no time at all.
"""

import math
from collections.abc import Mapping

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

BROKER_THROTTLES = (LEADER_RATE, FOLLOWER_RATE)
TOPIC_THROTTLES = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


def lists_replica(value: str | None, partition: int, broker: int) -> bool:
    """Whether a topic's list of throttled replicas (`p:b,p:b` or `*`) names this one."""
    if not value:
        return False
    return value.strip() == "*" or f"{partition}:{broker}" in value.split(",")


def is_replica_list(value: str) -> bool:
    """Whether Kafka would accept this value as a list of throttled replicas."""
    if value.strip() in ("", "*"):
        return True
    pairs = [pair.split(":") for pair in value.split(",")]
    return all(len(pair) == 2 and all(part.strip().isdigit() for part in pair) for pair in pairs)


class QuotaMeter:
    """Bytes that passed one broker in one direction, in samples of one second.

    Parameters
    ----------
    samples
        `replication.quota.window.num` of the brokers.
    """

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self._bytes: dict[int, float] = {}

    def allowance(self, now: float, bytes_per_second: float) -> float:
        """Bytes that may still pass at this instant under a limit."""
        self._forget(now)
        elapsed = now - min(self._bytes, default=math.floor(now))
        window = elapsed + max(0, self.samples - 1 - math.floor(elapsed))
        return max(0.0, bytes_per_second * window - sum(self._bytes.values()))

    def record(self, now: float, passed: float) -> None:
        """Count bytes that passed during the second that `now` lies in."""
        second = math.floor(now)
        self._bytes[second] = self._bytes.get(second, 0.0) + passed

    def _forget(self, now: float) -> None:
        self._bytes = {
            second: passed for second, passed in self._bytes.items() if now - second < self.samples
        }


def rate_limit(own: Mapping[str, str], default: Mapping[str, str], key: str) -> float:
    """Bytes per second from a broker's own configuration, else the cluster's default, else infinite."""
    value = own.get(key, default.get(key))
    return math.inf if value is None else float(value)
