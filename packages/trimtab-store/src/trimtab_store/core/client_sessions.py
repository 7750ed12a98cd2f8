"""Decisions of a producer and a consumer: which node to send to, what to repeat, and when.

Both sessions survive redirects, transfers and node failures. They are pure; `trimtab_store.clients` sends
their messages.
"""

from __future__ import annotations

from math import inf

from trimtab_store.core.messages import (
    UNFIT,
    FetchRequest,
    FetchResponse,
    MessageRecord,
    OffsetCommitted,
    OffsetUpload,
    ProduceRequest,
    ProduceResponse,
    RequestOffset,
    SendMessage,
)


class ProducerSession:
    """The messages of one producer to one topic. Events go in with their time; effects and stored sequences
    come out.

    A message keeps its sequence through redirects, transfers and failures, so it counts once however often it
    is sent. Until a node has stored a message, the producer sends only its oldest one. A node that is not
    master costs one message, however many wait.

    Every message carries the number of its attempt. A new attempt begins when a node rejects a message or its
    connection ends. Late rejections of an earlier attempt change nothing. Messages that an attempt has sent
    to a node, and that are not answered, are not sent there again.

    Parameters
    ----------
    client
        Name of the client, to which nodes send answers.
    producer
        A name that no other producer of the topic has or had: a stored sequence is final, whatever a second
        message with this sequence contains.
    master
        The node to try first.
    timeout_seconds
        Time without an answer after which the next node is tried.
    again_seconds, most_again_seconds
        Minimum time between two rounds of sending. It doubles after each round without a stored message, up
        to the second value.

    Attributes
    ----------
    open
        Sequence to message, for messages that are not known to be stored; in order.
    last
        The last sequence.
    sent
        Number of messages sent, repetitions included.
    unfit
        The sequence of an open message that no node accepts, or None. No later message will be stored.
    """

    def __init__(
        self,
        client: str,
        group: int,
        topic: str,
        producer: str,
        *,
        nodes: int,
        master: int = 0,
        timeout_seconds: float = 1.0,
        again_seconds: float = 0.02,
        most_again_seconds: float = 0.32,
    ) -> None:
        self._client, self._group, self._topic, self._producer = client, group, topic, producer
        self._nodes, self.master = nodes, master
        self._timeout, self._again, self._most_again = timeout_seconds, again_seconds, most_again_seconds
        self.open: dict[int, MessageRecord] = {}
        self.last = self.sent = 0
        self.unfit: int | None = None
        self._requested_at = self._try_at = inf
        self._round_at, self._pause = -inf, again_seconds
        # Node to its attempt, and to the last sequence that the attempt has sent there.
        self._attempts, self._sent = list(range(nodes)), [0] * nodes
        self._last_attempt = nodes - 1
        self._accepted = self._suspected = False

    def post(self, now: float, payload: bytes) -> list[SendMessage]:
        """Accept a message; its sequence is `last` afterwards."""
        self.last += 1
        self.open[self.last] = MessageRecord(self._topic, self._producer, self.last, payload)
        if self._try_at < inf or (not self._accepted and len(self.open) > 1):
            return []  # goes with a later round, behind those before it
        self._requested_at = min(self._requested_at, now)
        return [self._order(self.last)]

    def received(self, now: float, node: int, text: ProduceResponse) -> list[int]:
        """Handle the answer to a message; the sequences that it shows to be stored."""
        if (text.topic, text.producer) != (self._topic, self._producer):
            return []
        if text.verdict == "stored":
            return self._stored(now, text)
        if text.sequence in self.open and text.verdict == UNFIT:
            self.unfit = text.sequence
        elif text.sequence in self.open and text.attempt == self._attempts[self.master]:
            self._forget(self.master)
            # Others than the master answer what was forwarded to them.
            if text.verdict == "moved" and node == self.master:
                self.master = text.master if text.master not in (-1, node) else self._next()
            self._accepted = False
            self._wake_soon(now)
        return []

    def _stored(self, now: float, text: ProduceResponse) -> list[int]:
        # A message counts behind those before it alone: they are stored, too.
        stored = [sequence for sequence in self.open if sequence <= text.sequence]
        for sequence in stored:
            del self.open[sequence]
        if stored:
            self._requested_at = now if self.open else inf
            self._pause = self._again
            self._suspected = self._suspected and len(stored) == 1 and not self._accepted
            waits = not self._accepted
            self._accepted = self._accepted or text.attempt == self._attempts[self.master]
            if waits and self.open:
                self._try_at = now
        return stored

    def lost(self, now: float, node: int) -> None:
        """Handle the end of a connection: messages in flight may be lost."""
        self._forget(node)
        if node == self.master:
            self.master, self._accepted = self._next(), False
            if self.open:
                self._wake_soon(now)

    def next_deadline(self) -> float:
        """Time at which `tick` must run next."""
        return min(self._try_at, self._requested_at + self._timeout)

    def tick(self, now: float) -> list[SendMessage]:
        """Send open messages that are not in flight at the master, if it is time."""
        if self._try_at > now:
            if now < self._requested_at + self._timeout:
                return []
            if self._suspected:
                # Nothing but the oldest was stored since the last silence: the others may be lost.
                for node in range(self._nodes):
                    self._forget(node)
            self.master, self._accepted, self._suspected = self._next(), False, True
        self._pause = min(2 * self._pause, self._most_again)
        self._try_at, self._round_at = inf, now
        self._requested_at = now if self.open else inf
        if not self._accepted:
            return [self._order(oldest) for oldest in [*self.open][:1]]
        sent = self._sent[self.master]
        return [self._order(sequence) for sequence in self.open if sequence > sent]

    def _order(self, sequence: int) -> SendMessage:
        master = self.master
        self.sent += 1
        self._sent[master] = max(self._sent[master], sequence)
        publish = ProduceRequest(self._client, self.open[sequence], self._attempts[master])
        return SendMessage(master, self._group, publish, False)

    def _forget(self, node: int) -> None:
        """Count nothing as in flight at a node any more; its later answers to this attempt are late."""
        self._last_attempt += 1
        self._attempts[node], self._sent[node] = self._last_attempt, 0

    def _next(self) -> int:
        return (self.master + 1) % self._nodes

    def _wake_soon(self, now: float) -> None:
        if self._try_at == inf:
            self._try_at = max(now, self._round_at + self._pause)


