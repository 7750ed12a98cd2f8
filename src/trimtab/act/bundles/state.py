"""Settings, steps and state of executions of this balancer.

A step is one unload or one split. Its states and the only ways between them are the table `STEP_TRANSITIONS`;
docs/balancers/bundles-execution.md describes them, and a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Final, Self

from trimtab.act.bundles.port import BundlesObservation
from trimtab.act.execution.settings import RetryPolicy, require_above_zero
from trimtab.act.execution.state import Execution, PersistedState
from trimtab.act.execution.steps import StepRecord, transitions
from trimtab.model.bundles.snapshot import BundleRange, parse_bundle
from trimtab_common.errors import SettingsError


@dataclass(frozen=True)
class UnloadLimits:
    """Limits and time-outs of an execution of bundles.

    Attributes
    ----------
    max_unloads_per_batch
        Maximum number of unloads between two checks of the cluster's health.
    batch_pause_seconds
        Pause after a batch that disconnected clients.
    max_sessions_per_minute
        Maximum number of producers and consumers disconnected in any minute. A bundle with more is unloaded
        alone, after a minute without unloads.
    assign_after_seconds
        Time without an owner after which trimtab looks the bundle up, so that a bundle without clients gets
        an owner.
    owner_timeout_seconds
        Time without an owner after which the bundle is unloaded again.
    session_timeout_seconds
        Time until Pulsar detects a dead broker (`metadataStoreSessionTimeoutMillis`).
    external_change_cooldown_seconds
        Pause before new steps after another tool has moved a bundle (Pulsar sheds once a minute).
    check_load
        Whether brokers are queried for the traffic of their bundles between batches. Unloads that are no
        longer needed, or that would lift the destination above its limit, are skipped.
    """

    max_unloads_per_batch: int = 4
    batch_pause_seconds: float = 1.0
    max_sessions_per_minute: int = 5000
    assign_after_seconds: float = 1.0
    owner_timeout_seconds: float = 30.0
    session_timeout_seconds: float = 30.0
    external_change_cooldown_seconds: float = 75.0
    check_load: bool = True

    def __post_init__(self) -> None:
        """Refuse values that no execution could work with."""
        names = ("max_unloads_per_batch", "max_sessions_per_minute", "owner_timeout_seconds")
        require_above_zero(self, "execution.bundles", *names)
        for name in (
            "batch_pause_seconds",
            "assign_after_seconds",
            "session_timeout_seconds",
            "external_change_cooldown_seconds",
        ):
            if getattr(self, name) < 0:
                raise SettingsError(
                    f"execution.bundles.{name} is {getattr(self, name)}: it must be 0 or above"
                )


@dataclass(frozen=True)
class UnloadSettings(RetryPolicy):
    """The settings of an execution of bundles: the shared keys of `[execution]`, and its own pace."""

    table: ClassVar[str] = "bundles"

    limits: UnloadLimits = field(default_factory=UnloadLimits)


class BundleStepKind(StrEnum):
    """The thing that a step changes."""

    UNLOAD = "unload"
    """The owner of a bundle: its clients are disconnected for a moment."""
    SPLIT = "split"
    """The ends of a bundle: its parts stay with its owner, and nobody is disconnected."""


class BundleStepState(StrEnum):
    """The progress of a step."""

    PENDING = "pending"
    """Not begun, or to be tried again."""
    REQUESTED = "requested"
    """Written down as about to be asked for; whether Pulsar knows of it is unknown until the next look."""
    MOVING = "moving"
    """The unload was accepted; the new owner is not seen yet."""
    CUTTING = "cutting"
    """Some of the boundaries are cut; the others are due."""
    DONE = "done"
    """The cluster is as the step wants it, by its own word."""
    DROPPED = "dropped"
    """No longer needed: the goals that it served hold already."""
    SKIPPED = "skipped"
    """Does not apply any more (bundle or namespace gone, other owner); nothing of it was done."""
    FAILED = "failed"
    """Could not be done; `BundleStepRecord.reason` says why. Nothing of it is in flight."""


ACTIVE: Final = frozenset({BundleStepState.REQUESTED, BundleStepState.MOVING, BundleStepState.CUTTING})
"""States in which something of the step may be under way in the cluster."""

ENDED: Final = frozenset(
    {BundleStepState.DONE, BundleStepState.DROPPED, BundleStepState.SKIPPED, BundleStepState.FAILED}
)
"""States that a step never leaves."""

STEP_TRANSITIONS: Final = transitions(
    BundleStepState,
    pending="requested cutting done dropped skipped failed",
    requested="pending moving cutting done skipped failed",
    moving="pending done skipped failed",
    cutting="requested done failed",
    done="",
    dropped="",
    skipped="",
    failed="",
)


@dataclass(frozen=True, slots=True)
class BundleStep:
    """One change to one bundle; never changes once the execution is made.

    Attributes
    ----------
    number
        Position in the execution, from 1; steps are begun in this order.
    bundle
        Its key, `tenant/namespace/0xLOW_0xHIGH`.
    source
        Who owns it before; None where nobody does, or where an earlier step says.
    target
        Who shall own it, for an unload.
    boundaries
        Where to cut, rising, for a split.
    sessions, bytes_per_second
        Clients disconnected for a moment, and traffic interrupted, as the plan knew them.
    follows
        Number of the step that makes this bundle, or moved it before; it must be done first.
    moves
        `order` of the plan's moves that this step carries out.
    """

    number: int
    kind: BundleStepKind
    bundle: str
    source: str | None = None
    target: str | None = None
    boundaries: tuple[int, ...] = ()
    sessions: int = 0
    bytes_per_second: float = 0.0
    follows: int | None = None
    moves: tuple[int, ...] = ()

    @property
    def range(self) -> BundleRange:
        """The bundle as a range of hashes."""
        return parse_bundle(self.bundle)

    @property
    def namespace(self) -> str:
        """Namespace of the bundle, as `tenant/namespace`."""
        return self.bundle.rpartition("/")[0]

    @property
    def destinations(self) -> tuple[str, ...]:
        """Brokers without which it cannot be done."""
        return () if self.target is None else (self.target,)

    def __str__(self) -> str:
        return f"step {self.number} ({self.kind} {self.bundle})"


@dataclass(frozen=True, slots=True)
class BundleStepRecord(StepRecord[BundleStep, BundleStepState]):
    """A step and how far it is; this is what the journal keeps.

    Attributes
    ----------
    requested_at
        When it was last asked for.
    unloaded_at
        When it was asked for each time, for an unload; without those that Pulsar refused.
    origin
        Who owned it when it was last asked for.
    waits_for
        A broker that was believed to own or lead but did not answer; its session's end is waited for.
    cut
        How many of a split's boundaries have been seen to be cut by this step.
    lookup_at
        When a lookup was last made for it, to get an owner for a bundle that nobody asks for.
    """

    ACTIVE = ACTIVE
    ENDED = ENDED

    state: BundleStepState = BundleStepState.PENDING
    requested_at: float | None = None
    unloaded_at: tuple[float, ...] = ()
    origin: str | None = None
    waits_for: str | None = None
    cut: int = 0
    lookup_at: float | None = None

    @property
    def unloads(self) -> int:
        """How many times its clients were disconnected, as far as Pulsar's answers and old journals tell."""
        unloaded = self.step.kind is BundleStepKind.UNLOAD and self.state is BundleStepState.DONE
        return len(self.unloaded_at) or int(unloaded and self.requested_at is not None)

    def set_back(self, now: float, settings: RetryPolicy, why: str) -> Self:
        """The record to be tried again later; a bundle that is cut in part is cut to the end."""
        back = replace(StepRecord.set_back(self, now, settings, why), waits_for=None)
        return back if back.ended or not self.cut else replace(back, state=BundleStepState.CUTTING)

    def resumed(self, now: float, ended: bool) -> Self:
        """See `StepRecord.resumed`: what was tried in vain before has all its attempts again."""
        if self.active:
            # Time in which nobody looked does not count as time in which Pulsar did nothing.
            return replace(self, advanced_at=now, lookup_at=None)
        if ended and self.state is BundleStepState.PENDING and self.attempts:
            return replace(self, attempts=0, not_before=0.0, waits_for=None)
        return self


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
