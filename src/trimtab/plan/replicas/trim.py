"""`trim`: the fewest bytes, then the fewest moves, that meet the goals.

First what must move (`repair`), then the descent (`search`) towards the inner band, then everything that the goals
themselves do not need goes home again.
"""

import numpy as np

from trimtab.model.load import FloatArray, IntArray
from trimtab.model.plan import Plan
from trimtab.model.replicas import ReplicasSnapshot
from trimtab.model.settings import ReplicasSettings
from trimtab.plan.replicas import repair, search
from trimtab.plan.replicas.limits import MARGIN, limits
from trimtab.plan.replicas.outcome import Outcome, plan_of
from trimtab.plan.replicas.placement import Board, new_board, set_limits
from trimtab.plan.replicas.problem import ProblemData, problem_data

MOVE_COST = 0.05
"""Bytes that a move is deemed to cost besides its copy, in mean replica sizes."""

ROUNDS = 6


def plan(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> Plan:
    """Plan with `trim`."""
    problem = problem_data(snapshot, settings)
    return plan_of(problem, "trim", level(problem))


def level(problem: ProblemData) -> Outcome:
    """The placement that `trim` ends with."""
    arrays = problem.arrays
    order = np.argsort(-arrays.size, kind="stable").astype(np.int32)
    board = _board(problem, arrays.home, problem.home_lead)
    repair.repair(board, order)
    floor = MOVE_COST * float(arrays.size.mean() if len(arrays.size) else 0.0) + 1.0
    _aim(problem, board, MARGIN)
    search.level(board, floor, ROUNDS)
    _aim(problem, board, 1.0)
    search.send_home(board, order, problem.home_lead)
    return Outcome(board.place, board.lead)


def snapshot_load(problem: ProblemData, place: IntArray, lead: IntArray) -> FloatArray:
    """Load of every broker, shape (brokers, resources), of a placement in slots."""
    rows = np.arange(len(place))
    leader = np.where(lead >= 0, place[rows, np.maximum(lead, 0)], -1).astype(np.int32)
    return problem.snapshot.broker_load(place, leader)


def _board(problem: ProblemData, place: IntArray, lead: IntArray) -> Board:
    load = snapshot_load(problem, place, lead)
    return new_board(
        problem.arrays, place, lead, load * problem.arrays.inverse, limits(problem, load, MARGIN)
    )


def _aim(problem: ProblemData, board: Board, share: float) -> None:
    """Limits at a share of ε around the mean of the board's placement."""
    load = snapshot_load(problem, board.place, board.lead)
    set_limits(board, load * problem.arrays.inverse, limits(problem, load, share))


KERNELS = (repair.repair, search.level, search.send_home)
