"""The state of an execution of this balancer: a value that `machine` makes from the last and an event."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Self

from trimtab.act.bundles.port import BundlesObservation
from trimtab.act.bundles.settings import UnloadSettings
from trimtab.act.bundles.steps import BundleStepRecord
from trimtab.act.execution.state import Execution, PersistedState

NO_OBSERVATION: Final = BundlesObservation(
    at=0.0, cluster="", extensible=False, leader=None, brokers=frozenset(), owners={}, boundaries={}
)


@dataclass(frozen=True, kw_only=True)
class PersistedBundlesState(PersistedState[BundleStepRecord, UnloadSettings]):
    """The part that the journal keeps, and all that a resumed execution needs.

    Attributes
    ----------
    hold
        The brokers' own balancing, which we have switched off or are about to: switch -> what was set for all
        brokers before us, None where nothing was. Only switches that are, or may be, ours at present.
    notes
        What is worth telling people at the end: what others did meanwhile, what was left to them.
    unwell
        Brokers that were silent or unhealthy before we touched anything; None before the first deep look.
    """

    hold: Mapping[str, str | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unwell: frozenset[str] | None = None

    @property
    def clean(self) -> bool:
        """True if no switch of the brokers' balancing is ours."""
        return not self.hold

    def noted(self, text: str) -> Self:
        """The same with something to tell people, once."""
        return self if text in self.notes else replace(self, notes=(*self.notes, text))


@dataclass(frozen=True, kw_only=True)
class BundlesExecutionState(PersistedBundlesState, Execution[BundleStepRecord, UnloadSettings]):
    """Everything the state machine knows.

    Attributes
    ----------
    observation, poll_seconds
        The last look, an empty one before the first, and how long it took.
    batch_ended_at
        When the last batch that disconnected somebody was over.
    verified
        Whether every broker was seen to have its balancing off since the last reason to doubt it.
    held_since
        When we last asked for it to be off; None once it is verified, or before.
    overrides
        The switches that are set, as last read; None where that is not known any more.
    last_owner
        Bundle -> who was last seen to own it.
    foreign_at, foreign
        When somebody else last moved a bundle, and what.
    sensed_for_batch, sensed_at
        How many batches had been begun when the load was last sensed, and when that was.
    """

    balancer: ClassVar[str] = "bundles"
    persisted_type: ClassVar[type[PersistedBundlesState]] = PersistedBundlesState

    observation: BundlesObservation = NO_OBSERVATION
    poll_seconds: float = 0.0
    batch_ended_at: float | None = None
    verified: bool = False
    held_since: float | None = None
    overrides: Mapping[str, str] | None = None
    last_owner: Mapping[str, str] = field(default_factory=dict)
    foreign_at: float | None = None
    foreign: str = ""
    sensed_for_batch: int | None = None
    sensed_at: float = float("-inf")

    @property
    def is_full_observation(self) -> bool:
        """True if the last look was a deep one."""
        return self.observation.overrides is not None
