"""Everything that can go wrong around `trimtab apply`, on real brokers, with trimtab as a real process."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from support.plans import plan_of
from support.replica_clusters import broker, partition, snapshot
from support.trials import TRIMTAB, Trial, finish, running_trial, was_killed
from tiers import by_tier
from trimtab.act.replicas.port import ClusterObservation, ThrottleConfig, TopicPartition
from trimtab.files.replicas.plan import read_plan
from trimtab.lab.sandbox.kafka.state import CONTROLLER_ID
from trimtab.model.plan import Verdict
from trimtab.model.replicas.plan import Plan
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.plan.replicas import trim

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1200)]

MB = 1_000_000
SLOW = "600000"
"""Bytes per second and broker: a copy of `BIG` takes ten to twenty seconds."""
CRAWL = "200000"
"""Half a minute and more: not over before another trimtab has started, however busy the machine."""
QUICK = "4000000"
SMALL, BIG = 2 * MB, 6 * MB


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """One cluster for all stories; each has its own topics."""
    with running_trial(tmp_path_factory.mktemp("trial")) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_goes_on(trial: Trial) -> Iterator[None]:
    """A story that fails does not spoil the next one."""
    yield
    trial.end_all()


def there_and_back(trial: Trial, topic: str) -> tuple[Plan, Plan]:
    """A topic, a plan with two copies, leaders before, between and after, and the plan that undoes it."""
    trial.create(topic, {0: [1, 2], 1: [2, 3], 2: [1, 3]}, SMALL)
    there = plan_of(
        (topic, 0, (1, 2), (3, 2)), (topic, 1, (2, 3), (3, 4)), (topic, 2, (1, 3), (3, 1)), size=SMALL
    )
    back = plan_of(
        (topic, 0, (3, 2), (1, 2)), (topic, 1, (3, 4), (2, 3)), (topic, 2, (3, 1), (1, 3)), size=SMALL
    )
    return there, back


def test_killed_at_every_step_and_resumed(trial: Trial) -> None:
    """A kill -9 at each write of the journal (in the tier `test` each third); a resume finishes it, clean."""
    plans = there_and_back(trial, "resumed")
    files = [trial.write(f"resumed-{n}", plan) for n, plan in enumerate(plans)]
    for write in range(1, 100, by_tier(3, 3, 1)):
        plan, file = plans[write % 2 == 0], files[write % 2 == 0]
        code, said = finish(trial.apply(file, crash_at=str(write), throttle=QUICK))
        if not was_killed(code):
            assert code == 0, said
            break
        if trial.status() != "finished":  # the last write leaves nothing to be resumed
            trial.run("execution", "resume")
        trial.assert_at(plan)
        trial.assert_clean(["resumed"])
        trial.assert_whole(plan)
    assert write > 8, "the hook did not kill it"


def test_killed_and_cancelled(trial: Trial) -> None:
    """A kill -9 at every third write; `execution cancel` cleans up, a resume still finishes."""
    plans = there_and_back(trial, "cancelled")
    files = [trial.write(f"cancelled-{n}", plan) for n, plan in enumerate(plans)]
    turn = 0
    for write in range(3, 100, 3):
        plan, file = plans[turn % 2], files[turn % 2]
        code, said = finish(trial.apply(file, crash_at=str(write), throttle=QUICK))
        if not was_killed(code):
            assert code == 0, said
            break
        trial.run("execution", "cancel")
        trial.assert_clean(["cancelled"])
        trial.assert_whole(plan)
        trial.run("execution", "resume")
        trial.assert_at(plan)
        trial.assert_clean(["cancelled"])
        turn += 1
    assert turn > 2, "the hook did not kill it"


@pytest.mark.long
def test_killed_in_mid_move_between_log_dirs_and_resumed(trial: Trial) -> None:
    """All replicas lie in one dir of broker 1: planned, killed at every other write, resumed, read back."""
    sizes = {0: 3 * MB, 1: 2 * MB, 2: MB}
    for number, size in sizes.items():
        trial.create(f"dirs-{number}", {0: [1, 2]}, size)
    names = {number: TopicPartition(f"dirs-{number}", 0) for number in sizes}

    def look() -> ClusterObservation:
        return trial.insist(lambda: trial.port.observe(list(names.values()), (1,), wide=True))

    skewed, other = (log_dir.path for log_dir in look().log_dirs[1])

    def where() -> dict[int, list[str]]:
        copies = look().copies
        return {number: [copy.path for copy in copies.get((name, 1), ())] for number, name in names.items()}

    disks = [(skewed, "online", 10.0 * MB), (other, "online", 10.0 * MB)]
    rows = [
        partition(f"dirs-{number}", 0, [1, 2], load=(0.0, float(size), 0.0, 0.0), dirs=[skewed, None])
        for number, size in sizes.items()
    ]
    plan = trim.plan(
        snapshot([broker(1, dirs=disks), broker(2)], rows), ReplicasSettings(intra_broker_only=True)
    )
    assert plan.verdict is Verdict.BALANCED
    assert plan.cost.log_dir_bytes == 3 * MB
    file = trial.write("dirs", plan)
    moved = {int(move.topic[-1]): move.target_dir for move in plan.moves}
    for write in range(2, 100, 2):
        trial.insist(lambda: trial.port.move_log_dirs({(name, 1): skewed for name in names.values()}))
        trial.wait("all in one dir", lambda: all(paths == [skewed] for paths in where().values()))
        code, said = finish(trial.apply(file, crash_at=str(write)))
        if was_killed(code) and trial.status() != "finished":
            trial.run("execution", "resume")
        trial.wait("as planned", lambda: where() == {n: [moved.get(n, skewed)] for n in sizes})
        if not was_killed(code):
            assert code == 0, said
            break
    assert write > 4, "the hook did not kill it"
    trial.assert_clean([name.topic for name in names.values()])
    trial.assert_whole(plan)


def test_a_list_is_put_in_order_without_another_leader(trial: Trial) -> None:
    """Broker 1 leads the list [2, 1]: planned and applied it is [1, 2], and an election changes nothing."""
    trial.create("order", {0: [1, 2]}, MB)
    name = TopicPartition("order", 0)
    trial.insist(lambda: trial.port.reassign({name: (2, 1)}))
    trial.wait("disordered", lambda: trial.placement("order", 0).replicas == (2, 1))
    assert trial.placement("order", 0).leader == 1
    row = partition("order", 0, [2, 1], leader=1, load=(0.0, float(MB), 0.0, 0.0))
    plan = trim.plan(snapshot([broker(1), broker(2)], [row]), ReplicasSettings(goals=("preferred_order",)))
    assert plan.cost.bytes == 0
    trial.run("apply", str(trial.write("order", plan)), "--yes")
    trial.assert_at(plan)
    trial.assert_replicas("order", 0, (1, 2))
    trial.insist(lambda: trial.port.elect_preferred([name]))
    assert trial.placement("order", 0).leader == 1
    trial.assert_clean(["order"])


def test_a_destination_dies_in_mid_copy(trial: Trial) -> None:
    """Its copy is rolled back, the rest of the plan is executed, and the receipt names what was left out."""
    trial.create("destination", {0: [1, 2], 1: [1, 2]}, BIG)
    plan = plan_of(("destination", 0, (1, 2), (4, 2)), ("destination", 1, (1, 2), (3, 2)), size=BIG)
    running = trial.apply(trial.write("destination", plan), throttle=SLOW, broker_timeout_seconds="2")
    trial.wait("in flight", lambda: trial.in_flight("destination", 0))
    trial.sandbox.kill(4)
    code, said = finish(running)
    assert code == 1, said
    assert "broker 4" in said
    trial.assert_clean(["destination"])
    trial.assert_replicas("destination", 0, (1, 2))
    trial.assert_replicas("destination", 1, (3, 2))
    trial.bring_back(4)
    trial.assert_whole(plan)


@pytest.mark.long
def test_a_source_dies_in_mid_copy(trial: Trial) -> None:
    """The other replica takes over as the source; the plan is finished without the dead one."""
    trial.create("source", {0: [4, 2]}, BIG)
    plan = plan_of(("source", 0, (4, 2), (3, 2)), size=BIG)
    running = trial.apply(trial.write("source", plan), throttle=SLOW, unhealthy_timeout_seconds="120")
    trial.wait("in flight", lambda: trial.in_flight("source", 0))
    trial.sandbox.kill(4)
    code, said = finish(running)
    assert code == 0, said
    trial.assert_at(plan)
    trial.assert_clean(["source"])
    trial.bring_back(4)
    trial.assert_whole(plan)


def test_another_tool_reassigns_something_else(trial: Trial) -> None:
    """Trimtab begins nothing while another reassignment is in flight, leaves it alone, then goes on."""
    trial.create("theirs", {0: [1, 2]}, 4 * BIG)
    trial.create("ours", {0: [1, 2]}, SMALL)
    name = TopicPartition("theirs", 0)
    slow = ThrottleConfig("100000", "100000", {"theirs": "*"}, {"theirs": "*"})
    assert trial.insist(lambda: trial.port.write_throttle(slow)) == {}
    assert trial.insist(lambda: trial.port.reassign({name: (4, 2)})) == {name: None}
    trial.wait("their copy in flight", lambda: trial.in_flight("theirs", 0))
    plan = plan_of(("ours", 0, (1, 2), (3, 2)), size=SMALL)
    running = trial.apply(trial.write("ours", plan), throttle="none")
    trial.wait("told to wait", lambda: trial.status() == "waiting")
    assert not trial.in_flight("ours", 0)
    assert trial.in_flight("theirs", 0)
    free = ThrottleConfig(None, None, {"theirs": None}, {"theirs": None})
    assert trial.insist(lambda: trial.port.write_throttle(free)) == {}
    code, said = finish(running)
    assert code == 0, said
    trial.assert_at(plan)
    trial.wait("their copy through", lambda: trial.placement("theirs", 0).replicas == (4, 2))
    trial.assert_clean(["ours", "theirs"])


@pytest.mark.long
def test_another_tool_takes_our_partition_over(trial: Trial) -> None:
    """The newer reassignment of another process stays; trimtab reports it and ends the rest of its plan."""
    trial.create("taken", {0: [1, 2], 1: [1, 2]}, BIG)
    plan = plan_of(("taken", 0, (1, 2), (3, 2)), ("taken", 1, (1, 2), (4, 2)), size=BIG)
    running = trial.apply(trial.write("taken", plan), throttle=SLOW)
    trial.wait("in flight", lambda: trial.in_flight("taken", 0))
    theirs = {TopicPartition("taken", 0): [2, 4]}
    trial.ask(lambda admin: admin.alter_partition_reassignments(theirs))
    code, said = finish(running)
    assert code == 1, said
    trial.wait("theirs through", lambda: not trial.look().reassignments)
    trial.assert_replicas("taken", 0, (2, 4))
    trial.assert_replicas("taken", 1, (4, 2))
    trial.assert_clean(["taken"])


@pytest.mark.long
def test_a_topic_is_deleted_in_mid_copy(trial: Trial) -> None:
    """Its steps are skipped, the others go through, no list of throttled replicas stays behind."""
    trial.create("doomed", {0: [1, 2]}, BIG)
    trial.create("spared", {0: [1, 2]}, BIG)
    plan = plan_of(("doomed", 0, (1, 2), (3, 2)), ("spared", 0, (1, 2), (4, 2)), size=BIG)
    running = trial.apply(trial.write("doomed", plan), throttle=SLOW)
    trial.wait("in flight", lambda: trial.in_flight("doomed", 0))
    trial.ask(lambda admin: admin.delete_topics(["doomed"]))
    code, said = finish(running)
    assert code == 1, said
    assert "doomed has been deleted" in said
    trial.assert_replicas("spared", 0, (4, 2))
    trial.assert_clean(["spared"])


@pytest.mark.long
def test_the_replication_factor_is_changed_in_mid_plan(trial: Trial) -> None:
    """A partition that received a third replica from another process is left unchanged."""
    trial.create("grown", {0: [1, 2], 1: [1, 2]}, BIG)
    plan = plan_of(("grown", 0, (1, 2), (3, 2)), ("grown", 1, (1, 2), (4, 2)), size=BIG)
    running = trial.apply(trial.write("grown", plan), throttle=SLOW, initial_copies_per_broker="1")
    trial.wait("in flight", lambda: trial.in_flight("grown", 0))
    theirs = {TopicPartition("grown", 1): [1, 2, 4]}
    trial.ask(lambda admin: admin.alter_partition_reassignments(theirs))
    code, said = finish(running)
    assert code == 1, said
    assert "replication factor" in said
    trial.wait("theirs through", lambda: not trial.look().reassignments)
    trial.assert_replicas("grown", 0, (3, 2))
    trial.assert_replicas("grown", 1, (1, 2, 4))
    trial.assert_clean(["grown"])


def test_replicas_are_added_and_dropped_under_load(trial: Trial) -> None:
    """Two replicas become three, killed and cancelled once, killed and resumed once; then two again; no
    record is lost. Below `min.insync.replicas` no replica is dropped, and lists changed by other processes
    are left unchanged.
    """
    topic = "sized"
    trial.create(topic, {0: [1, 2], 1: [2, 3], 2: [3, 1]}, BIG)

    def planned(factor: int) -> Path:
        file = trial.folder / f"sized-{factor}.json"
        snapshot = trial.snapshot(topic, {topic: 3}, BIG)
        factors = ("--replication-factor", f"{topic}={factor}")
        make = ("plan", "replicas", "--snapshot", str(snapshot), *factors, "--out", str(file))
        subprocess.run([str(TRIMTAB), *make], check=True, stdout=subprocess.PIPE)
        return file

    with trial.load(topic, 3) as confirmed:
        more = planned(3)
        plan = read_plan(more)
        assert (plan.cost.added_replicas, plan.cost.replica_moves, plan.cost.dropped_replicas) == (3, 0, 0)
        running = trial.apply(more, throttle=CRAWL)
        trial.wait("in flight", lambda: trial.in_flight(topic, 0))
        running.send_signal(signal.SIGKILL)
        finish(running)
        trial.run("execution", "cancel")
        for number, before in enumerate([(1, 2), (2, 3), (3, 1)]):
            trial.assert_replicas(topic, number, before)
        trial.assert_clean([topic])
        running = trial.apply(more, throttle=CRAWL)
        trial.wait("in flight", lambda: trial.in_flight(topic, 0))
        running.send_signal(signal.SIGKILL)
        finish(running)
        said = trial.run("execution", "resume", throttle=QUICK)
        assert "3 replicas added, 0 dropped" in said
        trial.assert_at(plan)
        trial.wait("in sync", lambda: all(trial.whole(topic, n, 3) for n in range(3)))
        trial.assert_clean([topic])
        fewer = planned(2)
        assert read_plan(fewer).cost.bytes == 0
        theirs = {TopicPartition(topic, 2): [1, 2, 3, 4]}
        trial.ask(lambda admin: admin.alter_partition_reassignments(theirs))
        trial.wait("theirs through", lambda: not trial.look().reassignments)
        assert f"{topic}-2: resized" in trial.run("apply", str(fewer), "--yes", expect=1)
        said = trial.run("apply", str(planned(2)), "--yes")
        assert "0 replicas added, 4 dropped" in said
        trial.wait("in sync", lambda: all(trial.whole(topic, n, 2) for n in range(3)))
        trial.assert_clean([topic])
        least = ConfigResource(ConfigResourceType.TOPIC, topic, {"min.insync.replicas": "2"})
        trial.ask(lambda admin: admin.alter_configs([least]))
        said = trial.run("apply", str(planned(1)), "--yes", expect=1)
        assert f"topic {topic} has min.insync.replicas = 2" in said
    assert min(map(len, confirmed.values())) > 0
    trial.assert_read_back(topic, confirmed)


def test_the_controller_restarts_in_mid_copy(trial: Trial) -> None:
    """Trimtab waits for the new controller and finishes the plan."""
    trial.create("steady", {0: [1, 2]}, BIG)
    plan = plan_of(("steady", 0, (1, 2), (3, 2)), size=BIG)
    running = trial.apply(trial.write("steady", plan), throttle=SLOW)
    trial.wait("in flight", lambda: trial.in_flight("steady", 0))
    trial.sandbox.kill(CONTROLLER_ID)
    trial.sandbox.restart(CONTROLLER_ID)
    code, said = finish(running)
    assert code == 0, said
    trial.assert_at(plan)
    trial.assert_clean(["steady"])
    trial.assert_whole(plan)


@pytest.mark.parametrize("state", [pytest.param("state", marks=pytest.mark.long), "elsewhere"])
def test_a_second_trimtab_is_refused(trial: Trial, state: str) -> None:
    """By name and since when, whether it shares the first one's state folder or not; the first goes on."""
    topic = f"contested-{state}"
    trial.create(topic, {0: [1, 2], 1: [1, 2]}, BIG)
    plan = plan_of((topic, 0, (1, 2), (3, 2)), size=BIG)
    other = plan_of((topic, 1, (1, 2), (4, 2)), size=BIG)
    running = trial.apply(trial.write(topic, plan), throttle=CRAWL)
    trial.wait("in flight", lambda: trial.in_flight(topic, 0))
    refusal = trial.run("apply", str(trial.write(f"{topic}-second", other)), "--yes", expect=1, state=state)
    assert f"process {running.pid}" in refusal
    assert "since" in refusal
    code, said = finish(running)
    assert code == 0, said
    trial.assert_at(plan)
    trial.assert_clean([topic])
