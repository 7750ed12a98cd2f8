"""What a broker does by the weights of its messages, with queues in the process and on a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from taskiq.receiver import Receiver

from support.queue_backends import checked, fence_of, message, redis_streams
from support.redis_server import Server
from trimtab_queues import BalancedBroker
from trimtab_queues.broker.balancing import Scheduler
from trimtab_queues.core.policies import OwnQueue
from trimtab_queues.core.scheduling import SchedulingSettings


class First(OwnQueue):
    """Everything into the first queue."""

    name: ClassVar[str] = "first"

    def choose(self, weight: float, /) -> int | None:
        """The first queue, open or not."""
        return 0


@pytest.fixture(params=["in_process", "server"])
def url(request: pytest.FixtureRequest) -> str | None:
    """Where the queues are; None for in the process."""
    found: Server | None = None if request.param == "in_process" else request.getfixturevalue("server")
    return None if found is None else found.url


def run(story: Coroutine[Any, Any, None]) -> None:
    """One test's story in a loop of its own."""
    asyncio.run(asyncio.wait_for(story, 30))


@asynccontextmanager
async def workers(url: str, name: str, done: list[int]) -> AsyncIterator[BalancedBroker]:
    """Two workers of a server in this process, whose tasks end at once."""
    broker, stop = BalancedBroker(url, name=name, queues=2, scheduling=None), asyncio.Event()

    async def vote(number: int) -> None:
        done.append(number)

    broker.register_task(vote, task_name="vote")
    await broker.startup()
    receivers = [Receiver(broker, max_async_tasks=1, run_startup=False) for _ in range(2)]
    tasks = [asyncio.create_task(one.listen(stop)) for one in receivers]
    yield broker
    stop.set()
    await asyncio.gather(*tasks)
    await broker.shutdown()


def test_the_scheduler_uses_weights_from_labels(url: str | None) -> None:
    """40 messages of a millisecond use 40 of 100 places, although the broker has no declared weight."""

    async def story() -> None:
        scheduling = SchedulingSettings(window_seconds=0.05, cycle_seconds=0.1, idle_transfer="nothing")
        broker = BalancedBroker(
            url, name="labels", queues=2, capacity=100, policy=First, scheduling=scheduling, schedule=True
        )
        go = asyncio.Event()

        @broker.task(weight=0.001)
        async def work() -> None:
            await go.wait()

        await broker.startup()
        for _ in range(40):
            await work.kiq()
        while min(one.length for one in (await broker.backend.counts()).queues) < 15:
            await asyncio.sleep(0.02)
        assert broker.weight_of(work.task_name) == 0.001
        go.set()
        await broker.shutdown()

    run(story())


