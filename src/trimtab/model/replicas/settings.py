"""The resources of the balancer `replicas`, the load value of each, and its settings as a planner sees them.

`trimtab.files.replicas.settings` checks the settings. Every load array has the resources in the order of
`RESOURCES`. The load value is B(j), the load that a decision is based on, from those of the recent windows.

Source: Gao Zi-yan, Wang Yong, "Load balancing strategy of distributed messaging system for cloud services".
Its section 2 and table 1 group CPU with network out (a leader costs more than a follower) and disk with
network in (both roles cost the same); step 2 of its procedure prints network in and out the other way
round. `repaired` follows section 2, `literal` the print.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

import numpy as np
from msgspec import Meta

from trimtab.model.load import FloatArray
from trimtab_common.documents import Count, Fraction, Id, Name, Seconds, Share, SmallShare, one_of
from trimtab_common.errors import SettingsError

RESOURCES: Final = ("cpu", "disk", "network_in", "network_out")

CPU, DISK, NETWORK_IN, NETWORK_OUT = range(4)

UNITS: Final = {
    "cpu": "cores",
    "disk": "bytes",
    "network_in": "bytes per second",
    "network_out": "bytes per second",
}


AVERAGED: Final = {"repaired": (CPU, NETWORK_OUT), "literal": (CPU, NETWORK_IN)}
"""Resources whose value is the mean over the windows; the others' is the latest window's."""

LATEST: Final = {"repaired": (DISK, NETWORK_IN), "literal": (DISK, NETWORK_OUT)}


def load_value(windows: FloatArray, rule: str = "repaired") -> FloatArray:
    """One load per holder and resource from the loads of the recent windows.

    Parameters
    ----------
    windows
        Shape (windows, ..., resources), oldest window first, in `UNITS`; NaN where a window has no value.
    rule
        `repaired` or `literal`.

    Returns
    -------
    FloatArray
        Shape (..., resources): the mean over the windows that have a value, or the newest value; NaN where
        no window has one.

    Raises
    ------
    SettingsError
        If the rule is unknown.
    """
    if rule not in AVERAGED:
        raise SettingsError(f"load value {rule!r} is unknown: give {' or '.join(AVERAGED)}")
    value = np.full(windows.shape[1:], np.nan)
    for resource in AVERAGED[rule]:
        loads = windows[..., resource]
        known = np.isfinite(loads)
        count = known.sum(axis=0)
        # One addition after the other, oldest first: numpy's own sum regroups by shape, and then two
        # readers of the same windows would differ in the last bit.
        total = np.zeros(loads.shape[1:])
        for row, there in zip(loads, known, strict=True):
            total = total + np.where(there, row, 0.0)
        value[..., resource] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    for resource in LATEST[rule]:
        for row in windows[..., resource]:
            value[..., resource] = np.where(np.isfinite(row), row, value[..., resource])
    return value


GOALS: Final = {
    "rack": "no rack holds more than ceil(replicas / racks) of a partition",
    "host": "no host holds more than ceil(replicas / hosts) of a partition",
    "theta": "no broker uses more than theta of any capacity",
    "epsilon": "no broker's utilisation deviates from the mean by more than epsilon of it",
    "log_dirs": "no log dir is above theta.disk, or further than epsilon.disk from the mean of its broker's",
    "preferred_order": "every partition is led by the first broker of its list, so that an election of "
    "preferred leaders changes nothing; lists are put in order, nothing is copied and no leader changes",
    "host_load": "no host uses more than host_theta of a capacity or deviates from the hosts' mean by more "
    "than host_epsilon of it; asked where hosts have several brokers or a declared capacity",
    "replica_numbers": "no broker's number of replicas deviates from the mean by more than count_epsilon of "
    "it, or by one",
    "leader_numbers": "the same of the partitions that it leads",
    "potential_network_out": "no broker would send more than theta of its network_out, did it lead all that "
    "it holds",
    "topic_replicas": "no broker's number of replicas of a topic deviates from that topic's mean by more "
    "than count_epsilon of it, or by one",
    "topic_leaders": "the same of the partitions of a topic that it leads",
    "min_leaders_per_topic": "every broker leads at least as many partitions of a topic as the table of that "
    "name says",
}
"""Goals that a plan can be asked for, by name. Emptying dead and draining brokers and offline log dirs, and
giving leaderless partitions a leader, is part of a plan unless it is for `demote`, `intra_broker_only` or
`replication_factor` alone."""

DEFAULT_GOALS: Final = ("rack", "host", "theta", "epsilon", "log_dirs")

ON_NUMBERS: Final = {"goals": ("replica_numbers", "leader_numbers", "topic_replicas", "topic_leaders")}
ON_TOPICS: Final = {"goals": ("topic_replicas", "topic_leaders")}
MIN_PER_BROKER: Final = {"goals": ("min_leaders_per_topic",)}
"""Keys that are recorded in plans only where one of these goals is asked for."""

WHEN_SET: Final = {"goals": ()}
"""A key that is recorded in plans only where it is given."""


LOADS: Final = {
    "recent": "the load of the recent windows",
    "peak": "of each resource, the load in the hour to come in which the fullest broker is fullest",
    "forecast": "the mean load of the hours to come",
}
"""Loads that a plan can be made for, by name."""


@dataclass(frozen=True)
class RoleAwareSettings:
    """Switches of the paper's procedure; each repair can be enabled separately.

    Attributes
    ----------
    literal
        True: the procedure as printed in the paper; the repairs are then ignored.
    repairs
        Names of the active repairs if not literal; default: all repairs of
        `trimtab.plan.replicas.role_aware`.
    """

    literal: bool = False
    repairs: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ReplicasSettings:
    """The goals and limits of a plan of the balancer `replicas`.

    Attributes
    ----------
    strategy
        Planner: `trim` or `role_aware`.
    load
        Load that the plan is made for: `recent`, or the `peak` or `forecast` of the next day
        (`trimtab.model.replicas.snapshot`).
    recent_move_hours
        Partitions moved within this many hours cost `recent_move_cost_factor` times their size, if the
        snapshot has the times of moves; 0: none.
    recent_move_cost_factor
        Cost factor of a partition that received a replica within `recent_move_hours`.
    theta
        Highest utilisation θ per resource (in the order of `RESOURCES`), 0 < θ <= 1.
    epsilon
        Highest deviation γ per resource, 0 < ε < 1.
    min_utilization
        Resources with mean utilisation below this share are not balanced. Resources without known capacity
        always are.
    host_theta
        Goal `host_load`: highest utilisation of a host that has load of its own. Default for a resource:
        `theta`.
    host_epsilon
        Goal `host_load`: highest deviation of such a host from the mean of the hosts. Default for a resource:
        `epsilon`.
    host_capacity
        Goal `host_load`: capacity of a host if it is less than the sum of its brokers, by host and resource
        (cores, bytes, bytes per second). Overrides the snapshot.
    count_epsilon
        Highest deviation of the numbers of replicas and leaders, 0 < ε < 1; numbers next to the mean are
        always allowed.
    balanced_topics
        Names or glob patterns of the topics that the goals `topic_replicas` and `topic_leaders` apply to.
    min_leaders_per_topic
        Goal of that name: minimum number of partitions of a topic that each broker leads, by name or glob
        pattern. If several match a topic, the largest applies.
    goals
        Goals of the plan, in any order. Goals outside the default must be named.
    excluded_topics
        Names or glob patterns of topics whose replicas and leaders are not balanced.
    evacuate_excluded_topics
        True: replicas of excluded topics leave dead and draining brokers and offline log dirs, and their
        leaders leave demoted brokers. False: they stay, and the plan reports their number.
    excluded_brokers_for_leaders
        Ids of brokers that receive no further leaderships.
    excluded_brokers_for_replicas
        Ids of brokers that receive no further replicas.
    drain
        Ids of brokers to empty, as with state `draining` in the snapshot.
    demote
        Ids of brokers that lead nothing after the plan. Replicas move only if no other in-sync replica may
        lead.
    add
        Ids of brokers to fill, as with state `new` in the snapshot. Replicas that need not move are copied to
        these brokers only.
    fix_offline_replicas
        True: the plan changes only offline replicas, replicas on draining brokers, leaderless partitions, and
        the brokers of `drain` and `demote`.
    rebalance
        True: `drain`, `demote` and `fix_offline_replicas` also balance the cluster. False: the plan has only
        the moves that the request needs, and moves that keep brokers below θ if the request would exceed it.
    intra_broker_only
        True: replicas move only between the log dirs of their broker, except for moves of
        `fix_offline_replicas`.
    replication_factor
        Replication factor of topics, by name or glob pattern; names override patterns. The plan only adds or
        drops replicas of these topics.
    min_gain_per_copy
        Minimum gain of a copy for ε if a plan cannot meet every goal. Gain: the decrease of (N·σ)², summed
        over the balanced resources, divided by twice the share of all data that is copied. For one copy this
        is about the difference of the deviations of source and destination. 0: no minimum.
    max_bytes
        Maximum bytes that a plan copies between brokers and between log dirs; none: no limit.
    max_moves
        Maximum number of moves of a plan; none: no limit.
    seed
        Seed of random strategies; the same seed gives the same plan.
    time_budget_seconds
        Search effort: 0 is the deterministic default; a larger value adds a fixed number of search steps per
        second, so that the same value gives the same plan on any machine.
    """

    strategy: str = "trim"
    load: Annotated[str, one_of(*LOADS)] = "recent"
    recent_move_hours: Annotated[float, Meta(ge=0)] = 0.0
    recent_move_cost_factor: Annotated[float, Meta(ge=1, le=1000)] = 3.0
    theta: tuple[Share, ...] = (0.8, 0.8, 0.8, 0.8)
    epsilon: tuple[Fraction, ...] = (0.1, 0.1, 0.1, 0.1)
    min_utilization: SmallShare = 0.01
    host_theta: tuple[Share | None, ...] = (None, None, None, None)
    host_epsilon: tuple[Fraction | None, ...] = (None, None, None, None)
    host_capacity: Mapping[str, Mapping[str, float]] = field(default_factory=dict, metadata=WHEN_SET)
    count_epsilon: Fraction = field(default=0.1, metadata=ON_NUMBERS)
    balanced_topics: Annotated[tuple[Name, ...], Meta(min_length=1)] = field(
        default=("*",), metadata=ON_TOPICS
    )
    min_leaders_per_topic: Mapping[str, int] = field(default_factory=dict, metadata=MIN_PER_BROKER)
    goals: tuple[str, ...] = DEFAULT_GOALS
    excluded_topics: tuple[Name, ...] = ()
    evacuate_excluded_topics: bool = True
    excluded_brokers_for_leaders: tuple[Id, ...] = ()
    excluded_brokers_for_replicas: tuple[Id, ...] = ()
    drain: tuple[Id, ...] = ()
    demote: tuple[Id, ...] = ()
    add: tuple[Id, ...] = ()
    fix_offline_replicas: bool = False
    rebalance: bool = field(default=False, metadata=WHEN_SET)
    intra_broker_only: bool = False
    replication_factor: Mapping[str, int] = field(default_factory=dict, metadata=WHEN_SET)
    min_gain_per_copy: Annotated[float, Meta(ge=0, le=100)] = 0.2
    max_bytes: Count | None = None
    max_moves: Count | None = None
    seed: Count = 0
    time_budget_seconds: Seconds = 0.0
    role_aware: RoleAwareSettings = field(default_factory=RoleAwareSettings)

    @property
    def is_scoped(self) -> bool:
        """Whether the plan makes only the moves that a request needs, and levels nothing else."""
        evacuates = bool(self.drain or self.demote) and not self.add
        return (evacuates or self.fix_offline_replicas or self.intra_broker_only) and not self.rebalance

    @property
    def demotes_only(self) -> bool:
        """Whether the only request is `demote`, so that no replica has to leave its broker."""
        asked = (
            self.drain or self.fix_offline_replicas or self.intra_broker_only or self.add or self.rebalance
        )
        return bool(self.demote) and not asked
