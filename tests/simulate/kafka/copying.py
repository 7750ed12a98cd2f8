"""Replicas catch up: brokers share their bandwidth evenly among copies, throttles hold copies back."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from simulate.kafka.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    WHOLE_CLUSTER,
    QuotaMeter,
    ResourceType,
    lists_replica,
    rate_limit,
)
from simulate.kafka.shared import ClusterState
from simulate.kafka.state import (
    SimulatedPartition,
    SimulatedReplica,
)

CAUGHT_UP_BYTES = 1.0
"""A replica this close to its leader counts as in sync; below one byte only rounding is left."""

DIR_COPY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@dataclass(frozen=True)
class Copy:
    """A replica that is catching up with its leader over the network."""

    partition: SimulatedPartition
    source: int
    target: int
    bytes_per_second: float
    limits: tuple[tuple[str, int, float], ...]
    """(direction, broker, bytes per second) of every throttle that holds this copy back."""

    @property
    def remaining(self) -> float:
        """Bytes still to copy, apart from what will be written meanwhile."""
        return self.partition.size_bytes - self.partition.held[self.target].bytes


class Copying:
    """Moves bytes between the brokers of one cluster.

    Parameters
    ----------
    samples
        `replication.quota.window.num` of the brokers.
    dir_bytes_per_second
        Speed of a copy between two log dirs of one broker.
    """

    def __init__(self, state: ClusterState, samples: int, dir_bytes_per_second: float) -> None:
        self._brokers, self._partitions, self._configs = state.brokers, state.partitions, state.configs
        self._samples = samples
        self._dir_bytes_per_second = dir_bytes_per_second
        self._meters: dict[tuple[str, int], QuotaMeter] = {}
        self.copied_bytes = 0.0

    def copies(self) -> list[Copy]:
        """Every copy that can go on at this instant, with its fair share of bandwidth."""
        pairs = list(self._pairs())
        senders = Counter(partition.leader for partition, _ in pairs)
        receivers = Counter(target for _, target in pairs)
        found = []
        for partition, target in pairs:
            source = partition.leader
            assert source is not None
            rate = min(
                self._brokers[source].copy_bytes_per_second / senders[source],
                self._brokers[target].copy_bytes_per_second / receivers[target],
            )
            found.append(Copy(partition, source, target, rate, self._limits(partition, source, target)))
        return found

    def caught_up(self) -> list[tuple[SimulatedPartition, int]]:
        """Replicas that may join the in-sync set now."""
        return [
            (partition, target)
            for partition, target in self._pairs()
            if partition.size_bytes - partition.held[target].bytes <= CAUGHT_UP_BYTES
        ]

    def seconds_until_change(self, now: float, copies: Sequence[Copy]) -> float:
        """Until the first copy is done or a throttle's window moves on; infinite where nothing is copied."""
        soonest = math.inf
        for copy in copies:
            gain = copy.bytes_per_second - copy.partition.growth_bytes_per_second
            if copy.remaining > CAUGHT_UP_BYTES:
                soonest = min(soonest, copy.remaining / gain if gain > 0 else 1.0)
            if copy.limits:
                soonest = min(soonest, math.floor(now) + 1 - now)
        for broker, partition, replica in self._dir_moves():
            left = partition.bytes_on(broker) - replica.future_bytes
            soonest = min(soonest, left / self._dir_rate(broker))
        return max(soonest, 1e-6)

    def pass_time(self, now: float, seconds: float, copies: Sequence[Copy]) -> None:
        """Copy for a while that is no longer than `seconds_until_change`."""
        users = Counter(limit[:2] for copy in copies for limit in copy.limits)
        allowances = {
            limit[:2]: self._meter(limit[:2]).allowance(now, limit[2])
            for copy in copies
            for limit in copy.limits
        }
        for copy in copies:
            wanted = copy.remaining + copy.partition.growth_bytes_per_second * seconds
            shares = [allowances[limit[:2]] / users[limit[:2]] for limit in copy.limits]
            passed = max(0.0, min(copy.bytes_per_second * seconds, wanted, *shares))
            copy.partition.held[copy.target].bytes += passed
            self.copied_bytes += passed
            for limit in copy.limits:
                self._meter(limit[:2]).record(now, passed)
        for broker, partition, replica in self._dir_moves():
            whole = partition.bytes_on(broker)
            replica.future_bytes = min(whole, replica.future_bytes + self._dir_rate(broker) * seconds)
            if whole - replica.future_bytes <= CAUGHT_UP_BYTES:
                assert replica.future_dir is not None
                replica.log_dir, replica.future_dir, replica.future_bytes = replica.future_dir, None, 0.0

    def _pairs(self) -> Iterator[tuple[SimulatedPartition, int]]:
        """Out-of-sync replicas whose own broker, log dir and leader can work, and who leads."""
        for partition in self._partitions.values():
            if len(partition.in_sync) == len(partition.replicas) or partition.leader is None:
                continue
            if not self._brokers[partition.leader].running:
                continue
            for target in partition.replicas:
                broker = self._brokers[target]
                if target in partition.in_sync or not broker.active:
                    continue
                if broker.log_dirs[partition.held[target].log_dir].online:
                    yield partition, target

    def _dir_moves(self) -> Iterator[tuple[int, SimulatedPartition, SimulatedReplica]]:
        for partition in self._partitions.values():
            for broker, replica in partition.held.items():
                if replica.future_dir is not None and self._brokers[broker].active:
                    yield broker, partition, replica

    def _dir_rate(self, broker: int) -> float:
        own, default = self._broker_configs(broker)
        return min(self._dir_bytes_per_second, rate_limit(own, default, DIR_COPY_RATE))

    def _limits(
        self, partition: SimulatedPartition, source: int, target: int
    ) -> tuple[tuple[str, int, float], ...]:
        topic = self._configs.of(ResourceType.TOPIC, partition.name.topic)
        found = []
        # The leader's list names the replicas that are read from, the follower's those that are written.
        for direction, broker, rate_key, replicas_key in (
            ("out", source, LEADER_RATE, LEADER_REPLICAS),
            ("in", target, FOLLOWER_RATE, FOLLOWER_REPLICAS),
        ):
            limit = rate_limit(*self._broker_configs(broker), rate_key)
            if math.isfinite(limit) and lists_replica(topic.get(replicas_key), partition.name.number, broker):
                found.append((direction, broker, limit))
        return tuple(found)

    def _broker_configs(self, broker: int) -> tuple[dict[str, str], dict[str, str]]:
        return (
            self._configs.of(ResourceType.BROKER, str(broker)),
            self._configs.of(ResourceType.BROKER, WHOLE_CLUSTER),
        )

    def _meter(self, key: tuple[str, int]) -> QuotaMeter:
        return self._meters.setdefault(key, QuotaMeter(self._samples))
