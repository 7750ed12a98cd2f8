"""What every back-end of queues keeps: nothing lost or doubled, order within a key, true counters."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from support.queue_backends import (
    Opened,
    checked,
    drained,
    fence_of,
    in_process,
    message,
    put_all,
    redis_streams,
    taken,
)
from support.redis_server import Server, binaries
from trimtab_queues import BalancedBroker
from trimtab_queues.broker.backend import QueueClaim, QueueOwnershipLostError, QueuesFullError
from trimtab_queues.broker.balancing import MOVE_BATCH_SIZE, Scheduler
from trimtab_queues.broker.in_process import WaitingMessages
from trimtab_queues.broker.redis_streams.streams import RedisBackend
from trimtab_queues.core.scheduling import MoveMessages, SchedulingSettings

SERVERS = binaries()


@pytest.fixture(scope="module", params=["in_process", *SERVERS])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """A way to open one kind of back-end."""
    if request.param == "in_process":
        yield in_process
        return
    server = Server(SERVERS[request.param], tmp_path_factory.mktemp(request.param))
    yield redis_streams(server.url)
    server.stop()


def run(story: Coroutine[Any, Any, None]) -> None:
    """One test's story in a loop of its own."""
    asyncio.run(story)


def test_a_message_counts_until_it_is_finished(opened: Opened) -> None:
    """Waiting, in work, done: length and work stand until the end, held in between."""

    async def story() -> None:
        async with opened([5, 5]) as backend:
            assert await backend.claim("w") == QueueClaim(0)
            assert await backend.put(message("a", 700), 0) == 0
            assert await backend.put(message("b", 300), 0) == 0
            one = (await backend.counts()).queues[0]
            assert (one.length, one.work_microseconds, one.held, one.arrived_microseconds) == (
                2,
                1000,
                0,
                1000,
            )
            delivery = await taken(backend, "w", 0)
            assert delivery.envelope == message("a", 700)
            one = (await backend.counts()).queues[0]
            assert (one.length, one.work_microseconds, one.held, one.held_microseconds) == (2, 1000, 1, 700)
            await checked(backend)
            assert await backend.finish(delivery)
            assert not await backend.finish(delivery)  # told twice, counted once
            one = (await backend.counts()).queues[0]
            assert (one.length, one.work_microseconds, one.held, one.held_microseconds) == (1, 300, 0, 0)
            assert one.served_microseconds == 700
            assert backend.ledger.work == [300e-6, 0.0]
            await checked(backend)

    run(story())


def test_full_and_paused_queues_refuse_and_the_ledger_knows(opened: Opened) -> None:
    """After a rejection the sender may choose again with new counts; nothing was enqueued."""

    async def story() -> None:
        async with opened([2, 2]) as backend:
            fence = await fence_of(backend)
            await put_all(backend, 0, "a", "b")
            assert await backend.put(message("c"), 0) is None
            assert backend.ledger.open == [False, True]
            assert await backend.mark(1, True, fence)
            assert await backend.put(message("c"), 1) is None
            assert backend.ledger.open == [False, False]
            assert await backend.mark(1, False, fence)
            await put_all(backend, 1, "c")
            assert [one.length for one in (await backend.counts()).queues] == [2, 1]
            await checked(backend)

    run(story())


def test_a_key_stays_on_its_queue_while_one_of_it_is_in_flight(opened: Opened) -> None:
    """Wherever dispatch would send it, and though the queue is paused; only a full one refuses."""

    async def story() -> None:
        async with opened([3, 3]) as backend:
            fence = await fence_of(backend)
            assert (await backend.claim("w")) == QueueClaim(0)
            assert await backend.put(message("nobody", key="k"), None) is None
            await put_all(backend, 0, "k1", key="k")
            assert await backend.put(message("k2", key="k"), 1) == 0
            assert await backend.mark(0, True, fence)
            assert await backend.put(message("k3", key="k"), None) == 0
            assert await backend.put(message("k4", key="k"), 1) is None
            assert await backend.mark(0, False, fence)
            assert await drained(backend, "w", 0) == ["k1", "k2", "k3"]
            await put_all(backend, 1, "k4", key="k")
            await checked(backend)

    run(story())


