"""One seed of the order guard: producers and consumers at work while a publisher changes routing tables."""

from __future__ import annotations

import itertools
import random
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace

from simulate.keys.clients import SimulatedLogEntry
from simulate.keys.world import KeysWorld
from trimtab_keys.core.order import OrderingConfig
from trimtab_keys.core.routing import Route, RoutingTable, key_group


@dataclass(slots=True)
class SimulatedPublisher:
    """Tables one after the other over a world; settled places are taken out of later ones.

    Attributes
    ----------
    hot
        Keys that may be split, the hottest first.
    """

    world: KeysWorld
    chance: random.Random
    keys: Sequence[bytes]
    hot: Sequence[bytes]
    groups: dict[int, Route] = field(default_factory=dict)
    routes: dict[bytes, Route] = field(default_factory=dict)
    version: int = 0
    ends: list[int] | None = None
    settled: int = 0

    def publish(self) -> None:
        """A table in which some groups move and a hot key is split, split otherwise or put together again."""
        draw, count = self.chance, len(self.world.logs)
        for key in draw.sample(self.keys, min(3, len(self.keys))):
            group = key_group(key, count)
            self.groups[group] = self._table().group_route(group).moved((draw.randrange(count),))
        key = draw.choice(self.hot)
        places = tuple(draw.sample(range(count), draw.choice((1, 2, min(3, count)))))
        self.routes[key] = self._table().route(key_group(key, count), key).moved(places)
        self._write()

    def settle(self, dead: Container[int] = ()) -> None:
        """Take earlier places out once every producer follows and what had been written then is committed.

        Parameters
        ----------
        dead
            Producers that are not waited for: their heartbeats are late, though they may only be paused.
        """
        world = self.world
        if self.ends is None:
            # Who follows has flushed what went elsewhere before, so that it is in the logs by now.
            behind = [
                number
                for number, one in enumerate(world.producers)
                if one.sender.table.version != self.version
            ]
            if all(number in dead for number in behind):
                for number in behind:
                    world.pending_acks.left_behind(world.producers[number].name, self.version)
                self.ends = [len(log) for log in world.logs]
        elif all(done >= end for done, end in zip(world.committed, self.ends, strict=True)):
            self.groups = {one: Route(route.partitions) for one, route in self.groups.items()}
            self.routes = {one: Route(route.partitions) for one, route in self.routes.items()}
            self.settled += 1
            self._write()

    def _write(self) -> None:
        self.version += 1
        self.ends = None
        self.world.tables.append(self._table())

    def _table(self) -> RoutingTable:
        count = len(self.world.logs)
        passed = tuple(self.world.committed)
        return RoutingTable(self.version, count, count, dict(self.groups), dict(self.routes), passed)


SETTINGS = OrderingConfig(
    switch_seconds=5.0,
    delivery_seconds=2.0,
    gap_seconds=4.0,
    fence_seconds=60.0,
    run_records=1,
)
MAX_LAG = 5_000
"""Producers rest while so many are not committed: long runs would be ever further behind."""
FEW_HELD = 60
"""As many records may wait in each second run: consumers lag far behind then."""
STEP_SECONDS = 0.05
BATCH = 40
"""Records that a step moves at most; a batch of a client holds no fewer."""
RARE = 0.01
"""Of a step's being the one at which a table is drawn, and of its having a fault; short runs have more."""


@dataclass(slots=True)
class KeysSimulationResult:
    """What happened in a run.

    Attributes
    ----------
    records
        Sent.
    effects
        Of them, those that took effect; those that are missing were never acknowledged.
    doubled
        Received again and refused by their marks.
    max_held
        Records that consumers held back at once, at most.
    tables, settled
        Published, and those that took earlier places out.
    abandoned
        Changes of tables that took too long.
    killed
        Producers and consumers.
    lost
        Records that retention deleted before they took effect, and that did not.
    """

    records: int
    effects: int
    doubled: int
    max_held: int
    tables: int
    settled: int
    abandoned: int
    killed: int
    lost: int = field(default=0, repr=False)


