"""One group on one node: its log, its lease, its clients and its transfers."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from trimtab_store.core.client_requests import COUNTERS, ConsumerSessions, GroupMetrics, ProduceQueue
from trimtab_store.core.messages import (
    AppendMessages,
    ClaimMastership,
    ConfirmReady,
    Entry,
    FetchRequest,
    ForwardMessage,
    GroupReport,
    GroupStatus,
    Nonce,
    OffsetUpload,
    ProbeTransfer,
    ProduceRequest,
    StartTransfer,
    State,
    SyncOffsets,
    TransferEnded,
    TransferMastership,
    TransferProbed,
    TransferReady,
)
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.settings import TransferScheme
from trimtab_store.core.state import NO_MASTER, GroupState
from trimtab_store.core.stored import MakeLog
from trimtab_store.core.token import MastershipLease
from trimtab_store.core.transfer import IncomingTransfer, OutgoingTransfer, TransferBackoff, TransferPhase


class ReplicatedGroup:
    """A group on a node.

    Attributes
    ----------
    state, log, lease
        The replicated state, the log that replicates it, and the lease by this node's clock.
    produce_queue, consumer_sessions
        Messages of its producers, and its consumers.
    pending_probes
        Nonce to the time of the proposal, for masterships that may or may not be chosen.
    outgoing_transfer, incoming_transfer
        A transfer from this node, and one to it.
    metrics
        Counters of this node's work for the group.
    rests
        Nodes that do not get the group for a while.
    """

    def __init__(self, context: NodeContext, number: int, make_log: MakeLog) -> None:
        self.context, self.number = context, number
        self.state = GroupState(context.settings.keep_bytes)
        self.lease = MastershipLease(context, context.settings.lease_seconds)
        self.log = make_log(context, number, self._apply, self.state.snapshot, self._restore)
        self.pending_probes: dict[Nonce, float] = {}
        self.outgoing_transfer: OutgoingTransfer | None = None
        self.incoming_transfer: IncomingTransfer | None = None
        self.metrics = GroupMetrics()
        self.rests = TransferBackoff(context.settings.rest_seconds)
        parts = context, number, self.state, self.lease, self.log, self.metrics
        self.produce_queue, self.consumer_sessions = ProduceQueue(*parts), ConsumerSessions(*parts)
        self._held_since: float | None = None
        self._recovering = False
        self._read_slots = inf
        # Nodes try in turn, or they would try against one another.
        renewal = context.settings.renewal_seconds
        self._try_at = context.now + renewal * ((context.node + number) % context.nodes) / context.nodes

    def recover(self, written: Iterable[object]) -> None:
        """Restore the state that earlier incarnations wrote, or that the store holds."""
        self._recovering = True
        self.log.recover(written)
        self._recovering = False
        self.lease.others_until = self.context.now + self.context.settings.lease_seconds

    # ------------------------------------------------------------ time

    def next_deadline(self) -> float:
        """Time at which `tick` must run next."""
        return min(
            self._try_at,
            self.produce_queue.next_deadline(),
            self.consumer_sessions.next_deadline(),
            self._read_slots,
            self.log.next_deadline(),
        )

    def tick(self) -> None:
        """Run all timers of the group that have expired."""
        now = self.context.now
        if now >= self._try_at:
            self._try_at = now + self.context.settings.renewal_seconds
            self._periodic()
        self.produce_queue.tick()
        self.consumer_sessions.tick()
        if now >= self._read_slots:
            self.advance_transfers()
        self.log.tick()

    def advance_transfers(self) -> None:
        """Continue the transfers in progress."""
        self._read_slots = inf
        if self.incoming_transfer is not None:
            self.incoming_transfer.step(self)
        if self.outgoing_transfer is not None:
            self.outgoing_transfer.step(self)
        if self.outgoing_transfer is not None or self.incoming_transfer is not None:
            self._read_slots = self.context.now + self.context.settings.retry_seconds

    # ------------------------------------------------------------ mastership

    def _periodic(self) -> None:
        """Renew the lease as master, or claim it if there seems to be no master. Never during a transfer
        from here.
        """
        if self.outgoing_transfer is not None and self.outgoing_transfer.forwards:
            return
        state, node = self.state, self.context.node
        # A transfer that was given up for and never chosen: the record still names this node.
        back = self.lease.is_released and (state.master, state.preferred) == (node, NO_MASTER)
        if self.lease.held or self.lease.open or back:
            self._be_master(state.version)

    def _be_master(self, expected: int) -> None:
        now, settings = self.context.now, self.context.settings
        if any(now - at < settings.propose_seconds for at in self.pending_probes.values()):
            return
        nonce = self.lease.new_proposal()
        self.pending_probes[nonce] = now
        self.log.discard_pending(ClaimMastership)
        self.log.propose(ClaimMastership(self.context.node, nonce, expected))

    def _apply(self, slot: int, entry: Entry) -> None:
        before = self.state.fence
        outcome = self.state.apply(slot, entry)
        if outcome and isinstance(entry, ClaimMastership | TransferMastership):
            self.pending_probes.clear()  # all of them expected an older version: void, whether chosen or not
        match entry:
            case AppendMessages(_, records):
                assert isinstance(outcome, tuple)
                self.produce_queue.applied(records, outcome)
            case SyncOffsets(_, offsets):
                if outcome:
                    self.consumer_sessions.offsets_committed(offsets)
            case ClaimMastership(node, nonce, _):
                if node == self.context.node:
                    self.pending_probes.pop(nonce, None)
                if outcome:
                    self.rests.mastered(self.context.now, node)
                    self._mastered(slot, node, nonce)
            case TransferMastership():
                if outcome:
                    self._mastership_acquired(slot, entry)
                elif (
                    self.outgoing_transfer is not None
                    and self.outgoing_transfer.phase is TransferPhase.HANDING
                ):
                    self.outgoing_transfer.end(self)
        if self.state.fence != before:
            self._fenced()
        if self.outgoing_transfer is not None:
            self.outgoing_transfer.step(self)
        if self.incoming_transfer is not None:
            self.incoming_transfer.answer(self)

    def _fenced(self) -> None:
        self.consumer_sessions.fenced()
        self.produce_queue.fenced()

    def _mastered(self, slot: int, node: int, nonce: Nonce) -> None:
        held = self.lease.held
        self.lease.acquired(node, nonce, self.log.first_learned_at(slot))
        if self.lease.held and not held:
            self._held_since = self.context.now
        if self.outgoing_transfer is not None and self.outgoing_transfer.phase is TransferPhase.HANDING:
            self.outgoing_transfer.end(self)
        if self.incoming_transfer is not None:
            self.incoming_transfer.became(node, self)

    def _mastership_acquired(self, slot: int, entry: TransferMastership) -> None:
        if not self._recovering:
            self.rests.transferred(self.context.now, entry.preferred)
        if entry.scheme == TransferScheme.INSTATE:
            self._mastered(slot, entry.preferred, entry.ready)
            return
        preferred = entry.preferred == self.context.node
        if preferred:
            self.lease.named(entry.ready)
        awaits = entry.scheme == TransferScheme.AWAIT
        if preferred and awaits:
            self.lease.own_until = -inf  # the current master's term runs out by itself
        else:
            waits = self.context.settings.renewal_seconds if awaits else 0.0
            self.lease.reserve(ends_now=preferred, waits=waits)
        if preferred and entry.scheme == TransferScheme.EXPIRE and not self._recovering:
            # Asked for here, chosen later if at all: it must not count after anything else has.
            self._be_master(slot)

    def _restore(self, value: State) -> None:
        before = self.state.fence
        self.state.restore(value)
        self.lease.reserve(ends_now=False)
        self.pending_probes.clear()
        if self.state.fence != before:
            self.consumer_sessions.fenced()
        self.produce_queue.fenced()

    def end_transfer(self) -> None:
        """Delete the state of a transfer, whatever its result."""
        self.outgoing_transfer = None

    # ------------------------------------------------------------ messages

    def lost(self, client: str) -> None:
        """Handle the end of a client's connection."""
        lost = self.consumer_sessions.lost(client)
        if lost and self.outgoing_transfer is not None:
            self.outgoing_transfer.waiting -= lost
            self.outgoing_transfer.step(self)

    def received(self, sender: int | str, message: object) -> None:
        """Handle a message for this group."""
        match message:
            case ProduceRequest() | ForwardMessage():
                self._publish(message if isinstance(message, ProduceRequest) else message.publish)
            case FetchRequest():
                self.consumer_sessions.pull(message, waits=self.outgoing_transfer is not None)
            case OffsetUpload():
                self._upload(message)
            case _ if isinstance(sender, int):
                if not self.log.received(sender, message):
                    self._handle_transfer(sender, message)

    def _handle_transfer(self, sender: int, message: object) -> None:
        match message:
            case ProbeTransfer(cycle):
                if self.lease.held:
                    answer = TransferProbed(
                        cycle, self.context.incarnation, self.context.now, self.log.applied
                    )
                    self.context.send(sender, self.number, answer)
            case StartTransfer() if self.outgoing_transfer is None:
                self.outgoing_transfer = OutgoingTransfer.begin(self, sender, message)
                if self.outgoing_transfer is None:
                    self.context.send(sender, self.number, TransferEnded(message.cycle))
                self.advance_transfers()
            case TransferReady() if (
                self.outgoing_transfer is not None and self.outgoing_transfer.preferred == sender
            ):
                self.outgoing_transfer.ready(self, message)
            case TransferProbed() if self.incoming_transfer is not None:
                self.incoming_transfer.probed(self, message)
            case ConfirmReady() if self.incoming_transfer is not None:
                self.incoming_transfer.confirm_ready(self, message)
            case TransferEnded(cycle) if (
                self.incoming_transfer is not None and self.incoming_transfer.cycle == cycle
            ):
                self.incoming_transfer.ended = True

    def _publish(self, publish: ProduceRequest) -> None:
        current_master, challenge = self.outgoing_transfer, self.incoming_transfer
        handed_to = (
            current_master.preferred if current_master is not None and current_master.forwards else None
        )
        named_soon = challenge is not None and challenge.started and challenge.outcome is None
        self.produce_queue.publish(publish, handed_to=handed_to, named_soon=named_soon)

    def _upload(self, upload: OffsetUpload) -> None:
        # One that was sent before the question may be overtaken by messages that came with it; not so the
        # last one of a consumer, which takes no message any more. That of an earlier life may come late.
        key = upload.consumer, upload.topic
        leaves = upload.leaves and self.consumer_sessions.consumers.get(key) == upload.client
        answers = self.outgoing_transfer is not None and (
            leaves or self.outgoing_transfer.cycle == upload.cycle
        )
        if self.consumer_sessions.upload(upload) and answers and self.outgoing_transfer is not None:
            self.outgoing_transfer.waiting.discard(key)
            self.outgoing_transfer.step(self)

    def status(self, *, token_votes: bool) -> GroupStatus:
        """Status of the group on this node.

        Parameters
        ----------
        token_votes
            Whether this node votes in the log of the transfers' token.
        """
        state, messages = self.state, sum(map(len, self.state.topics.values()))
        votes = token_votes and not self.log.without_vote
        return GroupStatus(self.lease.held, state.master, state.version, self.log.applied, messages, votes)

    def report(self, status: GroupStatus, map_version: int, preferred: int) -> GroupReport:
        """Metrics of the group on this node, and its status here."""
        since = self._held_since if status.holds else None
        # In the order of the fields.
        return GroupReport._make((
            self.context.incarnation,
            *(status.holds, status.master, status.version, status.applied),
            0.0 if since is None else self.context.now - since,
            status.messages,
            *(getattr(self.metrics, name) for name in COUNTERS),
            map_version,
            self.rests.left(self.context.now, preferred),
            status.votes,
        ))  # fmt: skip
