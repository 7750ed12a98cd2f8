"""Back-ends of queues for the contract tests, each opened empty and closed again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from uuid import uuid4

from trimtab_queues.broker.backend import Backend, Delivery, Envelope
from trimtab_queues.broker.in_process import InProcessBackend
from trimtab_queues.broker.redis_streams.streams import RedisBackend

Opened = Callable[..., AbstractAsyncContextManager[Backend]]
"""A back-end with queues of these capacities."""


@asynccontextmanager
async def in_process(capacity: Sequence[int]) -> AsyncIterator[Backend]:
    """Queues of this event loop."""
    backend = InProcessBackend(capacity)
    await backend.open()
    yield backend
    await backend.close()


def redis_streams(url: str, heartbeat_timeout_seconds: float = 2.0) -> Opened:
    """Queues on a real server; each opening has queues of its own."""

    @asynccontextmanager
    async def opened(capacity: Sequence[int], name: str = "") -> AsyncIterator[Backend]:
        backend = RedisBackend(
            url, name or uuid4().hex, capacity, heartbeat_timeout_seconds=heartbeat_timeout_seconds
        )
        await backend.open()
        yield backend
        await backend.close()

    return opened


def message(name: str, weight: int = 1, key: str = "", once: str = "", quick: bool = False) -> Envelope:
    """A message whose body is its name, of so many microseconds."""
    return Envelope(name, name.encode(), "class", weight, key, once, quick)


async def put_all(
    backend: Backend, queue: int, *names: str, weight: int = 1, key: str = "", quick: bool = False
) -> None:
    """Messages into one queue, each of which must be accepted."""
    for name in names:
        assert await backend.put(message(name, weight, key, quick=quick), queue) == queue


async def fence_of(backend: Backend) -> int:
    """The fence of a scheduler that has the lease for as long as a test takes."""
    fence = await backend.lease("s", 60.0)
    assert fence is not None
    return fence


async def drained(backend: Backend, worker: str, queue: int) -> list[str]:
    """Names of what a worker gets until nothing waits, each finished before the next."""
    found = []
    while (delivery := await backend.take(worker, queue, 0.001)) is not None:
        found.append(delivery.envelope.task_id)
        assert await backend.finish(delivery)
    return found


async def taken(backend: Backend, worker: str, queue: int) -> Delivery:
    """The next message, which must be there."""
    delivery = await backend.take(worker, queue, 0.001)
    assert delivery is not None
    return delivery


async def checked(backend: Backend) -> None:
    """Counters say what the messages say, and what came in is finished or there."""
    counts = (await backend.counts()).queues
    assert tuple(one.derivable() for one in counts) == await backend.recount()
    came = sum(one.arrived_microseconds - one.served_microseconds for one in counts)
    assert came == sum(one.work_microseconds for one in counts)
