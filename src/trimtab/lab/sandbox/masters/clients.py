"""Producers and consumers of every group of a store, and the ledger that checks each of their messages."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from trimtab_store.clients.cluster import StoreConfig
from trimtab_store.clients.consumer import Consumer, StoredMessage
from trimtab_store.clients.producer import Producer


class StoreViolation(AssertionError):
    """A guarantee of the order guard was violated."""


def payload(producer: str, sequence: int, size: int = 0) -> bytes:
    """What a message holds: whose it is, and which one, filled up to a size."""
    return f"{producer} {sequence} ".encode().ljust(size, b".")


class MessageLedger:
    """Of one topic.

    Attributes
    ----------
    acknowledged
        Producer to the last sequence of which it was told that it is stored.
    log
        Producer and sequence of what consumers have read, by offset.
    stored
        Consumer to the highest offset of which it was told that it is kept.
    position
        Consumer to the offset behind the last message that any consumer of the name has got.
    again
        Messages that a later consumer of a name got though an earlier one had got them.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.acknowledged: dict[str, int] = {}
        self.log: dict[int, tuple[str, int]] = {}
        self.committed: dict[str, int] = defaultdict(int)
        self.position: dict[str, int] = {}
        self.again = 0

    def stored(self, producer: str, sequence: int) -> None:
        """A producer was told that a message is stored."""
        self.acknowledged[producer] = max(sequence, self.acknowledged.get(producer, 0))

    def consumer_started(self, consumer: str, message: StoredMessage) -> None:
        """The first message of a consumer, of whose name there may have been others before."""
        kept, position = self.committed[consumer], self.position.setdefault(consumer, message.offset)
        if message.offset < kept:
            raise StoreViolation(
                f"{consumer} of {self.topic} begins at {message.offset}, and {kept} was kept"
            )
        if message.offset > position:
            raise StoreViolation(
                f"{consumer} of {self.topic} begins at {message.offset}, and was at {position}"
            )
        self.again += position - message.offset

    def read(self, consumer: str, message: StoredMessage, before: StoredMessage | None) -> None:
        """A consumer got a message, after another one or as its first."""
        if before is None:
            self.consumer_started(consumer, message)
        elif message.offset != before.offset + 1:
            raise StoreViolation(f"{consumer} of {self.topic} got {message.offset} after {before.offset}")
        if not message.payload.startswith(payload(message.producer, message.sequence)):
            raise StoreViolation(f"{consumer} of {self.topic} read {message}, which nobody sent")
        found = message.producer, message.sequence
        known = self.log.setdefault(message.offset, found)
        if known != found:
            raise StoreViolation(
                f"{consumer} of {self.topic} read {found} at {message.offset}, where {known} stood"
            )
        self.position[consumer] = max(self.position[consumer], message.offset + 1)

    def audit(self) -> int:
        """The log has been read: everything acknowledged is there, once, in order. Messages there.

        What stood there before this ledger was opened may have been let go since; what came later was read.
        """
        begin = min(self.log, default=0)
        if sorted(self.log) != list(range(begin, begin + len(self.log))):
            raise StoreViolation(f"the log of {self.topic} was read with gaps")
        last = dict.fromkeys(self.acknowledged, 0)
        for offset, (producer, sequence) in sorted(self.log.items()):
            expected = last.get(producer, 0 if begin == 0 else sequence - 1) + 1
            if sequence != expected:
                raise StoreViolation(
                    f"message {sequence} of {producer} stands at {offset} of {self.topic}, not {expected}"
                )
            last[producer] = sequence
        for producer, sequence in self.acknowledged.items():
            if last[producer] < sequence:
                raise StoreViolation(
                    f"{sequence} messages of {producer} in {self.topic} were acknowledged, and "
                    f"{last[producer]} are there"
                )
        return len(self.log)


READER = "reader"


def topics_of(cluster: StoreConfig, *, prefix: str = "topic") -> list[str]:
    """A topic for each group, in their order."""
    found: dict[int, str] = {}
    for number in count():
        topic = f"{prefix}-{number}"
        found.setdefault(cluster.group_of(topic), topic)
        if len(found) == cluster.groups:
            return [found[group] for group in range(cluster.groups)]
    raise AssertionError


class StoreClients:
    """Producers and consumers at work, until they are told to stop.

    Attributes
    ----------
    ledgers
        One for each topic.
    waits
        Seconds until each message was acknowledged, in the order of acknowledgement.
    """

    def __init__(self, cluster: StoreConfig, seed: int, *, size: int = 0) -> None:
        self._cluster, self._chance, self._size = cluster, random.Random(seed), size
        self.ledgers = {topic: MessageLedger(topic) for topic in topics_of(cluster)}
        self.waits: list[float] = []
        self.stopping = asyncio.Event()

    async def produce(self, topic: str, rate: float, text: Callable[[], None] = lambda: None) -> None:
        """Send to a topic, as from many users who know nothing of one another (a Poisson process).

        Parameters
        ----------
        rate
            Messages a second.
        text
            Called with each acknowledgement.
        """
        loop, ledger = asyncio.get_running_loop(), self.ledgers[topic]
        async with Producer(self._cluster, topic, timeout_seconds=None) as producer:
            due = loop.time()
            for sequence in count(1):
                due = max(due + self._chance.expovariate(rate), loop.time() - 1.0)
                if await self._stopped(due - loop.time()):
                    break
                sent = loop.time()
                future = await producer.post(payload(producer.name, sequence, self._size))

                def stored(done: asyncio.Future[int], sent: float = sent) -> None:
                    if done.exception() is None:
                        ledger.stored(producer.name, done.result())
                        self.waits.append(loop.time() - sent)
                        text()

                future.add_done_callback(stored)
            await producer.flush()

    async def consume(self, topic: str, heartbeat_timeout_seconds: float) -> None:
        """Read a topic, as one consumer after another of the same name, each for a while."""
        loop, ledger = asyncio.get_running_loop(), self.ledgers[topic]
        while not self.stopping.is_set():
            ends = loop.time() + heartbeat_timeout_seconds * (0.5 + self._chance.random())
            async with Consumer(self._cluster, topic, READER, timeout_seconds=None) as consumer:
                before: StoredMessage | None = None
                while not self.stopping.is_set() and loop.time() < ends:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0.2):
                            message = await consumer.receive()
                            ledger.read(READER, message, before)
                            consumer.done(message)
                            before = message
                    ledger.committed[READER] = max(ledger.committed[READER], consumer.committed_offset)

    async def read_all(self, topic: str, timeout_seconds: float) -> None:
        """Read a topic from what it holds first to the last acknowledged message of every producer."""
        ledger = self.ledgers[topic]
        name = f"audit-{self._chance.getrandbits(64):x}"
        async with Consumer(self._cluster, topic, name, timeout_seconds=timeout_seconds) as consumer:
            before: StoredMessage | None = None
            missing = dict(ledger.acknowledged)
            while missing:
                message = await consumer.receive()
                ledger.read(name, message, before)
                before = message
                if message.sequence >= missing.get(message.producer, message.sequence + 1):
                    del missing[message.producer]

    async def _stopped(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self.stopping.wait()
        return self.stopping.is_set()
