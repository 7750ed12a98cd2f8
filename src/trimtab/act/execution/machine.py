"""The state machine of an execution, as far as it is the same at every balancer.

Facts go in, one order at a time comes out. Whoever writes each state down before performing its order can be
killed at any moment: the state read back, told `Resumed`, looks at the cluster and goes on from what it sees.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Generic, TypeVar

from trimtab.act.execution.port import Command, Event, Finish, Suspend, Wait
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.execution.state import ExecutionStatus, StateT, without_destination
from trimtab.act.execution.steps import Blocked, Choice

AnswerT = TypeVar("AnswerT")
PortT = TypeVar("PortT")

ENDS: Final = {
    ExecutionStatus.CANCELLING: ExecutionStatus.CANCELLED,
    ExecutionStatus.STOPPING: ExecutionStatus.STOPPED,
}
"""The final status of an execution that was asked to end, once nothing is in flight."""


class ExecutionMachine(ABC, Generic[PortT, StateT]):
    """One balancer's execution on one cluster.

    `absorb` and `decide` are pure, and the only way from one state to the next; `perform` is the only thing
    that touches the cluster.

    Attributes
    ----------
    changes
        Orders that change the cluster: the lease is looked at before each.
    facts
        Event -> what it changes in a state.
    success_states
        States of a step that is done, or is not needed.

    Parameters
    ----------
    port
        The cluster.
    clock
        Seconds since 1970.
    sense
        What finds out between batches which steps are still needed, for machines that ask.
    """

    changes: ClassVar[tuple[type[Command], ...]]
    facts: ClassVar[Mapping[type[Event], Callable[[Any, Any], Any]]]
    success_states: ClassVar[frozenset[str]]

    def __init__(self, port: PortT, clock: Callable[[], float], sense: Any = None) -> None:
        self.port = port
        self.clock = clock
        self.sense = sense

    def event(self, kind: Callable[[float, AnswerT], Event], answer: AnswerT) -> Event:
        """The cluster's answer as an event of that kind, as of now."""
        return kind(self.clock(), answer)

    @abstractmethod
    def perform(self, command: Command, state: StateT) -> Event:
        """Perform an order that is for the cluster; the event that answers it.

        Raises
        ------
        PortError
            If the call failed as a whole.
        """

    @classmethod
    def absorb(cls, state: StateT, event: Event) -> StateT:
        """The state after a fact; nothing is ordered yet."""
        after: StateT = cls.facts[type(event)](replace(state, now=max(state.now, event.at)), event)
        return after

    @classmethod
    def decide(cls, state: StateT) -> tuple[StateT, Command]:
        """The next order, with the state marked as having given it."""
        state, command = cls._decide(state)
        return replace(state, awaiting=command), command

    @classmethod
    def _decide(cls, state: StateT) -> tuple[StateT, Command]:
        if state.final:
            return state, Finish()
        if state.give_up:
            return state, Suspend(state.give_up)
        if state.pause_until > state.now:
            return state, Wait(state.pause_until)
        if state.status is ExecutionStatus.CLEANING and state.clean and not state.active:
            return cls.clean_up(state)
        if not state.fresh:
            return state, cls.next_query(state)
        state, command = cls.next_in_flight(state)
        return cls.between(state) if command is None else (state, command)

    @classmethod
    def between(cls, state: StateT) -> tuple[StateT, Command]:
        """End, wait, or begin the next batch; nothing of ours is in flight."""
        if not state.is_full_observation:
            return state, cls.next_query(state, whole=True)
        if state.status is ExecutionStatus.CLEANING:
            return cls.clean_up(state)
        if state.status not in ENDS:
            state = cls.evaluate(state)
        if state.status in ENDS:
            return cls.end(state, ENDS[state.status])
        if not state.pending:
            good = all(record.state in cls.success_states for record in state.records)
            return cls.end(state, ExecutionStatus.FINISHED if good else ExecutionStatus.INCOMPLETE)
        why = cls.blocking_reason(state)
        if why is not None:
            return cls._wait(state, *why)
        if state.status is ExecutionStatus.WAITING:
            state = replace(state, status=ExecutionStatus.RUNNING, reason="", waiting_since=None)
        state, command = cls.before_batch(state)
        if command is not None:
            return state, command
        choice = cls.choose(state)
        return cls.begin(state, choice.batch) if choice.batch else cls._nothing_to_begin(state, choice)

    @classmethod
    def end(cls, state: StateT, outcome: ExecutionStatus) -> tuple[StateT, Command]:
        """Clean up, to end with that status; nothing may be in flight."""
        return cls.clean_up(replace(state, status=ExecutionStatus.CLEANING, outcome=outcome))

    @classmethod
    def clean_up(cls, state: StateT) -> tuple[StateT, Command]:
        """Give back what we changed, then end."""
        state, command = cls.give_back(state)
        if command is not None:
            return state, command
        assert state.outcome is not None
        return replace(state, status=state.outcome, outcome=None), Finish()

    @classmethod
    def _wait(cls, state: StateT, reason: str, timeout_seconds: float) -> tuple[StateT, Command]:
        since = state.now if state.waiting_since is None else state.waiting_since
        if state.now - since >= timeout_seconds:
            stopped = f"{reason}, for {state.now - since:.0f} s: stopped; resume when it is over"
            return cls.end(replace(state, reason=stopped), ExecutionStatus.STOPPED)
        state = replace(state, status=ExecutionStatus.WAITING, reason=reason, waiting_since=since)
        return state, Wait(state.now + cls.waiting_seconds(state.settings))

    @classmethod
    def _nothing_to_begin(cls, state: StateT, choice: Choice[Any]) -> tuple[StateT, Command]:
        """Every pending step is blocked: end those that will stay so, wait for the others."""
        changed = {}
        since = dict(state.blocked_since)
        gone = without_destination(state, state.pending)
        patience_seconds = cls.blocked_seconds(state.settings)
        for record in state.pending:
            number = record.step.number
            blocked = choice.blocked[number]
            # Nothing of ours is in flight, so what comes from outside will not come from our own doing.
            if not blocked.blocking:
                late = state.now - since.setdefault(number, state.now) >= patience_seconds
            if blocked.permanent or (not blocked.blocking and (late or number in gone)):
                changed[number] = record.end(cls.ends_as(record, blocked), state.now, blocked.reason)
        state = replace(state.with_records(changed), blocked_since=since)
        if changed:
            return cls.between(state)
        known = [blocked.until for blocked in choice.blocked.values() if blocked.until is not None]
        soon = state.now + state.settings.poll_interval_seconds
        # A broker may come back earlier than its session ends, so that is looked for meanwhile.
        latest = state.now + state.settings.check_interval_seconds
        return state, Wait(min(latest, max(soon, min(known, default=soon))))

    @classmethod
    @abstractmethod
    def next_query(cls, state: StateT, *, whole: bool = False) -> Command:
        """The look that is due; `whole`: at all that has to be known before a batch."""

    @classmethod
    @abstractmethod
    def next_in_flight(cls, state: StateT) -> tuple[StateT, Command | None]:
        """The next order for steps under way, a wait among them; None when none is under way."""

    @classmethod
    def evaluate(cls, state: StateT) -> StateT:
        """The state after a whole look, before anything is begun; `STOPPING` where nothing must be."""
        return state

    @classmethod
    @abstractmethod
    def blocking_reason(cls, state: StateT) -> tuple[str, float] | None:
        """The reason to begin nothing just now, and how many seconds to bear it; None when there is none."""

    @classmethod
    @abstractmethod
    def before_batch(cls, state: StateT) -> tuple[StateT, Command | None]:
        """An order that has to be given before the next batch can be chosen; None when there is none."""

    @classmethod
    @abstractmethod
    def choose(cls, state: StateT) -> Choice[Any]:
        """Select the steps of the next batch."""

    @classmethod
    @abstractmethod
    def begin(cls, state: StateT, batch: tuple[Any, ...]) -> tuple[StateT, Command]:
        """Ask the cluster for a batch, or for what it needs first."""

    @classmethod
    @abstractmethod
    def give_back(cls, state: StateT) -> tuple[StateT, Command | None]:
        """The next order on the way to having given all settings back; None when none is ours any more."""

    @classmethod
    @abstractmethod
    def ends_as(cls, record: Any, blocked: Blocked) -> Any:
        """The state that a step ends in which will never be begun."""

    @classmethod
    @abstractmethod
    def blocked_seconds(cls, settings: Any) -> float:
        """The longest time that something outside may keep a step from being begun."""

    @classmethod
    def waiting_seconds(cls, settings: RetryPolicy) -> float:
        """The wait between two looks for what holds everything up."""
        return settings.poll_interval_seconds
