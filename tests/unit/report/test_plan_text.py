"""What a plan's text claims: no more than was proven."""

from dataclasses import replace

import pytest

from support.plans import plan_of
from support.replica_clusters import broker, partition, snapshot
from trimtab.model.plan import Verdict
from trimtab.model.replicas.plan import Bound
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.snapshot import Quality
from trimtab.plan.replicas import trim
from trimtab.report.replicas.words import plan_text

PLAN = plan_of(("orders", 0, (1, 2), (3, 2)), size=10_000_000)


@pytest.mark.parametrize(
    ("verdict", "bound", "told"),
    [
        (Verdict.LEVELLED, 8_000_000, "any plan copies 8.0 MB or more; this one 1.25 times it"),
        (Verdict.LEVELLED, 10_000_000, "any plan copies 10.0 MB or more; this one 1.00 times it"),
        (Verdict.IMPROVED, 8_000_000, "to meet every goal, any plan copies 8.0 MB or more; this one 1.25"),
        (Verdict.IMPROVED, 10_000_000, "takes more bytes than this plan copies"),
        (Verdict.INFEASIBLE, 10_000_000, "takes more bytes than this plan copies"),
    ],
)
def test_the_bound_is_not_held_against_a_plan_that_does_less(verdict: Verdict, bound: int, told: str) -> None:
    """A bound for all goals says nothing of a plan that misses some, once it is held down to its cost."""
    text = plan_text(replace(PLAN, verdict=verdict, bound=Bound(bound, "by hand")))
    assert told in text
    assert ("1.00 times" in text) == (verdict is Verdict.LEVELLED and bound == 10_000_000)


def test_a_plan_that_misses_goals_does_not_claim_hard_limits() -> None:
    """`improved` may leave a hard limit unmet that nobody proved impossible."""
    assert "hard limits" not in plan_text(replace(PLAN, verdict=Verdict.IMPROVED))


def test_shares_of_a_made_up_capacity_are_not_shown_and_idle_resources_are_named() -> None:
    """Disks are .2 % full, and nobody declared what the network can carry: neither is told as if it were."""
    brokers = [broker(b, capacity=(None, 1000.0, 10.0, 10.0)) for b in (1, 2)]
    made = snapshot(brokers, [partition("t", p, [1], load=(0, 1, 1, 1)) for p in range(4)])
    made = replace(made, quality=Quality(extra=(("x_nominal_capacity", ["network_in", "network_out"]),)))
    plan = trim.plan(made, ReplicasSettings())
    text = plan_text(plan, made)
    assert "(+100%)" in text
    assert "40%" not in text
    assert "not levelled, used below 1% on average: disk" in text
    assert "no capacity declared, so only compared between brokers: network in, network out" in text
