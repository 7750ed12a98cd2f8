"""The way to a broker under the extensible manager, where it differs from the modular one."""

from typing import Any

import numpy as np
import pytest

from support.placement_views import bundle_key, load, view_of
from trimtab.model.bundle_policies import BrokerTraits, BundlePolicies, ClusterMetadata, IsolationPolicy
from trimtab.model.bundles import BundleStats
from trimtab.plan.bundles.assign.least_resource_extensible import LEAST_RESOURCE_USAGE_EXTENSIBLE
from trimtab.plan.bundles.assign.select_extensible import select_broker
from trimtab.plan.bundles.decision import Placement
from trimtab.plan.bundles.options import make_options
from trimtab.plan.bundles.view import LoadView

BUNDLE = bundle_key("t/new")
SOME = BundleStats(topics=1)
ANY = ClusterMetadata()


def placed(view: LoadView, metadata: ClusterMetadata = ANY, excluded: Any = (), **given: Any) -> Placement:
    """One choice, drawn always alike."""
    placer = LEAST_RESOURCE_USAGE_EXTENSIBLE
    options, chance = make_options(given), np.random.default_rng(0)
    placement, _ = select_broker(
        BUNDLE, view, metadata, placer, placer.initial, options, chance, excluded=excluded
    )
    return placement


@pytest.mark.parametrize(("most", "pool"), [(10, {"b"}), (11, {"a", "b"})])
def test_at_the_limit_of_topics_a_broker_is_full(most: int, pool: set[str]) -> None:
    """The modular manager still gives it a bundle; this one does not."""
    view = view_of({"a": load(stats={bundle_key("t/a"): BundleStats(topics=10)}), "b": load()})
    assert set(placed(view, loadBalancerBrokerMaxTopics=most).pool) == pool


def test_where_all_are_full_there_is_no_broker() -> None:
    """Nothing is undone."""
    view = view_of({"a": load(stats={bundle_key("t/a"): BundleStats(topics=10)})})
    placement = placed(view, loadBalancerBrokerMaxTopics=10)
    assert placement.broker is None
    assert placement.why["candidates_left"]["max_topics"] == 0


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
    assert "overloaded_choice" not in placement.why


def test_policies_come_after_anti_affinity_and_may_leave_nobody() -> None:
    """The only primary broker has a namespace of the group, another broker has none."""
    policies = BundlePolicies(
        (IsolationPolicy(("t/new",), ("a",)),), anti_affinity_groups={"t/new": "web", "t/a": "web"}
    )
    view = view_of({"a": load(stats={bundle_key("t/a"): SOME}), "b": load()})
    assert placed(view, ClusterMetadata(policies=policies)).broker is None


def test_a_failed_version_filter_changes_nothing() -> None:
    """What the filters before it took out stays out."""
    traits = {"a": BrokerTraits("4.2.4"), "b": BrokerTraits(load_manager="Modular"), "c": BrokerTraits()}
    metadata = ClusterMetadata(traits=traits, load_manager="Extensible")
    view = view_of({"a": load(), "b": load(), "c": load()})
    assert set(placed(view, metadata, preferLaterVersions="true").pool) == {"a", "c"}
    assert set(placed(view, metadata, excluded=["c"], preferLaterVersions="true").pool) == {"a"}


def test_who_gives_a_bundle_up_does_not_get_it_back() -> None:
    """The owner is excluded, however empty it is."""
    view = view_of({"a": load(0), "b": load(90)})
    assert placed(view, excluded=["a"]).pool == ("b",)
