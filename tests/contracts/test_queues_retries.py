"""Retries and schedules of taskiq with an idempotency key: each runs once, senders' duplicates do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import uuid4

import pytest
from taskiq import Context, TaskiqDepends, TaskiqMiddleware
from taskiq.exceptions import SendTaskError
from taskiq.middlewares import SimpleRetryMiddleware, SmartRetryMiddleware
from taskiq.receiver import Receiver

from support.queue_backends import fence_of
from support.queue_schedules import Source
from support.redis_server import Server, binaries
from trimtab_common.errors import ConnectError
from trimtab_queues import BalancedBroker

SERVERS = binaries()
Working = Callable[..., AbstractAsyncContextManager[BalancedBroker]]
"""A broker with middlewares and settings, and workers for it while it is open."""


@pytest.fixture(scope="module", params=["in_process", *SERVERS])
def working(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Working]:
    """Brokers of one kind; their workers begin when the story asks for it."""
    server = None
    if request.param != "in_process":
        server = Server(SERVERS[request.param], tmp_path_factory.mktemp(request.param))
    url = None if server is None else server.url

    @asynccontextmanager
    async def opened(*middlewares: TaskiqMiddleware, **settings: Any) -> AsyncIterator[BalancedBroker]:
        broker = BalancedBroker(url, name=uuid4().hex, **{"queues": 1, "default_weight": 0.01, **settings})
        broker.add_middlewares(*middlewares)
        await broker.startup()
        stop, worker = asyncio.Event(), None
        if url is not None:
            # The receiver of `taskiq worker`, in this process.
            receiver = Receiver(broker, max_async_tasks=4, run_startup=False)
            worker = asyncio.create_task(receiver.listen(stop))
        yield broker
        stop.set()
        if worker is not None:
            await worker
        await broker.shutdown()

    yield opened
    if server is not None:
        server.stop()


def run(story: Coroutine[Any, Any, None]) -> None:
    """One test's story in a loop of its own."""
    asyncio.run(asyncio.wait_for(story, 60.0))


class Unlucky:
    """A task that fails some times, then succeeds; with the numbers of all runs."""

    def __init__(self, broker: BalancedBroker, fails: int) -> None:
        self.runs: list[int] = []

        async def unlucky(number: int) -> int:
            self.runs.append(number)
            if self.runs.count(number) <= fails:
                raise ValueError("not yet")
            return number

        self.task = broker.register_task(unlucky, task_name="unlucky", retry_on_error=True, max_retries=5)

    async def send(self, number: int = 0, **labels: str) -> None:
        """Send it, with one key by default."""
        await self.task.kicker().with_labels(**{"idempotency_key": "once", **labels}).kiq(number)


@pytest.mark.parametrize("key", ["once", ""])
def test_a_retry_runs_and_a_second_message_of_its_sender_does_not(working: Working, key: str) -> None:
    """Two failures, then a result; the sender sends again before and after."""

    async def story() -> None:
        async with working(SimpleRetryMiddleware()) as broker:
            unlucky = Unlucky(broker, fails=2)
            for _ in range(2 if key else 1):
                await unlucky.send(idempotency_key=key)
            await broker.drained()
            if key:
                await unlucky.send()
            await broker.drained()
            assert unlucky.runs == [0, 0, 0]
            if broker.reporter in broker.middlewares:  # each is measured, though they have one task id
                assert broker.reporter._classes["unlucky"].processed == 3

    run(story())


def test_a_retry_by_a_schedule_runs(working: Working) -> None:
    """The middleware puts it into a source, and the scheduler sends it when its time has come."""

    async def story() -> None:
        source = Source()
        async with working(SmartRetryMiddleware(schedule_source=source, default_delay=0)) as broker:
            unlucky = Unlucky(broker, fails=2)
            await unlucky.send()
            for _ in range(2):
                await broker.drained()
                await source.fire(broker)
            await broker.drained()
            assert unlucky.runs == [0, 0, 0]

    run(story())


