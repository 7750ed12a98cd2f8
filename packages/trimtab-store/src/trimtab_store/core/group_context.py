"""What a transfer sees of the group that it runs in."""

from __future__ import annotations

from typing import Protocol

from trimtab_store.core.consumer_sessions import ConsumerSessions
from trimtab_store.core.entries import Nonce
from trimtab_store.core.lease import MastershipLease
from trimtab_store.core.log import GroupLog
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.produce_queue import ProduceQueue
from trimtab_store.core.state import GroupState


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
