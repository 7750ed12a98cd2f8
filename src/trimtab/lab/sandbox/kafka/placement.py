"""The places of the replicas of new topics: drawn by a formula, or recorded from a cluster."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.lab.sandbox.documents import SandboxJsonFormat
from trimtab.lab.sandbox.kafka.placement_formulas import kafka_formula, paper_formula
from trimtab.lab.sandbox.kafka.workload import KafkaTopicLoad, KafkaWorkload
from trimtab.model.errors import SandboxError

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


def record_placement(admin: Any, topics: Iterable[str]) -> SandboxPlacement:
    """The placement that the running cluster has now, to be made again later or elsewhere.

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
