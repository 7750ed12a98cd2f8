"""A receipt of the level `bundles`: which bundles were split and moved, and what it did to their clients."""

from dataclasses import dataclass

from trimtab.model.receipt import Outcome, Receipt


@dataclass(frozen=True, slots=True)
class BundleOutcome(Outcome):
    """The outcome of one step.

    Attributes
    ----------
    kind
        `unload` or `split`.
    source, target
        Who owned the bundle before, where that was known, and who shall own it, for an unload.
    boundaries
        Where it was to be cut, for a split.
    sessions
        Clients that were disconnected for a moment, by the plan's count.
    attempts
        How many times it was asked for in vain.
    unowned_seconds
        For an unload that was done: from asking for it until its owner was seen, the longest that the bundle
        can have been without one in that attempt; our looks are part of it. None where it was not measured.
    """

    bundle: str
    source: str | None
    target: str | None
    boundaries: tuple[int, ...]
    sessions: int
    attempts: int
    unowned_seconds: float | None


@dataclass(frozen=True)
class BundlesReceipt(Receipt[BundleOutcome]):
    """The end of an execution of the level `bundles`.

    Attributes
    ----------
    notes
        What others did meanwhile, and what was left to them.
    """

    notes: tuple[str, ...] = ()

    @property
    def sessions(self) -> int:
        """Clients disconnected by what was done."""
        return sum(outcome.sessions for outcome in self.done)
