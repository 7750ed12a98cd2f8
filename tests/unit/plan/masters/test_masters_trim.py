"""Plans of the balancer `masters`: what must leave goes, what helps most follows, and nothing else moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.master_snapshots import a_group, a_snapshot
from trimtab.files.masters.formats import SNAPSHOT_FORMAT
from trimtab.files.masters.settings import MastersSettings
from trimtab.model.errors import PlanError
from trimtab.model.goals import goal_status
from trimtab.model.masters import NO_MASTER, MastersPlan, MastersSnapshot, NodeState
from trimtab.model.plan import Verdict
from trimtab.plan.masters import exact
from trimtab.plan.masters.trim import plan_masters
from trimtab.report.masters import plan_text


def moved(plan: MastersPlan) -> list[tuple[str, str | None, str]]:
    """Each transfer: group, source, target."""
    return [(move.group, move.source, move.target) for move in plan.moves]


def test_masters_that_piled_up_are_spread() -> None:
    """Six equal groups on node 0: shares of 1 are two each, so four move, two to each other node.

    By hand: u = (3, 0, 0), unevenness (4 + 1 + 1) / 3 = 2. No plan does it with three: node 0 has two groups
    as its share, and 10 % more is not a third one.
    """
    plan = plan_masters(a_snapshot(*(a_group(number, 0) for number in range(6))), MastersSettings())
    assert [source for _, source, _ in moved(plan)] == ["0"] * 4
    assert sorted(target for _, _, target in moved(plan)) == ["1", "1", "2", "2"]
    assert plan.verdict is Verdict.BALANCED
    assert plan.bound.transfers == plan.cost.transfers == 4
    assert plan.predicted.before.worst_deviation["queries"] == pytest.approx(2.0)
    assert plan.predicted.after.worst_deviation["queries"] == pytest.approx(0.0)
    # Three proposals of 4 ms each, one group after the other.
    assert plan.cost.pause_seconds == pytest.approx(4 * 3 * 0.004)
    assert plan.system == "paxos"
    assert plan.version == 3


def test_a_balanced_store_gets_no_transfers() -> None:
    """Nothing to do, and nothing done."""
    plan = plan_masters(a_snapshot(*(a_group(number, number % 3) for number in range(6))), MastersSettings())
    assert (plan.moves, plan.verdict) == ((), Verdict.BALANCED)


def test_groups_of_a_dead_node_go_to_those_that_have_least() -> None:
    """Node 0 is dead; its two groups move to the least loaded nodes, the larger first, though
    ε is no goal.
    """
    groups = (
        a_group(0, 0, 50.0, able=(1, 2)),
        a_group(1, 0, 100.0, able=(1, 2)),
        a_group(2, 1, 100.0, able=(1, 2)),
        a_group(3, 2, 150.0, able=(1, 2)),
    )
    dead = (NodeState.DEAD, NodeState.ALIVE, NodeState.ALIVE)
    plan = plan_masters(a_snapshot(*groups, states=dead), MastersSettings(epsilon=(0.2, 0.2)))
    assert moved(plan) == [("group 1", "0", "1"), ("group 0", "0", "2")]
    assert {move.reason.goal for move in plan.moves} == {"dead"}
    assert plan.verdict is Verdict.BALANCED
    assert plan.bound.transfers == 2


def test_a_drained_node_is_emptied_and_an_excluded_one_gets_nothing() -> None:
    """Node 0 leaves, node 2 takes no more: all of it goes to node 1, however uneven that is."""
    groups = (a_group(0, 0), a_group(1, 0), a_group(2, 2))
    plan = plan_masters(a_snapshot(*groups), MastersSettings(drain=("0",), excluded_nodes=("2",)))
    assert moved(plan) == [("group 0", "0", "1"), ("group 1", "0", "1")]
    assert {move.reason.goal for move in plan.moves} == {"drain"}
    assert plan.verdict is Verdict.IMPROVED  # 2 and 1: a third off the mean
    assert plan.problems[0].kind == "unmet_goal"


def test_an_excluded_node_gets_nothing_though_it_is_empty() -> None:
    """What leaves node 0 goes to node 1, which has some already."""
    plan = plan_masters(
        a_snapshot(a_group(0, 0), a_group(1, 1)), MastersSettings(drain=("0",), excluded_nodes=("2",))
    )
    assert moved(plan) == [("group 0", "0", "1")]


@pytest.mark.parametrize(
    ("name", "asked"), [("drain", ("9",)), ("excluded_nodes", ("1", "9")), ("weights", {"9": 2.0})]
)
def test_a_node_that_is_not_there_is_refused(name: str, asked: Any) -> None:
    """A mistyped node is an error, not a balanced plan."""
    level = a_snapshot(*(a_group(number, number) for number in range(3)))
    told = rf"^masters.{name}: the snapshot of 2026-11-24T15:00:00Z has no node 9; it has 0, 1, 2; "
    with pytest.raises(PlanError, match=told):
        plan_masters(level, replace(MastersSettings(), **{name: asked}))


def test_a_dead_node_may_be_named() -> None:
    """It is in the snapshot: settings that stand while a node is down must not stop plans."""
    dead = (NodeState.ALIVE, NodeState.ALIVE, NodeState.DEAD)
    groups = [a_group(number, number % 2, able=(0, 1)) for number in range(4)]
    settings = MastersSettings(drain=("2",), weights={"2": 3.0})
    assert plan_masters(a_snapshot(*groups, states=dead), settings).verdict is Verdict.BALANCED


def test_weights_are_shares() -> None:
    """A node of weight 2 gets half of the load, next to two of weight 1."""
    groups = [a_group(number, 1) for number in range(4)]
    plan = plan_masters(a_snapshot(*groups), MastersSettings(weights={"0": 2.0}))
    assert [one.after for one in plan.assignments].count("0") == 2
    assert plan.predicted.after.worst_deviation["queries"] == pytest.approx(0.0)


def test_no_node_gets_a_group_in_which_it_lags() -> None:
    """Node 1 is not able: node 2 gets what it can, and the plan reports the rest."""
    groups = [a_group(number, 0, able=(0, 2)) for number in range(6)]
    plan = plan_masters(a_snapshot(*groups), MastersSettings())
    assert {target for _, _, target in moved(plan)} == {"2"}
    assert plan.verdict is Verdict.IMPROVED


def test_a_group_without_an_eligible_node_is_reported() -> None:
    """Its master is dead and no other node exists: no plan can help, and the plan states that."""
    plan = plan_masters(
        a_snapshot(a_group(0, 0, able=()), states=(NodeState.DEAD, NodeState.ALIVE)), MastersSettings()
    )
    assert (plan.moves, plan.verdict) == ((), Verdict.INFEASIBLE)
    assert plan.problems[0].text == "group 0: no node that is alive and not behind may have it; it stays"


def test_a_group_without_any_node_misses_no_goal() -> None:
    """There is no master, and no possible one: that is the problem, and idle nodes are even."""
    plan = plan_masters(a_snapshot(a_group(0, NO_MASTER, able=())), MastersSettings())
    assert plan.verdict is Verdict.INFEASIBLE
    assert [one.kind for one in plan.problems] == ["no_target"]
    assert plan.predicted.after.worst_deviation == {"queries": 0.0, "bytes": 0.0}


def test_nodes_are_compared_with_the_load_of_nodes_in_service() -> None:
    """A dead node holds six groups, two of which no other node may have: four go, and two nodes are even.

    The plan's figures, its text and its problems judge alike: no goal of a node is missed.
    """
    path = Path(__file__).parent / "cases" / "dead-master-nobody-able.json"
    snapshot = SNAPSHOT_FORMAT.from_json(path, path.read_bytes(), "0" * 64)
    plan = plan_masters(snapshot, MastersSettings())
    assert [(one.kind, one.text) for one in plan.problems] == [
        ("no_target", f"{group}: no node that is alive and not behind may have it; it stays")
        for group in ("g0", "g1")
    ]
    assert (plan.verdict, plan.cost.transfers, plan.bound.transfers) == (Verdict.INFEASIBLE, 4, 4)
    assert plan.predicted.after.worst_deviation == {"queries": 0.0, "bytes": 0.0}
    assert plan.predicted.after.peak_usage == {"queries": 1.0, "bytes": 1.0}
    assert not goal_status(snapshot, MastersSettings()).violations
    assert "unmet" not in plan_text(plan, snapshot)


def test_the_fewest_transfers_are_found_if_a_stepwise_search_misses_them() -> None:
    """Groups of 20, 30, 40, 20, 30, 40 on node 0: 60 each is reached by four transfers, and by no three.

    The largest leave first, step by step; then a group that has moved already must make place for another.
    """
    queries = (20.0, 30.0, 40.0, 20.0, 30.0, 40.0)
    plan = plan_masters(
        a_snapshot(*(a_group(number, 0, load) for number, load in enumerate(queries))), MastersSettings()
    )
    assert plan.predicted.after.worst_deviation["queries"] == pytest.approx(0.0)
    assert (plan.verdict, plan.cost.transfers, plan.bound.transfers) == (Verdict.BALANCED, 4, 4)
    assert "with fewer than 4 others some node stays further than epsilon" in plan.bound.proof


def test_groups_that_have_moved_are_moved_again_in_large_clusters() -> None:
    """The same with 15 nodes of five loads each, too many groups to compare all plans: still all even."""
    loads = (20.0, 30.0, 40.0, 20.0, 30.0, 40.0)
    groups = [
        a_group(
            number,
            3 * (number // 6),
            loads[number % 6],
            able=tuple(range(3 * (number // 6), 3 * (number // 6) + 3)),
        )
        for number in range(90)
    ]
    plan = plan_masters(a_snapshot(*groups, states=(NodeState.ALIVE,) * 45), MastersSettings())
    assert (plan.verdict, plan.cost.transfers) == (Verdict.BALANCED, 60)


def test_the_search_reverts_transfers_that_prove_unnecessary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven groups with loads of two kinds, on a cluster that counts as too large to compare all plans."""
    monkeypatch.setattr(exact, "MAX_GROUPS", 0)
    loads = ((1, 20, 20), (0, 50, 50), (1, 80, 50), (2, 80, 50), (0, 50, 80), (1, 80, 80), (1, 50, 80))
    groups = [
        replace(a_group(number, master, float(queries)), bytes_per_second=float(many))
        for number, (master, queries, many) in enumerate(loads)
    ]
    plan = plan_masters(a_snapshot(*groups), MastersSettings())
    assert (plan.verdict, plan.cost.transfers) == (Verdict.BALANCED, 2)


