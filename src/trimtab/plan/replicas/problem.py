"""A snapshot and its settings as the arrays that a search works on."""

from dataclasses import dataclass, replace
from fnmatch import translate
from re import compile as compile_pattern
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.model.imbalance import mean_of
from trimtab.model.level import Goals, goals_of
from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.replicas.hosts import hosts_of
from trimtab.model.replicas.resources import DISK, RESOURCES
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import NOBODY, BrokerState, LogDirState, ReplicasSnapshot
from trimtab.plan.replicas.bearers import Bearers, bearers_of
from trimtab.plan.replicas.maintenance import as_asked
from trimtab.plan.search.limits import Limits, limits_around

FOLLOWER, LEADER = 0, 1
UNBOUNDED = 1 << 20
"""A group cap that no replication factor reaches: the goal is not asked for."""


class Arrays(NamedTuple):
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
        Shape (partitions,): bytes that such a copy is deemed to be worth: more where one came lately.
    home
        Shape (partitions, widest replication factor): broker indices of the snapshot, `NOBODY` in padding.
    home_ready
        Shape of `home`: the replica there is online and in sync, so leadership may go to it at once.
    movable
        Shape (partitions,): replicas and leadership may move at all (not excluded, and there is data to copy
        from).
    pinned
        Shape (partitions,): slot whose leader cannot leave before another replica was copied, -1 for none.
    may_lead, may_receive
        Shape (brokers,): may be given leaderships or replicas.
    rack, host
        Shape (brokers,): group numbers.
    rack_cap, host_cap
        Shape (partitions,): how many of its replicas one rack or host may hold.
    leaving
        Shape of `home`: the replica must leave its broker (dead, draining, offline dir).
    host_row
        Shape (brokers,): row of `inverse` that is its host's, -1 where hosts bear no load of their own.
    """

    use: FloatArray
    inverse: FloatArray
    size: FloatArray
    price: FloatArray
    home: IntArray
    home_ready: BoolArray
    movable: BoolArray
    pinned: IntArray
    may_lead: BoolArray
    may_receive: BoolArray
    rack: IntArray
    host: IntArray
    rack_cap: IntArray
    host_cap: IntArray
    leaving: BoolArray
    host_row: IntArray


class Placement(NamedTuple):
    """Who holds and who leads every partition.

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
        """The same replicas and leaders, those that stay in the slots that they have in `home`.

        Random changes let siblings trade slots, and the lead with them; in its own slot a leader that nothing
        needs elsewhere is found at home.
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


@dataclass(frozen=True, eq=False)
class ProblemData:
    """One planning problem.

    Attributes
    ----------
    arrays
        For compiled code.
    home_lead
        Shape (partitions,): slot of `home` whose replica leads now, -1 where none does, its broker is dead or
        is to lead nothing: then whoever may lead at once does before anything is copied.
    counted
        Shape (brokers, resources): brokers and resources that θ and ε are about.
    excluded
        Shape (partitions,): its topic is excluded, or nothing is to leave its broker.
    orphaned
        Shape (partitions,): nobody online holds its data in sync, so neither leader nor copy can be made.
    racks, hosts
        How many groups the brokers in service form.
    demoted
        Shape (partitions,): its leader is to lead nothing.
    bearers
        Rows and columns that are levelled besides brokers and resources, if any.
    """

    snapshot: ReplicasSnapshot
    settings: ReplicasSettings
    arrays: Arrays
    home_lead: IntArray
    counted: BoolArray
    excluded: BoolArray
    orphaned: BoolArray
    racks: int
    hosts: int
    demoted: BoolArray
    bearers: Bearers

    @property
    def wide(self) -> Arrays:
        """`arrays` with the rows and columns of `bearers`."""
        return self.arrays._replace(use=self.bearers.use, inverse=self.bearers.inverse)

    @property
    def home(self) -> Placement:
        """The placement of the snapshot."""
        return Placement(self.arrays.home, self.home_lead)

    @property
    def biggest_first(self) -> IntArray:
        """All partitions, those of which a copy is dearest first."""
        return np.argsort(-self.arrays.price, kind="stable").astype(np.int32)

    @property
    def first_leader(self) -> IntArray:
        """Shape (partitions,): leader's broker index in the snapshot; -1 if it is dead and leads nothing."""
        leader, state = self.snapshot.partitions.leader, self.snapshot.brokers.state
        return np.where((leader >= 0) & (state[leader] == BrokerState.DEAD), -1, leader).astype(np.int32)

    @property
    def first_lead(self) -> IntArray:
        """Shape (partitions,): slot of `first_leader`, -1 for none."""
        leads = (self.arrays.home == self.first_leader[:, None]) & (self.arrays.home >= 0)
        return np.where(leads.any(axis=1), leads.argmax(axis=1), -1).astype(np.int32)

    @property
    def filling(self) -> "ProblemData":
        """The problem of levelling: where there are brokers to be filled, copies go to these alone."""
        if not self.settings.add:
            return self
        fills = self.arrays.may_receive & np.isin(self.snapshot.brokers.id, self.settings.add)
        return replace(self, arrays=self.arrays._replace(may_receive=fills))

    @property
    def fixed_mean(self) -> BoolArray:
        """Shape (resources,): every broker in service counts, so the mean is the same for all plans."""
        return np.asarray((self.counted == self.snapshot.brokers.in_service[:, None]).all(axis=0))

    def arrived(self, place: IntArray) -> BoolArray:
        """Shape of `place`: replicas on brokers that do not hold the partition in the snapshot."""
        return np.asarray((place >= 0) & ~(place[:, :, None] == self.arrays.home[:, None, :]).any(axis=2))

    def load(self, placement: Placement) -> FloatArray:
        """Load of every broker, shape (brokers, resources)."""
        return self.snapshot.broker_load(placement.place, placement.leader)

    def borne(self, placement: Placement) -> FloatArray:
        """Load of all that is levelled, shape (rows, columns) of `bearers`."""
        return self.bearers.load(self.load(placement), placement.place, placement.leader)

    def mean(self, load: FloatArray) -> FloatArray:
        """B̄ under a load, shape (resources,); NaN where no broker counts."""
        return mean_of(load, self.snapshot.brokers.capacity, self.counted)

    def limits(self, borne: FloatArray, share: float = 1.0) -> Limits:
        """The bounds around the mean under a load, with `share` of ε (1: the goal itself).

        Parameters
        ----------
        borne
            Shape (rows, columns) of `bearers`. The mean is taken from it, so it should be that of the
            placement aimed at.
        """
        brokers, resources = self.counted.shape
        bare = self.bare_limits(borne[:brokers, :resources], share)
        return self.bearers.widened(bare, borne, share)

    def bare_limits(self, load: FloatArray, share: float = 1.0) -> Limits:
        """Those of brokers and resources alone; `load` of shape (brokers, resources)."""
        goals = self.goals
        return limits_around(self.mean(load), self.counted, goals.theta, goals.epsilon * share, goals.idle)

    @property
    def goals(self) -> Goals:
        """θ and ε as they are asked of this snapshot."""
        return goals_of(self.settings, RESOURCES, self.snapshot.quality.nominal_capacity)


