"""Kafka settings that an execution changes for its duration: replication throttles and cordons of brokers.

The state holds the old value of each setting before it is changed. At the end every setting is restored,
unless somebody else has changed it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trimtab.act.execution.port import Command, Failure, Wait
from trimtab.act.execution.state import ExecutionStatus, failed, is_lost, well
from trimtab.act.replicas.port import (
    CordonsRead,
    CordonsWritten,
    NetworkHeadroom,
    OwnRates,
    ReadCordons,
    ReadThrottle,
    ThrottleConfig,
    ThrottleRead,
    ThrottleWritten,
    WriteCordons,
    WriteThrottle,
)
from trimtab.act.replicas.state import (
    Cordon,
    ReplicasExecutionSettings,
    ReplicasExecutionState,
    ReplicaStep,
    ReplicaStepKind,
    ThrottleMemory,
)

if TYPE_CHECKING:
    from trimtab.model.replicas.plan import ReplicasPlan


def desired_config(
    memory: ThrottleMemory, rate: float | None, steps: Iterable[ReplicaStep]
) -> ThrottleConfig:
    """Rates and lists for the copies under way; topics of earlier copies get their old lists back.

    Parameters
    ----------
    memory
        Must know the original lists of every topic of `steps`.
    rate
        Bytes per second and broker; None gives the rates back too.
    steps
        Those under way or about to be. Sources are throttled as leaders (any of the old replicas may lead
        during the copy), the new replicas as followers: nobody else's replication is slowed.
    """
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for step in steps:
        if step.kind is ReplicaStepKind.COPY and step.added and rate is not None:
            topic, number = step.partition
            leaders.setdefault(topic, []).extend(f"{number}:{broker}" for broker in step.before)
            followers.setdefault(topic, []).extend(f"{number}:{broker}" for broker in step.added)
    original = memory.original
    text = None if rate is None else str(int(rate))
    return ThrottleConfig(
        leader_rate=original.leader_rate if text is None else text,
        follower_rate=original.follower_rate if text is None else text,
        leader_replicas=dict(original.leader_replicas) | {t: ",".join(v) for t, v in leaders.items()},
        follower_replicas=dict(original.follower_replicas) | {t: ",".join(v) for t, v in followers.items()},
    )


def topics_of(steps: Iterable[ReplicaStep]) -> frozenset[str]:
    """Topics that have a copy among these steps."""
    return frozenset(
        step.partition.topic for step in steps if step.kind is ReplicaStepKind.COPY and step.added
    )


def remembering(memory: ThrottleMemory, found: ThrottleConfig) -> ThrottleMemory:
    """The memory with what was found in the cluster added; what it knows already stays."""
    original = memory.original
    rates = found if not memory.rates_touched else original
    return ThrottleMemory(
        original=ThrottleConfig(
            leader_rate=rates.leader_rate,
            follower_rate=rates.follower_rate,
            leader_replicas=dict(found.leader_replicas) | dict(original.leader_replicas),
            follower_replicas=dict(found.follower_replicas) | dict(original.follower_replicas),
        ),
        rates_touched=True,
    )


def forgetting(memory: ThrottleMemory, retained: frozenset[str], rates_touched: bool) -> ThrottleMemory:
    """The memory once the lists of all topics but `kept` (and the rates, if so) have been given back."""
    original = memory.original.of_topics(retained)
    if not rates_touched:
        original = replace(original, leader_rate=None, follower_rate=None)
    return ThrottleMemory(original, rates_touched)


def first_rate(
    settings: ReplicasExecutionSettings, headroom: Mapping[int, NetworkHeadroom], brokers: Iterable[int]
) -> float | None:
    """The throttle to begin with, bytes per second and broker; None for no throttle."""
    if settings.throttle == "none":
        return None
    if settings.fixed_rate is not None:
        return settings.fixed_rate
    ceiling = rate_ceiling(settings, headroom, brokers)
    return settings.throttle_initial_bytes_per_second if ceiling is None else ceiling


def rate_ceiling(
    settings: ReplicasExecutionSettings, headroom: Mapping[int, NetworkHeadroom], brokers: Iterable[int]
) -> float | None:
    """The rate that the tightest network path allows; None where no path's limit is known."""
    tightest = free_network(headroom, brokers)
    if tightest == float("inf"):
        return None
    return max(settings.throttle_min_bytes_per_second, settings.throttle_headroom_fraction * tightest)


@dataclass(frozen=True, slots=True)
class NetworkPath:
    """One direction of a broker's network, and the bytes per second that are free in it."""

    broker: int
    resource: str
    free_bytes_per_second: float


def tightest_path(headroom: Mapping[int, NetworkHeadroom], brokers: Iterable[int]) -> NetworkPath | None:
    """The path of these brokers that has the least room; None where no limit is known."""
    paths = [
        NetworkPath(broker, name, free)
        for broker in sorted(set(brokers) & headroom.keys())
        for name, free in (
            ("network_in", headroom[broker].network_in),
            ("network_out", headroom[broker].network_out),
        )
        if free < float("inf")
    ]
    return min(paths, key=lambda path: path.free_bytes_per_second, default=None)


def free_network(headroom: Mapping[int, NetworkHeadroom], brokers: Iterable[int]) -> float:
    """The room of the tightest of these brokers, bytes per second; infinite where no limit is known."""
    tightest = tightest_path(headroom, brokers)
    return float("inf") if tightest is None else tightest.free_bytes_per_second


