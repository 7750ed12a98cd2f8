"""Search on where a first plan is good but small: shake it, level again, keep what is better.

Two ways of shaking take turns: sending part of the plan home (large neighbourhood search, Shaw 1998), which
finds cheaper plans, and annealing, which finds its way out of placements where no one or two changes help.
Small clusters have few good combinations and greed misses some of them; big ones have so many that greed
comes close. How many rounds are made follows from the size and from the budget asked for, never from a
clock, so that the plan is the same on any machine.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from trimtab.model.load import FloatArray
from trimtab.plan.search.board import NEGLIGIBLE
from trimtab.plan.search.limits import MARGIN

P = TypeVar("P")

MAX_ROUNDS = 48
MAX_IDLE_ROUNDS = 12
"""Rounds in a row that may bring nothing. A cluster that cannot be balanced makes every round search to its
end: without this, 340 partitions on 14 crowded brokers took 46 s instead of a few.
"""
MARGINS = (MARGIN, 0.8, 0.96, 1.0)
MOVE_COSTS = (0.05, 0.5, 0.01)
"""Price of a move as such, in means of what moves cost (bytes, clients); the first is the usual one."""

REVERTED_SHARES = (0.15, 0.4, 0.7, 1.0)
"""Shares of the plan that are sent home, in turn."""

RETRIES = 6
"""Times that a descent tries brokers again that found no help before others changed."""

HOT, COLD = 1e-2, 1e-6
"""Potential that a change may cost at first and at last: the squares of a tenth and of a thousandth of the
mean utilisation."""

PRICES = (0.1, 1.0, 0.01)
"""Weight of moving all there is against the potential, in turn: dear moves make cheap plans, where one
meets the goals at all; cheap ones find the way to the goals where it is hard."""

TRIALS = 2 * len(PRICES)
"""Rounds among which annealing is tried even if the goals are met: one of each price; it may find a plan some
percent cheaper, but seldom, and not at the next trial either."""

CHANGES = 1000
"""Random changes of one annealing, per item, within what the balancer calls the least and the most."""


@dataclass(frozen=True)
class Rating:
    """Rank of a placement, smaller is better: distance from the goals, cost, moves made.

    Attributes
    ----------
    violation
        Sum over brokers and columns of weight · (distance from the band)², θ a hundredfold; 0 where all hold.
    cost
        In what the balancer's moves cost: bytes copied, clients disturbed.
    perfect
        No placement is better.
    """

    violation: float
    cost: float
    moves: int
    perfect: bool

    @property
    def key(self) -> tuple[float, float, int]:
        """For comparing; distances that are only rounding count as none."""
        return (self.violation if self.violation > NEGLIGIBLE else 0.0, self.cost, self.moves)


@dataclass(frozen=True)
class SearchBudget:
    """Work that a plan of a balancer may spend, in items looked at, summed over rounds.

    Attributes
    ----------
    free
        By every plan; some tenths of a second.
    per_second
        More for every second of time budget.
    """

    free: int
    per_second: int


class RoundSearch(Protocol[P]):
    """The steps of a round over the balancer's own placements."""

    def rating(self, placement: P) -> Rating:
        """Rank a placement."""

    def balanced(self, start: P, margin: float, move_cost: float) -> P:
        """Descend to `margin` of the band, then send home what the goals do not need."""

    def annealed(self, random: np.random.Generator, price: float, margin: float) -> P:
        """Change at random what stands after the moves that must be, by the rule of annealing."""

    def partly_reverted(self, best: P, random: np.random.Generator, share: float) -> P:
        """Send some share of the moves of a placement home."""


def improved(
    search: RoundSearch[P],
    first: P,
    items: int,
    effort: SearchBudget,
    budget_seconds: float,
    seed: int,
    *,
    anneals: bool,
) -> P:
    """The best placement found from `first` on.

    Parameters
    ----------
    first
        What the descent found.
    items
        How many items there are to look at in a round.
    anneals
        Whether annealing can try enough changes at that size.
    """
    extra = int(effort.per_second * budget_seconds // max(items, 1))
    work = effort.free + effort.per_second * budget_seconds
    rounds = min(int(work // max(items, 1)), MAX_ROUNDS + extra)
    best, rating = first, search.rating(first)
    random = np.random.default_rng(seed)
    last = 0
    for number in range(rounds):
        if rating.perfect or number - last > MAX_IDLE_ROUNDS + extra:
            break
        margin, move_cost = MARGINS[number % len(MARGINS)], MOVE_COSTS[number % len(MOVE_COSTS)]
        if anneals and number % 2 == 0 and (rating.violation > NEGLIGIBLE or number < TRIALS):
            start = search.annealed(random, PRICES[number // 2 % len(PRICES)], margin)
        else:
            start = search.partly_reverted(best, random, REVERTED_SHARES[number % len(REVERTED_SHARES)])
        found = search.balanced(start, margin, move_cost)
        found_rating = search.rating(found)
        if found_rating.key < rating.key:
            best, rating, last = found, found_rating, number
    return best


def heats(changes: int) -> FloatArray:
    """Shape (changes,): from `HOT` to `COLD`."""
    return np.geomspace(HOT, COLD, changes)
