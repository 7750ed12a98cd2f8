"""The steps of an execution of this level: one unload or one split, and how far it is.

A step's states and the only ways between them are the table `STEP_TRANSITIONS`; docs/levels/
bundles-execution.md says them in words, and a test holds the two together.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trimtab.model.bundle_range import BundleRange, parse_bundle


class StepKind(StrEnum):
    """What a step changes."""

    UNLOAD = "unload"
    """Who owns a bundle: its clients are disconnected for a moment."""
    SPLIT = "split"
    """Where a bundle ends: its parts stay with its owner, and nobody is disconnected."""


class StepState(StrEnum):
    """How far a step is."""

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
    SKIPPED = "skipped"
    """Does not apply any more (bundle or namespace gone, other owner); nothing of it was done."""
    FAILED = "failed"
    """Could not be done; `BundleRecord.reason` says why. Nothing of it is in flight."""


ACTIVE: Final = frozenset({StepState.REQUESTED, StepState.MOVING, StepState.CUTTING})
"""States in which something of the step may be under way in the cluster."""

ENDED: Final = frozenset({StepState.DONE, StepState.SKIPPED, StepState.FAILED})
"""States that a step never leaves."""

STEP_TRANSITIONS: Final[dict[StepState, frozenset[StepState]]] = {
    StepState.PENDING: frozenset(
        {
            StepState.REQUESTED,
            StepState.CUTTING,
            StepState.DONE,
            StepState.SKIPPED,
            StepState.FAILED,
        }
    ),
    StepState.REQUESTED: frozenset(
        {
            StepState.PENDING,
            StepState.MOVING,
            StepState.CUTTING,
            StepState.DONE,
            StepState.SKIPPED,
            StepState.FAILED,
        }
    ),
    StepState.MOVING: frozenset({StepState.PENDING, StepState.DONE, StepState.SKIPPED, StepState.FAILED}),
    StepState.CUTTING: frozenset({StepState.REQUESTED, StepState.DONE, StepState.FAILED}),
    StepState.DONE: frozenset(),
    StepState.SKIPPED: frozenset(),
    StepState.FAILED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Step:
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
    kind: StepKind
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

    def __str__(self) -> str:
        return f"step {self.number} ({self.kind} {self.bundle})"


@dataclass(frozen=True, slots=True)
class BundleRecord:
    """A step and how far it is; this is what the journal keeps.

    Attributes
    ----------
    reason
        Why it ended as it did, where that is not plain; or why it is to be tried again.
    attempts
        How many times it was asked for in vain.
    not_before
        Earliest time of the next attempt, seconds since 1970.
    started_at, asked_at, advanced_at, ended_at
        When it was first, and last, asked for; when it last got further; when it ended. The time from
        `asked_at` to `ended_at` of an unload that is done is the longest that its clients can have been
        without an owner in this attempt.
    origin
        Who owned it when it was last asked for.
    waits_for
        A broker that was believed to own or lead but did not answer; its session's end is waited for.
    cut
        How many of a split's boundaries have been seen to be cut by this step.
    looked_up_at
        When a lookup was last made for it, to get an owner for a bundle that nobody asks for.
    """

    step: Step
    state: StepState = StepState.PENDING
    reason: str = ""
    attempts: int = 0
    not_before: float = 0.0
    started_at: float | None = None
    asked_at: float | None = None
    advanced_at: float | None = None
    ended_at: float | None = None
    origin: str | None = None
    waits_for: str | None = None
    cut: int = 0
    looked_up_at: float | None = None

    @property
    def active(self) -> bool:
        """Whether something of it may be under way in the cluster."""
        return self.state in ACTIVE

    @property
    def ended(self) -> bool:
        """Whether it has come to an end, of whatever kind."""
        return self.state in ENDED
