"""Connections to a server of queues, its errors as one sentence, and entries of its streams.

A back-end on one Redis or Valkey server: a stream for each queue, changed by scripts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from threading import Event, Thread
from time import monotonic, time
from typing import Any, Final, TypeVar

from redis.asyncio import BlockingConnectionPool, Connection, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import (
    ClusterDownError,
    MovedError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as NoAnswer

from trimtab_common.errors import ConnectError
from trimtab_queues.broker.backend import (
    MICROSECONDS,
    Delivery,
    Envelope,
    QueueClaim,
    QueueCounts,
    QueueOwnershipLostError,
    QueuesCounts,
    QueuesFullError,
    ServerCounts,
    bring_queue_up_to,
    bring_up_to,
)
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.ordering import OVERTAKE_SECONDS, LaneClassifier
from trimtab_queues.core.scheduling import MessagesMoved, MoveMessages
from trimtab_queues.format.documents import (
    ON_A_FULL_SERVER,
    RETENTION_SECONDS,
    SCRIPTS,
    RedisKeys,
    credentials_of,
    is_cluster,
    nodes_of,
    script_source,
)

T = TypeVar("T")

AWAY: Final = (NoConnection, NoAnswer, OSError, ClusterDownError, TryAgainError)
"""Errors after which nobody knows whether a command was carried out."""


async def patiently(call: Callable[[], Awaitable[T]], seconds: float = float("inf")) -> T:
    """The answer of a call that may be repeated; waits while the server is away.

    Raises
    ------
    ConnectError
        If the server stays away for this time.
    """
    clock = asyncio.get_running_loop().time
    until, pause = clock() + seconds, 0.05
    while True:
        try:
            return await call()
        except (*AWAY, RedisError) as error:
            if isinstance(error, ResponseError) and not isinstance(error, AWAY) and not _passing(error):
                raise
            if clock() >= until:
                raise no_answer(error) from error
        await asyncio.sleep(pause)
        pause = min(pause * 2, 1.0)


def no_answer(error: BaseException) -> ConnectError:
    """A `ConnectError` for an error of the client library."""
    return ConnectError(
        f"the server of the queues does not answer: {error}; start it or correct the url (a message that was "
        f"being sent may have arrived; with an idempotency_key it can be sent again)"
    )


def _passing(error: ResponseError) -> bool:
    """Whether the reason of an error answer may disappear soon."""
    passing = (OutOfMemoryError, ReadOnlyError)
    return isinstance(error, passing) or str(error).startswith(("BUSY", "MASTERDOWN", "MISCONF"))


def client_of(url: str, base: str, timeout_seconds: float) -> Redis:
    """A client that sends nothing twice; in a cluster, of the node that has the slot of `base`."""
    # In a burst, commands wait for one of 50 connections. The other pool of redis-py raises an error instead.
    settings: dict[str, Any] = {
        "max_connections": 50, "timeout": None, "socket_timeout": timeout_seconds,
        "retry": Retry(NoBackoff(), 0),
    }  # fmt: skip
    if not is_cluster(url):
        return Redis.from_pool(BlockingConnectionPool.from_url(url, **settings))
    return Redis.from_pool(
        BlockingConnectionPool(
            connection_class=SlotConnection,
            nodes=nodes_of(url),
            base=base,
            **settings,
            **credentials_of(url),
        )
    )


async def owner(
    nodes: list[tuple[str, int]], base: str, credentials: Mapping[str, Any] | None = None
) -> tuple[str, int]:
    """The node that has the slot of a name, as the first node that answers reports it.

    Parameters
    ----------
    credentials
        `username` and `password`.

    Raises
    ------
    redis.exceptions.ConnectionError
        If no node answers, or no node has the slot.
    """
    slot, last = key_slot(base.encode()), "no node was asked"
    for host, port in nodes:
        try:
            async with Redis(
                host=host, port=port, socket_timeout=2.0, retry=Retry(NoBackoff(), 0), **(credentials or {})
            ) as client:
                answer = await client.execute_command("CLUSTER SLOTS")  # type: ignore[no-untyped-call]
        except (RedisError, OSError) as error:
            last = f"{host}:{port}: {error}"
            continue
        for first, until, node, *_ in answer:
            if first <= slot <= until:
                return (node[0].decode() or host), int(node[1])
        last = f"{host}:{port} knows no owner of slot {slot}"
    raise NoConnection(f"no node of the cluster has the queues: {last}")


class SlotConnection(Connection):
    """A connection to the node that has the slot of the queues; it connects anew when the slot has moved."""

    def __init__(self, *, nodes: list[tuple[str, int]], base: str, **settings: Any) -> None:
        super().__init__(**settings)
        self._nodes, self._base, self._credentials = nodes, base, _credentials(settings)

    async def _connect(self) -> None:
        self.host, self.port = await owner(self._nodes, self._base, self._credentials)
        await super()._connect()  # type: ignore[no-untyped-call]

    async def read_response(self, *arguments: Any, **settings: Any) -> Any:
        """Read an answer. A moved slot counts as a lost connection."""
        try:
            return await super().read_response(*arguments, **settings)
        except MovedError as error:
            await self.disconnect()
            raise NoConnection(f"the slot of the queues has moved: {error}") from error


def _credentials(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: settings[name] for name in ("username", "password") if settings.get(name)}


QUICK: Final = ":quick"
"""Behind the name of a queue's stream: its quick lane."""


