"""Logs of one group on three nodes, in virtual time, by either engine, with faults of whatever is between."""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random
from typing import Any

from simulate.masters.store import SimulatedLogStore
from trimtab_store.core.messages import (
    AppendMessages,
    ClaimMastership,
    Entry,
    MessageRecord,
    SendMessage,
    StoreEvent,
    StoreRequest,
    WriteLog,
)
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.settings import StoreSettings
from trimtab_store.core.state import GroupState
from trimtab_store.core.stored import STORE, ConsensusEngine

GROUP = 0
RENEWAL_SECONDS = 2.5


def batch(node: int, sequence: int, fence: int = 0) -> AppendMessages:
    """A batch of one message."""
    return AppendMessages(fence, (MessageRecord("t", f"p{node}", sequence, b""),))


class One:
    """One node's log, and what came of it: the state of the group and every applied entry, in order."""

    def __init__(self, logs: Logs, node: int, life: int, written: list[Any]) -> None:
        self.context = NodeContext(node, 3, life, logs.settings, logs.now)
        self.logs = logs
        self.applied: list[tuple[int, Entry]] = []
        self.state = GroupState()
        self.log = logs.engine.log(self.context, GROUP, self._apply, self._snapshot, self._restore)
        self.log.recover(written)
        self.context.orders.clear()
        self.wake_at = float("inf")

    def _apply(self, slot: int, entry: Entry) -> None:
        before = self.applied[-1][0] if self.applied else 0
        assert slot == before + 1, f"slot {slot} is applied after {before}"
        known = self.logs.values.setdefault(slot, entry)
        assert known == entry, f"slot {slot} is {entry} here, and {known} elsewhere"
        self.applied.append((slot, entry))
        self.state.apply(slot, entry)

    def _snapshot(self) -> tuple[Any, ...]:
        return tuple(self.applied), self.state.snapshot()

    def _restore(self, value: tuple[Any, ...]) -> None:
        applied, state = value
        self.applied = list(applied)
        self.state.restore(state)


class Logs:
    """Three nodes, and where their engine has one a store.

    Attributes
    ----------
    loss, late_seconds
        Chance that a message, a question or an answer is lost; the most that it may come late.
    cut
        Nodes that nothing reaches, and that reach nothing.
    values
        Slot to what was applied there, by whichever node first.
    """

    def __init__(self, engine: ConsensusEngine, seed: int = 0, **settings: Any) -> None:
        self.engine, self.chance = engine, Random(seed)
        self.settings = StoreSettings(renewal_seconds=RENEWAL_SECONDS, **settings)
        self.now = 0.0
        self.loss = self.late_seconds = 0.0
        self.cut: set[int] = set()
        self.values: dict[int, Entry] = {}
        self.store = SimulatedLogStore()
        self.disks: list[list[Any]] = [[], [], []]
        self._queue: list[tuple[float, int, Any]] = []
        self._count = self._peers = 0
        self.nodes = [self._start(node) for node in range(3)]

    def _start(self, node: int) -> One:
        self._peers += 1
        embedded = self.engine.max_nodes is not None
        return One(self, node, self._peers, self.disks[node] if embedded else self.store.read(GROUP, 1))

    def restart(self, node: int) -> None:
        """Kill a node, and start it again on what there is."""
        self.nodes[node] = self._start(node)

    def propose(self, node: int, entry: Entry) -> None:
        """Have a node propose."""
        self.nodes[node].context.now = self.now
        self.nodes[node].log.propose(entry)
        self._perform(self.nodes[node])

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        for one in self.nodes:
            self._wake(one)
        while self._queue and self._queue[0][0] <= end:
            self.now, _, do = heappop(self._queue)
            do()
        self.now = end

    def at(self, delay: float, do: Any) -> None:
        """Have something happen later."""
        self._count += 1
        heappush(self._queue, (self.now + delay, self._count, do))

    # ------------------------------------------------------------ what nodes order

    def _perform(self, one: One) -> None:
        orders, one.context.orders = one.context.orders, []
        node = one.context.node
        for order in orders:
            match order:
                case WriteLog(_, written):
                    self.disks[node].append(written)
                case SendMessage(to, _, message) if isinstance(to, int):
                    self._carry(node, to, lambda to=to, message=message: self._receive(to, node, message))
                case StoreRequest():
                    self._carry(node, STORE, lambda order=order: self._asked(one, order))
        self._wake(one)

    def _carry(self, sender: int, to: int, do: Any) -> None:
        if sender == to:
            self.at(0.0, do)
        elif not self.cut & {sender, to} and self.chance.random() >= self.loss:
            self.at(0.002 + self.late_seconds * self.chance.random() ** 4, do)

    def _asked(self, one: One, request: StoreRequest) -> None:
        answers, seen = self.store.request(request)
        for told in answers:
            self._carry(STORE, one.context.node, lambda told=told: self._tell(one, told))
        for other in self.nodes:
            for told in seen:
                node = other.context.node
                self._carry(STORE, node, lambda other=other, told=told: self._tell(other, told))

    def _tell(self, one: One, told: StoreEvent) -> None:
        if one is self.nodes[one.context.node]:  # not an earlier life
            self._receive(one.context.node, STORE, told.event)

    def _receive(self, node: int, sender: int, message: Any) -> None:
        one = self.nodes[node]
        one.context.now = self.now
        one.log.received(sender, message)
        self._perform(one)

    def _wake(self, one: One) -> None:
        due = max(one.log.next_deadline(), self.now + 1e-4)
        if due < one.wake_at:
            one.wake_at = due
            self.at(due - self.now, lambda: self._woken(one, due))

    def _woken(self, one: One, due: float) -> None:
        if one is self.nodes[one.context.node] and due == one.wake_at:
            one.wake_at, one.context.now = float("inf"), self.now
            one.log.tick()
            self._perform(one)

    # ------------------------------------------------------------ what came of it

    def entries(self, node: int = 0) -> list[Entry]:
        """What a node has applied."""
        return [entry for _, entry in self.nodes[node].applied]

    def alike(self) -> bool:
        """Whether all nodes have applied the same."""
        return self.entries(0) == self.entries(1) == self.entries(2)

    def counted(self, node: int, at: int = 0) -> list[int]:
        """The sequences of a producer that a node has stored, in their order."""
        records = self.nodes[at].state.topics.get("t", [])
        return [one.sequence for one in records if one.producer == f"p{node}"]


def be_master(node: int, count: int, expected: int) -> ClaimMastership:
    """A wish to be master, of a nonce of its own."""
    return ClaimMastership(node, (1000 + node, count), expected)