def test_an_incomplete_comparison_claims_no_optimum() -> None:
    """One group of 70 is half of all: no plan helps, but with 71 groups not all plans were compared."""
    groups = [a_group(0, 0, 7000.0), *(a_group(number, number % 3) for number in range(1, 71))]
    plan = plan_masters(a_snapshot(*groups), MastersSettings())
    texts = [one.text for one in plan.problems]
    assert all("the search found no plan that does better, and has not compared all" in one for one in texts)
    few = plan_masters(a_snapshot(a_group(0, 0, 700.0), a_group(1, 1), a_group(2, 2)), MastersSettings())
    assert all("no plan brings every node within epsilon" in one.text for one in few.problems)
    assert (few.moves, few.bound.transfers) == ((), 0)


def test_a_new_master_is_left_alone_for_a_while() -> None:
    """Load follows a master with delay: groups that moved just now stay."""
    groups = [a_group(number, 0, held=5.0) for number in range(6)]
    assert plan_masters(a_snapshot(*groups), MastersSettings()).moves == ()
    assert plan_masters(a_snapshot(*groups), MastersSettings(cooldown_seconds=5.0)).cost.transfers == 4


def test_a_plan_keeps_its_limit() -> None:
    """The operator allows two tonight."""
    groups = [a_group(number, 0) for number in range(6)]
    plan = plan_masters(a_snapshot(*groups), MastersSettings(max_moves=2))
    assert plan.cost.transfers == 2
    assert "masters.max_moves" in plan.problems[0].text


