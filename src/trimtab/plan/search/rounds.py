"""The search of every balancer from outside: rounds that improve a placement, and the cut to limits.

A round starts from random changes or from a partly reverted placement, and descends again (`improved`). Where
the result exceeds `max_moves` or the like, the changes that are worth least for their price are undone
(`BudgetUse`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.model.load import BoolArray, FloatArray
from trimtab.model.plan import Problem
from trimtab.plan.search.board import NEGLIGIBLE
from trimtab.plan.search.limits import MARGIN

REVERT_TURNS = 4

Amounts = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class BudgetUse:
    """The changes of a plan, and what two limits leave of them.

    Attributes
    ----------
    names
        Of the two things that are spent; a setting `max_NAME` limits each.
    each
        Shape (changes,): what every change spends of the first, and of the second.
    limits
        To the whole plan; None is no limit.
    """

    names: tuple[str, str]
    each: tuple[Amounts, Amounts]
    limits: tuple[int | None, int | None]

    @cached_property
    def limit_values(self) -> tuple[float, ...]:
        """Both limits as numbers; no limit is infinity."""
        return tuple(np.inf if limit is None else limit for limit in self.limits)

    @cached_property
    def total(self) -> tuple[int, ...]:
        """What all changes together cost, in each limited quantity."""
        return tuple(int(each.sum()) for each in self.each)

    def cut(self, spent: str) -> Problem | None:
        """The problem that a part is left out of what `spent` tells; None where that is within the limits."""
        if all(total <= most for total, most in zip(self.total, self.limit_values, strict=True)):
            return None
        limits = {f"max_{name}": limit for name, limit in zip(self.names, self.limits, strict=True)}
        told = " or ".join(f"{name} {limit}" for name, limit in limits.items())
        return Problem(
            "limit_reached",
            f"meeting the goals took this planner {spent}, more than {told} allow; "
            "the least useful were left out",
            proof={**dict(zip(self.names, self.total, strict=True)), **limits},
        )

    def reverted(self, harm: FloatArray, needed: BoolArray, undo: Callable[[int], bool]) -> bool:
        """Undo changes, the least useful for their price first; whether the rest came within the limits.

        Parameters
        ----------
        harm
            Shape (changes,): rise of the potential if the change is undone.
        needed
            Shape (changes,): hard goals ask for it, so that it is undone last.
        undo
            Undoes the change of that number, unless others have to go first; whether it did.
        """
        price = sum(each / max(most, 1.0) for each, most in zip(self.each, self.limit_values, strict=True))
        order = np.lexsort((harm / np.maximum(price, 1e-12), needed)).tolist()
        left = [total - most for total, most in zip(self.total, self.limit_values, strict=True)]
        for turn in range(2 * REVERT_TURNS):
            later = []
            for i in order:
                if needed[i] and turn < REVERT_TURNS:
                    # Whatever is not needed goes first, also what has to wait for others.
                    later.append(i)
                    continue
                if max(left) <= 0:
                    return True
                too_much = any(excess > 0 and each[i] for excess, each in zip(left, self.each, strict=True))
                if not (too_much and undo(i)):
                    later.append(i)
                    continue
                left = [excess - int(each[i]) for excess, each in zip(left, self.each, strict=True)]
            order = later
        return max(left) <= 0


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
        """Rank a placement; lower is better."""

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
