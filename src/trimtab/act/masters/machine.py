"""The state machine of executions of the balancer `masters`: ask for a few, watch them come, go on."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from trimtab.act.execution.messages import Command, Event, Wait
from trimtab.act.execution.published_steps import PublishedStepState
from trimtab.act.execution.publishing import PublishingMachine
from trimtab.act.execution.record import Blocked, Choice
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.execution.transitions import COMMON, absorb_observation
from trimtab.act.masters.state import (
    DescribeMasters,
    MastersDescribed,
    MastersExecutionState,
    MastersPort,
    RequestTransfers,
    TransfersRequested,
    TransferStep,
)


def absorb_masters(state: MastersExecutionState, event: MastersDescribed) -> MastersExecutionState:
    """A mastership that is where it is to be is done, whoever moved it."""
    found = event.observation
    state = replace(absorb_observation(state, found.cluster, found.alive), observation=found)
    there = [r for r in state.records if not r.ended and found.masters.get(r.step.group) == r.step.target]
    return state.changing(there, lambda record: record.end(PublishedStepState.DONE, state.now))


def absorb_requests(state: MastersExecutionState, event: TransfersRequested) -> MastersExecutionState:
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


class MastersMachine(PublishingMachine[MastersPort, MastersExecutionState]):
    """The state machine of this balancer."""

    changes: ClassVar = (RequestTransfers,)
    facts: ClassVar = {**COMMON, MastersDescribed: absorb_masters, TransfersRequested: absorb_requests}

    @classmethod
    def next_query(cls, state: MastersExecutionState, *, whole: bool = False) -> Command:
        """See `Machine.look`."""
        return DescribeMasters(tuple(sorted({record.step.group for record in state.records})))

    @classmethod
    def next_in_flight(cls, state: MastersExecutionState) -> tuple[MastersExecutionState, Command | None]:
        """See `Machine.under_way`: transfers that have not come in time are asked for again."""
        patience = state.settings.masters.transfer_timeout_seconds
        late = [one for one in state.active if state.now - (one.advanced_at or state.now) >= patience]
        state = state.changing(
            late, lambda one: one.set_back(state.now, state.settings, f"is not there after {patience:g} s")
        )
        if state.active:
            return state, Wait(state.now + state.settings.poll_interval_seconds)
        return state, None

    @classmethod
    def blocking_reason(cls, state: MastersExecutionState) -> tuple[str, float] | None:
        """See `Machine.why_wait`."""
        return None

    @classmethod
    def choose(cls, state: MastersExecutionState) -> Choice[TransferStep]:
        """See `Machine.choose`: the next in the plan's order whose nodes can have them."""
        assert state.observation is not None
        batch: list[TransferStep] = []
        blocked: dict[int, Blocked] = {}
        for record in state.pending:
            step = record.step
            if step.group not in state.observation.masters:
                blocked[step.number] = Blocked("is not there any more", permanent=True)
            elif step.target not in state.observation.able.get(step.group, frozenset()):
                usual = f"node {step.target} is down, or behind in {step.group}"
                blocked[step.number] = Blocked(state.observation.hindered.get(step.group, usual))
            elif record.not_before > state.now:
                blocked[step.number] = Blocked(
                    record.reason or "is tried again soon", blocking=True, until=record.not_before
                )
            elif len(batch) < state.settings.masters.max_in_flight:
                batch.append(step)
            else:
                blocked[step.number] = Blocked("waits for its turn", blocking=True)
        return Choice(tuple(batch), blocked)

    @classmethod
    def begin(
        cls, state: MastersExecutionState, batch: tuple[TransferStep, ...]
    ) -> tuple[MastersExecutionState, Command]:
        """See `Machine.begin`."""
        assert state.observation is not None
        return cls.with_batch(state, batch), RequestTransfers(
            state.observation.version, {one.group: one.target for one in batch}
        )

    @classmethod
    def blocked_seconds(cls, settings: RetryPolicy) -> float:
        """See `Machine.blocked_seconds`."""
        return settings.broker_timeout_seconds

    def perform(self, command: Command, state: MastersExecutionState) -> Event:
        """See `Machine.perform`."""
        if isinstance(command, RequestTransfers):
            return TransfersRequested(
                self.clock(), self.port.request_transfers(command.base, command.targets)
            )
        assert isinstance(command, DescribeMasters)
        return MastersDescribed(self.clock(), self.port.observe(command.groups))
