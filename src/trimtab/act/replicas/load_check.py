"""Figures of an execution: what it would do, told before it begins, and how far it is.

Batches, bytes and, with a throttle, time beforehand; bytes left, rate and time left while it runs.

Sensing the load again between batches: what is no longer needed, what has room, how fast copies may be.

What is dropped, and when: `trimtab.act.execution.steps`; here a thing is a whole partition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Final

import numpy as np

from trimtab.act.execution import state as execution
from trimtab.act.execution.steps import LoadGoals, newer_snapshot, served_cells, unneeded_targets
from trimtab.act.replicas.batch import choose_batch, with_first_rate
from trimtab.act.replicas.machine import new_execution
from trimtab.act.replicas.overrides import (
    NetworkPath,
    brokers_of,
    free_network,
    next_copies_per_broker,
    next_rate,
    rate_ceiling,
    tightest_path,
)
from trimtab.act.replicas.port import (
    ClusterObservation,
    NetworkHeadroom,
    PartitionPlacement,
    ReplicaLoadChecked,
    TopicPartition,
    Vector,
)
from trimtab.act.replicas.reconcile import DISK_SPACE, reconcile
from trimtab.act.replicas.state import (
    ReplicasExecutionSettings,
    ReplicasExecutionState,
    ReplicaStep,
    ReplicaStepKind,
    ReplicaStepRecord,
    ReplicaStepState,
)
from trimtab.model.load import FloatArray, ImbalanceSummary, IntArray
from trimtab.model.replicas.plan import Plan, ReplicaMove
from trimtab.model.replicas.settings import NETWORK_IN, NETWORK_OUT, RESOURCES
from trimtab.model.replicas.snapshot import NO_BROKER, ReplicasSnapshot

BURST_SECONDS: Final = 10.0
WINDOW_SECONDS: Final = 11.0
"""Kafka measures a throttled rate over a window. What the rate allows in ten seconds passes at once; then
nothing does until the window has moved on (`replication.quota.window.num` = 11)."""
BATCH_SECONDS: Final = 0.2
"""Requests of a batch and the look at the whole cluster before it: 0.1 to 0.5 s with six real brokers."""
MAX_OBSERVATIONS: Final = 100
"""By so many looks at the cluster the rate of a throttle has reached its ceiling."""
SENSINGS_MAX: Final = 20
"""The load is predicted anew before each of so many batches; later batches use the last prediction."""


@dataclass(frozen=True, slots=True)
class BatchForecast:
    """One batch.

    Attributes
    ----------
    rate_bytes_per_second
        The throttle at its beginning, per broker; None without a throttle.
    seconds
        Its duration; None if it is not known beforehand.
    """

    steps: tuple[ReplicaStep, ...]
    rate_bytes_per_second: float | None
    seconds: float | None

    @property
    def bytes(self) -> int:
        """Bytes copied by the whole batch."""
        return sum(step.bytes for step in self.steps)


@dataclass(frozen=True)
class ReplicasForecast:
    """All batches in order, and the steps that could not be begun as things are now, with why.

    Attributes
    ----------
    limit
        The network path that sets the throttle of the first batch; None where it is not derived from one.
    """

    batches: tuple[BatchForecast, ...]
    blocked: tuple[tuple[ReplicaStep, str], ...]
    limit: NetworkPath | None = None

    @property
    def bytes(self) -> int:
        """Bytes that all batches copy together."""
        return sum(batch.bytes for batch in self.batches)

    @property
    def rate_bytes_per_second(self) -> float | None:
        """The throttle of the first batch that has one."""
        return next((rate for one in self.batches if (rate := one.rate_bytes_per_second) is not None), None)

    @property
    def seconds(self) -> float | None:
        """Duration of all batches; None if that of any is not known beforehand."""
        seconds = [batch.seconds for batch in self.batches]
        return None if None in seconds else sum(one for one in seconds if one is not None)


def forecast(
    steps: Sequence[ReplicaStep],
    observation: ClusterObservation,
    now: float,
    settings: ReplicasExecutionSettings,
    sense: Callable[[tuple[ReplicaStepRecord, ...], float], ReplicaLoadChecked] | None = None,
) -> ReplicasForecast:
    """Choose batch after batch as the execution will, if every step goes well and none is dropped.

    Parameters
    ----------
    sense
        Predicts the load before a batch, as the execution senses it; None where no load is known.
    """
    state = replace(new_execution(observation.cluster_id, steps, settings, now), observation=observation)
    windows: dict[tuple[str, int], _QuotaWindow] = {}
    elapsed = 0.0
    batches: list[BatchForecast] = []
    limit = None
    while True:
        if sense is not None and len(batches) < SENSINGS_MAX:
            state = replace(state, load=sense(state.records, state.now))
        choice = choose_batch(state)
        if not choice.batch:
            break
        state = with_first_rate(state, choice.batch)
        copies = [step for step in choice.batch if step.kind is ReplicaStepKind.COPY and step.added]
        rate = state.rate_bytes_per_second if copies else None
        if copies and limit is None and settings.follows_headroom:
            limit = tightest_path(state.load.headroom, brokers_of(copies))
        state, seconds = _copied_by(state, choice.batch, windows, elapsed)
        elapsed += seconds or 0.0
        batches.append(BatchForecast(choice.batch, rate, seconds))
        chosen = {step.number for step in choice.batch}
        done = [
            replace(r, state=ReplicaStepState.DONE) if r.step.number in chosen else r for r in state.records
        ]
        observation = _after(observation, choice.batch)
        state = replace(
            state,
            observation=observation,
            records=tuple(reconcile(r, observation, now, settings) for r in done),
        )
        if any(step.kind is not ReplicaStepKind.LEAD for step in choice.batch):
            most = next_copies_per_broker(settings, state.initial_copies_per_broker, healthy=True)
            state = replace(state, initial_copies_per_broker=most)
    blocked = [(r.step, choice.blocked.get(r.step.number)) for r in state.records]
    told = tuple((step, why.reason) for step, why in blocked if why is not None)
    return ReplicasForecast(tuple(batches), told, limit)


@dataclass
class _QuotaWindow:
    """The quota window of a path into or out of a broker: its begin, and the bytes that passed since."""

    started_at: float = -inf
    passed: float = 0.0

    def passes(self, now: float, whole: float, rate: float) -> float:
        """The time at which so many bytes have passed under a throttle."""
        if now >= self.started_at + WINDOW_SECONDS:
            self.started_at, self.passed = now, 0.0
        full = BURST_SECONDS * rate
        windows = max(0, ceil((self.passed + whole) / full) - 1)
        self.passed = self.passed + whole - windows * full
        end = self.started_at + windows * WINDOW_SECONDS if windows else now
        self.started_at += windows * WINDOW_SECONDS
        return end


def _copied_by(
    state: ReplicasExecutionState,
    batch: Sequence[ReplicaStep],
    windows: dict[tuple[str, int], _QuotaWindow],
    now: float,
) -> tuple[ReplicasExecutionState, float | None]:
    """The state after a batch with the throttle's rate as it is then, and the batch's seconds.

    What is written to the partitions meanwhile is copied, too. The rate changes at each look at the whole
    cluster, by the same rule as in the execution.

    Parameters
    ----------
    windows
        The quota window of each path; brought up to date.
    now
        Seconds since the execution began.
    """
    settings, poll = state.settings, state.settings.poll_interval_seconds
    copies = [step for step in batch if step.kind is ReplicaStepKind.COPY and step.added]
    if not copies:
        return state, BATCH_SECONDS + (0.0 if batch[0].kind is ReplicaStepKind.LEAD else poll)
    rate = state.rate_bytes_per_second
    if rate is None:
        return state, None
    left, written = _paths(copies, state)
    brokers, headroom = brokers_of(copies), state.load.headroom
    ceiling = rate_ceiling(settings, headroom, brokers)
    free = free_network(headroom, brokers)
    needed = min(DISK_SPACE * max(written.values()), free)

    def later(rate: float, samples: float) -> float:
        for _ in range(min(int(samples), MAX_OBSERVATIONS)):
            after = next_rate(settings, rate, ceiling, healthy=True, needed=needed)
            assert after is not None
            if after == rate:
                break
            rate = after
        return rate

    def seconds_at(rate: float, windows: Mapping[tuple[str, int], _QuotaWindow]) -> float:
        # Nobody declares how fast a burst is copied: at least as fast as the throttle or the free network.
        pace = rate if free == inf else max(rate, free)
        whole = {path: size / (1 - written[path] / rate) for path, size in left.items()}
        passed = max(windows[path].passes(now, size, rate) - now for path, size in whole.items())
        copied = max(whole.values()) / pace
        return BATCH_SECONDS + max(1, ceil(max(passed, copied) / poll)) * poll

    rate = min(rate, later(rate, 1))
    if max(written.values()) >= rate:
        rate = later(rate, MAX_OBSERVATIONS)
        if max(written.values()) >= rate:
            return state, None
    for path in left:
        windows.setdefault(path, _QuotaWindow())
    tried = {path: replace(windows[path]) for path in left}
    end = later(rate, seconds_at(rate, tried) / settings.check_interval_seconds)
    seconds = seconds_at((rate + end) / 2, windows)
    return replace(state, rate_bytes_per_second=end), seconds


def _paths(
    copies: Iterable[ReplicaStep], state: ReplicasExecutionState
) -> tuple[dict[tuple[str, int], float], dict[tuple[str, int], float]]:
    """Bytes to copy, and bytes per second written meanwhile, by direction and broker."""
    left: dict[tuple[str, int], float] = {}
    written: dict[tuple[str, int], float] = {}
    for step in copies:
        each = step.bytes / len(step.added)
        placement = state.observation.placements[step.partition]
        source = placement.leader if placement.leader is not None else step.before[0]
        gains = state.load.gains.get(step.number, {})
        for broker in step.added:
            rate = gains[broker][NETWORK_IN] if broker in gains else 0.0
            for path in (("in", broker), ("out", source)):
                left[path] = left.get(path, 0.0) + each
                written[path] = written.get(path, 0.0) + rate
    return left, written


def _after(observation: ClusterObservation, batch: Sequence[ReplicaStep]) -> ClusterObservation:
    placements = dict(observation.placements)
    for step in batch:
        old = placements[step.partition]
        leader = step.leader if step.leader is not None else old.leader
        if leader not in step.after:
            leader = step.after[0]
        in_sync = tuple(b for b in step.after if b in old.in_sync or b in step.added)
        placements[step.partition] = PartitionPlacement(step.after, leader, in_sync, old.topic_id)
    return replace(observation, placements=placements)


RATE_WINDOW_SECONDS = 15.0
"""Over how long the rate is averaged: long enough to hold the brokers' own throttle windows."""


