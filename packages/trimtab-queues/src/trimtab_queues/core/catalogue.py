"""All dispatch policies by name, and those of the literature that serve comparison.

Replays and experiments compare them with the policies of `trimtab_queues.core.policies`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, Final

from trimtab_common.errors import InputError, SettingsError
from trimtab_queues.core.ledger import QueueLedger, waiting_work
from trimtab_queues.core.policies import (
    Choose,
    DispatchPolicy,
    LeastWorkLeft,
    LightLoadFirst,
    OpenRoundRobinQueue,
    OwnQueue,
    RoundRobinQueue,
    SizeInterval,
    equal_work_limits,
    least_loaded_choice,
)
from trimtab_queues.core.scheduling import SchedulingSettings

CENTRAL = 0
"""The queue that is for all; those of the other workers hold only what is in work."""


class CentralQueue(OwnQueue):
    """Every message to the first queue, from which every free worker takes: first come, first served.

    A bound rather than a way to run a system: each worker goes to the same place for every message.
    """

    name: ClassVar[str] = "central_queue"
    waits_for_choice: ClassVar[bool] = True

    def choose(self, weight: float, /) -> int | None:
        """Choose the central queue; None if it is closed."""
        return CENTRAL if self.ledger.open[CENTRAL] else None

    def source(self, worker: int, /) -> int | None:
        """The central queue, where something waits; else its own, which a scheduler may have filled."""
        found = super().source(CENTRAL)
        return super().source(worker) if found is None else found


class WorkStealing(OpenRoundRobinQueue):
    """Open queues in turn; a free worker whose own queue has nothing waiting takes a message from elsewhere.

    It takes from the queue with most work waiting, the first of equals, be that paused or closed: stealing
    relieves it.
    """

    name: ClassVar[str] = "work_stealing"

    def source(self, worker: int, /) -> int | None:
        """The worker's own queue, or else the one with most work waiting."""
        own = super().source(worker)
        if own is not None:
            return own
        ledger = self.ledger
        waiting = [
            (work, -queue)
            for queue, work in enumerate(waiting_work(ledger))
            if ledger.length[queue] > ledger.held[queue]
        ]
        return -max(waiting)[1] if waiting else None


class CountThreshold(OpenRoundRobinQueue):
    """Open queues in turn, those with fewer messages than the threshold first.

    Parameters
    ----------
    threshold
        Messages; a queue that has as many is passed over while another has fewer.

    Raises
    ------
    InputError
        If the threshold is below 1.
    """

    name: ClassVar[str] = "count_threshold"

    def __init__(self, ledger: QueueLedger, threshold: int) -> None:
        if threshold < 1:
            raise InputError(f"threshold of count_threshold is {threshold}, expected 1 or more messages")
        super().__init__(ledger)
        in_turn, length, count = self.choose, ledger.length, len(ledger)

        def choose(weight: float, /) -> int | None:
            queue = first = in_turn(weight)
            for _ in range(count):
                if queue is None or length[queue] < threshold:
                    return queue
                queue = in_turn(weight)
                if queue == first:
                    break
            return queue

        self.choose = choose


class JoinIdleQueue(OpenRoundRobinQueue):
    """The first open queue that is empty, its worker idle; where none is, open queues in turn.

    References
    ----------
    Lu et al. (2011), who draw a queue at random where none is idle.
    """

    name: ClassVar[str] = "join_idle_queue"

    def __init__(self, ledger: QueueLedger) -> None:
        super().__init__(ledger)
        in_turn, length, is_open = self.choose, ledger.length, ledger.open

        def choose(weight: float, /) -> int | None:
            if 0 in length:
                queue = length.index(0)
                if is_open[queue]:
                    return queue
                for queue, messages in enumerate(length):
                    if messages == 0 and is_open[queue]:
                        return queue
            return in_turn(weight)

        self.choose = choose


class JoinShortestQueue(OwnQueue):
    """The open queue with the fewest messages, waiting or in work, the first of equals."""

    name: ClassVar[str] = "join_shortest_queue"

    choose: Choose

    def __init__(self, ledger: QueueLedger) -> None:
        super().__init__(ledger)
        self.choose = least_loaded_choice(ledger, ledger.length)


class PowerOfTwo(OwnQueue):
    """The one with less work of two open queues, drawn without putting back; the first drawn of equals.

    Parameters
    ----------
    chance
        Numbers in [0, 1), as of `random.Random(seed).random`.

    References
    ----------
    Mitzenmacher (2001), who counts messages; here it is seconds of work.
    """

    name: ClassVar[str] = "power_of_two"

    def __init__(self, ledger: QueueLedger, chance: Callable[[], float]) -> None:
        super().__init__(ledger)
        self._chance, self._count = chance, len(ledger)

    def choose(self, weight: float, /) -> int | None:
        """The one with less work of two; with one open queue, that one."""
        ledger, chance, count = self.ledger, self._chance, self._count
        if count > 1:
            one, other = int(chance() * count), int(chance() * (count - 1))
            other += other >= one
            if ledger.open[one] and ledger.open[other]:
                return one if ledger.work[one] <= ledger.work[other] else other
        return self._among([queue for queue, may in enumerate(ledger.open) if may])

    def _among(self, queues: list[int]) -> int | None:
        if len(queues) < 2:
            return queues[0] if queues else None
        first = queues.pop(int(self._chance() * len(queues)))
        second = queues[int(self._chance() * len(queues))]
        return first if self.ledger.work[first] <= self.ledger.work[second] else second


