"""Plans in files: `trimtab/plan/1`, to be read, diffed, reviewed, edited by hand, and applied later."""

from collections.abc import Iterator
from pathlib import Path

from trimtab.files.atomic import write_atomically
from trimtab.files.plan_checks import checked_plan
from trimtab.files.plan_document import (
    FORMAT,
    TOP_LEVEL,
    PredictionRecord,
    document_bytes,
    level_of,
    open_plan,
    prediction_fields,
    prediction_from,
    problem_fields,
    problems_of,
    reference_fields,
    reference_of,
    text_of,
    verdict_of,
)
from trimtab.files.plan_records import (
    NAMES,
    OWN,
    AssignmentRecord,
    BoundRecord,
    CostRecord,
    MoveRecord,
    assignment_fields,
    assignment_from,
    bound_fields,
    cost_fields,
    move_fields,
)
from trimtab.files.reading import read_bytes
from trimtab.model.plan import Bound, Cost, MoveKind, Plan


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
    document = open_plan(path, data, NAMES)
    level = level_of(document, ("replicas",))
    document.require(TOP_LEVEL)
    cost = document.part("cost", CostRecord, own=OWN)
    bound = document.part("bound", BoundRecord)
    return checked_plan(
        document,
        level=level,
        strategy=document.part("strategy", str),
        seed=document.part("seed", int),
        settings=document.part("settings", dict[str, object]),
        snapshot=reference_of(document),
        verdict=verdict_of(document),
        moves=document.part("moves", list[MoveRecord], own=OWN),
        assignments=tuple(map(assignment_from, document.part("assignments", list[AssignmentRecord]))),
        predicted=prediction_from(document.part("predicted", PredictionRecord)),
        cost=Cost(cost.bytes, cost.replica_moves, cost.leader_moves, cost.x_log_dir_moves),
        bound=Bound(bound.bytes, bound.proof),
        problems=problems_of(document),
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
    fields = {
        "format": FORMAT,
        "level": plan.level,
        "strategy": plan.strategy,
        "seed": plan.seed,
        "settings": plan.settings,
        "snapshot": reference_fields(plan.snapshot),
        "verdict": str(plan.verdict),
        "moves": map(move_fields, plan.moves),
        "assignments": map(assignment_fields, plan.assignments),
        "predicted": prediction_fields(plan.predicted),
        "cost": cost_fields(plan.cost),
        "bound": bound_fields(plan.bound),
        "problems": map(problem_fields, plan.problems),
    }
    return document_bytes(fields)


def kafka_reassignment(plan: Plan) -> str:
    """The JSON that Kafka's own `kafka-reassign-partitions --execute --reassignment-json-file` takes.

    It carries the whole plan's replica lists. Leader roles follow the first of each list, by a preferred
    election (`kafka-leader-election --election-type preferred`) once the copies are done.
    """
    return '{"version": 1,\n "partitions": ' + text_of(_kafka_rows(plan)) + "}\n"


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