def brokers_of(steps: Iterable[ReplicaStep]) -> frozenset[int]:
    """The brokers whose network copies may use: the old replicas, any of which may lead, and the new ones."""
    return frozenset(broker for step in steps for broker in (*step.added, *step.before))


def next_rate(
    settings: ReplicasExecutionSettings,
    rate: float | None,
    ceiling: float | None,
    healthy: bool,
    needed: float = 0.0,
) -> float | None:
    """Additive increase while all is well, multiplicative decrease in trouble; a number asked for stays.

    Parameters
    ----------
    needed
        What the copies in flight need so as not to be outrun by what is written; it may go above `ceiling`.
    """
    if rate is None or settings.fixed_rate is not None:
        return rate
    if not healthy:
        return max(settings.throttle_min_bytes_per_second, rate / 2)
    if ceiling is None:
        ceiling = max(rate, settings.throttle_initial_bytes_per_second)
    ceiling = max(ceiling, needed)
    return min(ceiling, rate + ceiling / 10)


def next_copies_per_broker(settings: ReplicasExecutionSettings, copies: int, healthy: bool) -> int:
    """One more after a quiet batch, half as many after trouble."""
    if healthy:
        return min(settings.max_copies_per_broker, copies + 1)
    return max(1, copies // 2)


def rate_text(bytes_per_second: float) -> str:
    """A throttle's rate, or what it is held against, in decimal megabytes."""
    return f"{bytes_per_second / 1e6:.3g} MB/s"


def warnings(initial: float | None, default: ThrottleConfig, own: OwnRates) -> list[str]:
    """A sentence for each throttle that somebody has set before us, for whoever begins an execution.

    The rate for all brokers we replace for as long as copies are in flight, and put back. A rate that a
    broker has of its own Kafka prefers to that: we leave it alone, so it decides how fast copies through that
    broker are.

    Parameters
    ----------
    initial
        Bytes per second and broker that the execution begins with; None for no throttle.
    default
        Rates set for all brokers.
    own
        Rates of the brokers that take part.
    """
    found = []
    lowest = min((float(r) for r in (default.leader_rate, default.follower_rate) if r), default=None)
    if initial is not None and lowest is not None and lowest < initial:
        found.append(
            f"a throttle of {rate_text(lowest)} is set for all brokers, lower than ours of "
            f"{rate_text(initial)}: ours holds while copies are in flight, then theirs is put back; keep to "
            "it "
            f"with --throttle {lowest:.0f}"
        )
    for broker, rates in sorted(own.items()):
        for name, rate in sorted(rates.items()):
            if initial is None:
                than, effect = "", "it may hold copies back"
            elif rate == initial:
                continue
            else:
                slower = rate < initial
                than = f", {'lower' if slower else 'higher'} than ours of {rate_text(initial)}"
                effect = "copies through it " + ("go no faster" if slower else "are not held to ours")
            found.append(
                f"broker {broker} has a throttle of its own, {name} = {rate_text(rate)}{than}: Kafka prefers "
                f"it, so {effect}; it is left alone, remove it if it was forgotten there"
            )
    return found


def order_for_throttle(state: ReplicasExecutionState, steps: Sequence[ReplicaStep]) -> Command | None:
    """The order that puts the throttle for these steps in force; None when it is."""
    rate = state.rate_bytes_per_second
    copies = topics_of(steps) if rate is not None else frozenset()
    unknown = copies - state.throttle.topics
    if unknown or (copies and not state.throttle.rates_touched):
        return ReadThrottle(tuple(sorted(unknown)))
    if state.throttle.empty:
        return None
    wanted = desired_config(state.throttle, rate if copies else None, steps)
    if wanted == state.throttle_in_force:
        return None
    return WriteThrottle(wanted, retained_topics=copies, retained_rates=bool(copies))


def throttle_read(state: ReplicasExecutionState, event: ThrottleRead) -> ReplicasExecutionState:
    """Settings that were there are remembered, to be given back."""
    return well(replace(state, throttle=remembering(state.throttle, event.config), throttle_in_force=None))


def throttle_written(state: ReplicasExecutionState, event: ThrottleWritten) -> ReplicasExecutionState:
    """Our throttle is in force, or Kafka refused it."""
    order = state.awaiting
    assert isinstance(order, WriteThrottle)
    if event.failures:
        name, failure = sorted(event.failures.items())[0]
        subject = f"the throttle list of {name}" if name else "the throttle rate"
        if failure.code.endswith("AuthorizationFailed") and state.batches == 0:
            # Refused outright before anything was begun: nothing of ours is there to be given back.
            reason = f"Kafka refuses {subject}: {failure.message}: grant AlterConfigs or use --throttle none"
            return replace(state, status=ExecutionStatus.STOPPING, reason=reason, throttle=ThrottleMemory())
        named = Failure(failure.code, f"{subject}: {failure.message}", failure.transient)
        return failed(replace(state, throttle_in_force=None), named)
    kept = order.retained_topics
    memory = forgetting(state.throttle, kept, rates_touched=order.retained_rates)
    return well(replace(state, throttle=memory, throttle_in_force=order.config.of_topics(kept)))


def throttle_unconfirmed(state: ReplicasExecutionState) -> ReplicasExecutionState:
    """After a call that failed as a whole, a throttle that may have been written is no longer known."""
    return replace(state, throttle_in_force=None) if isinstance(state.awaiting, WriteThrottle) else state


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
    """Add the brokers that the plan drains to an initial state."""
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
