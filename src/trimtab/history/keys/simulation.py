"""Streams of records with keys: recorded ones, and drawn ones whose keys follow a Zipf distribution.

Simulation of a policy that sends records to partitions, and of the consumers that all policies share.
"""

from __future__ import annotations

import random
from bisect import bisect, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import exp
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from trimtab.model.load import FloatArray
from trimtab_common.errors import InputError
from trimtab_keys.core.load import PartitionLoadView, SentRecordCounts
from trimtab_keys.core.policies import KeyPolicy
from trimtab_keys.core.routing import POSITIVE, group_count, key_group, murmur2

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class KeyStream:
    """Records in the order of sending.

    Attributes
    ----------
    at
        Shape (records,): seconds, ascending.
    which
        Shape (records,): index of each record's key.
    keys
        Shape (keys,): as they are sent.
    record_bytes
        Size of a record.
    producers
        How many there are; all records of a key come from one of them, by hash, so that the order in which
        they were sent is one order.

    Raises
    ------
    InputError
        If there is no record, if times descend, or if a key is not there.
    """

    at: Sequence[float]
    which: Sequence[int]
    keys: Sequence[bytes]
    record_bytes: int = 100
    producers: int = 3

    def __post_init__(self) -> None:
        if not self.at or len(self.at) != len(self.which):
            raise InputError(
                f"a key stream has {len(self.at)} times and {len(self.which)} keys, expected as many, "
                "1 or more"
            )
        if any(later < one for one, later in pairwise(self.at)):
            raise InputError("times of a key stream descend: sort its records by time")
        if not 0 <= min(self.which) <= max(self.which) < len(self.keys):
            raise InputError(f"a record of the key stream has a key that is not one of {len(self.keys)}")
        if self.producers < 1:
            raise InputError(f"a key stream has {self.producers} producers, expected 1 or more")

    def producer_of_key(self) -> list[int]:
        """Shape (keys,): the producer that sends the records of each key."""
        # Other bits than those that choose partitions: a producer must not have some partitions for itself.
        return [((murmur2(key) & POSITIVE) >> 16) % self.producers for key in self.keys]


KEYS = 1000


@dataclass(frozen=True)
class Zipf:
    """Key n of `keys`, from 1, has a share of the records in proportion to n ** -exponent.

    Raises
    ------
    InputError
        If there is no key, or the exponent is below 0.
    """

    exponent: float
    keys: int = KEYS

    def __post_init__(self) -> None:
        if not 0 <= self.exponent <= 10 or not 1 <= self.keys <= 1_000_000:
            raise InputError(
                f"the law of keys is {self.text}: give an exponent of 0 to 10 and 1 to 1,000,000 keys"
            )

    @property
    def text(self) -> str:
        """The distribution in the notation that `parsed` reads."""
        return f"zipf:{self.exponent:g}:{self.keys}"

    def shares(self) -> list[float]:
        """Shape (keys,): of the records, the most frequent key first."""
        weights = [(rank + 1) ** -self.exponent for rank in range(self.keys)]
        total = sum(weights)
        return [one / total for one in weights]

    def drawn(self, chance: random.Random, names: int = 0) -> Callable[[], bytes]:
        """A function that draws a key; `names` other than 0 gives keys other names, and so other places."""
        edges = list(accumulate(self.shares()))
        keys = [key_name(rank, names) for rank in range(self.keys)]
        last = self.keys - 1
        return lambda: keys[min(bisect(edges, chance.random()), last)]


def key_name(rank: int, names: int = 0) -> bytes:
    """The key of a rank, from 0."""
    return b"user %d.%d" % (names, rank + 1) if names else b"user %d" % (rank + 1)


def parse_zipf(text: str) -> Zipf:
    """`zipf:EXPONENT`, or `zipf:EXPONENT:KEYS`.

    Raises
    ------
    InputError
        If it is not written so.
    """
    name, _, rest = text.partition(":")
    exponent, _, keys = rest.partition(":")
    try:
        if name == "zipf":
            return Zipf(float(exponent), int(keys) if keys else KEYS)
    except ValueError:
        pass
    raise InputError(f"the law of keys is {text!r}: write zipf:EXPONENT or zipf:EXPONENT:KEYS, like zipf:1.2")


def drawn_stream(law: Zipf, per_second: float, seconds: float, producers: int, seed: int) -> KeyStream:
    """A random stream: Poisson arrivals, with keys by a Zipf distribution."""
    chance = random.Random(f"keys {seed}")
    edges = list(accumulate(law.shares()))
    at: list[float] = []
    which: list[int] = []
    now = chance.expovariate(per_second)
    while now < seconds or not at:
        at.append(now)
        which.append(min(bisect(edges, chance.random()), law.keys - 1))
        now += chance.expovariate(per_second)
    return KeyStream(at, which, [key_name(rank, seed) for rank in range(law.keys)], producers=producers)


