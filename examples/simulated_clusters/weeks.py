"""Simulated weeks of a Kafka cluster, from a seed: topics with daily and weekly cycles, noise and bursts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from trimtab.files.replicas.recording import write_recording
from trimtab.lab.sandbox.kafka.placement import kafka_formula
from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.load import FloatArray, IntArray
from trimtab.model.replicas.snapshot import (
    NO_BROKER,
    LogDirs,
    Partitions,
    ReplicaBrokers,
    ReplicaBrokerState,
    ReplicasSnapshot,
)
from trimtab_common.errors import SettingsError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def plain_snapshot(
    name: str,
    *,
    ids: NDArray[np.int64],
    rack: tuple[str, ...] | None = None,
    capacity: FloatArray,
    topics: tuple[str, ...],
    topic: IntArray | NDArray[np.int64],
    number: IntArray,
    replicas: IntArray,
    leader_load: FloatArray,
    follower_load: FloatArray,
) -> ReplicasSnapshot:
    """A snapshot in which all is well: brokers alive, each its own host, replicas in sync, the first leads.

    Parameters
    ----------
    name
        Of the snapshot.
    ids, rack
        Kafka's ids, and the rack of each; None: each is one of its own.
    capacity, topics, topic, number, replicas, leader_load, follower_load
        As in `ReplicaBrokers` and `Partitions`.
    """
    hosts = tuple(f"broker-{b}" for b in ids)
    return ReplicasSnapshot(
        reference=SnapshotReference(name, "2026-01-01T00:00:00Z", "0" * 64),
        quality=Quality(),
        brokers=ReplicaBrokers(
            id=ids,
            host=hosts,
            rack=rack or hosts,
            state=np.full(len(ids), ReplicaBrokerState.ALIVE, dtype=np.int8),
            capacity=capacity,
        ),
        log_dirs=LogDirs(np.zeros(0, np.int32), (), np.zeros(0, np.int8), np.zeros(0)),
        partitions=Partitions(
            topics=topics,
            topic=topic.astype(np.int32),
            number=number.astype(np.int32),
            replicas=replicas.astype(np.int32),
            leader=replicas[:, 0].astype(np.int32),
            in_sync=np.ones(replicas.shape, dtype=np.bool_),
            log_dir=np.full(replicas.shape, NO_BROKER, dtype=np.int32),
            leader_load=leader_load,
            follower_load=follower_load,
        ),
    )


START: Final = datetime(2026, 11, 2, tzinfo=UTC).timestamp()
"""A Monday."""
DAY_SECONDS: Final = 86400
RETENTION_SECONDS: Final = 6 * 3600
"""Disks follow the load, later and smoother."""
WEEKEND: Final = 0.6
"""Of what comes on a working day."""
LARGEST_SHARE: Final = 0.2
"""A topic has so many partitions that none brings more of a broker's mean traffic than this."""
BUSIEST: Final = np.array([0.70, 0.65, 0.55, 0.60])
"""Mean use of CPU, disk, network in and out at the busiest step."""


@dataclass(frozen=True, eq=False)
class PartitionedLoad:
    """Loads of partitions over time, and where Kafka 2's formula places them.

    Attributes
    ----------
    leader, follower
        Shape (steps, partitions, resources): cores, bytes, bytes per second twice.
    placed
        Shape (partitions, copies): broker indices.
    topic, number
        Shape (partitions,).
    """

    leader: FloatArray
    follower: FloatArray
    placed: IntArray
    topic: IntArray
    number: IntArray

    def capacity(self, brokers: int) -> FloatArray:
        """Of each broker, by resource: the busiest step comes to `BUSIEST` in the mean."""
        copies = self.placed.shape[1]
        load = (self.leader + (copies - 1) * self.follower).sum(axis=1) / brokers
        return np.asarray(load.max(axis=0) / BUSIEST)


def partitioned(
    into: FloatArray,
    out: FloatArray,
    seed: int,
    *,
    brokers: int,
    copies: int,
    step_seconds: float,
    skipped: int = 0,
) -> PartitionedLoad:
    """Topics of so many bytes in and out, cut into partitions and placed.

    Parameters
    ----------
    into, out
        Shape (topics, steps): bytes per second.
    seed
        Of sizes, shares and placement.
    skipped
        So many steps at the beginning only fill the disks.
    """
    chance = np.random.default_rng(seed)
    # Topics are not of one size.
    size = np.exp(chance.normal(0, 1, (len(into), 1)))
    into, out = into * size, out * size
    share = brokers * np.maximum(
        into.mean(axis=1) / into.mean(axis=1).sum(), out.mean(axis=1) / out.mean(axis=1).sum()
    )
    counts = np.maximum(1, np.ceil(share / LARGEST_SHARE)).astype(int)
    topic = np.repeat(np.arange(len(counts)), counts)
    number = np.concatenate([np.arange(count) for count in counts])
    weight = np.concatenate([chance.dirichlet(np.full(count, 8.0)) for count in counts])
    # Each partition has a little life of its own.
    weight = weight[:, None] * np.exp(0.05 * chance.normal(size=(len(weight), into.shape[1])))
    came, went = into[topic] * weight, out[topic] * weight
    kept = np.cumsum(came, axis=1) * step_seconds
    retained = round(RETENTION_SECONDS / step_seconds)
    kept[:, retained:] -= kept[:, :-retained].copy()
    there = slice(skipped, None)
    came, went, kept = came[:, there], went[:, there], kept[:, there]
    leader = np.stack([came + 0.35 * went, kept, came, went], axis=2).transpose(1, 0, 2)
    follower = np.stack([0.35 * came, kept, came, np.zeros_like(came)], axis=2).transpose(1, 0, 2)
    placed: list[tuple[int, ...]] = []
    for count in counts:
        start, shift = (int(one) for one in chance.integers(brokers, size=2))
        placed += kafka_formula(int(count), copies, range(brokers), start, shift)
    return PartitionedLoad(leader, follower, np.array(placed, dtype=np.int32), topic.astype(np.int32), number)


