"""The search: what must move, the descent, and where a first plan is small, shake it and level again.

Two ways of shaking take turns: sending part of the plan home (large neighbourhood search, Shaw 1998), which
finds cheaper plans, and annealing, which finds its way out of ownerships where no one or two changes help.
How many rounds are made follows from the size and from the budget asked for, never from a clock, so that the
plan is the same on any machine.
"""

from dataclasses import dataclass

import numpy as np

from trimtab.model.load import IntArray
from trimtab.plan.bundles.trim.annealing import anneal
from trimtab.plan.bundles.trim.board import NEGLIGIBLE, THETA_WEIGHT, Board, new_board, set_limits
from trimtab.plan.bundles.trim.descent import cheapen, level, place_homeless, send_home
from trimtab.plan.bundles.trim.limits import MARGIN, limits
from trimtab.plan.bundles.trim.problem import ProblemData

FREE_WORK = 60_000
"""Bundles looked at, summed over rounds, that every plan may spend; some tenths of a second."""

WORK_PER_SECOND = 100_000
MOST_ROUNDS = 48
PATIENCE = 12
"""Rounds in a row that may bring nothing: a cluster that cannot be levelled makes each search to its end."""

MARGINS = (MARGIN, 0.8, 0.96, 1.0)
MOVE_COSTS = (0.05, 0.5, 0.01)
"""Clients that a move is deemed to cost besides its own, in means; the first is the usual one."""

ROUNDS = 6
TRIMS = 3
LEAST_CHANGES, CHANGES, MOST_CHANGES = 60_000, 1000, 200_000
"""Random changes of one annealing: at least, per bundle, and at most."""

HOT, COLD = 1e-2, 1e-6
"""Potential that a change may cost at first and at last: the squares of a tenth and of a thousandth of the
mean utilisation."""

PRICES = (0.1, 1.0, 0.01)
"""What unloading everything weighs against the potential, in turn: dear unloads make cheap plans, where one
meets the goals at all; cheap ones find the way to the goals where it is hard."""

TRIALS = 2 * len(PRICES)
"""Rounds among which annealing is tried even if the goals are met."""


@dataclass(frozen=True)
class Rating:
    """Smaller is better: distance from the goals, clients disturbed, moves made.

    Attributes
    ----------
    breach
        Sum over brokers and columns of weight · (distance from the band)², θ a hundredfold; 0 where all hold.
    """

    breach: float
    sessions: float
    moves: int

    @property
    def key(self) -> tuple[float, float, int]:
        """For comparing; distances that are only rounding count as none."""
        return (self.breach if self.breach > NEGLIGIBLE else 0.0, self.sessions, self.moves)


def rating_of(problem: ProblemData, place: IntArray) -> Rating:
    """Rate an ownership."""
    load = problem.load(place)
    goal = limits(problem, load, 1.0)
    usage = load * problem.arrays.inverse
    off = np.maximum(np.maximum(usage - goal.high, goal.low - usage), 0.0)
    over = np.maximum(usage - goal.theta, 0.0)
    moved = place != problem.arrays.home
    breach = float((goal.weight * (off**2 + THETA_WEIGHT * over**2)).sum())
    return Rating(breach, float(problem.arrays.cost[moved].sum()), int(moved.sum()))


def searched(problem: ProblemData) -> IntArray:
    """The ownership that `trim` ends with."""
    lawful = placed(problem)
    first = levelled(problem, lawful, MARGIN, MOVE_COSTS[0])
    return improved(problem, lawful, first)


def placed(problem: ProblemData) -> IntArray:
    """The ownership after what must move whatever it costs."""
    arrays = problem.arrays
    rows = np.flatnonzero(arrays.must)
    # The mean that the limits stand around is that with everything placed: as if spread by capacity.
    board = _board(problem, arrays.home, MARGIN, homeless=rows)
    size = (arrays.use[rows] * board.band[:, 6].max(axis=0) ** 0.5).max(axis=1, initial=0.0)
    place_homeless(board, rows[np.argsort(-size, kind="stable")].astype(np.int32))
    return board.place


