"""The logs of a simulated store: one a group, the same on all nodes, with the meaning of a plain model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from simulate.masters.machine import StoreWorldProtocol
from trimtab_store.core.messages import (
    AppendMessages,
    ClaimMastership,
    Entry,
    MessageRecord,
    TransferMastership,
)
from trimtab_store.core.paxos import PaxosLog
from trimtab_store.core.settings import TransferScheme
from trimtab_store.core.state import GroupState
from trimtab_store.core.stored import GroupLog


class GroupModel:
    """What a log makes of a group, written a second time and plainly: who may write, and what is there."""

    def __init__(self) -> None:
        self._waiting: dict[int, Entry] = {}
        self._next = 1
        self._version, self._writer = 0, (-1, 0)
        self._last: dict[tuple[str, str], int] = {}
        self.master = self.pending = -1
        self.fence = 0
        self.topics: dict[str, list[MessageRecord]] = {}

    @property
    def slot(self) -> int:
        """The last slot that was worked off."""
        return self._next - 1

    def chosen(self, slot: int, entry: Entry) -> None:
        """A slot's value is known; it is worked off when all before it are."""
        if slot >= self._next:
            self._waiting[slot] = entry
        while self._next in self._waiting:
            self._work_off(self._next, self._waiting.pop(self._next))
            self._next += 1

    def _work_off(self, slot: int, entry: Entry) -> None:
        if isinstance(entry, ClaimMastership) and entry.expected == self._version:
            if self._writer != (entry.node, entry.nonce[0]):
                self._writer, self.fence = (entry.node, entry.nonce[0]), slot
            self.master, self.pending, self._version = entry.node, -1, slot
        elif isinstance(entry, TransferMastership):
            if entry.expected == self._version and self.pending < 0:
                self.fence = self._version = slot
                self._writer = entry.preferred, entry.ready[0]
                if entry.scheme == TransferScheme.INSTATE:
                    self.master = entry.preferred
                else:
                    self.pending = entry.preferred
        elif isinstance(entry, AppendMessages) and entry.fence == self.fence:
            for record in entry.records:
                key = record.topic, record.producer
                if record.sequence == self._last.get(key, 0) + 1:
                    self._last[key] = record.sequence
                    self.topics.setdefault(record.topic, []).append(record)


class AppliedLogs:
    """What all nodes have applied, slot by slot.

    Attributes
    ----------
    hands
        Transfers for which a current master handed its mastership over, by group and version of that: whether
        all consumers had handed in their offsets.
    switches
        Transfers in logs, by group and slot: the fence before, and whether it was such a clean one.
    """

    def __init__(self, world: StoreWorldProtocol, broken: Callable[[str, str], None]) -> None:
        self._world, self._broken = world, broken
        groups, nodes = range(world.groups), range(world.nodes)
        self._applied = dict.fromkeys(
            ((node, group) for node in nodes for group in range(-1, world.groups)), 0
        )
        self._versions = dict.fromkeys(((node, group) for node in nodes for group in groups), 0)
        self._offsets: dict[tuple[int, int], dict[tuple[str, str], int]] = {}
        self._values: dict[tuple[int, int], Entry] = {}
        self._models = {group: GroupModel() for group in groups}
        self._writers: dict[tuple[int, int], int] = {}
        self._fences: dict[int, int] = defaultdict(int)
        self.hands: dict[tuple[int, int], bool] = {}
        self.switches: dict[tuple[int, int], tuple[int, bool]] = {}

    def restarted(self, node: int) -> None:
        """A node has started again: what it knew may be less than it was."""
        for group in range(-1, self._world.groups):
            self._applied[node, group] = 0
            if group >= 0:
                self._versions[node, group] = 0
                self._offsets.pop((node, group), None)

    def entry(self, log: GroupLog, group: int, slot: int) -> Entry | None:
        """What stands in a slot, as far as a node or the store still knows."""
        if isinstance(log, PaxosLog):
            return log.acceptor.accepted.get(slot, (None, None))[1]
        assert self._world.store is not None
        return self._world.store.history.get((group, slot))

    def after(self, node: int, group: int, log: GroupLog) -> None:
        """A node may have applied more of a log."""
        key, applied = (node, group), log.applied
        before = self._applied[key]
        if applied == before:
            return
        self._applied[key] = applied
        for slot in range(before + 1, applied + 1):
            entry = self.entry(log, group, slot)
            if entry is not None:
                self._value(node, group, slot, entry)
        if group < 0:
            return
        state = self._world.state(node, group)
        if state.version < self._versions[key]:
            self._broken("I3", f"the version of group {group} fell to {state.version} on node {node}")
        self._versions[key] = state.version
        if state.fence and self._writers.setdefault((group, state.fence), state.writer) != state.writer:
            self._broken("I3", f"group {group} has two writers under fence {state.fence}")
        offsets = self._offsets.setdefault(key, {})
        for which, offset in state.offsets.items():
            if offset < offsets.get(which, 0):
                self._broken("I5", f"the offset of {which} fell to {offset} on node {node}")
            offsets[which] = offset

    def _value(self, node: int, group: int, slot: int, entry: Entry) -> None:
        known = self._values.setdefault((group, slot), entry)
        if type(known) is not type(entry) or known != entry:
            self._broken("I2", f"slot {slot} of group {group} is {entry} on node {node}, {known} elsewhere")
        if group >= 0:
            self._models[group].chosen(slot, entry)
        if isinstance(entry, TransferMastership | ClaimMastership):
            fence = self._world.state(node, group).fence
            if isinstance(entry, TransferMastership) and slot == fence:
                clean = self.hands.get((group, entry.expected), False)
                self.switches.setdefault((group, slot), (self._fences[group], clean))
            # A node that has applied several slots at once has a fence that came behind this one.
            if fence <= slot:
                self._fences[group] = max(self._fences[group], fence)

    def ended(self, number: int) -> GroupState:
        """All is quiet: one state of the group everywhere, as its log makes it; that of who is furthest."""
        groups = [machine.core.groups[number] for machine in self._world.machines if machine.core]
        # A renewal may be on its way to some: nodes are compared with those that are as far.
        states: dict[int, Any] = {}
        for one in groups:
            if states.setdefault(one.log.applied, one.state.snapshot()) != one.state.snapshot():
                self._broken("I2", f"nodes hold different states of group {number} after the same slot")
        model = self._models[number]
        if max(states) - min(states) > 2:
            self._broken("I7", f"nodes are at slots {sorted(states)} of group {number} though all is quiet")
        state = max(groups, key=lambda one: one.log.applied).state
        # A slot that every node had in a snapshot at once is not known here.
        if model.slot == max(states) and (model.master, model.fence, model.topics) != (
            state.master,
            state.fence,
            state.topics,
        ):
            self._broken("I3", f"group {number} is not what its log makes of it by the rules")
        return state
