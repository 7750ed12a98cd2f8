"""Requests of clients at a node of a group: messages to append, records to read, offsets to store.

`GroupMetrics` counts them; collectors read the counts as the load of the group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Final

from trimtab_store.core.messages import (
    ENTRY_BYTES,
    UNFIT,
    AppendMessages,
    FetchRequest,
    FetchResponse,
    ForwardMessage,
    MessageRecord,
    OffsetCommitted,
    OffsetUpload,
    ProduceRequest,
    ProduceResponse,
    RequestOffset,
    SyncOffsets,
    fits_entry,
    offset_bytes,
    record_bytes,
)
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.state import GroupState
from trimtab_store.core.stored import GroupLog
from trimtab_store.core.token import MastershipLease

COUNTERS: Final = (
    "stored", "stored_bytes", "pulls", "pulled", "pulled_bytes", "proposals", "proposed_seconds",
)  # fmt: skip
"""The fields of `GroupMetrics` that are reported."""


@dataclass(slots=True)
class GroupMetrics:
    """Counters of one group on one node, which never decrease.

    Attributes
    ----------
    stored, stored_bytes
        Messages received by this node and stored, and their payloads.
    pulls, pulled, pulled_bytes
        Fetch requests that it answered as master, the messages in the answers, and their payloads.
    proposals, proposed_seconds
        Batches that it proposed and saw applied, and the sum of the times between the two.
    """

    stored: int = 0
    stored_bytes: int = 0
    pulls: int = 0
    pulled: int = 0
    pulled_bytes: int = 0
    proposals: int = 0
    proposed_seconds: float = 0.0
    _open: dict[tuple[str, str, int], float] = field(default_factory=dict)

    def proposed(self, first: MessageRecord, now: float) -> None:
        """Note a proposed batch, identified by its first message."""
        self._open[first.topic, first.producer, first.sequence] = now

    def applied(self, first: MessageRecord, now: float) -> None:
        """Note an applied batch, of this node or of another."""
        began = self._open.pop((first.topic, first.producer, first.sequence), None)
        if began is not None:
            self.proposals += 1
            self.proposed_seconds += now - began

    def fenced(self) -> None:
        """Discard the times of open proposals, which may be void by now."""
        self._open.clear()

    def count_produced(self, record: MessageRecord) -> None:
        """Count a message that this node received and that is stored now."""
        self.stored += 1
        self.stored_bytes += len(record.payload)

    def count_fetched(self, records: Iterable[MessageRecord]) -> None:
        """Count an answered fetch request."""
        self.pulls += 1
        for record in records:
            self.pulled += 1
            self.pulled_bytes += len(record.payload)


class ProduceQueue:
    """Messages of the producers of one group, from their arrival to their answer.

    Attributes
    ----------
    pending
        (topic, producer, sequence) to the client and its last attempt, for messages that are batched or
        proposed. A repeated message is not proposed again meanwhile.
    """

    def __init__(
        self,
        context: NodeContext,
        number: int,
        state: GroupState,
        lease: MastershipLease,
        log: GroupLog,
        metrics: GroupMetrics,
    ) -> None:
        self._context, self._number = context, number
        self._state, self._lease, self._log, self._metrics = state, lease, log, metrics
        self.pending: dict[tuple[str, str, int], tuple[str, int]] = {}
        self._batch: list[MessageRecord] = []
        self._batch_bytes = self._entry_bytes = 0
        self._batch_until = inf
        self._held: deque[ProduceRequest] = deque()
        self._held_until = inf

    def next_deadline(self) -> float:
        """Time at which the batch is proposed, or held messages are returned."""
        return min(self._batch_until, self._held_until)

    def tick(self) -> None:
        """Propose the batch and return held messages if their time has come."""
        if self._context.now >= self._batch_until:
            self.flush()
        if self._context.now >= self._held_until:
            self._release()

    @property
    def held_since(self) -> float | None:
        """Arrival of the oldest message that waits until this node may write; None if there is none."""
        return self._held_until - self._context.settings.propose_seconds if self._held else None

    @property
    def writes(self) -> bool:
        """Whether this node may propose messages: as master within its term, or named by a transfer."""
        acting = self._state.preferred == self._context.node and self._context.now < self._lease.acting_until
        return acting or self._lease.held

    def publish(self, publish: ProduceRequest, *, handed_to: int | None, named_soon: bool) -> None:
        """Batch, forward or hold a message, or answer with the master, or that no node accepts it.

        Parameters
        ----------
        handed_to
            The preferred node, once this node hands the group over to it.
        named_soon
            Whether a transfer to this node is in progress.
        """
        if not fits_entry(publish.record):
            self._send_back(publish, UNFIT)
        elif handed_to is not None:
            self._context.send(handed_to, self._number, ForwardMessage(publish))
        elif self.writes:
            self._accept_message(publish)
        elif named_soon:
            # Sent on before this node has learnt that it may write.
            self._held.append(publish)
            until = self._context.now + self._context.settings.propose_seconds
            self._held_until = min(self._held_until, until)
        else:
            self._send_back(publish, "moved")

    def _accept_message(self, publish: ProduceRequest) -> None:
        record, settings, size = publish.record, self._context.settings, record_bytes(publish.record)
        # A repetition of a stored message: its first answer was lost.
        if record.sequence <= self._state.sequences.get((record.topic, record.producer), 0):
            self._send_back(publish, "stored")
            return
        key, begun = (record.topic, record.producer, record.sequence), len(self.pending)
        self.pending[key] = publish.client, publish.attempt
        # Already batched or proposed: only the attempt in the answer has changed.
        if len(self.pending) == begun:
            return
        # Many small messages take much more than their payloads.
        if self._entry_bytes + size > ENTRY_BYTES:
            self.flush()
        self._batch.append(record)
        self._batch_bytes += len(record.payload)
        self._entry_bytes += size
        self._batch_until = min(self._batch_until, self._context.now + settings.batch_seconds)
        if self._batch_bytes >= settings.batch_bytes:
            self.flush()

    def _release(self) -> None:
        held, self._held, self._held_until = self._held, deque(), inf
        for publish in held:
            if self.writes:
                self._accept_message(publish)
            else:
                self._send_back(publish, "moved")

    def flush(self) -> None:
        """Propose the messages of the current batch."""
        if self._batch:
            self._metrics.proposed(self._batch[0], self._context.now)
            self._log.propose(AppendMessages(self._state.fence, tuple(self._batch)))
        self._forget_batch()

    def _forget_batch(self) -> None:
        self._batch, self._batch_bytes, self._entry_bytes, self._batch_until = [], 0, 0, inf

    def applied(self, records: tuple[MessageRecord, ...], verdicts: tuple[str, ...]) -> None:
        """Answer the messages of a batch, whichever node proposed it."""
        self._metrics.applied(records[0], self._context.now)
        for record, verdict in zip(records, verdicts, strict=True):
            key = record.topic, record.producer, record.sequence
            asked = self.pending.pop(key, None)
            if asked is not None:
                if verdict == "stored":
                    self._metrics.count_produced(record)
                # The term may have ended while the batch was under way.
                told = verdict if self.writes else "moved"
                self._respond(asked, key, told)

    def fenced(self) -> None:
        """Drop proposals of the old fence, because another node may write now.

        The same holds after a snapshot replaced the state: the entries that it covers are not applied here.
        """
        unanswered, self.pending = self.pending, {}
        for key, asked in unanswered.items():
            self._respond(asked, key, "moved")
        self._forget_batch()
        self._log.discard_pending(AppendMessages)
        self._metrics.fenced()
        self._release()

    def _send_back(self, publish: ProduceRequest, verdict: str) -> None:
        record = publish.record
        key = record.topic, record.producer, record.sequence
        self._respond((publish.client, publish.attempt), key, verdict)

    def _respond(self, request: tuple[str, int], key: tuple[str, str, int], verdict: str) -> None:
        client, attempt = request
        answer = ProduceResponse(*key, verdict, self._state.writer, attempt)
        self._context.send(client, self._number, answer)


class ConsumerSessions:
    """Consumers of one group; only its master knows them.

    Attributes
    ----------
    consumers
        (consumer, topic) to the client that reads.
    uploads
        (consumer, topic) to client and offset, until the offset is chosen.
    departed
        Each (consumer, topic) whose client disconnected without leaving and has not returned.
    displaced
        Each (consumer, topic) and client that read beside the registered one and may still be connected. The
        later of the two is unknown: messages of a killed process may arrive after the first ones of its
        successor.
    """

    def __init__(
        self,
        context: NodeContext,
        number: int,
        state: GroupState,
        lease: MastershipLease,
        log: GroupLog,
        metrics: GroupMetrics,
    ) -> None:
        self._context, self._number = context, number
        self._state, self._lease, self._log, self._metrics = state, lease, log, metrics
        self.consumers: dict[tuple[str, str], str] = {}
        self.uploads: dict[tuple[str, str], tuple[str, int]] = {}
        self.departed: set[tuple[str, str]] = set()
        self.displaced: set[tuple[tuple[str, str], str]] = set()
        self._sync_at = context.now + context.settings.sync_seconds

    def next_deadline(self) -> float:
        """Time at which offsets are proposed."""
        return self._sync_at if self.uploads else inf

    def tick(self) -> None:
        """Synchronise offsets if the interval has passed."""
        if self._context.now >= self._sync_at:
            self._sync_at = self._context.now + self._context.settings.sync_seconds
            self.sync_offsets()

    def pull(self, pull: FetchRequest, *, waits: bool) -> None:
        """Answer with messages, with the master, or that the group is being transferred."""
        key, offset = (pull.consumer, pull.topic), -1
        records: tuple[MessageRecord, ...] = ()
        verdict = "moved" if not self._lease.held else "wait" if waits else "stored"
        if verdict == "stored":
            self._register(key, pull.client, begins=pull.offset < 0)
            offset = self._state.offsets.get(key, 0) if pull.offset < 0 else pull.offset
            offset, records = self._state.read(pull.topic, offset, pull.max_messages)
            self._metrics.count_fetched(records)
        answer = FetchResponse(
            pull.consumer, pull.topic, pull.number, verdict, offset, records, self._state.writer
        )
        self._context.send(pull.client, self._number, answer)

    def _register(self, key: tuple[str, str], client: str, *, begins: bool) -> None:
        registered = self.consumers.get(key, client)
        if registered != client and not begins:
            self.displaced.add((key, client))
            return
        if registered != client:
            self.displaced.add((key, registered))
        self.displaced.discard((key, client))
        self.consumers[key] = client
        self.departed.discard(key)

    @property
    def all_known(self) -> bool:
        """Whether each consumer that has read here is registered or has left, so that no other one has
        messages.
        """
        return not self.departed and not self.displaced

    def request_offsets(self, cycle: int) -> set[tuple[str, str]]:
        """Request the offset of each consumer; the requested consumers."""
        for (consumer, topic), client in self.consumers.items():
            self._context.send(client, self._number, RequestOffset(consumer, topic, cycle))
        return set(self.consumers)

    def lost(self, client: str) -> set[tuple[str, str]]:
        """Note a lost client: its consumers get no request, and may have read more than they uploaded."""
        lost = {key for key, of in self.consumers.items() if of == client}
        for key in lost:
            del self.consumers[key]
        displaced = {(key, of) for key, of in self.displaced if of == client}
        self.displaced -= displaced
        # Where another client is registered, its next pull shows that it is the one that reads.
        self.departed |= lost | {key for key, _ in displaced}
        return lost

    def upload(self, upload: OffsetUpload) -> bool:
        """Note the offset of a consumer, and whether it leaves; False if this node is not master."""
        key = upload.consumer, upload.topic
        if not self._lease.held:
            return False
        if upload.leaves and self.consumers.get(key) == upload.client:
            del self.consumers[key]
        kept = self._state.offsets.get(key, 0)
        if upload.offset <= kept:
            self._context.send(upload.client, self._number, OffsetCommitted(*key, kept))
            return True
        known = self.uploads.get(key, ("", 0))[1]
        self.uploads[key] = upload.client, max(upload.offset, known)
        if upload.leaves:
            self.sync_offsets()
        return True

    def sync_offsets(self) -> None:
        """Propose the uploaded offsets, in as many entries as necessary."""
        if not self.uploads or not self._lease.held:
            return
        offsets, size = list[tuple[str, str, int]](), 0
        for key, (_, offset) in sorted(self.uploads.items()):
            size += offset_bytes(*key)
            if size > ENTRY_BYTES:
                self._log.propose(SyncOffsets(self._state.fence, tuple(offsets)))
                offsets, size = [], offset_bytes(*key)
            offsets.append((*key, offset))
        self._log.propose(SyncOffsets(self._state.fence, tuple(offsets)))

    def offsets_committed(self, offsets: tuple[tuple[str, str, int], ...]) -> None:
        """Notify the clients whose offsets are chosen."""
        for consumer, topic, offset in offsets:
            client, uploaded = self.uploads.get((consumer, topic), ("", -1))
            if client and uploaded <= offset:
                del self.uploads[consumer, topic]
                if self._lease.held:
                    self._context.send(client, self._number, OffsetCommitted(consumer, topic, offset))

    def fenced(self) -> None:
        """Forget consumers and proposals of the old fence, because another node serves them now."""
        self._log.discard_pending(SyncOffsets)
        self.consumers.clear()
        self.uploads.clear()
        self.departed.clear()
        self.displaced.clear()
