"""The state machine of executions of the balancer `balls`."""

from dataclasses import replace
from typing import Any, ClassVar

from trimtab.act.balls.state import (
    BallRecord,
    BallsPut,
    BallsState,
    BallStep,
    BoxesObserved,
    ObserveBoxes,
    Put,
)
from trimtab.act.execution.machine import ExecutionMachine
from trimtab.act.execution.port import Command, Event, Wait
from trimtab.act.execution.publishing import PublishedStepState
from trimtab.act.execution.state import COMMON, absorb_observation
from trimtab.act.execution.steps import Blocked, Choice


def observed(state: BallsState, event: BoxesObserved) -> BallsState:
    """What lies where it should is done."""
    state = absorb_observation(state, event.observation.cluster, event.observation.boxes)
    state = replace(state, boxes=event.observation.balls)
    there = [
        r for r in state.records if not r.ended and event.observation.balls.get(r.step.ball) == r.step.target
    ]
    return state.changing(there, lambda record: record.end(PublishedStepState.DONE, state.now))


def put(state: BallsState, event: BallsPut) -> BallsState:
    """Observe whether it was done."""
    return replace(state, fresh=False)


class BallsMachine(ExecutionMachine[Any, BallsState]):
    """The state machine of this balancer."""

    changes: ClassVar = (Put,)
    facts: ClassVar = {**COMMON, BoxesObserved: observed, BallsPut: put}
    success_states: ClassVar = frozenset({PublishedStepState.DONE})

    @classmethod
    def next_query(cls, state: BallsState, *, whole: bool = False) -> Command:
        """See `ExecutionMachine.next_query`."""
        return ObserveBoxes()

    @classmethod
    def next_in_flight(cls, state: BallsState) -> tuple[BallsState, Command | None]:
        """See `ExecutionMachine.next_in_flight`."""
        return state, Wait(state.now + state.settings.poll_interval_seconds) if state.active else None

    @classmethod
    def blocking_reason(cls, state: BallsState) -> tuple[str, float] | None:
        """See `ExecutionMachine.blocking_reason`."""
        return None

    @classmethod
    def before_batch(cls, state: BallsState) -> tuple[BallsState, Command | None]:
        """See `ExecutionMachine.before_batch`."""
        return state, None

    @classmethod
    def choose(cls, state: BallsState) -> Choice[BallStep]:
        """See `ExecutionMachine.choose`: one ball at a time."""
        first, *others = state.pending
        blocked = {one.step.number: Blocked("its turn comes", blocking=True) for one in others}
        return Choice((first.step,), blocked)

    @classmethod
    def begin(cls, state: BallsState, batch: tuple[BallStep, ...]) -> tuple[BallsState, Command]:
        """See `ExecutionMachine.begin`."""
        numbers = {step.number for step in batch}
        requested = [record for record in state.records if record.step.number in numbers]
        state = state.changing(
            requested, lambda one: replace(one, state=PublishedStepState.REQUESTED, started_at=state.now)
        )
        targets = {step.ball: step.target for step in batch}
        return replace(state, batches=state.batches + 1, fresh=False), Put(targets)

    @classmethod
    def give_back(cls, state: BallsState) -> tuple[BallsState, Command | None]:
        """See `ExecutionMachine.give_back`."""
        return state, None

    @classmethod
    def ends_as(cls, record: BallRecord, blocked: Blocked) -> PublishedStepState:
        """See `ExecutionMachine.ends_as`."""
        return PublishedStepState.FAILED

    @classmethod
    def blocked_seconds(cls, settings: Any) -> float:
        """See `ExecutionMachine.blocked_seconds`."""
        return settings.unhealthy_timeout_seconds

    def perform(self, command: Command, state: BallsState) -> Event:
        """See `ExecutionMachine.perform`."""
        if isinstance(command, Put):
            self.port.put(command.targets)
            return BallsPut(self.clock())
        return BoxesObserved(self.clock(), self.port.observe())
