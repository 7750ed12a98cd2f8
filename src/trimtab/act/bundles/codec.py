"""Steps and states as plain JSON values, for the journal."""

from dataclasses import asdict, fields
from typing import Any

from trimtab.act.bundles.settings import BundlesSettings, UnloadPace
from trimtab.act.bundles.state import BundlesState, Hold
from trimtab.act.bundles.steps import BundleRecord, Step, StepKind, StepState
from trimtab.act.execution.status import Status

PROGRESS: tuple[str, ...] = ()
"""Fields of a record that change at every look; they alone are not worth a write."""


def step_to_json(step: Step) -> dict[str, Any]:
    """A step, all of it."""
    return asdict(step)


def step_from_json(data: dict[str, Any]) -> Step:
    """The inverse of `step_to_json`."""
    values = dict(data)
    values["kind"] = StepKind(values["kind"])
    for name in ("boundaries", "moves"):
        values[name] = tuple(values[name])
    return Step(**values)


def record_to_json(record: BundleRecord) -> dict[str, Any]:
    """How far a step is, without the step."""
    return {f.name: getattr(record, f.name) for f in fields(record) if f.name != "step"}


def record_from_json(step: dict[str, Any], record: dict[str, Any]) -> BundleRecord:
    """The inverse of `step_to_json` and `record_to_json`."""
    values = dict(record)
    values["state"] = StepState(values["state"])
    return BundleRecord(step_from_json(step), **values)


def head_to_json(state: BundlesState) -> dict[str, Any]:
    """What is to be kept of a state besides its steps."""
    return {
        "settings": asdict(state.settings),
        "cluster_id": state.cluster_id,
        "status": state.status.value,
        "reason": state.reason,
        "outcome": None if state.outcome is None else state.outcome.value,
        "batches": state.batches,
        "hold": dict(state.hold.original),
        "notes": list(state.notes),
        "brokers": None if state.brokers is None else sorted(state.brokers),
        "unwell": None if state.unwell is None else sorted(state.unwell),
    }


def state_from_json(head: dict[str, Any], records: tuple[BundleRecord, ...]) -> BundlesState:
    """The state that a journal holds; its next event must be `Resumed`."""
    settings = dict(head["settings"])
    settings["pace"] = UnloadPace(**settings["pace"])
    return BundlesState(
        settings=BundlesSettings(**settings),
        cluster_id=head["cluster_id"],
        records=records,
        status=Status(head["status"]),
        reason=head["reason"],
        outcome=None if head["outcome"] is None else Status(head["outcome"]),
        batches=head["batches"],
        hold=Hold(dict(head["hold"])),
        notes=tuple(head["notes"]),
        brokers=None if head["brokers"] is None else frozenset(head["brokers"]),
        unwell=None if head["unwell"] is None else frozenset(head["unwell"]),
    )
