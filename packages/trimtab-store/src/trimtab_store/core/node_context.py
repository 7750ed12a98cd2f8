"""The place of a node in its cluster: its number, its time, and the effects of the current event."""

from __future__ import annotations

from dataclasses import dataclass, field

from trimtab_common.errors import SettingsError
from trimtab_store.core.messages import Effect, Nonce, SendMessage, StoreRequest, WriteLog
from trimtab_store.core.settings import StoreSettings


@dataclass(slots=True)
class NodeContext:
    """Values that all parts of one node share.

    Attributes
    ----------
    node, nodes
        This node's number, and the number of nodes: 0 to `nodes` - 1.
    incarnation
        A number that no other process of this node has had.
    now
        Seconds on this node's clock, which never goes back and is no wall clock; set with every event.
    orders
        Effects of the current event.
    rejoins
        Whether a log without a promise may be a log that was lost (`VoteRecovery`).
    """

    node: int
    nodes: int
    incarnation: int
    settings: StoreSettings
    now: float = 0.0
    orders: list[Effect] = field(default_factory=list)
    rejoins: bool = False
    _nonces: int = 0

    def __post_init__(self) -> None:
        """Refuse a cluster that is not possible.

        Raises
        ------
        SettingsError
            If the node is none of the nodes.
        """
        if not 0 <= self.node < self.nodes:
            raise SettingsError(
                f"masters.node is {self.node}, expected 0 to {self.nodes - 1}: name one of the nodes"
            )

    @property
    def majority(self) -> int:
        """Number of voters that form a majority."""
        return self.nodes // 2 + 1

    @property
    def peers(self) -> list[int]:
        """All nodes but this one."""
        return [node for node in range(self.nodes) if node != self.node]

    def nonce(self) -> Nonce:
        """A nonce that was never used before."""
        self._nonces += 1
        return self.incarnation, self._nonces

    def send(self, to: int | str, group: int, message: object, *, synced: bool = False) -> None:
        """Add a message to the effects."""
        self.orders.append(SendMessage(to, group, message, synced))

    def broadcast(self, group: int, message: object, *, synced: bool = False) -> None:
        """Send a message to every other node."""
        for node in self.peers:
            self.send(node, group, message, synced=synced)

    def write(self, group: int, written: object) -> None:
        """Append an entry to the log."""
        self.orders.append(WriteLog(group, written))

    def request_store(self, ask: StoreRequest) -> None:
        """Send a request to the store."""
        self.orders.append(ask)
