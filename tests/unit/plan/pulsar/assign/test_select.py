"""The whole way from a lookup to a broker, and what is remembered of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from support.placement_views import bundle_key, known, load, view_of
from trimtab.model.bundles.policies import BrokerTraits, BundlePolicies, ClusterMetadata, IsolationPolicy
from trimtab.model.bundles.reports import BundleStats
from trimtab.plan.pulsar import placers
from trimtab.plan.pulsar.decision import BrokerChoice, Placer
from trimtab.plan.pulsar.options import PulsarBrokerConfig, make_options
from trimtab.plan.pulsar.placers import MODULAR, RoundRobinState
from trimtab.plan.pulsar.selection import (
    AssignmentState,
    PlacementRules,
    assign,
    forget_preallocated,
    select_broker,
    with_destination,
)
from trimtab.plan.pulsar.view import LeaderLoadView

OPTIONS = make_options({})
BUNDLE = bundle_key("t/new")
SOME = BundleStats(topics=1)
ANY = ClusterMetadata()


def state_of(placer: Placer[Any], **known_state: Any) -> AssignmentState[Any]:
    """Nothing is remembered but what is given."""
    return AssignmentState(placer.initial, **known_state)


@dataclass
class Asked:
    """A strategy that takes the first candidate and keeps what it was asked."""

    candidates: list[list[str]]

    def choose(
        self,
        bundle: str,
        candidates: Sequence[str],
        view: LeaderLoadView,
        state: int,
        options: PulsarBrokerConfig,
        chance: np.random.Generator,
    ) -> tuple[BrokerChoice, int]:
        """The first."""
        self.candidates.append(sorted(candidates))
        first = min(candidates, default=None)
        return BrokerChoice(first, tuple(candidates)), state + 1


def asked_for(
    view: LeaderLoadView,
    metadata: ClusterMetadata = ANY,
    options: PulsarBrokerConfig = OPTIONS,
    bundle: str = BUNDLE,
) -> tuple[BrokerChoice, list[list[str]], AssignmentState[int]]:
    """What the strategy was asked for a bundle: the candidates of each time."""
    asked = Asked([])
    rules = PlacementRules(Placer(asked.choose, 0), options, metadata)
    placement, state = select_broker(bundle, view, rules, AssignmentState(0), np.random.default_rng(0))
    return placement, asked.candidates, state


def lookup(
    bundle: str,
    view: LeaderLoadView,
    state: AssignmentState[Any],
    placer: Placer[Any] = placers.RATE,
    options: PulsarBrokerConfig = OPTIONS,
    metadata: ClusterMetadata = ANY,
) -> tuple[BrokerChoice, LeaderLoadView, AssignmentState[Any]]:
    """A lookup that always draws alike."""
    return assign(bundle, view, PlacementRules(placer, options, metadata), state, np.random.default_rng(0))


def test_filters_follow_one_another() -> None:
    """Policies leave four, topics three, the namespace's bundles two."""
    busy = {bundle_key("t/new", 1): SOME}
    view = view_of(
        {
            "a": load(stats={bundle_key("u/x"): BundleStats(topics=50_001)}),
            "b": load(stats=busy),
            "c": load(),
            "d": load(),
            "e": load(),
        }
    )
    metadata = ClusterMetadata(policies=BundlePolicies((IsolationPolicy(("u/.*",), ("e",)),)))
    placement, candidates, _ = asked_for(view, metadata)
    assert candidates == [["c", "d"]]
    assert placement.facts["candidates_left"] == {
        "policies": 4,
        "max_topics": 3,
        "anti_affinity": 3,
        "fewest_bundles_of_namespace": 2,
        "filters": 2,
    }


def test_bundles_are_spread_if_enabled_or_in_the_system_namespace() -> None:
    """`loadBalancerDistributeBundlesEvenlyEnabled` off, the rule still holds for pulsar/system."""
    options = make_options({"loadBalancerDistributeBundlesEvenlyEnabled": "false"})
    system = bundle_key("pulsar/system", 0)
    stats = {bundle_key("t/new", 1): SOME, bundle_key("pulsar/system", 1): SOME}
    view = view_of({"a": load(stats=stats), "b": load()})
    assert asked_for(view, options=options)[1] == [["a", "b"]]
    assert asked_for(view, options=options, bundle=system)[1] == [["b"]]
    assert asked_for(view)[1] == [["b"]]


def test_failure_domains_count_only_if_enabled() -> None:
    """`failureDomainsEnabled` is off by default; brokers are kept apart all the same."""
    policies = BundlePolicies(
        anti_affinity_groups={"t/new": "web", "t/a": "web", "t/b": "web"},
        failure_domains={"a": "one", "b": "one", "c": "two"},
    )
    view = view_of(
        {
            "a": load(stats={bundle_key("t/a", 0): SOME, bundle_key("t/b", 0): SOME}),
            "b": load(),
            "c": load(stats={bundle_key("t/a", 1): SOME}),
        }
    )
    metadata = ClusterMetadata(policies=policies)
    assert asked_for(view, metadata)[1] == [["b"]]
    enabled = make_options({"failureDomainsEnabled": "true"})
    assert asked_for(view, metadata, enabled)[1] == [["c"]]


