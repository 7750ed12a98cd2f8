"""Executions that publish a document which others follow: nobody is interrupted, nothing is given back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from trimtab.act.execution.asked import AskedRecord, StepState
from trimtab.act.execution.machine import Machine, PortT
from trimtab.act.execution.messages import Command, Event
from trimtab.act.execution.record import Blocked
from trimtab.act.execution.settings import Patience
from trimtab.act.execution.state import Execution, Kept

SettingsT = TypeVar("SettingsT", bound=Patience)
RecordT = TypeVar("RecordT", bound=AskedRecord[Any])


@dataclass(frozen=True, kw_only=True)
class KeptPublishing(Kept[RecordT, SettingsT], Generic[RecordT, SettingsT]):
    """The part that the journal keeps; `version` is that of the newest document of ours, 0 for none."""

    version: int = 0

    @property
    def clean(self) -> bool:
        """Nothing there is ever ours: what is published stays."""
        return True


@dataclass(frozen=True, kw_only=True)
class Publishing(
    KeptPublishing[RecordT, SettingsT], Execution[RecordT, SettingsT], Generic[RecordT, SettingsT]
):
    """Everything the state machine knows; `seen`, of the level's own kind, is the last look."""

    seen: Any = None

    @property
    def seen_whole(self) -> bool:
        """Every look is at everything."""
        return self.seen is not None


PublishingT = TypeVar("PublishingT", bound=Publishing[Any, Any])


@dataclass(frozen=True)
class PublishTold(Event):
    """Answer to an order to publish; `version` is what was published, None where somebody was faster."""

    version: int | None


def told(state: PublishingT, event: PublishTold) -> PublishingT:
    """Look whether it stands; where somebody was faster, it is tried again over what they left."""
    state = replace(state, fresh=False, version=event.version or state.version)
    if event.version is not None:
        return state
    why = "another document was published meanwhile"
    return state.changing(state.active, lambda record: record.set_back(state.now, state.settings, why))


class PublishingMachine(Machine[PortT, PublishingT]):
    """What is the same in every state machine that publishes."""

    good: ClassVar = frozenset({StepState.DONE})

    @classmethod
    def asked(cls, state: PublishingT, steps: Iterable[Any]) -> PublishingT:
        """The state in which these steps have been asked for, as one more batch."""
        numbers = {step.number for step in steps}
        state = state.changing(
            [record for record in state.records if record.step.number in numbers],
            lambda one: replace(one, state=StepState.ASKED, started_at=state.now, advanced_at=state.now),
        )
        return replace(state, batches=state.batches + 1, fresh=False)

    @classmethod
    def before_batch(cls, state: PublishingT) -> tuple[PublishingT, Command | None]:
        """See `Machine.before_batch`."""
        return state, None

    @classmethod
    def give_back(cls, state: PublishingT) -> tuple[PublishingT, Command | None]:
        """See `Machine.give_back`."""
        return state, None

    @classmethod
    def ends_as(cls, record: AskedRecord[Any], blocked: Blocked) -> StepState:
        """See `Machine.ends_as`."""
        return StepState.FAILED


def standing(now: object, before: object, after: object, back: bool = False) -> str:
    """How a change of a plan stands; `back`: whatever came since is taken back."""
    if now == after:
        return "already done"
    return "to do" if back or now == before else "changed"
