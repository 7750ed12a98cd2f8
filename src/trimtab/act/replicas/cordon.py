"""Cordons: Kafka places no new replicas on a broker while the broker is being drained (KIP-1066).

The value from before is in the state before ours is written, as with the throttle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trimtab.act.execution.messages import Command, Failure, Wait
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.execution.transitions import failed, is_lost, well
from trimtab.act.replicas.messages import CordonsRead, CordonsWritten, ReadCordons, WriteCordons
from trimtab.act.replicas.state import Cordon, ReplicasExecutionState

if TYPE_CHECKING:
    from trimtab.model.replicas.plan import ReplicasPlan

ALL_LOG_DIRS: Final = "*"
KEEPING: Final = frozenset({ExecutionStatus.FINISHED, ExecutionStatus.INCOMPLETE})
"""The outcomes after which drained brokers stay cordoned."""
REFUSED_VALUES: Final = frozenset({"InvalidConfiguration", "InvalidRequest"})
"""Kafka's refusals of a value: another attempt cannot help."""


def drained_brokers(plan: ReplicasPlan) -> tuple[int, ...]:
    """The brokers that a plan drains, ascending; not those that it gives replicas all the same."""
    asked = plan.settings.get("drain", ())
    drained = set(asked) if isinstance(asked, list | tuple) else set()
    filled = {broker for a in plan.assignments for broker in a.after if broker not in a.before}
    return tuple(sorted(drained - filled))


def with_drained(state: ReplicasExecutionState, plan: ReplicasPlan) -> ReplicasExecutionState:
    """See `Executor.of_plan`."""
    return replace(state, drained=drained_brokers(plan))


def order_to_cordon(state: ReplicasExecutionState) -> Command | None:
    """The order that cordons the drained brokers that are alive; None when they are, or cannot be."""
    if not state.settings.cordon_drained:
        return None
    left = [broker for broker in state.drained if broker in state.observation.alive - state.cordons_settled]
    unknown = tuple(broker for broker in left if broker not in {cordon.broker for cordon in state.cordons})
    if unknown:
        return ReadCordons(unknown)
    return WriteCordons(dict.fromkeys(left, ALL_LOG_DIRS)) if left else None


def order_to_end_cordons(state: ReplicasExecutionState) -> tuple[ReplicasExecutionState, Command | None]:
    """After a drain the cordons stay; after an early end each broker gets its value from before."""
    if state.outcome in KEEPING:
        unsure = "Kafka did not confirm it"
        kept = [_retained_text(one) if one.is_set else _left_text(one, unsure) for one in state.cordons]
        return _noted(replace(state, cordons=()), *kept), None
    back = {
        cordon.broker: cordon.before for cordon in state.cordons if cordon.broker in state.observation.alive
    }
    if back:
        return state, WriteCordons(back)
    gone = [cordon for cordon in state.cordons if is_lost(state, cordon.broker)]
    state = _forgetting(state, (cordon.broker for cordon in gone))
    state = _noted(state, *(_left_text(cordon, "the broker is gone") for cordon in gone))
    return state, Wait(state.now + state.settings.poll_interval_seconds) if state.cordons else None


def cordons_read(state: ReplicasExecutionState, event: CordonsRead) -> ReplicasExecutionState:
    """Values from before are remembered; brokers that are cordoned or cannot be need nothing from us."""
    order = state.awaiting
    assert isinstance(order, ReadCordons)
    unsupported = [broker for broker in order.brokers if broker not in event.values]
    ours = tuple(
        Cordon(broker, value) for broker, value in sorted(event.values.items()) if value != ALL_LOG_DIRS
    )
    settled = frozenset(order.brokers) - {cordon.broker for cordon in ours}
    notes = [_not_cordoned_text(unsupported, "cordoned.log.dirs needs Kafka 4.3")] if unsupported else []
    state = replace(state, cordons=(*state.cordons, *ours), cordons_settled=state.cordons_settled | settled)
    return well(_noted(state, *notes))


