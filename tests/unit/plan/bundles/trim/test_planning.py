"""`trim` on clusters of bundles small enough to be read: 100 units a broker, every resource alike."""

from dataclasses import replace

import numpy as np
import pytest

from support.bundle_plan_checker import check_plan
from support.bundle_snapshots import AT, small_snapshot
from trimtab.files.bundles.plan import bundle_plan_bytes
from trimtab.model.bundles.plan import BundleMoveKind, BundlePlan, BundlesSettings
from trimtab.model.bundles.policies import BundlePolicies, IsolationPolicy
from trimtab.model.bundles.snapshot import BundlesSnapshot, Departure
from trimtab.model.plan import Verdict
from trimtab.plan.bundles.trim import plan_bundles

SETTINGS = BundlesSettings(epsilon=(0.2, 0.2, 0.2, 0.2))


def planned(snapshot: BundlesSnapshot, settings: BundlesSettings = SETTINGS) -> BundlePlan:
    """A plan that the independent checker has walked through."""
    plan = plan_bundles(snapshot, settings)
    check_plan(snapshot, settings, plan)
    return plan


def unloads(plan: BundlePlan) -> list[tuple[str, str | None, str | None]]:
    """What goes where."""
    return [
        (move.bundle, move.source, move.target) for move in plan.moves if move.kind is BundleMoveKind.UNLOAD
    ]


def test_a_balanced_cluster_gets_no_moves() -> None:
    """Three brokers with equal load need nothing, and nothing is disturbed."""
    plan = planned(small_snapshot([0, 1, 2], [30, 30, 30]))
    assert (plan.verdict, plan.moves, plan.cost.sessions, plan.bound.sessions) == (Verdict.BALANCED, (), 0, 0)


def test_among_equal_bundles_those_with_fewest_clients_move() -> None:
    """Broker 0 has two bundles too many; those that disturb five clients each leave, not those with fifty."""
    snapshot = small_snapshot(
        [0, 0, 0, 0, 0, 0, 1, 1], [10] * 8, brokers=2, sessions=[50, 5, 50, 50, 5, 50, 9, 9]
    )
    plan = planned(snapshot)
    assert plan.verdict is Verdict.BALANCED
    assert {bundle for bundle, _, _ in unloads(plan)} == {snapshot.bundles.key[1], snapshot.bundles.key[4]}
    assert plan.cost.sessions == 10
    assert plan.bound.sessions == 6  # 12 of the 20 units must go, by five clients for ten units


def test_of_equally_cheap_plans_the_one_with_fewest_unloads_is_made() -> None:
    """One bundle of 20 units balances as well as four of 5 with the same clients in all."""
    snapshot = small_snapshot(
        [0] * 7 + [1], [20, 5, 5, 5, 5, 20, 20, 40], brokers=2, sessions=[8, 2, 2, 2, 2, 90, 90, 90]
    )
    plan = planned(snapshot, replace(SETTINGS, epsilon=(0.05,) * 4))
    assert plan.cost.sessions == 8
    assert plan.cost.unloads == 1
    assert unloads(plan)[0][0] == snapshot.bundles.key[0]


def test_the_plan_holds_in_the_forecast_too() -> None:
    """All is balanced now; one bundle will grow, and the plan makes room for it before it does."""
    snapshot = small_snapshot([0, 0, 0, 1, 1], [[20, 20], [15, 45], [5, 5], [20, 20], [20, 20]])
    plan = planned(replace(snapshot, views=("window 0", "forecast +900")))
    assert plan.verdict is Verdict.BALANCED
    assert plan.moves[0].reason.view == "forecast +900"


def test_a_broker_out_of_service_is_emptied() -> None:
    """Its bundles go to those that bear them best, and the reason counts down."""
    snapshot = small_snapshot(
        [0, 0, 1, 2], [10, 10, 20, 20], in_service=[False, True, True], sessions=[3, 4, 5, 6]
    )
    plan = planned(snapshot)
    assert plan.verdict is Verdict.BALANCED
    assert sorted((source, target) for _, source, target in unloads(plan)) == [
        ("b0:8080", "b1:8080"),
        ("b0:8080", "b2:8080"),
    ]
    assert [(move.reason.goal, move.reason.before, move.reason.after) for move in plan.moves] == [
        ("drain", 2.0, 1.0),
        ("drain", 1.0, 0.0),
    ]
    assert plan.bound.sessions == plan.cost.sessions == 7