Stall = tuple[float, float]
"""Begin and end, seconds: a consumer stands still (garbage collection, a slow call)."""


@dataclass(frozen=True, slots=True)
class ConsumerCapacity:
    """The capacity of consumers.

    Attributes
    ----------
    records_per_second
        Of each.
    stalls
        Shape (partitions,): when each stands still, in order and apart from one another. Partitions that are
        added later have none of their own, and those of the first in turn.
    """

    records_per_second: float
    stalls: Sequence[Sequence[Stall]] = ()

    def __post_init__(self) -> None:
        if not self.records_per_second > 0:
            raise InputError(f"consumers do {self.records_per_second} records a second, expected more than 0")


class SimulatedConsumers:
    """The consumers of a topic's partitions, and their backlogs.

    Parameters
    ----------
    partitions
        How many.
    capacity
        What they can do.
    """

    def __init__(self, partitions: int, capacity: ConsumerCapacity) -> None:
        self._capacity = capacity
        self._service = 1 / capacity.records_per_second
        self._free: list[float] = []
        self._stalls: list[deque[Stall]] = []
        self._unfinished: list[deque[float]] = []
        self.grow(partitions)

    def __len__(self) -> int:
        return len(self._free)

    def grow(self, partitions: int) -> None:
        """Add partitions, each with a consumer."""
        stalls = self._capacity.stalls
        for place in range(len(self), partitions):
            self._free.append(0.0)
            self._stalls.append(deque(stalls[place % len(stalls)] if stalls else ()))
            self._unfinished.append(deque())

    def receive(self, place: int, at: float) -> float:
        """Take a record; the time at which it is processed."""
        done = self._free[place] = self._work(place, max(at, self._free[place]))
        self._unfinished[place].append(done)
        return done

    def drop(self, place: int, now: float) -> None:
        """Remove the unprocessed records of a consumer; its stalls stay."""
        self._free[place] = min(self._free[place], now)
        self._unfinished[place] = deque(one for one in self._unfinished[place] if one <= now)
        stalls = self._capacity.stalls
        of = stalls[place % len(stalls)] if stalls else ()
        self._stalls[place] = deque(one for one in of if one[1] > now)

    def backlog(self, now: float) -> list[float]:
        """Shape (partitions,): records that wait or are in work."""
        for waiting in self._unfinished:
            while waiting and waiting[0] <= now:
                waiting.popleft()
        return [float(len(waiting)) for waiting in self._unfinished]

    def awake(self, place: int, now: float) -> float:
        """The end of a consumer's current stall; now if there is none."""
        stalls = self._capacity.stalls
        of = stalls[place % len(stalls)] if stalls else ()
        at = bisect_right(of, now, key=itemgetter(0)) - 1
        return max(now, of[at][1]) if at >= 0 else now

    def _work(self, place: int, start: float) -> float:
        """The time at which a record is processed that is begun at `start`; starts ascend."""
        done, stalls = start + self._service, self._stalls[place]
        while stalls and stalls[0][0] < done:
            begin, end = stalls.popleft()
            if end > start:
                done += end - max(begin, start)
        return done


@dataclass(frozen=True, slots=True)
class KeysSimulationRun:
    """The result of a simulated stream.

    Attributes
    ----------
    stream
        The records.
    place
        Shape (records,): partition of each.
    done
        Shape (records,): seconds at which each took effect.
    partitions
        In use at the end.
    added
        How many of those were added.
    held
        Shape (records,): seconds that each waited for its turn, after it had been worked on; empty without
        the order guard.
    """

    stream: KeyStream
    place: list[int]
    done: list[float]
    partitions: int
    added: int = 0
    held: list[float] = field(default_factory=list)

    @property
    def records(self) -> list[int]:
        """Shape (partitions,): records that went to each."""
        count = Counter(self.place)
        return [count[one] for one in range(self.partitions)]

    @property
    def max_over_mean(self) -> float:
        """The most records of a partition over the mean of all."""
        records = self.records
        return max(records) / (sum(records) / len(records))

    def delay_seconds(self, share: float) -> float:
        """The delay from sent to done that this share of the records does not exceed."""
        delays = np.asarray(self.done) - np.asarray(self.stream.at)
        return float(np.quantile(delays, share, method="inverted_cdf"))

    @property
    def overtaken(self) -> float:
        """Share of records that took effect before an earlier one of their key."""
        latest = [-1.0] * len(self.stream.keys)
        overtook = 0
        for key, done in zip(self.stream.which, self.done, strict=True):
            if done < latest[key]:
                overtook += 1
            else:
                latest[key] = done
        return overtook / len(self.done)

    @property
    def partitions_per_key(self) -> float:
        """Partitions that the records of a key went to, in the mean over records."""
        places: dict[int, set[int]] = {}
        for key, place in zip(self.stream.which, self.place, strict=True):
            places.setdefault(key, set()).add(place)
        return sum(len(places[key]) for key in self.stream.which) / len(self.place)


