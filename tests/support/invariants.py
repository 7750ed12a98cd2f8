"""What must hold for every state of an execution, and between any two that follow each other."""

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any, Generic, TypeVar

from trimtab.act.bundles.port import SplitBundle, UnloadBundles
from trimtab.act.bundles.state import STEP_TRANSITIONS as OF_BUNDLES
from trimtab.act.bundles.state import BundlesExecutionState, BundleStepKind
from trimtab.act.bundles.state import BundleStepState as BundleState
from trimtab.act.execution.state import STATUS_TRANSITIONS, AnyExecution
from trimtab.act.replicas.state import STEP_TRANSITIONS as OF_REPLICAS
from trimtab.act.replicas.state import ReplicasExecutionState, ReplicaStepState

_S = TypeVar("_S")
StateT = TypeVar("StateT", bound=AnyExecution)

STEP_TRANSITIONS: Mapping[str, Mapping[Any, frozenset[Any]]] = {
    "replicas": OF_REPLICAS,
    "bundles": OF_BUNDLES,
}


def violations(state: AnyExecution) -> list[str]:
    """What is wrong with a state; empty for a sound one."""
    found = []
    if state.final:
        found += [f"{state.status}, but {r.step} is {r.state}" for r in state.active]
        if not state.clean:
            found.append(f"{state.status}, but settings of the cluster are still ours: {state}")
    for record in state.records:
        if record.state in ("failed", "skipped", "dropped") and not record.reason:
            found.append(f"{record.step} is {record.state} without a reason")
    return found + (_of_replicas(state) if isinstance(state, ReplicasExecutionState) else _of_bundles(state))


def _of_replicas(state: ReplicasExecutionState) -> list[str]:
    active = [record.step.partition for record in state.active]
    found = [f"two steps of {p} are under way" for p in set(active) if active.count(p) > 1]
    by_number = {record.step.number: record for record in state.records}
    for record in state.records:
        follows = record.step.follows
        if follows is not None and record.active and not by_number[follows].ended:
            found.append(f"{record.step} is under way before {by_number[follows].step} has ended")
        if (record.state is ReplicaStepState.ROLLING_BACK) != (record.rollback is not None) and record.active:
            found.append(f"{record.step} is {record.state} with rollback to {record.rollback}")
    return found


def _of_bundles(state: AnyExecution) -> list[str]:
    assert isinstance(state, BundlesExecutionState)
    found = []
    if isinstance(state.awaiting, UnloadBundles | SplitBundle) and not state.verified and not state.active:
        found.append(f"{state.awaiting} while the brokers' own balancing may be on")
    unloads = [record for record in state.active if record.step.kind is BundleStepKind.UNLOAD]
    if len(unloads) > state.settings.limits.max_unloads_per_batch:
        found.append(f"{len(unloads)} unloads at once")
    found += [
        f"{one.step} and {other.step} are under way together"
        for one, other in combinations(state.active, 2)
        if one.step.range.overlaps(other.step.range)
    ]
    by_number = {record.step.number: record for record in state.records}
    for record in state.records:
        follows = record.step.follows
        if follows is not None and record.active and by_number[follows].state is not BundleState.DONE:
            found.append(f"{record.step} is under way before {by_number[follows].step} is done")
    return found


def forbidden_changes(before: AnyExecution, after: AnyExecution) -> list[str]:
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
        if new.state not in _reachable(old.state, STEP_TRANSITIONS[after.balancer], 2):
            found.append(f"{new.step} went from {old.state} to {new.state}")
    return found


def _reachable(state: _S, transitions: Mapping[_S, frozenset[_S]], hops: int) -> set[_S]:
    reached = {state}
    for _ in range(hops):
        reached |= {following for each in reached for following in transitions[each]}
    return reached


class Checked(Generic[StateT]):
    """A watcher that fails at the first unsound state; `also` receives each state."""

    def __init__(self, also: Callable[[StateT], None] | None = None) -> None:
        self.last: StateT | None = None
        self.also = also

    def __call__(self, state: StateT) -> None:
        """Check one state against the rules, and against the state before it."""
        assert violations(state) == []
        if self.last is not None:
            assert forbidden_changes(self.last, state) == []
        self.last = state
        if self.also is not None:
            self.also(state)
