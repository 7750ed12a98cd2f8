"""Whether the cluster is fit for more: what holds an execution up, told from one look."""

from trimtab.act.replicas.observation import Observation, TopicPartition
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import StepKind, StepState


def foreign_reassignments(state: ExecutionState, seen: Observation) -> tuple[TopicPartition, ...]:
    """Partitions that somebody else is reassigning, in order."""
    ours = {
        record.step.partition: (frozenset(record.step.after), frozenset(record.step.before))
        for record in state.records
        if record.active or record.attempts > 0 or record.state is StepState.ROLLED_BACK
    }
    return tuple(
        sorted(
            partition
            for partition, flying in seen.reassignments.items()
            if flying.target not in ours.get(partition, ())
        )
    )


def unhealthy_since_begun(state: ExecutionState, seen: Observation) -> tuple[TopicPartition, ...]:
    """Partitions offline or under min ISR that were well when the execution began, in order."""
    if seen.unhealthy is None or state.baseline is None:
        return ()
    return tuple(sorted(seen.unhealthy - state.baseline))


def lost_brokers(state: ExecutionState, seen: Observation) -> tuple[int, ...]:
    """Brokers gone since the execution began, for less than the grace: their fate is open, in order."""
    if state.brokers is None:
        return ()
    return tuple(sorted(broker for broker in state.brokers - seen.alive if not given_up(state, broker)))


def given_up(state: ExecutionState, broker: int) -> bool:
    """Whether a broker has been gone for longer than the grace."""
    since = state.gone_since.get(broker)
    return since is not None and state.now - since >= state.settings.broker_grace_seconds


def steps_without_destination(state: ExecutionState) -> dict[int, int]:
    """Step number -> the broker it needs, for steps not ended whose broker has been given up."""
    found = {}
    for record in state.records:
        if record.ended or record.state is StepState.ROLLING_BACK:
            continue
        step = record.step
        needed = step.added if step.kind is StepKind.COPY else tuple(b for b, _ in step.directories)
        if step.kind is StepKind.LEAD and step.leader is not None:
            needed = (step.leader,)
        for broker in needed:
            if given_up(state, broker):
                found[step.number] = broker
    return found


def why_wait(state: ExecutionState, seen: Observation) -> tuple[str, float] | None:
    """What forbids a new batch just now and how many seconds to bear it; None when nothing does."""
    settings = state.settings
    lost = lost_brokers(state, seen)
    if lost:
        text = f"broker {', '.join(map(str, lost))} is gone"
        return text, float("inf")  # the grace ends it
    foreign = foreign_reassignments(state, seen)
    if foreign:
        return f"another tool is reassigning {_named(foreign)}", settings.foreign_wait_seconds
    unhealthy = unhealthy_since_begun(state, seen)
    if unhealthy:
        text = f"{_named(unhealthy)} went offline or under min.insync.replicas"
        return text, settings.unhealthy_wait_seconds
    return None


def _named(partitions: tuple[TopicPartition, ...]) -> str:
    shown = ", ".join(str(partition) for partition in partitions[:3])
    return shown if len(partitions) <= 3 else f"{shown} and {len(partitions) - 3} more"