@dataclass(frozen=True, kw_only=True)
class ReplicasProgress(execution.ExecutionProgress):
    """Figures of one moment; `seconds_left` is None while no rate is known or copies get no nearer."""

    steps_active: int
    bytes_copied: int
    bytes_total: int
    bytes_per_second: float
    seconds_left: float | None
    throttle_bytes_per_second: float | None

    @property
    def bytes_left(self) -> int:
        """The bytes still to be copied."""
        return max(0, self.bytes_total - self.bytes_copied)


class ProgressMeter:
    """Turns the states of one execution into figures; keeps the last seconds for the rate."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def __call__(self, state: ReplicasExecutionState) -> ReplicasProgress:
        """Progress figures after this state, with the rate of copying."""
        counted = [r for r in state.records if r.state not in _UNREACHABLE]
        copied = sum(_copied(record) for record in counted)
        total = sum(_total_bytes(record) for record in counted)
        if not self._samples or self._samples[-1][1] != copied or state.now - self._samples[-1][0] >= 1.0:
            self._samples.append((state.now, copied))
        while len(self._samples) > 2 and state.now - self._samples[0][0] > RATE_WINDOW_SECONDS:
            self._samples.popleft()
        (first_at, first), (last_at, last) = self._samples[0], self._samples[-1]
        rate = (last - first) / (last_at - first_at) if last_at > first_at else 0.0
        left = max(0, total - copied)
        # What is written meanwhile has to be copied, too.
        nearer = rate - sum(r.written_bytes_per_second * r.step.copies for r in counted if r.active)
        return ReplicasProgress(
            **state.progress(),
            steps_active=len(state.active),
            bytes_copied=copied,
            bytes_total=total,
            bytes_per_second=max(0.0, rate),
            seconds_left=0.0 if left == 0 else (left / nearer if nearer > 0 else None),
            throttle_bytes_per_second=state.rate_bytes_per_second,
        )


_UNREACHABLE = (
    ReplicaStepState.DROPPED,
    ReplicaStepState.SKIPPED,
    ReplicaStepState.FAILED,
    ReplicaStepState.ROLLED_BACK,
)


def _copied(record: ReplicaStepRecord) -> int:
    if record.state is ReplicaStepState.DONE:
        return record.step.bytes
    return min(record.copied_bytes, _total_bytes(record)) if record.active else 0


def _total_bytes(record: ReplicaStepRecord) -> int:
    """The bytes to be copied in all: while it is copied, with those written since it was planned."""
    if not record.active or record.source_bytes is None:
        return record.step.bytes
    return max(record.step.bytes, record.step.copies * record.source_bytes)


class ReplicaLoadCheck:
    """Answers `SenseLoad` from the newest snapshot, or from the plan's own loads where there is no newer one.

    Parameters
    ----------
    plan
        The plan being carried out.
    planned
        The snapshot it was made from, or the nearest there is.
    newest
        Gives the newest snapshot there is, with the time it was taken (seconds since 1970); None where there
        is none. Its errors are its own to catch.
    drop
        Whether to look for steps that are no longer needed.
    """

    def __init__(
        self,
        plan: Plan,
        planned: ReplicasSnapshot,
        newest: Callable[[], tuple[float, ReplicasSnapshot] | None] = lambda: None,
        *,
        drop: bool = True,
    ) -> None:
        self._plan = plan
        self._planned = planned
        self._newest = newest
        self._drop = drop
        self._requested = plan.settings
        self._goals = LoadGoals.of(plan.settings, RESOURCES)
        self._moves = {move.order: move for move in plan.moves}

    def without_drops(self) -> ReplicaLoadCheck:
        """The same, which looks for no steps to drop: for a forecast of all steps."""
        return ReplicaLoadCheck(self._plan, self._planned, self._newest, drop=False)

    def measures(
        self, records: tuple[ReplicaStepRecord, ...], started_at: float
    ) -> tuple[ImbalanceSummary, str]:
        """σ, worst γ and peak under the placement that the steps have reached, and where the load is from."""
        snapshot, measured = self._loads(records, started_at)
        view = ReplicaLoadView.of(snapshot, records)
        changed = any(record.state is ReplicaStepState.DONE for record in records)
        source = f"measured now, by the snapshot of {snapshot.reference.taken_at}"
        if not measured:
            how = "predicted by the plan," if changed else "not measured again:"
            source = f"{how} by the snapshot of {snapshot.reference.taken_at}, from before"
        return snapshot.imbalance(view.replicas, view.leader).measures(), source

    def _loads(
        self, records: tuple[ReplicaStepRecord, ...], started_at: float = 0.0
    ) -> tuple[ReplicasSnapshot, bool]:
        """The newest snapshot, and True, if it is from after the last change or `begun_at`, or the plan's.

        With the states that the plan asks for: a broker that it empties counts in no mean.
        """
        changed_at = max(
            (r.ended_at or 0.0 for r in records if r.state is ReplicaStepState.DONE), default=started_at
        )
        snapshot, measured = newer_snapshot(self._planned, self._newest, changed_at)
        return snapshot.with_overrides(self._requested), measured

    def __call__(self, records: tuple[ReplicaStepRecord, ...], at: float) -> ReplicaLoadChecked:
        """`ReplicaLoadChecked` for all steps as they are now, from load measured as late as can be had."""
        snapshot, measured = self._loads(records)
        view = ReplicaLoadView.of(snapshot, records)
        pending = tuple(r for r in records if not r.ended and not r.active)
        return ReplicaLoadChecked(
            at,
            unneeded=unneeded(view, pending, self._moves, self._goals) if self._drop else {},
            headroom=view.headroom(),
            free=view.free(pending, self._goals),
            gains=view.gains(pending),
            source=f"the snapshot of {snapshot.reference.taken_at}" if measured else "the plan's own loads",
        )


@dataclass(frozen=True)
class ReplicaLoadView:
    """A snapshot's loads under the placement that the execution has reached.

    Attributes
    ----------
    replicas, leader
        As in `trimtab.model.replicas.snapshot.Partitions`.
    row, broker
        Index of each partition and of each broker id.
    """

    snapshot: ReplicasSnapshot
    replicas: IntArray
    leader: IntArray
    row: Mapping[TopicPartition, int]
    broker: Mapping[int, int]

    @classmethod
    def of(cls, snapshot: ReplicasSnapshot, records: Iterable[ReplicaStepRecord]) -> ReplicaLoadView:
        """The placement as far as the steps tell it, the snapshot's own elsewhere."""
        parts = snapshot.partitions
        wanted = {record.step.partition for record in records}
        number = {name: index for index, name in enumerate(parts.topics)}
        keys = (parts.topic.astype(np.int64) << 32) | parts.number  # ascending, as partitions are ordered
        row = {}
        for partition in wanted:
            if partition.topic in number:
                key = (number[partition.topic] << 32) | partition.partition
                index = int(np.searchsorted(keys, key))
                if index < len(keys) and keys[index] == key:
                    row[partition] = index
        broker = {int(id): index for index, id in enumerate(snapshot.brokers.id)}
        # Steps may add replicas, to more than any partition of the snapshot has.
        more = max((len(record.step.after) for record in records), default=0) - parts.replicas.shape[1]
        replicas = np.pad(parts.replicas, ((0, 0), (0, max(more, 0))), constant_values=NO_BROKER)
        view = cls(snapshot, replicas, parts.leader.copy(), row, broker)
        begun = {record.step.partition for record in records if record.state is ReplicaStepState.DONE}
        for record in records:
            # All that is done, one after the other: the last step of a partition need not tell its leader.
            if record.state is ReplicaStepState.DONE:
                view._place(record, record.step.after, led=True)
            elif record.step.partition not in begun:
                view._place(record, record.step.before, led=False)
                begun.add(record.step.partition)
        return view

    def after(
        self, records: Iterable[ReplicaStepRecord], without: frozenset[TopicPartition]
    ) -> ReplicaLoadView:
        """The placement once these steps are done, except those of some partitions."""
        view = replace(self, replicas=self.replicas.copy(), leader=self.leader.copy())
        for record in records:
            if record.step.partition not in without:
                view._place(record, record.step.after, led=True)
        return view

    def _place(self, record: ReplicaStepRecord, brokers: tuple[int, ...], *, led: bool) -> None:
        row = self.row.get(record.step.partition)
        if row is None or any(b not in self.broker for b in brokers):
            return
        held = [self.broker[b] for b in brokers][: self.replicas.shape[1]]
        self.replicas[row] = NO_BROKER
        self.replicas[row, : len(held)] = held
        if led and record.step.leader is not None:
            self.leader[row] = self.broker.get(record.step.leader, self.leader[row])
        if self.leader[row] not in held:
            self.leader[row] = held[0]

    def load(self) -> FloatArray:
        """Load of each broker, shape (brokers, resources)."""
        return self.snapshot.broker_load(self.replicas, self.leader)

    def violations(self, goals: LoadGoals) -> FloatArray:
        """Shape (2, brokers, resources): see `LoadGoals.violations`."""
        return goals.violations(self.snapshot.imbalance(self.replicas, self.leader))

    def headroom(self) -> dict[int, NetworkHeadroom]:
        """Free network of every broker; infinite where no capacity is known."""
        known = ~np.isin(RESOURCES, self.snapshot.quality.nominal_capacity)
        free = np.where(known, np.maximum(self.snapshot.brokers.capacity - self.load(), 0.0), np.inf)
        return {
            id: NetworkHeadroom(float(free[index, NETWORK_IN]), float(free[index, NETWORK_OUT]))
            for id, index in self.broker.items()
        }

    def free(self, pending: tuple[ReplicaStepRecord, ...], goals: LoadGoals) -> dict[int, Vector]:
        """The room of each broker on the way, in the resources' units.

        Up to θ, or up to where it is now or will be at the end where that is higher.
        """
        now, final = self.load(), self.after(pending, frozenset()).load()
        capacity = self.snapshot.brokers.capacity
        ceiling = np.maximum(np.maximum(now, final), np.minimum(goals.theta, 1.0) * capacity)
        free = ceiling - now
        return {id: tuple(float(x) for x in free[index]) for id, index in self.broker.items()}

    def gains(self, pending: tuple[ReplicaStepRecord, ...]) -> dict[int, dict[int, Vector]]:
        """Step number -> broker -> what it takes on when the step is done."""
        parts = self.snapshot.partitions
        found: dict[int, dict[int, Vector]] = {}
        for record in pending:
            row = self.row.get(record.step.partition)
            if row is None:
                continue
            if record.step.kind is ReplicaStepKind.COPY:
                gain = {broker: parts.follower_load[row] for broker in record.step.added}
                if gain and self.snapshot.brokers.id[self.leader[row]] in record.step.removed:
                    gain[record.step.added[0]] = parts.leader_load[row]
            elif record.step.kind is ReplicaStepKind.LEAD and record.step.leader is not None:
                gain = {record.step.leader: parts.leader_load[row] - parts.follower_load[row]}
            else:
                continue
            found[record.step.number] = {
                broker: tuple(float(x) for x in load) for broker, load in gain.items()
            }
        return found