class MinMin(OwnQueue):
    """The open queue in which a message would be finished first; batches begin with the shortest message.

    Where a worker's speed is the same for all classes, the message with the least of all least completion
    times is the shortest one, so that a batch is sorted once.

    Parameters
    ----------
    speed
        Shape (queues,): seconds of work that its worker does in a second; none for one each.

    Raises
    ------
    InputError
        If there is not one speed above 0 for each queue.

    References
    ----------
    Ibarra and Kim (1977), algorithm D.
    """

    name: ClassVar[str] = "min_min"

    def __init__(self, ledger: QueueLedger, speed: Sequence[float] | None = None) -> None:
        super().__init__(ledger)
        self.speed = [1.0] * len(ledger) if speed is None else list(speed)
        if len(self.speed) != len(ledger) or not all(0 < one < inf for one in self.speed):
            raise InputError(
                f"speeds of min_min are {self.speed}, expected one above 0 for each of {len(ledger)} queues"
            )

    def choose(self, weight: float, /) -> int | None:
        """The queue of earliest completion, the first of equals."""
        best, earliest = None, inf
        for queue, (may, work, speed) in enumerate(
            zip(self.ledger.open, self.ledger.work, self.speed, strict=True)
        ):
            if may and (work + weight) / speed < earliest:
                best, earliest = queue, (work + weight) / speed
        return best

    def assign(self, weights: Sequence[float]) -> list[int | None]:
        """Queues for messages that are at hand together, in the order given.

        Parameters
        ----------
        weights
            Shape (messages,), seconds. Put them in by ascending weight: the shortest is done first.

        Returns
        -------
        list of int or None
            Shape (messages,); None for those that find every queue paused, closed or full.
        """
        ledger = self.ledger
        work = list(ledger.work)
        free = [
            most - length if may else 0
            for most, length, may in zip(ledger.capacity, ledger.length, ledger.open, strict=True)
        ]
        found: list[int | None] = [None] * len(weights)
        for message in sorted(range(len(weights)), key=weights.__getitem__):
            done = [
                ((work[queue] + weights[message]) / self.speed[queue], queue)
                for queue, room in enumerate(free)
                if room > 0
            ]
            if not done:
                break
            queue = found[message] = min(done)[1]
            work[queue] += weights[message]
            free[queue] -= 1
        return found


DEFAULT: Final = LeastWorkLeft.name


@dataclass(frozen=True, slots=True)
class DispatchInputs:
    """What policies may ask for beyond the ledger; each takes what it needs.

    Attributes
    ----------
    chance
        Numbers in [0, 1), as of `random.Random(seed).random`; none refuses policies that draw.
    classes
        Weight in seconds and messages a second of each class.
    speed
        Shape (queues,): seconds of work that a worker does in a second; none for one each.
    threshold
        Messages at which a queue is passed over.
    scheduling
        Its limits say which queue is light.
    """

    chance: Callable[[], float] | None = None
    classes: Sequence[tuple[float, float]] = ()
    speed: Sequence[float] | None = None
    threshold: int = 3000
    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)


def _power_of_two(ledger: QueueLedger, values: DispatchInputs) -> DispatchPolicy:
    if values.chance is None:
        raise SettingsError("policy 'power_of_two' draws queues and needs a generator: pass one")
    return PowerOfTwo(ledger, values.chance)


def _size_interval(ledger: QueueLedger, values: DispatchInputs) -> DispatchPolicy:
    if not values.classes:
        raise SettingsError("policy 'size_interval' needs the weights and rates of the classes")
    return SizeInterval(ledger, equal_work_limits(values.classes, len(ledger)))


POLICIES: Final[dict[str, Callable[[QueueLedger, DispatchInputs], DispatchPolicy]]] = {
    RoundRobinQueue.name: lambda ledger, _: RoundRobinQueue(ledger),
    OpenRoundRobinQueue.name: lambda ledger, _: OpenRoundRobinQueue(ledger),
    CountThreshold.name: lambda ledger, inputs: CountThreshold(ledger, inputs.threshold),
    JoinShortestQueue.name: lambda ledger, _: JoinShortestQueue(ledger),
    PowerOfTwo.name: _power_of_two,
    JoinIdleQueue.name: lambda ledger, _: JoinIdleQueue(ledger),
    MinMin.name: lambda ledger, inputs: MinMin(ledger, inputs.speed),
    LightLoadFirst.name: lambda ledger, inputs: LightLoadFirst(ledger, inputs.scheduling),
    LeastWorkLeft.name: lambda ledger, _: LeastWorkLeft(ledger),
    WorkStealing.name: lambda ledger, _: WorkStealing(ledger),
    CentralQueue.name: lambda ledger, _: CentralQueue(ledger),
    SizeInterval.name: _size_interval,
}
"""Name of a policy to how it is made."""


def policy_named(name: str, ledger: QueueLedger, values: DispatchInputs | None = None) -> DispatchPolicy:
    """A policy over a ledger.

    Raises
    ------
    SettingsError
        If there is none of that name, or it was not inputs what it needs.
    """
    if name not in POLICIES:
        raise SettingsError(f"queues.policy is {name!r}, expected one of {', '.join(POLICIES)}")
    return POLICIES[name](ledger, DispatchInputs() if values is None else values)