def waiting(
    place: NDArray[np.int64], sent: FloatArray, done: FloatArray, partitions: int, at: FloatArray
) -> FloatArray:
    """Records sent and not yet in effect, shape (moments, partitions).

    Parameters
    ----------
    place, sent, done
        Shape (records,): partition, and seconds, of each record.
    at
        Shape (moments,): seconds.
    """
    columns = []
    for part in range(partitions):
        own = place == part
        begun, ended = (np.searchsorted(np.sort(one[own]), at, "right") for one in (sent, done))
        columns.append(begun - ended)
    return np.stack(columns, axis=1).astype(np.float64)


@dataclass(frozen=True, slots=True)
class KeysSimulationSettings:
    """The partitions, consumers and views of producers in a simulation.

    Attributes
    ----------
    partitions
        Of the topic; the hash divides by them.
    capacity
        Of the consumer that each has.
    spare
        Partitions that policies may add.
    poll_seconds
        Between two looks of a producer at backlogs and rates; None: it sees nothing but what it sent itself,
        as the papers on choices have it.
    rate_seconds
        Time constant over which arrival rates are smoothed; 0: a rate is that since the last look.
    seed
        Of the producers' generators.
    """

    partitions: int
    capacity: ConsumerCapacity
    spare: int = 0
    poll_seconds: float | None = 1.0
    rate_seconds: float = 5.0
    seed: int = 1


class ProducerViews:
    """What producers see of the partitions, all at the same instants."""

    def __init__(self, world: KeysSimulationSettings, contents: bool = False) -> None:
        self.every = world.poll_seconds
        self.next = self.every or float("inf")
        self._retained = exp(-self.next / world.rate_seconds) if world.rate_seconds else 0.0
        self._rate = [0.0] * world.partitions
        self._sent = [0] * world.partitions
        self._contents = SentRecordCounts(group_count(world.partitions)) if contents else None

    def sent(self, place: int, group: int) -> None:
        """Count a record that went to a partition."""
        while place >= len(self._sent):
            self._sent.append(0)
            self._rate.append(0.0)
        self._sent[place] += 1
        if self._contents is not None:
            self._contents.count(place, group)

    def observe(self, views: list[PartitionLoadView], consumers: SimulatedConsumers) -> None:
        """Refresh the load view of every producer."""
        assert self.every is not None
        backlog = consumers.backlog(self.next)
        self._rate = [
            self._retained * rate + (1 - self._retained) * sent / self.every
            for rate, sent in zip(self._rate, self._sent, strict=True)
        ]
        rate = self._rate + [0.0] * (len(backlog) - len(self._rate))
        content = None if self._contents is None else self._contents.histograms(len(backlog))
        for view in views:
            while len(view) < len(backlog):
                view.spare += 1
                view.add()
            if content is not None:
                view.content = content
            view.reset_counts(backlog, rate)
        self._sent = [0] * len(self._sent)
        self.next += self.every


def simulate(
    stream: KeyStream,
    policy: Callable[[], KeyPolicy],
    world: KeysSimulationSettings,
    *,
    contents: bool = False,
) -> KeysSimulationRun:
    """Send a stream under a policy.

    Parameters
    ----------
    stream
        What is sent.
    policy
        Makes the policy of one producer; each has its own, and counts what it sends itself.
    world
        Partitions and consumers.
    contents
        Whether producers see what lies in the partitions, too (key groups of all records so far).
    """
    consumers = SimulatedConsumers(world.partitions, world.capacity)
    views = [
        PartitionLoadView(world.partitions, spare=world.spare, capacity=world.capacity.records_per_second)
        for _ in range(stream.producers)
    ]
    policies = [policy() for _ in views]
    chances = [Random(f"{world.seed} {one}").random for one in range(len(views))]
    producer_of = stream.producer_of_key()
    group_of = [key_group(key, world.partitions) for key in stream.keys]
    watch = ProducerViews(world, contents)
    places, done = [], []
    for at, which in zip(stream.at, stream.which, strict=True):
        while at >= watch.next:
            watch.observe(views, consumers)
        one = producer_of[which]
        place = policies[one].choose(stream.keys[which], views[one], chances[one])
        if place >= len(consumers):
            consumers.grow(place + 1)
        watch.sent(place, group_of[which])
        places.append(place)
        done.append(consumers.receive(place, at))
    return KeysSimulationRun(stream, places, done, len(consumers), len(consumers) - world.partitions)
