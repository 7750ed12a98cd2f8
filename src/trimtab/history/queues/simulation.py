"""Simulation of queues and workers under a dispatch policy, over recorded arrivals."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain
from math import inf

from trimtab_queues.core.catalogue import CentralQueue, MinMin, WorkStealing
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.ordering import KeyAffinity, LaneClassifier, choose_messages, is_quick_first
from trimtab_queues.core.policies import DispatchPolicy
from trimtab_queues.core.scheduling import (
    Effect,
    MessagesMoved,
    MoveMessages,
    PauseQueue,
    QueuesObserved,
    QueueState,
    SchedulerState,
    SchedulingSettings,
    handle,
)


@dataclass(frozen=True, slots=True)
class ReplayedMessage:
    """A message on its way through the queues.

    Attributes
    ----------
    number
        Its place in the order of arrival.
    deadline
        When its sender wants to hand it over, seconds.
    weight
        Seconds of processing, as the dispatcher believes.
    key
        Its affinity key, a user; None without.
    seconds
        Seconds that its processing takes at speed 1; None where that is its weight.
    """

    number: int
    deadline: float
    weight: float
    key: Hashable | None = None
    seconds: float | None = None

    @property
    def takes_seconds(self) -> float:
        """Seconds of processing at speed 1."""
        return self.weight if self.seconds is None else self.seconds


class ReplayedQueue:
    """Messages that wait in one queue, the oldest first, in one lane or two.

    Parameters
    ----------
    max_overtake_seconds
        A quick message goes before others that came at most so long before it; None: there is one lane.
    """

    def __init__(self, max_overtake_seconds: float | None = None) -> None:
        self._overtake_seconds = max_overtake_seconds
        self._quick: deque[ReplayedMessage] = deque()
        self._other: deque[ReplayedMessage] = deque()
        self._accepted: dict[int, float] = {}
        self._out_of_turn: list[tuple[float, int]] = []

    def __iter__(self) -> Iterator[ReplayedMessage]:
        return chain(self._quick, self._other)

    def __len__(self) -> int:
        return len(self._quick) + len(self._other)

    def append(self, message: ReplayedMessage, accepted: float, *, quick: bool, moved: bool = False) -> None:
        """Put a message at the end of its lane; one that was moved stands behind others that came later."""
        (self._quick if quick else self._other).append(message)
        if self._overtake_seconds is not None:
            self._accepted[message.number] = accepted
            if moved and not quick:
                heappush(self._out_of_turn, (accepted, message.number))

    def take(self) -> ReplayedMessage:
        """The message whose turn it is; there must be one."""
        if self._overtake_seconds is None:
            return self._other.popleft()
        quick, other = self._quick, self._other
        first = bool(quick) and (
            not other
            or is_quick_first(self._accepted[quick[0].number], self._oldest(), self._overtake_seconds)
        )
        message = (quick if first else other).popleft()
        del self._accepted[message.number]
        return message

    def _oldest(self) -> float:
        """When the longest-waiting message of the other lane was accepted."""
        moved, accepted = self._out_of_turn, self._accepted
        while moved and accepted.get(moved[0][1]) != moved[0][0]:
            heappop(moved)
        first = accepted[self._other[0].number]
        return min(first, moved[0][0]) if moved else first

    def remove(self, places: Collection[int]) -> list[tuple[ReplayedMessage, bool]]:
        """Take messages out by their places in the order of iteration; each with whether it was quick."""
        quick = len(self._quick)
        taken, left = [], (deque[ReplayedMessage](), deque[ReplayedMessage]())
        for place, message in enumerate(self):
            if place in places:
                taken.append((message, place < quick))
                self._accepted.pop(message.number, None)
            else:
                left[place >= quick].append(message)
        self._quick, self._other = left
        return taken


@dataclass(frozen=True, slots=True)
class WindowSample:
    """All queues at the end of a window.

    Attributes
    ----------
    at
        Seconds.
    length, work
        Shape (queues,): messages, and seconds of work.
    forecast
        Shape (queues,): messages forecast for the end of the cycle; empty without balance scheduling.
    states
        Shape (queues,): by that forecast.
    """

    at: float
    length: tuple[int, ...]
    work: tuple[float, ...]
    forecast: tuple[float, ...] = ()
    states: tuple[QueueState, ...] = ()


@dataclass(slots=True)
class QueuesRun:
    """The raw measurements of a run.

    Attributes
    ----------
    busy_seconds
        Shape (queues,): how long each worker worked.
    finished_at
        Shape (messages,): seconds; negative where a message was lost.
    accepted_at
        Shape (messages,): seconds; negative where it was refused, and so lost.
    started_at
        Shape (messages,): seconds; negative where a message was lost.
    moved
        Messages taken to another queue by the scheduler.
    stolen
        Messages that a worker took from a queue not its own.
    overtaken
        Messages of a user begun after a later one of the same user.
    pauses
        Marks set.
    samples
        The queues over time, those that are kept.
    """

    busy_seconds: list[float]
    finished_at: list[float]
    accepted_at: list[float]
    started_at: list[float]
    moved: int = 0
    stolen: int = 0
    overtaken: int = 0
    pauses: int = 0
    samples: list[WindowSample] = field(default_factory=list)

    @property
    def makespan_seconds(self) -> float:
        """From the beginning until the last message is finished."""
        return max(self.finished_at, default=0.0)

    @property
    def lost(self) -> int:
        """Messages that no queue took."""
        return sum(at < 0 for at in self.finished_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchScheme:
    """How messages are dispatched and queues balanced.

    Attributes
    ----------
    policy
        Makes the dispatch policy over a ledger.
    scheduling
        Settings of balance scheduling; None for none.
    full
        Where no queue is open: `block` the source, or `drop` the message.
    gather_seconds
        How long messages are held back so that Min-Min has a batch to choose from; 0 sends each by itself.
    max_overtake_seconds
        Queues have two lanes, and quick messages go before others that came up to so long before them; None:
        one lane, in the order of coming.
    """

    policy: Callable[[QueueLedger], DispatchPolicy]
    scheduling: SchedulingSettings | None = None
    full: str = "block"
    gather_seconds: float = 0.0
    max_overtake_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class QueuesWorld:
    """Queues with one worker each, from the first message to the last.

    At one instant work ends first, then queues are looked at, then messages arrive.

    Parameters
    ----------
    scheme
        Who decides.
    capacity
        Shape (queues,): messages.
    mean_weight
        Mean weight of the classes, seconds, as the scheduler is told.
    speed
        Shape (queues,): seconds of work done in a second.
    poll_seconds
        How often queues are looked at where there is no scheduler; with one, its window.
    retention_seconds
        The least time between two looks that are kept; 0 keeps all.
    """

    scheme: DispatchScheme
    capacity: Sequence[int]
    mean_weight: float
    speed: Sequence[float] | None = None
    poll_seconds: float = 1.0
    retention_seconds: float = 0.0

    def run(
        self,
        messages: Sequence[ReplayedMessage],
        watch: Callable[[QueuesSimulationRun], None] = lambda _: None,
    ) -> QueuesRun:
        """Process all messages.

        Parameters
        ----------
        messages
            In the order in which they are due.
        watch
            Called after every look at the queues.
        """
        return QueuesSimulationRun(self, messages, watch).run()


class QueuesSimulationRun:
    """One run of a world.

    Attributes
    ----------
    ledger
        The queues, as dispatcher and scheduler see them.
    waiting
        Shape (queues,): what waits in each.
    ends
        What is in work: when it will be finished, and by which worker.
    pending
        What the source could not hand over yet.
    schedule
        What the scheduler knows.
    """

    def __init__(
        self,
        world: QueuesWorld,
        messages: Sequence[ReplayedMessage],
        watch: Callable[[QueuesSimulationRun], None],
    ) -> None:
        count = len(world.capacity)
        self.scheme, self.messages, self._watch = world.scheme, messages, watch
        self.ledger = QueueLedger(world.capacity)
        self.policy = world.scheme.policy(self.ledger)
        self.affinity = KeyAffinity(self.policy, self.ledger)
        self.speed = world.speed or [1.0] * count
        self.mean_weight = world.mean_weight
        self.roams = isinstance(self.policy, (WorkStealing, CentralQueue))
        overtake = self.scheme.max_overtake_seconds
        self.waiting = [ReplayedQueue(overtake) for _ in range(count)]
        self.lanes = None if overtake is None else LaneClassifier()
        self.lane_of_key: dict[object, bool] = {}
        self.idle = set(range(count))
        self.ends: list[tuple[float, int, ReplayedMessage]] = []
        self.pending: deque[ReplayedMessage] = deque()
        self.now = 0.0
        self.schedule = SchedulerState()
        self.window = (
            world.poll_seconds if self.scheme.scheduling is None else self.scheme.scheduling.window_seconds
        )
        self.latest: dict[object, int] = {}
        self.moved_at: dict[int, float] = {}
        self.retention_seconds, self.stored_at = world.retention_seconds, -inf
        nothing = [-1.0] * len(messages)
        self.found = QueuesRun([0.0] * count, nothing, nothing[:], nothing[:])

    def run(self) -> QueuesRun:
        """Process all events in the order of time."""
        arriving, next_message = self.messages, 0
        batch = self.scheme.gather_seconds
        look_at, arrive_at = 0.0, self._next_deadline(0)
        while next_message < len(arriving) or self.pending or self.ends:
            end_at = self.ends[0][0] if self.ends else inf
            if end_at <= look_at and end_at <= arrive_at:
                self.now = end_at
                self._finish()
            elif look_at <= arrive_at:
                self.now = look_at
                look_at += self.window
                self._observe()
            else:
                self.now = arrive_at
                if batch:
                    while next_message < len(arriving) and arriving[next_message].deadline <= self.now:
                        self.pending.append(arriving[next_message])
                        next_message += 1
                    self._assign()
                else:
                    self.pending.append(arriving[next_message])
                    next_message += 1
                arrive_at = self._next_deadline(next_message)
            if self.pending:
                self._dispatch()
        self._observe()
        return self.found

    def _next_deadline(self, number: int) -> float:
        return (
            self.messages[number].deadline + self.scheme.gather_seconds
            if number < len(self.messages)
            else inf
        )

    def _dispatch(self) -> None:
        """Dispatch the source's messages while queues have room."""
        while self.pending:
            message = self.pending[0]
            queue = self.affinity.choose(message.weight, message.key)
            if queue is None:
                if self.scheme.full == "block":
                    return
                self.pending.popleft()
                continue
            self.pending.popleft()
            self._enqueue(queue, message)

    def _assign(self) -> None:
        """Dispatch a batch by Min-Min; messages without a queue stay at the source."""
        assert isinstance(self.policy, MinMin)
        batch = sorted(self.pending, key=lambda one: one.weight)
        found = self.policy.assign([one.weight for one in batch])
        left = {one.number for one, queue in zip(batch, found, strict=True) if queue is None}
        self.pending = deque(one for one in self.pending if one.number in left)
        for message, queue in zip(batch, found, strict=True):
            if queue is not None:
                self._enqueue(queue, message)

    def _enqueue(self, queue: int, message: ReplayedMessage) -> None:
        self.found.accepted_at[message.number] = self.now
        self.ledger.enqueued(queue, message.weight)
        if message.key is not None:
            self.affinity.enqueued(queue, message.key)
        self.waiting[queue].append(message, self.now, quick=self.lanes is not None and self._quick(message))
        if self.idle:
            self._wake(queue)

    def _quick(self, message: ReplayedMessage) -> bool:
        """The lane of a message; all messages of a key have one lane, so that they keep their order."""
        assert self.lanes is not None
        quick = self.lanes.quick(message.weight)
        self.lanes.enqueued(message.weight)
        return quick if message.key is None else self.lane_of_key.setdefault(message.key, quick)

    def _wake(self, queue: int) -> None:
        if queue in self.idle:
            self._begin(queue)
        elif self.roams:
            for worker in sorted(self.idle):
                self._begin(worker)

    def _begin(self, worker: int) -> None:
        """Give a free worker its next message, if there is one."""
        source = self.policy.source(worker)
        if source is None:
            self.idle.add(worker)
            return
        message = self.waiting[source].take()
        self.found.started_at[message.number] = self.now
        if source != worker:
            self.ledger.moved(source, worker, 1, message.weight)
            self.found.stolen += 1
        self.idle.discard(worker)
        self.ledger.started(worker, message.weight)
        if message.key is not None:
            later = self.latest.get(message.key, -1)
            self.found.overtaken += message.number < later
            self.latest[message.key] = max(later, message.number)
        took = message.takes_seconds / self.speed[worker]
        self.found.busy_seconds[worker] += took
        heappush(self.ends, (self.now + took, worker, message))

    def _finish(self) -> None:
        _, worker, message = heappop(self.ends)
        self.found.finished_at[message.number] = self.now
        self.ledger.finished(worker, message.weight)
        if message.key is not None:
            self.affinity.finished(message.key)
            if message.key not in self.affinity:
                self.lane_of_key.pop(message.key, None)
        self._begin(worker)

    def _observe(self) -> None:
        seen = QueuesObserved.of(self.ledger, self.now, self.mean_weight)
        if self.scheme.scheduling is not None:
            self.schedule, orders = handle(self.schedule, seen, self.scheme.scheduling)
            self._carry_out(orders)
            forecast = self.schedule.messages, self.schedule.states
        else:
            forecast = (), ()
        if self.now >= self.stored_at + self.retention_seconds:
            self.stored_at = self.now
            self.found.samples.append(WindowSample(self.now, seen.length, seen.work, *forecast))
        self._watch(self)

    def _carry_out(self, orders: Sequence[Effect]) -> None:
        assert self.scheme.scheduling is not None
        for order in orders:
            if isinstance(order, MoveMessages):
                fact = self._move(order)
                self.schedule, after = handle(self.schedule, fact, self.scheme.scheduling)
                self._carry_out(after)
            elif isinstance(order, PauseQueue):
                self.found.pauses += 1
                self.ledger.pause(order.queue)
            else:
                self.ledger.resume(order.queue)

    def _resting(self, order: MoveMessages) -> set[int]:
        latest = self.now - order.rest_seconds
        return {
            place
            for place, message in enumerate(self.waiting[order.source])
            if self.moved_at.get(message.number, -inf) > latest
        }

    def _move(self, order: MoveMessages) -> MessagesMoved:
        source, target, ledger = self.waiting[order.source], order.target, self.ledger
        keys = {message.key for _, worker, message in self.ends if worker == order.source}
        room = ledger.capacity[target] - ledger.length[target]
        resting = self._resting(order) if order.rest_seconds else ()
        places = set(choose_messages(list(source), order, in_work=keys, room=room, resting=resting))
        taken = source.remove(places) if places else []
        work = sum(message.weight for message, _ in taken)
        ledger.moved(order.source, target, len(taken), work)
        for message, quick in taken:
            accepted = self.found.accepted_at[message.number]
            self.waiting[target].append(message, accepted, quick=quick, moved=True)
            if order.rest_seconds:
                self.moved_at[message.number] = self.now
        self.affinity.moved({message.key for message, _ in taken if message.key is not None}, target)
        self.found.moved += len(taken)
        if taken and target in self.idle:
            self._begin(target)
        return MessagesMoved(order.source, target, len(taken), work)
