"""Load of partitions as a partitioner sees it: records sent, records that wait, and likeness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf
from operator import sub
from typing import Final

from trimtab_common.errors import InputError

CAPACITY_SECONDS: Final = 30.0
"""Time constant over which a measured capacity is averaged."""
MIN_CAPACITY_SECONDS: Final = 1.0
"""A capacity counts as measured after so many seconds in which its consumer never ran out of records."""
MAX_KEYS: Final = 100_000
"""Distinct keys that are remembered of a partition; more are counted as so many."""


@dataclass(frozen=True, slots=True)
class PartitionContent:
    """What lies in a partition, as histograms whose shares sum to 1, or to 0 where nothing lies there.

    Attributes
    ----------
    groups
        Shape (key groups,).
    sizes
        Shape (size classes,).
    """

    groups: Sequence[float] = ()
    sizes: Sequence[float] = ()


class SentRecordCounts:
    """Counts of what a producer sent to each partition: key groups, and, where asked for, distinct keys.

    Parameters
    ----------
    groups
        Key groups that there are.
    with_keys
        Whether distinct keys are counted, which takes memory for each.
    """

    __slots__ = ("_groups", "_keys", "_sent")

    def __init__(self, groups: int, with_keys: bool = False) -> None:
        self._groups = groups
        self._sent: dict[int, list[int]] = {}
        self._keys: dict[int, set[int]] | None = {} if with_keys else None

    def count(self, place: int, h: int) -> None:
        """Count a record, by the hash of its key without the sign."""
        counts = self._sent.get(place)
        if counts is None:
            counts = self._sent[place] = [0] * self._groups
        counts[h % self._groups] += 1
        if self._keys is not None and len(keys := self._keys.setdefault(place, set())) < MAX_KEYS:
            keys.add(h)

    def histograms(self, partitions: int) -> list[PartitionContent]:
        """Shape (partitions,): key groups of each; sizes are not told apart, for no policy is told them."""
        found = []
        for place in range(partitions):
            counts = self._sent.get(place)
            if counts is None:
                found.append(PartitionContent())
            else:
                total = sum(counts)
                found.append(PartitionContent([one / total for one in counts], (1.0,)))
        return found

    def keys(self, partitions: int) -> list[int]:
        """Shape (partitions,): distinct keys of each, at most `MAX_KEYS`."""
        keys = self._keys or {}
        return [len(keys.get(place, ())) for place in range(partitions)]


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """The load of a topic at one moment, of the partitions that records may be sent to.

    Attributes
    ----------
    topic_id
        Which topic: one that was deleted and created again has another.
    base
        Partitions that the hash divides by.
    in_use
        Those up to the last that holds records, `base` at least: later ones are spare.
    backlog
        Shape (partitions,): records that wait.
    rate
        The same shape: records a second that arrive.
    capacity
        The same shape: records a second that the consumer can do; infinite while nobody knows.
    """

    topic_id: str
    base: int
    in_use: int
    backlog: Sequence[float]
    rate: Sequence[float]
    capacity: Sequence[float]


class LoadEstimate:
    """Backlog, arrival rate and capacity of each partition, out of offsets that are read again and again.

    A backlog is read when the committed offset moves. Consumers commit every few seconds, and what they did
    in between would look like a backlog; only where nothing is committed for `commit_seconds` does all that
    came since count. A partition without a commit has as backlog what came since the first reading.

    Parameters
    ----------
    capacity
        Records a second that the consumer of one partition can do; None: it is measured, out of times in
        which more waited at the beginning than was done until the end. Partitions whose consumer always kept
        up are taken for the mean of those measured, and for infinite where none is.
    rate_seconds
        Time constant over which rates are smoothed.
    commit_seconds
        The longest that a healthy consumer takes from one commit to the next.
    """

    def __init__(self, capacity: float | None, rate_seconds: float, commit_seconds: float) -> None:
        self._declared, self._rate_seconds, self._commit_seconds = capacity, rate_seconds, commit_seconds
        self._at: float | None = None
        self._partitions: list[_PartitionOffsets] = []

    def read(self, at: float, ends: Sequence[int], committed: Mapping[int, int]) -> None:
        """Take in a reading.

        Parameters
        ----------
        at
            Seconds, of any clock that only goes forward.
        ends
            Shape (partitions,): offsets behind the last records; the shape may grow.
        committed
            Offsets that the consumers have committed, by partition, as far as they have.
        """
        elapsed = None if self._at is None else at - self._at
        for place, end in enumerate(ends):
            if place == len(self._partitions):
                # All records of a partition that was added meanwhile have come since the first reading.
                self._partitions.append(
                    _PartitionOffsets(at, end, committed.get(place, end if elapsed is None else 0))
                )
            elif elapsed:
                one = self._partitions[place]
                kept = exp(-elapsed / self._rate_seconds)
                one.rate = kept * one.rate + (1 - kept) * max(0, end - one.end) / elapsed
                one.read(at, end, committed.get(place, one.done), self._commit_seconds)
        self._at = at

    @property
    def backlog(self) -> list[float]:
        """Records that wait in each partition, shape (partitions,)."""
        return [one.backlog for one in self._partitions]

    @property
    def rate(self) -> list[float]:
        """Shape (partitions,): records a second."""
        return [one.rate for one in self._partitions]

    @property
    def capacity(self) -> list[float]:
        """Shape (partitions,): records a second."""
        if self._declared is not None:
            return [self._declared] * len(self._partitions)
        found = [one.capacity for one in self._partitions]
        known = [one for one in found if one is not None]
        default = sum(known) / len(known) if known else inf
        return [default if one is None else one for one in found]


class _PartitionOffsets:
    """One partition of a `LoadEstimate`; `done` is the committed offset, which moved last at `moved_at`."""

    __slots__ = ("backlog", "busy_done", "busy_seconds", "done", "end", "end_then", "moved_at", "rate")

    def __init__(self, at: float, end: int, done: int) -> None:
        self.end = self.end_then = end
        self.done, self.moved_at = done, at
        self.backlog, self.rate = float(max(0, end - done)), 0.0
        self.busy_done = self.busy_seconds = 0.0

    @property
    def capacity(self) -> float | None:
        """Records a second; None while not measured."""
        if self.busy_seconds < MIN_CAPACITY_SECONDS:
            return None
        return self.busy_done / self.busy_seconds

    def read(self, at: float, end: int, done: int, commit_seconds: float) -> None:
        """Update offsets and the capacity estimate from one reading."""
        self.end = end
        if done != self.done or done >= end:
            if self.done < done <= self.end_then:
                # All of it lay there from the beginning: the consumer had something to do all the time.
                kept = exp(-(at - self.moved_at) / CAPACITY_SECONDS)
                self.busy_done = kept * self.busy_done + done - self.done
                self.busy_seconds = kept * self.busy_seconds + at - self.moved_at
            self.done, self.moved_at, self.end_then = done, at, end
        elif at - self.moved_at < commit_seconds:
            return
        self.backlog = float(max(0, end - done))


class PartitionLoadView:
    """Partitions by index, kept by whoever watches them; policies read it, and count what they send.

    Parameters
    ----------
    partitions
        Those that the plain hash divides by.
    spare
        Partitions that are there beyond, not in use yet.
    capacity
        Records a second that the consumer of each can do.

    Attributes
    ----------
    base
        As given in `partitions`.
    spare
        How many of those beyond are left.
    requested_partitions
        Partitions that a policy asked for when no spare one was left.
    load
        Shape (partitions in use,): records that lay in each at the last look and were sent there since.
    rate
        The same shape: records a second that came in before the last look.
    capacity
        The same shape: records a second.
    record_bytes
        The same shape: mean size of a record.
    keys, members, connections
        The same shape: keys that lie in each, consumer-group memberships that read it, and connections that
        fetch it: what the printed formula of IPOOA adds up.
    content
        The same shape: what lies there.
    observations
        How often it was looked at.

    Raises
    ------
    InputError
        If there is no partition.
    """

    def __init__(self, partitions: int, *, spare: int = 0, capacity: float = inf) -> None:
        if partitions < 1:
            raise InputError(f"a topic has {partitions} partitions to choose from, expected 1 or more")
        self.base, self.spare, self.requested_partitions, self.observations = partitions, spare, 0, 0
        self.load, self.rate = [0.0] * partitions, [0.0] * partitions
        self.capacity, self.record_bytes = [capacity] * partitions, [0.0] * partitions
        self.keys, self.members, self.connections = [0] * partitions, [1] * partitions, [1] * partitions
        self.content = [PartitionContent()] * partitions

    def __len__(self) -> int:
        return len(self.load)

    def add(self) -> int | None:
        """Take a spare partition into use: its index, or None where none is left, which is noted."""
        if not self.spare:
            self.requested_partitions += 1
            return None
        self.spare -= 1
        self.observations += 1
        self.load.append(0.0)
        self.rate.append(0.0)
        self.capacity.append(self.capacity[-1])
        self.record_bytes.append(0.0)
        self.keys.append(0)
        self.members.append(self.members[-1])
        self.connections.append(self.connections[-1])
        self.content.append(PartitionContent())
        return len(self.load) - 1

    def observe(self, observation: TopicLoad, known: int) -> None:
        """Set what is counted to an observation, of the partitions that the client knows, too.

        Parameters
        ----------
        observation
            Of the same topic.
        known
            Partitions that the client knows: it may learn of added ones later than whoever observes.
        """
        there = min(len(observation.backlog), known)
        self.spare = max(0, there - len(self))
        while len(self) < min(observation.in_use, there):
            self.add()
        # A client may hear from a broker that is behind; what is in use stays so.
        count = min(len(self), len(observation.backlog))
        self.capacity[:count] = observation.capacity[:count]
        self.load[:count], self.rate[:count] = observation.backlog[:count], observation.rate[:count]
        self.observations += 1

    def reset_counts(self, load: Sequence[float], rate: Sequence[float] | None = None) -> None:
        """Set what is counted to what was seen; what was sent since the look before is in it.

        Parameters
        ----------
        load
            Shape (partitions in use,): records.
        rate
            The same shape: records a second; None leaves them.
        """
        self.load[:] = load
        if rate is not None:
            self.rate[:] = rate
        self.observations += 1


def least_loaded(load: Sequence[float], among: Sequence[int], draw: float) -> int:
    """The one of some partitions with the least load; of equals the one that a number in [0, 1) picks."""
    loads = [load[one] for one in among]
    lowest = min(loads)
    count = loads.count(lowest)
    if count == 1:
        return among[loads.index(lowest)]
    equals = [one for one, its in zip(among, loads, strict=True) if its == lowest]
    return equals[int(draw * count)]


def repaired_consumption(rate: float, backlog: float, capacity: float, weight: float) -> float:
    """ISC of a partition, 0 to 1: λ1·min(1, rate / capacity) + λ2·min(1, backlog / (capacity · 1 s)).

    Parameters
    ----------
    rate
        Records a second that arrive.
    backlog
        Records that wait.
    capacity
        Records a second that the consumer can do.
    weight
        λ1; λ2 is the rest.
    """
    return weight * min(1.0, rate / capacity) + (1 - weight) * min(1.0, backlog / capacity)


def literal_consumption(view: PartitionLoadView, weight: float) -> list[float]:
    """ISC of every partition by the printed sum over its keys, λ1·Num(k)/N1 + λ2·Con(k)/N2.

    Num(k) are the memberships of consumer groups that read the key's partition, Con(k) the connections that
    fetch it, N1 and N2 what these come to over all keys. The sum over all partitions is 1, their mean one
    over their number: it is above a threshold of one half only where one partition holds half of everything.
    """
    num = [keys * one for keys, one in zip(view.keys, view.members, strict=True)]
    con = [keys * one for keys, one in zip(view.keys, view.connections, strict=True)]
    all_num, all_con = sum(num) or 1, sum(con) or 1
    return [
        weight * one / all_num + (1 - weight) * other / all_con for one, other in zip(num, con, strict=True)
    ]


def minkowski(differences: Sequence[float], weights: Sequence[float], power: int) -> float:
    """The distance (Σ θi·|xi(a) - xi(b)|^p)^(1/p)."""
    return float(
        sum(weight * abs(one) ** power for weight, one in zip(weights, differences, strict=True))
        ** (1 / power)
    )


def by_content(view: PartitionLoadView, one: int, other: int, weights: Sequence[float], power: int) -> float:
    """PS of what lies in two partitions: key groups and record sizes.

    The two features are histograms; they differ by half the sum of what their shares differ by, which is 0
    for equal and 1 for disjoint ones. The paper's θ, each 0.1 or more and together 1, can weigh nine features
    at most, so that they cannot stand for a thousand shares.
    """
    a, b = view.content[one], view.content[other]
    return minkowski((_apart(a.groups, b.groups), _apart(a.sizes, b.sizes)), weights, power)


def by_load(view: PartitionLoadView, one: int, other: int, weights: Sequence[float], power: int) -> float:
    """PS of two partitions' rates, backlogs and record sizes, each as a share of the greatest of all."""
    differences = [
        abs(values[one] - values[other]) / (max(values) or 1)
        for values in (view.rate, view.load, view.record_bytes)
    ]
    return minkowski(differences, weights, power)


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    if not one or not other:
        return 0.0 if len(one) == len(other) else 1.0
    # Without a loop of Python's own: a thousand shares, for each pair of partitions at each look.
    total: float = sum(map(abs, map(sub, one, other)))
    return total / 2