def test_a_new_broker_is_filled() -> None:
    """Nine at 60 %, one idle: Pulsar's default does nothing; here the idle one is filled."""
    owners = [broker for broker in range(9) for _ in range(6)]
    plan = planned(small_snapshot(owners, [10] * 54, brokers=10))
    assert plan.verdict is Verdict.BALANCED
    assert {target for _, _, target in unloads(plan)} == {"b9:8080"}
    assert plan.moves[0].reason.broker == "b9:8080"


@pytest.mark.parametrize(("ago", "goes"), [(1800.0, False), (1800.5, True)])
def test_no_bundle_returns_within_the_grace_time(ago: float, goes: bool) -> None:
    """The only bundle that could help left the only broker that could take it: it waits to the end."""
    snapshot = small_snapshot([0, 0], [20, 20], brokers=2, movable=[True, False])
    left = (Departure(snapshot.bundles.key[0], "b1:8080", AT - ago),)
    plan = planned(replace(snapshot, departures=left))
    assert bool(plan.moves) is goes
    assert plan.verdict is (Verdict.BALANCED if goes else Verdict.INCOMPLETE)


def test_system_and_excluded_namespaces_stay() -> None:
    """`pulsar/system`, and the namespaces of a pattern in the settings."""
    snapshot = small_snapshot(
        [0] * 6,
        [10] * 6,
        brokers=2,
        namespaces=["a/keep-1", "a/keep-1", "a/n", "a/n", "pulsar/system", "pulsar/system"],
        sessions=[1, 1, 50, 50, 1, 1],
    )
    plan = planned(snapshot, replace(SETTINGS, excluded_namespaces=("a/keep-*",)))
    assert {bundle[:4] for bundle, _, _ in unloads(plan)} == {"a/n/"}


def test_isolation_policies_limit_destinations() -> None:
    """Broker 2 is for another namespace alone, so the relief goes to broker 1."""
    policy = IsolationPolicy(("other/.*",), ("b2",))
    snapshot = small_snapshot([0] * 6, [10] * 6, brokers=3, policies=BundlePolicies(isolation=(policy,)))
    plan = planned(snapshot)
    assert {target for _, _, target in unloads(plan)} == {"b1:8080"}
    assert "by policy or service" in plan.moves[0].reason.text


def test_a_bundle_without_a_permitted_broker_is_reported() -> None:
    """Its broker is to be emptied, and its namespace's policy leaves no other."""
    policy = IsolationPolicy(("t/n",), ("b0",))
    snapshot = small_snapshot(
        [0, 1], [10, 10], in_service=[False, True], policies=BundlePolicies(isolation=(policy,))
    )
    plan = planned(snapshot)
    assert plan.verdict is Verdict.INFEASIBLE
    assert plan.problems[0].kind == "conflicting_constraints"


def test_anti_affinity_keeps_namespaces_of_a_group_apart() -> None:
    """The cheapest relief would put two namespaces of a group on one broker; another bundle goes."""
    groups = BundlePolicies(anti_affinity_groups={"a/one": "g", "b/two": "G"})
    snapshot = small_snapshot(
        [0, 0, 0, 0, 1, 1],
        [10] * 6,
        sessions=[1, 40, 40, 40, 1, 1],
        namespaces=["a/one", "a/rest", "a/rest", "a/rest", "b/two", "c/x"],
        policies=groups,
    )
    plan = planned(snapshot)
    assert plan.verdict is Verdict.BALANCED
    assert all(not bundle.startswith("a/one") for bundle, _, _ in unloads(plan))
    free = planned(replace(snapshot, policies=BundlePolicies()))
    assert [bundle[:5] for bundle, _, _ in unloads(free)] == ["a/one"]


def test_unowned_bundles_are_left_or_assigned() -> None:
    """Pulsar places them at the next lookup, unless the plan is requested to."""
    snapshot = small_snapshot([0, 1, -1], [20, 20, 1], brokers=2)
    assert planned(snapshot).moves == ()
    plan = planned(snapshot, replace(SETTINGS, unowned_bundles="assign"))
    assert [(move.source, move.reason.goal) for move in plan.moves] == [(None, "unowned")]


def test_limits_drop_the_least_useful_moves() -> None:
    """With one unload allowed the cluster approaches its goals, and the plan states what is missing."""
    snapshot = small_snapshot([0] * 8 + [1] * 2, [8] * 10, brokers=2)
    plan = planned(snapshot, replace(SETTINGS, max_unloads=1))
    assert plan.cost.unloads == 1
    assert plan.verdict is Verdict.IMPROVED
    assert plan.problems[0].kind == "limit_reached"
    assert planned(snapshot, replace(SETTINGS, max_sessions=15)).cost.sessions <= 15
    assert planned(snapshot, replace(SETTINGS, max_sessions=0)).moves == ()


