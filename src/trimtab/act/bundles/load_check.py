"""Figures of an execution: what it would do, told before it begins, and how far it is.

Sensing the load again between batches: unloads that are no longer needed, and those that would do harm.

A bundle's load is its traffic, as in snapshots; its CPU grows and falls with its messages. What brokers tell
of bundles that we have not moved replaces what the snapshot had; a bundle that has just moved is counted anew
by its broker, so of those the snapshot's figures are the better ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from trimtab.act.bundles.batch import MINUTE
from trimtab.act.bundles.port import BundleLoadChecked, BundleTraffic
from trimtab.act.bundles.state import (
    BundlesExecutionState,
    BundleStep,
    BundleStepKind,
    BundleStepRecord,
    BundleStepState,
    UnloadSettings,
)
from trimtab.act.execution import state as execution
from trimtab.act.execution.steps import LoadGoals, newer_snapshot, served_cells, unneeded_targets
from trimtab.model.bundles.plan import BundlePlan
from trimtab.model.bundles.snapshot import NO_OWNER, RESOURCES, BundleRange, BundlesSnapshot, parse_bundle
from trimtab.model.load import FloatArray, IntArray, resource_name


@dataclass(frozen=True)
class BundlesForecast:
    """All batches in order, if every step goes well at the first attempt; clients disconnected, least time.

    Attributes
    ----------
    seconds
        The least that limits and pauses make of it; the calls themselves come on top.
    """

    batches: tuple[tuple[BundleStep, ...], ...]
    seconds: float

    @property
    def sessions(self) -> int:
        """Clients disconnected in all; one whose bundle moves twice counts twice."""
        return sum(step.sessions for batch in self.batches for step in batch)

    @property
    def unloads(self) -> int:
        """The number of bundles that are unloaded."""
        return sum(step.kind is BundleStepKind.UNLOAD for batch in self.batches for step in batch)

    @property
    def splits(self) -> int:
        """The number of bundles that are split."""
        return sum(step.kind is BundleStepKind.SPLIT for batch in self.batches for step in batch)


def forecast(steps: Sequence[BundleStep], settings: UnloadSettings) -> BundlesForecast:
    """Batch after batch in the plan's order, with the pauses that the limits ask for."""
    pace = settings.limits
    batches: list[tuple[BundleStep, ...]] = []
    now = 0.0
    asked: list[tuple[float, int]] = []
    left = list(steps)
    while left:
        batch: list[BundleStep] = []
        spent = sum(sessions for at, sessions in asked if now - at < MINUTE)
        waiting = {step.number for step in left}
        for step in left:
            if step.follows in waiting or (batch and batch[0].kind is not step.kind):
                continue
            if batch and (step.kind is BundleStepKind.SPLIT or len(batch) >= pace.max_unloads_per_batch):
                break
            if (
                step.kind is BundleStepKind.UNLOAD
                and spent
                and spent + step.sessions > pace.max_sessions_per_minute
            ):
                continue
            batch.append(step)
            spent += step.sessions
        if not batch:
            now = min(at for at, _ in asked if now - at < MINUTE) + MINUTE
            continue
        begun = {step.number for step in batch}
        left = [step for step in left if step.number not in begun]
        batches.append(tuple(batch))
        if batch[0].kind is BundleStepKind.UNLOAD:
            asked += [(now, step.sessions) for step in batch]
            now += pace.batch_pause_seconds if left else 0.0
    return BundlesForecast(tuple(batches), now)


@dataclass(frozen=True, kw_only=True)
class BundlesProgress(execution.ExecutionProgress):
    """Figures of one moment: steps, clients disconnected."""

    in_flight: tuple[str, ...]
    sessions_disturbed: int
    sessions_left: int


def progress_of(state: BundlesExecutionState) -> BundlesProgress:
    """Progress figures of an execution state."""
    unloads = [record for record in state.records if record.step.kind is BundleStepKind.UNLOAD]
    return BundlesProgress(
        **state.progress(),
        in_flight=tuple(str(record.step) for record in state.active),
        sessions_disturbed=sum(r.step.sessions * r.unloads for r in unloads),
        sessions_left=sum(
            r.step.sessions for r in unloads if r.requested_at is None and r.state is BundleStepState.PENDING
        ),
    )


TELLABLE = (
    RESOURCES.index("bandwidth_in"),
    RESOURCES.index("bandwidth_out"),
    RESOURCES.index("message_rate"),
)
CPU, MESSAGES = RESOURCES.index("cpu"), RESOURCES.index("message_rate")
ROUNDING = 1e-9


