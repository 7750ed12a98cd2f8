"""Drained brokers are cordoned: when, until when, and what is said where that cannot be."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from simulate.kafka import answers
from simulate.kafka.cluster import cluster_of
from simulate.kafka.server import SimulatedKafkaServer
from support.executing import SETTINGS, assert_clean, prepared, run
from support.fake_port import FakeCluster
from support.plans import plan_of
from trimtab.act.control import Runner
from trimtab.act.execution.port import Failure, Resumed, Wait
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.executor import ExecutionSummary
from trimtab.act.replicas.executor import EXECUTOR
from trimtab.act.replicas.machine import ReplicasMachine
from trimtab.act.replicas.overrides import drained_brokers
from trimtab.act.replicas.port import CordonsWritten, ReadCordons, Reassign, TopicPartition, WriteCordons
from trimtab.act.replicas.state import Cordon, ReplicasExecutionSettings, ReplicasExecutionState
from trimtab.model.replicas.plan import Plan, ReplicasReceipt
from trimtab.report.renderer import execution_text
from trimtab.report.replicas import renderer
from trimtab.systems.kafka.calls import CORDONED
from trimtab.systems.kafka.port import KafkaAdminPort

PLAN = replace(plan_of(*[("t", n, (1, 2), (3, 2)) for n in range(3)]), settings={"drain": [1]})
DENIED = Failure("ClusterAuthorizationFailed", "not authorized")
TOO_OLD = Failure("InvalidConfiguration", "the metadata version does not support cordoned log dirs")


@pytest.fixture
def cluster() -> FakeCluster:
    """Three partitions on brokers 1 and 2."""
    made = FakeCluster()
    for number in range(3):
        made.add("t", number, [1, 2], size=400_000_000)
    return made


class Ended:
    """An execution run to its end, with a request as soon as a copy has been asked for."""

    def __init__(
        self,
        cluster: FakeCluster,
        request: Callable[[Runner], None] = lambda runner: None,
        then: Callable[[FakeCluster], None] = lambda cluster: None,
        plan: Plan = PLAN,
        settings: ReplicasExecutionSettings = SETTINGS,
        every: Callable[[FakeCluster], None] = lambda cluster: None,
    ) -> None:
        self.states: list[ReplicasExecutionState] = []
        state = prepared(cluster, plan, settings)
        self.runner = Runner(
            ReplicasMachine(cluster, cluster.clock),
            self,  # type: ignore[arg-type]
            None,
            1,
            state,
            clock=cluster.clock,
            sleep=cluster.sleep,
        )
        command = self.runner.begin()
        asked = False
        while not self.runner.state.final:
            if isinstance(command, Wait) and self.runner.state.active and not asked:
                asked = True
                request(self.runner)
                then(cluster)
            every(cluster)
            command = self.runner.turn(command)
        self.state = self.runner.state
        assert_clean(cluster, self.state)

    def write(
        self, execution: int, before: object, state: ReplicasExecutionState, event: str, order: str
    ) -> None:
        """See `Journal.write`."""
        self.states.append(state)

    def pop_requests(self, execution: int) -> list[tuple[str, str]]:
        """See `Journal.pop_requests`."""
        return []


def test_a_drained_broker_is_cordoned_first_and_stays_so(cluster: FakeCluster) -> None:
    """The previous value is recorded before ours is set, and the note has the command to restore it."""
    ended = Ended(cluster)
    orders = [state.awaiting for state in ended.states]
    kinds = [type(order) for order in orders]
    assert kinds.index(ReadCordons) < kinds.index(WriteCordons) < kinds.index(Reassign)
    (written,) = [state for state in ended.states if isinstance(state.awaiting, WriteCordons)]
    assert written.cordons == (Cordon(1, None),)
    assert cluster.cordons == {1: "*"}
    (note,) = ended.state.notes
    assert note.startswith("broker 1 stays cordoned")
    assert "--entity-name 1 --delete-config cordoned.log.dirs" in note


@pytest.mark.parametrize("before", [{}, {1: "/a,/b"}, {1: "*"}, {1: ""}])
@pytest.mark.parametrize(
    ("request_end", "status"),
    [(Runner.cancel, ExecutionStatus.CANCELLED), (Runner.stop, ExecutionStatus.STOPPED)],
)
def test_an_early_end_restores_the_previous_values(
    cluster: FakeCluster,
    before: dict[int, str],
    request_end: Callable[[Runner], None],
    status: ExecutionStatus,
) -> None:
    """Not set, some log dirs, all log dirs, or an empty list."""
    cluster.cordons.update(before)
    during = []
    one_at_a_time = replace(SETTINGS, initial_copies_per_broker=1, max_copies_per_broker=1)
    ended = Ended(
        cluster, request_end, lambda cluster: during.append(dict(cluster.cordons)), settings=one_at_a_time
    )
    assert during == [{1: "*"}]
    assert (ended.state.status, cluster.cordons, ended.state.notes) == (status, before, ())


def test_the_command_to_undo_names_the_log_dirs_that_were_cordoned_before(cluster: FakeCluster) -> None:
    """As kafka-configs.sh takes a list."""
    cluster.cordons[1] = "/a,/b"
    (note,) = Ended(cluster).state.notes
    assert note.endswith("--add-config 'cordoned.log.dirs=[/a,/b]'")


def test_a_broker_cordoned_by_others_is_not_changed(cluster: FakeCluster) -> None:
    """It is neither written nor noted."""
    cluster.cordons[1] = "*"
    ended = Ended(cluster)
    assert "write_cordons" not in cluster.calls
    assert (cluster.cordons, ended.state.notes) == ({1: "*"}, ())


def test_a_broker_without_the_setting_is_drained_all_the_same(cluster: FakeCluster) -> None:
    """One call is made, and a note explains its consequence."""
    cluster.without_cordons.add(1)
    ended = Ended(cluster)
    assert ended.state.status is ExecutionStatus.FINISHED
    assert cluster.calls.count("read_cordons") == 1
    assert "write_cordons" not in cluster.calls
    assert ended.state.notes == (
        "broker 1 not cordoned, new topics may be placed there until stopped: "
        "cordoned.log.dirs needs Kafka 4.3",
    )


def test_a_metadata_version_without_cordons_is_the_same(cluster: FakeCluster) -> None:
    """Brokers of 4.3 know the setting and refuse it until the cluster's metadata version is 4.3."""
    cluster.cordon_failures[1] = TOO_OLD
    ended = Ended(cluster)
    assert ended.state.status is ExecutionStatus.FINISHED
    assert cluster.calls.count("write_cordons") == 1
    (note,) = ended.state.notes
    assert note.startswith("broker 1 not cordoned")
    assert TOO_OLD.message in note


