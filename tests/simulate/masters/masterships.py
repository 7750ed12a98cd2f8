"""I1, I6, I7 and I8: who is master, for how long, and how masterships change hands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulate.masters.logs import AppliedLogs
from simulate.masters.machine import SimulatedNode, StoreWorldProtocol
from trimtab_store.core.group import ReplicatedGroup
from trimtab_store.core.messages import (
    Accept,
    Ballot,
    ClaimMastership,
    CreateEntries,
    Entry,
    FetchResponse,
    Nonce,
    OffsetCommitted,
    ProduceResponse,
    SendMessage,
    StoreRequest,
    TransferMastership,
    TransferReady,
)
from trimtab_store.core.paxos import PaxosLog
from trimtab_store.core.settings import TransferScheme
from trimtab_store.core.state import NO_MASTER
from trimtab_store.core.stored import GroupLog
from trimtab_store.core.transfer import OutgoingTransfer, TransferPhase

REPORTED_EVENTS = Accept, TransferReady, ProduceResponse, FetchResponse, OffsetCommitted
"""Messages that leave a node and are looked at."""


class MastershipChecker:
    """Terms, tokens and transfers, over all nodes at true time.

    Parameters
    ----------
    clock_history
        See `InvariantCheckers`.

    Attributes
    ----------
    transfers
        Seconds that each took, from the current master's proposal to the next mastership.
    """

    def __init__(
        self,
        world: StoreWorldProtocol,
        logs: AppliedLogs,
        broken: Callable[[str, str], None],
        *,
        clock_history: bool,
    ) -> None:
        self._world, self._logs, self._broken, self._clock_history = world, logs, broken, clock_history
        groups, nodes = range(world.groups), range(world.nodes)
        self._terms = {(node, group): float("-inf") for node in nodes for group in groups}
        self._sent_at: dict[tuple[int, Any], float] = {}
        self._tokens: dict[int, float] = {}
        self._handed: dict[tuple[int, TransferMastership], Ballot] = {}
        self._handed_at: dict[int, float] = {}
        self._flags: dict[tuple[int, int], dict[str, tuple[int, float]]] = {}
        self._mastered = dict.fromkeys(groups, float("-inf"))
        self.transfers: list[float] = []

    def restarted(self, node: int) -> None:
        """A node has started again: it is master of nothing."""
        for group in range(self._world.groups):
            self._terms[node, group] = float("-inf")
            self._flags.pop((node, group), None)

    def moving(self, node: int, group: ReplicatedGroup) -> bool:
        """Whether a node takes part in a transfer of the group, or did when it was last looked at."""
        return (
            group.incoming_transfer is not None
            or group.outgoing_transfer is not None
            or (node, group.number) in self._flags
        )

    def after(self, machine: SimulatedNode, group: ReplicatedGroup, *, deadline: bool) -> None:
        """A group may have changed at a node, which was told the time if `due`."""
        key = machine.number, group.number
        if group.lease.own_until != self._terms[key]:
            self._authority(machine, group)
        self._pauses(machine, group, deadline=deadline)
        if group.incoming_transfer is not None or group.outgoing_transfer is not None:
            self._cycles(machine, group, deadline=deadline)
        else:
            self._flags.pop(key, None)

    # ------------------------------------------------------------ I1, and I6 of the token

    def _authority(self, machine: SimulatedNode, group: Any) -> None:
        self._terms[machine.number, group.number] = group.lease.own_until
        if not self._held(machine, group.number):
            return
        self._mastered[group.number] = self._world.now
        self._term(machine, group)
        for other in self._world.machines:
            if other is not machine and self._held(other, group.number) and self._clock_history:
                self._broken(
                    "I1", f"nodes {other.number} and {machine.number} are both master of {group.number}"
                )
        handed = self._handed_at.pop(group.number, None)
        if handed is not None:
            self.transfers.append(self._world.now - handed)
            self._world.note(f"node {machine.number} is master of group {group.number} by a transfer")

    def _sent(self, machine: SimulatedNode, nonce: Nonce) -> None:
        now = machine.clock.read(self._world.now)
        self._sent_at.setdefault((machine.number, nonce), now)

    def _term(self, machine: SimulatedNode, group: Any) -> None:
        """A term ends no later than a shortened lease after what it rests on was sent, by the own clock."""
        entry = self._logs.entry(group.log, group.number, group.state.version)
        nonce = entry.nonce if isinstance(entry, ClaimMastership) else getattr(entry, "ready", None)
        sent = self._sent_at.get((machine.number, nonce))
        settings = self._world.settings
        term = settings.lease_seconds * (1 - settings.margin)
        if sent is not None and group.lease.own_until > sent + term + 1e-9:
            self._broken("I1", f"the term of node {machine.number} in group {group.number} is too long")

    def token(self, machine: SimulatedNode) -> None:
        """A node may have come to hold the token, or lost it."""
        assert machine.core is not None
        until = machine.core.token.lease.own_until
        if until == self._tokens.get(machine.number):
            return
        self._tokens[machine.number] = until
        held = [one.number for one in self._world.machines if self._holds_token(one)]
        if len(held) > 1 and self._clock_history:
            self._broken("I6", f"nodes {held} all hold the token")

    def _holds_token(self, machine: SimulatedNode) -> bool:
        if machine.core is None:
            return False
        return machine.clock.read(self._world.now) < machine.core.token.lease.own_until

    def _held(self, machine: SimulatedNode, number: int) -> bool:
        if machine.core is None:
            return False
        return machine.clock.read(self._world.now) < machine.core.groups[number].lease.own_until

    def _on_transfer(
        self,
        machine: SimulatedNode,
        number: int,
        entry: TransferMastership,
        ballot: Ballot = (0, 0),
        transfer_at: int = 0,
    ) -> None:
        """A transfer leaves its current master: that one is master no more, and renews nothing meanwhile.

        Under a later ballot it comes back as what was once accepted, before anything new: what is asked for
        behind it counts only if it does not.
        """
        assert machine.core is not None
        group = machine.core.groups[number]
        if self._held(machine, number):
            self._broken("I1", f"node {machine.number} hands over group {number} and is master still")
        if self._handed.setdefault((number, entry), ballot) != ballot:
            return
        for slot, renewal in _in_flight(group.log):
            if not isinstance(renewal, ClaimMastership) or renewal.node != machine.number:
                continue
            void = renewal.expected < entry.expected
            # A transfer that was given up for stays under way: what is asked for behind it is no renewal.
            behind = slot is not None and slot > transfer_at and group.outgoing_transfer is None
            if not void and not behind:
                self._broken("I1", f"node {machine.number} hands over group {number} beside a renewal")

    def store_requested(self, machine: SimulatedNode, ask: StoreRequest) -> None:
        """The store is asked for slots: what is proposed leaves the node here."""
        for entry in ask.request.entries if isinstance(ask.request, CreateEntries) else ():
            match entry:
                case ClaimMastership(node, nonce) if node == machine.number:
                    self._sent(machine, nonce)
                case TransferMastership(current_master) if current_master == machine.number:
                    self._on_transfer(machine, ask.group, entry)

    def sent(self, machine: SimulatedNode, order: SendMessage) -> None:
        """Whoever answers as master is it, or at least nobody else is."""
        message = order.message
        if not isinstance(message, REPORTED_EVENTS):
            return
        match message:
            case Accept(_, _, ClaimMastership(node, nonce)) if node == machine.number:
                self._sent(machine, nonce)
            case TransferReady(_, nonce):
                self._sent(machine, nonce)
            case Accept(ballot, slot, TransferMastership(current_master) as entry) if (
                current_master == machine.number
            ):
                self._on_transfer(machine, order.group, entry, ballot, slot)
            case ProduceResponse(verdict="stored") | FetchResponse(verdict="stored") | OffsetCommitted():
                for other in self._world.machines:
                    if other is not machine and self._clock_history and self._held(other, order.group):
                        self._broken(
                            "I1", f"node {machine.number} answers {message} beside master {other.number}"
                        )

    # ------------------------------------------------------------ I6, I8

    def _pauses(self, machine: SimulatedNode, group: ReplicatedGroup, *, deadline: bool) -> None:
        world, held = self._world, group.produce_queue.held_since
        settings, local = world.settings, machine.clock.read(world.now)
        most = settings.lease_seconds
        if settings.scheme is TransferScheme.AWAIT and group.state.preferred != NO_MASTER:
            most += settings.renewal_seconds
        if group.lease.others_until - local > most + 1e-9:
            self._broken(
                "I8", f"node {machine.number} leaves group {group.number} alone for more than {most:g} s"
            )
        if deadline and held is not None and local - held > 2 * settings.propose_seconds:
            self._broken("I8", f"node {machine.number} holds messages of group {group.number}")

    def _cycles(self, machine: SimulatedNode, group: ReplicatedGroup, *, deadline: bool) -> None:
        world, key = self._world, (machine.number, group.number)
        settings, local = world.settings, machine.clock.read(world.now)
        flags = self._flags.setdefault(key, {})
        for kind, cycle in (("outgoing", group.outgoing_transfer), ("incoming", group.incoming_transfer)):
            if cycle is None:
                flags.pop(kind, None)
                continue
            if isinstance(cycle, OutgoingTransfer) and cycle.phase is TransferPhase.HANDING:
                first = (group.number, group.state.version) not in self._logs.hands
                if first and group.state.preferred < 0 and not group.lease.held:
                    self._logs.hands[group.number, group.state.version] = cycle.clean
                    self._handed_at[group.number] = world.now
                    world.fault_point()
            known = flags.get(kind)
            if known is None or known[0] != cycle.cycle:
                flags[kind] = cycle.cycle, local
                self._alone(machine, group.number)
            elif deadline and local - known[1] > settings.cycle_seconds + 2 * settings.retry_seconds:
                self._broken(
                    "I8",
                    f"the {kind} of group {group.number} on node {machine.number} has outlived the cycle",
                )

    def _alone(self, machine: SimulatedNode, number: int) -> None:
        for other in self._world.machines:
            if other.core is None or not self._clock_history:
                continue
            local = other.clock.read(self._world.now)
            for group in other.core.groups:
                for cycle in (group.outgoing_transfer, group.incoming_transfer):
                    if cycle is not None and group.number != number and local < cycle.until:
                        self._broken("I6", f"groups {number} and {group.number} are both in transfer")

    # ------------------------------------------------------------ I7

    def mastered(self, since: float) -> None:
        """Faults have ended L + R + few P ago: every group has had a master since.

        Not necessarily now: a transfer by the first scheme takes as long as a term.
        """
        for number in range(self._world.groups):
            held = any(self._held(machine, number) for machine in self._world.machines)
            if not held and self._mastered[number] < since:
                self._broken("I7", f"group {number} has no master")

    def ended(self, number: int, preferred: int | None) -> None:
        """All is quiet: the master of a group is its preferred one, or any where that one cannot be."""
        masters = [machine.number for machine in self._world.machines if self._held(machine, number)]
        if masters != [preferred] and (preferred is not None or len(masters) != 1):
            self._broken("I7", f"group {number} has masters {masters}, ideally {preferred}")


def _in_flight(log: GroupLog) -> list[tuple[int | None, Entry]]:
    """What has left a node and is not known to be chosen, with its slot where the node gives slots."""
    if isinstance(log, PaxosLog):
        return [(slot, one.entry) for slot, one in log.proposer.in_flight.items()]
    return [(None, entry) for entry in log.in_flight]
