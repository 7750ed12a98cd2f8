"""`trim`: the fewest bytes, then the fewest moves, that meet the goals.

First what must move (`repair`), then the descent (`search`) towards the inner band, then everything that the goals
themselves do not need goes home again.
"""

import numpy as np

from trimtab.model.load import FloatArray, IntArray
from trimtab.model.plan import Plan
from trimtab.model.replicas import ReplicasSnapshot
from trimtab.model.settings import ReplicasSettings
from trimtab.plan.replicas import placement, repair, search
from trimtab.plan.replicas.limits import MARGIN, limits
from trimtab.plan.replicas.outcome import Outcome, plan_of
from trimtab.plan.replicas.placement import State, new_state
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
    load = snapshot_load(problem, arrays.home, problem.home_lead)
    state = _state(problem, arrays.home.copy(), problem.home_lead.copy(), load, MARGIN)
    order = np.argsort(-arrays.size, kind="stable").astype(np.int32)
    stays = np.zeros(arrays.home.shape, dtype=np.bool_)
    repair.repair(arrays, limits(problem, load, MARGIN), state, order, stays)
    floor = MOVE_COST * float(arrays.size.mean() if len(arrays.size) else 0.0) + 1.0
    load = snapshot_load(problem, state.place, state.lead)
    state = _state(problem, state.place, state.lead, load, MARGIN)
    search.level(arrays, limits(problem, load, MARGIN), state, floor, ROUNDS)
    load = snapshot_load(problem, state.place, state.lead)
    state = _state(problem, state.place, state.lead, load, 1.0)
    bounds = limits(problem, load, 1.0)
    search.send_home(arrays, bounds, state, order)
    search.leads_home(arrays, bounds, state, order, problem.home_lead)
    return Outcome(state.place, state.lead, stays)


def snapshot_load(problem: ProblemData, place: IntArray, lead: IntArray) -> FloatArray:
    """Load of every broker, shape (brokers, resources), of a placement in slots."""
    rows = np.arange(len(place))
    leader = np.where(lead >= 0, place[rows, np.maximum(lead, 0)], -1).astype(np.int32)
    return problem.snapshot.broker_load(place, leader)


def _state(problem: ProblemData, place: IntArray, lead: IntArray, load: FloatArray, share: float) -> State:
    usage = load * problem.arrays.inverse
    return new_state(problem.arrays, limits(problem, load, share), place, lead, usage)


KERNELS = (repair.repair, search.level, search.send_home, search.leads_home, placement.weigh)
