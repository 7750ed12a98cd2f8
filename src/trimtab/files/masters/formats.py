"""Files of the balancer `masters`: snapshots and plans."""

from __future__ import annotations

from math import isclose
from typing import Any, Final

from trimtab.files.document import JsonDocument
from trimtab.files.plan_format import ORDER, PROBLEM, PlanFormat, check_cost, check_moves, second_assignment
from trimtab.files.records import record_of
from trimtab.files.small_snapshot import RowTable, small_format
from trimtab.files.snapshot_source import SnapshotSource
from trimtab.model.masters.plan import MastersPlan
from trimtab.model.masters.snapshot import NO_MASTER, RESOURCES, MasterGroupLoad, MastersSnapshot, NodeLoad
from trimtab.model.plan import Problem
from trimtab_common.documents import Count, Name
from trimtab_common.errors import InputError

HEAD: Final[dict[str, Any]] = {"system": Name, "version": Count, "scheme": str}
"""The balancer's own fields of the head, with their types."""


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


def _described(one: MastersSnapshot) -> str:
    where = f"{one.reference.cluster}, {one.reference.taken_at}"
    return f"{len(one.nodes)} nodes and {len(one.groups)} groups of {where}"


SNAPSHOT_FORMAT: Final = small_format(
    "trimtab/masters-snapshot/1",
    MastersSnapshot,
    head=HEAD,
    tables={"nodes": RowTable(NodeLoad, "node"), "groups": RowTable(MasterGroupLoad, "group")},
    described=_described,
    check=_check_places,
)


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


PLAN_FORMAT: Final = PlanFormat(
    "masters", MastersPlan, record_of(MastersPlan, {Problem: PROBLEM}, order=_ORDER), RESOURCES, _check
)
