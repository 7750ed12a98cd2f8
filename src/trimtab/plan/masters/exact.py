"""Compares all plans of a small cluster, group by group, and drops those that cannot beat the best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trimtab.model.goals import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Callable

    from trimtab.model.load import BoolArray, FloatArray
    from trimtab.plan.masters.board import Integers, MastershipBoard

MAX_GROUPS: Final = 64
"""Maximum number of groups; with more nothing is tried."""
MAX_CELLS: Final = 1 << 21
"""Maximum size of the loads of partial plans: plans times nodes times resources."""
MAX_WORK: Final = 1 << 24
"""Maximum total of these sizes, which bounds the time for any cluster."""
TOLERANCE: Final = 1e-12
"""Loads and unevenness closer than this are equal: sums of the same shares in another order."""


class TooManyPlansError(Exception):
    """There are too many plans to compare."""


class PartialPlan(NamedTuple):
    """Plans for the groups decided so far.

    Attributes
    ----------
    load
        Shape (plans, nodes, resources): load of the decided groups on each node.
    transfers
        Shape (plans,): of groups that could stay.
    picks
        Shape (plans, groups decided): place of each group's node.
    """

    load: FloatArray
    transfers: Integers
    picks: Integers

    def only(self, which: BoolArray | Integers) -> PartialPlan:
        """Select some of the partial plans."""
        return PartialPlan(self.load[which], self.transfers[which], self.picks[which])


class _UndecidedGroups(NamedTuple):
    """The undecided groups, as bounds on the load that they may still bring to a node.

    Attributes
    ----------
    stays
        Shape (nodes, resources): of those that could stay, where they are.
    incoming
        The same: of those that must leave and may come.
    gives, gets
        Shape (1 + groups, nodes, resources): maximum load that a number of transfers takes from a node, or
        brings to it.
    """

    stays: FloatArray
    incoming: FloatArray
    gives: FloatArray
    gets: FloatArray


class ExactSearch:
    """All plans of one board, group by group from the largest."""

    def __init__(self, board: MastershipBoard) -> None:
        self._board = board
        rows = np.flatnonzero(board.must | board.optional)
        size = board.share.max(axis=1, initial=0.0)[rows]
        self._rows: Integers = rows[np.lexsort((rows, -size))]
        self._nodes: Integers = np.flatnonzero(board.in_service)
        self._target = board.target[self._nodes][:, None]
        place = np.full(len(board.in_service), -1)
        place[self._nodes] = np.arange(len(self._nodes))
        fixed = np.zeros((len(self._nodes), board.share.shape[1]))
        stay = ~(board.must | board.optional | board.stuck)
        np.add.at(fixed, place[board.initial[stay]], board.share[stay])
        self._start = PartialPlan(fixed[None], np.zeros(1, dtype=np.int64), np.zeros((1, 0), dtype=np.int64))
        self._choices = [
            [(int(place[board.initial[row]]), 0)] * bool(board.optional[row])
            + [(int(place[node]), int(board.optional[row])) for node in np.flatnonzero(board.able[row])]
            for row in self._rows
        ]
        few = len(rows) <= MAX_GROUPS
        self._rests = [self._rest(depth) for depth in range(len(rows) + 1)] if few else []
        self._work = 0

    def best_within_epsilon(self, most: int) -> Integers | None:
        """The masters of the plan within ε that has the fewest transfers, and of those the most even.

        None where no plan with at most so many transfers is within ε.

        Raises
        ------
        TooManyError
            If that is too much work.
        """
        margin = np.where(self._board.compared, self._target * self._board.epsilon * (1 + ROUNDING), np.inf)
        low, high = self._target - margin, self._target + margin

        def keeps(found: PartialPlan, rest: _UndecidedGroups) -> BoolArray:
            least, largest = self._bounds(found, rest, most)
            kept = ((least <= high + TOLERANCE) & (largest >= low - TOLERANCE)).all(axis=(1, 2))
            stays = found.load + rest.stays
            left = most - found.transfers
            out = _number(rest.gives, stays - high).max(axis=2).sum(axis=1)
            into = _number(rest.gets, low - stays - rest.incoming).max(axis=2).sum(axis=1)
            return np.asarray(kept & (out <= left) & (into <= left))

        found = self._all(most, keeps)
        if not len(found.transfers):
            return None
        return self._masters(found, np.lexsort((_rounded(self._unevenness(found.load)), found.transfers)))

    def most_even(self, most: int, worth: float, known: float) -> Integers:
        """The masters of the plan with the least unevenness · worth^transfers, then the fewest transfers.

        Parameters
        ----------
        known
            That value of some plan.

        Raises
        ------
        TooManyError
            If that is too much work.
        """

        def keeps(found: PartialPlan, rest: _UndecidedGroups) -> BoolArray:
            least, largest = self._bounds(found, rest, most)
            apart = np.maximum(np.maximum(least - self._target, self._target - largest), 0.0)
            bound = ((apart**2) / self._target * self._board.compared).sum(axis=(1, 2))
            return np.asarray(bound * worth**found.transfers <= known + TOLERANCE)

        found = self._all(most, keeps)
        value = self._unevenness(found.load) * worth**found.transfers
        return self._masters(found, np.lexsort((found.transfers, _rounded(value))))

    def _all(self, most: int, keeps: Callable[[PartialPlan, _UndecidedGroups], BoolArray]) -> PartialPlan:
        """Every plan that `keeps` lets through, one for each way to load the nodes, with fewest transfers."""
        if not self._rests:
            raise TooManyPlansError
        found = self._start.only(keeps(self._start, self._rests[0]))
        for row, choices, rest in zip(self._rows, self._choices, self._rests[1:], strict=True):
            number = len(choices)
            cells = found.load.size * number
            self._work += cells
            if cells > MAX_CELLS or self._work > MAX_WORK:
                raise TooManyPlansError
            node, more = (np.tile(one, len(found.transfers)) for one in zip(*choices, strict=True))
            load = np.repeat(found.load, number, axis=0)
            load[np.arange(len(node)), node] += self._board.share[row]
            picks = np.column_stack((np.repeat(found.picks, number, axis=0), node))
            found = PartialPlan(load, np.repeat(found.transfers, number) + more, picks)
            found = found.only(found.transfers <= most)
            found = _different(found.only(keeps(found, rest)))
        return found

    def _bounds(self, found: PartialPlan, rest: _UndecidedGroups, most: int) -> tuple[FloatArray, FloatArray]:
        """Minimum and maximum final load of each node; shape of `found.load`."""
        left = np.minimum(most - found.transfers, len(rest.gives) - 1)
        stays = found.load + rest.stays
        return stays - rest.gives[left], stays + rest.incoming + rest.gets[left]

    def _rest(self, depth: int) -> _UndecidedGroups:
        board, rows = self._board, self._rows[depth:]
        stays, comes = np.zeros_like(self._start.load[0]), np.zeros_like(self._start.load[0])
        gives, gets = np.zeros((2, len(rows), *stays.shape))
        for number, (row, choices) in enumerate(zip(rows, self._choices[depth:], strict=True)):
            for node, costs in choices:
                if not board.optional[row]:
                    comes[node] += board.share[row]
                elif costs:
                    gets[number, node] = board.share[row]
                else:
                    stays[node] += board.share[row]
                    gives[number, node] = board.share[row]
        return _UndecidedGroups(stays, comes, _largest_sums(gives), _largest_sums(gets))

    def _unevenness(self, load: FloatArray) -> FloatArray:
        apart = (load - self._target) ** 2 / self._target * self._board.compared
        return np.asarray(apart.sum(axis=(1, 2)))

    def _masters(self, found: PartialPlan, order: Integers) -> Integers:
        masters = self._board.masters.copy()
        masters[self._rows] = self._nodes[found.picks[order[0]]]
        return masters


def _largest_sums(values: FloatArray) -> FloatArray:
    """Shape (1 + groups, ...): the sums of the largest values, of none to all of them."""
    sums = np.cumsum(-np.sort(-values, axis=0), axis=0)
    return np.concatenate((np.zeros((1, *values.shape[1:])), sums))


def _number(most: FloatArray, needed: FloatArray) -> Integers:
    """Number of the largest values that sum up to the needed amount; shape of `needed`, (plans, nodes,
    resources).
    """
    found = np.zeros(needed.shape, dtype=np.int64)
    for node, resource in np.ndindex(needed.shape[1:]):
        found[:, node, resource] = np.searchsorted(
            most[:, node, resource], needed[:, node, resource] - TOLERANCE
        )
    return found


def _rounded(values: FloatArray) -> FloatArray:
    return np.asarray(np.round(values / TOLERANCE))


def _different(found: PartialPlan) -> PartialPlan:
    """Of plans with equal loads of all nodes, the first with the fewest transfers: their continuations are
    equal.
    """
    if len(found.transfers) < 2:
        return found
    load = _rounded(found.load).reshape(len(found.transfers), -1)
    order = np.lexsort((found.transfers, *load.T))
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (load[order[1:]] != load[order[:-1]]).any(axis=1)
    return found.only(np.sort(order[first]))
