"""What rules make impossible, leave undone or merely find is named with its cause, and judged right."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.bundle_plan_checker import check_plan
from support.bundle_snapshots import AT, small_snapshot
from trimtab.files.bundles.snapshot import read_bundles_snapshot
from trimtab.model.bundles.plan import BundlePlan, BundlesSettings
from trimtab.model.bundles.policies import BundlePolicies, IsolationPolicy
from trimtab.model.bundles.snapshot import BundlesSnapshot, Departure
from trimtab.model.documents import Quality
from trimtab.model.plan import Problem, Verdict
from trimtab.plan.bundles.trim import plan_bundles

CASES = Path(__file__).parent / "cases"
WIDE = BundlesSettings(epsilon=(0.9,) * 4)


def planned(snapshot: BundlesSnapshot, settings: BundlesSettings = WIDE) -> BundlePlan:
    """A plan that the independent checker has walked through."""
    plan = plan_bundles(snapshot, settings)
    check_plan(snapshot, settings, plan)
    return plan


def of_kind(plan: BundlePlan, kind: str) -> list[Problem]:
    """The plan's problems of one kind."""
    return [one for one in plan.problems if one.kind == kind]


def only(namespace: str, *brokers: str) -> BundlePolicies:
    """A policy that confines a namespace to brokers."""
    return BundlePolicies(isolation=(IsolationPolicy((namespace,), brokers),))


def test_a_policy_that_names_too_few_brokers_is_proven_infeasible() -> None:
    """192 % of one broker by policy: it takes three, so the policy must name two more."""
    plan = planned(read_bundles_snapshot(CASES / "isolated-to-one-broker.json"), BundlesSettings())
    assert plan.verdict is Verdict.INFEASIBLE
    assert not plan.moves
    (out,) = (one for one in of_kind(plan, "confined_bundles") if one.resource == "bandwidth_out")
    assert (out.count, out.proof["brokers_needed"]) == (2, 3)
    assert (out.proof["total"], out.proof["capacity"], out.proof["theta"]) == (1.92e8, 1e8, 0.8)
    assert out.proof["policies"] == [{"namespaces": ["t/ns1"], "primary": ["b1.*"], "secondary": []}]
    assert "by the isolation policy t/ns1 (primary b1.*)" in out.text
    assert "1.92e+08 bytes per second, more than the 8e+07 that theta 80% allows" in out.text
    assert not any("that was tried helps" in one.text for one in plan.problems)


def test_two_policies_that_overlap_are_too_small_together() -> None:
    """150 units on b0 and b1 in common, where each namespace alone would fit on the two."""
    policies = BundlePolicies(
        isolation=(IsolationPolicy(("a/n",), ("b0", "b1")), IsolationPolicy(("b/n",), ("b0", "b1")))
    )
    snapshot = small_snapshot(
        [0, 0, 0, 1, 1, 1], [30] * 6, brokers=4, namespaces=["a/n"] * 3 + ["b/n"] * 3, policies=policies
    )
    plan = planned(snapshot)
    assert plan.verdict is Verdict.INFEASIBLE
    assert of_kind(plan, "confined_bundles")[0].proof["namespaces"] == ["a/n", "b/n"]
    assert "2 isolation policies" in plan.problems[0].text


def test_load_of_excluded_bundles_counts_for_their_broker() -> None:
    """50 units of an excluded namespace stay on the one broker that the policy allows to 40 others."""
    snapshot = small_snapshot(
        [0, 0, 1], [40, 50, 1], namespaces=["a/n", "keep/n", "o/n"], policies=only("a/n", "b0")
    )
    plan = planned(snapshot, replace(WIDE, excluded_namespaces=("keep/*",)))
    assert plan.verdict is Verdict.INFEASIBLE
    assert "50 of it does not move" in of_kind(plan, "confined_bundles")[0].text
    assert planned(snapshot).verdict is not Verdict.INFEASIBLE


def test_a_broker_overloaded_by_fixed_bundles_is_proven_infeasible() -> None:
    """90 units of excluded bundles, and one that could leave: no plan reduces the broker to 80."""
    snapshot = small_snapshot([0, 0, 0, 1], [45, 45, 5, 10], namespaces=["keep/n", "keep/n", "o/n", "o/n"])
    plan = planned(snapshot, replace(WIDE, excluded_namespaces=("keep/*",)))
    assert plan.verdict is Verdict.INFEASIBLE
    found = of_kind(plan, "unmovable_load")
    assert {one.resource for one in found} == {"cpu", "bandwidth_in", "bandwidth_out", "message_rate"}
    assert (found[0].proof["bundles"], found[0].proof["usage"]) == (2, pytest.approx(0.9))


def test_epsilon_that_a_policy_forbids_names_the_policy() -> None:
    """The last broker may have no bundle at all: nothing that could be tried is claimed to have failed."""
    snapshot = small_snapshot([0, 0, 1, 1], [10] * 4, brokers=3, policies=only("t/n", "b0", "b1"))
    plan = planned(snapshot, BundlesSettings())
    assert [one.kind for one in plan.problems] == ["confined_bundles"]
    assert plan.problems[0].proof["goal"] == "epsilon"
    assert "the isolation policy t/n (primary b0 b1)" in plan.problems[0].text


