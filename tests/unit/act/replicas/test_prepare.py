"""A plan held against the cluster as it is."""

from dataclasses import replace

import pytest

from support.executing import prepared
from support.fake_port import FakeCluster
from support.plans import REASON, plan_of
from trimtab.act.control import prepare
from trimtab.act.replicas.executor import EXECUTOR, PartitionFit, compare
from trimtab.act.replicas.port import TopicPartition
from trimtab.act.replicas.state import ReplicaStep, ReplicaStepKind, StepPhase
from trimtab.model.documents import SnapshotReference
from trimtab.model.errors import ActError
from trimtab.model.replicas.plan import Plan, ReplicaAssignment, ReplicaMove, ReplicaMoveKind


@pytest.fixture
def cluster() -> FakeCluster:
    """Two partitions, as the plans below found them."""
    made = FakeCluster()
    made.add("t", 0, [1, 2], size=500)
    made.add("t", 1, [1, 3], size=700)
    return made


def told(steps: tuple[ReplicaStep, ...]) -> list[tuple[str, int, tuple[int, ...], tuple[int, ...]]]:
    """What the steps are, briefly."""
    return [(step.kind, step.phase, step.before, step.after) for step in steps]


def test_a_leader_that_is_there_already_relieves_before_the_copy(cluster: FakeCluster) -> None:
    """Broker 1 gives its lead to 2 at once, the copy to 4 follows, and the leader is checked at the end."""
    steps = prepare(EXECUTOR, cluster, plan_of(("t", 0, (1, 2), (2, 4)))).steps
    assert told(steps) == [
        (ReplicaStepKind.LEAD, StepPhase.RELIEF, (1, 2), (2, 1)),
        (ReplicaStepKind.COPY, StepPhase.COPY, (2, 1), (2, 4)),
        (ReplicaStepKind.LEAD, StepPhase.SETTLE, (2, 4), (2, 4)),
    ]
    assert [step.follows for step in steps] == [None, 1, 2]
    assert steps[1].bytes == 500


def test_a_leader_that_is_to_come_leads_at_the_end(cluster: FakeCluster) -> None:
    """The new leader gets its copy first."""
    steps = prepare(EXECUTOR, cluster, plan_of(("t", 0, (1, 2), (4, 2)))).steps
    assert told(steps) == [
        (ReplicaStepKind.COPY, StepPhase.COPY, (1, 2), (4, 2)),
        (ReplicaStepKind.LEAD, StepPhase.SETTLE, (4, 2), (4, 2)),
    ]


def test_a_leader_that_stays_in_place_needs_no_election(cluster: FakeCluster) -> None:
    """The leader is second in its list and the plan leaves it there: no election is requested."""
    cluster.parts[TopicPartition("t", 0)].leader = 2
    plan = plan_of(("t", 0, (1, 2), (4, 2)))
    plan = replace(plan, assignments=(replace(plan.assignments[0], leader_after=2),))
    assert told(prepare(EXECUTOR, cluster, plan).steps) == [
        (ReplicaStepKind.COPY, StepPhase.COPY, (1, 2), (4, 2))
    ]


def test_a_completed_move_needs_no_step(cluster: FakeCluster) -> None:
    """A partition where the plan wants it counts as done."""
    prepared_plan = prepare(EXECUTOR, cluster, plan_of(("t", 0, (3, 4), (1, 2)), ("t", 1, (1, 3), (3, 1))))
    assert prepared_plan.comparison.fit[TopicPartition("t", 0)] is PartitionFit.ALREADY_DONE
    assert [step.partition for step in prepared_plan.steps] == [TopicPartition("t", 1)]


def test_a_plan_for_an_older_placement_is_refused_by_name(cluster: FakeCluster) -> None:
    """The partitions that have changed are named with what was planned for and what was found."""
    plan = plan_of(("t", 0, (5, 6), (4, 6)), ("t", 1, (1, 3), (3, 1)), ("gone", 0, (1, 2), (2, 1)))
    with pytest.raises(ActError) as refused:
        prepare(EXECUTOR, cluster, plan)
    message = str(refused.value)
    assert "2 of its 3 partitions have changed since it was made" in message
    assert "t-0: moved, the plan was made for [5, 6], found [1, 2]" in message
    assert "gone-0: deleted since the plan was made" in message
    assert "--skip-changed" in message


