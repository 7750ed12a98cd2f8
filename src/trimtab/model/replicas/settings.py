"""Settings of the balancer `replicas` as a planner sees them; `files.replicas.settings` checks them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

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


@dataclass(frozen=True)
class RoleAwareSettings:
    """Switches of the paper's procedure; each repair can be had on its own.

    Attributes
    ----------
    literal
        True: the procedure as printed; the repairs are then ignored.
    repairs
        Names of the repairs in force when not literal; the default is all that
        `trimtab.plan.replicas.role_aware` offers.
    """

    literal: bool = False
    repairs: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ReplicasSettings:
    """The goals and limits of a plan of the balancer `replicas`.

    Attributes
    ----------
    strategy
        Name of the planner: `trim` or `role_aware`.
    load
        The load that the plan is made for: `recent`, or `peak` or `forecast` of the coming day
        (`trimtab.model.replicas.load_forecast`).
    recent_move_hours
        How long a partition that received a replica counts as moved lately, where the snapshot says when
        replicas came; 0: never.
    recent_move_cost_factor
        A partition that received a replica in the last `recent_move_hours` costs so many times its bytes to
        copy again.
    theta
        Highest utilisation allowed, per resource (in the order of `RESOURCES`), 0 < θ <= 1.
    epsilon
        Highest deviation γ allowed, per resource, 0 < ε < 1.
    min_utilization
        ε is not asked of a resource that brokers use less than this share of on average: nothing is copied to
        level disks that are one part in a thousand full. Of a resource without known capacity it is asked.
    host_theta
        Highest utilisation allowed of a host that bears load of its own (goal `host_load`); a resource that
        is not named has that of `theta`.
    host_epsilon
        Highest deviation allowed of such a host from the hosts' mean; a resource that is not named has that
        of `epsilon`.
    host_capacity
        For the goal `host_load`: what a host can carry where that is less than its brokers together, by host
        and resource (cores, bytes, bytes per second). It goes before what the snapshot declares.
    count_epsilon
        Highest deviation of numbers of replicas and leaders, 0 < ε < 1; a number next to the mean is always
        allowed.
    balanced_topics
        Names or glob patterns of the topics that the goals `topic_replicas` and `topic_leaders` are about.
    min_leaders_per_topic
        For the goal of that name: partitions of a topic that every broker leads at least, by name or glob
        pattern; the largest of several that cover a topic.
    goals
        Goals to meet; the order in which they are named does not matter. Those that are not in the default
        are asked for by name.
    excluded_topics
        Names or glob patterns of topics whose replicas and leaders are not balanced.
    evacuate_excluded_topics
        True: replicas of excluded topics leave dead and draining brokers and offline log dirs, and their
        leaders leave demoted brokers. False: they stay there, and the plan counts them as left behind.
    excluded_brokers_for_leaders
        Broker ids that are given no further leaderships.
    excluded_brokers_for_replicas
        Broker ids that are given no further replicas.
    drain
        Broker ids to be emptied, as if the snapshot called them `draining`.
    demote
        Broker ids that lead nothing in the end; replicas move for it where nobody else in sync may lead.
    add
        Broker ids to be filled, as if the snapshot called them `new`: what need not move is copied to them
        alone.
    fix_offline_replicas
        True: only offline replicas, replicas on draining brokers and leaderless partitions change, besides
        what `drain` and `demote` name.
    rebalance
        True: `drain`, `demote` and `fix_offline_replicas` also balance the cluster. False: such a plan makes
        only the moves that the request needs, and those that keep brokers under θ which the request would
        lift above.
    intra_broker_only
        True: replicas move between the log dirs of their broker alone; nothing leaves its broker, but for
        what `fix_offline_replicas` asks for beside it.
    replication_factor
        The number of replicas asked of topics, by name or glob pattern; a name goes before patterns. Only the
        partitions of these topics change then: replicas are added, or dropped, and nothing else moves.
    min_gain_per_copy
        Where a plan cannot meet every goal, copies for ε are left out that gain less: the fall of (N·σ)²,
        summed over the resources that ε is asked of, divided by twice the share of all data that is copied.
        Of one copy it is about the difference between the deviations of its source and its destination. 0:
        every copy that helps is made.
    max_bytes
        Most bytes that the whole plan copies, between brokers and between log dirs together; None is no
        limit.
    max_moves
        Most moves of the whole plan; None is no limit.
    seed
        For strategies that draw; the same seed gives the same plan.
    time_budget_seconds
        0 is the deterministic default; more buys search steps (a fixed number per second asked for, so that
        the same budget gives the same plan on any machine).
    """

    strategy: str = "trim"
    load: str = "recent"
    recent_move_hours: float = 0.0
    recent_move_cost_factor: float = 3.0
    theta: tuple[float, ...] = (0.8, 0.8, 0.8, 0.8)
    epsilon: tuple[float, ...] = (0.1, 0.1, 0.1, 0.1)
    min_utilization: float = 0.01
    host_theta: tuple[float | None, ...] = (None, None, None, None)
    host_epsilon: tuple[float | None, ...] = (None, None, None, None)
    host_capacity: Mapping[str, Mapping[str, float]] = field(default_factory=dict, metadata=WHEN_SET)
    count_epsilon: float = field(default=0.1, metadata=ON_NUMBERS)
    balanced_topics: tuple[str, ...] = field(default=("*",), metadata=ON_TOPICS)
    min_leaders_per_topic: Mapping[str, int] = field(default_factory=dict, metadata=MIN_PER_BROKER)
    goals: tuple[str, ...] = DEFAULT_GOALS
    excluded_topics: tuple[str, ...] = ()
    evacuate_excluded_topics: bool = True
    excluded_brokers_for_leaders: tuple[int, ...] = ()
    excluded_brokers_for_replicas: tuple[int, ...] = ()
    drain: tuple[int, ...] = ()
    demote: tuple[int, ...] = ()
    add: tuple[int, ...] = ()
    fix_offline_replicas: bool = False
    rebalance: bool = field(default=False, metadata=WHEN_SET)
    intra_broker_only: bool = False
    replication_factor: Mapping[str, int] = field(default_factory=dict, metadata=WHEN_SET)
    min_gain_per_copy: float = 0.2
    max_bytes: int | None = None
    max_moves: int | None = None
    seed: int = 0
    time_budget_seconds: float = 0.0
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
