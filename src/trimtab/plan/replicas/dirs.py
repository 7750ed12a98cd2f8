"""Log dirs of a planning problem, and the target dir of every replica, for the fewest copied bytes.

Brokers do not share dirs, so each broker is balanced separately, once arriving and leaving replicas are
known. Arriving replicas are placed where they help, which costs nothing. Then replicas that stay move; if no
single move helps, two are exchanged. Unnecessary moves are reverted. For few replicas on few dirs all
combinations are tried.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.log_dirs import counted_dirs, dir_bytes
from trimtab.model.replicas.settings import DISK
from trimtab.model.replicas.snapshot import NO_BROKER, LogDirState
from trimtab.plan.replicas.moves import REPLICA_STEP, StepArrays
from trimtab.plan.replicas.problem import ReplicasProblem, excluded_partitions

ARRIVING = -1
"""Origin of a replica that comes from another broker."""

COMBINATIONS = 4096
"""Maximum number of placements that are all tried."""

EXCHANGED = 200
"""Replicas of a dir, the biggest, that exchanges are tried with."""

REFINED = 60
"""Replicas of a broker, the biggest, that are placed anew a few at a time."""

NEGLIGIBLE = 1e-26
"""Tolerance of a squared violation: more than rounding errors, less than the tolerance of the final
evaluation.
"""

THETA_WEIGHT = 100.0


class BrokerDirs(NamedTuple):
    """The dirs of one broker that count; all of shape (dirs,).

    Attributes
    ----------
    fixed
        Bytes of replicas that may not move.
    capacity
        Bytes.
    ceiling
        Maximum utilisation of each dir, a fraction: θ, or the current value if that is higher.
    theta, high, low
        Fractions: the limit of every dir, and the band around the mean.
    """

    fixed: FloatArray
    capacity: FloatArray
    ceiling: FloatArray
    theta: FloatArray
    high: FloatArray
    low: FloatArray


def dir_violation(dirs: BrokerDirs, usage: FloatArray) -> FloatArray:
    """Distance from the goals of the broker's dirs, 0 where all hold; the last axis of `usage` is dirs."""
    above = np.maximum(usage - dirs.theta, 0.0)
    out = np.maximum(usage - dirs.high, 0.0) + np.maximum(dirs.low - usage, 0.0)
    return np.asarray((THETA_WEIGHT * above**2 + out**2).sum(axis=-1))


def dir_placement(dirs: BrokerDirs, size: FloatArray, origin: IntArray) -> IntArray:
    """Dir of every replica, shape (replicas,), as a place among the broker's dirs.

    Parameters
    ----------
    size
        Shape (replicas,), bytes, of those that may move.
    origin
        Shape (replicas,): current dir of each, `ARRIVING` for replicas of other brokers.
    """
    start = _arrived(dirs, size, origin)
    if len(dirs.capacity) ** len(size) <= COMBINATIONS:
        return best_combination(dirs, size, origin)
    found = [_descended(dirs, size, origin, start, by_byte) for by_byte in (True, False)]
    best = min(found, key=lambda one: _rating(dirs, size, origin, one))
    return _refined(dirs, size, origin, best)


def dir_usage(dirs: BrokerDirs, size: FloatArray, context: IntArray) -> FloatArray:
    """How full the dirs are, shape (dirs,)."""
    held = dirs.fixed + np.bincount(context, weights=size, minlength=len(dirs.capacity))
    return np.asarray(held / dirs.capacity)


def best_combination(dirs: BrokerDirs, size: FloatArray, origin: IntArray) -> IntArray:
    """The best of all placements; for few replicas on few dirs."""
    number, replicas = len(dirs.capacity), len(size)
    every = np.indices((number,) * replicas).reshape(replicas, -1).T if replicas else np.zeros((1, 0), int)
    held = np.stack([((every == d) * size).sum(axis=1) for d in range(number)], axis=1)
    usage = (held + dirs.fixed) / dirs.capacity
    excess = np.maximum(usage - dirs.ceiling, 0.0).sum(axis=1)
    moved = (every != origin) & (origin != ARRIVING)
    far = dir_violation(dirs, usage)
    order = np.lexsort(
        (
            moved.sum(axis=1),
            np.where(moved, size, 0.0).sum(axis=1),
            np.where(far > NEGLIGIBLE, far, 0.0),
            excess,
        )
    )
    return np.asarray(every[order[0]], dtype=np.int32)


