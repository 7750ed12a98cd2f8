"""A snapshot and its settings as the arrays that a search works on."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from trimtab.model.goals import Goals, goals_of
from trimtab.model.imbalance import mean_of
from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.replicas.hosts import hosts_of
from trimtab.model.replicas.resources import CPU, DISK, NETWORK_OUT, RESOURCES
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import NO_BROKER, ReplicaBrokerState, ReplicasSnapshot
from trimtab.model.replicas.topics import TopicGoals, matched, topic_goals
from trimtab.plan.replicas.arrays import (
    UNBOUNDED,
    ReplicasArrays,
    group_cap,
    has_online_dir,
    numbered_groups,
    on_offline_dirs,
    pinned_slots,
    raised_caps,
    settling_price,
)
from trimtab.plan.replicas.load_carriers import LoadCarriers, load_carriers
from trimtab.plan.replicas.maintenance import with_overrides
from trimtab.plan.replicas.placement import Placement
from trimtab.plan.replicas.shares import MinimumShares
from trimtab.plan.search.limits import UsageLimits, limits_around

OF_LEADERS = (CPU, NETWORK_OUT)
"""Resources of which a demoted broker need not use as much as the others."""


@dataclass(frozen=True, eq=False)
class ReplicasProblem:
    """One planning problem.

    Attributes
    ----------
    arrays
        For compiled code.
    initial_leader
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
    needed
        Shape (partitions,): a replica must leave its broker, or the partition needs another leader, excluded
        or not. Where a plan is scoped, `arrays.movable` holds only such partitions.
    free
        Shape (partitions,): balancing may move it, as its topic is not excluded and there is data to copy.
    carriers
        Rows and columns that are balanced besides brokers and resources, if any.
    target_factor
        Where another replication factor is asked for (`trimtab.plan.replicas.vacancies`), shape
        (partitions,): the number of replicas that each is to have, 0 where nothing is asked; else empty.
    vacancies
        How many of the last brokers are none: replicas wait there to be added, or end there when dropped.
    topics
        Those that goals per topic are about; None where no such goal is asked for.
    """

    snapshot: ReplicasSnapshot
    settings: ReplicasSettings
    arrays: ReplicasArrays
    initial_leader: IntArray
    counted: BoolArray
    excluded: BoolArray
    orphaned: BoolArray
    racks: int
    hosts: int
    demoted: BoolArray
    needed: BoolArray
    free: BoolArray
    carriers: LoadCarriers
    target_factor: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    vacancies: int = 0
    topics: TopicGoals | None = None

    @property
    def brokers(self) -> int:
        """The number of brokers that there are, vacancies left out."""
        return len(self.snapshot.brokers) - self.vacancies

    @property
    def resizes(self) -> bool:
        """Whether the plan is for another replication factor, and for nothing else."""
        return len(self.target_factor) > 0

    @property
    def scoped(self) -> bool:
        """Whether the plan makes only the moves that a request needs."""
        return self.settings.is_scoped and not self.resizes

    @cached_property
    def relieved(self) -> BoolArray:
        """Shape (brokers, resources): demoted brokers, and the resources that mostly leaders use."""
        asked = np.zeros_like(self.counted)
        asked[np.isin(self.snapshot.brokers.id, self.settings.demote)] = [
            r in OF_LEADERS for r in range(len(RESOURCES))
        ]
        return asked

    @cached_property
    def first_usage(self) -> FloatArray:
        """Utilisations under the snapshot, shape (brokers, resources)."""
        return self.load(Placement(self.arrays.initial, self.first_lead)) * self.arrays.inverse

    @property
    def offline(self) -> BoolArray:
        """Shape of `home`: the replica lies in a log dir that is offline."""
        return on_offline_dirs(self.snapshot)

    @property
    def wide(self) -> ReplicasArrays:
        """`arrays` with the rows and columns of `bearers`."""
        return self.arrays._replace(use=self.carriers.use, inverse=self.carriers.inverse)

    @property
    def initial_placement(self) -> Placement:
        """The placement of the snapshot."""
        return Placement(self.arrays.initial, self.initial_leader)

    @property
    def biggest_first(self) -> IntArray:
        """All partitions, those of which a copy is dearest first; partitions that only change leader last."""
        only_demoted = self.demoted & ~self.arrays.leaving.any(axis=1)
        return np.lexsort((-self.arrays.price, only_demoted)).astype(np.int32)

    @property
    def first_leader(self) -> IntArray:
        """Shape (partitions,): leader's broker index in the snapshot; -1 if it is dead and leads nothing."""
        leader, state = self.snapshot.partitions.leader, self.snapshot.brokers.state
        return np.where((leader >= 0) & (state[leader] == ReplicaBrokerState.DEAD), -1, leader).astype(
            np.int32
        )

    @property
    def first_lead(self) -> IntArray:
        """Shape (partitions,): slot of `first_leader`, -1 for none."""
        leads = (self.arrays.initial == self.first_leader[:, None]) & (self.arrays.initial >= 0)
        return np.where(leads.any(axis=1), leads.argmax(axis=1), -1).astype(np.int32)

    @property
    def filling(self) -> "ReplicasProblem":
        """The problem of balancing: where there are brokers to be filled, copies go to these alone."""
        if not self.settings.add:
            return self
        fills = self.arrays.may_receive & np.isin(self.snapshot.brokers.id, self.settings.add)
        return replace(self, arrays=self.arrays._replace(may_receive=fills))

    @property
    def fixed_mean(self) -> BoolArray:
        """Shape (resources,): every broker in service counts, so the mean is the same for all plans."""
        every = (self.counted == self.snapshot.brokers.in_service[:, None]).all(axis=0)
        return np.asarray(every & ~self.relieved.any(axis=0))

    def arrived(self, place: IntArray) -> BoolArray:
        """Shape of `place`: replicas on brokers that do not hold the partition in the snapshot."""
        return np.asarray((place >= 0) & ~(place[:, :, None] == self.arrays.initial[:, None, :]).any(axis=2))

    def copies(self, place: IntArray, of: IntArray | slice = slice(None)) -> IntArray:
        """Shape (places,): copies that the way to each place takes, of all partitions or of those in `of`.

        A leader that is not first in its list, and for which nobody can stand in, goes after another replica
        has made room for its successor. That is one copy more where this replica comes back.
        """
        home, pinned = self.arrays.initial[of], self.arrays.pinned[of]
        same = place[:, :, None] == home[:, None, :]
        arrived = (place >= 0) & ~same.any(axis=2)
        gone = (home >= 0) & ~same.any(axis=1)
        alone = (pinned >= 0) & gone[np.arange(len(place)), pinned] & (gone.sum(axis=1) == 1)
        return np.asarray(arrived.sum(axis=1) + alone)

    def load(self, placement: Placement) -> FloatArray:
        """Load of every broker, shape (brokers, resources)."""
        return self.snapshot.broker_load(placement.place, placement.leader)

    def carried_load(self, placement: Placement) -> FloatArray:
        """Load of all that is balanced, shape (rows, columns) of `bearers`."""
        return self.carriers.load(self.load(placement), placement.place, placement.leader)

    def usage(self, placement: Placement) -> FloatArray:
        """Utilisation of all that is balanced, shape (rows, columns) of `bearers`."""
        return np.asarray(self.carried_load(placement) * self.carriers.inverse)

    def changed(self, placement: Placement) -> BoolArray:
        """Shape (partitions,): held or led otherwise than in the snapshot."""
        moved = (placement.place != self.arrays.initial).any(axis=1)
        return np.asarray(moved | (placement.lead != self.initial_leader))

    def mean(self, load: FloatArray) -> FloatArray:
        """B̄ under a load, shape (resources,), without `relieved`; NaN where no broker counts."""
        return mean_of(load, self.snapshot.brokers.capacity, self.counted & ~self.relieved)

    def limits(self, carried: FloatArray, share: float = 1.0) -> UsageLimits:
        """The bounds around the mean under a load, with `share` of ε (1: the goal itself).

        Parameters
        ----------
        carried
            Shape (rows, columns) of `bearers`. The mean is taken from it, so it should be that of the
            placement aimed at.
        """
        brokers, resources = self.counted.shape
        bare = self.bare_limits(carried[:brokers, :resources], share)
        return self.carriers.widened(bare, carried, share, self.shares.stretch)

    def bare_limits(self, load: FloatArray, share: float = 1.0, *, stretched: bool = True) -> UsageLimits:
        """Those of brokers and resources alone; `load` of shape (brokers, resources).

        Parameters
        ----------
        stretched
            Whether ε reaches further where rules keep brokers from it.
        """
        goals = self.goals
        mean, width = self.mean(load), load.shape[1]
        most, least = self.shares.stretch
        stretch = (most[:, :width], least[:, :width]) if stretched else None
        found = limits_around(mean, self.counted, goals.theta, goals.epsilon, goals.idle, stretch, share)
        # A broker that leads nothing cannot carry its share of what leaders carry.
        found.low[self.relieved] = -np.inf
        found.high[self.relieved] = found.theta[self.relieved]
        if not self.scoped:
            return found
        # A broker that is above θ already need not come down, and must not rise.
        theta = np.where(np.isfinite(found.theta), np.maximum(found.theta, self.first_usage), np.inf)
        return found._replace(theta=theta, high=np.where(np.isfinite(found.high), theta, np.inf))

    @cached_property
    def shares(self) -> MinimumShares:
        """What rules on racks, hosts and replicas make brokers carry."""
        inverse, service = self.carriers.inverse[: len(self.counted)], self.snapshot.brokers.in_service
        known = np.asarray((inverse[service] > 0).all(axis=0))
        if self.resizes or not service.any():
            known[:] = False
        # Racks and hosts are not asked of excluded topics.
        rack_cap, host_cap = (
            np.where(self.excluded, UNBOUNDED, cap).astype(np.int32)
            for cap in (self.arrays.rack_cap, self.arrays.host_cap)
        )
        # A request that needs no move of a partition may still move it, to keep its brokers below θ.
        arrays = self.wide._replace(
            inverse=inverse, rack_cap=rack_cap, host_cap=host_cap, movable=self.arrays.movable | self.free
        )
        led = self.arrays.movable | (self.first_lead >= 0)
        return MinimumShares(arrays, service, self.first_lead, led, known)

    @property
    def goals(self) -> Goals:
        """θ and ε as they are asked of this snapshot."""
        return goals_of(self.settings, RESOURCES, self.snapshot.quality.nominal_capacity)


