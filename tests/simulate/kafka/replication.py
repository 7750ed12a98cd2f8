"""Replication in a simulated Kafka: reassignments, copies under throttles, log dirs, and leaders."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from simulate.kafka.state import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    WHOLE_CLUSTER,
    ClusterState,
    ErrorCode,
    KafkaRefusal,
    PartitionName,
    QuotaMeter,
    ResourceType,
    SimulatedBroker,
    SimulatedPartition,
    SimulatedReplica,
    lists_replica,
    rate_limit,
)

Active = Callable[[int], bool]
"""True for a broker that may lead: running, not fenced, its log dir online."""


def begin_reassignment(partition: SimulatedPartition, target: Sequence[int], may_change_factor: bool) -> None:
    """Record a new target; the same set in another order takes effect at once.

    Raises
    ------
    KafkaRefusal
        INVALID_REPLICATION_FACTOR where the number of replicas changes and may not (KIP-860).
    """
    factor = len([broker for broker in partition.replicas if broker not in partition.removing])
    if not may_change_factor and len(target) != factor:
        raise KafkaRefusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(target)}",
        )
    # A broker that an earlier, replaced target was adding counts as there already, arrived or not: so
    # cancelling what replaced it leaves it in the list. That is Kafka's own way (seen on 4.3.1).
    partition.adding = sorted(broker for broker in target if broker not in partition.replicas)
    partition.removing = sorted(broker for broker in partition.replicas if broker not in target)
    partition.replicas = [*target, *partition.removing]


def revert_reassignment(partition: SimulatedPartition) -> list[int]:
    """Cancel what is in flight.

    Returns
    -------
    list[int]
        The brokers whose half copies are thrown away.

    Raises
    ------
    KafkaRefusal
        NO_REASSIGNMENT_IN_PROGRESS where nothing is in flight.
    """
    if not partition.reassigning:
        raise KafkaRefusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No reassignment is in progress.")
    dropped = list(partition.adding)
    partition.replicas = [broker for broker in partition.replicas if broker not in dropped]
    partition.in_sync = [
        broker for broker in partition.in_sync if broker not in dropped
    ] or partition.replicas[:1]
    partition.adding, partition.removing = [], []
    return dropped


def finish_reassignment(partition: SimulatedPartition) -> list[int] | None:
    """Complete what is in flight once every added replica is in sync.

    Returns
    -------
    list[int] or None
        The brokers that lose their replica; None where it is not complete yet.
    """
    if not partition.reassigning or not set(partition.adding) <= set(partition.in_sync):
        return None
    remaining = [broker for broker in partition.in_sync if broker not in partition.removing]
    if not remaining:
        return None
    dropped = list(partition.removing)
    partition.replicas = partition.settled_replicas
    partition.in_sync = remaining
    partition.adding, partition.removing = [], []
    return dropped


def elect(partition: SimulatedPartition, active: Active) -> bool:
    """Choose a leader among the in-sync replicas in the list's order; keep the present one where it may stay.

    Returns
    -------
    bool
        Whether the leader changed (possibly to nobody).
    """
    eligible = [b for b in partition.replicas if b in partition.in_sync and active(b)]
    settled = [b for b in eligible if b not in partition.removing] or eligible
    if partition.leader in eligible:
        return False
    leader = settled[0] if settled else None
    if leader == partition.leader:
        return False
    partition.leader = leader
    partition.leader_epoch += 1
    return True


def elect_preferred(partition: SimulatedPartition, active: Active) -> None:
    """Give the role to the first of the list.

    Raises
    ------
    KafkaRefusal
        ELECTION_NOT_NEEDED where it leads already, PREFERRED_LEADER_NOT_AVAILABLE where it is dead or behind.
    """
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        raise KafkaRefusal(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    if preferred not in partition.in_sync or not active(preferred):
        raise KafkaRefusal(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        )
    partition.leader = preferred
    partition.leader_epoch += 1


class Leaders:
    """Elections among the brokers of one cluster."""

    def __init__(self, state: ClusterState) -> None:
        self._brokers = state.brokers

    def elect(self, partition: SimulatedPartition) -> None:
        """Choose a leader where the present one may not stay."""
        elect(partition, partial(self._may_lead, partition))

    def elect_preferred(self, partition: SimulatedPartition) -> None:
        """Give the role to the first of the list.

        Raises
        ------
        KafkaRefusal
            ELECTION_NOT_NEEDED or PREFERRED_LEADER_NOT_AVAILABLE.
        """
        elect_preferred(partition, partial(self._may_lead, partition))

    def leave_in_sync(self, partition: SimulatedPartition, broker: int) -> None:
        """Take a broker that cannot go on out of the in-sync set, and elect another leader where it led."""
        if broker not in partition.in_sync:
            return
        if len(partition.in_sync) > 1:
            partition.held[broker].bytes = partition.size_bytes
            partition.in_sync.remove(broker)
        # The last in-sync replica stays in the set: only it may lead once it is back.
        self.elect(partition)

    def _may_lead(self, partition: SimulatedPartition, broker: int) -> bool:
        """True if a broker may lead, as the controller knows it: not fenced, and the log dir works."""
        owner, replica = self._brokers[broker], partition.held.get(broker)
        return not owner.fenced and replica is not None and owner.log_dirs[replica.log_dir].online


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


class Disks:
    """The log dirs of all brokers of one cluster."""

    def __init__(self, state: ClusterState) -> None:
        self._brokers, self._partitions, self._history = state.brokers, state.partitions, state.history
        self._remembered: dict[tuple[PartitionName, int], str] = {}

    def place_new(self, partition: SimulatedPartition) -> None:
        """Give every broker of the partition's list that holds nothing of it an empty replica."""
        for broker in partition.replicas:
            if broker not in partition.held:
                partition.held[broker] = SimulatedReplica(self._dir_for(partition.name, broker), 0.0)

    def move(self, topic: str, number: int, broker: int, path: str, actor: str = "operator") -> None:
        """Move a replica to another log dir of its broker, or remember the dir for a replica yet to come."""
        directory = self._brokers[broker].log_dirs.get(path)
        if directory is None or not directory.online:
            raise KafkaRefusal(ErrorCode.LOG_DIR_NOT_FOUND, f"Log directory {path} was not found.")
        name = PartitionName(topic, number)
        partition = self._partitions.get(name)
        if partition is None:
            raise KafkaRefusal(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic}-{number}."
            )
        replica = partition.held.get(broker)
        if replica is None:
            self._remembered[name, broker] = path
            raise KafkaRefusal(
                ErrorCode.REPLICA_NOT_AVAILABLE, f"Replica {topic}-{number} is not on {broker}."
            )
        if path == replica.log_dir:
            replica.future_dir = None
        elif path != replica.future_dir:
            replica.future_dir, replica.future_bytes = path, 0.0
        self._history.note(actor, "move_log_dir", name, (broker, path))

    def used_bytes(self, broker: int, path: str) -> float:
        """The bytes of all replicas, whole, half copied and future ones, in a log dir."""
        used = 0.0
        for partition in self._partitions.values():
            replica = partition.held.get(broker)
            if replica is not None:
                used += partition.bytes_on(broker) if replica.log_dir == path else 0.0
                used += replica.future_bytes if replica.future_dir == path else 0.0
        return used

    def _dir_for(self, name: PartitionName, broker: int) -> str:
        """The dir that it was told before it came, else the one that Kafka chooses."""
        owner = self._brokers[broker]
        remembered = self._remembered.pop((name, broker), None)
        if remembered is not None and owner.log_dirs[remembered].online:
            return remembered
        return emptiest_dir(owner, self._partitions.values())


