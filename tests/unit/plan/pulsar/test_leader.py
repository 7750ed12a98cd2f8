"""A leader's round: reports are taken in, a shedder and a placement are asked, and unloads are remembered."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from support.bundle_views import CHANCE, key, report, stats
from trimtab.plan.pulsar.decision import BrokerChoice, Placer, ShedDecision, Shedder
from trimtab.plan.pulsar.leader import LeaderMemory, LeaderRules, inform, shed
from trimtab.plan.pulsar.options import PulsarBrokerConfig, make_options
from trimtab.plan.pulsar.selection import AssignmentState
from trimtab.plan.pulsar.view import LeaderLoadView

REPORTS = {
    "a:1": report({key(0): stats(rate=100), key(1): stats(rate=101)}, cpu=80),
    "b:1": report(cpu=10),
    "c:1": report(cpu=20),
}


def rules(target: str | None, *, first: bool = True, **options: object) -> LeaderRules:
    """A shedder that wants the first broker's first bundle moved, and a placement that says where."""

    def decide(
        view: LeaderLoadView, state: None, options: PulsarBrokerConfig, chance: np.random.Generator
    ) -> tuple[ShedDecision, None]:
        return ShedDecision({"a:1": (key(0),)}, {key(0): "elsewhere"}), None

    def choose(
        bundle: str,
        candidates: Sequence[str],
        view: LeaderLoadView,
        state: None,
        options: PulsarBrokerConfig,
        chance: np.random.Generator,
    ) -> tuple[BrokerChoice, None]:
        return BrokerChoice(target, tuple(candidates)), None

    made = make_options({"loadBalancerDistributeBundlesEvenlyEnabled": False, **options})
    return LeaderRules(Shedder(decide, None), made, Placer(choose, None), destination_first=first)


def went(
    asked: LeaderRules, at: float = 60.0, reports: Any = REPORTS, **remembered: Any
) -> tuple[ShedDecision, LeaderMemory]:
    """One round after another leader's life."""
    view, memory = inform(LeaderMemory(None, AssignmentState(None), **remembered), at, reports, asked)
    return shed(view, memory, asked, CHANCE)


def test_an_unload_and_its_broker_are_remembered() -> None:
    """With the time of the round."""
    decision, memory = went(rules("b:1"))
    assert decision.destinations == {key(0): "b:1"}
    assert memory.recently_unloaded == {key(0): 60.0}
    assert memory.recently_unloaded_brokers == {"a:1": 60.0}


def test_a_bundle_that_stays_does_not_count_as_unloaded() -> None:
    """The placement would put it back."""
    decision, memory = went(rules("a:1"))
    assert decision.unloads == {}
    assert (memory.recently_unloaded, memory.recently_unloaded_brokers) == ({}, {})


def test_expired_entries_are_forgotten_and_others_retained() -> None:
    """The memory may still hold an old one."""
    _, memory = went(rules("b:1"), at=4000.0, recently_unloaded={key(7): 0.0, key(8): 3999.0})
    assert memory.recently_unloaded == {key(8): 3999.0, key(0): 4000.0}


def test_without_a_destination_first_bundles_are_just_released() -> None:
    """The next lookup places the bundle; the placement is not called now."""
    decision, memory = went(rules("a:1", first=False))
    assert (decision.unloads, decision.destinations) == ({"a:1": (key(0),)}, {})
    assert memory.recently_unloaded == {key(0): 60.0}


@pytest.mark.parametrize(
    ("options", "reports", "why"),
    [
        ({"loadBalancerEnabled": False}, REPORTS, "loadBalancerEnabled is false"),
        ({"loadBalancerSheddingEnabled": False}, REPORTS, "loadBalancerSheddingEnabled is false"),
        ({}, {"a:1": REPORTS["a:1"]}, "a lone broker sheds nothing"),
    ],
)
def test_an_idle_leader_has_a_reason(options: dict[str, Any], reports: Any, why: str) -> None:
    """The shedder is not called."""
    decision, memory = went(rules("b:1", **options), reports=reports)
    assert (decision.unloads, decision.facts) == ({}, {"outcome": why})
    assert memory.recently_unloaded == {}
    assert memory.bundles.names == (key(0), key(1))
