"""Steps and states as plain JSON values, for the journal."""

from dataclasses import asdict, fields
from typing import Any

from trimtab.act.execution.status import Status
from trimtab.act.replicas.approach import UNMEASURED
from trimtab.act.replicas.observation import ThrottleConfig, TopicPartition
from trimtab.act.replicas.settings import ExecutionSettings
from trimtab.act.replicas.state import ExecutionState, ThrottleMemory
from trimtab.act.replicas.steps import Phase, Step, StepKind, StepRecord, StepState

PROGRESS = ("copied_bytes", "advanced_at", *UNMEASURED)
"""Fields of a record that change at every look; they alone are not worth a write."""


def step_to_json(step: Step) -> dict[str, Any]:
    """A step, all of it."""
    return asdict(step)


def step_from_json(data: dict[str, Any]) -> Step:
    """The inverse of `step_to_json`."""
    return Step(
        number=data["number"],
        kind=StepKind(data["kind"]),
        phase=Phase(data["phase"]),
        partition=TopicPartition(*data["partition"]),
        before=tuple(data["before"]),
        after=tuple(data["after"]),
        leader=data["leader"],
        bytes=data["bytes"],
        follows=data["follows"],
        directories=tuple((broker, path) for broker, path in data["directories"]),
        old_directories=tuple((broker, path) for broker, path in data["old_directories"]),
        moves=tuple(data["moves"]),
    )


def record_to_json(record: StepRecord) -> dict[str, Any]:
    """How far a step is, without the step."""
    return {f.name: getattr(record, f.name) for f in fields(record) if f.name != "step"}


def record_from_json(step: dict[str, Any], record: dict[str, Any]) -> StepRecord:
    """The inverse of `step_to_json` and `record_to_json`."""
    values = dict(record)
    values["state"] = StepState(values["state"])
    values["rollback"] = None if values["rollback"] is None else StepState(values["rollback"])
    return StepRecord(step_from_json(step), **values)


def head_to_json(state: ExecutionState) -> dict[str, Any]:
    """What is to be kept of a state besides its steps."""
    return {
        "settings": asdict(state.settings),
        "cluster_id": state.cluster_id,
        "status": state.status.value,
        "reason": state.reason,
        "outcome": None if state.outcome is None else state.outcome.value,
        "brokers": None if state.brokers is None else sorted(state.brokers),
        "baseline": None if state.baseline is None else sorted(state.baseline),
        "throttle": asdict(state.throttle),
        "copies_per_broker": state.copies_per_broker,
        "rate_bytes_per_second": state.rate_bytes_per_second,
        "batches": state.batches,
    }


def state_from_json(head: dict[str, Any], records: tuple[StepRecord, ...]) -> ExecutionState:
    """The state that a journal holds; its next event must be `Resumed`."""
    return ExecutionState(
        settings=ExecutionSettings(**head["settings"]),
        cluster_id=head["cluster_id"],
        records=records,
        status=Status(head["status"]),
        reason=head["reason"],
        outcome=None if head["outcome"] is None else Status(head["outcome"]),
        brokers=None if head["brokers"] is None else frozenset(head["brokers"]),
        baseline=None
        if head["baseline"] is None
        else frozenset(TopicPartition(*p) for p in head["baseline"]),
        throttle=ThrottleMemory(
            original=ThrottleConfig(**head["throttle"]["original"]),
            rates_touched=head["throttle"]["rates_touched"],
        ),
        copies_per_broker=head["copies_per_broker"],
        rate_bytes_per_second=head["rate_bytes_per_second"],
        batches=head["batches"],
    )
