"""Files of the balancer `masters`: snapshots and plans."""

from __future__ import annotations

from math import isclose
from typing import Final

from trimtab.files.document import JsonDocument
from trimtab.files.plan_format import PlanFormat, check_cost, check_moves, second_assignment
from trimtab.files.snapshot_format import small_format
from trimtab.files.snapshot_source import SnapshotSource
from trimtab.model.masters import NO_MASTER, RESOURCES, MastersPlan, MastersSnapshot
from trimtab_common.errors import InputError


def _check_places(source: SnapshotSource) -> None:
    """Refuse groups that tell of nodes that are not there."""
    nodes = len(source.records["nodes"])
    for row, one in enumerate(source.records["groups"]):
        for name, places in (("master", (one.master,)), ("preferred", (one.preferred,)), ("able", one.able)):
            for place in places:
                if not NO_MASTER <= place < nodes:
                    raise InputError(
                        f"{source.file('groups')}: row {row + 1} has {name} {place}, expected a place among "
                        f"the {nodes} nodes, or -1; correct it"
                    )


SNAPSHOT_FORMAT: Final = small_format(
    "trimtab/masters-snapshot/1",
    MastersSnapshot,
    {"nodes": "nodes", "groups": "groups"},
    check=_check_places,
)


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


PLAN_FORMAT: Final = PlanFormat("masters", MastersPlan, RESOURCES, _check)
