"""How long a group has no master in a transfer, scheme by scheme, where nothing goes wrong."""

from __future__ import annotations

from simulate.masters.world import StoreWorld
from trimtab_store.core.engines import EMBEDDED
from trimtab_store.core.log import ConsensusEngine
from trimtab_store.core.settings import StoreSettings, TransferScheme

LATENCY_SECONDS = 0.0045
"""Of a message; with a sync of a millisecond a proposal takes P = 10 ms on the average."""


def transfer_seconds(
    scheme: TransferScheme, *, transfers: int, seed: int = 0, engine: ConsensusEngine = EMBEDDED
) -> list[float]:
    """Seconds from the current master's proposal to the preferred node's mastership, sorted.

    One group on three nodes, L = 10 s, R = 2.5 s, producer and consumer at work; the preferred map names
    another node every 40 s or so, at a moment of chance.
    """
    world = StoreWorld(
        seed,
        nodes=3,
        groups=1,
        settings=StoreSettings(scheme=scheme),
        engine=engine,
        latency_seconds=LATENCY_SECONDS,
    )
    world.run_until(15.0)
    preferred = 0
    while len(world.checkers.transfers) < transfers:
        preferred = (preferred + 1) % 3
        world.publish_map((preferred,))
        world.run_until(world.now + 30.0 + 20.0 * world.chance.random())
    return sorted(world.checkers.transfers)


def table(transfers: int, engine: ConsensusEngine = EMBEDDED) -> str:
    """A line for each scheme."""
    lines = ["scheme     least    p50     p99    most   seconds, of " + str(transfers)]
    for scheme in TransferScheme:
        found = transfer_seconds(scheme, transfers=transfers, engine=engine)
        figures = (found[0], found[len(found) // 2], found[int(len(found) * 0.99)], found[-1])
        lines.append(f"{scheme.name.lower():8}" + "".join(f"{figure:8.3f}" for figure in figures))
    return "\n".join(lines)
