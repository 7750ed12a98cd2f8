"""Stop, cancel and resume."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.executing import SETTINGS, assert_clean, prepared
from support.fake_port import FakeCluster
from support.invariants import Checked
from support.journals import CODECS
from support.plans import REASON, plan_of
from trimtab.act.control import Runner, begin, changed_settings, prepare, runner_of
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.journal import ExecutionStore, Journal
from trimtab.act.replicas.executor import EXECUTOR
from trimtab.act.replicas.machine import ReplicasMachine
from trimtab.act.replicas.port import TopicPartition
from trimtab.act.replicas.state import ReplicasExecutionSettings, ReplicasExecutionState, ReplicaStepState
from trimtab.model.replicas.plan import Plan, ReplicaAssignment, ReplicaMove, ReplicaMoveKind
from trimtab_common.errors import InputError

PLAN = plan_of(*[("t", n, (1, 2), (2, 3 + n % 3)) for n in range(4)])
ONE_AT_A_TIME = replace(SETTINGS, initial_copies_per_broker=1)


class Session:
    """An execution with its journal; asks for a stop or a cancel when a copy is first seen in flight."""

    def __init__(
        self,
        folder: Path,
        cluster: FakeCluster,
        plan: Plan = PLAN,
        settings: ReplicasExecutionSettings = ONE_AT_A_TIME,
    ) -> None:
        self.cluster = cluster
        self.journal = Journal(folder / "journal.sqlite", CODECS)
        self.journal.create(prepared(cluster, plan, settings), "fake", "{}", "test", {})
        self.runner: Runner

    def live(self, ask: Callable[[Runner], None] | None = None) -> ReplicasExecutionState:
        """Run until the end."""

        def watch(state: ReplicasExecutionState) -> None:
            copying = any(r.state is ReplicaStepState.MOVING and r.step.bytes for r in state.records)
            if copying and ask is not None and state.status is ExecutionStatus.RUNNING:
                ask(self.runner)

        self.runner = Runner(
            ReplicasMachine(self.cluster, self.cluster.clock),
            self.journal,
            None,
            1,
            self.journal.state(1),
            clock=self.cluster.clock,
            sleep=self.cluster.sleep,
            watch=Checked(watch),
        )
        return self.runner.run()


@pytest.fixture
def cluster() -> FakeCluster:
    """Four partitions on brokers 1 and 2."""
    made = FakeCluster()
    for number in range(4):
        made.add("t", number, [1, 2], size=400_000_000)
    return made


def replicas(cluster: FakeCluster) -> list[list[int]]:
    """Of every partition, in order."""
    return [part.replicas for _, part in sorted(cluster.parts.items())]


def test_a_stop_lets_the_copy_in_flight_arrive(cluster: FakeCluster, tmp_path: Path) -> None:
    """One partition has arrived, three are as their leaders left them; resuming brings them, too."""
    session = Session(tmp_path, cluster)
    state = session.live(Runner.stop)
    assert (state.status, state.reason) == (ExecutionStatus.STOPPED, "stopped on request")
    assert replicas(cluster) == [[2, 3], [2, 1], [2, 1], [2, 1]]
    assert_clean(cluster, state)
    state = session.live()
    assert state.status is ExecutionStatus.FINISHED
    assert replicas(cluster) == [[2, 3], [2, 4], [2, 5], [2, 3]]
    assert_clean(cluster, state)


def test_a_cancel_rolls_the_copy_in_flight_back(cluster: FakeCluster, tmp_path: Path) -> None:
    """No copy has arrived, none is in flight; resuming begins it again."""
    session = Session(tmp_path, cluster)
    state = session.live(Runner.cancel)
    assert state.status is ExecutionStatus.CANCELLED
    assert replicas(cluster) == [[2, 1]] * 4
    assert ReplicaStepState.ROLLED_BACK in {r.state for r in state.records}
    assert_clean(cluster, state)
    state = session.live()
    assert state.status is ExecutionStatus.FINISHED
    assert_clean(cluster, state)


def test_a_second_stop_becomes_a_cancel(cluster: FakeCluster, tmp_path: Path) -> None:
    """Ctrl-C twice within one nap."""

    def twice(runner: Runner) -> None:
        runner.stop()
        runner.cancel()

    state = Session(tmp_path, cluster).live(twice)
    assert state.status is ExecutionStatus.CANCELLED
    assert replicas(cluster) == [[2, 1]] * 4


def test_another_process_can_ask_through_the_journal(cluster: FakeCluster, tmp_path: Path) -> None:
    """The requester is recorded as the reason."""
    session = Session(tmp_path, cluster)
    session.journal.request(1, "stop", "ada@ops1", 0.0)
    state = session.live()
    assert (state.status, state.reason) == (ExecutionStatus.STOPPED, "stop asked by ada@ops1")
    assert session.journal.pop_requests(1) == []


@pytest.mark.parametrize("by_journal", [False, True])
def test_a_new_throttle_applies_to_the_copy_in_flight(
    cluster: FakeCluster, tmp_path: Path, by_journal: bool
) -> None:
    """The first copy of 400 MB begins at 1 MB/s and goes on at 100 MB/s; the journal keeps the new rate."""
    slow = replace(ONE_AT_A_TIME, throttle=1e6)
    session = Session(tmp_path, cluster, settings=slow)

    def change(runner: Runner) -> None:
        if not rates:
            rates.append(cluster.rates["follower.replication.throttled.rate"])
            if by_journal:
                session.journal.request(1, "throttle=100000000.0", "ada@ops1", 0.0)
            else:
                runner.change_settings({"throttle": 1e8})

    rates: list[str] = []
    begun = cluster.clock()
    state = session.live(change)
    assert rates == ["1000000"]
    assert state.status is ExecutionStatus.FINISHED
    assert cluster.clock() - begun < 400, "four copies of 400 MB take 1,600 s at 1 MB/s"
    assert session.journal.state(1).settings.throttle == 1e8
    assert_clean(cluster, state)


def test_settings_that_no_execution_has_are_refused() -> None:
    """An unknown name and a value out of range, before the execution gets them."""
    with pytest.raises(InputError, match="no setting speed"):
        changed_settings(SETTINGS, {"speed": 1.0})
    with pytest.raises(InputError, match="throttle"):
        changed_settings(SETTINGS, {"throttle": -1.0})
    assert changed_settings(SETTINGS, {"throttle": 5e6}).fixed_rate == 5e6


def test_a_move_between_log_dirs_is_rolled_back(cluster: FakeCluster, tmp_path: Path) -> None:
    """The half copy in the other dir is given up."""
    move = ReplicaMove(1, ReplicaMoveKind.LOG_DIR, "t", 0, 1, 1, 400_000_000, REASON, "/d0", "/d1")
    same = ReplicaAssignment("t", 0, (1, 2), (1, 2), 1)
    plan = replace(PLAN, moves=(move,), assignments=(same,))
    session = Session(tmp_path, cluster, plan)
    state = session.live(Runner.cancel)
    part = cluster.parts[TopicPartition("t", 0)]
    assert state.status is ExecutionStatus.CANCELLED
    assert (part.dirs[1], part.future) == ("/d0", {})
    state = session.live()
    assert state.status is ExecutionStatus.FINISHED
    assert (part.dirs[1], part.future) == ("/d1", {})


def test_a_resumed_execution_accepts_another_throttle(cluster: FakeCluster, tmp_path: Path) -> None:
    """Started with one throttle, resumed with another."""
    store = ExecutionStore(tmp_path, CODECS, cluster.clock, cluster.sleep, lambda: "token")
    execution = begin(
        EXECUTOR, store, prepare(EXECUTOR, cluster, PLAN), replace(ONE_AT_A_TIME, throttle=90e6), "{}"
    )

    def stop_once(state: ReplicasExecutionState) -> None:
        if state.batches and state.status is ExecutionStatus.RUNNING:
            first.stop()

    first = runner_of(EXECUTOR, store, cluster, None, execution, watch=stop_once)
    first.run()
    rates = set()

    def watch(state: ReplicasExecutionState) -> None:
        if state.active and state.throttle.rates_touched:
            rates.add(cluster.rates["follower.replication.throttled.rate"])

    faster = replace(ONE_AT_A_TIME, throttle=200e6, initial_copies_per_broker=3)
    state = runner_of(EXECUTOR, store, cluster, None, execution, watch=watch, settings=faster).run()
    assert state.status is ExecutionStatus.FINISHED
    assert rates == {"200000000"}
    assert store.journal.state(execution).settings == faster
    store.close()
