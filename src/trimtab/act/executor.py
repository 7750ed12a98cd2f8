"""The executor of a balancer: one value with its preparation, state machine, journal format and receipt.

A plan is never applied blindly. A move that is neither where the plan found it nor where the plan wants it is
named; it is left out (`--skip-changed`), or the whole plan is refused (`PlanDrift`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from trimtab.act.execution.machine import ExecutionMachine
from trimtab.act.execution.port import ClaimPort
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.execution.state import AnyExecution, AnyRecord, StateT
from trimtab.model.documents import AnyReceipt, SnapshotReference
from trimtab.model.errors import ActError
from trimtab.model.plan import AnyPlan

BALANCER = "balancer"
"""Key of an execution's head; executions written before there was a second level have none."""


@dataclass(frozen=True)
class StateCodec:
    """One balancer's steps and states as JSON, and back.

    Attributes
    ----------
    state, record
        The balancer's types.
    progress
        Fields of a record that change at every look; they alone are not worth a write.
    """

    state: type[AnyExecution]
    record: type[AnyRecord]
    progress: frozenset[str] = frozenset()

    def step_to_json(self, record: AnyRecord) -> dict[str, Any]:
        """A step, all of it."""
        return dict(_plain(record.step))

    def record_to_json(self, record: AnyRecord) -> dict[str, object]:
        """The progress of a step, without the step."""
        names = (one.name for one in fields(self.record) if one.name != "step")
        return {name: _plain(getattr(record, name)) for name in names}

    def record_from_json(self, step: Mapping[str, object], record: Mapping[str, object]) -> AnyRecord:
        """The inverse of `step_to_json` and `record_to_json`."""
        read: AnyRecord = msgspec.convert({**record, "step": step}, self.record)
        return read

    def head_to_json(self, state: AnyExecution) -> dict[str, Any]:
        """The kept part of a state without its steps, and its level."""
        names = (one.name for one in fields(self.state.persisted_type) if one.name != "records")
        return {BALANCER: state.balancer} | {name: _plain(getattr(state, name)) for name in names}

    def state_from_json(self, head: Mapping[str, object], records: tuple[AnyRecord, ...]) -> AnyExecution:
        """The state that a journal holds; its next event must be `Resumed`."""
        kept = msgspec.convert(head, self.state.persisted_type)
        return self.state.of(replace(kept, records=records), now=0.0)

    def must_write(self, old: AnyRecord, new: AnyRecord) -> bool:
        """True if more has changed of a record than its progress."""
        before, after = self.record_to_json(old), self.record_to_json(new)
        return any(before[name] != after[name] for name in before if name not in self.progress)


@dataclass(frozen=True)
class StateCodecs:
    """The codecs of all balancers that a journal may hold.

    Attributes
    ----------
    by_balancer
        Balancer -> its codec.
    unnamed
        Balancer of the executions that name none.
    """

    by_balancer: Mapping[str, StateCodec]
    unnamed: str

    def of(self, balancer: str) -> StateCodec:
        """The codec of a balancer.

        Raises
        ------
        ActError
            If this trimtab knows no such balancer.
        """
        if balancer not in self.by_balancer:
            raise ActError(
                f"the execution is of balancer {balancer}, this trimtab carries out "
                f"{', '.join(self.by_balancer)}: "
                "use the trimtab that began it"
            )
        return self.by_balancer[balancer]


def _plain(value: object) -> Any:
    # In order, so that equal sets are equal text.
    return msgspec.to_builtins(value, order="deterministic")


PortT = TypeVar("PortT", bound=ClaimPort)
PlanT = TypeVar("PlanT", bound=AnyPlan)
SettingsT = TypeVar("SettingsT", bound=RetryPolicy)

NewestSnapshot = Callable[[], "tuple[float, Any] | None"]
"""Gives a cluster's newest snapshot and when it was taken (seconds since 1970); None where there is none."""


@dataclass(frozen=True)
class ExecutionSummary:
    """One execution as the journal lists it.

    Attributes
    ----------
    owner
        Who ran it last: `user@host, process 4711`.
    facts
        What was said at the start (plan file, strategy, predictions), for receipts.
    balancer
        Whose state machine carries it out.
    """

    id: int
    cluster_id: str
    cluster: str
    created_at: float
    ended_at: float | None
    status: str
    owner: str
    facts: Mapping[str, object]
    balancer: str

    def receipt_fields(self, state: AnyExecution) -> dict[str, Any]:
        """The fields that a receipt of any balancer has, but for the outcomes of its steps."""
        return {
            "execution": self.id,
            "cluster": self.cluster,
            "cluster_id": self.cluster_id,
            "status": state.status,
            "reason": state.reason,
            "started_at": self.created_at,
            "ended_at": self.ended_at if self.ended_at is not None else max(state.now, self.created_at),
            "batches": state.batches,
        }


@dataclass(frozen=True)
class PreparedPlan:
    """A plan held against the cluster, and the steps that are left of it; each part is the balancer's own."""

    plan: Any
    cluster_id: str
    observation: Any
    comparison: Any
    steps: tuple[Any, ...]


def steps_left(prepared: PreparedPlan, settings: object, sense: object) -> tuple[Any, ...]:
    """The forecast of a balancer whose steps need no batches: the steps themselves."""
    return prepared.steps


