"""Hosts of several brokers: examples small enough to be worked out by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.replica_clusters import broker, partition, snapshot
from trimtab.balancers.settings import read_settings
from trimtab.files.replicas.plan import FORMAT as PLAN
from trimtab.files.replicas.snapshot import read_snapshot, write_snapshot
from trimtab.model.errors import PlanError
from trimtab.model.goals import goal_status
from trimtab.model.plan import Verdict
from trimtab.model.replicas.secondary_goals import hosts_of
from trimtab.model.replicas.settings import DEFAULT_GOALS, ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.plan.replicas.trim import plan
from trimtab.report.replicas.renderer import plan_text
from trimtab_common.errors import InputError, SettingsError

FREE = float("inf")
WIDE = ReplicasSettings(epsilon=(0.9,) * 4, goals=(*DEFAULT_GOALS, "host_load"))
"""Brokers may differ as they like, but for θ; and so may hosts."""


def two_hosts(out: tuple[float, ...] = (20.0, 20.0, 10.0, 10.0)) -> ReplicasSnapshot:
    """Brokers 1 and 2 on host a, 3 and 4 on b; each leads three partitions that send `out` each."""
    brokers = [broker(1, host="a"), broker(2, host="a"), broker(3, host="b"), broker(4, host="b")]
    rows = [partition("t", i, [1 + i % 4], load=(0.1, 1.0, 1.0, out[i % 4])) for i in range(12)]
    return snapshot(brokers, rows)


def declared(snapshot: ReplicasSnapshot, network_out: float) -> ReplicasSnapshot:
    """The same with one network interface for both brokers of a host."""
    capacity = (FREE, FREE, FREE, network_out)
    return replace(snapshot, hosts=(("a", capacity), ("b", capacity)))


def test_a_host_above_theta_is_relieved_although_no_broker_is_full() -> None:
    """Host a sends 120 of 140 (86 %), b 60 (43 %), brokers 60 % at most: one of 20 goes to b (71, 57 %)."""
    found = plan(declared(two_hosts(), 140.0), WIDE)
    assert found.verdict is Verdict.BALANCED
    (move,) = found.moves
    assert move.source in (1, 2)
    assert move.target in (3, 4)
    assert move.reason.goal == "host_load"
    assert move.reason.resource == "network_out"
    assert move.reason.text.startswith(
        f"host a is at 85.7% network out, limit 80.0%; moves leading replica of "
        f"{move.topic}-{move.partition} from broker {move.source} to broker {move.target} "
        "(network out 85.7% -> 71.4%, host b"
    )
    assert found.hosts is not None
    assert found.hosts.before.peak_usage["network_out"] == pytest.approx(120 / 140)
    assert found.hosts.after.peak_usage["network_out"] == pytest.approx(100 / 140)
    assert "of hosts:" in plan_text(found)


def test_settings_declare_hosts_as_snapshots_do() -> None:
    """The same plan, whether snapshot or settings declare a host's network interface of 140; settings
    precede.
    """
    told = replace(WIDE, host_capacity={"a": {"network_out": 140.0}, "b": {"network_out": 140.0}})
    found, same = plan(two_hosts(), told), plan(declared(two_hosts(), 140.0), WIDE)
    assert found.moves == same.moves
    assert found.settings["host_capacity"] == {"a": {"network_out": 140.0}, "b": {"network_out": 140.0}}
    assert plan(declared(two_hosts(), 1.0), told).moves == same.moves
    offline = plan(two_hosts(), replace(told, fix_offline_replicas=True))
    assert offline.settings["host_capacity"] == told.host_capacity, "its disks are kept to there too"
    (breach,) = goal_status(two_hosts(), told).secondary_goals[0].violations()
    assert (breach.goal, breach.broker) == ("theta", "a")
    assert breach.value == pytest.approx(120 / 140)


def test_a_host_that_is_not_there_is_refused() -> None:
    """A typo must not leave a machine without its limit."""
    with pytest.raises(PlanError, match="host_capacity: no broker .* is on host c, but on a, b; correct it"):
        plan(two_hosts(), replace(WIDE, host_capacity={"c": {"cpu": 1.0}}))


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("{a = {gpu = 1}}", "expected resources among cpu, disk"),
        ("{a = {cpu = 0}}", "expected capacities above 0"),
        ("{a = 3}", "expected"),
    ],
)
def test_wrong_capacities_of_hosts_are_refused(word: str, told: str) -> None:
    """With the key, the value and what would do."""
    with pytest.raises(SettingsError, match=rf"replicas\.host_capacity.*{told}"):
        read_settings(None, (f"replicas.host_capacity={word}",), {})


def test_without_the_goal_nothing_moves_and_hosts_are_not_mentioned() -> None:
    """The same cluster, but `host_load` is no goal."""
    found = plan(declared(two_hosts(), 140.0), replace(WIDE, goals=("rack", "host", "theta", "epsilon")))
    assert (found.verdict, found.moves, found.hosts) == (Verdict.BALANCED, (), None)


def test_hosts_are_balanced_although_brokers_need_not_be() -> None:
    """120 against 60 of 200 each deviates by a third from the mean of 90: sums of 81 to 99 are required."""
    found = plan(two_hosts(), replace(WIDE, host_epsilon=(None, None, None, 0.1)))
    assert found.verdict is Verdict.BALANCED
    assert found.hosts is not None
    assert found.hosts.before.worst_deviation["network_out"] == pytest.approx(1 / 3)
    assert found.hosts.after.worst_deviation["network_out"] <= 0.1
    assert found.predicted.after.worst_deviation["network_out"] > 0.1
    assert found.settings["host_epsilon"] == {"network_out": 0.1}


def test_more_than_all_hosts_can_bear_is_proven() -> None:
    """180 on two interfaces of 100: at .8 they bear 160, so one more of 100 is needed."""
    found = plan(declared(two_hosts(), 100.0), WIDE)
    assert found.verdict is Verdict.INFEASIBLE
    (why,) = [one for one in found.problems if one.kind == "add_brokers"]
    assert (why.count, why.proof["hosts"], why.proof["total"]) == (1, 2, 180.0)


def test_hosts_with_one_broker_each_are_no_bearers() -> None:
    """Hosts have no goal, and the plan's settings do not name one."""
    alone = snapshot([broker(1), broker(2)], [partition("t", 0, [1])])
    assert hosts_of(alone) is None
    goals: Any = plan(alone, WIDE).settings["goals"]
    assert "host_load" not in goals