def test_too_few_brokers_are_proven() -> None:
    """170 units on two brokers of 100 at most 80 % full: one more is needed."""
    plan = planned(small_snapshot([0] * 5 + [1] * 5, [17] * 10))
    assert plan.verdict is Verdict.INFEASIBLE
    assert (plan.problems[0].kind, plan.problems[0].count) == ("add_brokers", 1)


def test_a_bundle_too_big_for_any_broker_is_split_and_its_parts_placed() -> None:
    """88 of 100 units in one bundle of six topics, θ 80 %: cut between topics, then a part leaves."""
    topics = [(0, 100 * place, 1 / 6) for place in range(6)]
    snapshot = small_snapshot([0, 1], [88, 12], topics=topics, sessions=[60, 5])
    plan = planned(snapshot)
    assert plan.verdict is Verdict.BALANCED
    first, *rest = plan.moves
    assert first.kind is BundleMoveKind.SPLIT
    assert first.reason.goal == "hot"
    assert first.reason.before is not None
    assert first.reason.before > 0.8
    assert {move.kind for move in rest} == {BundleMoveKind.UNLOAD}
    assert 0 < plan.cost.sessions < 60


def test_the_extensible_manager_takes_one_boundary_at_a_time() -> None:
    """What the modular one cuts at once, it cuts in several steps, each of a bundle that is there by then."""
    topics = [(0, 100 * place, 1 / 8) for place in range(8)]
    snapshot = small_snapshot([0, 1, 2], [150, 20, 20], topics=topics)
    at_once = planned(snapshot, replace(SETTINGS, epsilon=(0.3,) * 4))
    one_by_one = planned(replace(snapshot, load_manager="extensible"), replace(SETTINGS, epsilon=(0.3,) * 4))
    cuts = [move.boundaries for move in at_once.moves if move.kind is BundleMoveKind.SPLIT]
    steps = [move.boundaries for move in one_by_one.moves if move.kind is BundleMoveKind.SPLIT]
    assert max(map(len, cuts)) > 1
    assert {len(step) for step in steps} == {1}
    assert sorted(sum(cuts, ())) == sorted(sum(steps, ()))


def test_a_lone_hot_topic_needs_partitions() -> None:
    """Nine tenths of a bundle that fits nowhere are one topic: no split helps, partitions do."""
    snapshot = small_snapshot([0, 1], [120, 20], topics=[(0, 5, 0.9), (0, 700, 0.1)])
    plan = planned(snapshot)
    assert plan.verdict is Verdict.INFEASIBLE
    (hot,) = [one for one in plan.problems if one.kind == "hot_topic"]
    assert hot.count is not None
    assert hot.count >= 3
    assert hot.proof["topic"] == "persistent://t/n/topic-0"
    assert hot.proof["partitions_now"] == 1
    assert "give it" in hot.text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (replace(SETTINGS, allow_splits=False), "allow splits"),
        (replace(SETTINGS, max_bundles_per_namespace=2), "limit 2 (loadBalancerNamespaceMaximumBundles)"),
    ],
)
def test_a_hot_bundle_that_must_not_be_split_has_a_reason(settings: BundlesSettings, said: str) -> None:
    """Splits switched off, or the namespace has as many bundles as it may."""
    topics = [(0, 100 * place, 1 / 6) for place in range(6)]
    plan = planned(small_snapshot([0, 1], [90, 10], topics=topics), settings)
    assert plan.verdict is Verdict.INFEASIBLE
    (hot,) = [one for one in plan.problems if one.kind == "hot_bundle"]
    assert said in hot.text
    assert hot.proof["topic_share"] == pytest.approx(1 / 6)


def test_a_hot_bundle_with_unknown_topics_requests_their_statistics() -> None:
    """Load reports alone do not name the topics of a bundle."""
    snapshot = small_snapshot([0, 1], [90, 10])
    many = replace(snapshot, bundles=replace(snapshot.bundles, topics=np.array([7, 1])))
    (hot,) = [one for one in planned(many).problems if one.kind == "hot_bundle"]
    assert "collect topic statistics" in hot.text


def test_the_same_seed_gives_the_same_bytes() -> None:
    """Independent of random numbers drawn in between."""
    chance = np.random.default_rng(5)
    snapshot = small_snapshot(
        chance.integers(0, 5, 40).tolist(), chance.uniform(1, 12, 40).tolist(), brokers=5
    )
    first, second = (bundle_plan_bytes(planned(snapshot)) for _ in range(2))
    assert first == second
