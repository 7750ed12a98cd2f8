"""The last sentence of a demo."""

from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.lab.demo.ending import conclusion
from trimtab.model.plan import Verdict


@pytest.mark.parametrize(
    ("moves", "begins"), [((), "The cluster's own placement was balanced"), ((1,), "It helped")]
)
def test_only_a_balanced_plan_without_moves_found_nothing_to_do(moves: tuple[int, ...], begins: str) -> None:
    """Its verdict is the same where the moves balance the cluster."""
    outcome: Any = SimpleNamespace(helped=True, unmet=(), worse=())
    plan, log = SimpleNamespace(verdict=Verdict.BALANCED, moves=moves), SimpleNamespace(ok=True)
    assert conclusion(outcome, plan, log).startswith(begins)  # type: ignore[arg-type]
