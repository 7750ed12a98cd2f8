"""The state of an execution of this level: a value; `machine` makes each from the one before and an event."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from trimtab.act.bundles.observation import BundlesSeen
from trimtab.act.bundles.settings import BundlesSettings
from trimtab.act.bundles.steps import BundleRecord
from trimtab.act.execution.state import Execution


@dataclass(frozen=True)
class Hold:
    """The brokers' own balancing, which we have switched off or are about to, and what was set before.

    Attributes
    ----------
    original
        Switch -> what was set for all brokers before us; None where nothing was. Only switches that are, or
        may be, ours at present.
    """

    original: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether nothing in the cluster's settings is ours."""
        return not self.original


@dataclass(frozen=True, kw_only=True)
class BundlesState(Execution[BundleRecord, BundlesSettings]):
    """Everything the state machine knows.

    The first group is what the journal keeps besides what all levels keep (`Execution`); the second group is
    learnt anew from the cluster.

    Attributes
    ----------
    hold
        What must be given back.
    notes
        What is worth telling people at the end: what others did meanwhile, what was left to them.
    brokers
        Alive at the first look; None before it.
    unwell
        Brokers that were silent or unhealthy before we touched anything; None before the first deep look.
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
    """

    level: ClassVar[str] = "bundles"

    hold: Hold = field(default_factory=Hold)
    notes: tuple[str, ...] = ()
    brokers: frozenset[str] | None = None
    unwell: frozenset[str] | None = None

    seen: BundlesSeen | None = None
    look_seconds: float = 0.0
    batch_ended_at: float | None = None
    verified: bool = False
    held_since: float | None = None
    overrides: Mapping[str, str] | None = None
    last_owner: Mapping[str, str] = field(default_factory=dict)
    foreign_at: float | None = None
    foreign: str = ""
    gone_since: Mapping[str, float] = field(default_factory=dict)
    blocked_since: Mapping[int, float] = field(default_factory=dict)

    def noted(self, text: str) -> Self:
        """The same with something to tell people, once."""
        return self if text in self.notes else replace(self, notes=(*self.notes, text))
