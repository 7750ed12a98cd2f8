"""Sensing the load again between batches: what is no longer needed, what has room, how fast copies may be.

What is dropped, and when: `trimtab.act.execution.steps`; here a thing is a whole partition.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from trimtab.act.execution.steps import LoadGoals, newer_snapshot, served_cells, unneeded_targets
from trimtab.act.replicas.port import NetworkHeadroom, ReplicaLoadChecked, TopicPartition, Vector
from trimtab.act.replicas.state import ReplicaStepKind, ReplicaStepRecord, ReplicaStepState
from trimtab.model.load import BoolArray, FloatArray, ImbalanceSummary, IntArray
from trimtab.model.replicas.plan import Plan, ReplicaMove
from trimtab.model.replicas.settings import NETWORK_IN, NETWORK_OUT, RESOURCES
from trimtab.model.replicas.snapshot import NO_BROKER, ReplicasSnapshot


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

    def without_drops(self) -> "ReplicaLoadCheck":
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
    def of(cls, snapshot: ReplicasSnapshot, records: Iterable[ReplicaStepRecord]) -> "ReplicaLoadView":
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
    ) -> "ReplicaLoadView":
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

    def violated(self, goals: LoadGoals) -> BoolArray:
        """Shape (2, brokers, resources): whether θ, and ε with the inner margin, are broken."""
        return goals.violated(self.snapshot.imbalance(self.replicas, self.leader))

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
        view.violated(goals),
        lambda without: view.after(pending, without).violated(goals),
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
