"""The arrays of a search: the placement that it changes, and its constants from a snapshot and settings."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import NO_BROKER, LogDirState, ReplicasSnapshot


class Placement(NamedTuple):
    """The replicas and the leader of every partition.

    Attributes
    ----------
    place
        Shape (partitions, width): broker index of each slot, -1 in padding.
    lead
        Shape (partitions,): slot that leads, -1 for none.
    """

    place: IntArray
    lead: IntArray

    @property
    def leader(self) -> IntArray:
        """Shape (partitions,): broker index, -1 for none."""
        rows = np.arange(len(self.place))
        return np.where(self.lead >= 0, self.place[rows, np.maximum(self.lead, 0)], -1).astype(np.int32)

    def in_slots_of(self, home: IntArray) -> "Placement":
        """The same replicas and leaders; replicas that stay keep their slots of `initial`.

        Random changes exchange slots of a partition and their leadership. In its initial slot an unchanged
        leader is recognised as such.
        """
        place, lead = self.place.copy(), self.lead.copy()
        for slot in range(place.shape[1]):
            stays = (place == home[:, slot : slot + 1]) & (home[:, slot : slot + 1] >= 0)
            rows = np.flatnonzero(stays.any(axis=1) & ~stays[:, slot])
            other = stays[rows].argmax(axis=1)
            place[rows, slot], place[rows, other] = place[rows, other], place[rows, slot]
            was = lead[rows]
            lead[rows] = np.where(was == slot, other, np.where(was == other, slot, was))
        return Placement(place, lead)


def crowding(place: IntArray, group: IntArray, cap: IntArray) -> BoolArray:
    """Shape (partitions,): whether some group holds more of the partition's replicas than the cap.

    Parameters
    ----------
    place
        Shape (partitions, width): broker indices, -1 in padding.
    group
        Shape (brokers,): rack or host number.
    cap
        Shape (partitions,).
    """
    of = np.where(place >= 0, group[place], -1)
    over = np.zeros(len(place), dtype=np.bool_)
    for column in range(of.shape[1]):
        same = (of == of[:, column : column + 1]).sum(axis=1)
        over |= (of[:, column] >= 0) & (same > cap)
    return over


UNBOUNDED = 1 << 20
"""A group cap above every replication factor: the goal is not requested."""


class ReplicasArrays(NamedTuple):
    """The constants of a search; a named tuple, because compiled code takes it as it is.

    Attributes
    ----------
    use
        Shape (partitions, 2, resources): load of the role follower (0) and leader (1), in `UNITS`.
    inverse
        Shape (brokers, resources): 1 / capacity, 0 where not limited.
    size
        Shape (partitions,): bytes that a copy of the partition takes.
    price
        Shape (partitions,): cost of a copy in bytes; higher for a recently moved partition.
    initial
        Shape (partitions, widest replication factor): broker indices of the snapshot, `NO_BROKER` in padding.
    initial_in_sync
        Shape of `home`: the replica there is online and in sync, so it may become leader immediately.
    movable
        Shape (partitions,): replicas and leadership may move at all (not excluded, and there is data to copy
        from).
    pinned
        Shape (partitions,): slot whose leader cannot leave before another replica was copied, -1 for none.
    may_lead, may_receive
        Shape (brokers,): may receive leaderships or replicas.
    rack, host
        Shape (brokers,): group numbers.
    rack_cap, host_cap
        Shape (partitions,): how many of its replicas one rack or host may hold.
    leaving
        Shape of `home`: the replica must leave its broker (dead, draining, offline dir).
    staying
        Shape of `home`: the replica stays on its broker, since its topic is excluded and its broker serves.
    host_row
        Shape (brokers,): row of its host in `inverse`, -1 if hosts have no load of their own.
    """

    use: FloatArray
    inverse: FloatArray
    size: FloatArray
    price: FloatArray
    initial: IntArray
    initial_in_sync: BoolArray
    movable: BoolArray
    pinned: IntArray
    may_lead: BoolArray
    may_receive: BoolArray
    rack: IntArray
    host: IntArray
    rack_cap: IntArray
    host_cap: IntArray
    leaving: BoolArray
    staying: BoolArray
    host_row: IntArray


def settling_price(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> FloatArray:
    """Shape (partitions,): cost of a copy as a multiple of its bytes."""
    young = snapshot.partitions.settled_seconds < settings.recent_move_hours * 3600
    return np.where(young, settings.recent_move_cost_factor, 1.0)


def pinned_slots(home_lead: IntArray, stands_in: BoolArray) -> IntArray:
    """Slots of leaders that are not first in their list while no other replica may lead, -1 for other
    partitions.

    Such a role cannot move with its replica, and no other replica can lead meanwhile. It stays until another
    is in sync.
    """
    others = stands_in.copy()
    rows = np.flatnonzero(home_lead >= 0)
    others[rows, home_lead[rows]] = False
    return np.where((home_lead > 0) & ~others.any(axis=1), home_lead, -1).astype(np.int32)


def on_offline_dirs(snapshot: ReplicasSnapshot) -> BoolArray:
    """Shape (partitions, width): replicas in an offline log dir."""
    where = snapshot.partitions.log_dir
    if not len(snapshot.log_dirs):
        return np.zeros(where.shape, dtype=np.bool_)
    offline = snapshot.log_dirs.state == LogDirState.OFFLINE
    return np.asarray((where != NO_BROKER) & offline[where])


def has_online_dir(snapshot: ReplicasSnapshot) -> BoolArray:
    """Shape (brokers,): some log dir is online; brokers that declare no dirs count as having one."""
    dirs, number = snapshot.log_dirs, len(snapshot.brokers)
    declared = np.bincount(dirs.broker, minlength=number)
    online = np.bincount(dirs.broker[dirs.state == LogDirState.ONLINE], minlength=number)
    return np.asarray((declared == 0) | (online > 0))


def numbered_groups(names: tuple[str, ...], in_service: BoolArray) -> tuple[IntArray, int]:
    """Shape (brokers,): number of each broker's group, by name; and how many those in service form."""
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    group = np.array([numbers[name] for name in names], dtype=np.int32)
    return group, len(set(group[in_service].tolist()))


def group_cap(goal: str, settings: ReplicasSettings, factor: NDArray[np.int32], groups: int) -> IntArray:
    """Shape (partitions,): maximum number of replicas per rack or host, if that goal is requested."""
    if goal not in settings.goals or groups == 0:
        return np.full(len(factor), UNBOUNDED, dtype=np.int32)
    return np.asarray(-(-factor // groups), dtype=np.int32)


def raised_caps(cap: IntArray, group: IntArray, home: IntArray, stays: BoolArray) -> IntArray:
    """Shape (partitions,): the caps, or the largest number of replicas in `stays` in one group if that is
    higher.
    """
    of = np.where(stays, group[home], -1)
    most = np.zeros(len(home), dtype=np.int32)
    for column in range(of.shape[1]):
        same = (of == of[:, column : column + 1]).sum(axis=1)
        most = np.maximum(most, np.where(of[:, column] >= 0, same, 0)).astype(np.int32)
    return np.maximum(cap, most)
