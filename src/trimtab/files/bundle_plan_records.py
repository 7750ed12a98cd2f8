"""The records of plans of the level `bundles` in files, and their way to and from the model."""

from typing import Annotated

from msgspec import Meta, Struct

from trimtab.files.plan_document import COMMON_NAMES, Count, Figure
from trimtab.files.replicas_records import Name
from trimtab.model.bundle_plan import (
    BundleBound,
    BundleCost,
    BundleMove,
    BundleMoveKind,
    BundleReason,
    Ownership,
)


class BundleReasonRecord(Struct, forbid_unknown_fields=True, kw_only=True):
    """Which goal a move serves."""

    goal: Name
    resource: Name | None
    view: Name | None
    broker: Name
    before: float | None
    after: float | None
    limit: float | None
    text: str


class BundleMoveRecord(Struct, forbid_unknown_fields=True, kw_only=True):
    """One step of a plan."""

    order: Annotated[int, Meta(ge=1)]
    kind: str
    bundle: Name
    source: Name | None
    target: Name | None
    boundaries: list[Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]]
    sessions: Count
    topics: Count
    bytes_per_second: Figure
    reason: BundleReasonRecord


class OwnershipRecord(Struct, forbid_unknown_fields=True, kw_only=True):
    """Who owns a bundle before and after."""

    bundle: Name
    before: Name | None
    after: Name | None


class BundleCostRecord(Struct, forbid_unknown_fields=True, kw_only=True):
    """What carrying the plan out costs."""

    sessions: Count
    unloads: Count
    splits: Count
    bytes_per_second: Figure


class BundleBoundRecord(Struct, forbid_unknown_fields=True, kw_only=True):
    """How few clients any plan must disturb."""

    sessions: Count
    proof: str


NAMES = (
    *COMMON_NAMES,
    *(
        name
        for kind in (
            *(BundleReasonRecord, BundleMoveRecord, OwnershipRecord, BundleCostRecord, BundleBoundRecord),
        )
        for name in kind.__struct_fields__
    ),
)
"""Every field name of the format, for "did you mean"."""


def move_from(record: BundleMoveRecord) -> BundleMove:
    """The move that a record stands for; its kind is known to be one of `BundleMoveKind`."""
    reason = record.reason
    return BundleMove(
        order=record.order,
        kind=BundleMoveKind(record.kind),
        bundle=record.bundle,
        source=record.source,
        target=record.target,
        boundaries=tuple(record.boundaries),
        sessions=record.sessions,
        topics=record.topics,
        bytes_per_second=record.bytes_per_second,
        reason=BundleReason(
            reason.goal,
            reason.resource,
            reason.view,
            reason.broker,
            reason.before,
            reason.after,
            reason.limit,
            reason.text,
        ),
    )


def move_fields(move: BundleMove) -> dict[str, object]:
    """A move as JSON fields, in the order of the format."""
    reason = move.reason
    return {
        "order": move.order,
        "kind": str(move.kind),
        "bundle": move.bundle,
        "source": move.source,
        "target": move.target,
        "boundaries": list(move.boundaries),
        "sessions": move.sessions,
        "topics": move.topics,
        "bytes_per_second": move.bytes_per_second,
        "reason": {
            "goal": reason.goal,
            "resource": reason.resource,
            "view": reason.view,
            "broker": reason.broker,
            "before": reason.before,
            "after": reason.after,
            "limit": reason.limit,
            "text": reason.text,
        },
    }


def ownership_from(record: OwnershipRecord) -> Ownership:
    """The ownership that a record stands for."""
    return Ownership(record.bundle, record.before, record.after)


def ownership_fields(ownership: Ownership) -> dict[str, object]:
    """An ownership as JSON fields, in the order of the format."""
    return {"bundle": ownership.bundle, "before": ownership.before, "after": ownership.after}


def cost_from(record: BundleCostRecord) -> BundleCost:
    """The cost that a record stands for."""
    return BundleCost(record.sessions, record.unloads, record.splits, record.bytes_per_second)


def cost_fields(cost: BundleCost) -> dict[str, object]:
    """A cost as JSON fields."""
    return {
        "sessions": cost.sessions,
        "unloads": cost.unloads,
        "splits": cost.splits,
        "bytes_per_second": cost.bytes_per_second,
    }


def bound_from(record: BundleBoundRecord) -> BundleBound:
    """The bound that a record stands for."""
    return BundleBound(record.sessions, record.proof)


def bound_fields(bound: BundleBound) -> dict[str, object]:
    """A bound as JSON fields."""
    return {"sessions": bound.sessions, "proof": bound.proof}
