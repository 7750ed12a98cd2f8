"""The balancer `masters` as those who carry plans out see it: a plan held against who is master now."""

from __future__ import annotations

from typing import Final

from trimtab.act.execution.codec import StateCodec
from trimtab.act.execution.publishing import publication_fit
from trimtab.act.executor import (
    ExecutionSummary,
    Executor,
    PlanDrift,
    PreparedPlan,
    initial_state_factory,
    steps_left,
)
from trimtab.act.masters.machine import MastersMachine
from trimtab.act.masters.settings import TransferSettings
from trimtab.act.masters.state import (
    MastersExecutionState,
    MastersObservation,
    MastersPort,
    TransferStep,
    TransferStepRecord,
)
from trimtab.model.errors import ActError
from trimtab.model.masters.plan import MastersPlan, MastersReceipt, TransferOutcome


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
    forecast=steps_left,
    warnings=warnings,
    new_execution=initial_state_factory(MastersExecutionState, TransferStepRecord),
    machine=MastersMachine,
    receipt=receipt,
)
