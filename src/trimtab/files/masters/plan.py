"""Plans of the balancer `masters` in files: `trimtab/plan/1`."""

from __future__ import annotations

from math import isclose
from typing import Final

from trimtab.files.document import JsonDocument
from trimtab.files.plan_format import ORDER, PROBLEM, PlanFormat, check_cost, check_moves, second_assignment
from trimtab.files.records import record_of
from trimtab.model.masters.plan import MastersPlan
from trimtab.model.masters.snapshot import RESOURCES
from trimtab.model.plan import Problem

_ORDER: Final = ("balancer", "system", "version", *ORDER[1:])


def _check(document: JsonDocument, plan: MastersPlan) -> None:
    """Refuse moves that are not what assignments say."""
    found = {}
    for row, one in enumerate(plan.assignments):
        if one.group in found:
            raise second_assignment(document, f"$.assignments[{row}]", f"group {one.group}")
        found[one.group] = one
    check_moves(document, plan, found, lambda move: (move.group, move.source, move.target), field="target")
    check_cost(document, plan.cost, {"transfers": len(plan.moves)})
    pause = sum(move.pause_seconds or 0.0 for move in plan.moves)
    if not isclose(plan.cost.pause_seconds, pause, abs_tol=1e-9):
        raise document.error(
            "$.cost.pause_seconds", plan.cost.pause_seconds, f"{pause}, the sum of the moves"
        )


FORMAT: Final = PlanFormat(
    "masters", MastersPlan, record_of(MastersPlan, {Problem: PROBLEM}, order=_ORDER), RESOURCES, _check
)
