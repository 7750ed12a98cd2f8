"""Producers and consumers of every group, each message of which is written into a ledger."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from trimtab.lab.sandbox.masters.ledger import MessageLedger, payload
from trimtab_store.clients.cluster import StoreConfig
from trimtab_store.clients.consumer import Consumer, StoredMessage
from trimtab_store.clients.producer import Producer

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
