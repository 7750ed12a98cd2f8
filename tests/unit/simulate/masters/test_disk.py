"""The disk of a simulated node keeps what its log needs, over as many lives as there are."""

from __future__ import annotations

from random import Random

from simulate.masters.machine import SimulatedDisk
from trimtab_store.core.messages import AcceptedAt, ChosenUpTo, GroupSnapshot, NoOp, Promised


def test_a_restart_removes_lines_covered_by_a_snapshot() -> None:
    """Each start reads what the one before it needed, and what was written since; nothing else."""
    disk = SimulatedDisk()
    disk.lines += [(0, AcceptedAt(slot, (1, 0), NoOp())) for slot in range(1, 9)]
    disk.lines += [(0, ChosenUpTo(8)), (0, GroupSnapshot(6, ("state",))), (0, Promised((2, 1)))]
    accepted = [AcceptedAt(slot, (1, 0), NoOp()) for slot in (7, 8)]
    disk.synced = len(disk.lines)
    needed = [GroupSnapshot(6, ("state",)), *accepted, Promised((2, 1))]
    assert disk.recovered() == {0: needed}
    assert disk.lines == [(0, one) for one in needed] and disk.synced == len(needed)
    disk.lines.append((0, ChosenUpTo(8)))
    assert disk.cut_power(Random(1)) <= 1, "what was on disk before stays"
    disk.lines[len(needed) :] = [(0, ChosenUpTo(8))]
    assert disk.recovered() == disk.recovered() == {0: [*needed, ChosenUpTo(8)]}
