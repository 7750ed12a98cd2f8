"""Replays of recorded loads of partitions: plans at regular intervals, and their effect in figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from trimtab.history.replicas.load_series import LoadSeries
from trimtab.history.replicas.policy import Planner, PolicyReplay
from trimtab.model.goals import ROUNDING
from trimtab.model.load import FloatArray
from trimtab.model.policy import Policy
from trimtab.model.replicas.plan import ReplicaMove, ReplicaMoveKind
from trimtab.model.replicas.settings import DISK, NETWORK_IN, NETWORK_OUT, RESOURCES, ReplicasSettings
from trimtab.model.replicas.snapshot import NO_BROKER
from trimtab.observe.lake.columns import SECOND
from trimtab.observe.steps.imbalance import imbalance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


COPY_SHARE: Final = 0.10
"""A broker takes in copies at this share of its capacity of network in; without a capacity, at once."""


@dataclass(frozen=True)
class PlanningScenario:
    """A planner with its settings and interval.

    Attributes
    ----------
    planner
        None: nothing is moved.
    settings
        Of every plan.
    every
        So many steps lie between two plans; while moves of the one before are on their way, none is made.
    windows
        Over so many steps the recent load is taken.
    policy
        The policy that decides when a plan is made, by `replayed_policy`; None: every `every` steps.
    """

    planner: Planner | None
    settings: ReplicasSettings
    every: int = 1
    windows: int = 1
    policy: Policy | None = None


@dataclass(frozen=True, eq=False)
class ScenarioTrace:
    """The result of one scenario.

    Attributes
    ----------
    load
        Shape (steps, brokers, resources), in `UNITS`: under its placement, with the load of copies.
    copied_bytes
        Shape (steps,).
    plans, leaders
        Shape (steps,): plans made, and leader roles handed over for their own sake.
    moves
        Shape (moves, 2): the step in which a replica arrived, and that in which it had come, by an earlier
        move, to the broker that it left; -1 where it had lain there from the beginning. Steps count from the
        first that is replayed.
    """

    load: FloatArray
    copied_bytes: FloatArray
    plans: np.ndarray
    leaders: np.ndarray
    moves: np.ndarray


def trace_scenario(series: LoadSeries, scenario: PlanningScenario) -> ScenarioTrace:
    """Replay a load series under one scenario.

    In each step moves go on, in the plan's order, as far as time allows; the load is measured; then, if it is
    time and nothing is on its way, a plan is made, whose moves begin with the next step.
    """
    world = _ReplayedPlacement(series)
    steps = len(series.end) - series.first
    load = np.zeros((steps, *world.capacity.shape))
    copied, plans = np.zeros(steps), np.zeros(steps, dtype=np.int64)
    leaders = plans.copy()
    service = None
    if scenario.policy is not None and scenario.planner is not None:
        service = PolicyReplay(scenario.policy, scenario.planner, scenario.settings)
    for at in range(steps):
        step = series.first + at
        done = world.advance(step, at)
        load[at] = world.load(step) + done.extra
        copied[at], leaders[at] = done.copied, done.leaders
        is_time = not world.waiting and at % scenario.every == 0
        if scenario.planner is None or not (service or is_time):
            continue
        placed = world.replicas.copy(), world.leader.copy()
        seen = series.snapshot_at(step, *placed, scenario.windows, world.held_seconds(at))
        if service is None:
            world.waiting = list(scenario.planner(seen, scenario.settings).moves)
            plans[at] = 1
        else:
            made, end = service.plans, float(series.end[step]) / SECOND
            world.waiting = service.step(seen, end, world.waiting, (round(done.copied), done.leaders))
            plans[at] = service.plans - made
    return ScenarioTrace(load, copied, plans, leaders, np.array(world.moves, dtype=np.int64).reshape(-1, 2))


@dataclass
class _StepMoves:
    """The moves of one step: the load of copies, shape (brokers, resources), bytes, leader roles."""

    extra: FloatArray
    copy_load: FloatArray
    copied: float = 0.0
    leaders: int = 0


class _ReplayedPlacement:
    """The current placement, and the moves that are not finished."""

    def __init__(self, series: LoadSeries) -> None:
        self.load_series = series
        snapshot = series.initial
        self.started, self.capacity = snapshot, snapshot.brokers.capacity
        parts = snapshot.partitions
        self.replicas, self.leader = parts.replicas.copy(), parts.leader.copy()
        self.waiting: list[ReplicaMove] = []
        self.moves: list[tuple[int, int]] = []
        self._index = {number: row for row, number in enumerate(snapshot.brokers.id.tolist())}
        self._row = {
            (parts.topics[topic], number): row
            for row, (topic, number) in enumerate(
                zip(parts.topic.tolist(), parts.number.tolist(), strict=True)
            )
        }
        self._copied: dict[int, float] = {}
        self._arrived_at: dict[tuple[int, int], int] = {}
        per_second = np.where(
            np.isfinite(self.capacity[:, NETWORK_IN]), COPY_SHARE * self.capacity[:, NETWORK_IN], np.inf
        )
        self._room = per_second * series.step_seconds

    def load(self, step: int) -> FloatArray:
        """Load of each broker at a step, shape (brokers, resources)."""
        leads_load = np.nan_to_num(self.load_series.leader[step])
        follows_load = np.nan_to_num(self.load_series.follower[step])
        load = np.zeros(self.capacity.shape)
        for slot in range(self.replicas.shape[1]):
            holder = self.replicas[:, slot]
            held = holder != NO_BROKER
            weight = np.where((holder == self.leader)[:, None], leads_load, follows_load)
            np.add.at(load, holder[held], weight[held])
        return load

    def held_seconds(self, at: int) -> FloatArray:
        """Seconds since each replica was moved, in the shape of the replicas."""
        held = np.full(self.replicas.shape, np.inf)
        for (row, broker), came in self._arrived_at.items():
            held[row, self.replicas[row] == broker] = (at - came) * self.load_series.step_seconds
        return held

    def advance(self, step: int, at: int) -> _StepMoves:
        """Advance the moves in order; a partition's moves follow one another."""
        done = _StepMoves(np.zeros((len(self.capacity), len(RESOURCES))), self._room.copy())
        left, unfinished = [], set()
        for move in self.waiting:
            row = self._row[move.topic, move.partition]
            if row in unfinished or not self._moved(move, row, step, at, done):
                unfinished.add(row)
                left.append(move)
        self.waiting = left
        return done

    def _moved(self, move: ReplicaMove, row: int, step: int, at: int, done: _StepMoves) -> bool:
        """Whether the move is finished in this step."""
        target = self._index[move.target]
        if move.kind is ReplicaMoveKind.LOG_DIR:
            return True
        if move.kind is ReplicaMoveKind.LEADER:
            self.leader[row] = target
            done.leaders += 1
            return True
        assert move.source is not None
        source, seconds = self._index[move.source], self.load_series.step_seconds
        size = float(np.nan_to_num(self.load_series.leader[step, row, DISK]))
        wanted = size - self._copied.get(row, 0.0)
        part = min(wanted, float(done.copy_load[target]))
        done.copy_load[target] -= part
        done.extra[target, NETWORK_IN] += part / seconds
        if self.leader[row] != NO_BROKER:
            done.extra[self.leader[row], NETWORK_OUT] += part / seconds
        done.copied += part
        if part < wanted:
            # The target holds what was copied so far: nothing of copies that have not begun.
            self._copied[row] = size - wanted + part
            done.extra[target, DISK] += size - wanted + part
            return False
        # Its placement counts from this step on, in which the source held it too.
        done.extra[source, DISK] += size
        self._copied.pop(row, None)
        self.replicas[row] = np.where(self.replicas[row] == source, target, self.replicas[row])
        if self.leader[row] == source:
            self.leader[row] = target
        self.moves.append((at, self._arrived_at.pop((row, source), -1)))
        self._arrived_at[row, target] = at
        return True


