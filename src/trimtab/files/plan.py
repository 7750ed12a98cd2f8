"""Plans in files: `trimtab/plan/1`, to be read, diffed, reviewed, edited by hand, and applied later."""

import json
from collections.abc import Iterator
from pathlib import Path

from trimtab.files.atomic import write_atomically
from trimtab.files.document import JsonDocument
from trimtab.files.plan_checks import checked_plan
from trimtab.files.plan_records import (
    FORMAT,
    NAMES,
    OWN,
    TOP_LEVEL,
    AssignmentRecord,
    BoundRecord,
    CostRecord,
    MoveRecord,
    PredictionRecord,
    ProblemRecord,
    SnapshotRecord,
    assignment_fields,
    assignment_from,
    bound_fields,
    cost_fields,
    move_fields,
    prediction_fields,
    prediction_from,
    problem_fields,
    problem_from,
)
from trimtab.files.reading import read_bytes
from trimtab.files.snapshot_head import checked_format
from trimtab.model.plan import Bound, Cost, MoveKind, Plan
from trimtab.model.snapshot import SnapshotReference


def read_plan(path: Path) -> Plan:
    """Read and check a plan, also one that was edited by hand.

    Raises
    ------
    InputError
        If it is malformed, or its moves, assignments and cost contradict each other; one line that names
        the file, the JSON path, the value found, what was expected, and the remedy.
    """
    return plan_from(path, read_bytes(path))


def plan_from(path: Path, data: bytes) -> Plan:
    """The same from bytes that are already at hand; `path` names them in errors."""
    document = JsonDocument(path, data, NAMES)
    _ = document.tree  # refuses repeated keys; a plan is small enough to be read twice
    document.require(("format",), tuple(document.parts))
    checked_format(str(path), document.part("format", object), FORMAT)
    document.require(TOP_LEVEL)
    reference = document.part("snapshot", SnapshotRecord)
    cost = document.part("cost", CostRecord, own=OWN)
    bound = document.part("bound", BoundRecord)
    return checked_plan(
        document,
        level=document.part("level", str),
        strategy=document.part("strategy", str),
        seed=document.part("seed", int),
        settings=document.part("settings", dict[str, object]),
        snapshot=SnapshotReference(reference.cluster, reference.taken_at, reference.sha256),
        verdict=document.part("verdict", str),
        moves=document.part("moves", list[MoveRecord], own=OWN),
        assignments=tuple(map(assignment_from, document.part("assignments", list[AssignmentRecord]))),
        predicted=prediction_from(document.part("predicted", PredictionRecord)),
        cost=Cost(cost.bytes, cost.replica_moves, cost.leader_moves, cost.x_log_dir_moves),
        bound=Bound(bound.bytes, bound.proof),
        problems=tuple(map(problem_from, document.part("problems", list[ProblemRecord]))),
    )


def write_plan(plan: Plan, path: Path) -> None:
    """Write a plan; the file appears as a whole or not at all.

    Raises
    ------
    InputError
        If the place cannot be written.
    """
    write_atomically(path, plan_bytes(plan))


def plan_bytes(plan: Plan) -> bytes:
    """The canonical text of a plan: fixed order of fields, shortest exact numbers, a move a line.

    Equal plans have equal bytes.
    """
    snapshot = plan.snapshot
    fields = {
        "format": FORMAT,
        "level": plan.level,
        "strategy": plan.strategy,
        "seed": plan.seed,
        "settings": plan.settings,
        "snapshot": {"cluster": snapshot.cluster, "taken_at": snapshot.taken_at, "sha256": snapshot.sha256},
        "verdict": str(plan.verdict),
        "moves": map(move_fields, plan.moves),
        "assignments": map(assignment_fields, plan.assignments),
        "predicted": prediction_fields(plan.predicted),
        "cost": cost_fields(plan.cost),
        "bound": bound_fields(plan.bound),
        "problems": map(problem_fields, plan.problems),
    }
    return ("{" + ",\n ".join(f'"{name}": {_text(value)}' for name, value in fields.items()) + "}\n").encode()


def kafka_reassignment(plan: Plan) -> str:
    """The JSON that Kafka's own `kafka-reassign-partitions --execute --reassignment-json-file` takes.

    It carries the whole plan's replica lists. Leader roles follow the first of each list, by a preferred
    election (`kafka-leader-election --election-type preferred`) once the copies are done.
    """
    return '{"version": 1,\n "partitions": ' + _text(_kafka_rows(plan)) + "}\n"


def _kafka_rows(plan: Plan) -> Iterator[dict[str, object]]:
    dirs: dict[tuple[str, int], dict[int, str]] = {}
    for move in plan.moves:
        if move.target_dir is not None and move.kind is not MoveKind.LEADER:
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


def _text(value: object) -> str:
    """JSON with one element a line for rows, all else on one line."""
    if isinstance(value, Iterator):
        rows = ",\n  ".join(map(_ENCODER.encode, value))
        return f"[\n  {rows}\n ]" if rows else "[]"
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
"""One for all rows: a plan may have tens of thousands."""
