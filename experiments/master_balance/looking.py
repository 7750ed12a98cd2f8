"""What the programs of this folder look on with: who is master, how long clients wait, and shares of that."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab_store.clients.consumer import Consumer
from trimtab_store.clients.producer import Producer
from trimtab_store.connections import PeerIdentity, PeerLink
from trimtab_store.core.messages import DescribeGroup, ProduceRequest, ProduceResponse, SendMessage
from trimtab_store.format.wire import encoded

LOOK_SECONDS = 0.001
"""From a node's answer to the next question to it."""
SEND_SECONDS = 0.01
MESSAGE_BYTES = 128


@dataclass
class Watch:
    """Asks all nodes in turn, as often as they answer, whether they count themselves as master.

    Attributes
    ----------
    poll_seconds
        From a node's answer to the next question to it.
    asked, held
        When each node was asked last, and when the question was sent to which it answered last that it is.
    first
        When a node said so first, after it had said no or had gone.
    holds
        What each node said last; none that is away is here.
    """

    poll_seconds: float = LOOK_SECONDS
    asked: dict[int, float] = field(default_factory=dict)
    held: dict[int, float] = field(default_factory=dict)
    first: dict[int, float] = field(default_factory=dict)
    holds: dict[int, bool] = field(default_factory=dict)
    links: list[PeerLink] = field(default_factory=list)

    def begin(self, sandbox: MastersSandbox) -> list[asyncio.Task[None]]:
        """Connect to all nodes."""
        cluster = sandbox.state.cluster
        speaker = PeerIdentity(cluster.cluster, "watch", cluster.guard.opened())
        for node, address in enumerate(cluster.addresses):
            received, ended = partial(self.received, node), partial(self.ended, node)
            self.links.append(PeerLink(address, speaker, node, received=received, ended=ended))
            self.ask(node)
        return [asyncio.create_task(link.run()) for link in self.links]

    def ask(self, node: int) -> None:
        """Ask a node."""
        self.asked[node] = time.monotonic()
        self.links[node].send(encoded((0, DescribeGroup("watch"))))

    def received(self, node: int, told: Any) -> None:
        """Hear its answer."""
        standing, now = told[1], time.monotonic()
        if standing.holds:
            self.held[node] = self.asked[node]
            if not self.holds.get(node):
                self.first[node] = now
        self.holds[node] = standing.holds
        asyncio.get_running_loop().call_later(self.poll_seconds, self.ask, node)

    def ended(self, node: int) -> None:
        """A node has gone: ask again as soon as it is back."""
        self.holds.pop(node, None)
        # The link empties its queue behind this call.
        asyncio.get_running_loop().call_soon(self.ask, node)

    @property
    def master(self) -> int:
        """Who said so last; -1 if nobody does."""
        return next((node for node, holds in self.holds.items() if holds), -1)


class SeenProducer(Producer):
    """A producer that sees which of its messages were forwarded.

    Attributes
    ----------
    forwarded
        When each message was acknowledged that was stored by a node to which this producer never sent it.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.forwarded: list[float] = []
        self._sent_to: dict[int, set[int]] = {}

    def _carry_out(self, orders: Sequence[SendMessage]) -> None:
        for order in orders:
            if isinstance(order.message, ProduceRequest) and isinstance(order.to, int):
                self._sent_to.setdefault(order.message.record.sequence, set()).add(order.to)
        super()._carry_out(orders)

    def _handle_response(self, now: float, node: int, message: Any) -> Sequence[SendMessage]:
        if isinstance(message, ProduceResponse) and message.verdict == "stored":
            # One answer tells of all messages before it, too: only its own was stored by who says so.
            if node not in self._sent_to.get(message.sequence, {node}):
                self.forwarded.append(time.monotonic())
            for sequence in [one for one in self._sent_to if one <= message.sequence]:
                del self._sent_to[sequence]
        return super()._handle_response(now, node, message)


@dataclass
class Clients:
    """A producer and a consumer at work, with when each message was sent, acknowledged and read.

    Attributes
    ----------
    acknowledged, read
        When, and how long after it was sent.
    producer
        The one at work.
    """

    send_seconds: float = SEND_SECONDS
    acknowledged: list[tuple[float, float]] = field(default_factory=list)
    read: list[tuple[float, float]] = field(default_factory=list)
    sent: dict[int, float] = field(default_factory=dict)
    errors: int = 0
    producer: SeenProducer | None = None

    async def produce(self, sandbox: MastersSandbox) -> None:
        """Send for good."""
        async with SeenProducer(sandbox.state.cluster, "t") as self.producer:
            while True:
                sent = time.monotonic()
                future = await self.producer.post(b"." * MESSAGE_BYTES)
                self.sent[len(self.sent) + 1] = sent

                def done(future: asyncio.Future[int], sent: float = sent) -> None:
                    if future.cancelled():
                        return
                    self.errors += future.exception() is not None
                    self.acknowledged.append((time.monotonic(), time.monotonic() - sent))

                future.add_done_callback(done)
                await asyncio.sleep(self.send_seconds)

    async def consume(self, sandbox: MastersSandbox) -> None:
        """Read for good."""
        async with Consumer(sandbox.state.cluster, "t", "reader") as consumer:
            expected = 1
            async for message in consumer:
                assert message.sequence == expected, f"got {message.sequence}, expected {expected}"
                expected += 1
                self.read.append((time.monotonic(), time.monotonic() - self.sent[message.sequence]))
                consumer.done(message)

    def forwarded(self, since: float) -> int:
        """Messages that were forwarded since then."""
        return 0 if self.producer is None else sum(at >= since for at in self.producer.forwarded)

    def usual(self) -> float:
        """From sending to acknowledgement, in the median."""
        return median(wait for _, wait in self.acknowledged)


def longest(waits: list[tuple[float, float]], since: float) -> float:
    """The longest wait of those that ended since then."""
    return max((wait for at, wait in waits if at >= since), default=0.0)


def look(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Raise what one of the clients has failed with."""
    for task in tasks:
        if task.done():
            task.result()


async def ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    found = list(tasks)
    for task in found:
        task.cancel()
    await asyncio.gather(*found, return_exceptions=True)


def median(values: Iterable[float]) -> float:
    """The middle value; of an even number of values the mean of the two in the middle."""
    return statistics.median(values)


def share(values: Iterable[float], percent: int) -> float:
    """The value that so many per cent of all do not exceed: one that was measured, but for the median."""
    found = sorted(values)
    return median(found) if percent == 50 else found[min(len(found) - 1, len(found) * percent // 100)]


def milliseconds(value: float) -> str:
    """Seconds as milliseconds, with a decimal where there are few."""
    return f"{value * 1000:,.0f}" if value >= 0.1 else f"{value * 1000:.1f}"


def shares(values: Iterable[float], percents: Sequence[int] = (50, 99, 100)) -> str:
    """Median, 99th percentile and most, in milliseconds."""
    found = list(values)
    return " / ".join(milliseconds(share(found, percent)) for percent in percents)