def test_a_host_is_the_sum_of_its_brokers_in_service() -> None:
    """A draining broker counts neither in the load nor in the capacity."""
    brokers = [
        broker(1, host="a"),
        broker(2, host="a", state="draining"),
        broker(3, host="b"),
        broker(4, host="b"),
    ]
    rows = [partition("t", i, [1 + i % 4], load=(0.1, 1.0, 1.0, 10.0)) for i in range(4)]
    asked = snapshot(brokers, rows)
    hosts = hosts_of(asked)
    assert hosts is not None
    assert hosts.capacity[:, 1].tolist() == [100.0, 200.0]
    np.testing.assert_allclose(hosts.load(asked.broker_load())[:, 3], [10.0, 20.0])


def test_status_names_the_host() -> None:
    """Evaluated by the same definition as a plan."""
    (beside,) = goal_status(declared(two_hosts(), 140.0), WIDE).secondary_goals
    (breach,) = beside.violations()
    assert (breach.goal, breach.resource, breach.broker) == ("theta", "network_out", "a")


def test_a_disk_shared_by_two_brokers_is_not_overfilled() -> None:
    """Host b declares a disk of 50 bytes, its brokers hold 36: the 12 of broker 1 may not go there."""
    brokers = [broker(1, state="draining"), broker(2, host="b"), broker(3, host="b"), broker(4), broker(5)]
    rows = [partition("t", 0, [1], load=(0.1, 12.0, 1.0, 1.0))]
    rows += [partition("u", i, [2 + i % 2], load=(0.1, 9.0, 1.0, 1.0)) for i in range(4)]
    rows += [partition("v", i, [4 + i % 2], load=(0.1, 30.0, 1.0, 1.0)) for i in range(4)]
    asked = replace(snapshot(brokers, rows), hosts=(("b", (FREE, 50.0, FREE, FREE)),))
    found = plan(asked, replace(WIDE, goals=("theta", "host_load")))
    moved = [move.target for move in found.moves if move.topic == "t"]
    assert moved
    assert set(moved) <= {4, 5}
    again = plan(asked, replace(WIDE, goals=("theta", "host_load"), fix_offline_replicas=True))
    assert {move.target for move in again.moves} <= {4, 5}


def test_declared_hosts_go_through_files(tmp_path) -> None:
    """As JSON and as a folder; readers of the bare format pass over the field."""
    asked = declared(two_hosts(), 140.0)
    for name in ("s.json", "s"):
        write_snapshot(asked, tmp_path / name)
        assert read_snapshot(tmp_path / name).hosts == asked.hosts
    text = (tmp_path / "s.json").read_text()
    (tmp_path / "bad.json").write_text(text.replace('"name":"b"', '"name":"c"'))
    with pytest.raises(InputError, match=r'x_hosts\[1\].name is "c", expected the host of a broker \(a, b\)'):
        read_snapshot(tmp_path / "bad.json")
    found = plan(asked, WIDE)
    assert PLAN.from_bytes(tmp_path / "p.json", PLAN.to_bytes(found)).hosts == found.hosts
