"""Steps and states of executions of the balancer `balls`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from trimtab.act.execution.port import Command, Event, Query
from trimtab.act.execution.publishing import PublishedStepRecord
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.execution.state import Execution, PersistedState


@dataclass(frozen=True, slots=True)
class BallStep:
    """One ball to its box."""

    number: int
    ball: str
    target: str
    order: int
    follows: int | None = None

    @property
    def destinations(self) -> tuple[str, ...]:
        """The box."""
        return (self.target,)


@dataclass(frozen=True, slots=True)
class BallRecord(PublishedStepRecord[BallStep]):
    """A step and how far it is."""


@dataclass(frozen=True, kw_only=True)
class PersistedBallsState(PersistedState[BallRecord, RetryPolicy]):
    """The part that the journal keeps."""

    @property
    def clean(self) -> bool:
        """Nothing of the cluster is ever ours."""
        return True


@dataclass(frozen=True, kw_only=True)
class BallsState(PersistedBallsState, Execution[BallRecord, RetryPolicy]):
    """Everything the state machine knows; `boxes` is the box of each ball at the last observation."""

    balancer: ClassVar[str] = "balls"
    persisted_type: ClassVar[type[PersistedBallsState]] = PersistedBallsState

    boxes: dict[str, str] = field(default_factory=dict)

    @property
    def is_full_observation(self) -> bool:
        """Every observation is of everything."""
        return bool(self.boxes)


@dataclass(frozen=True)
class BoxesObservation:
    """What lies where."""

    cluster: str
    boxes: frozenset[str]
    balls: dict[str, str]


@dataclass(frozen=True)
class ObserveBoxes(Query):
    """Observe. Answer: `BoxesObserved`."""


@dataclass(frozen=True)
class Put(Command):
    """Put balls into boxes. Answer: `BallsPut`."""

    targets: dict[str, str]


@dataclass(frozen=True)
class BoxesObserved(Event):
    """Answer to `ObserveBoxes`."""

    observation: BoxesObservation


@dataclass(frozen=True)
class BallsPut(Event):
    """Answer to `Put`."""


Clock = Callable[[], float]
