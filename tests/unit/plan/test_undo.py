"""Plans that undo executed plans, worked out by hand for each balancer that has them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.bundle_plans import bundle_plan_of, key, split, unload
from support.bundle_snapshots import small_snapshot
from support.master_snapshots import a_group, a_snapshot
from support.plans import plan_of
from support.replica_clusters import broker, partition, snapshot
from trimtab.balancers import BALANCERS
from trimtab.files.masters.settings import MastersSettings
from trimtab.model.bundles.plan import BundlePlan
from trimtab.model.bundles.snapshot import BundlesSnapshot
from trimtab.model.documents import Receipt, StepOutcome
from trimtab.model.masters import MastershipMoveKind, MastersPlan, MastersSnapshot, NodeState
from trimtab.model.plan import Plan, Verdict
from trimtab.model.replicas.plan import ReplicaMove, ReplicaMoveKind, ReplicasPlan
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.plan.bundles import undo as bundles
from trimtab.plan.masters import undo as masters
from trimtab.plan.masters.trim import plan_masters
from trimtab.plan.replicas import undo as replicas

SIZE = 50.0


def receipt(plan: Plan[Any], *undone: int) -> Any:
    """The receipt of an execution of all moves but some."""
    outcomes = tuple(
        StepOutcome(str(move.kind), "pending" if move.order in undone else "done", "", (move.order,), 0, 1)
        for move in plan.moves
    )
    return Receipt(1, "fake", "id", "finished", "", 0.0, 1.0, 1, outcomes)


def read_back(plan: Any, folder: Path) -> None:
    """The file format checks moves, assignments and cost against each other."""
    form = BALANCERS[plan.balancer].plan()
    form.write(plan, folder / "undo.json")
    assert form.read(folder / "undo.json") == plan


def placed(*lists: tuple[int, ...], leader: int | None = None, **states: str) -> ReplicasSnapshot:
    """Partitions 0, 1, ... of topic `t` on four brokers; `b3="dead"` is a state."""
    brokers = [broker(one, state=states.get(f"b{one}", "alive")) for one in (1, 2, 3, 4)]
    partitions = [
        partition("t", number, list(found), leader=leader or found[0], load=(1.0, SIZE, 1.0, 1.0))
        for number, found in enumerate(lists)
    ]
    return snapshot(brokers, partitions)


def moves(plan: ReplicasPlan) -> list[tuple[str, int, int | None, int]]:
    """Kind, partition, source and target of each move."""
    return [(str(one.kind), one.partition, one.source, one.target) for one in plan.moves]


def test_replicas_return_in_reverse_order(tmp_path: Path) -> None:
    """A copy and a leader move: the partition that moved last returns first, with the size of now."""
    plan = plan_of(("t", 0, (1, 2), (1, 3)), ("t", 1, (1, 2), (2, 1)))
    found = replicas.undo(plan, receipt(plan), placed((1, 3), (2, 1)))
    assert moves(found) == [("leader", 1, 2, 1), ("replica", 0, 3, 2)]
    assert [one.after for one in found.assignments] == [(1, 2), (1, 2)]
    assert (found.cost.bytes, found.cost.replica_moves, found.cost.leader_moves) == (50, 1, 1)
    assert (found.verdict, found.problems) == (Verdict.IMPROVED, ())
    # Brokers 1 and 2 hold both partitions again: of the disk's 100 that is .5 + .5 each.
    assert found.predicted.after.peak_usage["disk"] == pytest.approx(1.0)
    assert found.predicted.before.peak_usage["disk"] == pytest.approx(1.0)
    read_back(found, tmp_path)


def test_a_replica_that_led_returns_with_its_role(tmp_path: Path) -> None:
    """The leader itself moved from broker 1 to broker 4, and leads there."""
    plan = plan_of(("t", 0, (1, 2), (4, 2)))
    found = replicas.undo(plan, receipt(plan), placed((4, 2)))
    assert moves(found) == [("replica", 0, 4, 1)]
    assert (found.assignments[0].after, found.assignments[0].leader_after) == ((1, 2), 1)
    read_back(found, tmp_path)


def test_added_and_dropped_replicas_are_undone(tmp_path: Path) -> None:
    """An added one is dropped without bytes, a dropped one is copied again, at the end of the list."""
    plan = plan_of(("t", 0, (1, 2), (1, 2, 3)), ("t", 1, (1, 2, 3), (1, 3)))
    found = replicas.undo(plan, receipt(plan), placed((1, 2, 3), (1, 3)))
    assert moves(found) == [("add", 1, None, 2), ("drop", 0, 3, 3)]
    assert [one.after for one in found.assignments] == [(1, 2), (1, 3, 2)]
    assert (found.cost.bytes, found.cost.added_replicas, found.cost.dropped_replicas) == (50, 1, 1)
    read_back(found, tmp_path)


def test_only_finished_steps_are_undone() -> None:
    """The second partition was never begun, and a third has been undone by hand."""
    plan = plan_of(("t", 0, (1, 2), (1, 3)), ("t", 1, (1, 2), (1, 4)), ("t", 2, (1, 2), (1, 4)))
    found = replicas.undo(plan, receipt(plan, 2), placed((1, 3), (1, 2), (1, 2)))
    assert moves(found) == [("replica", 0, 3, 2)]
    assert found.verdict is Verdict.IMPROVED


def test_finished_steps_of_a_partition_are_undone() -> None:
    """Its leader moved, and its copy was never begun: only the leader returns."""
    plan = plan_of(("t", 0, (1, 2), (2, 3)))
    assert [str(one.kind) for one in plan.moves] == ["leader", "replica"]
    found = replicas.undo(plan, receipt(plan, 2), placed((2, 1)))
    assert moves(found) == [("leader", 0, 2, 1)]
    assert found.problems == ()


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (placed((1, 4)), "t-0 stays: the execution left it on [1, 3], and it is on [1, 4] now"),
        (placed(), "t-0 stays: it was deleted after the execution"),
        (
            placed((1, 3), b2="dead"),
            "t-0 stays: broker 2, where a replica has to return, is not in service",
        ),
    ],
    ids=["moved since", "deleted", "broker dead"],
)
def test_a_changed_partition_is_named_with_its_reason(now: ReplicasSnapshot, reason: str) -> None:
    """The plan has no move of it, and its verdict is incomplete."""
    plan = plan_of(("t", 0, (1, 2), (1, 3)))
    found = replicas.undo(plan, receipt(plan), now)
    assert (found.moves, found.verdict) == ((), Verdict.INCOMPLETE)
    assert [one.text for one in found.problems] == [reason]


def test_a_replica_returns_to_its_log_dir(tmp_path: Path) -> None:
    """A log dir that the plan does not name, or that is offline, is a reason."""
    plan = plan_of(("t", 0, (1, 2), (1, 2)))
    move = ReplicaMove(
        1,
        ReplicaMoveKind.LOG_DIR,
        "t",
        0,
        1,
        1,
        50,
        plan_of(("t", 0, (1,), (2,))).moves[0].reason,
        "/a",
        "/b",
    )
    plan = replace(plan, moves=(move,), cost=replace(plan.cost, log_dir_moves=1, log_dir_bytes=50))

    def cluster(state: str) -> ReplicasSnapshot:
        dirs = (("/a", state, None), ("/b", "online", None))
        return snapshot(
            [broker(1, dirs=dirs), broker(2, dirs=(("/a", "online", None),))],
            [partition("t", 0, [1, 2], load=(1.0, SIZE, 1.0, 1.0), dirs=["/b", "/a"])],
        )

    found = replicas.undo(plan, receipt(plan), cluster("online"))
    (back,) = found.moves
    assert (back.kind, back.source_dir, back.target_dir) == (ReplicaMoveKind.LOG_DIR, "/b", "/a")
    assert (found.cost.bytes, found.cost.log_dir_bytes) == (0, 50)
    read_back(found, tmp_path)
    kept = replicas.undo(plan, receipt(plan), cluster("offline"))
    assert [one.text for one in kept.problems] == ["t-0 stays: log dir /a of broker 1 is not in service"]


def transferred() -> tuple[MastersPlan, MastersSnapshot]:
    """Six groups on node 0 are spread over three nodes; the plan, and the snapshot after it."""
    before = a_snapshot(*(a_group(number, 0) for number in range(6)))
    plan = plan_masters(before, MastersSettings())
    targets = {one.group: int(one.target) for one in plan.moves}
    groups = tuple(replace(one, master=targets.get(one.group, one.master)) for one in before.groups)
    return plan, replace(before, groups=groups, version=7)


def test_masterships_return_to_their_nodes(tmp_path: Path) -> None:
    """Four of six masterships moved; the last to move is the first to return."""
    plan, now = transferred()
    found = masters.undo(plan, receipt(plan), now)
    assert len(plan.moves) == 4
    assert [(one.group, one.source, one.target) for one in found.moves] == [
        (one.group, one.target, one.source) for one in reversed(plan.moves)
    ]
    assert {one.kind for one in found.moves} == {MastershipMoveKind.TRANSFER}
    assert {one.after for one in found.assignments} == {"0"}
    assert (found.version, found.verdict) == (7, Verdict.IMPROVED)
    assert found.predicted.after.peak_usage["queries"] == pytest.approx(3.0)
    read_back(found, tmp_path)


def test_a_changed_group_is_named_with_its_reason() -> None:
    """One was transferred again, one of another's previous node is behind; the others return."""
    plan, now = transferred()
    first, second, *rest = plan.moves
    groups = {one.group: one for one in now.groups}
    other = ({1, 2} - {int(first.target)}).pop()
    groups[first.group] = replace(groups[first.group], master=other)
    groups[second.group] = replace(groups[second.group], able=(1, 2))
    found = masters.undo(plan, receipt(plan), replace(now, groups=tuple(groups.values())))
    assert [one.group for one in found.moves] == [one.group for one in reversed(rest)]
    assert [one.text for one in found.problems] == [
        f"{second.group} keeps its master: node 0, its previous master, cannot be its master now",
        f"{first.group} keeps its master: the execution made node {first.target} its master, and node "
        f"{other} is now",
    ]


