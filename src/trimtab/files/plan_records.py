"""The records of plans of the level `replicas` in files, and their way to and from the model."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from trimtab.files.plan_document import COMMON_NAMES, Count
from trimtab.files.replicas_records import Id, Name
from trimtab.model.plan import Assignment, Bound, Cost, Move, MoveKind, Reason


class ReasonRecord(Struct, forbid_unknown_fields=True, kw_only=True):
    """Which goal a move serves."""

    goal: Name
    resource: Name | None
    broker: Id
    before: float | None
    after: float | None
    limit: float | None
    text: str


class MoveRecord(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One step of a plan."""

    order: Annotated[int, Meta(ge=1)]
    kind: str
    topic: Name
    partition: Id
    source: Id | None
    target: Id
    bytes: Count
    x_source_dir: Name | UnsetType = UNSET
    x_target_dir: Name | UnsetType = UNSET
    reason: ReasonRecord


class AssignmentRecord(Struct, forbid_unknown_fields=True, kw_only=True):
    """A partition's replica list before and after."""

    topic: Name
    partition: Id
    before: Annotated[list[Id], Meta(min_length=1)]
    after: Annotated[list[Id], Meta(min_length=1)]
    leader_after: Id | None


class CostRecord(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What carrying the plan out costs."""

    bytes: Count
    replica_moves: Count
    leader_moves: Count
    x_log_dir_moves: Count = 0


class BoundRecord(Struct, forbid_unknown_fields=True, kw_only=True):
    """How few bytes any plan must copy."""

    bytes: Count
    proof: str


OWN = ("x_source_dir", "x_target_dir", "x_log_dir_moves")
"""Fields beyond the published format; the prefix lets readers of the bare format pass over them."""

NAMES = (
    *COMMON_NAMES,
    *(
        name
        for kind in (ReasonRecord, MoveRecord, AssignmentRecord, CostRecord, BoundRecord)
        for name in kind.__struct_fields__
    ),
)
"""Every field name of the format, for "did you mean"."""


def move_from(record: MoveRecord) -> Move:
    """The move that a record stands for; its kind is known to be one of `MoveKind`."""
    reason = record.reason
    return Move(
        order=record.order,
        kind=MoveKind(record.kind),
        topic=record.topic,
        partition=record.partition,
        source=record.source,
        target=record.target,
        bytes=record.bytes,
        reason=Reason(
            reason.goal,
            reason.resource,
            reason.broker,
            reason.before,
            reason.after,
            reason.limit,
            reason.text,
        ),
        source_dir=record.x_source_dir or None,
        target_dir=record.x_target_dir or None,
    )


def move_fields(move: Move) -> dict[str, object]:
    """A move as JSON fields, in the order of the format."""
    fields: dict[str, object] = {
        "order": move.order,
        "kind": str(move.kind),
        "topic": move.topic,
        "partition": move.partition,
        "source": move.source,
        "target": move.target,
        "bytes": move.bytes,
    }
    if move.source_dir is not None:
        fields["x_source_dir"] = move.source_dir
    if move.target_dir is not None:
        fields["x_target_dir"] = move.target_dir
    reason = move.reason
    fields["reason"] = {
        "goal": reason.goal,
        "resource": reason.resource,
        "broker": reason.broker,
        "before": reason.before,
        "after": reason.after,
        "limit": reason.limit,
        "text": reason.text,
    }
    return fields


def assignment_from(record: AssignmentRecord) -> Assignment:
    """The assignment that a record stands for."""
    return Assignment(
        record.topic, record.partition, tuple(record.before), tuple(record.after), record.leader_after
    )


def assignment_fields(assignment: Assignment) -> dict[str, object]:
    """An assignment as JSON fields, in the order of the format."""
    return {
        "topic": assignment.topic,
        "partition": assignment.partition,
        "before": list(assignment.before),
        "after": list(assignment.after),
        "leader_after": assignment.leader_after,
    }


def cost_fields(cost: Cost) -> dict[str, object]:
    """A cost as JSON fields."""
    fields: dict[str, object] = {
        "bytes": cost.bytes,
        "replica_moves": cost.replica_moves,
        "leader_moves": cost.leader_moves,
    }
    if cost.log_dir_moves:
        fields["x_log_dir_moves"] = cost.log_dir_moves
    return fields


def bound_fields(bound: Bound) -> dict[str, object]:
    """A bound as JSON fields."""
    return {"bytes": bound.bytes, "proof": bound.proof}
