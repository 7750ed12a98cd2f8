"""The placement of a load's partitions: by Kafka's controller, by a formula, or from a file."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from trimtab.lab.sandbox.kafka.workload import KafkaTopicLoad, KafkaWorkload
from trimtab.lab.sandbox.state import SandboxJsonFormat
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
    """A placement by the paper's formula, and the number of repeated draws.

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


KNOWN_SECONDS = 10.0


@dataclass(frozen=True)
class SandboxPlacement:
    """Replicas of every partition, the preferred leader first.

    Parameters
    ----------
    replicas
        By topic: for each partition its brokers.
    drawn_by
        `kafka-2`, `paper` or `controller` (what a running cluster chose by itself).
    seed
        Of the draw; None where Kafka drew.
    redraws
        How often the paper's formula put two copies on one broker and was asked again.
    """

    replicas: Mapping[str, tuple[tuple[int, ...], ...]]
    drawn_by: str
    seed: int | None = None
    redraws: int = 0

    def to_json(self) -> str:
        """The placement as a document."""
        return PLACEMENTS.text(self)


PLACEMENTS = SandboxJsonFormat(
    SandboxPlacement, "trimtab/placement/1", "a recorded placement", "record it again"
)
read_placement = PLACEMENTS.read


def draw_placement(
    topics: Iterable[KafkaTopicLoad],
    brokers: Sequence[int],
    drawn_by: str,
    seed: int,
    racks: Mapping[int, str] | None = None,
) -> SandboxPlacement:
    """Draw a placement for topics by `kafka-2` or `paper`.

    Raises
    ------
    SandboxError
        If the formula is unknown, or there are fewer brokers than copies.
    """
    draw = random.Random(seed)
    replicas, redraws = {}, 0
    for topic in topics:
        if drawn_by == "kafka-2":
            start, shift = draw.randrange(len(brokers)), draw.randrange(len(brokers))
            replicas[topic.name] = kafka_formula(
                topic.partitions, topic.replication_factor, brokers, start, shift, racks
            )
        elif drawn_by == "paper":
            replicas[topic.name], again = paper_formula(
                topic.partitions, topic.replication_factor, brokers, draw
            )
            redraws += again
        else:
            raise SandboxError(f"{drawn_by!r} is no placement formula: choose kafka-2 or paper")
    return SandboxPlacement(replicas, drawn_by, seed, redraws)


def choose_placement(
    how: str, workload: KafkaWorkload, racks: Mapping[int, str], seed: int
) -> SandboxPlacement | None:
    """The placement by its name: `controller` (None: Kafka decides), a formula, or a file.

    Raises
    ------
    SandboxError
        If the file is no placement, or there are fewer brokers than copies.
    """
    if how == "controller":
        return None
    if how in ("kafka-2", "paper"):
        return draw_placement(workload.topics, sorted(racks), how, seed, racks)
    return read_placement(Path(how))


def record_placement(admin: Any, topics: Iterable[str]) -> SandboxPlacement:
    """The current placement of the cluster, so that it can be repeated later or elsewhere.

    Raises
    ------
    SandboxError
        If a topic does not become known.
    """
    names = list(topics)
    deadline = time.monotonic() + KNOWN_SECONDS
    # Any broker may answer, and one may not have heard yet of topics that another has just made.
    while True:
        described = admin.describe_topics(names)
        missing = [topic["name"] for topic in described if not topic["partitions"]]
        if not missing:
            break
        if time.monotonic() > deadline:
            raise SandboxError(
                f"topic {missing[0]} is not known to the brokers after {KNOWN_SECONDS:g} s: check its name"
            )
        time.sleep(0.1)
    return SandboxPlacement(
        {
            topic["name"]: tuple(
                tuple(partition["replica_nodes"])
                for partition in sorted(topic["partitions"], key=lambda part: part["partition_index"])
            )
            for topic in described
        },
        "controller",
    )