def test_a_burst_after_a_pause_uses_current_counts(server: Server) -> None:
    """The messages of the last known counts are finished: queues are empty, and the sender reads that.
    Messages of one key stay together: the second of a key uses no turn of a queue.
    """

    async def story() -> None:
        done: list[int] = []
        sender = BalancedBroker(server.url, name="pause", queues=2, scheduling=None)

        async def vote(number: int) -> None: ...

        task = sender.register_task(vote, task_name="vote")
        await sender.startup()

        async def batch(keys: list[str]) -> None:
            kicker = [task.kicker().with_labels(weight=0.01, affinity_key=key) for key in keys]
            await asyncio.gather(*(one.kiq(number) for number, one in enumerate(kicker)))

        async with workers(server.url, "pause", done) as broker:
            while not all(one.alive for one in (await broker.backend.counts()).queues):
                await asyncio.sleep(0.02)
            shares, sent = [], 0
            for keys in (
                ["one"] * 20,
                [*map(str, range(32)), *map(str, range(32))],
                [str(one // 2) for one in range(64)],
                [*map(str, range(32)), *map(str, range(32))],
            ):
                before = (await broker.backend.counts()).queues
                await batch(keys)
                sent += len(keys)
                while len(done) < sent or any(one.length for one in (await broker.backend.counts()).queues):
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.1)
                after = (await broker.backend.counts()).queues
                shares.append(
                    [
                        (now.arrived_microseconds - then.arrived_microseconds) // 10_000
                        for then, now in zip(before, after, strict=True)
                    ]
                )
            assert max(shares[0]) == 20
            assert all(max(one) <= 40 for one in shares[1:]), shares
            await sender.shutdown()

    run(story())


def test_quick_messages_are_recognised_by_the_messages_of_all_senders(server: Server) -> None:
    """A sender of only short messages never observed another; nor does one that sends a long one in a
    hundred.
    """

    async def story() -> None:
        async def sent(name: str, *weights: float) -> None:
            broker = BalancedBroker(server.url, name=name, queues=1, scheduling=None)

            async def vote() -> None: ...

            task = broker.register_task(vote, task_name="vote")
            await broker.startup()
            for one in weights:
                await task.kicker().with_labels(weight=one).kiq()
            await broker.shutdown()

        async def lanes(name: str) -> list[bool]:
            async with redis_streams(server.url)([1000], name) as backend:
                await backend.claim("w")
                found = []
                while (delivery := await backend.take("w", 0, 0.001)) is not None:
                    found.append(delivery.envelope.quick)
                    assert await backend.finish(delivery)
                return found

        await sent("two", *[0.5] * 10)
        await sent("two", *[0.01] * 20)
        assert await lanes("two") == [True] * 20 + [False] * 10
        await sent("mixed", *[0.01] * 50, 0.5, *[0.01] * 99)
        assert await lanes("mixed") == [True] * 99 + [False] * 51

    run(story())


def test_a_key_in_flight_in_a_queue_of_a_larger_set_is_followed(server: Server) -> None:
    """Another process has four queues, and its fourth takes the message; the senders' ledgers have fewer."""

    async def story() -> None:
        async with redis_streams(server.url)([99] * 4, "sets") as larger:
            assert await larger.put(message("k1", key="k"), 3) == 3
            for queues in (1, 2):
                sender = BalancedBroker(server.url, name="sets", queues=queues, scheduling=None)

                async def vote() -> None: ...

                task = sender.register_task(vote, task_name="vote")
                await sender.startup()
                kicker = task.kicker().with_labels(affinity_key="k")

                async def send(kicker: Any = kicker) -> None:
                    for _ in range(5):
                        await kicker.kiq()

                await asyncio.gather(*(send() for _ in range(4)))
                assert sender.backend.ledger.length == [0] * queues
                await sender.shutdown()
            assert [one.length for one in (await larger.counts()).queues] == [0, 0, 0, 41]

    run(story())


def test_a_thousand_queues(server: Server) -> None:
    """Messages are distributed, counters are correct, a worker finds its queue, and the
    scheduler balances.
    """

    async def story() -> None:
        name = uuid4().hex
        broker = BalancedBroker(server.url, name=name, queues=1000, capacity=100, scheduling=None)

        async def vote() -> None: ...

        task = broker.register_task(vote, task_name="vote")
        await broker.startup()
        await asyncio.gather(*(task.kicker().with_labels(weight=0.01).kiq() for _ in range(2000)))
        lengths = [one.length for one in (await broker.backend.counts()).queues]
        assert sum(lengths) == 2000
        assert max(lengths) <= 4
        assert broker.backend.ledger.length == lengths
        await checked(broker.backend)
        for _ in range(60):
            assert await broker.backend.put(message("m", 10_000), 999) == 999
        claim = await broker.backend.claim("w")
        assert claim is not None
        assert claim.queue == 999
        scheduler = Scheduler(
            broker.backend,
            "s",
            SchedulingSettings(threshold_unit="messages", light_threshold=5, overload_threshold=50),
            mean_weight=1.0,
        )
        fence = await fence_of(broker.backend)
        await broker.backend.release("w", 999)
        await scheduler.turn(fence)
        await scheduler.turn(fence)
        assert (await broker.backend.counts()).queues[999].length < 40
        await checked(broker.backend)
        assert len((await broker.metrics()).splitlines()) == 7 * 1002 + 5 * 3
        await broker.shutdown()

    run(story())
