"""Plans for another replication factor: replicas added or dropped, and nothing else moved.

Where replicas go, and which ones go, is decided by every goal that is asked for. Judged is less: these
partitions' racks and hosts, and that nothing is lifted above θ. What else is not balanced was so before, and
a plan without `replication_factor` is for that.
"""

from dataclasses import replace

import numpy as np

from trimtab.model.load import IntArray
from trimtab.model.replicas.plan import Plan
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicaBrokerState, ReplicasSnapshot
from trimtab.plan.replicas.board import new_board
from trimtab.plan.replicas.budget import apply_limits
from trimtab.plan.replicas.headroom import relax_constraints
from trimtab.plan.replicas.outcome import plan_of
from trimtab.plan.replicas.placement import Placement
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.replicas.resizing import LAGGING, LEAVING_BROKER, OFFLINE, SOUND, add_missing, drop_spare
from trimtab.plan.replicas.vacancies import problem_with_vacancies
from trimtab.plan.search.limits import MARGIN

EVALUATED = ("rack", "host", "theta")
"""The goals that such a plan is judged by, where they are asked for."""

PASSES = 3
"""How often the choice is looked at again for every partition."""


def resized(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> Plan:
    """The plan that gives topics the number of replicas that `replication_factor` asks for.

    Raises
    ------
    PlanError
        If the setting meets no topic, or asks two numbers of one.
    """
    problem = problem_with_vacancies(snapshot, settings)
    placement = relax_constraints(problem, placed(problem), placed)
    goals = tuple(goal for goal in problem.settings.goals if goal in EVALUATED)
    judged = replace(problem, settings=replace(problem.settings, goals=goals), topics=None)
    kept, cut = apply_limits(judged, placement)
    return plan_of(judged, "trim", kept, cut)


def placed(problem: ReplicasProblem) -> Placement:
    """The placement with replicas added and dropped."""
    arrays, first, wanted = problem.wide, problem.brokers, problem.target_factor
    have = ((arrays.initial >= 0) & (arrays.initial < first)).sum(axis=1)
    order = problem.biggest_first
    more, less = (order[side[order]] for side in ((wanted > have), (wanted > 0) & (wanted < have)))
    fewer = np.where(wanted > 0, np.maximum(have - wanted, 0), 0).astype(np.int32)
    start = placement = problem.initial_placement
    used = problem.carried_load(start) * arrays.inverse
    for _ in range(2):
        # The mean to be near is that of all replicas, those to be added with those to stay: known once they
        # are placed somewhere.
        limits = problem.limits(problem.carried_load(placement), MARGIN)
        board = new_board(arrays, *start, used, limits)
        drop_spare(board, less, fewer, _ranks(problem), start.lead, first, PASSES)
        add_missing(board, more, first, PASSES)
        placement = Placement(board.place, board.lead)
    return placement


def _ranks(problem: ReplicasProblem) -> IntArray:
    """Shape (partitions, width): what each replica is worth."""
    arrays, state = problem.arrays, problem.snapshot.brokers.state
    parts = problem.snapshot.partitions
    of = state[np.maximum(arrays.initial, 0)]
    ranks = np.where(parts.in_sync, SOUND, LAGGING)
    ranks = np.where(of == ReplicaBrokerState.DRAINING, LEAVING_BROKER, ranks)
    return np.ascontiguousarray(
        np.where((of == ReplicaBrokerState.DEAD) | problem.offline, OFFLINE, ranks), np.int32
    )
