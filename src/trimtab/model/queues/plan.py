"""A plan of the balancer `queues`: weights and settings to publish, and what the scheduler would do now."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trimtab.model.documents import Amount, Order, Receipt, StepOutcome
from trimtab.model.plan import Plan
from trimtab_common.documents import Count, Name

Published = float | str
"""A weight in seconds, or the value of a setting."""


class PublicationKind(StrEnum):
    """The kind of what is published."""

    WEIGHT = "weight"
    SETTING = "setting"


@dataclass(frozen=True, slots=True)
class PublicationReason:
    """Why something is published.

    Attributes
    ----------
    goal
        `measured`: the processing times of a class say so; `asked`: the settings of the plan do.
    resource
        None: it is not for one.
    samples, mean_seconds, standard_error_seconds
        Of the class, as measured; None for settings.
    """

    goal: Name
    resource: Name | None
    text: str
    samples: Count | None = None
    mean_seconds: Amount | None = None
    standard_error_seconds: Amount | None = None


@dataclass(frozen=True, slots=True)
class Publication:
    """One weight or setting that becomes another.

    Attributes
    ----------
    name
        Of the class, or of the setting.
    before
        As published; None where it is not.
    """

    order: Order
    kind: PublicationKind
    name: Name
    before: Published | None
    after: Published
    reason: PublicationReason


@dataclass(frozen=True, slots=True)
class PublicationAssignment:
    """One entry of what is published before and after the whole plan, changed or not."""

    kind: PublicationKind
    name: Name
    before: Published | None
    after: Published


@dataclass(frozen=True, slots=True)
class QueueForecast:
    """One queue as the scheduler sees it.

    Attributes
    ----------
    work_seconds, forecast_seconds
        Now, and at the end of the cycle.
    trend
        D, seconds of work a second.
    messages, forecast_messages
        Now, and what the forecast amounts to at the mean weight.
    state
        By the forecast: light, moderate, overload.
    paused
        The mark as it is.
    """

    queue: Count
    messages: Count
    work_seconds: Amount
    trend: float
    forecast_seconds: Amount
    forecast_messages: Amount
    state: Name
    paused: bool


@dataclass(frozen=True, slots=True)
class SchedulerOrder:
    """One thing that the scheduler would do; nobody carries it out for a plan.

    Attributes
    ----------
    when
        `now`, or `end of cycle`: if nothing is overloaded until then.
    kind
        `pause`, `resume` or `move`.
    queue, target
        The queue, and of a move where to.
    messages, work_seconds
        The most that a move takes, in one of the two.
    """

    when: Name
    kind: Name
    queue: Count
    text: str
    target: Count | None = None
    messages: Count | None = None
    work_seconds: Amount | None = None


@dataclass(frozen=True, slots=True)
class PublicationCost:
    """Number of weights and settings that a plan publishes."""

    weights: Count
    settings: Count


@dataclass(frozen=True, slots=True)
class PublicationBound:
    """How much any plan publishes."""

    weights: Count
    proof: str


@dataclass(frozen=True, kw_only=True)
class QueuesPlan(Plan[Publication]):
    """A plan of this balancer.

    Attributes
    ----------
    version
        That was published when it was made.
    assignments
        All that is published after it.
    queues, orders
        The scheduler's view of the queues, and what it would do.
    """

    version: Count = 0
    assignments: tuple[PublicationAssignment, ...]
    cost: PublicationCost
    bound: PublicationBound
    queues: tuple[QueueForecast, ...] = ()
    orders: tuple[SchedulerOrder, ...] = ()

    @property
    def has_changes(self) -> bool:
        """Whether something is published, or the scheduler moves, pauses or resumes something by itself."""
        return bool(self.moves or self.orders)


@dataclass(frozen=True, slots=True)
class PublicationOutcome(StepOutcome):
    """The end of one step.

    Attributes
    ----------
    name
        Of the class or setting.
    after
        Its value; None: it is not published any more.
    version
        Of the document that was published with it; None where none was.
    """

    name: str
    after: Published | None
    version: int | None


QueuesReceipt = Receipt[PublicationOutcome]
