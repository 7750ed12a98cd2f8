"""Masterships during a search: the load of each node, and the effect of a transfer or a swap.

Compares all plans of a small cluster, group by group, and drops those that cannot beat the best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from trimtab.model.goals import ROUNDING, exceeds
from trimtab.model.masters import NO_MASTER, MastersSnapshot, NodeState

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trimtab.files.masters.settings import MastersSettings
    from trimtab.model.load import BoolArray, FloatArray


if TYPE_CHECKING:
    Integers = NDArray[np.integer[Any]]

COMPARED: Final = 512
"""Number of groups of a node that are tried in swaps, the largest first."""


class MastershipChange(NamedTuple):
    """Groups that change their master, with their targets and the change of the value."""

    transfers: tuple[tuple[int, int], ...]
    delta: float


class MastershipBoard:
    """The masters of all groups, changed transfer by transfer.

    Unevenness is Σ w (u - 1)² over nodes in service and resources, where u is a node's load over its share by
    weight w of the load of all nodes in service. Groups that must leave their node and have no possible
    target do not count.

    Attributes
    ----------
    masters, initial
        Shape (groups,): places of nodes now, and before the plan; -1 for no master.
    share
        Shape (groups, resources): share of each group in the load of all nodes in service.
    carried
        Shape (nodes, resources): share of each node.
    target
        Shape (nodes,): desired share of each node.
    able
        Shape (groups, nodes): whether the node is a possible target of the group; never its own node.
    must
        Shape (groups,): without a master, or on a dead or drained node, and with a possible target.
    stuck
        Shape (groups,): the same without a possible target.
    optional
        Shape (groups,): on a node in service, and may be transferred.
    compared
        Shape (resources,): whether nodes in service carry any of it.
    """

    def __init__(self, snapshot: MastersSnapshot, settings: MastersSettings) -> None:
        self.initial: Integers = np.array(snapshot.masters, dtype=np.int32)
        self.in_service: BoolArray = snapshot.in_service
        weight = np.array([one.weight for one in snapshot.nodes]) * self.in_service
        self.target: FloatArray = weight / max(float(weight.sum()), 1e-300)
        self.epsilon: FloatArray = np.array(settings.epsilon)
        open_to = self.in_service & np.array([one.state is NodeState.ALIVE for one in snapshot.nodes])
        rows = np.arange(len(self.initial))
        self.able: BoolArray = np.zeros((len(self.initial), len(snapshot.nodes)), dtype=np.bool_)
        for row, group in enumerate(snapshot.groups):
            self.able[row, list(group.able)] = True
        self.able &= open_to
        led = self.initial != NO_MASTER
        self.able[rows[led], self.initial[led]] = False
        served = led.copy()
        served[led] = self.in_service[self.initial[led]]
        movable = self.able.any(axis=1)
        settled = np.array(
            [
                group.held_seconds is None or group.held_seconds >= settings.cooldown_seconds
                for group in snapshot.groups
            ],
            dtype=np.bool_,
        )
        self.must: BoolArray = ~served & movable
        self.stuck: BoolArray = ~served & ~movable
        self.optional: BoolArray = served & movable & settled
        loads = np.where(self.stuck[:, None], 0.0, snapshot.loads)
        self.compared: BoolArray = loads.sum(axis=0) > 0
        self.share: FloatArray = loads / np.maximum(loads.sum(axis=0), 1e-300)
        self.reset()

    def reset(self) -> None:
        """Return every group to its master before the plan."""
        self.masters: Integers = self.initial.copy()
        self.carried: FloatArray = np.zeros((len(self.target), self.share.shape[1]))
        led = self.initial != NO_MASTER
        np.add.at(self.carried, self.initial[led], self.share[led])

    @property
    def usage(self) -> FloatArray:
        """Shape (nodes, resources): u, which is 1 for a node with its share and for resources that are not
        compared.
        """
        counted = self.in_service[:, None] & self.compared
        return np.where(counted, self.carried / np.where(counted, self.target[:, None], 1.0), 1.0)

    @property
    def unevenness(self) -> float:
        """Σ w (u - 1)², with weights that sum to 1."""
        return float((self.target[:, None] * (self.usage - 1.0) ** 2).sum())

    @property
    def off(self) -> BoolArray:
        """Shape (nodes, resources): further than ε from its share."""
        return exceeds(np.abs(self.usage - 1), self.epsilon)

    @property
    def transfers(self) -> int:
        """Groups that changed their master although they could have stayed."""
        return int((self.optional & (self.masters != self.initial)).sum())

    @property
    def _price(self) -> FloatArray:
        """Shape (nodes,): 1 / w, the factor of a squared distance from the share."""
        return np.where(self.in_service, 1.0 / np.where(self.in_service, self.target, 1.0), 0.0)

    def assign(self, group: int, node: int) -> None:
        """Give a group to a node."""
        if self.masters[group] != NO_MASTER:
            self.carried[self.masters[group]] -= self.share[group]
        self.masters[group] = node
        self.carried[node] += self.share[group]

    def put(self, masters: Integers) -> None:
        """Give every group to the node named for it."""
        for group in np.flatnonzero(self.masters != masters):
            self.assign(int(group), int(masters[group]))

    def largest_first(self, which: BoolArray) -> list[int]:
        """Places of some groups, by their cost."""
        return sorted(map(int, np.flatnonzero(which)), key=lambda one: (-float(self.share[one].sum()), one))

    def best_target(self, group: int) -> int:
        """The best node for a group that must leave."""
        away, x = self.carried - self.target[:, None], self.share[group]
        grows = (self._price[:, None] * (2 * away * x + x**2)).sum(axis=1)
        return int(np.where(self.able[group], grows, np.inf).argmin())

    def takes(self, groups: Integers) -> FloatArray:
        """Shape (groups, nodes): by how much unevenness changes if a node takes a group; ∞ if it may not."""
        away, price, x = self.carried - self.target[:, None], self._price, self.share[groups]
        source = self.masters[groups]
        leaves = price[source] * (x**2 - 2 * away[source] * x).sum(axis=1)
        arrives = price * ((x**2).sum(axis=1)[:, None] + 2 * x @ away.T)
        delta = np.where(self._open(groups), leaves[:, None] + arrives, np.inf)
        delta[np.arange(len(groups)), source] = np.inf
        return np.asarray(delta)

    def best(self, worth: float, most: int) -> MastershipChange | None:
        """The transfer after which unevenness · worth^transfers is least, with at most so many transfers."""
        groups = np.flatnonzero(self.must | self.optional)
        if not groups.size:
            return None
        more = (
            self._away(groups[:, None], np.arange(len(self.target)))
            - self._away(groups, self.masters[groups])[:, None]
        )
        value = self._value(self.takes(groups), more, worth, most)
        row, node = divmod(int(value.argmin()), value.shape[1])
        return _change(((int(groups[row]), node),), value[row, node])

    def best_swap(self, worth: float, most: int) -> MastershipChange | None:
        """The best swap of two groups, one of them of the node furthest above its share; as `best`."""
        source = int(self.usage.max(axis=1).argmax())
        may = self.must | self.optional
        ours, others = (
            np.flatnonzero(may & which) for which in (self.masters == source, self.masters != source)
        )
        ours = ours[np.argsort(-self.share.max(axis=1)[ours], kind="stable")[:COMPARED]]
        others = others[self._open(others)[:, source]]
        if not ours.size or not others.size:
            return None
        away, price = self.carried - self.target[:, None], self._price
        node = self.masters[others]
        change = self.share[ours][:, None, :] - self.share[others][None, :, :]
        square = (change**2).sum(axis=2)
        leaves = price[source] * (square - 2 * (away[source] * change).sum(axis=2))
        arrives = price[node] * (square + 2 * (away[node][None] * change).sum(axis=2))
        delta = np.where(self._open(ours)[:, node], leaves + arrives, np.inf)
        more = (
            self._away(ours[:, None], node) - self._away(ours, self.masters[ours])[:, None]
            + self._away(others, np.full(len(others), source)) - self._away(others, node)
        )  # fmt: skip
        value = self._value(delta, more, worth, most)
        row, column = divmod(int(value.argmin()), value.shape[1])
        one, other = int(ours[row]), int(others[column])
        return _change(((one, int(node[column])), (other, source)), value[row, column])

    def _open(self, groups: Integers) -> BoolArray:
        """Shape (groups, nodes): permitted nodes; a group that could stay may return."""
        found = self.able[groups].copy()
        stays = self.optional[groups]
        found[np.flatnonzero(stays), self.initial[groups][stays]] = True
        return found

    def _away(self, groups: Integers, nodes: Integers) -> Integers:
        """1 for a group that could stay and is on another node, else 0."""
        return np.asarray(self.optional[groups] & (nodes != self.initial[groups]), dtype=np.int64)

    def _value(self, delta: FloatArray, more: Integers, worth: float, most: int) -> FloatArray:
        """By how much unevenness · worth^transfers changes, over worth^(transfers now)."""
        now = self.unevenness
        within = self.transfers + more <= most
        return np.where(within, (now + np.where(within, delta, 0.0)) * worth**more - now, np.inf)


def _change(transfers: tuple[tuple[int, int], ...], delta: float) -> MastershipChange | None:
    return MastershipChange(transfers, float(delta)) if np.isfinite(delta) else None


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
