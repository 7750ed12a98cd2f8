"""Made-up clusters under a steady load whose telemetry has gaps, and the truth about every interval.

Every figure follows from the seed. Brokers and their clients never fail to carry the load: what fails is what
is told of it, and executions move leaderships and replicas meanwhile.
"""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from synthetic_telemetry import RAW_SCHEMA

START = datetime.datetime(2026, 11, 21, 5, 0, tzinfo=datetime.UTC)
TICK_SECONDS = 30.0
STEPS = 6
"""Steps of the simulation in a tick: leaderships change between two ticks, not at them."""
STEP_SECONDS = TICK_SECONDS / STEPS
COSTS = (4e-8, 1e-8, 5e-9)
"""Cores for each byte per second: into a leader, from it to consumers, into a follower."""
COPY_BYTES_PER_SECOND = 3e6
AHEAD = datetime.timedelta(minutes=20)


@dataclass
class Faults:
    """What is not told, by tick: pairs of a broker or a (group, partition) and a tick.

    Attributes
    ----------
    unscraped
        Brokers whose metrics endpoint does not answer.
    unreachable
        Brokers that do not answer requests; their metrics endpoints do.
    unread
        Groups whose commits of a partition are not told.
    restarts
        Brokers whose counters begin anew within the tick.
    transfers
        (partition, place of the new leader among its replicas) by tick.
    copies
        Partitions of which a replica is copied to another broker, by the tick in which the copy begins.
    lost
        Ticks of which there is no sample at all.
    ahead
        Ticks that the collector stamped with a clock that was twenty minutes ahead.
    doubled
        Whether a second collector told everything again, three seconds later.
    """

    unscraped: set[tuple[int, int]] = field(default_factory=set)
    unreachable: set[tuple[int, int]] = field(default_factory=set)
    unread: set[tuple[str, int, int]] = field(default_factory=set)
    restarts: set[tuple[int, int]] = field(default_factory=set)
    transfers: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    copies: dict[int, list[int]] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    ahead: set[int] = field(default_factory=set)
    doubled: bool = False


