"""Which bundles are split: by the leader of the modular manager, and by owners under the extensible one."""

from dataclasses import replace
from typing import Any

import pytest

from support.bundle_views import owner_split
from support.placement_views import bundle_key, known, load, view_of
from trimtab.model.bundles.policies import BundlePolicies, ClusterMetadata, IsolationPolicy
from trimtab.model.bundles.reports import BundleStats
from trimtab.model.errors import PlanError
from trimtab.plan.pulsar import splits
from trimtab.plan.pulsar.options import make_options
from trimtab.plan.pulsar.splits import BundleSize, SplitState, TopicTraffic, limits, reason_of
from trimtab.plan.pulsar.view import LeaderLoadView

OPTIONS = make_options({})
AT_ONCE = make_options({"loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 0})
BUNDLE = bundle_key("t/n")
LARGE = BundleStats(topics=1001)
MIB = 1024 * 1024


def cluster(*stats: BundleStats, namespace: str = "t/n") -> LeaderLoadView:
    """Broker a owns bundles of one namespace with these statistics, broker b nothing."""
    return view_of(
        {"a": load(stats={bundle_key(namespace, at): one for at, one in enumerate(stats)}), "b": load()}
    )


def bundles_of(decision: Any) -> list[str]:
    """What is split."""
    return [split.bundle for split in decision.splits]


def cycles(
    view: LeaderLoadView, times: int, options: Any = OPTIONS, **more: Any
) -> tuple[list[list[str]], SplitState]:
    """What owners split in each of several cycles with the same load."""
    state, found = SplitState(), []
    for _ in range(times):
        decision, state = splits.find_owner_splits(view, state, options, **more)
        found.append(bundles_of(decision))
    return found, state


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (BundleSize(1000, 1000, 30_000, 100 * MIB), None),
        (BundleSize(1001, 9999, 99_999, 999 * MIB), "Topics"),
        (BundleSize(1000, 1001, 99_999, 999 * MIB), "Sessions"),
        (BundleSize(1000, 1000, 30_000.01, 999 * MIB), "MsgRate"),
        (BundleSize(1000, 1000, 30_000, 100 * MIB + 1), "Bandwidth"),
    ],
)
def test_limits_are_exceeded_above_not_on_them(size: BundleSize, reason: str | None) -> None:
    """More than 1000 topics, 1000 sessions, 30000 messages or 100 MiB a second; the first decides."""
    assert reason_of(size, limits(OPTIONS)) == reason


def test_a_limit_of_no_sessions_is_no_limit() -> None:
    """0 or less switches the check of sessions off."""
    options = make_options({"loadBalancerNamespaceBundleMaxSessions": 0})
    assert reason_of(BundleSize(2, 10**6, 0, 0), limits(options)) is None


def test_the_leader_splits_after_one_report() -> None:
    """No hits are counted; the halves are placed again."""
    (split,) = splits.find_splits(cluster(LARGE, BundleStats(topics=5)), OPTIONS).splits
    assert (split.bundle, split.broker, split.reason) == (BUNDLE, "a", "Topics")
    assert split.unload


def test_sessions_are_producers_and_consumers() -> None:
    """501 and 500 make 1001."""
    decision = splits.find_splits(
        cluster(BundleStats(topics=2, producer_count=501, consumer_count=500)), OPTIONS
    )
    assert [split.reason for split in decision.splits] == ["Sessions"]


def test_the_leader_uses_long_term_rates() -> None:
    """A burst in the newest report is no reason; a long mean is, even if the newest report has no traffic."""
    burst = BundleStats(topics=2, msg_rate_in=10**6, msg_throughput_in=10**9)
    assert not splits.find_splits(cluster(burst), OPTIONS).splits
    view = cluster(BundleStats(topics=2), BundleStats(topics=2))
    means = {BUNDLE: known(rate=30_001), bundle_key("t/n", 1): known(throughput=100 * MIB + 1)}
    view = view_of(view.brokers, means)
    assert [split.reason for split in splits.find_splits(view, OPTIONS).splits] == ["MsgRate", "Bandwidth"]
    short_only = {bundle: replace(known(), short=one.short) for bundle, one in means.items()}
    assert not splits.find_splits(view_of(view.brokers, short_only), OPTIONS).splits