@pytest.mark.parametrize(
    ("order", "moved"),
    [
        (MoveMessages(0, 1, 2, None), ["c", "d"]),
        (MoveMessages(0, 1, None, 250e-6), ["c", "d"]),
        (MoveMessages(0, 1, None, 199e-6), ["d"]),
        (MoveMessages(0, 1, 0, None), []),
        (MoveMessages(0, 1, 100, None), ["b", "c", "d"]),  # a is in work
    ],
)
def test_the_newest_move_and_keep_their_order(opened: Opened, order: MoveMessages, moved: list[str]) -> None:
    """No message goes that would exceed the order, none that is in work, and none twice."""

    async def story() -> None:
        async with opened([9, 9]) as backend:
            fence = await fence_of(backend)
            assert [(await backend.claim(one)) for one in "vw"] == [QueueClaim(0), QueueClaim(1)]
            await put_all(backend, 0, "a", "b", "c", "d", weight=100)
            await put_all(backend, 1, "z", weight=100)
            delivery = await taken(backend, "v", 0)
            answer = await backend.move(order, fence)
            assert answer.messages == len(moved)
            assert answer.work == pytest.approx(len(moved) * 100e-6)
            await checked(backend)
            assert await drained(backend, "w", 1) == ["z", *moved]
            assert await backend.finish(delivery)
            assert await drained(backend, "v", 0) == [one for one in "bcd" if one not in moved]
            await checked(backend)

    run(story())


def test_a_key_moves_whole_or_not_at_all(opened: Opened) -> None:
    """While one of it is in work it stays; once all of it waits, it goes if all of it fits."""

    async def story() -> None:
        async with opened([9, 9]) as backend:
            fence = await fence_of(backend)
            assert [(await backend.claim(one)) for one in "vw"] == [QueueClaim(0), QueueClaim(1)]
            await put_all(backend, 0, "k1", key="k")
            await put_all(backend, 0, "x")
            await put_all(backend, 0, "k2", "k3", key="k")
            first = await taken(backend, "v", 0)
            assert (await backend.move(MoveMessages(0, 1, 9, None), fence)).messages == 1
            assert await drained(backend, "w", 1) == ["x"]
            assert await backend.finish(first)
            assert (await backend.move(MoveMessages(0, 1, 1, None), fence)).messages == 0
            assert (await backend.move(MoveMessages(0, 1, 2, None), fence)).messages == 2
            assert await backend.put(message("k4", key="k"), 0) == 1
            await checked(backend)
            assert await drained(backend, "w", 1) == ["k2", "k3", "k4"]

    run(story())


def test_quick_messages_go_first(opened: Opened) -> None:
    """Each lane keeps its order; who is in work already is not interrupted."""

    async def story() -> None:
        async with opened([9]) as backend:
            await backend.claim("w")
            await put_all(backend, 0, "a", "b", weight=900)
            first = await taken(backend, "w", 0)
            await put_all(backend, 0, "x", "y", weight=1, quick=True)
            await checked(backend)
            assert await backend.finish(first)
            assert await drained(backend, "w", 0) == ["x", "y", "b"]
            await checked(backend)

    run(story())


def test_long_messages_are_overtaken_for_a_while_only(opened: Opened) -> None:
    """What waits for longer than quick ones may overtake by is next, however many of those come."""

    async def story() -> None:
        async with opened([9]) as backend:
            _overtake(backend, 0.05)
            await backend.claim("w")
            await put_all(backend, 0, "long", weight=900)
            await put_all(backend, 0, "early", quick=True)
            await asyncio.sleep(0.1)
            await put_all(backend, 0, "late", quick=True)
            assert await drained(backend, "w", 0) == ["early", "long", "late"]

    run(story())


