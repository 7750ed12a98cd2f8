"""What a producer and a consumer decide: which node to ask, what to send again, and when.

Both sessions survive redirects, transfers and the failure of nodes. They are pure; `trimtab_store.clients`
sends their messages.
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
    """What one producer sends to one topic; facts go in with their time, orders and what was stored come out.

    A message keeps its number through redirects, transfers and failures, so that it is counted once however
    often it is sent. Until a node has stored a message, the producer sends it one message only, its oldest:
    a node that is not the master costs one message, however many wait. Once that one is stored, the rest
    follows.

    Every message carries the number of its attempt. A new attempt begins when a node refuses a message or its
    connection ends; refusals of an earlier attempt come late and change nothing. What an attempt has sent to
    a node, and the node has not answered, is under way there and is not sent to it again.

    Parameters
    ----------
    client
        Under this name nodes know the connection that answers come to.
    producer
        No other producer of the topic has this name, none before it either: a number that was stored once is
        stored for good, whatever a second message of the same number holds.
    master
        The node that is asked first.
    timeout_seconds
        After that long without an answer another node is asked.
    again_seconds, most_again_seconds
        At least so long between two rounds of sending; doubled with each round after which nothing was
        stored, up to the second.

    Attributes
    ----------
    open
        Sequence to message, of those of which nobody has said that they are stored; in order.
    last
        The sequence given out last.
    sent
        Messages sent so far, each as often as it was.
    unfit
        The sequence of an open message that no node takes; None if there is none. Nothing behind it will ever
        be stored.
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
        """Take a message in; its sequence is `last` then."""
        self.last += 1
        self.open[self.last] = MessageRecord(self._topic, self._producer, self.last, payload)
        if self._try_at < inf or (not self._accepted and len(self.open) > 1):
            return []  # goes with a later round, behind those before it
        self._requested_at = min(self._requested_at, now)
        return [self._order(self.last)]

    def received(self, now: float, node: int, text: ProduceResponse) -> list[int]:
        """Hear what became of a message; the sequences that are stored by that."""
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
        """The connection to a node has ended: what was on its way may be lost."""
        self._forget(node)
        if node == self.master:
            self.master, self._accepted = self._next(), False
            if self.open:
                self._wake_soon(now)

    def next_deadline(self) -> float:
        """When to go on though nothing happened."""
        return min(self._try_at, self._requested_at + self._timeout)

    def tick(self, now: float) -> list[SendMessage]:
        """Send what is open and not under way at the master, if it is time."""
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
        """Nothing is under way at a node any more; what it still says of this attempt comes late."""
        self._last_attempt += 1
        self._attempts[node], self._sent[node] = self._last_attempt, 0

    def _next(self) -> int:
        return (self.master + 1) % self._nodes

    def _wake_soon(self, now: float) -> None:
        if self._try_at == inf:
            self._try_at = max(now, self._round_at + self._pause)


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
