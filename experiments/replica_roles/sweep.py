"""θ and ε over a day of changing load: too small a limit makes placement jitter, too large a one reacts late.

    python experiments/replica_roles/sweep.py                              # a drawn day
    python experiments/replica_roles/sweep.py --series services_5min_cyclic8.parquet

No broker runs: loads are rates, copies take the time that their bytes need. Every 15 minutes the planner
sees the last three windows of 5 minutes and plans, unless copies of the plan before are still on their way.
Two days are gone through under the same settings, and the second one is measured. README.md tells what is
counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import numpy as np
from figures import draw_sweep

from simulated_clusters.weeks import PartitionedLoad, partitioned, plain_snapshot
from trimtab.balancers import BALANCERS
from trimtab.balancers.planning import planner_of
from trimtab.model.load import FloatArray
from trimtab.model.replicas.plan import ReplicaMove, ReplicaMoveKind
from trimtab.model.replicas.settings import DISK, NETWORK_IN, NETWORK_OUT, ReplicasSettings, load_value
from trimtab.model.replicas.snapshot import ReplicasSnapshot

HERE = Path(__file__).parent
TICK_SECONDS, TICKS_A_DAY = 300, 288
BROKERS, COPIES = 12, 2
EVERY_TICKS, WINDOWS = 3, 3
HARM = 0.80
"""Time above this is what is to be avoided, whatever θ the planner was asked for: the source's θ."""
COPY_SHARE = 0.10
"""A broker takes in copies at this share of what its network takes in."""
TWICE_WITHIN_TICKS = 12
THETAS = (0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95)
EPSILONS = (0.02, 0.05, 0.07, 0.10, 0.15, 0.20, 0.25, 0.30)


@dataclass
class SweepResult:
    """What one pair of θ and ε came to on the measured day.

    Attributes
    ----------
    broker_hours_above
        Time in which some resource of a broker is above `HARM`, summed over brokers.
    sigma
        Mean over ticks, of the resource that is worst.
    replica_moves, leader_moves, bytes_share
        Carried out; bytes in parts of all bytes held.
    moved_twice, moved_again
        Replica moves of a replica that came less than an hour before, or that day.
    """

    broker_hours_above: float = 0.0
    sigma: float = 0.0
    replica_moves: int = 0
    leader_moves: int = 0
    bytes_share: float = 0.0
    moved_twice: int = 0
    moved_again: int = 0


