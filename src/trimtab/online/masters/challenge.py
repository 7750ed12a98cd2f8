"""A takeover at the ideal node, which holds the token meanwhile; and the verifier that ends it."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.online.masters.hosted import Hosted
from trimtab.online.masters.messages import AskReady, Probe, Probed, Ready, Start


@dataclass(slots=True)
class Challenge:
    """One takeover.

    Attributes
    ----------
    cycle
        Version of the token.
    until
        When the token expires, as its holder counts.
    incumbent
        The master when it began.
    known
        The last slot that it had applied when it began: what came before says nothing of this takeover.
    renewals
        How often it has renewed since in a row.
    outcome
        None while it runs; then whether this node is master by it.
    ended
        Whether nothing is left of it at the incumbent.
    question
        Of the incumbent, while this node is not as far as that.
    """

    cycle: int
    until: float
    incumbent: int
    began: float
    asked_at: float = float("-inf")
    started: bool = False
    known: int = 0
    renewals: int = 0
    outcome: bool | None = None
    ended: bool = False
    question: AskReady | None = None

    def step(self, group: Hosted) -> None:
        """Ask the master how far it is, until it answers; and never beyond the token."""
        now, settings = group.station.now, group.station.settings
        if now >= self.until:
            self.outcome, self.ended = bool(self.outcome), True
        elif self.outcome is None and not self.started:
            if now - self.began >= 2 * settings.propose_seconds:
                self.outcome = False
                self.ended = True
            elif now - self.asked_at >= settings.retry_seconds:
                self.asked_at = now
                group.station.send(self.incumbent, group.number, Probe(self.cycle))

    def probed(self, group: Hosted, answer: Probed) -> None:
        """Begin if this node is caught up; else leave the group to its master."""
        if answer.cycle != self.cycle or self.outcome is not None or self.started:
            return
        now, settings = group.station.now, group.station.settings
        if answer.applied - group.log.applied > settings.lag_entries:
            group.log.catch_up(self.incumbent)
            self.outcome = False
            self.ended = True
        elif now < self.until:
            self.started, self.known = True, answer.applied
            start = Start(self.cycle, answer.life, answer.stamp, self.until - now)
            group.station.send(self.incumbent, group.number, start)

    def asked(self, group: Hosted, question: AskReady) -> None:
        """The incumbent is about to hand over: say that this node is ready, as soon as it is."""
        if question.cycle == self.cycle:
            self.question = question
            if not self.answer(group):
                group.log.catch_up(self.incumbent)

    def answer(self, group: Hosted) -> bool:
        """Say that this node is ready if it is, and note when: its term by an instating takeover begins here.

        What the incumbent has applied last is often learnt here a moment after its question.
        """
        question = self.question
        if question is None or self.outcome is not None or group.station.now >= self.until:
            return False
        if group.log.applied < question.applied:
            return False
        self.question = None
        nonce = group.lease.asking()
        group.station.send(self.incumbent, group.number, Ready(self.cycle, nonce))
        return True

    def became(self, node: int, group: Hosted) -> None:
        """Somebody became master, or stayed it: the verifier."""
        if self.outcome is None and group.log.applied > self.known:
            self.renewals = self.renewals + 1 if node == self.incumbent else 0
            if node == group.station.node:
                self.outcome = True
            elif node != self.incumbent or self.renewals >= 2:
                self.outcome = False
