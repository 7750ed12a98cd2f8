"""Hosts that bear load of their own: several brokers share one machine, or one's capacity is declared.

Brokers of one host share its network interface and its cores, so a host can be too full while none of its
brokers is. Its load is that of its brokers in service; its capacity the declared one, else the sum of theirs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from trimtab.model.goals import Goals, goals_of
from trimtab.model.imbalance import Imbalance, imbalance
from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.replicas.resources import DISK, RESOURCES
from trimtab.model.replicas.settings import ReplicasSettings


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