def simulate(
    seed: int,
    records: int,
    *,
    producers: int = 3,
    consumers: int = 3,
    partitions: int = 5,
    keys: int = 30,
    retention: bool = False,
) -> KeysSimulationResult:
    """One run to its end, with the promises held against every effect and the whole.

    Parameters
    ----------
    retention
        Whether logs are cut past what consumers have not consumed, now and then.

    Raises
    ------
    ViolationError
        If one does not hold.
    """
    chance = random.Random(seed)
    names = [b"key %d" % one for one in range(keys)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, keys + 1)))
    plans = [chance.choices(names, cum_weights=weights, k=records // producers) for _ in range(producers)]
    settings = replace(SETTINGS, held_records=chance.choice((FEW_HELD, SETTINGS.held_records)))
    world = KeysWorld(partitions, consumers, plans, settings, chance.random, retention=retention)
    # Of its own, so that what else happens is drawn as without retention.
    cuts = random.Random(f"retention {seed}")
    publisher = SimulatedPublisher(world, chance, names, names[:3])
    # Some twenty drawn tables a run, however short it is, and as many faults; more in long runs.
    steps = max(1, records // 50)
    rare = min(0.2, max(20 / steps, RARE))
    asleep: dict[tuple[str, int], float] = {}
    held_most = killed = 0
    while any(one.to_send for one in world.producers):
        if chance.random() < rare:
            publisher.publish()
        publisher.settle([one for one in range(producers) if asleep.get(("producer", one), 0) > world.now])
        for one in range(producers):
            if asleep.get(("producer", one), 0) <= world.now:
                _produce(world, one, chance)
        for one in range(consumers):
            if asleep.get(("consumer", one), 0) <= world.now:
                _consume(world, one, chance)
        held_most = max(held_most, sum(one.receiver.held for one in world.consumers))
        world.pass_time(STEP_SECONDS)
        for partition, orphans in enumerate(world.orphans):
            if orphans and chance.random() < 0.3:
                world.orphan(partition, chance.random() < 0.5)
        if chance.random() < rare:
            killed += _inject_fault(world, chance, asleep)
        if retention and cuts.random() < rare / 4:
            _cut(world, cuts)
    world.settle()
    effects = sum(map(len, world.effects.numbers.values()))
    gave_up = sum(one.sender.gave_up for one in world.producers)
    return KeysSimulationResult(
        records // producers * producers, effects, world.effects.doubled, held_most, publisher.version,
        publisher.settled, gave_up, killed, world.effects.lost,
    )  # fmt: skip


def _produce(world: KeysWorld, one: int, chance: random.Random) -> None:
    if world.tables and chance.random() < 0.3:
        # The newest most often, else any: late, twice, or not in their order.
        last = len(world.tables) - 1
        # A run begins with the newest: its client reads the topic of tables to the end first.
        new = world.producers[one].before and not world.producers[one].sender.table.version
        world.read_table(one, last if new or chance.random() < 0.7 else chance.randint(0, last))
    if world.switchable(one):
        world.switch(one)
    if world.behind < MAX_LAG:
        world.send(one, chance.randint(0, BATCH))
    for partition, flying in enumerate(world.producers[one].flying):
        if flying and chance.random() < 0.7:
            world.append(one, partition, chance.randint(1, 2 * BATCH))
        if chance.random() < 0.02:
            # Markers of a transaction.
            world.logs[partition].append(SimulatedLogEntry(None, 0))


def _consume(world: KeysWorld, one: int, chance: random.Random) -> None:
    for partition in list(world.consumers[one].receiver.lanes):
        if chance.random() < 0.8:
            world.poll(one, partition, chance.randint(1, 4 * BATCH))
    world.effect(one, chance.randint(0, 6 * BATCH))
    if chance.random() < 0.5:
        world.tick(one)
    if chance.random() < 0.5:
        world.read_commits(one)
    if chance.random() < 0.1:
        world.wake(one)


def _inject_fault(world: KeysWorld, chance: random.Random, asleep: dict[tuple[str, int], float]) -> int:
    """One fault; 1 if it was a kill."""
    producer, consumer = chance.randrange(len(world.producers)), chance.randrange(len(world.consumers))
    partition = chance.randrange(len(world.logs))
    which = chance.randrange(7)
    if which == 0:
        world.kill_producer(producer)
    elif which == 1:
        world.kill_consumer(consumer)
    elif which == 2:
        # Longer than clients try, so that all it had sent is given up when it wakes.
        asleep["producer", producer] = world.now + chance.uniform(0, 6)
    elif which == 3:
        asleep["consumer", consumer] = world.now + chance.uniform(0, 6)
    elif which == 4:
        # Nor is anybody replaced unknowingly who may have in hand what was cut.
        told = chance.random() < 0.5 or world.begins[partition] > world.committed[partition]
        world.hand_over(partition, consumer, told)
    else:
        for flying in world.producers[producer].flying:
            if flying:
                world.fail(producer, world.producers[producer].flying.index(flying), chance.random() < 0.5)
                break
    return int(which < 2)


def _cut(world: KeysWorld, cuts: random.Random) -> None:
    """Retention: a partition's log begins anew somewhere in what is not committed, at most at its end."""
    partition = cuts.randrange(len(world.logs))
    owner = world.consumers[world.owner[partition]]
    if any(partition in one.receiver.lanes for one in world.consumers if one is not owner):
        # Who was replaced and does not know it lets what is cut take effect too late, a limit that is known.
        return
    low, end = max(world.begins[partition], world.committed[partition]), len(world.logs[partition])
    # A few records or all of them: what waits behind them lies in this partition, or in others alone.
    world.retain(partition, cuts.randint(low, cuts.choice((min(end, low + BATCH), end))))