def test_a_moved_message_is_overtaken_for_a_while_only(opened: Opened) -> None:
    """The time counts from acceptance, also behind a message accepted later."""

    async def story() -> None:
        async with opened([9, 9]) as backend:
            _overtake(backend, 0.05)
            fence = await fence_of(backend)
            assert [(await backend.claim(one)) for one in "vw"] == [QueueClaim(0), QueueClaim(1)]
            await put_all(backend, 0, "long", weight=900)
            await asyncio.sleep(0.1)
            await put_all(backend, 1, "young", weight=900)
            assert (await backend.move(MoveMessages(0, 1, 9, None), fence)).messages == 1
            await put_all(backend, 1, "late", quick=True)
            assert await drained(backend, "w", 1) == ["young", "long", "late"]
            await put_all(backend, 1, "younger", weight=900)
            await put_all(backend, 1, "next", quick=True)
            assert await drained(backend, "w", 1) == ["next", "younger"]

    run(story())


def _overtake(backend: Any, seconds: float) -> None:
    if hasattr(backend, "max_overtake_seconds"):
        backend.max_overtake_seconds = seconds
    else:
        backend._waiting = [WaitingMessages(seconds) for _ in backend._waiting]


def test_a_key_keeps_to_one_lane(opened: Opened) -> None:
    """A quick message of a user does not overtake the user's long one; once none is in flight it may."""

    async def story() -> None:
        async with opened([9, 9]) as backend:
            fence = await fence_of(backend)
            assert [(await backend.claim(one)) for one in "vw"] == [QueueClaim(0), QueueClaim(1)]
            await put_all(backend, 0, "k1", key="k", weight=900)
            await put_all(backend, 0, "k2", key="k", quick=True)
            await put_all(backend, 0, "x", quick=True)
            await put_all(backend, 0, "q1", key="q", quick=True)
            await put_all(backend, 0, "q2", key="q", weight=900)
            assert (await backend.move(MoveMessages(0, 1, 9, None), fence)).messages == 5
            await put_all(backend, 1, "k3", key="k", quick=True)
            await checked(backend)
            assert await drained(backend, "w", 1) == ["x", "q1", "q2", "k1", "k2", "k3"]
            await put_all(backend, 1, "long", weight=900)
            await put_all(backend, 1, "k4", key="k", quick=True)
            assert await drained(backend, "w", 1) == ["k4", "long"]

    run(story())


def test_a_lane_is_claimed_and_rescued_with_its_queue(opened: Opened) -> None:
    """Unfinished messages of both lanes return once, and move to another queue in their lane."""

    async def story() -> None:
        async with opened([9, 9]) as backend:
            fence = await fence_of(backend)
            assert [(await backend.claim(one)) for one in "vw"] == [QueueClaim(0), QueueClaim(1)]
            await put_all(backend, 0, "a", "b", weight=900)
            await put_all(backend, 0, "x", "y", quick=True)
            for _ in range(3):
                await taken(backend, "v", 0)
            await backend.release("v", 0)
            claim = await backend.claim("u")
            assert claim is not None
            assert sorted(one.envelope.task_id for one in claim.left_over) == ["a", "x", "y"]
            assert {one.envelope.task_id for one in claim.left_over if one.envelope.quick} == {"x", "y"}
            await backend.release("u", 0)
            while not (await backend.counts()).abandoned:
                await asyncio.sleep(0.05)
            assert (await backend.rescue(0, 1, 9, fence)).messages == 4
            await checked(backend)
            assert await drained(backend, "w", 1) == ["x", "y", "a", "b"]

    run(story())