def reading_denied(state: ReplicasExecutionState, failure: Failure) -> ReplicasExecutionState:
    """Without the right to read settings the brokers are drained without a cordon."""
    order = state.awaiting
    assert isinstance(order, ReadCordons)
    state = replace(state, cordons_settled=state.cordons_settled | frozenset(order.brokers))
    return well(_noted(state, _not_cordoned_text(order.brokers, _failure_text(failure))))


def cordons_written(state: ReplicasExecutionState, event: CordonsWritten) -> ReplicasExecutionState:
    """Brokers are cordoned, or have their values from before; or Kafka refuses.

    What Kafka refuses to cordon is drained without. A value from before that Kafka does not take is left to
    the operator.
    """
    order = state.awaiting
    assert isinstance(order, WriteCordons)
    restores = state.status is ExecutionStatus.CLEANING
    done = frozenset(order.values) - event.failures.keys()
    ended = set(done) if restores else set()
    settled = set(done)
    for cordon in state.cordons:
        failure = event.failures.get(cordon.broker)
        if failure is None:
            continue
        if restores and failure.code in REFUSED_VALUES:
            state = _noted(state, _left_text(cordon, _failure_text(failure)))
            ended.add(cordon.broker)
        elif not restores and (failure.code in REFUSED_VALUES or is_denied(failure)):
            settled.add(cordon.broker)
            if not cordon.is_set:
                state = _noted(state, _not_cordoned_text([cordon.broker], _failure_text(failure)))
                ended.add(cordon.broker)
    state = _forgetting(state, ended)
    state = replace(
        state,
        cordons=tuple(replace(c, is_set=c.is_set or c.broker in done) for c in state.cordons),
        cordons_settled=state.cordons_settled | settled,
    )
    others = {broker: f for broker, f in event.failures.items() if broker not in ended | settled}
    if not others:
        return well(state)
    broker, failure = min(others.items())
    subject = f"cordoned.log.dirs of broker {broker}"
    return failed(state, Failure(failure.code, f"{subject}: {failure.message}", failure.transient))


def is_denied(failure: Failure) -> bool:
    """True if a right is missing."""
    return failure.code.endswith("AuthorizationFailed")


def _forgetting(state: ReplicasExecutionState, brokers: Iterable[int]) -> ReplicasExecutionState:
    gone = frozenset(brokers)
    return replace(state, cordons=tuple(cordon for cordon in state.cordons if cordon.broker not in gone))


def _noted(state: ReplicasExecutionState, *notes: str) -> ReplicasExecutionState:
    return replace(state, notes=tuple(dict.fromkeys((*state.notes, *notes))))


def _not_cordoned_text(brokers: Sequence[int], why: str) -> str:
    noun = "broker" if len(brokers) == 1 else "brokers"
    numbers = ", ".join(map(str, brokers))
    return f"{noun} {numbers} not cordoned, new topics may be placed there until stopped: {why}"


def _failure_text(failure: Failure) -> str:
    needed = "; grant DescribeConfigs and AlterConfigs on the cluster" if is_denied(failure) else ""
    return f"Kafka refuses it: {failure.message}{needed}"


def _retained_text(cordon: Cordon) -> str:
    return (
        f"broker {cordon.broker} stays cordoned, Kafka places no new replicas there; to use it again: "
        f"{_command(cordon)}"
    )


def _left_text(cordon: Cordon, why: str) -> str:
    return f"broker {cordon.broker} may still be cordoned, {why}; to remove the cordon: {_command(cordon)}"


def _command(cordon: Cordon) -> str:
    """Kafka's own command that brings the value from before back."""
    if cordon.before is None:
        change = "--delete-config cordoned.log.dirs"
    else:
        change = f"--add-config 'cordoned.log.dirs=[{cordon.before}]'"
    return (
        "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type brokers "
        f"--entity-name {cordon.broker} {change}"
    )
