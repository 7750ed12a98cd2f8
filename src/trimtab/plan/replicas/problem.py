"""A snapshot and its settings as the problem that a search works on.

The problem contains the carriers of load (brokers, their hosts, and the numbers of replicas and leaders), the
drained, demoted and filled brokers, and the movable partitions.
"""

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

import numpy as np

from trimtab.model.errors import PlanError, require_known_names
from trimtab.model.goals import Goals, goals_of
from trimtab.model.load import BoolArray, FloatArray, IntArray, mean_of
from trimtab.model.replicas.secondary_goals import (
    Hosts,
    broker_numbers,
    host_goals,
    host_theta,
    hosts_of,
    hosts_with_goal,
    number_capacity,
    number_goals,
    number_loads,
    requested_counts,
)
from trimtab.model.replicas.settings import CPU, DISK, NETWORK_OUT, RESOURCES, ReplicasSettings
from trimtab.model.replicas.snapshot import NO_BROKER, ReplicaBrokerState, ReplicasSnapshot, with_load
from trimtab.model.replicas.topics import TopicGoals, matched, topic_goals
from trimtab.plan.replicas.arrays import (
    UNBOUNDED,
    Placement,
    ReplicasArrays,
    group_cap,
    has_online_dir,
    numbered_groups,
    on_offline_dirs,
    pinned_slots,
    raised_caps,
    settling_price,
)
from trimtab.plan.replicas.shares import MinimumShares
from trimtab.plan.search.limits import TOLERANCE, EpsilonScale, UsageLimits, limits_around

SCOPED_GOALS = ("rack", "host", "theta")
"""The goals that remain of a plan which makes only the moves that a request needs."""


def with_overrides(
    snapshot: ReplicasSnapshot, settings: ReplicasSettings
) -> tuple[ReplicasSnapshot, ReplicasSettings]:
    """The snapshot with the requested states and load, and the settings with the remaining goals.

    Raises
    ------
    PlanError
        If a broker or a host is not in the snapshot, or a broker to be filled is dead.
    """
    brokers, at = snapshot.brokers, snapshot.reference.taken_at
    _reject_unknown(snapshot, settings)
    state = dict(zip(brokers.id.tolist(), brokers.state.tolist(), strict=True))
    for name in ("drain", "demote", "add"):
        for broker in getattr(settings, name):
            remedy = "start it, and plan from a snapshot taken since" if name == "add" else "correct it"
            if broker not in state:
                there = ", ".join(map(str, state))
                raise PlanError(
                    f"{name}: broker {broker} is not in the snapshot of {at}, which knows {there}; {remedy}"
                )
            if name == "add" and state[broker] == ReplicaBrokerState.DEAD:
                raise PlanError(f"add: broker {broker} is dead in the snapshot of {at}; {remedy}")
    for host in settings.host_capacity:
        if host not in brokers.host:
            there = ", ".join(sorted(set(brokers.host)))
            raise PlanError(
                f"host_capacity: no broker of the snapshot of {at} is on host {host}, but on {there}; "
                "correct it"
            )
    for pattern in settings.min_leaders_per_topic:
        if not matched(snapshot.partitions.topics, (pattern,)).any():
            raise PlanError(
                f"min_leaders_per_topic: no topic of the snapshot of {at} is {pattern}; correct it"
            )
    if settings.is_scoped:
        asked = settings.fix_offline_replicas or not settings.intra_broker_only
        kept = [goal for goal in settings.goals if asked and goal in SCOPED_GOALS]
        settings = replace(settings, goals=(*kept, *(("log_dirs",) if settings.intra_broker_only else ())))
    return with_load(snapshot.with_overrides(asdict(settings)), settings.load), settings


