"""Routing tables: where the records of key groups and of hot keys go, and where older ones may still lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab_common.errors import InputError

GROUPS: Final = 1024
"""Key groups that a table has at least."""


def group_count(base: int) -> int:
    """Key groups over that many partitions: the least multiple of them that is `GROUPS` or more.

    A group then lies in one partition under the plain hash, so that a group that nobody has moved goes where
    clients without a table send it. With 1,024 groups whatever the partitions this would hold for powers of
    two alone: a group would be strewn over partitions, and moving it would move from all of them.
    """
    return base * -(-GROUPS // base)


@dataclass(frozen=True, slots=True)
class Route:
    """Where records of a key group or of a hot key go.

    Attributes
    ----------
    partitions
        One: all go there. Several: the key is split over them.
    earlier
        Partitions in which records of an earlier table may still wait: a run of a producer that begins with
        this table waits for them. Whoever publishes tables takes one out when every producer follows and the
        consumers have passed what was written there.
    """

    partitions: tuple[int, ...]
    earlier: tuple[int, ...] = ()

    def moved(self, partitions: tuple[int, ...]) -> Route:
        """The route to other partitions, which names those of this one as earlier."""
        return Route(partitions, tuple(sorted({*self.earlier, *self.partitions})))


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """The routes of one topic.

    Attributes
    ----------
    version
        A producer follows the highest that it has seen; 0 is the plain hash, without a table.
    base
        Partitions that the hash divides by, for good: adding partitions moves no key.
    partitions
        Partitions that routes may name, those added since included.
    groups
        Routes of key groups that are not where the hash puts them, or were elsewhere; one partition each.
    keys
        Routes of hot keys.
    passed
        Offsets, by partition, below which everything had taken effect when this was published: fences that
        are no higher are dropped. Empty where nobody looked, shorter where partitions came since.

    Raises
    ------
    InputError
        If a route names a partition or a group that is not there, none, or one twice.
    """

    version: int
    base: int
    partitions: int
    groups: Mapping[int, Route] = field(default_factory=dict)
    keys: Mapping[bytes, Route] = field(default_factory=dict)
    passed: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("version", 0), ("base", 1), ("partitions", self.base)):
            if getattr(self, name) < least:
                raise self._refused(f"{name} is {getattr(self, name)}, expected {least} or more")
        if len(self.passed) > self.partitions or any(one < 0 for one in self.passed):
            raise self._refused(
                f"passed is {self.passed}, expected an offset of 0 or more for each of {self.partitions} "
                "partitions at most"
            )
        for group, route in self.groups.items():
            if not 0 <= group < group_count(self.base):
                raise self._refused(f"group {group} is not one of 0 to {group_count(self.base) - 1}")
            if len(route.partitions) != 1:
                raise self._refused(
                    f"group {group} goes to {len(route.partitions)} partitions, expected 1: split keys"
                )
            self._check(f"group {group}", route)
        # Keys may be secret: errors count them.
        for number, route in enumerate(self.keys.values(), start=1):
            self._check(f"hot key {number}", route)

    def _check(self, what: str, route: Route) -> None:
        for places in (route.partitions, route.earlier):
            if len(set(places)) < len(places):
                raise self._refused(f"{what} names a partition twice: {places}")
            if any(not 0 <= one < self.partitions for one in places):
                raise self._refused(f"{what} names {places}, expected partitions 0 to {self.partitions - 1}")
        if not route.partitions:
            raise self._refused(f"{what} goes to no partition, expected 1 or more")

    def _refused(self, text: str) -> InputError:
        return InputError(f"routing table {self.version}: {text}; publish a corrected table")

    def route(self, group: int, key: bytes) -> Route:
        """The route of a key and its group."""
        return self.keys.get(key) or self.group_route(group)

    def group_route(self, group: int) -> Route:
        """The route of a key group: home, where no other is named."""
        return self.groups.get(group) or Route((group % self.base,))
