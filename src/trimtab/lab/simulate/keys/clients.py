"""Producers and consumers of a world, with what is on its way between them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from trimtab.online.keys.order.messages import ReadEnds, Record
from trimtab.online.keys.order.receiver import Receiver
from trimtab.online.keys.order.sender import Sender


class Entry(NamedTuple):
    """A record on its way or in a log; without a record it is a marker, as transactions write them."""

    record: Record | None
    number: int
    sent: int = 0
    since: float = 0.0


@dataclass(slots=True)
class Producer:
    """One run of a producer, with what is on its way to each partition, and the runs before it."""

    name: str
    sender: Sender
    to_send: deque[bytes]
    flying: list[deque[Entry]]
    numbers: dict[bytes, int] = field(default_factory=dict)
    sent: int = 0
    before: tuple[str, ...] = ()
    flush: tuple[int, int] | None = None
    ends: ReadEnds | None = None


@dataclass(slots=True)
class Consumer:
    """A consumer, with the records that it keeps, and those of them that it may let take effect."""

    receiver: Receiver
    ready: deque[tuple[int, int]] = field(default_factory=deque)
    kept: set[tuple[int, int]] = field(default_factory=set)
