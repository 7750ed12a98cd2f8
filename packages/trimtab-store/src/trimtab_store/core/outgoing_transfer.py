"""A transfer at the node that is master until then."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from trimtab_store.core.entries import Nonce, TransferMastership
from trimtab_store.core.group_context import GroupContext
from trimtab_store.core.messages import ConfirmReady, StartTransfer, TransferEnded, TransferReady
from trimtab_store.core.state import NO_MASTER


class TransferPhase(Enum):
    """How far it is."""

    UPLOADING = "consumers hand in their offsets"
    SYNCING = "offsets are proposed"
    CHECKING = "the preferred node is asked whether it is caught up"
    DRAINING = "batches under way finish, new messages are forwarded"
    HANDING = "the transfer is proposed, and authority given up"


@dataclass(slots=True)
class OutgoingTransfer:
    """One transfer; with it all its flags go.

    Attributes
    ----------
    cycle
        Version of the token under which the preferred node acts.
    until
        Bound, on this node's clock: no later than the token expires.
    fence
        The mastership's, when it began: another one means that the master has drifted.
    waiting
        Consumers, each (consumer, topic), whose offsets are not here yet.
    """

    cycle: int
    preferred: int
    until: float
    fence: int
    upload_until: float
    waiting: set[tuple[str, str]]
    phase: TransferPhase = TransferPhase.UPLOADING
    clean: bool = False
    requested_at: float = field(default=float("-inf"))

    @classmethod
    def begin(cls, group: GroupContext, sender: int, start: StartTransfer) -> OutgoingTransfer | None:
        """Begin what the preferred node asks for; None where this node is no master, or it is too late.

        The stamp is this node's own, from before the preferred node looked at what is left of its token:
        counted from there the bound is never later than the token's end, however long messages took.
        """
        now, settings = group.context.now, group.context.settings
        until = start.stamp + start.seconds * (1 - settings.margin)
        stale = start.incarnation != group.context.incarnation or now >= until
        if stale or not group.lease.held or group.state.preferred != NO_MASTER:
            return None
        asked = group.consumer_sessions.request_offsets(start.cycle)
        upload_until = now + settings.upload_seconds
        return cls(start.cycle, sender, until, group.state.fence, upload_until, asked)

    @property
    def forwards(self) -> bool:
        """Whether messages that come are sent on to the preferred node."""
        return self.phase in (TransferPhase.DRAINING, TransferPhase.HANDING)

    def step(self, group: GroupContext) -> None:
        """Go as far as can be gone now."""
        now, settings = group.context.now, group.context.settings
        if now >= self.until or (self.phase is not TransferPhase.HANDING and group.state.fence != self.fence):
            self.end(group)
            return
        if self.phase is TransferPhase.UPLOADING and (not self.waiting or now >= self.upload_until):
            self.clean = not self.waiting and group.consumer_sessions.all_known
            self.phase = TransferPhase.SYNCING
            group.consumer_sessions.sync_offsets()
        if self.phase is TransferPhase.SYNCING and not group.consumer_sessions.uploads:
            self.phase = TransferPhase.CHECKING
        if self.phase is TransferPhase.CHECKING and now - self.requested_at >= settings.retry_seconds:
            self.requested_at = now
            group.context.send(self.preferred, group.number, ConfirmReady(self.cycle, group.log.applied))
        if (
            self.phase is TransferPhase.DRAINING
            and not group.produce_queue.pending
            and not group.pending_probes
        ):
            self._transfer(group)

    def ready(self, group: GroupContext, answer: TransferReady) -> None:
        """The preferred node is caught up: from now on it is handed over, if this node is still master."""
        if self.phase is TransferPhase.CHECKING and group.lease.held and answer.cycle == self.cycle:
            self.phase = TransferPhase.DRAINING
            self._nonce = answer.nonce
            group.produce_queue.flush()
            self.step(group)

    _nonce: Nonce = (0, 0)

    def _transfer(self, group: GroupContext) -> None:
        # First give up, then propose: whether it will be chosen cannot be known here in time.
        if not group.lease.held:
            self.end(group)
            return
        self.phase = TransferPhase.HANDING
        group.lease.give_up()
        state, scheme = group.state, group.context.settings.scheme
        group.log.propose(
            TransferMastership(group.context.node, self.preferred, state.version, int(scheme), self._nonce)
        )

    def end(self, group: GroupContext) -> None:
        """Nothing is left of it here."""
        group.end_transfer()
        group.log.discard_pending(TransferMastership)
        group.context.send(self.preferred, group.number, TransferEnded(self.cycle))
