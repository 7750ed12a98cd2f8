"""Warnings of a node about itself: groups without a master, lagging peers, a late event loop.

A warning that repeats is logged once in a while.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeVar

from trimtab_store.core.node import StoreNode
from trimtab_store.core.settings import StoreSettings

MAX_LINES: Final = 10
SECONDS: Final = 60.0


class RateLimitedLogger:
    """Writes a limited number of lines per time; the next line states how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._since, self._reported, self._left_out = clock, float("-inf"), 0, 0

    def log(self, line: str) -> None:
        """Write a line, or count it."""
        now = self._clock()
        if now - self._since >= SECONDS:
            if self._left_out:
                line += f" ({self._left_out:,} such lines were left out before)"
            self._since, self._reported, self._left_out = now, 0, 0
        if self._reported >= MAX_LINES:
            self._left_out += 1
            return
        self._reported += 1
        print(line, file=sys.stderr, flush=True)


Subject = TypeVar("Subject", bound=Hashable)


class HealthMonitor:
    """Reports that the node stood still, that nodes use different maps, and that a group rests.

    Parameters
    ----------
    node
        The number of this node.
    """

    def __init__(self, node: int, settings: StoreSettings) -> None:
        self._node, self._settings = node, settings
        self._limited_log: Final = RateLimitedLogger()
        self._observed: float | None = None
        self._logged: dict[str, tuple[Hashable, ...]] = {}

    def record_progress(self, now: float) -> None:
        """Note that the node runs. It does so every half R at least, so a longer pause is a stall of the
        node.
        """
        before, self._observed = self._observed, now
        if before is None or now - before <= self._settings.renewal_seconds:
            return
        lease = self._settings.lease_seconds
        over = now - before >= lease
        self._limited_log.log(
            f"node {self._node} stood still for {now - before:,.1f} s: its machine slept, its process was "
            "stopped, or others took the processor; "
            + (
                "whatever it was master of has been taken over by now"
                if over
                else f"the lease is {lease:g} s, so it may have lost what it was master of"
            )
        )

    def compared(self, node: StoreNode) -> None:
        """Report other nodes' maps and lost groups, each once while it lasts."""
        version = node.maps.newest.version
        for other in self._new("disputed", node.maps.disputed_by):
            self._limited_log.log(
                f"nodes {self._node} and {other} have different maps of version {version}: no group is "
                f"taken over meanwhile; publish a map with version {version + 1} or higher, the same for "
                "all nodes"
            )
        passed_over = node.passed_over
        for other in self._new("passed over", passed_over):
            self._limited_log.log(
                f"node {other} stays at version {passed_over[other]} of the map, node {self._node} has "
                f"version {version}: groups that it gives to node {other} stay where they are; "
                f'correct "map" in the configuration of node {other}, or what keeps it from reading the map'
            )
        outdated_by = node.outdated_by
        for other in self._new("outdated", outdated_by):
            self._limited_log.log(
                f"node {self._node} stays at version {version} of the map, node {other} has version "
                f'{outdated_by[other]}: node {self._node} takes no group over; correct "map" in its '
                "configuration, or what keeps it from reading the map"
            )
        for lacking in self._new("alone", [node.lacks_nodes] if node.lacks_nodes else []):
            self._limited_log.log(
                f"node {self._node} hears {lacking} nodes too few for a majority: it goes on with version "
                f"{version} of the map and learns no newer one; start the others, or see what keeps it from "
                "them"
            )
        for other in self._new("idle", node.idle):
            self._limited_log.log(
                f"node {other} does not take group {node.idle[other]} over, which the map gives to it: "
                f"groups behind that one no longer wait; see what node {other} says, and whether it hears "
                "the others"
            )
        for group, preferred in self._new("resting", node.resting.items()):
            left = node.groups[group].rests.left(node.context.now, preferred)
            self._limited_log.log(
                f"group {group} is not given to node {preferred} for {left:,.0f} s: that node took it over "
                "and lost it again soon; see why it stands still or ends, or name another node in the map"
            )

    def _new(self, kind: str, found: Iterable[Subject]) -> list[Subject]:
        """Those for which this was not so at the last call."""
        # Where a further version is disputed by the same node, it was not for a moment before.
        before, now = self._logged.get(kind, ()), tuple(found)
        self._logged[kind] = now
        return [one for one in now if one not in before]

    def lacks_map(self) -> None:
        """Report that the store has no published map, as far as this node knows."""
        self._limited_log.log(
            f"node {self._node} finds no preferred map in the store, and no transfer is made for lack of "
            "one: "
            "publish a map with `trimtab apply` or `trimtab masters publish`"
        )

    def rejoins(self, without_vote: list[str]) -> None:
        """Report that the node has had no vote in some logs for a while, or has one in all of them
        again.
        """
        if without_vote:
            logs = f"{len(without_vote)} log{'s' * (len(without_vote) > 1)}"
            self._limited_log.log(
                f"node {self._node} started without {logs}, and has no vote there until all other nodes have "
                f"answered and it has caught up: {without_vote[0]}"
            )
        else:
            self._limited_log.log(f"node {self._node} votes in all groups")
