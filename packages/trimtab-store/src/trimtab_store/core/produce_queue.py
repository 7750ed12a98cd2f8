"""What producers send to a group, at one node: batched, held until it may be written, sent on or back."""

from __future__ import annotations

from collections import deque
from math import inf

from trimtab_store.core.bounds import ENTRY_BYTES, UNFIT, fits, record_bytes
from trimtab_store.core.entries import AppendMessages, MessageRecord
from trimtab_store.core.group_metrics import GroupMetrics
from trimtab_store.core.lease import MastershipLease
from trimtab_store.core.log import GroupLog
from trimtab_store.core.messages import ForwardMessage, ProduceRequest, ProduceResponse
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.state import GroupState


class ProduceQueue:
    """Messages of one group's producers, from their coming until their answer.

    Attributes
    ----------
    pending
        (topic, producer, sequence) to the client and its last attempt, of messages that are batched or
        proposed. A message that comes again meanwhile is not proposed again.
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
        """When a batch is to be proposed, or what is held to be sent back."""
        return min(self._batch_until, self._held_until)

    def tick(self) -> None:
        """Do what is due."""
        if self._context.now >= self._batch_until:
            self.flush()
        if self._context.now >= self._held_until:
            self._release()

    @property
    def held_since(self) -> float | None:
        """When the oldest message came that waits until this node may write; None if there is none."""
        return self._held_until - self._context.settings.propose_seconds if self._held else None

    @property
    def writes(self) -> bool:
        """Whether this node may propose messages: as master within its term, or named by a transfer."""
        acting = self._state.preferred == self._context.node and self._context.now < self._lease.acting_until
        return acting or self._lease.held

    def publish(self, publish: ProduceRequest, *, handed_to: int | None, named_soon: bool) -> None:
        """Batch a message, send it on, hold it, or say who is master or that nobody takes it.

        Parameters
        ----------
        handed_to
            The preferred node, once this one hands the group over to it.
        named_soon
            Whether a transfer to this node goes on.
        """
        if not fits(publish.record):
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
        if record.sequence <= self._state.sequences.get((record.topic, record.producer), 0):
            self._send_back(publish, "stored")
            return
        key, begun = (record.topic, record.producer, record.sequence), len(self.pending)
        self.pending[key] = publish.client, publish.attempt
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
        """Propose the batch."""
        if self._batch:
            self._metrics.proposed(self._batch[0], self._context.now)
            self._log.propose(AppendMessages(self._state.fence, tuple(self._batch)))
        self._forget_batch()

    def _forget_batch(self) -> None:
        self._batch, self._batch_bytes, self._entry_bytes, self._batch_until = [], 0, 0, inf

    def applied(self, records: tuple[MessageRecord, ...], verdicts: tuple[str, ...]) -> None:
        """Answer for a batch, whoever proposed it."""
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
        """Somebody else may write now: what was begun under the old fence is void wherever it is chosen.

        So it is where the state was replaced by a snapshot: what that passes over is not applied here.
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