def test_a_moved_message_stays_for_a_while(opened: Opened) -> None:
    """Orders with an interval leave it where it is, and with it all of its key; others go."""

    async def story() -> None:
        async with opened([9, 9]) as backend:
            fence = await fence_of(backend)
            await put_all(backend, 0, "a")
            await put_all(backend, 0, "k1", key="k")
            assert (await backend.move(MoveMessages(0, 1, 9, None, 60.0), fence)).messages == 2
            await put_all(backend, 1, "b")
            await put_all(backend, 1, "k2", key="k")
            assert (await backend.move(MoveMessages(1, 0, 9, None, 60.0), fence)).messages == 1
            assert [one.length for one in (await backend.counts()).queues] == [1, 3]
            assert (await backend.move(MoveMessages(1, 0, 9, None), fence)).messages == 3
            await checked(backend)

    run(story())


def test_moves_stop_at_the_targets_capacity(opened: Opened) -> None:
    """Balancing must not overfill a queue that was filled after the observation."""

    async def story() -> None:
        async with opened([9, 2]) as backend:
            fence = await fence_of(backend)
            await put_all(backend, 0, "a", "b", "c")
            await put_all(backend, 1, "z")
            assert (await backend.move(MoveMessages(0, 1, 3, None), fence)).messages == 1
            assert [one.length for one in (await backend.counts()).queues] == [2, 2]
            await checked(backend)

    run(story())


def test_one_process_schedules_and_a_lost_lease_is_void(opened: Opened) -> None:
    """Of two schedulers the second waits; the orders of one without heartbeats for too long are void."""

    async def story() -> None:
        async with opened([9, 9]) as backend:
            old = await backend.lease("first", 0.2)
            assert old is not None
            assert await backend.lease("second", 60.0) is None
            assert await backend.lease("first", 0.2) == old
            new = None
            while new is None:
                await asyncio.sleep(0.05)
                new = await backend.lease("second", 60.0)
            assert new > old
            assert await backend.lease("first", 0.2) is None
            await put_all(backend, 0, "a", "b")
            assert not await backend.mark(0, True, old)
            assert (await backend.move(MoveMessages(0, 1, 2, None), old)).messages == 0
            assert (await backend.rescue(0, 1, 2, old)).messages == 0
            assert [(one.length, one.paused) for one in (await backend.counts()).queues] == [
                (2, False),
                (0, False),
            ]
            assert await backend.mark(0, True, new)
            assert (await backend.move(MoveMessages(0, 1, 2, None), new)).messages == 2

    run(story())


def test_each_worker_has_a_queue_and_others_stand_by(opened: Opened) -> None:
    """A queue that is given back goes to the next, with what was not finished, in order and once."""

    async def story() -> None:
        async with opened([9, 9]) as backend:
            await put_all(backend, 1, "a", "b", "c")
            assert await backend.claim("v") == QueueClaim(1)  # the longest first
            assert await backend.claim("v") == QueueClaim(1)
            assert await backend.claim("w") == QueueClaim(0)
            assert await backend.claim("x") is None
            first, second = await taken(backend, "v", 1), await taken(backend, "v", 1)
            await backend.release("v", 1)
            with pytest.raises(QueueOwnershipLostError, match="queue 1"):
                await backend.take("v", 1, 0.001)
            await backend.release("w", 1)  # not w's: nothing happens
            claim = await backend.claim("x")
            assert claim is not None
            assert [one.envelope.task_id for one in claim.left_over] == ["a", "b"]
            assert [one.deaths for one in claim.left_over] == [0, 0]
            assert await backend.finish(first)  # v was not dead, only slow to end
            assert not await backend.start("x", claim.left_over[0])
            assert await backend.start("x", claim.left_over[1])
            assert await backend.finish(claim.left_over[1])
            assert not await backend.finish(second)
            assert await drained(backend, "x", 1) == ["c"]
            await checked(backend)

    run(story())


