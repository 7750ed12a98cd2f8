"""Masterships during a search: the load of each node, and the effect of a transfer or a swap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from trimtab.model.goals import exceeds
from trimtab.model.masters.snapshot import NO_MASTER, MastersSnapshot, NodeState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trimtab.files.masters.settings import MastersSettings
    from trimtab.model.load import BoolArray, FloatArray

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
