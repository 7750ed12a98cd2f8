"""What a service knows of one balancer of one cluster: all that decisions depend on, and nothing else.

The state is a value. It is written down before a decision takes effect, and a restart goes on from it.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import msgspec

from trimtab.decide.events import Observed, PlanSummary
from trimtab.model.policy import Trigger

APPROVED_BY: Final = "approved_by"
"""Setting of a request whose plan is approved with the request, by that person."""


class Stage(StrEnum):
    """How far the answer to a trigger has come.

    A `stopped` execution goes on by itself once the cause is over; a `held` one was stopped by a person.
    """

    PLANNING = "planning"
    PROPOSED = "proposed"
    STARTING = "starting"
    EXECUTING = "executing"
    STOPPING = "stopping"
    STOPPED = "stopped"
    HELD = "held"
    SETTLING = "settling"
    MEASURING = "measuring"


@dataclass(frozen=True, slots=True)
class Work:
    """The one answer to a trigger that is under way.

    Attributes
    ----------
    since
        When it came to this stage, seconds since 1970.
    settings
        Settings of its plan.
    limits
        Broker and resource of each broken limit that it answers.
    plan
        None while it is made.
    approved_by
        Who approved the plan: a person, or `policy` in the mode `act`; empty where nobody has.
    execution
        Number in the journal; None before the execution has begun.
    can_undo
        Whether the execution can be taken back.
    """

    trigger: Trigger
    stage: Stage
    since: float
    settings: tuple[tuple[str, object], ...] = ()
    limits: tuple[tuple[str, str], ...] = ()
    plan: PlanSummary | None = None
    approved_by: str = ""
    execution: int | None = None
    can_undo: bool = False


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """A plan that somebody asked for and that is not made yet."""

    by: str
    settings: tuple[tuple[str, object], ...]
    at: float


@dataclass(frozen=True, slots=True)
class Spent:
    """An execution that counts against the budget of 24 hours."""

    at: float
    bytes: int
    leader_moves: int
    is_undo: bool = False


@dataclass(frozen=True, slots=True)
class Retry:
    """The pause of a trigger that could not help: until when, and how long it was."""

    until: float
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Pause:
    """No execution begins; `until` is None where only a person ends the pause."""

    by: str
    reason: str
    since: float
    until: float | None = None


@dataclass(frozen=True, slots=True)
class State:
    """The state of one balancer of one cluster.

    Attributes
    ----------
    is_leader
        Whether this instance decides.
    observed
        The newest snapshot.
    known
        Brokers that have been seen, with their racks.
    lost_since, back_since, arrived_since
        By broker, seconds since 1970: when it was lost, when it was seen again, and since when a new or
        returned broker waits for its share.
    broken_snapshots, forecast_snapshots
        Snapshots in a row with a broken limit, now and in the forecast.
    drift_since
        Since when the load has been uneven without a break; None where it is not.
    requests
        Plans that were asked for and are not made yet, the oldest first.
    work
        The answer that is under way; None where there is none.
    undo
        Executions that made it worse and are to be undone.
    last_execution_at
        When the last execution ended.
    spent
        Executions of the last 24 hours.
    retries
        Triggers that wait.
    must_ask
        Triggers that need an approval, whatever their mode: their last execution made it worse.
    worse_at
        When executions made it worse, of the last 24 hours.
    pause
        None where nobody pauses.
    alerts
        Keys of conditions that people were notified of and that still last.
    """

    is_leader: bool = False
    observed: Observed | None = None
    known: dict[str, str] = field(default_factory=dict)
    lost_since: dict[str, float] = field(default_factory=dict)
    back_since: dict[str, float] = field(default_factory=dict)
    arrived_since: dict[str, float] = field(default_factory=dict)
    broken_snapshots: int = 0
    forecast_snapshots: int = 0
    drift_since: float | None = None
    requests: tuple[WaitingRequest, ...] = ()
    work: Work | None = None
    undo: tuple[int, ...] = ()
    last_execution_at: float | None = None
    spent: tuple[Spent, ...] = ()
    retries: dict[Trigger, Retry] = field(default_factory=dict)
    must_ask: frozenset[Trigger] = frozenset()
    worse_at: tuple[float, ...] = ()
    pause: Pause | None = None
    alerts: frozenset[str] = frozenset()


def state_bytes(state: State) -> bytes:
    """The state as JSON; `state_from` reads it after a restart."""
    return msgspec.json.encode(state)


def state_from(data: bytes) -> State:
    """The state that `state_bytes` has written.

    Raises
    ------
    msgspec.ValidationError
        If the bytes are no such state.
    """
    state = msgspec.json.decode(data, type=State)
    work = state.work
    return replace(
        state,
        work=None if work is None else replace(work, settings=_tuples(work.settings)),
        requests=tuple(replace(one, settings=_tuples(one.settings)) for one in state.requests),
    )


def _tuples(settings: tuple[tuple[str, object], ...]) -> tuple[tuple[str, object], ...]:
    """Settings whose lists are tuples again, as orders to plan have them."""
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in settings)
