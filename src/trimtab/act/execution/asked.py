"""Steps that are asked for and then seen: a level that needs no more states has its record here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Generic, Self

from trimtab.act.execution.record import Record, StepT


class StepState(StrEnum):
    """How far a step is."""

    PENDING = "pending"
    ASKED = "asked"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class AskedRecord(Record[StepT, StepState], Generic[StepT]):
    """A step and how far it is."""

    ACTIVE: ClassVar = frozenset({StepState.ASKED})
    ENDED: ClassVar = frozenset({StepState.DONE, StepState.FAILED})

    state: StepState = StepState.PENDING

    def resumed(self, now: float, ended: bool) -> Self:
        """See `Record.resumed`: what was asked for is asked for again if it is not seen."""
        return replace(self, state=StepState.PENDING) if self.active else self
