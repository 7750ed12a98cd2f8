"""What is said and done about steps that could not, or need not, be done, in virtual time."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from simulate.faults import BrokerKilled, FaultScript
from simulate.kafka.cluster import SimulatedKafka, cluster_of
from simulation.worlds import World
from support.journals import CODECS
from support.plans import REASON, plan_of
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.journal import JOURNAL_FILE, Journal
from trimtab.act.replicas.executor import receipt_of
from trimtab.act.replicas.load_check import ReplicaLoadCheck
from trimtab.act.replicas.state import ReplicasExecutionSettings, ReplicaStepState
from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.replicas.plan import Plan
from trimtab.model.replicas.settings import DISK, NETWORK_IN
from trimtab.model.replicas.snapshot import LogDirs, Partitions, ReplicaBrokers, ReplicasSnapshot
from trimtab.report.replicas.renderer import receipt_text

SIZE = 200e6


def world_of(folder: Path, cluster: SimulatedKafka, plan: Plan, settings: ReplicasExecutionSettings) -> World:
    """A world in which nothing goes wrong."""
    return World(1, folder, cluster, plan, settings, FaultScript([]), np.random.default_rng(1))


def told(world: World) -> str:
    """The receipt, as people see it."""
    assert world.state is not None
    assert world.execution is not None
    with Journal(world.folder / JOURNAL_FILE, CODECS) as journal:
        return receipt_text(receipt_of(journal.entry(world.execution), world.state, None))


def test_a_dead_destination_leaves_its_own_steps_and_the_commands_to_go_on_with(tmp_path: Path) -> None:
    """Broker 4 dies while it receives: the rest is done, and the receipt ends with what to type next."""
    cluster = cluster_of(5, copy_bytes_per_second=30e6)
    for number in range(4):
        cluster.controller.create_topic(f"t{number}", {0: [1, 2]}, SIZE)
    sent = [("t0", 4), ("t1", 5), ("t2", 4), ("t3", 3)]
    plan = plan_of(*((topic, 0, (1, 2), (1, broker)) for topic, broker in sent))
    settings = ReplicasExecutionSettings(
        initial_copies_per_broker=2, max_copies_per_broker=2, throttle="none"
    )
    world = world_of(tmp_path, cluster, plan, settings)
    world.script = FaultScript([BrokerKilled(3.0, 4)])
    assert world.live()
    assert world.evaluate() == []
    assert world.state is not None
    assert world.state.status is ExecutionStatus.INCOMPLETE
    found = {r.step.partition.topic: (r.state, r.reason) for r in world.state.records if r.step.added}
    dead = (ReplicaStepState.FAILED, "broker 4, its destination, is dead")
    assert found == {
        "t0": dead,
        "t1": (ReplicaStepState.DONE, ""),
        "t2": dead,
        "t3": (ReplicaStepState.DONE, ""),
    }
    text = told(world)
    assert "left: t0-0 [1, 2] -> [1, 4]: failed, broker 4, its destination, is dead" in text
    assert "in all 4 of 8 steps and 400 MB left, none in flight" in text
    assert "next, as soon as the lake has a snapshot from after 2027-01-15 08:0" in text
    assert text.endswith("trimtab plan replicas --cluster fake --out next.json\n    trimtab apply next.json")


def test_a_cancelled_execution_is_resumed_by_its_number(tmp_path: Path) -> None:
    """Nothing has failed: what is left needs no new plan."""
    cluster = cluster_of(4)
    cluster.controller.create_topic("t", {0: [1, 2]}, SIZE)
    world = world_of(tmp_path, cluster, plan_of(("t", 0, (1, 2), (1, 3))), ReplicasExecutionSettings())
    assert world.live(cancel=True)
    assert world.evaluate() == []
    text = told(world)
    assert text.endswith("next: `trimtab execution resume 1` goes on with them")
    assert "next.json" not in text


def test_a_finished_execution_has_nothing_next(tmp_path: Path) -> None:
    """No advice where there is nothing to do."""
    cluster = cluster_of(4)
    cluster.controller.create_topic("t", {0: [1, 2]}, SIZE)
    world = world_of(tmp_path, cluster, plan_of(("t", 0, (1, 2), (1, 3))), ReplicasExecutionSettings())
    assert world.live()
    assert "next" not in told(world)
    assert "left" not in told(world)


def loads(cluster: SimulatedKafka, used: list[float]) -> ReplicasSnapshot:
    """A snapshot of topics t0, t1, ... as they stand, with these disk loads; brokers hold 100 each."""
    names = tuple(sorted({name.topic for name in cluster.partitions}))
    held = np.array([cluster.partition(name, 0).replicas for name in names], np.int32) - 1
    load = np.zeros((len(names), 4))
    load[:, DISK] = used
    brokers = len(cluster.brokers)
    capacity = np.full((brokers, 4), np.inf)
    capacity[:, DISK], capacity[:, NETWORK_IN] = 100.0, 1e9
    hosts = tuple(broker.host for broker in cluster.brokers.values())
    return ReplicasSnapshot(
        SnapshotReference("fake", "2027-01-15T08:00:00Z", "0" * 64),
        Quality(),
        ReplicaBrokers(np.arange(1, brokers + 1), hosts, hosts, np.zeros(brokers, np.int8), capacity),
        LogDirs(np.zeros(0, np.int32), (), np.zeros(0, np.int8), np.zeros(0)),
        Partitions(
            names,
            np.arange(len(names), dtype=np.int32),
            np.zeros(len(names), np.int32),
            held,
            held[:, 0].copy(),
            np.ones(held.shape, bool),
            np.full(held.shape, -1, np.int32),
            load,
            load.copy(),
        ),
    )


def test_the_load_is_sensed_again_between_batches(tmp_path: Path) -> None:
    """Three copies off broker 1, one at a time; its load falls during the first: the others are dropped."""
    cluster = cluster_of(4, copy_bytes_per_second=30e6)
    for number, broker in enumerate([1, 1, 1, 1, 2, 2, 3, 3, 4, 4]):
        cluster.controller.create_topic(f"t{number}", {0: [broker]}, SIZE)
    planned = loads(cluster, [20.0] * 4 + [10.0] * 6)
    plan = plan_of(*((f"t{n}", 0, (1,), (2 + n,)) for n in range(3)))
    moves = tuple(replace(m, reason=replace(REASON, goal="epsilon", broker=1)) for m in plan.moves)
    plan = replace(plan, moves=moves, settings={"theta": 0.8, "epsilon": 0.3})
    settings = ReplicasExecutionSettings(
        initial_copies_per_broker=1, max_copies_per_broker=1, throttle="none"
    )
    world = world_of(tmp_path, cluster, plan, settings)

    def newest() -> tuple[float, ReplicasSnapshot] | None:
        if all(p.reassigning or p.replicas == [1] for n, p in cluster.partitions.items() if n.topic == "t0"):
            return None
        return world.clock(), loads(cluster, [10.0, 8, 7, 7] + [10.0] * 6)

    world.sense = ReplicaLoadCheck(plan, planned, newest)
    assert world.live()
    assert world.evaluate() == []
    assert world.state is not None
    assert world.state.status is ExecutionStatus.FINISHED
    copies = [record for record in world.state.records if record.step.added]
    assert [record.state for record in copies] == [
        ReplicaStepState.DONE,
        ReplicaStepState.DROPPED,
        ReplicaStepState.DROPPED,
    ]
    assert "no longer needed: broker 1 meets its goal for disk" in copies[1].reason
    subjects: list[Any] = [h.subject for h in cluster.history if h.verb == "reassign"]
    moved = {one.topic for one in subjects}
    assert moved == {"t0"}