def problem_data(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> ReplicasProblem:
    """Arrays of the problem; nothing of the snapshot is changed.

    Raises
    ------
    PlanError
        If a broker that the settings name is not there.
    """
    # A copy takes what lies there now, whatever load the plan is made for.
    size = np.maximum(snapshot.partitions.leader_load[:, DISK], snapshot.partitions.follower_load[:, DISK])
    snapshot, settings = with_overrides(snapshot, settings)
    if "host_load" in settings.goals and hosts_of(snapshot) is None:
        # Nothing to be asked, and so nothing to be told of.
        settings = replace(settings, goals=tuple(goal for goal in settings.goals if goal != "host_load"))
    brokers, parts = snapshot.brokers, snapshot.partitions
    home = np.ascontiguousarray(parts.replicas, dtype=np.int32)
    held = home != NO_BROKER
    dead = brokers.state == ReplicaBrokerState.DEAD
    offline_dir = on_offline_dirs(snapshot)
    online = held & ~dead[home] & ~offline_dir
    leads = held & (home == parts.leader[:, None]) & online
    home_lead = np.where(leads.any(axis=1), leads.argmax(axis=1), -1).astype(np.int32)
    ready = online & parts.in_sync
    orphaned = (home_lead < 0) & ~ready.any(axis=1)
    excluded = excluded_partitions(snapshot, settings.excluded_topics)
    evacuates = settings.evacuate_excluded_topics
    if settings.intra_broker_only and not settings.fix_offline_replicas:
        excluded[:] = True
        evacuates = False
    factor = parts.replication_factor
    rack, racks = numbered_groups(brokers.rack, brokers.in_service)
    host, hosts = numbered_groups(brokers.host, brokers.in_service)
    with np.errstate(divide="ignore"):
        inverse = np.where(np.isfinite(brokers.capacity), 1.0 / brokers.capacity, 0.0)
    closed = (*settings.excluded_brokers_for_leaders, *settings.demote)
    may_lead = brokers.may_lead & ~np.isin(brokers.id, closed)
    leaving = held & (~brokers.in_service[home] | offline_dir)
    leaderless = (home_lead < 0) & held.any(axis=1)
    if settings.demotes_only:
        leaving[:], leaderless[:] = False, False
    relieved = (home_lead >= 0) & np.isin(brokers.id, settings.demote)[parts.leader]
    needed = leaving.any(axis=1) | leaderless | relieved
    scoped = settings.is_scoped and not settings.replication_factor
    free = ~excluded & ~orphaned
    # Where nobody leads and nobody is asked to, there is nothing to copy from.
    free &= (home_lead >= 0) | needed
    # A leader of an excluded topic is chosen among its replicas; none is copied for that.
    led_in_place = ~leaderless | leaving.any(axis=1) | (ready & may_lead[home]).any(axis=1)
    movable = np.where(excluded, evacuates & needed & led_in_place, needed | (not scoped)) & ~orphaned
    demoted = movable & relieved
    caps = {}
    for name, group, groups in (("rack", rack, racks), ("host", host, hosts)):
        cap = group_cap(name, settings, factor, groups)
        # What stays is spread as before where nobody asks for more.
        caps[name] = np.where(excluded | scoped, raised_caps(cap, group, home, held & ~leaving), cap)
    use = np.ascontiguousarray(np.stack([parts.follower_load, parts.leader_load], axis=1), dtype=np.float64)
    bearers = load_carriers(snapshot, settings, use, np.ascontiguousarray(inverse))
    arrays = ReplicasArrays(
        use=use,
        inverse=np.ascontiguousarray(inverse),
        size=np.ascontiguousarray(size, dtype=np.float64),
        price=np.ascontiguousarray(size * settling_price(snapshot, settings), dtype=np.float64),
        initial=home,
        initial_in_sync=np.ascontiguousarray(ready),
        movable=movable,
        pinned=pinned_slots(home_lead, ready & may_lead[home]),
        may_lead=may_lead,
        may_receive=brokers.may_receive
        & ~np.isin(brokers.id, settings.excluded_brokers_for_replicas)
        & has_online_dir(snapshot),
        rack=rack,
        host=host,
        rack_cap=np.ascontiguousarray(caps["rack"], dtype=np.int32),
        host_cap=np.ascontiguousarray(caps["host"], dtype=np.int32),
        leaving=np.ascontiguousarray(leaving),
        staying=np.ascontiguousarray(held & excluded[:, None] & ~leaving),
        host_row=bearers.host_row,
    )
    counted = np.isfinite(brokers.capacity) & brokers.in_service[:, None]
    home_lead = np.where(demoted, -1, home_lead).astype(np.int32)
    return ReplicasProblem(
        snapshot,
        settings,
        arrays,
        home_lead,
        counted,
        excluded,
        orphaned,
        racks,
        hosts,
        demoted,
        needed,
        free,
        bearers,
        topics=topic_goals(snapshot, settings),
    )


def excluded_partitions(snapshot: ReplicasSnapshot, patterns: tuple[str, ...]) -> BoolArray:
    """Shape (partitions,): whose topic one of the names or glob patterns covers."""
    parts = snapshot.partitions
    topics = matched(parts.topics, patterns)
    return topics[parts.topic] if len(parts) else np.zeros(0, dtype=np.bool_)
