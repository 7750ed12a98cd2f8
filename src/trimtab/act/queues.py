"""Executions of the balancer `queues`: publish all changes in one document, and read them back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Protocol

from trimtab.act.execution.port import ClaimPort, Command, Event, Query, Wait
from trimtab.act.execution.publishing import (
    PersistedPublishingState,
    PublishCompleted,
    PublishedStepRecord,
    PublishingMachine,
    PublishingState,
    absorb_publish,
    end_as_done,
    publication_fit,
)
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.execution.state import COMMON, absorb_observation
from trimtab.act.execution.steps import Blocked, Choice
from trimtab.act.executor import (
    ExecutionSummary,
    Executor,
    PlanDrift,
    PreparedPlan,
    StateCodec,
    initial_state_factory,
)
from trimtab.model.errors import ActError
from trimtab.model.queues import PublicationOutcome, QueuesPlan, QueuesReceipt

Value = float | str
Table = Mapping[str, Value]
"""What is published, by `kind/name`."""


@dataclass(frozen=True, slots=True)
class PublishStep:
    """One weight or setting to be published.

    Attributes
    ----------
    key
        `weight/class` or `setting/name`.
    after
        Its value; None: it is published no more.
    order
        Of the plan's move; 0 for what an older plan takes back.
    """

    number: int
    key: str
    after: Value | None
    order: int
    follows: int | None = None

    @property
    def destinations(self) -> tuple[str, ...]:
        """None: processes take up what is published when they see it."""
        return ()


@dataclass(frozen=True, slots=True)
class PublishStepRecord(PublishedStepRecord[PublishStep]):
    """A step and how far it is."""


@dataclass(frozen=True, kw_only=True)
class PersistedQueuesState(PersistedPublishingState[PublishStepRecord, RetryPolicy]):
    """The part that the journal keeps."""


@dataclass(frozen=True, kw_only=True)
class QueuesExecutionState(PersistedQueuesState, PublishingState[PublishStepRecord, RetryPolicy]):
    """Everything the state machine knows; `seen` is what was published at the last look."""

    balancer: ClassVar[str] = "queues"
    persisted_type: ClassVar[type[PersistedQueuesState]] = PersistedQueuesState

    observation: PublishedObservation | None = None


@dataclass(frozen=True)
class PublishedObservation:
    """One look.

    Attributes
    ----------
    cluster
        The set of queues and its server.
    name
        Under which its samples are filed.
    version, table
        What is published; 0 and nothing where nothing is.
    history
        Tables of all versions that the server keeps.
    """

    cluster: str
    name: str
    version: int
    table: Table
    history: Mapping[int, Table] = field(default_factory=dict)


@dataclass(frozen=True)
class ReadPublished(Query):
    """Look at what is published. Answer: `PublishedRead`."""


@dataclass(frozen=True)
class PublishChanges(Command):
    """Publish these changes over a version. Answer: `PublishCompleted`."""

    base: int
    changes: Mapping[str, Value | None]


@dataclass(frozen=True)
class PublishedRead(Event):
    """The answer to `ReadPublished`: the observation."""

    observation: PublishedObservation


class QueuesPort(ClaimPort, Protocol):
    """One set of queues to act on."""

    def observe(self) -> PublishedObservation:
        """Read the published weights and settings."""
        ...

    def publish(self, base: int, changes: Mapping[str, Value | None]) -> int | None:
        """Publish changes over a version; its number, or None where that version is the newest no more."""
        ...


def absorb_published(state: QueuesExecutionState, event: PublishedRead) -> QueuesExecutionState:
    """What is published as it should be is done."""
    found = event.observation
    state = replace(absorb_observation(state, found.cluster, frozenset()), observation=found)
    there = [r for r in state.records if not r.ended and found.table.get(r.step.key) == r.step.after]
    return end_as_done(state, there)


class QueuesMachine(PublishingMachine[QueuesPort, QueuesExecutionState]):
    """The state machine of this balancer."""

    changes: ClassVar = (PublishChanges,)
    facts: ClassVar = {**COMMON, PublishedRead: absorb_published, PublishCompleted: absorb_publish}

    @classmethod
    def next_query(cls, state: QueuesExecutionState, *, whole: bool = False) -> Command:
        """The next query of the published weights and settings."""
        return ReadPublished()

    @classmethod
    def next_in_flight(cls, state: QueuesExecutionState) -> tuple[QueuesExecutionState, Command | None]:
        """See `ExecutionMachine.next_in_flight`: what was published and is not seen was published over."""
        if not state.active:
            return state, None
        why = "was published, and is not any more"
        return state.changing(
            state.active, lambda record: record.set_back(state.now, state.settings, why)
        ), Wait(state.now + state.settings.poll_interval_seconds)

    @classmethod
    def choose(cls, state: QueuesExecutionState) -> Choice[PublishStep]:
        """See `ExecutionMachine.choose`: all at once, so that processes see all of it or nothing."""
        until = max(record.not_before for record in state.pending)
        if until > state.now:
            blocked = Blocked("is tried again soon", blocking=True, until=until)
            return Choice((), {record.step.number: blocked for record in state.pending})
        return Choice(tuple(record.step for record in state.pending))

    @classmethod
    def begin(
        cls, state: QueuesExecutionState, batch: tuple[PublishStep, ...]
    ) -> tuple[QueuesExecutionState, Command]:
        """Publish the changes of a batch."""
        assert state.observation is not None
        changes = {step.key: step.after for step in batch}
        return cls.with_batch(state, batch), PublishChanges(state.observation.version, changes)

    @classmethod
    def blocked_seconds(cls, settings: RetryPolicy) -> float:
        """The longest time that an external cause may block a step."""
        return settings.unhealthy_timeout_seconds

    def perform(self, command: Command, state: QueuesExecutionState) -> Event:
        """Send a command to the server and return the event that answers it."""
        if isinstance(command, PublishChanges):
            return PublishCompleted(self.clock(), self.port.publish(command.base, command.changes))
        return PublishedRead(self.clock(), self.port.observe())


def observe(port: QueuesPort, plan: QueuesPlan) -> tuple[str, PublishedObservation]:
    """See what is published, of the set of queues that the plan is for."""
    seen = port.observe()
    if plan.snapshot.cluster != seen.name:
        raise ActError(
            f"the plan is for queues {plan.snapshot.cluster!r}, and the settings name {seen.name!r}: "
            "correct the name in [clusters.NAME], or apply another plan"
        )
    return seen.cluster, seen


def prepare(plan: QueuesPlan, observation: PublishedObservation, rebase: bool) -> PreparedPlan:
    """What is left of a plan; one whose weights were published before is a way back, whatever came since."""
    after = {f"{one.kind}/{one.name}": one.after for one in plan.assignments}
    before = {f"{one.kind}/{one.name}": one.before for one in plan.assignments}
    wanted: dict[str, Value | None] = dict(after)
    back = observation.version != plan.version and any(
        _weights(table) == _weights(after)
        for version, table in observation.history.items()
        if version != observation.version
    )
    if back:
        wanted |= {key: None for key in _weights(observation.table) if key not in after}
    now = observation.table
    stand = {
        key: publication_fit(now.get(key), before.get(key), value, back) for key, value in wanted.items()
    }
    changed = tuple(
        f"{key} is {now.get(key, 'not published')} by now (version {observation.version}), "
        f"and was {before.get(key) or 'not published'} when the plan was made (version {plan.version})"
        for key, how in stand.items()
        if how == "changed"
    )
    comparison = PlanDrift(stand, changed)
    comparison.require_unchanged("weights and settings have been published anew", rebase=rebase)
    orders = {f"{move.kind}/{move.name}": move.order for move in plan.moves}
    to_do = [key for key, how in stand.items() if how == "to do"]
    steps = tuple(
        PublishStep(number, key, wanted[key], orders.get(key, 0)) for number, key in enumerate(to_do, 1)
    )
    return PreparedPlan(plan, observation.cluster, observation, comparison, steps)


def _weights(table: Table) -> dict[str, Value]:
    return {key: value for key, value in table.items() if key.startswith("weight/")}


def warnings(port: QueuesPort, prepared: PreparedPlan, settings: RetryPolicy, expected: object) -> list[str]:
    """A way back is said to be one."""
    newer = prepared.observation.version - prepared.plan.version
    if newer > 0 and prepared.steps and not prepared.comparison.differences:
        return [
            f"version {prepared.observation.version} is published, and the plan was made at version "
            f"{prepared.plan.version}: it takes back what came since"
        ]
    return []


def receipt(entry: ExecutionSummary, state: QueuesExecutionState, sense: object) -> QueuesReceipt:
    """The receipt: what is published, under which version."""
    outcomes = tuple(
        PublicationOutcome(
            kind="publish",
            moves=(one.step.order,) if one.step.order else (),
            name=one.step.key,
            after=one.step.after,
            version=state.version or None,
            **one.outcome_fields(),
        )
        for one in state.records
    )
    return QueuesReceipt(outcomes=outcomes, **entry.receipt_fields(state))


EXECUTOR: Final[Executor[QueuesPort, QueuesPlan, RetryPolicy, QueuesExecutionState]] = Executor(
    codec=StateCodec(QueuesExecutionState, PublishStepRecord),
    settings=RetryPolicy,
    observe=observe,
    prepare=prepare,
    warnings=warnings,
    new_execution=initial_state_factory(QueuesExecutionState, PublishStepRecord),
    machine=QueuesMachine,
    receipt=receipt,
)
