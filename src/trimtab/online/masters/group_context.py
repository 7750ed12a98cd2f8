"""What a transfer sees of the group that it runs in."""

from __future__ import annotations

from typing import Protocol

from trimtab.online.masters.consumer_sessions import ConsumerSessions
from trimtab.online.masters.entries import Nonce
from trimtab.online.masters.lease import MastershipLease
from trimtab.online.masters.log import GroupLog
from trimtab.online.masters.node_context import NodeContext
from trimtab.online.masters.produce_queue import ProduceQueue
from trimtab.online.masters.state import GroupState


class GroupContext(Protocol):
    """A group on a node; `Group` is one, and says what each of these is."""

    context: NodeContext
    number: int
    state: GroupState
    lease: MastershipLease
    log: GroupLog
    produce_queue: ProduceQueue
    consumer_sessions: ConsumerSessions
    pending_probes: dict[Nonce, float]

    def end_transfer(self) -> None:
        """Nothing is left of the transfer here."""
