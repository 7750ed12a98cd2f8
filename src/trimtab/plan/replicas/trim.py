"""`trim`: the fewest bytes, then the fewest moves, that meet the goals.

First what must move (`repair`), then the descent towards the inner band, then everything that the goals
themselves do not need goes home again, and where the cluster is small the search goes on (`improve`).
"""

from dataclasses import replace

import numpy as np

from trimtab.model.plan import Plan
from trimtab.model.replicas import ReplicasSnapshot
from trimtab.model.settings import ReplicasSettings
from trimtab.plan.replicas import repair
from trimtab.plan.replicas.budget import within_budget
from trimtab.plan.replicas.improve import MOVE_COSTS, improved, levelled
from trimtab.plan.replicas.limits import MARGIN, limits
from trimtab.plan.replicas.outcome import Outcome, plan_of
from trimtab.plan.replicas.placement import new_board
from trimtab.plan.replicas.problem import ProblemData, problem_data
from trimtab.plan.replicas.rating import loads_of


def plan(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> Plan:
    """Plan with `trim`."""
    problem = problem_data(snapshot, settings)
    outcome, cut = within_budget(problem, level(problem))
    return plan_of(problem, "trim", outcome, cut)


def level(problem: ProblemData) -> Outcome:
    """The placement that `trim` ends with."""
    lawful = repaired(problem)
    settled = _settled(problem, lawful)
    first = levelled(settled, lawful, MARGIN, MOVE_COSTS[0])
    return improved(settled, lawful, first)


def _settled(problem: ProblemData, lawful: Outcome) -> ProblemData:
    """The same problem, but pinned leaders that could be freed stay as `repair` left them.

    They needed a copy to hand over to, and a later change of that copy would leave them stranded again.
    """
    pinned = problem.arrays.pinned
    rows = np.arange(len(pinned))
    slot = np.maximum(pinned, 0)
    freed = (pinned >= 0) & (lawful.place[rows, slot] != problem.arrays.home[rows, slot])
    return replace(problem, arrays=problem.arrays._replace(movable=problem.arrays.movable & ~freed))


def repaired(problem: ProblemData) -> Outcome:
    """The placement after what must move whatever it costs."""
    arrays = problem.arrays
    load = loads_of(problem, Outcome(arrays.home, problem.home_lead))
    board = new_board(
        arrays, arrays.home, problem.home_lead, load * arrays.inverse, limits(problem, load, MARGIN)
    )
    repair.repair(board, np.argsort(-arrays.size, kind="stable").astype(np.int32))
    return Outcome(board.place, board.lead)
