"""Replica lists put in order: whoever leads becomes the first, without a copy and without another leader.

Kafka prefers the first of the list. A leader that is not, as after a broker has died and come back, loses its
role at the next election of preferred leaders, whatever the load says.
"""

import numpy as np

from trimtab.model.load import IntArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.plan import ReplicaReason
from trimtab.plan.replicas.problem import ReplicasProblem

GOAL = "preferred_order"


def misordered(problem: ReplicasProblem, rows: IntArray, leaders: IntArray) -> IntArray:
    """Partitions whose leader is not the first of its list, ascending; none if nobody asks.

    Excluded topics keep their order, and nobody is preferred who is to lead nothing.

    Parameters
    ----------
    rows, leaders
        Shape (partitions, width) and (partitions,): lists in Kafka's order and leaders, broker indices.
    """
    if GOAL not in problem.settings.goals or not len(rows):
        return np.zeros(0, dtype=np.int32)
    arrays = problem.arrays
    wrong = (leaders >= 0) & (rows[:, 0] != leaders) & arrays.movable & arrays.may_lead[leaders]
    return np.flatnonzero(wrong & (rows == leaders[:, None]).any(axis=1)).astype(np.int32)


def put_first(rows: IntArray, leaders: IntArray) -> IntArray:
    """Lists with their leaders first, the others in the order that they had."""
    behind = np.argsort(rows != leaders[:, None], axis=1, kind="stable")
    return np.take_along_axis(rows, behind, axis=1)


def apply_move_limit(
    problem: ReplicasProblem, wrong: IntArray, spent: int
) -> tuple[IntArray, Problem | None]:
    """As many of the partitions as `max_moves` leaves, and the problem of those left out."""
    most = problem.settings.max_moves
    left = len(wrong) if most is None else max(0, most - spent)
    if left >= len(wrong):
        return wrong, None
    number = len(wrong) - left
    text = f"{number} partitions keep a list whose first broker does not lead: max_moves {most} left them out"
    return wrong[:left], Problem("limit_reached", text, proof={"goal": GOAL, "partitions": number})


def reason_of(broker: int, first: int) -> ReplicaReason:
    """Of a list of which `broker` leads and `first` is the first; Kafka's ids."""
    text = f"broker {broker} leads, and broker {first} is the first of the list: an election would undo it"
    return ReplicaReason(GOAL, None, broker, None, None, None, text)
