"""The state of an execution of any balancer, and the changes that events make to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from trimtab.act.execution.port import (
    CancelRequested,
    Command,
    CommandFailed,
    Event,
    Failure,
    Resumed,
    SettingsChanged,
    StopRequested,
    WaitEnded,
)
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.execution.steps import StepRecord, transitions


class ExecutionStatus(StrEnum):
    """The progress of an execution."""

    RUNNING = "running"
    WAITING = "waiting"
    """Begins nothing new until something in the cluster is over; `Execution.reason` says what."""
    STOPPING = "stopping"
    """Begins nothing new; ends when what is in flight has finished."""
    CANCELLING = "cancelling"
    """Rolls back what is in flight, where that can be done."""
    CLEANING = "cleaning"
    """Nothing is in flight; gives back the settings of the cluster that it has changed."""
    FINISHED = "finished"
    """Every step is done, or was found not to be needed any more."""
    INCOMPLETE = "incomplete"
    """Ended, but some step failed or did not apply any more."""
    STOPPED = "stopped"
    """Ended early; steps not begun are still pending and can be resumed."""
    CANCELLED = "cancelled"
    """Ended early, with what was in flight rolled back; can be resumed."""


FINAL: Final = frozenset(
    {ExecutionStatus.FINISHED, ExecutionStatus.INCOMPLETE, ExecutionStatus.STOPPED, ExecutionStatus.CANCELLED}
)
"""In these, nothing of the execution is left in the cluster: nothing in flight, no setting of ours."""

STATUS_TRANSITIONS: Final = transitions(
    ExecutionStatus,
    running="waiting stopping cancelling cleaning",
    waiting="running stopping cancelling cleaning",
    stopping="running cancelling cleaning",
    cancelling="running cleaning",
    cleaning="running finished incomplete stopped cancelled",
    stopped="running",
    cancelled="running",
    finished="",
    incomplete="",
)

AnyRecord = StepRecord[Any, Any]
"""A step of whatever level, and how far it is."""

RecordT = TypeVar("RecordT", bound=AnyRecord)
SettingsT = TypeVar("SettingsT", bound=RetryPolicy)


@dataclass(frozen=True, kw_only=True)
class ExecutionProgress:
    """Figures of one moment of any execution; a balancer adds its own."""

    status: str
    reason: str
    batch: int
    steps_ended: int
    steps_total: int


@dataclass(frozen=True, kw_only=True)
class PersistedState(Generic[RecordT, SettingsT]):
    """The part of a state that the journal keeps; a balancer adds fields of its own.

    Attributes
    ----------
    balancer
        Whose state machine it belongs to.
    cluster_id
        Of the only cluster this execution may act on.
    records
        Every step and how far it is, ordered by number.
    status, reason
        How far the execution is, and why.
    outcome
        The final status that `CLEANING` leads to.
    batches
        How many have been begun.
    brokers
        Alive at the first look; None before it.
    """

    balancer: ClassVar[str]

    settings: SettingsT
    cluster_id: str
    records: tuple[RecordT, ...] = ()
    status: ExecutionStatus = ExecutionStatus.RUNNING
    reason: str = ""
    outcome: ExecutionStatus | None = None
    batches: int = 0
    brokers: frozenset[object] | None = None

    @property
    def clean(self) -> bool:
        """True if no setting of the cluster is ours, so that nothing has to be given back."""
        raise NotImplementedError

    @property
    def final(self) -> bool:
        """True if it has ended, with nothing of it left in the cluster."""
        return self.status in FINAL

    @property
    def active(self) -> tuple[RecordT, ...]:
        """Steps of which something may be under way."""
        return tuple(record for record in self.records if record.active)

    @property
    def pending(self) -> tuple[RecordT, ...]:
        """Steps that have not started."""
        return tuple(record for record in self.records if not record.active and not record.ended)

    def progress(self) -> dict[str, Any]:
        """Values for the fields of `ExecutionProgress`."""
        ended = sum(record.ended for record in self.records)
        steps = {"steps_ended": ended, "steps_total": len(self.records)}
        return {"status": self.status, "reason": self.reason, "batch": self.batches, **steps}

    def with_records(self, changed: Mapping[int, RecordT]) -> Self:
        """The same with some records replaced, keyed by step number."""
        if not changed:
            return self
        return replace(self, records=tuple(changed.get(r.step.number, r) for r in self.records))

    def changing(self, records: Iterable[RecordT], change: Callable[[RecordT], RecordT]) -> Self:
        """The same with these records changed."""
        return self.with_records({record.step.number: change(record) for record in records})


@dataclass(frozen=True, kw_only=True)
class Execution(PersistedState[RecordT, SettingsT]):
    """A whole state: what is kept, and what is learnt anew whenever a process takes the execution up.

    A balancer's state inherits from its own `PersistedState` and from this.

    Attributes
    ----------
    persisted_type
        The balancer's own `PersistedState`, whose fields alone outlive the process.
    now
        Time of the last event, seconds since 1970.
    awaiting
        The order given last.
    fresh
        Whether the cluster has been looked at since.
    missing_since
        Broker -> since when it has not been alive.
    blocked_since
        Step number -> since when something outside has kept it from being begun.
    give_up
        Why the process is to end here; empty while it goes on.
    """

    persisted_type: ClassVar[type[PersistedState[Any, Any]]]

    now: float = 0.0
    awaiting: Command | None = None
    fresh: bool = False
    waiting_since: float | None = None
    failing_since: float | None = None
    failures_in_a_row: int = 0
    pause_until: float = 0.0
    missing_since: Mapping[object, float] = field(default_factory=dict)
    blocked_since: Mapping[int, float] = field(default_factory=dict)
    give_up: str = ""

    @classmethod
    def of(cls, retained: PersistedState[RecordT, SettingsT], now: float) -> Self:
        """The state that knows what was kept, and nothing else."""
        values = {one.name: getattr(retained, one.name) for one in fields(cls.persisted_type)}
        return cls(**values, now=now)

    @property
    def is_full_observation(self) -> bool:
        """True if the last look was at all that has to be known before a batch."""
        raise NotImplementedError

    def reset(self, now: float) -> Self:
        """The same with everything forgotten that is not kept."""
        return self.of(self, now)


AnyExecution = Execution[Any, Any]
"""A state of whatever level."""

StateT = TypeVar("StateT", bound=AnyExecution)


def stop(state: StateT, event: StopRequested) -> StateT:
    """Start no further step; finish those in flight."""
    return _ending(state, event, ExecutionStatus.STOPPING)


def cancel(state: StateT, event: CancelRequested) -> StateT:
    """Roll back what is under way, where that can be done."""
    return _ending(state, event, ExecutionStatus.CANCELLING)


def _ending(state: StateT, event: StopRequested | CancelRequested, to: ExecutionStatus) -> StateT:
    if (
        state.status not in (ExecutionStatus.RUNNING, ExecutionStatus.WAITING, ExecutionStatus.STOPPING)
        or state.status is to
    ):
        return state
    return replace(state, status=to, reason=event.reason, waiting_since=None)


def resume(state: StateT, event: Resumed) -> StateT:
    """Go on: all but what is kept is forgotten, and an execution that ended early begins again."""
    state = state.reset(event.at)
    if state.status in (ExecutionStatus.FINISHED, ExecutionStatus.INCOMPLETE):
        return state
    records = tuple(record.resumed(event.at, state.status in FINAL) for record in state.records)
    return replace(state, records=records, status=ExecutionStatus.RUNNING, reason="", outcome=None)


def change_settings(state: StateT, event: SettingsChanged) -> StateT:
    """Go on with other settings."""
    return replace(state, settings=replace(state.settings, **event.changes))


def wait_ended(state: StateT, event: WaitEnded) -> StateT:
    """Require a fresh observation after a wait."""
    return replace(state, fresh=False)


def command_failed(state: StateT, event: CommandFailed) -> StateT:
    """End the execution: a whole command failed."""
    return failed(state, event.failure)


COMMON: Final[Mapping[type[Event], Callable[[Any, Any], Any]]] = {
    Resumed: resume,
    StopRequested: stop,
    CancelRequested: cancel,
    SettingsChanged: change_settings,
    WaitEnded: wait_ended,
    CommandFailed: command_failed,
}
"""What the facts that are told at every balancer change."""


def failed(state: StateT, failure: Failure) -> StateT:
    """Pause longer each time; give up when it is of no use or has lasted too long."""
    failures = state.failures_in_a_row + 1
    since = state.now if state.failing_since is None else state.failing_since
    lasted = state.now - since
    give_up = ""
    if lasted >= state.settings.unreachable_timeout_seconds or (
        not failure.transient and failures >= state.settings.max_attempts
    ):
        give_up = f"{failure.code}: {failure.message} (tried {failures} times in {lasted:.0f} s)"
    return replace(
        state,
        failures_in_a_row=failures,
        failing_since=since,
        pause_until=state.now + state.settings.backoff(failures),
        fresh=False,
        give_up=give_up,
    )


def well(state: StateT) -> StateT:
    """The cluster answered: nothing fails in a row any more."""
    return replace(state, failing_since=None, failures_in_a_row=0)


def absorb_observation(state: StateT, cluster_id: str, alive: frozenset[Any]) -> StateT:
    """The cluster has been looked at: which brokers are gone, and since when.

    Parameters
    ----------
    cluster_id
        Of the cluster that answered; any other than the execution's is not acted on.
    alive
        Brokers that answer.
    """
    if cluster_id != state.cluster_id:
        wrong = (
            f"this is cluster {cluster_id}, the execution belongs to {state.cluster_id}: check the address"
        )
        return replace(state, give_up=wrong)
    brokers = alive if state.brokers is None else state.brokers
    needed = {broker for record in state.records if not record.ended for broker in record.step.destinations}
    gone = sorted((brokers | needed) - alive)
    gone_since = {broker: state.missing_since.get(broker, state.now) for broker in gone}
    return well(replace(state, fresh=True, brokers=brokers, missing_since=gone_since))


def is_lost(state: StateT, broker: object) -> bool:
    """True if a broker has been gone for longer than the grace."""
    since = state.missing_since.get(broker)
    return since is not None and state.now - since >= state.settings.broker_timeout_seconds


def lost_brokers(state: StateT, alive: Collection[Any]) -> tuple[Any, ...]:
    """Brokers gone since the execution began, for less than the grace: their fate is open, in order."""
    gone = (state.brokers or frozenset()) - frozenset(alive)
    return tuple(sorted(broker for broker in gone if not is_lost(state, broker)))


def without_destination(state: StateT, records: Iterable[Any]) -> dict[int, Any]:
    """Step number -> the broker it needs, for those of these steps whose broker has been given up."""
    return {
        record.step.number: broker
        for record in records
        for broker in record.step.destinations
        if is_lost(state, broker)
    }
