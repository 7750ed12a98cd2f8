"""Search on where a first plan is good but small: shake it, level again, keep what is better.

Two ways of shaking take turns: sending part of the plan home (large neighbourhood search, Shaw 1998), which
finds cheaper plans, and annealing, which finds its way out of placements where no one or two changes help.
Small clusters have few good combinations and greed misses some of them; big ones have so many that greed
comes close. How many rounds are made follows from the size and from the budget asked for, never from a
clock, so that the plan is the same on any machine.
"""

import numpy as np

from trimtab.model.load import FloatArray
from trimtab.plan.replicas.annealing import anneal
from trimtab.plan.replicas.descent import level
from trimtab.plan.replicas.homing import send_home
from trimtab.plan.replicas.limits import MARGIN, limits
from trimtab.plan.replicas.outcome import Outcome
from trimtab.plan.replicas.placement import NEGLIGIBLE, Board, new_board, set_limits
from trimtab.plan.replicas.problem import ProblemData
from trimtab.plan.replicas.rating import loads_of, rating_of

FREE_WORK = 100_000
"""Replicas looked at, summed over rounds, that every plan may spend; some tenths of a second."""

WORK_PER_SECOND = 200_000
MOST_ROUNDS = 48
PATIENCE = 12
"""Rounds in a row that may bring nothing. A cluster that cannot be levelled makes every round search to its
end: without this, 340 partitions on 14 crowded brokers took 46 s instead of a few.
"""
MARGINS = (MARGIN, 0.8, 0.96, 1.0)
MOVE_COSTS = (0.05, 0.5, 0.01)
"""Bytes that a move is deemed to cost besides its copy, in mean replica sizes; the first is the usual one."""

ROUNDS = 6

LEAST_CHANGES, CHANGES, MOST_CHANGES = 200_000, 1000, 600_000
"""Random changes of one annealing: at least, per replica, and at most."""

HOT, COLD = 1e-2, 1e-6
"""Potential that a change may cost at first and at last: the squares of a tenth and of a thousandth of the
mean utilisation."""

PRICES = (0.1, 1.0, 0.01)
"""What copying all there is weighs against the potential, in turn: dear copies make cheap plans, where one
meets the goals at all; cheap ones find the way to the goals where it is hard."""

TRIALS = 2 * len(PRICES)
"""Rounds among which annealing is tried even if the goals are met: one of each price; it may find a plan some
percent cheaper, but seldom, and not at the next trial either."""

CHUNK = 1 << 16


def levelled(problem: ProblemData, start: Outcome, margin: float, move_cost: float) -> Outcome:
    """Descend from a placement to the inner band, then send home what the goals do not need."""
    arrays = problem.arrays
    load = loads_of(problem, start)
    board = new_board(arrays, start.place, start.lead, load * arrays.inverse, limits(problem, load, margin))
    floor = move_cost * float(arrays.size.mean() if len(arrays.size) else 0.0) + 1.0
    level(board, floor, ROUNDS)
    _aim(problem, board)
    order = np.argsort(-arrays.size, kind="stable").astype(np.int32)
    send_home(board, order, problem.home_lead)
    if (board.worth[:, 0] > NEGLIGIBLE).any():
        # The band moved with the mean, or the margin was too narrow to be met: once more towards the goals
        # themselves.
        level(board, floor, ROUNDS)
        _aim(problem, board)
        send_home(board, order, problem.home_lead)
    return Outcome(board.place, board.lead)


def improved(problem: ProblemData, lawful: Outcome, first: Outcome) -> Outcome:
    """The best placement found from `first` on.

    Parameters
    ----------
    lawful
        The snapshot's placement after what had to move: where partitions are sent back to.
    first
        What the descent found.
    """
    replicas = int((problem.arrays.home >= 0).sum())
    work = FREE_WORK + WORK_PER_SECOND * problem.settings.time_budget_seconds
    extra = int(WORK_PER_SECOND * problem.settings.time_budget_seconds // max(replicas, 1))
    rounds = min(int(work // max(replicas, 1)), MOST_ROUNDS + extra)
    best, rating = first, rating_of(problem, first)
    random = np.random.default_rng(problem.settings.seed)
    changes = _changes(replicas)
    last = 0
    for number in range(rounds):
        if rating.perfect or number - last > PATIENCE + extra:
            break
        margin, cost = MARGINS[number % len(MARGINS)], MOVE_COSTS[number % len(MOVE_COSTS)]
        if changes and number % 2 == 0 and (rating.breach > NEGLIGIBLE or number < TRIALS):
            start = _annealed(problem, lawful, random, changes, PRICES[number // 2 % len(PRICES)], margin)
        else:
            start = _partly_home(problem, lawful, best, random, share=(0.15, 0.4, 0.7, 1.0)[number % 4])
        found = levelled(problem, start, margin, cost)
        found_rating = rating_of(problem, found)
        if found_rating.key < rating.key:
            best, rating, last = found, found_rating, number
    return best


def _changes(replicas: int) -> int:
    """Random changes of one annealing; none where a cluster is too big to try enough of them."""
    if CHANGES * replicas > 2 * MOST_CHANGES:
        return 0
    return min(max(CHANGES * replicas, LEAST_CHANGES), MOST_CHANGES)


def _annealed(
    problem: ProblemData,
    start: Outcome,
    random: np.random.Generator,
    changes: int,
    price: float,
    margin: float,
) -> Outcome:
    """A placement far from `start`, near a deep minimum of potential and price."""
    arrays = problem.arrays
    load = loads_of(problem, start)
    board = new_board(arrays, start.place, start.lead, load * arrays.inverse, limits(problem, load, margin))
    held = (arrays.home >= 0).sum(axis=1)
    floor = MOVE_COSTS[0] * arrays.size.mean() + 1.0
    prices = price * (arrays.size + floor) / float(((arrays.size + floor) * held).sum())
    heats = np.geomspace(HOT, COLD, changes)
    for first in range(0, changes, CHUNK):
        part = heats[first : first + CHUNK]
        anneal(board, prices, part, random.random((len(part), 6)))
    return Outcome(board.place, board.lead)


def _partly_home(
    problem: ProblemData, lawful: Outcome, best: Outcome, random: np.random.Generator, share: float
) -> Outcome:
    """`best`, but some of what it moves is where it had lawfully been; sometimes other leaderships are
    shuffled.
    """
    changed = np.flatnonzero((best.place != lawful.place).any(axis=1) | (best.lead != lawful.lead))
    chosen = changed[random.random(len(changed)) < share]
    place, lead = best.place.copy(), best.lead.copy()
    place[chosen], lead[chosen] = lawful.place[chosen], lawful.lead[chosen]
    return Outcome(place, lead)


def _aim(problem: ProblemData, board: Board) -> FloatArray:
    """Put the goals' own limits on the board, around the mean of its placement; returns the load."""
    load = loads_of(problem, Outcome(board.place, board.lead))
    set_limits(board, load * problem.arrays.inverse, limits(problem, load, 1.0))
    return load
