"""Executions of the balancer `masters`: masterships are transferred one after another.

Each step requests a transfer and waits until the target is the master, or until its time is over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Protocol

from trimtab.act.execution.port import ClaimPort, Command, Event, Failure, Query, Wait
from trimtab.act.execution.publishing import (
    PersistedPublishingState,
    PublishedStepRecord,
    PublishingMachine,
    PublishingState,
    end_as_done,
    publication_fit,
)
from trimtab.act.execution.settings import RetryPolicy, require_above_zero
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
from trimtab.model.masters import MastersPlan, MastersReceipt, TransferOutcome


@dataclass(frozen=True)
class TransferLimits:
    """Limits and time-outs of transfers.

    Attributes
    ----------
    max_in_flight
        Maximum number of requested and unconfirmed transfers. A store of Paxos groups executes them one by
        one.
    transfer_timeout_seconds
        Time after which an unconfirmed transfer is requested again.
    """

    max_in_flight: int = 4
    transfer_timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Refuse values that no execution could work with."""
        require_above_zero(self, "execution.masters", "max_in_flight", "transfer_timeout_seconds")


@dataclass(frozen=True)
class TransferSettings(RetryPolicy):
    """The settings of an execution that hands masterships over."""

    table: ClassVar[str] = "masters"

    masters: TransferLimits = field(default_factory=TransferLimits)


@dataclass(frozen=True, slots=True)
class TransferStep:
    """One mastership that is to go to a node.

    Attributes
    ----------
    source, target
        Names of nodes; source is None where nobody was master.
    order
        Of the plan's move.
    """

    number: int
    group: str
    source: str | None
    target: str
    order: int
    follows: int | None = None

    @property
    def destinations(self) -> tuple[str, ...]:
        """The node that is to be master."""
        return (self.target,)

    def __str__(self) -> str:
        return f"{self.group} to node {self.target}"


@dataclass(frozen=True, slots=True)
class TransferStepRecord(PublishedStepRecord[TransferStep]):
    """A step and how far it is."""


@dataclass(frozen=True)
class MastersObservation:
    """One look.

    Attributes
    ----------
    cluster, name
        The cluster's own id, and the name under which its samples are filed; empty where that is not known.
    version
        Of what is published; 0 where nothing is.
    masters
        Group to its master; None for nobody.
    able
        Group to the nodes that could be its master now.
    alive
        Nodes that answer.
    hindered
        Group to why no other node can be its master now, where the system tells more than that they are down
        or behind.
    """

    cluster: str
    name: str
    version: int
    masters: Mapping[str, str | None]
    able: Mapping[str, frozenset[str]] = field(default_factory=dict)
    alive: frozenset[str] = frozenset()
    hindered: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PersistedMastersState(PersistedPublishingState[TransferStepRecord, TransferSettings]):
    """The part that the journal keeps."""


@dataclass(frozen=True, kw_only=True)
class MastersExecutionState(PersistedMastersState, PublishingState[TransferStepRecord, TransferSettings]):
    """Everything the state machine knows; `seen` is the last look."""

    balancer: ClassVar[str] = "masters"
    persisted_type: ClassVar[type[PersistedMastersState]] = PersistedMastersState

    observation: MastersObservation | None = None


@dataclass(frozen=True)
class DescribeMasters(Query):
    """Look who is master of these groups. Answer: `MastersDescribed`."""

    groups: tuple[str, ...]


@dataclass(frozen=True)
class RequestTransfers(Command):
    """Ask that nodes become masters, over a version of what is published. Answer: `TransfersRequested`."""

    base: int
    targets: Mapping[str, str]


@dataclass(frozen=True)
class MastersDescribed(Event):
    """The answer to `DescribeMasters`: the observation."""

    observation: MastersObservation


@dataclass(frozen=True)
class TransferRequestResult:
    """What came of asking.

    Attributes
    ----------
    version
        Of what was published; None where somebody was faster, and nothing was.
    failures
        Group to why it was refused.
    """

    version: int | None
    failures: Mapping[str, Failure] = field(default_factory=dict)


