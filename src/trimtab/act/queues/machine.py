"""The state machine of executions of the level `queues`: look, publish all in one document, look again."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from trimtab.act.execution.asked import StepState
from trimtab.act.execution.messages import Command, Event, Wait
from trimtab.act.execution.published import PublishingMachine, PublishTold, told
from trimtab.act.execution.record import Blocked, Choice
from trimtab.act.execution.settings import Patience
from trimtab.act.execution.transitions import COMMON, looked
from trimtab.act.queues.state import (
    LookAtPublished,
    Publish,
    PublishedSeen,
    PublishingState,
    PublishStep,
    QueuesPort,
)


def seen(state: PublishingState, event: PublishedSeen) -> PublishingState:
    """What is published as it should be is done."""
    found = event.seen
    state = replace(looked(state, found.cluster, frozenset()), seen=found)
    there = [r for r in state.records if not r.ended and found.table.get(r.step.key) == r.step.after]
    return state.changing(there, lambda record: record.end(StepState.DONE, state.now))


class QueuesMachine(PublishingMachine[QueuesPort, PublishingState]):
    """The state machine of this level."""

    changes: ClassVar = (Publish,)
    facts: ClassVar = {**COMMON, PublishedSeen: seen, PublishTold: told}

    @classmethod
    def look(cls, state: PublishingState, *, whole: bool = False) -> Command:
        """See `Machine.look`."""
        return LookAtPublished()

    @classmethod
    def under_way(cls, state: PublishingState) -> tuple[PublishingState, Command | None]:
        """See `Machine.under_way`: what was published and is not seen was published over."""
        if not state.active:
            return state, None
        why = "was published, and is not any more"
        return state.changing(
            state.active, lambda record: record.set_back(state.now, state.settings, why)
        ), Wait(state.now + state.settings.poll_seconds)

    @classmethod
    def why_wait(cls, state: PublishingState) -> tuple[str, float] | None:
        """See `Machine.why_wait`."""
        return None

    @classmethod
    def choose(cls, state: PublishingState) -> Choice[PublishStep]:
        """See `Machine.choose`: all at once, so that processes see all of it or nothing."""
        until = max(record.not_before for record in state.pending)
        if until > state.now:
            blocked = Blocked("is tried again soon", in_the_way=True, until=until)
            return Choice((), {record.step.number: blocked for record in state.pending})
        return Choice(tuple(record.step for record in state.pending))

    @classmethod
    def begin(cls, state: PublishingState, batch: tuple[PublishStep, ...]) -> tuple[PublishingState, Command]:
        """See `Machine.begin`."""
        assert state.seen is not None
        changes = {step.key: step.after for step in batch}
        return cls.asked(state, batch), Publish(state.seen.version, changes)

    @classmethod
    def blocked_seconds(cls, settings: Patience) -> float:
        """See `Machine.blocked_seconds`."""
        return settings.unhealthy_wait_seconds

    def perform(self, command: Command, state: PublishingState) -> Event:
        """See `Machine.perform`."""
        if isinstance(command, Publish):
            return PublishTold(self.clock(), self.port.publish(command.base, command.changes))
        return PublishedSeen(self.clock(), self.port.observe())
