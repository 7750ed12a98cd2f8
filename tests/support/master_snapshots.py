"""Snapshots of the balancer `masters` for tests: groups and nodes at will."""

from __future__ import annotations

from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.masters import NO_MASTER, MasterGroupLoad, MastersSnapshot, NodeLoad, NodeState

REFERENCE = SnapshotReference("store", "2026-11-24T15:00:00Z", "0" * 64)


def a_group(
    number: int,
    master: int,
    queries: float = 100.0,
    *,
    able: tuple[int, ...] = (0, 1, 2),
    held: float = 600.0,
) -> MasterGroupLoad:
    """A group whose bytes go with its queries."""
    return MasterGroupLoad(
        f"group {number}",
        master,
        NO_MASTER,
        able,
        queries,
        queries * 128,
        propose_seconds=0.004,
        held_seconds=held,
    )


def a_snapshot(
    *groups: MasterGroupLoad, states: tuple[NodeState, ...] = (NodeState.ALIVE,) * 3, scheme: str = "expire"
) -> MastersSnapshot:
    """Nodes 0 to 2, or as many as have states."""
    nodes = tuple(NodeLoad(str(number), f"host:{number}", state) for number, state in enumerate(states))
    return MastersSnapshot(REFERENCE, Quality(cpu="absent"), "paxos", 3, scheme, nodes, groups)
