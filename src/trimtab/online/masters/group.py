"""One group on one node: its log, its lease, its clients and its takeovers, put together."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Any

from trimtab.online.masters.challenge import Challenge
from trimtab.online.masters.entries import Append, BeMaster, Entry, Nonce, Record, SyncOffsets, TakeOver
from trimtab.online.masters.incumbent import Incumbent, Phase
from trimtab.online.masters.lease import Lease
from trimtab.online.masters.log import MakeLog
from trimtab.online.masters.messages import (
    AskReady,
    AskReport,
    AskStanding,
    Ended,
    Forward,
    OffsetKept,
    Probe,
    Probed,
    Publish,
    Published,
    Pull,
    Pulled,
    Ready,
    Report,
    Standing,
    Start,
    Upload,
)
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
    consumers
        (consumer, topic) to the client that reads here; known to the master only.
    uploads
        (consumer, topic) to client and offset, until it is chosen.
    unanswered
        (topic, producer, sequence) to the client, of messages that are batched or proposed.
    asked
        Nonce to when it was proposed, of masterships of which it is not known whether they were chosen.
    incumbent, challenge
        A takeover from this node, and one to it.
    tally
        What this node has done for it.
    """

    def __init__(self, station: Station, number: int, make_log: MakeLog) -> None:
        self.station, self.number = station, number
        self.state = GroupState(station.settings.keep_bytes)
        self.lease = Lease(station, station.settings.lease_seconds)
        self.log = make_log(station, number, self._apply, self.state.snapshot, self._restore)
        self.consumers: dict[tuple[str, str], str] = {}
        self.uploads: dict[tuple[str, str], tuple[str, int]] = {}
        self.unanswered: dict[tuple[str, str, int], str] = {}
        self.asked: dict[Nonce, float] = {}
        self.incumbent: Incumbent | None = None
        self.challenge: Challenge | None = None
        self.tally = Tally()
        self._held_since: float | None = None
        self._batch: list[Record] = []
        self._batch_bytes = 0
        self._batch_until = inf
        self._held: deque[Publish] = deque()
        self._held_until = inf
        self._recovering = False
        self._look_at = inf
        # Nodes try in turn, or they would try against one another.
        renewal = station.settings.renewal_seconds
        self._try_at = station.now + renewal * ((station.node + number) % station.nodes) / station.nodes
        self._sync_at = station.now + station.settings.sync_seconds

    def recover(self, written: list[Any]) -> None:
        """See `GroupLog.recover`."""
        self._recovering = True
        self.log.recover(written)
        self._recovering = False
        self.lease.others_until = self.station.now + self.station.settings.lease_seconds

    # ------------------------------------------------------------ time

    def due(self) -> float:
        """When to be woken though nothing happened."""
        at = min(self._try_at, self._batch_until, self._held_until, self.log.due())
        if self.uploads:
            at = min(at, self._sync_at)
        return min(at, self._look_at)

    def go_on(self) -> None:
        """Do what is due."""
        now = self.station.now
        if now >= self._try_at:
            self._try_at = now + self.station.settings.renewal_seconds
            self._periodic()
        if now >= self._batch_until:
            self.flush()
        if now >= self._sync_at:
            self._sync_at = now + self.station.settings.sync_seconds
            self.sync_offsets()
        if now >= self._held_until:
            self._release()
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
                self.tally.applied(records[0], self.station.now)
                self._answer(records, outcome)
            case SyncOffsets(_, offsets):
                if outcome:
                    self._kept(offsets)
            case BeMaster(node, nonce, _):
                if node == self.station.node:
                    self.asked.pop(nonce, None)
                if outcome:
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

    def _fenced(self) -> None:
        """Somebody else may write now: what was begun under the old fence is over."""
        if self.state.writer != self.station.node:
            for topic, producer, sequence in self.unanswered:
                self._tell(self.unanswered[topic, producer, sequence], topic, producer, sequence, "moved")
            self.unanswered.clear()
        self._batch.clear()
        self._batch_until = inf
        # What waits names the old fence, and is void wherever it would be chosen.
        self.log.withdraw(Append)
        self.log.withdraw(SyncOffsets)
        self.consumers.clear()
        self.uploads.clear()
        self.tally.fenced()
        self._release()

    def _restore(self, value: tuple[Any, ...]) -> None:
        before = self.state.fence
        self.state.restore(value)
        self.lease.handed(ends_now=False)
        self.asked.clear()
        if self.state.fence != before:
            self._fenced()

    def handed_over(self) -> None:
        """Nothing is left of the takeover here, one way or the other."""
        self.incumbent = None

    # ------------------------------------------------------------ messages

    def received(self, sender: int | str, message: Any) -> None:
        """Take in a message of this group."""
        match message:
            case Publish():
                self.publish(message)
            case Pull():
                self._pull(message)
            case Upload():
                self._upload(message)
            case Forward(publish):
                self.publish(publish)
            case AskStanding(client):
                self.station.send(client, self.number, self._standing())
            case AskReport(client):
                self.station.send(client, self.number, self._report())
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

    @property
    def held_since(self) -> float | None:
        """When the oldest message came that waits until this node may write; None if there is none."""
        return self._held_until - self.station.settings.propose_seconds if self._held else None

    @property
    def _writes(self) -> bool:
        """Whether this node may propose messages: as master within its term, or named by a takeover."""
        acting = self.state.ideal == self.station.node and self.station.now < self.lease.acting_until
        return acting or self.lease.held

    def publish(self, publish: Publish) -> None:
        """Batch a message, send it on, hold it, or say who is master."""
        record = publish.record
        if self.incumbent is not None and self.incumbent.forwards:
            self.station.send(self.incumbent.ideal, self.number, Forward(publish))
        elif self._writes:
            self.unanswered[record.topic, record.producer, record.sequence] = publish.client
            self._batch.append(record)
            self._batch_bytes += len(record.payload)
            self._batch_until = min(self._batch_until, self.station.now + self.station.settings.batch_seconds)
            if self._batch_bytes >= self.station.settings.batch_bytes:
                self.flush()
        elif self.challenge is not None and self.challenge.started and self.challenge.outcome is None:
            # Sent on before this node has learnt that it may write.
            self._held.append(publish)
            self._held_until = min(self._held_until, self.station.now + self.station.settings.propose_seconds)
        else:
            self._tell(publish.client, record.topic, record.producer, record.sequence, "moved")

    def _release(self) -> None:
        held, self._held, self._held_until = self._held, deque(), inf
        for publish in held:
            if self._writes:
                self.publish(publish)
            else:
                record = publish.record
                self._tell(publish.client, record.topic, record.producer, record.sequence, "moved")

    def flush(self) -> None:
        """Propose the batch."""
        if self._batch:
            self.tally.proposed(self._batch[0], self.station.now)
            self.log.propose(Append(self.state.fence, tuple(self._batch)))
        self._batch, self._batch_bytes, self._batch_until = [], 0, inf

    def _answer(self, records: tuple[Record, ...], verdicts: tuple[str, ...]) -> None:
        for record, verdict in zip(records, verdicts, strict=True):
            client = self.unanswered.pop((record.topic, record.producer, record.sequence), None)
            if client is not None:
                if verdict == "stored":
                    self.tally.took(record)
                # The term may have ended while the batch was under way.
                told = verdict if self._writes else "moved"
                self._tell(client, record.topic, record.producer, record.sequence, told)

    def _tell(self, client: str, topic: str, producer: str, sequence: int, verdict: str) -> None:
        answer = Published(topic, producer, sequence, verdict, self.state.writer)
        self.station.send(client, self.number, answer)

    def _pull(self, pull: Pull) -> None:
        key, offset = (pull.consumer, pull.topic), -1
        records: tuple[Record, ...] = ()
        verdict = "stored" if self.lease.held else "moved"
        if verdict == "stored" and self.incumbent is not None:
            verdict = "wait"
        if verdict == "stored":
            self.consumers[key] = pull.client
            offset = self.state.offsets.get(key, 0) if pull.offset < 0 else pull.offset
            offset, records = self.state.read(pull.topic, offset, pull.most)
            self.tally.gave(records)
        answer = Pulled(pull.consumer, pull.topic, pull.number, verdict, offset, records, self.state.writer)
        self.station.send(pull.client, self.number, answer)

    def _standing(self) -> Standing:
        state, messages = self.state, sum(map(len, self.state.topics.values()))
        return Standing(self.lease.held, state.master, state.version, self.log.applied, messages)

    def _report(self) -> Report:
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
        )

    def _upload(self, upload: Upload) -> None:
        key = upload.consumer, upload.topic
        if not self.lease.held:
            return
        known = self.uploads.get(key, ("", 0))[1]
        self.uploads[key] = upload.client, max(upload.offset, known)
        # One that was sent before the question may be overtaken by messages that came with it.
        if self.incumbent is not None and self.incumbent.cycle == upload.cycle:
            self.incumbent.waiting.discard(key)
            self.incumbent.step(self)

    def sync_offsets(self) -> None:
        """Propose the offsets that were handed in."""
        if self.uploads and self.lease.held:
            offsets = tuple((*key, offset) for key, (_, offset) in sorted(self.uploads.items()))
            self.log.propose(SyncOffsets(self.state.fence, offsets))

    def _kept(self, offsets: tuple[tuple[str, str, int], ...]) -> None:
        for consumer, topic, offset in offsets:
            client, uploaded = self.uploads.get((consumer, topic), ("", -1))
            if client and uploaded <= offset:
                del self.uploads[consumer, topic]
                if self.lease.held:
                    self.station.send(client, self.number, OffsetKept(consumer, topic, offset))
