"""Plans of the balancer `queues` in files: `trimtab/plan/1`."""

from __future__ import annotations

from typing import Final

from trimtab.files.document import JsonDocument
from trimtab.files.plan_format import ORDER, PROBLEM, PlanFormat, check_cost, check_moves, second_assignment
from trimtab.files.records import record_of
from trimtab.model.plan import Problem
from trimtab.model.queues.plan import PublicationKind, QueuesPlan
from trimtab.model.queues.snapshot import RESOURCES

_ORDER: Final = ("balancer", "version", *ORDER[1:], "queues", "orders")


def _check(document: JsonDocument, plan: QueuesPlan) -> None:
    """Refuse moves that are not what assignments say, and weights that are none."""
    found = {}
    for row, one in enumerate(plan.assignments):
        if (one.kind, one.name) in found:
            raise second_assignment(document, f"$.assignments[{row}]", f"{one.kind} {one.name}")
        found[one.kind, one.name] = one
        if one.kind is PublicationKind.WEIGHT and not (
            isinstance(one.after, float | int) and 0 < one.after <= 1e6
        ):
            expected = "seconds above 0 and at most 1e6"
            raise document.error(f"$.assignments[{row}].after", one.after, expected)
    check_moves(document, plan, found, lambda move: ((move.kind, move.name), move.before, move.after))
    kinds = [move.kind for move in plan.moves]
    counted = {
        "weights": kinds.count(PublicationKind.WEIGHT),
        "settings": kinds.count(PublicationKind.SETTING),
    }
    check_cost(document, plan.cost, counted)


FORMAT: Final = PlanFormat(
    "queues", QueuesPlan, record_of(QueuesPlan, {Problem: PROBLEM}, order=_ORDER), RESOURCES, _check
)
