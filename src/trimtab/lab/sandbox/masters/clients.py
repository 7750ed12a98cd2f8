"""Producers and consumers of every group, each message of which is written into a ledger."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from trimtab.dataplane.masters.cluster import MastersCluster
from trimtab.dataplane.masters.consumer import Consumer, Message
from trimtab.dataplane.masters.producer import Producer
from trimtab.lab.sandbox.masters.ledger import Ledger, payload

READER = "reader"


def topics_of(cluster: MastersCluster, *, prefix: str = "topic") -> list[str]:
    """A topic for each group, in their order."""
    found: dict[int, str] = {}
    for number in count():
        topic = f"{prefix}-{number}"
        found.setdefault(cluster.group_of(topic), topic)
        if len(found) == cluster.groups:
            return [found[group] for group in range(cluster.groups)]
    raise AssertionError


class Clients:
    """Producers and consumers at work, until they are told to stop.

    Attributes
    ----------
    ledgers
        One for each topic.
    waits
        Seconds until each message was acknowledged, in the order of acknowledgement.
    """

    def __init__(self, cluster: MastersCluster, seed: int, *, size: int = 0) -> None:
        self._cluster, self._chance, self._size = cluster, random.Random(seed), size
        self.ledgers = {topic: Ledger(topic) for topic in topics_of(cluster)}
        self.waits: list[float] = []
        self.stopping = asyncio.Event()

    async def produce(self, topic: str, rate: float, told: Callable[[], None] = lambda: None) -> None:
        """Send to a topic, as from many users who know nothing of one another (a Poisson process).

        Parameters
        ----------
        rate
            Messages a second.
        told
            Called with each acknowledgement.
        """
        loop, ledger = asyncio.get_running_loop(), self.ledgers[topic]
        async with Producer(self._cluster, topic, patience_seconds=None) as producer:
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
                        told()

                future.add_done_callback(stored)
            await producer.flush()

    async def consume(self, topic: str, life_seconds: float) -> None:
        """Read a topic, as one consumer after another of the same name, each for a while."""
        loop, ledger = asyncio.get_running_loop(), self.ledgers[topic]
        while not self.stopping.is_set():
            ends = loop.time() + life_seconds * (0.5 + self._chance.random())
            async with Consumer(self._cluster, topic, READER, patience_seconds=None) as consumer:
                before: Message | None = None
                while not self.stopping.is_set() and loop.time() < ends:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0.2):
                            message = await consumer.take()
                            ledger.read(READER, message, before)
                            consumer.done(message)
                            before = message
                    ledger.kept[READER] = max(ledger.kept[READER], consumer.kept)

    async def read_all(self, topic: str, patience_seconds: float) -> None:
        """Read a topic from what it holds first to the last acknowledged message of every producer."""
        ledger = self.ledgers[topic]
        name = f"audit-{self._chance.getrandbits(64):x}"
        async with Consumer(self._cluster, topic, name, patience_seconds=patience_seconds) as consumer:
            before: Message | None = None
            missing = dict(ledger.acknowledged)
            while missing:
                message = await consumer.take()
                ledger.read(name, message, before)
                before = message
                if message.sequence >= missing.get(message.producer, message.sequence + 1):
                    del missing[message.producer]

    async def _stopped(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self.stopping.wait()
        return self.stopping.is_set()
