"""Sensing the load again between batches."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from support.executing import prepared, run
from support.fake_port import FakeCluster
from support.journals import CODECS
from support.plans import plan_of
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.journal import Journal
from trimtab.act.replicas.executor import receipt_of
from trimtab.act.replicas.load_check import ReplicaLoadCheck, ReplicaLoadView
from trimtab.act.replicas.port import TopicPartition
from trimtab.act.replicas.state import (
    ReplicasExecutionState,
    ReplicaStep,
    ReplicaStepKind,
    ReplicaStepRecord,
    ReplicaStepState,
    StepPhase,
)
from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.replicas.plan import Plan
from trimtab.model.replicas.settings import DISK, NETWORK_IN
from trimtab.model.replicas.snapshot import LogDirs, Partitions, ReplicaBrokers, ReplicasSnapshot
from trimtab.report.replicas.renderer import receipt_text

BROKERS = 4


def snapshot_of(
    held: Sequence[Sequence[int]], disk: Sequence[float], capacity: float = 100.0
) -> ReplicasSnapshot:
    """Partitions t-0, t-1, ... on these brokers, each of that disk load; nothing else is loaded."""
    load = np.zeros((len(held), 4))
    load[:, DISK] = disk
    capacities = np.full((BROKERS, 4), np.inf)
    capacities[:, DISK] = capacity
    capacities[:, NETWORK_IN] = 1000.0
    replicas = np.array(held, dtype=np.int32) - 1
    return ReplicasSnapshot(
        SnapshotReference("fake", "2026-01-01T00:00:00Z", "0" * 64),
        Quality(),
        ReplicaBrokers(
            np.arange(1, BROKERS + 1),
            tuple("abcd"),
            tuple("abcd"),
            np.zeros(BROKERS, dtype=np.int8),
            capacities,
        ),
        LogDirs(np.zeros(0, np.int32), (), np.zeros(0, np.int8), np.zeros(0)),
        Partitions(
            ("t",),
            np.zeros(len(held), np.int32),
            np.arange(len(held), dtype=np.int32),
            replicas,
            replicas[:, 0].copy(),
            np.ones(replicas.shape, bool),
            np.full(replicas.shape, -1, np.int32),
            load,
            load.copy(),
        ),
    )


def serving(plan: Plan, broker: int, goal: str = "epsilon") -> Plan:
    """The same plan, its moves serving that goal on that broker, and asking for ε of a fifth."""
    moves = tuple(replace(m, reason=replace(m.reason, goal=goal, broker=broker)) for m in plan.moves)
    return replace(plan, moves=moves, settings={"theta": 0.8, "epsilon": 0.2})


HELD = [[1], [1], [1], [2], [2], [3], [3], [4], [4]]
PLAN = serving(plan_of(("t", 0, (1,), (2,)), ("t", 1, (1,), (3,))), broker=1)


@pytest.fixture
def cluster() -> FakeCluster:
    """The placement of `HELD`."""
    made = FakeCluster(BROKERS)
    for number, replicas in enumerate(HELD):
        made.add("t", number, list(replicas))
    return made


def test_necessary_moves_stay(cluster: FakeCluster) -> None:
    """Broker 1 is still above its band: its moves stay."""
    state = prepared(cluster, PLAN)
    sense = ReplicaLoadCheck(PLAN, snapshot_of(HELD, [10] * 9))
    told = sense(state.records, cluster.now)
    assert told.unneeded == {}
    assert told.source == "the plan's own loads"


def test_moves_whose_goal_holds_already_are_dropped(cluster: FakeCluster) -> None:
    """The load of broker 1 has fallen since the plan was made: newer telemetry drops its moves."""
    state = prepared(cluster, PLAN)
    newer = snapshot_of(HELD, [6, 7, 7, 10, 10, 10, 10, 10, 10])
    sense = ReplicaLoadCheck(PLAN, snapshot_of(HELD, [10] * 9), lambda: (cluster.now, newer))
    told = sense(state.records, cluster.now)
    assert set(told.unneeded) == {TopicPartition("t", 0), TopicPartition("t", 1)}
    assert told.unneeded[TopicPartition("t", 0)].startswith(
        "no longer needed: broker 1 meets its goal for disk"
    )


def test_nothing_is_dropped_that_the_end_needs(cluster: FakeCluster) -> None:
    """Broker 1 is fine now, but another pending move brings it a replica: giving one away stays needed."""
    plan = plan_of(("t", 0, (1,), (2,)), ("t", 3, (2,), (1,)))
    plan = serving(plan, broker=1)
    plan = replace(
        plan, moves=(plan.moves[0], replace(plan.moves[1], reason=replace(plan.moves[1].reason, goal="rack")))
    )
    newer = snapshot_of(HELD, [7, 6, 7, 10, 10, 10, 10, 10, 10])
    told = ReplicaLoadCheck(plan, newer)(prepared(cluster, plan).records, cluster.now)
    assert told.unneeded == {}


def test_nothing_is_dropped_that_brings_a_missed_goal_nearer(cluster: FakeCluster) -> None:
    """Broker 1 is fine now; broker 3 stays 30 % below the mean with its move, and 50 % without it."""
    plan = serving(plan_of(("t", 0, (1,), (3,))), broker=1)
    newer = snapshot_of(HELD, [2, 4, 5, 6, 6, 2, 3, 6, 6])
    assert ReplicaLoadCheck(plan, newer)(prepared(cluster, plan).records, cluster.now).unneeded == {}


def test_moves_for_racks_or_drains_are_never_dropped(cluster: FakeCluster) -> None:
    """Only goals about load can hold by themselves."""
    plan = serving(PLAN, broker=1, goal="rack")
    newer = snapshot_of(HELD, [6, 7, 7, 10, 10, 10, 10, 10, 10])
    assert ReplicaLoadCheck(plan, newer)(prepared(cluster, plan).records, cluster.now).unneeded == {}


def test_a_drained_broker_counts_in_no_mean() -> None:
    """Brokers 1 to 3 hold 10 each, and 4 nothing: balanced if the plan has drained 4."""
    level = snapshot_of([[1], [2], [3]], [10] * 3)
    drained = replace(PLAN, settings={"drain": [4]})
    assert ReplicaLoadCheck(PLAN, level).measures((), 0.0)[0].worst_deviation["disk"] == 1.0
    assert ReplicaLoadCheck(drained, level).measures((), 0.0)[0].worst_deviation["disk"] == 0.0
    newer = ReplicaLoadCheck(drained, level, lambda: (1.0, level))
    assert newer.measures((), 0.0)[0].worst_deviation["disk"] == 0.0


def test_a_snapshot_from_before_the_last_change_is_not_believed(cluster: FakeCluster) -> None:
    """Telemetry from before the arrival of a copy is not used for the state after it."""
    state = prepared(cluster, PLAN)
    done = replace(state.records[0], state=ReplicaStepState.DONE, ended_at=cluster.now)
    newer = snapshot_of(HELD, [6, 7, 7, 10, 10, 10, 10, 10, 10])
    sense = ReplicaLoadCheck(PLAN, snapshot_of(HELD, [10] * 9), lambda: (cluster.now - 1, newer))
    assert sense((done, *state.records[1:]), cluster.now).source == "the plan's own loads"


def test_the_load_counts_at_its_current_place(cluster: FakeCluster) -> None:
    """After the first copy broker 1 is in its band on the plan's own loads, too: the second is dropped."""
    held = [[1], [1], [1], [2], [2], [3], [3], [4], [4]]
    plan = serving(plan_of(("t", 0, (1,), (2,)), ("t", 1, (1,), (3,))), broker=1)
    loads = [5, 1, 15, 6.5, 6.5, 9, 9, 9, 9]
    state = prepared(cluster, plan)
    sense = ReplicaLoadCheck(plan, snapshot_of(held, loads))
    assert sense(state.records, cluster.now).unneeded == {}
    ours = [r for r in state.records if r.step.partition.partition == 0]
    records = tuple(
        replace(r, state=ReplicaStepState.DONE, ended_at=cluster.now) if r in ours else r
        for r in state.records
    )
    assert set(sense(records, cluster.now).unneeded) == {TopicPartition("t", 1)}


