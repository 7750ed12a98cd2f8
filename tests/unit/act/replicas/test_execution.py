"""Stories of whole executions on the cluster in memory."""

from dataclasses import replace

import pytest

from support.executing import SETTINGS, assert_clean, prepared, run
from support.fake_port import FakeCluster
from support.memory_journal import MemoryJournal
from support.plans import plan_of
from trimtab.act.control import Runner
from trimtab.act.execution.port import Failure, Finish
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.executor import ExecutionSummary
from trimtab.act.replicas.executor import receipt_of
from trimtab.act.replicas.machine import ReplicasMachine
from trimtab.act.replicas.port import PartitionPlacement, TopicPartition
from trimtab.act.replicas.reconcile import reconcile
from trimtab.act.replicas.state import ReplicasExecutionState, ReplicaStepState
from trimtab.report.replicas.renderer import spent_text


@pytest.fixture
def cluster() -> FakeCluster:
    """Three partitions that crowd broker 1."""
    made = FakeCluster()
    made.add("orders", 0, [1, 2], size=400_000_000)
    made.add("orders", 1, [1, 3], size=200_000_000)
    made.add("clicks", 0, [1, 2], size=100_000_000)
    return made


PLAN = plan_of(("orders", 0, (1, 2), (4, 2)), ("orders", 1, (1, 3), (3, 1)), ("clicks", 0, (1, 2), (2, 5)))


def placement(cluster: FakeCluster, topic: str, number: int) -> tuple[list[int], int | None]:
    """Replica list and leader."""
    part = cluster.parts[TopicPartition(topic, number)]
    return part.replicas, part.leader


def states(state: ReplicasExecutionState) -> list[ReplicaStepState]:
    """Of every step."""
    return [record.state for record in state.records]


