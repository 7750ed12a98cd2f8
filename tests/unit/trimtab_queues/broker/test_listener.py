"""What one worker may begin, and when: keys in turn, suspects alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import replace

from support.queue_backends import message, put_all
from trimtab_common.errors import ConnectError
from trimtab_queues.broker.backend import Delivery, QueueClaim, QueueOwnershipLostError
from trimtab_queues.broker.in_process import InProcessBackend
from trimtab_queues.broker.listener import WorkerListener


class Inherited(InProcessBackend):
    """Queues in which a worker has died with some messages in hand."""

    suspects: Sequence[str] = ()
    lost = away = False

    async def claim(
        self, worker: str, formerly: str = "", in_work: Collection[Delivery] = ()
    ) -> QueueClaim | None:
        if self.away:
            self.away = False
            raise ConnectError("for a test")
        claim = await super().claim(worker, formerly, in_work)
        assert claim is not None
        left = (replace(one, deaths=int(one.envelope.task_id in self.suspects)) for one in claim.left_over)
        return QueueClaim(claim.queue, tuple(left))

    async def take(self, worker: str, queue: int, patience_seconds: float) -> Delivery | None:
        found = await super().take(worker, queue, patience_seconds)
        if self.lost and found is not None:
            self.lost = False
            raise QueueOwnershipLostError("for a test")
        return found


class Worker:
    """A listener that is asked for one message after another."""

    def __init__(self, backend: InProcessBackend) -> None:
        self.listener = WorkerListener(backend, "w", poll_timeout_seconds=0.01)
        self._deliveries: AsyncGenerator[Delivery, None] = self.listener.deliveries()
        self._asked: asyncio.Task[Delivery] | None = None

    async def gets(self) -> Delivery | None:
        """The next that it may begin; None where it has to wait."""
        if self._asked is None:
            self._asked = asyncio.ensure_future(anext(self._deliveries))
        done, _ = await asyncio.wait({self._asked}, timeout=0.3)
        if not done:
            return None
        asked, self._asked = self._asked, None
        return asked.result()

    async def must_get(self, name: str) -> Delivery:
        found = None
        for _ in range(100):  # a busy machine may need several
            if (found := await self.gets()) is not None:
                break
        assert found is not None
        assert found.envelope.task_id == name
        return found

    async def ends(self) -> None:
        if self._asked is not None:
            self._asked.cancel()
            await asyncio.gather(self._asked, return_exceptions=True)
        await self._deliveries.aclose()


def test_messages_of_a_key_are_started_one_after_another() -> None:
    """Others pass meanwhile; a later one of the key does not slip in while an earlier is set aside."""

    async def story() -> None:
        backend = InProcessBackend([9])
        worker = Worker(backend)
        await put_all(backend, 0, "k1", "k2", key="k")
        await put_all(backend, 0, "x")
        first = await worker.must_get("k1")
        await worker.must_get("x")
        assert await worker.gets() is None
        # k1 ends in the moment in which k3 is handed out: k2 is still first.
        backend_take = backend.take

        async def take(worker_name: str, queue: int, patience_seconds: float) -> Delivery | None:
            found = await backend_take(worker_name, queue, patience_seconds)
            if found is not None:
                await worker.listener.done(first)
            return found

        backend.take = take  # type: ignore[assignment, method-assign]
        await asyncio.sleep(0.2)  # so that it is this one that waits
        await backend.put(message("k3", key="k"), 0)
        second = await worker.must_get("k2")
        assert await worker.gets() is None
        await worker.listener.done(second)
        await worker.must_get("k3")
        await worker.ends()

    asyncio.run(story())


def test_a_suspect_runs_alone() -> None:
    """It waits until all current work has ended, and nothing starts beside it; others need not wait."""

    async def story() -> None:
        backend = Inherited([9])
        backend.suspects = ("b",)
        await put_all(backend, 0, "a", "b", "c")
        await backend.claim("old")
        for _ in range(2):
            await backend.take("old", 0, 0.01)
        await backend.release("old", 0)
        worker = Worker(backend)
        first = await worker.must_get("a")
        assert await worker.gets() is None
        await worker.listener.done(first)
        suspect = await worker.must_get("b")
        assert await worker.gets() is None
        await worker.listener.done(suspect)
        await worker.must_get("c")
        await worker.ends()

    asyncio.run(story())


def test_a_worker_that_reconnects_keeps_its_queue_and_its_work() -> None:
    """Undelivered messages are first, keys in turn, and nothing twice."""

    async def story() -> None:
        backend = Inherited([9, 9])
        worker = Worker(backend)
        await put_all(backend, 0, "k1", key="k")
        await put_all(backend, 0, "a", "b")
        first = await worker.must_get("k1")
        await put_all(backend, 1, *map(str, range(9)))  # the longest queue, which others would claim
        backend.lost = backend.away = True
        await worker.must_get("a")
        assert worker.listener.worker != "w"
        assert worker.listener.queue == 0
        await worker.must_get("b")
        await put_all(backend, 0, "k2", key="k")
        assert await worker.gets() is None
        backend.lost = True
        await put_all(backend, 0, "c")
        assert await worker.gets() is None  # k2 was taken and did not arrive: c waits behind it now
        # Its end is on the way to the server when touch is lost again.
        finish, told = backend.finish, asyncio.Event()

        async def slowly(delivery: Delivery) -> bool:
            await told.wait()
            return await finish(delivery)

        backend.finish = slowly  # type: ignore[method-assign]
        ending = asyncio.create_task(worker.listener.done(first))
        assert await worker.gets() is None
        told.set()
        await ending
        await worker.must_get("k2")
        await worker.must_get("c")
        await worker.ends()

    asyncio.run(story())


def test_a_finished_message_with_a_pending_confirmation_is_not_started_again() -> None:
    """The server is away when a message ends; its worker claims its queue before the end is confirmed."""

    async def story() -> None:
        backend = Inherited([9])
        worker = Worker(backend)
        await put_all(backend, 0, "a")
        first = await worker.must_get("a")
        finish, told = backend.finish, asyncio.Event()

        async def slowly(delivery: Delivery) -> bool:
            await told.wait()
            return await finish(delivery)

        backend.finish = slowly  # type: ignore[method-assign]
        await worker.listener.done(first)
        backend.lost = True
        await put_all(backend, 0, "b")
        await worker.must_get("b")
        assert await worker.gets() is None
        told.set()
        await worker.ends()

    asyncio.run(story())