def test_theta_that_is_missed_without_proof_is_incomplete() -> None:
    """Three bundles of 50 on two brokers of 80 fit when divided, and may not be split: no proof, exit 3."""
    snapshot = small_snapshot([0, 0, 1], [50, 50, 50])
    plan = planned(snapshot, replace(WIDE, allow_splits=False))
    assert plan.verdict is Verdict.INCOMPLETE
    assert [one.kind for one in plan.problems] == ["unmet_goal"] * 4


def test_theta_that_is_missed_after_a_move_that_helps_is_incomplete() -> None:
    """Three bundles of 50 on one broker of 80, and an empty one: 150 become 100, still above 80."""
    plan = planned(small_snapshot([0, 0, 0], [50, 50, 50], brokers=2), replace(WIDE, allow_splits=False))
    assert len(plan.moves) == 1
    assert plan.verdict is Verdict.INCOMPLETE


def test_bundles_outside_their_policy_are_listed_and_stay_by_default() -> None:
    """They break no goal: the plan is balanced, and names bundles, broker and policy."""
    snapshot = read_bundles_snapshot(CASES / "on-forbidden-brokers.json")
    plan = planned(snapshot)
    assert (plan.verdict, plan.moves) == (Verdict.BALANCED, ())
    (found,) = plan.problems
    assert found.kind == "policy_violations"
    assert found.proof["bundles"] == [
        {"bundle": "t/ns1/0x40000000_0x60000000", "broker": "b3:8080"},
        {"bundle": "t/ns1/0x9fffffff_0xbfffffff", "broker": "b3:8080"},
    ]
    assert "t/.* (primary b1 b2)" in found.text


def test_bundles_outside_their_policy_move_if_configured() -> None:
    """To brokers that the policy names, and the finding disappears; the bound counts their clients."""
    snapshot = read_bundles_snapshot(CASES / "on-forbidden-brokers.json")
    plan = planned(snapshot, replace(WIDE, epsilon=(2.0,) * 4, policy_violations="move"))
    assert plan.verdict is Verdict.BALANCED
    assert {move.source for move in plan.moves} == {"b3:8080"}
    assert {move.target for move in plan.moves} <= {"b1:8080", "b2:8080"}
    assert {move.reason.goal for move in plan.moves} == {"policy"}
    assert plan.cost.sessions == plan.bound.sessions == 20
    assert not plan.problems
    kept = planned(snapshot, replace(WIDE, policy_violations="move", max_unloads=1))
    assert kept.verdict is Verdict.INCOMPLETE
    excluded = planned(snapshot, replace(WIDE, policy_violations="move", excluded_namespaces=("t/*",)))
    assert excluded.verdict is Verdict.INCOMPLETE
    assert "bundles.excluded_namespaces names" in of_kind(excluded, "unmovable_bundles")[0].text


def test_a_bundle_on_another_namespaces_primary_broker_is_outside_its_policy() -> None:
    """A namespace without a policy may not be on another's primary broker; a secondary one is allowed."""
    snapshot = small_snapshot([0, 1], [10, 10], policies=only("other/.*", "b0"))
    assert [one.kind for one in planned(snapshot).problems] == ["policy_violations"]
    policy = IsolationPolicy(("t/n",), ("b1",), ("b0",))
    assert planned(replace(snapshot, policies=BundlePolicies(isolation=(policy,)))).problems == ()


def test_no_broker_in_service_is_the_reason_and_not_the_grace_time() -> None:
    """Nothing had left any broker: one problem, not one a bundle."""
    plan = planned(small_snapshot([0, 0, 1], [10] * 3, in_service=[False, False]))
    assert plan.verdict is Verdict.INFEASIBLE
    assert [one.kind for one in plan.problems] == ["no_broker_in_service"]
    assert "grace" not in plan.problems[0].text


def test_a_policy_without_a_broker_in_service_is_one_problem() -> None:
    """Eight bundles of one policy are one problem with that policy."""
    snapshot = small_snapshot(
        [0] * 8 + [1],
        [1] * 9,
        in_service=[False, True],
        namespaces=["a/n"] * 8 + ["o/n"],
        policies=only("a/n", "b0"),
    )
    plan = planned(snapshot)
    assert plan.verdict is Verdict.INFEASIBLE
    (found,) = of_kind(plan, "conflicting_constraints")
    assert "a/n (primary b0)" in found.text
    assert "grace" not in found.text
    assert "8 bundles" in found.text


def test_a_drain_within_the_grace_time_is_incomplete_until_a_stated_time() -> None:
    """The only other broker is the one that the bundle left 600 s ago: 1,200 s remain of half an hour."""
    snapshot = small_snapshot([0, 1], [10, 10], in_service=[False, True])
    left = (Departure(snapshot.bundles.key[0], "b1:8080", AT - 600.0),)
    plan = planned(replace(snapshot, departures=left))
    assert plan.verdict is Verdict.INCOMPLETE
    (found,) = plan.problems
    assert found.kind == "grace_time"
    assert found.proof["ends_at"] == "2026-11-21T05:20:00Z"
    assert "from going back to b1:8080, until 2026-11-21T05:20:00Z" in found.text


