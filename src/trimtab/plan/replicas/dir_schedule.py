"""Moves between log dirs: their order among the steps, their lower bound, and the verdict at the end.

No log dir is filled above θ during the execution unless it already was. A dir that stays above its limit is
proven if no plan can help.
"""

from dataclasses import dataclass, field

import numpy as np

from trimtab.model.goals import percent_above
from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.log_dirs import counted_dirs, dir_balance
from trimtab.model.replicas.plan import ReplicaReason
from trimtab.model.replicas.settings import DISK
from trimtab.model.replicas.snapshot import NO_BROKER, LogDirState
from trimtab.plan.replicas.arrays import Placement
from trimtab.plan.replicas.dirs import ROUNDING, DirChange, DirData, LogDirTargets, aims_of, dir_data
from trimtab.plan.replicas.moves import REPLICA_STEP, StepArrays
from trimtab.plan.replicas.problem import ReplicasProblem

SLACK = 1e-6
"""Relative: rounding must not lift a bound above the truth."""


def log_dir_bound(problem: ReplicasProblem) -> int:
    """Lower bound of bytes for plans that meet the goal `log_dirs`; 0 if replicas may leave their brokers."""
    data = dir_data(problem)
    if (
        data is None
        or not data.is_goal
        or not problem.settings.intra_broker_only
        or problem.settings.fix_offline_replicas
    ):
        return 0
    least = 0.0
    for all_dirs in data.of_broker:
        dirs = [d for d in all_dirs if data.counted[d]]
        if dirs:
            held = data.held[dirs]
            goal = data.broker_dirs(dirs, held, float(held.sum()))
            top = np.minimum(goal.high, goal.theta) * goal.capacity
            over = np.maximum(held - top, 0.0).sum()
            under = np.maximum(goal.low * goal.capacity - held, 0.0).sum()
            least += float(max(over, under))
    return int(np.floor(least * (1 - SLACK)))


DirPair = tuple[str | None, str | None]
GOAL = "log_dirs"


@dataclass(frozen=True, eq=False)
class DirMove:
    """A move between two dirs of a broker, made before step `place`, and its reason."""

    place: int
    change: DirChange
    reason: ReplicaReason


@dataclass(frozen=True, eq=False)
class LogDirSchedule:
    """The effect of steps and moves on log dirs.

    Attributes
    ----------
    data
        None where no dirs are declared.
    pairs
        Source and target dir of each step; None if unknown or without a choice: leader steps, and brokers
        with fewer than two declared dirs.
    moves
        Between the dirs of a broker, in order.
    held
        Shape (dirs,): bytes in the end.
    full
        Partitions for whose copies no dir of the destination has room.
    cut
        The problem that a limit left out moves between dirs.
    """

    data: DirData | None
    pairs: list[DirPair]
    moves: list[DirMove]
    held: FloatArray
    full: IntArray
    cut: Problem | None = None


def schedule_log_dirs(problem: ReplicasProblem, steps: StepArrays) -> LogDirSchedule:
    """Walk through the steps. Moves between dirs are made early if they make space, the others at the end."""
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
        """Execute a step; returns the source and target dir of its replica."""
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
        """The intended dir if it has space, possibly after other moves; otherwise the emptiest dir with
        space.
        """
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
        """Make one waiting move of the broker whose target has space; returns whether there was one."""
        size = self.data.problem.arrays.size
        for change in self.waiting.get(b, []):
            if self._fits(change.target, float(size[change.partition])):
                self.waiting[b].remove(change)
                self._move(i, change, float(size[change.partition]))
                return True
        return False

    def finish(self, i: int) -> None:
        """The moves that still wait; those that never find space are left out."""
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
        one, other = (source, target) if over >= under - 1e-9 else (target, source)
        limit = float(high[source] if one == source else goal.low[target])
        path, name = snapshot.log_dirs.path, snapshot.partitions.name_of(change.partition)
        cause = f"log dir {path[dirs[one]]} is {was[one]:.1%} full, limit {limit:.1%}"
        if max(over, under) <= 0:
            cause = f"room is needed in log dir {path[dirs[one]]}"
        text = (
            f"{cause}; moves replica of {name} from {path[change.source]} to {path[change.target]} "
            f"({path[dirs[one]]} {was[one]:.1%} -> {now[one]:.1%}, "
            f"{path[dirs[other]]} {was[other]:.1%} -> {now[other]:.1%})"
        )
        broker = int(snapshot.brokers.id[change.broker])
        return ReplicaReason(GOAL, "disk", broker, float(was[one]), float(now[one]), limit, text)


def dir_problems(
    problem: ReplicasProblem, placement: Placement, log_dir_schedule: LogDirSchedule
) -> tuple[list[Problem], list[Problem]]:
    """Problems of log dirs that no plan solves, and those that this one leaves.

    Parameters
    ----------
    placement
        The placement at the end.
    """
    data = log_dir_schedule.data
    if data is None or not data.is_goal:
        return [], []
    settings = problem.settings
    theta, epsilon = settings.theta[DISK], settings.epsilon[DISK]
    balance = dir_balance(problem.snapshot, log_dir_schedule.held)
    above, off = balance.violations_by_row(theta, epsilon, settings.min_utilization)
    proven: list[Problem] = []
    if above.any():
        proven += _too_big(problem, theta)
        if settings.intra_broker_only and not settings.fix_offline_replicas:
            proven += _too_much(problem, log_dir_schedule, theta)
    open_: list[Problem] = []
    if above.any() and not proven:
        open_.append(_unmet_dirs(problem, above, balance.usage, "theta", theta))
    if off.any():
        few = _too_few_replicas(problem, placement, off & ~above)
        if few is not None:
            open_.append(few)
        else:
            open_.append(_unmet_dirs(problem, off, balance.deviation, "epsilon", epsilon))
    return proven, open_


