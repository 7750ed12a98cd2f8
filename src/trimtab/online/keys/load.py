"""The load of a topic's partitions, as a producer sees it: what was last seen, and what it sent since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from trimtab.model.errors import InputError


@dataclass(frozen=True, slots=True)
class Content:
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


class LoadView:
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
    wanted
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
    looks
        How often it was looked at.

    Raises
    ------
    InputError
        If there is no partition.
    """

    __slots__ = (
        "base", "capacity", "connections", "content", "keys", "load", "looks", "members", "rate",
        "record_bytes", "spare", "wanted",
    )  # fmt: skip

    def __init__(self, partitions: int, *, spare: int = 0, capacity: float = inf) -> None:
        if partitions < 1:
            raise InputError(f"a topic has {partitions} partitions to choose from, expected 1 or more")
        self.base, self.spare, self.wanted, self.looks = partitions, spare, 0, 0
        self.load, self.rate = [0.0] * partitions, [0.0] * partitions
        self.capacity, self.record_bytes = [capacity] * partitions, [0.0] * partitions
        self.keys, self.members, self.connections = [0] * partitions, [1] * partitions, [1] * partitions
        self.content = [Content()] * partitions

    def __len__(self) -> int:
        return len(self.load)

    def add(self) -> int | None:
        """Take a spare partition into use: its index, or None where none is left, which is noted."""
        if not self.spare:
            self.wanted += 1
            return None
        self.spare -= 1
        self.looks += 1
        self.load.append(0.0)
        self.rate.append(0.0)
        self.capacity.append(self.capacity[-1])
        self.record_bytes.append(0.0)
        self.keys.append(0)
        self.members.append(self.members[-1])
        self.connections.append(self.connections[-1])
        self.content.append(Content())
        return len(self.load) - 1

    def looked(self, load: Sequence[float], rate: Sequence[float] | None = None) -> None:
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
        self.looks += 1


def least(load: Sequence[float], among: Sequence[int], draw: float) -> int:
    """The one of some partitions with the least load; of equals the one that a number in [0, 1) picks."""
    loads = [load[one] for one in among]
    lowest = min(loads)
    count = loads.count(lowest)
    if count == 1:
        return among[loads.index(lowest)]
    equals = [one for one, its in zip(among, loads, strict=True) if its == lowest]
    return equals[int(draw * count)]