def test_a_restarted_broker_stays_empty_for_the_grace_time_with_a_reason() -> None:
    """All bundles left it ten minutes ago, the first five seconds before the last."""
    snapshot = small_snapshot([0, 0, 1, 1, 0, 1], [10] * 6, brokers=3)
    left = tuple(
        Departure(key, "b2:8080", AT - 600.0 - 5 * (number == 0))
        for number, key in enumerate(snapshot.bundles.key)
    )
    plan = planned(replace(snapshot, departures=left), BundlesSettings())
    assert not plan.moves
    assert plan.verdict is Verdict.INCOMPLETE
    assert [one.kind for one in plan.problems] == ["grace_time"]
    assert "to b2:8080, the first until 2026-11-21T05:19:55Z, the last until" in plan.problems[0].text
    assert planned(snapshot, BundlesSettings()).verdict is Verdict.BALANCED


def test_an_overload_that_waits_for_the_grace_time_is_incomplete() -> None:
    """Both bundles of a broker at 90 % left the only other one."""
    snapshot = small_snapshot([0, 0], [45, 45], brokers=2)
    left = tuple(Departure(key, "b1:8080", AT - 60.0) for key in snapshot.bundles.key)
    plan = planned(replace(snapshot, departures=left))
    assert plan.verdict is Verdict.INCOMPLETE
    assert {one.kind for one in plan.problems} == {"grace_time"}
    assert "theta" in plan.problems[0].text


def test_system_bundles_on_brokers_out_of_service_are_left_undone() -> None:
    """They are unowned, so the plan does not end with exit code 0; the problem ends with their broker's
    return.
    """
    snapshot = small_snapshot(
        [0, 0, 1],
        [1, 1, 1],
        namespaces=["pulsar/b0:8080", "pulsar/system", "t/n"],
        in_service=[False, True],
    )
    plan = planned(snapshot)
    assert plan.verdict is Verdict.INCOMPLETE
    (found,) = plan.problems
    assert (found.kind, found.proof["bundles"]) == ("unmovable_bundles", 1)
    assert "Pulsar places them at their next lookup" in found.text


@pytest.mark.parametrize("leaves", [True, False])
def test_excluded_namespaces_leave_drained_brokers_unless_configured_to_stay(leaves: bool) -> None:
    """Exclusion from balancing is no exclusion from evacuation; a setting makes it one, and then exit 3."""
    snapshot = small_snapshot([0, 1], [10, 10], namespaces=["a/keep", "t/n"], in_service=[False, True])
    settings = replace(WIDE, excluded_namespaces=("a/*",), evacuate_excluded_namespaces=leaves)
    plan = planned(snapshot, settings)
    assert plan.verdict is (Verdict.BALANCED if leaves else Verdict.INCOMPLETE)
    assert len(plan.moves) == leaves
    assert bool(plan.problems) is not leaves


def test_a_bundle_that_several_brokers_report_is_named_and_stays() -> None:
    """The one bundle that would balance the cluster is reported by both brokers."""
    snapshot = small_snapshot([0, 0, 1], [10, 10, 1], sessions=[1, 1, 1], movable=[True, False, False])
    assert planned(snapshot, BundlesSettings(epsilon=(0.5,) * 4)).moves
    key = snapshot.bundles.key[0]
    extra = (("x_bundles_at_several_brokers", {key: ["b0:8080", "b1:8080"]}),)
    plan = planned(replace(snapshot, quality=Quality(extra=extra)), BundlesSettings(epsilon=(0.5,) * 4))
    assert not plan.moves
    (found,) = of_kind(plan, "several_owners")
    assert f"{key} reported by b0:8080 and b1:8080" in found.text
    assert found.proof["bundles"] == [
        {"bundle": key, "brokers": ["b0:8080", "b1:8080"], "counted_at": "b0:8080"}
    ]


def test_exactly_epsilon_holds() -> None:
    """11 and 9 of a mean of 10, epsilon 10 %: no client is disconnected for a rounding error."""
    for shares in ([1] * 20, [0.01] * 20, [3] * 20, [1e-4] * 20):
        snapshot = small_snapshot([0] * 11 + [1] * 9, shares)
        plan = planned(snapshot, BundlesSettings(min_utilization=0.0))
        assert (plan.verdict, plan.moves, plan.problems) == (Verdict.BALANCED, (), ()), shares


def test_cases_are_snapshots() -> None:
    """Both files read as they stand, so that a broken copy cannot pass."""
    for path in sorted(CASES.glob("*.json")):
        assert json.loads(path.read_text())["format"] == "trimtab/bundles-snapshot/1"
        assert np.isfinite(read_bundles_snapshot(path).bundles.load).all()
