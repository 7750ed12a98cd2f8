"""A transfer at the preferred node, which holds the token meanwhile; and the verifier that ends it."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab_store.core.group_context import GroupContext
from trimtab_store.core.messages import (
    ConfirmReady,
    ProbeTransfer,
    StartTransfer,
    TransferProbed,
    TransferReady,
)


@dataclass(slots=True)
class IncomingTransfer:
    """One transfer.

    Attributes
    ----------
    cycle
        Version of the token.
    until
        When the token expires, as its holder counts.
    current_master
        The master when it began.
    known
        The last slot that it had applied when it began: what came before says nothing of this transfer.
    renewals
        How often it has renewed since in a row.
    outcome
        None while it runs; then whether this node is master by it.
    ended
        Whether nothing is left of it at the current master.
    question
        Of the current master, while this node is not as far as that.
    """

    cycle: int
    until: float
    current_master: int
    started_at: float
    requested_at: float = float("-inf")
    started: bool = False
    known: int = 0
    renewals: int = 0
    outcome: bool | None = None
    ended: bool = False
    question: ConfirmReady | None = None

    def step(self, group: GroupContext) -> None:
        """Ask the master how far it is, until it answers; and never beyond the token."""
        now, settings = group.context.now, group.context.settings
        if now >= self.until:
            self.outcome, self.ended = bool(self.outcome), True
        elif self.outcome is None and not self.started:
            if now - self.started_at >= 2 * settings.propose_seconds:
                self.outcome = False
                self.ended = True
            elif now - self.requested_at >= settings.retry_seconds:
                self.requested_at = now
                group.context.send(self.current_master, group.number, ProbeTransfer(self.cycle))

    def probed(self, group: GroupContext, answer: TransferProbed) -> None:
        """Begin if this node is caught up; else leave the group to its master."""
        if answer.cycle != self.cycle or self.outcome is not None or self.started:
            return
        now, settings = group.context.now, group.context.settings
        if answer.applied - group.log.applied > settings.max_lag_entries:
            group.log.catch_up(self.current_master)
            self.outcome = False
            self.ended = True
        elif now < self.until:
            self.started, self.known = True, answer.applied
            start = StartTransfer(self.cycle, answer.incarnation, answer.stamp, self.until - now)
            group.context.send(self.current_master, group.number, start)

    def confirm_ready(self, group: GroupContext, question: ConfirmReady) -> None:
        """The current master is about to hand over: say that this node is ready, as soon as it is."""
        if question.cycle == self.cycle:
            self.question = question
            if not self.answer(group):
                group.log.catch_up(self.current_master)

    def answer(self, group: GroupContext) -> bool:
        """Say that this node is ready if it is, and note when: its term by an instating transfer begins here.

        What the current master has applied last is often learnt here a moment after its question.
        """
        question = self.question
        if question is None or self.outcome is not None or group.context.now >= self.until:
            return False
        if group.log.applied < question.applied:
            return False
        self.question = None
        nonce = group.lease.new_proposal()
        group.context.send(self.current_master, group.number, TransferReady(self.cycle, nonce))
        return True

    def became(self, node: int, group: GroupContext) -> None:
        """Somebody became master, or stayed it: the verifier."""
        if self.outcome is None and group.log.applied > self.known:
            self.renewals = self.renewals + 1 if node == self.current_master else 0
            if node == group.context.node:
                self.outcome = True
            elif node != self.current_master or self.renewals >= 2:
                self.outcome = False
