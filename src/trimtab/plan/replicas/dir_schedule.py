"""The way to the dirs aimed at: moves between log dirs put among the steps, no dir filled above θ on it."""

from dataclasses import dataclass, field

import numpy as np

from trimtab.model.load import FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.plan import ReplicaReason
from trimtab.model.replicas.snapshot import NO_BROKER
from trimtab.plan.replicas.dirs import DirChange, DirData, LogDirTargets, aims_of, dir_data
from trimtab.plan.replicas.moves import REPLICA_STEP, StepArrays
from trimtab.plan.replicas.problem import ReplicasProblem

DirPair = tuple[str | None, str | None]
GOAL = "log_dirs"


@dataclass(frozen=True, eq=False)
class DirMove:
    """A move between two dirs of a broker, made before step `place`, and why."""

    place: int
    change: DirChange
    reason: ReplicaReason


@dataclass(frozen=True, eq=False)
class LogDirSchedule:
    """What steps and moves between dirs do to log dirs.

    Attributes
    ----------
    data
        None where no dirs are declared.
    pairs
        Of each step, the dir that a replica leaves, and that it goes to; None where it is not known or there
        is no choice: leader steps, and brokers that declare fewer than two dirs.
    moves
        Between the dirs of a broker, in order.
    held
        Shape (dirs,): bytes in the end.
    full
        Partitions for whose copies no dir of the destination has room.
    cut
        Says that a limit left moves between dirs out.
    """

    data: DirData | None
    pairs: list[DirPair]
    moves: list[DirMove]
    held: FloatArray
    full: IntArray
    cut: Problem | None = None


def schedule_log_dirs(problem: ReplicasProblem, steps: StepArrays) -> LogDirSchedule:
    """Walk through the steps, with moves between dirs where they make room, and the others at the end."""
    data = dir_data(problem)
    if data is None:
        nothing: list[DirPair] = [(None, None)] * len(steps.kind)
        return LogDirSchedule(None, nothing, [], np.zeros(0), np.zeros(0, dtype=np.int32))
    aims = aims_of(data, steps)
    walk = _ScheduleWalk(data, aims, data.held.copy())
    for change in aims.changes:
        walk.waiting.setdefault(change.broker, []).append(change)
    pairs = [walk.step(i, *values) for i, values in enumerate(_values(steps))]
    walk.finish(len(steps.kind))
    full = np.unique(np.array(walk.full, dtype=np.int32))
    return LogDirSchedule(data, pairs, walk.moves, walk.held, full, aims.cut)


def _values(steps: StepArrays) -> list[tuple[int, int, int, int]]:
    return list(zip(*(column.tolist() for column in steps[:4]), strict=True))


@dataclass(eq=False)
class _ScheduleWalk:
    data: DirData
    aims: LogDirTargets
    held: FloatArray
    waiting: dict[int, list[DirChange]] = field(default_factory=dict)
    moves: list[DirMove] = field(default_factory=list)
    full: list[int] = field(default_factory=list)
    now: dict[tuple[int, int], int] = field(default_factory=dict)

    def step(self, i: int, kind: int, p: int, source: int, target: int) -> DirPair:
        """Carry a step out; the dirs that it takes a replica from and to."""
        if kind != REPLICA_STEP:
            return None, None
        data, size = self.data, float(self.data.problem.arrays.size[p])
        before = self.now.pop((p, source)) if (p, source) in self.now else data.dir_of(p, source)
        after = NO_BROKER
        if data.of_broker[target]:
            after = self._chosen(i, p, target, size)
            if after != NO_BROKER:
                self.held[after] += size
                self.now[p, target] = after
        if before != NO_BROKER:
            self.held[before] -= size
        paths = data.problem.snapshot.log_dirs.path
        told = after if len(data.of_broker[target]) > 1 else NO_BROKER
        return (
            paths[before] if before != NO_BROKER else None,
            paths[told] if told != NO_BROKER else None,
        )

    def _chosen(self, i: int, p: int, b: int, size: float) -> int:
        """The dir aimed at if it has room, after others have made some; else the emptiest that has."""
        data = self.data
        aim = self.aims.arriving.get((p, b), NO_BROKER)
        if aim != NO_BROKER:
            while not self._fits(aim, size) and self._move_waiting(i, b):
                pass
            if self._fits(aim, size):
                return aim
        online = [d for d in data.of_broker[b] if data.open[d]]
        if not online:
            return NO_BROKER
        best = min(online, key=lambda d: (not self._fits(d, size), *self._filling(d, size), d))
        if not self._fits(best, size):
            self.full.append(p)
        return best

    def _fits(self, d: int, size: float) -> bool:
        return bool(self.held[d] + size <= self.data.ceiling[d])

    def _filling(self, d: int, size: float) -> tuple[bool, float]:
        """First whether it would overflow, then how full: as a share of a known capacity, else in bytes."""
        held, capacity = self.held[d] + size, self.data.capacity[d]
        return bool(held > capacity), float(held / capacity if np.isfinite(capacity) else held / 1e15)

    def _move_waiting(self, i: int, b: int) -> bool:
        """Make one of the broker's waiting moves that has room; whether there was one."""
        size = self.data.problem.arrays.size
        for change in self.waiting.get(b, []):
            if self._fits(change.target, float(size[change.partition])):
                self.waiting[b].remove(change)
                self._move(i, change, float(size[change.partition]))
                return True
        return False

    def finish(self, i: int) -> None:
        """The moves that still wait; those that never find room are left out."""
        for b in list(self.waiting):
            while self._move_waiting(i, b):
                pass

    def _move(self, i: int, change: DirChange, size: float) -> None:
        before = self.held.copy()
        self.held[change.target] += size
        self.held[change.source] -= size
        self.moves.append(DirMove(i, change, self._reason(change, before)))

    def _reason(self, change: DirChange, before: FloatArray) -> ReplicaReason:
        """The dir that the move serves: the one that is further outside its band."""
        data = self.data
        snapshot = data.problem.snapshot
        dirs = [d for d in data.of_broker[change.broker] if data.counted[d]]
        goal = data.broker_dirs(dirs, before[dirs], float(before[dirs].sum()))
        source, target = dirs.index(change.source), dirs.index(change.target)
        was, now = before[dirs] / goal.capacity, self.held[dirs] / goal.capacity
        high = np.minimum(goal.high, goal.theta)
        over, under = was[source] - high[source], goal.low[target] - was[target]
        one, other, verb = (
            (source, target, "relieved") if over >= under - 1e-9 else (target, source, "filled")
        )
        limit = float(high[source] if one == source else goal.low[target])
        if max(over, under) <= 0:
            verb = "makes room"
        path = snapshot.log_dirs.path
        text = (
            f"log dir {path[dirs[one]]} {verb}: disk {was[one]:.1%} -> {now[one]:.1%}, limit {limit:.1%}; "
            f"{path[dirs[other]]} {was[other]:.1%} -> {now[other]:.1%}"
        )
        broker = int(snapshot.brokers.id[change.broker])
        return ReplicaReason(GOAL, "disk", broker, float(was[one]), float(now[one]), limit, text)
