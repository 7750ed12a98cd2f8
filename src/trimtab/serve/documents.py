"""The documents of the service: what the API returns, and what pages and metrics show.

Times are seconds since 1970, shares and deviations are fractions. `None` means: not known, or none.
"""

from __future__ import annotations

from msgspec import Struct


class Waiting(Struct, frozen=True, kw_only=True):
    """Why nothing happens now, and when the service looks again; `until` is None for the next event.

    `remedy` says what would help; empty where nothing has to.
    """

    reason: str
    until: float | None
    remedy: str = ""


class ResourceStatus(Struct, frozen=True, kw_only=True):
    """The load of one resource over all brokers.

    Attributes
    ----------
    mean, peak
        Utilization: mean of all brokers, and of the busiest broker; None where no capacity is known.
    peak_broker
        The busiest broker.
    deviation
        The largest γ, and `deviation_broker` where it is.
    limit
        θ.
    """

    resource: str
    mean: float | None
    peak: float | None
    peak_broker: str
    deviation: float | None
    deviation_broker: str
    limit: float | None


class BrokerStatus(Struct, frozen=True, kw_only=True):
    """One broker; usage and deviation are in the order of `TargetStatus.resources`.

    The deviation is below 0 where the broker carries less than the mean.

    Attributes
    ----------
    load, capacity
        In the same order, in the units of the balancer: cores, bytes, bytes per second.
    figures
        Further ones, by name; of `replicas` `leader_network_in`, `follower_network_in` and
        `potential_network_out`, in bytes per second.
    """

    name: str
    rack: str
    is_online: bool
    replicas: int
    leaders: int
    bytes_stored: float | None
    usage: tuple[float | None, ...]
    deviation: tuple[float | None, ...]
    host: str = ""
    load: tuple[float | None, ...] = ()
    capacity: tuple[float | None, ...] = ()
    figures: dict[str, float] = {}


class PauseStatus(Struct, frozen=True, kw_only=True):
    """A pause of all executions; `until` is None where only a person ends it."""

    by: str
    reason: str
    since: float
    until: float | None


class PlanRecord(Struct, frozen=True, kw_only=True):
    """A plan that the service holds.

    Attributes
    ----------
    digest
        SHA-256 of the plan file, in hex; it names the plan.
    trigger
        The trigger that the plan answers; `what-if` for a plan that nothing waits for.
    settings
        Settings that differ from the configured ones.
    state
        `proposed`, `asking`, `approved`, `executing`, `executed`, `withdrawn`, `what-if`.
    state_reason
        Why the plan is in that state.
    bound_bytes
        A lower bound of the bytes of any plan that meets the goals; None where there is none.
    seconds
        Time that the planner took; None where it is not known.
    """

    digest: str
    cluster: str
    balancer: str
    trigger: str
    requested_by: str
    settings: dict[str, object]
    made_at: float
    snapshot_taken_at: str
    verdict: str
    moves: int
    bytes: int
    leader_moves: int
    bound_bytes: float | None
    problems: tuple[str, ...]
    state: str
    state_reason: str
    expires_at: float | None
    execution: int | None = None
    seconds: float | None = None


class ExecutionRecord(Struct, frozen=True, kw_only=True):
    """An execution of the service.

    Attributes
    ----------
    number
        Number in the journal of the cluster.
    status
        `running`, `interrupted`, `stopped`, `finished`, `incomplete` or `cancelled`.
    steps, steps_done, steps_failed
        Numbers of steps.
    bytes_done, bytes_total
        Bytes that are copied; 0 where steps copy none.
    progress
        One line for people.
    effect
        `helped`, `nothing`, `worse`; empty before the measurement. `effect_text` has the figures.
    """

    cluster: str
    balancer: str
    number: int
    digest: str
    trigger: str
    approved_by: str
    started_at: float
    ended_at: float | None
    status: str
    steps: int
    steps_done: int
    steps_failed: int
    bytes_done: int
    bytes_total: int
    progress: str
    effect: str = ""
    effect_text: str = ""
    throttle_bytes_per_second: float | None = None


class StepRecord(Struct, frozen=True, kw_only=True):
    """One step of an execution, as text for people."""

    number: int
    text: str
    state: str
    reason: str


