"""What a plan's text claims: no more than was proven."""

import re
from dataclasses import replace
from typing import Any

import pytest

from support.plans import plan_of
from support.replica_clusters import broker, partition, snapshot
from trimtab.model.documents import Quality
from trimtab.model.plan import Verdict
from trimtab.model.replicas.plan import ReplicaBound
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.plan.replicas import trim
from trimtab.report.replicas.renderer import plan_text

PLAN = plan_of(("orders", 0, (1, 2), (3, 2)), size=10_000_000)


@pytest.mark.parametrize(
    ("verdict", "bound", "told"),
    [
        (Verdict.BALANCED, 8_000_000, "any plan copies 8.0 MB or more; this one 1.25 times it"),
        (Verdict.BALANCED, 10_000_000, "any plan copies 10.0 MB or more; this one 1.00 times it"),
        (Verdict.IMPROVED, 8_000_000, "to meet every goal, any plan copies 8.0 MB or more; this one 1.25"),
        (Verdict.IMPROVED, 10_000_000, "takes more bytes than this plan copies"),
        (Verdict.INFEASIBLE, 10_000_000, "takes more bytes than this plan copies"),
    ],
)
def test_the_bound_is_not_held_against_a_plan_that_does_less(verdict: Verdict, bound: int, told: str) -> None:
    """A bound for all goals does not apply to a plan that misses some, once it is limited to its cost."""
    text = plan_text(replace(PLAN, verdict=verdict, bound=ReplicaBound(bound, "by hand")))
    assert told in text
    assert ("1.00 times" in text) == (verdict is Verdict.BALANCED and bound == 10_000_000)


def test_a_plan_that_misses_goals_does_not_claim_hard_limits() -> None:
    """`improved` may leave a hard limit unmet without a proof that it is impossible."""
    assert "hard limits" not in plan_text(replace(PLAN, verdict=Verdict.IMPROVED))


def test_shares_of_a_nominal_capacity_are_not_printed_and_idle_resources_are_named() -> None:
    """Disks are 0.2 % full, and no network capacity is declared: neither is printed as a share."""
    brokers = [broker(b, capacity=(None, 1000.0, 10.0, 10.0)) for b in (1, 2)]
    made = snapshot(brokers, [partition("t", p, [1], load=(0, 1, 1, 1)) for p in range(4)])
    made = replace(made, quality=Quality(extra=(("x_nominal_capacity", ["network_in", "network_out"]),)))
    plan = trim.plan(made, ReplicasSettings())
    text = plan_text(plan, made)
    assert "(+100%)" in text
    reasons = [move.reason.text for move in plan.moves]
    assert "(network in 0.0 B/s -> 1.0 B/s, broker 1 4.0 B/s -> 3.0 B/s)" in reasons[0]
    assert not any("% ->" in one or "% network" in one for one in reasons)
    assert "40%" not in text
    assert "not balanced, used below 1% on average: disk" in text
    assert "no capacity declared, so only compared between brokers: network in, network out" in text


@pytest.mark.parametrize(
    ("settings", "shown", "told"),
    [
        ({}, "80.0%.*10.0%", "every goal holds"),
        ({"goals": ("rack", "theta")}, r"80.0% +$", "the request is met .*goals: rack, theta"),
        (
            {"demote": (1,), "goals": ("rack",)},
            None,
            "the request is met .*no leader on broker 1; goals: rack",
        ),
        (
            {"fix_offline_replicas": True, "drain": (3,)},
            r"80.0% +$",
            "the request is met .*empty broker 3; repair what is",
        ),
        ({"replication_factor": {"t": 2}}, r"80.0% +$", "the request is met .*2 replicas of t; goals: rack"),
    ],
)
def test_only_requested_goals_are_printed(settings: dict, shown: str | None, told: str) -> None:
    """A plan that balances nothing has no row for epsilon, and its sentence names the request."""
    brokers = [broker(b, capacity=(100.0,) * 4) for b in (1, 2, 3)]
    made = snapshot(brokers, [partition("t", p, [1 + p % 2, 2 - p % 2], load=(1, 1, 1, 1)) for p in range(6)])
    plan = trim.plan(made, ReplicasSettings(**settings))
    text = plan_text(plan, made)
    rows = [line for line in text.splitlines() if line.strip().startswith("goal ")]
    goals: Any = plan.settings["goals"]
    assert (len(rows) == 1) == ("theta" in goals) == (shown is not None)
    if shown is not None:
        assert re.search(shown, rows[0] + " ")
    if plan.verdict in (Verdict.BALANCED,):
        assert re.search(told, text)
        assert ("every goal holds" in text) == (not settings)