def test_a_failed_or_empty_filter_begins_again_with_all() -> None:
    """Brokers excluded by topics and namespaces return, too."""
    view = view_of({"a": load(stats={bundle_key("t/new", 1): SOME}), "b": load()})
    foreign = {"a": BrokerTraits(load_manager="x"), "b": BrokerTraits(load_manager="x")}
    placement, candidates, _ = asked_for(view, ClusterMetadata(traits=foreign, load_manager="y"))
    assert candidates == [["a", "b"]]
    assert placement.facts["filters_undone"] is True
    newest = make_options({"preferLaterVersions": "true"})
    assert asked_for(view, options=newest)[1] == [["a", "b"]]
    told = {"a": BrokerTraits("4.2.4"), "b": BrokerTraits("4.0.7")}
    assert asked_for(view, ClusterMetadata(traits=told), newest)[1] == [["b"]]
    both = view_of({"a": load(), "b": load()})
    assert asked_for(both, ClusterMetadata(traits=told), newest)[1] == [["a"]]


def test_no_broker_is_a_valid_answer() -> None:
    """Without any permitted broker a bundle has none, and nothing is preallocated."""
    metadata = ClusterMetadata(policies=BundlePolicies((IsolationPolicy(("t/.*",), ("x",)),)))
    view = view_of({"a": load()})
    state = state_of(placers.RATE)
    placement, after, left = lookup(BUNDLE, view, state, metadata=metadata)
    assert placement.broker is None
    assert after is view
    assert left.preallocated == {}


@pytest.mark.parametrize(("usage", "times"), [(85.0, 1), (85.1, 2)])
def test_an_overloaded_choice_is_thought_over_among_all(usage: float, times: int) -> None:
    """Above 85 % the strategy is called again, with the filtered brokers included."""
    view = view_of({"a": load(usage), "b": load(stats={bundle_key("t/new", 1): SOME})})
    placement, candidates, state = asked_for(view)
    assert candidates == [["a"], ["a", "b"]][:times]
    assert state.placement == times
    assert ("overloaded_choice" in placement.facts) is (times == 2)


def test_thinking_it_over_takes_a_second_sample() -> None:
    """LeastResourceUsageWithWeight remembers both calls."""
    stats = {bundle_key("t/other"): SOME}
    view = view_of({"a": load(90, stats)})
    placer = MODULAR
    before = AssignmentState(replace(placer.initial, usage={"a": 0.5}))
    _, after = select_broker(BUNDLE, view, PlacementRules(placer, OPTIONS), before, np.random.default_rng(0))
    once = 0.5 * 0.9 + (1 - 0.9) * view.brokers["a"].report.weighted_usage(OPTIONS.weights)
    twice = once * 0.9 + (1 - 0.9) * view.brokers["a"].report.weighted_usage(OPTIONS.weights)
    assert after.placement.usage == {"a": twice}


def test_excluded_namespaces_are_dealt_out_in_turn() -> None:
    """Only 4.2 knows them; in 4.0.7 the option does nothing."""
    given = {"loadBalancerSheddingExcludedNamespaces": "t/new"}
    view = view_of({"a": load(), "b": load()})
    placement, candidates, state = asked_for(view, options=make_options(given))
    assert candidates == []
    assert placement.facts["selector"] == "RoundRobinBrokerSelector"
    assert state.round_robin.count == 1
    assert asked_for(view, options=make_options(given, "pulsar-4.0"))[1] == [["a", "b"]]


def test_an_overloaded_turn_falls_to_the_placement_strategy() -> None:
    """The second thought of an excluded namespace is not a turn."""
    options = make_options({"loadBalancerSheddingExcludedNamespaces": "t/new"})
    view = view_of({"a": load(90), "b": load(90)})
    _, candidates, state = asked_for(view, options=options)
    assert candidates == [["a", "b"]]
    assert (state.round_robin.count, state.placement) == (1, 1)


def test_turns_are_in_the_order_of_javas_set() -> None:
    """Candidates go through a hash set, so that the order in which brokers are listed does not matter."""
    options = make_options({"loadBalancerSheddingExcludedNamespaces": "t/new"})
    names = ["broker-10:8080", "broker-2:8080", "broker-33:8080"]
    view = view_of({name: load() for name in names})
    orders = []
    for listed in (names, names[::-1]):
        metadata = ClusterMetadata(brokers=tuple(listed))
        _, _, state = asked_for(view, metadata, options)
        orders.append(state.round_robin.brokers)
    assert orders[0] == orders[1]
    assert set(orders[0]) == set(names)


