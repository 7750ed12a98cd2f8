"""One group on one node: its log, its lease, its clients and its takeovers, put together."""

from __future__ import annotations

from math import inf
from typing import Any

from trimtab.online.masters.challenge import Challenge
from trimtab.online.masters.entries import Append, BeMaster, Entry, Nonce, SyncOffsets, TakeOver
from trimtab.online.masters.incumbent import Incumbent, Phase
from trimtab.online.masters.intake import Intake
from trimtab.online.masters.lease import Lease
from trimtab.online.masters.log import MakeLog
from trimtab.online.masters.messages import (
    AskReady,
    AskStanding,
    Ended,
    Forward,
    Probe,
    Probed,
    Publish,
    Pull,
    Ready,
    Report,
    Standing,
    Start,
    Upload,
)
from trimtab.online.masters.readers import Readers
from trimtab.online.masters.rests import Rests
from trimtab.online.masters.settings import Scheme
from trimtab.online.masters.state import NOBODY, GroupState
from trimtab.online.masters.station import Station
from trimtab.online.masters.tally import Tally


class Group:
    """A group on a node.

    Attributes
    ----------
    state, log, lease
        What is replicated, by which log, and who holds it by this node's clock.
    intake, readers
        Its producers' messages, and its consumers.
    asked
        Nonce to when it was proposed, of masterships of which it is not known whether they were chosen.
    incumbent, challenge
        A takeover from this node, and one to it.
    tally
        What this node has done for it.
    rests
        From which nodes it is kept for a while.
    """

    def __init__(self, station: Station, number: int, make_log: MakeLog) -> None:
        self.station, self.number = station, number
        self.state = GroupState(station.settings.keep_bytes)
        self.lease = Lease(station, station.settings.lease_seconds)
        self.log = make_log(station, number, self._apply, self.state.snapshot, self._restore)
        self.asked: dict[Nonce, float] = {}
        self.incumbent: Incumbent | None = None
        self.challenge: Challenge | None = None
        self.tally = Tally()
        self.rests = Rests(station.settings.rest_seconds)
        parts = station, number, self.state, self.lease, self.log, self.tally
        self.intake, self.readers = Intake(*parts), Readers(*parts)
        self._held_since: float | None = None
        self._recovering = False
        self._look_at = inf
        # Nodes try in turn, or they would try against one another.
        renewal = station.settings.renewal_seconds
        self._try_at = station.now + renewal * ((station.node + number) % station.nodes) / station.nodes

    def recover(self, written: list[Any]) -> None:
        """See `GroupLog.recover`."""
        self._recovering = True
        self.log.recover(written)
        self._recovering = False
        self.lease.others_until = self.station.now + self.station.settings.lease_seconds

    # ------------------------------------------------------------ time

    def due(self) -> float:
        """When to be woken though nothing happened."""
        return min(self._try_at, self.intake.due(), self.readers.due(), self._look_at, self.log.due())

    def go_on(self) -> None:
        """Do what is due."""
        now = self.station.now
        if now >= self._try_at:
            self._try_at = now + self.station.settings.renewal_seconds
            self._periodic()
        self.intake.go_on()
        self.readers.go_on()
        if now >= self._look_at:
            self.look()
        self.log.go_on()

    def look(self) -> None:
        """Go on with takeovers, if there are any."""
        self._look_at = inf
        if self.challenge is not None:
            self.challenge.step(self)
        if self.incumbent is not None:
            self.incumbent.step(self)
        if self.incumbent is not None or self.challenge is not None:
            self._look_at = self.station.now + self.station.settings.retry_seconds

    # ------------------------------------------------------------ mastership

    def _periodic(self) -> None:
        """Renew as master; become it where there seems to be none. Never while this node hands over."""
        if self.incumbent is not None and self.incumbent.forwards:
            return
        state, node = self.state, self.station.node
        # A takeover that was given up for and never chosen: the record still names this node.
        back = self.lease.given_up and (state.master, state.ideal) == (node, NOBODY)
        if self.lease.held or self.lease.open or back:
            self._be_master(state.version)

    def _be_master(self, expected: int) -> None:
        now, settings = self.station.now, self.station.settings
        if any(now - at < settings.propose_seconds for at in self.asked.values()):
            return
        nonce = self.lease.asking()
        self.asked[nonce] = now
        self.log.withdraw(BeMaster)
        self.log.propose(BeMaster(self.station.node, nonce, expected))

    def _apply(self, slot: int, entry: Entry) -> None:
        before = self.state.fence
        outcome = self.state.apply(slot, entry)
        if outcome and isinstance(entry, BeMaster | TakeOver):
            self.asked.clear()  # all of them expected an older version: void, whether chosen or not
        match entry:
            case Append(_, records):
                assert isinstance(outcome, tuple)
                self.intake.applied(records, outcome)
            case SyncOffsets(_, offsets):
                if outcome:
                    self.readers.kept(offsets)
            case BeMaster(node, nonce, _):
                if node == self.station.node:
                    self.asked.pop(nonce, None)
                if outcome:
                    self.rests.mastered(self.station.now, node)
                    self._mastered(slot, node, nonce)
            case TakeOver():
                if outcome:
                    self._taken_over(slot, entry)
                elif self.incumbent is not None and self.incumbent.phase is Phase.HANDING:
                    self.incumbent.end(self)
        if self.state.fence != before:
            self._fenced()
        if self.incumbent is not None:
            self.incumbent.step(self)
        if self.challenge is not None:
            self.challenge.answer(self)

    def _fenced(self) -> None:
        self.readers.fenced()
        self.intake.fenced()

    def _mastered(self, slot: int, node: int, nonce: Nonce) -> None:
        held = self.lease.held
        self.lease.taken(node, nonce, self.log.seen_at(slot))
        if self.lease.held and not held:
            self._held_since = self.station.now
        if self.incumbent is not None and self.incumbent.phase is Phase.HANDING:
            self.incumbent.end(self)
        if self.challenge is not None:
            self.challenge.became(node, self)

    def _taken_over(self, slot: int, entry: TakeOver) -> None:
        if not self._recovering:
            self.rests.taken(self.station.now, entry.ideal)
        if entry.scheme == Scheme.INSTATE:
            self._mastered(slot, entry.ideal, entry.ready)
            return
        ideal = entry.ideal == self.station.node
        if ideal:
            self.lease.named(entry.ready)
        awaits = entry.scheme == Scheme.AWAIT
        if ideal and awaits:
            self.lease.own_until = -inf  # the incumbent's term runs out by itself
        else:
            waits = self.station.settings.renewal_seconds if awaits else 0.0
            self.lease.handed(ends_now=ideal, waits=waits)
        if ideal and entry.scheme == Scheme.EXPIRE and not self._recovering:
            # Asked for here, chosen later if at all: it must not count after anything else has.
            self._be_master(slot)

    def _restore(self, value: tuple[Any, ...]) -> None:
        before = self.state.fence
        self.state.restore(value)
        self.lease.handed(ends_now=False)
        self.asked.clear()
        if self.state.fence != before:
            self.readers.fenced()
        self.intake.fenced()

    def handed_over(self) -> None:
        """Nothing is left of the takeover here, one way or the other."""
        self.incumbent = None

    # ------------------------------------------------------------ messages

    def lost(self, client: str) -> None:
        """The connection of a client has ended."""
        lost = self.readers.lost(client)
        if lost and self.incumbent is not None:
            self.incumbent.waiting -= lost
            self.incumbent.step(self)

    def received(self, sender: int | str, message: Any) -> None:
        """Take in a message of this group."""
        match message:
            case Publish() | Forward():
                self._publish(message if isinstance(message, Publish) else message.publish)
            case Pull():
                self.readers.pull(message, waits=self.incumbent is not None)
            case Upload():
                self._upload(message)
            case AskStanding(client):
                self.station.send(client, self.number, self._standing())
            case _ if isinstance(sender, int):
                if not self.log.received(sender, message):
                    self._of_takeover(sender, message)

    def _of_takeover(self, sender: int, message: Any) -> None:
        match message:
            case Probe(cycle):
                if self.lease.held:
                    answer = Probed(cycle, self.station.life, self.station.now, self.log.applied)
                    self.station.send(sender, self.number, answer)
            case Start() if self.incumbent is None:
                self.incumbent = Incumbent.begin(self, sender, message)
                if self.incumbent is None:
                    self.station.send(sender, self.number, Ended(message.cycle))
                self.look()
            case Ready() if self.incumbent is not None and self.incumbent.ideal == sender:
                self.incumbent.ready(self, message)
            case Probed() if self.challenge is not None:
                self.challenge.probed(self, message)
            case AskReady() if self.challenge is not None:
                self.challenge.asked(self, message)
            case Ended(cycle) if self.challenge is not None and self.challenge.cycle == cycle:
                self.challenge.ended = True

    def _publish(self, publish: Publish) -> None:
        incumbent, challenge = self.incumbent, self.challenge
        handed_to = incumbent.ideal if incumbent is not None and incumbent.forwards else None
        named_soon = challenge is not None and challenge.started and challenge.outcome is None
        self.intake.publish(publish, handed_to=handed_to, named_soon=named_soon)

    def _upload(self, upload: Upload) -> None:
        # One that was sent before the question may be overtaken by messages that came with it; not so the
        # last one of a consumer, which takes no message any more. That of an earlier life may come late.
        key = upload.consumer, upload.topic
        leaves = upload.leaves and self.readers.consumers.get(key) == upload.client
        answers = self.incumbent is not None and (leaves or self.incumbent.cycle == upload.cycle)
        if self.readers.upload(upload) and answers and self.incumbent is not None:
            self.incumbent.waiting.discard(key)
            self.incumbent.step(self)

    def _standing(self) -> Standing:
        state, messages = self.state, sum(map(len, self.state.topics.values()))
        return Standing(self.lease.held, state.master, state.version, self.log.applied, messages)

    def report(self, map_version: int, ideal: int) -> Report:
        """What this node has done for it, and how it stands here."""
        standing, tally = self._standing(), self.tally
        since = self._held_since if standing.holds else None
        return Report(
            self.station.life,
            standing.holds,
            standing.master,
            standing.version,
            standing.applied,
            0.0 if since is None else self.station.now - since,
            standing.messages,
            tally.stored,
            tally.stored_bytes,
            tally.pulls,
            tally.pulled,
            tally.pulled_bytes,
            tally.proposals,
            tally.proposed_seconds,
            map_version,
            self.rests.left(self.station.now, ideal),
        )
