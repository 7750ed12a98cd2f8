"""What must be true of every placement, whatever the cluster looks like."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.placement_views import bundle_key, known, load, view_of
from trimtab.model.bundles.policies import BundlePolicies, ClusterMetadata, IsolationPolicy
from trimtab.model.bundles.reports import BundleStats
from trimtab.plan.pulsar import splits
from trimtab.plan.pulsar.candidates import by_policies
from trimtab.plan.pulsar.decision import placer
from trimtab.plan.pulsar.options import VARIANTS, make_options
from trimtab.plan.pulsar.selection import AssignmentState, PlacementRules, assign, forget_preallocated
from trimtab.plan.pulsar.splits import SplitState

NAMES = [
    "LeastLongTermMessageRate",
    "LeastResourceUsageWithWeight",
    "RoundRobinBrokerSelector",
    "extensions.LeastResourceUsageWithWeight",
]
NAMESPACES = ["t/a", "t/b", "u/a"]
BUNDLES = [bundle_key(namespace, number) for namespace in NAMESPACES for number in range(4)]

STATS = st.builds(BundleStats, topics=st.integers(0, 2000), msg_rate_in=st.floats(0, 1e5))
BROKERS = st.dictionaries(
    st.sampled_from([f"broker-{number}:8080" for number in range(6)]),
    st.builds(load, st.floats(0, 100), st.dictionaries(st.sampled_from(BUNDLES), STATS, max_size=4)),
    min_size=1,
)
POLICIES = st.builds(
    BundlePolicies,
    st.lists(
        st.builds(
            IsolationPolicy,
            st.sampled_from([("t/.*",), ("u/.*",)]),
            st.sampled_from([("broker-[01]",), ("broker-[2-5]",)]),
            st.sampled_from([(), ("broker-.*",)]),
            st.integers(0, 3),
        ),
        max_size=2,
    ).map(tuple),
    st.dictionaries(st.sampled_from(NAMESPACES), st.sampled_from(["web", "WEB", "db"])),
    st.dictionaries(st.sampled_from([f"broker-{number}:8080" for number in range(6)]), st.sampled_from("xy")),
)
RATES = st.dictionaries(st.sampled_from(BUNDLES), st.floats(0, 1e5).map(known))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(NAMES),
    st.sampled_from(VARIANTS),
    BROKERS,
    RATES,
    POLICIES,
    st.lists(st.sampled_from(BUNDLES), max_size=6),
)
def test_every_placement_is_allowed_remembered_and_repeatable(
    name: str, variant: str, brokers: Any, rates: Any, policies: BundlePolicies, lookups: list[str]
) -> None:
    """A second lookup and a second run answer alike, policies are kept, and the state survives as JSON.

    There is no broker only where policies allow none.
    """
    options = make_options({"failureDomainsEnabled": "true"}, variant)
    metadata = ClusterMetadata(policies=policies)
    rules = PlacementRules(placer(name), options, metadata)

    def run() -> tuple[list[str | None], Any]:
        view, chance = view_of(brokers, rates), np.random.default_rng(7)
        state: AssignmentState[Any] = AssignmentState(placer(name).initial)
        answers = []
        for bundle in lookups:
            found, view, state = assign(bundle, view, rules, state, chance)
            allowed = by_policies(bundle.rpartition("/")[0], list(brokers), metadata)
            assert (found.broker is None) == (not allowed)
            if found.broker is not None:
                assert found.broker in found.pool
                assert set(found.pool) <= set(allowed)
                again, _, _ = assign(bundle, view, rules, state, chance)
                assert again.broker == found.broker
            msgspec.json.encode(found.facts)
            answers.append(found.broker)
        return answers, forget_preallocated(view, state)

    answers, (view, state) = run()
    assert run()[0] == answers
    assert not any(broker.preallocated for broker in view.brokers.values())
    assert state.preallocated == {}
    kind = type(placer(name).initial)
    assert msgspec.json.decode(msgspec.json.encode(state.placement), type=kind) == state.placement


@settings(max_examples=60, deadline=None)
@given(st.lists(BROKERS, min_size=1, max_size=6), st.integers(0, 3))
def test_owners_never_split_sooner_than_the_hits_allow(views: list[Any], threshold: int) -> None:
    """A bundle is split only if its broker saw it above a limit in enough cycles in a row."""
    options = make_options({"loadBalancerNamespaceBundleSplitConditionHitCountThreshold": threshold})
    state = SplitState()
    seen: dict[tuple[str, str], int] = {}
    for brokers in views:
        decision, state = splits.find_owner_splits(view_of(brokers), state, options)
        for broker, held in brokers.items():
            for bundle in BUNDLES:
                stats = held.report.last_stats.get(bundle)
                over = stats is not None and (stats.topics > 1000 or stats.msg_rate_in > 30_000)
                if stats is None or (stats.topics >= 2 and not over):
                    seen.pop((broker, bundle), None)
                elif over and stats.topics >= 2:
                    seen[broker, bundle] = seen.get((broker, bundle), 0) + 1
        for gone in [key for key in seen if key[0] not in brokers]:
            del seen[gone]
        for split in decision.splits:
            assert seen.pop((split.broker, split.bundle)) > threshold
        assert msgspec.json.decode(msgspec.json.encode(state), type=SplitState) == state


@pytest.mark.parametrize("name", ["LeastResourceUsageWithWeight", "LeastLongTermMessageRate"])
def test_the_class_that_a_full_java_name_means_is_found(name: str) -> None:
    """The extensible manager's class of the same short name is another one."""
    modular = placer(f"org.apache.pulsar.broker.loadbalance.impl.{name}")
    assert modular == placer(name)
    other = placer("org.apache.pulsar.broker.loadbalance.extensions.strategy.LeastResourceUsageWithWeight")
    assert other == placer("extensions.LeastResourceUsageWithWeight")
    assert other is not modular
