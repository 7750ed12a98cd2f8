"""A producer's side of a group: messages numbered, sent in their order, and again until they are stored."""

from __future__ import annotations

from math import inf

from trimtab_store.core.bounds import UNFIT
from trimtab_store.core.entries import MessageRecord
from trimtab_store.core.messages import ProduceRequest, ProduceResponse, SendMessage


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

    __slots__ = (
        "_accepted",
        "_again",
        "_attempts",
        "_client",
        "_group",
        "_last_attempt",
        "_most_again",
        "_nodes",
        "_pause",
        "_producer",
        "_requested_at",
        "_round_at",
        "_sent",
        "_suspected",
        "_timeout",
        "_topic",
        "_try_at",
        "last",
        "master",
        "open",
        "sent",
        "unfit",
    )  # fmt: skip

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
