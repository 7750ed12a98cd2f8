"""One seed of the simulated store, from beginning to end, and the times of transfers without faults."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from simulate.linear import check_linearizability
from simulate.masters.checkers import StoreInvariantError
from simulate.masters.faults import FAULTS, end_all, schedule
from simulate.masters.histories import LogModel
from simulate.masters.world import FREE, ProcessingCost, StoreWorld
from trimtab_store.core.node import EMBEDDED
from trimtab_store.core.settings import StoreSettings, TransferScheme
from trimtab_store.core.stored import ConsensusEngine

FAULT_SECONDS = 120.0
FEW_PROPOSES_SECONDS = 2.0


@dataclass(slots=True)
class StoreSimulationResult:
    """What came of a seed.

    Attributes
    ----------
    violation
        The broken invariant's sentence; empty if all held.
    story
        What happened, each with its second.
    seconds, events
        Simulated.
    stored, transfers, clean
        Messages acknowledged, masterships handed over (seconds without a master, each), and consumers that
        changed masters in a clean transfer.
    operations, histories, undecided
        Of clients; groups, for each of which an order of its operations was looked for; and those of them for
        which the search was given up.
    sent, incarnations
        Messages that producers sent, again and again, and lives of consumers.
    faults, ends, maps
        Kind of fault to how often it struck, how often a node ended, and versions of the preferred map.
    """

    seed: int
    setting: str
    violation: str = ""
    story: list[tuple[float, str]] = field(default_factory=list)
    seconds: float = 0.0
    events: int = 0
    stored: int = 0
    transfers: list[float] = field(default_factory=list)
    clean: int = 0
    operations: int = 0
    histories: int = 0
    undecided: int = 0
    sent: int = 0
    incarnations: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    ends: int = 0
    maps: int = 0


def run(
    seed: int,
    *,
    engine: ConsensusEngine = EMBEDDED,
    beyond: bool = False,
    fault_seconds: float = FAULT_SECONDS,
    clients: int = 1,
) -> StoreSimulationResult:
    """Draw a cluster, a scheme, kinds of faults and maps from a seed, and hold every invariant against it.

    Parameters
    ----------
    engine
        What chooses: the nodes among themselves, or a store of slots that may be away as well.
    beyond
        Whether clocks drift far more than promised. Then two nodes may count themselves as master, and the
        checkers of I1 and I6 are off; no message is lost and no offset goes back for all that. What is read
        may be old then, and histories are not judged.
    fault_seconds
        After that long all faults end; then it goes on until all has to be quiet, for a minute or so.
    clients
        Producers, and as many consumers, of each group.
    """
    chance = Random(f"{seed}, what is drawn before")
    nodes, groups = chance.choice((3, 3, 3, 5, 4)), chance.choice((1, 2, 3))
    scheme = chance.choice(tuple(TransferScheme))
    kinds = tuple(kind for kind in FAULTS if chance.random() < 0.5) or ("kill",)
    if beyond:
        kinds = tuple(dict.fromkeys((*kinds, "drift")))
    # The more clocks may drift, the more a rule about them matters.
    drift, margin = chance.choice(((0.005, 0.02), (0.05, 0.11)))
    settings = StoreSettings(
        scheme=scheme,
        drift=drift,
        margin=margin,
        snapshot_entries=chance.choice((20, 60, 1000)),
        cycle_seconds=15.0,
        backoff_seconds=5.0,
        rest_seconds=chance.choice((0.0, 0.1, 0.5)),
        keep_bytes=1 << 40,
    )
    latency = chance.choice((0.002, 0.02))
    blind = frozenset({chance.randrange(nodes)} if chance.random() < 0.2 else ())
    cost = chance.choice((FREE, ProcessingCost(0.0001, 1e-8), ProcessingCost(0.001, 2e-7)))
    padding, connected = chance.choice((0, 500, 5000)), chance.random() < 0.7
    world = StoreWorld(
        seed,
        nodes=nodes,
        groups=groups,
        settings=settings,
        engine=engine,
        clock_history=not beyond,
        latency_seconds=latency,
        clients=clients,
        cost=cost,
        padding_bytes=padding,
        blind=blind,
        connected=connected,
    )
    told = StoreSimulationResult(
        seed,
        f"{engine.name}, {nodes} nodes, {groups} groups, scheme {scheme.name.lower()}, "
        f"latency {latency * 1000:g} ms, {cost.message_seconds * 1000:g} ms a message, {padding} bytes each, "
        f"rests {settings.rest_seconds:g} s, {len(blind)} without maps, "
        f"clients on {'connections' if connected else 'datagrams'}, faults {' '.join(kinds)}",
    )
    try:
        _play(world, kinds, fault_seconds, beyond=beyond)
        if not beyond:
            told.operations, told.undecided = _check_histories(world)
            told.histories = groups
    except StoreInvariantError as error:
        told.violation = str(error)
    told.story, told.seconds, told.events = world.story, world.now, world.events
    told.transfers, told.clean = world.checkers.transfers, world.checkers.deliveries.clean
    told.stored = sum(one.stored for one in world.producers)
    told.sent = sum(one.sent for one in world.producers)
    told.incarnations = sum(one.incarnations for one in world.consumers)
    told.faults, told.ends, told.maps = world.faults, world.ends, world.map.version
    return told


def _play(world: StoreWorld, kinds: tuple[str, ...], fault_seconds: float, *, beyond: bool) -> None:
    settings = world.settings
    schedule(world, kinds, fault_seconds, beyond=beyond)

    def change() -> None:
        world.publish_map(tuple(world.any_node() for _ in range(world.groups)))
        if world.now < fault_seconds - 10:
            world.at(world.now + 5 + 20 * world.chance.random(), change)

    world.at(12.0, change)
    world.run_until(fault_seconds)
    end_all(world)
    world.run_until(world.now + settings.lease_seconds + settings.renewal_seconds + FEW_PROPOSES_SECONDS)
    world.checkers.mastered(fault_seconds)
    # Groups that rest; a token that its holder took along, a group that is muted, then one after another.
    world.run_until(world.now + world.longest_rest())
    slack = settings.cycle_seconds + settings.backoff_seconds + 4 * settings.renewal_seconds
    cycle = (
        settings.lease_seconds + settings.renewal_seconds if settings.scheme is TransferScheme.AWAIT else 5.0
    )
    world.run_until(world.now + slack + world.groups * cycle)
    world.closing = True
    world.run_until(world.now + 2 * settings.renewal_seconds + 5)
    world.checkers.ended()


def _check_histories(world: StoreWorld) -> tuple[int, int]:
    """What clients saw of each group is what one log would have told them, one operation after another."""
    operations = undecided = 0
    for group in range(world.groups):
        history = world.histories.history(group)
        found = check_linearizability(history, LogModel(history))
        operations += len(history)
        undecided += found.linearizable is None
        if found.linearizable is False:
            what = "; ".join(f"{one.what}, {one.called:.3f} to {one.returned:.3f} s" for one in found.stuck)
            world.checkers.broken("I9", f"no order of what clients of group {group} saw explains {what}")
    return operations, undecided


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
