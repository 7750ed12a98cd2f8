"""Steps and states of executions of the level `balls`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from trimtab.act.execution.asked import AskedRecord
from trimtab.act.execution.messages import Command, Event, Look
from trimtab.act.execution.settings import Patience
from trimtab.act.execution.state import Execution, Kept


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
class BallRecord(AskedRecord[BallStep]):
    """A step and how far it is."""


@dataclass(frozen=True, kw_only=True)
class KeptBalls(Kept[BallRecord, Patience]):
    """The part that the journal keeps."""

    @property
    def clean(self) -> bool:
        """Nothing of the cluster is ever ours."""
        return True


@dataclass(frozen=True, kw_only=True)
class BallsState(KeptBalls, Execution[BallRecord, Patience]):
    """Everything the state machine knows; `boxes` is the box of each ball at the last look."""

    level: ClassVar[str] = "balls"
    kept: ClassVar[type[KeptBalls]] = KeptBalls

    boxes: dict[str, str] = field(default_factory=dict)

    @property
    def seen_whole(self) -> bool:
        """Every look is at everything."""
        return bool(self.boxes)


@dataclass(frozen=True)
class Seen:
    """One look."""

    cluster: str
    boxes: frozenset[str]
    balls: dict[str, str]


@dataclass(frozen=True)
class LookAtBoxes(Look):
    """Look. Answer: `BoxesSeen`."""


@dataclass(frozen=True)
class Put(Command):
    """Put balls into boxes. Answer: `BallsPut`."""

    targets: dict[str, str]


@dataclass(frozen=True)
class BoxesSeen(Event):
    """Answer to `LookAtBoxes`."""

    seen: Seen


@dataclass(frozen=True)
class BallsPut(Event):
    """Answer to `Put`."""


Clock = Callable[[], float]