def test_owners_go_by_the_newest_rates() -> None:
    """Under the extensible manager the burst counts, if it lasts for four cycles."""
    burst = BundleStats(topics=2, msg_rate_in=20_000, msg_rate_out=10_001)
    assert cycles(cluster(burst), 4)[0] == [[], [], [], [BUNDLE]]


def test_a_lone_topic_cannot_be_relieved() -> None:
    """With fewer than two topics nothing is split, whatever the load."""
    hot = BundleStats(topics=1, msg_rate_in=10**6)
    view = view_of(cluster(hot).brokers, {BUNDLE: known(rate=10**6)})
    assert not splits.find_splits(view, OPTIONS).splits
    assert cycles(view, 5)[0] == [[]] * 5


def test_the_articles_namespace_of_128_bundles_is_not_split() -> None:
    """127 may become 128; 128 are enough."""
    view = cluster(LARGE)
    for number, split in ((127, True), (128, False)):
        metadata = ClusterMetadata(boundaries={"t/n": _with_bundle(number)})
        assert bool(splits.find_splits(view, OPTIONS, metadata).splits) is split
        assert (cycles(view, 1, AT_ONCE, metadata=metadata)[0] == [[BUNDLE]]) is split


def _with_bundle(number: int) -> tuple[int, ...]:
    """Boundaries of so many bundles, the first of which ends at 0x40000000."""
    return (0, *range(0x40000000, 0x40000000 + number - 1), 0xFFFFFFFF)


def test_planned_splits_count_too() -> None:
    """At 126 bundles two more are possible, and the third has to wait."""
    boundaries = {"t/n": (0, 0x40000000, 0x80000000, *range(0xC0000000, 0xC0000000 + 123), 0xFFFFFFFF)}
    view = cluster(LARGE, LARGE, LARGE)
    metadata = ClusterMetadata(boundaries=boundaries)
    decision = splits.find_splits(view, OPTIONS, metadata)
    assert bundles_of(decision) == [bundle_key("t/n", 0), bundle_key("t/n", 1)]
    third = decision.facts["bundles"][bundle_key("t/n", 2)]
    assert (third["namespace_bundles"], third["outcome"]) == (
        128,
        "its namespace has as many bundles as it may",
    )
    assert cycles(view, 1, AT_ONCE, metadata=metadata)[0] == [bundles_of(decision)]


def test_without_boundaries_the_reported_bundles_are_counted() -> None:
    """A recording has no boundaries; reported bundles replace them."""
    options = make_options({"loadBalancerNamespaceMaximumBundles": 3})
    view = view_of(
        {
            "a": load(stats={bundle_key("t/n", 0): LARGE}),
            "b": load(stats={bundle_key("t/n", 1): BundleStats(), bundle_key("t/m", 1): BundleStats()}),
        }
    )
    assert bundles_of(splits.find_splits(view, options)) == [BUNDLE]
    assert not splits.find_splits(view, replace(options, namespace_maximum_bundles=2)).splits


def test_a_bundle_reported_twice_is_planned_twice_and_split_once() -> None:
    """While it changes hands both brokers report it."""
    view = view_of({"a": load(stats={BUNDLE: LARGE}), "b": load(stats={BUNDLE: LARGE})})
    (split,) = splits.find_splits(view, OPTIONS).splits
    assert split.broker == "b"
    boundaries = {"t/n": (0, 0x40000000, *range(0x80000000, 0x80000000 + 124), 0xFFFFFFFF)}  # 126 bundles
    two = view_of({"a": view.brokers["a"], "b": load(stats={BUNDLE: LARGE, bundle_key("t/n", 1): LARGE})})
    assert len(splits.find_splits(two, OPTIONS, ClusterMetadata(boundaries=boundaries)).splits) == 1


def test_a_missing_bundle_is_not_split() -> None:
    """The report is older than the last split, or the bundle is down to one hash."""
    metadata = ClusterMetadata(boundaries={"t/n": (0, 0x20000000, 0x40000000, 0xFFFFFFFF)})
    decision = splits.find_splits(cluster(LARGE), OPTIONS, metadata)
    assert not decision.splits
    assert decision.facts["bundles"][BUNDLE]["outcome"] == "it is no bundle of its namespace any more"
    narrow = "t/n/0x00000000_0x00000001"
    view = view_of({"a": load(stats={narrow: LARGE}), "b": load()})
    assert not splits.find_splits(view, OPTIONS).splits
    assert cycles(view, 5)[0] == [[]] * 5


