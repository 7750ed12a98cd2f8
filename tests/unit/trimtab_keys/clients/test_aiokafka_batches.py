"""The delivery time-out of aiokafka's producer, on its own accumulator and without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaTimeoutError, MessageSizeTooLargeError
from aiokafka.producer.message_accumulator import MessageAccumulator
from aiokafka.producer.transaction_manager import TransactionManager

from trimtab_keys.clients import aiokafka as module
from trimtab_keys.clients.aiokafka import DeadlineAccumulator

if TYPE_CHECKING:
    import pytest

PARTITION = TopicPartition("t", 0)
NODE = 1


class Cluster:
    """A cluster in which one node leads all partitions."""

    def leader_for_partition(self, _: TopicPartition) -> int:
        """The node that leads every partition."""
        return NODE


class Place:
    """The accumulator and the transaction manager of a producer that has an id."""

    def __init__(self) -> None:
        self.numbers = TransactionManager(None, 60_000)
        self.numbers.set_pid_and_epoch(7, 0)
        loop = asyncio.get_running_loop()
        self.own: Any = MessageAccumulator(Cluster(), 1000, 0, 40.0, txn_manager=self.numbers, loop=loop)
        producer = SimpleNamespace(_txn_manager=self.numbers, _message_accumulator=self.own)
        self.made = DeadlineAccumulator.of(producer, 120.0)

    async def sent(self) -> asyncio.Future[Any]:
        """Add a record that waits to be sent."""
        future: asyncio.Future[Any] = await self.own.add_message(PARTITION, b"k", b"v", 1.0)
        return future

    def drained(self) -> Any:
        """The batch of the next request, or None."""
        nodes, _ = self.own.drain_by_nodes(set())
        return nodes[NODE][PARTITION] if nodes else None

    def aged(self, seconds: float) -> None:
        """Make the waiting batches this much older."""
        for batch in self.own._batches[PARTITION]:
            batch._ctime -= seconds


def run(story: Callable[[Place], Awaitable[None]]) -> None:
    """Run a story in a new event loop, and check that no error was reported there."""
    wrong: list[Any] = []

    async def told() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
        await story(Place())
        await asyncio.sleep(0)

    asyncio.run(told())
    assert not wrong


def number(batch: Any) -> tuple[int, int]:
    """The producer id and the first sequence number of a batch, from its bytes."""
    data = bytes(batch.get_data_buffer())
    return int.from_bytes(data[43:51], "big", signed=True), int.from_bytes(data[53:57], "big", signed=True)


def test_a_young_batch_is_sent_as_usual() -> None:
    """It is sent although its leader took longer than the time-out of a request."""

    async def story(place: Place) -> None:
        await place.sent()
        place.aged(119)
        assert number(place.drained()) == (7, 0)

    run(story)


def test_an_expired_batch_is_not_sent() -> None:
    """It has no number yet, so the next batch takes that number."""

    async def story(place: Place) -> None:
        old = await place.sent()
        place.aged(121)
        assert place.drained() is None
        assert isinstance(old.exception(), KafkaTimeoutError)
        await place.sent()
        assert number(place.drained()) == (7, 0)

    run(story)


def test_an_expired_batch_is_not_resent_and_numbers_restart() -> None:
    """The broker may have appended it, so the next expected number is unknown."""

    async def story(place: Place) -> None:
        old = await place.sent()
        batch = place.drained()
        assert number(batch) == (7, 0)
        place.own.reenqueue(batch)
        place.aged(121)
        await place.own.add_message(TopicPartition("t", 1), b"k", b"v", 1.0)
        setattr(place.own, module.WAITER, asyncio.get_running_loop().create_future())
        assert place.own.drain_by_nodes(set())[0] == {}, "first an id"
        assert getattr(place.own, module.WAITER).done(), "the sender runs again"
        assert isinstance(old.exception(), KafkaTimeoutError)
        assert not place.numbers.has_pid()
        place.numbers.set_pid_and_epoch(8, 0)
        await place.sent()
        nodes, _ = place.own.drain_by_nodes(set())
        assert [number(one) for one in nodes[NODE].values()] == [(8, 0), (8, 0)]
        await asyncio.sleep(0)
        assert len(place.own._pending_batches) == 2, "the old one has taken itself out"

    run(story)


def test_numbers_restart_after_a_rejected_batch() -> None:
    """The broker lacks its number, and would reject all later batches of the partition."""

    async def story(place: Place) -> None:
        refused = await place.sent()
        place.drained().failure(MessageSizeTooLargeError())
        assert isinstance(refused.exception(), MessageSizeTooLargeError)
        await place.sent()
        assert place.drained() is None
        place.numbers.set_pid_and_epoch(8, 0)
        assert number(place.drained()) == (8, 0)

    run(story)


def test_an_expired_batch_fails_although_the_sender_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender waits for an id or an answer; flush and close wait for the batch."""
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)

    async def story(place: Place) -> None:
        old = await place.sent()
        place.aged(121)
        keeping = asyncio.create_task(place.made.keep())
        await asyncio.wait([old], timeout=30)
        keeping.cancel()
        assert isinstance(old.exception(), KafkaTimeoutError)
        await place.own.flush()

    run(story)
