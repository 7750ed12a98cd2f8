"""The outer search of every balancer: rounds that improve a placement, and the cut to limits.

A round starts from random changes or from a partly reverted placement, and descends again (`improved`). If
the result exceeds a limit such as `max_moves`, the changes with the least value per cost are undone
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
    """The changes of a plan, cut to two limits.

    Attributes
    ----------
    names
        Names of the two limited quantities; a setting `max_NAME` limits each.
    each
        Shape (changes,): amounts of the first and of the second quantity for each change.
    limits
        Limits of the whole plan; None is no limit.
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
        """The problem that changes are left out, with the text `spent`; None if the plan is within the
        limits.
        """
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
        """Undo changes, those with the least value per cost first. Returns whether the rest is within the
        limits.

        Parameters
        ----------
        harm
            Shape (changes,): rise of the potential if the change is undone.
        needed
            Shape (changes,): hard goals need the change, so it is undone last.
        undo
            Undoes the change of that number unless others must be undone first; returns whether it did.
        """
        price = sum(each / max(most, 1.0) for each, most in zip(self.each, self.limit_values, strict=True))
        order = np.lexsort((harm / np.maximum(price, 1e-12), needed)).tolist()
        left = [total - most for total, most in zip(self.total, self.limit_values, strict=True)]
        for turn in range(2 * REVERT_TURNS):
            later = []
            for i in order:
                if needed[i] and turn < REVERT_TURNS:
                    # Changes that no hard goal needs are undone first, also those that must wait for others.
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
"""Maximum number of successive rounds without an improvement. In a cluster that cannot be balanced, every
round searches to its end: without this limit, 340 partitions on 14 crowded brokers took 46 s instead of a
few.
"""
MARGINS = (MARGIN, 0.8, 0.96, 1.0)
MOVE_COSTS = (0.05, 0.5, 0.01)
"""Fixed cost of a move, in multiples of the mean cost of moves (bytes, clients); the first is the default."""

REVERTED_SHARES = (0.15, 0.4, 0.7, 1.0)
"""Shares of the plan that are reverted, in turn."""

RETRIES = 6
"""Number of times that a descent tries stuck brokers again after others changed."""

HOT, COLD = 1e-2, 1e-6
"""Potential that a change may cost at first and at last: the squares of a tenth and of a thousandth of the
mean utilisation."""

PRICES = (0.1, 1.0, 0.01)
"""Weight of moving all items, relative to the potential, in turn. A high weight makes cheap plans if one
meets the goals; a low weight reaches goals that are hard to meet.
"""

TRIALS = 2 * len(PRICES)
"""Number of rounds in which annealing is tried although the goals are met, one of each price. It may find a
plan that is some percent cheaper, but rarely, and hardly at later trials.
"""

CHANGES = 1000
"""Random changes of one annealing, per item, within the minimum and maximum of the balancer."""


@dataclass(frozen=True)
class Rating:
    """Rank of a placement, smaller is better: distance from the goals, cost, moves made.

    Attributes
    ----------
    violation
        Sum over brokers and columns of weight · (distance from the band)², θ a hundredfold; 0 where all hold.
    cost
        In the unit of the balancer's moves: bytes copied, clients disturbed.
    perfect
        No placement is better.
    """

    violation: float
    cost: float
    moves: int
    perfect: bool

    @property
    def key(self) -> tuple[float, float, int]:
        """For comparison; distances within rounding count as zero."""
        return (self.violation if self.violation > NEGLIGIBLE else 0.0, self.cost, self.moves)


@dataclass(frozen=True)
class SearchBudget:
    """Work that a plan of a balancer may spend, in items looked at, summed over rounds.

    Attributes
    ----------
    free
        For every plan; some tenths of a second.
    per_second
        Additional work for every second of time budget.
    """

    free: int
    per_second: int


class RoundSearch(Protocol[P]):
    """The steps of a round over the balancer's own placements."""

    def rating(self, placement: P) -> Rating:
        """Rank a placement; lower is better."""

    def balanced(self, start: P, margin: float, move_cost: float) -> P:
        """Descend to `margin` of the band, then revert the moves that the goals do not need."""

    def annealed(self, random: np.random.Generator, price: float, margin: float) -> P:
        """Change a placement at random by simulated annealing, starting after the necessary moves."""

    def partly_reverted(self, best: P, random: np.random.Generator, share: float) -> P:
        """Revert a share of the moves of a placement."""


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
        Result of the descent.
    items
        Number of items that a round examines.
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
        # Annealing leaves deep minima, but it discards a good placement; partial reverts keep most of it. The
        # rounds alternate.
        if anneals and number % 2 == 0 and (rating.violation > NEGLIGIBLE or number < TRIALS):
            start = search.annealed(random, PRICES[number // 2 % len(PRICES)], margin)
        else:
            start = search.partly_reverted(best, random, REVERTED_SHARES[number % len(REVERTED_SHARES)])
        found = search.balanced(start, margin, move_cost)
        found_rating = search.rating(found)
        # Strictly better only: a tie would reset the count of idle rounds without an improvement.
        if found_rating.key < rating.key:
            best, rating, last = found, found_rating, number
    return best


def heats(changes: int) -> FloatArray:
    """Shape (changes,): from `HOT` to `COLD`."""
    return np.geomspace(HOT, COLD, changes)
