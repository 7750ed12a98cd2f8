"""A receipt of balancer `bundles`: which bundles were split and moved, and what it did to their clients."""

from dataclasses import dataclass

from trimtab.model.receipt import Receipt, StepOutcome


@dataclass(frozen=True, slots=True)
class BundleOutcome(StepOutcome):
    """The outcome of one step.

    Attributes
    ----------
    kind
        `unload` or `split`.
    source, target
        Who owned the bundle before, where that was known, and who shall own it, for an unload.
    boundaries
        Where it was to be cut, for a split.
    unloads
        How many times it was unloaded, as far as Pulsar's answers tell.
    sessions
        Clients that were disconnected for a moment, by the plan's count, each time it was unloaded.
    attempts
        How many times it was asked for in vain.
    in_flight_seconds
        For an unload that was done: from first asking for it until its owner was seen, with all attempts and
        pauses between them, and our looks; the bundle was without an owner for less. None where it was not
        measured.
    """

    bundle: str
    source: str | None
    target: str | None
    boundaries: tuple[int, ...]
    unloads: int
    sessions: int
    attempts: int
    in_flight_seconds: float | None


@dataclass(frozen=True)
class BundlesReceipt(Receipt[BundleOutcome]):
    """The end of an execution of the balancer `bundles`.

    Attributes
    ----------
    notes
        What others did meanwhile, and what was left to them.
    """

    notes: tuple[str, ...] = ()

    @property
    def unloads(self) -> int:
        """Unloads in all, also of bundles that did not get where they should."""
        return sum(outcome.unloads for outcome in self.outcomes)

    @property
    def sessions(self) -> int:
        """Clients disconnected by them."""
        return sum(outcome.sessions for outcome in self.outcomes)
