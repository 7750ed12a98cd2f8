"""The policy of a service: what starts a plan, what may execute it, how much and when."""

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta, Struct

from trimtab_common.documents import Count, Seconds, Share

HOUR = 3600.0
DAY = 24 * HOUR

TimeOfDay = Annotated[str, Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
"""A local time, like `01:30`."""


class Mode(StrEnum):
    """What the service does when a trigger fires."""

    OBSERVE = "observe"
    """It records the condition. It makes no plan."""
    PROPOSE = "propose"
    """It makes a plan and shows it. An operator may apply the plan."""
    ASK = "ask"
    """It makes a plan, notifies, and waits for an approval until the plan expires."""
    ACT = "act"
    """It makes a plan and executes it."""


class Trigger(StrEnum):
    """The condition that a plan answers, in order of precedence."""

    UNDO = "undo"
    """An execution made the cluster worse."""
    BROKER_LOST = "broker_lost"
    """A broker or node has been gone for long enough."""
    HARD_LIMIT = "hard_limit"
    """A resource of a broker is above θ, now or in the forecast."""
    REQUEST = "request"
    """A person or a program asked for a plan."""
    BROKER_ADDED = "broker_added"
    """A new or returned broker is in service and has too few replicas."""
    DRIFT = "drift"
    """The load has been uneven for long enough."""


@dataclass(frozen=True, slots=True)
class BrokerLost:
    """Settings of the trigger `broker_lost`.

    Attributes
    ----------
    mode
        `observe`, `propose`, `ask` or `act`.
    after_seconds
        Time between the loss of a broker and the first plan.
    max_lost_share
        Share of all brokers that may be lost at once; above it the service alerts and moves nothing. One
        broker may always be lost.
    """

    mode: Mode = Mode.PROPOSE
    after_seconds: Seconds = 15 * 60.0
    max_lost_share: Share = 0.20


@dataclass(frozen=True, slots=True)
class HardLimit:
    """Settings of the trigger `hard_limit`.

    Attributes
    ----------
    mode
        `observe`, `propose`, `ask` or `act`.
    min_snapshots
        Number of snapshots in a row in which the limit is broken.
    max_forecast_error
        The forecast counts while its measured error is at most this share of the load.
    rest_seconds
        Time after an execution before this trigger fires again. Bursts may break a limit on one broker after
        the other.
    aim
        The plan aims at this share of all limits, so that the next rise does not break one again.
    """

    mode: Mode = Mode.PROPOSE
    min_snapshots: Annotated[int, Meta(ge=1)] = 3
    max_forecast_error: Share = 0.20
    rest_seconds: Seconds = 15 * 60.0
    aim: Share = 0.95


@dataclass(frozen=True, slots=True)
class BrokerAdded:
    """Settings of the trigger `broker_added`.

    Attributes
    ----------
    mode
        `observe`, `propose`, `ask` or `act`.
    after_seconds
        Time in service before the broker receives load.
    max_replica_share
        The trigger fires while the broker has fewer replicas than this share of the mean.
    """

    mode: Mode = Mode.PROPOSE
    after_seconds: Seconds = 10 * 60.0
    max_replica_share: Share = 0.25


@dataclass(frozen=True, slots=True)
class Drift:
    """Settings of the trigger `drift`.

    Attributes
    ----------
    mode
        `observe`, `propose`, `ask` or `act`.
    begin
        The worst γ above which the time counts: that of now, and that of the forecast where the plan is made
        for it.
    end
        The ε of the plan. The gap to `begin` prevents plans without end.
    hold_seconds
        Time above `begin` without a break before the trigger fires.
    rest_seconds
        Time after any execution before this trigger fires.
    recent_move_seconds
        Replicas that were moved within this time cost more to move again (`replicas.recent_move_hours`).
    load
        Load that the plan is made for: `recent`, `peak` or `forecast`.
    """

    mode: Mode = Mode.PROPOSE
    begin: Share = 0.20
    end: Share = 0.10
    hold_seconds: Seconds = 4 * HOUR
    rest_seconds: Seconds = 12 * HOUR
    recent_move_seconds: Seconds = DAY
    load: Literal["recent", "peak", "forecast"] = "forecast"


@dataclass(frozen=True, slots=True)
class Request:
    """Settings of the trigger `request`.

    Attributes
    ----------
    mode
        `ask` or `act`.
    """

    mode: Mode = Mode.ASK


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of all executions that begin within 24 hours; None: no limit.

    Attributes
    ----------
    max_bytes
        Bytes copied between brokers.
    max_leader_moves
        Leaderships transferred.
    max_executions
        Executions, without those that undo another.
    """

    max_bytes: Count | None = None
    max_leader_moves: Count | None = None
    max_executions: Count | None = 12


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def weekdays(text: str) -> frozenset[int]:
    """Days and ranges of days as numbers, Monday is 0: `fri-mon,wed` is {4, 5, 6, 0, 2}.

    Raises
    ------
    ValueError
        If a part is no day and no range of days.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise ValueError(f"{part.strip()} is no day and no range of days like mon-fri")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        found.update((begin + days) % 7 for days in range((end - begin) % 7 + 1))
    return frozenset(found)


class Window(Struct, frozen=True, forbid_unknown_fields=True):
    """A maintenance window of every week, in local time.

    Attributes
    ----------
    days
        Days on which the window opens: days and ranges of days, like `mon-fri` or `sat,sun`.
    begin, end
        Local times of day; an `end` at or before `begin` is on the next day.
    zone
        Name of a time zone of the IANA database.
    """

    begin: TimeOfDay
    end: TimeOfDay
    days: str = "mon-sun"
    zone: str = "UTC"


class Freeze(Struct, frozen=True, forbid_unknown_fields=True):
    """Days, the last included, on which nothing is executed."""

    first: date
    last: date
    zone: str = "UTC"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy of a service: when it plans, asks and executes. `trimtab replay replicas --policy` follows it.

    Attributes
    ----------
    windows
        Tables `[[serve.windows]]` with `begin`, `end`, `days` and `zone`, like `begin = "22:00"`,
        `end = "05:00"`, `days = "mon-fri"`, `zone = "Europe/Berlin"`. Executions run in these windows only;
        without any, at any time.
    freezes
        Tables `[[serve.freezes]]` with `first` and `last`, both dates, `zone` and `reason`. Nothing is
        executed on these days.
    interval_seconds
        Expected time between two snapshots.
    max_snapshot_intervals
        A snapshot older than so many intervals is stale.
    min_coverage
        Smallest share of partitions whose load a snapshot must know; estimated loads count.
    restart_quiet_seconds
        Time without a returned broker before anything is planned: brokers may be restarted in turn.
    plan_seconds
        Time after which a plan that is not there yet counts as failed.
    plan_max_age_seconds
        Age at which a plan that nobody approved expires.
    settle_seconds
        Time between the end of an execution and its measurement.
    measure_seconds
        Time after which a missing measurement is given up, with a notification.
    retry_seconds
        First pause of a trigger whose plan failed or had no effect; it doubles each time.
    max_retry_seconds
        Longest pause of such a trigger.
    undo
        Whether an execution that made the cluster worse is undone.
    max_worse
        Executions within 24 hours that made it worse, after which the service pauses itself.
    """

    broker_lost: BrokerLost = BrokerLost()
    hard_limit: HardLimit = HardLimit()
    broker_added: BrokerAdded = BrokerAdded()
    drift: Drift = Drift()
    request: Request = Request()
    budget: Budget = Budget()
    windows: tuple[Window, ...] = ()
    freezes: tuple[Freeze, ...] = field(default=())
    interval_seconds: Seconds = 300.0
    max_snapshot_intervals: Annotated[float, Meta(ge=1)] = 3.0
    min_coverage: Share = 0.95
    restart_quiet_seconds: Seconds = 10 * 60.0
    plan_seconds: Seconds = 10 * 60.0
    plan_max_age_seconds: Seconds = DAY
    settle_seconds: Seconds = 15 * 60.0
    measure_seconds: Seconds = 2 * HOUR
    retry_seconds: Seconds = HOUR
    max_retry_seconds: Seconds = DAY
    undo: bool = True
    max_worse: Annotated[int, Meta(ge=1)] = 2

    def mode_of(self, trigger: Trigger) -> Mode:
        """The mode that is configured for a trigger; an undo is executed if `undo` allows it at all."""
        if trigger is Trigger.UNDO:
            return Mode.ACT if self.undo else Mode.OBSERVE
        return {
            Trigger.BROKER_LOST: self.broker_lost.mode,
            Trigger.HARD_LIMIT: self.hard_limit.mode,
            Trigger.REQUEST: self.request.mode,
            Trigger.BROKER_ADDED: self.broker_added.mode,
            Trigger.DRIFT: self.drift.mode,
        }[trigger]
