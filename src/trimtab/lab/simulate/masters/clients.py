"""Producers and consumers of a group, which know nothing but what masters tell them."""

from __future__ import annotations

from typing import Any

from trimtab.lab.simulate.masters.machine import Stage
from trimtab.online.masters.entries import Record
from trimtab.online.masters.messages import (
    AskUpload,
    OffsetKept,
    Publish,
    Published,
    Pull,
    Pulled,
    Upload,
)

PATIENCE_SECONDS = 1.0
WINDOW = 3
MOST = 10
"""Messages that a consumer asks for at once."""


class Producer:
    """Sends numbered messages, up to three at once, and again until they are stored."""

    def __init__(self, world: Stage, name: str, group: int, topic: str, interval_seconds: float) -> None:
        self._world, self.name, self._group, self._topic = world, name, group, topic
        self._interval = interval_seconds
        self._master = 0
        self._last = 0
        self._open: dict[int, float] = {}
        self.stored = 0

    def tick(self) -> None:
        """Send what is new, and what nobody has answered."""
        world = self._world
        if len(self._open) < WINDOW and not world.closing:
            self._last += 1
            self._send(self._last)
        if any(world.now - sent >= PATIENCE_SECONDS for sent in self._open.values()):
            self._master = world.any_node()
            for again in sorted(self._open):
                self._send(again)
        world.at(world.now + self._interval * (0.5 + world.chance.random()), self.tick)

    def _send(self, sequence: int) -> None:
        self._open[sequence] = self._world.now
        self._world.histories.appends(self._world.now, self._group, (self.name, sequence))
        record = Record(self._topic, self.name, sequence, b"%d" % sequence)
        self._world.transmit(self.name, self._master, self._group, Publish(self.name, record))

    def received(self, sender: int, message: Any) -> None:
        """Hear what became of a message."""
        if not isinstance(message, Published) or message.sequence not in self._open:
            return
        if message.verdict == "stored":
            del self._open[message.sequence]
            self.stored += 1
            self._world.histories.appended(self._world.now, self._group, (self.name, message.sequence))
            self._world.watching.stored(self._group, message)
            return
        if message.verdict == "moved":
            self._master = message.master if message.master >= 0 else self._world.any_node()
        # Soon again, but not at once: there may be no master for a while.
        self._open[message.sequence] = self._world.now - PATIENCE_SECONDS * 0.8


class Consumer:
    """Pulls messages, from where it is or a new master says that it is, and hands in how far it is.

    Attributes
    ----------
    position
        All messages before this one were taken.
    kept
        The highest offset of which a master said that it is kept.
    kept_before
        The same, when it asked last.
    fence
        Of the master that answered last, when it did; noted by the checkers.
    """

    def __init__(self, world: Stage, name: str, group: int, topic: str, interval_seconds: float) -> None:
        self._world, self.name, self.group, self.topic = world, name, group, topic
        self._interval = interval_seconds
        self._master = self._number = 0
        self._asked_at: float | None = None
        self._session = -1
        self.position = self.kept = self.kept_before = self.fence = 0

    def tick(self) -> None:
        """Ask for more, and after a long silence somebody else."""
        world = self._world
        if self._asked_at is not None and world.now - self._asked_at >= PATIENCE_SECONDS:
            self._master, self._asked_at = world.any_node(), None
        if self._asked_at is None:
            self._pull()
        if world.chance.random() < 0.3:
            self._upload(-1)
        world.at(world.now + self._interval * (0.5 + world.chance.random()), self.tick)

    def _pull(self) -> None:
        self._asked_at, self.kept_before = self._world.now, self.kept
        self._number += 1
        offset = self.position if self._master == self._session else -1
        self._world.histories.pulls(self._world.now, self.group, self.name, offset, MOST)
        pull = Pull(self.name, self.name, self.topic, self._number, offset, MOST)
        self._world.transmit(self.name, self._master, self.group, pull)

    def _upload(self, cycle: int) -> None:
        if self.position > self.kept:
            self._world.histories.keeps(self._world.now, self.group, self.name, self.position)
        upload = Upload(self.name, self.name, self.topic, self.position, cycle)
        self._world.transmit(self.name, self._master, self.group, upload)

    def received(self, sender: int, message: Any) -> None:
        """Take messages, or learn who is master."""
        match message:
            case Pulled() if message.number == self._number:
                self._asked_at = None
                self._pulled(sender, message)
            case AskUpload():
                # Whatever is on its way to here is not taken any more.
                self._number, self._asked_at, self._master = self._number + 1, None, sender
                self._upload(message.cycle)
            case OffsetKept(_, _, offset):
                self.kept = max(self.kept, offset)
                self._world.histories.kept(self._world.now, self.group, self.name, offset)

    def _pulled(self, sender: int, message: Pulled) -> None:
        if message.verdict == "moved":
            self._master = message.master if message.master >= 0 else self._world.any_node()
        elif message.verdict == "stored":
            self._world.histories.pulled(self._world.now, self.group, message)
            self._world.watching.pulled(self, message, fresh=sender != self._session)
            self._session = sender
            self.position = max(self.position, message.offset + len(message.records))
