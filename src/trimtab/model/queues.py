"""The balancer `queues`: its snapshot, its plan and the receipt of an execution, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from trimtab.model.documents import Amount, Order, Quality, Receipt, SnapshotReference, StepOutcome
from trimtab.model.load import FloatArray, Imbalance, imbalance
from trimtab.model.plan import Plan
from trimtab_common.documents import Count, Name

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Messages in the order in which they came.

    Attributes
    ----------
    at
        Shape (messages,), seconds since 1970 or since any other beginning, ascending.
    classes
        Names, in the order of the alphabet.
    of_class
        Shape (messages,), places in `classes`.
    seconds
        Shape (messages,), how long each was processed.
    keys
        Affinity keys, one a message; None for a message without one, empty where none has any.
    weights
        Seconds by which classes were dispatched when this was recorded, as far as that is known.
    queues, capacity
        How many queues there were, and the most messages that each held; None where not known.
    """

    at: FloatArray
    classes: tuple[str, ...]
    of_class: NDArray[np.int64]
    seconds: FloatArray
    keys: tuple[str | None, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    queues: int | None = None
    capacity: int | None = None

    def __len__(self) -> int:
        return len(self.at)

    def between(self, since: float | None, until: float | None) -> Arrivals:
        """Those from `since` on and before `until`, in the units of `at`."""
        first = 0 if since is None else int(np.searchsorted(self.at, since))
        last = len(self) if until is None else int(np.searchsorted(self.at, until))
        part = slice(first, max(first, last))
        return replace(
            self,
            at=self.at[part],
            of_class=self.of_class[part],
            seconds=self.seconds[part],
            keys=self.keys[part],
        )

    def mean_seconds(self) -> FloatArray:
        """Mean processing time of each class, shape (classes,); that of all for one without a message."""
        counts = np.bincount(self.of_class, minlength=len(self.classes))
        sums = np.bincount(self.of_class, weights=self.seconds, minlength=len(self.classes))
        return np.where(counts > 0, sums / np.maximum(counts, 1), self.seconds.mean())


RESOURCES: Final = ("work",)
"""What is balanced between queues: seconds of processing that lie there."""


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """One queue.

    Attributes
    ----------
    queue
        Its number, from 0.
    capacity
        The most messages that it may hold; None where no process told.
    messages, work_seconds
        Waiting or in work, and their processing time.
    held_messages, held_work_seconds
        Those of them that a worker has.
    arrived_seconds_per_second, served_seconds_per_second
        Processing time that came in and that was finished, of the last interval; None where not known.
    paused, alive
        The scheduler's mark, and whether a living worker empties it.
    speed, speed_error
        Seconds of weight that its worker does in a second, and the standard error; None where not measured.
    """

    queue: Count
    messages: Count
    work_seconds: Amount
    held_messages: Count
    held_work_seconds: Amount
    paused: bool
    alive: bool
    capacity: Count | None = None
    arrived_seconds_per_second: Amount | None = None
    served_seconds_per_second: Amount | None = None
    speed: Amount | None = None
    speed_error: Amount | None = None

    @property
    def name(self) -> str:
        """Name of the queue in tables."""
        return f"queue {self.queue}"


@dataclass(frozen=True, slots=True)
class ClassLoad:
    """One class of messages.

    Attributes
    ----------
    message_class
        Its name.
    weight
        Seconds by which its messages are dispatched; None where nobody says.
    published
        Seconds as published; None where they are not.
    samples, mean_seconds, standard_error_seconds
        Messages measured, the mean of their processing times, and its standard error; None where none was,
        or but one.
    sent_per_second, processed_per_second, refused_per_second
        Over the newest window.
    wait_seconds, wait_p99_seconds
        From accepted to begun, over the same; None where nothing was begun.
    """

    message_class: Name
    samples: Count
    sent_per_second: Amount
    processed_per_second: Amount
    refused_per_second: Amount
    weight: Amount | None = None
    published: Amount | None = None
    mean_seconds: Amount | None = None
    standard_error_seconds: Amount | None = None
    wait_seconds: Amount | None = None
    wait_p99_seconds: Amount | None = None


@dataclass(frozen=True)
class QueuesSnapshot:
    """All queues of one set, and all classes, at a moment.

    Attributes
    ----------
    version
        Of the weights that are published; 0 for none.
    default_weight
        Seconds, for classes that have no weight.
    policy, scheduling
        Name of the dispatch policy, and settings of balance scheduling, as processes told last; empty where
        none did.
    """

    reference: SnapshotReference
    quality: Quality
    version: Count
    default_weight: Amount
    policy: str
    scheduling: dict[str, float | str] = field(default_factory=dict)
    queues: tuple[QueueLoad, ...] = ()
    classes: tuple[ClassLoad, ...] = ()

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of the rows of `imbalance().usage`."""
        return tuple(one.name for one in self.queues)

    @property
    def weights(self) -> dict[str, float]:
        """The published weights by class."""
        return {one.message_class: one.published for one in self.classes if one.published is not None}

    @property
    def mean_weight(self) -> float:
        """r̄: the mean weight of the classes, seconds."""
        known = [one.weight for one in self.classes if one.weight]
        return sum(known) / len(known) if known else self.default_weight

    def imbalance(self, work: FloatArray | None = None) -> Imbalance:
        """The measures of the work that lies in the queues, or of other work, shape (queues,).

        Capacity is what a queue holds when it is full of messages of mean weight, so that usage is what
        states of queues go by: α and β of the source. Queues without a worker do not count.
        """
        found = np.array([one.work_seconds for one in self.queues]) if work is None else work
        capacity = np.array([(one.capacity or np.inf) * self.mean_weight for one in self.queues])
        if not np.isfinite(capacity).any():
            capacity = np.ones(len(self.queues)) * max(1.0, float(found.sum()))
        alive = np.array([one.alive for one in self.queues], dtype=np.bool_)
        return imbalance(
            found[:, None], capacity[:, None], alive if alive.any() else np.ones_like(alive), RESOURCES
        )


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