def unneeded(
    view: ReplicaLoadView,
    pending: tuple[ReplicaStepRecord, ...],
    moves: Mapping[int, ReplicaMove],
    goals: LoadGoals,
) -> dict[TopicPartition, str]:
    """Partitions whose remaining steps can be dropped, with why; the most bytes first."""
    steps: dict[TopicPartition, list[ReplicaStepRecord]] = {}
    for record in pending:
        steps.setdefault(record.step.partition, []).append(record)
    served = {
        partition: served_cells(
            (moves[order].reason for order in dict.fromkeys(o for r in records for o in r.step.moves)),
            view.broker,
            RESOURCES,
        )
        for partition, records in steps.items()
    }
    gone = unneeded_targets(
        served,
        view.violations(goals),
        lambda without: view.after(pending, without).violations(goals),
        order=lambda p: (-sum(r.step.bytes for r in steps[p]), p),
    )
    dropped: dict[TopicPartition, str] = {}
    for partition in gone:
        cells = served[partition] or set()
        ids = sorted({int(view.snapshot.brokers.id[cell[1]]) for cell in cells})
        names = ", ".join(sorted({RESOURCES[cell[2]] for cell in cells}))
        dropped[partition] = (
            f"no longer needed: broker {', '.join(map(str, ids))} meets its goal for {names} already"
        )
    return dropped
