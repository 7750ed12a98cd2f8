"""The order of messages: quick ones that overtake, keys that stay together, and which messages may move."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from math import inf
from typing import Final, Protocol

from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policies import DispatchPolicy
from trimtab_queues.core.scheduling import MoveMessages

OVERTAKE_SECONDS: Final = 30.0
"""Quick messages go before others that came at most so long before them."""

QUICK_SHARE: Final = 0.5
"""A message is quick that takes less than this share of the usual: alike messages stay in one line."""

FADE: Final = 0.999
"""What each message leaves of the weight of those before it: some thousand count."""


class LaneClassifier:
    """Which messages are quick, by the weights of what came into the queues, whoever sent it.

    The usual weight is the mean over work, Σw²/Σw: that of the message which a random moment of a busy worker
    belongs to. One report of a second among a hundred votes of 10 ms makes it half a second, though it hardly
    moves the mean over messages: votes are quick.

    Two lanes are the coarsest form of shortest first, the order of least mean wait among those that do not
    interrupt (Harchol-Balter, Performance Modeling and Design of Computer Systems, 2013, chapter 31).

    Attributes
    ----------
    work, squares
        Σw and Σw² of what came, older messages faded.
    """

    __slots__ = ("squares", "work")

    def __init__(self, work: float = 0.0, squares: float = 0.0) -> None:
        self.work, self.squares = work, squares

    def enqueued(self, weight: float) -> None:
        """A message came into a queue; the same rule as `put.lua`.

        Parameters
        ----------
        weight
            Seconds of processing.
        """
        self.work = self.work * FADE + weight
        self.squares = self.squares * FADE + weight * weight

    def quick(self, weight: float) -> bool:
        """Whether a message of so many seconds goes into the quick lane."""
        return weight * self.work < QUICK_SHARE * self.squares


def is_quick_first(quick_at: float, other_at: float, max_overtake_seconds: float) -> bool:
    """Whether the oldest quick message goes before the others; the same rule as `take.lua`.

    A long message waits for no quick one that came later than this after it, also where it was moved: nobody
    starves.

    Parameters
    ----------
    quick_at, other_at
        When they were accepted, seconds; `other_at` is that of the other message that has waited longest.
    """
    return quick_at <= other_at + max_overtake_seconds


class KeyAffinity:
    """Keys in flight, each with its queue; a key of which nothing is in flight goes where the policy says.

    Parameters
    ----------
    policy
        Chooses for messages without a key, and for a key's first.
    ledger
        The queues.
    """

    def __init__(self, policy: DispatchPolicy, ledger: QueueLedger) -> None:
        self._policy, self._ledger = policy, ledger
        self._queue: dict[Hashable, int] = {}
        self._in_flight: dict[Hashable, int] = {}

    def __len__(self) -> int:
        """The number of keys in flight."""
        return len(self._queue)

    def __contains__(self, key: Hashable) -> bool:
        """Whether a message of the key is in flight."""
        return key in self._queue

    def choose(self, weight: float, key: Hashable | None = None) -> int | None:
        """The queue of a message; None is back-pressure, for one key where its queue is full.

        A paused queue receives messages of its keys: elsewhere they would overtake the others.
        """
        queue = None if key is None else self._queue.get(key)
        if queue is None:
            return self._policy.choose(weight)
        return queue if self._ledger.length[queue] < self._ledger.capacity[queue] else None

    def enqueued(self, queue: int, key: Hashable) -> None:
        """A message of the key was put into that queue."""
        self._queue[key] = queue
        self._in_flight[key] = self._in_flight.get(key, 0) + 1

    def finished(self, key: Hashable) -> None:
        """A message of the key is done with."""
        left = self._in_flight[key] - 1
        if left:
            self._in_flight[key] = left
        else:
            del self._in_flight[key], self._queue[key]

    def moved(self, keys: Iterable[Hashable], target: int) -> None:
        """All messages in flight of these keys went to another queue."""
        for key in keys:
            self._queue[key] = target


ROUNDING: Final = 1e-9
"""Share of an amount by which sums of fractions may miss it."""

MISFITS: Final = 64
"""Messages in a row that do not fit before the search ends: the rest of an amount is not worth a queue."""


class WaitingMessage(Protocol):
    """A waiting message.

    Attributes
    ----------
    weight
        Seconds of processing.
    key
        Its affinity key; None without.
    """

    @property
    def weight(self) -> float: ...  # noqa: D102
    @property
    def key(self) -> Hashable | None: ...  # noqa: D102


def choose_messages(
    waiting: Sequence[WaitingMessage],
    move: MoveMessages,
    *,
    in_work: Collection[Hashable] = (),
    room: int | None = None,
    resting: Collection[int] = (),
) -> list[int]:
    """Places of the messages that an order to move takes.

    Those that came last go first: they would have waited longest. Messages of one key go all together or not
    at all, so that their order is kept, and not while one of them is in work.

    Parameters
    ----------
    waiting
        The oldest first.
    move
        How much: no message is taken that would exceed it.
    in_work
        Keys of messages of that queue that are in work.
    room
        Messages that the target can still hold; None for any number.
    resting
        Places of messages that were moved too short a time ago; they stay, and with them all of their key.

    Returns
    -------
    list of int
        Ascending, so that the moved messages keep their order.
    """
    count: float = inf if move.messages is None else move.messages
    count = count if room is None else min(count, room)
    work = inf if move.work is None else move.work * (1 + ROUNDING)
    groups: dict[Hashable, list[int]] = {}
    taken: list[int] = []
    looked: set[Hashable] = set(in_work) | {waiting[one].key for one in resting}
    looked.discard(None)
    misfits = 0
    for place in range(len(waiting) - 1, -1, -1):
        if count < 1 or work <= 0 or misfits == MISFITS:
            break
        key = waiting[place].key
        if key is None:
            if place in resting:
                continue
            group = [place]
        elif key in looked:
            continue
        else:
            looked.add(key)
            groups = groups or _by_key(waiting)
            group = groups[key]
        weight = sum(waiting[one].weight for one in group)
        if len(group) <= count and weight <= work:
            taken += group
            count -= len(group)
            work -= weight
            misfits = 0
        else:
            misfits += 1
    return sorted(taken)


def _by_key(waiting: Sequence[WaitingMessage]) -> dict[Hashable, list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for place, message in enumerate(waiting):
        if message.key is not None:
            groups.setdefault(message.key, []).append(place)
    return groups
