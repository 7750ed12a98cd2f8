"""The texts of the balancer `balls`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

CANCEL_EFFECT = "leaves balls where they are"
CANCELLING = "balls stay where they are"


def plan_text(plan: Any, snapshot: Any = None, *, all_moves: bool = False) -> str:
    """A plan."""
    lines = [f"  {move.order}  {move.ball}  {move.source} → {move.target}" for move in plan.moves]
    return "\n".join([f"Plan by {plan.strategy}: {plan.verdict}", *lines]) + "\n"


def plan_cost(plan: Any) -> str:
    """The cost of a plan."""
    return f"{len(plan.moves)} balls"


def move_text(move: Any) -> str:
    """A move."""
    return f"{move.ball}  {move.source} → {move.target}"


def forecast_text(prepared: Any, forecast: Any, settings: Any, every: bool) -> str:
    """What a plan will do."""
    return f"  {len(prepared.steps)} balls to move"


def progress_reporter() -> Callable[[Any], str]:
    """Lines of progress."""
    return lambda state: f"{sum(one.ended for one in state.records)}/{len(state.records)} balls"


def step_text(step: Any) -> str:
    """A step."""
    return f"{step.ball} → {step.target}"


def receipt_text(receipt: Any) -> str:
    """A receipt."""
    return f"{receipt.status}: {len(receipt.done)} balls moved"


def spent_text(receipt: Any) -> str:
    """The price."""
    return f"{len(receipt.done)} balls moved"


def status_text(status: Any, every: bool) -> Iterator[str]:
    """Boxes as they are."""
    yield f"{status.cluster}: {status.brokers} boxes"


def status_document(status: Any) -> dict[str, Any]:
    """The same as plain values."""
    return {"cluster": status.cluster, "boxes": status.brokers}
