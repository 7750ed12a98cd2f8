"""Every interleaving of a small world, and its faults at every place where they may strike."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO

from simulate.keys.checker import KeysInvariantError
from simulate.keys.world import KeysWorld

Action = tuple[str, tuple[int | bool, ...]]


@dataclass(frozen=True, slots=True)
class FaultRates:
    """How often each may strike, anywhere.

    Attributes
    ----------
    fails
        Records given up by their client, half of them there all the same.
    dead_producers, dead_consumers
        Kills, of any of them.
    sleepers
        Partitions that get another owner while the one before does not know of it.
    """

    fails: int = 0
    dead_producers: int = 0
    dead_consumers: int = 0
    sleepers: int = 0


def explore(world: KeysWorld, faults: FaultRates | None = None) -> int:
    """Go through every order of steps, and hold the promises against each end.

    Parameters
    ----------
    world
        The beginning; its chance must be picklable and without memory.
    faults
        None for none.

    Returns
    -------
    int
        States that differ.

    Raises
    ------
    ViolationError
        With the steps that lead to it.
    """
    given = FaultRates() if faults is None else faults
    start = (world, (given.fails, given.dead_producers, given.dead_consumers, given.sleepers))
    seen: set[bytes] = set()
    stack: list[tuple[bytes, tuple[Action, ...]]] = [(_written(start), ())]
    while stack:
        state, steps = stack.pop()
        here, left = pickle.loads(state)
        eager = None if given.dead_consumers or given.sleepers else _eager(here)
        usual = list(_usual(here)) if eager is None else [eager]
        if not usual:
            _at(here.settle, (), steps)
            here, left = pickle.loads(state)
        for action in usual if eager else [*usual, *_faults(here, left)]:
            there, budget = pickle.loads(state)
            _at(_do, (there, action), (*steps, action))
            after = _written((there, _spent(budget, action)))
            digest = blake2b(after, digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                stack.append((after, (*steps, action)))
    return len(seen)


def _written(state: object) -> bytes:
    """A state; equal ones alike, whether equal values in them are one object or two."""
    file = BytesIO()
    writer = pickle.Pickler(file, 5)
    writer.fast = True
    writer.dump(state)
    return file.getvalue()


def _eager(world: KeysWorld) -> Action | None:
    """A step that may as well be made at once where no consumer dies or sleeps.

    Receiving, committing and hearing of commits early only lets more be released, and when what is released
    takes effect is a step of its own; asking for ends once all is flushed changes nothing but the asker.
    """
    for one, producer in enumerate(world.producers):
        if producer.ends is None and world.switchable(one):
            return "switch", (one,)
    for one, consumer in enumerate(world.consumers):
        for partition, lane in consumer.receiver.lanes.items():
            if lane.position < len(world.logs[partition]):
                return "poll", (one, partition)
        if consumer.receiver.may_commit:
            return "commit", (one,)
    return None


def _usual(world: KeysWorld) -> Iterator[Action]:
    for one, producer in enumerate(world.producers):
        if producer.to_send:
            yield "send", (one,)
        for partition, flying in enumerate(producer.flying):
            if flying:
                yield "append", (one, partition)
        for which, table in enumerate(world.tables):
            if table.version > max(producer.sender.table.version, producer.sender.changing):
                yield "read_table", (one, which)
        if world.switchable(one):
            yield "switch", (one,)
    for partition, orphans in enumerate(world.orphans):
        if orphans:
            yield "orphan", (partition, True)
            yield "orphan", (partition, False)
    for one, consumer in enumerate(world.consumers):
        for partition, lane in consumer.receiver.lanes.items():
            if lane.position < len(world.logs[partition]):
                yield "poll", (one, partition)
        if consumer.ready:
            yield "effect", (one,)
        if consumer.receiver.may_commit:
            yield "commit", (one,)


def _faults(world: KeysWorld, left: Sequence[int]) -> Iterator[Action]:
    fails, dead_producers, dead_consumers, sleepers = left
    for one, producer in enumerate(world.producers):
        for partition, flying in enumerate(producer.flying):
            if fails and flying and flying[0].number:
                yield "fail", (one, partition, True)
                yield "fail", (one, partition, False)
        if dead_producers and producer.sent:
            yield "kill_producer", (one,)
    for one, consumer in enumerate(world.consumers):
        if dead_consumers and (
            consumer.ready or any(lane.position for lane in consumer.receiver.lanes.values())
        ):
            yield "kill_consumer", (one,)
    if sleepers:
        for partition, owner in enumerate(world.owner):
            yield "hand_over", (partition, 1 - owner, False)


def _do(world: KeysWorld, action: Action) -> None:
    name, given = action
    if name == "commit":
        world.tick(int(given[0]))
        for one in range(len(world.consumers)):
            world.read_commits(one)
    else:
        getattr(world, name)(*given)


def _spent(left: tuple[int, ...], action: Action) -> tuple[int, ...]:
    names = ("fail", "kill_producer", "kill_consumer", "hand_over")
    return tuple(count - (name == action[0]) for count, name in zip(left, names, strict=True))


def _at(step: object, values: tuple[object, ...], steps: tuple[Action, ...]) -> None:
    try:
        step(*values)  # type: ignore[operator]
    except KeysInvariantError as error:
        told = "; ".join(f"{name}{given}" for name, given in steps)
        raise KeysInvariantError(f"{error}, after: {told}") from error
