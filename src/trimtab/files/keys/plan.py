"""Plans of the balancer `keys` in files: `trimtab/plan/1`."""

from __future__ import annotations

from typing import Final

from trimtab.files.document import JsonDocument
from trimtab.files.plan_format import ORDER, PROBLEM, PlanFormat, check_cost, check_moves, second_assignment
from trimtab.files.records import record_of
from trimtab.model.keys.plan import KeysPlan, RoutingMoveKind
from trimtab.model.keys.snapshot import RESOURCES
from trimtab.model.plan import Problem
from trimtab_keys.core.routing import group_count

_OWN: Final = ("topic", "topic_id", "consumers", "version", "base", "partitions")
_ORDER: Final = ("balancer", *_OWN, *ORDER[1:], "drains")


def _check(document: JsonDocument, plan: KeysPlan) -> None:
    """Refuse moves that are not what assignments say, and routes to what is not there."""
    found = {}
    for row, one in enumerate(plan.assignments):
        where = f"$.assignments[{row}]"
        if (one.kind, one.name) in found:
            raise second_assignment(document, where, f"{one.kind} {one.name}")
        found[one.kind, one.name] = one
        if one.kind is RoutingMoveKind.ADD:
            if one.after != (plan.partitions,) or len(one.before) != 1 or one.before > one.after:
                raise document.error(f"{where}.after", one.after, f"[{plan.partitions}], and not fewer")
            continue
        if not one.after or len(set(one.after)) < len(one.after) or max(one.after) >= plan.partitions:
            expected = f"different partitions, 0 to {plan.partitions - 1}"
            raise document.error(f"{where}.after", one.after, expected)
        if one.kind is RoutingMoveKind.GROUP:
            groups = group_count(max(1, plan.base))
            if not (one.name.isascii() and one.name.isdigit() and int(one.name) < groups):
                raise document.error(f"{where}.name", one.name, f"a key group, 0 to {groups - 1}")
            if len(one.after) > 1:
                raise document.error(f"{where}.after", one.after, "one partition: only keys are split")
    check_moves(
        document, plan, found, lambda move: ((move.kind, move.name), move.before, move.after), idle=False
    )
    counted = {
        "groups": sum(move.kind is RoutingMoveKind.GROUP for move in plan.moves),
        "keys": sum(move.kind is RoutingMoveKind.KEY for move in plan.moves),
        "partitions": sum(m.after[0] - m.before[0] for m in plan.moves if m.kind is RoutingMoveKind.ADD),
    }
    check_cost(document, plan.cost, counted)


FORMAT: Final = PlanFormat(
    "keys", KeysPlan, record_of(KeysPlan, {Problem: PROBLEM}, order=_ORDER), RESOURCES, _check
)
