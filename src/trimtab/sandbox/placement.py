"""Where the replicas of new topics go: Kafka's old formula, the paper's, or a recorded draw."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from trimtab.model.errors import SandboxError
from trimtab.sandbox.workload import TopicLoad, Workload

FORMAT = "trimtab/placement/1"


@dataclass(frozen=True)
class Placement:
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
        document = {"format": FORMAT, "drawn_by": self.drawn_by, "seed": self.seed, "redraws": self.redraws}
        return json.dumps(document | {"replicas": dict(self.replicas)})


def read_placement(path: Path) -> Placement:
    """The placement of a file.

    Raises
    ------
    SandboxError
        If it cannot be read or is no placement.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        replicas = {
            topic: tuple(tuple(map(int, brokers)) for brokers in partitions)
            for topic, partitions in document.pop("replicas").items()
        }
        return Placement(replicas, **document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SandboxError(f"{path} is not a recorded placement ({error}): record it again") from error


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


def draw_placement(
    topics: Iterable[TopicLoad],
    brokers: Sequence[int],
    drawn_by: str,
    seed: int,
    racks: Mapping[int, str] | None = None,
) -> Placement:
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
    return Placement(replicas, drawn_by, seed, redraws)


def choose_placement(how: str, workload: Workload, racks: Mapping[int, str], seed: int) -> Placement | None:
    """The placement that a user names: `controller` (None: Kafka decides), a formula, or a recorded file.

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


def record_placement(admin: Any, topics: Iterable[str]) -> Placement:
    """The placement that the running cluster has now, to be made again later or elsewhere."""
    described = admin.describe_topics(list(topics))
    return Placement(
        {
            topic["name"]: tuple(
                tuple(partition["replica_nodes"])
                for partition in sorted(topic["partitions"], key=lambda part: part["partition_index"])
            )
            for topic in described
        },
        "controller",
    )


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
