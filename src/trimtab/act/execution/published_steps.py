"""Steps that are asked for and then seen: a balancer that needs no more states has its record here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Generic, Self

from trimtab.act.execution.record import StepRecord, StepT


class PublishedStepState(StrEnum):
    """How far a step is."""

    PENDING = "pending"
    REQUESTED = "requested"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PublishedStepRecord(StepRecord[StepT, PublishedStepState], Generic[StepT]):
    """A step and how far it is."""

    ACTIVE: ClassVar = frozenset({PublishedStepState.REQUESTED})
    ENDED: ClassVar = frozenset({PublishedStepState.DONE, PublishedStepState.FAILED})

    state: PublishedStepState = PublishedStepState.PENDING

    def resumed(self, now: float, ended: bool) -> Self:
        """See `StepRecord.resumed`: what was asked for is asked for again if it is not seen."""
        return replace(self, state=PublishedStepState.PENDING) if self.active else self
