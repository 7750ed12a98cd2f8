"""A node's disk: lines that are appended, and lost in a power cut unless they were synced."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

from trimtab_store.core.log_retention import RetainedLog


class SimulatedDisk:
    """The log of one node, over all its lives.

    Attributes
    ----------
    lines
        (group, written).
    synced
        How many of them would survive a power cut.
    slow
        Factor on the seconds of a sync.
    failing
        Whether syncs fail: the process ends then, for it cannot know what is on disk.
    """

    __slots__ = ("failing", "lines", "slow", "synced")

    def __init__(self) -> None:
        self.lines: list[tuple[int, Any]] = []
        self.synced = 0
        self.slow = 1.0
        self.failing = False

    def cut_power(self, chance: Random) -> int:
        """Lose what was not synced, or the end of it: a torn log. How many lines are lost."""
        kept = chance.randint(self.synced, len(self.lines))
        lost = len(self.lines) - kept
        del self.lines[kept:]
        self.synced = kept
        return lost

    def recovered(self) -> dict[int, list[Any]]:
        """Group to what is needed of all that was written for it, as a node's log tells it; only that stays.

        Read when a node starts: then nothing is on its way to the disk.
        """
        found: defaultdict[int, RetainedLog[Any]] = defaultdict(RetainedLog)
        for group, written in self.lines:
            found[group].absorb(written, written)
        needed = {group: [*kept.places(), *kept.state_records()] for group, kept in found.items()}
        self.lines = [(group, one) for group, lines in needed.items() for one in lines]
        self.synced = len(self.lines)
        return needed
