"""Faults drawn from a seed: what goes wrong, when, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from simulate.masters.machine import Address, SimulatedNode
from simulate.masters.world import STORE, StoreWorld

MEAN_SECONDS: Final = 4.0
"""Between two faults."""


def kill(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """End a process, and start it again."""
    _down(world, machine, seconds, power=False)


def cut_power(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """End a machine: its log is torn somewhere behind the last sync."""
    _down(world, machine, seconds, power=True)


def _down(world: StoreWorld, machine: SimulatedNode, seconds: float, *, power: bool) -> None:
    if machine.core is not None:
        world.stop(machine, power=power)
        world.at(world.now + seconds, _up, world, machine)


def _up(world: StoreWorld, machine: SimulatedNode) -> None:
    if machine.core is None:
        world.note(f"node {machine.number} starts")
        world.start(machine)


def isolate(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """Cut a node off the other nodes, and from clients now and then."""
    stores = () if world.store is None else (STORE,)
    others = [one for one in (*range(world.nodes), *world.places, *stores) if one != machine.number]
    if world.chance.random() < 0.5:
        others = [one for one in others if isinstance(one, int) or one == STORE]
    cut: set[tuple[Address, Address]] = {(machine.number, one) for one in others}
    cut |= {(one, machine.number) for one in others}
    _cut(world, cut, seconds, f"node {machine.number} is cut off")


def cut_outgoing(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """Let nothing from a node through to some others; they are heard."""
    one: Address = machine.number
    two: Address = world.any_node()
    if world.store is not None:
        one, two = world.chance.choice(((one, two), (one, STORE), (STORE, one)))
    _cut(world, {(one, two)}, seconds, f"nothing goes from {one} to {two}")


def _cut(world: StoreWorld, cut: set[tuple[Address, Address]], seconds: float, what: str) -> None:
    world.note(f"{what} for {seconds:.1f} s")
    world.network.cut |= cut
    world.at(world.now + seconds, world.network.cut.difference_update, cut)


def lose(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """Lose one message in five."""
    _rate(world, "loss", 0.2, seconds)


def double(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """Deliver one message in three twice."""
    _rate(world, "double", 0.3, seconds)


def delay(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """Deliver one message in ten late, by up to twenty seconds: long after what came of it."""
    _rate(world, "delay_seconds", world.chance.choice((0.05, 2.0, 20.0)), seconds)


def _rate(world: StoreWorld, what: str, value: float, seconds: float) -> None:
    world.note(f"the network's {what} is {value:g} for {seconds:.1f} s")
    setattr(world.network, what, value)
    world.at(world.now + seconds, setattr, world.network, what, 0.0)


def pause(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """Stop a process and let it go on, as a debugger or a full machine does."""
    world.note(f"node {machine.number} is paused for {seconds:.1f} s")
    machine.paused_until = world.now + seconds


def slow_disk(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """Let a sync take a second."""
    world.note(f"the disk of node {machine.number} is slow for {seconds:.1f} s")
    machine.disk.slow = 1000.0
    world.at(world.now + seconds, setattr, machine.disk, "slow", 1.0)


def failing_disk(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """Let syncs fail, which ends the process."""
    world.note(f"the disk of node {machine.number} fails for {seconds:.1f} s")
    machine.disk.failing = True
    world.at(world.now + seconds, _repaired, world, machine)


def _repaired(world: StoreWorld, machine: SimulatedNode) -> None:
    machine.disk.failing = False
    _up(world, machine)


def drift(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """Let a clock go faster or slower, as much as is promised."""
    rate = 1 + world.chance.choice((-1.0, 1.0)) * world.settings.drift
    world.note(f"the clock of node {machine.number} runs at {rate:g}")
    machine.clock.drift(world.now, rate)


def exceed_drift(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """Let a clock go far faster or slower than is promised."""
    rate = world.chance.choice((0.7, 1.5))
    world.note(f"the clock of node {machine.number} runs at {rate:g}")
    machine.clock.drift(world.now, rate)


def set_wall(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """Set a wall clock, by up to a minute."""
    machine.clock.wall_offset += world.chance.uniform(-60.0, 60.0)
    world.note(f"the wall clock of node {machine.number} is set")


def late_maps(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """Let a node see new maps late, or not before all faults end: its file is a copy that nobody renews."""
    machine.map_late_seconds = world.chance.choice((2.0, 20.0, float("inf")))
    world.note(f"node {machine.number} sees maps {machine.map_late_seconds:g} s late")


def lose_store(world: StoreWorld, machine: SimulatedNode, seconds: float) -> None:
    """Let the store answer nobody, as etcd does while it elects; half of what it was asked comes later."""
    world.note(f"the store is away for {seconds:.1f} s")
    world.store_away_until = world.now + seconds


FAULTS: Final[dict[str, Callable[[StoreWorld, SimulatedNode, float], None]]] = {
    "kill": kill,
    "power": cut_power,
    "partition": isolate,
    "one-way": cut_outgoing,
    "loss": lose,
    "double": double,
    "delay": delay,
    "pause": pause,
    "slow-disk": slow_disk,
    "failing-disk": failing_disk,
    "drift": drift,
    "wall": set_wall,
    "late-maps": late_maps,
}
"""Name to what goes wrong; `exceed_drift` takes `drift`'s place beyond these, and a store may be away."""


def schedule(world: StoreWorld, kinds: tuple[str, ...], until: float, *, beyond: bool) -> None:
    """Draw faults of these kinds until then, one after another."""

    def strike() -> None:
        """Something goes wrong."""
        if world.now >= until:
            return
        kind = world.chance.choice(kinds)
        machine = world.machines[world.any_node()]
        seconds = world.chance.choice((0.2, 1.0, 4.0, 15.0)) * (0.5 + world.chance.random())
        fault = exceed_drift if beyond and kind == "drift" else FAULTS[kind]
        if world.store is not None and world.chance.random() < 0.1:
            fault, kind = lose_store, "store"
        world.faults[kind] += 1
        fault(world, machine, min(seconds, until - world.now))

    def strike_again() -> None:
        strike()
        if world.now < until:
            world.at(world.now + world.chance.expovariate(1 / MEAN_SECONDS), strike_again)

    world.ambush = strike
    world.at(world.now + world.chance.expovariate(1 / MEAN_SECONDS), strike_again)


def end_all(world: StoreWorld) -> None:
    """Let everything work again; what is on its way still comes."""
    world.note("all faults end")
    world.network.heal()
    world.store_away_until = 0.0
    for machine in world.machines:
        machine.disk.slow, machine.disk.failing, machine.paused_until = 1.0, False, 0.0
        machine.clock.drift(world.now, 1.0)
        if machine.number not in world.blind:
            machine.map_late_seconds = 0.0
            world.show_map(machine, world.map)
        _up(world, machine)
