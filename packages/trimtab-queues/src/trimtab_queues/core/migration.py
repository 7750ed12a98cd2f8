"""Messages that a move takes: from the end of a queue, and those of one key together."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from math import inf
from typing import Final, Protocol

from trimtab_queues.core.messages import MoveMessages

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


def chosen(
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
