"""The way to a broker under the extensible manager, where it differs from the modular one."""

from typing import Any

import numpy as np
import pytest

from support.placement_views import bundle_key, load, view_of
from trimtab.model.bundles.policies import BrokerTraits, BundlePolicies, ClusterMetadata, IsolationPolicy
from trimtab.model.bundles.reports import BundleStats
from trimtab.plan.pulsar.decision import BrokerChoice
from trimtab.plan.pulsar.options import make_options
from trimtab.plan.pulsar.placers import EXTENSIBLE
from trimtab.plan.pulsar.selection import AssignmentState, PlacementRules, select_broker_extensible
from trimtab.plan.pulsar.view import LeaderLoadView

BUNDLE = bundle_key("t/new")
SOME = BundleStats(topics=1)
ANY = ClusterMetadata()


def placed(
    view: LeaderLoadView, metadata: ClusterMetadata = ANY, excluded: Any = (), **given: Any
) -> BrokerChoice:
    """One choice, drawn always alike."""
    placer, chance = EXTENSIBLE, np.random.default_rng(0)
    rules = PlacementRules(placer, make_options(given), metadata)
    state = AssignmentState(placer.initial)
    placement, _ = select_broker_extensible(BUNDLE, view, rules, state, chance, excluded=excluded)
    return placement


@pytest.mark.parametrize(("most", "pool"), [(10, {"b"}), (11, {"a", "b"})])
def test_at_the_limit_of_topics_a_broker_is_full(most: int, pool: set[str]) -> None:
    """The modular manager still gives it a bundle; this one does not."""
    view = view_of({"a": load(stats={bundle_key("t/a"): BundleStats(topics=10)}), "b": load()})
    assert set(placed(view, loadBalancerBrokerMaxTopics=most).pool) == pool


def test_no_broker_is_chosen_if_all_are_full() -> None:
    """Nothing is undone."""
    view = view_of({"a": load(stats={bundle_key("t/a"): BundleStats(topics=10)})})
    placement = placed(view, loadBalancerBrokerMaxTopics=10)
    assert placement.broker is None
    assert placement.facts["candidates_left"]["max_topics"] == 0


def test_bundles_of_a_namespace_are_not_spread() -> None:
    """A broker with a bundle of the namespace is as good as one without."""
    view = view_of({"a": load(stats={bundle_key("t/new", 1): SOME}), "b": load()})
    assert set(placed(view).pool) == {"a", "b"}


def test_an_overloaded_choice_stands() -> None:
    """Only one broker is allowed, and it gets the bundle, full as it is."""
    policies = BundlePolicies((IsolationPolicy(("t/.*",), ("a",)),))
    view = view_of({"a": load(99), "b": load()})
    placement = placed(view, ClusterMetadata(policies=policies))
    assert placement.broker == "a"
    assert "overloaded_choice" not in placement.facts


def test_policies_after_anti_affinity_may_leave_no_broker() -> None:
    """The only primary broker has a namespace of the group, another broker has none."""
    policies = BundlePolicies(
        (IsolationPolicy(("t/new",), ("a",)),), anti_affinity_groups={"t/new": "web", "t/a": "web"}
    )
    view = view_of({"a": load(stats={bundle_key("t/a"): SOME}), "b": load()})
    assert placed(view, ClusterMetadata(policies=policies)).broker is None


def test_an_anti_affinity_group_counts_by_bundles() -> None:
    """Two bundles of one namespace of the group weigh more than one; the modular one counts namespaces."""
    groups = BundlePolicies(anti_affinity_groups={"t/new": "web", "t/a": "web"})
    two = {bundle_key("t/a", 0): SOME, bundle_key("t/a", 1): SOME}
    view = view_of({"a": load(stats=two), "b": load(stats={bundle_key("t/a", 2): SOME})})
    assert placed(view, ClusterMetadata(policies=groups)).pool == ("b",)


def test_namespaces_excluded_from_shedding_are_dealt_out_in_turn_in_4_2() -> None:
    """Whatever the strategy would choose; 4.0 has no such namespaces."""
    view = view_of({"a": load(10), "b": load(90), "c": load(90)})
    options = {"loadBalancerSheddingExcludedNamespaces": "t/new"}
    placer, chance = EXTENSIBLE, np.random.default_rng(0)
    rules = PlacementRules(placer, make_options(options))
    state, brokers = AssignmentState(placer.initial), []
    for _ in range(6):
        placement, state = select_broker_extensible(BUNDLE, view, rules, state, chance)
        brokers.append(placement.broker)
    assert sorted(map(str, brokers)) == ["a", "a", "b", "b", "c", "c"]
    old = PlacementRules(placer, make_options(options, "pulsar-4.0"))
    placement, _ = select_broker_extensible(BUNDLE, view, old, AssignmentState(placer.initial), chance)
    assert placement.pool == ("a",)


def test_a_failed_version_filter_changes_nothing() -> None:
    """What the filters before it took out stays out."""
    traits = {
        "a": BrokerTraits("4.2.4", load_manager="Extensible"),
        "b": BrokerTraits(load_manager="Modular"),
        "c": BrokerTraits(load_manager="Extensible"),
    }
    metadata = ClusterMetadata(traits=traits, load_manager="Extensible")
    view = view_of({"a": load(), "b": load(), "c": load()})
    assert set(placed(view, metadata, preferLaterVersions="true").pool) == {"a", "c"}
    assert set(placed(view, metadata, excluded=["c"], preferLaterVersions="true").pool) == {"a"}


def test_the_previous_owner_does_not_get_the_bundle_back() -> None:
    """The owner is excluded, however empty it is."""
    view = view_of({"a": load(0), "b": load(90)})
    assert placed(view, excluded=["a"]).pool == ("b",)