def _refined(dirs: BrokerDirs, size: FloatArray, origin: IntArray, context: IntArray) -> IntArray:
    """The same, with a few replicas of similar size placed optimally at a time."""
    number = len(dirs.capacity)
    window = int(np.log(COMBINATIONS) / np.log(number) + 1e-9)
    order = np.argsort(-size, kind="stable")[:REFINED]
    if window < 2:
        return context
    rating = _rating(dirs, size, origin, context)
    for stride in (1, max(1, len(order) // window)):
        for first in range(0, max(1, len(order) - window * stride + 1), max(1, window // 2)):
            if rating[1] == 0 and rating[2] == 0:
                return context
            chosen = order[first : first + window * stride : stride]
            rest = np.ones(len(size), dtype=np.bool_)
            rest[chosen] = False
            fixed = dirs.fixed + np.bincount(context[rest], weights=size[rest], minlength=number)
            tried = context.copy()
            tried[chosen] = best_combination(dirs._replace(fixed=fixed), size[chosen], origin[chosen])
            again = _rating(dirs, size, origin, tried)
            if again < rating:
                context, rating = tried, again
    return context


def _rating(
    dirs: BrokerDirs, size: FloatArray, origin: IntArray, context: IntArray
) -> tuple[float, float, float, int]:
    usage = dir_usage(dirs, size, context)
    moved = (context != origin) & (origin != ARRIVING)
    far = float(dir_violation(dirs, usage))
    excess = float(np.maximum(usage - dirs.ceiling, 0.0).sum())
    return excess, far if far > NEGLIGIBLE else 0.0, float(size[moved].sum()), int(moved.sum())


def _arrived(dirs: BrokerDirs, size: FloatArray, origin: IntArray) -> IntArray:
    """All replicas in their dirs, and arriving ones in the emptiest dir, biggest first."""
    where = origin.copy()
    stays = origin != ARRIVING
    held = dirs.fixed + np.bincount(origin[stays], weights=size[stays], minlength=len(dirs.capacity))
    for i in np.argsort(-size, kind="stable").tolist():
        if not stays[i]:
            filled = (held + size[i]) / dirs.capacity
            d = int(np.lexsort((filled, filled > dirs.ceiling))[0])
            where[i] = d
            held[d] += size[i]
    return where


def _descended(
    dirs: BrokerDirs, size: FloatArray, origin: IntArray, start: IntArray, by_byte: bool
) -> IntArray:
    """Single moves, then exchanges, until the goals hold or nothing helps; then unnecessary moves are
    reverted.

    Parameters
    ----------
    by_byte
        Whether moves are ordered by gain per byte instead of gain.
    """
    where = start.copy()
    usage = dir_usage(dirs, size, where)
    for _ in range(4 * len(size) + 16):
        if dir_violation(dirs, usage) <= NEGLIGIBLE:
            break
        chosen = _best_move(dirs, size, origin, where, usage, by_byte) or _best_exchange(
            dirs, size, where, usage
        )
        if not chosen:
            break
        for i, d in chosen:
            where[i] = d
        usage = dir_usage(dirs, size, where)
    for i in np.argsort(-size, kind="stable").tolist():
        d, home = int(where[i]), int(origin[i])
        if home in (ARRIVING, d):
            continue
        tried = usage.copy()
        tried[d] -= size[i] / dirs.capacity[d]
        tried[home] += size[i] / dirs.capacity[home]
        far = max(float(dir_violation(dirs, usage)), NEGLIGIBLE)
        if tried[home] <= dirs.ceiling[home] and float(dir_violation(dirs, tried)) <= far:
            where[i], usage = home, tried
    return where


def _best_move(
    dirs: BrokerDirs,
    size: FloatArray,
    origin: IntArray,
    context: IntArray,
    usage: FloatArray,
    by_byte: bool,
) -> list[tuple[int, int]]:
    """The move of one replica that brings the dirs nearest to their goals; empty if none does."""
    one = _each(dirs, usage)
    left = _at(dirs, context, usage[context] - size / dirs.capacity[context]) - one[context]
    best, found = 0.0, []
    for d in range(len(usage)):
        filled = usage[d] + size / dirs.capacity[d]
        gain = -(left + _at(dirs, np.full_like(context, d), filled) - one[d])
        may = (context != d) & (size > 0) & (filled <= dirs.ceiling[d]) & (gain > NEGLIGIBLE)
        if not may.any():
            continue
        paid = np.where((origin != ARRIVING) & (context == origin), size, 0.0) + 1e-3 * size.mean()
        worth = np.where(may, gain / paid if by_byte else gain, 0.0)
        i = int(np.argmax(worth))
        if worth[i] > best:
            best, found = float(worth[i]), [(i, d)]
    return found


def _best_exchange(
    dirs: BrokerDirs, size: FloatArray, context: IntArray, usage: FloatArray
) -> list[tuple[int, int]]:
    """Two replicas that change places with the greatest gain; empty if none do."""
    one = _each(dirs, usage)
    best, found = NEGLIGIBLE, []
    order = np.argsort(-size, kind="stable")
    held = [order[context[order] == d][:EXCHANGED] for d in range(len(usage))]
    for d in range(len(usage)):
        for e in range(d + 1, len(usage)):
            more = size[held[e]][None, :] - size[held[d]][:, None]
            mine, theirs = usage[d] + more / dirs.capacity[d], usage[e] - more / dirs.capacity[e]
            after = _at(dirs, np.full(more.shape, d), mine) + _at(dirs, np.full(more.shape, e), theirs)
            may: BoolArray = (mine <= np.maximum(dirs.ceiling[d], usage[d])) & (
                theirs <= np.maximum(dirs.ceiling[e], usage[e])
            )
            gain = np.where(may, one[d] + one[e] - after, 0.0)
            if gain.size and gain.max() > best:
                i, j = np.unravel_index(int(np.argmax(gain)), gain.shape)
                best = float(gain[i, j])
                found = [(int(held[d][i]), e), (int(held[e][j]), d)]
    return found


def _each(dirs: BrokerDirs, usage: FloatArray) -> FloatArray:
    return _at(dirs, np.arange(len(usage), dtype=np.int32), usage)


def _at(dirs: BrokerDirs, place: IntArray, usage: FloatArray) -> FloatArray:
    """The part of the violation by a dir with this utilisation; shape of `usage`."""
    above = np.maximum(usage - dirs.theta[place], 0.0)
    out = np.maximum(usage - dirs.high[place], 0.0) + np.maximum(dirs.low[place] - usage, 0.0)
    return np.asarray(THETA_WEIGHT * above**2 + out**2)


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
        """Limit of a dir's utilisation; the whole dir without a goal."""
        settings = self.problem.settings
        limited = (
            {"theta", "log_dirs"} & set(settings.goals)
            or settings.fix_offline_replicas
            or self.problem.resizes
        )
        return settings.theta[DISK] if limited else 1.0

    @cached_property
    def ceiling(self) -> FloatArray:
        """Shape (dirs,), bytes: θ, or the current content if that is more."""
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
        """Goals of one broker's counted dirs, whose final content is `total` bytes.

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
    """Target dirs of replicas.

    Attributes
    ----------
    arriving
        Dir of each (partition, broker) that is copied, on brokers whose dirs are balanced.
    changes
        Changes of replicas that stay on their broker, those of the fullest brokers first.
    cut
        The problem that a limit left out some of these.
    """

    arriving: dict[tuple[int, int], int]
    changes: list[DirChange]
    cut: Problem | None = None


def aims_of(data: DirData, steps: StepArrays) -> LogDirTargets:
    """The target dirs of replicas after the steps of a plan."""
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
        far = float(dir_violation(goal, held[dirs] / goal.capacity))
        if not coming and far <= NEGLIGIBLE:
            continue
        members = [rows[first[d] : first[d + 1]] for d in dirs]
        fixed = held[dirs] - np.array([size[one].sum() for one in members])
        mine = np.concatenate([*members, np.array(coming, dtype=rows.dtype)])
        home = [np.full(len(one), at) for at, one in enumerate(members)]
        origin = np.concatenate([*home, np.full(len(coming), ARRIVING)]).astype(np.int32)
        goal = goal._replace(fixed=fixed)
        ends = dir_placement(goal, size[mine], origin)
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
    """The changes of the brokers furthest outside their band first, within the bytes and moves that copies
    leave.
    """
    settings, size = data.problem.settings, np.rint(data.problem.arrays.size)
    copied = float(size[steps.partition[steps.kind == REPLICA_STEP]].sum())
    bytes_left = np.inf if settings.max_bytes is None else settings.max_bytes - copied
    moves_left = np.inf if settings.max_moves is None else settings.max_moves - len(steps.kind)
    found.sort(key=lambda one: -one[0])
    kept: list[DirChange] = []
    for _, changes in found:
        costs = [float(size[change.partition]) for change, _ in changes]
        if sum(costs) > bytes_left or len(changes) > moves_left:
            # All changes of a broker or none: half of an exchange may make its dirs worse.
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