def test_a_placed_bundle_counts_at_once() -> None:
    """Two bundles of two namespaces, looked up in succession, are separated without a report in between."""
    data: Mapping[str, Any] = {bundle_key("t/a"): known(10), bundle_key("t/b"): known(10)}
    view = view_of({"x": load(), "y": load()}, data)
    state = state_of(placers.RATE)
    first, view, state = lookup(bundle_key("t/a"), view, state)
    second, view, state = lookup(bundle_key("t/b"), view, state)
    assert {first.broker, second.broker} == {"x", "y"}
    assert state.preallocated == {bundle_key("t/a"): first.broker, bundle_key("t/b"): second.broker}
    assert first.broker is not None
    assert view.brokers[first.broker].preallocated == {bundle_key("t/a"): known(10)}


def test_an_unknown_bundle_is_preallocated_with_the_defaults() -> None:
    """50 messages and 50,000 bytes per second each way."""
    view = view_of({"x": load()})
    _, view, _ = lookup(BUNDLE, view, state_of(placers.RATE))
    given = view.brokers["x"].preallocated[BUNDLE]
    assert (given.long.rate, given.short.throughput, given.long.samples) == (100.0, 100_000.0, 0)


def test_a_second_lookup_gets_the_same_answer() -> None:
    """Until the next update, whatever the load."""
    view = view_of({"x": load(), "y": load()})
    state = state_of(placers.RATE, preallocated={BUNDLE: "y"})
    placement, after, left = lookup(BUNDLE, view, state)
    assert (placement.broker, after, left) == ("y", view, state)


def test_the_destination_of_an_unload_precedes_the_preallocation() -> None:
    """It goes before what is preallocated, and is not preallocated itself."""
    view = view_of({"x": load(), "y": load()})
    state = state_of(placers.RATE, preallocated={BUNDLE: "y"})
    state = with_destination(state, BUNDLE, "x", OPTIONS)
    first, view, state = lookup(BUNDLE, view, state)
    second, view, state = lookup(BUNDLE, view, state)
    assert (first.broker, second.broker) == ("x", "y")
    assert state.destinations == {}
    assert view.brokers["x"].preallocated == {}


def test_destinations_of_one_range_collide_in_the_old_version() -> None:
    """4.0.7 remembers the range alone: a bundle of another namespace takes the destination first (#25518)."""
    other = bundle_key("u/other")
    for variant, taken in (("pulsar-4.0", True), ("pulsar-4.2", False)):
        options = make_options({}, variant)
        state = with_destination(state_of(placers.RATE), BUNDLE, "x", options)
        view = view_of({"x": load(90), "y": load()})
        placement, _, _ = lookup(other, view, state, options=options)
        assert (placement.broker == "x") is taken


def test_an_update_clears_preallocations() -> None:
    """After the next reports neither the entry nor the rate is left, reported or not."""
    view = view_of({"x": load(preallocated={BUNDLE: known(9)}), "y": load()})
    state = state_of(placers.RATE, preallocated={BUNDLE: "x"})
    view, state = forget_preallocated(view, state)
    assert view.brokers["x"].preallocated == {}
    assert state.preallocated == {}


def test_an_update_keeps_the_rate_of_the_leaders_own_bundle_until_it_is_reported() -> None:
    """Pulsar asks what the leader owns, whichever broker it is about."""
    view = view_of({"x": load(preallocated={BUNDLE: known(9)})})
    state = state_of(placers.RATE, preallocated={BUNDLE: "x"})
    kept, left = forget_preallocated(view, state, leader_owns=[BUNDLE])
    assert BUNDLE in kept.brokers["x"].preallocated
    assert left.preallocated == {}
    reported = view_of({"x": load(stats={BUNDLE: SOME}, preallocated={BUNDLE: known(9)})})
    assert forget_preallocated(reported, state, [BUNDLE])[0].brokers["x"].preallocated == {}


def test_bundles_preallocated_to_a_dead_broker_are_free_again() -> None:
    """Its bundles are placed again at the next lookup."""
    view = view_of({"y": load()})
    state = state_of(placers.RATE, preallocated={BUNDLE: "dead"})
    assert forget_preallocated(view, state)[1].preallocated == {}


def test_round_robin_continues_from_its_state() -> None:
    """A saved state takes up the turn."""
    options = make_options({"loadBalancerSheddingExcludedNamespaces": "t/new"})
    view = view_of({"a": load(), "b": load()})
    state = state_of(placers.RATE, round_robin=RoundRobinState(1, ("a", "b")))
    placement, _, after = lookup(BUNDLE, view, state, options=options)
    assert placement.broker == "b"
    assert after.round_robin.count == 2
