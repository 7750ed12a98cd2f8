"""The search: what must move, the descent, and rounds of shaking where a first plan is small."""

from dataclasses import dataclass

import numpy as np

from trimtab.model.load import IntArray
from trimtab.plan.bundles.annealing import anneal
from trimtab.plan.bundles.board import BundlesBoard, new_board
from trimtab.plan.bundles.descent import balance, cheapen, place_homeless, revert_bundle
from trimtab.plan.bundles.problem import BundlesProblem
from trimtab.plan.search.board import NEGLIGIBLE, WEIGHT, set_limits
from trimtab.plan.search.limits import MARGIN, potential
from trimtab.plan.search.rounds import CHANGES, MOVE_COSTS, RETRIES, Rating, SearchBudget, heats, improved

EFFORT = SearchBudget(free=60_000, per_second=100_000)
LEAST_CHANGES, MOST_CHANGES = 60_000, 200_000
"""Random changes of one annealing, at least and at most."""

TRIMS = 3


def searched(problem: BundlesProblem) -> IntArray:
    """The ownership that `trim` ends with."""
    lawful = placed(problem)
    search = BundlesSearch(problem, lawful)
    first = search.balanced(lawful, MARGIN, MOVE_COSTS[0])
    settings = problem.settings
    budget, seed = settings.time_budget_seconds, settings.seed
    return improved(search, first, len(first), EFFORT, budget, seed, anneals=True)


def placed(problem: BundlesProblem) -> IntArray:
    """The ownership after what must move whatever it costs."""
    arrays = problem.arrays
    rows = np.flatnonzero(arrays.must)
    # The mean that the limits stand around is that with everything placed: as if spread by capacity.
    service = problem.snapshot.brokers.in_service
    homeless = rows[(arrays.initial[rows] < 0) | ~service[arrays.initial[rows]]]
    board = _board(problem, arrays.initial, MARGIN, homeless=homeless)
    size = (arrays.use[rows] * board.band[:, WEIGHT].max(axis=0) ** 0.5).max(axis=1, initial=0.0)
    place_homeless(board, rows[np.argsort(-size, kind="stable")].astype(np.int32))
    return board.place


def rating_of(problem: BundlesProblem, place: IntArray) -> Rating:
    """Distance from the goals, clients disturbed, unloads."""
    arrays = problem.arrays
    load = problem.load(place)
    breach = potential(problem.limits(load), load * arrays.inverse)
    moved = place != arrays.initial
    sessions = float(arrays.cost[moved].sum())
    perfect = breach <= NEGLIGIBLE and sessions <= float(arrays.cost[arrays.must].sum())
    return Rating(breach, sessions, int(moved.sum()), perfect)


@dataclass(frozen=True, eq=False)
class BundlesSearch:
    """The steps of a round, see `trimtab.plan.search.rounds.RoundSearch`.

    Attributes
    ----------
    lawful
        The snapshot's ownership after what had to move: where bundles are sent back to.
    """

    problem: BundlesProblem
    lawful: IntArray

    def rating(self, placement: IntArray) -> Rating:
        """Distance from the goals, clients disturbed, unloads."""
        return rating_of(self.problem, placement)

    def balanced(self, start: IntArray, margin: float, move_cost: float) -> IntArray:
        """Descend to `margin` of the band, then send home what the goals do not need."""
        board = _board(self.problem, start, margin)
        self._descend(board, move_cost)
        if (board.potentials[:, 0] > NEGLIGIBLE).any():
            # The margin was too narrow to be met: once more towards the goals themselves.
            self._descend(board, move_cost)
        return board.place

    def _descend(self, board: BundlesBoard, move_cost: float) -> None:
        """Level, undo what the goals do not need, and do the rest with bundles of fewer clients."""
        problem = self.problem
        balance(board, self._floor(move_cost), RETRIES)
        load = problem.load(board.place)
        set_limits(board, load * problem.arrays.inverse, problem.limits(load))
        order = np.argsort(-problem.arrays.cost, kind="stable").astype(np.int32)
        revert_bundle(board, order)
        for _ in range(TRIMS):
            if not cheapen(board, order):
                break
            revert_bundle(board, order)

    def _floor(self, move_cost: float) -> float:
        """Clients that an unload is deemed to cost besides its own."""
        cost = self.problem.arrays.cost
        return move_cost * float(cost.mean() if len(cost) else 0.0) + 1e-3

    def annealed(self, random: np.random.Generator, price: float, margin: float) -> IntArray:
        """An ownership far from the lawful one, near a deep minimum of potential and price."""
        board = _board(self.problem, self.lawful, margin)
        dear = self.problem.arrays.cost + self._floor(MOVE_COSTS[0])
        changes = min(max(CHANGES * len(dear), LEAST_CHANGES), MOST_CHANGES)
        anneal(board, price * dear / dear.sum(), heats(changes), random.random((changes, 4)))
        return board.place

    def partly_reverted(self, best: IntArray, random: np.random.Generator, share: float) -> IntArray:
        """`best`, but some of the bundles that it moves are where they had lawfully been."""
        start = best.copy()
        chosen = np.flatnonzero(best != self.lawful)
        chosen = chosen[random.random(len(chosen)) < share]
        start[chosen] = self.lawful[chosen]
        return start


def _board(
    problem: BundlesProblem, place: IntArray, margin: float, homeless: "np.ndarray | None" = None
) -> BundlesBoard:
    load = problem.load(place)
    wanted = load
    if homeless is not None and len(homeless):
        wanted = load + np.where(
            problem.counted,
            problem.arrays.use[homeless].sum(axis=0) / np.maximum(problem.counted.sum(axis=0), 1),
            0.0,
        )
    return new_board(problem.arrays, place, load * problem.arrays.inverse, problem.limits(wanted, margin))