def test_rebase_leaves_out_changed_partitions(cluster: FakeCluster) -> None:
    """What still fits is applied, and nothing else."""
    plan = plan_of(("t", 0, (5, 6), (4, 6)), ("t", 1, (1, 3), (3, 1)))
    steps = prepare(EXECUTOR, cluster, plan, rebase=True).steps
    assert [step.partition for step in steps] == [TopicPartition("t", 1)]


def test_rebase_takes_a_list_in_another_order(cluster: FakeCluster) -> None:
    """The same brokers in another order: the step starts from the order found."""
    cluster.parts[TopicPartition("t", 0)].replicas.reverse()
    steps = prepare(EXECUTOR, cluster, plan_of(("t", 0, (1, 2), (1, 4))), rebase=True).steps
    assert (ReplicaStepKind.COPY, StepPhase.COPY, (2, 1), (1, 4)) in told(steps)


def test_a_partition_in_reassignment_is_not_touched(cluster: FakeCluster) -> None:
    """A reassignment in flight on one of the plan's partitions is a reason to refuse."""
    cluster.parts[TopicPartition("t", 0)].size = 10**15
    cluster.reassign({TopicPartition("t", 0): (1, 6)})
    with pytest.raises(ActError, match="t-0: being reassigned"):
        prepare(EXECUTOR, cluster, plan_of(("t", 0, (1, 2), (4, 2))))


def test_a_plan_for_another_cluster_is_refused(cluster: FakeCluster) -> None:
    """Kafka's own ids tell clusters apart."""
    cluster.cluster_id = "3w4sjizmTECYS94_0x1ykg"
    plan = plan_of(("t", 0, (1, 2), (4, 2)))
    plan = replace(
        plan, snapshot=SnapshotReference("0iaaTLB3TyirC9hAwwJ72Q", "2026-01-01T00:00:00Z", "0" * 64)
    )
    with pytest.raises(ActError, match="this plan is for cluster 0iaaTLB3TyirC9hAwwJ72Q, this is 3w4s"):
        prepare(EXECUTOR, cluster, plan)


def test_a_destination_that_the_cluster_does_not_have_is_refused(cluster: FakeCluster) -> None:
    """A broker of another cluster, or one that was removed."""
    with pytest.raises(ActError, match="gives replicas to broker 9, and cluster fake-cluster has no such"):
        prepare(EXECUTOR, cluster, plan_of(("t", 0, (1, 2), (9, 2))))


def test_moves_between_log_dirs_can_be_reverted(cluster: FakeCluster) -> None:
    """A replica that changes its dir, and one that must land in a given dir."""
    plan = plan_of(("t", 0, (1, 2), (4, 2)))
    move = plan.moves[0]
    stay = ReplicaMove(2, ReplicaMoveKind.LOG_DIR, "t", 1, 1, 1, 700, REASON, "/d0", "/d1")
    plan = replace(
        plan,
        moves=(replace(move, target_dir="/d1"), stay),
        assignments=(
            *plan.assignments,
            replace(plan.assignments[0], partition=1, before=(1, 3), after=(1, 3), leader_after=1),
        ),
    )
    steps = prepare(EXECUTOR, cluster, plan).steps
    assert steps[0].directories == ((4, "/d1"),)
    assert steps[2].kind is ReplicaStepKind.LOG_DIR
    assert steps[2].directories == ((1, "/d1"),)
    assert steps[2].old_directories == ((1, "/d0"),)
    assert steps[2].bytes == 700


def test_steps_follow_the_order_of_the_plans_moves(cluster: FakeCluster) -> None:
    """What relieves most comes first in the plan, and so in the execution."""
    plan: Plan = plan_of(("t", 1, (1, 3), (4, 3)), ("t", 0, (1, 2), (5, 2)))
    steps = [r.step for r in prepared(cluster, plan).records]
    assert [s.partition.partition for s in steps if s.kind is ReplicaStepKind.COPY] == [1, 0]


def test_a_plan_of_another_cluster_is_recognised_by_its_partitions(cluster: FakeCluster) -> None:
    """None of them is here, but for Kafka's own topics, which every cluster has."""
    cluster.add("__consumer_offsets", 0, [1, 2])
    plan = plan_of(("parcels", 0, (1, 2), (4, 2)), ("__consumer_offsets", 0, (3, 2), (4, 2)))
    with pytest.raises(ActError) as refused:
        prepare(EXECUTOR, cluster, plan)
    assert str(refused.value) == (
        "this plan is for cluster fake, this is fake-cluster, which has none of the plan's 1 partitions: "
        "check --cluster"
    )
    same = replace(plan, snapshot=replace(plan.snapshot, cluster="fake-cluster"))
    with pytest.raises(ActError, match="parcels-0: deleted since the plan was made"):
        prepare(EXECUTOR, cluster, same)