class ConsumerSession:
    """The reading of one topic by one consumer. Events go in with their time; effects and messages come out.

    It starts at its stored offset, as the master reports it. From then on it knows its position, so neither a
    transfer nor a failure repeats a message. A later consumer of the same name continues at the stored
    offset.

    Parameters
    ----------
    client
        Name of the client, to which nodes send answers.
    consumer
        Name of its offsets; one consumer of a name reads at a time.
    max_messages
        Maximum number of messages per request, and of messages that wait for the program.
    timeout_seconds
        Time without an answer after which the next node is tried.
    again_seconds, most_again_seconds
        Interval of requests while there is no master. It doubles with each redirect, up to the second value.
    idle_seconds
        Interval of requests while there are no new messages.
    keep_seconds
        Interval of uploads of the offset.

    Attributes
    ----------
    position
        The next offset to request; None until a master has reported the start.
    done, committed_offset
        All messages before `done` are processed; the offset `committed_offset` is chosen.
    has_capacity
        Number of messages for which the program has room.
    left
        Whether the master knows that this consumer leaves, and its offset is stored.
    """

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
        """Handle a message of a node: effects, and messages for the program, the last one just before
        `position`.
        """
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
        """Note that all messages before an offset are processed."""
        if offset > self.done:
            self.done = offset
            if self._upload_at == inf:
                self._upload_at = now + self._keep

    def keep_now(self, now: float) -> None:
        """Upload the offset with the next `tick`, unless it is stored already."""
        if self.committed_offset < self.done:
            self._upload_at = now

    def leave(self, now: float) -> None:
        """Stop reading, and report it with the next `tick`; the master then sends no further requests."""
        self._leaves, self._upload_at, self.has_capacity = True, now, 0

    def lost(self, now: float, node: int) -> None:
        """Handle the end of a connection: an answer in flight may be lost."""
        if node == self.master:
            self.master, self._requested_at = self._next(), inf
            self._next_at = now + self._again
            if self.committed_offset < self.done:
                self._upload_at = min(self._upload_at, now + self._keep)

    def next_deadline(self) -> float:
        """Time at which `tick` must run next."""
        at = min(self._requested_at + self._timeout, self._upload_at)
        return min(at, self._next_at) if self._requested_at == inf and self.has_capacity > 0 else at

    def tick(self, now: float) -> list[SendMessage]:
        """Request messages, upload the offset, and try another node after a long silence."""
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
        """The current waiting time; it grows until a master answers."""
        pause, self._pause = self._pause, min(2 * self._pause, self._most_again)
        return pause

    def _next(self) -> int:
        return (self.master + 1) % self._nodes
