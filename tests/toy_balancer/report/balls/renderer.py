"""The texts of the balancer `balls`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trimtab.report.renderer import Renderer


def plan_text(plan: Any, snapshot: Any = None, *, all_moves: bool = False) -> str:
    """A plan."""
    lines = [f"  {move.order}  {move.ball}  {move.source} → {move.target}" for move in plan.moves]
    return "\n".join([f"Plan by {plan.strategy}: {plan.verdict}", *lines]) + "\n"


def progress_line() -> Callable[[Any], str]:
    """Lines of progress."""
    return lambda state: f"{sum(one.ended for one in state.records)}/{len(state.records)} balls"


RENDERER = Renderer(
    plan_text=plan_text,
    cost=lambda plan: f"{len(plan.moves)} balls",
    change=lambda move: f"{move.ball}  {move.source} → {move.target}",
    forecast_text=lambda prepared, expected, settings, every: f"  {len(prepared.steps)} balls to move",
    progress_line=progress_line,
    step=lambda step: f"{step.ball} → {step.target}",
    cancels="leaves balls where they are",
    receipt_text=lambda receipt: f"{receipt.status}: {len(receipt.done)} balls moved",
    spent_text=lambda receipt: f"{len(receipt.done)} balls moved",
    cancelling="balls stay where they are",
    status_text=lambda sample, every: iter([f"{sample.cluster}: {sample.brokers} boxes"]),
    status_document=lambda sample: {"cluster": sample.cluster, "boxes": sample.brokers},
)