@pytest.mark.parametrize("reading", [True, False])
def test_without_the_right_to_a_cordon_the_drain_continues(cluster: FakeCluster, reading: bool) -> None:
    """The note names the right."""
    cluster.denied_cordons = DENIED if reading else None
    cluster.cordon_failures[1] = DENIED
    ended = Ended(cluster)
    assert ended.state.status is ExecutionStatus.FINISHED
    (note,) = ended.state.notes
    assert note.startswith("broker 1 not cordoned")
    assert "grant DescribeConfigs and AlterConfigs on the cluster" in note


def test_a_right_that_is_taken_away_later_leaves_the_cordon_remembered(cluster: FakeCluster) -> None:
    """A resumed drain may not set it again; the value is still ours and stays after the drain."""
    states = Ended(cluster).states
    killed = next(state for state in states if isinstance(state.awaiting, Reassign))
    assert killed.cordons == (Cordon(1, None, is_set=True),)
    doubtful = replace(killed.reset(killed.now), awaiting=WriteCordons({1: "*"}))
    answered = CordonsWritten(killed.now, {1: DENIED})
    after = ReplicasMachine.absorb(doubtful, answered)
    assert (after.cordons, after.notes) == (killed.cordons, ())
    assert after.give_up == ""
    assert after.failures_in_a_row == 0


def test_a_value_from_before_that_kafka_refuses_is_noted(cluster: FakeCluster) -> None:
    """A log dir that the broker no longer has; the cancel ends all the same."""
    cluster.cordons[1] = "/gone"

    def refuse(cluster: FakeCluster) -> None:
        cluster.cordon_failures[1] = Failure("InvalidRequest", "/gone is not in log.dirs")

    ended = Ended(cluster, Runner.cancel, refuse)
    assert ended.state.status is ExecutionStatus.CANCELLED
    (note,) = ended.state.notes
    assert note.startswith("broker 1 may still be cordoned, Kafka refuses it: /gone is not in log.dirs")


def test_a_missing_broker_does_not_block_a_cancel(cluster: FakeCluster) -> None:
    """After the grace time a note states the value left behind and how to remove it."""
    ended = Ended(cluster, Runner.cancel, lambda cluster: cluster.kill(1))
    assert ended.state.status is ExecutionStatus.CANCELLED
    (note,) = ended.state.notes
    assert note.startswith("broker 1 may still be cordoned, the broker is gone; to remove the cordon: kafka-")


def test_a_broker_that_returns_in_time_gets_its_value_back(cluster: FakeCluster) -> None:
    """The cancel waits for it within the grace."""
    dead_at = []

    def kill(cluster: FakeCluster) -> None:
        cluster.kill(1)
        dead_at.append(cluster.now)

    def revive(cluster: FakeCluster) -> None:
        if dead_at and cluster.now > dead_at[0] + 10 and 1 not in cluster.alive:
            cluster.revive(1)

    ended = Ended(cluster, Runner.cancel, kill, every=revive)
    assert (ended.state.status, cluster.cordons, ended.state.notes) == (ExecutionStatus.CANCELLED, {}, ())
    assert 1 in cluster.alive