def test_a_worker_that_reconnects_continues_with_its_queue(opened: Opened) -> None:
    """What it has in work is not handed out again, the rest is, and its old name is void."""

    async def story() -> None:
        async with opened([9, 9]) as backend:
            await put_all(backend, 0, *"abc")
            assert await backend.claim("w") == QueueClaim(0)
            first, _ = await taken(backend, "w", 0), await taken(backend, "w", 0)
            await put_all(backend, 1, *"vwxyz")  # longer: others would have it
            claim = await backend.claim("w-1", "w", [first])
            assert claim is not None
            assert [(one.queue, one.envelope.task_id, one.deaths) for one in claim.left_over] == [(0, "b", 0)]
            with pytest.raises(QueueOwnershipLostError):
                await backend.take("w", 0, 0.001)
            await backend.release("w", 0)  # nothing happens
            assert await backend.claim("x") == QueueClaim(1)
            assert await backend.claim("y") is None
            assert await backend.start("w-1", claim.left_over[0])
            assert await backend.finish(claim.left_over[0])
            assert await drained(backend, "w-1", 0) == ["c"]
            assert await backend.finish(first)
            await checked(backend)

    run(story())


def test_without_workers_messages_wait(opened: Opened) -> None:
    """Queues without a worker are closed only once another has one."""

    async def story() -> None:
        async with opened([9, 9]) as backend:
            await put_all(backend, 0, "a")
            assert (await backend.counts()).closed() == [False, False]
            await backend.claim("w")
            assert (await backend.counts()).closed() == [False, True]
            assert backend.ledger.open == [True, False]

    run(story())


def test_an_abandoned_queue_is_emptied_into_others(opened: Opened) -> None:
    """Also of what its worker had taken, the oldest first, and keys whole."""

    async def story() -> None:
        async with opened([9, 9]) as backend:
            fence = await fence_of(backend)
            assert [(await backend.claim(one)) for one in "vw"] == [QueueClaim(0), QueueClaim(1)]
            await put_all(backend, 0, "k1", key="k")
            await put_all(backend, 0, "x")
            await put_all(backend, 0, "k2", key="k")
            await taken(backend, "v", 0)
            assert (await backend.rescue(0, 1, 9, fence)).messages == 0  # v lives
            await backend.release("v", 0)
            while not (abandoned := (await backend.counts()).abandoned):
                await asyncio.sleep(0.05)
            assert abandoned == (0,)
            assert (await backend.rescue(0, 1, 1, fence)).messages == 1
            await checked(backend)
            assert (await backend.rescue(0, 1, 9, fence)).messages == 2
            assert (await backend.counts()).abandoned == ()
            await checked(backend)
            assert await drained(backend, "w", 1) == ["x", "k1", "k2"]

    run(story())


def test_a_known_idempotency_key_is_accepted_and_not_put_in_again(opened: Opened) -> None:
    """A sender without a response sends the message again, also after it was finished."""

    async def story() -> None:
        async with opened([9, 9]) as backend:
            await backend.claim("w")
            assert await backend.put(message("a", once="o"), 0) == 0
            assert await backend.put(message("a", once="o"), 1) == 0
            assert await drained(backend, "w", 0) == ["a"]
            assert await backend.put(message("a", once="o"), 0) == 0
            assert await drained(backend, "w", 0) == []
            assert (await backend.server_counts()).duplicates == 2
            await checked(backend)

    run(story())


def test_a_burst_of_senders_at_once_is_let_in(opened: Opened) -> None:
    """Two hundred simultaneous senders wait for a connection, and none gets a connection error."""

    async def story() -> None:
        async with opened([300]) as backend:
            found = await asyncio.gather(*(backend.put(message(str(one)), 0) for one in range(200)))
            assert set(found) == {0}
            await checked(backend)

    run(story())