class ExecutionDetail(Struct, frozen=True, kw_only=True):
    """An execution with its steps."""

    execution: ExecutionRecord
    steps: tuple[StepRecord, ...]


class DecisionRecord(Struct, frozen=True, kw_only=True):
    """One decision, or one request of a person; `number` grows over all targets of the service.

    Attributes
    ----------
    kind
        `wait`, `make_plan`, `propose`, `withdraw`, `execute`, `resume`, `stop`, `measure`, `refuse` or
        `notify`; or an event: `measured`, `requested`, `approved`, `rejected`, `paused`, `resumed`,
        `resumed_execution`, `stopped_execution`, `cancelled_execution`, `changed_throttle`,
        `started`, `ended`, `leadership`.
    digest, execution
        The plan and the execution that it is about.
    remedy
        What helps, where something was refused.
    key
        Of a notification, the condition; `is_over` says that it has ended.
    """

    number: int
    cluster: str
    balancer: str
    at: float
    kind: str
    reason: str
    trigger: str = ""
    by: str = ""
    digest: str = ""
    execution: int | None = None
    until: float | None = None
    remedy: str = ""
    key: str = ""
    is_over: bool = False


class TargetStatus(Struct, frozen=True, kw_only=True):
    """One balancer of one cluster.

    Attributes
    ----------
    cluster
        Its name in the settings.
    modes
        Trigger -> `observe`, `propose`, `ask` or `act`, as in force now.
    is_leader, leader
        Whether this instance decides, and which one does.
    verdict
        `balanced`, `unbalanced`, `above_limit`, or `unknown` without a snapshot.
    worst
        The worst broker and resource as one line.
    stage
        How far the answer to a trigger has come; empty where none is under way.
    plan
        The plan on offer or in execution.
    budget_left
        Bytes, leadership changes and executions that are left today; None: no limit.
    alerts
        Conditions that people were notified of and that last.
    problems
        What keeps the service from its work here, as sentences.
    """

    cluster: str
    balancer: str
    modes: dict[str, str]
    is_leader: bool
    leader: str
    verdict: str
    worst: str
    waiting: Waiting
    snapshot_taken_at: float | None
    snapshot_coverage: float | None
    resources: tuple[ResourceStatus, ...]
    stage: str
    trigger: str
    plan: PlanRecord | None
    execution: ExecutionRecord | None
    pause: PauseStatus | None
    budget_left: dict[str, int | None]
    alerts: tuple[str, ...]
    problems: tuple[str, ...]
    lost_brokers: tuple[str, ...] = ()


class LargestPart(Struct, frozen=True, kw_only=True):
    """A partition, or what else the balancer moves, with its load by resource name; or all of a topic.

    `partitions` is their number.
    """

    name: str
    leader: str
    brokers: tuple[str, ...]
    load: dict[str, float]
    partitions: int = 1


class TargetDetail(Struct, frozen=True, kw_only=True):
    """A target with its brokers and its largest movable parts.

    Attributes
    ----------
    largest
        The largest partitions (or bundles, keys, queues, groups): name, brokers, values by resource.
    """

    status: TargetStatus
    brokers: tuple[BrokerStatus, ...]
    largest: tuple[LargestPart, ...] = ()


class LoadSeries(Struct, frozen=True, kw_only=True):
    """Load over time: `at` in seconds since 1970, and for each resource one value per instant."""

    cluster: str
    balancer: str
    at: tuple[float, ...]
    deviation: dict[str, tuple[float | None, ...]]
    peak: dict[str, tuple[float | None, ...]]
    forecast_at: tuple[float, ...] = ()
    forecast_peak: dict[str, tuple[float | None, ...]] = {}


class Finding(Struct, frozen=True, kw_only=True):
    """Something that keeps the service, or a part of it, from working; `remedy` says what helps."""

    subject: str
    text: str
    remedy: str
    is_error: bool = True


class NotificationStatus(Struct, frozen=True, kw_only=True):
    """Deliveries of notifications.

    Attributes
    ----------
    waiting
        Notifications that are not delivered yet, one for each receiver.
    abandoned
        Notifications that were given up after ten attempts in 24 h.
    abandoned_texts
        The newest of these, one sentence each.
    """

    waiting: int = 0
    abandoned: int = 0
    abandoned_texts: tuple[str, ...] = ()
