"""The consumers of a group, at one node: what they read, and how far they are."""

from __future__ import annotations

from math import inf

from trimtab_store.core.bounds import ENTRY_BYTES, offset_bytes
from trimtab_store.core.entries import MessageRecord, SyncOffsets
from trimtab_store.core.group_metrics import GroupMetrics
from trimtab_store.core.lease import MastershipLease
from trimtab_store.core.log import GroupLog
from trimtab_store.core.messages import (
    FetchRequest,
    FetchResponse,
    OffsetCommitted,
    OffsetUpload,
    RequestOffset,
)
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.state import GroupState


class ConsumerSessions:
    """Consumers of one group; known to its master only.

    Attributes
    ----------
    consumers
        (consumer, topic) to the client that reads here.
    uploads
        (consumer, topic) to client and offset, until it is chosen.
    departed
        Each (consumer, topic) whose client has gone without a word, and has not come back.
    displaced
        Each (consumer, topic) and client that read here beside the registered one, and whose connection is
        not known to have ended. Which of the two is the later life cannot be told: a process that was killed
        may have sent messages that arrive after the first ones of its successor.
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
        """When offsets are to be proposed."""
        return self._sync_at if self.uploads else inf

    def tick(self) -> None:
        """Do what is due."""
        if self._context.now >= self._sync_at:
            self._sync_at = self._context.now + self._context.settings.sync_seconds
            self.sync_offsets()

    def pull(self, pull: FetchRequest, *, waits: bool) -> None:
        """Hand out messages; or say who is master, or that the group is being handed over."""
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
        """Whether each consumer that has read here is registered or has left: no other one has anything."""
        return not self.departed and not self.displaced

    def request_offsets(self, cycle: int) -> set[tuple[str, str]]:
        """Ask each consumer how far it is; which there are."""
        for (consumer, topic), client in self.consumers.items():
            self._context.send(client, self._number, RequestOffset(consumer, topic, cycle))
        return set(self.consumers)

    def lost(self, client: str) -> set[tuple[str, str]]:
        """A client has gone: its consumers are not asked, and may have got more than they have handed in."""
        lost = {key for key, of in self.consumers.items() if of == client}
        for key in lost:
            del self.consumers[key]
        displaced = {(key, of) for key, of in self.displaced if of == client}
        self.displaced -= displaced
        # Where another client is registered, its next pull shows that it is the one that reads.
        self.departed |= lost | {key for key, _ in displaced}
        return lost

    def upload(self, upload: OffsetUpload) -> bool:
        """Note how far a consumer is, and whether it leaves; False where this node is no master."""
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
        """Propose the offsets that were handed in, in as many entries as they need."""
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
        """Offsets are chosen: tell whoever handed them in."""
        for consumer, topic, offset in offsets:
            client, uploaded = self.uploads.get((consumer, topic), ("", -1))
            if client and uploaded <= offset:
                del self.uploads[consumer, topic]
                if self._lease.held:
                    self._context.send(client, self._number, OffsetCommitted(consumer, topic, offset))

    def fenced(self) -> None:
        """Somebody else serves them now, and what was proposed under the old fence is void."""
        self._log.discard_pending(SyncOffsets)
        self.consumers.clear()
        self.uploads.clear()
        self.departed.clear()
        self.displaced.clear()
