"""The state machine of executions of the level `masters`: ask for a few, watch them come, go on."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from trimtab.act.execution.asked import StepState
from trimtab.act.execution.messages import Command, Event, Wait
from trimtab.act.execution.published import PublishingMachine
from trimtab.act.execution.record import Blocked, Choice
from trimtab.act.execution.settings import Patience
from trimtab.act.execution.transitions import COMMON, looked
from trimtab.act.masters.state import (
    Asked,
    AskFor,
    LookAtMasters,
    MastersPort,
    MastersSeen,
    TakeoverState,
    TakeoverStep,
)


def seen(state: TakeoverState, event: MastersSeen) -> TakeoverState:
    """A mastership that is where it is to be is done, whoever moved it."""
    found = event.seen
    state = replace(looked(state, found.cluster, found.alive), seen=found)
    there = [r for r in state.records if not r.ended and found.masters.get(r.step.group) == r.step.target]
    return state.changing(there, lambda record: record.end(StepState.DONE, state.now))


def asked(state: TakeoverState, event: Asked) -> TakeoverState:
    """Look what comes of it; what was refused, and all where somebody was faster, is tried again."""
    answer = event.answer
    state = replace(state, fresh=False, version=answer.version or state.version)
    why = {one.step.number: "another map was published meanwhile" for one in state.active}
    if answer.version is not None:
        why = {
            one.step.number: f"{failure.code}: {failure.message}"
            for one in state.active
            if (failure := answer.failures.get(one.step.group)) is not None
        }
    refused = [one for one in state.active if one.step.number in why]
    return state.changing(refused, lambda one: one.set_back(state.now, state.settings, why[one.step.number]))


class MastersMachine(PublishingMachine[MastersPort, TakeoverState]):
    """The state machine of this level."""

    changes: ClassVar = (AskFor,)
    facts: ClassVar = {**COMMON, MastersSeen: seen, Asked: asked}

    @classmethod
    def look(cls, state: TakeoverState, *, whole: bool = False) -> Command:
        """See `Machine.look`."""
        return LookAtMasters(tuple(sorted({record.step.group for record in state.records})))

    @classmethod
    def under_way(cls, state: TakeoverState) -> tuple[TakeoverState, Command | None]:
        """See `Machine.under_way`: takeovers that have not come in time are asked for again."""
        patience = state.settings.masters.takeover_seconds
        late = [one for one in state.active if state.now - (one.advanced_at or state.now) >= patience]
        state = state.changing(
            late, lambda one: one.set_back(state.now, state.settings, f"is not there after {patience:g} s")
        )
        if state.active:
            return state, Wait(state.now + state.settings.poll_seconds)
        return state, None

    @classmethod
    def why_wait(cls, state: TakeoverState) -> tuple[str, float] | None:
        """See `Machine.why_wait`."""
        return None

    @classmethod
    def choose(cls, state: TakeoverState) -> Choice[TakeoverStep]:
        """See `Machine.choose`: the next in the plan's order whose nodes can have them."""
        assert state.seen is not None
        batch: list[TakeoverStep] = []
        blocked: dict[int, Blocked] = {}
        for record in state.pending:
            step = record.step
            if step.group not in state.seen.masters:
                blocked[step.number] = Blocked("is not there any more", for_good=True)
            elif step.target not in state.seen.able.get(step.group, frozenset()):
                usual = f"node {step.target} is down, or behind in {step.group}"
                blocked[step.number] = Blocked(state.seen.hindered.get(step.group, usual))
            elif record.not_before > state.now:
                blocked[step.number] = Blocked(
                    record.reason or "is tried again soon", in_the_way=True, until=record.not_before
                )
            elif len(batch) < state.settings.masters.at_once:
                batch.append(step)
            else:
                blocked[step.number] = Blocked("waits for its turn", in_the_way=True)
        return Choice(tuple(batch), blocked)

    @classmethod
    def begin(cls, state: TakeoverState, batch: tuple[TakeoverStep, ...]) -> tuple[TakeoverState, Command]:
        """See `Machine.begin`."""
        assert state.seen is not None
        return cls.asked(state, batch), AskFor(state.seen.version, {one.group: one.target for one in batch})

    @classmethod
    def blocked_seconds(cls, settings: Patience) -> float:
        """See `Machine.blocked_seconds`."""
        return settings.broker_grace_seconds

    def perform(self, command: Command, state: TakeoverState) -> Event:
        """See `Machine.perform`."""
        if isinstance(command, AskFor):
            return Asked(self.clock(), self.port.ask_for(command.base, command.targets))
        assert isinstance(command, LookAtMasters)
        return MastersSeen(self.clock(), self.port.observe(command.groups))
