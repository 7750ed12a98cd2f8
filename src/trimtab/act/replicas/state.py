"""The state of an execution: a value; `machine` makes each from the one before and an event."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from trimtab.act.execution.state import Execution
from trimtab.act.replicas.events import Headroom
from trimtab.act.replicas.observation import Observation, ThrottleConfig, TopicPartition
from trimtab.act.replicas.settings import ExecutionSettings
from trimtab.act.replicas.steps import StepRecord


@dataclass(frozen=True)
class ThrottleMemory:
    """What we have changed, or are about to change, and what was there before.

    Attributes
    ----------
    original
        Values to be given back: rates, and lists of the topics that we have touched.
    rates_touched
        Whether the rates are ours at present.
    """

    original: ThrottleConfig = field(default_factory=ThrottleConfig)
    rates_touched: bool = False

    @property
    def topics(self) -> frozenset[str]:
        """Topics whose lists are, or may be, ours at present."""
        return frozenset(self.original.leader_replicas)

    @property
    def empty(self) -> bool:
        """Whether nothing in the cluster is ours."""
        return not self.rates_touched and not self.topics


@dataclass(frozen=True, kw_only=True)
class ExecutionState(Execution[StepRecord, ExecutionSettings]):
    """Everything the state machine knows.

    The first group is what the journal keeps, and all that a resumed execution needs besides what all levels
    keep (`Execution`); the second group is learnt anew from the cluster.

    Attributes
    ----------
    brokers
        Alive at the first look; None before it.
    baseline
        Partitions that were unhealthy before we touched anything; None before the first look.
    throttle
        What must be given back.
    copies_per_broker, rate_bytes_per_second
        The pace at present; a rate of None is no throttle.
    """

    level: ClassVar[str] = "replicas"

    brokers: frozenset[int] | None = None
    baseline: frozenset[TopicPartition] | None = None
    throttle: ThrottleMemory = field(default_factory=ThrottleMemory)
    copies_per_broker: int = 1
    rate_bytes_per_second: float | None = None

    seen: Observation | None = None
    looked_wide_at: float | None = None
    wide_look_seconds: float = 0.0
    sensed_for_batch: int | None = None
    headroom: Mapping[int, Headroom] = field(default_factory=dict)
    free: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    gains: Mapping[int, Mapping[int, tuple[float, ...]]] = field(default_factory=dict)
    load_source: str = ""
    chosen: tuple[int, ...] = ()
    throttle_in_force: ThrottleConfig | None = None
    gone_since: Mapping[int, float] = field(default_factory=dict)
    blocked_since: Mapping[int, float] = field(default_factory=dict)
