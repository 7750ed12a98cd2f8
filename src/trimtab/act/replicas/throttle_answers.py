"""What Kafka's answers about the throttle change."""

from dataclasses import replace

from trimtab.act.execution.failing import well
from trimtab.act.execution.failure import Failure
from trimtab.act.execution.status import Status
from trimtab.act.replicas.commands import WriteThrottle
from trimtab.act.replicas.events import ThrottleRead, ThrottleWritten
from trimtab.act.replicas.failures import failed
from trimtab.act.replicas.state import ExecutionState, ThrottleMemory
from trimtab.act.replicas.throttle import forgetting, remembering


def throttle_read(state: ExecutionState, event: ThrottleRead) -> ExecutionState:
    """What is set is remembered, to be given back."""
    return well(replace(state, throttle=remembering(state.throttle, event.config), throttle_in_force=None))


def throttle_written(state: ExecutionState, event: ThrottleWritten) -> ExecutionState:
    """Our throttle is in force, or Kafka refused it."""
    assert isinstance(state.awaiting, WriteThrottle)
    if event.failures:
        name, failure = sorted(event.failures.items())[0]
        subject = f"the throttle list of {name}" if name else "the throttle rate"
        if failure.code.endswith("AuthorizationFailed") and state.batches == 0:
            # Refused outright before anything was begun: nothing of ours is there to be given back.
            reason = f"Kafka refuses {subject}: {failure.message}: grant AlterConfigs or use --throttle none"
            return replace(state, status=Status.STOPPING, reason=reason, throttle=ThrottleMemory())
        return failed(state, Failure(failure.code, f"{subject}: {failure.message}", failure.transient))
    config, kept = state.awaiting.config, state.awaiting.kept_topics
    memory = forgetting(state.throttle, kept, rates_touched=state.awaiting.kept_rates)
    in_force = replace(
        config,
        leader_replicas={t: v for t, v in config.leader_replicas.items() if t in kept},
        follower_replicas={t: v for t, v in config.follower_replicas.items() if t in kept},
    )
    return well(replace(state, throttle=memory, throttle_in_force=in_force))
