"""Which replication throttle an execution wants in force, and how its pace follows the cluster's health."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from trimtab.act.replicas.events import Headroom
from trimtab.act.replicas.observation import ThrottleConfig
from trimtab.act.replicas.settings import ExecutionSettings
from trimtab.act.replicas.state import ThrottleMemory
from trimtab.act.replicas.steps import Step, StepKind


def wanted_config(memory: ThrottleMemory, rate: float | None, steps: Iterable[Step]) -> ThrottleConfig:
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
        if step.kind is StepKind.COPY and rate is not None:
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


def topics_of(steps: Iterable[Step]) -> frozenset[str]:
    """Topics that have a copy among these steps."""
    return frozenset(step.partition.topic for step in steps if step.kind is StepKind.COPY)


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


def forgetting(memory: ThrottleMemory, kept: frozenset[str], rates_touched: bool) -> ThrottleMemory:
    """The memory once the lists of all topics but `kept` (and the rates, if so) have been given back."""
    original = memory.original
    return ThrottleMemory(
        original=replace(
            original,
            leader_rate=original.leader_rate if rates_touched else None,
            follower_rate=original.follower_rate if rates_touched else None,
            leader_replicas={t: v for t, v in original.leader_replicas.items() if t in kept},
            follower_replicas={t: v for t, v in original.follower_replicas.items() if t in kept},
        ),
        rates_touched=rates_touched,
    )


def first_rate(
    settings: ExecutionSettings, headroom: Mapping[int, Headroom], brokers: Iterable[int]
) -> float | None:
    """The throttle to begin with, bytes per second and broker; None for no throttle."""
    if settings.throttle == "none":
        return None
    if settings.fixed_rate is not None:
        return settings.fixed_rate
    ceiling = rate_ceiling(settings, headroom, brokers)
    return settings.throttle_start_bytes_per_second if ceiling is None else ceiling


def rate_ceiling(
    settings: ExecutionSettings, headroom: Mapping[int, Headroom], brokers: Iterable[int]
) -> float | None:
    """What the tightest network path allows; None where no path's limit is known."""
    tightest = free_network(headroom, brokers)
    if tightest == float("inf"):
        return None
    return max(settings.throttle_minimum_bytes_per_second, settings.throttle_headroom_fraction * tightest)


def free_network(headroom: Mapping[int, Headroom], brokers: Iterable[int]) -> float:
    """What the tightest of these brokers has free, bytes per second; infinite where no limit is known."""
    return min(
        (
            min(headroom[broker].network_in, headroom[broker].network_out)
            for broker in brokers
            if broker in headroom
        ),
        default=float("inf"),
    )


def next_rate(
    settings: ExecutionSettings,
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
        return max(settings.throttle_minimum_bytes_per_second, rate / 2)
    if ceiling is None:
        ceiling = max(rate, settings.throttle_start_bytes_per_second)
    ceiling = max(ceiling, needed)
    return min(ceiling, rate + ceiling / 10)


def next_copies_per_broker(settings: ExecutionSettings, copies: int, healthy: bool) -> int:
    """One more after a quiet batch, half as many after trouble."""
    if healthy:
        return min(settings.copies_per_broker_maximum, copies + 1)
    return max(1, copies // 2)


def rate_text(bytes_per_second: float) -> str:
    """A throttle's rate, or what it is held against, in decimal megabytes."""
    return f"{bytes_per_second / 1e6:.3g} MB/s"
