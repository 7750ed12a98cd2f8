"""Executions of the balancer `masters`: request a few transfers, wait until they are there, go on."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from trimtab.act.execution.port import Command, Event, Wait
from trimtab.act.execution.publishing import (
    PublishingMachine,
    end_as_done,
    publication_fit,
)
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.execution.state import COMMON, absorb_observation
from trimtab.act.execution.steps import Blocked, Choice
from trimtab.act.executor import (
    ExecutionSummary,
    Executor,
    PlanDrift,
    PreparedPlan,
    StateCodec,
    initial_state_factory,
)
from trimtab.act.masters.state import (
    DescribeMasters,
    MastersDescribed,
    MastersExecutionState,
    MastersObservation,
    MastersPort,
    RequestTransfers,
    TransferSettings,
    TransfersRequested,
    TransferStep,
    TransferStepRecord,
)
from trimtab.model.errors import ActError
from trimtab.model.masters.plan import MastersPlan, MastersReceipt, TransferOutcome


def absorb_masters(state: MastersExecutionState, event: MastersDescribed) -> MastersExecutionState:
    """A mastership that is where it is to be is done, whoever moved it."""
    found = event.observation
    state = replace(absorb_observation(state, found.cluster, found.alive), observation=found)
    there = [r for r in state.records if not r.ended and found.masters.get(r.step.group) == r.step.target]
    return end_as_done(state, there)


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
        """The next query of the groups' masters."""
        return DescribeMasters(tuple(sorted({record.step.group for record in state.records})))

    @classmethod
    def next_in_flight(cls, state: MastersExecutionState) -> tuple[MastersExecutionState, Command | None]:
        """See `ExecutionMachine.next_in_flight`: transfers that have not come in time are asked for again."""
        patience = state.settings.masters.transfer_timeout_seconds
        late = [one for one in state.active if state.now - (one.advanced_at or state.now) >= patience]
        state = state.changing(
            late, lambda one: one.set_back(state.now, state.settings, f"is not there after {patience:g} s")
        )
        if state.active:
            return state, Wait(state.now + state.settings.poll_interval_seconds)
        return state, None

    @classmethod
    def choose(cls, state: MastersExecutionState) -> Choice[TransferStep]:
        """See `ExecutionMachine.choose`: the next in the plan's order whose nodes can have them."""
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
        """Request the transfers of a batch."""
        assert state.observation is not None
        return cls.with_batch(state, batch), RequestTransfers(
            state.observation.version, {one.group: one.target for one in batch}
        )

    @classmethod
    def blocked_seconds(cls, settings: RetryPolicy) -> float:
        """The longest time that an external cause may block a step."""
        return settings.broker_timeout_seconds

    def perform(self, command: Command, state: MastersExecutionState) -> Event:
        """Send a command to the store and return the event that answers it."""
        if isinstance(command, RequestTransfers):
            return TransfersRequested(
                self.clock(), self.port.request_transfers(command.base, command.targets)
            )
        assert isinstance(command, DescribeMasters)
        return MastersDescribed(self.clock(), self.port.observe(command.groups))


def observe(port: MastersPort, plan: MastersPlan) -> tuple[str, MastersObservation]:
    """See who is master of the groups that the plan moves."""
    seen = port.observe([move.group for move in plan.moves])
    if seen.name and plan.snapshot.cluster != seen.name:
        raise ActError(
            f"the plan is for {plan.snapshot.cluster!r}, and the connection leads to {seen.name!r}: name the "
            "other cluster, or apply another plan"
        )
    return seen.cluster, seen


def prepare(plan: MastersPlan, observation: MastersObservation, rebase: bool) -> PreparedPlan:
    """What is left of a plan: masterships that are where it found them, and not where it wants them."""
    stand: dict[str, str] = {}
    changed = []
    for move in plan.moves:
        now = observation.masters.get(move.group)
        how = publication_fit(now, move.source, move.target)
        if how == "changed" and now is None and move.group in observation.masters:
            how = "to do"  # nobody is master: what the plan wants is as good as ever
        stand[move.group] = how
        if how == "changed":
            who = f"node {now}" if move.group in observation.masters else "not there any more"
            changed.append(f"{move.group} is led by {who}, and was by node {move.source} in the plan")
    comparison = PlanDrift(stand, tuple(changed))
    comparison.require_unchanged("masterships have changed", rebase=rebase)
    to_do = [move for move in plan.moves if stand[move.group] == "to do"]
    steps = tuple(
        TransferStep(number, move.group, move.source, move.target, move.order)
        for number, move in enumerate(to_do, 1)
    )
    return PreparedPlan(plan, observation.cluster, observation, comparison, steps)


def warnings(
    port: MastersPort, prepared: PreparedPlan, settings: TransferSettings, expected: object
) -> list[str]:
    """Transfers that would have to wait are told beforehand."""
    seen, found = prepared.observation, []
    for step in prepared.steps:
        if step.target not in seen.able.get(step.group, frozenset()):
            why = seen.hindered.get(step.group, f"node {step.target} is down or behind")
            found.append(f"{step.group}: {why} now; it is waited for, {settings.broker_timeout_seconds:g} s")
    return found


def receipt(entry: ExecutionSummary, state: MastersExecutionState, sense: object) -> MastersReceipt:
    """The receipt: which mastership went where."""
    outcomes = tuple(
        TransferOutcome(
            kind="transfer",
            moves=(one.step.order,),
            group=one.step.group,
            target=one.step.target,
            **one.outcome_fields(),
        )
        for one in state.records
    )
    return MastersReceipt(outcomes=outcomes, **entry.receipt_fields(state))


EXECUTOR: Final[Executor[MastersPort, MastersPlan, TransferSettings, MastersExecutionState]] = Executor(
    codec=StateCodec(MastersExecutionState, TransferStepRecord),
    settings=TransferSettings,
    observe=observe,
    prepare=prepare,
    warnings=warnings,
    new_execution=initial_state_factory(MastersExecutionState, TransferStepRecord),
    machine=MastersMachine,
    receipt=receipt,
)