def problem_data(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> ProblemData:
    """Arrays of the problem; nothing of the snapshot is changed.

    Raises
    ------
    PlanError
        If a broker that the settings name is not there.
    """
    # A copy takes what lies there now, whatever load the plan is made for.
    size = np.maximum(snapshot.partitions.leader_load[:, DISK], snapshot.partitions.follower_load[:, DISK])
    snapshot, settings = as_asked(snapshot, settings)
    if "host_load" in settings.goals and hosts_of(snapshot) is None:
        # Nothing to be asked, and so nothing to be told of.
        settings = replace(settings, goals=tuple(goal for goal in settings.goals if goal != "host_load"))
    brokers, parts = snapshot.brokers, snapshot.partitions
    home = np.ascontiguousarray(parts.replicas, dtype=np.int32)
    held = home != NOBODY
    dead = brokers.state == BrokerState.DEAD
    offline_dir = _on_offline_dir(snapshot)
    online = held & ~dead[home] & ~offline_dir
    leads = held & (home == parts.leader[:, None]) & online
    home_lead = np.where(leads.any(axis=1), leads.argmax(axis=1), -1).astype(np.int32)
    ready = online & parts.in_sync
    orphaned = (home_lead < 0) & ~ready.any(axis=1)
    excluded = excluded_partitions(snapshot, settings.excluded_topics)
    if settings.to_disks and not settings.fix_offline:
        excluded[:] = True
    factor = parts.replication_factor
    rack, racks = _groups(brokers.rack, brokers.in_service)
    host, hosts = _groups(brokers.host, brokers.in_service)
    with np.errstate(divide="ignore"):
        inverse = np.where(np.isfinite(brokers.capacity), 1.0 / brokers.capacity, 0.0)
    closed = (*settings.excluded_brokers_for_leaders, *settings.demote)
    may_lead = brokers.may_lead & ~np.isin(brokers.id, closed)
    movable = ~excluded & ~orphaned
    demoted = movable & (home_lead >= 0) & np.isin(brokers.id, settings.demote)[parts.leader]
    use = np.ascontiguousarray(np.stack([parts.follower_load, parts.leader_load], axis=1), dtype=np.float64)
    bearers = bearers_of(snapshot, settings, use, np.ascontiguousarray(inverse))
    arrays = Arrays(
        use=use,
        inverse=np.ascontiguousarray(inverse),
        size=np.ascontiguousarray(size, dtype=np.float64),
        price=np.ascontiguousarray(size * _settling(snapshot, settings), dtype=np.float64),
        home=home,
        home_ready=np.ascontiguousarray(ready),
        movable=movable,
        pinned=_pinned(home_lead, ready & may_lead[home]),
        may_lead=may_lead,
        may_receive=brokers.may_receive
        & ~np.isin(brokers.id, settings.excluded_brokers_for_replicas)
        & _has_online_dir(snapshot),
        rack=rack,
        host=host,
        rack_cap=_cap("rack", settings, factor, racks),
        host_cap=_cap("host", settings, factor, hosts),
        leaving=np.ascontiguousarray(held & (~brokers.in_service[home] | offline_dir)),
        host_row=bearers.host_row,
    )
    counted = np.isfinite(brokers.capacity) & brokers.in_service[:, None]
    home_lead = np.where(demoted, -1, home_lead).astype(np.int32)
    return ProblemData(
        snapshot, settings, arrays, home_lead, counted, excluded, orphaned, racks, hosts, demoted, bearers
    )


def excluded_partitions(snapshot: ReplicasSnapshot, patterns: tuple[str, ...]) -> BoolArray:
    """Shape (partitions,): whose topic one of the names or glob patterns covers."""
    parts = snapshot.partitions
    matchers = [compile_pattern(translate(pattern)) for pattern in patterns]
    topics = np.array([any(m.match(name) for m in matchers) for name in parts.topics], dtype=np.bool_)
    return topics[parts.topic] if len(parts) else np.zeros(0, dtype=np.bool_)


def _settling(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> FloatArray:
    """Shape (partitions,): how many times its bytes a copy is worth."""
    young = snapshot.partitions.settled_seconds < settings.settle_hours * 3600
    return np.where(young, settings.settle_price, 1.0)


def _pinned(home_lead: IntArray, stands_in: BoolArray) -> IntArray:
    """Slots of leaders that are not first in their list while nobody else may lead, -1 for other partitions.

    Such a role cannot travel with its replica, and nobody can lead meanwhile: it stays until another is in
    sync.
    """
    others = stands_in.copy()
    rows = np.flatnonzero(home_lead >= 0)
    others[rows, home_lead[rows]] = False
    return np.where((home_lead > 0) & ~others.any(axis=1), home_lead, -1).astype(np.int32)


def _on_offline_dir(snapshot: ReplicasSnapshot) -> BoolArray:
    where = snapshot.partitions.log_dir
    if not len(snapshot.log_dirs):
        return np.zeros(where.shape, dtype=np.bool_)
    offline = snapshot.log_dirs.state == LogDirState.OFFLINE
    return np.asarray((where != NOBODY) & offline[where])


def _has_online_dir(snapshot: ReplicasSnapshot) -> BoolArray:
    """Brokers that declare no dirs count as having one."""
    dirs, number = snapshot.log_dirs, len(snapshot.brokers)
    declared = np.bincount(dirs.broker, minlength=number)
    online = np.bincount(dirs.broker[dirs.state == LogDirState.ONLINE], minlength=number)
    return np.asarray((declared == 0) | (online > 0))


def _groups(names: tuple[str, ...], in_service: BoolArray) -> tuple[IntArray, int]:
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    group = np.array([numbers[name] for name in names], dtype=np.int32)
    return group, len(set(group[in_service].tolist()))


def _cap(goal: str, settings: ReplicasSettings, factor: NDArray[np.int32], groups: int) -> IntArray:
    if goal not in settings.goals or groups == 0:
        return np.full(len(factor), UNBOUNDED, dtype=np.int32)
    return np.asarray(-(-factor // groups), dtype=np.int32)


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
