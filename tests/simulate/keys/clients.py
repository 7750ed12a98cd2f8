"""Producers and consumers of a world, with what is on its way between them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from trimtab_keys.core.order.messages import OrderedRecord, ReadEnds
from trimtab_keys.core.order.receiver import OrderedReceiver
from trimtab_keys.core.order.sender import OrderedSender


class SimulatedLogEntry(NamedTuple):
    """A record on its way or in a log; without a record it is a marker, as transactions write them."""

    record: OrderedRecord | None
    number: int
    sent: int = 0
    since: float = 0.0


@dataclass(slots=True)
class SimulatedKeyProducer:
    """One run of a producer, with what is on its way to each partition, and the runs before it."""

    name: str
    sender: OrderedSender
    to_send: deque[bytes]
    flying: list[deque[SimulatedLogEntry]]
    numbers: dict[bytes, int] = field(default_factory=dict)
    sent: int = 0
    before: tuple[str, ...] = ()
    flush: tuple[int, int] | None = None
    ends: ReadEnds | None = None


@dataclass(slots=True)
class SimulatedKeyConsumer:
    """A consumer, with the records that it keeps, and those of them that it may let take effect."""

    receiver: OrderedReceiver
    ready: deque[tuple[int, int]] = field(default_factory=deque)
    retained: set[tuple[int, int]] = field(default_factory=set)
