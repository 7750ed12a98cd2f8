"""Small plans made by hand, for tests of the executor."""

from trimtab.model.imbalance import Measures
from trimtab.model.plan import Prediction, Verdict
from trimtab.model.replicas.plan import Assignment, Bound, Cost, Move, MoveKind, Plan, Reason
from trimtab.model.snapshot import SnapshotReference

REASON = Reason("epsilon", "disk", 1, 0.5, 0.4, 0.45, "relieves broker 1")


def plan_of(*changes: tuple[str, int, tuple[int, ...], tuple[int, ...]], size: int = 10_000_000) -> Plan:
    """A plan that changes (topic, partition, list before, list after); the first of each list leads.

    Lists of the same length differ by position; of another length by what is dropped or added at the end.
    """
    moves: list[Move] = []
    assignments = []
    for topic, number, before, after in changes:
        held = list(before)
        if after[0] != before[0] and after[0] in before:
            moves.append(_move(len(moves), MoveKind.LEADER, topic, number, before[0], after[0], 0))
            held.remove(after[0])
            held.insert(0, after[0])
        for source in [b for b in held if b not in after] if len(before) > len(after) else []:
            moves.append(_move(len(moves), MoveKind.DROP, topic, number, source, source, 0))
            held.remove(source)
        for target in after[len(before) :]:
            moves.append(_move(len(moves), MoveKind.ADD, topic, number, None, target, size))
            held.append(target)
        for position, target in enumerate(after):
            if target not in held:
                moves.append(_move(len(moves), MoveKind.REPLICA, topic, number, held[position], target, size))
                held[position] = target
        assert tuple(held) == tuple(after), "this helper makes positional replacements only"
        assignments.append(Assignment(topic, number, tuple(before), tuple(after), after[0]))
    kinds = [move.kind for move in moves]
    replica_moves, added = kinds.count(MoveKind.REPLICA), kinds.count(MoveKind.ADD)
    measures = Measures({}, {}, {})
    return Plan(
        level="replicas",
        strategy="hand",
        seed=0,
        settings={},
        snapshot=SnapshotReference("fake", "2026-01-01T00:00:00Z", "0" * 64),
        verdict=Verdict.LEVELLED,
        moves=tuple(moves),
        assignments=tuple(assignments),
        predicted=Prediction(measures, measures),
        cost=Cost(
            size * (replica_moves + added),
            replica_moves,
            kinds.count(MoveKind.LEADER),
            added_replicas=added,
            dropped_replicas=kinds.count(MoveKind.DROP),
        ),
        bound=Bound(0, "none"),
    )


def _move(
    index: int, kind: MoveKind, topic: str, number: int, source: int | None, target: int, size: int
) -> Move:
    return Move(index + 1, kind, topic, number, source, target, size, REASON)
