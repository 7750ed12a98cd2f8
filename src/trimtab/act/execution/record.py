"""A step and how far it is, at any balancer, and the reasons that keep one from being begun."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from trimtab.act.execution.settings import RetryPolicy

StateT = TypeVar("StateT", bound=Enum)


class AnyStep(Protocol):
    """A step of any balancer; never changes once the execution is made."""

    @property
    def number(self) -> int:
        """Position in the execution, from 1."""
        ...

    @property
    def follows(self) -> int | None:
        """Number of a step that must have ended before this one begins."""
        ...

    @property
    def destinations(self) -> tuple[Any, ...]:
        """Brokers without which it cannot be done."""
        ...


StepT = TypeVar("StepT", bound=AnyStep)
StepStateT = TypeVar("StepStateT", bound=str)


@dataclass(frozen=True, slots=True)
class StepRecord(Generic[StepT, StepStateT]):
    """A step and how far it is; this is what the journal keeps of a step.

    A balancer's states are words of its own, of which `pending` and `failed` are two.

    Attributes
    ----------
    reason
        Why it ended as it did, where that is not plain; or why it is to be tried again.
    attempts
        How many times it was asked for in vain.
    not_before
        Earliest time of the next attempt, seconds since 1970.
    started_at, advanced_at, ended_at
        When it was first asked for, when it last got further, when it ended; seconds since 1970.
    """

    ACTIVE: ClassVar[Collection[str]]
    ENDED: ClassVar[Collection[str]]

    step: StepT
    state: StepStateT
    reason: str = ""
    attempts: int = 0
    not_before: float = 0.0
    started_at: float | None = None
    advanced_at: float | None = None
    ended_at: float | None = None

    @property
    def active(self) -> bool:
        """True if something of it may be under way in the cluster."""
        return self.state in self.ACTIVE

    @property
    def ended(self) -> bool:
        """True if it has come to an end, of whatever kind."""
        return self.state in self.ENDED

    def end(self, state: StepStateT, now: float, reason: str = "") -> Self:
        """The record at its end."""
        return replace(self, state=state, reason=reason, ended_at=now, advanced_at=now, not_before=0.0)

    def advanced(self, state: StepStateT, now: float) -> Self:
        """The record a state further (or as it was, if it is there already)."""
        return self if self.state is state else replace(self, state=state, advanced_at=now)

    def set_back(self, now: float, settings: RetryPolicy, why: str) -> Self:
        """The record to be tried again later, or failed if it has been tried often enough."""
        word = type(self.state)
        attempts = self.attempts + 1
        if attempts >= settings.max_attempts:
            tried = replace(self, attempts=attempts)
            return tried.end(word("failed"), now, f"{why} ({attempts} attempts)")
        return replace(
            self,
            state=word("pending"),
            attempts=attempts,
            not_before=now + settings.backoff(attempts),
            advanced_at=now,
            reason=why,
        )

    def lagging(self, now: float, settings: RetryPolicy) -> bool:
        """True if what was asked for a moment ago may just not be seen yet."""
        return self.advanced_at is not None and now - self.advanced_at < settings.metadata_lag_seconds

    def outcome_fields(self) -> dict[str, Any]:
        """What became of it, for the outcomes in receipts of all balancers."""
        times = {"started_at": self.started_at, "ended_at": self.ended_at}
        return {"state": self.state, "reason": self.reason, **times}

    def resumed(self, now: float, ended: bool) -> Self:
        """The record when a process takes the execution up (again).

        Parameters
        ----------
        ended
            Whether the execution had ended early, and begins again.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Blocked:
    """The reason why a pending step cannot be begun now.

    Attributes
    ----------
    permanent
        Whether waiting cannot help: the step will never be begun.
    blocking
        Whether only our own steps or our own pace are in the way, so that its turn will come by itself.
    until
        When its turn may come, where that is known.
    """

    reason: str
    permanent: bool = False
    blocking: bool = False
    until: float | None = None


def held_by_earlier(earlier: StepRecord[Any, Any], must_succeed: bool) -> Blocked | None:
    """The reason why a step cannot be begun before the one that it follows; None once that is over.

    Parameters
    ----------
    must_succeed
        Whether the step makes no sense if the earlier one was not done.
    """
    if not earlier.ended:
        return Blocked(f"waits for {earlier.step}", blocking=True)
    if must_succeed and str(earlier.state) != "done":
        return Blocked(f"{earlier.step} ended as {earlier.state}", permanent=True)
    return None


@dataclass(frozen=True)
class Choice(Generic[StepT]):
    """The next batch, and why the other pending steps are not in it (by step number)."""

    batch: tuple[StepT, ...] = ()
    blocked: Mapping[int, Blocked] = field(default_factory=dict)


def transitions(overrides: type[StateT], **to: str) -> dict[StateT, frozenset[StateT]]:
    """The states that may follow each state, given by name and parted by blanks."""
    return {
        overrides(state): frozenset(overrides(one) for one in following.split())
        for state, following in to.items()
    }
