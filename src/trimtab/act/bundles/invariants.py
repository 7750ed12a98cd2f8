"""What must hold for every state of an execution, and between any two that follow each other."""

from itertools import combinations
from typing import TypeVar

from trimtab.act.bundles.commands import Split, Unload
from trimtab.act.bundles.state import BundlesState
from trimtab.act.bundles.steps import STEP_TRANSITIONS, StepKind, StepState
from trimtab.act.execution.status import STATUS_TRANSITIONS

_S = TypeVar("_S")


def violations(state: BundlesState) -> list[str]:
    """What is wrong with a state; empty for a sound one."""
    found = []
    if state.final:
        found += [f"{state.status}, but {r.step} is {r.state}" for r in state.active]
        if not state.hold.empty:
            found.append(f"{state.status}, but switches are still ours: {state.hold}")
    if isinstance(state.awaiting, Unload | Split) and not state.verified and not state.active:
        found.append(f"{state.awaiting} while the brokers' own balancing may be on")
    unloads = [record for record in state.active if record.step.kind is StepKind.UNLOAD]
    if len(unloads) > state.settings.pace.unloads_per_batch:
        found.append(f"{len(unloads)} unloads at once")
    found += [
        f"{one.step} and {other.step} are under way together"
        for one, other in combinations(state.active, 2)
        if one.step.range.overlaps(other.step.range)
    ]
    by_number = {record.step.number: record for record in state.records}
    for record in state.records:
        follows = record.step.follows
        if follows is not None and record.active and by_number[follows].state is not StepState.DONE:
            found.append(f"{record.step} is under way before {by_number[follows].step} is done")
        if record.state in (StepState.FAILED, StepState.SKIPPED) and not record.reason:
            found.append(f"{record.step} is {record.state} without a reason")
    return found


def forbidden_changes(before: BundlesState, after: BundlesState) -> list[str]:
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