def test_halves_stay_if_no_other_broker_is_permitted() -> None:
    """By policy, or because the operator does not want them unloaded."""
    policies = BundlePolicies((IsolationPolicy(("t/.*",), ("a",)),))
    (split,) = splits.find_splits(cluster(LARGE), OPTIONS, ClusterMetadata(policies=policies)).splits
    assert not split.unload
    options = make_options({"loadBalancerAutoUnloadSplitBundlesEnabled": "false"})
    (split,) = splits.find_splits(cluster(LARGE), options).splits
    assert not split.unload


def test_a_lone_leader_splits_nothing_but_a_lone_owner_does() -> None:
    """The modular manager waits for a second broker."""
    alone = view_of({"a": load(stats={BUNDLE: LARGE})})
    assert not splits.find_splits(alone, OPTIONS).splits
    assert cycles(alone, 4)[0][-1] == [BUNDLE]


def test_automatic_splits_can_be_off() -> None:
    """Then nothing is found, and nothing is counted."""
    options = make_options({"loadBalancerAutoBundleSplitEnabled": "false"})
    assert not splits.find_splits(cluster(LARGE), options).splits
    assert cycles(cluster(LARGE), 9, options) == ([[]] * 9, SplitState())


def test_without_the_load_balancer_owners_split_nothing() -> None:
    """`loadBalancerEnabled=false` stops the extensible manager's cycles; the hits stay as they are."""
    _, state = cycles(cluster(LARGE), 3)
    off = make_options({"loadBalancerEnabled": "false"})
    decision, after = splits.find_owner_splits(cluster(LARGE), state, off)
    assert (decision.splits, after) == ((), state)


def test_hits_must_exceed_three_and_begin_again_after_the_split() -> None:
    """The fourth cycle splits; the next split of the same bundle takes four more."""
    found, state = cycles(cluster(LARGE), 8)
    assert found == [[], [], [], [BUNDLE], [], [], [], [BUNDLE]]
    assert state.hits["a"] == {}


def test_a_cycle_below_the_limits_clears_the_hits() -> None:
    """The cycles must follow one another."""
    _, state = cycles(cluster(LARGE), 3)
    _, state = splits.find_owner_splits(cluster(BundleStats(topics=2)), state, OPTIONS)
    assert state.hits["a"] == {}


def test_an_unread_bundle_keeps_its_hits_and_a_missing_one_loses_them() -> None:
    """One topic, or another owner: its hits stay; no statistics at all: they go."""
    _, state = cycles(cluster(LARGE), 3)
    _, single = splits.find_owner_splits(cluster(BundleStats(topics=1)), state, OPTIONS)
    assert single.hits["a"] == {BUNDLE: 3}
    foreign = view_of({"a": load(stats={BUNDLE: LARGE}, bundles=()), "b": load()})
    decision, kept = splits.find_owner_splits(foreign, state, OPTIONS)
    assert not decision.splits
    assert kept.hits["a"] == {BUNDLE: 3}
    _, gone = splits.find_owner_splits(cluster(), state, OPTIONS)
    assert gone.hits["a"] == {}


def test_hits_belong_to_the_owner() -> None:
    """A bundle that moves restarts its count on its new broker."""
    _, state = cycles(cluster(LARGE), 3)
    moved = view_of({"a": load(), "b": load(stats={BUNDLE: LARGE})})
    decision, after = splits.find_owner_splits(moved, state, OPTIONS)
    assert not decision.splits
    assert after.hits == {"a": {}, "b": {BUNDLE: 1}}


def test_a_broker_stops_after_so_many_splits() -> None:
    """At two a cycle the third bundle is not even counted; every broker has its own two."""
    options = replace(AT_ONCE, max_number_of_bundles_to_split_per_cycle=2)
    view = cluster(LARGE, LARGE, LARGE, LARGE)
    found, state = cycles(view, 1, options)
    assert found == [[bundle_key("t/n", 0), bundle_key("t/n", 1)]]
    assert state.hits["a"] == {}
    both = view_of({"a": view.brokers["a"], "b": load(stats={bundle_key("t/m", 0): LARGE})})
    assert len(cycles(both, 1, options)[0][0]) == 3