@dataclass(frozen=True)
class SimulatedWeeks:
    """A made-up cluster over some weeks.

    Attributes
    ----------
    weeks, step_seconds
        How long, and how long a step is.
    brokers, topics, copies
        How many; two brokers a rack.
    growth
        Of the load, a week: 0.05 is 5 % more every week.
    bursts
        Bursts of a topic a week, in the mean; each takes a quarter of an hour to an hour and a half.
    seed
        Of all chance.
    mean_bytes_per_second
        In of a topic of middling size.
    """

    weeks: int = 2
    step_seconds: float = 900.0
    brokers: int = 12
    topics: int = 60
    copies: int = 2
    growth: float = 0.0
    bursts: float = 3.0
    seed: int = 0
    mean_bytes_per_second: float = 2e6

    def __post_init__(self) -> None:
        for name, least in (("weeks", 1), ("brokers", self.copies), ("topics", 1), ("copies", 1)):
            if getattr(self, name) < least:
                raise SettingsError(f"{name} is {getattr(self, name)}: give {least} or more")
        if not 1 <= self.step_seconds <= 3600 or 3600 % self.step_seconds:
            raise SettingsError(f"step is {self.step_seconds:g} s: give seconds that divide an hour")

    def traffic(self) -> tuple[FloatArray, FloatArray]:
        """Bytes in and out per second, shape (topics, steps), with the time before that fills the disks."""
        chance = np.random.default_rng(self.seed)
        a_day = round(DAY_SECONDS / self.step_seconds)
        before = round(RETENTION_SECONDS / self.step_seconds)
        at = (np.arange(-before, self.weeks * 7 * a_day) + 0.5) / a_day
        hour = chance.normal(0.6, 0.12, (self.topics, 1))
        into = 1 + chance.uniform(0.2, 0.8, (self.topics, 1)) * np.cos(2 * np.pi * (at - hour))
        into *= np.where(at % 7 >= 5, WEEKEND, 1.0) * (1 + self.growth) ** (at / 7)
        into *= np.exp(0.08 * chance.normal(size=into.shape))
        for row in into:
            for _ in range(chance.poisson(self.bursts * self.weeks)):
                begin = chance.integers(len(row))
                long = round(chance.uniform(900, 5400) / self.step_seconds)
                row[begin : begin + max(1, long)] *= chance.uniform(1.5, 4)
        into *= self.mean_bytes_per_second
        return into, into * chance.uniform(0.3, 2.5, (self.topics, 1))

    def drawn(self) -> tuple[ReplicasSnapshot, PartitionedLoad]:
        """The cluster at the beginning, and its loads."""
        into, out = self.traffic()
        skipped = round(RETENTION_SECONDS / self.step_seconds)
        loads = partitioned(
            into,
            out,
            self.seed,
            brokers=self.brokers,
            copies=self.copies,
            step_seconds=self.step_seconds,
            skipped=skipped,
        )
        # A byte a second takes so many cores.
        for role in (loads.leader, loads.follower):
            role[..., 0] *= 1e-7
        width = len(str(self.topics - 1))
        snapshot = plain_snapshot(
            f"weeks-{self.seed}",
            ids=np.arange(1, self.brokers + 1),
            rack=tuple(f"r{one // 2 + 1}" for one in range(self.brokers)),
            capacity=np.tile(loads.capacity(self.brokers), (self.brokers, 1)),
            topics=tuple(f"t{one:0{width}d}" for one in range(self.topics)),
            topic=loads.topic,
            number=loads.number,
            replicas=loads.placed,
            leader_load=loads.leader[0],
            follower_load=loads.follower[0],
        )
        return snapshot, loads

    def write(self, folder: Path) -> int:
        """Write the recording; returns how many windows it has."""
        snapshot, loads = self.drawn()

        def windows() -> Iterator[tuple[float, FloatArray, FloatArray]]:
            for step in range(len(loads.leader)):
                end = START + (step + 1) * self.step_seconds
                yield (
                    end,
                    np.ascontiguousarray(loads.leader[step]),
                    np.ascontiguousarray(loads.follower[step]),
                )

        write_recording(folder, snapshot, windows())
        return len(loads.leader)