def recorded(path: Path, first_day: int) -> tuple[FloatArray, FloatArray]:
    """Bytes in and out of 60 services over three days, shape (services, ticks): two series of each."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["service", "step5m", "m10", "m15"])
    service = table["service"].to_numpy()
    step = table["step5m"].to_numpy()
    found = []
    for name in ("m10", "m15"):
        rows = np.full((service.max() + 1, step.max() + 1), np.nan)
        rows[service, step] = table[name].to_numpy()
        begin = first_day * TICKS_A_DAY
        found.append(np.nan_to_num(rows[:, begin : begin + 3 * TICKS_A_DAY]))
    live = (found[0].max(axis=1) > 0) & (found[1].max(axis=1) > 0)
    return found[0][live], found[1][live]


def drawn(seed: int, topics: int = 60) -> tuple[FloatArray, FloatArray]:
    """Three days of topics with a daily cycle, its hour drawn, noise, and now and then a burst."""
    chance = np.random.default_rng(seed)
    at = np.arange(3 * TICKS_A_DAY) / TICKS_A_DAY
    hour = chance.normal(0.6, 0.12, (topics, 1))
    into = 1 + chance.uniform(0.2, 0.8, (topics, 1)) * np.cos(2 * np.pi * (at - hour))
    into *= np.exp(0.08 * chance.normal(size=into.shape))
    for row in into:
        for _ in range(chance.poisson(1.5)):
            begin = chance.integers(len(row))
            row[begin : begin + chance.integers(3, 18)] *= chance.uniform(1.5, 4)
    return into, into * chance.uniform(0.3, 2.5, (topics, 1))


def day_of(into: FloatArray, out: FloatArray, seed: int) -> PartitionedLoad:
    """Two days of topics of so many bytes in and out, cut into partitions and placed."""
    return partitioned(
        into, out, seed, brokers=BROKERS, copies=COPIES, step_seconds=TICK_SECONDS, skipped=TICKS_A_DAY
    )


@dataclass
class Run:
    """One pair of θ and ε, from the formula's placement on."""

    day: PartitionedLoad
    settings: ReplicasSettings
    capacity: FloatArray
    result: SweepResult = field(default_factory=SweepResult)

    def __post_init__(self) -> None:
        self.replicas = self.day.placed.copy()
        self.leader = self.day.placed[:, 0].copy()
        self._row = {
            key: at
            for at, key in enumerate(zip(self.day.topic.tolist(), self.day.number.tolist(), strict=True))
        }
        self._waiting: list[ReplicaMove] = []
        self._copied: dict[int, float] = {}
        self._came: dict[tuple[int, int], int] = {}

    def go(self) -> SweepResult:
        """Through both days."""
        plan = planner_of(BALANCERS["replicas"], self.settings.strategy)
        for tick in range(2 * TICKS_A_DAY):
            measured = tick >= TICKS_A_DAY
            copies = self._copy(tick, measured)
            usage = (self._load(tick) + copies) / self.capacity
            if measured:
                self._measure(usage)
            if not self._waiting and tick % EVERY_TICKS == 0 and tick >= WINDOWS:
                self._waiting = list(plan(self._snapshot(tick), self.settings).moves)
        held = self.day.leader[TICKS_A_DAY:, :, DISK].mean(axis=0).sum() * COPIES
        self.result.bytes_share /= held
        self.result.sigma /= TICKS_A_DAY
        return self.result

    def _load(self, tick: int) -> FloatArray:
        load = np.zeros((BROKERS, 4))
        for slot in range(COPIES):
            holder = self.replicas[:, slot]
            leads = (holder == self.leader)[:, None]
            np.add.at(load, holder, np.where(leads, self.day.leader[tick], self.day.follower[tick]))
        return load

    def _measure(self, usage: FloatArray) -> None:
        self.result.broker_hours_above += float((usage > HARM).any(axis=1).sum()) * TICK_SECONDS / 3600
        share = usage / usage.sum(axis=0)
        self.result.sigma += float(np.sqrt(((share - 1 / BROKERS) ** 2).mean(axis=0)).max())

    def _copy(self, tick: int, measured: bool) -> FloatArray:
        """Carry out what time allows, in the plan's order; the load of copies, as `_load`."""
        extra = np.zeros((BROKERS, 4))
        room = np.full(BROKERS, COPY_SHARE * self.capacity[NETWORK_IN] * TICK_SECONDS)
        left, unfinished = [], set()
        for move in self._waiting:
            row = self._row[int(move.topic), move.partition]
            if row in unfinished or not self._step(move, row, room, extra, tick, measured):
                unfinished.add(row)
                left.append(move)
        self._waiting = left
        return extra

    def _step(
        self, move: ReplicaMove, row: int, room: FloatArray, extra: FloatArray, tick: int, measured: bool
    ) -> bool:
        """Whether the move is done in this tick."""
        if move.kind is ReplicaMoveKind.LEADER:
            self.leader[row] = move.target
            self.result.leader_moves += measured
            return True
        size, target, source = float(self.day.leader[tick, row, DISK]), move.target, move.source
        assert source is not None
        wanted = size - self._copied.get(row, 0.0)
        part = min(wanted, room[target])
        room[target] -= part
        extra[target, NETWORK_IN] += part / TICK_SECONDS
        extra[self.leader[row], NETWORK_OUT] += part / TICK_SECONDS
        extra[target, DISK] += size
        self.result.bytes_share += part * measured
        if part < wanted:
            self._copied[row] = size - wanted + part
            return False
        self._copied.pop(row, None)
        self.replicas[row] = np.where(self.replicas[row] == source, target, self.replicas[row])
        if self.leader[row] == source:
            self.leader[row] = target
        self.result.replica_moves += measured
        since = tick - self._came.pop((row, source), -TICKS_A_DAY)
        self.result.moved_twice += measured and since <= TWICE_WITHIN_TICKS
        self.result.moved_again += measured and since <= tick - TICKS_A_DAY
        self._came[row, target] = tick
        return True

    def _snapshot(self, tick: int) -> ReplicasSnapshot:
        """The cluster as the pipeline would tell it: loads by the rule of B(j) from the last windows."""
        day, recent = self.day, slice(tick - WINDOWS + 1, tick + 1)
        first = np.where(self.replicas[:, :1] == self.leader[:, None], self.replicas, self.replicas[:, ::-1])
        width = len(str(day.topic.max()))
        return plain_snapshot(
            f"tick-{tick}",
            ids=np.arange(BROKERS),
            capacity=np.tile(self.capacity, (BROKERS, 1)),
            topics=tuple(f"{one:0{width}d}" for one in range(int(day.topic.max()) + 1)),
            topic=day.topic,
            number=day.number,
            replicas=first,
            leader_load=load_value(day.leader[recent]),
            follower_load=load_value(day.follower[recent]),
        )


