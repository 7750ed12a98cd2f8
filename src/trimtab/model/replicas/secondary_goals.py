"""What goals ask besides the brokers' load: the load of hosts, and the numbers of replicas and leaders.

Brokers of one host share its network interface and its cores, so a host can be too full while none of its
brokers is. Hosts bear load of their own where several brokers share one machine, or where a capacity is
declared for one.

Numbers weigh all brokers equally, whatever their capacity. Potential network out is what a broker would send
if it led all of its partitions.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from trimtab.model.goals import Goals, SecondaryGoal, goals_of
from trimtab.model.load import BoolArray, FloatArray, Imbalance, IntArray, imbalance
from trimtab.model.replicas.settings import DISK, NETWORK_OUT, RESOURCES, ReplicasSettings


@dataclass(frozen=True, eq=False)
class Hosts:
    """All hosts with brokers in service, in order of name.

    Attributes
    ----------
    name
        Length (hosts,).
    of
        Shape (brokers,): index of the broker's host, -1 for brokers that are not in service.
    declared
        Shape (hosts, resources): the capacity is the host's own, not the sum of its brokers'.
    capacity
        Shape (hosts, resources), in `UNITS`; infinite where not limited.
    """

    name: tuple[str, ...]
    of: IntArray
    declared: BoolArray
    capacity: FloatArray

    def __len__(self) -> int:
        return len(self.name)

    @property
    def counted(self) -> BoolArray:
        """Shape (hosts, resources): limited, and so balanced."""
        return np.isfinite(self.capacity)

    def load(self, load: FloatArray) -> FloatArray:
        """Shape (hosts, columns): sums over the brokers in service.

        Parameters
        ----------
        load
            Shape (brokers, columns).
        """
        total = np.zeros((len(self), load.shape[1]))
        served = self.of >= 0
        np.add.at(total, self.of[served], load[served])
        return total

    def imbalance(self, load: FloatArray) -> Imbalance:
        """Equations 1 to 5 over the hosts, under a load of the brokers of shape (brokers, resources)."""
        everyone = np.ones(len(self), dtype=np.bool_)
        return imbalance(self.load(load), self.capacity, everyone, RESOURCES)


def hosts_of(snapshot: Any) -> Hosts | None:
    """The hosts; None where no host has two brokers in service or a declared capacity.

    Where the brokers' capacity of a resource is nominal, hosts that declare theirs are not compared with sums
    of made-up ones: those are left out.
    """
    brokers, told = snapshot.brokers, dict(snapshot.hosts)
    service = brokers.in_service
    names = sorted({host for host, serves in zip(brokers.host, service, strict=True) if serves})
    index = {name: number for number, name in enumerate(names)}
    of = np.array(
        [index[host] if serves else -1 for host, serves in zip(brokers.host, service, strict=True)], np.int32
    )
    own = np.array([told.get(name, (np.inf,) * len(RESOURCES)) for name in names]).reshape(-1, len(RESOURCES))
    declared = np.isfinite(own)
    if len(names) == int(service.sum()) and not declared.any():
        return None
    sums = np.zeros(own.shape)
    np.add.at(sums, of[service], brokers.capacity[service])
    made_up = np.isin(RESOURCES, snapshot.quality.nominal_capacity) & declared.any(axis=0)
    sums = np.where(made_up, np.inf, sums)
    return Hosts(tuple(names), of, declared, np.where(declared, own, sums))


def hosts_with_goal(snapshot: Any, settings: ReplicasSettings) -> Hosts | None:
    """The hosts, where the goal `host_load` is asked for."""
    return hosts_of(snapshot) if "host_load" in settings.goals else None


def host_goals(snapshot: Any, settings: ReplicasSettings) -> Goals:
    """θ and ε of the hosts: their own where set, else those of the brokers, where these are goals."""
    usual = goals_of(settings, RESOURCES, snapshot.quality.nominal_capacity)
    theta, epsilon = (
        np.array([limit if own is None else own for own, limit in zip(given, limits.tolist(), strict=True)])
        for given, limits in ((settings.host_theta, usual.theta), (settings.host_epsilon, usual.epsilon))
    )
    return Goals(theta, epsilon, usual.idle)


def host_theta(hosts: Hosts, goals: Goals) -> FloatArray:
    """Shape (hosts, resources): θ; infinite for a disk that is not declared, which its brokers' θ limits."""
    theta = np.broadcast_to(goals.theta, hosts.capacity.shape).copy()
    theta[~hosts.declared[:, DISK], DISK] = np.inf
    return theta


