"""Masterships on a board: what each node carries, and what one takeover or a swap would change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trimtab.model.masters.snapshot import NOBODY, MastersSnapshot, NodeState

if TYPE_CHECKING:
    from trimtab.model.load import BoolArray, FloatArray, IntArray

COMPARED: Final = 512
"""Groups of a node that are tried in swaps: the largest ones."""


class Change(NamedTuple):
    """Groups that change their master, each with its target, and by how much the unevenness changes."""

    takeovers: tuple[tuple[int, int], ...]
    delta: float


class Board:
    """Who is master, changed takeover by takeover.

    Unevenness is Σ w (u - 1)² over nodes in service and resources, where u is a node's load over its share by
    weight w.

    Attributes
    ----------
    masters
        Shape (groups,): places of nodes; -1 for nobody.
    share
        Shape (groups, resources): what each group is of all.
    carried
        Shape (nodes, resources): what each node has of all.
    target
        Shape (nodes,): what each should have.
    able
        Shape (groups, nodes): whether that node may be given that group.
    """

    def __init__(self, snapshot: MastersSnapshot) -> None:
        loads = snapshot.loads
        self.share: FloatArray = loads / np.maximum(loads.sum(axis=0), 1e-300)
        self.masters: IntArray = np.array(snapshot.masters, dtype=np.int32)
        self.in_service: BoolArray = snapshot.in_service
        weight = np.array([one.weight for one in snapshot.nodes]) * self.in_service
        self.target: FloatArray = weight / max(float(weight.sum()), 1e-300)
        open_to = self.in_service & np.array([one.state is NodeState.ALIVE for one in snapshot.nodes])
        self.able: BoolArray = np.zeros((len(self.masters), len(snapshot.nodes)), dtype=np.bool_)
        for row, group in enumerate(snapshot.groups):
            self.able[row, list(group.able)] = True
        self.able &= open_to
        self.carried: FloatArray = np.zeros((len(snapshot.nodes), self.share.shape[1]))
        led = self.masters != NOBODY
        np.add.at(self.carried, self.masters[led], self.share[led])

    @property
    def usage(self) -> FloatArray:
        """Shape (nodes, resources): u, 1 for a node that has its share; 1 for nodes out of service."""
        served = self.in_service[:, None]
        return np.where(served, self.carried / np.where(served, self.target[:, None], 1.0), 1.0)

    @property
    def unevenness(self) -> float:
        """Σ w (u - 1)², with weights that sum to 1."""
        return float((self.target[:, None] * (self.usage - 1.0) ** 2).sum())

    @property
    def _price(self) -> FloatArray:
        """Shape (nodes,): w / t², the factor of a squared distance from the share."""
        return np.where(self.in_service, 1.0 / np.where(self.in_service, self.target, 1.0), 0.0)

    def take(self, group: int, node: int) -> None:
        """Give a group to a node."""
        if self.masters[group] != NOBODY:
            self.carried[self.masters[group]] -= self.share[group]
        self.masters[group] = node
        self.carried[node] += self.share[group]

    def best_target(self, group: int) -> int | None:
        """The node that a group without a master is best at; None where no node may have it."""
        if not self.able[group].any():
            return None
        away, x, price = self.carried - self.target[:, None], self.share[group], self._price
        grows = (price[:, None] * (2 * away * x + x**2)).sum(axis=1)
        return int(np.where(self.able[group], grows, np.inf).argmin())

    def best(self, free: BoolArray) -> Change | None:
        """The takeover of one of the groups `free`, shape (groups,), after which loads are most even."""
        groups = np.flatnonzero(free)
        if not groups.size:
            return None
        away, price, x = self.carried - self.target[:, None], self._price, self.share[groups]
        source = self.masters[groups]
        leaves = price[source] * (x**2 - 2 * away[source] * x).sum(axis=1)
        arrives = price * ((x**2).sum(axis=1)[:, None] + 2 * x @ away.T)
        delta = np.where(self.able[groups], leaves[:, None] + arrives, np.inf)
        delta[np.arange(len(groups)), source] = np.inf
        row, node = divmod(int(delta.argmin()), delta.shape[1])
        if not np.isfinite(delta[row, node]):
            return None
        return Change(((int(groups[row]), node),), float(delta[row, node]))

    def best_swap(self, free: BoolArray) -> Change | None:
        """The swap of two groups, one of them of the node furthest above its share, that helps most."""
        source = int(self.usage.max(axis=1).argmax())
        ours, others = (
            np.flatnonzero(free & which)
            for which in (self.masters == source, (self.masters != source) & (self.masters != NOBODY))
        )
        largest = np.argsort(-self.share.max(axis=1)[ours], kind="stable")[:COMPARED]
        ours = ours[largest]
        others = others[self.able[others, source]]
        if not ours.size or not others.size:
            return None
        away, price = self.carried - self.target[:, None], self._price
        node = self.masters[others]
        change = self.share[ours][:, None, :] - self.share[others][None, :, :]
        square = (change**2).sum(axis=2)
        leaves = price[source] * (square - 2 * (away[source] * change).sum(axis=2))
        arrives = price[node] * (square + 2 * (away[node][None] * change).sum(axis=2))
        delta = np.where(self.able[ours][:, node], leaves + arrives, np.inf)
        row, column = divmod(int(delta.argmin()), delta.shape[1])
        if not np.isfinite(delta[row, column]):
            return None
        one, other = int(ours[row]), int(others[column])
        return Change(((one, int(node[column])), (other, source)), float(delta[row, column]))
