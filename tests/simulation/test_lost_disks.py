"""Disks of the store of groups are lost one after another, amid other faults; nothing acknowledged is."""

from __future__ import annotations

from random import Random

import pytest

from simulate.masters.checkers import StoreInvariantError
from simulate.masters.faults import FAULTS, end_all, schedule
from simulate.masters.machine import SimulatedDisk, SimulatedNode
from simulate.masters.world import StoreWorld
from tiers import by_tier
from trimtab_store.core.messages import Promised
from trimtab_store.core.paxos import ALL_RESTARTED
from trimtab_store.core.settings import StoreSettings, TransferScheme
from trimtab_store.core.token import CLUSTER

SEEDS = by_tier(5, 20, 20)
FAULT_SECONDS = 60.0


def votes(machine: SimulatedNode, groups: int) -> bool:
    """Whether its node runs, and a vote in every log stands on its disk, power cut or not."""
    sure = machine.disk.lines[: machine.disk.synced]
    promised = {group for group, one in sure if isinstance(one, Promised) and one.ballot >= ALL_RESTARTED}
    core = machine.core
    return core is not None and not core.without_vote and promised == set(range(CLUSTER, groups))


def lose_disk(world: StoreWorld, lost: list[int]) -> None:
    """Empty the disk of a node in the moment in which it ends; its messages are still on their way.

    A second disk is not lost before the node has its vote again: then no majority would be left.
    """
    machine = world.machines[world.any_node()]
    if all(votes(one, world.groups) for one in world.machines):
        world.stop(machine, power=True)
        machine.disk = SimulatedDisk()
        lost.append(machine.number)

        def start() -> None:
            if machine.core is None:
                world.start(machine)

        world.at(world.now + world.chance.choice((0.0, 0.1, 3.0)), start)


def played(seed: int) -> int:
    """A seed from its first election to the quiet after its faults; how many disks were lost."""
    chance = Random(f"{seed}, disks")
    settings = StoreSettings(
        scheme=chance.choice(tuple(TransferScheme)),
        snapshot_entries=chance.choice((20, 1000)),
        cycle_seconds=15.0,
    )
    nodes = chance.choice((3, 3, 5))
    world = StoreWorld(
        seed, nodes=nodes, groups=2, settings=settings, latency_seconds=chance.choice((0.002, 0.02))
    )
    kinds = tuple(kind for kind in FAULTS if kind != "drift" and chance.random() < 0.3) or ("kill",)
    schedule(world, kinds, FAULT_SECONDS, beyond=False)
    lost: list[int] = []

    def strike() -> None:
        lose_disk(world, lost)
        if world.now < FAULT_SECONDS - 2.0:
            world.at(world.now + world.chance.random(), strike)

    def change() -> None:
        world.publish_map(tuple(world.any_node() for _ in range(world.groups)))
        if world.now < FAULT_SECONDS - 10.0:
            world.at(world.now + 5.0 + 10.0 * world.chance.random(), change)

    world.at(13.0, strike)
    world.at(12.0, change)
    world.run_until(FAULT_SECONDS)
    end_all(world)
    world.run_until(world.now + settings.lease_seconds + settings.renewal_seconds + 2.0)
    world.checkers.mastered(FAULT_SECONDS)
    world.run_until(world.now + world.longest_rest())
    slack = settings.cycle_seconds + settings.backoff_seconds + 4 * settings.renewal_seconds
    world.run_until(world.now + slack + world.groups * (settings.lease_seconds + settings.renewal_seconds))
    world.closing = True
    world.run_until(world.now + 2 * settings.renewal_seconds + 5.0)
    world.checkers.ended()
    assert all(votes(machine, world.groups) for machine in world.machines)
    return len(lost)


def test_lost_disks_lose_nothing_that_was_acknowledged() -> None:
    """Under kills, cuts, late and doubled messages, with three and five nodes: every invariant holds.

    Once faults end the nodes vote again in all logs, and every group has a master.
    """
    lost = 0
    for seed in range(SEEDS):
        try:
            lost += played(seed)
        except StoreInvariantError as error:
            pytest.fail(f"seed {seed}: {error}")
    assert lost > SEEDS
