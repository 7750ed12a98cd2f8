"""The formulas by which Kafka 2 and the paper place the replicas of a new topic."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from trimtab.model.errors import SandboxError


def kafka_formula(
    partitions: int,
    replication_factor: int,
    brokers: Sequence[int],
    start: int,
    shift: int,
    racks: Mapping[int, str] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """The placement that Kafka 2 gave to a new topic.

    The first replica of partition p goes to broker (p + start) mod N, follower j to
    (first + 1 + (shift + j) mod (N - 1)) mod N, and the shift grows by one every N partitions. With racks,
    brokers are taken in turn from each rack, and a broker whose rack holds a copy already is passed over as
    long as another rack holds none.

    Parameters
    ----------
    partitions, replication_factor
        Of the topic.
    brokers
        Ids, in the order of the formula.
    start, shift
        The two numbers that Kafka drew at random for each topic.
    racks
        Of each broker; None leaves racks out, as the printed formula does.

    Raises
    ------
    SandboxError
        If there are fewer brokers than copies.
    """
    _enough(brokers, replication_factor)
    order = _in_turn(brokers, racks) if racks else list(brokers)
    count = len(order)
    rack_of = {broker: racks[broker] if racks else str(broker) for broker in order}
    step = len(set(rack_of.values())) if racks else 1
    placed = []
    for partition in range(partitions):
        first = (partition + start) % count
        turn = shift + partition // count
        chosen = [order[first]]
        follower = 0
        while len(chosen) < replication_factor:
            candidate = order[(first + 1 + (turn * step + follower) % (count - 1)) % count]
            follower += 1
            taken = {rack_of[broker] for broker in chosen}
            if candidate not in chosen and (
                rack_of[candidate] not in taken or len(taken) == len(set(rack_of.values()))
            ):
                chosen.append(candidate)
        placed.append(tuple(chosen))
    return tuple(placed)


def paper_formula(
    partitions: int, replication_factor: int, brokers: Sequence[int], draw: random.Random
) -> tuple[tuple[tuple[int, ...], ...], int]:
    """The placement by the paper's formula, and how often it had to be drawn again.

    Replica w goes to broker (α·w + X) mod N with α and X drawn for each partition. The formula as printed
    puts two copies on one broker whenever α·w repeats modulo N (a third of the draws for N = 6 and three
    copies); such a draw is repeated.

    Gao Zi-yan, Wang Yong, "Load balancing strategy of distributed messaging system for cloud services".
    """
    _enough(brokers, replication_factor)
    count = len(brokers)
    placed, redraws = [], 0
    for _ in range(partitions):
        while True:
            alpha, offset = draw.randrange(count), draw.randrange(count)
            chosen = tuple(brokers[(alpha * w + offset) % count] for w in range(replication_factor))
            if len(set(chosen)) == replication_factor:
                break
            redraws += 1
        placed.append(chosen)
    return tuple(placed), redraws


def _in_turn(brokers: Sequence[int], racks: Mapping[int, str]) -> list[int]:
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(racks[broker], []).append(broker)
    columns = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for column in columns for broker in column if broker is not None]


def _enough(brokers: Sequence[int], replication_factor: int) -> None:
    if len(brokers) < replication_factor:
        raise SandboxError(
            f"{replication_factor} copies need as many brokers, and there are {len(brokers)}: lower the "
            "replication factor"
        )