def test_groups_are_swapped_if_no_single_transfer_helps() -> None:
    """300 + 200 against 250 + 150: moving any group makes it worse; 300 for 250 leaves 450 and 450."""
    groups = (
        a_group(0, 0, 300.0, able=(0, 1)),
        a_group(1, 0, 200.0, able=(0, 1)),
        a_group(2, 1, 250.0, able=(0, 1)),
        a_group(3, 1, 150.0, able=(0, 1)),
    )
    plan = plan_masters(
        a_snapshot(*groups, states=(NodeState.ALIVE,) * 2), MastersSettings(epsilon=(0.05, 0.05))
    )
    # 300 for 250, or 200 for 150, both by 50; the first found is taken.
    assert plan.cost.transfers == 2
    assert plan.predicted.after.worst_deviation["queries"] == pytest.approx(0.0)
    assert [move.reason.goal for move in plan.moves] == ["epsilon", "order"]
    # Half a swap is none.
    one = MastersSettings(epsilon=(0.05, 0.05), max_moves=1)
    assert plan_masters(a_snapshot(*groups, states=(NodeState.ALIVE,) * 2), one).moves == ()


def test_an_idle_cluster_is_balanced_by_number_of_groups() -> None:
    """Nothing goes on: every group counts the same."""
    groups = [a_group(number, 0, 0.0) for number in range(3)]
    plan = plan_masters(a_snapshot(*groups), MastersSettings())
    assert sorted(one.after or "" for one in plan.assignments) == ["0", "1", "2"]


