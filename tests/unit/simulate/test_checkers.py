"""Every checker of the simulation, shown something wrong: each must see it."""

from dataclasses import replace

import pytest

from simulate.checkers import kafka
from simulate.checkers.kafka import Watch
from simulate.kafka.cluster import SimulatedKafka, cluster_of
from simulate.kafka.port import SimulatedPort
from simulate.kafka.state import FOLLOWER_REPLICAS, LEADER_RATE, ConfigOperation, ResourceType
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.replicas.machine import new_execution
from trimtab.act.replicas.port import TopicPartition
from trimtab.act.replicas.state import (
    ReplicasExecutionSettings,
    ReplicasExecutionState,
    ReplicaStep,
    ReplicaStepKind,
    ReplicaStepState,
    StepPhase,
)

MB = 1e6
US = "trimtab"


@pytest.fixture
def cluster() -> SimulatedKafka:
    """Four brokers, two partitions of 100 MB."""
    made = cluster_of(4, copy_bytes_per_second=10 * MB)
    made.controller.create_topic("t", {0: [1, 2], 1: [2, 3]}, size_bytes=100 * MB)
    return made


def test_a_throttle_left_behind_is_detected(cluster: SimulatedKafka) -> None:
    """A rate that was not there before is detected; an earlier one is not."""
    change = [(LEADER_RATE, ConfigOperation.SET, "1000")]
    before = kafka.Before.of(cluster)
    cluster.controller.alter_configs(ResourceType.BROKER, "", change)
    assert kafka.no_throttle_left(cluster, before)
    assert not kafka.no_throttle_left(cluster, kafka.Before.of(cluster))


def test_a_wrong_cordon_is_detected(cluster: SimulatedKafka) -> None:
    """Left by a cancel, missing after a drain that states otherwise, or named by a note."""
    before = kafka.Before.of(cluster)
    drain = replace(one_step(ReplicaStepState.DONE), drained=(1,), notes=("broker 1 stays cordoned, ...",))
    cancelled, finished = (
        replace(drain, status=s) for s in (ExecutionStatus.CANCELLED, ExecutionStatus.FINISHED)
    )
    assert not kafka.cordons_as_they_should_be(cluster, before, cancelled)
    assert kafka.cordons_as_they_should_be(cluster, before, finished)
    SimulatedPort(cluster).write_cordons({1: "*"})
    assert kafka.cordons_as_they_should_be(cluster, before, cancelled)
    assert not kafka.cordons_as_they_should_be(cluster, before, finished)
    assert kafka.cordons_as_they_should_be(cluster, before, replace(finished, notes=()))
    left = replace(cancelled, notes=("broker 1 may still be cordoned, ...",))
    assert not kafka.cordons_as_they_should_be(cluster, before, left)


def test_a_claim_left_behind_is_detected(cluster: SimulatedKafka) -> None:
    """A process that ended without removing its claim."""
    assert not kafka.no_lease_left(cluster)
    SimulatedPort(cluster).write_claims(["me"], [])
    assert kafka.no_lease_left(cluster)


def test_an_own_reassignment_left_in_flight_is_detected(cluster: SimulatedKafka) -> None:
    """Others' may go on."""
    cluster.controller.reassign("t", 0, [1, 3], "operator")
    assert not kafka.no_reassignment_left(cluster, {US})
    cluster.controller.reassign("t", 1, [2, 4], US)
    assert kafka.no_reassignment_left(cluster, {US})


def test_a_lost_replica_is_detected(cluster: SimulatedKafka) -> None:
    """Fewer replicas than before, without a change by others."""
    before = kafka.Before.of(cluster)
    cluster.controller.reassign("t", 0, [1], US)
    assert kafka.replication_factor_kept(cluster, before)


def test_a_leaderless_partition_that_could_have_a_leader_is_detected(cluster: SimulatedKafka) -> None:
    """Offline counts only if an in-sync replica is alive."""
    cluster.partition("t", 0).leader = None
    assert kafka.no_partition_offline(cluster)
    for broker in (1, 2):
        cluster.brokers[broker].running = False
    assert not kafka.no_partition_offline(cluster)


