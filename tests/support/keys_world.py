"""The balancer `keys` without brokers: a topic whose clients follow a few looks later, and plans for it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.key_snapshots import a_key, a_snapshot
from trimtab.act.control import Runner
from trimtab.act.executor import StateCodecs
from trimtab.act.journal import Journal
from trimtab.act.keys.executor import EXECUTOR, observe, prepare, warnings
from trimtab.act.keys.machine import KeysMachine
from trimtab.act.keys.state import (
    KeyClient,
    KeyConsumerGroup,
    KeysExecutionState,
    KeysObservation,
    TableLocation,
    TablePublishingSettings,
)
from trimtab.act.keys.state import KeysExecutionSettings as ActSettings
from trimtab.act.lease import Lease
from trimtab.files.keys.settings import KeysSettings
from trimtab.model.keys import KeysPlan
from trimtab.plan.keys.trim import plan_keys
from trimtab_keys.core.routing import POSITIVE, Route, RoutingTable, murmur2

CODECS = StateCodecs({"keys": EXECUTOR.codec}, unnamed="keys")
ORDERS = TableLocation("orders", "kafka:trimtab-tables", "billing", "id of orders")
ANN = (murmur2(b"ann") & POSITIVE) % 1024
PLACE = ANN % 4


def a_plan(max_partitions: int = 0, capacity: float = 100.0, key: str = "ann") -> KeysPlan:
    """Ann's 90 records a second are split, some groups make room; with less capacity partitions are added."""
    rates = {ANN: 90.0, **{group: 10.0 for group in range(1, 13) if group != ANN}}
    snapshot = a_snapshot(rates, a_key(key, ANN, 90.0, PLACE), capacity=capacity)
    return plan_keys(snapshot, KeysSettings(max_partitions=max_partitions))


class World:
    """A topic with one producer and one consumer, which follow a few looks later."""

    claim_rights = ""

    def __init__(self, slowness: int = 2) -> None:
        self.tables: list[RoutingTable] = []
        self.partitions = 4
        self.topic_id, self.slowness, self.looks = "id of orders", slowness, 0
        self.changed_at = 0
        self.wrapped, self.sends_heartbeats, self.stuck, self.stalled = True, True, "", False
        self.peers = 0
        self.unseen_partitions = False
        self.there = True
        self.more: tuple[KeyConsumerGroup, ...] = ()
        self.billing: Callable[[KeyConsumerGroup], KeyConsumerGroup] = lambda group: group
        self.damaged, self.newest = "", 0
        self.claims: set[str] = set()
        self.end = 100
        self.killed: tuple[KeyClient, ...] = ()
        self.killed_looks = 0

    def observe(self, place: TableLocation) -> KeysObservation:
        assert place == ORDERS
        self.looks += 1
        if not self.topic_id:
            return KeysObservation("here", "")
        there = self.looks - self.changed_at >= self.slowness
        version = self.version - (0 if there else 1)
        held = 4 if self.unseen_partitions or not there else self.partitions
        ends = (self.end,) * self.partitions
        clients = (
            KeyClient("p1", "producer", max(0, version), True, self.stuck),
            KeyClient("c1", "consumer", max(0, version), self.wrapped, "", "m1"),
        )
        committed = dict.fromkeys(range(held), 100 if there and not self.stalled else 50)
        billing = self.billing(KeyConsumerGroup("billing", committed, {"m1": frozenset(range(held))}))
        return KeysObservation(
            "here", self.topic_id, self.tables[-1] if self.tables else None, (0,) * self.partitions, ends,
            "billing", (billing, *self.more),
            (*clients, *self._not_yet_gone()) if self.sends_heartbeats and self.there else (),
            self.sends_heartbeats,
            self.there, damaged=self.damaged, newest=max(self.version, self.newest),
        )  # fmt: skip

    def _not_yet_gone(self) -> tuple[KeyClient, ...]:
        self.killed_looks -= 1
        return self.killed if self.killed_looks > 0 else ()

    @property
    def version(self) -> int:
        """Of the table in force."""
        return self.tables[-1].version if self.tables else 0

    def make_tables(self, place: TableLocation) -> None:
        self.there = True

    def add_partitions(self, place: TableLocation, count: int) -> None:
        self.partitions, self.changed_at = max(self.partitions, count), self.looks

    def publish(self, place: TableLocation, topic_id: str, table: RoutingTable) -> int | None:
        if self.peers:
            self.peers -= 1
            before = self.tables[-1] if self.tables else RoutingTable(0, 4, 4)
            mine = {**before.groups, 900: Route((3,), (0,))}
            self.tables.append(replace(before, version=before.version + 1, groups=mine))
        if table.version != max(self.version, self.newest) + 1 or topic_id != self.topic_id:
            return None
        self.tables.append(table)
        self.damaged = ""
        self.changed_at = self.looks
        return table.version

    def read_claims(self) -> frozenset[str]:
        return frozenset(self.claims)

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        self.claims = (self.claims | set(added)) - set(removed)


class Clock:
    """Virtual time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Pass it."""
        self.now += max(seconds, 0.01)


def carried_out(
    world: World,
    plan: KeysPlan,
    folder: Path,
    watch: Callable[[KeysExecutionState], None] | None = None,
    **publishing: Any,
) -> KeysExecutionState:
    """Prepared, journaled and run to its end in virtual time."""
    settings = ActSettings(publishing=TablePublishingSettings(**publishing))
    _, seen = observe(world, plan)
    ready = prepare(plan, seen, False)
    warnings(world, ready, settings, None)
    clock = Clock()
    state = EXECUTOR.new_execution(ready.cluster_id, ready.steps, settings, clock())
    with Journal(folder / "journal.sqlite", CODECS) as journal:
        number = journal.create(state, "orders@here", "{}", "test", {})
        return runner(world, journal, number, state, clock, watch=watch).run()


def runner(
    world: World,
    journal: Journal,
    number: int,
    state: KeysExecutionState,
    clock: Clock,
    lease: Lease | None = None,
    watch: Callable[[KeysExecutionState], None] | None = None,
) -> Runner[KeysExecutionState]:
    """What goes on with an execution."""
    machine = KeysMachine(world, clock, None)
    return Runner(machine, journal, lease, number, state, clock=clock, sleep=clock.sleep, watch=watch)