def test_no_pause_is_estimated_if_the_scheme_reports_none() -> None:
    """Under a scheme that waits for leases, proposals do not determine the pause."""
    groups = [a_group(number, 0) for number in range(3)]
    plan = plan_masters(a_snapshot(*groups, scheme="await"), MastersSettings())
    assert {move.pause_seconds for move in plan.moves} == {None}


@st.composite
def snapshots(draw: st.DrawFn) -> MastersSnapshot:
    """Any cluster: some nodes dead, some groups without a master, some nodes behind."""
    count = draw(st.integers(1, 5))
    states = tuple(draw(st.sampled_from([NodeState.ALIVE] * 4 + [NodeState.DEAD])) for _ in range(count))
    groups = []
    for number in range(draw(st.integers(0, 14))):
        able = draw(st.sets(st.integers(0, count - 1)))
        groups.append(
            a_group(
                number,
                draw(st.integers(-1, count - 1)),
                draw(st.floats(0.0, 1000.0)),
                able=tuple(sorted(able)),
                held=draw(st.sampled_from([1.0, 600.0])),
            )
        )
    return a_snapshot(*groups, states=states)


def test_a_load_near_the_least_float_counts_as_none() -> None:
    """The capacity of a node is a share of the whole load, and would be 0."""
    found = a_snapshot(a_group(0, 0, 5e-324), a_group(1, 0, 0.0), a_group(2, 1, 0.0))
    assert found.loads[:, 0].tolist() == [1.0, 1.0, 1.0]
    assert plan_masters(found, MastersSettings()).verdict is not Verdict.INFEASIBLE


@given(snapshots(), st.sampled_from([0.02, 0.1, 0.5]), st.integers(1, 6))
def test_any_plan_is_sound(snapshot: MastersSnapshot, epsilon: float, most: int) -> None:
    """The result is as predicted, no node gets a forbidden group, and without ε loads become more even."""
    settings = MastersSettings(epsilon=(epsilon, epsilon), max_moves=most)
    plan = plan_masters(snapshot, settings)
    assert plan == plan_masters(snapshot, settings)
    place = {one.node: number for number, one in enumerate(snapshot.nodes)}
    groups = {one.group: one for one in snapshot.groups}
    after = {one.group: one.before for one in plan.assignments}
    for move in plan.moves:
        assert after[move.group] == move.source
        target = place[move.target]
        assert target in groups[move.group].able
        assert snapshot.nodes[target].state is NodeState.ALIVE
        after[move.group] = move.target
    assert after == {one.group: one.after for one in plan.assignments}
    masters = [
        NO_MASTER if after[one.group] is None else place[after[one.group] or ""] for one in snapshot.groups
    ]
    ends = snapshot.imbalance(masters)
    for name, value in plan.predicted.after.sigma.items():
        assert value == pytest.approx(ends.measures().sigma[name], abs=1e-9)
    free = [move for move in plan.moves if move.reason.goal in ("epsilon", "order")]
    assert len(free) <= most
    assert all((groups[move.group].held_seconds or 0) >= settings.cooldown_seconds for move in free)
    if plan.verdict is Verdict.BALANCED:
        assert plan.bound.transfers <= plan.cost.transfers
        off = np.abs(np.where(ends.counted, ends.usage, 1.0) - 1.0)
        assert (off <= epsilon + 1e-6).all() or not snapshot.groups
    if plan.moves and len(free) == len(plan.moves) and plan.verdict is not Verdict.BALANCED:
        assert unevenness(snapshot, masters) < unevenness(snapshot, list(snapshot.masters))


def unevenness(snapshot: MastersSnapshot, masters: list[int]) -> float:
    """The sum of squared deviations, over nodes in service."""
    found = snapshot.imbalance(masters)
    return float((np.where(found.counted, found.usage - 1.0, 0.0) ** 2).sum())


def test_plans_do_not_depend_on_the_published_map() -> None:
    """A plan does not use the published map, which names desired masters, not optimal ones."""
    groups = [a_group(number, 0) for number in range(6)]
    one = plan_masters(a_snapshot(*groups), MastersSettings())
    other = plan_masters(a_snapshot(*(replace(group, preferred=1) for group in groups)), MastersSettings())
    assert moved(one) == moved(other)
