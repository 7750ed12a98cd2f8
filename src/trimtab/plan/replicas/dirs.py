"""Log dirs as a planner sees them, and the dir that every replica should end in.

Brokers do not share dirs, so each is balanced for itself (`trimtab.plan.replicas.dir_balance`), after it is
known which replicas come and go.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trimtab.model.load import BoolArray, FloatArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.log_dirs import counted_dirs, dir_bytes
from trimtab.model.replicas.resources import DISK
from trimtab.model.replicas.snapshot import NO_BROKER, LogDirState
from trimtab.plan.replicas.dir_balance import ARRIVING, NEGLIGIBLE, BrokerDirs, placed, violation
from trimtab.plan.replicas.moves import REPLICA_STEP, StepArrays
from trimtab.plan.replicas.problem import ReplicasProblem, excluded_partitions

ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class DirChange:
    """A replica that stays on its broker and changes its log dir; indices."""

    partition: int
    broker: int
    source: int
    target: int


@dataclass(frozen=True, eq=False)
class DirData:
    """Log dirs of a problem.

    Attributes
    ----------
    is_goal
        Whether dirs are to be balanced.
    counted, open
        Shape (dirs,): balanced against one another, and may be given replicas.
    held
        Shape (dirs,), bytes.
    capacity
        Shape (dirs,), bytes; infinite where not known.
    """

    problem: ReplicasProblem
    is_goal: bool
    counted: BoolArray
    open: BoolArray
    held: FloatArray
    capacity: FloatArray

    @cached_property
    def theta(self) -> float:
        """The most that a dir should be filled; the whole dir where nobody asks for less."""
        settings = self.problem.settings
        limited = (
            {"theta", "log_dirs"} & set(settings.goals)
            or settings.fix_offline_replicas
            or self.problem.resizes
        )
        return settings.theta[DISK] if limited else 1.0

    @cached_property
    def ceiling(self) -> FloatArray:
        """Shape (dirs,), bytes: θ, or what it holds already where that is more."""
        return np.asarray(np.maximum(self.theta * self.capacity, self.held) * ROUNDING)

    @cached_property
    def of_broker(self) -> list[list[int]]:
        """The dirs of every broker."""
        broker = self.problem.snapshot.log_dirs.broker
        found: list[list[int]] = [[] for _ in range(len(self.problem.snapshot.brokers))]
        for d, b in enumerate(broker.tolist()):
            found[b].append(d)
        return found

    @cached_property
    def movable(self) -> BoolArray:
        """Shape of `log_dir`: replicas that may change their dir: not excluded, and in one that counts."""
        snapshot = self.problem.snapshot
        where = snapshot.partitions.log_dir
        excluded = excluded_partitions(snapshot, self.problem.settings.excluded_topics)
        return np.asarray((where != NO_BROKER) & self.counted[where] & ~excluded[:, None])

    def dir_of(self, p: int, b: int) -> int:
        """The dir of a replica in the snapshot, `NO_BROKER` where that is not known."""
        parts = self.problem.snapshot.partitions
        slots = np.flatnonzero(parts.replicas[p] == b)
        return int(parts.log_dir[p, slots[0]]) if len(slots) else NO_BROKER

    def broker_dirs(self, dirs: list[int], fixed: FloatArray, total: float) -> BrokerDirs:
        """Goals of one broker's counted dirs, which are to hold `total` bytes in the end.

        Parameters
        ----------
        fixed
            Shape (counted dirs,), bytes that do not move.
        """
        settings, number = self.problem.settings, len(dirs)
        mean = total / float(self.capacity[dirs].sum())
        asked = mean >= settings.min_utilization
        epsilon = settings.epsilon[DISK]
        return BrokerDirs(
            fixed=fixed,
            capacity=self.capacity[dirs],
            ceiling=self.ceiling[dirs] / self.capacity[dirs],
            theta=np.full(number, self.theta),
            high=np.full(number, mean * (1 + epsilon) if asked else np.inf),
            low=np.full(number, mean * (1 - epsilon) if asked else 0.0),
        )


def dir_data(problem: ReplicasProblem) -> DirData | None:
    """Log dirs of a problem; None where none are declared."""
    snapshot = problem.snapshot
    if not len(snapshot.log_dirs):
        return None
    return DirData(
        problem,
        "log_dirs" in problem.settings.goals,
        counted_dirs(snapshot),
        np.asarray(snapshot.log_dirs.state == LogDirState.ONLINE),
        dir_bytes(snapshot),
        snapshot.log_dirs.capacity,
    )


@dataclass(frozen=True, eq=False)
class LogDirTargets:
    """Where replicas should end.

    Attributes
    ----------
    arriving
        Dir of each (partition, broker) that is copied, on brokers whose dirs are balanced.
    changes
        Of replicas that stay on their broker, those of the fullest brokers first.
    cut
        Says that a limit left some of these out.
    """

    arriving: dict[tuple[int, int], int]
    changes: list[DirChange]
    cut: Problem | None = None


def aims_of(data: DirData, steps: StepArrays) -> LogDirTargets:
    """The dirs that replicas should end in, after steps that bring and take some."""
    if not data.is_goal:
        return LogDirTargets({}, [])
    log_dir = data.problem.snapshot.partitions.log_dir
    size = data.problem.arrays.size
    stays = data.movable.copy()
    held = data.held.copy()
    comes: dict[int, list[int]] = {}
    copies = np.flatnonzero(steps.kind == REPLICA_STEP)
    for p, source, target in zip(
        *(column[copies].tolist() for column in (steps.partition, steps.source, steps.target)), strict=True
    ):
        comes.setdefault(target, []).append(p)
        slots = np.flatnonzero(data.problem.snapshot.partitions.replicas[p] == source)
        if len(slots) and log_dir[p, slots[0]] != NO_BROKER:
            held[log_dir[p, slots[0]]] -= size[p]
            stays[p, slots[0]] = False
    rows, columns = np.nonzero(stays)
    where = log_dir[rows, columns]
    order = np.argsort(where, kind="stable")
    rows, where = rows[order], where[order]
    first = np.searchsorted(where, np.arange(len(held) + 1))
    arriving: dict[tuple[int, int], int] = {}
    found: list[tuple[float, list[tuple[DirChange, float]]]] = []
    for b in np.unique(data.problem.snapshot.log_dirs.broker[data.counted]).tolist():
        dirs = [d for d in data.of_broker[b] if data.counted[d]]
        coming = comes.get(b, [])
        total = float(held[dirs].sum() + size[coming].sum())
        goal = data.broker_dirs(dirs, held[dirs], total)
        far = float(violation(goal, held[dirs] / goal.capacity))
        if not coming and far <= NEGLIGIBLE:
            continue
        members = [rows[first[d] : first[d + 1]] for d in dirs]
        fixed = held[dirs] - np.array([size[one].sum() for one in members])
        mine = np.concatenate([*members, np.array(coming, dtype=rows.dtype)])
        home = [np.full(len(one), at) for at, one in enumerate(members)]
        origin = np.concatenate([*home, np.full(len(coming), ARRIVING)]).astype(np.int32)
        goal = goal._replace(fixed=fixed)
        ends = placed(goal, size[mine], origin)
        arriving |= {
            (int(p), b): dirs[end] for p, was, end in zip(mine, origin, ends, strict=True) if was == ARRIVING
        }
        changes = [
            (DirChange(int(p), b, dirs[was], dirs[end]), float(size[p]))
            for p, was, end in zip(mine, origin.tolist(), ends.tolist(), strict=True)
            if was not in (ARRIVING, end)
        ]
        if changes:
            found.append((far, changes))
    return _within_budget(data, steps, arriving, found)


def _within_budget(
    data: DirData,
    steps: StepArrays,
    arriving: dict[tuple[int, int], int],
    found: list[tuple[float, list[tuple[DirChange, float]]]],
) -> LogDirTargets:
    """The changes of the brokers furthest out first, as far as bytes and moves go that copies leave."""
    settings, size = data.problem.settings, np.rint(data.problem.arrays.size)
    copied = float(size[steps.partition[steps.kind == REPLICA_STEP]].sum())
    bytes_left = np.inf if settings.max_bytes is None else settings.max_bytes - copied
    moves_left = np.inf if settings.max_moves is None else settings.max_moves - len(steps.kind)
    found.sort(key=lambda one: -one[0])
    kept: list[DirChange] = []
    for _, changes in found:
        costs = [float(size[change.partition]) for change, _ in changes]
        if sum(costs) > bytes_left or len(changes) > moves_left:
            # All of a broker's or none: half of an exchange may leave its dirs worse than they were.
            continue
        bytes_left -= sum(costs)
        moves_left -= len(changes)
        kept += [change for change, _ in changes]
    everything = sum(len(changes) for _, changes in found)
    if len(kept) == everything:
        return LogDirTargets(arriving, kept)
    limits = {"max_bytes": settings.max_bytes, "max_moves": settings.max_moves}
    told = " or ".join(f"{name} {limit}" for name, limit in limits.items())
    text = (
        f"{everything - len(kept)} of {everything} moves between log dirs were left out: they and the copies "
        f"between brokers are more than {told} allow"
    )
    return LogDirTargets(
        arriving, kept, Problem("limit_reached", text, proof={"log_dir_moves": everything, **limits})
    )
