"""The state machine of executions of the balancer `queues`: look, publish all in one document, look again."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from trimtab.act.execution.messages import Command, Event, Wait
from trimtab.act.execution.published_steps import PublishedStepState
from trimtab.act.execution.publishing import PublishCompleted, PublishingMachine, absorb_publish
from trimtab.act.execution.record import Blocked, Choice
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.execution.transitions import COMMON, absorb_observation
from trimtab.act.queues.state import (
    PublishChanges,
    PublishedRead,
    PublishStep,
    QueuesExecutionState,
    QueuesPort,
    ReadPublished,
)


def absorb_published(state: QueuesExecutionState, event: PublishedRead) -> QueuesExecutionState:
    """What is published as it should be is done."""
    found = event.observation
    state = replace(absorb_observation(state, found.cluster, frozenset()), observation=found)
    there = [r for r in state.records if not r.ended and found.table.get(r.step.key) == r.step.after]
    return state.changing(there, lambda record: record.end(PublishedStepState.DONE, state.now))


class QueuesMachine(PublishingMachine[QueuesPort, QueuesExecutionState]):
    """The state machine of this balancer."""

    changes: ClassVar = (PublishChanges,)
    facts: ClassVar = {**COMMON, PublishedRead: absorb_published, PublishCompleted: absorb_publish}

    @classmethod
    def next_query(cls, state: QueuesExecutionState, *, whole: bool = False) -> Command:
        """See `Machine.look`."""
        return ReadPublished()

    @classmethod
    def next_in_flight(cls, state: QueuesExecutionState) -> tuple[QueuesExecutionState, Command | None]:
        """See `Machine.under_way`: what was published and is not seen was published over."""
        if not state.active:
            return state, None
        why = "was published, and is not any more"
        return state.changing(
            state.active, lambda record: record.set_back(state.now, state.settings, why)
        ), Wait(state.now + state.settings.poll_interval_seconds)

    @classmethod
    def blocking_reason(cls, state: QueuesExecutionState) -> tuple[str, float] | None:
        """See `Machine.why_wait`."""
        return None

    @classmethod
    def choose(cls, state: QueuesExecutionState) -> Choice[PublishStep]:
        """See `Machine.choose`: all at once, so that processes see all of it or nothing."""
        until = max(record.not_before for record in state.pending)
        if until > state.now:
            blocked = Blocked("is tried again soon", blocking=True, until=until)
            return Choice((), {record.step.number: blocked for record in state.pending})
        return Choice(tuple(record.step for record in state.pending))

    @classmethod
    def begin(
        cls, state: QueuesExecutionState, batch: tuple[PublishStep, ...]
    ) -> tuple[QueuesExecutionState, Command]:
        """See `Machine.begin`."""
        assert state.observation is not None
        changes = {step.key: step.after for step in batch}
        return cls.with_batch(state, batch), PublishChanges(state.observation.version, changes)

    @classmethod
    def blocked_seconds(cls, settings: RetryPolicy) -> float:
        """See `Machine.blocked_seconds`."""
        return settings.unhealthy_timeout_seconds

    def perform(self, command: Command, state: QueuesExecutionState) -> Event:
        """See `Machine.perform`."""
        if isinstance(command, PublishChanges):
            return PublishCompleted(self.clock(), self.port.publish(command.base, command.changes))
        return PublishedRead(self.clock(), self.port.observe())