def levelled(problem: ProblemData, start: IntArray, margin: float, move_cost: float) -> IntArray:
    """Descend from an ownership to the inner band, then send home what the goals do not need."""
    arrays = problem.arrays
    board = _board(problem, start, margin)
    floor = _floor(problem, move_cost)
    level(board, floor, ROUNDS)
    order = np.argsort(-arrays.cost, kind="stable").astype(np.int32)
    _aim(problem, board)
    _trim(board, order)
    if (board.worth[:, 0] > NEGLIGIBLE).any():
        # The margin was too narrow to be met: once more towards the goals themselves.
        level(board, floor, ROUNDS)
        _aim(problem, board)
        _trim(board, order)
    return board.place


def _trim(board: Board, order: IntArray) -> None:
    """Undo what the goals do not need, and do what they need with bundles of fewer clients."""
    send_home(board, order)
    for _ in range(TRIMS):
        if not cheapen(board, order):
            break
        send_home(board, order)


def improved(problem: ProblemData, lawful: IntArray, first: IntArray) -> IntArray:
    """The best ownership found from `first` on.

    Parameters
    ----------
    lawful
        The snapshot's ownership after what had to move: where bundles are sent back to.
    first
        What the descent found.
    """
    bundles = max(len(first), 1)
    budget = problem.settings.time_budget_seconds
    extra = int(WORK_PER_SECOND * budget // bundles)
    rounds = min(int((FREE_WORK + WORK_PER_SECOND * budget) // bundles), MOST_ROUNDS + extra)
    best, rating = first, rating_of(problem, first)
    random = np.random.default_rng(problem.settings.seed)
    changes = min(max(CHANGES * bundles, LEAST_CHANGES), MOST_CHANGES)
    forced = float(problem.arrays.cost[problem.arrays.must].sum())
    last = 0
    for number in range(rounds):
        perfect = rating.breach <= NEGLIGIBLE and rating.sessions <= forced
        if perfect or number - last > PATIENCE + extra:
            break
        margin, cost = MARGINS[number % len(MARGINS)], MOVE_COSTS[number % len(MOVE_COSTS)]
        if number % 2 == 0 and (rating.breach > NEGLIGIBLE or number < TRIALS):
            start = _annealed(problem, lawful, random, changes, PRICES[number // 2 % len(PRICES)], margin)
        else:
            start = best.copy()
            chosen = np.flatnonzero(best != lawful)
            share = (0.15, 0.4, 0.7, 1.0)[number % 4]
            chosen = chosen[random.random(len(chosen)) < share]
            start[chosen] = lawful[chosen]
        found = levelled(problem, start, margin, cost)
        found_rating = rating_of(problem, found)
        if found_rating.key < rating.key:
            best, rating, last = found, found_rating, number
    return best


def _annealed(
    problem: ProblemData,
    start: IntArray,
    random: np.random.Generator,
    changes: int,
    price: float,
    margin: float,
) -> IntArray:
    """An ownership far from `start`, near a deep minimum of potential and price."""
    board = _board(problem, start, margin)
    dear = problem.arrays.cost + _floor(problem, MOVE_COSTS[0])
    anneal(board, price * dear / dear.sum(), np.geomspace(HOT, COLD, changes), random.random((changes, 4)))
    return board.place


def _floor(problem: ProblemData, move_cost: float) -> float:
    cost = problem.arrays.cost
    return move_cost * float(cost.mean() if len(cost) else 0.0) + 1e-3


def _board(
    problem: ProblemData, place: IntArray, margin: float, homeless: "np.ndarray | None" = None
) -> Board:
    load = problem.load(place)
    wanted = load
    if homeless is not None and len(homeless):
        wanted = load + np.where(
            problem.counted, problem.arrays.use[homeless].sum(axis=0) / problem.counted.sum(axis=0), 0.0
        )
    return new_board(problem.arrays, place, load * problem.arrays.inverse, limits(problem, wanted, margin))


def _aim(problem: ProblemData, board: Board) -> None:
    """Put the goals' own limits on the board, around the mean of its ownership."""
    load = problem.load(board.place)
    set_limits(board, load * problem.arrays.inverse, limits(problem, load, 1.0))