TWICE_SECONDS: Final = 86400.0
"""A replica that goes on within a day was moved twice."""


@dataclass(frozen=True)
class ReplicaMetricSpec:
    """The definition of the metrics that all scenarios of a comparison share.

    Attributes
    ----------
    theta
        By resource: usage above it is to be avoided.
    min_utilization
        γ is not counted of a resource that brokers use less than this on average.
    """

    theta: tuple[float, ...]
    min_utilization: float


@dataclass(frozen=True, eq=False)
class ReplicasReplayEffect:
    """The metrics of a scenario; all arrays have shape (steps,).

    Attributes
    ----------
    at
        End of the step, seconds since 1970.
    step_seconds
        Length of a step.
    above
        Brokers that are above θ in some resource.
    peak
        Highest usage of any broker and resource; NaN where none has a capacity.
    gamma, sigma
        The worst resource's largest γ, and the worst resource's σ.
    replicas, moved_twice, leaders, plans
        Replicas moved, those of them that had come by a move less than `TWICE_SECONDS` before, leader roles
        handed over for their own sake, and plans made.
    copied_bytes
        Bytes copied.
    """

    at: FloatArray
    step_seconds: float
    above: np.ndarray
    peak: FloatArray
    gamma: FloatArray
    sigma: FloatArray
    replicas: np.ndarray
    moved_twice: np.ndarray
    leaders: np.ndarray
    plans: np.ndarray
    copied_bytes: FloatArray

    @property
    def seconds_above(self) -> float:
        """Time with some broker above θ."""
        return float((self.above > 0).sum() * self.step_seconds)

    @property
    def broker_seconds_above(self) -> float:
        """Time above θ summed over the brokers."""
        return float(self.above.sum() * self.step_seconds)