def sweeps(strategy: str) -> dict[str, list[tuple[float, ReplicasSettings]]]:
    """What is changed, and the settings of each value of it."""
    plain = ReplicasSettings(strategy=strategy, goals=("theta", "epsilon"))
    return {
        "theta": [
            (one, ReplicasSettings(strategy=strategy, goals=("theta",), theta=(one,) * 4)) for one in THETAS
        ],
        "theta, with epsilon = 0.10": [
            (one, ReplicasSettings(strategy=strategy, goals=plain.goals, theta=(one,) * 4)) for one in THETAS
        ],
        "epsilon, with theta = 0.80": [
            (one, ReplicasSettings(strategy=strategy, goals=plain.goals, epsilon=(one,) * 4))
            for one in EPSILONS
        ],
    }


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--series", type=Path, help="a recording of 60 services (JumpStarter, 5 minutes)")
    parser.add_argument("--day", type=int, default=12, help="the first of its three days that are used")
    parser.add_argument("--seed", type=int, default=5, help="of partitions, placement, and a drawn day")
    parser.add_argument("--strategy", default="trim", choices=("trim", "role_aware"))
    parser.add_argument("--only", type=float, nargs=2, metavar=("THETA", "EPSILON"), help="one pair alone")
    parser.add_argument("--out", type=Path, default=HERE, help="where sweep.json and figures go")
    given = parser.parse_args()
    into, out = recorded(given.series, given.day) if given.series else drawn(given.seed)
    day = day_of(into, out, given.seed)
    capacity = day.capacity(BROKERS)
    print(f"{len(into)} topics, {len(day.topic)} partitions of {COPIES} copies, {BROKERS} brokers")
    nothing = Run(day, ReplicasSettings(strategy="trim", goals=(), epsilon=(0.1,) * 4), capacity)
    show("nothing is moved", 0.0, nothing.go())
    found: dict[str, list[dict[str, Any]]] = {}
    asked = sweeps(given.strategy)
    if given.only:
        theta, epsilon = given.only
        settings = ReplicasSettings(
            strategy=given.strategy, goals=("theta", "epsilon"), theta=(theta,) * 4, epsilon=(epsilon,) * 4
        )
        asked = {f"theta = {theta}, epsilon": [(epsilon, settings)]}
    for name, values in asked.items():
        for value, settings in values:
            result = Run(day, settings, capacity).go()
            show(name, value, result)
            found.setdefault(name, []).append({"value": value, **asdict(result)})
    if not given.only:
        source = "recorded" if given.series else "drawn"
        document = {
            "day": source,
            "strategy": given.strategy,
            "nothing": asdict(nothing.result),
            "sweeps": found,
        }
        path = given.out / "sweep.json"
        kept = json.loads(path.read_text()) if path.exists() else []
        others = [one for one in kept if (one["day"], one["strategy"]) != (source, given.strategy)]
        path.write_text(json.dumps([*others, document], indent=1) + "\n")
        draw_sweep(document, given.out / "figures")
    return 0


def show(name: str, value: float, result: SweepResult) -> None:
    """One row."""
    print(
        f"{name:28} {value:5.2f}  above {HARM:.2f}: {result.broker_hours_above:6.1f} broker-hours  "
        f"σ {result.sigma:.4f}  {result.replica_moves:4} replicas, {result.leader_moves:4} leaders, "
        f"{100 * result.bytes_share:6.1f} % of the bytes, {result.moved_again:4} moved again that day, "
        f"{result.moved_twice:4} within an hour",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