def test_only_a_cordon_that_kafka_confirmed_is_reported_as_left(cluster: FakeCluster) -> None:
    """The broker dies during the call: it is unknown whether the change took effect."""
    real = cluster.write_cordons

    def die(values: Mapping[int, str | None]) -> Mapping[int, Failure]:
        cluster.kill(1)
        return real(values)

    cluster.write_cordons = die  # type: ignore[method-assign]
    ended = Ended(cluster)
    assert ended.state.status is ExecutionStatus.FINISHED
    (note,) = ended.state.notes
    assert note.startswith("broker 1 may still be cordoned, Kafka did not confirm it;")


def test_a_drained_broker_that_is_dead_needs_no_cordon(cluster: FakeCluster) -> None:
    """Kafka places nothing on it; the drain goes on."""
    cluster.kill(1)
    ended = Ended(cluster)
    assert "read_cordons" not in cluster.calls
    assert (ended.state.status, ended.state.notes) == (ExecutionStatus.FINISHED, ())


@pytest.mark.parametrize(
    ("plan", "settings"),
    [
        (PLAN, replace(SETTINGS, cordon_drained=False)),
        (replace(PLAN, settings={}), SETTINGS),
        (replace(PLAN, settings={"drain": []}), SETTINGS),
    ],
)
def test_without_a_drain_or_the_setting_no_call_is_made(
    cluster: FakeCluster, plan: Plan, settings: ReplicasExecutionSettings
) -> None:
    """No call is made."""
    Ended(cluster, plan=plan, settings=settings)
    assert not {"read_cordons", "write_cordons"} & set(cluster.calls)


def test_a_process_that_takes_a_drain_up_sets_the_cordon_again(cluster: FakeCluster, tmp_path: Path) -> None:
    """Whether the order of the dead process took effect is not known; the value from before is."""
    cluster.cordons[1] = "/a"
    states = Ended(cluster).states
    killed = next(state for state in states if isinstance(state.awaiting, WriteCordons))
    again = FakeCluster()
    for number in range(3):
        again.add("t", number, [1, 2], size=1000)
    again.cordons[1] = "*"
    state = run(again, ReplicasMachine.absorb(killed, Resumed(again.now)), tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    assert again.calls.count("read_cordons") == 0
    assert again.calls.count("write_cordons") == 1
    assert "=[/a]'" in state.notes[0]


def test_a_broker_that_the_plan_fills_is_not_drained() -> None:
    """With any settings; a replica that cannot leave is no new one."""
    plan = replace(plan_of(("t", 0, (1, 2), (3, 2)), ("t", 1, (2, 3), (4, 3))), settings={"drain": (1, 2, 3)})
    assert drained_brokers(plan) == (1, 2)


def test_cordons_are_in_the_preview_the_receipt_and_the_output_of_show(cluster: FakeCluster) -> None:
    """Before the execution, in its receipt and in `execution show`."""
    partitions = [TopicPartition(a.topic, a.partition) for a in PLAN.assignments]
    seen = cluster.observe(partitions, sorted(cluster.alive), wide=True)
    ready = EXECUTOR.prepare(PLAN, seen, False)
    line = "  first: broker 1 cordoned (cordoned.log.dirs = *), where Kafka supports it"
    for settings, told in ((SETTINGS, True), (replace(SETTINGS, cordon_drained=False), False)):
        text = renderer.forecast_text(ready, EXECUTOR.forecast(ready, settings, None), settings, False)
        assert (line in text.splitlines()) is told
    ended = Ended(cluster)
    entry = ExecutionSummary(1, "c", "fake", 0.0, 1.0, "finished", "me", {}, "replicas")
    receipt = EXECUTOR.receipt(entry, ended.state, None)
    assert isinstance(receipt, ReplicasReceipt)
    assert receipt.notes == ended.state.notes
    note = f"  note: {ended.state.notes[0]}"
    assert note in renderer.receipt_text(receipt).splitlines()
    assert note in execution_text(renderer, entry, ended.state, "finished", []).splitlines()


def test_a_broker_that_knows_no_cordons_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the real adapter: Kafka before 4.3 does not list the setting, also not among defaults."""
    with SimulatedKafkaServer(cluster_of(2)) as server:
        admin = KafkaAdminClient(bootstrap_servers=server.bootstrap, request_timeout_ms=5000)
        port = KafkaAdminPort(admin, time.time)
        assert port.read_cordons([1]) == {1: None}
        monkeypatch.delitem(answers.BROKER_DEFAULTS, CORDONED)
        assert port.read_cordons([1]) == {}
        admin.close()