def emptiest_dir(broker: SimulatedBroker, partitions: Iterable[SimulatedPartition]) -> str:
    """Kafka's choice for a new replica: the usable dir with the fewest replicas, whatever their size."""
    usable = [path for path, found in broker.log_dirs.items() if found.online and not found.cordoned]
    counts = dict.fromkeys(usable or broker.log_dirs, 0)
    if len(counts) == 1:
        return next(iter(counts))
    for partition in partitions:
        held = partition.held.get(broker.id)
        if held is not None and held.log_dir in counts:
            counts[held.log_dir] += 1
    return min(counts, key=lambda path: (counts[path], path))


def usage(partitions: Iterable[SimulatedPartition]) -> dict[tuple[int, str], float]:
    """`Disks.used_bytes` of every (broker, log dir) that holds anything."""
    used: dict[tuple[int, str], float] = {}
    for partition in partitions:
        for broker, replica in partition.held.items():
            key = (broker, replica.log_dir)
            used[key] = used.get(key, 0.0) + partition.bytes_on(broker)
            if replica.future_dir is not None:
                key = (broker, replica.future_dir)
                used[key] = used.get(key, 0.0) + replica.future_bytes
    return used


SESSION_SECONDS = 6.0
"""Silence after which the controller fences a broker (`broker.session.timeout.ms` of the sandbox)."""
START_SECONDS = 1.7
"""From starting a broker's process until it is unfenced."""