def test_a_leader_remains_leader_after_steps_that_name_none() -> None:
    """Led by 1, then by 2; then 2's replica changes its log dir, or the list its order: 2 still leads."""
    partition = TopicPartition("t", 0)
    lead = ReplicaStep(1, ReplicaStepKind.LEAD, StepPhase.RELIEF, partition, (1, 2), (2, 1), leader=2)
    later = ReplicaStep(2, ReplicaStepKind.LOG_DIR, StepPhase.COPY, partition, (2, 1), (2, 1))
    order = replace(later, kind=ReplicaStepKind.LEAD, after=(2, 1))
    for last in (later, order):
        for state in (ReplicaStepState.DONE, ReplicaStepState.PENDING):
            records = (
                ReplicaStepRecord(lead, state=ReplicaStepState.DONE),
                ReplicaStepRecord(last, state=state),
            )
            view = ReplicaLoadView.of(snapshot_of([[1, 2]], [5.0]), records)
            assert (view.leader[0], view.replicas[0].tolist()) == (1, [1, 0])
    view = ReplicaLoadView.of(
        snapshot_of([[2, 1]], [5.0]), (ReplicaStepRecord(lead), ReplicaStepRecord(later))
    )
    assert (view.leader[0], view.replicas[0].tolist()) == (1, [0, 1]), "nothing is done yet"