def delivery_of(queue: int, name: bytes, trace: bytes, flat: Sequence[bytes]) -> Delivery:
    """A delivered message, by its name in the queue, its trace of crashes and its fields."""
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    envelope = envelope_of_entry(fields, name.startswith(b"q"))
    return Delivery(int(queue), name.decode(), envelope, len(trace.split()), _waited_seconds(fields))


def envelope_of_entry(fields: dict[bytes, bytes], quick: bool = False) -> Envelope:
    """The message that `put.lua` has written."""
    return Envelope(
        task_id=fields[b"t"].decode(),
        body=fields[b"m"],
        class_name=fields[b"c"].decode(),
        weight_microseconds=int(fields[b"w"]),
        affinity_key=fields[b"k"].decode(),
        quick=quick,
    )


def _waited_seconds(fields: dict[bytes, bytes]) -> float | None:
    """Time from acceptance to delivery on the server's clock; None if an older version wrote the message."""
    accepted, taken = fields.get(b"a"), fields.get(b"n")
    return max(0, int(taken) - int(accepted)) / 1000 if accepted and taken else None


class WorkerHeartbeat:
    """Reports regularly that a worker lives, until it is stopped or another worker has the queue.

    It runs on a thread of its own, since tasks may block the event loop of the worker.

    Parameters
    ----------
    heartbeat_timeout_seconds
        Time for which one heartbeat counts. Four are sent in that time, more while the server is away.
    on_a_full_server
        Whether the server runs marked scripts although its memory is full.
    """

    def __init__(
        self,
        url: str,
        base: str,
        worker: str,
        queue: int,
        heartbeat_timeout_seconds: float,
        on_a_full_server: bool,
    ) -> None:
        self._server = url, base, heartbeat_timeout_seconds
        self._arguments = (str(queue), worker, str(round(heartbeat_timeout_seconds * 1000)))
        self._source = script_source("beat", on_a_full_server)
        self._base, self._pause, self._stop = base, heartbeat_timeout_seconds / 4, Event()
        self._thread = Thread(
            target=lambda: asyncio.run(self._send_heartbeats()), name=f"heartbeat of {worker}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Send no further heartbeat; returns at once."""
        self._stop.set()

    async def _send_heartbeats(self) -> None:
        client, pause = client_of(*self._server), self._pause
        beat = client.register_script(self._source)
        # The wait blocks the event loop of this thread, in which nothing else runs.
        while not self._stop.wait(pause):
            try:
                if not await beat(keys=[self._base], args=self._arguments):
                    break
                pause = self._pause
            except RedisError:
                # When the server is back, the next heartbeat must come before this one counts as missing.
                pause = self._pause / 5
        await client.aclose()


_FIELDS: Final = 9
_UNTIL: Final = 7
_GROUP: Final = "workers"
FINISH_BATCH_SIZE: Final = 500
CREATE_BATCH_SIZE: Final = 100
VIEW_SECONDS: Final = 0.0005
"""Minimum interval, per queue, at which answers to a sender contain all queues. Its cost grows with their
number, so a hundred queues are reported every 50 ms. Each answer contains the queue of its message.
"""


class RedisBackend:
    """Queues of one server.

    Parameters
    ----------
    url
        redis://host:port/database, or rediss:// over TLS.
    name
        Name of the set of queues; several sets can share one server.
    capacity
        Maximum number of messages of each queue, shape (queues,).
    heartbeat_timeout_seconds
        Heartbeat timeout of a worker.
    max_worker_crashes
        After this many worker crashes the message goes to the dead-letter queue.
    idempotency_seconds
        Retention of idempotency keys.
    max_overtake_seconds
        Quick messages overtake messages that arrived up to this long before them.
    hand_seconds
        Work that a worker fetches by one command; fetched messages are not moved.
    """

    def __init__(
        self,
        url: str,
        name: str,
        capacity: Iterable[int],
        heartbeat_timeout_seconds: float = 10.0,
        max_worker_crashes: int = 5,
        idempotency_seconds: float = 3600.0,
        max_overtake_seconds: float = OVERTAKE_SECONDS,
        hand_seconds: float = 0.0,
    ) -> None:
        self.ledger = QueueLedger(capacity)
        self._keys = RedisKeys(name)
        self.base = self._keys.base
        self.heartbeat_timeout_seconds, self.max_worker_crashes = (
            heartbeat_timeout_seconds,
            max_worker_crashes,
        )
        self.idempotency_seconds, self.max_overtake_seconds = idempotency_seconds, max_overtake_seconds
        self._url = url
        # A command that is sent again by the client could put a message in twice: nothing is.
        self._client = client_of(url, self.base, 10.0)
        self.is_disconnected: tuple[int, ...] = ()
        self.lanes = LaneClassifier()
        self.queues = [QueueCounts()] * len(self.ledger)
        self._anyone, self._news = False, set[int]()
        self._requested_at = self._reported_at = -inf
        self._scripts = {one: self._client.register_script(script_source(one)) for one in SCRIPTS}
        self._on_a_full_server = False
        self._hearts: dict[str, WorkerHeartbeat] = {}
        self._hand_microseconds = round(hand_seconds * MICROSECONDS)
        self._hands: dict[str, deque[Delivery]] = {}
        self._newest: dict[str, list[bytes]] = {}
        self._done: deque[tuple[Delivery, asyncio.Future[bool]]] = deque()
        self._notifying: asyncio.Task[None] | None = None

    async def open(self, slots: int = 1) -> None:
        """Create the streams and their consumer groups, unless they exist.

        Parameters
        ----------
        slots
            Number of slots of the cluster of which this is one.
        """
        for first in range(0, len(self.ledger), CREATE_BATCH_SIZE):
            await patiently(lambda first=first: self._make(first), seconds=30.0)  # type: ignore[misc]
        await patiently(lambda: self._run("opened", len(self.ledger), slots), seconds=30.0)
        about = await patiently(lambda: self._client.info("server"), seconds=30.0)
        self._on_a_full_server = int(str(about["redis_version"]).partition(".")[0]) >= 7
        if self._on_a_full_server:
            for one in ON_A_FULL_SERVER:
                self._scripts[one] = self._client.register_script(script_source(one, True))

    async def close(self) -> None:
        """Stop heartbeats, and close connections."""
        for heart in self._hearts.values():
            heart.stop()
        self._hearts.clear()
        await self._client.aclose()

    async def counts(self) -> QueuesCounts:
        """All current counters; the ledger is updated."""
        try:
            return self._learn_all(await self._run("look", len(self.ledger)))
        except AWAY as error:
            raise no_answer(error) from error

    @property
    def age_seconds(self) -> float:
        """Time since the server last reported its queues."""
        return monotonic() - self._reported_at

    def news(self) -> list[int]:
        """Queues that the server has reported since the last call."""
        news, self._news = list(self._news), set()
        return news

    async def server_counts(self) -> ServerCounts:
        """Totals of the server, and queues beyond those of this process."""
        try:
            dead_letters, duplicates, moved, pauses, *rest = await self._run("beside", len(self.ledger))
        except AWAY as error:
            raise no_answer(error) from error
        stranded = dict(zip(rest[::2], rest[1::2], strict=True))
        return ServerCounts(dead_letters, duplicates, moved, pauses, stranded)

    async def put(self, envelope: Envelope, queue: int | None) -> int | None:
        """Put a message into a queue, or into the queue of its affinity key; None if that queue rejects
        it.
        """
        weight, now = envelope.weight, monotonic()
        all_of_them = now - self._requested_at >= VIEW_SECONDS * len(self.ledger)
        if all_of_them:
            self._requested_at = now
        self.lanes.enqueued(weight)
        # On its way it counts there, or a burst sent at one instant goes to one queue.
        if queue is not None:
            self.ledger.sending(queue, weight)
        try:
            found, view = await self._run(
                "put",
                len(self.ledger),
                -1 if queue is None else queue,
                self.ledger.capacity[queue or 0],
                envelope.task_id,
                envelope.class_name,
                envelope.affinity_key,
                envelope.weight_microseconds,
                envelope.body,
                envelope.idempotency_key,
                round(self.idempotency_seconds * 1000),
                QUICK if envelope.quick else "",
                int(all_of_them),
                int(envelope.retry),
            )
        except AWAY as error:
            self._requested_at = self._reported_at = -inf
            raise no_answer(error) from error
        except OutOfMemoryError as error:
            raise QueuesFullError(
                f"the server of the queues is full: {error}; raise its maxmemory or lower capacity",
                self.heartbeat_timeout_seconds,
            ) from error
        finally:
            if queue is not None:
                self.ledger.sent(queue, weight)
        self._learn(view)
        return None if found < 0 else int(found)

    async def claim(
        self, worker: str, previous: str = "", in_work: Collection[Delivery] = ()
    ) -> QueueClaim | None:
        """The worker's own queue, else the longest without a living worker, with its unfinished messages."""
        life = round(self.heartbeat_timeout_seconds * 1000)
        begun = [f"{one.queue}/{one.id}" for one in in_work]
        queue, left = await patiently(
            lambda: self._run(
                "claim", len(self.ledger), worker, life, self.max_worker_crashes, previous, *begun
            )
        )
        if queue < 0:
            return None
        self._forget(previous)
        self._hands[worker], self._newest[worker] = deque(), []
        if worker not in self._hearts:
            self._hearts[worker] = WorkerHeartbeat(
                self._url, self.base, worker, queue, self.heartbeat_timeout_seconds, self._on_a_full_server
            )
        return QueueClaim(queue, tuple(delivery_of(queue, *one) for one in left))

    async def take(self, worker: str, queue: int, timeout_seconds: float) -> Delivery | None:
        """The next message of a queue; waits until one arrives or the time is up."""
        hand = self._hands.setdefault(worker, deque())
        if not hand:
            try:
                await self._fetch(worker, queue, hand, max(1, round(timeout_seconds * 1000)))
            except AWAY as error:
                # Whether something was handed out meanwhile is not known: the next claim tells.
                raise QueueOwnershipLostError(
                    f"the server did not answer worker {worker}: {error}"
                ) from error
            except ResponseError as error:
                if not str(error).startswith("NOGROUP"):
                    raise
                raise QueueOwnershipLostError(f"the server has forgotten queue {queue}: {error}") from error
        return hand.popleft() if hand else None

    async def _fetch(self, worker: str, queue: int, hand: deque[Delivery], wait_milliseconds: int) -> None:
        overtake = round(self.max_overtake_seconds * 1000)
        take = ("take", queue, worker, overtake, self._hand_microseconds)
        newest = self._newest.get(worker)
        if not newest:
            answer = await self._run(*take)
            self._refresh_assignment(worker, queue, hand, answer)
            if hand or not (newest := self._newest[worker]):
                return
        # Nothing waited when the server last answered: whatever came since is newer than what it saw. Both
        # commands go together, so that a message which comes is on its way with one answer.
        lanes: Any = dict(zip(self._lane_counts(queue), newest, strict=True))
        async with self._client.pipeline(transaction=False) as both:
            both.xread(lanes, count=1, block=wait_milliseconds)
            both.evalsha(self._scripts["take"].sha, 1, self.base, *take[1:])
            try:
                answer = (await both.execute())[1]
            except NoScriptError:  # another server at the same address, or the same begun anew
                answer = await self._run(*take)
        self._refresh_assignment(worker, queue, hand, answer)

    def _refresh_assignment(
        self, worker: str, queue: int, hand: deque[Delivery], answer: Sequence[Any]
    ) -> None:
        if answer[0] == -1:
            self._newest[worker] = []
            raise QueueOwnershipLostError(f"queue {queue} is not worker {worker}'s any more: claim one again")
        hand.extend(delivery_of(queue, *one) for one in answer[0])
        self._newest[worker] = list(answer[1:])

    async def start(self, worker: str, delivery: Delivery) -> bool:
        """Start a message that an earlier worker did not finish."""
        return bool(await patiently(lambda: self._run("start", delivery.queue, delivery.id, worker)))

    async def finish(self, delivery: Delivery) -> bool:
        """Remove a message for good; if the server is away, as soon as it is back.

        Messages finished while a command is in flight go with the next command.
        """
        answer = asyncio.get_running_loop().create_future()
        self._done.append((delivery, answer))
        if self._notifying is None or self._notifying.done():
            self._notifying = asyncio.create_task(self._notify())
        return bool(await answer)

    async def _notify(self) -> None:
        while self._done:
            told = [self._done.popleft() for _ in range(min(len(self._done), FINISH_BATCH_SIZE))]
            names = [part for one, _ in told for part in (one.queue, one.id)]
            try:
                found = await patiently(lambda names=names: self._run("finish", *names))  # type: ignore[misc]
            except Exception as error:
                for _, answer in told:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for (_, answer), one in zip(told, found, strict=True):
                if not answer.done():
                    answer.set_result(bool(one))

    async def release(self, worker: str, queue: int) -> None:
        """Give up ownership of a queue."""
        self._forget(worker)
        await patiently(lambda: self._run("release", queue, worker))

    async def lease(self, holder: str, seconds: float) -> int | None:
        """The right to schedule, for some time."""
        fence = await self._run("lease", holder, round(seconds * 1000))
        return None if fence < 0 else int(fence)

    async def mark(self, queue: int, paused: bool, fence: int) -> bool:
        """Pause or resume a queue."""
        return bool(await self._run("mark", queue, int(paused), fence))

    async def move(self, order: MoveMessages, fence: int) -> MessagesMoved:
        """Move waiting messages, the newest first, all of an affinity key or none."""
        messages = -1 if order.messages is None else order.messages
        work = -1 if order.work is None else int(order.work * MICROSECONDS)
        return await self._moved(order.source, order.target, messages, work, fence, 0, order.rest_seconds)

    async def rescue(self, source: int, target: int, messages: int, fence: int) -> MessagesMoved:
        """Move messages of a queue without a worker, the oldest first, those of its last worker too."""
        return await self._moved(source, target, messages, -1, fence, 1, 0.0)

    async def exchange(self, process: str, report: bytes) -> bytes | None:
        """Store a report for a limited time, and get the published document, in one round trip."""
        now, kept = time(), RETENTION_SECONDS
        try:
            async with self._client.pipeline(transaction=False) as calls:
                calls.set(self._keys.report(process), report, px=round(kept * 1000))
                calls.zadd(self._keys.processes, {process: now})
                calls.zremrangebyscore(self._keys.processes, "-inf", now - kept)
                calls.get(self._keys.published)
                answers = await calls.execute(raise_on_error=False)
        except AWAY as error:
            raise no_answer(error) from error
        found: bytes | None = answers[-1] if isinstance(answers[-1], bytes) else None
        return found

    async def recount(self) -> tuple[QueueCounts, ...]:
        """Counters computed from the entries of the streams."""
        found = []
        for queue in range(len(self.ledger)):
            async with self._client.pipeline(transaction=True) as together:
                for stream in self._lane_counts(queue):
                    together.xrange(stream)
                    together.xpending_range(stream, _GROUP, "-", "+", 1_000_000)
                answers = await together.execute()
            weights: list[int] = []
            held: list[int] = []
            for entries, pending in zip(answers[::2], answers[1::2], strict=True):
                of_lane = {name: int(fields[b"w"]) for name, fields in entries if b"w" in fields}
                weights += of_lane.values()
                held += [of_lane[one["message_id"]] for one in pending]
            found.append(QueueCounts(len(weights), sum(weights), len(held), sum(held)))
        journal: Any = await self._client.xrange(f"{self.base}:journal")
        for _, one in journal:
            there = found[int(one[b"from"])]
            found[int(one[b"from"])] = replace(
                there,
                length=there.length + int(one[b"n"]),
                work_microseconds=there.work_microseconds + int(one[b"w"]),
            )
        return tuple(found)

    async def dead_letters(self) -> list[tuple[Envelope, str]]:
        """Dead letters with their traces: each worker that crashed with the message, @ milliseconds."""
        found: Any = await self._client.xrange(f"{self.base}:dead")
        return [(envelope_of_entry(fields), fields[b"x"].decode()) for _, fields in found]

    async def slots(self) -> int:
        """Number of slots of the cluster when it was last opened; 0 if it never was."""
        found: Any = await patiently(lambda: self._client.hget(f"{self.base}:counts", "slots"), seconds=30.0)
        return int(found or 0)

    async def messages(self) -> int:
        """All messages, also those of queues beyond the ledger's."""
        found: Any = await patiently(lambda: self._client.hgetall(f"{self.base}:counts"), seconds=30.0)
        return sum(int(value) for name, value in found.items() if name.startswith(b"length:"))

    async def grace(self) -> None:
        """Start the waiting time of queues without a worker anew."""
        await self._run("grace", len(self.ledger))

    async def send_away(
        self, queue: int, order: MoveMessages, room: int, elsewhere: str, fence: int, rescue: bool
    ) -> MessagesMoved:
        """Move waiting messages without a key from a queue into the journal: the first of two steps.

        Parameters
        ----------
        order
            Limits of the move; its queues are numbers of the whole set.
        room
            Number of messages for which the target has room.
        elsewhere
            Name of the target in the journal.
        """
        messages = -1 if order.messages is None else order.messages
        work = -1 if order.work is None else int(order.work * MICROSECONDS)
        stays = round(order.rest_seconds * 1000)
        count, carried = await self._run(
            "move",
            queue,
            "",
            messages,
            work,
            room,
            fence,
            self.max_worker_crashes,
            int(rescue),
            stays,
            elsewhere,
        )
        return MessagesMoved(order.source, order.target, count, carried / MICROSECONDS)

    async def journal(self) -> list[tuple[str, str, bytes]]:
        """Unfinished moves to other slots: name, target and messages, the oldest first."""
        found: Any = await self._client.xrange(f"{self.base}:journal")
        return [(name.decode(), one[b"to"].decode(), one[b"messages"]) for name, one in found]

    async def arrive(self, queue: int, journey: str, messages: bytes, fence: int) -> bool:
        """Put messages from another slot into a queue, once for any number of calls: the second of two
        steps.
        """
        return bool(await self._run("arrive", queue, journey, fence, messages))

    async def cross_out(self, journey: str) -> None:
        """Delete a finished move from the journal."""
        await self._run("cross_out", journey)

    async def forget(self, journey: str) -> None:
        """Forget that messages have arrived; no further call will ask for them."""
        await self._client.hdel(f"{self.base}:journeys", journey)

    async def _make(self, first: int) -> None:
        async with self._client.pipeline(transaction=False) as calls:
            for queue in range(first, min(first + CREATE_BATCH_SIZE, len(self.ledger))):
                for stream in self._lane_counts(queue):
                    calls.xgroup_create(stream, _GROUP, "0", mkstream=True)
            for answer in await calls.execute(raise_on_error=False):
                if isinstance(answer, Exception) and "BUSYGROUP" not in str(answer):
                    raise answer

    def _forget(self, worker: str) -> None:
        self._hands.pop(worker, None)
        self._newest.pop(worker, None)
        heart = self._hearts.pop(worker, None)
        if heart is not None:
            heart.stop()

    def _lane_counts(self, queue: int) -> tuple[str, str]:
        return f"{self.base}:queue:{queue}{QUICK}", f"{self.base}:queue:{queue}"

    async def _moved(
        self, source: int, target: int, messages: int, work: int, fence: int, rescue: int, rest: float
    ) -> MessagesMoved:
        capacity, stays = self.ledger.capacity[target], round(rest * 1000)
        count, carried = await self._run(
            "move", source, target, messages, work, capacity, fence, self.max_worker_crashes, rescue, stays
        )
        return MessagesMoved(source, target, count, carried / MICROSECONDS)

    async def _run(self, name: str, *arguments: Any) -> Any:
        return await self._scripts[name](keys=[self.base], args=arguments)

    def _learn(self, view: Sequence[Any]) -> None:
        """Apply the counters in an answer, of all queues or of the queue of the message."""
        now, found, queue = int(view[0]), [int(one) for one in view[1].split()], int(view[3])
        if queue == 0 and len(found) == _FIELDS * len(self.ledger):
            self._learn_all(view)
            return
        self._refresh_lanes(view)
        if queue >= len(self.ledger):
            return  # of a process with more queues, where the key is in flight
        one = self.queues[queue] = _counts_of(now, found)
        self._reported_at = monotonic()
        self._news.add(queue)
        bring_queue_up_to(self.ledger, queue, one, self._anyone and not one.alive)

    def _learn_all(self, view: Sequence[Any]) -> QueuesCounts:
        now, found = int(view[0]), [int(one) for one in view[1].split()]
        self._requested_at = self._reported_at = monotonic()
        self._news.update(range(len(self.ledger)))
        self._refresh_lanes(view)
        self.queues, abandoned = [], []
        for queue in range(len(self.ledger)):
            of_queue = found[queue * _FIELDS : (queue + 1) * _FIELDS]
            one = _counts_of(now, of_queue)
            self.queues.append(one)
            if (
                one.length
                and not one.alive
                and abs(now - of_queue[_UNTIL]) >= self.heartbeat_timeout_seconds * 1000
            ):
                abandoned.append(queue)
        self.is_disconnected = tuple(abandoned)
        self._anyone = any(one.alive for one in self.queues)
        counts = QueuesCounts(now / 1000, tuple(self.queues), self.is_disconnected if self._anyone else ())
        bring_up_to(self.ledger, counts)
        return counts

    def _refresh_lanes(self, view: Sequence[Any]) -> None:
        work, squares = view[2].split()
        self.lanes.work = float(work) / MICROSECONDS
        self.lanes.squares = float(squares) / MICROSECONDS**2


def _counts_of(now: int, found: Sequence[int]) -> QueueCounts:
    length, work, held, held_work, arrived, served, paused, until, life = found
    alive = 0 < until - now <= 2 * life
    return QueueCounts(length, work, held, held_work, arrived, served, paused == 1, alive)
