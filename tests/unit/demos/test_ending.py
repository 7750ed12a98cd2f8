"""The last sentence of a demo."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from demos.broker_demo import conclusion
from support.plans import plan_of
from trimtab.model.plan import Verdict


@pytest.mark.parametrize(
    ("moves", "begins"), [(0, "The cluster's own placement was balanced"), (1, "It helped")]
)
def test_only_a_balanced_plan_without_moves_found_nothing_to_do(moves: int, begins: str) -> None:
    """Its verdict is the same where the moves balance the cluster."""
    outcome: Any = SimpleNamespace(helped=True, unmet=(), worse=())
    whole = plan_of(("orders", 0, (1, 2), (3, 2)))
    plan = replace(whole, verdict=Verdict.BALANCED, moves=whole.moves[:moves])
    log: Any = SimpleNamespace(ok=True)
    assert conclusion(outcome, plan, log).startswith(begins)