def test_a_plan_is_carried_out_and_leaves_nothing_behind(cluster, tmp_path) -> None:
    """Leaders that relieve go first, copies follow, final leaders come last; no throttle is left."""
    state = run(cluster, prepared(cluster, PLAN), tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    assert placement(cluster, "orders", 0) == ([4, 2], 4)
    assert placement(cluster, "orders", 1) == ([3, 1], 3)
    assert placement(cluster, "clicks", 0) == ([2, 5], 2)
    assert_clean(cluster, state)


def test_the_throttle_of_others_is_restored(cluster, tmp_path) -> None:
    """An operator's own throttle, list and rate, stands after the execution as it stood before."""
    cluster.rates["leader.replication.throttled.rate"] = "77"
    cluster.lists["leader"]["orders"] = "*"
    state = run(cluster, prepared(cluster, PLAN), tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    assert cluster.rates == {"leader.replication.throttled.rate": "77"}
    assert cluster.lists == {"leader": {"orders": "*"}, "follower": {}}


def test_a_dead_destination_fails_its_own_step_only(cluster, tmp_path) -> None:
    """Broker 4 dies while it receives: its copy is rolled back after the grace, the rest goes through."""

    def kill_at_first_copy(state: ReplicasExecutionState) -> None:
        if any(r.step.added == (4,) and r.state is ReplicaStepState.MOVING for r in state.records):
            cluster.kill(4)

    state = run(cluster, prepared(cluster, PLAN), tmp_path, watch=kill_at_first_copy)
    assert state.status is ExecutionStatus.INCOMPLETE
    assert placement(cluster, "orders", 0)[0] == [1, 2]
    assert placement(cluster, "clicks", 0) == ([2, 5], 2)
    failed = [r for r in state.records if r.state is ReplicaStepState.FAILED]
    assert {r.step.partition for r in failed} == {TopicPartition("orders", 0)}
    assert {r.reason for r in failed} == {"broker 4, its destination, is dead"}
    assert_clean(cluster, state)


def test_a_deleted_topic_and_a_changed_replication_factor_are_skipped(cluster, tmp_path) -> None:
    """What does not exist any more, or not in that form, is skipped with its reason."""
    state = prepared(cluster, PLAN)
    cluster.delete("clicks")
    cluster.parts[TopicPartition("orders", 0)].replicas.append(6)
    cluster.parts[TopicPartition("orders", 0)].in_sync.add(6)
    state = run(cluster, state, tmp_path)
    assert state.status is ExecutionStatus.INCOMPLETE
    reasons = {r.reason for r in state.records if r.state is ReplicaStepState.SKIPPED}
    assert "clicks has been deleted" in reasons
    assert "the replication factor is now 3, the step was made for 2" in reasons
    assert placement(cluster, "orders", 1) == ([3, 1], 3)
    assert_clean(cluster, state)


def test_a_foreign_reassignment_is_waited_for(cluster, tmp_path) -> None:
    """Another tool's copy ends after a while; none of ours starts before."""
    cluster.add("other", 0, [5, 6], size=3_000_000_000)
    state = prepared(cluster, PLAN)
    cluster.reassign({TopicPartition("other", 0): (5, 2)})
    seen = []
    state = run(cluster, state, tmp_path, watch=lambda s: seen.append((s.status, s.batches)))
    assert (ExecutionStatus.WAITING, 0) in seen
    assert state.status is ExecutionStatus.FINISHED
    assert placement(cluster, "other", 0)[0] == [5, 2]


def test_a_foreign_reassignment_that_never_ends_stops_us(cluster, tmp_path) -> None:
    """After `external_change_timeout_seconds` the execution stops with a reason, and leaves the other's work
    unchanged.
    """
    cluster.add("other", 0, [5, 6])
    cluster.registered.add(9)
    state = prepared(cluster, PLAN)
    cluster.reassign({TopicPartition("other", 0): (5, 9)})
    state = run(cluster, state, tmp_path)
    assert state.status is ExecutionStatus.STOPPED
    assert state.reason.startswith("another tool is reassigning other-0")
    assert cluster.parts[TopicPartition("other", 0)].target == [5, 9]
    assert set(states(state)) == {ReplicaStepState.PENDING}


def test_transient_rejections_are_retried(cluster, tmp_path) -> None:
    """No controller for a moment: calls fail as a whole, are repeated later, and the plan goes through."""
    state = prepared(cluster, PLAN)
    cluster.fail_next = [Failure("NotController", "gone", transient=True)] * 3
    state = run(cluster, state, tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    assert_clean(cluster, state)


def test_a_rejected_partition_fails_with_kafkas_message(cluster, tmp_path) -> None:
    """Kafka refuses one partition for good: its steps fail, the others are carried out."""
    cluster.refuse[TopicPartition("clicks", 0)] = Failure("PolicyViolation", "not on my watch")
    state = run(cluster, prepared(cluster, PLAN), tmp_path)
    assert state.status is ExecutionStatus.INCOMPLETE
    assert "Kafka refused: PolicyViolation: not on my watch" in {r.reason for r in state.records}
    assert placement(cluster, "orders", 0) == ([4, 2], 4)
    assert_clean(cluster, state)


def test_no_copy_starts_that_no_disk_can_hold(cluster, tmp_path) -> None:
    """A destination without space above the reserve never receives a copy."""
    cluster.free_bytes = 5 * 10**11 + 150_000_000
    state = run(cluster, prepared(cluster, PLAN), tmp_path)
    assert state.status is ExecutionStatus.INCOMPLETE
    assert placement(cluster, "orders", 0)[0] == [1, 2]
    assert placement(cluster, "clicks", 0)[0] == [2, 5]
    assert any("bytes free in /d0 above the reserve" in r.reason for r in state.records)


def test_copies_in_flight_stay_within_the_limit_of_each_broker(tmp_path) -> None:
    """Twelve copies away from one broker, two at a time at first, one more after each quiet batch."""
    cluster = FakeCluster()
    changes = []
    for number in range(12):
        cluster.add("t", number, [1, 2])
        changes.append(("t", number, (1, 2), (3 + number % 3, 2)))
    settings = replace(SETTINGS, initial_copies_per_broker=2, max_copies_per_broker=3)
    state = run(cluster, prepared(cluster, plan_of(*changes), settings), tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    assert cluster.most_copies[1] == 3
    assert state.initial_copies_per_broker == 3


def test_the_wrong_cluster_is_not_touched(cluster, tmp_path) -> None:
    """The address leads to another cluster: no request is sent to it, and the error states that."""
    state = replace(prepared(cluster, PLAN), cluster_id="the-right-one")
    cluster.calls.clear()
    with pytest.raises(
        Exception, match="this is cluster fake-cluster, the execution belongs to the-right-one"
    ):
        run(cluster, state, tmp_path)
    assert set(cluster.calls) == {"observe"}


RESIZED = plan_of(("orders", 0, (1, 2), (1, 2, 4)), ("orders", 1, (1, 3), (3,)), ("clicks", 0, (1, 2), (1,)))


def test_replicas_are_added_and_dropped(cluster, tmp_path) -> None:
    """A list grows, one shrinks by its leader, one by its follower; the receipt counts them."""
    state = run(cluster, prepared(cluster, RESIZED), tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    assert placement(cluster, "orders", 0) == ([1, 2, 4], 1)
    assert placement(cluster, "orders", 1) == ([3], 3)
    assert placement(cluster, "clicks", 0) == ([1], 1)
    assert_clean(cluster, state)
    receipt = receipt_of(
        ExecutionSummary(1, "c", "c", 0.0, 1.0, "finished", "me", {}, "replicas"), state, None
    )
    assert (receipt.added_replicas, receipt.dropped_replicas, receipt.copied_bytes) == (1, 2, 400_000_000)
    assert "1 replica added (400 MB" in spent_text(receipt)
    assert "2 dropped, 1 leader role handed over" in spent_text(receipt)


def test_dropping_replicas_needs_no_throttle(cluster, tmp_path) -> None:
    """Nothing is copied: no setting of the cluster is touched."""
    state = prepared(cluster, plan_of(("clicks", 0, (1, 2), (1,))))
    assert run(cluster, state, tmp_path).status is ExecutionStatus.FINISHED
    assert "write_throttle" not in cluster.calls


def test_copies_that_are_added_are_throttled(cluster, tmp_path) -> None:
    """The old replicas as leaders, the new one as follower."""
    seen = []
    state = prepared(cluster, plan_of(("orders", 0, (1, 2), (1, 2, 4))))
    run(cluster, state, tmp_path, watch=lambda _: seen.append((dict(cluster.rates), str(cluster.lists))))
    rates = {f"{kind}.replication.throttled.rate": "50000000" for kind in ("leader", "follower")}
    lists = "{'leader': {'orders': '0:1,0:2'}, 'follower': {'orders': '0:4'}}"
    assert (rates, lists) in seen


def test_a_cancelled_addition_has_the_list_from_before(cluster, tmp_path) -> None:
    """While the copy is under way the cluster shows the new list already: that is not taken for its end."""
    state = prepared(cluster, plan_of(("orders", 0, (1, 2), (1, 2, 4))))
    machine = ReplicasMachine(cluster, cluster.clock)
    journal = MemoryJournal(state)
    runner = Runner(machine, journal, None, 1, state, clock=cluster.clock, sleep=cluster.sleep)
    command = runner.begin()
    while not cluster.parts[TopicPartition("orders", 0)].target:
        command = runner.turn(command)
    for _ in range(3):
        command = runner.turn(command)
    assert [r.state for r in runner.state.records] == [ReplicaStepState.MOVING, ReplicaStepState.PENDING]
    runner.cancel()
    while not isinstance(command, Finish):
        command = runner.turn(command)
    assert runner.state.status is ExecutionStatus.CANCELLED
    assert states(runner.state) == [ReplicaStepState.ROLLED_BACK, ReplicaStepState.PENDING]
    assert placement(cluster, "orders", 0) == ([1, 2], 1)
    assert_clean(cluster, runner.state)


@pytest.mark.parametrize(
    ("in_sync", "later", "state"),
    [
        ((1, 2), 0.0, ReplicaStepState.MOVING),
        ((1, 2, 4), 0.0, ReplicaStepState.DONE),
        ((1, 2), 100.0, ReplicaStepState.DONE),
    ],
)
def test_a_list_that_grew_is_through_once_the_new_replica_is_in_sync(cluster, in_sync, later, state) -> None:
    """Metadata show the new list long before; what has fallen behind since has arrived all the same."""
    (record, _) = prepared(cluster, plan_of(("orders", 0, (1, 2), (1, 2, 4)))).records
    record = replace(record, state=ReplicaStepState.MOVING, advanced_at=1000.0)
    name = record.step.partition
    seen = replace(
        cluster.observe([name], [], wide=False),
        placements={name: PartitionPlacement((1, 2, 4), 1, in_sync, None)},
    )
    assert reconcile(record, seen, 1000.1 + later, SETTINGS).state is state


def test_a_partition_with_another_replication_factor_is_skipped(cluster, tmp_path) -> None:
    """Two were to become three, and are four by now: skipped, and left as they are."""
    state = prepared(cluster, plan_of(("orders", 0, (1, 2), (1, 2, 4))))
    part = cluster.parts[TopicPartition("orders", 0)]
    part.replicas += [5, 6]
    part.in_sync |= {5, 6}
    state = run(cluster, state, tmp_path)
    assert states(state)[0] is ReplicaStepState.SKIPPED
    assert state.records[0].reason == "the replication factor is now 4, the step was made for 2 to become 3"
    assert placement(cluster, "orders", 0)[0] == [1, 2, 5, 6]


def test_kafkas_guard_is_off_only_for_intended_changes(cluster, tmp_path, monkeypatch) -> None:
    """One list grows while another one moves: only the first may change its number."""
    asked = {}
    reassign = cluster.reassign

    def seen(targets, resized=()):
        asked.update({name: name in resized for name in targets})
        return reassign(targets, resized)

    monkeypatch.setattr(cluster, "reassign", seen)
    plan = plan_of(("orders", 0, (1, 2), (1, 2, 4)), ("clicks", 0, (1, 2), (1, 5)))
    assert run(cluster, prepared(cluster, plan), tmp_path).status is ExecutionStatus.FINISHED
    assert asked == {TopicPartition("orders", 0): True, TopicPartition("clicks", 0): False}
