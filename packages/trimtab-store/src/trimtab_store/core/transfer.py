"""The transfer of one mastership, on the node that gives it and on the node that receives it.

The old master prepares the new one, stops taking messages, and writes the transfer to the log. A transfer
that fails is tried again after a growing delay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from trimtab_store.core.client_requests import ConsumerSessions, ProduceQueue
from trimtab_store.core.messages import (
    ConfirmReady,
    Nonce,
    ProbeTransfer,
    StartTransfer,
    TransferEnded,
    TransferMastership,
    TransferProbed,
    TransferReady,
)
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.state import NO_MASTER, GroupState
from trimtab_store.core.stored import GroupLog
from trimtab_store.core.token import MastershipLease

FACTOR: Final = 8
"""By which each rest is longer than the one before it."""
MAX_TRANSFERS: Final = 256
"""The longest rest, in first rests."""
MIN_INTERVAL: Final = 40
"""A mastership was lost soon that lasted no longer than so many first rests."""


class TransferBackoff:
    """Of one group: what its log tells of transfers, timed by this node's clock.

    A node that stands still now and then is alive between, and named by the map: without a rest it would be
    given the group each time, and each time the group would have no master for a lease.

    Parameters
    ----------
    seconds
        The first rest; 0 for none.
    """

    __slots__ = ("_losses", "_seconds", "_taken", "_until")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._taken: tuple[int, float] | None = None
        self._losses: dict[int, int] = {}
        self._until: dict[int, float] = {}

    def transferred(self, now: float, node: int) -> None:
        """The group is handed to a node, which is its master now or soon."""
        self._taken = node, now

    def mastered(self, now: float, node: int) -> None:
        """A node became master, or stayed it, without being named by a transfer just before."""
        if self._taken is None or self._taken[0] == node:
            return
        (loser, since), self._taken = self._taken, None
        # It was master long enough: earlier losses no longer count.
        if now - since > MIN_INTERVAL * self._seconds:
            self._losses.pop(loser, None)
            return
        losses = self._losses[loser] = self._losses.get(loser, 0) + 1
        self._until[loser] = now + self._seconds * min(FACTOR ** (losses - 1), MAX_TRANSFERS)

    def left(self, now: float, node: int) -> float:
        """Seconds for which the group is not given to a node yet; 0 if it may be."""
        return max(0.0, self._until.get(node, now) - now)


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


@dataclass(slots=True)
class IncomingTransfer:
    """One transfer.

    Attributes
    ----------
    cycle
        Version of the token.
    until
        When the token expires, as its holder counts.
    current_master
        The master when it began.
    known
        The last slot that it had applied when it began: what came before says nothing of this transfer.
    renewals
        How often it has renewed since in a row.
    outcome
        None while it runs; then whether this node is master by it.
    ended
        Whether nothing is left of it at the current master.
    question
        Of the current master, while this node is not as far as that.
    """

    cycle: int
    until: float
    current_master: int
    started_at: float
    requested_at: float = float("-inf")
    started: bool = False
    known: int = 0
    renewals: int = 0
    outcome: bool | None = None
    ended: bool = False
    question: ConfirmReady | None = None

    def step(self, group: GroupContext) -> None:
        """Ask the master how far it is, until it answers; and never beyond the token."""
        now, settings = group.context.now, group.context.settings
        if now >= self.until:
            self.outcome, self.ended = bool(self.outcome), True
        elif self.outcome is None and not self.started:
            if now - self.started_at >= 2 * settings.propose_seconds:
                self.outcome = False
                self.ended = True
            elif now - self.requested_at >= settings.retry_seconds:
                self.requested_at = now
                group.context.send(self.current_master, group.number, ProbeTransfer(self.cycle))

    def probed(self, group: GroupContext, answer: TransferProbed) -> None:
        """Begin if this node is caught up; else leave the group to its master."""
        if answer.cycle != self.cycle or self.outcome is not None or self.started:
            return
        now, settings = group.context.now, group.context.settings
        # A transfer to a lagging node would leave the group without a master until the node has caught up.
        if answer.applied - group.log.applied > settings.max_lag_entries:
            group.log.catch_up(self.current_master)
            self.outcome = False
            self.ended = True
        elif now < self.until:
            self.started, self.known = True, answer.applied
            start = StartTransfer(self.cycle, answer.incarnation, answer.stamp, self.until - now)
            group.context.send(self.current_master, group.number, start)

    def confirm_ready(self, group: GroupContext, question: ConfirmReady) -> None:
        """The current master is about to hand over: say that this node is ready, as soon as it is."""
        if question.cycle == self.cycle:
            self.question = question
            if not self.answer(group):
                group.log.catch_up(self.current_master)

    def answer(self, group: GroupContext) -> bool:
        """Say that this node is ready if it is, and note when: its term by an instating transfer begins here.

        What the current master has applied last is often learnt here a moment after its question.
        """
        question = self.question
        if question is None or self.outcome is not None or group.context.now >= self.until:
            return False
        if group.log.applied < question.applied:
            return False
        self.question = None
        nonce = group.lease.new_proposal()
        group.context.send(self.current_master, group.number, TransferReady(self.cycle, nonce))
        return True

    def became(self, node: int, group: GroupContext) -> None:
        """Somebody became master, or stayed it: the verifier."""
        if self.outcome is None and group.log.applied > self.known:
            # One renewal may have been in flight when the transfer began; two in a row show that the master
            # stays.
            self.renewals = self.renewals + 1 if node == self.current_master else 0
            if node == group.context.node:
                self.outcome = True
            elif node != self.current_master or self.renewals >= 2:
                self.outcome = False


class TransferPhase(Enum):
    """Phases of an outgoing transfer."""

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
        # Offsets come first: otherwise the next master would deliver processed messages again.
        if self.phase is TransferPhase.UPLOADING and (not self.waiting or now >= self.upload_until):
            self.clean = not self.waiting and group.consumer_sessions.all_known
            self.phase = TransferPhase.SYNCING
            group.consumer_sessions.sync_offsets()
        if self.phase is TransferPhase.SYNCING and not group.consumer_sessions.uploads:
            self.phase = TransferPhase.CHECKING
        # The preferred node is asked only after the offsets are chosen, so that its answer includes them.
        if self.phase is TransferPhase.CHECKING and now - self.requested_at >= settings.retry_seconds:
            self.requested_at = now
            group.context.send(self.preferred, group.number, ConfirmReady(self.cycle, group.log.applied))
        # Producers of batches in flight wait for answers of this node, so these batches finish first.
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
