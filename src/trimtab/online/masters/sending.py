"""A producer's side of a group: messages numbered, sent in their order, and again until they are stored."""

from __future__ import annotations

from math import inf

from trimtab.online.masters.bounds import UNFIT
from trimtab.online.masters.entries import Record
from trimtab.online.masters.messages import Publish, Published, Send


class Sending:
    """What one producer sends to one topic; facts go in with their time, orders and what was stored come out.

    A message keeps its number through redirects, takeovers and failures, so that it is counted once however
    often it is sent.

    Parameters
    ----------
    client
        Under this name nodes know the connection that answers come to.
    producer
        No other producer of the topic has this name, none before it either: a number that was stored once is
        stored for good, whatever a second message of the same number holds.
    master
        The node that is asked first.
    patience_seconds
        After that long without an answer another node is asked.
    again_seconds
        At least so long between two rounds in which everything is sent again.

    Attributes
    ----------
    open
        Sequence to message, of those of which nobody has said that they are stored; in order.
    last
        The sequence given out last.
    unfit
        The sequence of an open message that no node takes; None if there is none. Nothing behind it will ever
        be stored.
    """

    __slots__ = (
        "_again", "_asked_at", "_client", "_group", "_nodes", "_patience", "_producer", "_sent_again",
        "_topic", "_try_at", "last", "master", "open", "unfit",
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
        patience_seconds: float = 1.0,
        again_seconds: float = 0.02,
    ) -> None:
        self._client, self._group, self._topic, self._producer = client, group, topic, producer
        self._nodes, self.master = nodes, master
        self._patience, self._again = patience_seconds, again_seconds
        self.open: dict[int, Record] = {}
        self.last = 0
        self.unfit: int | None = None
        self._asked_at = self._try_at = inf
        self._sent_again = -inf

    def post(self, now: float, payload: bytes) -> list[Send]:
        """Take a message in; its sequence is `last` then."""
        self.last += 1
        record = self.open[self.last] = Record(self._topic, self._producer, self.last, payload)
        if self._try_at < inf:
            return []  # goes with the next round, behind those before it
        self._asked_at = min(self._asked_at, now)
        return [self._order(record)]

    def received(self, now: float, node: int, told: Published) -> list[int]:
        """Hear what became of a message; the sequences that are stored by that."""
        if (told.topic, told.producer) != (self._topic, self._producer):
            return []
        if told.verdict == "stored":
            # A message counts behind those before it alone: they are stored, too.
            stored = [sequence for sequence in self.open if sequence <= told.sequence]
            for sequence in stored:
                del self.open[sequence]
            if stored:
                self._asked_at = now if self.open else inf
            return stored
        if told.sequence in self.open and told.verdict == UNFIT:
            self.unfit = told.sequence
        elif told.sequence in self.open:
            # Others than the master answer what was forwarded to them, or was sent long ago.
            if told.verdict == "moved" and node == self.master:
                self.master = told.master if told.master not in (-1, node) else self._next()
            self._soon(now)
        return []

    def lost(self, now: float, node: int) -> None:
        """The connection to a node has ended: what was on its way may be lost."""
        if node == self.master:
            self.master = self._next()
            if self.open:
                self._soon(now)

    def due(self) -> float:
        """When to go on though nothing happened."""
        return min(self._try_at, self._asked_at + self._patience)

    def go_on(self, now: float) -> list[Send]:
        """Send everything again that is open, if it is time."""
        if self._try_at > now:
            if now - self._asked_at < self._patience:
                return []
            self.master = self._next()
        self._try_at, self._sent_again = inf, now
        self._asked_at = now if self.open else inf
        return [self._order(record) for record in self.open.values()]

    def _next(self) -> int:
        return (self.master + 1) % self._nodes

    def _soon(self, now: float) -> None:
        if self._try_at == inf:
            self._try_at = max(now, self._sent_again + self._again)

    def _order(self, record: Record) -> Send:
        return Send(self.master, self._group, Publish(self._client, record), False)
