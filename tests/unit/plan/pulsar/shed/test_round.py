"""A round of shedding: what a shedder chose is filtered and placed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.bundle_views import CHANCE, key, report, stats, view_of
from trimtab.model.bundles.policies import BundlePolicies, ClusterMetadata, IsolationPolicy
from trimtab.plan.pulsar import avg_shedder
from trimtab.plan.pulsar.decision import BrokerChoice, Placer, ShedDecision
from trimtab.plan.pulsar.leader import shed_round, unexpired
from trimtab.plan.pulsar.options import PulsarBrokerConfig, make_options
from trimtab.plan.pulsar.selection import AssignmentState, PlacementRules
from trimtab.plan.pulsar.view import LeaderLoadView

FREE = {"loadBalancerDistributeBundlesEvenlyEnabled": False}


@dataclass(frozen=True)
class Asked:
    """Which bundles a placement was asked about."""

    bundles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rounded:
    """What came of a round."""

    decision: ShedDecision
    assignment: AssignmentState[Any]


def to(broker: str | None) -> Placer[Asked]:
    """A placement that always says the same."""

    def choose(
        bundle: str,
        candidates: Sequence[str],
        view: LeaderLoadView,
        state: Asked,
        options: PulsarBrokerConfig,
        chance: np.random.Generator,
    ) -> tuple[BrokerChoice, Asked]:
        return BrokerChoice(broker, tuple(candidates), {"said": broker}), Asked((*state.bundles, bundle))

    return Placer(choose, Asked())


def three(*bundles: str, recently: tuple[str, ...] = (), at: float = 0.0) -> LeaderLoadView:
    """Three brokers; the first has these bundles."""
    held = {bundle: stats(rate=100 + place) for place, bundle in enumerate(bundles)}
    brokers = {"a:1": report(held, cpu=80), "b:1": report(cpu=10), "c:1": report(cpu=20)}
    return view_of(brokers, recently_unloaded=recently, at=at)


def rounded(
    view: LeaderLoadView,
    chosen: tuple[str, ...],
    placer: Placer[Asked],
    metadata: ClusterMetadata = ClusterMetadata(),  # noqa: B008
    variant: str = "pulsar-4.2",
    **options: object,
) -> Rounded:
    """A round after a shedder that chose these of the first broker."""
    made = make_options({**FREE, **options}, variant)
    decision = ShedDecision({"a:1": chosen}, facts={"average": 0.5})
    state = AssignmentState(placer.initial)
    return Rounded(*shed_round(decision, view, PlacementRules(placer, made, metadata), state, CHANCE))


def test_a_bundle_moves_to_the_broker_of_the_placement() -> None:
    """The numbers of the shedder stay, and those of the placement join them."""
    found = rounded(three(key(0), key(1), at=60.0), (key(0),), to("b:1"))
    assert found.decision.unloads == {"a:1": (key(0),)}
    assert found.decision.destinations == {key(0): "b:1"}
    assert found.decision.facts["average"] == 0.5
    assert found.decision.facts["placements"][key(0)]["said"] == "b:1"
    assert found.assignment.placement.bundles == (key(0),)


def test_a_placement_that_would_put_a_bundle_back_is_reported() -> None:
    """Shedder and placement do not agree: nothing is unloaded, and nothing counts as unloaded."""
    found = rounded(three(key(0), key(1)), (key(0), key(1)), to("a:1"))
    assert found.decision.unloads == {}
    assert found.decision.facts["refused"] == {
        bundle: "the placement would put it back on its broker" for bundle in (key(0), key(1))
    }


def test_a_bundle_without_any_broker_stays() -> None:
    """The placement has none to offer."""
    found = rounded(three(key(0), key(1)), (key(0),), to(None))
    assert found.decision.facts["refused"] == {key(0): "there is no broker for it"}


def test_excluded_namespaces_stay_in_4_2_and_go_in_4_0() -> None:
    """The placement is not called in the former."""
    option: dict[str, Any] = {"loadBalancerSheddingExcludedNamespaces": "t/n"}
    found = rounded(three(key(0), key(1)), (key(0),), to("b:1"), **option)
    assert found.decision.unloads == {}
    assert found.assignment.placement.bundles == ()
    old = rounded(three(key(0), key(1)), (key(0),), to("b:1"), variant="pulsar-4.0", **option)
    assert old.decision.unloads == {"a:1": (key(0),)}


def test_a_bundle_stays_if_its_policies_allow_no_other_broker() -> None:
    """The namespace is isolated on its broker; with a second primary broker it goes."""

    def isolated(*primary: str) -> ClusterMetadata:
        return ClusterMetadata(policies=BundlePolicies((IsolationPolicy(("t/n",), primary),)))

    alone = rounded(three(key(0), key(1)), (key(0),), to("b:1"), isolated("a"))
    assert alone.decision.facts["refused"] == {key(0): "policies or anti-affinity keep it where it is"}
    assert alone.assignment.placement.bundles == ()
    both = rounded(three(key(0), key(1)), (key(0),), to("b:1"), isolated("a", "b"))
    assert both.decision.destinations == {key(0): "b:1"}


def test_a_bundle_that_anti_affinity_holds_stays() -> None:
    """Every broker has one namespace of the group: wherever it went, it would be no better off."""
    groups = BundlePolicies(anti_affinity_groups={"t/n": "g", "t/m": "g", "t/o": "g"})
    brokers = {
        "a:1": report({key(0): stats(), key(1): stats()}),
        "b:1": report({key(0, "t/m"): stats()}),
        "c:1": report({key(0, "t/o"): stats()}),
    }
    found = rounded(view_of(brokers), (key(0),), to("b:1"), ClusterMetadata(policies=groups))
    assert found.decision.facts["refused"] == {key(0): "policies or anti-affinity keep it where it is"}
    freed = view_of({**brokers, "c:1": report()})
    found = rounded(freed, (key(0),), to("c:1"), ClusterMetadata(policies=groups))
    assert found.decision.destinations == {key(0): "c:1"}


def test_a_heartbeat_bundle_never_leaves_its_broker() -> None:
    """For any decision of a shedder."""
    bundle = key(0, "pulsar/a:1")
    found = rounded(three(bundle, key(1)), (bundle,), to("b:1"))
    assert found.decision.facts["refused"] == {bundle: "it belongs to its broker"}


def test_a_lone_broker_sheds_nothing() -> None:
    """There is nowhere to go."""
    view = view_of({"a:1": report({key(0): stats(), key(1): stats()}, cpu=99)})
    found = rounded(view, (key(0),), to("b:1"))
    assert found.decision.unloads == {}
    assert found.decision.facts["refused"] == {key(0): "a lone broker sheds nothing"}


def test_an_unload_counts_as_recent_for_just_half_an_hour() -> None:
    """On the millisecond it still does, after it no longer."""
    options = make_options({})
    assert unexpired({"x": 0.0}, 1800.0, options) == {"x": 0.0}
    assert unexpired({"x": 0.0}, 1800.001, options) == {}
    assert unexpired({"x": 0.0}, 60.001, make_options({"loadBalancerSheddingGracePeriodMinutes": 1})) == {}


def test_avg_shedder_and_its_placement_agree() -> None:
    """With the shedder's state as the placement's, each bundle goes to its broker's partner."""
    options = make_options(
        {"loadBalancerAvgShedderHitCountLowThreshold": 1, "avgShedderPlanByBundleName": True, **FREE}
    )
    brokers = {
        "a:1": report({key(0): stats(rate=1000), key(1): stats()}, cpu=80, rate=10_000),
        "b:1": report({key(2): stats(rate=1000), key(3): stats()}, cpu=75, rate=10_000),
        "c:1": report(cpu=20),
        "d:1": report(cpu=10),
    }
    view = view_of(brokers)
    decision, state = avg_shedder.SHEDDER.decide(view, avg_shedder.SHEDDER.initial, options, CHANCE)
    rules = PlacementRules(avg_shedder.PLACER, options)
    found = Rounded(*shed_round(decision, view, rules, AssignmentState(state), CHANCE))
    assert found.decision.unloads == decision.unloads
    assert found.decision.destinations == decision.destinations == {key(0): "d:1", key(2): "c:1"}
