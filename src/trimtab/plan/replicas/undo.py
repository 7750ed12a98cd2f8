"""The plan that undoes an executed plan of the balancer `replicas`: its moves in reverse.

A partition is undone if it is still where the execution left it. Replicas return to the brokers and log dirs
that they left, and leader roles to the previous leaders. Followers of a list may end in another order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from trimtab.model.load import ImbalanceSummary
from trimtab.model.plan import UNDO, Prediction, goals_of, undo_problems
from trimtab.model.replicas.plan import (
    ReplicaAssignment,
    ReplicaBound,
    ReplicaMove,
    ReplicaMoveKind,
    ReplicaReason,
    ReplicasPlan,
    ReplicasReceipt,
)
from trimtab.model.replicas.settings import RESOURCES
from trimtab.model.replicas.snapshot import NO_BROKER, LogDirState, ReplicasSnapshot, snapshot_after
from trimtab.plan.replicas.outcome import cost_of

DISK = RESOURCES.index("disk")
"""Column of the disk in the loads of a snapshot."""


def undo(plan: ReplicasPlan, receipt: ReplicasReceipt, snapshot: ReplicasSnapshot) -> ReplicasPlan:
    """Plan the way back; `problems` of the plan name each partition that cannot be undone, and why.

    Parameters
    ----------
    receipt
        Of the execution; only the moves of its finished steps are undone.
    snapshot
        The placement now, from after the end of the execution.
    """
    done = {order for outcome in receipt.done for order in outcome.moves}
    by_partition: dict[tuple[str, int], list[ReplicaMove]] = defaultdict(list)
    for move in plan.moves:
        if move.order in done:
            by_partition[move.topic, move.partition].append(move)
    assignments = {(one.topic, one.partition): one for one in plan.assignments}
    now = _PlacementNow(snapshot)
    moves: list[ReplicaMove] = []
    changed: list[ReplicaAssignment] = []
    reasons: list[str] = []
    # The partition that moved last is the first to return.
    for partition in sorted(by_partition, key=lambda one: -by_partition[one][-1].order):
        try:
            made, assignment = _partition_undone(assignments[partition], by_partition[partition], now)
        except _UndoError as error:
            reasons.append(f"{partition[0]}-{partition[1]} stays: {error}")
            continue
        if made:
            moves += made
            changed.append(assignment)
    numbered = tuple(replace(move, order=order) for order, move in enumerate(moves, 1))
    cost = cost_of(numbered)
    verdict, problems = undo_problems(reasons, any_move=bool(numbered))
    return ReplicasPlan(
        balancer=plan.balancer,
        strategy=UNDO,
        seed=plan.seed,
        settings=goals_of(plan),
        snapshot=snapshot.reference,
        verdict=verdict,
        moves=numbered,
        assignments=tuple(sorted(changed, key=lambda one: (one.topic, one.partition))),
        predicted=Prediction(snapshot.imbalance().measures(), now.measures_after(changed)),
        cost=cost,
        bound=ReplicaBound(cost.bytes, "each move returns a replica that has to return", cost.log_dir_bytes),
        problems=problems,
    )


class _UndoError(Exception):
    """A partition cannot be undone; the text is the reason."""


class _PlacementNow:
    """The placement of a snapshot, by Kafka's names and ids."""

    def __init__(self, snapshot: ReplicasSnapshot) -> None:
        self.snapshot = snapshot
        self.ids: list[int] = snapshot.brokers.id.tolist()
        parts = snapshot.partitions
        topics = [parts.topics[topic] for topic in parts.topic.tolist()]
        self.rows = {name: row for row, name in enumerate(zip(topics, parts.number.tolist(), strict=True))}
        dirs, states = snapshot.log_dirs, snapshot.log_dirs.state.tolist()
        self.dirs = {
            (self.ids[broker], path)
            for broker, path, state in zip(dirs.broker.tolist(), dirs.path, states, strict=True)
            if state == LogDirState.ONLINE
        }
        self.receivers = {one for one, may in zip(self.ids, snapshot.brokers.may_receive, strict=True) if may}

    def row(self, topic: str, partition: int) -> int:
        """The row of a partition, which must exist."""
        if (topic, partition) not in self.rows:
            raise _UndoError("it was deleted after the execution")
        return self.rows[topic, partition]

    def replicas(self, row: int) -> list[int]:
        """The replica list of a partition."""
        return [self.ids[one] for one in self.snapshot.partitions.replicas[row].tolist() if one != NO_BROKER]

    def leader(self, row: int) -> int | None:
        """The leader of a partition."""
        found = int(self.snapshot.partitions.leader[row])
        return None if found == NO_BROKER else self.ids[found]

    def log_dir(self, row: int, broker: int) -> str | None:
        """The log dir of a replica, where the snapshot has it."""
        column = self.replicas(row).index(broker)
        found = int(self.snapshot.partitions.log_dir[row, column])
        return None if found == NO_BROKER else self.snapshot.log_dirs.path[found]

    def size(self, row: int) -> int:
        """Bytes of one replica by the snapshot."""
        return int(self.snapshot.partitions.leader_load[row, DISK])

    def require_receiver(self, broker: int) -> None:
        """Refuse a broker that can receive no replica."""
        if broker not in self.receivers:
            state = "is not in service" if broker in self.ids else "is not in the cluster any more"
            raise _UndoError(f"broker {broker}, where a replica has to return, {state}")

    def measures_after(self, assignments: list[ReplicaAssignment]) -> ImbalanceSummary:
        """Measures of the placement with these assignments."""
        return snapshot_after(self.snapshot, assignments).imbalance().measures()