NUMBERS: Final = {
    "replica_numbers": "replicas",
    "leader_numbers": "leaders",
    "potential_network_out": "potential_network_out",
}
"""The column of each goal on numbers, by the name of the goal."""


def requested_counts(settings: ReplicasSettings) -> tuple[str, ...]:
    """The goals on numbers that are asked for, in the order of `NUMBERS`."""
    return tuple(goal for goal in NUMBERS if goal in settings.goals)


def number_goals(settings: ReplicasSettings) -> Goals:
    """What is asked of each column: ε of the two numbers, θ of network out of the potential."""
    asked = requested_counts(settings)
    potential = np.array([goal == "potential_network_out" for goal in asked], dtype=np.bool_)
    return Goals(
        theta=np.where(potential, settings.theta[NETWORK_OUT], np.inf),
        epsilon=np.where(potential, np.inf, settings.count_epsilon),
        idle=np.zeros(len(asked)),
        is_integral=~potential,
    )


def number_capacity(snapshot: Any, settings: ReplicasSettings) -> FloatArray:
    """Shape (brokers, columns): 1 of a number, network out's of the potential; infinite where not counted.

    Replicas count on brokers that may be given some, leaders on those that may lead.
    """
    brokers = snapshot.brokers
    leads = brokers.may_lead & ~np.isin(
        brokers.id, (*settings.excluded_brokers_for_leaders, *settings.demote)
    )
    receives = brokers.may_receive & ~np.isin(brokers.id, settings.excluded_brokers_for_replicas)
    of = {
        "replica_numbers": np.where(receives, 1.0, np.inf),
        "leader_numbers": np.where(leads, 1.0, np.inf),
        "potential_network_out": np.where(brokers.in_service, brokers.capacity[:, NETWORK_OUT], np.inf),
    }
    return np.stack([of[goal] for goal in requested_counts(settings)], axis=1)


def number_loads(snapshot: Any, settings: ReplicasSettings) -> tuple[FloatArray, FloatArray]:
    """What a follower and a leader add to the columns, each of shape (partitions, columns)."""
    parts = snapshot.partitions
    one = np.ones(len(parts))
    sent = parts.leader_load[:, NETWORK_OUT]
    of = {
        "replica_numbers": (one, one),
        "leader_numbers": (np.zeros(len(parts)), one),
        "potential_network_out": (sent, sent),
    }
    columns = [of[goal] for goal in requested_counts(settings)]
    follower, leader = (np.stack([column[role] for column in columns], axis=1) for role in (0, 1))
    return follower, leader


def broker_numbers(
    snapshot: Any, settings: ReplicasSettings, replicas: IntArray, leader: IntArray
) -> FloatArray:
    """Shape (brokers, columns): the numbers of every broker under a placement; 0 on dead brokers."""
    follows, leads = number_loads(snapshot, settings)
    brokers = snapshot.brokers
    found = np.zeros((len(brokers), follows.shape[1]))
    for slot in range(replicas.shape[1]):
        holder = replicas[:, slot]
        weighs = (holder >= 0) & brokers.online[holder]
        load = np.where((holder == leader)[:, None], leads, follows)[weighs]
        np.add.at(found, holder[weighs], load)
    return found


def number_imbalance(
    snapshot: Any, settings: ReplicasSettings, replicas: IntArray, leader: IntArray
) -> Imbalance:
    """Equations 1 to 5 over the numbers of a placement: usage is the number itself, but of the potential."""
    names = tuple(NUMBERS[goal] for goal in requested_counts(settings))
    load = broker_numbers(snapshot, settings, replicas, leader)
    serves: BoolArray = snapshot.brokers.in_service
    return imbalance(load, number_capacity(snapshot, settings), serves, names)


def secondary_goals(
    snapshot: Any,
    settings: ReplicasSettings,
    load: FloatArray,
    replicas: IntArray,
    leader: IntArray,
) -> tuple[SecondaryGoal, ...]:
    """Each kind that the settings ask for, under a placement.

    Parameters
    ----------
    load
        Shape (brokers, resources).
    replicas, leader
        Broker indices: the placement that it is the load of.
    """
    found = []
    hosts = hosts_with_goal(snapshot, settings)
    if hosts is not None:
        goals = host_goals(snapshot, settings)
        theta = host_theta(hosts, goals)
        found.append(SecondaryGoal("host", hosts.name, hosts.imbalance(load), goals, theta))
    if requested_counts(settings):
        goals, measured = number_goals(settings), number_imbalance(snapshot, settings, replicas, leader)
        theta = np.broadcast_to(goals.theta, measured.usage.shape)
        found.append(SecondaryGoal("number", snapshot.row_names, measured, goals, theta))
    return tuple(found)
