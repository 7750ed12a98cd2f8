"""Whether what clients saw could have happened one operation after another: linearizability of a history.

The search is that of Wing and Gong ("Testing and verifying concurrent objects", 1993) with the memory of Lowe
("Testing for linearizability", 2017): an operation may come next if no other one that is still to come had
returned before it was called, and no pair of (what has happened, state) is tried twice. Beyond theirs, a
history is cut where nothing is under way, and every state that can be reached there is carried on. And a read
that may come next and has the right answer comes next: wherever else an order has it, it can be moved to
here, since that changes nothing for the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, Protocol, TypeVar

State = TypeVar("State", bound=Hashable)

MAX_STEPS = 200_000
"""Of one piece of a history: a search that needs more is given up."""


@dataclass(frozen=True, slots=True)
class ClientOperation:
    """What a client asked for, and what it was told.

    Attributes
    ----------
    what
        In the words of the model; with the answer, if there was one.
    called
        Seconds.
    returned
        Seconds; infinite if no answer came. Then it may have happened at any time since, or never.
    """

    what: Any
    called: float
    returned: float = inf


class SequentialModel(Protocol[State]):
    """The object that clients believe to see, one operation at a time."""

    def begin(self) -> State:
        """Give the state before anything has happened."""

    def after(self, state: State, what: Any) -> State | None:
        """Give the state after an operation; None if it cannot have had its answer here."""

    def reads(self, what: Any) -> bool:
        """Whether an operation that leaves a state as it is leaves all that come after it so, too."""


@dataclass(frozen=True, slots=True)
class LinearizabilityResult:
    """What came of a search.

    Attributes
    ----------
    linearizable
        None if it was given up.
    stuck
        The operations that no order explains: of the piece in which the search ended, those that it could not
        place where it came furthest.
    steps
        Tried.
    """

    linearizable: bool | None
    stuck: tuple[ClientOperation, ...] = ()
    steps: int = 0


def check_linearizability(
    history: Iterable[ClientOperation], model: SequentialModel[State], *, max_steps: int = MAX_STEPS
) -> LinearizabilityResult:
    """Look for an order of the operations that the model explains, and that keeps what came before what."""
    states, steps = {model.begin()}, 0
    for piece in independent_parts(history):
        search = _LinearizationSearch(piece, model, max_steps)
        states = search.ends(states)
        steps += search.steps
        if search.is_abandoned:
            return LinearizabilityResult(None, (), steps)
        if not states:
            return LinearizabilityResult(False, search.stuck, steps)
    return LinearizabilityResult(True, (), steps)


def independent_parts(history: Iterable[ClientOperation]) -> list[list[ClientOperation]]:
    """Cut a history where nothing is under way: all operations of a piece come before all of the next."""
    found: list[list[ClientOperation]] = []
    until = -inf
    for one in sorted(history, key=lambda one: (one.called, one.returned)):
        if one.called > until:
            found.append([])
        found[-1].append(one)
        until = max(until, one.returned)
    return found


class _LinearizationSearch(Generic[State]):
    """All orders of one piece; `done` are bits of what has happened, by place in the piece."""

    def __init__(
        self, part: Sequence[ClientOperation], model: SequentialModel[State], max_steps: int
    ) -> None:
        self._part, self._model, self._limit = part, model, max_steps
        self._answered = sum(1 << at for at, one in enumerate(part) if one.returned < inf)
        self._furthest = 0
        self.steps = 0
        self.is_abandoned = False

    @property
    def stuck(self) -> tuple[ClientOperation, ...]:
        """Operations that could have come next, by their times, where the search came furthest."""
        return tuple(self._part[at] for at in self._next(self._furthest))

    def ends(self, begins: Iterable[State]) -> set[State]:
        """Give every state in which all that was answered has happened."""
        ends: set[State] = set()
        open_ = [(0, state) for state in begins]
        seen = set(open_)
        while open_:
            done, state = open_.pop()
            if done & self._answered == self._answered:
                ends.add(state)
            afters: list[tuple[int, State]] = []
            for at in self._next(done):
                self.steps += 1
                if self.steps > self._limit:
                    self.is_abandoned = True
                    return set()
                after = self._model.after(state, self._part[at].what)
                if after == state and self._model.reads(self._part[at].what):
                    afters = [(at, state)]
                    break
                if after is not None:
                    afters.append((at, after))
            for at, after in afters:
                step = done | 1 << at, after
                if step not in seen:
                    seen.add(step)
                    open_.append(step)
                    if step[0].bit_count() > self._furthest.bit_count():
                        self._furthest = step[0]
        return ends

    def _next(self, done: int) -> list[int]:
        """What may happen next: nothing that is still to come had returned before it was called."""
        found: list[int] = []
        until = inf
        # All before the first that is still to come have happened.
        first = (~done & done + 1).bit_length() - 1
        for at in range(first, len(self._part)):
            one = self._part[at]
            if one.called > until:
                break  # pieces are sorted: so were all others
            if not done >> at & 1:
                found.append(at)
                until = min(until, one.returned)
        return [at for at in found if self._part[at].called <= until]
