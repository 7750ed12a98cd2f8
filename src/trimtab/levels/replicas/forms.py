"""Kafka's own form of a plan of the level `replicas`."""

from __future__ import annotations

from trimtab.files.replicas.plan import kafka_reassignment
from trimtab.model.replicas.plan import Plan


def kafka_form(plan: Plan) -> tuple[str, str]:
    """A plan as `kafka-reassign-partitions` takes it, and a note for the operator, which may be empty."""
    leaders = plan.cost.leader_moves
    note = (
        f"{leaders} leader moves follow the first of each list: run kafka-leader-election --election-type "
        "preferred once the copies are done"
    )
    return kafka_reassignment(plan), note if leaders else ""
