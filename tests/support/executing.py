"""Running an execution against the cluster in memory, with invariants checked after every event."""

from collections.abc import Callable
from pathlib import Path

from support.fake_port import FakeCluster
from support.invariants import Checked
from support.journals import CODECS
from trimtab.act.control import Runner
from trimtab.act.journal import Journal
from trimtab.act.replicas.executor import compare, steps_of
from trimtab.act.replicas.load_check import ReplicaLoadCheck
from trimtab.act.replicas.machine import ReplicasMachine, new_execution
from trimtab.act.replicas.overrides import with_drained
from trimtab.act.replicas.port import TopicPartition
from trimtab.act.replicas.state import ReplicasExecutionSettings, ReplicasExecutionState
from trimtab.model.replicas.plan import Plan

SETTINGS = ReplicasExecutionSettings(throttle="50000000", initial_backoff_seconds=0.1)


def prepared(
    cluster: FakeCluster, plan: Plan, settings: ReplicasExecutionSettings = SETTINGS
) -> ReplicasExecutionState:
    """The state of an execution of that plan on that cluster, before its first event."""
    partitions = [TopicPartition(a.topic, a.partition) for a in plan.assignments]
    seen = cluster.observe(partitions, sorted(cluster.alive), wide=True)
    comparison = compare(plan, seen.placements, frozenset(seen.reassignments))
    state = new_execution(cluster.cluster_id, steps_of(plan, seen, comparison), settings, cluster.now)
    return with_drained(state, plan)


def run(
    cluster: FakeCluster,
    state: ReplicasExecutionState,
    folder: Path,
    *,
    sense: ReplicaLoadCheck | None = None,
    watch: Callable[[ReplicasExecutionState], None] | None = None,
) -> ReplicasExecutionState:
    """Journal and run it to its end."""
    with Journal(folder / "journal.sqlite", CODECS) as journal:
        execution = journal.create(state, "fake", "{}", "test", {})
        runner = Runner(
            ReplicasMachine(cluster, cluster.clock, sense),
            journal,
            None,
            execution,
            state,
            clock=cluster.clock,
            sleep=cluster.sleep,
            watch=Checked(watch),
        )
        return runner.run()


def assert_clean(cluster: FakeCluster, state: ReplicasExecutionState) -> None:
    """Nothing of the execution is left in the cluster."""
    assert state.final
    ours = {record.step.partition for record in state.records}
    assert [p for p, part in cluster.parts.items() if part.target is not None and p in ours] == []
    assert cluster.rates == {}
    assert cluster.lists == {"leader": {}, "follower": {}}
