"""Executions that publish a document which other processes follow.

They interrupt nobody and change no setting, so nothing has to be restored at their end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Generic, Self, TypeVar

from trimtab.act.execution.machine import ExecutionMachine, PortT
from trimtab.act.execution.port import Command, Event
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.execution.state import Execution, PersistedState
from trimtab.act.execution.steps import Blocked, StepRecord, StepT


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


SettingsT = TypeVar("SettingsT", bound=RetryPolicy)
RecordT = TypeVar("RecordT", bound=PublishedStepRecord[Any])


@dataclass(frozen=True, kw_only=True)
class PersistedPublishingState(PersistedState[RecordT, SettingsT], Generic[RecordT, SettingsT]):
    """The part that the journal keeps; `version` is that of the newest document of ours, 0 for none."""

    version: int = 0

    @property
    def clean(self) -> bool:
        """Nothing there is ever ours: what is published stays."""
        return True


@dataclass(frozen=True, kw_only=True)
class PublishingState(
    PersistedPublishingState[RecordT, SettingsT], Execution[RecordT, SettingsT], Generic[RecordT, SettingsT]
):
    """Everything the state machine knows; `seen`, of the balancer's own kind, is the last look."""

    observation: Any = None

    @property
    def is_full_observation(self) -> bool:
        """Every look is at everything."""
        return self.observation is not None


PublishingT = TypeVar("PublishingT", bound=PublishingState[Any, Any])


@dataclass(frozen=True)
class PublishCompleted(Event):
    """Answer to an order to publish; `version` is what was published, None where somebody was faster."""

    version: int | None


def end_as_done(state: PublishingT, records: Iterable[Any]) -> PublishingT:
    """These steps are done: what they ask for is seen to be so."""
    return state.changing(records, lambda record: record.end(PublishedStepState.DONE, state.now))


def absorb_publish(state: PublishingT, event: PublishCompleted) -> PublishingT:
    """Look whether it stands; where somebody was faster, it is tried again over what they left."""
    state = replace(state, fresh=False, version=event.version or state.version)
    if event.version is not None:
        return state
    why = "another document was published meanwhile"
    return state.changing(state.active, lambda record: record.set_back(state.now, state.settings, why))


class PublishingMachine(ExecutionMachine[PortT, PublishingT]):
    """What is the same in every state machine that publishes."""

    success_states: ClassVar = frozenset({PublishedStepState.DONE})

    @classmethod
    def with_batch(cls, state: PublishingT, steps: Iterable[Any]) -> PublishingT:
        """The state in which these steps have been asked for, as one more batch."""
        numbers = {step.number for step in steps}
        state = state.changing(
            [record for record in state.records if record.step.number in numbers],
            lambda one: replace(
                one, state=PublishedStepState.REQUESTED, started_at=state.now, advanced_at=state.now
            ),
        )
        return replace(state, batches=state.batches + 1, fresh=False)

    @classmethod
    def blocking_reason(cls, state: PublishingT) -> tuple[str, float] | None:
        """See `ExecutionMachine.blocking_reason`: nothing outside holds up a publication."""
        return None

    @classmethod
    def before_batch(cls, state: PublishingT) -> tuple[PublishingT, Command | None]:
        """Nothing has to be set before a batch: always None."""
        return state, None

    @classmethod
    def give_back(cls, state: PublishingT) -> tuple[PublishingT, Command | None]:
        """No temporary setting exists, so none is restored: always None."""
        return state, None

    @classmethod
    def ends_as(cls, record: PublishedStepRecord[Any], blocked: Blocked) -> PublishedStepState:
        """The final state of a step that is never started."""
        return PublishedStepState.FAILED


def publication_fit(now: object, before: object, after: object, back: bool = False) -> str:
    """How a change of a plan stands; `back`: whatever came since is taken back."""
    if now == after:
        return "already done"
    return "to do" if back or now == before else "changed"
