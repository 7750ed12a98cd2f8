"""What goals ask besides the brokers' load: the load of hosts, and brokers' numbers."""

from typing import Any

import numpy as np

from trimtab.model.level import Beside
from trimtab.model.load import FloatArray, IntArray
from trimtab.model.replicas.hosts import asked_hosts, host_goals, host_theta
from trimtab.model.replicas.numbers import number_goals, number_imbalance, numbers_asked
from trimtab.model.replicas.settings import ReplicasSettings


def beside_of(
    snapshot: Any,
    settings: ReplicasSettings,
    load: FloatArray,
    replicas: IntArray,
    leader: IntArray,
) -> tuple[Beside, ...]:
    """Each kind that the settings ask for, under a placement.

    Parameters
    ----------
    load
        Shape (brokers, resources).
    replicas, leader
        Broker indices: the placement that it is the load of.
    """
    found = []
    hosts = asked_hosts(snapshot, settings)
    if hosts is not None:
        goals = host_goals(snapshot, settings)
        theta = host_theta(hosts, goals)
        found.append(Beside("host", hosts.name, hosts.imbalance(load), goals, theta))
    if numbers_asked(settings):
        goals, measured = number_goals(settings), number_imbalance(snapshot, settings, replicas, leader)
        theta = np.broadcast_to(goals.theta, measured.usage.shape)
        found.append(Beside("number", snapshot.row_names, measured, goals, theta))
    return tuple(found)