def _partition_undone(
    planned: ReplicaAssignment, moves: list[ReplicaMove], now: _PlacementNow
) -> tuple[list[ReplicaMove], ReplicaAssignment]:
    """The moves that return one partition, and its lists before and after them."""
    row = now.row(planned.topic, planned.partition)
    found, leader = now.replicas(row), now.leader(row)
    left = list(planned.before)
    for move in moves:
        _walk(move, left)
    if set(found) == set(planned.before) != set(left):
        return [], planned  # somebody has undone it already
    if set(found) != set(left):
        raise _UndoError(f"the execution left it on {left}, and it is on {found} now")
    replicas, made = list(found), list[ReplicaMove]()
    for move in reversed(moves):
        back = _reversed(move, row, replicas, leader, now)
        if back is None:
            continue
        _walk(back, replicas)
        if back.kind is ReplicaMoveKind.LEADER or (
            back.kind is ReplicaMoveKind.REPLICA and leader == back.source
        ):
            leader = back.target
        made.append(back)
    after = tuple(replicas)
    return made, ReplicaAssignment(planned.topic, planned.partition, tuple(found), after, leader)


def _reversed(
    move: ReplicaMove, row: int, replicas: list[int], leader: int | None, now: _PlacementNow
) -> ReplicaMove | None:
    """The move that undoes another one; None where nothing has to change."""
    kind, size = ReplicaMoveKind, now.size(row)
    if move.kind is kind.ORDER:
        return None  # the leader stays first, where the executed plan put it
    if move.kind is kind.LEADER:
        if move.source is None or move.source == leader or move.source not in replicas:
            return None  # there was no leader before, or it leads again
        if not now.snapshot.brokers.may_lead[now.ids.index(move.source)]:
            raise _UndoError(f"broker {move.source}, its previous leader, may not lead")
        return _move(move, kind.LEADER, leader, move.source, 0)
    if move.kind is kind.LOG_DIR:
        if move.source_dir is None:
            raise _UndoError("the executed plan does not name the log dir that it left")
        if now.log_dir(row, move.target) != move.target_dir:
            raise _UndoError(
                f"its replica on broker {move.target} is in another log dir than the execution left"
            )
        if (move.target, move.source_dir) not in now.dirs:
            raise _UndoError(f"log dir {move.source_dir} of broker {move.target} is not in service")
        return _move(move, kind.LOG_DIR, move.target, move.target, size, move.target_dir, move.source_dir)
    if move.kind is kind.ADD:
        if move.target == leader:
            raise _UndoError(f"its leader is the added replica on broker {move.target}")
        return _move(move, kind.DROP, move.target, move.target, 0)
    assert move.source is not None
    now.require_receiver(move.source)
    if move.kind is kind.DROP:
        return _move(move, kind.ADD, None, move.source, size)
    back_to = move.source_dir if (move.source, move.source_dir) in now.dirs else None
    return _move(move, kind.REPLICA, move.target, move.source, size, move.target_dir, back_to)


def _move(
    undone: ReplicaMove,
    kind: ReplicaMoveKind,
    source: int | None,
    target: int,
    size: int,
    source_dir: str | None = None,
    target_dir: str | None = None,
) -> ReplicaMove:
    name = f"{undone.topic}-{undone.partition}"
    text = f"undoes move {undone.order} of the executed plan: {name} is as before on broker {target}"
    reason = ReplicaReason("undo", None, target, None, None, None, text)
    return ReplicaMove(
        1, kind, undone.topic, undone.partition, source, target, size, reason, source_dir, target_dir
    )


def _walk(move: ReplicaMove, replicas: list[int]) -> None:
    """Carry a move out on a replica list."""
    kind = ReplicaMoveKind
    if move.kind is kind.REPLICA:
        assert move.source is not None
        replicas[replicas.index(move.source)] = move.target
    elif move.kind is kind.ADD:
        replicas.append(move.target)
    elif move.kind is kind.DROP:
        replicas.remove(move.target)
    elif move.kind in (kind.LEADER, kind.ORDER):
        replicas.remove(move.target)
        replicas.insert(0, move.target)
