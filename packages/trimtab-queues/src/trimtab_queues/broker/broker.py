"""`BalancedBroker`: a broker for taskiq whose queues are balanced by work.

It chooses a queue for each message by a dispatch policy, delivers messages to workers, and balances queues
every second. Its arguments may come from the tables `[queues]` and `[clusters.NAME]` of the settings.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from os import getpid
from pathlib import Path
from socket import gethostname
from typing import Any, Final, NoReturn
from uuid import uuid4

from taskiq import AckableMessage, AsyncBroker, BrokerMessage, TaskiqEvents
from taskiq.brokers.inmemory_broker import InmemoryResultBackend
from taskiq.receiver import Receiver
from taskiq.utils import maybe_awaitable

from trimtab_common import REDIS_SCHEMES
from trimtab_common.errors import ConnectError, InputError, SettingsError
from trimtab_common.files import read_secret
from trimtab_common.settings import CLUSTERS, read_unchecked
from trimtab_queues.broker.backend import (
    MICROSECONDS,
    AcceptedIds,
    Backend,
    Delivery,
    Envelope,
    MessageOrigin,
    QueuesFullError,
    end_task,
    envelope_of,
    lightest,
    microseconds,
    origin_of,
)
from trimtab_queues.broker.balancing import Scheduler
from trimtab_queues.broker.in_process import InProcessBackend
from trimtab_queues.broker.listener import WorkerListener
from trimtab_queues.broker.reporter import MetricsReporter, apply_published, exposition, own_queues, unhealthy
from trimtab_queues.core.catalogue import DispatchInputs, policy_named
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.ordering import OVERTAKE_SECONDS
from trimtab_queues.core.policies import DispatchPolicy, LeastWorkLeft
from trimtab_queues.core.scheduling import HANG_SECONDS, SchedulingSettings
from trimtab_queues.format.documents import (
    CLASSES_MAX,
    SECTION,
    PublishedWeights,
    QueuesSettings,
    check_numbers,
    full_address,
    is_cluster,
)


def broker_arguments(
    file: Path | None, environ: Mapping[str, str], cluster: str | None = None
) -> dict[str, Any]:
    """Arguments of `BalancedBroker` from the settings: `[queues]` and a server in `[clusters.NAME]`.

    Parameters
    ----------
    cluster
        The name of the server, if the settings name several.

    Raises
    ------
    SettingsError
        If the file or a value in these tables is wrong, or several servers are named and none is chosen.
    """
    read = read_unchecked(file, (), environ, {SECTION.name: SECTION, CLUSTERS: None}, lambda fault: None)
    settings: QueuesSettings = read.bound(SECTION)
    server = _server(read.table(CLUSTERS), cluster)
    weights = sorted(settings.weights.values())
    given = DispatchInputs(random.Random().random, tuple((one, 1.0) for one in weights))
    found: dict[str, Any] = {
        "queues": settings.queues,
        "capacity": settings.capacity,
        "policy": lambda ledger: policy_named(settings.policy, ledger, given),
        "weights": settings.weights,
        "default_weight": settings.default_weight,
        "scheduling": settings.scheduling,
        "enqueue_timeout_seconds": None
        if settings.enqueue_timeout_seconds < 0
        else settings.enqueue_timeout_seconds,
        "heartbeat_timeout_seconds": settings.heartbeat_timeout_seconds,
        "max_worker_crashes": settings.max_worker_crashes,
        "hang_timeout_seconds": settings.hang_timeout_seconds,
        "max_overtake_seconds": settings.max_overtake_seconds,
        "slots": settings.slots,
        "max_async_tasks": settings.max_async_tasks,
    }
    if server:
        password = server.get("password")
        if password is None and "password_file" in server:
            password = read_secret("password_file", read.folder / str(server["password_file"]))
        files = {
            option: read.folder / str(server[key])
            for key, option in {
                "tls_ca": "ssl_ca_certs",
                "tls_certificate": "ssl_certfile",
                "tls_key": "ssl_keyfile",
            }.items()
            if key in server
        }
        found["url"] = full_address(
            str(server["address"]), None if password is None else str(password), **files
        )
        found["name"] = str(server.get("name", "queues"))
    return found


def _server(clusters: Mapping[str, object], name: str | None) -> Mapping[str, object]:
    """The table of the chosen server, or of the only one; empty if there is none."""
    servers = {
        one: table
        for one, table in clusters.items()
        if isinstance(table, dict) and str(table.get("address", "")).startswith(REDIS_SCHEMES)
    }
    if name is not None and name not in servers:
        raise SettingsError(
            f"cluster {name!r} is none of the servers in [clusters.NAME]: {', '.join(servers) or 'none'}"
        )
    if name is None and len(servers) > 1:
        raise SettingsError(f"the settings name several servers: pass cluster= {' or '.join(servers)}")
    return servers[name] if name is not None else next(iter(servers.values()), {})


HANDOVER_SECONDS = 0.02
"""Work that a worker of a server fetches at once: quick messages cost fewer commands, long ones can move."""
STALE_SECONDS = 0.05
"""A sender that heard nothing of the queues for so long looks at them before it chooses one."""
RETRY_SECONDS = 0.02
"""Senders that find no open queue look again so often, together."""
CHOICES_MAX = 8
"""Queues that a message tries before it waits: other senders may take the last places at the same time."""
MAX_RESULTS = 10_000
"""Results that a broker without a server remembers."""
RECEIVER_ACKNOWLEDGES_ALL: Final = tuple(map(int, version("taskiq").split(".")[:2])) >= (0, 13)
"""Whether taskiq acknowledges malformed messages and those of unknown tasks; 0.12 only logs a warning."""


class BalancedBroker(AsyncBroker):
    """A taskiq broker with one queue per worker, balanced by work.

    Parameters
    ----------
    url
        Server (Redis 6.2 or newer, or Valkey): redis://host:port/database, or nodes of a cluster,
        redis+cluster://host:port,host:port. None: queues inside this process, whose workers start with it.
    name
        Name of the set of queues; several sets can share one server.
    queues
        Number of queues: the largest number of workers that can be busy at once. Further workers stand by.
    capacity
        Maximum number of messages in a queue.
    policy
        Creates the dispatch policy from the ledger of the queues: a class of
        `trimtab_queues.core.policies` whose workers take only from their own queue.
    weights
        Seconds of processing by class, for messages without label `weight`.
    default_weight
        Seconds of processing of classes that are not in `weights`.
    scheduling
        Settings of balance scheduling; None: no scheduling.
    enqueue_timeout_seconds
        Time that `kiq` waits if no queue is open, before it raises `QueuesFullError` (taskiq wraps it into
        `SendTaskError`; `retry_after_seconds` finds it). None: no limit; 0: no wait.
    max_async_tasks
        Number of messages that a worker inside this process handles at once. For workers of a server use
        `taskiq worker --max-async-tasks`.
    heartbeat_timeout_seconds
        Heartbeat timeout of a worker.
    max_worker_crashes
        After this many worker crashes the message goes to the dead-letter queue.
    hang_timeout_seconds
        A worker hangs if it finishes nothing for this time plus three times the weight of its current
        messages. Balance scheduling moves the waiting messages behind it.
    max_overtake_seconds
        Messages that take less than half of the usual work of these queues overtake messages of the same
        queue that were accepted up to this long before them; 0: strict order of arrival.
    slots
        Number of hash slots of a Redis Cluster over which the queues are spread.
    schedule
        Whether this process may run balance scheduling; default: workers may.

    Raises
    ------
    InputError
        If a number is out of range, or the workers of the policy take from others' queues.
    ConnectError
        From `kiq` and `startup`, if the server does not respond.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        name: str = "queues",
        queues: int = 4,
        capacity: int = 10_000,
        policy: Callable[[QueueLedger], DispatchPolicy] = LeastWorkLeft,
        weights: Mapping[str, float] | None = None,
        default_weight: float = 1.0,
        scheduling: SchedulingSettings | None = SchedulingSettings(),  # noqa: B008 (frozen)
        enqueue_timeout_seconds: float | None = 0.0,
        max_async_tasks: int = 1,
        heartbeat_timeout_seconds: float = 10.0,
        max_worker_crashes: int = 5,
        hang_timeout_seconds: float = HANG_SECONDS,
        max_overtake_seconds: float = OVERTAKE_SECONDS,
        slots: int = 3,
        schedule: bool | None = None,
    ) -> None:
        super().__init__()
        check_numbers(
            {
                "queues": queues, "capacity": capacity, "enqueue_timeout_seconds": enqueue_timeout_seconds,
                "max_async_tasks": max_async_tasks, "heartbeat_timeout_seconds": heartbeat_timeout_seconds,
                "max_worker_crashes": max_worker_crashes,
                "hang_timeout_seconds": hang_timeout_seconds, "max_overtake_seconds": max_overtake_seconds,
                "slots": slots,
            },
            _reject,
        )  # fmt: skip
        self.weights = {
            name: _seconds(one, f"weight of class {name}") for name, one in (weights or {}).items()
        }
        self.default_weight = _seconds(default_weight, "default_weight")
        self.enqueue_timeout_seconds, self.max_async_tasks = enqueue_timeout_seconds, max_async_tasks
        self.backend: Backend
        self._inside = url is None
        self._has_lanes = max_overtake_seconds > 0
        if url is None:
            self.backend = InProcessBackend([capacity] * queues, max_overtake_seconds=max_overtake_seconds)
            self.result_backend = InmemoryResultBackend(max_stored_results=MAX_RESULTS)
        else:
            from trimtab_queues.broker.redis_streams.cluster import RedisClusterBackend
            from trimtab_queues.broker.redis_streams.streams import RedisBackend

            settings: dict[str, Any] = {
                "heartbeat_timeout_seconds": heartbeat_timeout_seconds,
                "max_worker_crashes": max_worker_crashes,
                "max_overtake_seconds": max_overtake_seconds, "hand_seconds": HANDOVER_SECONDS,
            }  # fmt: skip
            self.backend = (
                RedisClusterBackend(url, name, [capacity] * queues, min(slots, queues), **settings)
                if is_cluster(url)
                else RedisBackend(url, name, [capacity] * queues, **settings)
            )
        self.policy = own_queues(policy(self.backend.ledger))
        self.scheduling, self._schedule, self._hang_seconds = scheduling, schedule, hang_timeout_seconds
        self.learned: dict[str, float] = {}
        self._declared: dict[str, float] = {}
        self._known: Mapping[str, float] = self.weights
        self.reporter = MetricsReporter(self)
        self.add_middlewares(AcceptedIds())
        if not self._inside:
            self.add_middlewares(self.reporter)
        self._scheduler: Scheduler | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._name = ""
        self._listeners: dict[str, WorkerListener] = {}
        self._open = False
        self._workers: list[asyncio.Task[None]] = []
        self._scheduling: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._threads = ThreadPoolExecutor()
        self._poll_task = asyncio.Lock()
        self._in_flight: dict[str, _KeyInFlight] = {}

    @classmethod
    def from_settings(
        cls, file: Path | None = None, cluster: str | None = None, **more: Any
    ) -> BalancedBroker:
        """A broker from the tables `[queues]` and `[clusters.NAME]` of a settings file.

        Parameters
        ----------
        file
            By default as for commands: `$TRIMTAB_SETTINGS`, else `trimtab.toml` in the working folder,
            else in the user's configuration folder.
        cluster
            The name of the server in `[clusters.NAME]`, if the settings name several.
        more
            Arguments of the class, which go before the settings.

        Raises
        ------
        SettingsError
            If the file or a value in these sections is wrong.
        """
        return cls(**{**broker_arguments(file, os.environ, cluster), **more})

    async def startup(self) -> None:
        """Open the queues; workers inside this process begin.

        Raises
        ------
        InputError
            If messages lie in another number of slots of a cluster.
        ConnectError
            If the server does not answer.
        """
        if self._open:
            return
        self._open = True
        # Not where the broker is made: a process that forks afterwards would share its name.
        self._name = f"{gethostname()}:{getpid()}:{uuid4().hex[:8]}"
        await super().startup()
        try:
            await self.backend.open()
        except InputError:
            self._open = False  # or the next message would go to other slots than those that hold messages
            raise
        if self._inside:
            for handler in self.event_handlers[TaskiqEvents.WORKER_STARTUP]:
                await maybe_awaitable(handler(self.state))
            self._stop.clear()
            self._workers = [asyncio.create_task(self._work()) for _ in range(len(self.backend.ledger))]
        may = self._inside or self.is_worker_process if self._schedule is None else self._schedule
        if self.scheduling is not None and may:
            self._scheduler = Scheduler(
                self.backend,
                self._name,
                self.scheduling,
                self.default_weight,
                hang_timeout_seconds=self._hang_seconds,
            )
            self._scheduling = asyncio.create_task(self._scheduler.run())
        if not self._inside:
            await self.reporter.exchange()
            self._reporting = asyncio.create_task(self.reporter.run())

    async def shutdown(self) -> None:
        """Finish current messages, release the queues, and close connections."""
        self._stop.set()
        workers, self._workers = self._workers, []
        await asyncio.gather(*workers)
        for task in (self._scheduling, self._reporting):
            if task is not None:
                await end_task(task)
        if self._reporting is not None:
            await self.reporter.exchange()
        for listener in self._listeners.values():
            await listener.leave()
        self._listeners.clear()
        if self._inside:
            for handler in self.event_handlers[TaskiqEvents.WORKER_SHUTDOWN]:
                await maybe_awaitable(handler(self.state))
        await super().shutdown()
        await self.backend.close()
        self._open = False
        self._threads.shutdown()

    async def drained(self) -> None:
        """Wait until no queue holds a message."""
        while any(one.length for one in (await self.backend.counts()).queues):
            await asyncio.sleep(0.02)

    @property
    def process(self) -> str:
        """A name that no other process has; empty before `startup`."""
        return self._name

    @property
    def queue(self) -> int | None:
        """The queue of this process, or the first of several; None if it has none."""
        return next((one.queue for one in self._listeners.values() if one.queue is not None), None)

    async def metrics(self) -> str:
        """Counters of all queues, in Prometheus' text format, for a page that your program serves."""
        return exposition(await self.backend.counts(), await self.backend.server_counts())

    async def unhealthy(self) -> list[str]:
        """Problems that need attention, one sentence each; empty if there is none.

        Raises
        ------
        ConnectError
            If the server does not answer.
        """
        return unhealthy(await self.backend.counts(), await self.backend.server_counts())

    async def kick(self, message: BrokerMessage) -> None:
        """Dispatch a message to the queue that the policy chooses.

        Retries and messages of a schedule wait for as long as it takes, whatever `enqueue_timeout_seconds`
        is.

        Raises
        ------
        QueuesFullError
            If no queue is open, or that of its affinity key is full, for `enqueue_timeout_seconds`.
        ConnectError
            If the server does not answer; with an idempotency key, not for `enqueue_timeout_seconds`.
        InputError
            If a label is malformed.
        """
        if not self._open:
            await self.startup()  # as taskiq's own broker inside a process, which asks for none
        envelope = envelope_of(
            message.task_id,
            message.task_name,
            message.message,
            self._labels(message),
            self._known,
            self.default_weight,
        )
        self._carries(envelope)
        enqueue_timeout_seconds = self.enqueue_timeout_seconds
        if origin_of(message.labels) is not MessageOrigin.SENDER:
            # Nobody catches an error of these: a worker would keep the message for ever, and a schedule has
            # had its turn. With a key of its own each may be sent again while the server is away.
            enqueue_timeout_seconds = None
            envelope = replace(envelope, idempotency_key=envelope.idempotency_key or self.id_generator())
        clock = asyncio.get_running_loop().time
        until = None if enqueue_timeout_seconds is None else clock() + enqueue_timeout_seconds
        pause = 0.005
        while True:
            try:
                if await self._dispatched(envelope):
                    break
                refusal: QueuesFullError | ConnectError = self._full(envelope)
            except QueuesFullError as error:
                refusal = error  # the server has no room
            except ConnectError as error:
                # The answer is missing, so it may lie there: only what can be told apart is sent again.
                if not envelope.idempotency_key:
                    raise
                refusal = error
            if until is not None and clock() >= until:
                self.reporter.refused(envelope.class_name)
                raise refusal
            await asyncio.sleep(pause if until is None else min(pause, max(0.0, until - clock())))
            pause = min(pause * 2, 0.25)
        self.reporter.accepted(envelope.class_name)

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """Messages of one worker's own queue; each call creates a worker."""
        worker = f"{self._name}/{len(self._listeners)}"
        listener = self._listeners[worker] = WorkerListener(self.backend, worker)
        async for delivery in listener.deliveries():
            self.reporter.delivered(delivery)
            self._carries(delivery.envelope)
            acknowledge = self._acknowledge(listener, delivery)
            if not RECEIVER_ACKNOWLEDGES_ALL and not self._has_task(delivery.envelope.body):
                await acknowledge()
            yield AckableMessage(data=delivery.envelope.body, ack=acknowledge)

    async def _dispatched(self, envelope: Envelope) -> bool:
        # What lay in the queues when a sender was last told may be done long since: a burst by such a view
        # goes to one queue.
        await self._refreshed(STALE_SECONDS)
        # A refusal brings the ledger up to date, so that the next choice knows better.
        for _ in range(CHOICES_MAX):
            way = self._in_flight.get(envelope.affinity_key)
            queue = self.policy.choose(envelope.weight) if way is None or way.queue is None else way.queue
            if queue is None:
                await self._refreshed(RETRY_SECONDS)
                queue = self.policy.choose(envelope.weight)
            if queue is None and envelope.retry:
                queue = lightest(self.backend.ledger, range(len(self.backend.ledger)))
            if queue is None and not envelope.affinity_key:
                return False
            quick = self._has_lanes and self.backend.lanes.quick(envelope.weight)
            if await self._put(replace(envelope, quick=quick), queue) is not None:
                return True
        return False

    async def _refreshed(self, seconds: float) -> None:
        """Update the ledger if it is older than this; concurrent callers share one request."""
        if self.backend.age_seconds > seconds:
            async with self._poll_task:
                if self.backend.age_seconds > seconds:
                    await self.backend.counts()

    async def _put(self, envelope: Envelope, queue: int | None) -> int | None:
        """Put a message into a queue. Messages of its key that are sent meanwhile follow it."""
        key = envelope.affinity_key
        if not key or queue is None:
            return await self.backend.put(envelope, queue)
        way = self._in_flight.setdefault(key, _KeyInFlight())
        way.queue, way.messages = queue, way.messages + 1
        try:
            found = await self.backend.put(envelope, queue)
            # A queue of a process with more queues is none of ours: the key finds it by itself.
            way.queue = None if found is None or found >= len(self.backend.ledger) else found
        finally:
            way.messages -= 1
            if not way.messages:
                del self._in_flight[key]
        return found

    def _full(self, envelope: Envelope) -> QueuesFullError:
        ledger = self.backend.ledger
        means = [work / length for work, length in zip(ledger.work, ledger.length, strict=True) if length]
        after = max(1.0, min(means, default=1.0))
        waiting = sum(ledger.length)
        return QueuesFullError(
            f"no queue is open for task {envelope.task_id}: {waiting} messages lie in {len(ledger)} queues "
            f"of {ledger.capacity[0]}; try again in {after:.0f} s, add workers or raise capacity",
            after,
        )

    def apply_published(self, published: PublishedWeights) -> None:
        """Use published weights and settings from now on: all of them, or none with an error."""
        scheduling, policy = apply_published(published, self.scheduling, self.policy, self.backend.ledger)
        self.learned = dict(published.weights)
        self._known = {**self.weights, **self.learned}
        self.scheduling, self.policy = scheduling, policy
        if self._scheduler is not None and scheduling is not None:
            self._scheduler.settings = scheduling

    def weight_of(self, class_name: str) -> float:
        """Processing time in seconds by which messages of a class are dispatched.

        The published weight comes first, then that of the newest message of the class, then that of this
        program.
        """
        if class_name in self.learned:
            return self.learned[class_name]
        return self._declared.get(class_name, self._known.get(class_name, self.default_weight))

    def _carries(self, envelope: Envelope) -> None:
        """Note the weight of a message for its class."""
        if envelope.class_name in self._declared or len(self._declared) < CLASSES_MAX:
            self._declared[envelope.class_name] = envelope.weight

    def _labels(self, message: BrokerMessage) -> Mapping[str, object]:
        """Labels without the default weight of the task, if a measured weight is published."""
        labels = message.labels
        if "weight" not in labels or not self.learned:
            return labels
        task = self.find_task(message.task_name)
        declared = None if task is None else task.labels.get("weight")
        class_name = str(labels.get("message_class") or message.task_name)
        if class_name in self.learned and str(declared) == str(labels["weight"]):
            return {name: value for name, value in labels.items() if name != "weight"}
        return labels

    def _acknowledge(self, listener: WorkerListener, delivery: Delivery) -> Callable[[], Awaitable[None]]:
        async def acknowledge() -> None:
            self.reporter.forget(delivery)
            await listener.done(delivery)

        return acknowledge

    def _has_task(self, body: bytes) -> bool:
        """Whether a body is a message of taskiq whose task this process has."""
        try:
            message = self.formatter.loads(message=body)
            message.parse_labels()
        except Exception:  # serialisers raise errors of many kinds, and taskiq's receiver catches all of them
            return False
        return self.find_task(message.task_name) is not None

    async def _work(self) -> None:
        receiver = Receiver(
            self, executor=self._threads, max_async_tasks=self.max_async_tasks, run_startup=False
        )
        await receiver.listen(self._stop)


@dataclass
class _KeyInFlight:
    """Messages of a key that are being sent: their number and their queue.

    The queue is None if it rejected a message, or is not in the ledger.
    """

    messages: int = 0
    queue: int | None = None


def _reject(name: str, value: object, expected: str) -> NoReturn:
    raise InputError(f"{name} is {value!r}, expected {expected}; correct it")


def _seconds(weight: object, subject: str) -> float:
    return microseconds(weight, subject) / MICROSECONDS
