"""Kafka's brokers seen as masterships: who may be given which leadership, and what moves with it."""

from __future__ import annotations

from typing import Any

import pytest

from support.replica_clusters import broker, partition, snapshot
from trimtab.files.masters.settings import MastersSettings
from trimtab.model.masters import NO_MASTER, MasterGroupLoad, MastersSnapshot, NodeState
from trimtab.model.plan import Verdict
from trimtab.plan.masters.trim import plan_masters
from trimtab.systems.kafka.leaders import leaders


def seen(*partitions: Any, **states: str) -> MastersSnapshot:
    """Brokers 1 to 3, in states other than alive where these are told as `b2="dead"`."""
    brokers = [broker(number, state=states.get(f"b{number}", "alive")) for number in (1, 2, 3)]
    return leaders(snapshot(brokers, list(partitions)))


def group(*partitions: Any, **states: str) -> MasterGroupLoad:
    """The first group of these."""
    return seen(*partitions, **states).groups[0]


def test_a_leader_is_a_master_and_the_preferred_replica_alone_able() -> None:
    """Broker 3 leads, broker 2 is the first of the list: an election could only give it to that one."""
    found = seen(partition("led", 4, [2, 3, 1], leader=3))
    assert [one.node for one in found.nodes] == ["1", "2", "3"]
    (only,) = found.groups
    assert (only.group, only.master, only.preferred, only.able) == ("led-4", 2, 1, (1,))
    assert (found.system, found.version) == ("kafka", 0)


@pytest.mark.parametrize("state", ["dead", "draining", "no_leaders"])
def test_a_preferred_replica_that_may_not_lead_is_not_able(state: str) -> None:
    """It is missing or demoted, though it was in sync at the last observation."""
    assert group(partition("led", 0, [2, 3], leader=3), b2=state).able == ()
    assert group(partition("led", 0, [3, 2], leader=2), b2=state).able == (2,)


def test_a_preferred_replica_that_is_out_of_sync_is_not_able() -> None:
    """It returned recently, and has not caught up; others that have cannot be elected."""
    assert group(partition("led", 0, [2, 3, 1], leader=3, in_sync=[3, 1])).able == ()


def test_a_replica_that_is_still_copied_is_not_able() -> None:
    """A reassignment lists the new broker first before it has a copy."""
    assert group(partition("led", 0, [1, 2, 3], leader=2, in_sync=[2, 3])).able == ()


def test_a_partition_without_a_leader_has_no_master() -> None:
    """Its last replica is away."""
    assert group(partition("led", 0, [2], leader=None, in_sync=[2]), b2="dead").master == NO_MASTER


def test_the_moving_load_is_the_leaders_surplus() -> None:
    """20 B/s in are the same for a follower, 50 out are not; disk and processor are not balanced here."""
    found = group(partition("led", 0, [1, 2], load=(4.0, 7.0, 20.0, 50.0)))
    assert (found.bytes_per_second, found.queries_per_second) == (50.0, 0.0)
    less = partition("led", 0, [1, 2], load=(4.0, 7.0, 20.0, 50.0), follower=(1.0, 7.0, 30.0, 20.0))
    assert group(less).bytes_per_second == 30.0


def test_states_of_brokers_are_those_of_nodes() -> None:
    """New ones, and those that take no replicas, may lead."""
    states = {"b1": "new", "b2": "no_leaders", "b3": "draining"}
    assert [one.state for one in seen(**states).nodes] == [
        NodeState.ALIVE, NodeState.EXCLUDED, NodeState.DRAINING
    ]  # fmt: skip
    assert [one.state for one in seen(b1="dead", b2="no_new_replicas").nodes] == [
        NodeState.DEAD, NodeState.ALIVE, NodeState.ALIVE
    ]  # fmt: skip


def piled_up() -> MastersSnapshot:
    """Twelve partitions; brokers 2 and 3 lead four that broker 1 is preferred for, one of them for good."""
    parts = []
    for number in range(12):
        first = number % 3 + 1
        leader = (2 + number % 2) if first == 1 else first
        replicas = [first, *sorted({1, 2, 3} - {first})]
        parts.append(
            partition("led", number, replicas, leader=leader, in_sync=[2, 3] if number == 0 else replicas)
        )
    return seen(*parts)


def test_a_cap_holds_and_brokers_that_must_not_lead_are_left_out() -> None:
    """Two of the three that could come back tonight; led-0 stays, since broker 1 is behind there."""
    few = plan_masters(piled_up(), MastersSettings(max_moves=2))
    assert len(few.moves) == 2
    assert few.verdict is Verdict.IMPROVED
    assert any("with 2 transfers (masters.max_moves)" in one.text for one in few.problems)
    every = plan_masters(piled_up(), MastersSettings(epsilon=(0.01, 0.01)))
    assert {move.group for move in every.moves} == {"led-3", "led-6", "led-9"}
    assert {move.target for move in every.moves} == {"1"}