def test_the_receipt_states_the_current_balance(cluster: FakeCluster, tmp_path) -> None:
    """Thirty on broker 1 and twenty on the others before; one replica of ten has moved to broker 2."""
    plan = serving(plan_of(("t", 0, (1,), (2,))), broker=1)
    sense = ReplicaLoadCheck(plan, snapshot_of(HELD, [10] * 9), drop=False)
    state = run(cluster, prepared(cluster, plan), tmp_path, sense=sense)
    with Journal(tmp_path / "journal.sqlite", CODECS) as journal:
        receipt = receipt_of(journal.entry(1), state, sense)
    assert receipt.measured is not None
    assert receipt.measured.peak_usage["disk"] == pytest.approx(0.3)
    assert receipt.measured.worst_deviation["disk"] == pytest.approx(1 / 3)
    told = receipt_text(receipt)
    assert "the load, predicted by the plan, by the snapshot of 2026-01-01T00:00:00Z, from before:" in told
    assert "worst deviation 33.3%, peak 30.0%" in told
    assert "the load now" not in told


@pytest.mark.parametrize(
    ("seconds", "done", "told"),
    [
        (60.0, True, "measured now, by the snapshot of 2026-01-01T00:00:00Z"),
        (60.0, False, "measured now, by the snapshot of 2026-01-01T00:00:00Z"),
        (-60.0, True, "predicted by the plan, by the snapshot of 2026-01-01T00:00:00Z, from before"),
        (-60.0, False, "not measured again: by the snapshot of 2026-01-01T00:00:00Z, from before"),
    ],
)
def test_only_a_snapshot_from_afterwards_is_called_measured(
    cluster: FakeCluster, seconds: float, done: bool, told: str
) -> None:
    """An execution that dropped every step has measured nothing by the snapshot from before it."""
    ended = ReplicaStepState.DONE if done else ReplicaStepState.DROPPED
    records = tuple(
        replace(one, state=ended, ended_at=cluster.now) for one in prepared(cluster, PLAN).records
    )
    newest = (cluster.now + seconds, snapshot_of(HELD, [10] * 9))
    sense = ReplicaLoadCheck(PLAN, snapshot_of(HELD, [10] * 9), lambda: newest)
    assert sense.measures(records, cluster.now)[1] == told


def test_headroom_is_the_networks_free_capacity(cluster: FakeCluster) -> None:
    """Capacity less load; not limited is infinite."""
    told = ReplicaLoadCheck(PLAN, snapshot_of(HELD, [10] * 9))(prepared(cluster, PLAN).records, cluster.now)
    assert told.headroom[2].network_in == 1000.0
    assert told.headroom[2].network_out == float("inf")


def test_an_execution_drops_the_steps_of_the_load_check(cluster: FakeCluster, tmp_path) -> None:
    """Dropped steps do not start, and the execution finishes without them."""
    newer = snapshot_of(HELD, [6, 7, 7, 10, 10, 10, 10, 10, 10])
    sense = ReplicaLoadCheck(PLAN, newer)
    state = run(cluster, prepared(cluster, PLAN), tmp_path, sense=sense)
    assert state.status is ExecutionStatus.FINISHED
    assert {record.state for record in state.records} == {ReplicaStepState.DROPPED}
    assert "reassign" not in cluster.calls


def test_no_broker_exceeds_theta_in_transit(cluster: FakeCluster, tmp_path) -> None:
    """Broker 2 is nearly full: it must give away its replica before it receives another, in any order of the
    plan.
    """
    held = [[1], [1], [1], [2], [2], [3], [3], [4], [4]]
    loads = [30.0, 20, 20, 40, 35, 10, 10, 10, 10]
    plan = serving(plan_of(("t", 0, (1,), (2,)), ("t", 3, (2,), (4,))), broker=1)
    plan = replace(plan, settings={"theta": 0.8, "goals": ["theta"]})
    heaviest = [0.0]

    def weigh(state: ReplicasExecutionState) -> None:
        on_2 = sum(loads[p.partition] for p, part in cluster.parts.items() if 2 in part.all_replicas)
        heaviest[0] = max(heaviest[0], on_2)

    sense = ReplicaLoadCheck(plan, snapshot_of(held, loads), drop=False)
    state = run(cluster, prepared(cluster, plan), tmp_path, sense=sense, watch=weigh)
    assert state.status is ExecutionStatus.FINISHED
    assert state.batches == 2
    assert heaviest[0] == 75.0


def test_a_crowded_swap_is_executed(cluster: FakeCluster, tmp_path) -> None:
    """Two full brokers that exchange replicas: no order avoids the peak, so the plan is not stuck."""
    held = [[1], [1], [1], [2], [2], [3], [3], [4], [4]]
    loads = [40.0, 20, 20, 45, 35, 10, 10, 10, 10]
    plan = serving(plan_of(("t", 0, (1,), (2,)), ("t", 3, (2,), (1,))), broker=1)
    plan = replace(plan, settings={"theta": 0.8, "goals": ["theta"]})
    sense = ReplicaLoadCheck(plan, snapshot_of(held, loads), drop=False)
    state = run(cluster, prepared(cluster, plan), tmp_path, sense=sense)
    assert state.status is ExecutionStatus.FINISHED
    assert state.batches == 2
