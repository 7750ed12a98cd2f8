"""Plans of balancer `replicas` in files: to be read, diffed, reviewed, edited by hand, and applied later."""

from collections.abc import Iterator

from trimtab.files.document import JsonDocument
from trimtab.files.plan_format import PlanFormat, check_cost, second_assignment
from trimtab.files.records import record_of
from trimtab.model.replicas.plan import (
    ReplicaAssignment,
    ReplicaBound,
    ReplicaCost,
    ReplicaMove,
    ReplicaMoveKind,
    ReplicasPlan,
)
from trimtab.model.replicas.settings import RESOURCES
from trimtab_common.documents import text_of
from trimtab_common.errors import InputError

_MOVE = record_of(
    ReplicaMove,
    order=(
        *("order", "kind", "topic", "partition", "source", "target", "bytes"),
        *("source_dir", "target_dir", "reason"),
    ),
    own=("source_dir", "target_dir"),
)
RESIZED = ("added_replicas", "dropped_replicas")
_RECORDS = {
    ReplicaMove: _MOVE,
    ReplicaCost: record_of(ReplicaCost, own=("log_dir_moves", "log_dir_bytes", "order_moves", *RESIZED)),
    ReplicaBound: record_of(ReplicaBound, own=("log_dir_bytes",)),
}


def checked(document: JsonDocument, plan: ReplicasPlan) -> None:
    """Refuse a plan whose moves do not end in its assignments, or whose cost is not that of the moves."""
    _check_moves(document, plan)
    kinds = [move.kind for move in plan.moves]
    counted = {
        "bytes": sum(move.bytes for move in plan.moves if move.kind is not ReplicaMoveKind.LOG_DIR),
        "replica_moves": kinds.count(ReplicaMoveKind.REPLICA),
        "leader_moves": kinds.count(ReplicaMoveKind.LEADER),
        "x_log_dir_moves": kinds.count(ReplicaMoveKind.LOG_DIR),
        "x_order_moves": kinds.count(ReplicaMoveKind.ORDER),
        "x_added_replicas": kinds.count(ReplicaMoveKind.ADD),
        "x_dropped_replicas": kinds.count(ReplicaMoveKind.DROP),
        "x_log_dir_bytes": sum(move.bytes for move in plan.moves if move.kind is ReplicaMoveKind.LOG_DIR),
    }
    check_cost(document, plan.cost, counted)


FORMAT = PlanFormat(
    "replicas",
    ReplicasPlan,
    RESOURCES,
    checked,
    _RECORDS,
    extra=("log_dirs", "hosts", "numbers", "topics"),
)

read_plan, plan_from, plan_bytes, write_plan = FORMAT.read, FORMAT.from_bytes, FORMAT.to_bytes, FORMAT.write


def kafka_form(plan: ReplicasPlan) -> tuple[str, str]:
    """The JSON that Kafka's own `kafka-reassign-partitions --execute --reassignment-json-file` takes.

    It carries the whole plan's replica lists. The second text is a note for the operator, empty where no
    leader role follows.
    """
    leaders = plan.cost.leader_moves
    note = (
        f"{leaders} leader moves follow the first of each list: run kafka-leader-election --election-type "
        "preferred once the copies are done"
    )
    text = '{"version": 1,\n "partitions": ' + text_of(list(_kafka_rows(plan))) + "}\n"
    return text, note if leaders else ""


def _kafka_rows(plan: ReplicasPlan) -> Iterator[dict[str, object]]:
    dirs: dict[tuple[str, int], dict[int, str]] = {}
    for move in plan.moves:
        if move.target_dir is not None and move.kind is not ReplicaMoveKind.LEADER:
            dirs.setdefault((move.topic, move.partition), {})[move.target] = move.target_dir
    for assignment in plan.assignments:
        row: dict[str, object] = {
            "topic": assignment.topic,
            "partition": assignment.partition,
            "replicas": list(assignment.after),
        }
        if named := dirs.get((assignment.topic, assignment.partition)):
            row["log_dirs"] = [named.get(broker, "any") for broker in assignment.after]
        yield row


