"""Routing tables as the planner of the balancer makes them, out of what a virtual topic has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf

from trimtab.act.keys.machine import settled, with_routes
from trimtab.files.keys.settings import KeysSettings
from trimtab.history.keys.ordered_simulation import PublisherObservation
from trimtab.history.keys.simulation import KeysSimulationSettings
from trimtab.model.keys.naming import key_text
from trimtab.model.keys.plan import KeysPlan, RoutingMoveKind
from trimtab.model.keys.routing import RoutingTable, group_count
from trimtab.model.keys.snapshot import HotKey, KeyGroupLoad, KeysSnapshot, PartitionLoad
from trimtab.model.snapshot import Quality, SnapshotReference
from trimtab.online.keys.murmur2 import key_group
from trimtab.plan.keys.trim import plan_keys

HOT_KEYS = 100
"""As many as a snapshot names."""


def snapshot(
    keys: Sequence[bytes],
    rates: Sequence[float],
    table: RoutingTable,
    backlog: Sequence[int],
    now: float,
    world: KeysSimulationSettings,
) -> KeysSnapshot:
    """What the balancer would see of these rates, in records a second by key, under a table."""
    count, capacity = world.partitions, world.capacity.records_per_second
    groups = group_count(count)
    group_of = [key_group(key, count) for key in keys]
    group_rates, loads = [0.0] * groups, [0.0] * count
    for key, group, rate in zip(keys, group_of, rates, strict=True):
        group_rates[group] += rate
        places = table.route(group, key).partitions
        for place in places:
            loads[place] += rate / len(places)
    total = sum(rates) or 1.0
    hot = sorted(range(len(keys)), key=lambda one: -rates[one])[:HOT_KEYS]
    at = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=now)
    return KeysSnapshot(
        SnapshotReference("virtual", at.isoformat(), "0" * 64), Quality(cpu="absent"),
        topic="keyed", topic_id="virtual", consumers="readers", version=table.version, base=count,
        hashed=False, capacity=capacity, consumer_capacity=capacity,
        partitions=tuple(PartitionLoad(one, loads[one], backlog[one], 100.0) for one in range(count)),
        groups=tuple(
            KeyGroupLoad(one, table.route(one, b"").partitions[0], group_rates[one]) for one in range(groups)
        ),
        keys=tuple(
            HotKey(key_text(keys[one]), group_of[one], rates[one], rates[one] / total,
                   table.route(group_of[one], keys[one]).partitions, rates[one] / capacity)
            for one in hot
        ),
    )  # fmt: skip


def next_table(table: RoutingTable, plan: KeysPlan) -> RoutingTable:
    """The plan as a table."""
    routes = {
        f"{one.kind}/{one.name}": one.after for one in plan.assignments if one.kind is not RoutingMoveKind.ADD
    }
    return with_routes(table, routes, plan.partitions)


def planned(
    keys: Sequence[bytes], rates: Sequence[float], settings: KeysSettings, world: KeysSimulationSettings
) -> RoutingTable:
    """A first table, for rates that are known."""
    table = RoutingTable(0, world.partitions, world.partitions)
    seen = snapshot(keys, rates, table, [0] * world.partitions, 0.0, world)
    return next_table(table, plan_keys(seen, settings))


class FixedTable:
    """One table, there from the beginning."""

    next_plan_at = inf

    def __init__(self, table: RoutingTable) -> None:
        self._table: RoutingTable | None = table

    def next_table(self, observation: PublisherObservation, /) -> RoutingTable | None:
        """The table, once."""
        table, self._table = self._table, None
        return table


class PeriodicPlanner:
    """A plan now and then, of what came in since the last; earlier places taken out once they are passed."""

    def __init__(
        self,
        keys: Sequence[bytes],
        every_seconds: float,
        settings: KeysSettings,
        world: KeysSimulationSettings,
    ) -> None:
        self._keys, self._every, self._settings, self._world = keys, every_seconds, settings, world
        self._table = RoutingTable(0, world.partitions, world.partitions)
        self._last: Sequence[int] = [0] * len(keys)
        self._ends: Sequence[int] | None = None
        self.next_plan_at = every_seconds
        self.plans = 0

    def next_table(self, observation: PublisherObservation, /) -> RoutingTable | None:
        """The next table, if it is time, the last one is followed, and something is to change."""
        if self._table.version:
            if observation.follows < self._table.version:
                return None
            if self._ends is None:
                self._ends = list(observation.ends)
            if any(done < end for done, end in zip(observation.committed, self._ends, strict=True)):
                return None
            if any(one.earlier for one in (*self._table.groups.values(), *self._table.keys.values())):
                return self._publish(settled(self._table), observation)
        if observation.records == self._last:
            # Without records there is nothing to plan: the next period begins with the next one.
            self.next_plan_at = inf
            return None
        if self.next_plan_at == inf:
            self.next_plan_at = observation.now + self._every
        if observation.now < self.next_plan_at:
            return None
        rates = [
            (now - before) / self._every for now, before in zip(observation.records, self._last, strict=True)
        ]
        self._last, self.next_plan_at = list(observation.records), observation.now + self._every
        backlog = [end - done for end, done in zip(observation.ends, observation.committed, strict=True)]
        found = snapshot(self._keys, rates, self._table, backlog, observation.now, self._world)
        plan = plan_keys(found, self._settings)
        if not plan.moves:
            return None
        self.plans += 1
        return self._publish(next_table(self._table, plan), observation)

    def _publish(self, table: RoutingTable, observation: PublisherObservation) -> RoutingTable:
        self._table, self._ends = replace(table, passed=tuple(observation.committed)), None
        return self._table
