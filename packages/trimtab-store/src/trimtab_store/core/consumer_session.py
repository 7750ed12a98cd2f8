"""A consumer's side of a group: messages pulled in their order, and offsets that the master keeps."""

from __future__ import annotations

from math import inf

from trimtab_store.core.entries import MessageRecord
from trimtab_store.core.messages import (
    FetchRequest,
    FetchResponse,
    OffsetCommitted,
    OffsetUpload,
    RequestOffset,
    SendMessage,
)


class ConsumerSession:
    """How one consumer reads one topic; facts go in with their time, orders and messages come out.

    It begins where the master says that its offset was kept. From there on it knows itself how far it is, so
    that neither a transfer nor a failure gives it anything twice; a later consumer of the name goes on from
    what was kept.

    Parameters
    ----------
    client
        Under this name nodes know the connection that answers come to.
    consumer
        Under this name offsets are kept; one consumer of the name reads at a time.
    max_messages
        Messages that are asked for at once, and that may wait for the program.
    timeout_seconds
        After that long without an answer another node is asked.
    again_seconds, most_again_seconds
        Between two questions while there is no master; doubled with each redirect, up to the second.
    idle_seconds
        Between two questions while there is nothing new.
    keep_seconds
        How often the offset is handed in.

    Attributes
    ----------
    position
        The next offset to ask for; None until a master has said where to begin.
    done, committed_offset
        All messages before `done` are worked off, and it is chosen that those before `kept` are.
    has_capacity
        Messages for which the program has room.
    left
        Whether the master has heard that this consumer leaves, and its offset is kept.
    """

    __slots__ = (
        "_again",
        "_client",
        "_consumer",
        "_group",
        "_idle",
        "_keep",
        "_leaves",
        "_max_messages",
        "_most_again",
        "_next_at",
        "_nodes",
        "_number",
        "_pause",
        "_requested_at",
        "_timeout",
        "_topic",
        "_upload_at",
        "committed_offset",
        "done",
        "has_capacity",
        "left",
        "master",
        "position",
    )  # fmt: skip

    def __init__(
        self,
        client: str,
        group: int,
        topic: str,
        consumer: str,
        *,
        nodes: int,
        master: int = 0,
        max_messages: int = 100,
        timeout_seconds: float = 1.0,
        again_seconds: float = 0.02,
        most_again_seconds: float = 0.32,
        idle_seconds: float = 0.02,
        keep_seconds: float = 0.5,
    ) -> None:
        self._client, self._group, self._topic, self._consumer = client, group, topic, consumer
        self._nodes, self.master, self._max_messages = nodes, master, max_messages
        self._timeout, self._again, self._most_again = timeout_seconds, again_seconds, most_again_seconds
        self._pause = again_seconds
        self._idle, self._keep = idle_seconds, keep_seconds
        self.position: int | None = None
        self.done = self.committed_offset = self._number = 0
        self.has_capacity = max_messages
        self._leaves = self.left = False
        self._requested_at = self._upload_at = inf
        self._next_at = -inf

    def received(
        self, now: float, node: int, message: object
    ) -> tuple[list[SendMessage], tuple[MessageRecord, ...]]:
        """Hear from a node: orders, and messages for the program, the last of them just before `position`."""
        match message:
            case FetchResponse() if (message.consumer, message.topic) != (self._consumer, self._topic):
                pass
            case FetchResponse() if message.number == self._number and self._requested_at < inf:
                self._requested_at = inf
                return [], self._pulled(now, node, message)
            case RequestOffset(consumer, topic, cycle) if (consumer, topic) == (self._consumer, self._topic):
                return [self._upload(node, cycle)], ()
            case OffsetCommitted(consumer, topic, offset) if (consumer, topic) == (
                self._consumer,
                self._topic,
            ):
                self.committed_offset = max(self.committed_offset, offset)
                if self.committed_offset >= self.done:
                    self._upload_at, self.left = inf, self._leaves
        return [], ()

    def _pulled(self, now: float, node: int, text: FetchResponse) -> tuple[MessageRecord, ...]:
        if text.verdict == "moved":
            self.master = text.master if text.master not in (-1, node) else self._next()
            self._next_at = now + self._longer()
            return ()
        if text.verdict == "wait":
            self._next_at = now + self._again
            return ()
        self._pause = self._again
        if self.position is None:
            self.done = self.committed_offset = text.offset
        # Further than asked where what was asked for is kept no more.
        self.position = text.offset + len(text.records)
        self.has_capacity -= len(text.records)
        self._next_at = now if text.records else now + self._idle
        return text.records

    def work_off(self, now: float, offset: int) -> None:
        """All messages before an offset are worked off."""
        if offset > self.done:
            self.done = offset
            if self._upload_at == inf:
                self._upload_at = now + self._keep

    def keep_now(self, now: float) -> None:
        """Hand the offset in with the next `go_on`, if it is not kept already."""
        if self.committed_offset < self.done:
            self._upload_at = now

    def leave(self, now: float) -> None:
        """Read no more, and say so with the next `go_on`: the master hands the offset in and asks no more."""
        self._leaves, self._upload_at, self.has_capacity = True, now, 0

    def lost(self, now: float, node: int) -> None:
        """The connection to a node has ended: an answer that was on its way may be lost."""
        if node == self.master:
            self.master, self._requested_at = self._next(), inf
            self._next_at = now + self._again
            if self.committed_offset < self.done:
                self._upload_at = min(self._upload_at, now + self._keep)

    def next_deadline(self) -> float:
        """When to go on though nothing happened."""
        at = min(self._requested_at + self._timeout, self._upload_at)
        return min(at, self._next_at) if self._requested_at == inf and self.has_capacity > 0 else at

    def tick(self, now: float) -> list[SendMessage]:
        """Ask for more, hand in the offset, and after a long silence ask another node."""
        orders = []
        if now >= self._requested_at + self._timeout:
            self.master, self._requested_at = self._next(), inf
            self._next_at = now
        if now >= self._upload_at:
            # Whoever is not master says nothing to it; a question finds the one who is, and goes before it:
            # whoever asks is a consumer again.
            self._upload_at = now + (self._longer() if self._leaves else self._keep)
            if self._requested_at == inf and self.has_capacity <= 0:
                orders.append(self._pull(now, 0))
            orders.append(self._upload(self.master, -1))
        if self._requested_at == inf and self.has_capacity > 0 and now >= self._next_at:
            orders.append(self._pull(now, min(self._max_messages, self.has_capacity)))
        return orders

    def _pull(self, now: float, max_messages: int) -> SendMessage:
        self._number += 1
        self._requested_at = now
        offset = -1 if self.position is None else self.position
        pull = FetchRequest(self._client, self._consumer, self._topic, self._number, offset, max_messages)
        return SendMessage(self.master, self._group, pull, False)

    def _upload(self, node: int, cycle: int) -> SendMessage:
        upload = OffsetUpload(self._client, self._consumer, self._topic, self.done, cycle, self._leaves)
        return SendMessage(node, self._group, upload, False)

    def _longer(self) -> float:
        """How long to wait now; longer each time, until a master answers."""
        pause, self._pause = self._pause, min(2 * self._pause, self._most_again)
        return pause

    def _next(self) -> int:
        return (self.master + 1) % self._nodes