class Membership:
    """Sessions of the brokers of one cluster, and its controller's absences."""

    def __init__(self, state: ClusterState) -> None:
        self._brokers = state.brokers
        self._controller_back_at: float | None = None

    def kill(self, broker: int, now: float) -> bool:
        """End the process; the controller notices when its session expires."""
        dead = self._brokers[broker]
        if not dead.running:
            return False
        dead.running, dead.unfence_at = False, None
        dead.fence_at = now + SESSION_SECONDS
        return True

    def start(self, broker: int, now: float) -> bool:
        """Start the process again; before its old session has expired it has to wait for that."""
        dead = self._brokers[broker]
        if dead.running or dead.unfence_at is not None:
            return False
        dead.unfence_at = (now if dead.fence_at is None else dead.fence_at) + START_SECONDS
        return True

    def restart_controller(self, back_at: float) -> None:
        """No controller until this virtual time."""
        self._controller_back_at = back_at

    @property
    def controller_available(self) -> bool:
        """True while there is a controller, as far as `controller_returns` has let it back."""
        return self._controller_back_at is None

    def controller_returns(self, now: float) -> bool:
        """Let the controller back when its time has come; True only at that moment."""
        if self._controller_back_at is None or now < self._controller_back_at:
            return False
        self._controller_back_at = None
        return True

    def next_changes(self) -> list[float]:
        """Virtual times at which a broker is to be fenced or unfenced, or the controller is back."""
        due = [
            at
            for broker in self._brokers.values()
            for at in (broker.fence_at, broker.unfence_at)
            if at is not None
        ]
        if self._controller_back_at is None:
            return due
        # Without a controller nobody is fenced and nobody joins an in-sync set.
        return [max(at, self._controller_back_at) for at in due] + [self._controller_back_at]

    def newly_fenced(self, now: float) -> list[SimulatedBroker]:
        """Fence every broker whose session has expired."""
        due = [b for b in self._brokers.values() if b.fence_at is not None and b.fence_at <= now]
        for broker in due:
            broker.fenced, broker.fence_at = True, None
        return due

    def newly_unfenced(self, now: float) -> list[SimulatedBroker]:
        """Unfence every broker that has started again."""
        due = [b for b in self._brokers.values() if b.unfence_at is not None and b.unfence_at <= now]
        for broker in due:
            broker.running, broker.fenced, broker.unfence_at = True, False, None
        return due


class Duties:
    """The controller's duties in one cluster, left undone while there is no controller."""

    def __init__(
        self, state: ClusterState, membership: Membership, copying: Copying, leaders: Leaders
    ) -> None:
        self._partitions, self._history = state.partitions, state.history
        self._membership = membership
        self._copying = copying
        self._leaders = leaders

    def perform(self) -> None:
        """Do everything that is due at this instant."""
        if self._membership.controller_returns(self._history.now):
            self._history.note("cluster", "controller_back", None)
        if self._membership.controller_available:
            self._fence()
            self._unfence()
            self._join_in_sync()
            self._finish_reassignments()

    def _fence(self) -> None:
        for broker in self._membership.newly_fenced(self._history.now):
            for partition in self._partitions.values():
                self._leaders.leave_in_sync(partition, broker.id)
            self._history.note("cluster", "fence", broker.id)

    def _unfence(self) -> None:
        for broker in self._membership.newly_unfenced(self._history.now):
            for partition in self._partitions.values():
                if partition.leader is None:
                    self._leaders.elect(partition)
            self._history.note("cluster", "unfence", broker.id)

    def _join_in_sync(self) -> None:
        for partition, replica in self._copying.caught_up():
            partition.in_sync.append(replica)
            if partition.leader is None:
                self._leaders.elect(partition)

    def _finish_reassignments(self) -> None:
        for partition in self._partitions.values():
            dropped = finish_reassignment(partition)
            if dropped is not None:
                partition.drop_replicas(dropped)
                self._leaders.elect(partition)
                self._history.note("cluster", "finish", partition.name, tuple(partition.replicas))