def test_replacing_and_cancelling_foreign_reassignments_is_detected(cluster: SimulatedKafka) -> None:
    """Our own may be replaced and cancelled."""
    cluster.controller.reassign("t", 0, [1, 3], US)
    cluster.controller.reassign("t", 0, None, US)
    assert not kafka.foreign_work_respected(cluster, {US})
    cluster.controller.reassign("t", 0, [1, 3], "operator")
    cluster.controller.reassign("t", 0, None, US)
    assert kafka.foreign_work_respected(cluster, {US})


def test_a_copy_towards_a_broker_long_dead_is_detected(cluster: SimulatedKafka) -> None:
    """In the first moments the death is unknown."""
    cluster.kill_broker(4)
    cluster.advance(6.5)
    cluster.controller.reassign("t", 0, [1, 4], US)
    assert not kafka.no_copy_sent_to_the_dead(cluster, {US})
    cluster.advance(20)
    cluster.controller.reassign("t", 1, [2, 4], US)
    assert kafka.no_copy_sent_to_the_dead(cluster, {US})


def test_two_executors_that_alternate_are_detected(cluster: SimulatedKafka) -> None:
    """One after the other is as it should be."""
    cluster.controller.reassign("t", 0, [2, 1], US)
    cluster.controller.reassign("t", 0, [1, 2], US)
    cluster.controller.reassign("t", 1, [3, 2], "rival")
    assert not kafka.never_both_at_once(cluster, [US, "rival"])
    cluster.controller.reassign("t", 0, [2, 1], US)
    assert kafka.never_both_at_once(cluster, [US, "rival"])


def one_step(state: ReplicaStepState) -> ReplicasExecutionState:
    """An execution of one copy that has come to this."""
    step = ReplicaStep(
        1, ReplicaStepKind.COPY, StepPhase.COPY, TopicPartition("t", 0), before=(1, 2), after=(1, 3)
    )
    whole = new_execution("c", [step], ReplicasExecutionSettings(), 0.0)
    record = whole.records[0]
    return whole.with_records({1: type(record)(step, state)})


def test_a_step_with_another_result_than_reported_is_detected(cluster: SimulatedKafka) -> None:
    """Done but not there, rolled back but in another order, still under way at the end."""
    assert kafka.every_step_accounted(cluster, one_step(ReplicaStepState.DONE))
    assert kafka.every_step_accounted(cluster, one_step(ReplicaStepState.MOVING))
    assert not kafka.every_step_accounted(cluster, one_step(ReplicaStepState.ROLLED_BACK))
    cluster.controller.reassign("t", 0, [2, 1], US)
    assert kafka.every_step_accounted(cluster, one_step(ReplicaStepState.ROLLED_BACK))


def test_too_many_unthrottled_copies_and_full_disks_are_detected(cluster: SimulatedKafka) -> None:
    """A temporary violation is detected by continuous checks."""
    watch = Watch({US}, initial_copies_per_broker=1)
    cluster.controller.reassign("t", 0, [1, 4], US)
    watch.look(cluster)
    assert len(watch.violations) == 1
    assert "without a throttle" in watch.violations.pop()
    cluster.controller.alter_configs(
        ResourceType.TOPIC, "t", [(FOLLOWER_REPLICAS, ConfigOperation.SET, "0:4,1:4")]
    )
    watch.look(cluster)
    assert watch.violations == []
    cluster.controller.reassign("t", 1, [2, 4], US)
    watch.look(cluster)
    assert any("takes part in 2 copies" in violation for violation in watch.violations)
    watch.violations.clear()
    cluster.brokers[4].log_dirs["/d0"].total_bytes = 1 * MB
    cluster.advance(5)
    watch.look(cluster)
    assert any("over-full" in violation for violation in watch.violations)