def effects_of(
    session: SparkSession,
    series: LoadSeries,
    traces: Mapping[str, ScenarioTrace],
    measured_by: ReplicaMetricSpec,
) -> dict[str, ReplicasReplayEffect]:
    """The effect of each scenario, by name."""
    loads = session.createDataFrame(_loads(series, traces))
    rows = _over_time(loads, measured_by).toArrow().sort_by([("cluster", "ascending"), ("tick", "ascending")])
    names = np.array(rows["cluster"].to_pylist(), dtype=object)
    found = {}
    for name, trace in traces.items():
        own = rows.filter(pa.array(names == name))
        steps = len(trace.load)
        twice = (trace.moves[:, 1] >= 0) & (
            (trace.moves[:, 0] - trace.moves[:, 1]) * series.step_seconds < TWICE_SECONDS
        )
        found[name] = ReplicasReplayEffect(
            at=own["tick"].cast("int64").to_numpy() / 1e6,
            step_seconds=series.step_seconds,
            above=own["above"].to_numpy(),
            **{name: own[name].to_numpy().astype(np.float64) for name in ("peak", "gamma", "sigma")},
            replicas=np.bincount(trace.moves[:, 0], minlength=steps),
            moved_twice=np.bincount(trace.moves[twice, 0], minlength=steps),
            leaders=trace.leaders,
            plans=trace.plans,
            copied_bytes=trace.copied_bytes,
        )
    return found


def _loads(series: LoadSeries, traces: Mapping[str, ScenarioTrace]) -> pa.Table:
    """A row for each scenario, step and broker in service, for `trimtab.observe.steps.imbalance`."""
    brokers = series.initial.brokers
    serves = np.flatnonzero(brokers.in_service)
    capacity = np.where(np.isfinite(brokers.capacity), brokers.capacity, np.nan)[serves]
    end = series.end[series.first :]
    parts = []
    for name, trace in traces.items():
        load = trace.load[:, serves]
        columns: dict[str, pa.Array] = {
            "cluster": pa.array([name] * (len(end) * len(serves))),
            "tick": pa.array(np.repeat(end, len(serves))).cast(pa.timestamp("us", tz="UTC")),
            "broker": pa.array(np.tile(brokers.id[serves], len(end)).astype(np.int32)),
        }
        for place, resource in enumerate(RESOURCES):
            columns[f"{resource}_load"] = pa.array(load[:, :, place].ravel())
            columns[f"{resource}_capacity"] = pa.array(
                np.tile(capacity[:, place], len(end)), from_pandas=True
            )
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def _over_time(loads: DataFrame, measured_by: ReplicaMetricSpec) -> DataFrame:
    """A row for each scenario and step: brokers above θ, peak usage, worst γ, worst σ."""
    limits = F.create_map(
        *(
            F.lit(one)
            for pair in zip(RESOURCES, measured_by.theta, strict=True)
            for one in (pair[0], float(pair[1]))
        )
    )
    measured = imbalance(loads, RESOURCES, "int").withColumn("theta", limits[F.col("resource")])
    full = F.transform(
        F.filter("by_broker", lambda it: it["usage"] > F.col("theta") * (1 + ROUNDING)),
        lambda it: it["broker"],
    )
    # Of what nobody uses, evenness is not asked: γ of a resource near 0 is noise.
    idle = F.col("peak_usage").isNotNull() & (F.col("mean") < measured_by.min_utilization)
    return (
        measured.withColumns({"full": full, "idle": idle})
        .groupBy("cluster", "tick")
        .agg(
            F.size(F.array_distinct(F.flatten(F.collect_list("full")))).cast("bigint").alias("above"),
            F.max("peak_usage").alias("peak"),
            F.max(F.when(~F.col("idle"), F.col("worst_deviation"))).alias("gamma"),
            F.max(F.when(~F.col("idle"), F.col("sigma"))).alias("sigma"),
        )
    )