def test_a_dead_node_gets_no_mastership_back() -> None:
    """All came from node 0, which is dead now: nothing is undone, each has its reason."""
    plan, now = transferred()
    dead = (replace(now.nodes[0], state=NodeState.DEAD), *now.nodes[1:])
    found = masters.undo(plan, receipt(plan), replace(now, nodes=dead))
    assert found.moves == ()
    assert all(one.text.endswith("node 0, its previous master, is dead") for one in found.problems)


def owned_bundles(owners: dict[str, str | None], sessions: int = 3) -> BundlesSnapshot:
    """Bundles and their owners among three brokers."""
    names = ("a:1", "b:1", "c:1")
    keys = sorted(owners)
    places = [-1 if owners[one] is None else names.index(str(owners[one])) for one in keys]
    made = small_snapshot(places, [10.0] * len(keys), brokers=3, sessions=[sessions] * len(keys))
    named = replace(made.bundles, key=tuple(keys))
    return replace(made, bundles=named, brokers=replace(made.brokers, name=names))


def test_bundles_return_and_splits_stay(tmp_path: Path) -> None:
    """The part of a split that moved returns to the owner of the whole; the split itself is named."""
    whole, low, high = key(0, 2**31), key(0, 2**30), key(2**30, 2**31)
    other = key(2**31, 2**32 - 1)
    plan = bundle_plan_of(split(whole, "a:1", 2**30), unload(high, "a:1", "b:1"), unload(other, "b:1", "a:1"))
    now = owned_bundles({low: "a:1", high: "b:1", other: "a:1"}, sessions=5)
    found = bundles.undo(plan, receipt(plan), now)
    assert [(one.bundle, one.source, one.target) for one in found.moves] == [
        (other, "a:1", "b:1"),
        (high, "b:1", "a:1"),
    ]
    assert (found.cost.unloads, found.cost.splits, found.cost.sessions) == (2, 0, 10)
    assert found.verdict is Verdict.INCOMPLETE
    assert [one.text for one in found.problems] == [f"{whole} stays split: Pulsar cannot merge bundles"]
    read_back(found, tmp_path)


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        (("c:1",), "the execution gave it to b:1, and c:1 owns it now"),
        ((None,), "the execution gave it to b:1, and nobody owns it now"),
        ((), "it was split or deleted after the execution"),
    ],
    ids=["moved since", "no owner", "gone"],
)
def test_a_changed_bundle_is_named_with_its_reason(owner: tuple[str | None, ...], reason: str) -> None:
    """The plan leaves it where it is."""
    bundle = key(0, 2**31)
    plan: BundlePlan = bundle_plan_of(unload(bundle, "a:1", "b:1"))
    owners: dict[str, str | None] = {key(2**31, 2**32 - 1): "a:1"}
    if owner:
        owners[bundle] = owner[0]
    now = owned_bundles(owners)
    found = bundles.undo(plan, receipt(plan), now)
    assert found.moves == ()
    assert [one.text for one in found.problems] == [f"{bundle} stays: {reason}"]
