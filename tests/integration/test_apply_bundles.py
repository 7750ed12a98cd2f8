"""`trimtab apply` on real Pulsar brokers: owners verified, killed and resumed, among dead brokers."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.bundle_plans import bundle_plan_of, messages_plan, split, unload
from support.bundle_snapshots import message_snapshot
from support.bundles_port_stories import STORIES, Stage
from support.pulsar_trials import NAMESPACE, PulsarTrial, bring_back
from trimtab.act.bundles.port import OFF, SHEDDING
from trimtab.files.bundles.plan import read_bundle_plan
from trimtab.files.bundles.snapshot import FORMAT
from trimtab.lab.sandbox.pulsar import PulsarSandbox
from trimtab.model.documents import SnapshotReference
from trimtab.systems.pulsar.admin import PulsarAdmin
from trimtab.systems.pulsar.port import PulsarAdminPort

pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(300)]


@pytest.fixture
def trial(three_pulsar_brokers: PulsarSandbox, tmp_path: Path) -> Iterator[PulsarTrial]:
    """Four bundles with some topics, all owned by the leader."""
    with PulsarAdmin(three_pulsar_brokers.connection) as admin:
        made = PulsarTrial(three_pulsar_brokers, tmp_path, admin)
        made.create()
        leader = made.brokers[0]
        for key in made.keys:
            made.place(key, leader)
        yield made
        made.end_all()


def test_a_plan_of_unloads_and_a_split_is_carried_out(trial: PulsarTrial) -> None:
    """Bundles are with whom the plan wants them; a hot one is cut, and a part of it moved."""
    leader, first, second = trial.brokers
    one, two, three, four = trial.keys
    part = f"{NAMESPACE}/0x80000000_0xa0000000"
    plan = bundle_plan_of(
        unload(one, leader, first, sessions=4),
        unload(two, leader, second, sessions=5),
        split(three, leader, 0xA0000000, 0xB0000000),
        unload(part, leader, first, sessions=2),
    )
    path = trial.write("plan", plan)
    assert "at 0xa0000000, 0xb0000000" in trial.run("apply", path, "--dry-run")
    assert trial.owner(one) == leader
    said = trial.run("apply", path, "--yes")
    assert "3 bundles moved, 1 split" in said
    assert "11 clients disconnected for a moment" in said
    assert [trial.owner(key) for key in (one, two, part, four)] == [first, second, first, leader]
    rest = [f"{NAMESPACE}/0xa0000000_0xb0000000", f"{NAMESPACE}/0xb0000000_0xc0000000"]
    assert trial.keys == [one, two, part, *rest, four]
    assert {trial.owner(key) for key in rest} == {leader}
    trial.assert_given_back()
    assert "nothing to do" in trial.run("apply", path, "--dry-run")


def test_an_unload_that_nothing_asks_for_any_more_is_dropped(trial: PulsarTrial, tmp_path: Path) -> None:
    """The newest snapshot, and brokers with idle topics, show that the leader is far below its limit."""
    leader, first, _ = trial.brokers
    path = trial.write("plan", messages_plan(leader, unload(trial.keys[0], leader, first)))
    cluster = read_bundle_plan(Path(path)).snapshot.cluster
    calm = message_snapshot(
        sorted(trial.brokers),
        dict.fromkeys(trial.keys, 1.0),
        dict.fromkeys(trial.keys, leader),
        SnapshotReference(cluster, "2026-01-01T00:00:00Z", "0" * 64),
    )
    folder = tmp_path / "lake" / "snapshots" / cluster / "2026-01-01T00:00:00Z"
    folder.parent.mkdir(parents=True)
    FORMAT.write(calm, folder)
    said = trial.run("apply", path, "--yes", "--lake", str(tmp_path / "lake"))
    assert f"dropped: unload {trial.keys[0]} {leader} -> {first}: no longer needed" in said
    assert trial.owner(trial.keys[0]) == leader
    trial.assert_given_back()


@pytest.mark.parametrize(
    ("write", "what"),
    [pytest.param("5", "resume", marks=pytest.mark.long), ("10", "resume"), ("9", "cancel")],
)
def test_killed_in_the_middle_it_is_resumed_or_cancelled(trial: PulsarTrial, write: str, what: str) -> None:
    """`kill -9` leaves the balancing off; a resume restores it, and a second apply is rejected."""
    leader, first, second = trial.brokers
    keys = trial.keys
    plan = bundle_plan_of(*(unload(key, leader, first if n % 2 else second) for n, key in enumerate(keys)))
    path = trial.write("plan", plan)
    trial.run(
        "apply", path, "--yes", crash_at=write, expect=-signal.SIGKILL, bundles__max_unloads_per_batch="1"
    )
    assert trial.admin.configuration_overrides()[SHEDDING] == OFF
    said = trial.run("apply", path, "--yes", "--skip-changed", expect=1)
    assert "execution 1 of cluster" in said
    assert "trimtab execution resume 1" in said
    assert trial.status() == "running"
    trial.run("execution", what)
    trial.assert_given_back()
    owners = [trial.owner(key) for key in keys]
    if what == "resume":
        assert trial.status() == "finished"
        assert owners == [second, first, second, first]
    else:
        assert trial.status() == "cancelled"
        assert owners[3] == leader
        assert None not in owners


def test_a_destination_killed_during_the_execution_affects_only_its_own_steps(trial: PulsarTrial) -> None:
    """The broker dies while bundles are sent to it: the others go where they should, and all ends clean."""
    leader, first, second = trial.brokers
    one, two, three, four = trial.keys
    plan = bundle_plan_of(
        unload(one, leader, second),
        unload(two, leader, second),
        unload(three, leader, first),
        unload(four, leader, second),
    )
    process = trial.start(
        "apply",
        trial.write("plan", plan),
        "--yes",
        bundles__max_unloads_per_batch="1",
        bundles__batch_pause_seconds="2",
    )
    try:
        trial.wait("the first moved", lambda: trial.owner(one) == second)
        trial.sandbox.kill(second)
        said, _ = process.communicate(timeout=120)
    finally:
        bring_back(trial.sandbox, second)
    assert process.returncode == 1, said
    assert trial.status() == "incomplete"
    assert f"failed, {second}, its destination, is dead" in said
    assert "unload" in said.split("left:")[1]
    assert trial.owner(three) == first
    assert trial.owner(four) == leader
    trial.assert_given_back()


def test_a_plan_with_a_bundle_split_afterwards_is_rejected(trial: PulsarTrial) -> None:
    """The plan is refused with the bundle's name; what still fits goes on with --skip-changed."""
    leader, first, _ = trial.brokers
    one, two, *_ = trial.keys
    path = trial.write("plan", bundle_plan_of(unload(one, leader, first), unload(two, leader, first)))
    trial.admin.split(one, "range_equally_divide")
    trial.wait("the split", lambda: one not in trial.keys)
    said = trial.run("apply", path, "--yes", expect=1)
    assert f"unload {one}: split: it was split at 0x20000000" in said
    trial.run("apply", path, "--yes", "--skip-changed")
    assert trial.owner(two) == first
    assert len(trial.keys) == 5
    trial.assert_given_back()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_real_cluster_behaves_like_the_simulated_one(
    three_pulsar_brokers: PulsarSandbox, tmp_path: Path, story: Callable[[Stage], None]
) -> None:
    """The stories of tests/contracts/test_bundles_port.py, each in a namespace of its own.

    Bundles of a deleted namespace still have owners, and one of the same name has the same bundles.
    """
    namespace = f"{NAMESPACE}-{story.__name__}"
    with PulsarAdmin(three_pulsar_brokers.connection) as admin:
        trial = PulsarTrial(three_pulsar_brokers, tmp_path, admin, namespace)
        trial.create(topics=0)
        try:
            port = PulsarAdminPort(admin, time.time)
            story(Stage(port, namespace, lambda condition: trial.wait("so", condition), trial.add_topics))
        finally:
            trial.end_all()


def test_a_bundle_moved_by_another_process_is_detected(trial: PulsarTrial) -> None:
    """A foreign unload: no new steps for a while, then continuation; the receipt names the bundle."""
    leader, first, second = trial.brokers
    one, two, three, _ = trial.keys
    process = trial.start(
        "apply",
        trial.write("plan", bundle_plan_of(unload(one, leader, first), unload(two, leader, first))),
        "--yes",
        bundles__max_unloads_per_batch="1",
        bundles__batch_pause_seconds="4",
        bundles__external_change_cooldown_seconds="2",
    )
    trial.wait("the first moved", lambda: trial.owner(one) == first)
    trial.place(three, second)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert f"note: somebody else has moved {three} from {leader} to {second}" in said
    assert trial.owner(two) == first
    assert trial.owner(three) == second
    trial.assert_given_back()