class BundleLoadCheck:
    """Answers `SenseLoad` from the brokers' own figures over the newest snapshot, or that of the plan.

    Parameters
    ----------
    plan
        The plan being carried out.
    planned
        The snapshot it was made from, or the nearest there is.
    newest
        Gives the newest snapshot there is, with the time it was taken (seconds since 1970); None where there
        is none. Its errors are its own to catch.
    """

    def __init__(
        self,
        plan: BundlePlan,
        planned: BundlesSnapshot,
        newest: Callable[[], tuple[float, BundlesSnapshot] | None] = lambda: None,
    ) -> None:
        self._planned = planned
        self._newest = newest
        self._goals = LoadGoals.of(plan.settings, RESOURCES)
        self._reasons = {move.order: move.reason for move in plan.moves}

    def __call__(
        self, records: tuple[BundleStepRecord, ...], at: float, traffic: Mapping[str, BundleTraffic]
    ) -> BundleLoadChecked:
        """`BundleLoadChecked` for all steps as they are now."""
        changed_at = max((r.ended_at or 0.0 for r in records if r.state is BundleStepState.DONE), default=0.0)
        snapshot, _ = newer_snapshot(self._planned, self._newest, changed_at)
        ours = {record.step.bundle for record in records if record.requested_at is not None}
        known = {bundle: told for bundle, told in traffic.items() if bundle not in ours}
        pending = tuple(r for r in records if not r.ended and not r.active)
        view = BundleLoadView.of(snapshot, records).under(known)
        before = BundleLoadView.of(self._planned, records)
        dropped = self._unneeded(view, pending)
        left = tuple(r for r in pending if r.step.number not in dropped)
        return BundleLoadChecked(
            at, unneeded=dropped, harmful=harmful_unloads(view, before, left, self._goals)
        )

    def _unneeded(self, view: BundleLoadView, pending: tuple[BundleStepRecord, ...]) -> dict[int, str]:
        steps: dict[str, list[BundleStepRecord]] = {}
        for record in pending:
            steps.setdefault(record.step.bundle, []).append(record)
        served = {
            bundle: served_cells(
                (self._reasons[order] for one in found for order in one.step.moves), view.broker, RESOURCES
            )
            for bundle, found in steps.items()
            # A cut makes the bundles of later steps.
            if all(one.step.kind is BundleStepKind.UNLOAD for one in found)
        }
        gone = unneeded_targets(
            served,
            view.violations(self._goals),
            lambda without: view.after(pending, without).violations(self._goals),
            order=lambda bundle: (-sum(one.step.sessions for one in steps[bundle]), bundle),
        )
        told = {}
        for bundle in gone:
            cells = served[bundle] or set()
            names = ", ".join(sorted({view.snapshot.brokers.name[cell[1]] for cell in cells}))
            what = ", ".join(sorted({resource_name(RESOURCES[cell[2]]) for cell in cells}))
            for one in steps[bundle]:
                told[one.step.number] = f"no longer needed: {names} meets its goal for {what} already"
        return told


def harmful_unloads(
    now: BundleLoadView, planned: BundleLoadView, pending: tuple[BundleStepRecord, ...], goals: LoadGoals
) -> dict[int, str]:
    """Unloads that would push their taker above θ, where neither it is now nor the plan meant it to be."""
    found: dict[int, str] = {}
    meant = planned.after(pending, frozenset()).usage()
    limit = np.maximum(np.maximum(goals.theta, meant), now.usage()) + ROUNDING
    left = list(pending)
    ends = now.after(left, frozenset()).usage()
    # The last of the plan first: what the plan found most urgent stays longest.
    for record in reversed(pending):
        taker = now.broker.get(record.step.target or "")
        if taker is None or not (ends[taker] > limit[taker]).any():
            continue
        worst = int(np.argmax(ends[taker] - limit[taker]))
        found[record.step.number] = (
            f"would now push {record.step.target} to {ends[taker, worst]:.1%} of its "
            f"{resource_name(RESOURCES[worst])}, limit {goals.theta[worst]:.1%}: load has changed"
        )
        left.remove(record)
        ends = now.after(left, frozenset()).usage()
    return found