def _reject_unknown(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> None:
    """Reject names that the snapshot does not have: a mistyped exclusion would have no effect."""
    topics, brokers = snapshot.partitions.topics, snapshot.brokers.id.tolist()
    at = snapshot.reference.taken_at
    for name in ("excluded_topics", "balanced_topics"):
        require_known_names(f"replicas.{name}", getattr(settings, name), "topic", topics, at)
    for name in ("excluded_brokers_for_leaders", "excluded_brokers_for_replicas"):
        require_known_names(f"replicas.{name}", getattr(settings, name), "broker", brokers, at)


@dataclass(frozen=True, eq=False)
class LoadCarriers:
    """Rows and columns of a search.

    Attributes
    ----------
    hosts
        None if they have no load of their own, or `host_load` is not requested.
    use
        Shape (partitions, 2, columns): load of follower and leader; resources first, then numbers.
    inverse
        Shape (rows, columns): 1 / capacity, 0 where not limited; brokers first, then hosts.
    host_row
        Shape (brokers,): row of its host, -1 for none.
    """

    snapshot: ReplicasSnapshot
    settings: ReplicasSettings
    hosts: Hosts | None
    use: FloatArray
    inverse: FloatArray
    host_row: IntArray

    @property
    def plain(self) -> bool:
        """Whether rows are brokers only and columns are resources only."""
        return self.hosts is None and self.use.shape[2] == len(RESOURCES)

    @cached_property
    def host_goals(self) -> Goals:
        """θ and ε of the hosts."""
        return host_goals(self.snapshot, self.settings)

    @cached_property
    def host_theta(self) -> FloatArray:
        """θ of each host, shape (hosts, resources)."""
        assert self.hosts is not None
        return host_theta(self.hosts, self.host_goals)

    def load(self, load: FloatArray, replicas: IntArray, leader: IntArray) -> FloatArray:
        """Shape (rows, columns): load of every row.

        Parameters
        ----------
        load
            Shape (brokers, resources).
        replicas, leader
            Broker indices: the placement that it is the load of.
        """
        if self.plain:
            return load
        if self.use.shape[2] > len(RESOURCES):
            load = np.hstack([load, broker_numbers(self.snapshot, self.settings, replicas, leader)])
        return load if self.hosts is None else np.vstack([load, self.hosts.load(load)])

    def widened(
        self, bare: UsageLimits, carried: FloatArray, share: float, stretch: EpsilonScale
    ) -> UsageLimits:
        """The bounds of all rows and columns.

        Parameters
        ----------
        bare
            Those of brokers and resources.
        carried
            Shape (rows, columns): the load from which the mean is computed.
        share
            Of ε.
        stretch
            Shape (brokers, columns).
        """
        if self.plain:
            return bare
        brokers, width = bare.high.shape
        if self.use.shape[2] > width:
            numbers = stretch[0][:, width:], stretch[1][:, width:]
            bare = _joined(bare, self._of_numbers(carried[:brokers, width:], share, numbers), axis=1)
        if self.hosts is None:
            return bare
        mean = mean_of(carried[brokers:, :width], self.hosts.capacity, self.hosts.counted)
        asked = self.host_goals
        counted, reach = self.hosts.counted, self._of_hosts(stretch, width)
        rows = limits_around(mean, counted, asked.theta, asked.epsilon, asked.idle, reach, share)
        top = np.where(np.isfinite(rows.theta), self.host_theta * TOLERANCE, np.inf)
        rows = rows._replace(
            theta=top, high=np.where(rows.theta > rows.high, rows.high, np.minimum(rows.high, top))
        )
        blank = np.zeros((len(self.hosts), bare.high.shape[1] - width))
        beside = UsageLimits(blank + np.inf, blank - np.inf, blank + np.inf, blank, blank)
        return _joined(bare, _joined(rows, beside, axis=1), axis=0)

    def _of_hosts(self, stretch: EpsilonScale, width: int) -> EpsilonScale:
        """That of hosts: as far as any broker there."""
        assert self.hosts is not None
        most, least = (np.ones((len(self.hosts), width)) for _ in range(2))
        on = self.hosts.of >= 0
        np.maximum.at(most, self.hosts.of[on], stretch[0][on, :width])
        np.minimum.at(least, self.hosts.of[on], stretch[1][on, :width])
        return most, least

    def _of_numbers(self, numbers: FloatArray, share: float, stretch: EpsilonScale) -> UsageLimits:
        capacity = number_capacity(self.snapshot, self.settings)
        counted = np.isfinite(capacity) & self.snapshot.brokers.in_service[:, None]
        mean = np.nan_to_num(mean_of(numbers, capacity, counted))
        goals = number_goals(self.settings)
        bounds = limits_around(mean, counted, goals.theta, goals.epsilon, 0.0, stretch, share)
        whole = np.asarray(goals.is_integral) & (mean > 0)
        return bounds._replace(
            high=np.where(whole, np.maximum(bounds.high, np.ceil(mean)), bounds.high),
            low=np.where(whole, np.minimum(bounds.low, np.floor(mean)), bounds.low),
        )

    def ceiling(self, bare: FloatArray, before: FloatArray, after: FloatArray) -> FloatArray:
        """The limit of every row during the execution; counts have no such limit.

        Parameters
        ----------
        bare
            Shape (brokers, resources): that of the brokers.
        before, after
            Shape (rows, columns): utilisations at the start and the end.
        """
        if self.plain:
            return bare
        found = np.full(before.shape, np.inf)
        brokers, width = bare.shape
        found[:brokers, :width] = bare
        if self.hosts is not None:
            most = np.maximum(before, after)[brokers:, :width] * (1 + 1e-12)
            found[brokers:, :width] = np.maximum(most, np.minimum(self.host_theta, 1e300))
        return found


def load_carriers(
    snapshot: ReplicasSnapshot, settings: ReplicasSettings, use: FloatArray, inverse: FloatArray
) -> LoadCarriers:
    """The rows and columns of the requested goals.

    Parameters
    ----------
    use
        Shape (partitions, 2, resources).
    inverse
        Shape (brokers, resources).
    """
    hosts = hosts_with_goal(snapshot, settings)
    host_row = np.full(len(inverse), -1, dtype=np.int32)
    if requested_counts(settings):
        use = np.ascontiguousarray(
            np.concatenate([use, np.stack(number_loads(snapshot, settings), axis=1)], axis=2)
        )
        capacity = number_capacity(snapshot, settings)
        # Brokers that are not counted have a number too, without a limit.
        inverse = np.hstack([inverse, np.where(np.isfinite(capacity), 1.0 / capacity, 0.0)])
    if hosts is not None:
        host_row = np.where(hosts.of >= 0, hosts.of + len(inverse), -1).astype(np.int32)
        rows = np.zeros((len(hosts), inverse.shape[1]))
        rows[:, : len(RESOURCES)] = np.where(hosts.counted, 1.0 / hosts.capacity, 0.0)
        inverse = np.vstack([inverse, rows])
    return LoadCarriers(snapshot, settings, hosts, use, np.ascontiguousarray(inverse), host_row)


def _joined(first: UsageLimits, second: UsageLimits, axis: int) -> UsageLimits:
    pairs = zip(first, second, strict=True)
    return UsageLimits(*(np.ascontiguousarray(np.concatenate(pair, axis=axis)) for pair in pairs))


OF_LEADERS = (CPU, NETWORK_OUT)
"""Resources that a demoted broker may use less than the others."""


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
        Shape (brokers, resources): brokers and resources to which θ and ε apply.
    excluded
        Shape (partitions,): its topic is excluded, or no replica may leave its broker.
    orphaned
        Shape (partitions,): no online replica is in sync, so neither a leader nor a copy is possible.
    racks, hosts
        How many groups the brokers in service form.
    demoted
        Shape (partitions,): its leader is on a demoted broker.
    needed
        Shape (partitions,): a replica must leave its broker, or the partition needs another leader, excluded
        or not. Where a plan is scoped, `arrays.movable` holds only such partitions.
    free
        Shape (partitions,): balancing may move it, as its topic is not excluded and there is data to copy.
    carriers
        Rows and columns that are balanced besides brokers and resources, if any.
    target_factor
        Where another replication factor is asked for (`trimtab.plan.replicas.factor`), shape
        (partitions,): the number of replicas that each is to have, 0 where nothing is asked; else empty.
    vacancies
        Number of vacancies, which are the last brokers: replicas wait there to be added, or end there when
        dropped.
    topics
        Topics of the goals per topic; None without such goals.
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
        """Whether the plan only changes the replication factor."""
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
        """`arrays` with the rows and columns of `carriers`."""
        return self.arrays._replace(use=self.carriers.use, inverse=self.carriers.inverse)

    @property
    def initial_placement(self) -> Placement:
        """The placement of the snapshot."""
        return Placement(self.arrays.initial, self.initial_leader)

    @property
    def biggest_first(self) -> IntArray:
        """All partitions, the most expensive copies first; partitions that only change leader last."""
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
        """Shape (places,): copies on the path to each place, of all partitions or of those in `of`.

        A leader that is not first in its list and has no substitute moves after another replica has made
        space for its successor. That is one more copy if this replica returns.
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
        """Load of all rows and columns, shape (rows, columns) of `carriers`."""
        return self.carriers.load(self.load(placement), placement.place, placement.leader)

    def usage(self, placement: Placement) -> FloatArray:
        """Utilisation of all rows and columns, shape (rows, columns) of `carriers`."""
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
            Shape (rows, columns) of `carriers`. The mean is computed from it, so it should be that of the
            target placement.
        """
        brokers, resources = self.counted.shape
        bare = self.bare_limits(carried[:brokers, :resources], share)
        return self.carriers.widened(bare, carried, share, self.shares.stretch)

    def bare_limits(self, load: FloatArray, share: float = 1.0, *, stretched: bool = True) -> UsageLimits:
        """Those of brokers and resources alone; `load` of shape (brokers, resources).

        Parameters
        ----------
        stretched
            Whether ε is widened where rules prevent it.
        """
        goals = self.goals
        mean, width = self.mean(load), load.shape[1]
        most, least = self.shares.stretch
        stretch = (most[:, :width], least[:, :width]) if stretched else None
        found = limits_around(mean, self.counted, goals.theta, goals.epsilon, goals.idle, stretch, share)
        # A demoted broker cannot carry its share of the leaders' load.
        found.low[self.relieved] = -np.inf
        found.high[self.relieved] = found.theta[self.relieved]
        if not self.scoped:
            return found
        # A broker above θ need not be reduced, and must not rise.
        theta = np.where(np.isfinite(found.theta), np.maximum(found.theta, self.first_usage), np.inf)
        return found._replace(theta=theta, high=np.where(np.isfinite(found.high), theta, np.inf))

    @cached_property
    def shares(self) -> MinimumShares:
        """The load that rules on racks, hosts and replicas force on brokers."""
        inverse, service = self.carriers.inverse[: len(self.counted)], self.snapshot.brokers.in_service
        known = np.asarray((inverse[service] > 0).all(axis=0))
        if self.resizes or not service.any():
            known[:] = False
        # Goals for racks and hosts do not apply to excluded topics.
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
        """θ and ε that apply to this snapshot."""
        return goals_of(self.settings, RESOURCES, self.snapshot.quality.nominal_capacity)


def problem_data(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> ReplicasProblem:
    """Arrays of the problem; nothing of the snapshot is changed.

    Raises
    ------
    PlanError
        If a broker that the settings name is not there.
    """
    # A copy has the current size, whatever load the plan is made for.
    size = np.maximum(snapshot.partitions.leader_load[:, DISK], snapshot.partitions.follower_load[:, DISK])
    snapshot, settings = with_overrides(snapshot, settings)
    if "host_load" in settings.goals and hosts_of(snapshot) is None:
        # Without goals there is nothing to report.
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
    # Without a current or new leader there is no source for copies.
    free &= (home_lead >= 0) | needed
    # A leader of an excluded topic is chosen among its replicas; none is copied for that.
    led_in_place = ~leaderless | leaving.any(axis=1) | (ready & may_lead[home]).any(axis=1)
    movable = np.where(excluded, evacuates & needed & led_in_place, needed | (not scoped)) & ~orphaned
    demoted = movable & relieved
    caps = {}
    for name, group, groups in (("rack", rack, racks), ("host", host, hosts)):
        cap = group_cap(name, settings, factor, groups)
        # Without a goal, replicas that stay keep their spread.
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
