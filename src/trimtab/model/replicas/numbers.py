"""Numbers that brokers are evened by besides their load: replicas, leaders, and what they might have to send.

All brokers weigh equally, whatever their capacity. Potential network out is what a broker would send if it
led all that it holds (Cruise Control's PotentialNwOutGoal): it is limited by θ and not balanced.
"""

from typing import Any, Final

import numpy as np

from trimtab.model.goals import Goals
from trimtab.model.imbalance import Imbalance, imbalance
from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.replicas.resources import NETWORK_OUT
from trimtab.model.replicas.settings import ReplicasSettings

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