@dataclass(frozen=True)
class BundleLoadView:
    """A snapshot's loads under the ownership that the execution has reached; parts of splits are bundles too.

    Attributes
    ----------
    owner
        Index of each bundle's broker, or `NO_OWNER`: also of what is cut, or not made yet.
    row, broker
        Index of each bundle and of each broker's name.
    """

    snapshot: BundlesSnapshot
    owner: IntArray
    row: Mapping[str, int]
    broker: Mapping[str, int]

    @classmethod
    def of(cls, snapshot: BundlesSnapshot, records: Iterable[BundleStepRecord]) -> BundleLoadView:
        """The ownership as far as the steps tell it, the snapshot's own elsewhere."""
        records = tuple(records)
        snapshot = _with_parts(snapshot, records)
        row = {key: index for index, key in enumerate(snapshot.bundles.key)}
        broker = {name: index for index, name in enumerate(snapshot.brokers.name)}
        view = cls(snapshot, snapshot.bundles.owner.copy(), row, broker)
        return view.after([one for one in records if one.state is BundleStepState.DONE], frozenset())

    def under(self, traffic: Mapping[str, BundleTraffic]) -> BundleLoadView:
        """The same under the traffic that brokers tell; in every view by as much as in the newest."""
        load = self.snapshot.bundles.load.copy()
        for bundle, told in traffic.items():
            place = self.row.get(bundle)
            if place is None:
                continue
            was, now = load[0, place].copy(), np.zeros(len(RESOURCES))
            now[list(TELLABLE)] = told.bytes_in, told.bytes_out, told.messages
            factor = np.divide(now, was, out=np.ones(len(RESOURCES)), where=was > 0)
            factor[CPU] = factor[MESSAGES]
            load[:, place] *= factor
            fresh = (was == 0) & (now > 0)
            load[:, place, fresh] = now[fresh]
        return replace(self, snapshot=_loaded(self.snapshot, load))

    def after(self, records: Iterable[BundleStepRecord], without: frozenset[str]) -> BundleLoadView:
        """The ownership once these steps are done, except those of some bundles."""
        owner = self.owner.copy()
        for record in records:
            step = record.step
            place = self.row.get(step.bundle)
            if place is None or step.bundle in without:
                continue
            if step.kind is BundleStepKind.UNLOAD:
                owner[place] = self.broker.get(step.target or "", NO_OWNER)
                continue
            for part in _parts(step.bundle, step.boundaries):
                if part.key in self.row:
                    owner[self.row[part.key]] = owner[place]
            owner[place] = NO_OWNER
        return replace(self, owner=owner)

    def usage(self) -> FloatArray:
        """The highest usage in any view, shape (brokers, resources), fractions."""
        views = range(len(self.snapshot.views))
        return np.asarray(np.max([self.snapshot.imbalance(self.owner, view).usage for view in views], axis=0))

    def violations(self, goals: LoadGoals) -> FloatArray:
        """Shape (2, brokers, resources): the greatest of all views."""
        views = range(len(self.snapshot.views))
        return np.asarray(
            np.max([goals.violations(self.snapshot.imbalance(self.owner, one)) for one in views], axis=0)
        )


def _parts(bundle: str, boundaries: tuple[int, ...]) -> list[BundleRange]:
    whole = parse_bundle(bundle)
    ends = (whole.low, *boundaries, whole.high)
    return [BundleRange(whole.namespace, low, high) for low, high in pairwise(ends)]


def _with_parts(snapshot: BundlesSnapshot, records: Iterable[BundleStepRecord]) -> BundlesSnapshot:
    """The snapshot with the parts of bundles that steps cut, unowned, each with the load of its topics."""
    bundles, topics = snapshot.bundles, snapshot.topics
    keys = list(bundles.key)
    origin = {key: place for place, key in enumerate(keys)}
    added: list[FloatArray] = []
    for record in records:
        whole = origin.get(record.step.bundle)
        if record.step.kind is not BundleStepKind.SPLIT or whole is None:
            continue
        for part in _parts(record.step.bundle, record.step.boundaries):
            if part.key in origin:
                continue
            inside = (topics.bundle == whole) & (topics.hash >= part.low) & (topics.hash < part.high)
            share = topics.load[inside].sum(axis=0)
            total = topics.load[topics.bundle == whole].sum(axis=0)
            of_range = (part.high - part.low) / max(1, _size(bundles.key[whole]))
            known = np.divide(share, total, out=np.full(len(RESOURCES), of_range), where=total > 0)
            keys.append(part.key)
            origin[part.key] = whole
            added.append(bundles.load[:, whole] * known)
    if not added:
        return snapshot
    none = np.zeros(len(added), dtype=np.int64)
    return replace(
        snapshot,
        bundles=replace(
            bundles,
            key=tuple(keys),
            owner=np.concatenate([bundles.owner, np.full(len(added), NO_OWNER, dtype=bundles.owner.dtype)]),
            load=np.concatenate([bundles.load, np.stack(added, axis=1)], axis=1),
            sessions=np.concatenate([bundles.sessions, none]),
            topics=np.concatenate([bundles.topics, none]),
            movable=np.concatenate([bundles.movable, none > 0]),
        ),
    )


def _size(bundle: str) -> int:
    found = parse_bundle(bundle)
    return found.high - found.low


def _loaded(snapshot: BundlesSnapshot, load: FloatArray) -> BundlesSnapshot:
    return replace(snapshot, bundles=replace(snapshot.bundles, load=load))
