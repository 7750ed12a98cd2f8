"""One checker an invariant, told of everything; a broken one ends the run with a sentence."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from trimtab.lab.simulate.masters.clients import Consumer
from trimtab.lab.simulate.masters.machine import Machine, Stage
from trimtab.lab.simulate.masters.model import Model
from trimtab.online.masters.entries import BeMaster, Entry, Nonce, Record, TakeOver
from trimtab.online.masters.group import Group
from trimtab.online.masters.incumbent import Incumbent, Phase
from trimtab.online.masters.log import GroupLog
from trimtab.online.masters.messages import (
    Accept,
    Ballot,
    Due,
    OffsetKept,
    Published,
    Pulled,
    Ready,
    Received,
    Send,
)
from trimtab.online.masters.replica import Replica
from trimtab.online.masters.settings import Scheme
from trimtab.online.masters.slots import Ask, Create, Fact, Told
from trimtab.online.masters.state import NOBODY
from trimtab.online.masters.token import CLUSTER

TOLD_OF = Accept, Ready, Published, Pulled, OffsetKept
"""Messages that leave a node and are looked at."""


class ViolationError(Exception):
    """An invariant was broken."""


class Checkers:
    """I1 to I8 of the protocol's page, over all nodes at true time.

    Parameters
    ----------
    clocks_kept
        Whether clocks drift no more than promised: I1 and I6 are promised under that condition alone.
    """

    def __init__(self, world: Stage, *, clocks_kept: bool) -> None:
        self._world, self._clocks_kept = world, clocks_kept
        groups, nodes = range(world.groups), range(world.nodes)
        self._terms = {(node, group): float("-inf") for node in nodes for group in groups}
        self._applied = dict.fromkeys(
            ((node, group) for node in nodes for group in range(-1, world.groups)), 0
        )
        self._versions = dict.fromkeys(self._terms, 0)
        self._offsets: dict[tuple[int, int], dict[tuple[str, str], int]] = {}
        self._values: dict[tuple[int, int], Entry] = {}
        self._sent_at: dict[tuple[int, Any], float] = {}
        self._tokens: dict[int, float] = {}
        self._models = {group: Model() for group in groups}
        self._writers: dict[tuple[int, int], int] = {}
        self._stored: dict[tuple[int, str, str], int] = {}
        self._read: dict[tuple[int, str, int], Record] = {}
        self._hands: dict[tuple[int, int], bool] = {}
        self._handed: dict[tuple[int, TakeOver], Ballot] = {}
        self._switches: dict[tuple[int, int], tuple[int, bool]] = {}
        self._fences: dict[int, int] = defaultdict(int)
        self._flags: dict[tuple[int, int], dict[str, tuple[int, float]]] = {}
        self._mastered = dict.fromkeys(groups, float("-inf"))
        self.handed_at: dict[int, float] = {}
        self.takeovers: list[float] = []
        self.clean = 0

    def broken(self, invariant: str, what: str) -> None:
        """End the run."""
        raise ViolationError(f"{invariant} at {self._world.now:.3f} s: {what}")

    def begun_anew(self, node: int) -> None:
        """A node has started again: what it knew may be less than it was."""
        for group in range(-1, self._world.groups):
            self._applied[node, group] = 0
            if group >= 0:
                self._terms[node, group] = float("-inf")
                self._versions[node, group] = 0
                self._offsets.pop((node, group), None)
                self._flags.pop((node, group), None)

    def after(self, machine: Machine, fact: Fact) -> None:
        """A node has taken a fact in.

        A message of a group changes that group alone, and the one that the node takes over, which it may
        leave for another one then.
        """
        core, node = machine.core, machine.number
        assert core is not None
        if core.token.log.applied != self._applied[node, CLUSTER]:
            self._logs(node, CLUSTER, core.token.log)
        self._token(machine)
        only = fact.group if isinstance(fact, Received | Told) else CLUSTER
        # Nothing is overdue at a node that has just been told the time.
        due = isinstance(fact, Due)
        for group in core.groups:
            number = group.number
            in_takeover = group.challenge is not None or group.incumbent is not None
            if only not in (CLUSTER, number) and not in_takeover and (node, number) not in self._flags:
                continue
            if group.log.applied != self._applied[node, number]:
                self._logs(node, number, group.log)
            if group.lease.own_until != self._terms[node, number]:
                self._authority(machine, group)
            self._pauses(machine, group, due=due)
            if in_takeover:
                self._cycles(machine, group, due=due)
            else:
                self._flags.pop((node, number), None)

    # ------------------------------------------------------------ I1

    def _authority(self, machine: Machine, group: Any) -> None:
        self._terms[machine.number, group.number] = group.lease.own_until
        if not self._held(machine, group.number):
            return
        self._mastered[group.number] = self._world.now
        self._term(machine, group)
        for other in self._world.machines:
            if other is not machine and self._held(other, group.number) and self._clocks_kept:
                self.broken(
                    "I1", f"nodes {other.number} and {machine.number} are both master of {group.number}"
                )
        handed = self.handed_at.pop(group.number, None)
        if handed is not None:
            self.takeovers.append(self._world.now - handed)
            self._world.note(f"node {machine.number} is master of group {group.number} by a takeover")

    def _sent(self, machine: Machine, nonce: Nonce) -> None:
        now = machine.clock.monotonic(self._world.now)
        self._sent_at.setdefault((machine.number, nonce), now)

    def _term(self, machine: Machine, group: Any) -> None:
        """A term ends no later than a shortened lease after what it rests on was sent, by the own clock."""
        entry = self._entry(group.log, group.number, group.state.version)
        nonce = entry.nonce if isinstance(entry, BeMaster) else getattr(entry, "ready", None)
        sent = self._sent_at.get((machine.number, nonce))
        if sent is not None and group.lease.own_until > sent + self._world.settings.own_seconds + 1e-9:
            self.broken("I1", f"the term of node {machine.number} in group {group.number} is too long")

    def _token(self, machine: Machine) -> None:
        assert machine.core is not None
        until = machine.core.token.lease.own_until
        if until == self._tokens.get(machine.number):
            return
        self._tokens[machine.number] = until
        held = [one.number for one in self._world.machines if self._holds_token(one)]
        if len(held) > 1 and self._clocks_kept:
            self.broken("I6", f"nodes {held} all hold the token")

    def _holds_token(self, machine: Machine) -> bool:
        if machine.core is None:
            return False
        return machine.clock.monotonic(self._world.now) < machine.core.token.lease.own_until

    def _held(self, machine: Machine, number: int) -> bool:
        if machine.core is None:
            return False
        return machine.clock.monotonic(self._world.now) < machine.core.groups[number].lease.own_until

    def _handing(
        self, machine: Machine, number: int, entry: TakeOver, ballot: Ballot = (0, 0), takeover_at: int = 0
    ) -> None:
        """A takeover leaves its incumbent: that one is master no more, and renews nothing meanwhile.

        Under a later ballot it comes back as what was once accepted, before anything new: what is asked for
        behind it counts only if it does not.
        """
        assert machine.core is not None
        group = machine.core.groups[number]
        if self._held(machine, number):
            self.broken("I1", f"node {machine.number} hands over group {number} and is master still")
        if self._handed.setdefault((number, entry), ballot) != ballot:
            return
        for slot, renewal in _under_way(group.log):
            if not isinstance(renewal, BeMaster) or renewal.node != machine.number:
                continue
            void = renewal.expected < entry.expected
            # A takeover that was given up for stays under way: what is asked for behind it is no renewal.
            behind = slot is not None and slot > takeover_at and group.incumbent is None
            if not void and not behind:
                self.broken("I1", f"node {machine.number} hands over group {number} beside a renewal")

    def asked(self, machine: Machine, ask: Ask) -> None:
        """The store is asked for slots: what is proposed leaves the node here."""
        for entry in ask.asked.entries if isinstance(ask.asked, Create) else ():
            match entry:
                case BeMaster(node, nonce) if node == machine.number:
                    self._sent(machine, nonce)
                case TakeOver(incumbent) if incumbent == machine.number:
                    self._handing(machine, ask.group, entry)

    def sent(self, machine: Machine, order: Send) -> None:
        """Whoever answers as master is it, or at least nobody else is."""
        message = order.message
        if not isinstance(message, TOLD_OF):
            return
        match message:
            case Accept(_, _, BeMaster(node, nonce)) if node == machine.number:
                self._sent(machine, nonce)
            case Ready(_, nonce):
                self._sent(machine, nonce)
            case Accept(ballot, slot, TakeOver(incumbent) as entry) if incumbent == machine.number:
                self._handing(machine, order.group, entry, ballot, slot)
            case Published(verdict="stored") | Pulled(verdict="stored") | OffsetKept():
                for other in self._world.machines:
                    if other is not machine and self._clocks_kept and self._held(other, order.group):
                        self.broken(
                            "I1", f"node {machine.number} answers {message} beside master {other.number}"
                        )

    # ------------------------------------------------------------ I2, I3, I5

    def _entry(self, log: GroupLog, group: int, slot: int) -> Entry | None:
        """What stands in a slot, as far as a node or the store still knows."""
        if isinstance(log, Replica):
            return log.acceptor.accepted.get(slot, (None, None))[1]
        assert self._world.store is not None
        return self._world.store.history.get((group, slot))

    def _logs(self, node: int, group: int, log: GroupLog) -> None:
        key, applied = (node, group), log.applied
        before = self._applied[key]
        self._applied[key] = applied
        for slot in range(before + 1, applied + 1):
            entry = self._entry(log, group, slot)
            if entry is not None:
                self._value(node, group, slot, entry)
        if group < 0:
            return
        state = self._world.state(node, group)
        if state.version < self._versions[key]:
            self.broken("I3", f"the version of group {group} fell to {state.version} on node {node}")
        self._versions[key] = state.version
        if state.fence and self._writers.setdefault((group, state.fence), state.writer) != state.writer:
            self.broken("I3", f"group {group} has two writers under fence {state.fence}")
        offsets = self._offsets.setdefault(key, {})
        for which, offset in state.offsets.items():
            if offset < offsets.get(which, 0):
                self.broken("I5", f"the offset of {which} fell to {offset} on node {node}")
            offsets[which] = offset

    def _value(self, node: int, group: int, slot: int, entry: Entry) -> None:
        known = self._values.setdefault((group, slot), entry)
        if type(known) is not type(entry) or known != entry:
            self.broken("I2", f"slot {slot} of group {group} is {entry} on node {node}, {known} elsewhere")
        if group >= 0:
            self._models[group].chosen(slot, entry)
        if isinstance(entry, TakeOver) and slot == self._world.state(node, group).fence:
            clean = self._hands.get((group, entry.expected), False)
            self._switches.setdefault((group, slot), (self._fences[group], clean))
        if isinstance(entry, TakeOver | BeMaster):
            self._fences[group] = max(self._fences[group], self._world.state(node, group).fence)

    # ------------------------------------------------------------ I4, I5 as clients see them

    def stored(self, group: int, message: Published) -> None:
        """A producer was told that its message is stored."""
        key = group, message.topic, message.producer
        self._stored[key] = max(self._stored.get(key, 0), message.sequence)

    def pulled(self, consumer: Consumer, sender: int, message: Pulled, *, fresh: bool) -> None:
        """A consumer got messages."""
        state = self._world.state(sender, consumer.group) if self._world.machines[sender].core else None
        if fresh:
            # What is kept while the answer is under way may have overtaken it.
            if message.offset < consumer.kept_before:
                self.broken(
                    "I5", f"{consumer.name} begins at {message.offset}, and {consumer.kept_before} was kept"
                )
            if message.offset > consumer.position:
                self.broken(
                    "I5", f"{consumer.name} begins at {message.offset}, and was at {consumer.position}"
                )
            switch = self._switches.get((consumer.group, state.fence)) if state else None
            if switch == (consumer.fence, True) and message.offset < consumer.position:
                self.broken(
                    "I5", f"{consumer.name} gets {message.offset} again after a clean takeover, "
                    f"and was at {consumer.position}"
                )  # fmt: skip
            self.clean += switch == (consumer.fence, True)
        if state is not None:
            consumer.fence = state.fence
        for offset, record in enumerate(message.records, message.offset):
            known = self._read.setdefault((consumer.group, message.topic, offset), record)
            if known != record:
                self.broken("I4", f"{consumer.name} read {record} at {offset}, and {known} stood there")

    # ------------------------------------------------------------ I6, I8

    def _pauses(self, machine: Machine, group: Group, *, due: bool) -> None:
        world, held = self._world, group.intake.held_since
        settings, local = world.settings, machine.clock.monotonic(world.now)
        most = settings.lease_seconds
        if settings.scheme is Scheme.AWAIT and group.state.ideal != NOBODY:
            most += settings.renewal_seconds
        if group.lease.others_until - local > most + 1e-9:
            self.broken(
                "I8", f"node {machine.number} leaves group {group.number} alone for more than {most:g} s"
            )
        if due and held is not None and local - held > 2 * settings.propose_seconds:
            self.broken("I8", f"node {machine.number} holds messages of group {group.number}")

    def _cycles(self, machine: Machine, group: Group, *, due: bool) -> None:
        world, key = self._world, (machine.number, group.number)
        settings, local = world.settings, machine.clock.monotonic(world.now)
        flags = self._flags.setdefault(key, {})
        for kind, cycle in (("incumbent", group.incumbent), ("challenge", group.challenge)):
            if cycle is None:
                flags.pop(kind, None)
                continue
            if isinstance(cycle, Incumbent) and cycle.phase is Phase.HANDING:
                first = (group.number, group.state.version) not in self._hands
                if first and group.state.ideal < 0 and not group.lease.held:
                    self._hands[group.number, group.state.version] = cycle.clean
                    self.handed_at[group.number] = world.now
                    world.moment()
            known = flags.get(kind)
            if known is None or known[0] != cycle.cycle:
                flags[kind] = cycle.cycle, local
                self._alone(machine, group.number)
            elif due and local - known[1] > settings.cycle_seconds + 2 * settings.retry_seconds:
                self.broken(
                    "I8",
                    f"the {kind} of group {group.number} on node {machine.number} has outlived the cycle",
                )

    def _alone(self, machine: Machine, number: int) -> None:
        for other in self._world.machines:
            if other.core is None or not self._clocks_kept:
                continue
            local = other.clock.monotonic(self._world.now)
            for group in other.core.groups:
                for cycle in (group.incumbent, group.challenge):
                    if cycle is not None and group.number != number and local < cycle.until:
                        self.broken("I6", f"groups {number} and {group.number} are both in takeover")

    # ------------------------------------------------------------ I7, and the rest of I4 at the end

    def mastered(self, since: float) -> None:
        """Faults have ended L + R + few P ago: every group has had a master since.

        Not necessarily now: a takeover by the first scheme takes as long as a term.
        """
        for number in range(self._world.groups):
            held = any(self._held(machine, number) for machine in self._world.machines)
            if not held and self._mastered[number] < since:
                self.broken("I7", f"group {number} has no master")

    def ended(self) -> None:
        """All is quiet: ideal masters, one state everywhere, and everything that was acknowledged."""
        for number, ideal in enumerate(self._world.map.ideal):
            masters = [machine.number for machine in self._world.machines if self._held(machine, number)]
            if masters != [ideal]:
                self.broken("I7", f"group {number} has masters {masters}, ideally {ideal}")
            groups = [machine.core.groups[number] for machine in self._world.machines if machine.core]
            # A renewal may be on its way to some: nodes are compared with those that are as far.
            states: dict[int, Any] = {}
            for one in groups:
                if states.setdefault(one.log.applied, one.state.snapshot()) != one.state.snapshot():
                    self.broken("I2", f"nodes hold different states of group {number} after the same slot")
            model = self._models[number]
            if max(states) - min(states) > 2:
                self.broken(
                    "I7", f"nodes are at slots {sorted(states)} of group {number} though all is quiet"
                )
            state = max(groups, key=lambda one: one.log.applied).state
            # A slot that every node had in a snapshot at once is not known here.
            if model.slot == max(states) and (model.master, model.fence, model.topics) != (
                state.master,
                state.fence,
                state.topics,
            ):
                self.broken("I3", f"group {number} is not what its log makes of it by the rules")
            for (group, topic, producer), last in self._stored.items():
                if group != number:
                    continue
                there = [one.sequence for one in state.topics.get(topic, []) if one.producer == producer]
                if there != list(range(1, len(there) + 1)) or len(there) < last:
                    self.broken(
                        "I4", f"of {producer} {last} were acknowledged, and {there[-5:]} are the last there"
                    )
        for (number, topic, offset), record in self._read.items():
            if self._world.state(0, number).topics[topic][offset] != record:
                self.broken("I4", f"what was read at {offset} of {topic} is not there")


def _under_way(log: GroupLog) -> list[tuple[int | None, Entry]]:
    """What has left a node and is not known to be chosen, with its slot where the node gives slots."""
    if isinstance(log, Replica):
        return [(slot, one.entry) for slot, one in log.proposer.under_way.items()]
    return [(None, entry) for entry in log.under_way]
