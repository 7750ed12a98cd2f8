"""Log dirs of brokers, and those of one broker held against one another: how full, how far from their mean.

The dirs that count are online, of known capacity, on a broker in service that has at least two of them. A
cordoned dir, which takes nothing, and a failed one are left out.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.model.goals import IntraBrokerBalance, exceeds
from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.replicas.settings import DISK

NO_BROKER = -1
"""Index that stands for no broker (an offline leader, padding) or no log dir (unknown)."""


class LogDirState(IntEnum):
    """The uses that a log dir is open to; the names in files are lower case."""

    ONLINE = 0
    OFFLINE = 1
    CORDONED = 2


@dataclass(frozen=True, eq=False)
class LogDirs:
    """All declared log dirs of all brokers, ordered by broker, then as declared.

    Attributes
    ----------
    broker
        Shape (dirs,), index into `Brokers`.
    path
        Length (dirs,).
    state
        Shape (dirs,), `LogDirState`.
    capacity
        Shape (dirs,), bytes; infinite where unknown.
    """

    broker: IntArray
    path: tuple[str, ...]
    state: NDArray[np.int8]
    capacity: FloatArray

    def __len__(self) -> int:
        return len(self.path)


@dataclass(frozen=True, slots=True)
class DirMeasures:
    """Of all log dirs that count: the highest utilisation, and the furthest from its broker's mean."""

    peak_usage: float
    worst_deviation: float


@dataclass(frozen=True, eq=False)
class DirBalance:
    """How evenly the log dirs of each broker are filled.

    Attributes
    ----------
    counted
        Shape (dirs,).
    usage
        Shape (dirs,): bytes over capacity, 0 where not counted.
    mean
        Shape (dirs,): bytes over capacity of all counted dirs of the same broker, 0 where not counted.
    deviation
        Shape (dirs,): |usage - mean| / mean, 0 where nothing is held.
    """

    counted: BoolArray
    usage: FloatArray
    mean: FloatArray
    deviation: FloatArray

    def violations_by_row(self, theta: float, epsilon: float, idle: float) -> tuple[BoolArray, BoolArray]:
        """Dirs above θ, and dirs further than ε from the mean of a broker that uses its disks at all."""
        above = self.counted & exceeds(self.usage, theta)
        return above, self.counted & exceeds(self.deviation, epsilon) & ~(self.mean < idle)

    def measures(self, idle: float) -> DirMeasures | None:
        """The worst of all dirs; deviations only where the disks are used; None where no dir counts."""
        if not self.counted.any():
            return None
        busy = self.counted & ~(self.mean < idle)
        worst = float(self.deviation[busy].max()) if busy.any() else 0.0
        return DirMeasures(float(self.usage[self.counted].max()), worst)


def counted_dirs(snapshot: Any) -> BoolArray:
    """Shape (dirs,): those that are held against others of their broker, in a `ReplicasSnapshot`."""
    dirs, brokers = snapshot.log_dirs, snapshot.brokers
    if not len(dirs):
        return np.zeros(0, dtype=np.bool_)
    fit = (dirs.state == LogDirState.ONLINE) & np.isfinite(dirs.capacity) & brokers.in_service[dirs.broker]
    several = np.bincount(dirs.broker[fit], minlength=len(brokers)) > 1
    return np.asarray(fit & several[dirs.broker])


def dir_bytes(snapshot: Any) -> FloatArray:
    """Shape (dirs,): bytes that each log dir holds, as far as the snapshot says where replicas are."""
    parts = snapshot.partitions
    size = np.maximum(parts.leader_load[:, DISK], parts.follower_load[:, DISK])
    known = parts.log_dir != NO_BROKER
    weights = np.broadcast_to(size[:, None], known.shape)[known]
    held = np.bincount(parts.log_dir[known], weights=weights, minlength=len(snapshot.log_dirs))
    return np.asarray(held, dtype=np.float64)


def dir_balance(snapshot: Any, held: FloatArray | None = None) -> DirBalance:
    """The balance of the log dirs of a snapshot.

    Parameters
    ----------
    held
        Shape (dirs,), bytes; by default what the snapshot's own placement puts there.
    """
    dirs, counted = snapshot.log_dirs, counted_dirs(snapshot)
    held = dir_bytes(snapshot) if held is None else held
    brokers = len(snapshot.brokers)
    bytes_held = np.where(counted, held, 0.0)
    capacity = np.where(counted, dirs.capacity, 0.0)
    total = np.bincount(dirs.broker, weights=bytes_held, minlength=brokers)
    room = np.bincount(dirs.broker, weights=capacity, minlength=brokers)
    mean = np.where(counted, (total / np.where(room > 0, room, 1.0))[dirs.broker], 0.0)
    usage = bytes_held / np.where(counted, capacity, 1.0)
    deviation = np.abs(usage - mean) / np.where(mean > 0, mean, 1.0)
    return DirBalance(counted, usage, mean, deviation)


def dir_goal_status(snapshot: Any, settings: Any) -> IntraBrokerBalance | None:
    """The log dirs of a snapshot held against the goals of a planner; None where none count."""
    balance = dir_balance(snapshot)
    measured = balance.measures(settings.min_utilization)
    if measured is None:
        return None
    theta, epsilon = settings.theta[DISK], settings.epsilon[DISK]
    above, off = balance.violations_by_row(theta, epsilon, settings.min_utilization)
    asked = "log_dirs" in settings.goals
    worst = int(np.argmax(np.where(balance.counted, balance.deviation, -1.0)))
    return IntraBrokerBalance(
        name="log dirs",
        number=int(balance.counted.sum()),
        violation_count=int((above | off).sum()) if asked else 0,
        peak_usage=measured.peak_usage,
        worst_deviation=measured.worst_deviation,
        part=snapshot.log_dirs.path[worst],
        broker=int(snapshot.brokers.id[snapshot.log_dirs.broker[worst]]),
    )