class Story:
    """One cluster, tick after tick."""

    def __init__(
        self,
        name: str,
        seed: int,
        faults: Faults,
        *,
        brokers: int = 4,
        topics: int = 3,
        each: int = 4,
        ticks: int = 20,
        metrics: bool = True,
        even: bool = False,
    ) -> None:
        rng = random.Random(seed)
        self.name, self.faults, self.ticks, self.metrics = name, faults, ticks, metrics
        self.brokers, self.topics = list(range(1, brokers + 1)), [f"t{n}" for n in range(topics)]
        self.partitions = [(topic, number) for topic in self.topics for number in range(each)]
        many = len(self.partitions)
        self.records = np.array([200 if even else rng.randint(40, 600) for _ in range(many)])
        self.record_bytes = np.array([1000 if even else rng.randint(300, 1500) for _ in range(many)])
        # The brokers of some topics compress what producers send.
        saved = {topic: 1.0 if even or rng.random() < 0.5 else 1.6 for topic in self.topics}
        self.produced_bytes = np.rint(self.record_bytes * [saved[topic] for topic, _ in self.partitions])
        self.groups = {"g0": set(range(many))}
        if not even:
            self.groups["g1"] = {p for p in range(many) if rng.random() < 0.5}
        self.fan_out = np.array([sum(p in read for read in self.groups.values()) for p in range(many)])
        self.replicas = [
            [self.brokers[(p + shift) % brokers] for shift in (0, 1 + p // brokers % (brokers - 1))]
            for p in range(many)
        ]
        self.leader = [placed[0] for placed in self.replicas]
        self.copying: dict[int, tuple[int, float]] = {}
        self.end = np.array([20_000 if even else rng.randint(10_000, 60_000) for _ in range(many)], float)
        self.base = 0.05
        size = (len(self.brokers), many)
        # Brokers have been up for long: a restart shows as a counter that falls.
        self.totals = {name: np.full(size, 1e10) for name in ("in", "out", "followed", "copied")}
        self.forgotten = {name: np.zeros(size) for name in self.totals}
        self.cores, self.forgotten_cores = np.full(brokers, 1e5), np.zeros(brokers)
        self.history: list[dict[str, np.ndarray]] = []
        self.leaders: list[list[int]] = []
        self._rng = rng
        self.rows = [row for tick in range(ticks) for row in self._tick(tick)]

    @property
    def bytes_in(self) -> np.ndarray:
        """Bytes per second that producers send to each partition."""
        return self.records * self.produced_bytes

    @property
    def log_bytes(self) -> np.ndarray:
        """Bytes per second that each partition's log gains."""
        return self.records * self.record_bytes

    @property
    def bytes_out(self) -> np.ndarray:
        """Bytes per second that consumers fetch from each partition."""
        return self.log_bytes * self.fan_out

    def at(self, tick: int) -> datetime.datetime:
        """The instant that a tick's samples are stamped with."""
        shift = AHEAD if tick in self.faults.ahead else datetime.timedelta()
        return START + datetime.timedelta(seconds=TICK_SECONDS * tick) + shift

    @property
    def newest(self) -> datetime.datetime:
        """The instant of the newest samples that were stamped rightly."""
        told = [tick for tick in range(self.ticks) if tick not in self.faults.lost | self.faults.ahead]
        return self.at(told[-1])

    def table(self) -> pa.Table:
        """Its raw samples."""
        return pa.Table.from_pylist(self.rows, schema=RAW_SCHEMA)

    def carried(self, begin: int, end: int) -> dict[str, np.ndarray]:
        """Bytes of every broker (rows) and partition between two ticks; `cpu`: core seconds."""
        return {name: self.history[end][name] - self.history[begin][name] for name in self.history[end]}

    def _advance(self, tick: int) -> None:
        moments = {name: self._rng.randint(1, STEPS - 1) for name in ("transfers", "copies", "restarts")}
        for step in range(STEPS):
            if step == moments["transfers"]:
                for p, place in self.faults.transfers.get(tick, ()):
                    self.leader[p] = self.replicas[p][place % len(self.replicas[p])]
            if step == moments["copies"]:
                for p in self.faults.copies.get(tick, ()):
                    others = [one for one in self.brokers if one not in self.replicas[p]]
                    if others and p not in self.copying:
                        self.copying[p] = (self._rng.choice(others), 0.0)
            if step == moments["restarts"]:
                for broker in self.brokers:
                    if (broker, tick) in self.faults.restarts:
                        row = broker - 1
                        for name, total in self.totals.items():
                            self.forgotten[name][row] = total[row]
                        self.forgotten_cores[row] = self.cores[row]
            self._step()

    def _step(self) -> None:
        cores = np.full(len(self.brokers), self.base)
        for p, held in enumerate(self.replicas):
            row = self.leader[p] - 1
            self.totals["in"][row, p] += self.bytes_in[p] * STEP_SECONDS
            self.totals["out"][row, p] += self.bytes_out[p] * STEP_SECONDS
            cores[row] += self.bytes_in[p] * COSTS[0] + self.bytes_out[p] * COSTS[1]
            for broker in held:
                if broker != self.leader[p]:
                    self.totals["followed"][broker - 1, p] += self.log_bytes[p] * STEP_SECONDS
                    cores[broker - 1] += self.log_bytes[p] * COSTS[2]
        self.end += self.records * STEP_SECONDS
        for p, (target, copied) in list(self.copying.items()):
            size = self.end[p] * self.record_bytes[p]
            more = min(COPY_BYTES_PER_SECOND * STEP_SECONDS, size - copied)
            self.totals["copied"][target - 1, p] += more
            cores[target - 1] += more / STEP_SECONDS * COSTS[2]
            self.copying[p] = (target, copied + more)
            if copied + more >= size:
                del self.copying[p]
                gone = self.replicas[p][-1]
                self.replicas[p] = [*self.replicas[p][:-1], target]
                if self.leader[p] == gone:
                    self.leader[p] = self.replicas[p][0]
        self.cores += cores * STEP_SECONDS

    def _tick(self, tick: int) -> list[dict[str, Any]]:
        if tick:
            self._advance(tick)
        self.history.append({**{n: t.copy() for n, t in self.totals.items()}, "cpu": self.cores.copy()})
        self.leaders.append(list(self.leader))
        if tick in self.faults.lost:
            return []
        at = self.at(tick)
        read = at + datetime.timedelta(milliseconds=200)
        told = read + datetime.timedelta(milliseconds=300)
        stamp = {"cluster": self.name, "tick": at, "sampled_at": read, "received_at": told}
        rows = [stamp | row for row in self._samples(tick)]
        if self.faults.doubled:
            later = datetime.timedelta(seconds=3)
            rows += [row | {"sampled_at": read + later, "received_at": told + later} for row in rows]
        return rows

    def _samples(self, tick: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        since = {name: np.rint(total - self.forgotten[name]) for name, total in self.totals.items()}
        silent = {broker for broker in self.brokers if (broker, tick) in self.faults.unreachable}
        for broker in self.brokers:
            row = broker - 1
            scraped = self.metrics and (broker, tick) not in self.faults.unscraped
            followed = since["followed"][row].sum() + since["copied"][row].sum()
            counters = {
                "cpu_time_ns": round((self.cores[row] - self.forgotten_cores[row]) * 1e9),
                "bytes_in_total": int(since["in"][row].sum()),
                "bytes_out_total": int(since["out"][row].sum()),
                "replication_bytes_in_total": int(followed),
                "produce_requests_total": 0,
                "fetch_requests_total": 0,
            }
            state = "unreachable" if broker in silent else "alive"
            rows.append(
                {"kind": "broker", "broker": broker, "host": f"h{broker}", "rack": f"r{broker}"}
                | {"broker_state": state, "cpu_capacity_cores": 4.0}
                | {f"network_{way}_capacity_bytes_per_second": 2e7 for way in ("in", "out")}
                | (counters if scraped else {})
            )
            if broker not in silent:
                rows.append(
                    {"kind": "log_dir", "broker": broker, "log_dir": "/d", "dir_state": "online"}
                    | {"disk_total_bytes": 10**12, "disk_usable_bytes": 9 * 10**11}
                )
            for topic in self.topics if scraped else ():
                of = [p for p, (name, _) in enumerate(self.partitions) if name == topic]
                rows.append(
                    {"kind": "topic_broker", "broker": broker, "topic": topic, "messages_in_total": 0}
                    | {f"bytes_{way}_total": int(since[way][row, of].sum()) for way in ("in", "out")}
                )
        for p, (topic, number) in enumerate(self.partitions):
            named = {"topic": topic, "partition": number}
            target, copied = self.copying.get(p, (None, 0.0))
            held = [*self.replicas[p], *([] if target is None else [target])]
            answers = self.leader[p] not in silent
            rows.append(
                {"kind": "partition", **named, "leader": self.leader[p], "replicas": held}
                | {"in_sync": list(self.replicas[p]), "adding": [] if target is None else [target]}
                | ({"start_offset": 0, "end_offset": int(self.end[p])} if answers else {})
            )
            for broker in held:
                if broker not in silent:
                    size = copied if broker == target else self.end[p] * self.record_bytes[p]
                    rows.append(
                        {"kind": "replica", **named, "broker": broker, "log_dir": "/d", "is_future": False}
                        | {"size_bytes": int(size), "offset_lag": 0}
                    )
            for number_of_group, (group, reads) in enumerate(self.groups.items()):
                coordinator = self.brokers[number_of_group % len(self.brokers)]
                untold = (group, p, tick) in self.faults.unread or coordinator in silent
                if p in reads and not untold:
                    rows.append(
                        {"kind": "group", **named, "group": group, "committed_offset": int(self.end[p])}
                    )
        return rows


def drawn_faults(seed: int, *, brokers: int = 4, partitions: int = 12, ticks: int = 20) -> Faults:
    """Some of everything that can go wrong, more of it in some stories than in others."""
    rng = random.Random(seed)
    faults = Faults(doubled=rng.random() < 0.2)

    def stretches(chance: float, longest: int, begin: int = 0) -> set[int]:
        found: set[int] = set()
        for tick in range(begin, ticks):
            if rng.random() < chance:
                found |= set(range(tick, min(ticks, tick + rng.randint(1, longest))))
        return found

    # A scrape that is missed now and then, or an exporter that is away for minutes.
    often, longest = rng.choice([(0.0, 1), (0.05, 8), (0.3, 1), (0.1, 3)])
    for broker in range(1, brokers + 1):
        faults.unscraped |= {(broker, tick) for tick in stretches(often, longest)}
        faults.unreachable |= {(broker, tick) for tick in stretches(rng.choice([0.0, 0.0, 0.06]), 3, 2)}
        if rng.random() < 0.3:
            # Once: of two restarts in a row the second may not be seen, if its counters have risen further.
            faults.restarts.add((broker, rng.randint(1, ticks - 1)))
    for group in ("g0", "g1"):
        if rng.random() < 0.4:
            # A group that nobody has told of yet cannot be missed.
            away = stretches(0.08, 6, 2)
            some = rng.choice([range(partitions), rng.sample(range(partitions), 2)])
            faults.unread |= {(group, p, tick) for p in some for tick in away}
    if rng.random() < 0.6:
        begin = rng.randint(3, ticks - 4)
        for tick in range(begin, min(ticks, begin + rng.randint(1, 4))):
            faults.transfers[tick] = [(rng.randrange(partitions), rng.randint(0, 1)) for _ in range(4)]
            faults.copies[tick] = [rng.randrange(partitions)]
    if rng.random() < 0.2:
        faults.lost = {rng.randint(2, ticks - 3)}
    if rng.random() < 0.25:
        first = rng.randint(6, ticks - 5)
        faults.ahead = set(range(first, first + 3))
        # They stand alone, far from all others: a group that is not told there is one that nobody has seen.
        faults.unread = {one for one in faults.unread if one[2] not in faults.ahead}
        faults.unreachable = {one for one in faults.unreachable if one[1] not in faults.ahead}
    return faults