@dataclass(frozen=True)
class TransfersRequested(Event):
    """The answer to `RequestTransfers`: its result."""

    answer: TransferRequestResult


class MastersPort(ClaimPort, Protocol):
    """One cluster to act on."""

    def observe(self, groups: Collection[str]) -> MastersObservation:
        """See who is master of these groups; one that does not exist is left out."""
        ...

    def request_transfers(self, base: int, targets: Mapping[str, str]) -> TransferRequestResult:
        """Ask that nodes become masters of groups: what was asked of others before stays asked."""
        ...


def absorb_masters(state: MastersExecutionState, event: MastersDescribed) -> MastersExecutionState:
    """A mastership that is where it is to be is done, whoever moved it."""
    found = event.observation
    state = replace(absorb_observation(state, found.cluster, found.alive), observation=found)
    there = [r for r in state.records if not r.ended and found.masters.get(r.step.group) == r.step.target]
    return end_as_done(state, there)


def absorb_requests(state: MastersExecutionState, event: TransfersRequested) -> MastersExecutionState:
    """Look what comes of it; what was refused, and all where somebody was faster, is tried again."""
    answer = event.answer
    state = replace(state, fresh=False, version=answer.version or state.version)
    why = {one.step.number: "another map was published meanwhile" for one in state.active}
    if answer.version is not None:
        why = {
            one.step.number: f"{failure.code}: {failure.message}"
            for one in state.active
            if (failure := answer.failures.get(one.step.group)) is not None
        }
    refused = [one for one in state.active if one.step.number in why]
    return state.changing(refused, lambda one: one.set_back(state.now, state.settings, why[one.step.number]))


class MastersMachine(PublishingMachine[MastersPort, MastersExecutionState]):
    """The state machine of this balancer."""

    changes: ClassVar = (RequestTransfers,)
    facts: ClassVar = {**COMMON, MastersDescribed: absorb_masters, TransfersRequested: absorb_requests}

    @classmethod
    def next_query(cls, state: MastersExecutionState, *, whole: bool = False) -> Command:
        """The next query of the groups' masters."""
        return DescribeMasters(tuple(sorted({record.step.group for record in state.records})))

    @classmethod
    def next_in_flight(cls, state: MastersExecutionState) -> tuple[MastersExecutionState, Command | None]:
        """See `ExecutionMachine.next_in_flight`: transfers that have not come in time are asked for again."""
        patience = state.settings.masters.transfer_timeout_seconds
        late = [one for one in state.active if state.now - (one.advanced_at or state.now) >= patience]
        state = state.changing(
            late, lambda one: one.set_back(state.now, state.settings, f"is not there after {patience:g} s")
        )
        if state.active:
            return state, Wait(state.now + state.settings.poll_interval_seconds)
        return state, None

    @classmethod
    def choose(cls, state: MastersExecutionState) -> Choice[TransferStep]:
        """See `ExecutionMachine.choose`: the next in the plan's order whose nodes can have them."""
        assert state.observation is not None
        batch: list[TransferStep] = []
        blocked: dict[int, Blocked] = {}
        for record in state.pending:
            step = record.step
            if step.group not in state.observation.masters:
                blocked[step.number] = Blocked("is not there any more", permanent=True)
            elif step.target not in state.observation.able.get(step.group, frozenset()):
                usual = f"node {step.target} is down, behind or without a vote in {step.group}"
                blocked[step.number] = Blocked(state.observation.hindered.get(step.group, usual))
            elif record.not_before > state.now:
                blocked[step.number] = Blocked(
                    record.reason or "is tried again soon", blocking=True, until=record.not_before
                )
            elif len(batch) < state.settings.masters.max_in_flight:
                batch.append(step)
            else:
                blocked[step.number] = Blocked("waits for its turn", blocking=True)
        return Choice(tuple(batch), blocked)

    @classmethod
    def begin(
        cls, state: MastersExecutionState, batch: tuple[TransferStep, ...]
    ) -> tuple[MastersExecutionState, Command]:
        """Request the transfers of a batch."""
        assert state.observation is not None
        return cls.with_batch(state, batch), RequestTransfers(
            state.observation.version, {one.group: one.target for one in batch}
        )

    @classmethod
    def blocked_seconds(cls, settings: RetryPolicy) -> float:
        """The longest time that an external cause may block a step."""
        return settings.broker_timeout_seconds

    def perform(self, command: Command, state: MastersExecutionState) -> Event:
        """Send a command to the store and return the event that answers it."""
        if isinstance(command, RequestTransfers):
            return TransfersRequested(
                self.clock(), self.port.request_transfers(command.base, command.targets)
            )
        assert isinstance(command, DescribeMasters)
        return MastersDescribed(self.clock(), self.port.observe(command.groups))


