"""What must hold within a plan file, also after it was edited by hand."""

from typing import Any

from trimtab.files.document import JsonDocument, one_of
from trimtab.files.plan_document import check_measures, check_order
from trimtab.files.plan_records import MoveRecord, move_from
from trimtab.model.errors import InputError
from trimtab.model.load import RESOURCES
from trimtab.model.plan import Assignment, Move, MoveKind, Plan


def checked_plan(document: JsonDocument, *, moves: list[MoveRecord], **fields: Any) -> Plan:
    """Join the parts of a plan file, refusing those that contradict each other.

    Raises
    ------
    InputError
        If a name is not of the format, the order of moves is not ascending, applying the moves one by one
        does not end in the assignments, or the cost is not that of the moves.
    """
    for row, record in enumerate(moves):
        one_of(document, f"$.moves[{row}].kind", record.kind, tuple(MoveKind))
    plan = Plan(moves=tuple(map(move_from, moves)), **fields)
    check_order(document, [move.order for move in plan.moves])
    _check_moves(document, plan)
    _check_cost(document, plan)
    _check_names(document, plan)
    return plan


def _check_moves(document: JsonDocument, plan: Plan) -> None:
    """Walk the moves over the lists of `before` and compare with `after`."""
    rows: dict[tuple[str, int], int] = {}
    for row, assignment in enumerate(plan.assignments):
        at = f"$.assignments[{row}]"
        if (assignment.topic, assignment.partition) in rows:
            raise InputError(
                f"{document.path}: {at} is a second one for {_name(assignment)}; keep one of them"
            )
        rows[assignment.topic, assignment.partition] = row
        for side in ("before", "after"):
            brokers = getattr(assignment, side)
            if len(set(brokers)) < len(brokers):
                raise document.refusal(f"{at}.{side}", list(brokers), "each broker once")
        if assignment.leader_after is not None and assignment.leader_after not in assignment.after:
            raise document.refusal(f"{at}.leader_after", assignment.leader_after, "one of `after`, or null")
    placement = [list(assignment.before) for assignment in plan.assignments]
    leader: list[int | None] = [None] * len(placement)
    for number, move in enumerate(plan.moves):
        at = f"$.moves[{number}]"
        found = rows.get((move.topic, move.partition))
        if found is None:
            remedy = "add one, or drop the move"
            raise InputError(f"{document.path}: {at} moves {_name(move)}, which has no assignment; {remedy}")
        _step(document, at, move, placement[found])
        if move.kind is MoveKind.LEADER or leader[found] == move.source:
            leader[found] = move.target
    for row, assignment in enumerate(plan.assignments):
        at = f"$.assignments[{row}]"
        remedy = "moves and assignments must end alike, edit both"
        if placement[row] != list(assignment.after):
            expected = f"{placement[row]}, where the moves of {_name(assignment)} end"
            raise document.refusal(f"{at}.after", list(assignment.after), expected, remedy)
        if leader[row] is not None and leader[row] != assignment.leader_after:
            expected = f"{leader[row]}, where the moves of {_name(assignment)} end"
            raise document.refusal(f"{at}.leader_after", assignment.leader_after, expected, remedy)


def _step(document: JsonDocument, at: str, move: Move, replicas: list[int]) -> None:
    """Carry one move out on a replica list, or say why it cannot be."""
    held = f"one of {replicas}, which hold {_name(move)} by then"
    if move.kind is MoveKind.REPLICA:
        if move.source not in replicas:
            raise document.refusal(f"{at}.source", move.source, held)
        if move.target in replicas:
            raise document.refusal(
                f"{at}.target", move.target, f"none of {replicas}, which hold {_name(move)}"
            )
        replicas[replicas.index(move.source)] = move.target
        return
    if move.target not in replicas:
        raise document.refusal(f"{at}.target", move.target, held)
    if move.kind is MoveKind.LOG_DIR:
        if move.source != move.target:
            raise document.refusal(
                f"{at}.source", move.source, f"{move.target}: the replica stays on its broker"
            )
        return
    if move.source == move.target:
        raise document.refusal(f"{at}.target", move.target, "another broker than `source`")
    replicas.remove(move.target)
    replicas.insert(0, move.target)


def _check_cost(document: JsonDocument, plan: Plan) -> None:
    kinds = [move.kind for move in plan.moves]
    counted = {
        "bytes": sum(move.bytes for move in plan.moves),
        "replica_moves": kinds.count(MoveKind.REPLICA),
        "leader_moves": kinds.count(MoveKind.LEADER),
        "x_log_dir_moves": kinds.count(MoveKind.LOG_DIR),
    }
    for name, number in counted.items():
        found = getattr(plan.cost, name.removeprefix("x_"))
        if found != number:
            raise document.refusal(f"$.cost.{name}", found, f"{number}, the sum of the moves")


def _check_names(document: JsonDocument, plan: Plan) -> None:
    check_measures(document, plan.predicted, RESOURCES)
    for row, move in enumerate(plan.moves):
        if move.reason.resource is not None:
            one_of(document, f"$.moves[{row}].reason.resource", move.reason.resource, RESOURCES)


def _name(thing: Move | Assignment) -> str:
    return f"{thing.topic}-{thing.partition}"