def test_the_scheduler_relieves_and_rescues(opened: Opened) -> None:
    """Nine of ten places used next to an empty queue: half moves; a queue without a worker is emptied."""

    async def story() -> None:
        async with opened([10, 10]) as backend:
            assert [(await backend.claim(one)) for one in "vw"] == [QueueClaim(0), QueueClaim(1)]
            await put_all(backend, 0, *"abcdefghi", weight=1_000_000)
            fence = await fence_of(backend)
            scheduler = Scheduler(backend, "s", SchedulingSettings(), mean_weight=1.0)
            await scheduler.turn(fence)
            assert [one.length for one in (await backend.counts()).queues] == [
                9,
                0,
            ]  # one look shows no trend
            await asyncio.sleep(0.01)
            await scheduler.turn(fence)
            counts = (await backend.counts()).queues
            assert [one.length for one in counts] == [5, 4]
            beside = await backend.server_counts()
            assert (beside.moved, beside.pauses) == (4, 1)  # paused, relieved and opened again
            for paused in (True, True, False):
                assert await backend.mark(0, paused, fence)
            assert (await backend.server_counts()).pauses == 2
            await checked(backend)
            await backend.release("w", 1)
            while (await backend.counts()).queues[1].length:
                await scheduler.turn(fence)
                await asyncio.sleep(0.05)
            assert [one.length for one in (await backend.counts()).queues] == [9, 0]
            await checked(backend)
            assert sorted(await drained(backend, "v", 0)) == list("abcdefghi")

    run(story())


def test_messages_behind_a_hanging_worker_are_moved(opened: Opened) -> None:
    """What it has in hand stays, and so does the rest of that key; the queue is open again afterwards."""

    async def story() -> None:
        async with opened([10, 10]) as backend:
            assert [(await backend.claim(one)) for one in "vw"] == [QueueClaim(0), QueueClaim(1)]
            await put_all(backend, 0, "k1", "k2", key="k")
            await put_all(backend, 0, *"abc")
            held = await taken(backend, "v", 0)
            fence = await fence_of(backend)
            settings = SchedulingSettings(overload_threshold=1.0, trend="none", idle_transfer="nothing")
            scheduler = Scheduler(backend, "s", settings, mean_weight=1.0, hang_timeout_seconds=0.05)
            await scheduler.turn(fence)
            assert [one.length for one in (await backend.counts()).queues] == [5, 0]
            await asyncio.sleep(0.1)
            for _ in range(2):
                await scheduler.turn(fence)
                counts = (await backend.counts()).queues
                assert [(one.length, one.paused) for one in counts] == [(2, True), (3, False)]
            await checked(backend)
            assert await drained(backend, "w", 1) == ["a", "b", "c"]
            # Where the other queue is full, or its worker hangs too, this one is better than none.
            await put_all(backend, 1, *map(str, range(10)))
            await scheduler.turn(fence)
            assert not (await backend.counts()).queues[0].paused
            assert await backend.finish(held)
            await scheduler.turn(fence)
            assert await drained(backend, "v", 0) == ["k2"]
            await checked(backend)

    run(story())


def test_messages_behind_a_late_worker_are_moved_to_idle_ones(opened: Opened) -> None:
    """What it has in hand stays, and so does the rest of that key; its queue receives nothing meanwhile."""

    async def story() -> None:
        async with opened([10, 10, 10]) as backend:
            assert [(await backend.claim(one)) for one in "uvw"] == [
                QueueClaim(0),
                QueueClaim(1),
                QueueClaim(2),
            ]
            await put_all(backend, 0, "k1", "k2", key="k")
            await put_all(backend, 0, *"abcde")
            held = await taken(backend, "u", 0)
            fence = await fence_of(backend)
            scheduler = Scheduler(backend, "s", SchedulingSettings(), mean_weight=1.0)
            await scheduler.turn(fence)
            assert [one.length for one in (await backend.counts()).queues] == [7, 0, 0]
            await asyncio.sleep(0.01)
            await scheduler.turn(fence)
            counts = (await backend.counts()).queues
            assert [one.length for one in counts] == [2, 3, 2]
            assert [one.paused for one in counts] == [True, False, False]
            await checked(backend)
            assert await backend.finish(held)
            await scheduler.turn(fence)
            assert not (await backend.counts()).queues[0].paused
            assert await drained(backend, "u", 0) == ["k2"]
            assert sorted([*await drained(backend, "v", 1), *await drained(backend, "w", 2)]) == list("abcde")
            await checked(backend)

    run(story())


