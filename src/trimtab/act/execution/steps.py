"""The steps of an execution: the record of each, the choice of a batch, and the steps that are still needed.

A balancer names its own steps and states; their table of transitions, their retries and the check of the load
between batches are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

import numpy as np

from trimtab.act.execution.settings import RetryPolicy
from trimtab.model.goals import exceeds
from trimtab.model.load import FloatArray, Imbalance

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
    def destinations(self) -> tuple[object, ...]:
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


INNER_MARGIN: Final = 0.9
"""A goal counts as held when it holds with a tenth of ε to spare."""
CANDIDATES: Final = 64
"""How many things are weighed for dropping before a batch; each takes a sum over the whole placement."""
DROPPABLE: Final = frozenset({"theta", "epsilon"})
"""Goals about load; moves that serve any other goal are never dropped."""

Cell = tuple[int, int, int]
"""Goal (0 is θ, 1 is ε), broker and resource, by index."""
KeyT = TypeVar("KeyT")
SnapshotT = TypeVar("SnapshotT")


@dataclass(frozen=True)
class LoadGoals:
    """θ and ε per resource, shape (resources,); infinite where it is not asked for."""

    theta: FloatArray
    epsilon: FloatArray

    @classmethod
    def of(cls, settings: Mapping[str, object], resources: Sequence[str]) -> LoadGoals:
        """As a plan's settings have them; what it did not ask for is no goal."""
        asked = settings.get("goals", DROPPABLE)
        names = set(asked) if isinstance(asked, list | tuple | set | frozenset) else set(DROPPABLE)
        return cls(
            _per_resource(settings.get("theta") if "theta" in names else None, resources),
            _per_resource(settings.get("epsilon") if "epsilon" in names else None, resources),
        )

    def violations(self, measured: Imbalance) -> FloatArray:
        """Shape (2, brokers, resources): usage above θ, and deviation above ε with the inner margin.

        0 where the goal holds.
        """
        pairs = (measured.usage, self.theta), (measured.deviation, INNER_MARGIN * self.epsilon)
        broken = [np.where(measured.counted & exceeds(value, limit), value, 0.0) for value, limit in pairs]
        return np.stack(broken)


def served_cells(
    reasons: Iterable[Any], brokers: Mapping[Any, int], resources: Sequence[str]
) -> set[Cell] | None:
    """The goals that moves serve, by their reasons; None if any is not about load, or of nobody known."""
    cells = set()
    for reason in reasons:
        if reason.goal not in DROPPABLE or reason.resource not in resources or reason.broker not in brokers:
            return None
        goal = 0 if reason.goal == "theta" else 1
        cells.add((goal, brokers[reason.broker], resources.index(reason.resource)))
    return cells


def unneeded_targets(
    served: Mapping[KeyT, set[Cell] | None],
    now: FloatArray,
    violations_without: Callable[[frozenset[KeyT]], FloatArray],
    order: Callable[[KeyT], Any],
) -> tuple[KeyT, ...]:
    """The things whose pending changes can be dropped.

    What serves a goal that holds already may also bring another one nearer, which the plan misses all the
    same. So no violation may be greater without it than at the end of the plan.

    Parameters
    ----------
    served
        What the changes of each thing serve.
    now
        Violations as things are, shape (2, brokers, resources).
    violations_without
        The same at the end of all pending changes but those of some things.
    order
        Sorts them: whose are to be dropped first.
    """
    candidates = [key for key, cells in served.items() if cells and not any(now[cell] for cell in cells)]
    if not candidates:
        return ()
    dropped: tuple[KeyT, ...] = ()
    planned = violations_without(frozenset())
    for key in sorted(candidates, key=order)[:CANDIDATES]:
        if not exceeds(violations_without(frozenset({*dropped, key})), planned).any():
            dropped += (key,)
    return dropped


def newer_snapshot(
    planned: SnapshotT, newest: Callable[[], tuple[float, SnapshotT] | None], changed_at: float
) -> tuple[SnapshotT, bool]:
    """The newest snapshot, and True, if it is from after that time; else that of the plan."""
    found = newest()
    return (found[1], True) if found is not None and found[0] > changed_at else (planned, False)


def _per_resource(values: object, resources: Sequence[str]) -> FloatArray:
    if isinstance(values, dict):
        return np.array([float(values.get(name, np.inf)) for name in resources])
    if isinstance(values, int | float):
        return np.full(len(resources), float(values))
    return np.full(len(resources), np.inf)