def observe(port: MastersPort, plan: MastersPlan) -> tuple[str, MastersObservation]:
    """See who is master of the groups that the plan moves."""
    seen = port.observe([move.group for move in plan.moves])
    if seen.name and plan.snapshot.cluster != seen.name:
        raise ActError(
            f"the plan is for {plan.snapshot.cluster!r}, and the connection leads to {seen.name!r}: name the "
            "other cluster, or apply another plan"
        )
    return seen.cluster, seen


def prepare(plan: MastersPlan, observation: MastersObservation, rebase: bool) -> PreparedPlan:
    """What is left of a plan: masterships that are where it found them, and not where it wants them."""
    stand: dict[str, str] = {}
    changed = []
    for move in plan.moves:
        now = observation.masters.get(move.group)
        how = publication_fit(now, move.source, move.target)
        if how == "changed" and now is None and move.group in observation.masters:
            how = "to do"  # nobody is master: what the plan wants is as good as ever
        stand[move.group] = how
        if how == "changed":
            who = f"node {now}" if move.group in observation.masters else "not there any more"
            changed.append(f"{move.group} is led by {who}, and was by node {move.source} in the plan")
    comparison = PlanDrift(stand, tuple(changed))
    comparison.require_unchanged("masterships have changed", rebase=rebase)
    to_do = [move for move in plan.moves if stand[move.group] == "to do"]
    steps = tuple(
        TransferStep(number, move.group, move.source, move.target, move.order)
        for number, move in enumerate(to_do, 1)
    )
    return PreparedPlan(plan, observation.cluster, observation, comparison, steps)


def warnings(
    port: MastersPort, prepared: PreparedPlan, settings: TransferSettings, expected: object
) -> list[str]:
    """Transfers that would have to wait are told beforehand."""
    seen, found = prepared.observation, []
    for step in prepared.steps:
        if step.target not in seen.able.get(step.group, frozenset()):
            why = seen.hindered.get(step.group, f"node {step.target} is down, behind or without a vote")
            found.append(f"{step.group}: {why} now; it is waited for, {settings.broker_timeout_seconds:g} s")
    return found


def receipt(entry: ExecutionSummary, state: MastersExecutionState, sense: object) -> MastersReceipt:
    """The receipt: which mastership went where."""
    outcomes = tuple(
        TransferOutcome(
            kind="transfer",
            moves=(one.step.order,),
            group=one.step.group,
            target=one.step.target,
            **one.outcome_fields(),
        )
        for one in state.records
    )
    return MastersReceipt(outcomes=outcomes, **entry.receipt_fields(state))


EXECUTOR: Final[Executor[MastersPort, MastersPlan, TransferSettings, MastersExecutionState]] = Executor(
    codec=StateCodec(MastersExecutionState, TransferStepRecord),
    settings=TransferSettings,
    observe=observe,
    prepare=prepare,
    warnings=warnings,
    new_execution=initial_state_factory(MastersExecutionState, TransferStepRecord),
    machine=MastersMachine,
    receipt=receipt,
)
