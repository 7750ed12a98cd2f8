"""What must hold for every state of an execution, and between any two that follow each other."""

from typing import TypeVar

from trimtab.act.execution.status import STATUS_TRANSITIONS
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import STEP_TRANSITIONS, StepState

_S = TypeVar("_S")


def violations(state: ExecutionState) -> list[str]:
    """What is wrong with a state; empty for a sound one."""
    found = []
    if state.final:
        found += [f"{state.status}, but {r.step} is {r.state}" for r in state.active]
        if not state.throttle.empty:
            found.append(f"{state.status}, but throttle settings are still ours: {state.throttle}")
    active = [record.step.partition for record in state.active]
    found += [f"two steps of {p} are under way" for p in set(active) if active.count(p) > 1]
    by_number = {record.step.number: record for record in state.records}
    for record in state.records:
        follows = record.step.follows
        if follows is not None and record.active and not by_number[follows].ended:
            found.append(f"{record.step} is under way before {by_number[follows].step} has ended")
        if (record.state is StepState.ROLLING_BACK) != (record.rollback is not None) and record.active:
            found.append(f"{record.step} is {record.state} with rollback to {record.rollback}")
        if record.state in (StepState.FAILED, StepState.SKIPPED, StepState.DROPPED) and not record.reason:
            found.append(f"{record.step} is {record.state} without a reason")
    return found


def forbidden_changes(before: ExecutionState, after: ExecutionState) -> list[str]:
    """Changes from one state to a later one that the transition tables do not know.

    Between the two lies one event: what was seen may take a step one transition on and what is decided upon
    it another, so a step may have gone two, and the execution (from waiting to its end) three.
    """
    found = []
    if after.status not in _reachable(before.status, STATUS_TRANSITIONS, 3):
        found.append(f"the execution went from {before.status} to {after.status}")
    for old, new in zip(before.records, after.records, strict=True):
        if old.step != new.step:
            found.append(f"{old.step} changed")
        if new.state not in _reachable(old.state, STEP_TRANSITIONS, 2):
            found.append(f"{new.step} went from {old.state} to {new.state}")
    return found


def _reachable(state: _S, transitions: dict[_S, frozenset[_S]], hops: int) -> set[_S]:
    reached = {state}
    for _ in range(hops):
        reached |= {following for each in reached for following in transitions[each]}
    return reached