def _check_moves(document: JsonDocument, plan: ReplicasPlan) -> None:
    """Walk the moves over the lists of `before` and compare with `after`."""
    rows: dict[tuple[str, int], int] = {}
    for row, assignment in enumerate(plan.assignments):
        at = f"$.assignments[{row}]"
        if (assignment.topic, assignment.partition) in rows:
            raise second_assignment(document, at, _name(assignment))
        rows[assignment.topic, assignment.partition] = row
        for side in ("before", "after"):
            brokers = getattr(assignment, side)
            if len(set(brokers)) < len(brokers):
                raise document.error(f"{at}.{side}", list(brokers), "each broker once")
        if assignment.leader_after is not None and assignment.leader_after not in assignment.after:
            raise document.error(f"{at}.leader_after", assignment.leader_after, "one of `after`, or null")
    placement = [list(assignment.before) for assignment in plan.assignments]
    leader: list[int | None] = [None] * len(placement)
    for number, move in enumerate(plan.moves):
        at = f"$.moves[{number}]"
        found = rows.get((move.topic, move.partition))
        if found is None:
            remedy = "add one, or drop the move"
            raise InputError(f"{document.path}: {at} moves {_name(move)}, which has no assignment; {remedy}")
        _step(document, at, move, placement[found])
        if move.kind is ReplicaMoveKind.DROP and leader[found] == move.source:
            raise document.error(f"{at}.source", move.source, "a replica that does not lead by then")
        if move.kind is ReplicaMoveKind.LEADER or (
            leader[found] == move.source and move.kind is not ReplicaMoveKind.ADD
        ):
            leader[found] = move.target
    for row, assignment in enumerate(plan.assignments):
        at = f"$.assignments[{row}]"
        remedy = "moves and assignments must end alike, edit both"
        if placement[row] != list(assignment.after):
            expected = f"{placement[row]}, where the moves of {_name(assignment)} end"
            raise document.error(f"{at}.after", list(assignment.after), expected, remedy)
        if leader[row] is not None and leader[row] != assignment.leader_after:
            expected = f"{leader[row]}, where the moves of {_name(assignment)} end"
            raise document.error(f"{at}.leader_after", assignment.leader_after, expected, remedy)


def _step(document: JsonDocument, at: str, move: ReplicaMove, replicas: list[int]) -> None:
    """Carry one move out on a replica list, or say why it cannot be."""
    held = f"one of {replicas}, which hold {_name(move)} by then"
    if move.kind is ReplicaMoveKind.REPLICA:
        if move.source not in replicas:
            raise document.error(f"{at}.source", move.source, held)
        if move.target in replicas:
            raise document.error(f"{at}.target", move.target, f"none of {replicas}, which hold {_name(move)}")
        replicas[replicas.index(move.source)] = move.target
        return
    if move.kind is ReplicaMoveKind.ADD:
        if move.source is not None:
            raise document.error(f"{at}.source", move.source, "null: no replica makes room for an added one")
        if move.target in replicas:
            raise document.error(f"{at}.target", move.target, f"none of {replicas}, which hold {_name(move)}")
        replicas.append(move.target)
        return
    if move.target not in replicas:
        raise document.error(f"{at}.target", move.target, held)
    if move.kind is ReplicaMoveKind.DROP:
        if move.source != move.target or len(replicas) == 1:
            expected = f"{move.target}, and another replica that stays"
            raise document.error(f"{at}.source", move.source, expected)
        replicas.remove(move.target)
        return
    if move.kind in (ReplicaMoveKind.LOG_DIR, ReplicaMoveKind.ORDER) and move.source != move.target:
        raise document.error(f"{at}.source", move.source, f"{move.target}: the replica stays on its broker")
    if move.kind is ReplicaMoveKind.LOG_DIR:
        return
    if move.kind is ReplicaMoveKind.LEADER and move.source == move.target:
        raise document.error(f"{at}.target", move.target, "another broker than `source`")
    replicas.remove(move.target)
    replicas.insert(0, move.target)


def _name(thing: ReplicaMove | ReplicaAssignment) -> str:
    return f"{thing.topic}-{thing.partition}"