def test_fewer_queues_are_drained_while_senders_adapt(server: Server) -> None:
    """What lies beyond goes to those that are left, each key in its order, also of a key with very many."""

    async def story() -> None:
        name = uuid4().hex
        before = RedisBackend(server.url, name, [2000] * 8, heartbeat_timeout_seconds=2.0)
        await before.open()
        await put_all(before, 7, *(f"k{one}" for one in range(MOVE_BATCH_SIZE + 1)), key="k")
        await put_all(before, 5, "x", "y", quick=True)
        broker = BalancedBroker(server.url, name=name, queues=2, capacity=2000, schedule=False)
        await broker.startup()
        backend = broker.backend
        assert await broker.unhealthy() == [
            "no queue has a living worker: start some",
            "queue 5 holds 2 messages and is beyond the 2 queues: they are about to be moved",
            "queue 7 holds 501 messages and is beyond the 2 queues: they are about to be moved",
        ]
        assert "\ntrimtab_queues_stranded_messages 503\n" in await broker.metrics()
        assert [await backend.claim(one) for one in "vw"] == [QueueClaim(0), QueueClaim(1)]
        assert await backend.put(message("k501", key="k"), 0) == 7
        scheduler = Scheduler(backend, "s", SchedulingSettings(), mean_weight=1.0)
        await scheduler.turn(await fence_of(backend))
        assert await broker.unhealthy() == []
        counts = (await backend.counts()).queues
        assert tuple(one.derivable() for one in counts) == await backend.recount()
        found = [await drained(backend, worker, queue) for queue, worker in enumerate("vw")]
        found.sort(key=len)
        assert found == [["x", "y"], [f"k{one}" for one in range(MOVE_BATCH_SIZE + 2)]]
        # A worker that has the queue still empties it itself.
        assert await before.claim("u") == QueueClaim(2)
        await put_all(before, 2, "z")
        assert await broker.unhealthy() == []
        await scheduler.turn(await fence_of(backend))
        assert await drained(before, "u", 2) == ["z"]
        await before.close()
        await broker.shutdown()

    run(story())


def test_a_clock_that_jumps_neither_hangs_nor_loses(server: Server) -> None:
    """Clock back: a dead worker's heartbeat would count for an hour. Clock ahead: the next heartbeat repairs
    it.
    """

    async def story() -> None:
        async with redis_streams(server.url)([9]) as backend, Redis.from_url(server.url) as client:
            counts = f"{backend.base}:counts"  # type: ignore[attr-defined]
            now = (await client.time())[0] * 1000
            await put_all(backend, 0, "a")
            await client.hset(counts, mapping={"owner:0": "dead", "until:0": now + 3_600_000, "life:0": 2000})
            assert not (await backend.counts()).queues[0].alive
            assert await backend.claim("w") == QueueClaim(0)
            first = await taken(backend, "w", 0)
            await client.hset(counts, "until:0", now - 3_600_000)
            while not (await backend.counts()).queues[0].alive:
                await asyncio.sleep(0.05)  # w gives signs of life from a thread
            assert await backend.claim("x") is None
            assert await backend.finish(first)
            await checked(backend)
            # The lease of one who died before the server's clock went back would keep others out for an hour.
            dead = await backend.lease("dead", 60.0)
            assert dead is not None
            assert await backend.lease("next", 60.0) is None
            await client.pexpire(f"{backend.base}:lease", 3_600_000)  # type: ignore[attr-defined]
            assert await backend.lease("next", 60.0) == dead + 1
            assert not await backend.mark(0, True, dead)

    run(story())