def initial_state_factory(
    state: type[StateT], record: Callable[[Any], Any]
) -> Callable[[str, tuple[Any, ...], Any, float], StateT]:
    """The `new_execution` of a balancer whose state begins with its steps and nothing else."""

    def begin(cluster: str, steps: tuple[Any, ...], settings: Any, now: float) -> StateT:
        return state(
            settings=settings, cluster_id=cluster, records=tuple(record(step) for step in steps), now=now
        )

    return begin


def _with_settings(state: StateT, settings: Any) -> StateT:
    return replace(state, settings=settings)


@dataclass(frozen=True, kw_only=True)
class Executor(Generic[PortT, PlanT, SettingsT, StateT]):
    """The parts of a balancer that an execution is put together from.

    Attributes
    ----------
    codec
        Reads and writes its states in the journal.
    settings
        Its settings: the shared keys of `[execution]`, and its own.
    observe
        Looks at what a plan is about, and changes nothing; gives the cluster's id and what was seen, and
        refuses (`ActError`) a plan for another cluster.
    prepare
        Holds a plan against what was seen; the last argument is whether to leave out what has changed since,
        instead of refusing the plan.
    forecast
        Batch after batch of a prepared plan under settings of the balancer, by the load that `sense` gives.
    warnings, resume_warnings
        What is worth saying before an execution begins, by its forecast and besides `staleness_warnings`, and
        before one is gone on with.
    new_execution
        The state before the first look of a cluster's execution of these steps, at that time.
    of_plan
        That state with what it needs of the plan besides the steps.
    with_settings
        A state that goes on with other settings.
    sense
        What finds out between batches which steps are still needed, for machines that ask; None for none.
    machine
        The state machine with hands in the cluster, by a clock, asking what `sense` gave.
    receipt
        The receipt of an execution, as far as it is; with measures where `sense` gave something.
    """

    codec: StateCodec
    settings: type[SettingsT]
    observe: Callable[[PortT, PlanT], tuple[str, Any]]
    prepare: Callable[[PlanT, Any, bool], PreparedPlan]
    warnings: Callable[[PortT, PreparedPlan, SettingsT, Any], list[str]]
    new_execution: Callable[[str, tuple[Any, ...], SettingsT, float], StateT]
    machine: Callable[[PortT, Callable[[], float], Any], ExecutionMachine[Any, StateT]]
    receipt: Callable[[ExecutionSummary, StateT, Any], AnyReceipt]
    forecast: Callable[[PreparedPlan, SettingsT, Any], Any] = steps_left
    of_plan: Callable[[StateT, PlanT], StateT] = lambda state, plan: state
    resume_warnings: Callable[[PortT, StateT], list[str]] = lambda port, state: []
    with_settings: Callable[[StateT, SettingsT], StateT] = _with_settings
    sense: Callable[[PlanT, NewestSnapshot, SettingsT], Any] = lambda plan, newest, settings: None

    @property
    def balancer(self) -> str:
        """Name of the balancer whose plans it executes."""
        return self.codec.state.balancer


AnyExecutor = Executor[Any, Any, Any, Any]
"""The parts of whatever level."""


def staleness_warnings(
    snapshot: SnapshotReference, entries: Iterable[ExecutionSummary], now: float, age_seconds: float
) -> list[str]:
    """Why a plan from a snapshot may no longer be what its cluster needs: its age, executions since then."""
    taken_at = datetime.fromisoformat(snapshot.taken_at).timestamp()
    which, age = f"the snapshot of {snapshot.taken_at}", now - taken_at
    found = [f"{which} is {age / 3600:.1f} h old: load may have moved since"] if age > age_seconds else []
    found += [
        f"execution {entry.id} ({entry.status}, by {entry.owner}) has changed the cluster since {which}"
        for entry in entries
        if entry.cluster == snapshot.cluster and (entry.ended_at is None or entry.ended_at > taken_at)
    ]
    return [f"{one}; make a new snapshot and a new plan unless you know better" for one in found]


class PlanChangedError(ActError):
    """The cluster has changed since the plan was made.

    Attributes
    ----------
    differences
        Each part of the plan that no longer fits, as a sentence.
    """

    def __init__(self, message: str, differences: Iterable[object]) -> None:
        super().__init__(message)
        self.differences = tuple(map(str, differences))


KeyT = TypeVar("KeyT")
FitT = TypeVar("FitT", bound=str)

MAX_LISTED = 10
"""Differences that a refusal names."""


@dataclass(frozen=True)
class PlanDrift(Generic[KeyT, FitT]):
    """A plan held against the cluster: the standing of each part, and the parts that no longer fit."""

    fit: Mapping[KeyT, FitT]
    differences: tuple[Any, ...]

    def require_unchanged(self, changed: str, *, rebase: bool) -> None:
        """Refuse a plan whose parts have changed since; after their number, `partitions have changed`.

        Raises
        ------
        PlanChangedError
            Naming them; not with `rebase`, which leaves them out.
        """
        if not self.differences or rebase:
            return
        shown = "\n  ".join(str(difference) for difference in self.differences[:MAX_LISTED])
        more = len(self.differences) - MAX_LISTED
        tail = f"\n  and {more} more" if more > 0 else ""
        raise PlanChangedError(
            f"the plan does not fit the cluster any more: {len(self.differences)} of its "
            f"{len(self.fit)} {changed} since it was made:\n  {shown}{tail}\n"
            "make a new plan, or apply what still fits with --skip-changed",
            self.differences,
        )
