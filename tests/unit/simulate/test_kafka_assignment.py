"""The controller's rules for one partition."""

import pytest

from simulate.kafka.replication import (
    begin_reassignment,
    elect,
    elect_preferred,
    finish_reassignment,
    revert_reassignment,
)
from simulate.kafka.state import (
    ErrorCode,
    KafkaRefusal,
    PartitionName,
    SimulatedPartition,
)


def partition(*replicas: int) -> SimulatedPartition:
    """In sync everywhere, led by the first."""
    return SimulatedPartition(PartitionName("t", 0), list(replicas), replicas[0], list(replicas), 1e6)


def test_the_list_in_flight_is_the_target_followed_by_leaving_replicas() -> None:
    """An operator who lists a reassignment in flight sees old and new brokers together."""
    moved = partition(1, 2, 3)
    begin_reassignment(moved, [4, 2, 3], may_change_factor=False)
    assert (moved.replicas, moved.adding, moved.removing) == ([4, 2, 3, 1], [4], [1])
    assert moved.settled_replicas == [4, 2, 3]


def test_a_reassignment_ends_only_when_the_new_replica_is_in_sync() -> None:
    """The old replica is not given up before the new one holds everything."""
    moved = partition(1, 2)
    begin_reassignment(moved, [3, 2], may_change_factor=False)
    assert finish_reassignment(moved) is None
    moved.in_sync.append(3)
    assert finish_reassignment(moved) == [1]
    assert (moved.replicas, moved.in_sync, moved.reassigning) == ([3, 2], [2, 3], False)


def test_cancelling_restores_the_set_but_not_the_order() -> None:
    """Kafka throws the half copy away and leaves the rest in the order that it had in flight."""
    moved = partition(1, 2, 3)
    begin_reassignment(moved, [4, 2, 3], may_change_factor=False)
    assert revert_reassignment(moved) == [4]
    assert moved.replicas == [2, 3, 1]


def test_replacing_a_target_and_cancelling_grows_the_list() -> None:
    """Kafka forgets that the first target's broker never arrived; a careful tool cancels first."""
    moved = partition(1, 2)
    begin_reassignment(moved, [3, 1], may_change_factor=False)
    begin_reassignment(moved, [3, 4], may_change_factor=False)
    assert (moved.replicas, moved.adding, moved.removing) == ([3, 4, 1, 2], [4], [1, 2])
    revert_reassignment(moved)
    assert moved.replicas == [3, 1, 2]


def test_the_replication_factor_is_guarded() -> None:
    """KIP-860: with the guard up, a list of another length is refused with Kafka's error 38."""
    moved = partition(1, 2)
    with pytest.raises(KafkaRefusal, match="from 2 to 3") as refusal:
        begin_reassignment(moved, [1, 2, 3], may_change_factor=False)
    assert refusal.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
    begin_reassignment(moved, [1, 2, 3], may_change_factor=True)
    assert moved.adding == [3]


def test_the_preferred_leader_must_be_in_sync_and_alive() -> None:
    """A replica that lags or is dead is refused with error 80, the present leader with error 84."""
    moved = partition(1, 2)
    moved.leader = 2
    with pytest.raises(KafkaRefusal) as refusal:
        elect_preferred(moved, active=lambda broker: broker != 1)
    assert refusal.value.code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    elect_preferred(moved, active=lambda broker: True)
    assert moved.leader == 1
    with pytest.raises(KafkaRefusal) as refusal:
        elect_preferred(moved, active=lambda broker: True)
    assert refusal.value.code == ErrorCode.ELECTION_NOT_NEEDED


def test_no_broker_leads_if_no_in_sync_replica_is_alive() -> None:
    """Without an unclean election the partition is offline rather than losing records."""
    moved = partition(1, 2)
    moved.in_sync = [1]
    assert elect(moved, active=lambda broker: broker == 2)
    assert moved.leader is None
