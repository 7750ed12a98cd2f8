"""Small plans made by hand, for tests of the executor."""

from trimtab.model.documents import SnapshotReference
from trimtab.model.load import ImbalanceSummary
from trimtab.model.plan import Prediction, Verdict
from trimtab.model.replicas.plan import (
    Plan,
    ReplicaAssignment,
    ReplicaBound,
    ReplicaCost,
    ReplicaMove,
    ReplicaMoveKind,
    ReplicaReason,
)

REASON = ReplicaReason("epsilon", "disk", 1, 0.5, 0.4, 0.45, "relieves broker 1")


def plan_of(*changes: tuple[str, int, tuple[int, ...], tuple[int, ...]], size: int = 10_000_000) -> Plan:
    """A plan that changes (topic, partition, list before, list after); the first of each list leads.

    Lists of the same length differ by position; of another length by what is dropped or added at the end.
    """
    moves: list[ReplicaMove] = []
    assignments = []
    for topic, number, before, after in changes:
        held = list(before)
        if after[0] != before[0] and after[0] in before:
            moves.append(_move(len(moves), ReplicaMoveKind.LEADER, topic, number, before[0], after[0], 0))
            held.remove(after[0])
            held.insert(0, after[0])
        for source in [b for b in held if b not in after] if len(before) > len(after) else []:
            moves.append(_move(len(moves), ReplicaMoveKind.DROP, topic, number, source, source, 0))
            held.remove(source)
        for target in after[len(before) :]:
            moves.append(_move(len(moves), ReplicaMoveKind.ADD, topic, number, None, target, size))
            held.append(target)
        for position, target in enumerate(after):
            if target not in held:
                moves.append(
                    _move(len(moves), ReplicaMoveKind.REPLICA, topic, number, held[position], target, size)
                )
                held[position] = target
        assert tuple(held) == tuple(after), "this helper makes positional replacements only"
        assignments.append(ReplicaAssignment(topic, number, tuple(before), tuple(after), after[0]))
    kinds = [move.kind for move in moves]
    replica_moves, added = kinds.count(ReplicaMoveKind.REPLICA), kinds.count(ReplicaMoveKind.ADD)
    measures = ImbalanceSummary({}, {}, {})
    return Plan(
        balancer="replicas",
        strategy="hand",
        seed=0,
        settings={},
        snapshot=SnapshotReference("fake", "2026-01-01T00:00:00Z", "0" * 64),
        verdict=Verdict.BALANCED,
        moves=tuple(moves),
        assignments=tuple(assignments),
        predicted=Prediction(measures, measures),
        cost=ReplicaCost(
            size * (replica_moves + added),
            replica_moves,
            kinds.count(ReplicaMoveKind.LEADER),
            added_replicas=added,
            dropped_replicas=kinds.count(ReplicaMoveKind.DROP),
        ),
        bound=ReplicaBound(0, "none"),
    )


def _move(
    index: int, kind: ReplicaMoveKind, topic: str, number: int, source: int | None, target: int, size: int
) -> ReplicaMove:
    return ReplicaMove(index + 1, kind, topic, number, source, target, size, REASON)