def test_nothing_is_split_while_a_parent_is_splitting() -> None:
    """Children show up in the statistics before their parent is done; hits go on."""
    parent = "t/n/0x00000000_0x80000000"
    view = cluster(LARGE, LARGE, LARGE)
    decision, state = splits.find_owner_splits(view, SplitState(), AT_ONCE, splitting=[parent])
    assert bundles_of(decision) == [bundle_key("t/n", 2)]
    assert state.hits["a"] == {bundle_key("t/n", 0): 1, bundle_key("t/n", 1): 1}
    # A name that begins alike is taken for the same namespace, as in Pulsar.
    assert cycles(view, 1, AT_ONCE, splitting=["t/nn/0x00000000_0xffffffff"])[0] == [
        [bundle_key("t/n", 1), bundle_key("t/n", 2)]
    ]
    assert len(cycles(view, 1, AT_ONCE, splitting=["t/m/0x00000000_0x80000000"])[0][0]) == 3


def test_owners_report_the_split_positions() -> None:
    """The default halves the range; by topics it goes between them."""
    decision, _ = splits.find_owner_splits(cluster(LARGE), SplitState(), AT_ONCE)
    assert owner_split(decision.splits[0]).position == 0x20000000
    by_count = replace(AT_ONCE, default_namespace_bundle_split_algorithm="topic_count_equally_divide")
    topics = {BUNDLE: [TopicTraffic(position, 1, 1) for position in (0, 5, 0x10, 0x15, 0x20, 0x25)]}
    decision, _ = splits.find_owner_splits(cluster(LARGE), SplitState(), by_count, topics=topics)
    assert owner_split(decision.splits[0]).position == 0x12


def test_no_position_or_several_are_no_split() -> None:
    """The extensible manager takes exactly one; its hits go on."""
    by_flow = replace(AT_ONCE, default_namespace_bundle_split_algorithm="flow_or_qps_equally_divide")
    decision, state = splits.find_owner_splits(cluster(LARGE), SplitState(), by_flow)
    assert not decision.splits
    assert decision.facts["bundles"][BUNDLE]["outcome"] == "flow_or_qps_equally_divide finds no position"
    topics = {BUNDLE: [TopicTraffic(position, 40_000, 0) for position in (0, 10, 20)]}
    decision, state = splits.find_owner_splits(cluster(LARGE), state, by_flow, topics=topics)
    assert not decision.splits
    assert "finds 2 positions, not 1" in decision.facts["bundles"][BUNDLE]["outcome"]
    assert state.hits["a"] == {BUNDLE: 2}


def test_an_unknown_algorithm_is_refused() -> None:
    """Pulsar would halve the range in silence."""
    options = replace(AT_ONCE, default_namespace_bundle_split_algorithm="halves")
    with pytest.raises(PlanError, match="halves"):
        splits.find_owner_splits(cluster(LARGE), SplitState(), options)


def test_an_algorithm_that_needs_an_operator_splits_nothing() -> None:
    """It fails bundle by bundle in Pulsar; the hits go on."""
    options = replace(AT_ONCE, default_namespace_bundle_split_algorithm="specified_positions_divide")
    decision, state = splits.find_owner_splits(cluster(LARGE), SplitState(), options)
    assert decision.splits == ()
    assert "needs positions" in decision.facts["bundles"][BUNDLE]["outcome"]
    assert state.hits["a"] == {BUNDLE: 1}


@pytest.mark.parametrize(("mbytes", "split"), [(2047, False), (2048, True), (4096, True), (4097, True)])
def test_a_limit_of_two_gigabytes_runs_over_an_int(mbytes: int, split: bool) -> None:
    """2,048 MB are 2^31 bytes, which Java's int takes for -2^31; 4,096 are 0, and 4,097 are 1 MiB."""
    stats = BundleStats(topics=2, msg_throughput_in=2.0 * 1024 * 1024)
    options = replace(AT_ONCE, namespace_bundle_max_bandwidth_mbytes=mbytes)
    decision, _ = splits.find_owner_splits(cluster(stats), SplitState(), options)
    assert bool(decision.splits) is split
