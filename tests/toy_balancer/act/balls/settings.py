"""The settings of executions of the balancer `balls`: none but the shared ones."""

from dataclasses import dataclass, field
from typing import ClassVar

from trimtab.act.execution.settings import RetryPolicy


@dataclass(frozen=True)
class BallsLimits:
    """The table `[execution.balls]`."""

    balls_per_batch: int = 1


@dataclass(frozen=True)
class BallsExecution(RetryPolicy):
    """The settings of an execution of balls."""

    table: ClassVar[str] = "balls"

    limits: BallsLimits = field(default_factory=BallsLimits)