def test_replicas_that_are_added_are_one_copy(cluster: FakeCluster) -> None:
    """The list grows by two of 500 bytes each; the moves are distinguished by their order."""
    (step, settle) = prepare(EXECUTOR, cluster, plan_of(("t", 0, (1, 2), (1, 2, 4, 5)))).steps
    assert (step.kind, step.phase, step.before, step.after) == (
        *(ReplicaStepKind.COPY, StepPhase.COPY),
        *((1, 2), (1, 2, 4, 5)),
    )
    assert (step.bytes, step.added, step.removed, step.resizes, step.moves) == (
        1000,
        (4, 5),
        (),
        True,
        (1, 2),
    )
    assert (settle.kind, settle.phase, settle.resizes) == (ReplicaStepKind.LEAD, StepPhase.SETTLE, False)


def test_a_leader_hands_over_before_its_replica_is_dropped(cluster: FakeCluster) -> None:
    """The first step is about the order alone, and so under Kafka's guard; the second copies nothing."""
    steps = prepare(EXECUTOR, cluster, plan_of(("t", 0, (1, 2), (2,)))).steps
    assert told(steps)[:2] == [
        (ReplicaStepKind.LEAD, StepPhase.RELIEF, (1, 2), (2, 1)),
        (ReplicaStepKind.COPY, StepPhase.COPY, (2, 1), (2,)),
    ]
    assert (steps[0].resizes, steps[1].resizes, steps[1].bytes, steps[1].follows) == (False, True, 0, 1)


@pytest.mark.parametrize(
    ("found", "standing"),
    [
        ((2, 1), PartitionFit.REORDERED),
        ((1, 5), PartitionFit.MOVED),
        ((1, 2, 3), PartitionFit.RESIZED),
        ((1, 2, 4), PartitionFit.ALREADY_DONE),
        ((4, 2, 1), PartitionFit.REORDERED),
        ((1, 2, 4, 5), PartitionFit.RESIZED),
    ],
)
def test_fit_of_a_list_that_grows(
    cluster: FakeCluster, found: tuple[int, ...], standing: PartitionFit
) -> None:
    """From two to three, on other brokers than planned: another process has changed the factor."""
    cluster.parts[TopicPartition("t", 0)].replicas = list(found)
    cluster.parts[TopicPartition("t", 0)].leader = 1
    seen = cluster.observe([TopicPartition("t", 0)], [], wide=True)
    plan = plan_of(("t", 0, (1, 2), (1, 2, 4)))
    assert compare(plan, seen.placements, frozenset()).fit == {TopicPartition("t", 0): standing}


def test_fewer_replicas_than_a_topic_needs_in_sync_are_refused(cluster: FakeCluster) -> None:
    """Two are needed: from two to one is refused with both numbers, from three to two is not."""
    cluster.min_in_sync_replicas = 2
    with pytest.raises(ActError, match="t-0 would have 1 replicas, and topic t has min.insync.replicas = 2"):
        prepare(EXECUTOR, cluster, plan_of(("t", 0, (1, 2), (1,))))
    cluster.add("u", 0, [1, 2, 3])
    assert prepare(EXECUTOR, cluster, plan_of(("u", 0, (1, 2, 3), (1, 2)))).steps
    assert prepare(EXECUTOR, cluster, plan_of(("t", 1, (1, 3), (4, 3)))).steps


def test_a_leader_move_after_a_copy_belongs_to_the_election_after_it() -> None:
    """The plan that undoes the execution knows by this that the leader moved."""
    cluster = FakeCluster()
    cluster.add("t", 0, [1, 2])
    copied = plan_of(("t", 0, (1, 2), (1, 3)))
    leads = replace(copied.moves[0], order=2, kind=ReplicaMoveKind.LEADER, source=1, target=3, bytes=0)
    plan = replace(
        copied, moves=(*copied.moves, leads), assignments=(ReplicaAssignment("t", 0, (1, 2), (3, 1), 3),)
    )
    steps = prepare(EXECUTOR, cluster, plan).steps
    assert [(str(step.kind), step.moves) for step in steps] == [("copy", (1,)), ("lead", (2,))]