def test_time_without_the_server_does_not_count_as_missing_heartbeats(server: Server) -> None:
    """Heartbeats count for the additional time; heartbeats missing before the outage do not."""

    async def story() -> None:
        async with redis_streams(server.url)([9, 9, 9]) as backend, Redis.from_url(server.url) as client:
            counts = f"{backend.base}:counts"  # type: ignore[attr-defined]
            for away in (60_000, -60_000):  # its clock may go back as well
                now = (await client.time())[0] * 1000
                heard = now - away
                signs = {0: heard + 1500, 1: heard - 1, 2: heard + 1500}
                await client.hset(counts, mapping={"heard": heard, "owner:0": "w", "owner:1": "dead"})
                await client.hset(counts, mapping={f"until:{one}": at for one, at in signs.items()})
                await client.hset(counts, mapping={"life:0": 2000, "life:1": 2000, "life:2": 200_000})
                await backend.lease("s", 60.0)
                alive = [one.alive for one in (await backend.counts()).queues]
                assert alive == [True, False, away < 0]
                claim = await backend.claim("x")
                assert claim is not None
                assert claim.queue in (1, 2)
                await backend.release("x", claim.queue)

    run(story())


def test_a_burst_sent_at_one_instant_is_spread(server: Server) -> None:
    """Messages in flight count: no response has arrived when the last one is dispatched."""

    async def story() -> None:
        broker = BalancedBroker(server.url, name="burst", queues=2, default_weight=0.01)

        async def vote(number: int) -> None: ...

        task = broker.register_task(vote, task_name="vote")
        await broker.startup()
        labels = [{"affinity_key": f"strand-{one}"} for one in range(32)]
        await asyncio.gather(*(task.kicker().with_labels(**one).kiq(0) for one in labels))
        assert min(one.length for one in (await broker.backend.counts()).queues) >= 12
        await broker.shutdown()

    run(story())


def test_foreign_entries_in_a_stream_are_skipped(server: Server) -> None:
    """It is counted nowhere, moved nowhere, and the message behind it is next."""

    async def story() -> None:
        async with redis_streams(server.url)([9, 9]) as backend, Redis.from_url(server.url) as client:
            fence = await fence_of(backend)
            assert await backend.claim("w") == QueueClaim(0)
            base = backend.base  # type: ignore[attr-defined]
            await client.xadd(f"{base}:queue:0", {"some": "thing"})
            await put_all(backend, 0, "a")
            await client.xadd(f"{base}:queue:0:quick", {"some": "thing"})
            await checked(backend)
            assert (await backend.move(MoveMessages(0, 1, 9, None), fence)).messages == 1
            assert (await backend.move(MoveMessages(1, 0, 9, None), fence)).messages == 1
            assert await drained(backend, "w", 0) == ["a"]
            await checked(backend)
            assert await client.hget(f"{base}:counts", "foreign") == b"2"

    run(story())


@pytest.mark.parametrize("binary", SERVERS)
def test_a_full_server_refuses_messages_and_lets_work_go_on(binary: str, tmp_path: Path) -> None:
    """Nothing of what it refuses is there in part; what is finished makes room."""
    server = Server(SERVERS[binary], tmp_path)

    async def story() -> None:
        async with redis_streams(server.url)([1000]) as backend, Redis.from_url(server.url) as client:
            about = await client.info()
            if int(str(about["redis_version"]).partition(".")[0]) < 7:
                pytest.skip(
                    f"{binary} is older than 7: it has no words for scripts that a full server must run"
                )
            await backend.claim("w")
            await put_all(backend, 0, "a", "b")
            await client.config_set("maxmemory", "1")
            with pytest.raises(QueuesFullError, match="the server of the queues is full") as told:
                await backend.put(message("c"), 0)
            assert told.value.retry_after_seconds > 0
            await checked(backend)
            assert await drained(backend, "w", 0) == ["a", "b"]
            await checked(backend)
            await client.config_set("maxmemory", "0")
            await put_all(backend, 0, "c")

    run(story())
    server.stop()
