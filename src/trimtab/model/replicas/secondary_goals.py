"""What goals ask besides the brokers' load: the load of hosts, and brokers' numbers."""

from typing import Any

import numpy as np

from trimtab.model.goals import SecondaryGoal
from trimtab.model.load import FloatArray, IntArray
from trimtab.model.replicas.hosts import host_goals, host_theta, hosts_with_goal
from trimtab.model.replicas.numbers import number_goals, number_imbalance, requested_counts
from trimtab.model.replicas.settings import ReplicasSettings


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