def _too_big(problem: ReplicasProblem, theta: float) -> list[Problem]:
    """A partition that exceeds θ of every log dir that may hold it.

    This goal does not prevent it on a broker whose dirs do not count.
    """
    snapshot, dirs, home = problem.snapshot, problem.snapshot.log_dirs, problem.arrays.initial
    service, number = snapshot.brokers.in_service, len(snapshot.brokers)
    counted = counted_dirs(snapshot)
    biggest = np.zeros(number)
    np.maximum.at(biggest, dirs.broker[counted], dirs.capacity[counted])
    biggest = np.where(np.bincount(dirs.broker[counted], minlength=number) > 0, biggest, np.inf)
    held = (home >= 0) & service[home]
    stays = problem.settings.intra_broker_only and not problem.settings.fix_offline_replicas
    # If nothing may leave its broker, the dirs of each holder; otherwise the biggest dir that could hold it.
    rooms = np.where(held, biggest[home] if stays else biggest[service].max(initial=0.0), np.inf)
    room_of = rooms.min(axis=1, initial=np.inf)
    share = problem.arrays.size / np.where(room_of > 0, room_of, np.inf)
    p = int(np.argmax(share))
    if share[p] <= theta * ROUNDING:
        return []
    room, size, parts = float(room_of[p]), problem.arrays.size, snapshot.partitions
    name = parts.name_of(p)
    text = (
        f"disk: {name} alone takes {size[p] / room:.2%} of even the biggest log dir, limit {theta:.2%}; "
        "split the topic into more partitions, keep less of it, or add bigger disks"
    )
    proof: dict[str, object] = {
        "goal": GOAL,
        "topic": parts.topics[parts.topic[p]],
        "partition": int(parts.number[p]),
        "bytes": float(size[p]),
        "biggest_log_dir": room,
        "limit": theta,
    }
    return [Problem("indivisible_replica", text, resource="disk", proof=proof)]


def _too_much(problem: ReplicasProblem, log_dir_schedule: LogDirSchedule, theta: float) -> list[Problem]:
    """Brokers that no replica leaves and whose log dirs together exceed θ."""
    snapshot, data = problem.snapshot, log_dir_schedule.data
    assert data is not None
    found = []
    for b, all_dirs in enumerate(data.of_broker):
        dirs = [d for d in all_dirs if data.counted[d]]
        total, room = float(data.held[dirs].sum()), float(data.capacity[dirs].sum())
        if dirs and total > theta * room * ROUNDING:
            broker = int(snapshot.brokers.id[b])
            text = (
                f"disk: the {len(dirs)} log dirs of broker {broker} hold {total:.6g} bytes, more than "
                f"{100 * theta:g}% of their {room:.6g}, and nothing may leave it: plan without "
                "intra_broker_only"
            )
            proof: dict[str, object] = {
                "goal": GOAL,
                "broker": broker,
                "needed_bytes": total,
                "capacity_bytes": room,
                "theta": theta,
            }
            found.append(Problem("conflicting_constraints", text, resource="disk", proof=proof))
    return found


def _too_few_replicas(problem: ReplicasProblem, placement: Placement, off: BoolArray) -> Problem | None:
    """Every broker that misses ε holds fewer replicas than log dirs: one must stay empty."""
    dirs = problem.snapshot.log_dirs
    place = placement.place[(problem.arrays.size > 0)]
    held = np.bincount(place[place >= 0], minlength=len(problem.snapshot.brokers))
    brokers = np.unique(dirs.broker[off])
    counted = np.bincount(
        dirs.broker[dirs.state == LogDirState.ONLINE], minlength=len(problem.snapshot.brokers)
    )
    if not len(brokers) or (held[brokers] >= counted[brokers]).any():
        return None
    ids = problem.snapshot.brokers.id[brokers].tolist()
    named = ", ".join(map(str, ids[:5])) + (", ..." if len(ids) > 5 else "")
    return Problem(
        "indivisible_replica",
        f"disk: broker {named}: fewer replicas than log dirs, so one dir stays empty; more partitions would "
        "help",
        resource="disk",
        proof={"goal": GOAL, "brokers": len(ids), "replicas": int(held[brokers].max())},
    )


def _unmet_dirs(
    problem: ReplicasProblem, which: BoolArray, figure: FloatArray, goal: str, limit: float
) -> Problem:
    snapshot = problem.snapshot
    d = int(np.argmax(np.where(which, figure, -1.0)))
    number = int(which.sum())
    dirs = "1 log dir is" if number == 1 else f"{number} log dirs are"
    far = (
        f"above theta {100 * limit:g}%"
        if goal == "theta"
        else f"more than {100 * limit:g}% from the mean of their broker's"
    )
    broker = int(snapshot.brokers.id[snapshot.log_dirs.broker[d]])
    return Problem(
        "unmet_goal",
        f"disk: {dirs} {far}, the worst {snapshot.log_dirs.path[d]} of broker {broker} "
        f"{'at' if goal == 'theta' else 'by'} {percent_above(figure[d], limit)}; no move or exchange "
        "between its dirs that was tried helps",
        resource="disk",
        proof={"goal": GOAL, "log_dirs": number, "worst": float(figure[d]), "limit": limit, "of": goal},
    )
