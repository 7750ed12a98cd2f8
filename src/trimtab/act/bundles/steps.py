"""The steps of an execution of this balancer: one unload or one split, and how far it is.

A step's states and the only ways between them are the table `STEP_TRANSITIONS`; docs/balancers/
bundles-execution.md says them in words, and a test holds the two together.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self

from trimtab.act.execution.record import StepRecord, transitions
from trimtab.act.execution.settings import RetryPolicy
from trimtab.model.bundles.range import BundleRange, parse_bundle


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
        """`tenant/namespace`."""
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
