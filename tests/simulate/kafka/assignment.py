"""The controller's rules for one partition: reassign, cancel, finish, elect.

As measured on Kafka 4.3.1 (KRaft): the list of a partition in flight is the target followed by what is to be
removed; cancelling keeps that order, so it restores the old set but not always the old order.
"""

from collections.abc import Callable, Sequence
from functools import partial

from simulate.kafka.shared import ClusterState
from simulate.kafka.state import (
    ErrorCode,
    KafkaRefusal,
    SimulatedPartition,
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