def test_each_firing_of_a_schedule_runs_and_so_do_its_retries(working: Working) -> None:
    """Two schedules with one key, one task id and one schedule id at two times, as a cron has them."""

    async def story() -> None:
        source = Source()
        async with working(SimpleRetryMiddleware()) as broker:
            unlucky = Unlucky(broker, fails=0)
            await unlucky.send(1)
            for number in (2, 3):
                kicker = unlucky.task.kicker().with_labels(idempotency_key="once").with_task_id("always")
                await kicker.schedule_by_time(source, datetime.now(UTC) + timedelta(seconds=number), number)
            crons = list(source.schedules)
            for _ in range(2):
                source.schedules = list(crons)
                await source.fire(broker)
                await broker.drained()
            assert unlucky.runs == [1, 2, 3, 2, 3]
            failing = Unlucky(broker, fails=1)
            for _ in range(2):
                failing.runs.clear()
                source.schedules = list(crons)
                await source.fire(broker)
                await broker.drained()
                assert sorted(failing.runs) == [2, 2, 3, 3]

    run(story())


def test_a_message_that_its_task_sends_back_runs(working: Working) -> None:
    """`Context.requeue`, three times."""

    async def story() -> None:
        async with working() as broker:
            runs = []

            async def later(context: Annotated[Context, TaskiqDepends()]) -> None:
                runs.append(context.message.task_id)
                if len(runs) < 4:
                    await context.requeue()

            task = broker.register_task(later, task_name="later")
            sent = await task.kicker().with_labels(idempotency_key="once").kiq()  # type: ignore[call-overload]
            await broker.drained()
            assert runs == [sent.task_id] * 4

    run(story())


def test_a_retry_that_is_sent_twice_runs_once(working: Working) -> None:
    """A worker died between a retry and the end of its message: the next one sends the retry again."""

    async def story() -> None:
        async with working() as broker:
            unlucky = Unlucky(broker, fails=0)
            labels = {"idempotency_key": "once", "_accepted_id": "a", "_retries": 1}
            for retries in (1, 1, 2):
                labels["_retries"] = retries
                await unlucky.task.kicker().with_labels(**labels).with_task_id("t").kiq(retries)  # type: ignore[arg-type]
            await broker.drained()
            assert unlucky.runs == [1, 2]

    run(story())


@pytest.mark.parametrize("key", ["ann", ""])
def test_a_retry_needs_no_room_and_minds_no_mark(working: Working, key: str) -> None:
    """A full queue would refuse it, and the worker that sends it would keep its message for ever."""

    async def story() -> None:
        async with working(SimpleRetryMiddleware(), capacity=1, scheduling=None) as broker:
            fence = await fence_of(broker.backend)
            unlucky = Unlucky(broker, fails=2)
            await unlucky.send(affinity_key=key)
            await broker.backend.mark(0, True, fence)
            await broker.drained()
            assert unlucky.runs == [0, 0, 0]

    run(story())


def test_a_retry_is_put_behind_waiting_messages_of_its_key(working: Working) -> None:
    """It is accepted when it is sent: behind waiting messages of the key, never concurrent with one."""

    async def story() -> None:
        async with working(SimpleRetryMiddleware(), queues=2) as broker:
            begun, busy, go = [], 0, asyncio.Event()

            async def vote(number: int) -> None:
                nonlocal busy
                begun.append(number)
                assert not busy
                busy += 1
                await go.wait()
                busy -= 1
                if number == 1 and begun.count(1) < 3:
                    raise ValueError("not yet")

            task = broker.register_task(vote, task_name="vote", retry_on_error=True, max_retries=5)
            for number in range(1, 5):
                labels = {"affinity_key": "ann", "idempotency_key": str(number)}
                await task.kicker().with_labels(**labels).kiq(number)
            go.set()
            await broker.drained()
            assert begun == [1, 2, 3, 4, 1, 1]

    run(story())


@pytest.mark.parametrize("label", ["_retries", "schedule_id"])
@pytest.mark.parametrize("key", ["once", ""])
def test_retries_and_schedules_wait_for_a_server_that_is_away(working: Working, label: str, key: str) -> None:
    """Regardless of the sender's time limit, since no sender would repeat them. A duplicate is
    enqueued once.
    """

    async def story() -> None:
        async with working(enqueue_timeout_seconds=0.0) as broker:
            unlucky, put, away = Unlucky(broker, fails=0), broker.backend.put, 3

            async def unsure(*arguments: Any) -> int | None:
                nonlocal away
                answer = await put(*arguments)
                if away:
                    away -= 1
                    raise ConnectError("the answer got lost")
                return answer

            broker.backend.put = unsure  # type: ignore[assignment, method-assign]
            with pytest.raises(SendTaskError):
                await unlucky.send(1, idempotency_key="")
            await unlucky.send(2, **{"idempotency_key": key, label: "1"})
            await broker.drained()
            assert unlucky.runs == [1, 2]

    run(story())
