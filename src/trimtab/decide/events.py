"""What a decision answers, and what it says: events and decisions as values."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trimtab.model.plan import Verdict
from trimtab.model.policy import Trigger


@dataclass(frozen=True, slots=True)
class BrokerObservation:
    """A broker or node as the newest snapshot has it.

    Attributes
    ----------
    name
        Kafka's id, or an address.
    rack
        Fault domain; the broker's own name where there is none.
    alive
        Whether the cluster lists it.
    replicas
        What it holds: replicas, bundles or masterships.
    """

    name: str
    rack: str
    alive: bool
    replicas: int


@dataclass(frozen=True, slots=True)
class BrokenLimit:
    """A resource of a broker above θ, as fractions of capacity."""

    resource: str
    broker: str
    value: float
    limit: float


@dataclass(frozen=True, slots=True)
class Observed:
    """A snapshot of the cluster.

    Attributes
    ----------
    taken_at
        Seconds since 1970, when its newest samples were taken.
    coverage
        Share of the loads that the snapshot knows.
    brokers
        All brokers that the cluster lists or that hold replicas.
    worst_deviation, worst_resource, worst_broker
        The largest γ of all resources that are in use, and where.
    limits
        θ of each resource, as fractions of capacity.
    broken_limits
        Limits that are broken now, disk first.
    forecast_limits, forecast_error
        Limits that the forecast breaks in the coming hours, and the measured error of the forecast as a share
        of the load.
    forecast_deviation
        The largest γ of the mean load of the hours to come; None without a forecast.
    foreign_work
        What another program changes in the cluster now; empty where there is none.
    unexplained
        Partitions that are offline or below min.insync.replicas for another cause than lost brokers.
    conflict
        How the cluster differs from what the proposed plan needs; empty where the plan still fits.
    changed_brokers
        Brokers that the cluster lists now and the snapshot has as dead, or the other way round; `brokers` has
        them as the cluster has.
    """

    taken_at: float
    coverage: float
    brokers: tuple[BrokerObservation, ...]
    worst_deviation: float = 0.0
    worst_resource: str = ""
    worst_broker: str = ""
    limits: tuple[tuple[str, float], ...] = ()
    broken_limits: tuple[BrokenLimit, ...] = ()
    forecast_limits: tuple[BrokenLimit, ...] = ()
    forecast_error: float = 1.0
    forecast_deviation: float | None = None
    foreign_work: str = ""
    unexplained: int = 0
    conflict: str = ""
    changed_brokers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """What decisions need to know of a plan.

    Attributes
    ----------
    digest
        SHA-256 of the plan's bytes, in hex. It names the plan: what is approved is what is executed.
    moves, bytes, leader_moves
        Number of moves, bytes that they copy, and leaderships that they transfer.
    problems
        The first problem of the plan, as a sentence; empty where it has none.
    """

    digest: str
    verdict: Verdict
    moves: int
    bytes: int
    leader_moves: int
    problems: str = ""


@dataclass(frozen=True, slots=True)
class PlanMade:
    """The planner has answered `MakePlan`."""

    plan: PlanSummary


@dataclass(frozen=True, slots=True)
class PlanFailed:
    """The planner could not answer `MakePlan`."""

    error: str


@dataclass(frozen=True, slots=True)
class PlanRequested:
    """A person or a program asks for a plan, with settings such as `drain`."""

    by: str
    settings: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Approved:
    """A person approves the plan of that digest."""

    digest: str
    by: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A person rejects the plan of that digest."""

    digest: str
    by: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ExecutionStarted:
    """The execution of the approved plan has a number in the journal."""

    execution: int


@dataclass(frozen=True, slots=True)
class ExecutionResumed:
    """A person lets an execution go on that a person has stopped."""

    execution: int
    by: str


class Outcome(StrEnum):
    """The outcome of an execution that has ended."""

    FINISHED = "finished"
    """All that it had to do is done."""
    INCOMPLETE = "incomplete"
    """It ended by itself, and some steps were not done."""
    STOPPED = "stopped"
    """It was stopped and can be resumed."""
    CANCELLED = "cancelled"
    """It was cancelled; what it had begun is taken back."""
    REFUSED = "refused"
    """Nothing was changed: the cluster or another program did not allow it."""


@dataclass(frozen=True, slots=True)
class ExecutionEnded:
    """An execution has ended.

    Attributes
    ----------
    execution
        Number in the journal; None where the execution was refused before it had one.
    bytes, leader_moves
        What was done since the execution began.
    can_undo
        Whether what was done can be taken back.
    """

    execution: int | None
    outcome: Outcome
    bytes: int = 0
    leader_moves: int = 0
    can_undo: bool = False
    reason: str = ""


class Effect(StrEnum):
    """The measured effect of an execution on the load."""

    HELPED = "helped"
    """Load that missed a goal became more even, and none became worse."""
    NOTHING = "nothing"
    """No load that missed a goal became more even, and none became worse."""
    WORSE = "worse"
    """Load became less even, or a peak higher."""


@dataclass(frozen=True, slots=True)
class EffectMeasured:
    """The measurement of an execution; `text` has the figures before and after."""

    execution: int
    effect: Effect
    text: str = ""


@dataclass(frozen=True, slots=True)
class Paused:
    """A person pauses all executions, until a time or for good."""

    by: str
    reason: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Resumed:
    """A person ends a pause, and lifts the limits that the service has put on its triggers."""

    by: str


@dataclass(frozen=True, slots=True)
class LeadershipChanged:
    """The instance has become, or is no longer, the one that decides."""

    is_leader: bool


@dataclass(frozen=True, slots=True)
class Restarted:
    """The service has read its state after a start. Plans in preparation are lost, executions are not."""


@dataclass(frozen=True, slots=True)
class TimeReached:
    """Nothing has happened, but it is time to look again."""


Event = (
    Observed
    | PlanMade
    | PlanFailed
    | PlanRequested
    | Approved
    | Rejected
    | ExecutionStarted
    | ExecutionResumed
    | ExecutionEnded
    | EffectMeasured
    | Paused
    | Resumed
    | LeadershipChanged
    | Restarted
    | TimeReached
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The base of all decisions: each has its reason, with figures, as one line."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Decision):
    """Nothing is to be done until an event comes or `until` is reached, seconds since 1970.

    `remedy` says what would help; empty where nothing has to.
    """

    until: float
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MakePlan(Decision):
    """The planner is to make a plan with these settings; the answer is `PlanMade` or `PlanFailed`."""

    trigger: Trigger
    settings: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Propose(Decision):
    """A plan is shown; `ask` says that an approval is waited for, until `until`."""

    trigger: Trigger
    digest: str
    ask: bool
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw(Decision):
    """A proposed plan is no longer on offer: rejected, expired, superseded or without object."""

    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute(Decision):
    """The plan of that digest is to be executed, until `until` at the latest."""

    trigger: Trigger
    digest: str
    by: str
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(Decision):
    """A stopped or interrupted execution is to go on."""

    execution: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Decision):
    """The running execution is to end after the steps that are under way."""

    execution: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(Decision):
    """The effect of an execution is to be measured; the answer is `EffectMeasured`."""

    execution: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse(Decision):
    """What was asked for, or what a trigger wants, is not done; `remedy` says what would help."""

    remedy: str


LASTING_CONDITIONS: Final = frozenset({"outage", "paused", "stale"})
"""Keys of notifications about conditions that last: a second notification states their end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify(Decision):
    """People are to be notified. `key` names the condition; `over` says that it has ended."""

    key: str
    over: bool = False
