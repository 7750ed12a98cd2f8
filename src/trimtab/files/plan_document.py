"""What plan files of all levels have in common: format, shared parts, how they are opened and written."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from trimtab.files.document import JsonDocument, one_of
from trimtab.files.reading import read_bytes
from trimtab.files.replicas_records import Name
from trimtab.files.snapshot_head import checked_format
from trimtab.model.imbalance import Measures
from trimtab.model.plan import Prediction, Problem, Verdict
from trimtab.model.snapshot import SnapshotReference

FORMAT = "trimtab/plan/1"
LEVELS = ("replicas", "bundles")
TOP_LEVEL = (
    *("format", "level", "strategy", "seed", "settings", "snapshot", "verdict", "moves", "assignments"),
    *("predicted", "cost", "bound", "problems"),
)

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Figure = Annotated[float, Meta(ge=0)]


class MeasuresRecord(Struct, forbid_unknown_fields=True, kw_only=True):
    """The measures of one placement, by resource."""

    sigma: dict[str, Figure]
    worst_deviation: dict[str, Figure]
    peak_usage: dict[str, Figure]


class PredictionRecord(Struct, forbid_unknown_fields=True, kw_only=True):
    """The measures before and after."""

    before: MeasuresRecord
    after: MeasuresRecord


class ProblemRecord(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A goal that cannot be met, and why."""

    kind: Name
    count: Count | UnsetType | None = UNSET
    resource: Name | UnsetType | None = UNSET
    text: str
    proof: dict[str, object] = field(default_factory=dict)


class SnapshotRecord(Struct, forbid_unknown_fields=True, kw_only=True):
    """Which snapshot a plan was made from."""

    cluster: Name
    taken_at: Name
    sha256: Annotated[str, Meta(min_length=1)]


COMMON_NAMES = (
    *TOP_LEVEL,
    *(
        name
        for kind in (MeasuresRecord, PredictionRecord, ProblemRecord, SnapshotRecord)
        for name in kind.__struct_fields__
    ),
)
"""Field names that every level has, for "did you mean"."""


def plan_level(path: Path) -> str:
    """Which level a plan file is of.

    Raises
    ------
    InputError
        If it is no plan, or of a level that has no plans; what stands below the head is not looked at.
    """
    return level_of(open_plan(path, read_bytes(path), COMMON_NAMES))


def level_of(document: JsonDocument, expected: tuple[str, ...] = LEVELS) -> str:
    """The level that a plan names, refused if it is none of `expected`."""
    document.require(("level",), tuple(document.parts))
    level = document.part("level", str)
    one_of(document, "$.level", level, expected)
    return level


def open_plan(path: Path, data: bytes, names: tuple[str, ...]) -> JsonDocument:
    """The document of a plan, of which only keys and the format are checked so far.

    Parameters
    ----------
    path
        Where `data` comes from, for messages.
    data
        The JSON text.
    names
        Every field name of the level, for "did you mean".
    """
    document = JsonDocument(path, data, names)
    _ = document.tree  # refuses repeated keys; a plan is small enough to be read twice
    document.require(("format",), tuple(document.parts))
    checked_format(str(path), document.part("format", object), FORMAT)
    return document


def check_order(document: JsonDocument, orders: list[int]) -> None:
    """Refuse moves that do not stand in the order that they name."""
    for row in range(1, len(orders)):
        if orders[row] <= orders[row - 1]:
            expected = f"more than {orders[row - 1]}, that of the move before"
            raise document.refusal(f"$.moves[{row}].order", orders[row], expected)


def check_measures(document: JsonDocument, predicted: Prediction, resources: tuple[str, ...]) -> None:
    """Refuse measures of a resource that the level does not have."""
    for when in ("before", "after"):
        for measure, values in vars(getattr(predicted, when)).items():
            for name in values:
                one_of(document, f"$.predicted.{when}.{measure}", name, resources)


def reference_of(document: JsonDocument) -> SnapshotReference:
    """Which snapshot the plan was made from."""
    record = document.part("snapshot", SnapshotRecord)
    return SnapshotReference(record.cluster, record.taken_at, record.sha256)


def verdict_of(document: JsonDocument) -> Verdict:
    """What the plan says that it achieves."""
    verdict = document.part("verdict", str)
    one_of(document, "$.verdict", verdict, tuple(Verdict))
    return Verdict(verdict)


def problems_of(document: JsonDocument) -> tuple[Problem, ...]:
    """The goals that the plan does not meet."""
    return tuple(map(problem_from, document.part("problems", list[ProblemRecord])))


def document_bytes(fields: Mapping[str, object]) -> bytes:
    """The canonical text: fields as ordered, shortest exact numbers, an element of an iterator a line."""
    return (
        "{" + ",\n ".join(f'"{name}": {text_of(value)}' for name, value in fields.items()) + "}\n"
    ).encode()


def text_of(value: object) -> str:
    """JSON with one element a line for iterators, all else on one line."""
    if isinstance(value, Iterator):
        rows = ",\n  ".join(map(_ENCODER.encode, value))
        return f"[\n  {rows}\n ]" if rows else "[]"
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
"""One for all rows: a plan may have tens of thousands."""


def reference_fields(reference: SnapshotReference) -> dict[str, object]:
    """A reference as JSON fields."""
    return {"cluster": reference.cluster, "taken_at": reference.taken_at, "sha256": reference.sha256}


def prediction_from(record: PredictionRecord) -> Prediction:
    """The prediction that a record stands for."""
    return Prediction(_measures(record.before), _measures(record.after))


def prediction_fields(prediction: Prediction) -> dict[str, object]:
    """A prediction as JSON fields."""
    return {
        when: {
            "sigma": dict(measures.sigma),
            "worst_deviation": dict(measures.worst_deviation),
            "peak_usage": dict(measures.peak_usage),
        }
        for when, measures in (("before", prediction.before), ("after", prediction.after))
    }


def problem_from(record: ProblemRecord) -> Problem:
    """The problem that a record stands for."""
    count = None if record.count is UNSET else record.count
    return Problem(record.kind, record.text, count, record.resource or None, record.proof)


def problem_fields(problem: Problem) -> dict[str, object]:
    """A problem as JSON fields; what it does not have is left out."""
    fields: dict[str, object] = {"kind": problem.kind}
    if problem.count is not None:
        fields["count"] = problem.count
    if problem.resource is not None:
        fields["resource"] = problem.resource
    return {**fields, "text": problem.text, "proof": problem.proof}


def _measures(record: MeasuresRecord) -> Measures:
    return Measures(record.sigma, record.worst_deviation, record.peak_usage)
