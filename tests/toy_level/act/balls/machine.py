"""The state machine of executions of the level `balls`."""

from dataclasses import replace
from typing import Any, ClassVar

from trimtab.act.balls.state import (
    BallRecord,
    BallsPut,
    BallsState,
    BallStep,
    BoxesSeen,
    LookAtBoxes,
    Put,
)
from trimtab.act.execution.asked import StepState
from trimtab.act.execution.machine import Machine
from trimtab.act.execution.messages import Command, Event, Wait
from trimtab.act.execution.record import Blocked, Choice
from trimtab.act.execution.transitions import COMMON, looked


def seen(state: BallsState, event: BoxesSeen) -> BallsState:
    """What lies where it should is done."""
    state = looked(state, event.seen.cluster, event.seen.boxes)
    state = replace(state, boxes=event.seen.balls)
    there = [r for r in state.records if not r.ended and event.seen.balls.get(r.step.ball) == r.step.target]
    return state.changing(there, lambda record: record.end(StepState.DONE, state.now))


def put(state: BallsState, event: BallsPut) -> BallsState:
    """Look whether it was heard."""
    return replace(state, fresh=False)


class BallsMachine(Machine[Any, BallsState]):
    """The state machine of this level."""

    changes: ClassVar = (Put,)
    facts: ClassVar = {**COMMON, BoxesSeen: seen, BallsPut: put}
    good: ClassVar = frozenset({StepState.DONE})

    @classmethod
    def look(cls, state: BallsState, *, whole: bool = False) -> Command:
        """See `Machine.look`."""
        return LookAtBoxes()

    @classmethod
    def under_way(cls, state: BallsState) -> tuple[BallsState, Command | None]:
        """See `Machine.under_way`."""
        return state, Wait(state.now + state.settings.poll_seconds) if state.active else None

    @classmethod
    def why_wait(cls, state: BallsState) -> tuple[str, float] | None:
        """See `Machine.why_wait`."""
        return None

    @classmethod
    def before_batch(cls, state: BallsState) -> tuple[BallsState, Command | None]:
        """See `Machine.before_batch`."""
        return state, None

    @classmethod
    def choose(cls, state: BallsState) -> Choice[BallStep]:
        """See `Machine.choose`: one ball at a time."""
        first, *others = state.pending
        blocked = {one.step.number: Blocked("its turn comes", in_the_way=True) for one in others}
        return Choice((first.step,), blocked)

    @classmethod
    def begin(cls, state: BallsState, batch: tuple[BallStep, ...]) -> tuple[BallsState, Command]:
        """See `Machine.begin`."""
        numbers = {step.number for step in batch}
        asked = [record for record in state.records if record.step.number in numbers]
        state = state.changing(asked, lambda one: replace(one, state=StepState.ASKED, started_at=state.now))
        targets = {step.ball: step.target for step in batch}
        return replace(state, batches=state.batches + 1, fresh=False), Put(targets)

    @classmethod
    def give_back(cls, state: BallsState) -> tuple[BallsState, Command | None]:
        """See `Machine.give_back`."""
        return state, None

    @classmethod
    def ends_as(cls, record: BallRecord, blocked: Blocked) -> StepState:
        """See `Machine.ends_as`."""
        return StepState.FAILED

    @classmethod
    def blocked_seconds(cls, settings: Any) -> float:
        """See `Machine.blocked_seconds`."""
        return settings.unhealthy_wait_seconds

    def perform(self, command: Command, state: BallsState) -> Event:
        """See `Machine.perform`."""
        if isinstance(command, Put):
            self.port.put(command.targets)
            return BallsPut(self.clock())
        return BoxesSeen(self.clock(), self.port.observe())
